/* Clusters: ranks, mapped shared memory, the cluster's barrier, remote arrivals; each missing piece of order is found. */
#include "tests/test_ptx.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY(how) HEAD ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 flags) " how " {\n.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<8>;\n" \
    ".shared .align 16 .b8 s[512];\n.shared .align 8 .b64 m[4];\n"
/* r1 thread, r2 rank, r3 the next rank, r10 own word of s, r11 that word of the next block, rd5 word of y by thread of the grid, p6: thread 0 */
#define COMMON "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r4, %cluster_nctarank; add.u32 %r3, %r2, 1; rem.u32 %r3, %r3, %r4;\n" \
    "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x; mad.lo.u32 %r7, %r5, %r6, %r1; mul.wide.u32 %rd3, %r7, 4; add.s64 %rd5, %rd2, %rd3;\n" \
    "mov.u32 %r8, s; mov.u32 %r9, m; shl.b32 %r12, %r1, 2; add.u32 %r10, %r8, %r12; mapa.shared::cluster.u32 %r11, %r10, %r3; setp.eq.u32 %p6, %r1, 0;\n"
#define SYNC "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
#define STORE "st.shared.u32 [%r10], %r7;"
#define LOAD "ld.shared::cluster.u32 %r13, [%r11];"
#define OUT "st.global.u32 [%rd5], %r13;"
#define GET_OWN "ld.shared.u32 %r13, [%r10];"
#define WAIT "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [m], 0; @!%p2 bra W;\n"

struct shape { uint32_t grid[3], block, cluster[3]; const char *how; };
static const struct shape plain = {{4, 1, 1}, 64, {2, 1, 1}, ""};

static enum ptx_finding_kind run(struct bench *b, const struct shape *s, const char *body, uint64_t seed)
{
    char text[8192];
    const char *entry = *s->how ? ENTRY(".reqnctapercluster 2, 1, 1") : ENTRY("");
    snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", entry, COMMON, body);
    static uint32_t fill[2048]; /* the thread's number, for blocks of 64 */
    for (uint32_t i = 0; i < 2048; i++)
        fill[i] = i % 64;
    const char *dump = getenv("PTX_TEXTS"); /* a folder: every text goes there too, for the assembler */
    if (dump) {
        static int number;
        char path[256];
        snprintf(path, sizeof path, "%s/cluster%d.ptx", dump, number++);
        FILE *f = fopen(path, "w");
        fputs(text, f);
        fclose(f);
    }
    check(bench_text(b, text));
    bench_buffer(b, "x", sizeof fill, false, fill);
    bench_buffer(b, "y", sizeof fill, true, NULL);
    static uint32_t flags[32];
    bench_buffer(b, "flags", sizeof flags, true, flags);
    memcpy(b->launch.grid, s->grid, sizeof s->grid);
    memcpy(b->launch.cluster, s->cluster, sizeof s->cluster);
    b->launch.block[0] = s->block;
    b->options.schedule_seed = seed;
    b->options.limits.threads = seed & 1 ? 2 : 1;
    return b->m ? bench_run(b) : PTX_SYNTAX;
}

static void clean(const struct shape *s, const char *body, uint32_t (*want)(const struct shape *, uint32_t))
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        cleanup(bench) struct bench b = {0};
        const enum ptx_finding_kind got = run(&b, s, body, seed);
        check_int(got, PTX_CLEAN);
        if (got != PTX_CLEAN) {
            fprintf(stderr, "  %s\n%s\n", b.finding.text, body);
            return;
        }
        for (uint32_t i = 0; want && i < s->grid[0] * s->block; i++)
            check_int(((uint32_t *)b.buffers[1].data)[i], want(s, i));
    }
}

static void found(const struct shape *s, const char *body, enum ptx_finding_kind kind, enum ptx_finding_kind or_kind, const char *says)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        cleanup(bench) struct bench b = {0};
        const enum ptx_finding_kind got = run(&b, s, body, seed);
        check(got == kind || got == or_kind);
        check(strstr(b.finding.text, says) != NULL);
        if ((got != kind && got != or_kind) || !strstr(b.finding.text, says)) {
            fprintf(stderr, "  seed %d: %s: %s, wanted \"%s\"\n%s\n", (int)seed, ptx_finding_name(got), b.finding.text, says, body);
            return;
        }
    }
}

/* The same thread of the next block of the cluster. */
static uint32_t next_block(const struct shape *s, uint32_t i)
{
    const uint32_t size = s->cluster[0], block = i / s->block;
    return (block / size * size + (block % size + 1) % size) * s->block + i % s->block;
}
/* The same thread of the block before it, whose next block this one is. */
static uint32_t next_block_back(const struct shape *s, uint32_t i)
{
    const uint32_t size = s->cluster[0], block = i / s->block;
    return (block / size * size + (block % size + size - 1) % size) * s->block + i % s->block;
}
static uint32_t next_rank(const struct shape *s, uint32_t i) { return (i / s->block % s->cluster[0] + 1) % s->cluster[0]; }

static void shared_memory_of_others(void)
{
    static const struct shape four = {{8, 1, 1}, 32, {4, 1, 1}, ""}, compiled = {{4, 1, 1}, 64, {0, 0, 0}, "yes"},
                              wide = {{16, 1, 1}, 96, {16, 1, 1}, ""};
    clean(&plain, STORE SYNC LOAD SYNC OUT, next_block);
    clean(&four, STORE SYNC LOAD SYNC OUT, next_block);
    clean(&wide, STORE SYNC LOAD SYNC OUT, next_block);
    (void)compiled;
    clean(&plain, STORE "barrier.cluster.arrive; barrier.cluster.wait;" LOAD "barrier.cluster.arrive; barrier.cluster.wait;" OUT, NULL);
    clean(&plain, STORE "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;" LOAD "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;" OUT, NULL);
    found(&plain, STORE SYNC LOAD "barrier.cluster.arrive.relaxed; barrier.cluster.wait;" OUT, PTX_RACE, PTX_RACE, "shared memory");
    /* pushed instead of pulled; by generic address */
    clean(&plain, SYNC "st.shared::cluster.u32 [%r11], %r7;" SYNC "ld.shared.u32 %r13, [%r10]; xor.b32 %r13, %r13, 64;" OUT, NULL);
    clean(&plain, STORE SYNC "cvt.u64.u32 %rd6, %r10; cvta.shared.u64 %rd6, %rd6; mapa.u64 %rd7, %rd6, %r3; ld.u32 %r13, [%rd7];" SYNC OUT, next_block);
    clean(&plain, STORE SYNC "cvt.u64.u32 %rd6, %r11; cvta.shared::cluster.u64 %rd6, %rd6; ld.u32 %r13, [%rd6];" SYNC OUT, next_block);
    clean(&plain, STORE SYNC "mapa.shared::cluster.u32 %r14, s, %r3; add.u32 %r14, %r14, %r12; ld.shared::cluster.u32 %r13, [%r14];" SYNC OUT, next_block);
    clean(&plain, STORE SYNC "mapa.shared::cluster.u32 %r14, %r10, %r2; ld.shared.u32 %r13, [%r14]; ld.shared::cluster.u32 %r13, [%r10];" OUT, NULL);
    clean(&four, "getctarank.shared::cluster.u32 %r13, %r11;" OUT, next_rank);
    clean(&four, "cvt.u64.u32 %rd6, %r11; cvta.shared.u64 %rd6, %rd6; getctarank.u64 %r13, %rd6;" OUT, next_rank);
    clean(&plain, "cvt.u64.u32 %rd6, %r11; cvta.shared.u64 %rd6, %rd6; isspacep.shared::cluster %p1, %rd6; isspacep.shared::cta %p2, %rd6; @!%p1 trap; @%p2 trap;"
                  "cvt.u64.u32 %rd6, %r10; cvta.shared.u64 %rd6, %rd6; isspacep.shared::cluster %p1, %rd6; isspacep.shared %p2, %rd6; @!%p1 trap; @!%p2 trap;", NULL);
    /* all blocks add to block 0's word */
    clean(&four, "@%p6 st.shared.u32 [s], 0;" SYNC "mapa.shared::cluster.u32 %r14, s, 0; atom.shared::cluster.add.u32 %r15, [%r14], 1; red.shared::cluster.add.u32 [%r14], 1;" SYNC
                 "ld.shared::cluster.u32 %r13, [%r14]; setp.ne.u32 %p1, %r13, 256; @%p1 trap;" SYNC, NULL);
}

static void order_that_is_missing(void)
{
    found(&plain, STORE LOAD SYNC OUT, PTX_RACE, PTX_UNINITIALISED, "shared");
    found(&plain, STORE "bar.sync 0;" LOAD SYNC OUT, PTX_RACE, PTX_UNINITIALISED, "shared");
    found(&plain, STORE "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;" LOAD SYNC OUT, PTX_RACE, PTX_RACE, "shared");
    /* nobody waits for who reads his memory */
    found(&plain, STORE SYNC LOAD OUT, PTX_RACE, PTX_RACE, "shared memory");
    found(&plain, STORE SYNC LOAD STORE SYNC OUT, PTX_RACE, PTX_RACE, "shared");
    found(&plain, "@%p6 st.shared.u32 [s], 0; mapa.shared::cluster.u32 %r14, s, 0; atom.shared::cluster.add.u32 %r15, [%r14], 1;" SYNC, PTX_RACE, PTX_UNINITIALISED, "shared");
    /* the block's own warps */
    found(&plain, STORE "xor.b32 %r14, %r12, 128; add.u32 %r14, %r14, %r8; ld.shared.u32 %r13, [%r14];", PTX_RACE, PTX_UNINITIALISED, "shared");
    clean(&plain, STORE SYNC "xor.b32 %r14, %r12, 128; add.u32 %r14, %r14, %r8; ld.shared.u32 %r13, [%r14];", NULL);
}

/* Shared memory of a block that may not have begun, or may have ended, is not there: whatever the order of what is read and written. */
#define PUT "st.shared::cluster.u32 [%r11], %r7;"
#define RELAXED "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"
#define EARLY PTX_RACE, PTX_RACE, "may not have started"
static void blocks_that_have_begun(void)
{
    static const struct shape four = {{8, 1, 1}, 64, {4, 1, 1}, ""};
    found(&plain, PUT SYNC GET_OWN OUT, EARLY);
    found(&four, PUT SYNC GET_OWN OUT, EARLY);
    found(&plain, "bar.sync 0; fence.acq_rel.cluster;" PUT SYNC GET_OWN OUT, EARLY);
    found(&plain, "barrier.cluster.arrive.aligned;" PUT "barrier.cluster.wait.aligned;" SYNC, EARLY);
    found(&plain, "barrier.cluster.arrive; setp.lt.u32 %p1, %r1, 32; @%p1 barrier.cluster.wait;" PUT "@!%p1 barrier.cluster.wait;" SYNC, EARLY);
    found(&plain, "mapa.shared::cluster.u32 %r14, %r9, %r3; @%p6 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];" SYNC, EARLY);
    /* arrivals at a barrier of one's own, and atomics there, say nothing of the other block */
    found(&plain, "@%p6 mbarrier.init.shared.b64 [m], 64; bar.sync 0; mbarrier.arrive.release.cluster.shared::cta.b64 %rd6, [m];" WAIT PUT SYNC, EARLY);
    /* a relaxed arrival is made by a block that runs; a barrier of the block passes on what one of its warps learned */
    clean(&plain, RELAXED PUT SYNC GET_OWN OUT, next_block_back);
    clean(&plain, "barrier.cluster.arrive.relaxed; setp.lt.u32 %p1, %r1, 32; @%p1 barrier.cluster.wait; bar.sync 0;" PUT "@!%p1 barrier.cluster.wait;" SYNC GET_OWN OUT, next_block_back);
    /* block 0 of the cluster learns from an arrival, or a flag, of block 1 that it has begun, and only then sends something there */
#define ZERO "setp.eq.u32 %p1, %r2, 0; mapa.shared::cluster.u32 %r14, %r9, %r3; @%p6 mbarrier.init.shared.b64 [m], 1; fence.mbarrier_init.release.cluster;"
    clean(&plain, ZERO "barrier.cluster.arrive.release; @%p1 barrier.cluster.wait; @!%p1 bra B; @%p6 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14]; bra E; B: barrier.cluster.wait;"
                  WAIT "E:" SYNC, NULL);
    /* by a flag in global memory, one a cluster */
#define FLAG "shr.u32 %r20, %r5, 1; mul.wide.u32 %rd6, %r20, 4; ld.param.u64 %rd7, [flags]; add.s64 %rd6, %rd7, %rd6; setp.eq.u32 %p1, %r2, 0; @%p1 bra A;"
    clean(&plain, FLAG "fence.acq_rel.gpu; @%p6 atom.global.add.u32 %r21, [%rd6], 1; bra E; A: @!%p6 bra C; L: ld.acquire.gpu.global.u32 %r21, [%rd6]; setp.eq.u32 %p2, %r21, 0; @%p2 bra L;"
                  "C: bar.sync 0;" PUT "E:" SYNC, NULL);
    found(&plain, FLAG "fence.acq_rel.gpu; @%p6 atom.global.add.u32 %r21, [%rd6], 1; bra E; A: fence.acq_rel.gpu;" PUT "E:" SYNC, EARLY);
}

static void the_barrier(void)
{
    found(&plain, "barrier.cluster.arrive; barrier.cluster.arrive;", PTX_BARRIER, PTX_BARRIER, "arrives at the cluster's barrier twice");
    found(&plain, "barrier.cluster.wait;", PTX_BARRIER, PTX_BARRIER, "without having arrived");
    found(&plain, "@%p6 barrier.cluster.arrive.aligned;", PTX_BARRIER, PTX_BARRIER, ".aligned");
    clean(&plain, "@%p6 barrier.cluster.arrive; @!%p6 barrier.cluster.arrive; barrier.cluster.wait;", NULL);
    /* .aligned: the warp may come in parts, but all of it to one instruction */
    clean(&plain, STORE "@!%p6 bra A; add.u32 %r20, %r1, 1; A:" SYNC LOAD "@!%p6 bra B; add.u32 %r20, %r1, 2; B:" SYNC OUT, next_block);
    found(&plain, "@%p6 bra A; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; A: bar.sync 0;", PTX_BARRIER, PTX_BARRIER, "never get to the same instruction");
    found(&plain, "@%p6 bra A; barrier.cluster.arrive.aligned; bra B; A: bar.warp.sync -1; barrier.cluster.arrive.aligned; B:", PTX_BARRIER, PTX_BARRIER, "");
    found(&plain, "barrier.cluster.arrive.aligned; @%p6 barrier.cluster.wait.aligned;", PTX_BARRIER, PTX_BARRIER, ".aligned");
    /* who has ended is not waited for; who waits elsewhere is */
    clean(&plain, "setp.eq.u32 %p1, %r2, 0; @%p1 exit; barrier.cluster.arrive; barrier.cluster.wait;", NULL);
    found(&plain, "setp.eq.u32 %p1, %r2, 0; @%p1 bra A; barrier.cluster.arrive; barrier.cluster.wait; bra E; A: @%p6 mbarrier.init.shared.b64 [m], 1; bar.sync 0;"
                  "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [m], 0; @!%p2 bra W; E:", PTX_BARRIER, PTX_BARRIER, "1 of 1 arrivals");
    found(&plain, "setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0; and.pred %p1, %p1, %p2; @%p1 bra A; barrier.cluster.arrive; barrier.cluster.wait; bra E; A: bar.sync 1, 64; E:",
          PTX_BARRIER, PTX_BARRIER, "barrier");
    /* split: work between arrival and waiting */
    clean(&plain, STORE "barrier.cluster.arrive; add.u32 %r20, %r1, 1; barrier.cluster.wait;" LOAD "barrier.cluster.arrive;" OUT "barrier.cluster.wait;", next_block);
    /* a launch without clusters has clusters of one */
    static const struct shape one = {{3, 1, 1}, 64, {0, 0, 0}, ""};
    clean(&one, STORE SYNC "xor.b32 %r14, %r12, 128; add.u32 %r14, %r14, %r8; ld.shared.u32 %r13, [%r14];" OUT, NULL);
}

#define INIT "@%p6 mbarrier.init.shared.b64 [m], 64; fence.mbarrier_init.release.cluster;" SYNC "mapa.shared::cluster.u32 %r14, %r9, %r3;\n"
static void remote_arrivals(void)
{
    /* each block's threads write to the next and arrive there */
    clean(&plain, INIT "st.shared::cluster.u32 [%r11], %r7; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];" WAIT
                  "ld.shared.u32 %r13, [%r10];" SYNC OUT, NULL);
    found(&plain, INIT "st.shared::cluster.u32 [%r11], %r7; mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r14];" WAIT
                  "ld.shared.u32 %r13, [%r10];" SYNC, PTX_RACE, PTX_RACE, "shared");
    found(&plain, INIT "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14]; st.shared::cluster.u32 [%r11], %r7; " WAIT
                  "ld.shared.u32 %r13, [%r10];" SYNC, PTX_RACE, PTX_UNINITIALISED, "shared");
    clean(&plain, INIT "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r14], 8; mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r14], 8;" WAIT SYNC, NULL);
    found(&plain, INIT "mbarrier.arrive.b64 %rd6, [%rd2];", PTX_BARRIER, PTX_BARRIER, "not in shared memory");
    found(&plain, INIT "cvt.u64.u32 %rd6, %r14; cvta.shared.u64 %rd6, %rd6; mbarrier.arrive.b64 %rd7, [%rd6];", PTX_BARRIER, PTX_BARRIER, "without .shared::cluster");
    found(&plain, INIT "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r14], 0;", PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "without .shared::cluster");
    found(&plain, "mapa.shared::cluster.u32 %r14, %r9, %r3; @%p6 mbarrier.init.shared.b64 [m], 64; bar.sync 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];" SYNC,
          PTX_BARRIER, PTX_RACE, "shared");
    /* remote arrival as the last thing: the other block may have ended */
    found(&plain, INIT "@%p6 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r14];", PTX_RACE, PTX_RACE, "shared memory");
}

static void addresses(void)
{
    found(&plain, "mapa.shared::cluster.u32 %r14, %r9, 2; ld.shared::cluster.u32 %r13, [%r14];", PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "of no block of its cluster of 2");
    found(&plain, STORE SYNC "ld.shared::cluster.u32 %r13, [%r11+4096];", PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "of shared, which has 544 bytes");
    found(&plain, STORE SYNC "ld.shared.u32 %r13, [%r11];" SYNC, PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "without .shared::cluster");
    found(&plain, SYNC "ld.shared::cluster.u32 %r13, [%r11];" SYNC, PTX_UNINITIALISED, PTX_UNINITIALISED, "shared");
    found(&plain, STORE SYNC "ld.shared::cluster.u32 %r13, [%r11+2];" SYNC, PTX_MISALIGNED, PTX_MISALIGNED, "shared");
    found(&plain, "setp.eq.u32 %p1, %r2, 0; @%p1 exit; nanosleep.u32 100; st.shared::cluster.u32 [%r11], %r7;", PTX_RACE, PTX_RACE, "shared memory");
}

#define BULK_INIT "@%p6 mbarrier.init.shared.b64 [m], 1; fence.mbarrier_init.release.cluster;" SYNC "mapa.shared::cluster.u32 %r14, %r9, %r3; mapa.shared::cluster.u32 %r15, %r8, %r3;\n"
#define EXPECT "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], 256;"
#define GET "ld.shared.u32 %r13, [%r10];"
static uint32_t thread_of(const struct shape *s, uint32_t i) { return i % s->block; }
static uint32_t twice_thread(const struct shape *s, uint32_t i) { return i % s->block * 2; }
static uint32_t thirteen_thread(const struct shape *s, uint32_t i) { return i % s->block * 13; }

static void copies(void)
{
    static const struct shape four = {{8, 1, 1}, 64, {4, 1, 1}, ""};
    /* rank 0 reads for all; x holds the thread's number there */
#define MULTICAST(mask) "setp.eq.u32 %p3, %r2, 0; and.pred %p3, %p3, %p6; mov.b16 %h1, " mask "; @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [%rd1], 256, [m], %h1;"
    clean(&four, BULK_INIT EXPECT MULTICAST("15") WAIT GET OUT SYNC, thread_of);
    clean(&plain, BULK_INIT EXPECT MULTICAST("3") WAIT GET OUT SYNC, thread_of);
    found(&four, BULK_INIT EXPECT MULTICAST("7") WAIT GET OUT SYNC, PTX_BARRIER, PTX_BARRIER, "256 bytes are missing");
    found(&four, BULK_INIT EXPECT MULTICAST("31") WAIT GET OUT SYNC, PTX_OUT_OF_BOUNDS, PTX_OUT_OF_BOUNDS, "which has 4");
    found(&four, "@%p6 mbarrier.init.shared.b64 [m], 1; bar.sync 0;" EXPECT MULTICAST("15") WAIT GET OUT SYNC, PTX_RACE, PTX_BARRIER, "shared");
    found(&plain, BULK_INIT EXPECT MULTICAST("3") GET SYNC, PTX_UNINITIALISED, PTX_RACE, "shared");
    /* nobody in the block that it goes to has seen it arrive */
    found(&plain, BULK_INIT EXPECT MULTICAST("2") SYNC, PTX_RACE, PTX_RACE, "may end before a copy of block 0");
    /* shared memory to shared memory of the next block */
#define SOURCE "st.shared.u32 [%r10+256], %r1; fence.proxy.async; bar.sync 0;"
#define PUSH "@%p6 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r15], [s+256], 256, [%r14];"
    clean(&plain, BULK_INIT SOURCE EXPECT PUSH WAIT GET OUT SYNC, thread_of);
    found(&plain, BULK_INIT SOURCE EXPECT PUSH GET SYNC, PTX_UNINITIALISED, PTX_RACE, "shared");
    found(&plain, BULK_INIT SOURCE EXPECT PUSH "@%p6 st.shared.u32 [s+300], 99;" WAIT GET OUT SYNC, PTX_RACE, PTX_RACE, "was changed before");
    found(&plain, BULK_INIT SOURCE EXPECT "@%p6 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r15], [s+256], 256, [m];" WAIT SYNC, PTX_BARRIER, PTX_BARRIER,
          "but to an mbarrier of block");
    found(&plain, BULK_INIT SOURCE PUSH, PTX_RACE, PTX_BARRIER, "shared memory");
    clean(&plain, "st.shared.u32 [%r10], %r1;" BULK_INIT SOURCE EXPECT "@%p6 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r15], [s+256], 256, [%r14];"
          WAIT GET OUT SYNC, twice_thread);
    /* values of registers */
    clean(&plain, BULK_INIT EXPECT "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r11], %r1, [%r14];" WAIT GET OUT SYNC, thread_of);
    clean(&plain, BULK_INIT EXPECT "and.b32 %r16, %r1, 1; setp.eq.u32 %p3, %r16, 0; add.u32 %r16, %r1, 1; @%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r11], {%r1, %r16}, [%r14];"
          WAIT GET OUT SYNC, thread_of);
    found(&plain, BULK_INIT EXPECT "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r11], %r1, [%r14];" GET OUT SYNC, PTX_UNINITIALISED, PTX_RACE, "shared");
    found(&plain, BULK_INIT EXPECT "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r11], %rd1, [%r14];" WAIT, PTX_MISALIGNED, PTX_MISALIGNED, "shared");
    clean(&plain, "st.shared.u32 [%r10], %r1;" BULK_INIT EXPECT "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %r1, [%r14];" WAIT GET OUT SYNC, twice_thread);
    /* 12288 of them before anybody looks */
    static const struct shape sixteen = {{16, 1, 1}, 64, {16, 1, 1}, ""};
    clean(&sixteen, "st.shared.u32 [%r10], %r1;" BULK_INIT "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], 3072; mov.u32 %r16, 0;"
          "L: red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %r1, [%r14]; add.u32 %r16, %r16, 1; setp.lt.u32 %p3, %r16, 12; @%p3 bra L;" SYNC WAIT GET OUT SYNC,
          thirteen_thread);
}

/* Ranks and coordinates in three dimensions, as the grid's blocks see them. */
static void coordinates(void)
{
    static const struct shape cube = {{4, 6, 2}, 32, {2, 3, 1}, ""};
    cleanup(bench) struct bench b = {0};
    check_int(run(&b, &cube, "mov.u32 %r13, %cluster_ctaid.x; mov.u32 %r14, %cluster_ctaid.y; mov.u32 %r15, %cluster_nctaid.y; mov.u32 %r16, %clusterid.x; mov.u32 %r17, %clusterid.y;"
        "mov.u32 %r18, %nclusterid.y; mov.u32 %r19, %ctaid.y; mov.u32 %r20, %clusterid.z; mov.u32 %r21, %ctaid.z;"
        "mad.lo.u32 %r22, %r14, 2, %r13; setp.ne.u32 %p1, %r22, %r2; @%p1 trap; mad.lo.u32 %r22, %r16, 2, %r13; setp.ne.u32 %p1, %r22, %r5; @%p1 trap;"
        "mad.lo.u32 %r22, %r17, %r15, %r14; setp.ne.u32 %p1, %r22, %r19; @%p1 trap; setp.ne.u32 %p1, %r18, 2; @%p1 trap; setp.ne.u32 %p1, %r20, %r21; @%p1 trap;"
        "setp.ne.u32 %p1, %r4, 6; @%p1 trap; mov.pred %p2, %is_explicit_cluster; @!%p2 trap; @%p6 st.global.u32 [%rd2], 1;", 0), PTX_CLEAN);
    check_str(b.finding.text, "");
    check_int(b.counts.blocks, 48);
    struct shape bad = cube;
    bad.cluster[1] = 4;
    cleanup(bench) struct bench c = {0};
    check_int(run(&c, &bad, "", 0), PTX_BAD_LAUNCH);
    static const struct shape compiled = {{4, 1, 1}, 64, {0, 0, 0}, "yes"}, other = {{4, 1, 1}, 64, {4, 1, 1}, "yes"};
    clean(&compiled, STORE SYNC LOAD SYNC "setp.ne.u32 %p1, %r4, 2; @%p1 trap;" OUT, NULL);
    cleanup(bench) struct bench d = {0};
    check_int(run(&d, &other, "", 0), PTX_BAD_LAUNCH);
    check(strstr(d.finding.text, "compiled for 2x1x1") != NULL);
}

/* What the estimate of a cluster rests on: arrivals that release, and those of them that stores to global memory went before; 8 warps. */
static void counts(void)
{
    static const char relaxed[] = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;";
    static const struct { const char *body; int releases, drains; } cases[] = {
        {STORE SYNC LOAD SYNC OUT, 16, 0},
        {STORE SYNC LOAD OUT SYNC, 16, 8},
        {STORE SYNC LOAD OUT SYNC SYNC, 24, 8},
        {"mov.u32 %r13, 1; @%p6 " OUT SYNC, 8, 4},
        {relaxed, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(bench) struct bench b = {0};
        check_int(run(&b, &plain, cases[i].body, 0), PTX_CLEAN);
        check_int(b.counts.cluster_releases, cases[i].releases);
        check_int(b.counts.cluster_drains, cases[i].drains);
    }
}

int main(void)
{
    shared_memory_of_others();
    order_that_is_missing();
    blocks_that_have_begun();
    the_barrier();
    remote_arrivals();
    addresses();
    copies();
    coordinates();
    counts();
    return test_done();
}
