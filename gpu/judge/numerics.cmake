# The judge's arithmetic, without devices and children: inputs, references, comparison, golden files.
add_library(proteus_numerics STATIC
  values.c
  crew.c
  spare.c
  distributions.c
  distributions_read.c
  parts.c
  spikes.c
  inputs.c
  held.c
  reference.c
  compare.c
  compare_between.c
  compare_parts.c
  compare_rules.c
  compare_spread.c
  compare_table.c
  golden.c
  safetensors.c
  canary.c
  canary_wrong.c
  canary_shape.c)
target_link_libraries(proteus_numerics PUBLIC proteus_core ${CMAKE_DL_LIBS})
# Comparison reads every element a few times: vectorised, but with the arithmetic as written.
target_compile_options(proteus_numerics PRIVATE -O3 -ffp-contract=off)
