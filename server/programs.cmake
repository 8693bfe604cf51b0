# proteusd. What it serves lies under share/proteus of the build, as it will in dist/.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/share/proteus)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/static ${CMAKE_BINARY_DIR}/share/proteus/static SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/models ${CMAKE_BINARY_DIR}/share/proteus/models SYMBOLIC)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/api/openapi.yaml ${CMAKE_BINARY_DIR}/share/proteus/openapi.yaml SYMBOLIC)
if(TARGET proteus_jobs AND TARGET proteus_spawn)
  add_executable(proteusd main.c signing.c)
  target_link_libraries(proteusd PRIVATE proteus_api proteus_jobs proteus_spawn)
endif()
