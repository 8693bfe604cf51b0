/* Counting in depth: the cache by itself, what a launch of known accesses comes to, equal figures on any number of host threads. */
#include "gpu/ptx/cache.h"
#include "tests/test_ptx.h"

static void a_cache(void)
{
    struct cache c;
    cache_init(&c, 8 * 128, 4); /* two sets of four lines */
    check_int(c.sets, 2);
    check_int(cache_use(&c, 5, 3, false).hit, 0);
    check_int(cache_use(&c, 5, 7, false).hit, 3);      /* sector by sector */
    check_int(cache_use(&c, 5, 8, true).hit, 0);
    check_int(c.dirty, 1);
    check_int(cache_use(&c, 5, 8, true).hit, 8);
    check_int(c.dirty, 1);                             /* the same sector again */
    unsigned written_back = 0;
    for (uint64_t line = 100; line < 200; line++)
        written_back += cache_use(&c, line, 1, false).written_back;
    check_int(written_back, 1);                        /* line 5 had to leave */
    check_int(c.dirty, 0);
    check_int(cache_has(&c, 5, 15), 0);
    cache_done(&c);
    /* the least recently used leaves: a line used again and again stays, whatever passes by */
    cache_init(&c, 4 * 128, 4);
    for (uint64_t line = 0; line < 50; line++) {
        cache_use(&c, 1000, 1, false);
        cache_use(&c, line, 1, false);
    }
    check_int(cache_has(&c, 1000, 1), 1);
    cache_done(&c);
    /* what fits is found again, whatever its stride: sets are chosen by a hash */
    cache_init(&c, 1 << 20, 16);
    unsigned missed = 0;
    for (int round = 0; round < 2; round++)
        for (uint64_t line = 0; line < 2048; line++)
            missed += cache_use(&c, line * 64, 15, false).hit != 15 && round;
    check(missed < 2048 / 50);
    cache_done(&c);
}

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry k(.param .u64 x, .param .u64 y) {\n.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<32>;\n"
/* rd4: x + 4 * thread of the grid, rd5 the same of y */
#define COMMON "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n" \
               "mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"

static void run(struct bench *b, const char *body, unsigned blocks, unsigned threads, int host_threads, struct ptx_depth *depth)
{
    char text[8192];
    const size_t bytes = (size_t)blocks * threads * 4;
    cleanup(mem) void *fill = xalloc(bytes);
    snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", ENTRY, COMMON, body);
    check(bench_text(b, text));
    bench_buffer(b, "x", bytes, false, fill);
    bench_buffer(b, "y", bytes, true, NULL);
    b->launch.grid[0] = blocks;
    b->launch.block[0] = threads;
    b->options.limits.threads = host_threads;
    depth->device = ptx_device_find("H200");
    b->options.depth = depth;
    if (b->m)
        check_int(bench_run(b), PTX_CLEAN);
}

static void a_copy(void)
{
    cleanup(bench) struct bench b = {0};
    cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
    run(&b, "ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;", 16, 128, 1, &depth);
    check_int(b.counts.dram_load_sectors, 256);        /* 8192 bytes, each from DRAM once */
    check_int(b.counts.l2_load_sectors, 256);
    check_int(b.counts.l2_hit_sectors, 0);
    check_int(b.counts.l1_hit_sectors, 0);
    check_int(b.counts.l2_store_sectors, 256);
    check_int(b.counts.dram_store_sectors, 256);       /* written back by whoever comes next */
    check_int(b.counts.modelled_blocks, 16);
}

/* All blocks read the same 128 bytes, each warp twice: from DRAM once, from L2 once a block, else from L1. */
static void a_shared_line(void)
{
    const char *body = "and.b32 %r5, %r1, 31; mul.wide.u32 %rd6, %r5, 4; add.s64 %rd6, %rd1, %rd6;\n"
                       "ld.global.f32 %f1, [%rd6]; ld.volatile.global.f32 %f2, [%rd6]; st.global.f32 [%rd5], %f1;";
    cleanup(bench) struct bench b = {0};
    cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
    run(&b, body, 10, 128, 1, &depth);
    check_int(b.counts.dram_load_sectors, 4);
    check_int(b.counts.l1_hit_sectors, 10 * 3 * 4);            /* three of a block's four warps */
    check_int(b.counts.l2_load_sectors, 10 * 4 + 10 * 4 * 4);  /* and the volatile ones, which L1 never has */
    check_int(b.counts.l2_hit_sectors, b.counts.l2_load_sectors - 4);
}

static void host_threads(void)
{
    const char *body = "xor.b32 %r6, %r4, 129; mul.wide.u32 %rd6, %r6, 4; add.s64 %rd6, %rd1, %rd6;\n"
                       "ld.global.f32 %f1, [%rd6]; ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd1]; add.f32 %f1, %f1, %f2; st.global.f32 [%rd5], %f1;";
    struct ptx_counts first = {0};
    for (int threads = 1; threads <= 4; threads++) {
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = true};
        run(&b, body, 300, 64, threads, &depth);
        if (threads == 1)
            first = b.counts;
        check_int(b.counts.l1_hit_sectors, first.l1_hit_sectors);
        check_int(b.counts.l2_load_sectors, first.l2_load_sectors);
        check_int(b.counts.l2_hit_sectors, first.l2_hit_sectors);
        check_int(b.counts.dram_load_sectors, first.dram_load_sectors);
        check_int(b.counts.dram_store_sectors, first.dram_store_sectors);
        check_int(b.counts.chain_cycles, first.chain_cycles);
        check(b.counts.l1_hit_sectors > 0 && b.counts.l2_hit_sectors > 0);
        uint64_t instructions = 0, sectors = 0;
        for (int n = 0; n < depth.line_count; n++) {
            instructions += depth.lines[n].thread_instructions;
            sectors += depth.lines[n].global_sectors;
        }
        check_int(instructions, b.counts.thread_instructions);  /* lines add up to the whole */
        check_int(sectors, b.counts.global_load_sectors + b.counts.global_store_sectors);
    }
}

/* A chain of eight dependent additions is longer than eight independent ones, and a loop's counts each time. */
static void chains(void)
{
    const char *bodies[] = {
        "mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, %f1; add.f32 %f3, %f1, %f1; add.f32 %f4, %f1, %f1; add.f32 %f5, %f1, %f1; add.f32 %f6, %f1, %f1; add.f32 %f7, %f1, %f1; add.f32 %f8, %f1, %f1; add.f32 %f9, %f1, %f1; st.global.f32 [%rd5], %f9;",
        "mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, %f1; add.f32 %f3, %f2, %f1; add.f32 %f4, %f3, %f1; add.f32 %f5, %f4, %f1; add.f32 %f6, %f5, %f1; add.f32 %f7, %f6, %f1; add.f32 %f8, %f7, %f1; add.f32 %f9, %f8, %f1; st.global.f32 [%rd5], %f9;",
        "mov.f32 %f1, 0f3F800000; mov.u32 %r7, 10;\nL: add.f32 %f1, %f1, %f1; add.f32 %f1, %f1, %f1; sub.u32 %r7, %r7, 1; setp.ne.u32 %p1, %r7, 0; @%p1 bra L;\nst.global.f32 [%rd5], %f1;"};
    uint64_t cycles[3];
    for (int i = 0; i < 3; i++) {
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
        run(&b, bodies[i], 1, 32, 1, &depth);
        cycles[i] = b.counts.chain_cycles;
    }
    check_int(cycles[1], 8 * 4);            /* eight additions of 4 cycles */
    check(cycles[0] < cycles[1]);           /* the address's own chain */
    check(cycles[2] >= 10 * 8 && cycles[2] < 10 * 20);
}

/* A sleep is as long as it says, and as PTX allows where it does not; what follows comes after it. */
static void sleeps(void)
{
    const char *bodies[] = {"nanosleep.u32 1000; mov.f32 %f1, 0f3F800000; add.f32 %f2, %f1, %f1; st.global.f32 [%rd5], %f2;",
                            "mov.u32 %r7, 1000; nanosleep.u32 %r7; mov.f32 %f1, 0f3F800000; st.global.f32 [%rd5], %f1;",
                            "mov.u32 %r7, %laneid; nanosleep.u32 %r7; mov.f32 %f1, 0f3F800000; st.global.f32 [%rd5], %f1;"};
    static const uint64_t least[] = {2000, 2000, 2000000}, most[] = {2050, 2050, 2000050};
    for (int i = 0; i < 3; i++) {
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
        run(&b, bodies[i], 1, 32, 1, &depth);
        check(b.counts.chain_cycles >= least[i] && b.counts.chain_cycles <= most[i]);
    }
}

/*
 * A rounded division holds its warp up each time, whether or not others wait for it; an approximate one does not. One of integers holds
 * it up for less and is waited for by what needs it; by a constant it is none.
 */
static void divisions(void)
{
    static const struct { const char *body; uint64_t held, chain_least, chain_most; } cases[] = {
        {"mov.f32 %f1, 0f3F800000; div.approx.f32 %f2, %f1, %f1; div.full.f32 %f3, %f1, %f1; rcp.approx.ftz.f32 %f4, %f1; st.global.f32 [%rd5], %f2;", 0, 1, 40},
        {"mov.f32 %f1, 0f3F800000; div.rn.f32 %f2, %f1, %f1; st.global.f32 [%rd5], %f2;", 45, 1, 40},
        {"mov.f32 %f1, 0f3F800000; div.rn.f32 %f2, %f1, %f1; div.rn.ftz.f32 %f3, %f1, %f1; st.global.f32 [%rd5], %f2;", 90, 1, 40},
        {"mov.f32 %f1, 0f3F800000; rcp.rn.f32 %f2, %f1; sqrt.rn.f32 %f3, %f1; st.global.f32 [%rd5], %f2;", 64 + 43, 1, 60},
        {"mov.f32 %f1, 0f3F800000; mov.u32 %r7, 10;\nL: div.rn.f32 %f1, %f1, %f1; sub.u32 %r7, %r7, 1; setp.ne.u32 %p1, %r7, 0; @%p1 bra L;\nst.global.f32 [%rd5], %f1;", 450, 1, 200},
        {"mov.u32 %r7, 10; div.s32 %r8, %r7, %r7; rem.s32 %r9, %r7, %r7; st.global.u32 [%rd5], %r8;", 54, 47, 80},
        {"mov.u32 %r7, 10; div.s32 %r8, %r7, %r7; div.s32 %r9, %r8, %r7; rem.u32 %r9, %r9, %r7; st.global.u32 [%rd5], %r9;", 72, 47 + 47 + 43, 160},
        {"mov.u32 %r7, 10; div.s32 %r8, %r7, 3; rem.u32 %r9, %r7, 3; st.global.u32 [%rd5], %r8;", 0, 1, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
        run(&b, cases[i].body, 1, 64, 1, &depth);
        check_int(b.counts.expanded_cycles, 2 * cases[i].held);             /* two warps */
        check(b.counts.chain_cycles >= 2 * cases[i].chain_least && b.counts.chain_cycles <= 2 * cases[i].chain_most);
    }
}

/* What a matrix instruction takes is waited for as by any other: in a loop each time. Beside it in one block loads go ahead. */
static void a_product_waits(void)
{
    static const struct { const char *body; uint64_t loads; } cases[] = {
        {"mov.u32 %r7, 10; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\nL: ld.global.u32 %r8, [%rd4]; ld.global.u32 %r9, [%rd4]; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32\n"
         "{%f1,%f2,%f3,%f4}, {%r8,%r9}, {%r8}, {%f1,%f2,%f3,%f4};\nsub.u32 %r7, %r7, 1; setp.ne.u32 %p1, %r7, 0; @%p1 bra L;\nst.global.f32 [%rd5], %f1;", 10},
        {"mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n"
         "ld.global.u32 %r8, [%rd4]; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r8,%r8}, {%r8}, {%f1,%f2,%f3,%f4};\n"
         "ld.global.u32 %r9, [%rd4]; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r9,%r9}, {%r9}, {%f1,%f2,%f3,%f4}; st.global.f32 [%rd5], %f1;", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
        run(&b, cases[i].body, 1, 32, 1, &depth);
        check_int(b.counts.dependent_loads, cases[i].loads);
    }
}

/* Without the wish nothing of it is counted. */
static void off(void)
{
    cleanup(bench) struct bench b = {0};
    struct ptx_depth depth = {.by_line = false};
    run(&b, "ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;", 4, 32, 1, &depth);
    check(b.counts.dram_load_sectors > 0);
    b.options.depth = NULL;
    check_int(bench_run(&b), PTX_CLEAN);
    check_int(b.counts.dram_load_sectors, 0);
    check_int(b.counts.modelled_blocks, 0);
    check_int(b.counts.chain_cycles, 0);
}

/* What a bulk copy brings is waited for like a load's value, and longer: an address made of it makes a chain, as after a plain load. */
static void a_bulk_copy_is_a_load(void)
{
    static const char *const bodies[] = {
        "ld.global.u32 %r9, [%rd4];\n",
        ".shared .align 16 .b8 room[128]; .shared .align 8 .b64 bar; mov.u32 %r5, bar; mov.u32 %r6, room; setp.ne.u32 %p1, %r1, 0;\n"
        "@%p1 bra WAIT;\nmbarrier.init.shared::cta.b64 [%r5], 1; fence.proxy.async.shared::cta;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 128;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 128, [%r5];\nWAIT: bar.sync 0;\n"
        "LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r5], 0;\n@!%p2 bra LOOP;\n"
        "shl.b32 %r7, %r1, 2; add.u32 %r8, %r6, %r7; ld.shared.u32 %r9, [%r8];\n"};
    for (int i = 0; i < 2; i++) {
        cleanup(str) char *body = xfmt("%smul.wide.u32 %%rd6, %%r9, 4; add.s64 %%rd7, %%rd1, %%rd6; ld.global.u32 %%r10, [%%rd7]; st.global.u32 [%%rd5], %%r10;", bodies[i]);
        cleanup(bench) struct bench b = {0};
        cleanup(ptx_depth) struct ptx_depth depth = {.by_line = false};
        run(&b, body, 1, 32, 1, &depth);
        check_int(b.counts.dependent_loads, i ? 3 : 2);
    }
}

int main(void)
{
    a_cache();
    a_copy();
    a_shared_line();
    host_threads();
    chains();
    sleeps();
    divisions();
    a_product_waits();
    a_bulk_copy_is_a_load();
    off();
    return test_done();
}
