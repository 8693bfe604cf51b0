/* CUDA's own headers for asynchronous copies, barriers and clusters, as NVRTC compiles them: async.cu, against the same computed here. */
#include "tests/test_ptx.h"

enum { N = 1024 };
static int32_t ints[N * 4];

static bool ready(struct bench *b, const char *kernel, uint64_t seed, uint32_t grid, uint32_t block)
{
    if (!bench_file(b, "async.ptx", kernel))
        return false;
    for (int i = 0; i < N * 4; i++)
        ints[i] = (int32_t)((unsigned)i * 2654435761u >> 20);
    b->options.schedule_seed = seed;
    b->options.schedule = seed & 1 ? PTX_EXPLORE : PTX_LOCKSTEP;
    b->launch.grid[0] = grid;
    b->launch.block[0] = block;
    return true;
}

static bool runs(struct bench *b)
{
    check_int(bench_run(b), PTX_CLEAN);
    check_str(b->finding.text, "");
    return b->finding.kind == PTX_CLEAN;
}

static void barriers(uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(ready(&b, "barrier_tokens", seed, 1, 128));
    bench_buffer(&b, "x", 128 * 4, false, ints);
    const int32_t *y = bench_buffer(&b, "y", 128 * 4, true, NULL);
    bench_int(&b, 4);
    for (int t = 0; runs(&b) && t < 128; t++)
        check_int(y[t], 4 * ints[(t + 33) % 128] + 6);
    cleanup(bench) struct bench c = {0};
    check(ready(&c, "barrier_copies", seed, 3, 64));
    bench_buffer(&c, "x", 3 * 64 * 16, false, ints);
    const int32_t *z = bench_buffer(&c, "y", 3 * 64 * 16, true, NULL);
    for (int i = 0; runs(&c) && i < 3 * 64 * 4; i++)
        check_int(z[i], ints[(i / 256 * 64 + 63 - i / 4 % 64) * 4 + i % 4]);
}

static void copies(uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(ready(&b, "pipelined", seed, 1, 64));
    bench_buffer(&b, "x", 7 * 64 * 4, false, ints);
    const int32_t *y = bench_buffer(&b, "y", 64 * 4, true, NULL);
    bench_int(&b, 7);
    for (int t = 0; runs(&b) && t < 64; t++) {
        int32_t sum = 0;
        for (int tile = 0; tile < 7; tile++)
            sum += ints[tile * 64 + (t + 1) % 64];
        check_int(y[t], sum);
    }
    cleanup(bench) struct bench c = {0};
    check(ready(&c, "group_copies", seed, 1, 96));
    bench_buffer(&c, "x", 2 * 96 * 4, false, ints);
    const int32_t *z = bench_buffer(&c, "y", 96 * 4, true, NULL);
    for (int t = 0; runs(&c) && t < 96; t++)
        check_int(z[t], ints[95 - t] - ints[96 + 95 - t]);
}

static void clusters(uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(ready(&b, "cluster_histogram", seed, 2, 64));
    int32_t want[128] = {0}, zero[128] = {0};
    for (int i = 0; i < 700; i++)
        want[ints[i] & 127]++;
    bench_buffer(&b, "x", 700 * 4, false, ints);
    const int32_t *bins = bench_buffer(&b, "bins", sizeof zero, true, zero);
    bench_int(&b, 700);
    check(runs(&b) && !memcmp(bins, want, sizeof want));
    cleanup(bench) struct bench c = {0};
    check(ready(&c, "cluster_ring", seed, 8, 32));
    c.launch.cluster[0] = 4;
    float x[128];
    for (int i = 0; i < 128; i++)
        x[i] = (float)(i * i % 97);
    bench_buffer(&c, "x", sizeof x, false, x);
    const float *y = bench_buffer(&c, "y", 32, true, NULL);
    for (int i = 0; runs(&c) && i < 8; i++) {
        float sum = 0;
        for (int k = 0; k < 32; k++)
            sum += x[(i + 1) % 4 * 32 + k];
        check(y[i] == sum);
    }
}

static void bulks(uint64_t seed)
{
    cleanup(bench) struct bench b = {0};
    check(ready(&b, "bulk_scale", seed, 3, 64));
    float x[3 * 256];
    for (int i = 0; i < 3 * 256; i++)
        x[i] = (float)i;
    bench_buffer(&b, "x", sizeof x, false, x);
    const float *y = bench_buffer(&b, "y", sizeof x, true, NULL);
    bench_int(&b, 256);
    for (int i = 0; runs(&b) && i < 3 * 256; i++)
        check(y[i] == x[i] * 2);
}

static void functions(uint64_t seed)
{
    static const int fibonacci[10] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34};
    cleanup(bench) struct bench b = {0};
    check(ready(&b, "functions", seed, 1, 64));
    bench_buffer(&b, "x", 64 * 4, false, ints);
    const int32_t *y = bench_buffer(&b, "y", 64 * 4, true, NULL);
    for (int i = 0; runs(&b) && i < 64; i++)
        check_int(y[i], (ints[i] & 1 ? ints[i] * 2 : ints[i] * ints[i]) + fibonacci[ints[i] % 10]);
}

int main(void)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        barriers(seed);
        copies(seed);
        clusters(seed);
        bulks(seed);
        functions(seed);
    }
    return test_done();
}
