/*
 * Tensor cores: kernels as people write them (inline PTX with ldmatrix, nvcuda::wmma) and each form of mma by itself, against
 * products computed here; what a misuse is told as.
 */
#include "gpu/ptx/matrix.h"
#include "tests/test_ptx.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"

static uint64_t seed = 1;
static uint32_t next_bits(void)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(seed >> 33);
}

/* ---- numbers, written by themselves ---- */
static double value_of(const char *type, uint32_t bits)
{
    int exp_bits = 8, man_bits = 23;
    if (!strcmp(type, "f16"))
        exp_bits = 5, man_bits = 10;
    if (!strcmp(type, "bf16"))
        man_bits = 7;
    if (!strcmp(type, "tf32"))
        bits &= ~0x1fffu;
    if (!strcmp(type, "e4m3"))
        exp_bits = 4, man_bits = 3;
    if (!strcmp(type, "e5m2"))
        exp_bits = 5, man_bits = 2;
    if (*type == 's')
        return type[1] == '8' ? (int8_t)bits : (int)(bits ^ 8) - 8;
    if (*type == 'u' || !strcmp(type, "b1"))
        return bits;
    const int exp = (int)(bits >> man_bits) & ((1 << exp_bits) - 1), man = (int)(bits & ((1u << man_bits) - 1)), bias = (1 << (exp_bits - 1)) - 1;
    const double mag = exp ? ldexp(1 + ldexp(man, -man_bits), exp - bias) : ldexp(man, 1 - bias - man_bits);
    return bits >> (exp_bits + man_bits) & 1 ? -mag : mag;
}

static int bits_of(const char *type)
{
    return !strcmp(type, "tf32") || !strcmp(type, "f32") ? 32 : !strcmp(type, "f16") || !strcmp(type, "bf16") ? 16 : *type == 'e' || type[1] == '8' ? 8 : !strcmp(type, "b1") ? 1 : 4;
}

/* Bits of a random small number. */
static uint32_t random_of(const char *type)
{
    const uint32_t r = next_bits();
    if (!strcmp(type, "f16"))
        return (r & 0x83ff) | (11 + (r >> 16) % 6) << 10;
    if (!strcmp(type, "bf16"))
        return (r & 0x807f) | (123 + (r >> 16) % 6) << 7;
    if (!strcmp(type, "tf32"))
        return (r & 0x7fffff) << 8 >> 8 | (123 + (r >> 24) % 6) << 23 | (r & 1) << 31;
    if (!strcmp(type, "e4m3"))
        return (r & 0x87) | (4 + (r >> 16) % 6) << 3;
    if (!strcmp(type, "e5m2"))
        return (r & 0x83) | (12 + (r >> 16) % 6) << 2;
    return r & ((1u << bits_of(type)) - 1);
}

/* ---- one mma: registers come from x by lane, go to y by lane ---- */
struct form { const char *shape, *d, *a, *b, *c, *tail; int m, n, k; };
static const struct form forms[] = {
    {"m16n8k16", "f32", "f16", "f16", "f32", "", 16, 8, 16}, {"m16n8k8", "f32", "f16", "f16", "f32", "", 16, 8, 8},
    {"m16n8k16", "f16", "f16", "f16", "f16", "", 16, 8, 16}, {"m16n8k8", "f16", "f16", "f16", "f16", "", 16, 8, 8},
    {"m16n8k16", "f32", "bf16", "bf16", "f32", "", 16, 8, 16}, {"m16n8k8", "f32", "bf16", "bf16", "f32", "", 16, 8, 8},
    {"m16n8k8", "f32", "tf32", "tf32", "f32", "", 16, 8, 8}, {"m16n8k4", "f32", "tf32", "tf32", "f32", "", 16, 8, 4},
    {"m16n8k32", "f32", "e4m3", "e4m3", "f32", "", 16, 8, 32}, {"m16n8k32", "f32", "e5m2", "e4m3", "f32", "", 16, 8, 32},
    {"m16n8k32", "f16", "e4m3", "e5m2", "f16", "", 16, 8, 32}, {"m16n8k16", "f32", "e5m2", "e5m2", "f32", "", 16, 8, 16},
    {"m16n8k32", "s32", "u8", "s8", "s32", "", 16, 8, 32}, {"m16n8k32", "s32", "s8", "u8", "s32", ".satfinite", 16, 8, 32},
    {"m16n8k16", "s32", "s8", "s8", "s32", "", 16, 8, 16}, {"m8n8k16", "s32", "u8", "u8", "s32", "", 8, 8, 16},
    {"m16n8k64", "s32", "s4", "u4", "s32", "", 16, 8, 64}, {"m16n8k32", "s32", "u4", "s4", "s32", ".satfinite", 16, 8, 32}, {"m8n8k32", "s32", "s4", "s4", "s32", "", 8, 8, 32},
    {"m16n8k256", "s32", "b1", "b1", "s32", ".xor.popc", 16, 8, 256}, {"m16n8k128", "s32", "b1", "b1", "s32", ".and.popc", 16, 8, 128}, {"m8n8k128", "s32", "b1", "b1", "s32", ".xor.popc", 8, 8, 128},
};

static void list_of(char *to, size_t size, int first, int count)
{
    size_t n = (size_t)snprintf(to, size, "{");
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(to + n, size - n, "%s%%r%d", i ? "," : "", first + i);
    snprintf(to + n, size - n, "}");
}

/*
 * Row and column of element e (of a lane's all) of A, B or C, by the tables of the PTX ISA ("Matrix Fragments for mma"): by
 * element number there, not by register.
 */
static void place_a(const struct form *f, int lane, int e, int per, int *row, int *k)
{
    const int group = lane >> 2, in = lane % 4, chunk = e / per; /* per: elements a register */
    *row = f->m == 16 && chunk % 2 ? group + 8 : group;
    *k = in * per + e % per + (f->m == 16 ? chunk / 2 : chunk) * 4 * per;
}
static void place_b(int lane, int e, int per, int *k, int *column)
{
    *k = lane % 4 * per + e % per + e / per * 4 * per;
    *column = lane >> 2;
}
static void place_c(int lane, int e, int *row, int *column)
{
    *row = (lane >> 2) + 8 * (e / 2);
    *column = lane % 4 * 2 + e % 2;
}

static uint32_t element(const uint32_t *regs, int count, int lane, int e, int bits)
{
    const int per = 32 / bits;
    const uint32_t reg = regs[lane * count + e / per];
    return bits == 32 ? reg : reg >> (e % per * bits) & ((1u << bits) - 1);
}

static void one_form(const struct form *f)
{
    const int ba = bits_of(f->a), half = !strcmp(f->d, "f16");
    const int na = f->m * f->k * ba / 1024, nb = f->n * f->k * ba / 1024, nc = f->m * f->n / (half ? 64 : 32), all = na + nb + nc;
    char d[128], a[128], b[128], c[128], text[4096], loads[1024] = "";
    list_of(d, sizeof d, 30, nc), list_of(a, sizeof a, 2, na), list_of(b, sizeof b, 2 + na, nb), list_of(c, sizeof c, 2 + na + nb, nc);
    for (int i = 0; i < all; i++)
        snprintf(loads + strlen(loads), sizeof loads - strlen(loads), "ld.global.b32 %%r%d, [%%rd3+%d];", 2 + i, 4 * i);
    const bool first = !strncmp(f->tail, ".sat", 4); /* .satfinite stands before the types, .popc after */
    snprintf(text, sizeof text, HEAD ".visible .entry k(.param .u64 x, .param .u64 y) { .reg .b32 %%r<64>; .reg .b64 %%rd<9>; ld.param.u64 %%rd1, [x]; ld.param.u64 %%rd2, [y]; mov.u32 %%r1, %%tid.x;"
             "mul.wide.u32 %%rd3, %%r1, %d; add.s64 %%rd3, %%rd3, %%rd1; mul.wide.u32 %%rd4, %%r1, %d; add.s64 %%rd4, %%rd4, %%rd2; %s\n"
             "mma.sync.aligned.%s.row.col%s.%s.%s.%s.%s%s %s, %s, %s, %s;\n", all * 4, nc * 4, loads, f->shape, first ? f->tail : "", f->d, f->a, f->b, f->c, first ? "" : f->tail, d, a, b, c);
    for (int i = 0; i < nc; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "st.global.b32 [%%rd4+%d], %%r%d;", 4 * i, 30 + i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "ret; }\n");
    const char *dump = getenv("PTX_TEXTS");
    if (dump) {
        static int number;
        char path[256];
        snprintf(path, sizeof path, "%s/mma%d.ptx", dump, number++);
        FILE *file = fopen(path, "w");
        fputs(text, file);
        fclose(file);
    }
    uint32_t ra[32 * 8], rb[32 * 8], rc[32 * 8], x[32 * 24];
    memset(ra, 0, sizeof ra), memset(rb, 0, sizeof rb);
    const int per = 32 / ba;
    for (int lane = 0; lane < 32; lane++) {
        for (int e = 0; e < na * per; e++)
            ra[lane * na + e / per] |= random_of(f->a) << (ba == 32 ? 0 : e % per * ba);
        for (int e = 0; e < nb * per; e++)
            rb[lane * nb + e / per] |= random_of(f->b) << (ba == 32 ? 0 : e % per * ba);
        for (int i = 0; i < nc; i++)
            rc[lane * nc + i] = half ? random_of("f16") | random_of("f16") << 16 : *f->d == 's' ? next_bits() % 2000 - 1000 : random_of("tf32");
        if (*f->tail == '.' && first && lane == 3)
            rc[lane * nc] = 0x7ffffff0;
        memcpy(x + lane * all, ra + lane * na, (size_t)na * 4);
        memcpy(x + lane * all + na, rb + lane * nb, (size_t)nb * 4);
        memcpy(x + lane * all + na + nb, rc + lane * nc, (size_t)nc * 4);
    }
    cleanup(bench) struct bench t = {0};
    check(bench_text(&t, text));
    bench_buffer(&t, "x", (size_t)all * 128, false, x);
    const uint32_t *y = bench_buffer(&t, "y", (size_t)nc * 128, true, NULL);
    check_int(bench_run(&t), PTX_CLEAN);
    check_str(t.finding.text, "");
    if (t.finding.kind != PTX_CLEAN)
        return;
    static double ma[16 * 256], mb[256 * 8];
    for (int lane = 0; lane < 32; lane++) {
        int row, column;
        for (int e = 0; e < na * per; e++)
            place_a(f, lane, e, per, &row, &column), ma[row * f->k + column] = value_of(f->a, element(ra, na, lane, e, ba));
        for (int e = 0; e < nb * per; e++)
            place_b(lane, e, per, &row, &column), mb[row * 8 + column] = value_of(f->b, element(rb, nb, lane, e, ba));
    }
    int wrong = 0;
    const int bits = half ? 16 : 32;
    for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < nc * (32 / bits); e++) {
            int row, column;
            place_c(lane, e, &row, &column);
            const uint32_t c0 = element(rc, nc, lane, e, bits), got = element(y, nc, lane, e, bits);
            double sum = *f->d == 's' ? (int32_t)c0 : value_of(half ? "f16" : "f32", c0), most = fabs(sum), size = fabs(sum);
            for (int k = 0; k < f->k; k++) {
                const double p = !strcmp(f->a, "b1") ? (strstr(f->tail, "xor") ? ma[row * f->k + k] != mb[k * 8 + column] : ma[row * f->k + k] * mb[k * 8 + column])
                                              : ma[row * f->k + k] * mb[k * 8 + column];
                sum += p;
                size += fabs(p);
                most = fabs(p) > most ? fabs(p) : most;
            }
            if (*f->d == 's') {
                const double want = first && sum > INT32_MAX ? INT32_MAX : sum;
                wrong += (int32_t)got != (int32_t)(int64_t)want;
            } else { /* the bound of matrix_float.c: of each block the terms, and the result */
                const double bound = (f->k + 2) * ldexp(most, -24) * 2 + (half ? size * 0x1p-10 : fabs(sum) * 0x1p-22);
                wrong += !(fabs(value_of(half ? "f16" : "f32", got) - sum) <= bound);
            }
        }
    check_int(wrong, 0);
    if (wrong)
        fprintf(stderr, "  %s.%s.%s.%s.%s%s: %d wrong\n", f->shape, f->d, f->a, f->b, f->c, f->tail, wrong);
}

static void doubles(void)
{
    cleanup(bench) struct bench t = {0};
    check(bench_text(&t, HEAD ".visible .entry k(.param .u64 x, .param .u64 y) { .reg .b32 %r<4>; .reg .f64 %fd<16>; .reg .b64 %rd<9>; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x;"
        "mul.wide.u32 %rd3, %r1, 8; add.s64 %rd4, %rd3, %rd1; mul.wide.u32 %rd5, %r1, 16; add.s64 %rd5, %rd5, %rd2; ld.global.f64 %fd1, [%rd4]; ld.global.f64 %fd2, [%rd4+256];"
        "mov.f64 %fd3, 0d3FF0000000000000; mov.f64 %fd4, 0d0000000000000000; mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd5,%fd6}, {%fd1}, {%fd2}, {%fd3,%fd4};"
        "st.global.f64 [%rd5], %fd5; st.global.f64 [%rd5+8], %fd6; ret; }\n"));
    double x[64];
    for (int i = 0; i < 64; i++)
        x[i] = uniform(&seed);
    bench_buffer(&t, "x", sizeof x, false, x);
    const double *y = bench_buffer(&t, "y", 512, true, NULL);
    check_int(bench_run(&t), PTX_CLEAN);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 2; i++) {
            double sum = i ? 0 : 1;
            for (int k = 0; k < 4; k++)
                sum += x[(lane >> 2) * 4 + k] * x[32 + (lane % 4 * 2 + i) * 4 + k];
            check(fabs(y[lane * 2 + i] - sum) < 1e-15 * 8);
        }
}

/* ---- whole kernels ---- */
struct gemm { const char *kernel, *type; int m, n, k; bool b_by_columns, doubled; char out; double tolerance; };
static void product(const struct gemm *g)
{
    cleanup(bench) struct bench t = {0};
    check(bench_file(&t, "matrix.ptx", g->kernel));
    const int bytes = bits_of(g->type) / 8;
    uint8_t *a = xalloc((size_t)(g->m * g->k * 4)), *b = xalloc((size_t)(g->n * g->k * 4));
    for (int i = 0; i < g->m * g->k; i++) {
        const uint32_t v = random_of(g->type);
        memcpy(a + i * bytes, &v, (size_t)bytes);
    }
    const char *type_b = strcmp(g->type, "e4m3") ? g->type : "e5m2";
    for (int i = 0; i < g->n * g->k; i++) {
        const uint32_t v = random_of(type_b);
        memcpy(b + i * bytes, &v, (size_t)bytes);
    }
    bench_buffer(&t, "a", (size_t)(g->m * g->k * bytes), false, a);
    bench_buffer(&t, "b", (size_t)(g->n * g->k * bytes), false, b);
    const void *c = bench_buffer(&t, "c", (size_t)(g->m * g->n * (g->out == 'h' ? 2 : 4)), true, NULL);
    bench_int(&t, (uint32_t)g->k);
    check_int(bench_run(&t), PTX_CLEAN);
    check_str(t.finding.text, "");
    int wrong = 0;
    for (int m = 0; m < g->m && t.finding.kind == PTX_CLEAN; m++)
        for (int n = 0; n < g->n; n++) {
            double sum = 0, size = 0;
            for (int k = 0; k < g->k; k++) {
                uint32_t x = 0, y = 0;
                memcpy(&x, a + (m * g->k + k) * bytes, (size_t)bytes);
                memcpy(&y, b + (g->b_by_columns ? n * g->k + k : k * g->n + n) * bytes, (size_t)bytes);
                sum += value_of(g->type, x) * value_of(type_b, y);
                size += fabs(value_of(g->type, x) * value_of(type_b, y));
            }
            sum *= g->doubled ? 2 : 1;
            const double got = g->out == 'f' ? ((const float *)c)[m * g->n + n] : g->out == 'i' ? ((const int *)c)[m * g->n + n] : value_of("f16", ((const uint16_t *)c)[m * g->n + n]);
            wrong += !(fabs(got - sum) <= g->tolerance * size * 2);
        }
    check_int(wrong, 0);
    if (wrong)
        fprintf(stderr, "  %s: %d wrong\n", g->kernel, wrong);
    free(a), free(b);
}

static void kernels(void)
{
    static const struct gemm gemms[] = {
        {"gemm_bf16", "bf16", 16, 8, 64, false, false, 'f', 1e-6}, {"gemm_f16", "f16", 16, 8, 64, false, false, 'h', 2e-3},
        {"wmma_f16", "f16", 16, 16, 64, false, true, 'f', 1e-6}, {"wmma_f16_wide", "f16", 8, 32, 48, false, true, 'f', 1e-6},
        {"wmma_bf16", "bf16", 32, 8, 32, false, true, 'f', 1e-6}, {"wmma_s8", "s8", 16, 16, 64, false, true, 'i', 0},
        {"wmma_tf32", "tf32", 16, 16, 32, false, true, 'f', 1e-6}, {"gemm_s8", "s8", 16, 8, 96, true, false, 'i', 0},
        {"gemm_e4m3", "e4m3", 16, 8, 64, true, false, 'f', 1e-6}};
    for (size_t i = 0; i < sizeof gemms / sizeof *gemms; i++)
        product(&gemms[i]);
}

/* ---- how sums are cut off, term by term ---- */
static uint32_t sum_of(int count, const double *terms, float c, enum matrix_type to)
{
    struct matrix_number a[16], b[16];
    uint32_t bits;
    for (int i = 0; i < count; i++) { /* terms are powers of two or small multiples: f16 holds them */
        int e;
        const double m = frexp(terms[i], &e);
        a[i] = (struct matrix_number){.value = (int32_t)(m * 2048), .exp = (int16_t)(e - 11), .unit = (int16_t)(e - 1)};
        b[i] = (struct matrix_number){.value = 1024, .exp = -10, .unit = 0};
    }
    memcpy(&bits, &c, 4);
    return matrix_float(a, b, (uint32_t)count, 16, bits, E_F32, to);
}
static float as_float(uint32_t bits)
{
    float r;
    memcpy(&r, &bits, 4);
    return r;
}

static void sums(void)
{
    check(as_float(sum_of(2, (double[]){1, 0x1p-23}, 0, E_F32)) == 1 + 0x1p-23f);
    check(as_float(sum_of(2, (double[]){1, 0x1p-24}, 0, E_F32)) == 1);                                 /* towards zero */
    check(as_float(sum_of(3, (double[]){1, 0x1p-24, 0x1p-24}, 0, E_F32)) == 1 + 0x1p-23f);             /* but only at the end */
    check(as_float(sum_of(5, (double[]){1, 0x1p-25, 0x1p-25, 0x1p-25, 0x1p-25}, 0, E_F32)) == 1 + 0x1p-23f);
    check(as_float(sum_of(16, (double[]){1, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26, 0x1p-26}, 0, E_F32)) == 1);
    check(as_float(sum_of(2, (double[]){-1, -0x1p-24}, 0, E_F32)) == -1);
    check(as_float(sum_of(2, (double[]){1, -0x1p-24}, 0, E_F32)) == 1 - 0x1p-24f);
    check(as_float(sum_of(2, (double[]){0x1p10, -0x1p10}, 0x1p-20f, E_F32)) == 0);                     /* lost beside larger ones */
    check(as_float(sum_of(2, (double[]){0x1p4, -0x1p4}, 0x1p-20f, E_F32)) == 0x1p-20f);
    check_int(sum_of(2, (double[]){1, 0x1p-11}, 0, E_F16), 0x3c00);                                    /* to nearest, ties to even */
    check_int(sum_of(3, (double[]){1, 0x1p-11, 0x1p-20}, 0, E_F16), 0x3c01);
    check_int(sum_of(2, (double[]){65504, 16}, 0, E_F16), 0x7c00);
    check_int(sum_of(1, (double[]){0}, -0.0f, E_F32), 0);
    struct matrix_number inf = {.value = 1, .special = 1}, zero = {0}, one = {.value = 1};
    check_int(matrix_float(&inf, &zero, 1, 16, 0, E_F32, E_F32), 0x7fffffff);
    check_int(matrix_float(&inf, &one, 1, 16, 0xff800000u, E_F32, E_F32), 0x7fffffff);
    check_int((int)matrix_float(&inf, &one, 1, 16, 0, E_F32, E_F32), 0x7f800000);
    check_int(matrix_unpack(E_E4M3, 0x7f).special, 2);
    check_int(matrix_unpack(E_E4M3, 0x7e).value, 14);
    check_int(matrix_unpack(E_F16, 0x0001).unit, -14);
    check_int(matrix_unpack(E_E4M3, 0x01).unit, -9);
}

/* ---- misuse ---- */
static enum ptx_finding_kind body(struct bench *b, const char *text, int block)
{
    char all[4096];
    snprintf(all, sizeof all, HEAD ".visible .entry k() { .reg .pred %%p<4>; .reg .b32 %%r<32>; .reg .f32 %%f<16>; .reg .b64 %%rd<8>; .shared .align 16 .b8 s[512]; mov.u32 %%r1, %%tid.x; shl.b32 %%r2, %%r1, 4; mov.u32 %%r3, s;"
             "add.u32 %%r4, %%r3, %%r2; setp.lt.u32 %%p1, %%r1, 16; setp.lt.u32 %%p2, %%r1, 32;\n%s\nret; }\n", text);
    check(bench_text(b, all));
    b->launch.block[0] = (uint32_t)block;
    return b->m ? bench_run(b) : PTX_SYNTAX;
}
#define BODY(name, code, block, want, says)                                                      \
    do {                                                                                         \
        cleanup(bench) struct bench name = {0};                                                  \
        check_int(body(&name, code, block), want);                                               \
        check(strstr(name.finding.text, says) != NULL);                                          \
        if (name.finding.kind != (want) || !strstr(name.finding.text, says))                     \
            fprintf(stderr, "  %s: %s\n", code, name.finding.text);                              \
    } while (0)
#define FILL "st.shared.v4.u32 [%r4], {%r1,%r1,%r1,%r1}; bar.warp.sync -1;"
#define LD "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];"

static void misuse(void)
{
    BODY(a, FILL LD, 32, PTX_CLEAN, "");
    BODY(b, LD, 32, PTX_UNINITIALISED, "reads 16 bytes at offset 0 of shared");
    BODY(c, FILL "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4+16];", 32, PTX_OUT_OF_BOUNDS, "thread (31,0,0)");
    BODY(d, FILL "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5,%r6}, [%r4+256];", 32, PTX_CLEAN, ""); /* only 16 rows are read */
    BODY(e, FILL "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4+8];", 32, PTX_MISALIGNED, "not a multiple of 16");
    BODY(f, FILL "@%p1 " LD, 32, PTX_BARRIER, "never get to the same instruction");
    BODY(g, LD, 16, PTX_BARRIER, "only the lanes 0000ffff");
    BODY(h, "@%p2 bra A; bra E; A: " FILL LD "E:", 64, PTX_CLEAN, "");
    BODY(i, "@%p2 bra A; " LD " bra E; A: st.shared.v4.u32 [%r4], {%r1,%r1,%r1,%r1}; E:", 64, PTX_OUT_OF_BOUNDS, "of shared");
    BODY(k, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r1,%r1,%r1,%r1};", 32, PTX_RACE, "another lane of its warp writes a different one");
    BODY(l, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r4], {%r1,%r2,%r1,%r2}; bar.warp.sync -1; ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];"
            "setp.ne.u32 %p3, %r5, %r1; @%p3 trap; setp.ne.u32 %p3, %r8, %r2; @%p3 trap;", 32, PTX_CLEAN, "");
    BODY(m, "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r1; movmatrix.sync.aligned.m8n8.trans.b16 %r6, %r5; setp.ne.u32 %p3, %r6, %r1; @%p3 trap;", 32, PTX_CLEAN, "");
    BODY(n, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%f5,%f6,%f7,%f8};", 32, PTX_UNINITIALISED, "never wrote");
    BODY(o, "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, {%r1,%r1,%r1,%r1}, %r1, 0;", 32, PTX_UNSUPPORTED, "mma.sp.sync");
}

int main(void)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        one_form(&forms[i]);
    doubles();
    sums();
    misuse();
    kernels();
    return test_done();
}
