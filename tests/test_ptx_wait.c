/*
 * griddepcontrol.wait, executed by one thread and passed on to others: whatever orders passes it on; what is missing, late, of another phase,
 * or skipped by one thread does not. Each body is the second of two launches and follows one that writes all of y.
 */
#include "tests/test_ptx.h"

#define HEAD ".version 8.7\n.target sm_90a\n.address_size 64\n"
/* y: 256 words; %r1 thread, %r2 block, %r3 rank in the cluster, %r4 a block's first mbarrier `m` (of 64 arrivals, `n` of one) in every block of
 * the cluster by rank 0's place (%r5); %p1 the first warp, %p2 thread 0, %p3 thread 0 of rank 0, %p4 thread 40, %p5 thread 5 */
#define ENTRY                                                                                                                            \
    ".visible .entry k(.param .u64 y) {\n.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<12>;\n"                                   \
    ".shared .align 8 .b64 m; .shared .align 8 .b64 n; .shared .align 4 .b32 s;\n"                                                    \
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_ctarank; ld.param.u64 %rd4, [y]; mul.wide.u32 %rd1, %r1, 4;\n"  \
    "add.s64 %rd3, %rd4, %rd1; setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 0; setp.eq.and.u32 %p3, %r3, 0, %p2;\n"               \
    "setp.eq.u32 %p4, %r1, 40; setp.eq.u32 %p5, %r1, 5; mov.u32 %r4, m; mapa.shared::cluster.u32 %r5, %r4, 0;\n"                       \
    "@!%p2 bra U; mbarrier.init.shared.b64 [m], 64; mbarrier.init.shared.b64 [n], 1; st.shared.u32 [s], 0; U: bar.sync 0;\n"
#define ONE "@!%p2 bra O; griddepcontrol.wait; O:\n"                      /* thread 0 alone waits */
#define ONE_OF_CLUSTER "@!%p3 bra O; griddepcontrol.wait; O:\n"
#define LOAD "ld.global.u32 %r9, [%rd3];"
#define ARRIVE "mbarrier.arrive.shared.b64 %rd9, [m];\n"
#define LOOK "W: mbarrier.try_wait.parity.shared.b64 %p9, [m], 0; @!%p9 bra W;\n"
#define LOOK_N "V: mbarrier.try_wait.parity.shared.b64 %p9, [n], 0; @!%p9 bra V;\n"
#define PRODUCE "@!%p2 bra O; griddepcontrol.wait; mbarrier.arrive.shared.b64 %rd9, [n]; O:\n"
#define CLUSTER "barrier.cluster.arrive; barrier.cluster.wait;\n"
#define ALIGNED "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"

struct row { const char *body; enum ptx_finding_kind want; uint32_t cluster; };
static const struct row rows[] = {
    /* lanes of a warp, warps of a block */
    {ONE "bar.warp.sync -1; @!%p1 bra E;" LOAD "E:", PTX_CLEAN, 1},
    {ONE "@!%p1 bra E;" LOAD "E:", PTX_RACE, 1},                              /* the others of its warp: nothing makes them meet */
    {ONE "@!%p2 bra E;" LOAD "E:", PTX_CLEAN, 1},                             /* it alone goes on */
    {ONE "bar.warp.sync -1;" LOAD, PTX_RACE, 1},                              /* the other warp */
    {ONE "@!%p1 bra E; ld.global.u32 %r9, [%rd4]; E:", PTX_RACE, 1},         /* all of them one word */
    {ONE "bar.sync 0;" LOAD, PTX_CLEAN, 1},
    {"bar.sync 0;" ONE LOAD, PTX_RACE, 1},
    {ONE "@%p1 bra A; bar.sync 1, 64;" LOAD "bra E; A: bar.arrive 1, 64; E:", PTX_CLEAN, 1},
    {"@%p1 bra A; bar.sync 1, 64;" LOAD "bra E; A: bar.arrive 1, 64;" ONE "E:", PTX_RACE, 1},
    {"@!%p2 bra O; griddepcontrol.wait; ret; O: bar.sync 0;" LOAD, PTX_RACE, 1},   /* it has ended: it meets nobody */
    /* an mbarrier at which all arrive */
    {ONE ARRIVE LOOK LOAD, PTX_CLEAN, 1},
    {ARRIVE LOOK ONE LOAD, PTX_RACE, 1},                                      /* waits afterwards */
    {ARRIVE ONE LOOK LOAD, PTX_RACE, 1},                                      /* between: not what it arrived with */
    {ONE ARRIVE "@%p4 bra S;" LOOK "S:" LOAD, PTX_RACE, 1},                   /* one thread of the other warp does not look */
    {ONE ARRIVE "@%p5 bra S;" LOOK "S:" LOAD, PTX_RACE, 1},                   /* one of its own warp */
    {ARRIVE LOOK LOAD, PTX_RACE, 1},                                          /* nobody waits */
    {ONE ARRIVE "mbarrier.test_wait.parity.shared.b64 %p9, [m], 1;" LOAD, PTX_RACE, 1},    /* the phase before: over from the start */
    {ONE ARRIVE LOOK "st.global.u32 [%rd3], 1;", PTX_CLEAN, 1},
    {ARRIVE LOOK "st.global.u32 [%rd3], 1;", PTX_RACE, 1},
    /* one at which the one that waits arrives alone */
    {PRODUCE LOOK_N LOAD, PTX_CLEAN, 1},
    {PRODUCE "@%p4 bra S;" LOOK_N "S:" LOAD, PTX_RACE, 1},
    {"@!%p2 bra O; mbarrier.arrive.shared.b64 %rd9, [n]; griddepcontrol.wait; O:" LOOK_N LOAD, PTX_RACE, 1},
    {PRODUCE "@!%p4 bra E;" LOOK_N LOAD "E:", PTX_CLEAN, 1},
    {PRODUCE "@%p1 bra E; @!%p4 bra S;" LOOK_N "S: bar.warp.sync -1;" LOAD "E:", PTX_CLEAN, 1},    /* one looks and tells its warp */
    {PRODUCE "@%p1 bra E; @!%p4 bra S;" LOOK_N "S:" LOAD "E:", PTX_RACE, 1},
    {ONE "@!%p5 bra N; mbarrier.arrive.shared.b64 %rd9, [n]; N:" LOOK_N LOAD, PTX_RACE, 1},    /* another lane arrives, and has not met it */
    {ONE "bar.warp.sync -1; @!%p5 bra N; mbarrier.arrive.shared.b64 %rd9, [n]; N:" LOOK_N LOAD, PTX_CLEAN, 1},
    {"@!%p2 bra O; griddepcontrol.wait; mbarrier.arrive.expect_tx.shared.b64 %rd9, [n], 0; O:" LOOK_N LOAD, PTX_CLEAN, 1},
    /* without release, without acquire: fences make it count */
    {"@!%p2 bra O; griddepcontrol.wait; mbarrier.arrive.relaxed.cta.shared.b64 %rd9, [n]; O:" LOOK_N LOAD, PTX_RACE, 1},
    {"@!%p2 bra O; griddepcontrol.wait; fence.acq_rel.cta; mbarrier.arrive.relaxed.cta.shared.b64 %rd9, [n]; O:" LOOK_N LOAD, PTX_CLEAN, 1},
    {"@!%p2 bra O; griddepcontrol.wait; fence.acq_rel.cta; O: bar.warp.sync -1; @!%p5 bra N; mbarrier.arrive.relaxed.cta.shared.b64 %rd9, [n]; N:" LOOK_N LOAD, PTX_CLEAN, 1},
    {PRODUCE "V: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p9, [n], 0; @!%p9 bra V;" LOAD, PTX_RACE, 1},
    {PRODUCE "V: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p9, [n], 0; @!%p9 bra V; fence.acq_rel.cta;" LOAD, PTX_CLEAN, 1},
    /* the cluster's barrier */
    {ONE_OF_CLUSTER CLUSTER LOAD, PTX_CLEAN, 2},
    {ONE_OF_CLUSTER ALIGNED LOAD, PTX_CLEAN, 2},
    {ALIGNED ONE_OF_CLUSTER LOAD ALIGNED, PTX_RACE, 2},
    {"barrier.cluster.arrive.aligned;" ONE_OF_CLUSTER "barrier.cluster.wait.aligned;" LOAD, PTX_RACE, 2},
    {ONE "barrier.cluster.arrive.aligned; @!%p1 bra S;" LOAD "S: barrier.cluster.wait.aligned;", PTX_RACE, 2},   /* arriving together orders nothing */
    {ONE CLUSTER LOAD, PTX_CLEAN, 1},                                         /* a block by itself is a cluster */
    {CLUSTER ONE_OF_CLUSTER LOAD CLUSTER, PTX_RACE, 2},
    {"barrier.cluster.arrive;" ONE_OF_CLUSTER "barrier.cluster.wait;" LOAD, PTX_RACE, 2},
    {ONE_OF_CLUSTER "barrier.cluster.arrive; @%p4 bra S; barrier.cluster.wait; S:" LOAD "@!%p4 bra E; barrier.cluster.wait; E:", PTX_RACE, 2},
    {CLUSTER LOAD, PTX_RACE, 2},
    {"setp.lt.u32 %p6, %r2, 2; @!%p6 bra N;" ONE "N:" CLUSTER LOAD, PTX_RACE, 2},        /* one cluster of two has one that waits */
    {"setp.lt.u32 %p6, %r2, 2; @!%p6 bra N;" ONE "N:" CLUSTER "@!%p6 bra E;" LOAD "E:", PTX_CLEAN, 2},
    {ONE_OF_CLUSTER "barrier.cluster.arrive.relaxed; barrier.cluster.wait;" LOAD, PTX_RACE, 2},
    {"@!%p3 bra O; griddepcontrol.wait; fence.acq_rel.cluster; O: barrier.cluster.arrive.relaxed; barrier.cluster.wait;" LOAD, PTX_CLEAN, 2},
    /* an mbarrier of another block: rank 1's thread 0 waits and arrives at rank 0's */
    {CLUSTER "setp.eq.and.u32 %p6, %r3, 1, %p2; @!%p6 bra O; griddepcontrol.wait; mapa.shared::cluster.u32 %r6, n, 0;\n"
     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; O: setp.eq.u32 %p7, %r3, 0; @!%p7 bra E;\n"
     "V: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p9, [n], 0; @!%p9 bra V;" LOAD "E:" CLUSTER, PTX_CLEAN, 2},
    {CLUSTER "setp.eq.and.u32 %p6, %r3, 1, %p2; @!%p6 bra O; griddepcontrol.wait; mapa.shared::cluster.u32 %r6, n, 0;\n"
     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; O: setp.eq.u32 %p7, %r3, 0; @!%p7 bra E; @%p4 bra S;\n"
     "V: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p9, [n], 0; @!%p9 bra V; S:" LOAD "E:" CLUSTER, PTX_RACE, 2},
    /* flags: in shared memory, in a buffer (the last word of y, which the launch before leaves) for other blocks */
    {"@!%p2 bra O; griddepcontrol.wait; st.release.cta.shared.u32 [s], 1; O: V: ld.acquire.cta.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V;" LOAD, PTX_CLEAN, 1},
    {"@!%p2 bra O; st.release.cta.shared.u32 [s], 1; griddepcontrol.wait; O: V: ld.acquire.cta.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V;" LOAD, PTX_RACE, 1},
    {"@!%p2 bra O; griddepcontrol.wait; st.volatile.shared.u32 [s], 1; O: V: ld.volatile.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V; membar.cta;" LOAD, PTX_RACE, 1},
    {"@!%p2 bra O; griddepcontrol.wait; membar.cta; st.volatile.shared.u32 [s], 1; O: V: ld.volatile.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V; membar.cta;" LOAD, PTX_CLEAN, 1},
    {"@!%p2 bra O; membar.cta; griddepcontrol.wait; st.volatile.shared.u32 [s], 1; O: V: ld.volatile.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V; membar.cta;" LOAD, PTX_RACE, 1},
    {"@!%p2 bra O; griddepcontrol.wait; st.release.cta.shared.u32 [s], 1; bra E; O: setp.eq.u32 %p6, %r1, 41; or.pred %p7, %p4, %p6; @!%p7 bra E; @%p6 bra A;\n"
     "V: ld.volatile.shared.u32 %r9, [s]; setp.ne.u32 %p9, %r9, 2; @%p9 bra V;" LOAD "bra E;\n"                  /* beside one of its warp that acquires */
     "A: ld.acquire.cta.shared.u32 %r9, [s]; setp.eq.u32 %p9, %r9, 0; @%p9 bra A; st.volatile.shared.u32 [s], 2; E:", PTX_RACE, 1},
    {"setp.eq.and.u32 %p6, %r2, 0, %p2; @!%p6 bra O; griddepcontrol.wait; membar.gl; O: bar.sync 0; setp.eq.and.u32 %p6, %r2, 0, %p4;\n"
     "@%p6 st.volatile.global.u32 [%rd4+1020], 1; V: ld.acquire.gpu.global.u32 %r9, [%rd4+1020]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V;" LOAD, PTX_CLEAN, 1},   /* who met it tells */
    {"setp.eq.and.u32 %p6, %r2, 0, %p2; @!%p6 bra O; griddepcontrol.wait; st.release.gpu.global.u32 [%rd4+1020], 1; O:\n"
     "V: ld.acquire.gpu.global.u32 %r9, [%rd4+1020]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V;" LOAD, PTX_CLEAN, 1},
    {"setp.eq.and.u32 %p6, %r2, 0, %p2; @!%p6 bra O; st.release.gpu.global.u32 [%rd4+1020], 1; griddepcontrol.wait; O:\n"
     "V: ld.acquire.gpu.global.u32 %r9, [%rd4+1020]; setp.eq.u32 %p9, %r9, 0; @%p9 bra V;" LOAD, PTX_RACE, 1},
    {"setp.eq.and.u32 %p6, %r2, 0, %p2; @!%p6 bra O; griddepcontrol.wait; st.release.gpu.global.u32 [%rd4+1020], 1; O: @!%p2 bra N;\n"
     "V: atom.relaxed.gpu.global.or.b32 %r9, [%rd4+1020], 0; setp.eq.u32 %p9, %r9, 0; @%p9 bra V; N: bar.sync 0;" LOAD, PTX_CLEAN, 1},
};

static void pass(const struct row *r, uint64_t seed, int threads)
{
    cleanup(bench) struct bench first = {0}, second = {0};
    struct bench *const steps[] = {&first, &second};
    const char *const bodies[] = {"add.u32 %r9, %r1, 3; st.global.u32 [%rd3], %r9; griddepcontrol.launch_dependents;", r->body};
    struct ptx_history *history = ptx_history_new();
    const uint32_t fill[256] = {0};
    enum ptx_finding_kind got = PTX_CLEAN;
    for (int n = 0; n < 2; n++) {
        char text[6000];
        snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, bodies[n]);
        check(bench_text(steps[n], text));
        bench_buffer(steps[n], "y", sizeof fill, true, fill);
        struct ptx_launch *l = &steps[n]->launch;
        l->block[0] = 64;
        l->grid[0] = n ? 4 : 1;
        l->cluster[0] = n ? r->cluster : 1;
        l->cluster[1] = l->cluster[2] = 1;
        l->dependent = n > 0;
        struct ptx_run_options *o = &steps[n]->options;
        o->history = history;
        o->limits.threads = threads;
        o->limits.thread_instructions = 20000000;
        o->schedule_seed = seed;
        o->schedule = seed ? PTX_EXPLORE : PTX_LOCKSTEP;
        got = bench_run(steps[n]);
        check_int(got, n ? r->want : PTX_CLEAN);
    }
    if (got != r->want)
        fprintf(stderr, "  seed %d, %d threads: %s: %s\n", (int)seed, threads, r->body, second.finding.text);
    if (got == PTX_RACE)
        check(strstr(second.finding.text, "griddepcontrol.wait") && !strcmp(second.finding.buffer, "y") && second.finding.ptx_line > 0);
    ptx_history_free(history);
}

int main(void)
{
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        for (uint64_t seed = 0; seed < 5; seed++)
            for (int threads = 1; threads <= 2; threads++)
                pass(&rows[n], seed, threads);
    return test_done();
}
