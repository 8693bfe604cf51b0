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

/* The same by hand, and what is wrong with a call. */
#define CALLS ".version 9.0\n.target sm_90a\n.address_size 64\n.func (.param .b32 r) down(.param .b32 a) { .reg .b32 %%r<6>; .reg .b64 %%rd<3>; .reg .pred %%p<3>; ld.param.b32 %%r1, [a]; cvt.u64.u32 %%rd1, %%r1; " \
    "mov.b32 %%r3, 1; setp.lt.s32 %%p1, %%r1, 1; @%%p1 bra END; sub.u32 %%r2, %%r1, 1; { .param .b32 q; .param .b32 s; st.param.b32 [q], %%r2; call (s), down, (q); ld.param.b32 %%r3, [s]; }" \
    "cvt.u32.u64 %%r4, %%rd1; add.u32 %%r3, %%r3, %%r4; END: st.param.b32 [r], %%r3; ret; }\n" \
    ".visible .entry k(.param .u64 y) { .reg .b32 %%r<6>; .reg .b64 %%rd<6>; mov.u32 %%r1, %%tid.x; ld.param.u64 %%rd1, [y]; mul.wide.u32 %%rd2, %%r1, 4; add.s64 %%rd1, %%rd1, %%rd2; and.b32 %%r2, %%r1, %d; %s" \
    "{ .param .b32 q; .param .b32 s; st.param.b32 [q], %%r2; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (s), %s, (q)%s; ld.param.b32 %%r3, [s]; } st.global.u32 [%%rd1], %%r3; ret; }"
static enum ptx_finding_kind calls(struct bench *b, int most, const char *before, const char *target, const char *after, uint64_t seed)
{
    char text[4096];
    snprintf(text, sizeof text, CALLS, most, before, target, after);
    check(bench_text(b, text));
    bench_buffer(b, "y", 128, true, NULL);
    b->options.schedule_seed = seed;
    b->options.schedule = seed & 1 ? PTX_EXPLORE : PTX_LOCKSTEP;
    return bench_run(b);
}

static void calls_by_hand(void)
{
    for (uint64_t seed = 0; seed < 4; seed++)
        for (int by_register = 0; by_register < 2; by_register++) {
            cleanup(bench) struct bench b = {0};
            check_int(calls(&b, 15, by_register ? "mov.u64 %rd4, down;" : "", by_register ? "%rd4" : "down", by_register ? ", P" : "", seed), PTX_CLEAN);
            check_str(b.finding.text, "");
            for (int t = 0; t < 32; t++)
                check_int(((int32_t *)b.buffers[0].data)[t], (t & 15) * ((t & 15) + 1) / 2 + 1);
        }
    cleanup(bench) struct bench deep = {0}, odd = {0}, none = {0};
    check_int(calls(&deep, 15, "mov.u32 %r2, 1000;", "down", "", 0), PTX_UNSUPPORTED);
    check(strstr(deep.finding.text, "more than 32 deep") != NULL);
    check_int(calls(&odd, 15, "mov.u64 %rd4, down; add.u64 %rd4, %rd4, 8;", "%rd4", ", P", 0), PTX_TRAP);
    check_int(calls(&none, 15, "mov.u64 %rd4, 0;", "%rd4", ", P", 0), PTX_TRAP);
}

int main(void)
{
    calls_by_hand();
    for (uint64_t seed = 0; seed < 6; seed++) {
        barriers(seed);
        copies(seed);
        clusters(seed);
        bulks(seed);
        functions(seed);
    }
    return test_done();
}
