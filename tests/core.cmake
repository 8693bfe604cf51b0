foreach(name err_buf json expr shape candidate)
  proteus_test(test_${name} SOURCES test_${name}.c LIBS proteus_core)
  target_compile_definitions(test_${name} PRIVATE TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data")
endforeach()
