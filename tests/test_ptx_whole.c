/* What a warp does all together goes by short paths: they give the same values, counts and findings as lane by lane. */
#include "tests/test_ptx.h"

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"
#define REGISTERS ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<24>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<24>;\n"
#define REGISTERS_F ".reg .pred %%p<8>;\n.reg .b16 %%h<8>;\n.reg .b32 %%r<24>;\n.reg .f32 %%f<16>;\n.reg .b64 %%rd<24>;\n"   /* in a format */

static bool begin(struct bench *b, const char *text)
{
    const bool parses = bench_text(b, text);
    check(parses);
    return parses;
}

/* Thread t copies item (t * 7 + 3) % 32 of `in` to item t of `out`; four words for each of its registers. */
struct form { const char *load, *store; unsigned bytes; };
static const struct form forms[] = {
    {"ld.global.u16 %h1, [%rd5];", "st.global.u16 [%rd6], %h1;", 2},
    {"ld.global.u32 %r1, [%rd5];", "st.global.u32 [%rd6], %r1;", 4},
    {"ld.global.u64 %rd7, [%rd5];", "st.global.u64 [%rd6], %rd7;", 8},
    {"ld.global.v2.u32 {%r1, %r2}, [%rd5];", "st.global.v2.u32 [%rd6], {%r1, %r2};", 8},
    {"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd5];", "st.global.v4.u32 [%rd6], {%r1, %r2, %r3, %r4};", 16},
    {"ld.global.v2.u64 {%rd7, %rd8}, [%rd5];", "st.global.v2.u64 [%rd6], {%rd7, %rd8};", 16},
    {"ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd5];", "st.global.v4.u16 [%rd6], {%h1, %h2, %h3, %h4};", 8},
};

static void spread_text(const struct form *f, unsigned stride, char *to, size_t size)
{
    snprintf(to, size,
             HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" REGISTERS_F
                  "ld.param.u64 %%rd1, [in];\nld.param.u64 %%rd2, [out];\ncvta.to.global.u64 %%rd1, %%rd1;\ncvta.to.global.u64 %%rd2, %%rd2;\n"
                  "mov.u32 %%r10, %%tid.x;\nmad.lo.s32 %%r11, %%r10, 7, 3;\nand.b32 %%r11, %%r11, 31;\n"
                  "mul.wide.u32 %%rd3, %%r11, %u;\nmul.wide.u32 %%rd4, %%r10, %u;\nadd.s64 %%rd5, %%rd1, %%rd3;\nadd.s64 %%rd6, %%rd2, %%rd4;\n"
                  "%s\n%s\nret;\n}\n",
             stride, f->bytes, f->load, f->store);
}

static uint64_t lane_place(unsigned lane) { return (lane * 7 + 3) % 32; }

static void scattered_loads_bring_what_is_there(void)
{
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        for (unsigned gap = 1; gap <= 4; gap += 3) {
            const unsigned stride = forms[n].bytes * gap;
            char text[2048];
            cleanup(bench) struct bench b = {0};
            spread_text(&forms[n], stride, text, sizeof text);
            if (!begin(&b, text))
                continue;
            uint8_t in[32 * 64];
            for (size_t i = 0; i < sizeof in; i++)
                in[i] = (uint8_t)(i * 37 + i / 256);
            bench_buffer(&b, "in", 32ul * stride, false, in);
            const uint8_t *out = bench_buffer(&b, "out", 32ul * forms[n].bytes, true, NULL);
            check(bench_run(&b) == PTX_CLEAN);
            bool right = true, seen[64] = {false};
            unsigned sectors = 0;
            for (unsigned l = 0; l < 32; l++) {
                right &= !memcmp(out + l * forms[n].bytes, in + lane_place(l) * stride, forms[n].bytes);
                const uint64_t sector = lane_place(l) * stride / 32;
                sectors += !seen[sector];
                seen[sector] = true;
            }
            check(right);
            check(b.counts.global_load_sectors == sectors && b.counts.unique_load_sectors == sectors && b.counts.global_load_requests == 1);
            check(b.counts.global_load_bytes == 32 * forms[n].bytes);
            check(all_written(&b, 1));
        }
}

static void one_lane_of_a_scattered_load_is_found(void)
{
    for (size_t n = 0; n < sizeof forms / sizeof *forms; n++)
        for (int wrong = 0; wrong < 2; wrong++) {
            const unsigned bytes = forms[n].bytes;
            char text[2048];
            cleanup(bench) struct bench b = {0};
            spread_text(&forms[n], bytes, text, sizeof text);
            if (!begin(&b, text))
                continue;
            const uint8_t zeros[32 * 16] = {0};
            bench_buffer(&b, "in", wrong ? 32ul * bytes : 31ul * bytes + bytes / 2, false, zeros);
            bench_buffer(&b, "out", 32ul * bytes, true, NULL);
            if (wrong) /* the last byte of place 9 was never written */
                b.buffers[0].initialised[(10 * bytes - 1) / 8] &= (uint8_t)~(1u << (10 * bytes - 1) % 8);
            check(bench_run(&b) == (wrong ? PTX_UNINITIALISED : PTX_OUT_OF_BOUNDS));
            const uint64_t place = wrong ? 9 : 31;
            check(b.finding.offset_bytes == (int64_t)(place * bytes) && lane_place(b.finding.thread[0]) == place && b.finding.access_bytes == bytes);
        }
}

/* Two warps; warp 0 fills a row of shared memory; `before` and `after` a write of it by warp 0 between two reads by warp 1. */
static enum ptx_finding_kind rows(const char *before, const char *after, uint64_t seed)
{
    char text[2048];
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 out)\n{\n" REGISTERS_F ".shared .align 128 .b8 s[128];\n"
                  "ld.param.u64 %%rd1, [out];\nmov.u32 %%r1, %%tid.x;\nand.b32 %%r2, %%r1, 31;\nshl.b32 %%r3, %%r2, 2;\nmov.u32 %%r4, s;\n"
                  "add.s32 %%r5, %%r4, %%r3;\nsetp.gt.u32 %%p1, %%r1, 31;\n"
                  "@%%p1 bra A;\nst.shared.u32 [%%r5], %%r1;\nA:\nbar.sync 0;\n"
                  "@!%%p1 bra B;\nld.shared.u32 %%r6, [%%r5];\nld.shared.u32 %%r7, [%%r5];\nld.shared.u32 %%r8, [%%r5];\nB:\n%s\n"
                  "@%%p1 bra C;\nst.shared.u32 [%%r5], %%r2;\nC:\n%s\n"
                  "@!%%p1 bra D;\nld.shared.u32 %%r9, [%%r5];\nmul.wide.u32 %%rd2, %%r3, 1;\nadd.s64 %%rd3, %%rd1, %%rd2;\nst.global.u32 [%%rd3], %%r9;\nD:\nret;\n}\n",
             before, after);
    cleanup(bench) struct bench b = {0};
    if (!begin(&b, text))
        return PTX_SYNTAX;
    b.launch.block[0] = 64;
    b.options.schedule_seed = seed;
    bench_buffer(&b, "out", 128, true, NULL);
    return bench_run(&b);
}

static void rows_read_again_are_still_watched(void)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        check(rows("bar.sync 0;", "bar.sync 0;", seed) == PTX_CLEAN);
        check(rows("", "bar.sync 0;", seed) == PTX_RACE);
        check(rows("bar.sync 0;", "", seed) == PTX_RACE);
    }
}

static void an_address_that_changes_is_looked_at_again(void)
{
    cleanup(bench) struct bench b = {0};
    if (!begin(&b, HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" REGISTERS
                                   "ld.param.u64 %rd1, [in];\nld.param.u64 %rd2, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd3, %r1, 4;\n"
                                   "add.s64 %rd4, %rd1, %rd3;\nadd.s64 %rd5, %rd2, %rd3;\nld.global.u32 %r2, [%rd4];\nld.global.u32 %r3, [%rd4+128];\n"
                                   "add.s64 %rd4, %rd4, 256;\nld.global.u32 %r4, [%rd4];\nsub.s64 %rd4, %rd4, %rd3;\nld.global.u32 %r5, [%rd4];\n"
                                   "st.global.u32 [%rd5], %r2;\nst.global.u32 [%rd5+128], %r3;\nst.global.u32 [%rd5+256], %r4;\n"
                                   "st.global.u32 [%rd5+384], %r5;\nret;\n}\n"))
        return;
    uint32_t in[96];
    for (uint32_t i = 0; i < 96; i++)
        in[i] = i * i + 1;
    bench_buffer(&b, "in", sizeof in, false, in);
    const uint32_t *out = bench_buffer(&b, "out", 512, true, NULL);
    check(bench_run(&b) == PTX_CLEAN);
    for (uint32_t l = 0; l < 32; l++)
        check(out[l] == in[l] && out[32 + l] == in[32 + l] && out[64 + l] == in[64 + l] && out[96 + l] == in[64]);
}

/* A butterfly of sums, as compilers write a warp's sum; `threads` of the warp do it, the others are not there. */
static void sums_of_a_warp(unsigned threads)
{
    char text[4096], mask[16];
    snprintf(mask, sizeof mask, "%u", threads == 32 ? ~0u : (1u << threads) - 1);
    size_t n = (size_t)snprintf(text, sizeof text, HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" REGISTERS_F
                                "ld.param.u64 %%rd1, [in];\nld.param.u64 %%rd2, [out];\nmov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd3, %%r1, 4;\n"
                                "add.s64 %%rd4, %%rd1, %%rd3;\nadd.s64 %%rd5, %%rd2, %%rd3;\nld.global.f32 %%f1, [%%rd4];\n");
    for (int step = 0; step < 5; step++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "mov.b32 %%r%d, %%f%d;\nshfl.sync.bfly.b32 %%r%d|%%p%d, %%r%d, %d, 31, %s;\nmov.b32 %%f%d, %%r%d;\nadd.f32 %%f%d, %%f%d, %%f%d;\n",
                              2 + 2 * step, 1 + 2 * step, 3 + 2 * step, 1 + step, 2 + 2 * step, 16 >> step, mask, 2 + 2 * step, 3 + 2 * step, 3 + 2 * step,
                              1 + 2 * step, 2 + 2 * step);
    snprintf(text + n, sizeof text - n, "st.global.f32 [%%rd5], %%f11;\nst.global.f32 [%%rd5+128], %%f2;\nst.global.f32 [%%rd5+256], %%f5;\nret;\n}\n");
    cleanup(bench) struct bench b = {0};
    if (!begin(&b, text))
        return;
    float in[32], now[32], partner[32] = {0}, second[32] = {0};
    uint64_t seed = 9;
    for (int l = 0; l < 32; l++)
        now[l] = in[l] = uniform(&seed) * 100;
    b.launch.block[0] = threads;
    bench_buffer(&b, "in", sizeof in, false, in);
    const float *out = bench_buffer(&b, "out", 384, true, NULL);
    check(bench_run(&b) == PTX_CLEAN);
    for (int l = 0; l < 32; l++)
        partner[l] = in[l ^ 16];
    for (int step = 0; step < 5; step++) {
        float then[32];
        for (int l = 0; l < 32; l++)
            then[l] = now[l] + now[l ^ (16 >> step)];
        memcpy(now, then, sizeof now);
        if (step == 1)
            memcpy(second, now, sizeof second);
    }
    for (unsigned l = 0; l < 32 && threads == 32; l++)
        check(out[l] == now[l] && out[32 + l] == partner[l] && out[64 + l] == second[l]);
    check(b.counts.shuffles == 5);
}

int main(void)
{
    static const char *const lanes[] = {"avx512", "avx2", "baseline"};
    for (size_t n = 0; n < sizeof lanes / sizeof *lanes; n++) {
        setenv("PROTEUS_PTX_LANES", lanes[n], 1);
        scattered_loads_bring_what_is_there();
        one_lane_of_a_scattered_load_is_found();
        rows_read_again_are_still_watched();
        an_address_that_changes_is_looked_at_again();
        sums_of_a_warp(32);
        sums_of_a_warp(16);
    }
    return test_done();
}
