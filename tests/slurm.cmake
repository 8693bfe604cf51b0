# Against a scheduler that nobody here wrote; skipped where it is not installed.
if(TARGET proteusd AND TARGET proteus-gpu)
  add_test(NAME e2e_slurm COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e_slurm.sh ${PROJECT_BINARY_DIR}/bin)
  set_tests_properties(e2e_slurm PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS slurm)
endif()
