# Operators as data and the judge's arithmetic.
set(OPS_DEFINITIONS OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops" GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
foreach(test test_golden test_ops test_inputs test_regimes test_regimes_spikes test_held test_canary)
  proteus_test(${test} SOURCES ${test}.c LIBS proteus_numerics)
  target_compile_definitions(${test} PRIVATE ${OPS_DEFINITIONS})
  add_dependencies(${test} proteus_ops)
endforeach()
foreach(test test_compare test_compare_honest test_compare_parts test_compare_tiny test_compare_canaries test_crew)
  proteus_test(${test} SOURCES ${test}.c compare_scene.c LIBS proteus_numerics)
  target_compile_definitions(${test} PRIVATE ${OPS_DEFINITIONS})
  add_dependencies(${test} proteus_ops)
endforeach()
if(TARGET proteus_ptx AND TARGET proteus_device)
  proteus_test(test_ptx_checkers SOURCES test_ptx_checkers.c LIBS proteus_device proteus_ptx LABELS "ptx;nvrtc" TIMEOUT 300)
  target_compile_definitions(test_ptx_checkers PRIVATE PTX_DATA="${CMAKE_CURRENT_SOURCE_DIR}/ptx" HONEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}/honest")
  proteus_test(test_ops_emulate SOURCES test_ops_emulate.c LIBS proteus_numerics proteus_generate proteus_device proteus_ptx LABELS nvrtc TIMEOUT 600)
  target_compile_definitions(test_ops_emulate PRIVATE ${OPS_DEFINITIONS})
  add_dependencies(test_ops_emulate proteus_ops)
  proteus_test(test_template_shared SOURCES test_template_shared.c LIBS proteus_generate proteus_device LABELS nvrtc TIMEOUT 300)
  target_compile_definitions(test_template_shared PRIVATE OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops")
  add_dependencies(test_template_shared proteus_ops)
endif()
if(TARGET proteus_ptx AND TARGET proteus_device AND PROTEUS_HAVE_CUDA_HEADERS)
  # No test: kernels of template settings, their times on a card, their counts (tests/bench/settings.c).
  add_executable(bench_replay
    bench/replay.c
    bench/replay_curve.c
    bench/replay_sample.c)
  target_link_libraries(bench_replay PRIVATE proteus_flags proteus_generate m)
  add_dependencies(bench_replay proteus_ops)
  add_executable(bench_settings
    bench/settings.c
    bench/settings_run.c)
  target_link_libraries(bench_settings PRIVATE proteus_flags proteus_numerics proteus_generate proteus_device proteus_ptx)
  add_dependencies(bench_settings proteus_ops)
  add_executable(bench_calibrate bench/calibrate.c)
  target_link_libraries(bench_calibrate PRIVATE proteus_flags proteus_ptx proteus_core m)
  # The estimate's constants, the stored counts and the stored times belong together.
  set(RESULTS ${CMAKE_CURRENT_SOURCE_DIR}/bench/results)
  add_test(NAME calibration COMMAND bench_calibrate ${RESULTS}/2026-11-30-settings-counts.json ${RESULTS}/2026-11-30-h200-settings.json check)
endif()
if(TARGET proteus_emulate AND TARGET proteus-gpu)
  proteus_test(test_emulate_tool SOURCES test_emulate_tool.c LIBS proteus_device proteus_core LABELS nvrtc)
  target_compile_definitions(test_emulate_tool PRIVATE OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops" TESTS="${CMAKE_CURRENT_SOURCE_DIR}"
    PROGRAM="$<TARGET_FILE:proteus-gpu>")
  add_dependencies(test_emulate_tool proteus-gpu proteus_ops)
endif()
