/*
 * Audit, on a card: the same launches once more, in a process of its own that a tracing library watches; its records are compared
 * with the plan here. Both sides go through it, so that cold figures can be compared. Where the library is missing or does not work
 * on the host the certificate says so: nothing is passed off as audited.
 */
#include "gpu/judge/internal.h"
#include "gpu/judge/timer_rules.h"

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
    int most = device_most_launches(sets), launches = most < AUDIT_LAUNCHES ? most : AUDIT_LAUNCHES, cold = AUDIT_COLD_LAUNCHES;
    json_put_int(job, "launches", launches);
    json_put_int(job, "cold_launches", cold);
    json_put(job, "order_seed", judge_u64(random_u64()));
    const int64_t wall_ns = side_is_judged(j, s) ? LIMIT_ANSWER_GRACE_NS + block_card_wall_ns(j, LIMIT_TIME_BLOCK_WALL_NS) : LIMIT_TIME_SETUP_WALL_NS;
    STEP(judge_ask_run(j, s, job, "audit", wall_ns, &answer, v, err));
    ret->sample = (struct device_sample){.event_ns = json_int(answer, "event_ns", 0), .wall_ns = json_int(answer, "wall_ns", 0),
                                         .launches = (int)json_int(answer, "launches", 0)};
    if (ret->sample.launches != launches)
        return err_set(err, ERR_UPSTREAM, "the audit child of the %s launched %d times, not %d", s->name, ret->sample.launches, launches);
    const json_t *events = json_object_get(answer, "cold_event_ns");
    for (size_t i = 0; i < json_array_size(events) && i < DEVICE_MAX_COLD; i++) {
        double ns = json_number_value(json_array_get(events, i));
        if (!(ns > 0 && ns < 1e12))
            return err_set(err, ERR_UPSTREAM, "the audit child of the %s reports an impossible cold launch", s->name);
        ret->cold_event_ns[ret->cold_count++] = ns;
    }
    ret->flush_bytes = json_int(answer, "flush_bytes", 0);
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

/* Of a launch in an untraced graph: its share of what an empty graph's beginning and end take. */
static double offset_ns(const struct judge *j)
{
    double launches = json_num(j->timing.record, "launches_in_a_graph", 0), graph = json_num(j->calibration, "graph_ns", 0);
    return launches > 0 && graph > 0 ? graph / launches : 0;
}

/* A side's audit, and what the comparison of both needs. */
struct audited { struct audit_report report; struct traced_side traced; int64_t flush_bytes; };

/* In *ret_why: this host cannot be audited on, and why. */
static bool audit_side(struct judge *j, struct judge_side *s, uint64_t seed, double untraced_ns, struct audited *ret, char **ret_why,
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
                                 .cold_launches = cold, .seen = &seen, .untraced_ns = untraced_ns, .offset_ns = offset_ns(j)};
    audit_check(&c, &ret->report);
    ret->traced = (struct traced_side){untraced_ns, ret->report.graph_launch_ns, ret->report.cold.median, ret->report.graph_kernels_ns};
    ret->flush_bytes = seen.flush_bytes;
    return true;
}

/* What needs both sides. The candidate's rules alone are published; the baseline's must hold, or nothing of this is worth anything. */
static void compare_sides(struct judge *j, const struct audited *mine, const struct audited *base)
{
    double records = base ? base->report.graph_launch_ns / mine->report.graph_launch_ns : 0;
    rules_merge(&j->rules, &mine->report.rules);
    if (mine->traced.cold_ns > 0 && mine->traced.among_others_ns > 0 && (!base || (base->traced.cold_ns > 0 && base->traced.among_others_ns > 0)))
        cold_rule(&mine->traced, base ? &base->traced : NULL, &j->rules);
    modes_put_cold(j, &mine->report, base ? &base->report : NULL, mine->flush_bytes);
    timers_put_records(j, &mine->report, base ? &base->report : NULL);
    if (!base) {
        static const char why[] = "a baseline by itself: there is nothing to compare with";
        rules_skip(&j->rules, RULE_TRACED, why);
        rules_skip(&j->rules, RULE_GAINS, why);
        return;
    }
    traced_rule(&mine->traced, &base->traced, &j->rules);
    gains_rule(j->timing.speedup.median, records, j->timing.wall_gain, &j->rules);
    audit_compare_thirds(&mine->report, &base->report, &j->rules);
    json_put_num(j->phase, "speedup_by_records", records);
    j->records_gain = records;
}

static bool audit(struct judge *j, struct verdict *v, struct err *err)
{
    struct judge_side *sides[SIDES] = {&j->sides[CANDIDATE], j->sides[BASELINE].present ? &j->sides[BASELINE] : NULL};
    struct audited seen[SIDES] = {0};
    const double untraced_ns[SIDES] = {j->timing.candidate_ns, j->timing.baseline_ns};
    cleanup(str) char *why = NULL;
    uint64_t seed = random_u64();
    enum rule rule = RULE_RECORDS;
    if (!j->on_card)
        why = xstrdup("the emulator has no clock and nothing to trace");
    else if (!j->toolkit.cupti[0])
        why = xfmt("no libcupti in %s", j->toolkit.home);
    for (int i = 0; i < SIDES && sides[i] && !why; i++) {
        STEP(audit_side(j, sides[i], seed, untraced_ns[i], &seen[i], &why, v, err));
        sides[i]->audited = false;
        child_done(&sides[i]->run);
        if (why)
            break;
        json_put(j->phase, sides[i]->name, audit_encode(&seen[i].report));
        const struct rule_finding *against = rules_rejection(&seen[i].report.rules, &rule);
        if (against && !side_is_judged(j, sides[i]))
            return err_set(err, ERR_INTERNAL, "the baseline's own audit fails: rule %d: %s", rule_number(rule), against->text);
        if (against) {
            rules_merge(&j->rules, &seen[i].report.rules);
            verdict_set(v, VERDICT_TIMERS_DISAGREE, "audit", "rule %d: %s", rule_number(rule), against->text);
            v->detail = rules_encode(&j->rules);
            return true;
        }
    }
    if (why) {
        json_put_str(j->phase, "not_done", why);
        rules_skip_rest(&j->rules, why);
        return true;
    }
    compare_sides(j, &seen[CANDIDATE], sides[BASELINE] ? &seen[BASELINE] : NULL);
    return true;
}

json_t *rules_of_judgement(const struct judge *j)
{
    struct rules all = j->rules;
    rules_merge(&all, &j->timing.rules);
    rules_skip_rest(&all, j->on_card ? "triage has no audit" : "an estimate has no timers");
    return rules_encode(&all);
}

bool phase_audit(struct judge *j, struct verdict *v, struct err *err)
{
    bool ok = audit(j, v, err);
    cleanup(json) json_t *copy = json_deep_copy(j->phase);
    json_object_del(copy, "phase");
    json_put(j->figures, "audit", json_incref(copy));
    return ok;
}
