# The wire both ends speak; the server's end; the judge's program.
add_library(proteus_wire STATIC
  card_turn.c
  wire.c)
target_link_libraries(proteus_wire PUBLIC proteus_core)
add_library(proteus_spawn STATIC
  spawn.c
  spawn_ask.c
  spawn_process.c
  spawn_patience.c
  spawn_talk.c)
target_link_libraries(proteus_spawn PUBLIC proteus_wire Threads::Threads)
if(TARGET proteus_judge)
  # The corpus and what runs it; naive.c is what it must not be.
  add_library(proteus_selftest STATIC
    naive.c
    selftest.c
    selftest_ask.c
    selftest_load.c
    selftest_merge.c
    selftest_result.c)
  target_link_libraries(proteus_selftest PUBLIC proteus_judge proteus_spawn)
  add_executable(proteus-gpu
    command_file.c
    command_ops.c
    command_serve.c
    main.c)
  target_link_libraries(proteus-gpu PRIVATE proteus_selftest proteus_judge proteus_emulate)
  # Where the programs find it, as in a distribution: links, so that it is never out of date.
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/proteus/selftest)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/tests/attacks ${CMAKE_BINARY_DIR}/share/proteus/selftest/attacks SYMBOLIC)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/tests/honest/candidates ${CMAKE_BINARY_DIR}/share/proteus/selftest/honest SYMBOLIC)
endif()
