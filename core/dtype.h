/* The data types of tensors: one table, and one element in and out of memory. All of it pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(code, name, bytes, CUDA type, max-error row, rms-error row, unit round-off): rows of the tolerance table, 0 = exact */
#define DTYPE_TABLE(X)                                                      \
    X(DTYPE_F32, "f32", 4, "float", 1e-4, 1e-5, 0x1p-24)                    \
    X(DTYPE_F16, "f16", 2, "__half", 5e-3, 1e-3, 0x1p-11)                   \
    X(DTYPE_BF16, "bf16", 2, "__nv_bfloat16", 2e-2, 4e-3, 0x1p-8)           \
    X(DTYPE_F8E4M3, "f8e4m3", 1, "__nv_fp8_e4m3", 4e-1, 4e-2, 0x1p-4)       \
    X(DTYPE_I32, "i32", 4, "int", 0, 0, 0)                                  \
    X(DTYPE_I64, "i64", 8, "long long", 0, 0, 0)                            \
    X(DTYPE_I8, "i8", 1, "signed char", 0, 0, 0)                            \
    X(DTYPE_U8, "u8", 1, "unsigned char", 0, 0, 0)

enum dtype {
#define X(code, ...) code,
    DTYPE_TABLE(X)
#undef X
    DTYPE_COUNT
};
const char *dtype_name(enum dtype t);
const char *dtype_cuda(enum dtype t);
int dtype_bytes(enum dtype t);
double dtype_max_error(enum dtype t), dtype_rms_error(enum dtype t), dtype_roundoff(enum dtype t);
bool dtype_is_float(enum dtype t);
bool dtype_parse(const char *name, enum dtype *ret);
/* Element i of an array of that type as a double (exact but for i64 beyond 2^53), and the nearest value stored (ties to even). */
double dtype_load(enum dtype t, const void *data, size_t i);
void dtype_store(enum dtype t, void *data, size_t i, double value);
