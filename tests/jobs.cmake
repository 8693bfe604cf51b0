# The judge of these tests is a program of their own; without the generators' library, tests bring the two functions of its header.
if(TARGET proteus_spawn)
  add_executable(test_jobs_judge test_jobs_judge.c)
  target_link_libraries(test_jobs_judge PRIVATE proteus_flags proteus_spawn)
  if(NOT TARGET proteus_generate)
    set(jobs_double test_jobs_double.c)
  endif()
  foreach(name test_jobs test_jobs_requests test_jobs_races test_jobs_faults test_jobs_shelf test_jobs_models test_jobs_observed test_jobs_nearby
      test_jobs_prior test_jobs_contend test_jobs_know test_jobs_spending test_jobs_retention)
    proteus_test(${name} SOURCES ${name}.c ${jobs_double} LIBS proteus_jobs LABELS jobs TIMEOUT 300 ARGS $<TARGET_FILE:test_jobs_judge>)
  endforeach()
endif()
