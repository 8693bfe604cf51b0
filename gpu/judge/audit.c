/*
 * Audit, on a card: the same launches once more, in a process of its own that a tracing library watches; its records are compared
 * with the plan here. Both sides go through it, so that cold figures can be compared. Where the library is missing or does not work
 * on the host the certificate says so: nothing is passed off as audited.
 */
#include "gpu/judge/internal.h"
#include "gpu/judge/audit_rules.h"

#include <string.h>

#define AUDIT_LAUNCHES 64
#define AUDIT_COLD_LAUNCHES 24
#define RECORD_NUMBERS 24

/* Not a number that the field can hold: the record breaks a rule then. */
static int64_t number(const json_t *list, size_t i) { return json_integer_value(json_array_get(list, i)); }

static bool decode_record(const json_t *list, const json_t *names, struct device_record *r)
{
    if (json_array_size(list) != RECORD_NUMBERS)
        return false;
    int64_t n[RECORD_NUMBERS];
    for (size_t i = 0; i < RECORD_NUMBERS; i++)
        n[i] = number(list, i);
    if (n[0] < 0 || n[0] >= DEVICE_RECORD_KINDS)
        return false;
    *r = (struct device_record){.kind = (enum device_record_kind)n[0], .start_ns = n[2], .end_ns = n[3], .completed_ns = n[4],
                                .registers = (int32_t)n[14], .static_shared_bytes = (int32_t)n[15], .dynamic_shared_bytes = (int32_t)n[16],
                                .local_bytes_thread = (uint32_t)n[17], .bytes = n[18], .value = (uint32_t)n[19], .stream = (uint32_t)n[20],
                                .graph = (uint32_t)n[21], .context = (uint32_t)n[22], .device_launched = n[23] & 1, .access_policy = n[23] & 2};
    for (int i = 0; i < 3; i++)
        r->grid[i] = (uint32_t)n[5 + i], r->block[i] = (uint32_t)n[8 + i], r->cluster[i] = (uint32_t)n[11 + i];
    const char *name = json_string_value(json_array_get(names, (size_t)n[1]));
    snprintf(r->name, sizeof r->name, "%s", name ? name : "");
    return true;
}

static bool decode_trace(const json_t *doc, struct device_trace *ret, struct err *err)
{
    const json_t *records = json_object_get(doc, "records"), *names = json_object_get(doc, "names");
    size_t count = json_array_size(records);
    int64_t dropped = json_int(doc, "dropped", -1), unknown = json_int(doc, "unknown", -1);
    if (!json_is_array(records) || count > DEVICE_MAX_RECORDS || dropped < 0 || unknown < 0)
        return err_set(err, ERR_UPSTREAM, "the audit child gave no records");
    ret->list = xarray(count + 1, sizeof *ret->list);
    ret->count = (int)count, ret->dropped = (uint64_t)dropped, ret->unknown = (uint64_t)unknown;
    for (size_t i = 0; i < count; i++)
        if (!decode_record(json_array_get(records, i), names, &ret->list[i]))
            return err_set(err, ERR_UPSTREAM, "record %zu of the audit child is not one", i);
    return true;
}

static bool ask_audit(struct judge *j, struct judge_side *s, uint64_t seed, struct device_audit_result *ret, int *ret_cold,
                      struct verdict *v, struct err *err)
{
    cleanup(json) json_t *job = judge_job("audit"), *answer = NULL;
    int sets = 0;
    STEP(measure_setup(j, s, seed, &sets, v, err));
    int launches = sets < AUDIT_LAUNCHES ? sets : AUDIT_LAUNCHES, cold = sets < AUDIT_COLD_LAUNCHES ? sets : AUDIT_COLD_LAUNCHES;
    json_put_int(job, "launches", launches);
    json_put_int(job, "cold_launches", cold);
    json_put(job, "order_seed", judge_u64(random_u64()));
    STEP(judge_ask_run(j, s, job, "audit", LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    ret->sample = (struct device_sample){.event_ns = json_int(answer, "event_ns", 0), .wall_ns = json_int(answer, "wall_ns", 0),
                                         .launches = (int)json_int(answer, "launches", 0)};
    if (ret->sample.launches != launches)
        return err_set(err, ERR_UPSTREAM, "the audit child of the %s launched %d times, not %d", s->name, ret->sample.launches, launches);
    *ret_cold = cold;
    return decode_trace(json_object_get(answer, "graph"), &ret->graph, err) && decode_trace(json_object_get(answer, "cold"), &ret->cold, err);
}

static void kernels_of(const struct judge_side *s, struct audit_kernel *kernels)
{
    for (int i = 0; i < s->plan.step_count; i++)
        for (int k = 0; k < s->kernel_count; k++)
            if (!s->plan.steps[i].is_memset && strcmp(s->kernels[k].name, s->plan.steps[i].kernel) == 0)
                kernels[i] = (struct audit_kernel){s->kernels[k].registers, s->kernels[k].shared_bytes, s->kernels[k].local_bytes};
}

/* In *ret_why: this host cannot be audited on, and why. */
static bool audit_side(struct judge *j, struct judge_side *s, uint64_t seed, double untraced_ns, struct audit_report *ret, char **ret_why,
                       struct verdict *v, struct err *err)
{
    cleanup(device_audit) struct device_audit_result seen = {.sample = {0}};
    struct audit_kernel kernels[PLAN_MAX_STEPS] = {{0}};
    int64_t workspaces[PLAN_MAX_WORKSPACES] = {0};
    struct err why = {0};
    int cold = 0;
    s->audited = true;
    bool started = run_start(j, s, SANDBOX_RUN_CUDA, &why) && run_open(j, s, j->device, v, &why);
    if (!started && why.code == ERR_UNAVAILABLE) {
        child_done(&s->run);
        *ret_why = xstrdup(why.text);
        return true;
    }
    if (!started)
        return err_set(err, why.code, "%s", why.text);
    STEP(run_load(j, s, true, "audit", v, err));
    STEP(ask_audit(j, s, seed, &seen, &cold, v, err));
    kernels_of(s, kernels);
    for (int i = 0; i < s->plan.workspace_count; i++)
        workspaces[i] = s->plan.workspaces[i].bytes;
    const struct audit_case c = {.plan = &s->plan, .workspace_bytes = workspaces, .kernels = kernels, .launches = seen.sample.launches,
                                 .cold_launches = cold, .seen = &seen, .untraced_ns = untraced_ns};
    audit_check(&c, ret);
    return true;
}

static void reject(const struct audit_report *r, struct verdict *v)
{
    for (int i = 0; i < AUDIT_RULES; i++)
        if (r->rules[i].outcome == AUDIT_REJECT) {
            verdict_set(v, VERDICT_TIMERS_DISAGREE, "audit", "rule %d: %s", r->rules[i].rule, r->rules[i].text);
            v->detail = audit_encode(r);
            return;
        }
}

/* Rule 9: the gain by the tracing library's clock, both sides in one mode, against the published one. */
static void compare_gains(const struct judge *j, const struct audit_report *mine, const struct audit_report *base, json_t *to)
{
    double traced = base->graph_launch_ns / mine->graph_launch_ns, published = j->timing.speedup.median;
    json_put_num(to, "speedup_by_records", traced);
    json_put_num(to, "speedup_cold_isolated", mine->cold_launch_ns > 0 ? base->cold_launch_ns / mine->cold_launch_ns : 0);
    json_put(to, "rule_9", json_pack("{s:s,s:s}", "what", "the gain by the records is the gain by the events, within 3 percent", "outcome",
                                     traced / published - 1 > 0.03 || traced / published - 1 < -0.03 ? "flag" : "ok"));
}

static bool audit(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *sides[SIDES] = {&j->sides[CANDIDATE], j->sides[BASELINE].present ? &j->sides[BASELINE] : NULL};
    struct audit_report reports[SIDES];
    const double untraced_ns[SIDES] = {j->timing.candidate_ns, j->timing.baseline_ns};
    cleanup(str) char *why = NULL;
    uint64_t seed = random_u64();
    if (!j->on_card) {
        json_put_str(j->phase, "not_done", "the emulator has no clock and nothing to trace");
        return true;
    }
    if (!j->toolkit.cupti[0])
        why = xfmt("no libcupti in %s", j->toolkit.home);
    for (int i = 0; i < SIDES && sides[i] && !why; i++) {
        STEP(audit_side(j, sides[i], seed, untraced_ns[i], &reports[i], &why, v, err));
        sides[i]->audited = false;
        child_done(&sides[i]->run);
        if (why)
            break;
        json_put(j->phase, sides[i]->name, audit_encode(&reports[i]));
        if (reports[i].worst == AUDIT_REJECT && !side_is_judged(j, sides[i]))
            return err_set(err, ERR_INTERNAL, "the baseline's own audit fails: %s", reports[i].rules[0].text);
        if (reports[i].worst == AUDIT_REJECT) {
            reject(&reports[i], v);
            return true;
        }
    }
    if (why)
        json_put_str(j->phase, "not_done", why);
    else if (sides[BASELINE])
        compare_gains(j, &reports[CANDIDATE], &reports[BASELINE], j->phase);
    return true;
}

bool phase_audit(struct judge *j, struct verdict *v, struct err *err)
{
    bool ok = audit(j, v, err);
    cleanup(json) json_t *copy = json_deep_copy(j->phase);
    json_object_del(copy, "phase");
    json_put(j->figures, "audit", json_incref(copy));
    return ok;
}
