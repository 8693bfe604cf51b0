# Models' shapes: other targets than the H200's; the books of make bench-kernels.
if(TARGET proteus_judge AND TARGET proteus_generate)
  proteus_test(test_targets SOURCES test_targets.c LIBS proteus_judge proteus_generate
    ARGS ${CMAKE_BINARY_DIR}/share/proteus/ops ${PROJECT_SOURCE_DIR}/models topk_softmax LABELS nvrtc TIMEOUT 300)
  add_dependencies(test_targets proteus_ops)
endif()
# What make bench-kernels keeps its books with; it lies beside the programs, so that it can travel with them to a machine with a card.
add_executable(bench_kernels
  bench/kernels.c
  bench/kernels_aims.c
  bench/kernels_cells.c
  bench/kernels_results.c
  bench/kernels_times.c)
target_link_libraries(bench_kernels PRIVATE proteus_core)
set_target_properties(bench_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin BUILD_RPATH "$ORIGIN/../lib")
target_link_options(bench_kernels PRIVATE LINKER:--disable-new-dtags)
if(TARGET proteusd AND TARGET proteus-gpu)
  add_test(NAME bench_kernels COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/bench_kernels.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(bench_kernels PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 200)
endif()
