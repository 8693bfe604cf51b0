proteus_test(test_generate SOURCES test_generate.c LIBS proteus_generate)
target_compile_definitions(test_generate PRIVATE OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops"
  DATA_DIR="${CMAKE_CURRENT_SOURCE_DIR}/data")
add_dependencies(test_generate proteus_ops)
proteus_test(test_template_file SOURCES test_template_file.c LIBS proteus_generate)
target_compile_definitions(test_template_file PRIVATE OPS_DIR="${CMAKE_BINARY_DIR}/share/proteus/ops")
add_dependencies(test_template_file proteus_ops)
