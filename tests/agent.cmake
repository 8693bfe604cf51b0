# The agent: its client against a server that plays a model from scripts, prompts, answers, and whole jobs.
add_library(test_llm_server STATIC llm_server.c)
target_link_libraries(test_llm_server PUBLIC proteus_core Threads::Threads)
proteus_test(test_agent_client SOURCES test_agent_client.c LIBS proteus_llm test_llm_server ARGS ${CMAKE_CURRENT_SOURCE_DIR}/data)
if(TARGET proteus_jobs AND TARGET proteus-gpu)
  proteus_test(test_agent_sim SOURCES test_agent_sim.c LIBS proteus_jobs test_llm_server LABELS nvrtc TIMEOUT 240
    ARGS $<TARGET_FILE:proteus-gpu> ${CMAKE_BINARY_DIR}/share/proteus/ops ${CMAKE_CURRENT_SOURCE_DIR}/data/llm)
endif()
if(TARGET proteus_jobs)
  proteus_test(test_agent SOURCES test_agent.c LIBS proteus_jobs)
endif()
if(TARGET test_jobs_judge)
  proteus_test(test_jobs_profile SOURCES test_jobs_profile.c LIBS proteus_jobs test_llm_server LABELS jobs TIMEOUT 120 ARGS $<TARGET_FILE:test_jobs_judge>)
  proteus_test(test_agent_jobs SOURCES test_agent_jobs.c LIBS proteus_jobs test_llm_server LABELS jobs TIMEOUT 300
    ARGS $<TARGET_FILE:test_jobs_judge> ${CMAKE_CURRENT_SOURCE_DIR}/prompts)
endif()
proteus_test(test_mcp SOURCES test_mcp.c fake_jobs.c LIBS proteus_api proteus_store Threads::Threads ARGS ${CMAKE_CURRENT_SOURCE_DIR}/prompts)
if(TARGET proteusd AND TARGET proteus-gpu)
  proteus_test(test_mcp_sim SOURCES test_mcp_sim.c LIBS proteus_core LABELS nvrtc TIMEOUT 240 ARGS $<TARGET_FILE:proteusd> ${CMAKE_CURRENT_SOURCE_DIR}/data/llm)
  proteus_test(test_agent_service SOURCES test_agent_service.c LIBS test_llm_server LABELS nvrtc TIMEOUT 240
    ARGS $<TARGET_FILE:proteusd> ${CMAKE_CURRENT_SOURCE_DIR}/data/llm)
endif()
