/*
 * A sample of the blocks. Which of them run is drawn before the first step that has more than its budget; steps after it run the same ones,
 * and it is kept over what is missing then, so that nothing reads what only a whole run would have written.
 */
#include "core/rng.h"
#include "gpu/device/sim.h"

#include <string.h>

uint64_t sim_blocks_of(const struct plan_step *s)
{
    return (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
}

static bool same_grid(const struct plan_step *a, const struct plan_step *b)
{
    return !memcmp(a->grid, b->grid, sizeof a->grid) && !memcmp(a->cluster, b->cluster, sizeof a->cluster);
}

/* The first step of which a sample ran; -1: none. */
static int first_sampled(const struct device_program *p, int before)
{
    for (int i = 0; i < before; i++)
        if (p->sample[i].taken)
            return i;
    return -1;
}

static uint64_t seed_of(const struct device_run *how, int step)
{
    return rng_mix(how->sample_seed + (uint64_t)step);
}

/*
 * After a step of which a sample ran, the same blocks: others would find nothing to read. Where the grid is another one, all begin, and those that need what is missing
 * end.
 */
struct ptx_sample *sim_sample_of(struct device_program *p, const struct device_run *how, int i)
{
    struct ptx_sample *s = &p->sample[i];
    if (p->whole || !how->sample_budget)
        return NULL;
    if (p->settled && !s->taken)
        return NULL;
    const int first = first_sampled(p, p->settled ? i + 1 : i);
    if (p->settled) {       /* as many as in the first run, drawn anew where the seed is another one: the same of all steps */
        ptx_sample_redraw(s, seed_of(how, first));
        return s;
    }
    ptx_sample_done(s);
    if (first >= 0 && same_grid(&p->plan.steps[first], &p->plan.steps[i])) {
        *s = p->sample[first];
        s->list = memcpy(xarray(s->count + 1, sizeof *s->list), s->list, s->count * sizeof *s->list);
        return s;
    }
    if (first >= 0)
        return NULL;
    *s = (struct ptx_sample){.budget = how->sample_budget, .cpu_ns = how->sample_cpu_ns, .seed = seed_of(how, i), .rows = i + 1 < p->plan.step_count};
    return s;
}

/*
 * Where a step's blocks did not all run, what it writes is there in part. In a buffer that was poison before, that shows byte by byte, and
 * a later block that needs what is missing is left out too. In one that held something it does not show: *ret_stale then, if a later step
 * looks there, and all blocks must run or none.
 */
void sim_take_account(const struct device_program *p, struct sim_arena *a, bool in_part, bool *written, bool *old, bool *ret_stale)
{
    for (int b = 0; b < p->buffer_count; b++) {
        struct ptx_buffer *x = &a->list[b];
        *ret_stale |= old[b] && x->loaded;
        if (in_part && x->stored) {
            old[b] |= written[b];
            x->partial = !written[b];
        }
        written[b] |= x->stored && !x->partial;
    }
}
