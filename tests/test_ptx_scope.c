/*
 * For whom a fence, a release or an acquire is: one for the block alone orders nothing between blocks. Block 0 writes and raises a flag,
 * block 1 waits for it and reads; within a block the same between two warps, through shared memory's flag.
 */
#include "tests/test_ptx.h"

#include <string.h>

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"

/* Warp 1 of block 0 writes data; `between` is done by both its warps, then thread 0 does `raise`; block 1 does `wait`, and reads. */
#define BETWEEN_BLOCKS(between, raise, wait) HEAD                                                                              \
    ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 out)\n{\n"                                               \
    "  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"                                                                   \
    "  ld.param.u64 %d1, [data];\n  ld.param.u64 %d2, [flag];\n  ld.param.u64 %d3, [out];\n"                                    \
    "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n  setp.ne.u32 %p1, %r2, 0;\n  @%p1 bra second;\n"                        \
    "  setp.eq.u32 %p2, %r1, 32;\n  @%p2 st.global.u32 [%d1], 42;\n" between                                                    \
    "  setp.ne.u32 %p3, %r1, 0;\n  @%p3 ret;\n" raise "  ret;\n"                                                                \
    "second:\n  setp.ne.u32 %p2, %r1, 0;\n  @%p2 ret;\n"                                                                        \
    "again:\n" wait "  setp.eq.u32 %p3, %r3, 0;\n  @%p3 bra again;\n"
#define READS "  ld.global.u32 %r4, [%d1];\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n"

#define RAISE "  st.volatile.global.u32 [%d2], 1;\n"
#define WAIT "  ld.volatile.global.u32 %r3, [%d2];\n"
static const struct { const char *what, *text; enum ptx_finding_kind kind; } between_blocks[] = {
    {"a barrier, then a fence of all", BETWEEN_BLOCKS("  bar.sync 0;\n", "  membar.gl;\n" RAISE, WAIT) "  membar.gl;\n" READS, PTX_CLEAN},
    {"a fence of all, then a barrier", BETWEEN_BLOCKS("  membar.gl;\n  bar.sync 0;\n", RAISE, WAIT) "  fence.acq_rel.gpu;\n" READS, PTX_CLEAN},
    {"of the system", BETWEEN_BLOCKS("  bar.sync 0;\n", "  membar.sys;\n" RAISE, WAIT) "  fence.sc.sys;\n" READS, PTX_CLEAN},
    {"release and acquire", BETWEEN_BLOCKS("  bar.sync 0;\n", "  st.release.gpu.global.u32 [%d2], 1;\n", "  ld.acquire.gpu.global.u32 %r3, [%d2];\n") READS, PTX_CLEAN},
    {"by atomics", BETWEEN_BLOCKS("  bar.sync 0;\n", "  atom.release.gpu.global.add.u32 %r5, [%d2], 1;\n", "  atom.acquire.gpu.global.add.u32 %r3, [%d2], 0;\n") READS, PTX_CLEAN},
    {"no fence", BETWEEN_BLOCKS("  bar.sync 0;\n", RAISE, WAIT) "  membar.gl;\n" READS, PTX_RACE},
    {"the writer's fence for its block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  membar.cta;\n" RAISE, WAIT) "  membar.gl;\n" READS, PTX_RACE},
    {"the same before the barrier", BETWEEN_BLOCKS("  fence.acq_rel.cta;\n  bar.sync 0;\n", RAISE, WAIT) "  membar.gl;\n" READS, PTX_RACE},
    {"the reader's fence for its block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  membar.gl;\n" RAISE, WAIT) "  membar.cta;\n" READS, PTX_RACE},
    {"release for the block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  st.release.cta.global.u32 [%d2], 1;\n", "  ld.acquire.gpu.global.u32 %r3, [%d2];\n") READS, PTX_RACE},
    {"acquire for the block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  st.release.gpu.global.u32 [%d2], 1;\n", "  ld.acquire.cta.global.u32 %r3, [%d2];\n") READS, PTX_RACE},
    {"atomic release for the block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  atom.release.cta.global.add.u32 %r5, [%d2], 1;\n", "  atom.acquire.gpu.global.add.u32 %r3, [%d2], 0;\n") READS, PTX_RACE},
    {"atomic acquire for the block alone", BETWEEN_BLOCKS("  bar.sync 0;\n", "  atom.release.gpu.global.add.u32 %r5, [%d2], 1;\n", "  atom.acquire.cta.global.add.u32 %r3, [%d2], 0;\n") READS, PTX_RACE},
    /* a fence for the block, later one for all: what the second covers is told */
    {"both", BETWEEN_BLOCKS("  membar.cta;\n  bar.sync 0;\n", "  membar.cta;\n  membar.gl;\n" RAISE, WAIT) "  membar.cta;\n  membar.gl;\n" READS, PTX_CLEAN},
    /* what was written behind the last fence for all is not */
    {"a fence for all, a write, one for the block",
     BETWEEN_BLOCKS("  membar.gl;\n  @%p2 st.global.u32 [%d1], 43;\n  membar.cta;\n  bar.sync 0;\n", RAISE, WAIT) "  membar.gl;\n" READS, PTX_RACE},
};

/* Warp 1 writes, warp 0 waits, in one block, by a flag in global memory. */
#define WITHIN(raise, wait) HEAD                                                                                               \
    ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 out)\n{\n"                                               \
    "  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"                                                                   \
    "  ld.param.u64 %d1, [data];\n  ld.param.u64 %d2, [flag];\n  ld.param.u64 %d3, [out];\n"                                    \
    "  mov.u32 %r1, %tid.x;\n  and.b32 %r2, %r1, 31;\n  setp.ne.u32 %p1, %r2, 0;\n  @%p1 ret;\n"                                \
    "  setp.eq.u32 %p2, %r1, 0;\n  @%p2 bra second;\n  st.global.u32 [%d1], 42;\n" raise "  ret;\n"                             \
    "second:\n" wait "  setp.eq.u32 %p3, %r3, 0;\n  @%p3 bra second;\n"
static const struct { const char *what, *text; enum ptx_finding_kind kind; } within[] = {
    {"fences for the block", WITHIN("  membar.cta;\n" RAISE, WAIT) "  membar.cta;\n" READS, PTX_CLEAN},
    {"fences for all", WITHIN("  membar.gl;\n" RAISE, WAIT) "  membar.gl;\n" READS, PTX_CLEAN},
    {"release and acquire for the block", WITHIN("  st.release.cta.global.u32 [%d2], 1;\n", "  ld.acquire.cta.global.u32 %r3, [%d2];\n") READS, PTX_CLEAN},
    {"no fence", WITHIN(RAISE, WAIT) "  membar.cta;\n" READS, PTX_RACE},
};

/*
 * All accesses strong: no race, but no order either. Block 0 stores data, then its flag, block 1 polls the flag and reads the data.
 */
#define DATA "  st.volatile.global.u32 [%d1], 42;\n"
#define GETS "  ld.volatile.global.u32 %r4, [%d1];\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n"
#define STRONG(between, raise, wait) HEAD                                                                                      \
    ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 out)\n{\n"                                               \
    "  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"                                                                   \
    "  ld.param.u64 %d1, [data];\n  ld.param.u64 %d2, [flag];\n  ld.param.u64 %d3, [out];\n"                                    \
    "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n  setp.ne.u32 %p1, %r1, 0;\n  @%p1 ret;\n"                              \
    "  setp.ne.u32 %p1, %r2, 0;\n  @%p1 bra second;\n" between raise "  ret;\n"                                               \
    "second:\nagain:\n" wait "  setp.eq.u32 %p3, %r3, 0;\n  @%p3 bra again;\n"
static const struct { const char *what, *text; enum ptx_finding_kind kind; } strong[] = {
    {"no fence", STRONG(DATA, RAISE, WAIT) GETS, PTX_RACE},
    {"relaxed", STRONG("  st.relaxed.gpu.global.u32 [%d1], 42;\n", "  st.relaxed.gpu.global.u32 [%d2], 1;\n", "  ld.relaxed.gpu.global.u32 %r3, [%d2];\n")
                "  ld.relaxed.gpu.global.u32 %r4, [%d1];\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n", PTX_RACE},
    {"the writer's fence alone", STRONG(DATA "  membar.gl;\n", RAISE, WAIT) GETS, PTX_RACE},
    {"the reader's fence alone", STRONG(DATA, RAISE, WAIT) "  membar.gl;\n" GETS, PTX_RACE},
    {"a fence before the data", STRONG("  membar.gl;\n" DATA, RAISE, WAIT) "  membar.gl;\n" GETS, PTX_RACE},
    {"a release that nobody acquires", STRONG(DATA, "  st.release.gpu.global.u32 [%d2], 1;\n", WAIT) GETS, PTX_RACE},
    {"atomics", STRONG("  atom.relaxed.gpu.global.exch.b32 %r5, [%d1], 42;\n", "  red.relaxed.gpu.global.add.u32 [%d2], 1;\n", "  atom.relaxed.gpu.global.add.u32 %r3, [%d2], 0;\n") GETS, PTX_RACE},
    {"fences for the block alone", STRONG(DATA "  membar.cta;\n", RAISE, WAIT) "  membar.cta;\n" GETS, PTX_RACE},
    {"both fences", STRONG(DATA "  membar.gl;\n", RAISE, WAIT) "  membar.gl;\n" GETS, PTX_CLEAN},
    {"release and acquire", STRONG(DATA, "  st.release.gpu.global.u32 [%d2], 1;\n", "  ld.acquire.gpu.global.u32 %r3, [%d2];\n") GETS, PTX_CLEAN},
    {"atomics that release and acquire", STRONG(DATA, "  red.release.gpu.global.add.u32 [%d2], 1;\n", "  atom.acquire.gpu.global.add.u32 %r3, [%d2], 0;\n") GETS, PTX_CLEAN},
    /* the data are their own mark: who asks again gets them */
    {"polled itself", STRONG(DATA, RAISE, WAIT) "poll:\n  ld.volatile.global.u32 %r4, [%d1];\n  setp.ne.u32 %p3, %r4, 42;\n  @%p3 bra poll;\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n", PTX_CLEAN},
    {"a mark alone", STRONG("", "  st.volatile.global.u32 [%d2], 42;\n", WAIT) "  st.global.u32 [%d3], %r3;\n  ret;\n}\n", PTX_CLEAN},
    /* what is told last is new */
    {"in the other order", STRONG(RAISE, DATA, "  ld.volatile.global.u32 %r3, [%d1];\n") "  ld.volatile.global.u32 %r4, [%d1];\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n", PTX_CLEAN},
};

/* Accesses that are strong for their own block alone, by two blocks; and loads that take for granted that nobody stores. */
#define BLOCKS(body) HEAD                                                                                                      \
    ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 out)\n{\n"                                               \
    "  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"                                                                   \
    "  ld.param.u64 %d1, [data];\n  ld.param.u64 %d2, [flag];\n  ld.param.u64 %d3, [out];\n"                                    \
    "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n  setp.ne.u32 %p1, %r1, 0;\n  mov.u32 %r4, 42;\n" body                      \
    "  @!%p1 st.global.u32 [%d3], %r4;\n  ret;\n}\n"
static const struct { const char *what, *text; uint32_t blocks; enum ptx_finding_kind kind; } narrow[] = {
    {"sums for all", BLOCKS("  red.relaxed.gpu.global.add.u32 [%d2], 1;\n"), 2, PTX_CLEAN},
    {"sums for the block, of one", BLOCKS("  red.relaxed.cta.global.add.u32 [%d2], 1;\n"), 1, PTX_CLEAN},
    {"sums for the block, of two", BLOCKS("  red.relaxed.cta.global.add.u32 [%d2], 1;\n"), 2, PTX_RACE},
    {"one of the two for all", BLOCKS("  setp.eq.u32 %p2, %r2, 0;\n  @%p2 red.relaxed.cta.global.add.u32 [%d2], 1;\n  @!%p2 red.relaxed.gpu.global.add.u32 [%d2], 1;\n"), 2, PTX_RACE},
    {"stores for the block", BLOCKS("  @!%p1 st.relaxed.cta.global.u32 [%d2], %r2;\n"), 2, PTX_RACE},
    {"reads what it stored", BLOCKS("  @!%p1 st.global.u32 [%d1], 42;\n  bar.sync 0;\n  @!%p1 ld.global.u32 %r4, [%d1];\n"), 1, PTX_CLEAN},
    {"reads as read-only what it stored", BLOCKS("  @!%p1 st.global.u32 [%d1], 42;\n  bar.sync 0;\n  @!%p1 ld.global.nc.u32 %r4, [%d1];\n"), 1, PTX_RACE},
    {"reads as read-only, then stores", BLOCKS("  @!%p1 ld.global.nc.u32 %r3, [%d2];\n  bar.sync 0;\n  @!%p1 st.global.u32 [%d2], 42;\n"), 1, PTX_CLEAN},
};

/* The same in shared memory, from one warp to another. */
#define NEAR(raise, wait) HEAD                                                                                                 \
    ".visible .entry k(.param .u64 data, .param .u64 flag, .param .u64 out)\n{\n"                                               \
    "  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<6>; .shared .b32 s[2];\n  ld.param.u64 %d3, [out];\n"                      \
    "  mov.u32 %r1, %tid.x;\n  setp.eq.u32 %p1, %r1, 0;\n  @%p1 st.shared.u32 [s], 0;\n  @%p1 st.shared.u32 [s+4], 0;\n  bar.sync 0;\n" \
    "  and.b32 %r2, %r1, 31;\n  setp.ne.u32 %p1, %r2, 0;\n  @%p1 ret;\n  setp.eq.u32 %p2, %r1, 0;\n  @%p2 bra second;\n"     \
    "  st.volatile.shared.u32 [s], 42;\n" raise "  st.volatile.shared.u32 [s+4], 1;\n  ret;\n"                                 \
    "second:\n  ld.volatile.shared.u32 %r3, [s+4];\n  setp.eq.u32 %p3, %r3, 0;\n  @%p3 bra second;\n" wait                      \
    "  ld.volatile.shared.u32 %r4, [s];\n  st.global.u32 [%d3], %r4;\n  ret;\n}\n"
static const struct { const char *what, *text; enum ptx_finding_kind kind; } near[] = {
    {"shared: no fence", NEAR("", ""), PTX_RACE},
    {"shared: the writer's alone", NEAR("  membar.cta;\n", ""), PTX_RACE},
    {"shared: the reader's alone", NEAR("", "  membar.cta;\n"), PTX_RACE},
    {"shared: both", NEAR("  membar.cta;\n", "  membar.cta;\n"), PTX_CLEAN},
};

static void run(const char *what, const char *text, uint32_t blocks, enum ptx_finding_kind kind)
{
    const uint32_t zeros[4] = {0};
    for (uint64_t seed = 1; seed < 6; seed++) {
        cleanup(bench) struct bench b = {0};
        check(bench_text(&b, text));
        if (!b.m)
            return;
        bench_buffer(&b, "data", 4, true, kind == PTX_CLEAN || seed & 1 || strstr(text, ".exch.") ? zeros : NULL);
        bench_buffer(&b, "flag", 4, true, zeros);
        const uint32_t *out = bench_buffer(&b, "out", 4, true, NULL);
        b.launch.grid[0] = blocks;
        b.launch.block[0] = 64;
        b.options.schedule_seed = seed;
        const enum ptx_finding_kind found = bench_run(&b);
        if (found != kind)
            fprintf(stderr, "%s: %s %s\n", what, ptx_finding_name(found), b.finding.text);
        check_int(found, kind);
        if (kind == PTX_CLEAN)
            check_int(*out, 42);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof between_blocks / sizeof *between_blocks; i++)
        run(between_blocks[i].what, between_blocks[i].text, 2, between_blocks[i].kind);
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        run(within[i].what, within[i].text, 1, within[i].kind);
    for (size_t i = 0; i < sizeof strong / sizeof *strong; i++)
        run(strong[i].what, strong[i].text, 2, strong[i].kind);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        run(narrow[i].what, narrow[i].text, narrow[i].blocks, narrow[i].kind);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        run(near[i].what, near[i].text, 1, near[i].kind);
    return test_done();
}
