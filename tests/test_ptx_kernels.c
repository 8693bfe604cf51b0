/* Whole kernels as NVRTC made them, against the same computed here. Each runs under several warp orders and thread counts. */
#include "tests/ptx_gdn.h"

static void gdn(const char *file, int batch, int h, int hv, int threads, uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    struct gdn g;
    check(gdn_setup_file(file, &b, &g, batch, h, hv));
    b.options.limits.threads = threads;
    b.options.schedule_seed = seed;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    double state, out;
    gdn_compare(&b, &g, &state, &out);
    check(state < 2e-6);
    check(out < 1.5);
    check(all_written(&b, 7));
    check_int(b.counts.blocks, (long long)(GDN_V / 16) * hv * batch);
    check_int(b.counts.warps, 4ll * (GDN_V / 16) * hv * batch);
    /* the state is read and written once: its sectors, and the inputs' */
    const int live = batch > 2 ? batch - 1 : batch;
    const long long state_sectors = (long long)live * hv * GDN_V * GDN_K * 4 / 32;
    check_int(b.counts.unique_store_sectors, state_sectors + (long long)batch * hv * GDN_V * 2 / 32);
    check((long long)b.counts.unique_load_sectors > state_sectors && (long long)b.counts.unique_load_sectors < state_sectors * 5 / 4 + 64);
    check_int(b.counts.barriers, 0);
    check(b.counts.dependent_loads >= 2 && b.counts.dependent_loads <= 7);
    free(g.before);
}

static void rmsnorm(int rows, int n, int threads_block, uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "rmsnorm.ptx", "rmsnorm"));
    uint64_t random = 3;
    uint16_t *x = xarray((size_t)rows * (size_t)n, 2), *w = xarray((size_t)n, 2);
    for (int i = 0; i < rows * n; i++)
        x[i] = float_to_bf16(uniform(&random) * 4);
    for (int i = 0; i < n; i++)
        w[i] = float_to_bf16(uniform(&random));
    bench_buffer(&b, "x", (size_t)rows * (size_t)n * 2, false, x);
    bench_buffer(&b, "w", (size_t)n * 2, false, w);
    const uint16_t *out = bench_buffer(&b, "out", (size_t)rows * (size_t)n * 2, true, NULL);
    bench_int(&b, (uint32_t)n);
    bench_float(&b, 1e-6f);
    b.launch.grid[0] = (uint32_t)rows;
    b.launch.block[0] = (uint32_t)threads_block;
    b.options.schedule_seed = seed;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += (double)bf16_to_float(x[r * n + i]) * bf16_to_float(x[r * n + i]);
        for (int i = 0; i < n; i++) {
            const double want = bf16_to_float(x[r * n + i]) / sqrt(sum / n + 1e-6) * bf16_to_float(w[i]);
            wrong += fabs(want - bf16_to_float(out[r * n + i])) > fabs(want) / 200 + 1e-6;
        }
    }
    check_int(wrong, 0);
    check_int(b.counts.barriers, 2ll * rows * ((threads_block + 31) / 32));
    free(x), free(w);
}

static int collatz(unsigned n)
{
    int steps = 0;
    for (; n > 1; steps++)
        n = n & 1 ? 3 * n + 1 : n / 2;
    return steps;
}

static int divergent_one(int v)
{
    int r = 0;
    if (v & 1) {
        for (int j = 0; j < v % 17; j++) {
            if (j % 3 == 2)
                continue;
            if (r > 1000)
                break;
            r += j * v;
        }
    } else if (v & 2) {
        r = v > 50 ? v / 7 : v * 3;
    } else {
        switch (v % 11) {
        case 0: r = 5; break;
        case 1: r = v ^ 77; break;
        case 2: r = v * 8; break;
        case 4: r = __builtin_popcount((unsigned)v) - 9; break;
        case 5: r = v ? __builtin_clz((unsigned)v) : 32; break;
        case 6: r = v * v; break;
        case 8: r = v % 5 - 2; break;
        case 9: r = -v; break;
        default: r = 1; break;
        }
    }
    return r + collatz(v & 63);
}

static void divergent(int n, int threads_block, uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "divergent.ptx", "divergent"));
    int in[1000];
    for (int i = 0; i < n; i++)
        in[i] = (int)((unsigned)i * 2654435761u >> 22);
    bench_buffer(&b, "in", (size_t)n * 4, false, in);
    const int *out = bench_buffer(&b, "out", (size_t)n * 4, true, NULL);
    bench_int(&b, (uint32_t)n);
    b.launch.block[0] = (uint32_t)threads_block;
    b.launch.grid[0] = (uint32_t)((n + threads_block - 1) / threads_block);
    b.options.schedule_seed = seed;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        const int start = i / threads_block * threads_block, other = start + (i - start + 33) % threads_block;
        wrong += out[i] != divergent_one(in[i]) + divergent_one(other < n ? in[other] : 0);
    }
    check_int(wrong, 0);
}

static void histogram(int threads)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "histogram.ptx", "histogram"));
    enum { N = 5000 };
    uint8_t in[N];
    uint32_t want[256] = {0}, zero[256] = {0};
    double total = 0;
    for (int i = 0; i < N; i++) {
        in[i] = (uint8_t)((unsigned)i * 2654435761u >> 24);
        want[in[i]]++;
        total += in[i];
    }
    const float none = 0;
    bench_buffer(&b, "in", N, false, in);
    const uint32_t *out = bench_buffer(&b, "out", sizeof want, true, zero);
    const float *sum = bench_buffer(&b, "total", 4, true, &none);
    bench_int(&b, N);
    b.launch.grid[0] = 6;
    b.launch.block[0] = 96;
    b.options.limits.threads = threads;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    check(!memcmp(out, want, sizeof want));
    check(fabs(*sum - total) < 1);
    check(b.counts.atomics >= 2 * N);
}

static void cp_async(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "cp_async.ptx", "scale_async"));
    enum { THREADS = 64, TILES = 5, BLOCKS = 3, N = THREADS * TILES * BLOCKS * 4 };
    static float in[N];
    uint64_t random = 9;
    for (int i = 0; i < N; i++)
        in[i] = uniform(&random);
    bench_buffer(&b, "in", sizeof in, false, in);
    const float *out = bench_buffer(&b, "out", sizeof in, true, NULL);
    bench_float(&b, 3.0f);
    bench_int(&b, TILES);
    b.launch.grid[0] = BLOCKS;
    b.launch.block[0] = THREADS;
    b.launch.dynamic_shared_bytes = THREADS * 16 * 2;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int i = 0; i < N; i++) {
        const int vec = i / 4, tile = vec / THREADS, t = vec % THREADS;
        wrong += out[i] != in[(tile * THREADS + (t ^ 1)) * 4 + i % 4] * 3.0f;
    }
    check_int(wrong, 0);
    b.launch.dynamic_shared_bytes -= 16; /* one slot short */
    check_int(bench_run(&b), PTX_OUT_OF_BOUNDS);
    check_str(b.finding.buffer, "shared");
}

static float half_round(float x) /* to 11 bits of significand; no subnormals here */
{
    int e;
    const float m = frexpf(x, &e);
    return ldexpf(rintf(m * 2048) / 2048, e);
}

static void math(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "math.ptx", "math"));
    enum { N = 256, F = 40 };
    float in[N];
    uint64_t random = 5;
    for (int i = 0; i < N; i++)
        in[i] = i == 0 ? 0.5f : i == 1 ? -3.25f : i == 2 ? 200000.0f : uniform(&random) * (i % 3 ? 3.0f : 40.0f);
    bench_buffer(&b, "in", sizeof in, false, in);
    const float *out = bench_buffer(&b, "out", (size_t)N * F * 4, true, NULL);
    bench_int(&b, N);
    b.launch.block[0] = 64;
    b.launch.grid[0] = 4;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    for (int i = 0; i < N; i++) {
        const float x = in[i];
        const float *o = out + i * F;
        const double d = x, a = fabs(d);
        const double want[F] = {exp(d), exp(d), log(a), log1p(a), 1 / sqrt(a), sqrt(a), tanh(d), sin(d), cos(d), erf(d), pow(a, 1.7f),
                                exp2(d), log2(a), 1 / d, 1 / d, d / 3, floor(d), rint(d), trunc(d), fmod(d, 0.7f), trunc(d), trunc(a),
                                half_round(x), bf16_to_float(float_to_bf16(x)), d * 1.1 + 0.25, exp(d * 0.01), sqrt(a),
                                exp(half_round(x * 0.1f)), bf16_to_float(float_to_bf16(bf16_to_float(float_to_bf16(x)) * 1.5f)),
                                half_round(fmaf(half_round(x), 1.5f, 0.5f)), fmin(d, 1) + fmax(d, -1), copysign(2, d), d * 8, cbrt(d),
                                sinh(x * 0.1f), atan(d), d + 0.1f, d * 0.1f, d / (1 + exp(-d)), d * d + 0.5};
        for (int f = 0; f < F; f++) {
            if (i == 2 && (f == 22 || f == 27 || f == 29)) { /* past f16 */
                check(isinf(o[f]));
                continue;
            }
            const double w = (float)want[f];
            const double loose = f == 27 || f == 22 || f == 29 ? 2e-3 : f == 23 || f == 28 ? 8e-3 : 4e-6;
            const bool ok = isinf(w) ? isinf(o[f]) : fabs(o[f] - w) <= loose * fabs(w) + 1e-6;
            if (!ok)
                fprintf(stderr, "x %g function %d: got %.9g, wanted %.9g\n", (double)x, f, (double)o[f], w);
            check(ok);
        }
    }
}

/* ---- more.cu ---- */
static float e4m3(uint8_t v)
{
    const int e = v >> 3 & 15, m = v & 7;
    const float r = e ? ldexpf(1 + m / 8.0f, e - 7) : ldexpf((float)m, -9);
    return v & 128 ? -r : r;
}

static void quant_fp8(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "more.ptx", "quant_fp8"));
    enum { ROWS = 3, N = 640 };
    uint16_t x[ROWS * N];
    uint64_t random = 11;
    for (int i = 0; i < ROWS * N; i++)
        x[i] = float_to_bf16(uniform(&random) * 5);
    bench_buffer(&b, "x", sizeof x, false, x);
    const uint8_t *q = bench_buffer(&b, "q", ROWS * N, true, NULL);
    const float *scale = bench_buffer(&b, "scale", ROWS * 4, true, NULL);
    bench_int(&b, N);
    b.launch.grid[0] = ROWS;
    b.launch.block[0] = 128;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < N; i++) {
            const float want = bf16_to_float(x[r * N + i]) / scale[r], got = e4m3(q[r * N + i]);
            /* nothing in e4m3 is nearer */
            const float up = e4m3((uint8_t)(q[r * N + i] + 1)), down = e4m3((uint8_t)(q[r * N + i] - 1));
            const float e = fabsf(got - want) * 0.999f;
            wrong += (q[r * N + i] & 127) < 126 && (e > fabsf(up - want) || ((q[r * N + i] & 127) && e > fabsf(down - want)));
            wrong += fabsf(got) > 448.1f;
        }
    check_int(wrong, 0);
}

static void topk(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "more.ptx", "topk"));
    enum { ROWS = 4, N = 256, K = 8 };
    uint16_t x[ROWS * N];
    uint64_t random = 12;
    for (int i = 0; i < ROWS * N; i++)
        x[i] = float_to_bf16(uniform(&random) * 4);
    bench_buffer(&b, "x", sizeof x, false, x);
    const float *weight = bench_buffer(&b, "weight", ROWS * K * 4, true, NULL);
    const int *index = bench_buffer(&b, "index", ROWS * K * 4, true, NULL);
    bench_int(&b, N);
    bench_int(&b, K);
    b.launch.grid[0] = ROWS;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        bool used[N] = {0};
        for (int i = 0; i < N; i++)
            sum += exp(bf16_to_float(x[r * N + i]));
        for (int k = 0; k < K; k++) {
            int at = -1;
            for (int i = 0; i < N; i++)
                if (!used[i] && (at < 0 || bf16_to_float(x[r * N + i]) > bf16_to_float(x[r * N + at])))
                    at = i;
            used[at] = true;
            const double want = exp(bf16_to_float(x[r * N + at])) / sum;
            wrong += index[r * K + k] != at || fabs(weight[r * K + k] - want) > 1e-5 * want;
        }
    }
    check_int(wrong, 0);
}

static int64_t mulhi(int32_t a, int32_t c) { return (int32_t)(((int64_t)a * c) >> 32); }
static int64_t integers_one(int64_t x, uint32_t y)
{
    __extension__ typedef unsigned __int128 wide;
    const uint32_t xl = (uint32_t)x;
    uint64_t r = (uint64_t)(x / 7 + x % (int64_t)(y | 1));
    uint32_t reversed = 0, bytes = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (y >> i & 1) << (31 - i);
    const uint64_t both = xl | (uint64_t)y << 32;
    for (int i = 0; i < 4; i++)
        bytes |= (uint32_t)(both >> (8 * (7 - 2 * i)) & 255) << (8 * i);
    int32_t dot = 5;
    for (int i = 0; i < 4; i++)
        dot += (int8_t)(xl >> (8 * i)) * (int8_t)(y >> (8 * i));
    r = r * 31 + (uint64_t)mulhi((int32_t)xl, (int32_t)y);
    r = r * 31 + (uint64_t)(((wide)(uint64_t)x * y) >> 64);
    r = r * 31 + (uint64_t)(int64_t)((x ? __builtin_clzll((uint64_t)x) : 64) + (y ? __builtin_ctz(y) + 1 : 0) + __builtin_popcountll((uint64_t)x));
    r = r * 31 + reversed;
    r = r * 31 + bytes;
    r = r * 31 + (y << 5 | xl >> 27);
    r = r * 31 + (uint64_t)(int64_t)dot;
    r = r * 31 + (uint64_t)((x >> (y & 63)) + (int8_t)x + (int16_t)y);
    r = r * 31 + (uint64_t)(uint32_t)(((int32_t)xl < 5 ? xl : 5) + (xl > y ? xl : y));
    return (int64_t)r;
}

static void integers(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "more.ptx", "integers"));
    enum { N = 200 };
    int64_t a[N];
    uint32_t y[N];
    uint64_t random = 13;
    for (int i = 0; i < N; i++) {
        uniform(&random);
        a[i] = i == 0 ? 0 : i == 1 ? INT64_MIN : i == 2 ? -1 : (int64_t)random >> (i % 50);
        uniform(&random);
        y[i] = i < 3 ? (uint32_t)i * 0x80000000u : (uint32_t)(random >> 32) >> (i % 30);
    }
    bench_buffer(&b, "a", sizeof a, false, a);
    bench_buffer(&b, "b", sizeof y, false, y);
    const int64_t *o = bench_buffer(&b, "o", sizeof a, true, NULL);
    bench_int(&b, N);
    b.launch.grid[0] = 4;
    b.launch.block[0] = 64;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += o[i] != integers_one(a[i], y[i]);
    check_int(wrong, 0);
}

static void stack_and_doubles(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "more.ptx", "stack"));
    int a[64 * 32];
    for (int i = 0; i < 64 * 32; i++)
        a[i] = (int)((unsigned)i * 2654435761u >> 26);
    bench_buffer(&b, "a", sizeof a, false, a);
    const int *o = bench_buffer(&b, "o", 128, true, NULL);
    bench_int(&b, 100);
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    int wrong = 0;
    for (int t = 0; t < 32; t++) {
        int v[64];
        for (int i = 0; i < 64; i++)
            v[i] = a[i * 32 + t];
        for (int i = 0; i < 100; i++)
            v[v[i & 63] & 63] += i;
        wrong += o[t] != v[100 & 63];
    }
    check_int(wrong, 0);
    cleanup(bench) struct bench e = {0};
    check(bench_file(&e, "more.ptx", "doubles"));
    double x[32];
    for (int i = 0; i < 32; i++)
        x[i] = 0.1 + i * 0.37;
    bench_buffer(&e, "a", sizeof x, false, x);
    const double *r = bench_buffer(&e, "o", 32 * 8 * 8, true, NULL);
    check_int(bench_run(&e), PTX_CLEAN);
    check_str(e.finding.text, "");
    for (int i = 0; i < 32; i++) {
        const double want[8] = {exp(x[i]), log(x[i]), sin(x[i]), pow(x[i], 1.5), fmod(x[i], 0.3), atan2(x[i], 2), tanh(x[i]), cbrt(x[i])};
        for (int k = 0; k < 8; k++)
            check(fabs(r[i * 8 + k] - want[k]) <= 4e-15 * fabs(want[k]) + 1e-15);
    }
}

static void between_blocks(void)
{
    cleanup(bench) struct bench b = {0}, c = {0};
    check(bench_file(&b, "more.ptx", "grid_sync"));
    const int zero = 0;
    bench_buffer(&b, "count", 4, true, &zero);
    const int *seen = bench_buffer(&b, "seen", 5 * 4, true, NULL);
    b.launch.grid[0] = 5;
    b.launch.block[0] = 64;
    b.launch.cooperative = true;
    check_int(bench_run(&b), PTX_CLEAN);
    for (int i = 0; i < 5; i++)
        check_int(seen[i], 5);
    b.launch.cooperative = false; /* there is no workspace then, and the library traps */
    check_int(bench_run(&b), PTX_TRAP);
    check(bench_file(&c, "more.ptx", "last_block"));
    bench_buffer(&c, "part", 7 * 32 * 4, true, NULL);
    const float *out = bench_buffer(&c, "out", 32 * 4, true, NULL);
    bench_buffer(&c, "count", 4, true, &zero);
    c.launch.grid[0] = 7;
    check_int(bench_run(&c), PTX_CLEAN);
    check_str(c.finding.text, "");
    for (int t = 0; t < 32; t++)
        check(out[t] == (float)(7 * t + 21));
}

static void pairs(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_file(&b, "more.ptx", "pairs"));
    uint16_t a[128], c[128];
    for (int i = 0; i < 128; i++)
        a[i] = (uint16_t)(0x3800 + i * 7), c[i] = (uint16_t)(0x3f00 + i);
    bench_buffer(&b, "a", sizeof a, false, a);
    bench_buffer(&b, "b", sizeof c, false, c);
    bench_buffer(&b, "o", sizeof a, true, NULL);
    const uint16_t *p = bench_buffer(&b, "p", sizeof a, true, NULL);
    bench_int(&b, 64);
    b.launch.block[0] = 64;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    for (int i = 0; i < 64; i++) {
        bool both = true;
        float y[2];
        for (int h = 0; h < 2; h++) {
            const float v = bf16_to_float(c[i * 2 + h]);
            y[h] = bf16_to_float(float_to_bf16(v * v + v)); /* exact in float */
            y[h] = bf16_to_float(float_to_bf16(y[h] * bf16_to_float(c[h])));
            both &= y[h] > bf16_to_float(c[2 + h]);
        }
        for (int h = 0; h < 2; h++)
            check_int(p[i * 2 + h], float_to_bf16(both ? y[h] - bf16_to_float(c[2 + h]) : y[h]));
    }
}

int main(void)
{
    quant_fp8();
    topk();
    integers();
    stack_and_doubles();
    between_blocks();
    pairs();
    gdn("gdn_decode.ptx", 3, 2, 4, 1, 0);
    gdn("gdn_decode.ptx", 4, 1, 1, 2, 77);
    gdn("gdn_decode_fast.ptx", 2, 1, 2, 1, 5);
    rmsnorm(3, 2048, 256, 0);
    rmsnorm(2, 1000, 128, 1);
    rmsnorm(1, 24, 48, 5);
    for (uint64_t seed = 0; seed < 4; seed++) {
        divergent(1000, 256, seed);
        divergent(777, 128, seed);
        divergent(50, 40, seed);
    }
    histogram(1);
    histogram(3);
    cp_async();
    math();
    return test_done();
}
