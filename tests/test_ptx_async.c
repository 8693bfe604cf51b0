/* mbarriers and asynchronous copies: what is right is clean under every schedule, each planted fault is found and named. */
#include "tests/test_ptx.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry k(.param .u64 x, .param .u64 y) {\n.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<8>;\n" \
    ".shared .align 16 .b8 s[4096];\n.shared .align 8 .b64 m[4];\n"
/* r1 thread, rd4 and rd5 its words of x and y, r10 its word of s, p7: warp 0, p6: thread 0, r8 s, r9 m, r20 the mapped word of the other warp */
#define COMMON "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n" \
    "mov.u32 %r8, s; mov.u32 %r9, m; shl.b32 %r2, %r1, 2; add.u32 %r10, %r8, %r2; xor.b32 %r11, %r2, 128; add.u32 %r20, %r8, %r11; setp.lt.u32 %p7, %r1, 32; setp.eq.u32 %p6, %r1, 0;\n"
#define WAIT(n, parity) "W" n ": mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], " parity "; @!%p1 bra W" n ";\n"
#define INIT(count) "@%p6 mbarrier.init.shared::cta.b64 [m], " count "; bar.sync 0;\n"

#define WORDS 64
static bool explore;
static enum ptx_finding_kind run(struct bench *b, const char *body, int block, uint64_t seed)
{
    char text[8192];
    snprintf(text, sizeof text, "%s.loc 1 17 3\n%s%s\nret;\n}\n.file 1 \"/some/where/candidate.cu\"\n", ENTRY, COMMON, body);
    uint32_t fill[WORDS * 4];
    for (uint32_t i = 0; i < WORDS * 4; i++)
        fill[i] = i * 3 + 1;
    const char *dump = getenv("PTX_TEXTS"); /* a folder: every text goes there too, for the assembler */
    if (dump) {
        static int number;
        char path[256];
        snprintf(path, sizeof path, "%s/async%d.ptx", dump, number++);
        FILE *f = fopen(path, "w");
        fputs(text, f);
        fclose(f);
    }
    check(bench_text(b, text));
    bench_buffer(b, "x", sizeof fill, false, fill);
    bench_buffer(b, "y", sizeof fill, true, NULL);
    b->launch.block[0] = (uint32_t)block;
    b->options.schedule_seed = seed;
    b->options.schedule = explore ? PTX_EXPLORE : PTX_LOCKSTEP;
    return b->m ? bench_run(b) : PTX_SYNTAX;
}

/* Under several schedules: clean, and y[i] = want(i) where given. */
static void clean(const char *body, int block, uint32_t (*want)(uint32_t))
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        cleanup(bench) struct bench b = {0};
        const enum ptx_finding_kind got = run(&b, body, block, seed);
        check_int(got, PTX_CLEAN);
        if (got != PTX_CLEAN) {
            fprintf(stderr, "  %s\n%s\n", b.finding.text, body);
            return;
        }
        for (uint32_t i = 0; want && i < (uint32_t)block; i++)
            check_int(((uint32_t *)b.buffers[1].data)[i], want(i));
    }
}

/* Under every schedule a finding of one of these kinds that says so. */
static void found(const char *body, int block, enum ptx_finding_kind kind, enum ptx_finding_kind or_kind, const char *says)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        cleanup(bench) struct bench b = {0};
        const enum ptx_finding_kind got = run(&b, body, block, seed);
        check(got == kind || got == or_kind);
        check(strstr(b.finding.text, says) != NULL);
        if ((got != kind && got != or_kind) || !strstr(b.finding.text, says)) {
            fprintf(stderr, "  seed %d: %s: %s, wanted \"%s\"\n%s\n", (int)seed, ptx_finding_name(got), b.finding.text, says, body);
            return;
        }
    }
}

static uint32_t other_warp(uint32_t i) { return i ^ 32; }

#define HAND_OVER(count, arrive, wait) \
    INIT(count) "st.shared.u32 [%r10], %r1; " arrive "\n" wait "ld.shared.u32 %r3, [%r20]; st.global.u32 [%rd5], %r3;"
#define ARRIVE "mbarrier.arrive.shared::cta.b64 %rd6, [m];"

static void mbarrier_orders(void)
{
    clean(HAND_OVER("64", ARRIVE, WAIT("0", "0")), 64, other_warp);
    clean(HAND_OVER("64", "mbarrier.arrive.release.cta.shared::cta.b64 _, [m];", "W: mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p1, [m], 0; @!%p1 bra W;"), 64, other_warp);
    clean(HAND_OVER("64", "mbarrier.arrive.shared.b64 %rd6, [%r9];", "W: mbarrier.test_wait.shared.b64 %p1, [%r9], %rd6; @!%p1 bra W;"), 64, other_warp);
    clean(HAND_OVER("64", "mbarrier.arrive.shared::cta.b64 %rd6, [%r9], 1;", "W: mbarrier.try_wait.shared::cta.b64 %p1, [%r9], %rd6, 1000; @!%p1 bra W;"), 64, other_warp);
    clean(HAND_OVER("192", "mbarrier.arrive.shared::cta.b64 %rd6, [%r9], 3;", WAIT("0", "0")), 64, other_warp);
    /* generic addresses; one lane arrives for its warp */
    clean("cvt.u64.u32 %rd8, %r9; cvta.shared.u64 %rd9, %rd8;" HAND_OVER("2", "bar.warp.sync -1; and.b32 %r4, %r1, 31; setp.eq.u32 %p2, %r4, 5; @%p2 mbarrier.arrive.b64 %rd6, [%rd9];",
                    WAIT("0", "0")), 64, other_warp);
    /* nobody waits; nobody says what he did; the wrong parity is complete from the start */
    found(HAND_OVER("64", ARRIVE, ""), 64, PTX_RACE, PTX_UNINITIALISED, "shared");
    found(HAND_OVER("64", "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [m];", WAIT("0", "0")), 64, PTX_RACE, PTX_RACE, "shared");
    found(HAND_OVER("64", ARRIVE, "W: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p1, [m], 0; @!%p1 bra W;"), 64, PTX_RACE, PTX_RACE, "shared");
    found(HAND_OVER("64", ARRIVE, WAIT("0", "1")), 64, PTX_RACE, PTX_UNINITIALISED, "shared");
    /* what comes after the arrival is not handed over */
    found(INIT("64") ARRIVE "st.shared.u32 [%r10], %r1;" WAIT("0", "0") "ld.shared.u32 %r3, [%r20];", 64, PTX_RACE, PTX_UNINITIALISED, "shared");
    /* three phases, and back again */
    clean(INIT("64") "mov.u32 %r5, 0; mov.u32 %r6, 0; L: add.u32 %r7, %r1, %r5; st.shared.u32 [%r10], %r7;" ARRIVE
          "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], %r6; @!%p1 bra W; ld.shared.u32 %r3, [%r20]; xor.b32 %r6, %r6, 1;" ARRIVE
          "V: mbarrier.try_wait.parity.shared::cta.b64 %p1, [m], %r6; @!%p1 bra V; xor.b32 %r6, %r6, 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra L;"
          "sub.u32 %r3, %r3, 2; st.global.u32 [%rd5], %r3;", 64, other_warp);
}

static void mbarrier_counts(void)
{
    found(HAND_OVER("65", ARRIVE, WAIT("0", "0")), 64, PTX_BARRIER, PTX_BARRIER,
          "waits for phase 0 (parity 0) of the mbarrier at offset 4096 of shared memory: 1 of 65 arrivals and 0 bytes are missing (line 17)");
    found(INIT("1") "mbarrier.arrive.shared::cta.b64 %rd6, [m], 2;", 32, PTX_BARRIER, PTX_BARRIER, "2 arrive but only 1 of 1 arrivals are pending");
    found(INIT("0") "", 32, PTX_BARRIER, PTX_BARRIER, "no arrivals");
    found(INIT("1048576") "", 32, PTX_BARRIER, PTX_BARRIER, "1048575");
    found(ARRIVE, 32, PTX_BARRIER, PTX_BARRIER, "never set up");
    found(INIT("1") "@%p6 mbarrier.init.shared.b64 [m], 1;", 32, PTX_BARRIER, PTX_BARRIER, "without mbarrier.inval");
    found(INIT("1") "@%p6 mbarrier.inval.shared.b64 [m]; @%p6 mbarrier.arrive.shared::cta.b64 %rd6, [m];", 32, PTX_BARRIER, PTX_BARRIER, "invalidated");
    clean(INIT("1") "@%p6 mbarrier.inval.shared.b64 [m]; @%p6 mbarrier.init.shared.b64 [m], 2; @%p6 mbarrier.arrive.shared::cta.b64 %rd6, [m];", 32, NULL);
    found(INIT("1") "@%p6 st.shared.u32 [m+4], 0; @%p6 mbarrier.arrive.shared::cta.b64 %rd6, [m];", 32, PTX_BARRIER, PTX_BARRIER, "ordinary store");
    found(INIT("1") "ld.shared.u64 %rd6, [m];", 32, PTX_UNINITIALISED, PTX_UNINITIALISED, "shared");
    found("@%p6 mbarrier.init.shared.b64 [m+4], 1;", 32, PTX_MISALIGNED, PTX_MISALIGNED, "shared");
    found("@%p6 mbarrier.init.shared.b64 [m+32], 1;", 32, PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "shared");
    found("mov.u64 %rd6, 0; mbarrier.init.b64 [%rd2], 1;", 32, PTX_BARRIER, PTX_BARRIER, "not in shared memory");
    /* set up by one warp, used by another with nothing between */
    found("@%p6 mbarrier.init.shared.b64 [m], 64;" ARRIVE, 64, PTX_RACE, PTX_BARRIER, "shared memory");
    /* the state: of this phase or the last */
    found(INIT("1") "@!%p6 bra E;" ARRIVE ARRIVE "mov.b64 %rd7, %rd6;" ARRIVE ARRIVE "mbarrier.test_wait.shared.b64 %p1, [m], %rd7; E:", 32, PTX_BARRIER, PTX_BARRIER,
          "neither of the current nor of the last phase");
    /* the count that was pending before the arrival */
    clean(INIT("64") ARRIVE "mbarrier.pending_count.b64 %r3, %rd6; setp.lt.u32 %p1, %r3, 1; @%p1 trap; setp.gt.u32 %p1, %r3, 64; @%p1 trap;", 64, NULL);
    found(INIT("1") "@%p6 mbarrier.arrive.noComplete.shared::cta.b64 %rd6, [m], 1;", 32, PTX_BARRIER, PTX_BARRIER, "noComplete");
    clean(INIT("2") "@%p6 mbarrier.arrive.noComplete.shared::cta.b64 %rd6, [m], 1; @%p6 mbarrier.arrive.shared::cta.b64 %rd6, [m];" WAIT("0", "0"), 64, NULL);
    /* the upper warp drops out: the next phase is complete without it */
    clean(INIT("64") "@%p7 bra A; mbarrier.arrive_drop.shared::cta.b64 %rd6, [m]; bra E; A: " ARRIVE WAIT("0", "0") ARRIVE WAIT("1", "1") "E:", 64, NULL);
    found(INIT("64") "@%p7 bra A; " ARRIVE " bra E; A: " ARRIVE WAIT("0", "0") ARRIVE WAIT("1", "1") "E:", 64, PTX_BARRIER, PTX_BARRIER, "32 of 64 arrivals");
}

static void mbarrier_bytes(void)
{
#define EXPECT(bytes) "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], " bytes ";"
#define CAME(bytes) "mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [m], " bytes ";"
    clean(INIT("1") EXPECT("256") CAME("4") WAIT("0", "0"), 64, NULL);
    clean(INIT("1") "@%p6 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 256; bar.sync 0;" CAME("4") "@%p6 " ARRIVE WAIT("0", "0"), 64, NULL);
    found(INIT("1") EXPECT("260") CAME("4") WAIT("0", "0"), 64, PTX_BARRIER, PTX_BARRIER, "0 of 1 arrivals and 4 bytes are missing");
    found(INIT("1") EXPECT("252") "@%p6 " CAME("256") WAIT("0", "0"), 64, PTX_BARRIER, PTX_BARRIER, "0 of 1 arrivals and -4 bytes are missing");
    found(INIT("1") EXPECT("1048576"), 64, PTX_BARRIER, PTX_BARRIER, "1048575");
    found(INIT("64") "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 1000000;", 64, PTX_BARRIER, PTX_BARRIER, "count of bytes");
}

#define LOAD_TILE(bytes) "@%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], " bytes ", [m];"
#define USE "ld.shared.u32 %r3, [%r10]; st.global.u32 [%rd5], %r3;"
static uint32_t of_x(uint32_t i) { return i * 3 + 1; }
static uint32_t of_x_other(uint32_t i) { return (i ^ 32) * 3 + 1; }

static void bulks_in(void)
{
    clean(INIT("1") EXPECT("256") LOAD_TILE("256") WAIT("0", "0") USE, 64, of_x);
    clean(INIT("1") LOAD_TILE("256") EXPECT("256") WAIT("0", "0") USE, 64, of_x); /* the bytes may come first */
    clean(INIT("1") EXPECT("256") "@%p6 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd1], 256, [m];" WAIT("0", "0") USE, 64, of_x);
    clean(INIT("1") EXPECT("256") "createpolicy.fractional.L2::evict_first.b64 %rd8, 1.0; @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [s], [%rd1], 256, [m], %rd8;"
          WAIT("0", "0") USE, 64, of_x);
    clean("@%p6 cp.async.bulk.prefetch.L2.global [%rd1], 256;", 64, NULL);
    /* thread 0 waits for all */
    clean(INIT("1") EXPECT("256") LOAD_TILE("256") "@!%p6 bra A;" WAIT("0", "0") "A: bar.sync 0;" USE, 64, of_x);
    found(INIT("1") EXPECT("256") LOAD_TILE("256") USE, 64, PTX_UNINITIALISED, PTX_RACE, "shared");
    found(INIT("1") EXPECT("256") LOAD_TILE("256") "bar.sync 0;" USE, 64, PTX_UNINITIALISED, PTX_UNINITIALISED, "shared");
    found(INIT("1") EXPECT("256") LOAD_TILE("256") WAIT("0", "1") USE, 64, PTX_UNINITIALISED, PTX_BARRIER, "shared");
    found(INIT("1") EXPECT("272") LOAD_TILE("256") WAIT("0", "0") USE, 64, PTX_BARRIER, PTX_BARRIER, "0 of 1 arrivals and 16 bytes are missing");
    found(INIT("1") EXPECT("240") LOAD_TILE("256") WAIT("0", "0") USE, 64, PTX_BARRIER, PTX_BARRIER, "0 of 1 arrivals and -16 bytes are missing");
    found(INIT("1") LOAD_TILE("256") "@%p6 mbarrier.arrive.shared::cta.b64 _, [m];" WAIT("0", "0") USE, 64, PTX_UNINITIALISED, PTX_BARRIER, "");
    found("mov.u32 %r3, 250;" INIT("1") EXPECT("256") LOAD_TILE("%r3") WAIT("0", "0") USE, 64, PTX_MISALIGNED, PTX_MISALIGNED, "multiple of 16");
    found(INIT("1") EXPECT("256") "add.u64 %rd1, %rd1, 8;" LOAD_TILE("256"), 64, PTX_MISALIGNED, PTX_MISALIGNED, "of x");
    found(INIT("1") EXPECT("1040") LOAD_TILE("1040"), 64, PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "of x, which has 1024 bytes");
    found(INIT("1") EXPECT("512") "add.u32 %r8, %r8, 3840; @%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd1], 512, [m];", 64, PTX_OUT_OF_BOUNDS,
          PTX_OUT_OF_BOUNDS, "of shared");
    found("@%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd1], 256, [m];", 64, PTX_BARRIER, PTX_BARRIER, "never set up");
    found(INIT("1") EXPECT("256") "@%p6 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%rd2], 256, [m];", 64, PTX_UNINITIALISED, PTX_UNINITIALISED, "of y");
    /* the destination is used by others: before the issue, after it */
    found("st.shared.u32 [%r10], %r1;" INIT("1") EXPECT("256") "ld.shared.u32 %r3, [%r10];" LOAD_TILE("256") WAIT("0", "0") USE, 64, PTX_RACE, PTX_UNINITIALISED, "shared");
    found(INIT("1") EXPECT("256") LOAD_TILE("256") "@%p6 st.shared.u32 [s+16], 5;" WAIT("0", "0") USE, 64, PTX_RACE, PTX_RACE, "something else was stored");
    /* a ring of two stages, filled by warp 1, emptied by warp 0 */
    clean("setp.eq.u32 %p3, %r1, 32; @%p6 mbarrier.init.shared.b64 [m], 1; @%p6 mbarrier.init.shared.b64 [m+8], 1; @%p6 mbarrier.init.shared.b64 [m+16], 32; @%p6 mbarrier.init.shared.b64 [m+24], 32;"
          "@%p6 fence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r4, 0; mov.u32 %r7, 0; @%p7 bra C;"
          "P: and.b32 %r5, %r4, 1; shl.b32 %r6, %r5, 3; add.u32 %r6, %r6, %r9; shr.u32 %r12, %r4, 1; and.b32 %r12, %r12, 1; xor.b32 %r13, %r12, 1; add.u32 %r14, %r6, 16;"
          "PW: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r14], %r13; @!%p1 bra PW; shl.b32 %r15, %r5, 7; add.u32 %r15, %r15, %r8; shl.b32 %r16, %r4, 7; cvt.u64.u32 %rd7, %r16; add.s64 %rd7, %rd7, %rd1;"
          "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 128; @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r15], [%rd7], 128, [%r6];"
          "add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 8; @%p2 bra P; bra E;"
          "C: and.b32 %r5, %r4, 1; shl.b32 %r6, %r5, 3; add.u32 %r6, %r6, %r9; shr.u32 %r12, %r4, 1; and.b32 %r12, %r12, 1; add.u32 %r14, %r6, 16;"
          "CW: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r6], %r12; @!%p1 bra CW; shl.b32 %r15, %r5, 7; add.u32 %r15, %r15, %r10; ld.shared.u32 %r3, [%r15]; add.u32 %r7, %r7, %r3;"
          "mbarrier.arrive.shared::cta.b64 _, [%r14]; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 8; @%p2 bra C;"
          "mul.lo.u32 %r3, %r1, 24; sub.u32 %r7, %r7, %r3; setp.ne.u32 %p1, %r7, 2696; @%p1 trap; E:", 64, NULL);
}

#define TILE "st.shared.u32 [%r10], %r1; fence.proxy.async.shared::cta; bar.sync 0;"
#define STORE_TILE "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256; @%p6 cp.async.bulk.commit_group;"
#define STORED "@%p6 cp.async.bulk.wait_group 0;"
static uint32_t itself(uint32_t i) { return i; }
static uint32_t twice(uint32_t i) { return i * 2; }
static uint32_t filled(uint32_t i) { return i * 3 + 1; }

static void bulks_out(void)
{
    clean(TILE STORE_TILE STORED, 64, itself);
    clean(TILE STORE_TILE "@%p6 cp.async.bulk.wait_group.read 0;", 64, itself);
    clean(TILE STORE_TILE "@%p6 cp.async.bulk.wait_group.read 0; bar.sync 0; st.shared.u32 [%r10], 0;", 64, itself);
    clean(TILE STORE_TILE STORED "bar.sync 0; ld.global.u32 %r3, [%rd5]; setp.ne.u32 %p1, %r3, %r1; @%p1 trap;", 64, itself);
    clean(TILE "st.global.u32 [%rd5], %r1; bar.sync 0; @%p6 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [s], 256; @%p6 cp.async.bulk.commit_group;" STORED, 64, twice);
    /* the newest group is not waited for */
    clean(TILE "add.s64 %rd6, %rd2, 128; @%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 128; @%p6 cp.async.bulk.commit_group;"
          "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd6], [s+128], 128; @%p6 cp.async.bulk.commit_group; @%p6 cp.async.bulk.wait_group 1; bar.sync 0;"
          "@%p7 ld.global.u32 %r3, [%rd5]; @%p6 cp.async.bulk.wait_group 0;", 64, itself);
    found(TILE "add.s64 %rd6, %rd2, 128; @%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 128; @%p6 cp.async.bulk.commit_group;"
          "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd6], [s+128], 128; @%p6 cp.async.bulk.commit_group; @%p6 cp.async.bulk.wait_group 1; bar.sync 0;"
          "ld.global.u32 %r3, [%rd5]; @%p6 cp.async.bulk.wait_group 0;", 64, PTX_UNINITIALISED, PTX_RACE, "of y");
    found(TILE STORE_TILE "", 64, PTX_RACE, PTX_RACE, "wait_group.read");
    /* what was stored without a fence.proxy.async since no copy has to see: no barrier, nor another fence, stands for it */
    found("st.shared.u32 [%r10], %r1; bar.sync 0;" STORE_TILE STORED, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found("st.shared.u32 [%r10], %r1; fence.acq_rel.cta; bar.sync 0;" STORE_TILE STORED, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found("st.shared.u32 [%r10], %r1; fence.proxy.async.global; bar.sync 0;" STORE_TILE STORED, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found("fence.proxy.async.shared::cta; st.shared.u32 [%r10], %r1; bar.sync 0;" STORE_TILE STORED, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found(TILE STORE_TILE STORED "bar.sync 0; st.shared.u32 [%r10], 5; bar.sync 0;" STORE_TILE STORED, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    clean("st.shared.u32 [%r10], %r1; bar.sync 0; @%p6 fence.proxy.async;" STORE_TILE STORED, 64, itself);
/* what a copy brought a copy may take away */
    clean(INIT("1") "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 %rd6, [m], 256; @%p6 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd1], 256, [m];"
          WAIT("9", "0") "bar.sync 0;" STORE_TILE STORED, 64, filled);
    found(TILE STORE_TILE "@%p6 st.shared.u32 [s+8], 77;" STORED, 64, PTX_RACE, PTX_RACE, "byte 8 was changed");
    found(TILE STORE_TILE "bar.sync 0; ld.global.u32 %r3, [%rd5];" STORED, 64, PTX_UNINITIALISED, PTX_RACE, "of y");
    found(TILE "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 256;" STORED, 64, PTX_RACE, PTX_RACE, "wait_group.read"); /* never committed */
    found("st.shared.u32 [%r10], %r1;" STORE_TILE STORED, 64, PTX_UNINITIALISED, PTX_RACE, "shared");
    found(TILE "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [s], 256;", 64, PTX_READ_ONLY, PTX_READ_ONLY, "of x");
    found(TILE "@%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [s], 1040;", 64, PTX_OUT_OF_BOUNDS, PTX_UNINITIALISED, "of");
    found(TILE "@%p6 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [s], 256;", 64, PTX_UNINITIALISED, PTX_UNINITIALISED, "of y");
}

/* What threads stored in global memory a copy need not see either, without a fence for that. */
static void copies_of_stored_buffers(void)
{
#define OWN_WORD "st.global.u32 [%rd5], %r1;"
#define FETCH "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 %rd6, [m], 256; @%p6 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd2], 256, [m];" \
              WAIT("9", "0") "ld.shared.u32 %r3, [%r10]; bar.sync 0; st.global.u32 [%rd5], %r3;"
    clean(INIT("1") OWN_WORD "fence.proxy.async; bar.sync 0;" FETCH, 64, itself);
    clean(INIT("1") OWN_WORD "fence.proxy.async.global; bar.sync 0;" FETCH, 64, itself);
    clean(INIT("1") OWN_WORD "bar.sync 0; @%p6 fence.proxy.async.global;" FETCH, 64, itself);
    found(INIT("1") OWN_WORD "bar.sync 0;" FETCH, 64, PTX_RACE, PTX_RACE, "of y, whose byte");
    found(INIT("1") OWN_WORD "membar.gl; bar.sync 0;" FETCH, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found(INIT("1") OWN_WORD "fence.proxy.async.shared::cta; bar.sync 0;" FETCH, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    found(INIT("1") "fence.proxy.async;" OWN_WORD "bar.sync 0;" FETCH, 64, PTX_RACE, PTX_RACE, "fence.proxy.async");
    /* fenced by one warp alone, before it has met the other */
    found(INIT("1") OWN_WORD "@%p7 fence.proxy.async; bar.sync 0;" FETCH, 64, PTX_RACE, PTX_RACE, "byte 128");
    /* one warp in one block */
    found(INIT("1") OWN_WORD "st.global.u32 [%rd5+128], %r1; bar.sync 0;" FETCH, 32, PTX_RACE, PTX_RACE, "fence.proxy.async");
    clean(INIT("1") OWN_WORD "st.global.u32 [%rd5+128], %r1; fence.proxy.async; bar.sync 0;" FETCH, 32, itself);
    /* brought, and nobody waits */
    found(INIT("1") "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 %rd6, [m], 256; @%p6 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], [%rd1], 256, [m];", 64,
          PTX_RACE, PTX_RACE, "nothing waits for them");
    /* what a copy brought there a copy may take away, and what nobody has stored */
    clean(INIT("1") TILE STORE_TILE STORED "bar.sync 0; @%p6 fence.proxy.async.shared::cta;" FETCH, 64, itself);
}

/* A named barrier counts whoever comes: two parties need two, or an order between them. */
static void parties_at_barriers(void)
{
    clean("setp.lt.u32 %p1, %r1, 64; @%p1 bra A; bar.sync 2, 64; bra E; A: bar.sync 1, 64; E: bar.sync 0;", 128, NULL);
    clean("setp.lt.u32 %p1, %r1, 64; @%p1 bar.sync 1, 64; bar.sync 0; @!%p1 bar.sync 1, 64;", 128, NULL);
    clean("setp.lt.u32 %p1, %r1, 64; @%p1 bar.arrive 1, 128; @!%p1 bar.sync 1, 128; @%p1 bar.sync 2, 128; @!%p1 bar.arrive 2, 128; bar.sync 1, 128;", 128, NULL);
    clean("setp.lt.u32 %p1, %r1, 64; @%p1 bar.sync 1, 64; @%p1 bar.arrive 2, 128; @!%p1 bar.sync 2, 128; @!%p1 bar.sync 1, 64;", 128, NULL);
    found("bar.sync 1, 64;", 128, PTX_RACE, PTX_RACE, "may be counted as one of them");
    found("bar.sync 1, 64; bar.sync 1, 64; bar.sync 0;", 128, PTX_RACE, PTX_RACE, "comes to barrier 1");
}

static void copies_that_arrive(void)
{
#define COPY "cp.async.ca.shared.global [%r10], [%rd4], 4;"
#define OTHERS "ld.shared.u32 %r3, [%r20]; st.global.u32 [%rd5], %r3;"
    clean(INIT("64") COPY "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [m];" WAIT("0", "0") OTHERS, 64, of_x_other);
    clean(INIT("64") COPY "cp.async.mbarrier.arrive.shared.b64 [m];" ARRIVE WAIT("0", "0") OTHERS, 64, of_x_other);
    found(INIT("64") COPY ARRIVE WAIT("0", "0") OTHERS, 64, PTX_UNINITIALISED, PTX_UNINITIALISED, "shared");
    found(INIT("64") COPY "cp.async.mbarrier.arrive.shared.b64 [m];" WAIT("0", "0") OTHERS, 64, PTX_BARRIER, PTX_BARRIER, "64 of 64 arrivals");
    found(INIT("64") "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [m];" COPY WAIT("0", "0") OTHERS, 64, PTX_UNINITIALISED, PTX_RACE, "shared");
    /* what the thread does after that instruction is not handed over */
    found(INIT("64") COPY "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [m]; st.shared.u32 [%r10+1024], 7;" WAIT("0", "0") "ld.shared.u32 %r3, [%r20+1024];", 64, PTX_UNINITIALISED, PTX_RACE,
          "shared");
    /* zeros where less is read than is written, or nothing */
    clean("setp.lt.u32 %p1, %r1, 32; cp.async.ca.shared.global [%r10], [%rd4], 4, %p1; cp.async.wait_all; " USE, 64, NULL);
    clean("createpolicy.fractional.L2::evict_first.b64 %rd8, 1.0; cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r10], [%rd4], 4, %rd8; cp.async.wait_all; " USE, 64, of_x);
}

/* Operands of all shapes are read; what is not emulated is told by its name, when it is reached. */
/* 19200 in flight in a warp, however its lanes are parted: lanes that run apart fill the same records. */
static void copies_of_parted_lanes(void)
{
    static const char body[] =
        "mov.u32 %r16, 0; L: and.b32 %r17, %r16, 31; shl.b32 %r18, %r17, 7; add.u32 %r18, %r10, %r18; mul.wide.u32 %rd10, %r17, 4; add.s64 %rd10, %rd4, %rd10;"
        "cp.async.ca.shared.global [%r18], [%rd10], 4; add.u32 %r16, %r16, 1; setp.lt.u32 %p1, %r16, 600; @%p1 bra L; cp.async.wait_all;"
        "ld.shared.u32 %r3, [%r10+3968]; st.global.u32 [%rd5], %r3;";
    explore = true;
    for (uint64_t seed = 0; seed < 40; seed++) {
        cleanup(bench) struct bench b = {0};
        check_int(run(&b, body, 32, seed), PTX_CLEAN);
        check_str(b.finding.text, "");
        for (uint32_t i = 0; i < 32; i++)
            check_int(((uint32_t *)b.buffers[1].data)[i], (i + 31) * 3 + 1);
    }
    explore = false;
}

static const char *const beyond[] = {
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], [%rd1, {%r2, %r3, %r4, %r5}], [%r4], {%h1, %h2}, %h3, %rd3;",
    "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {%r2}], [%r1];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r2, %r3}];",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd1, {%r2}], [%r1];",
    "multimem.ld_reduce.relaxed.sys.global.add.f32 %f1, [%rd1];",
    "multimem.ld_reduce.weak.global.add.acc::f32.v4.f16x2 {%r1,%r2,%r3,%r4}, [%rd1];",
    "multimem.st.relaxed.sys.global.f32 [%rd1], %f1;",
    "multimem.red.relaxed.sys.global.add.v4.f32 [%rd1], {%f1,%f2,%f3,%f4};",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;",
    "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0x1, %r2;",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;",
    "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r3, {%r4,%r5,%r6,%r7}, %p1;",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1,%r2}, [%r3];",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%rd1];",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, 64;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, %p1, 1, 1, 0, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, %rd2, 1, -1, 1, 0;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8.satfinite {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1;",
};

static void what_is_not_emulated(void)
{
    for (size_t n = 0; n < sizeof beyond / sizeof *beyond; n++) {
        char text[2048], name[128], want[160];
        snprintf(text, sizeof text, HEAD ".visible .entry k() { .reg .pred %%p<8>; .reg .b16 %%h<8>; .reg .b32 %%r<64>; .reg .b64 %%rd<32>; .reg .f32 %%f<64>;\n"
                 "mov.u32 %%r1, 0; mov.u32 %%r3, 0; mov.u32 %%r4, 0; mov.u64 %%rd1, 0; mov.u64 %%rd2, 0; mov.u32 %%r2, 0; mov.f32 %%f1, 0f00000000; mov.f32 %%f2, %%f1; mov.f32 %%f3, %%f1; mov.f32 %%f4, %%f1;\n%s\nret; }\n", beyond[n]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(beyond[n], " ;"), beyond[n]);
        cleanup(bench) struct bench b = {0};
        check(bench_text(&b, text));
        if (!b.m)
            continue;
        check_int(bench_run(&b), PTX_UNSUPPORTED);
        snprintf(want, sizeof want, "executes %s", name);
        check(strstr(b.finding.text, want) != NULL || strlen(want) > 90);
        cleanup(buf) struct buf all = {0};
        ptx_unsupported(b.m, &all);
        check_str(buf_cstr(&all), name);
        if (b.finding.kind != PTX_UNSUPPORTED)
            fprintf(stderr, "  %s: %s\n", beyond[n], b.finding.text);
    }
}

int main(void)
{
    what_is_not_emulated();
    bulks_in();
    bulks_out();
    copies_of_stored_buffers();
    parties_at_barriers();
    copies_that_arrive();
    copies_of_parted_lanes();
    mbarrier_orders();
    mbarrier_counts();
    mbarrier_bytes();
    return test_done();
}
