# The programs together.
if(TARGET proteusd AND TARGET proteus-gpu)
  foreach(name dist demo ops verify)
    add_test(NAME e2e_${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e_${name}.sh ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
    set_tests_properties(e2e_${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 200)
  endforeach()
  add_test(NAME e2e_catalogue COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/e2e_catalogue.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(e2e_catalogue PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 200)
endif()
