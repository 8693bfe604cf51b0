/*
 * The time of one launch from what the emulator counted: an estimate, never a measurement.
 *
 * Terms that overlap are compared (DRAM, L2, issue slots, shared memory); what cannot overlap is added: the launch, and the
 * chain of waits of the first wave. Bandwidth is reached only with enough bytes in flight (Little): what resident warps ask for
 * at once, over the latency, bounds it. Inputs are cold: every sector touched comes from DRAM once.
 */
#include "gpu/ptx/ptx.h"

#include <math.h>
#include <string.h>

/* Issue slots of one scheduler that a warp instruction of a class takes: 32 lanes over the units of a quarter SM. */
static const double issue_cycles[16] = {
    [PTX_CLASS_INT] = 2, [PTX_CLASS_F32] = 1, [PTX_CLASS_F16] = 1, [PTX_CLASS_F64] = 2, [PTX_CLASS_SFU] = 8, [PTX_CLASS_CONVERT] = 2,
    [PTX_CLASS_MOVE] = 0.3 /* ptxas removes most */, [PTX_CLASS_CONTROL] = 1, [PTX_CLASS_GLOBAL] = 4, [PTX_CLASS_SHARED] = 4,
    [PTX_CLASS_LOCAL] = 4, [PTX_CLASS_SHUFFLE] = 4, [PTX_CLASS_ATOMIC] = 8, [PTX_CLASS_BARRIER] = 2, [PTX_CLASS_MATRIX] = 8,
    [PTX_CLASS_OTHER] = 1,
};
/* Cycles until a dependent instruction may go, for the one warp that takes longest. */
#define DEPENDENT_CYCLES 2 /* per PTX instruction: ptxas drops a third, and most do not depend on the one before */

static double largest(double a, double b) { return a > b ? a : b; }
static double smallest(double a, double b) { return a < b ? a : b; }

static int blocks_resident(const struct ptx_launch *l, const struct ptx_resources *r, const struct ptx_device_row *d)
{
    const double threads = (double)l->block[0] * l->block[1] * l->block[2], warps = ceil(threads / 32);
    const double registers = ceil((r && r->registers_thread > 0 ? r->registers_thread : 32) * 32 / 256.0) * 256 * warps;
    const double shared = (r ? r->static_shared_bytes : 0) + (double)l->dynamic_shared_bytes + 1024; /* the system's own KiB */
    double n = d->max_blocks_sm;
    n = smallest(n, floor(d->max_warps_sm / warps));
    n = smallest(n, floor(d->max_threads_sm / (warps * 32)));
    n = smallest(n, floor(d->registers_sm / registers));
    n = smallest(n, floor(d->shared_bytes_sm / shared));
    return n < 1 ? 1 : (int)n;
}

void ptx_estimate_time(const struct ptx_counts *c, const struct ptx_launch *l, const struct ptx_resources *r,
                       const struct ptx_device_row *d, struct ptx_estimate *ret)
{
    const double blocks = largest(1, (double)c->blocks), warps_block = largest(1, (double)c->warps / blocks);
    const int per_sm = blocks_resident(l, r, d);
    const double sms = smallest(d->sm_count, blocks);
    const double busiest = ceil(blocks / d->sm_count);                   /* blocks that the busiest SM gets in all */
    const double balance = busiest * sms / blocks;                       /* how much more than an even share that is */
    const double rounds = busiest / per_sm;                              /* how often its blocks are replaced */
    const double resident = smallest(per_sm, busiest) * warps_block;    /* warps at once on an SM */
    const double load_sectors = largest((double)c->global_load_sectors, (double)c->unique_load_sectors);
    const double store_sectors = largest((double)c->global_store_sectors, (double)c->unique_store_sectors);
    const double all_bytes = 32 * (load_sectors + store_sectors);
    const double cold_bytes = 32 * ((double)c->unique_load_sectors + (double)c->unique_store_sectors);
    const double chain = (double)c->dependent_loads;

    /* bytes in flight: what resident warps ask for in one go, over the latency, bounds the rate of all of them */
    const double asked = c->warps ? 32 * load_sectors / (double)c->warps : 0;
    const double in_flight = largest(128, asked) * resident * sms;
    const double dram_rate = load_sectors > 0 ? smallest(d->dram_bytes_per_ns, in_flight / d->dram_latency_ns) : d->dram_bytes_per_ns;
    double cycles = 0;
    for (int i = 0; i < 16; i++)
        cycles += issue_cycles[i] * (double)c->warp_by_class[i];
    const double longest = (double)c->longest_warp_instructions * DEPENDENT_CYCLES / d->sm_clock_ghz;
    const double chain_ns = chain * d->dram_latency_ns;
    const double barriers = c->warps ? (double)c->barriers / (double)c->warps * d->barrier_ns : 0;

    struct ptx_estimate e = {.blocks_per_sm = per_sm, .launch_ns = d->launch_ns};
    e.occupancy = smallest(1, per_sm * warps_block / d->max_warps_sm);
    e.dram_ns = cold_bytes / dram_rate;
    e.l2_ns = all_bytes / d->l2_bytes_per_ns;
    e.issue_ns = cycles / sms / 4 / d->sm_clock_ghz * balance;
    e.shared_ns = (double)c->shared_wavefronts / sms / d->sm_clock_ghz * balance;
    /* one warp's way through: its loads, barriers and instructions one after the other; blocks of later rounds overlap in part */
    e.latency_ns = (chain_ns + barriers + longest) * (rounds > 1 ? 1 + (rounds - 1) * 0.6 : 1);
    const struct { const char *name; double ns; } terms[] = {
        {"dram", e.dram_ns}, {"l2", e.l2_ns}, {"issue", e.issue_ns}, {"shared", e.shared_ns}, {"latency", e.latency_ns}, {"launch", e.launch_ns}};
    size_t top = 0;
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        if (terms[i].ns > terms[top].ns)
            top = i;
    snprintf(e.bound, sizeof e.bound, "%s", terms[top].name);
    const double busy = largest(largest(e.dram_ns, e.l2_ns), largest(e.issue_ns, e.shared_ns));
    /* the larger hides most of the smaller */
    const double work = largest(busy, e.latency_ns) + 0.1 * smallest(busy, e.latency_ns);
    e.ns = e.launch_ns + work;
    *ret = e;
}
