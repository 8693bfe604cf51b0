/* The data types of tensors: their table, and one element in and out of memory. */
#include "core/dtype.h"

#include "core/err.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int bytes;
    const char *cuda;
    double max_error, rms_error, roundoff;
} dtypes[] = {
#define X(code, name, bytes, cuda, max, rms, u) [code] = {name, bytes, cuda, max, rms, u},
    DTYPE_TABLE(X)
#undef X
};

const char *dtype_name(enum dtype t) { return dtypes[t].name; }
const char *dtype_cuda(enum dtype t) { return dtypes[t].cuda; }
int dtype_bytes(enum dtype t) { return dtypes[t].bytes; }
double dtype_max_error(enum dtype t) { return dtypes[t].max_error; }
double dtype_rms_error(enum dtype t) { return dtypes[t].rms_error; }
double dtype_roundoff(enum dtype t) { return dtypes[t].roundoff; }
bool dtype_is_float(enum dtype t) { return dtypes[t].roundoff > 0; }

bool dtype_parse(const char *name, enum dtype *ret)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0) {
            *ret = (enum dtype)i;
            return true;
        }
    return false;
}

/* ---- one element in and out ---- */

/* A binary float of e exponent and m mantissa bits, IEEE layout with subnormals; `finite_only`: e4m3fn (no infinities). */
struct small_float { int exponent_bits, mantissa_bits; bool finite_only; };
static const struct small_float f16_layout = {5, 10, false}, bf16_layout = {8, 7, false}, f8e4m3_layout = {4, 3, true};

static double small_decode(const struct small_float *f, uint32_t bits)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    uint32_t mantissa = bits & ((1u << f->mantissa_bits) - 1);
    uint32_t exponent = (bits >> f->mantissa_bits) & ((1u << f->exponent_bits) - 1);
    uint32_t all_ones = (1u << f->exponent_bits) - 1;
    double sign = bits >> (f->exponent_bits + f->mantissa_bits) & 1 ? -1.0 : 1.0;
    if (f->finite_only && exponent == all_ones && mantissa == (1u << f->mantissa_bits) - 1)
        return NAN;
    if (!f->finite_only && exponent == all_ones)
        return mantissa ? NAN : sign * INFINITY;
    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias - f->mantissa_bits);
    return sign * ldexp((double)(mantissa | 1u << f->mantissa_bits), (int)exponent - bias - f->mantissa_bits);
}

static uint32_t small_encode(const struct small_float *f, double value)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    uint32_t all_ones = (1u << f->exponent_bits) - 1, full = (1u << f->mantissa_bits) - 1;
    uint32_t sign = signbit(value) ? 1u << (f->exponent_bits + f->mantissa_bits) : 0;
    uint32_t infinity = f->finite_only ? all_ones << f->mantissa_bits | full : all_ones << f->mantissa_bits;
    if (isnan(value))
        return f->finite_only ? infinity : all_ones << f->mantissa_bits | full;   /* canonical: 0x7fff */
    double magnitude = fabs(value);
    if (isinf(value))
        return sign | infinity;
    if (magnitude == 0)
        return sign;
    int e = ilogb(magnitude);
    if (e < 1 - bias)
        e = 1 - bias;
    /* scaled so that one unit is the last place; rint rounds to nearest even in the default mode */
    uint64_t units = (uint64_t)rint(ldexp(magnitude, f->mantissa_bits - e));
    if (units >> (f->mantissa_bits + 1)) {
        units >>= 1;
        e++;
    }
    uint32_t exponent = units >> f->mantissa_bits ? (uint32_t)(e + bias) : 0;
    uint32_t bits = exponent << f->mantissa_bits | ((uint32_t)units & full);
    if (exponent > all_ones || (!f->finite_only && exponent == all_ones) || (f->finite_only && bits >= infinity))
        return sign | infinity;
    return sign | bits;
}

double dtype_load(enum dtype t, const void *data, size_t i)
{
    switch (t) {
    case DTYPE_F32: return ((const float *)data)[i];
    case DTYPE_F16: return small_decode(&f16_layout, ((const uint16_t *)data)[i]);
    case DTYPE_BF16: {
        uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case DTYPE_F8E4M3: return small_decode(&f8e4m3_layout, ((const uint8_t *)data)[i]);
    case DTYPE_I32: return ((const int32_t *)data)[i];
    case DTYPE_I64: return (double)((const int64_t *)data)[i];
    case DTYPE_I8: return ((const int8_t *)data)[i];
    case DTYPE_U8: return ((const uint8_t *)data)[i];
    case DTYPE_COUNT: break;
    }
    BUG_ON(true);
}

void dtype_store(enum dtype t, void *data, size_t i, double value)
{
    switch (t) {
    case DTYPE_F32: ((float *)data)[i] = (float)value; return;
    case DTYPE_F16: ((uint16_t *)data)[i] = (uint16_t)small_encode(&f16_layout, value); return;
    case DTYPE_BF16: ((uint16_t *)data)[i] = (uint16_t)small_encode(&bf16_layout, value); return;
    case DTYPE_F8E4M3: ((uint8_t *)data)[i] = (uint8_t)small_encode(&f8e4m3_layout, value); return;
    case DTYPE_I32: ((int32_t *)data)[i] = (int32_t)rint(value); return;
    case DTYPE_I64: ((int64_t *)data)[i] = (int64_t)rint(value); return;
    case DTYPE_I8: ((int8_t *)data)[i] = (int8_t)rint(value); return;
    case DTYPE_U8: ((uint8_t *)data)[i] = (uint8_t)rint(value); return;
    case DTYPE_COUNT: break;
    }
    BUG_ON(true);
}
