/* Planted faults: each must be found, named, and placed; and the correct twin must be clean. */
#include "tests/test_ptx.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry k(.param .u64 x, .param .u64 y) {\n.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>;\n"
#define COMMON "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"

/* x: 32 words read-only, y: 32 words to write, nothing written yet */
static enum ptx_finding_kind run(struct bench *b, const char *body, int block)
{
    char text[8192];
    snprintf(text, sizeof text, "%s.loc 1 17 3\n%s%s\nret;\n}\n.file 1 \"/some/where/candidate.cu\"\n", ENTRY, COMMON, body);
    uint32_t fill[32];
    for (uint32_t i = 0; i < 32; i++)
        fill[i] = i * 4;
    check(bench_text(b, text));
    bench_buffer(b, "x", sizeof fill, false, fill);
    bench_buffer(b, "y", sizeof fill, true, NULL);
    b->launch.block[0] = (uint32_t)block;
    return b->m ? bench_run(b) : PTX_SYNTAX;
}
#define RUN(name, body, block, want)              \
    cleanup(bench) struct bench name = {0};       \
    check_int(run(&name, body, block), want);     \
    if (name.finding.kind != (want))              \
        fprintf(stderr, "  %s\n", name.finding.text)

/* Results that nobody wants, and numbers that are computed where they stand. */
static void sinks_and_constants(void)
{
    RUN(a, "elect.sync _|%p1, -1; @%p1 st.global.u32 [%rd2], 1;", 32, PTX_CLEAN);
    RUN(b, "setp.ne.u32 %p2, %r1, %r1; lop3.or.b32 _|%p1, 3, 3, 3, 0x80, %p2; @!%p1 trap; setp.lt.u32 _|%p4, %r1, 99; @%p4 trap;", 32, PTX_CLEAN);
    RUN(c, "shfl.sync.bfly.b32 _|%p1, %r1, 1, 31, -1; @!%p1 trap; match.all.sync.b32 _|%p1, 7, -1; @!%p1 trap;", 32, PTX_CLEAN);
    RUN(d, "add.u32 %r2, 0, 1<<4; setp.ne.u32 %p1, %r2, 16; @%p1 trap; mov.u32 %r2, (3 > 2) ? 5 : 7; setp.ne.u32 %p1, %r2, 5; @%p1 trap;", 32, PTX_CLEAN);
    RUN(e, "mov.u32 %r2, 2+3*4-(8>>1)/3; setp.ne.u32 %p1, %r2, 13; @%p1 trap; ld.global.u32 %r2, [%rd1+0x10]; mov.u32 %r3, -1&0xff; setp.ne.u32 %p1, %r3, 255; @%p1 trap;", 32, PTX_CLEAN);
}

static void bounds(void)
{
    sinks_and_constants();
    RUN(a, "ld.global.u32 %r2, [%rd4]; st.global.u32 [%rd5], %r2;", 32, PTX_CLEAN);
    check(all_written(&a, 1));
    RUN(b, "ld.global.u32 %r2, [%rd4+4]; st.global.u32 [%rd5], %r2;", 32, PTX_OUT_OF_BOUNDS);
    check_str(b.finding.text, "thread (31,0,0) of block (0,0,0) reads 4 bytes at offset 128 of x, which has 128 bytes (line 17)");
    check_str(b.finding.buffer, "x");
    check_str(b.finding.opcode, "ld.global.u32");
    {
        RUN(null, "st.global.u32 [0], %r1;", 32, PTX_OUT_OF_BOUNDS);
        check(strstr(null.finding.text, "writes 4 bytes at address 0x0, in no buffer") != NULL);
        check_str(null.finding.buffer, "");
        RUN(odd, "mov.u64 %rd6, 3; ld.global.u32 %r2, [%rd6];", 32, PTX_MISALIGNED);
        check(strstr(odd.finding.text, "address 0x3, in no buffer and not a multiple of 4") != NULL);
        RUN(before, "ld.global.u32 %r2, [%rd1+-4096];", 32, PTX_OUT_OF_BOUNDS);
        check(strstr(before.finding.text, "offset -4096 of x") != NULL);
    }
    check_str(b.finding.source_file, "candidate.cu");
    check_int(b.finding.source_line, 17);
    check_int(b.finding.offset_bytes, 128);
    check_int(b.finding.access_bytes, 4);
    check_int(b.finding.thread[0], 31);
    check_int(b.finding.ptx_line, 8);
    RUN(c, "ld.global.u32 %r2, [%rd4+-4]; st.global.u32 [%rd5], %r2;", 32, PTX_OUT_OF_BOUNDS);
    check_int(c.finding.offset_bytes, -4);
    check_int(c.finding.thread[0], 0);
    RUN(d, "st.global.u32 [%rd5+124], %r1;", 32, PTX_OUT_OF_BOUNDS);
    check_str(d.finding.buffer, "y");
    check(strstr(d.finding.text, "writes 4 bytes at offset 128 of y") != NULL);
    RUN(e, "mov.u64 %rd6, 0; ld.global.u32 %r2, [%rd6];", 32, PTX_OUT_OF_BOUNDS);
    RUN(f, "ld.u32 %r2, [%rd4+128];", 32, PTX_OUT_OF_BOUNDS);
    RUN(g, "setp.lt.u32 %p1, %r1, 31; @%p1 ld.global.u32 %r2, [%rd4+4]; @%p1 st.global.u32 [%rd5], %r2;", 32, PTX_CLEAN);
    RUN(h, "red.global.add.u32 [%rd5+4096], 1;", 32, PTX_OUT_OF_BOUNDS);
    RUN(i, "ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd1+112]; st.global.v4.u32 [%rd2+112], {%r2,%r3,%r4,%r5};", 32, PTX_CLEAN);
    RUN(j, "ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%rd1+128];", 32, PTX_OUT_OF_BOUNDS);
}

static void kinds(void)
{
    RUN(a, "st.global.u32 [%rd4], %r1;", 32, PTX_READ_ONLY);
    check_str(a.finding.buffer, "x");
    RUN(b, "atom.global.add.u32 %r2, [%rd4], 1;", 32, PTX_READ_ONLY);
    RUN(c, "ld.global.u32 %r2, [%rd5];", 32, PTX_UNINITIALISED);
    check(strstr(c.finding.text, "nobody has written") != NULL);
    RUN(d, "st.global.u32 [%rd5], %r1; ld.global.u32 %r2, [%rd5];", 32, PTX_CLEAN);
    RUN(e, "setp.ne.u32 %p1, %r1, 9; @%p1 st.global.u32 [%rd5], %r1; ld.global.u32 %r2, [%rd5];", 32, PTX_UNINITIALISED);
    check_int(e.finding.thread[0], 9);
    check_int(e.finding.offset_bytes, 36);
    RUN(f, "red.global.add.u32 [%rd5], 1;", 32, PTX_UNINITIALISED);
    RUN(g, "ld.global.u32 %r2, [%rd4+2];", 16, PTX_MISALIGNED);
    RUN(h, "ld.global.v2.u32 {%r2,%r3}, [%rd1+4];", 32, PTX_MISALIGNED);
    check_int(h.finding.offset_bytes, 4);
    RUN(i, "st.global.u8 [%rd5+1], %r1; ld.global.u16 %h1, [%rd5];", 32, PTX_UNINITIALISED);
    RUN(j, "st.global.u8 [%rd5+1], %r1; st.global.u8 [%rd5], %r1; ld.global.u16 %h1, [%rd5];", 32, PTX_CLEAN);
    RUN(k, "trap;", 32, PTX_TRAP);
    RUN(l, "setp.eq.u32 %p1, %r1, 99; @%p1 trap;", 32, PTX_CLEAN);
    RUN(m, "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; stacksave.u64 %rd1;", 32, PTX_UNSUPPORTED);
    check(strstr(m.finding.text, "stacksave.u64") != NULL);
    cleanup(buf) struct buf unsupported = {0};
    ptx_unsupported(m.m, &unsupported);
    check_str(buf_cstr(&unsupported), "stacksave.u64");
    RUN(n, "st.global.u32 [%rd2], %r1;", 32, PTX_RACE); /* different values from lanes of one warp */
    RUN(o, "st.global.u32 [%rd2], 7;", 32, PTX_CLEAN);
    RUN(p, "st.global.u32 [%rd5], %r9;", 32, PTX_UNINITIALISED);
    check(strstr(p.finding.text, "register") != NULL);
    RUN(q, "ld.global.u32 %r2, [%rd9];", 32, PTX_UNINITIALISED);
    RUN(r, "@%p5 st.global.u32 [%rd5], 1;", 32, PTX_UNINITIALISED);
    RUN(s, "setp.lt.u32 %p1, %r1, 16; @%p1 bra SET; bra USE; SET: mov.u32 %r9, 5; USE: st.global.u32 [%rd5], %r9;", 32, PTX_UNINITIALISED);
    check_int(s.finding.thread[0], 16);
    RUN(t, "setp.lt.u32 %p1, %r1, 16; @%p1 bra SET; mov.u32 %r9, 6; bra USE; SET: mov.u32 %r9, 5; USE: st.global.u32 [%rd5], %r9;", 32, PTX_CLEAN);
}

/* 64 threads, two warps; s is 64 words */
#define SHARED ".shared .align 16 .b8 s[256]; mov.u32 %r8, s; shl.b32 %r9, %r1, 2; add.u32 %r10, %r8, %r9; xor.b32 %r11, %r9, 128; add.u32 %r11, %r8, %r11; setp.lt.u32 %p7, %r1, 32;\n"
static void shared(void)
{
    RUN(a, SHARED "st.shared.u32 [%r10], %r1; bar.sync 0; ld.shared.u32 %r2, [%r11]; @%p7 st.global.u32 [%rd5], %r2;", 64, PTX_CLEAN);
    check_int(((uint32_t *)a.buffers[1].data)[3], 35);
    RUN(b, SHARED "st.shared.u32 [%r10], %r1; ld.shared.u32 %r2, [%r11]; @%p7 st.global.u32 [%rd5], %r2;", 64,
        b.finding.kind == PTX_RACE ? PTX_RACE : PTX_UNINITIALISED); /* whichever warp comes first */
    RUN(c, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; st.shared.u32 [%r10], %r1; ld.shared.u32 %r2, [%r11];", 64, PTX_RACE);
    check_str(c.finding.buffer, "shared");
    RUN(d, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; ld.shared.u32 %r2, [%r11]; st.shared.u32 [%r10], %r1;", 64, PTX_RACE); /* read, then written by the other */
    RUN(e, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; ld.shared.u32 %r2, [%r11]; bar.sync 0; st.shared.u32 [%r10], %r1;", 64, PTX_CLEAN);
    RUN(f, SHARED "ld.shared.u32 %r2, [%r10];", 64, PTX_UNINITIALISED);
    RUN(g, SHARED "st.shared.u32 [%r10+4], 0;", 64, PTX_OUT_OF_BOUNDS);
    check_str(g.finding.buffer, "shared");
    check_int(g.finding.thread[0], 63);
    /* bytes next to each other, written by different warps: no race */
    RUN(h, SHARED "shr.u32 %r2, %r1, 5; add.u32 %r3, %r8, %r2; and.b32 %r4, %r1, 31; setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u8 [%r3], %r1; bar.sync 0; "
                  "ld.shared.u16 %h1, [s]; cvt.u32.u16 %r2, %h1; @%p7 st.global.u32 [%rd5], %r2;", 64, PTX_CLEAN);
    check_int(((uint32_t *)h.buffers[1].data)[0], 0x2000);
    /* the same byte: a race */
    RUN(i, SHARED "and.b32 %r4, %r1, 31; setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u8 [s], %r1;", 64, PTX_RACE);
    /* atomics of many warps are no race, reading beside them is */
    RUN(j, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; atom.shared.add.u32 %r2, [s], 1; bar.sync 0; ld.shared.u32 %r3, [s]; @%p7 st.global.u32 [%rd5], %r3;", 64, PTX_CLEAN);
    check_int(((uint32_t *)j.buffers[1].data)[5], 64);
    RUN(k, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; atom.shared.add.u32 %r2, [s], 1; ld.shared.u32 %r3, [s];", 64, PTX_RACE);
    RUN(l, SHARED "st.shared.u32 [%r10], 0; atom.shared.add.u32 %r2, [s], 1;", 64, l.finding.kind == PTX_RACE ? PTX_RACE : PTX_UNINITIALISED);
    /* two lanes of a warp, one word, two values */
    RUN(m, SHARED "@%p7 st.shared.u32 [s], %r1;", 64, PTX_RACE);
    /* named barriers: the first warp hands over to the second */
    RUN(n, SHARED "@%p7 bra ONE; bar.sync 1, 64; ld.shared.u32 %r2, [%r11]; bra END; ONE: st.shared.u32 [%r10], %r1; bar.arrive 1, 64; END:", 64, PTX_CLEAN);
    RUN(o, SHARED "@%p7 bra ONE; bar.arrive 1, 64; st.shared.u32 [%r11], %r1; bra END; ONE: bar.sync 1, 64; st.shared.u32 [%r10], %r1; END:", 64, PTX_RACE);
    /* fences and an atomic flag order as well: the last to arrive reads what the other wrote */
    RUN(p, SHARED ".shared .b32 flag; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [flag], 0; bar.sync 0; st.shared.u32 [%r10], %r1; membar.cta; bar.warp.sync -1; "
                  "and.b32 %r4, %r1, 31; setp.eq.u32 %p2, %r4, 0; mov.u32 %r5, 0; @%p2 atom.shared.add.u32 %r5, [flag], 1; shfl.sync.idx.b32 %r5, %r5, 0, 31, -1; "
                  "membar.cta; setp.ne.u32 %p3, %r5, 1; @%p3 bra END; ld.shared.u32 %r2, [%r11]; END:", 64, PTX_CLEAN);
    RUN(q, SHARED ".shared .b32 flag; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [flag], 0; bar.sync 0; st.shared.u32 [%r10], %r1; "
                  "and.b32 %r4, %r1, 31; setp.eq.u32 %p2, %r4, 0; mov.u32 %r5, 0; @%p2 atom.shared.add.u32 %r5, [flag], 1; shfl.sync.idx.b32 %r5, %r5, 0, 31, -1; "
                  "setp.ne.u32 %p3, %r5, 1; @%p3 bra END; ld.shared.u32 %r2, [%r11]; END:", 64, PTX_RACE);
    /* an asynchronous copy is not there until it is waited for */
    RUN(r, SHARED "and.b32 %r4, %r9, 127; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd1, %rd6; cp.async.ca.shared.global [%r10], [%rd6], 4; cp.async.commit_group; cp.async.wait_group 0; "
                  "ld.shared.u32 %r2, [%r10]; @%p7 st.global.u32 [%rd5], %r2;", 64, PTX_CLEAN);
    check_int(((uint32_t *)r.buffers[1].data)[7], 28);
    RUN(s, SHARED "and.b32 %r4, %r9, 127; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd1, %rd6; cp.async.ca.shared.global [%r10], [%rd6], 4; cp.async.commit_group; cp.async.wait_group 1; "
                  "ld.shared.u32 %r2, [%r10];", 64, PTX_UNINITIALISED);
    RUN(t, SHARED "and.b32 %r4, %r9, 127; cvt.u64.u32 %rd6, %r4; add.s64 %rd6, %rd1, %rd6; cp.async.ca.shared.global [%r10], [%rd6], 4, 0; cp.async.wait_all; "
                  "ld.shared.u32 %r2, [%r10]; @%p7 st.global.u32 [%rd5], %r2;", 64, PTX_CLEAN);
    check_int(((uint32_t *)t.buffers[1].data)[7], 0);
}

/* One warp only reads, the other only writes, atomically changes, or writes bytes: whichever comes first. */
static void each_order(void)
{
    static const char *const bodies[] = {
        SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 ld.shared.u32 %r2, [%r11]; @!%p7 st.shared.u32 [%r10], %r1;",
        SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 ld.shared.u32 %r2, [%r11]; @!%p7 red.shared.add.u32 [%r10], 1;",
        SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 st.shared.u32 [%r11], 5; @!%p7 red.shared.add.u32 [%r10], 1;",
        SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 ld.shared.u8 %r2, [%r11+1]; @!%p7 st.shared.u32 [%r10], 1;",
        SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 ld.shared.u8 %r2, [%r11+1]; @!%p7 st.shared.u8 [%r10+1], 1;",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            cleanup(bench) struct bench b = {.options.schedule_seed = seed};
            check_int(run(&b, bodies[i], 64), PTX_RACE);
            check_str(b.finding.buffer, "shared");
            b.options.check_races = false;
            check_int(bench_run(&b), PTX_CLEAN);
        }
    for (uint64_t seed = 0; seed < 8; seed++) { /* another byte of the word is another matter */
        cleanup(bench) struct bench b = {.options.schedule_seed = seed};
        check_int(run(&b, SHARED "st.shared.u32 [%r10], 0; bar.sync 0; @%p7 ld.shared.u8 %r2, [%r11+1]; @!%p7 st.shared.u8 [%r10+2], 1;", 64), PTX_CLEAN);
    }
}

static void local_and_module(void)
{
    RUN(a, ".local .align 8 .b8 stack[64]; mov.u64 %rd6, stack; cvta.local.u64 %rd7, %rd6; st.u32 [%rd7+8], %r1; ld.local.u32 %r2, [stack+8]; st.global.u32 [%rd5], %r2;",
        32, PTX_CLEAN);
    check_int(((uint32_t *)a.buffers[1].data)[30], 30);
    RUN(b, ".local .align 8 .b8 stack[64]; ld.local.u32 %r2, [stack+8];", 32, PTX_UNINITIALISED);
    check_str(b.finding.buffer, "local");
    RUN(c, ".local .align 8 .b8 stack[64]; st.local.u32 [stack+64], 1;", 32, PTX_OUT_OF_BOUNDS);
    RUN(d, ".shared .b32 v; mov.u64 %rd6, v; cvta.shared.u64 %rd7, %rd6; st.u32 [%rd7], 5; ld.shared.u32 %r2, [v]; isspacep.shared %p1, %rd7; isspacep.global %p2, %rd4; "
           "and.pred %p1, %p1, %p2; selp.u32 %r3, %r2, 0, %p1; st.global.u32 [%rd5], %r3;", 32, PTX_CLEAN);
    check_int(((uint32_t *)d.buffers[1].data)[3], 5);
    cleanup(bench) struct bench e = {0};
    check(bench_text(&e, HEAD ".global .align 4 .u32 table[4] = {10, 20, 30, 40};\n.const .align 2 .b8 c[4] = {1, 2, 3, 4};\n.visible .entry k(.param .u64 y) {\n"
                              ".reg .b32 %r<8>; .reg .b64 %rd<8>;\nmov.u64 %rd1, table; cvta.global.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+8]; ld.const.u8 %r2, [c+1]; add.u32 %r1, %r1, %r2;"
                              " ld.param.u64 %rd3, [y]; st.global.u32 [%rd3], %r1; st.global.u32 [%rd1+12], %r1; ret; }"));
    const uint32_t *y = bench_buffer(&e, "y", 4, true, NULL);
    check_int(bench_run(&e), PTX_READ_ONLY);
    check_int(*y, 32);
    check_str(e.finding.buffer, "the module's variables");
}

static void limits(void)
{
    cleanup(bench) struct bench a = {0};
    check(bench_text(&a, HEAD ".visible .entry k() { L: bra.uni L; }"));
    a.options.limits.thread_instructions = 1000000;
    check_int(bench_run(&a), PTX_TIMEOUT);
    a.options.limits = ptx_default_limits;
    a.options.limits.wall_ns = 20000000;
    check_int(bench_run(&a), PTX_TIMEOUT);
    a.launch.grid[0] = 100;
    a.options.limits.threads = 2;
    check_int(bench_run(&a), PTX_TIMEOUT);
    /* what a launch can be wrong about */
    a.launch.block[0] = 2000;
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.block[0] = 32;
    a.launch.grid[1] = 0;
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.grid[1] = 1;
    a.launch.kernel = "other";
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.kernel = "k";
    a.launch.arg_count = 1;
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.arg_count = 0;
    a.launch.dynamic_shared_bytes = 300000;
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.dynamic_shared_bytes = 0;
    a.launch.cluster[0] = 3; /* not a whole number of clusters */
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
    a.launch.grid[0] = a.launch.cluster[0] = 17;
    check_int(bench_run(&a), PTX_BAD_LAUNCH);
}

/* The lowest block's finding is the one told, however many threads look. */
static void which_block(void)
{
    for (int threads = 1; threads <= 4; threads++) {
        cleanup(bench) struct bench b = {0};
        check(bench_text(&b, HEAD ".visible .entry k(.param .u64 y) { .reg .b32 %r<4>; .reg .b64 %rd<4>; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4; "
                                  "ld.param.u64 %rd2, [y]; add.s64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r1; ret; }"));
        bench_buffer(&b, "y", 4 * 37, true, NULL);
        b.launch.grid[0] = 200;
        b.launch.block[0] = 1;
        b.options.limits.threads = threads;
        check_int(bench_run(&b), PTX_OUT_OF_BOUNDS);
        check_int(b.finding.block[0], 37);
    }
}

/* Blocks that write different values to one place; and what is no race. */
static void between_blocks(void)
{
#define OWN "mov.u32 %r2, %ctaid.x; "
    static const struct { const char *body; int block; bool check; enum ptx_finding_kind want; } cases[] = {
        {OWN "st.global.u32 [%rd2], %r2;", 1, true, PTX_RACE},
        {OWN "st.global.u32 [%rd2], %r2;", 1, false, PTX_CLEAN},
        {OWN "st.u16 [%rd2+2], %r2;", 1, true, PTX_RACE},
        {OWN "st.global.u32 [%rd5], %r2;", 32, true, PTX_RACE},                                         /* a whole row */
        {OWN "cvt.u64.u32 %rd6, %r2; st.global.u64 [%rd2+8], %rd6;", 1, true, PTX_RACE},
        {OWN "st.global.v2.u32 [%rd2], {7, %r2};", 1, true, PTX_RACE},
        {OWN "st.global.u32 [%rd2], 7;", 1, true, PTX_CLEAN},                                           /* equal values */
        {OWN "st.global.u32 [%rd5], %r1;", 32, true, PTX_CLEAN},
        {OWN "cvt.u64.u32 %rd6, %r2; add.s64 %rd6, %rd2, %rd6; st.global.u8 [%rd6], %r2;", 1, true, PTX_CLEAN},   /* bytes of one word */
        {OWN "mul.wide.u32 %rd6, %r2, 4; add.s64 %rd6, %rd2, %rd6; st.global.u32 [%rd6], 1; st.global.u32 [%rd6], %r2;", 1, true, PTX_CLEAN},
        {OWN "atom.global.exch.b32 %r3, [%rd1+0], %r2; st.global.u32 [%rd2], %r2;", 1, true, PTX_RACE},    /* orders nothing: no fence */
        {OWN "st.volatile.global.u32 [%rd2], %r2;", 1, true, PTX_CLEAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int threads = 1; threads <= 4; threads++) {
            cleanup(bench) struct bench b = {0};
            char text[4096];
            uint32_t fill[32] = {0};
            snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", ENTRY, COMMON, cases[i].body);
            check(bench_text(&b, text));
            bench_buffer(&b, "x", sizeof fill, true, fill);
            bench_buffer(&b, "y", sizeof fill, true, fill);
            b.launch.grid[0] = 16;
            b.launch.block[0] = (uint32_t)cases[i].block;
            b.options.limits.threads = threads;
            b.options.check_races = cases[i].check;
            check_int(bench_run(&b), cases[i].want);
            if (b.finding.kind != cases[i].want)
                fprintf(stderr, "  %s: %s\n", cases[i].body, b.finding.text);
            if (cases[i].want == PTX_RACE)
                check(strstr(b.finding.text, "of y where block (") && strstr(b.finding.text, "nothing to order them"));
        }
}

int main(void)
{
    bounds();
    kinds();
    shared();
    each_order();
    local_and_module();
    limits();
    which_block();
    between_blocks();
    return test_done();
}
