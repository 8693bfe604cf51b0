add_executable(fake_judge fake_judge.c)
target_link_libraries(fake_judge PRIVATE proteus_wire)
proteus_test(test_wire SOURCES test_wire.c LIBS proteus_wire Threads::Threads)
proteus_test(test_spawn SOURCES test_spawn.c LIBS proteus_spawn ARGS $<TARGET_FILE:fake_judge>)
