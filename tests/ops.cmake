# Operators as data and the judge's arithmetic.
set(OPS_DEFINITIONS OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops" GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
foreach(test test_golden test_ops test_inputs test_compare)
  proteus_test(${test} SOURCES ${test}.c LIBS proteus_numerics)
  target_compile_definitions(${test} PRIVATE ${OPS_DEFINITIONS})
  add_dependencies(${test} proteus_ops)
endforeach()
