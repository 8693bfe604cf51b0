/*
 * Series: what a launch may not depend on, where only a card shows it. The candidate's module is unloaded and loaded again, and
 * launched at the same addresses with one content and another: the 1st, 2nd, 10th, 11th and 1000th launch are looked at here, of those
 * between the device compares sums. A kernel that counts, that knows its buffers by their addresses or its inputs by a mark, or
 * that finds in shared memory, registers or frames what the launch before left there, gives other bits in one of them.
 */
#include "gpu/judge/internal.h"
#include "gpu/judge/spare.h"

#include <string.h>

static const struct { bool other; int launches; } steps[] = {{false, 1}, {true, 1}, {false, 8}, {true, 1}, {false, 989}};
#define STEP_COUNT (int)(sizeof steps / sizeof *steps)
#define SHORT_STEPS 3           /* of large tensors in a triage: each content takes its time to upload */
#define LEAST_REPEATS 100       /* of launches whose bits are compared, where the emulator has not looked for what makes them differ */

struct series {
    struct judge *j;
    const struct shared *in[2];
    void *const *expected[2];
    uint64_t poison, salt;
    bool begun;
    int64_t launches;           /* since the module was loaded */
    int64_t alike;              /* most that were made at once, of which the bits were compared */
    json_t *told;
};

static bool ask(struct series *x, int launches, json_t **ret, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    const int64_t wall_ns = j->mode == MODE_TRIAGE ? LIMIT_SERIES_TRIAGE_NS : LIMIT_SERIES_NS;
    cleanup(json) json_t *job = judge_job("probe");
    json_put_int(job, "launches", launches);
    json_put_bool(job, "again", x->begun);
    json_put(job, "poison", judge_u64(x->poison));
    json_put(job, "salt", judge_u64(x->salt));
    json_put_str(job, "place", "end");
    json_put_int(job, "wall_ns", wall_ns);
    const int least = launches > LEAST_REPEATS && !j->emulated ? LEAST_REPEATS : 0;
    json_put_int(job, "least", least);
    json_put_int(job, "least_wall_ns", LIMIT_SERIES_LEAST_NS);
    /* after its wall time, or that of the least, it makes no more than the launches between two looks at the clock */
    const int64_t goes_on_ns = least && LIMIT_SERIES_LEAST_NS > wall_ns ? LIMIT_SERIES_LEAST_NS : wall_ns;
    const int64_t most_ns = goes_on_ns + run_card_wall_ns(j, DEVICE_PROBE_AT_ONCE, LIMIT_RUN_CUDA_WALL_NS + LIMIT_ANSWER_GRACE_NS);
    return judge_ask_run(j, &j->sides[CANDIDATE], job, "probe", most_ns, ret, v, err);
}

/* The last launch's outputs against what is known of these inputs. */
static void compare(struct series *x, bool other, struct verdict *v)
{
    struct judge *j = x->j;
    struct judge_side *s = &j->sides[CANDIDATE];
    const bool spreads = s->candidate.atomics;
    int64_t element = 0;
    int t = spreads ? outputs_spread(j, x->expected[other], s->outputs, &element) : outputs_difference(j, x->expected[other], s->outputs, &element);
    if (t < 0)
        return;
    verdict_set(v, VERDICT_STATE_CARRIED, "probe", "launch %lld after the module was loaded, %s, gives another element %lld of %s than on the "
                "same inputs elsewhere%s", (long long)x->launches, x->launches == 1 ? "its first" : other ? "of new content at the same addresses" :
                "at the same addresses", (long long)element, j->op->tensors[t].name, spreads ? ", further apart than atomics excuse" : "");
    v->detail = json_pack("{s:s,s:I,s:I}", "tensor", j->op->tensors[t].name, "element", (json_int_t)element, "launch", (json_int_t)x->launches);
}

static bool one_step(struct series *x, bool other, int launches, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    struct judge_side *s = &j->sides[CANDIDATE];
    cleanup(json) json_t *answer = NULL;
    if (!child_inputs(j, &s->run, x->in[other], err))
        return side_child_failed(j, s, &s->run, "probe", v, err);
    run_spoil(s);
    STEP(ask(x, launches, &answer, v, err));
    const int64_t made = json_int(answer, "launches", 0), differs = json_int(answer, "differs", 0);
    if (made < 1 || made > launches || differs < 0 || differs > made)
        return err_set(err, ERR_UPSTREAM, "the run child of the candidate made %lld of %d launches", (long long)made, launches);
    STEP(run_intact(j, s, answer, "probe", v, err));
    if (differs && !s->candidate.atomics) {
        verdict_set(v, VERDICT_STATE_CARRIED, "probe", "launch %lld after the module was loaded gives other bits than launch %lld on equal inputs at "
                    "equal addresses", (long long)(x->launches + differs), (long long)x->launches + 1);
        v->detail = json_pack("{s:I}", "launch", (json_int_t)(x->launches + differs));
        return true;
    }
    x->begun = true;
    x->launches += made;
    x->alike = made > x->alike ? made : x->alike;
    json_array_append_new(x->told, json_integer(x->launches));
    run_copy_outputs(j, s);
    compare(x, other, v);
    return true;
}

/* Whether the device of the candidate's child has series; a device without gives an answer without a number. */
static bool end(struct series *x, bool *ret_known, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *answer = NULL;
    x->begun = false;
    STEP(ask(x, 0, &answer, v, err));
    *ret_known = json_is_integer(json_object_get(answer, "launches"));
    return true;
}

static bool all_steps(struct series *x, struct verdict *v, struct err *err)
{
    struct judge *j = x->j;
    const int count = j->mode == MODE_TRIAGE && !j->keep_regimes && j->emulated ? SHORT_STEPS : STEP_COUNT;
    bool known = false;
    STEP(end(x, &known, v, err));
    if (!known)
        return true;
    x->told = json_array();
    json_put(j->phase, "series", x->told);
    STEP(run_load(j, &j->sides[CANDIDATE], true, "probe", v, err));
    for (int i = 0; i < count; i++)
        STEP(one_step(x, steps[i].other, steps[i].launches, v, err));
    if (!j->sides[CANDIDATE].candidate.atomics)
        json_put_int(j->phase, "repeats_on_card", x->alike);
    return end(x, &known, v, err);
}

bool series(struct judge *j, const struct shared *typical_in, void *const *typical, const struct shared *other_in, void *const *other,
            struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    struct series x = {.j = j, .in = {typical_in, other_in}, .poison = j->poison[0], .salt = random_u64(), .expected = {typical, other}};
    void *kept[OP_MAX_TENSORS] = {0};
    if (!j->on_card)
        return true;
    for (int t = 0; t < j->op->tensor_count; t++)
        kept[t] = steal(&s->outputs[t]);
    const bool mine = other == s->outputs;
    x.expected[1] = mine ? kept : other;
    bool ok = all_steps(&x, v, err);
    for (int t = 0; t < j->op->tensor_count; t++) {
        spare_give(s->outputs[t]);
        s->outputs[t] = kept[t];
    }
    return ok;
}
