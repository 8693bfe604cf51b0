/*
 * Matrix instructions: what an instruction's list says, and what the parts share. Private to the interpreter and its decoder.
 *
 * An instruction of kind K_MATRIX has its operation in `op` and a list at `aux`: a struct matrix_form as words, then register slots.
 * mma and wmma.mma: slots of D, A, B, C; loads: of what is loaded; stores: of what is stored.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define matrix_execute ptx_run_matrix_execute
#define matrix_reads ptx_run_matrix_reads
#define matrix_load ptx_run_matrix_load
#define matrix_store ptx_run_matrix_store
#define matrix_move ptx_run_matrix_move
#define matrix_float ptx_run_matrix_float
#define matrix_float_bytes ptx_run_matrix_float_bytes
#define matrix_unpack ptx_run_matrix_unpack
#define wmma_load ptx_run_wmma_load
#define wmma_store ptx_run_wmma_store

enum matrix_op { MX_LDMATRIX, MX_STMATRIX, MX_MOVMATRIX, MX_MMA, MX_WMMA_MMA, MX_WMMA_LOAD, MX_WMMA_STORE };

/* X(code, name, bits, is_float, is_signed): elements */
#define MATRIX_TYPE_TABLE(X)                                                                                    \
    X(E_F16, "f16", 16, 1, 1) X(E_BF16, "bf16", 16, 1, 1) X(E_TF32, "tf32", 32, 1, 1) X(E_E4M3, "e4m3", 8, 1, 1) \
    X(E_E5M2, "e5m2", 8, 1, 1) X(E_F32, "f32", 32, 1, 1) X(E_F64, "f64", 64, 1, 1) X(E_U8, "u8", 8, 0, 0)        \
    X(E_S8, "s8", 8, 0, 1) X(E_U4, "u4", 4, 0, 0) X(E_S4, "s4", 4, 0, 1) X(E_B1, "b1", 1, 0, 0) X(E_S32, "s32", 32, 0, 1)
enum matrix_type {
#define X(code, name, bits, is_float, is_signed) code,
    MATRIX_TYPE_TABLE(X)
#undef X
        E_COUNT
};
struct matrix_type_info { const char *name; uint8_t bits; bool is_float, is_signed; };
extern const struct matrix_type_info matrix_types[E_COUNT];

enum matrix_flags { MX_SATURATE = 1, MX_XOR = 2, MX_COLUMN = 4 /* a wmma matrix lies by columns */, MX_TRANS = 8 };
struct matrix_form {
    uint32_t m, n, k;           /* of a load or store: m rows, n columns; of ldmatrix: k matrices */
    uint32_t a, b, c, d;        /* enum matrix_type; of a load or store: a */
    uint32_t count_a, count_b, count_c, count_d;   /* registers a lane */
    uint32_t flags;
};
#define MATRIX_FORM_WORDS ((uint32_t)(sizeof(struct matrix_form) / sizeof(uint32_t)))

/* Largest matrices: 32 x 16, 16 x 32, 16 x 256 (bits) */
#define MOST_ELEMENTS 4096

struct warp;
struct insn;
bool matrix_execute(struct warp *w, const struct insn *i, uint32_t active);
/* The registers that it reads: of mma's factors and what is added, or of what is stored. Returns how many. `lists`: the module's. */
uint32_t matrix_reads(const uint32_t *lists, const struct insn *i, const uint32_t **ret);
bool matrix_load(struct warp *w, const struct insn *i);
bool matrix_store(struct warp *w, const struct insn *i);
void matrix_move(struct warp *w, const struct insn *i);
bool wmma_load(struct warp *w, const struct insn *i);
bool wmma_store(struct warp *w, const struct insn *i);

/*
 * A finite number is value * 2^exp of an integer `value`; unit: the exponent of its unit bit, where 1.xxx has the 1 (of a subnormal
 * that of the least normal one). special: 1 infinite with value's sign, 2 not a number.
 */
struct matrix_number { int32_t value; int16_t exp, unit; int8_t special; };
struct matrix_number matrix_unpack(enum matrix_type t, uint32_t bits);
/* c + sum of a[k] * b[k] as a card adds it up; bits of type `to`, f32 or f16. `block`: how many products are added at once. */
uint32_t matrix_float(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, uint32_t block, uint32_t c_bits, enum matrix_type c,
                      enum matrix_type to);
/* The same for 8-bit floats: the products alone, to f32; then c is added, rounded to nearest. */
uint32_t matrix_float_bytes(const struct matrix_number *a, const struct matrix_number *b, uint32_t count, uint32_t block, uint32_t c_bits,
                            enum matrix_type to);
