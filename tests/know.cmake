# The knowledge layer: lessons, retrieval over a labelled set, what it costs.
set(KNOW_TEST_LIBS proteus_know proteus_store Threads::Threads)
add_executable(bench_retrieval bench/retrieval.c)
target_link_libraries(bench_retrieval PRIVATE proteus_flags ${KNOW_TEST_LIBS})
