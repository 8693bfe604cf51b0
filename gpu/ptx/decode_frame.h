/* Between the files of the decoder's frame: decode_slots.c (slots and aliases), decode.c (statements), decode_link.c (functions). */
#pragma once
#include "gpu/ptx/decode.h"

#define out_of_memory ptx_decode_out_of_memory
#define mode_now ptx_decode_mode_now
#define reg_slot ptx_decode_reg_slot
#define finish_pending ptx_decode_finish_pending
#define count_defs ptx_decode_count_defs
#define mark_leaders ptx_decode_mark_leaders
#define decode_statements ptx_decode_statements
#define decode_again ptx_decode_again

void out_of_memory(struct decoder *x);
void mode_now(struct decoder *x);
uint32_t reg_slot(struct decoder *x, uint32_t reg);
void finish_pending(struct decoder *x);
void count_defs(struct decoder *x);
void mark_leaders(struct decoder *x, uint8_t *leader);
void decode_statements(struct decoder *x, const uint8_t *leader);
void decode_again(struct decoder *x, const uint8_t *leader, uint32_t base, uint32_t first_block, uint32_t first_list);
