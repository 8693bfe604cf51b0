/*
 * Which move comes next: a function of the history and the attempt's number. What can be mended is mended, twice at most; then the best
 * is improved most of the time, others are branched from or crossed now and then, the more so the longer nothing got better.
 */
#include "server/generate/agent.h"

#include "core/rng.h"

#include <string.h>

#define REPAIRS_MOST 2
#define STALE 4                          /* right candidates since the best: then other ways are tried more often */

static const struct { const char *name; enum llm_purpose purpose; } moves[] = {
#define X(code, name, purpose, why) [code] = {name, purpose},
    AGENT_MOVES(X)
#undef X
};

const char *agent_move_name(enum agent_move m)
{
    return moves[m].name;
}

enum llm_purpose agent_move_purpose(enum agent_move m)
{
    return moves[m].purpose;
}

static bool is_right(const struct gen_past *p)
{
    return verdict_is_correct(p->verdict) && p->time_ns > 0;
}

int agent_best(const struct gen_input *in)
{
    int best = -1;
    for (int i = 0; i < in->past_count; i++)
        if (is_right(&in->past[i]) && (best < 0 || in->past[i].time_ns < in->past[best].time_ns))
            best = i;
    return best;
}

/* A failure that a change of the same code may mend. */
static bool can_be_mended(const struct gen_past *p)
{
    static const enum verdict_code not[] = {VERDICT_IMPLAUSIBLE, VERDICT_TIMERS_DISAGREE, VERDICT_STATE_CARRIED};
    for (size_t i = 0; i < sizeof not / sizeof *not; i++)
        if (p->verdict == not[i])
            return false;
    return !verdict_is_correct(p->verdict);
}

/* The n-th right candidate that is not `but`; -1: there are none. */
static int pick_right(const struct gen_input *in, int but, uint64_t n)
{
    int count = 0;
    for (int i = 0; i < in->past_count; i++)
        count += is_right(&in->past[i]) && i != but;
    if (!count)
        return -1;
    int want = (int)(n % (uint64_t)count);
    for (int i = 0; i < in->past_count; i++)
        if (is_right(&in->past[i]) && i != but && !want--)
            return i;
    return -1;
}

struct agent_choice agent_choose(const struct agent_input *a)
{
    const struct gen_input *in = a->in;
    struct agent_choice c = {MOVE_SCRATCH, -1, -1, 0};
    const struct gen_past *last = in->past_count ? &in->past[in->past_count - 1] : NULL;
    int best = agent_best(in);
    if (last && can_be_mended(last) && json_int(last->origin, "depth", 0) < REPAIRS_MOST)
        return (struct agent_choice){MOVE_REPAIR, in->past_count - 1, -1, (int)json_int(last->origin, "depth", 0) + 1};
    if (best < 0)
        return c;
    uint64_t stream = (uint64_t)a->attempt;
    double at = rng_unit(in->seed, stream, 0), other_ways = in->past_count - 1 - best >= STALE ? 0.6 : 0.25;
    int second = pick_right(in, best, rng_at(in->seed, stream, 1));
    if (at >= other_ways)
        return (struct agent_choice){MOVE_IMPROVE, best, -1, 0};
    if (second >= 0 && at < other_ways * 0.4)
        return (struct agent_choice){MOVE_CROSS, best, second, 0};
    if (second >= 0 && at < other_ways * 0.8)
        return (struct agent_choice){MOVE_BRANCH, second, -1, 0};
    return c;
}
