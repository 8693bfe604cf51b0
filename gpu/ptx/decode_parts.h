/* What the decoders of arithmetic share: kinds of types, and 16-bit floats as f32. Private to decode_alu.c, _float.c, _compare.c. */
#pragma once
#include "gpu/ptx/decode.h"

#define widen ptx_decode_widen
#define narrow ptx_decode_narrow
#define flushed ptx_decode_flushed

static inline bool is_half(enum ptx_type t) { return t == T_F16 || t == T_F16X2 || t == T_BF16 || t == T_BF16X2; }
static inline bool is_pair(enum ptx_type t) { return t == T_F16X2 || t == T_BF16X2; }
static inline bool is_bf(enum ptx_type t) { return t == T_BF16 || t == T_BF16X2; }

/* A column of the operations' tables; -1: no such type. 16: b16 u16, then signed; 32, 64 likewise. */
enum column { C_U16, C_S16, C_U32, C_S32, C_U64, C_S64, C_F32, C_F64, C_U16X2, C_S16X2, COLUMNS };
static inline int column_of(enum ptx_type t)
{
    /* one more than the column; 0 where there is none */
    static const int8_t columns[T_COUNT] = {
        [T_B16] = C_U16 + 1, [T_B32] = C_U32 + 1, [T_B64] = C_U64 + 1, [T_U16] = C_U16 + 1, [T_U32] = C_U32 + 1, [T_U64] = C_U64 + 1,
        [T_S16] = C_S16 + 1, [T_S32] = C_S32 + 1, [T_S64] = C_S64 + 1, [T_F32] = C_F32 + 1, [T_F64] = C_F64 + 1,
        [T_U16X2] = C_U16X2 + 1, [T_S16X2] = C_S16X2 + 1};
    return columns[t] - 1;
}

uint32_t widen(struct decoder *d, uint32_t slot, enum ptx_type type, int half);     /* one half of a lane as f32 */
void narrow(struct decoder *d, uint32_t dst, enum ptx_type type, const uint32_t *from); /* one or two f32 back into halves */
/* The value with subnormals replaced by zeros where the opcode has .ftz. */
uint32_t flushed(struct decoder *d, uint32_t slot, enum ptx_type type);

ptx_decode_fn ptx_decode_float_arith;
