add_executable(fake_judge fake_judge.c)
target_link_libraries(fake_judge PRIVATE proteus_wire)
proteus_test(test_wire SOURCES test_wire.c LIBS proteus_wire Threads::Threads)
proteus_test(test_spawn SOURCES test_spawn.c LIBS proteus_spawn ARGS $<TARGET_FILE:fake_judge>)
proteus_test(test_stats SOURCES test_stats.c LIBS proteus_stats TIMEOUT 300)
proteus_test(test_judge SOURCES test_judge.c LIBS proteus_judge ARGS ${CMAKE_BINARY_DIR}/share/proteus/ops ${CMAKE_CURRENT_SOURCE_DIR}/judge/rms.cu
  LABELS nvrtc TIMEOUT 900)
proteus_test(test_certificate SOURCES test_certificate.c LIBS proteus_judge ARGS ${CMAKE_BINARY_DIR}/share/proteus/ops ${CMAKE_CURRENT_SOURCE_DIR}/judge/rms.cu
  LABELS nvrtc TIMEOUT 300)
add_dependencies(test_certificate proteus_ops)
proteus_test(test_judge_liar SOURCES test_judge_liar.c LIBS proteus_judge ARGS ${CMAKE_BINARY_DIR}/share/proteus/ops LABELS nvrtc TIMEOUT 900)
proteus_test(test_check_op SOURCES test_check_op.c LIBS proteus_judge ARGS ${CMAKE_BINARY_DIR}/share/proteus/ops LABELS nvrtc TIMEOUT 300)
add_dependencies(test_check_op proteus_ops)
add_dependencies(test_judge proteus_ops)
add_dependencies(test_judge_liar proteus_ops)
proteus_test(test_judge_program SOURCES test_judge_program.c LIBS proteus_spawn proteus_device
  ARGS $<TARGET_FILE:proteus-gpu> ${CMAKE_BINARY_DIR}/share/proteus/ops ${CMAKE_CURRENT_SOURCE_DIR}/judge/rms.cu LABELS nvrtc TIMEOUT 900)
add_dependencies(test_judge_program proteus-gpu proteus_ops)
proteus_test(test_audit SOURCES test_audit.c LIBS proteus_stats)
