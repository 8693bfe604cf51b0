/*
 * The time of one launch from what the emulator counted: an estimate, never a measurement.
 *
 * First what one block takes from its start to its end: its chain of loads, of dependent instructions, its barriers. Then what all
 * blocks together ask of each part of the device: DRAM and L2 (sectors, by the cache model), the busiest SM's issue slots, load and
 * store unit and shared memory, the start of blocks; and further rounds of blocks, where not all fit at once. The parts overlap: a
 * norm joins them. A launch costs its own time, then the latency of a block, then what the busy parts take beyond that.
 */
#include "gpu/ptx/estimate.h"

#include <math.h>
#include <string.h>

const struct ptx_estimate_model ptx_estimate_fitted = {
#define X(name, value, least, most, what) .name = value,
    PTX_ESTIMATE_TABLE(X)
#undef X
};

/*
 * Issue slots of one scheduler that a warp instruction of a class takes: 32 lanes over the units of a quarter SM (CUDA programming
 * guide, "arithmetic instructions", compute capability 9.0). Moves: ptxas removes most.
 */
static const double issue_cycles[16] = {
    [PTX_CLASS_INT] = 2, [PTX_CLASS_F32] = 1, [PTX_CLASS_F16] = 1, [PTX_CLASS_F64] = 2, [PTX_CLASS_SFU] = 8, [PTX_CLASS_CONVERT] = 2,
    [PTX_CLASS_MOVE] = 0.3, [PTX_CLASS_CONTROL] = 1, [PTX_CLASS_GLOBAL] = 1, [PTX_CLASS_SHARED] = 1, [PTX_CLASS_LOCAL] = 1,
    [PTX_CLASS_SHUFFLE] = 4, [PTX_CLASS_ATOMIC] = 2, [PTX_CLASS_BARRIER] = 1, [PTX_CLASS_MATRIX] = 8, [PTX_CLASS_OTHER] = 1,
};

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

/* Sectors by where they come from; without counts in depth every sector misses L1, and DRAM sees each one once. */
struct traffic { double l1, l2_loads, l2_stores, dram_loads, dram_stores; };
static struct traffic traffic_of(const struct ptx_counts *c)
{
    if (c->modelled_blocks)
        return (struct traffic){(double)c->l1_hit_sectors, (double)c->l2_load_sectors, (double)c->l2_store_sectors, (double)c->dram_load_sectors,
                                (double)c->dram_store_sectors};
    return (struct traffic){0, (double)c->global_load_sectors, (double)c->global_store_sectors, (double)c->unique_load_sectors,
                            (double)c->unique_store_sectors};
}

void ptx_estimate_with(const struct ptx_estimate_model *k, const struct ptx_counts *c, const struct ptx_launch *l,
                       const struct ptx_resources *r, const struct ptx_device_row *d, struct ptx_estimate *ret)
{
    const double blocks = largest(1, (double)c->blocks), warps = largest(1, (double)c->warps), warps_block = warps / blocks;
    const int per_sm = blocks_resident(l, r, d);
    const double busiest = ceil(blocks / d->sm_count);                   /* blocks that the busiest SM gets in all */
    const double share = busiest / blocks;                               /* its part of everything */
    const double resident = smallest(per_sm, busiest) * warps_block;    /* warps at once on an SM */
    const double rounds = busiest / per_sm;
    const double cycle_ns = 1 / d->sm_clock_ghz;
    const struct traffic t = traffic_of(c);
    const double spilled = r ? (double)r->local_bytes_thread * k->spill * warps : 0;     /* sectors: 32 threads' bytes / 32, each time */

    /* one block's way through */
    const double together = largest(1, l->cluster[0]) * largest(1, l->cluster[1]) * largest(1, l->cluster[2]);
    const double cluster_ns = together > 1 ? (k->cluster * (double)c->cluster_releases + k->drain * (double)c->cluster_drains) / warps : 0;
    const double cold = t.l2_loads > 0 ? t.dram_loads / t.l2_loads : 1;
    const double load_ns = k->load * (cold * d->dram_latency_ns + (1 - cold) * d->l2_latency_ns);
    const double chain_cycles = c->chain_cycles ? (double)c->chain_cycles / warps : 2 * (double)c->longest_warp_instructions;
    const double requests = (double)(c->global_load_requests + c->global_store_requests);
    const double own_cycles = k->chain * chain_cycles + k->instruction * (double)c->longest_warp_instructions + (double)c->expanded_cycles / warps;
    const double latency = (requests > 0 ? k->ramp : 0) + (double)c->dependent_loads * load_ns + own_cycles * cycle_ns
                           + (double)c->barriers / warps * (d->barrier_ns + d->barrier_warp_ns * warps_block) + cluster_ns;

    /* all blocks, part by part */
    double cycles = 0;
    for (int i = 0; i < 16; i++)
        cycles += issue_cycles[i] * (double)c->warp_by_class[i];
    const double schedulers = smallest(4, resident);
    struct ptx_estimate e = {.blocks_per_sm = per_sm, .launch_ns = d->launch_ns, .latency_ns = latency};
    e.occupancy = smallest(1, per_sm * warps_block / d->max_warps_sm);
    e.dram_ns = 32 * (t.dram_loads + t.dram_stores) / (k->dram * d->dram_bytes_per_ns);
    e.l2_ns = 32 * (t.l2_loads + t.l2_stores) / d->l2_bytes_per_ns;
    e.issue_ns = (k->issue / 4 + k->lanes * (1 / schedulers - 0.25)) * cycles * share * cycle_ns;
    e.shared_ns = (double)c->shared_wavefronts * share * cycle_ns;
    e.load_store_ns = share * cycle_ns * (largest(32 * (t.l1 + t.l2_loads + t.l2_stores + spilled) / k->port, k->request * requests));
    e.blocks_ns = k->block * blocks;
    e.rounds_ns = rounds > 1 ? k->round * latency * (rounds - 1) : 0;
    const struct { const char *name; double ns; } parts[] = {{"dram", e.dram_ns},     {"l2", e.l2_ns},           {"issue", e.issue_ns},
                                                             {"shared", e.shared_ns}, {"l1", e.load_store_ns},   {"blocks", e.blocks_ns},
                                                             {"latency", e.rounds_ns}};
    double sum = 0;
    size_t top = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        sum += pow(parts[i].ns, k->power);
        top = parts[i].ns > parts[top].ns ? i : top;
    }
    const char *alone = latency >= d->launch_ns ? "latency" : "launch";
    snprintf(e.bound, sizeof e.bound, "%s", parts[top].ns >= largest(latency, d->launch_ns) ? parts[top].name : alone);
    e.ns = d->launch_ns + latency + pow(sum, 1 / k->power);
    *ret = e;
}

void ptx_estimate_time(const struct ptx_counts *counts, const struct ptx_launch *launch, const struct ptx_resources *resources,
                       const struct ptx_device_row *device, struct ptx_estimate *ret)
{
    ptx_estimate_with(&ptx_estimate_fitted, counts, launch, resources, device, ret);
}
