/*
 * Emulate: the first run of the PTX, with every check on, on the typical regime. On sim its results are not looked at, nor copied:
 * that is for the runs that follow. With a card it stands in front of it: two runs more are compared with the reference here, and what
 * the emulator does not know is a note, not a verdict.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

static uint64_t counted(const json_t *counts, const char *what)
{
    uint64_t sum = 0;
    size_t i;
    json_t *step;
    json_array_foreach(counts, i, step)
        sum += (uint64_t)json_int(step, what, 0);
    return sum;
}

static int64_t blocks_of(const struct plan *p)
{
    int64_t sum = 0;
    for (int i = 0; i < p->step_count; i++)
        if (!p->steps[i].is_memset)
            sum += (int64_t)p->steps[i].grid[0] * p->steps[i].grid[1] * p->steps[i].grid[2];
    return sum;
}

static void note_schedule(struct judge *j, const struct run_order *o)
{
    json_t *list = json_object_get(j->phase, "schedules");
    char seed[24];
    if (!list)
        json_put(j->phase, "schedules", list = json_array());
    snprintf(seed, sizeof seed, "0x%016llx", (unsigned long long)o->schedule_seed);
    json_array_append_new(list, json_pack("{s:s,s:s}", "schedule", ptx_schedule_name(o->explore ? PTX_EXPLORE : PTX_LOCKSTEP), "seed", seed));
}

static bool emulate_once(struct judge *j, struct judge_side *s, uint64_t limit, bool explore, struct verdict *v, struct err *err)
{
    const struct run_order o = {.regime = 0,
                                .poison = j->poison[0],
                                /* Blocks that wait for higher ones are found in one of the orders, those that wait for lower ones in the other. */
                                .schedule_seed = explore ? random_u64() | PTX_SEED_DESCENDING : random_u64() & ~PTX_SEED_DESCENDING,
                                .place = DEVICE_AT_END,
                                .check_races = true,
                                .explore = explore,
                                .instruction_limit = limit};
    if (s == &j->sides[CANDIDATE])
        note_schedule(j, &o);
    STEP(run_ask(j, s, &o, "emulate", v, err));
    return run_take(j, s, "emulate", v, err);
}

static bool emulate_side(struct judge *j, struct judge_side *s, uint64_t limit, struct verdict *v, struct err *err)
{
    STEP(run_open(j, s, "sim", v, err));
    STEP(run_load(j, s, false, "emulate", v, err));
    STEP(run_inputs(j, s, 0, "emulate", v, err));
    return emulate_once(j, s, limit, false, v, err);
}

/* How many instructions, and how much time, are usual here: the baseline tells. */
static bool instruction_limit(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *base = &j->sides[BASELINE];
    j->instruction_limit = (uint64_t)LIMIT_THREAD_INSTRUCTIONS;
    if (!base->present)
        return true;
    struct err why = {0};
    if (!emulate_side(j, base, j->instruction_limit, v, &why)) {
        const bool beyond = v->code == VERDICT_UNSUPPORTED_ON_SIM || v->code == VERDICT_TIMEOUT;
        /* On a card a baseline that the emulator cannot run is no obstacle. */
        if (j->on_card && beyond) {
            verdict_done(v);
            *v = (struct verdict){.code = VERDICT_OK};
            return true;
        }
        if (beyond)
            return err_set(err, ERR_UNAVAILABLE, "this shape cannot be judged on the emulator, its baseline is too much for it: %s", v->text);
        return err_set(err, why.code, "%s", why.text);
    }
    if (j->on_card)
        baseline_keep(j, 0);
    if (base->sampled)          /* what all its blocks take nobody has counted */
        return true;
    j->usual_instructions = counted(base->counts, "thread_instructions");
    uint64_t most = j->usual_instructions * (uint64_t)LIMIT_TIMES_BASELINE;
    j->instruction_limit = most < (uint64_t)LIMIT_THREAD_INSTRUCTIONS_LEAST ? (uint64_t)LIMIT_THREAD_INSTRUCTIONS_LEAST
                           : most > (uint64_t)LIMIT_THREAD_INSTRUCTIONS     ? (uint64_t)LIMIT_THREAD_INSTRUCTIONS
                                                                            : most;
    int64_t longest = base->run_ns * LIMIT_TIMES_BASELINE;
    j->sim_wall_ns = longest < LIMIT_RUN_WALL_LEAST_NS ? LIMIT_RUN_WALL_LEAST_NS
                     : longest > LIMIT_RUN_WALL_NS     ? LIMIT_RUN_WALL_NS
                                                       : longest;
    return true;
}

/*
 * What says nothing about a candidate where a card follows: an instruction that the emulator does not know, a plan that takes it too long.
 * Who executes many times the instructions of a baseline that was counted does not end, on a card neither, whichever limit it meets first:
 * one that waits for other blocks meets that of time where few threads share a processor.
 */
static bool beyond_the_emulator(const struct judge *j, const struct verdict *v)
{
    const bool by_count = strcmp(json_str(v->detail, "limit", ""), "instructions") == 0;
    const bool endless = j->usual_instructions && (by_count ? j->instruction_limit < (uint64_t)LIMIT_THREAD_INSTRUCTIONS
        : (uint64_t)json_int(v->detail, "thread_instructions", 0) > j->usual_instructions * (uint64_t)LIMIT_TIMES_BASELINE);
    return v->code == VERDICT_UNSUPPORTED_ON_SIM || (v->code == VERDICT_TIMEOUT && !endless);
}

bool phase_emulate(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    STEP(instruction_limit(j, v, err));
    if (!emulate_side(j, s, j->instruction_limit, v, err))
        return false;
    if (v->code == VERDICT_OK && !emulate_once(j, s, j->instruction_limit, true, v, err))
        return false;
    if (v->code == VERDICT_OK && s->sampled && !j->is_smaller && !smaller_show(j, s, err))
        return false;
    if (v->code == VERDICT_OK && j->on_card && !correct_on_emulator(j, v, err))
        return false;
    if (j->on_card && beyond_the_emulator(j, v)) {
        json_put_str(j->phase, "note", v->text);
        json_put_str(j->figures, "emulate_note", v->text);
        verdict_done(v);
        *v = (struct verdict){.code = VERDICT_OK};
        return true;
    }
    if (v->code != VERDICT_OK)
        return true;
    j->emulated = !s->sampled || smaller_shown(j);
    if (s->sampled)
        json_put(j->phase, "sampled", sampled_encode(j, s));
    json_put_int(j->phase, "blocks_emulated", (int64_t)counted(s->counts, "blocks"));
    json_put_int(j->phase, "blocks_of_all", blocks_of(&s->plan));
    json_put_int(j->phase, "thread_instructions", (int64_t)counted(s->counts, "thread_instructions"));
    json_put_int(j->phase, "thread_instruction_limit", (int64_t)j->instruction_limit);
    json_put(j->phase, "checks",
             json_pack("[s,s,s,s,s,s]", "bounds", "initialised", "read_only", "alignment", "races", "barriers"));
    return true;
}
