# The agent: its client against a server that plays a model from scripts, prompts, answers, and whole jobs.
add_library(test_llm_server STATIC llm_server.c)
target_link_libraries(test_llm_server PUBLIC proteus_core Threads::Threads)
proteus_test(test_agent_client SOURCES test_agent_client.c LIBS proteus_llm test_llm_server ARGS ${CMAKE_CURRENT_SOURCE_DIR}/data)
