proteus_test(test_config SOURCES test_config.c ../server/config.c LIBS proteus_core)
proteus_test(test_http_message SOURCES test_http_message.c LIBS proteus_http)
proteus_test(test_http_server SOURCES test_http_server.c LIBS proteus_http Threads::Threads)
