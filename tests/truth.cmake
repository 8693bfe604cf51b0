# True to a card: what a card answered to the same kernels is kept in truth/data.
set(TRUTH_SOURCES truth/rows.c truth/rows_list.c truth/rows_isa.c truth/values.c truth/data.c)
add_executable(truth_card truth/card.c ${TRUTH_SOURCES} truth/random.c truth/random_ops.c )
target_link_libraries(truth_card PRIVATE proteus_flags proteus_ptx ${CMAKE_DL_LIBS})
proteus_test(test_truth_rows SOURCES truth/test_rows.c ${TRUTH_SOURCES} LIBS proteus_ptx LABELS ptx
  ARGS ${CMAKE_CURRENT_SOURCE_DIR}/truth/data/rows.bin)
