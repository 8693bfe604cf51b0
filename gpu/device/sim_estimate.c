/* What a run's counts would cost on the card whose figures the emulator has: an estimate, and never called anything else. */
#include "gpu/device/sim.h"

static json_t *estimate_terms(const struct plan_step *s, const struct ptx_estimate *e)
{
    json_t *d = json_object();
    json_put_str(d, "kernel", s->kernel);
    json_put_num(d, "ns", e->ns);
    json_put_str(d, "bound", e->bound);
    json_put_num(d, "dram_ns", e->dram_ns);
    json_put_num(d, "l2_ns", e->l2_ns);
    json_put_num(d, "issue_ns", e->issue_ns);
    json_put_num(d, "latency_ns", e->latency_ns);
    json_put_num(d, "shared_ns", e->shared_ns);
    json_put_num(d, "load_store_ns", e->load_store_ns);
    json_put_num(d, "blocks_ns", e->blocks_ns);
    json_put_num(d, "rounds_ns", e->rounds_ns);
    json_put_num(d, "launch_ns", e->launch_ns);
    json_put_num(d, "occupancy", e->occupancy);
    json_put_int(d, "blocks_per_sm", e->blocks_per_sm);
    return d;
}

static uint64_t all_sectors(const struct device_program *p)
{
    uint64_t sum = 0;
    for (int b = 0; b < p->buffer_count; b++)
        sum += (uint64_t)p->buffers[b].bytes / 32 + 1;
    return sum;
}

/* Steps follow one another like the nodes of a graph: each pays its own launch, which is part of its estimate. */
bool sim_estimate(struct device_program *p, const struct device_run_result *run, double *ret_ns,
                         json_t **ret_terms, struct err *err)
{
    const struct ptx_device_row *row = p->row;
    if (run->step_count != p->plan.step_count)
        return err_set(err, ERR_INTERNAL, "an estimate needs the counts of a whole run");
    json_t *steps = json_array();
    double total = 0;
    for (int i = 0; i < p->plan.step_count; i++) {
        const struct plan_step *s = &p->plan.steps[i];
        if (s->is_memset) {
            double bytes = (double)p->plan.workspaces[s->memset_workspace].bytes,
                   ns = row->launch_ns + bytes / row->l2_bytes_per_ns;
            total += ns;
            json_array_append_new(
                steps, json_pack("{s:s,s:f}", "memset", p->plan.workspaces[s->memset_workspace].name, "ns", ns));
            continue;
        }
        static const struct ptx_resources unknown = {.registers_thread = 64};
        struct ptx_launch launch;
        struct ptx_estimate e = {0};
        sim_make_launch(p, s, NULL, &launch);
        struct ptx_counts counts = run->counts[i];
        ptx_counts_scale(&counts, sim_blocks_of(s), all_sectors(p));
        ptx_estimate_time(&counts, &launch, p->has_resources ? &p->resources[i] : &unknown, row, &e);
        if (launch.dependent && i > 0) { /* it starts while the one before runs: its launch is hidden */
            e.ns -= e.launch_ns;
            e.launch_ns = 0;
        }
        total += e.ns;
        json_array_append_new(steps, estimate_terms(s, &e));
    }
    *ret_ns = total;
    *ret_terms = json_pack("{s:s,s:o}", "modelled", row->name, "steps", steps);
    return true;
}
