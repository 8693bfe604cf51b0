# The wire both ends speak; the server's end; the judge's program.
add_library(proteus_wire STATIC wire.c)
target_link_libraries(proteus_wire PUBLIC proteus_core)
add_library(proteus_spawn STATIC spawn.c)
target_link_libraries(proteus_spawn PUBLIC proteus_wire Threads::Threads)
if(TARGET proteus_judge)
  add_executable(proteus-gpu main.c)
  target_link_libraries(proteus-gpu PRIVATE proteus_judge proteus_emulate)
endif()
