/*
 * Where a candidate's time goes, by the card's own counters: it is built again as it was judged, and runs some tens of times in a process
 * of its own in which CUPTI's range profiler counts. Nothing is compared and no verdict given; nothing of it is a time that is published.
 * For candidates that were judged right: who asks for others gets what a fault costs, a process.
 *
 * Three ends that are no failure of the day: figures; "refused", where this host, card or driver does not count (it will not tomorrow
 * either); "fault", where the candidate does not build or run any more.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <math.h>
#include <string.h>

#define PROFILE_WALL_NS (20 * LIMIT_SECOND)     /* tens of passes of a launch, a sweep of L2 and some milliseconds of set-up each: a second */
#define FIGURE_MOST 1e18

static const char *const names[PROFILE_ITEMS] = {
#define X(name, metric) #name,
    PROFILE_FIGURES(X)
#undef X
#define X(name) #name,
    PROFILE_STALLS(X)
#undef X
};

static bool build(struct judge *j, struct judge_side *s, struct verdict *v, struct err *err)
{
    if (!run_start(j, s, SANDBOX_RUN_SIM, err) || !regime_make(j, 0, err))
        return false;
    STEP(compile_take(j, s, v, err));
    STEP(assemble_start(j, s, v, err));
    STEP(phase_scan(j, v, err));
    return assemble_take(j, s, v, err);
}

/* Numbers under our own names and no more: they stand outside a prompt's fences. */
static json_t *step_figures(const json_t *said)
{
    json_t *step = json_object(), *stalls = json_object();
    if (json_array_size(said) != PROFILE_ITEMS) {
        json_decref(step);
        json_decref(stalls);
        return NULL;
    }
    for (int k = 0; k < PROFILE_ITEMS; k++) {
        const json_t *one = json_array_get(said, (size_t)k);
        double value = json_number_value(one);
        if (json_is_number(one) && isfinite(value) && value >= 0 && value <= FIGURE_MOST)
            json_put_num(k < PROFILE_FIRST_STALL ? step : stalls, names[k], round(value * 1000) / 1000);
    }
    json_put(step, "stalls", stalls);
    return step;
}

static bool take_figures(const struct judge *j, const struct judge_side *s, const json_t *answer, json_t **ret, struct err *err)
{
    const json_t *said = json_object_get(answer, "steps"), *one;
    cleanup(json) json_t *steps = json_array();
    size_t i;
    if (json_array_size(said) != (size_t)s->plan.step_count)
        return err_set(err, ERR_UPSTREAM, "the profile child gave figures of %zu steps of %d", json_array_size(said), s->plan.step_count);
    json_array_foreach(said, i, one) {
        json_t *step = step_figures(one);
        if (!step)
            return err_set(err, ERR_UPSTREAM, "the figures of step %zu of the profile child are none", i);
        json_array_append_new(steps, step);
    }
    json_t *doc = json_object();
    json_put_str(doc, "evidence", "measured");
    json_put_str(doc, "mode", "cold-isolated");
    json_put_str(doc, "device", json_str(s->info, "name", j->device));
    json_put_str(doc, "driver", json_str(s->info, "driver", ""));
    json_put_int(doc, "passes", json_int(answer, "passes", 0));
    json_put(doc, "steps", json_incref(steps));
    *ret = doc;
    return true;
}

/* In *ret_refused: this host, card or driver does not count, and why. The caller frees. */
static bool count(struct judge *j, struct judge_side *s, json_t **ret, char **ret_refused, struct verdict *v, struct err *err)
{
    cleanup(json) json_t *job = judge_job("profile"), *answer = NULL;
    struct err why = {0};
    s->profiled = true;
    bool opened = run_start(j, s, SANDBOX_RUN_CUDA, &why) && run_open(j, s, j->device, v, &why);
    if (!opened && why.code != ERR_UNAVAILABLE)
        return err_set(err, why.code, "%s", why.text);
    if (opened) {
        STEP(run_load(j, s, true, "profile", v, err));
        STEP(run_inputs(j, s, 0, "profile", v, err));
        json_put(job, "poison", judge_u64(j->poison[0]));
        if (!child_ask(&j->watch, &s->run, job, &why) || !child_take(&j->watch, &s->run, clock_mono_ns() + PROFILE_WALL_NS, &answer, &why)) {
            if (why.code != ERR_UNAVAILABLE) {
                *err = why;
                return side_child_failed(j, s, &s->run, "profile", v, err);
            }
            opened = false;
        }
    }
    if (!opened) {
        child_done(&s->run);
        *ret_refused = xstrdup(why.text);
        return true;
    }
    if (!fault_take(json_object_get(answer, "fault"), "profile", v, err))
        return false;
    return v->code != VERDICT_OK || take_figures(j, s, answer, ret, err);
}

static bool profile_one(struct judge *j, json_t **ret, char **ret_refused, struct verdict *v, struct err *err)
{
    struct judge_side *s = &j->sides[CANDIDATE];
    STEP(phase_admit(j, v, err));
    STEP(build(j, s, v, err));
    return count(j, s, ret, ret_refused, v, err);
}

bool judge_profile(const struct judge_config *config, const json_t *request, judge_cancelled_fn *cancelled, void *ctx, json_t **ret, struct err *err)
{
    cleanup(judge) struct judge *j = judge_new(config, NULL, cancelled, ctx);
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    cleanup(json) json_t *task = json_object(), *figures = NULL;
    cleanup(str) char *refused = NULL;
    static const char *const keys[] = {"shape", "op_digest", "candidate"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(request, keys[i]))
            json_object_set(task, keys[i], json_object_get(request, keys[i]));
    json_put_str(task, "mode", "triage");
    j->task = task;
    if (!judge_begin(j, err))
        return false;
    j->phase = json_object();
    json_array_append_new(j->phases, j->phase);
    if (!j->on_card)
        refused = xstrdup("the emulator has no counters of a card");
    else if (!j->toolkit.cupti[0])
        refused = xfmt("no libcupti in %s", j->toolkit.home);
    else if (!profile_one(j, &figures, &refused, &v, err))
        return false;
    card_release(j);
    *ret = json_object();
    if (v.code != VERDICT_OK)
        json_put(*ret, "fault", verdict_encode(&v));
    else if (refused)
        json_put_str(*ret, "refused", refused);
    else
        json_put(*ret, "profile", json_incref(figures));
    json_put_int(*ret, "gpu_ns", j->gpu_ns);
    return true;
}
