/*
 * What NVRTC makes of the CUDA headers' functions runs here, and gives what the functions' documents say: one kernel a function, many
 * kernels a program, from the list in ptx/intrinsics.def. No instruction may be unknown, no finding may come up.
 *
 * test_ptx_intrinsics [every [first [target [option]]]]: each `every`-th function from number `first`; all of them: 1. With an option of the
 * compiler such as --use_fast_math, which changes results, nothing is compared.
 */
#include "gpu/device/device.h"
#include "tests/test_ptx.h"

#include <float.h>
#include <inttypes.h>

__extension__ typedef __float128 quad;
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

/* ---- what references use ---- */
#define PI 3.14159265358979323846264338327950288L
/* Reduced to an eighth of a turn first, exactly: good to the last bits near zeros too. */
static long double turned(long double a, int quarters)
{
    const long double k = rintl(2 * a), rest = (a - k / 2) * PI;
    const int at = (int)fmodl(k, 4) + quarters + 4;
    return at % 2 ? at % 4 == 1 ? cosl(rest) : -cosl(rest) : at % 4 == 0 ? sinl(rest) : -sinl(rest);
}
#define SINPI(a) turned(a, 0)
#define COSPI(a) turned(a, 1)
#define SQRT1_2 0.70710678118654752440084436210484903928L
#define ABSOLUTE(x) -(x)
enum direction { ROUND_RN, ROUND_RZ, ROUND_RU, ROUND_RD };
#define FMA(a, b, c) ((long double)((quad)(a) * (quad)(b) + (quad)(c)))
#define SAT(x) ((x) > 1 ? 1 : (x) > 0 ? (x) : 0)
#define RELU_F(x) ((x) < 0 ? 0 : (x))
static long double clamp(long double x, long double low, long double high) { return x != x ? x : x < low ? low : x > high ? high : x; }
#define TO_INT(x) clamp(x, INT32_MIN, INT32_MAX)
#define TO_UINT(x) clamp(x, 0, UINT32_MAX)
#define TO_LL(x) clamp(x, (long double)INT64_MIN, (long double)INT64_MAX)
#define TO_ULL(x) clamp(x, 0, (long double)UINT64_MAX)
#define TO_I TO_INT
#define TO_U TO_UINT
#define TO_L TO_LL
#define TO_M TO_ULL
#define TO_S(x) clamp(x, INT16_MIN, INT16_MAX)
#define TO_T(x) clamp(x, 0, UINT16_MAX)
#define TO_C(x) clamp(x, INT8_MIN, INT8_MAX)
#define TO_Y(x) clamp(x, 0, UINT8_MAX)
static uint64_t SX(uint64_t x, int bits) { return (uint64_t)((int64_t)(x << (64 - bits)) >> (64 - bits)); }
static uint64_t REVERSE(uint64_t x, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        r |= (x >> i & 1) << (bits - 1 - i);
    return r;
}
static uint64_t BYTE_PERM(uint64_t a, uint64_t b, uint64_t select)
{
    const uint64_t both = (uint32_t)a | b << 32;
    uint64_t r = 0;
    for (int i = 0; i < 4; i++) /* the header masks the sign bits of the selectors */
        r |= (both >> ((select >> (4 * i) & 7) * 8) & 255) << (8 * i);
    return r;
}
static uint64_t FNS(uint64_t mask, uint64_t base, int n)
{
    int left = n < 0 ? -n : n;
    if (!n)
        return mask >> base & 1 ? base : ~0ull;
    for (int at = (int)base; at >= 0 && at < 32; at += n < 0 ? -1 : 1)
        if (mask >> at & 1 && !--left)
            return (uint64_t)at;
    return ~0ull;
}
/* Products of items of a (a_bits each) and of b (8 bits, from bit `from`), summed. */
static uint64_t DOT(uint64_t a, uint64_t b, int a_bits, int b_bits, int from, bool sign)
{
    uint64_t r = 0;
    for (int i = 0; i < 32 / a_bits; i++) {
        uint64_t x = a >> (i * a_bits) & ((1ull << a_bits) - 1), y = b >> (from + i * b_bits) & ((1ull << b_bits) - 1);
        r += sign ? SX(x, a_bits) * SX(y, b_bits) : x * y;
    }
    return r;
}
static uint64_t SUM_OF_DIFFERENCES(uint64_t a, uint64_t b, int bits, bool sign)
{
    uint64_t r = 0;
    for (int i = 0; i < 32; i += bits) {
        const uint64_t mask = (1ull << bits) - 1;
        const int64_t x = (int64_t)(sign ? SX(a >> i & mask, bits) : a >> i & mask), y = (int64_t)(sign ? SX(b >> i & mask, bits) : b >> i & mask);
        r += (uint64_t)(x > y ? x - y : y - x);
    }
    return r;
}
#define PICK(T, a, b, op) ((T)(a) op (T)(b) ? (a) : (b))
#define RELU(x) ((int64_t)(x) < 0 ? 0 : (x))
#define CLAMP_S(v) ((v) > (1 << (bits - 1)) - 1 ? (1 << (bits - 1)) - 1 : (v) < -(1 << (bits - 1)) ? -(1 << (bits - 1)) : (v))
#define CLAMP_U(v) ((v) > (1 << bits) - 1 ? (1 << bits) - 1 : (v) < 0 ? 0 : (v))
static long double small_value(int code, int fraction, int bias)
{
    const int exponent = (code & 127) >> fraction, mantissa = code & ((1 << fraction) - 1);
    const long double m = exponent ? ldexpl(mantissa + (1 << fraction), exponent - bias - fraction) : ldexpl(mantissa, 1 - bias - fraction);
    return code & 128 ? -m : m;
}
static long double E4M3(long double code) { return ((int)code & 127) == 127 ? (long double)NAN : small_value((int)code, 3, 7); }
static long double E5M2(long double code)
{
    const int mag = (int)code & 127;
    return mag > 0x7c ? (long double)NAN : mag == 0x7c ? (long double)((int)code & 128 ? -INFINITY : INFINITY) : small_value((int)code, 2, 15);
}

/* The nearest value with so many bits of fraction above 2^least, not beyond `most`. */
static long double TO_SMALL(long double a, int fraction, int least, long double most, long double nan)
{
    int e = 0;
    if (a != a)
        return nan;
    if (fabsl(a) >= most)
        return copysignl(most, a);
    frexpl(a, &e);
    const long double ulp = ldexpl(1, (a == 0 || e - 1 < least ? least : e - 1) - fraction), r = rintl(a / ulp) * ulp;
    return fabsl(r) > most ? copysignl(most, a) : r;
}

/* ---- the list ---- */
typedef long double float_ref(long double a, long double b, long double c, long double e);
typedef quad quad_ref(quad a, quad b, quad c);
typedef uint64_t bit_ref(uint64_t a, uint64_t b, uint64_t c);
#define FLT(name, res, args, domain, tolerance, code, expr)                                                        \
    static long double ref_##name(long double a, long double b, long double c, long double e)                      \
    {                                                                                                              \
        (void)a, (void)b, (void)c, (void)e;                                                                        \
        return expr;                                                                                               \
    }
#define RND(name, res, args, domain, direction, code, expr)         \
    static quad ref_##name(quad a, quad b, quad c)                  \
    {                                                               \
        (void)a, (void)b, (void)c;                                  \
        return expr;                                                \
    }
#define BIT(name, res, args, code, expr)                            \
    static uint64_t ref_##name(uint64_t a, uint64_t b, uint64_t c)  \
    {                                                               \
        (void)a, (void)b, (void)c;                                  \
        return (uint64_t)(expr);                                    \
    }
#define SIMD(name, item_bits, sign, args, code, expr)                                                                         \
    static uint64_t ref_##name(uint64_t a, uint64_t b, uint64_t c)                                                            \
    {                                                                                                                         \
        enum { bits = item_bits };                                                                                            \
        uint64_t r = 0;                                                                                                       \
        (void)c;                                                                                                              \
        for (int at = 0; at < 32; at += bits) {                                                                               \
            const uint64_t mask = (1ull << bits) - 1;                                                                         \
            const int x = (int)(sign ? SX(a >> at & mask, bits) : a >> at & mask), y = (int)(sign ? SX(b >> at & mask, bits) : b >> at & mask); \
            (void)y;                                                                                                          \
            r |= ((uint64_t)(int64_t)(expr)&mask) << at;                                                                      \
        }                                                                                                                     \
        return r;                                                                                                             \
    }
#define RUN(name, res, args, domain, code)
#include "tests/ptx/intrinsics.def"
#undef FLT
#undef RND
#undef BIT
#undef SIMD
#undef RUN

enum kind { KIND_FLT, KIND_RND, KIND_BIT, KIND_RUN };
static const struct function {
    const char *name, *result, *args, *code;
    enum kind kind;
    char domain;
    double tolerance;
    float_ref *exact;
    quad_ref *rounded;
    bit_ref *bits;
} functions[] = {
#define FLT(name, res, args, domain, tolerance, code, expr) {#name, res, args, code, KIND_FLT, domain, tolerance, ref_##name, NULL, NULL},
#define RND(name, res, args, domain, direction, code, expr) {#name, res, args, code, KIND_RND, domain, direction, NULL, ref_##name, NULL},
#define BIT(name, res, args, code, expr) {#name, res, args, code, KIND_BIT, 'A', 0, NULL, NULL, ref_##name},
#define SIMD(name, bits, sign, args, code, expr) {#name, "u", "uu", code, KIND_BIT, 'A', 0, NULL, NULL, ref_##name},
#define RUN(name, res, args, domain, code) {#name, res, args, code, KIND_RUN, domain, 0, NULL, NULL, NULL},
#include "tests/ptx/intrinsics.def"
};
#define FUNCTIONS ((int)(sizeof functions / sizeof *functions))

/* ---- types ---- */
static const struct type { char letter; const char *name; int bytes, items, fraction, exponent; bool sign; } types[] = {
    {'f', "float", 4, 1, 23, 8, true}, {'d', "double", 8, 1, 52, 11, true}, {'i', "int", 4, 1, 0, 0, true}, {'u', "unsigned", 4, 1, 0, 0, false},
    {'l', "long long", 8, 1, 0, 0, true}, {'m', "unsigned long long", 8, 1, 0, 0, false}, {'s', "short", 2, 1, 0, 0, true},
    {'t', "unsigned short", 2, 1, 0, 0, false}, {'c', "signed char", 1, 1, 0, 0, true}, {'y', "unsigned char", 1, 1, 0, 0, false},
    {'p', "bool", 1, 1, 0, 0, false}, {'h', "__half", 2, 1, 10, 5, true}, {'H', "__half2", 4, 2, 10, 5, true},
    {'b', "__nv_bfloat16", 2, 1, 7, 8, true}, {'B', "__nv_bfloat162", 4, 2, 7, 8, true}, {'F', "float2", 8, 2, 23, 8, true},
};
static const struct type *type_of(char letter)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].letter == letter)
            return &types[i];
    fprintf(stderr, "no type %c\n", letter);
    exit(1);
}

static uint64_t raw(const uint8_t *at, int bytes)
{
    uint64_t r = 0;
    memcpy(&r, at, (size_t)bytes);
    return r;
}

/* Item `item` of a value, exactly. */
static long double value_of(const struct type *t, const uint8_t *at, int item)
{
    const int bytes = t->bytes / t->items;
    const uint64_t u = raw(at + item * bytes, bytes);
    if (!t->exponent)
        return t->sign ? (long double)(int64_t)SX(u, bytes * 8) : (long double)u;
    const uint64_t mantissa = u & ((1ull << t->fraction) - 1);
    const int exponent = (int)(u >> t->fraction & ((1u << t->exponent) - 1)), bias = (1 << (t->exponent - 1)) - 1;
    const bool negative = u >> (bytes * 8 - 1) & 1;
    long double r = exponent ? ldexpl((long double)(mantissa | 1ull << t->fraction), exponent - bias - t->fraction)
                             : ldexpl((long double)mantissa, 1 - bias - t->fraction);
    if (exponent == (1 << t->exponent) - 1)
        r = mantissa ? (long double)NAN : (long double)INFINITY;
    return negative ? -r : r;
}

static long double ulp_of(const struct type *t, long double x)
{
    const int bias = (1 << (t->exponent - 1)) - 1;
    int e = 0;
    frexpl(x, &e);
    return ldexpl(1, (x == 0 || e - 1 < 1 - bias ? 1 - bias : e - 1) - t->fraction);
}
static long double largest_of(const struct type *t)
{
    const int bias = (1 << (t->exponent - 1)) - 1;
    return ldexpl(2 - ldexpl(1, -t->fraction), bias);
}

static bool near(const struct type *t, long double want, long double got, double tolerance)
{
    if (!t->exponent)
        return want != want || want == got || (tolerance > 0 && fabsl(want - got) <= (long double)tolerance);
    if (want != want || got != got)
        return want != want && got != got;
    const long double most = largest_of(t);
    if (want == got)
        return true;
    if (fabsl(want) >= most || isinf(want))
        return fabsl(got) >= most && (got < 0) == (want < 0);
    const long double allowed = tolerance < 0 ? -(long double)tolerance : (long double)tolerance * ulp_of(t, want);
    return fabsl(want - got) <= allowed * (1 + 0x1p-30L);
}

/* The value of the type that `want` becomes in that direction, or an infinity. */
static long double rounded_to(const struct type *t, quad want, enum direction direction)
{
    const long double near_it = (long double)want;
    if (want != want || isinf(near_it) || want == 0)
        return near_it;
    const long double ulp = ulp_of(t, near_it), most = largest_of(t);
    const quad scaled = want / (quad)ulp;
    quad low = (quad)floorl((long double)scaled);
    low -= low > scaled ? 1 : 0;
    low += low + 1 <= scaled ? 1 : 0;
    const quad rest = scaled - low;
    const bool odd = fmodl(fabsl((long double)low), 2) != 0, negative = want < 0;
    const bool up = direction == ROUND_RN ? rest > (quad)0.5 || (rest == (quad)0.5 && odd) : direction == ROUND_RU ? rest > 0 : direction == ROUND_RZ ? negative && rest > 0 : false;
    const long double r = (long double)(low + (up ? 1 : 0)) * ulp;
    if (fabsl(r) <= most)
        return r == 0 && negative ? -0.0L : r;
    const bool away = direction == ROUND_RN || (direction == ROUND_RU && !negative) || (direction == ROUND_RD && negative);
    return (away ? (long double)INFINITY : most) * (negative ? -1 : 1);
}

/* ---- inputs ---- */
#define THREADS 256
static uint64_t state = 0x243f6a8885a308d3ull;
static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
static uint64_t encode(const struct type *t, double x)
{
    if (t->fraction == 52) {
        uint64_t r;
        memcpy(&r, &x, 8);
        return r;
    }
    const long double v = rounded_to(t, (quad)x, ROUND_RZ);
    const int bias = (1 << (t->exponent - 1)) - 1;
    int e;
    const long double m = frexpl(fabsl(v), &e);
    const uint64_t sign = (uint64_t)(signbit(v) != 0) << (t->fraction + t->exponent);
    if (v == 0 || e - 1 < 1 - bias)
        return sign;
    return sign | (uint64_t)(e - 1 + bias) << t->fraction | ((uint64_t)ldexpl(m, t->fraction + 1) & ((1ull << t->fraction) - 1));
}
static double uniform_in(double low, double high) { return low + (high - low) * ((double)(next() >> 11) * 0x1p-53); }

static uint64_t random_float(const struct type *t, char domain)
{
    const int bits = t->fraction + t->exponent + 1, shape = (int)(next() % 8);
    const uint64_t top = ((1ull << t->exponent) - 1) << t->fraction, sign = 1ull << (bits - 1);
    const uint64_t specials[] = {0, sign, top, sign | top, top | 1ull << (t->fraction - 1), 1, sign | 1, (1ull << t->fraction) - 1, top - 1,
                                 1ull << t->fraction, sign | (top - 1), top | 1};
    const double spread = exp2(uniform_in(-10, 10)) * (next() & 1 ? -1 : 1);
    switch (domain) {
    case 'A':
        return shape < 2   ? specials[next() % (sizeof specials / sizeof *specials)]
               : shape < 4 ? next() & ((sign << 1) - 1)
                           : encode(t, shape < 6 ? spread : uniform_in(-4, 4));
    case 'R': return shape ? encode(t, spread) : specials[next() % 5];
    case 'S': return encode(t, uniform_in(-10, 10));
    case 'W': return encode(t, uniform_in(-3, 3));
    case 'U': return encode(t, uniform_in(-1, 1));
    case 'P': return encode(t, fabs(spread));
    default: return encode(t, spread);
    }
}
static void fill(const struct type *t, char domain, uint8_t *to)
{
    for (int i = 0; i < THREADS; i++)
        for (int item = 0; item < t->items; item++) {
            static const uint64_t specials[] = {0, 1, 2, 31, 32, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                                INT64_MAX, 1ull << 63, ~0ull};
            const int bytes = t->bytes / t->items;
            uint64_t v = next();
            if (t->exponent)
                v = random_float(t, domain);
            else if (v % 4 == 0)
                v = specials[next() % (sizeof specials / sizeof *specials)];
            else if (v % 4 == 1)
                v = next() % 64 - 16;
            memcpy(to + i * t->bytes + item * bytes, &v, (size_t)bytes);
        }
}

/* ---- one function ---- */
static uint64_t extended(const struct type *t, const uint8_t *at)
{
    const uint64_t u = raw(at, t->bytes);
    return t->sign && !t->exponent ? SX(u, t->bytes * 8) : u;
}

/* What is wrong with lane i's result, or "". */
static bool right(const struct function *f, const uint8_t *const *in, const uint8_t *out, int i, char *said, size_t size)
{
    const struct type *r = type_of(f->result[0]);
    const int count = (int)strlen(f->args);
    if (f->kind == KIND_BIT) {
        uint64_t v[3] = {0};
        for (int k = 0; k < count && k < 3; k++)
            v[k] = extended(type_of(f->args[k]), in[k] + i * type_of(f->args[k])->bytes);
        const uint64_t want = f->bits(v[0], v[1], v[2]), mask = r->bytes == 8 ? ~0ull : (1ull << r->bytes * 8) - 1, got = raw(out + i * r->bytes, r->bytes);
        snprintf(said, size, "(%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 "): %#" PRIx64 ", wanted %#" PRIx64, v[0], v[1], v[2], got, want & mask);
        return got == (want & mask);
    }
    for (int item = 0; item < r->items && f->kind != KIND_RUN; item++) {
        long double v[4] = {0};
        for (int k = 0; k < count; k++) {
            const struct type *t = type_of(f->args[k]);
            v[k] = value_of(t, in[k] + i * t->bytes, t->items > item ? item : 0);
        }
        const long double got = value_of(r, out + i * r->bytes, item);
        const long double want = f->kind == KIND_FLT ? f->exact(v[0], v[1], v[2], v[3]) : rounded_to(r, f->rounded(v[0], v[1], v[2]), (enum direction)f->tolerance);
        snprintf(said, size, "(%.17Lg, %.17Lg, %.17Lg): %.17Lg, wanted %.17Lg", v[0], v[1], v[2], got, want);
        if (!near(r, want, got, f->kind == KIND_FLT ? f->tolerance : 0))
            return false;
    }
    return true;
}

static void run_function(struct ptx_module *m, const struct function *f, bool compare)
{
    struct bench b = {.m = m};
    b.options.limits = ptx_default_limits;
    b.options.check_races = true;
    b.launch = (struct ptx_launch){.grid = {2, 1, 1}, .block = {THREADS / 2, 1, 1}};
    char kernel[80], said[300] = "";
    snprintf(kernel, sizeof kernel, "k_%s", f->name);
    b.launch.kernel = kernel;
    const uint8_t *in[4] = {NULL};
    const int count = (int)strlen(f->args);
    for (int k = 0; k < count; k++) {
        const struct type *t = type_of(f->args[k]);
        uint8_t values[THREADS * 8];
        fill(t, f->domain, values);
        in[k] = bench_buffer(&b, "in", THREADS * (size_t)t->bytes, false, values);
    }
    static const uint8_t zeros[THREADS * 8];
    const uint8_t *out = bench_buffer(&b, "out", THREADS * (size_t)type_of(f->result[0])->bytes, true, zeros);
    bool ok = bench_run(&b) == PTX_CLEAN;
    if (!ok)
        snprintf(said, sizeof said, "%s: %s", b.finding.opcode, b.finding.text);
    for (int i = 0; i < THREADS && ok && compare; i++)
        ok = right(f, in, out, i, said, sizeof said);
    if (!ok)
        fprintf(stderr, "%s %s\n", f->name, said);
    check(ok);
    b.m = NULL;
    bench_free(&b);
}

/* ---- programs of many kernels ---- */
static void source_add(struct buf *to, const struct function *f)
{
    const int count = (int)strlen(f->args);
    buf_fmt(to, "extern \"C\" __global__ void k_%s(", f->name);
    for (int k = 0; k < count; k++)
        buf_fmt(to, "const %s *p%c, ", type_of(f->args[k])->name, "abcd"[k]);
    buf_fmt(to, "%s *pr) { int i = threadIdx.x + blockIdx.x * blockDim.x; ", type_of(f->result[0])->name);
    for (int k = 0; k < count; k++)
        buf_fmt(to, "%s %c = p%c[i]; ", type_of(f->args[k])->name, "abcd"[k], "abcd"[k]);
    buf_fmt(to, "%s r; %s pr[i] = r; }\n", type_of(f->result[0])->name, f->code);
}

static void run_program(const struct toolkit_paths *t, const char *target, const char *options, const int *chosen, int count)
{
    cleanup(buf) struct buf source = {0};
    bool groups = false;
    for (int i = 0; i < count; i++)
        groups |= !strncmp(functions[chosen[i]].name, "cg_", 3);
    buf_str(&source, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n#include <cuda_fp6.h>\n#include <cuda_fp4.h>\n");
    if (groups)
        buf_str(&source, "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include <cooperative_groups/scan.h>\n"
                         "#include <cooperative_groups/memcpy_async.h>\n");
    for (int i = 0; i < count; i++)
        source_add(&source, &functions[chosen[i]]);
    struct toolkit_compiled c = {0};
    struct err err = {0};
    struct ptx_finding finding = {0};
    cleanup(ptx) struct ptx_module *m = NULL;
    const bool ok = toolkit_compile(t, buf_cstr(&source), target, options, &c, &err) && c.ok;
    check(ok);
    if (!ok)
        fprintf(stderr, "%s %.3000s\n", err.text, c.log ? c.log : "");
    if (ok) {
        check(ptx_parse(c.ptx, c.ptx_bytes, NULL, &m, &finding, &err) && m);
        cleanup(buf) struct buf missing = {0};
        if (m)
            ptx_unsupported(m, &missing);
        else
            fprintf(stderr, "%s %s\n", finding.text, err.text);
        if (missing.size)
            fprintf(stderr, "not known: %s\n", buf_cstr(&missing));
        check(!missing.size);
        for (int i = 0; i < count && m; i++)
            run_function(m, &functions[chosen[i]], !*options);
    }
    free(c.ptx);
    free(c.log);
}

int main(int argc, char **argv)
{
    const int every = argc > 1 ? atoi(argv[1]) : 1, first = argc > 2 ? atoi(argv[2]) : 0;
    const char *target = argc > 3 ? argv[3] : "sm_90a";
    struct toolkit_paths paths;
    struct err err = {0};
    if (!toolkit_find(NULL, &paths, &err)) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    enum { MOST = 200 };
    int chosen[MOST], count = 0;
    for (int i = first; i < FUNCTIONS; i += every) {
        if (strncmp(target, "sm_8", 4) || strncmp(functions[i].name, "cg_cluster", 10)) /* clusters came with sm_90 */
            chosen[count++] = i;
        const bool last = i + every >= FUNCTIONS, border = !last && (!strncmp(functions[i + every].name, "cg_", 3)) != (!strncmp(functions[i].name, "cg_", 3));
        if (count && (count == MOST || last || border)) {
            run_program(&paths, target, argc > 4 ? argv[4] : "", chosen, count);
            count = 0;
        }
    }
    return test_done();
}
