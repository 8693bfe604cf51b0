add_executable(bench_ptx bench_ptx.c)
target_link_libraries(bench_ptx PRIVATE proteus_flags proteus_ptx)
target_compile_definitions(bench_ptx PRIVATE PTX_DATA="${CMAKE_CURRENT_SOURCE_DIR}/ptx")
