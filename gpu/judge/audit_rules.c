/*
 * A trace is walked once. In the graph's trace everything launched from a graph must be the plan, step by step, `launches` times,
 * without overlap; what is not from a graph is ours (restoring, sweeping) and lies wholly before or behind. In the cold trace each
 * launch of the plan follows a sweep of ours. What does not fit is found at the first record that is out of place.
 * Numbers of rules and thresholds: gpu/judge/rules.h.
 */
#include "gpu/judge/audit_rules.h"

#include <math.h>
#include <string.h>

#define TOLERANCE_NS 1000               /* between stamps of different sources */
#define END_TOLERANCE_NS 200            /* between ends by the same clock: of a dependent launch and the one before it */
#define STAMP_PART 25                   /* of a long launch stamps may be off by a part: of one of 70 us an H200's began 1.4 us too early */
#define SELDOM 20                       /* records, of which one may be so */
#define LEAST_REGISTERS 16               /* what a thread gets at least: of code with 13 an H200's record says 16 */
#define RESERVED_SHARED_BYTES 1024      /* what the driver keeps of each block's shared memory on sm_90 and newer; counted by some versions */
#define MOST_LAUNCHES 256
#define LEAST_THIRD 5                   /* launches in a third of a graph, for a median that means something */

static bool is_ours(const struct device_record *k)
{
    return k->graph == 0 && (k->kind != DEVICE_RECORD_KERNEL || strncmp(k->name, AUDIT_OURS, strlen(AUDIT_OURS)) == 0);
}

static bool same3(const uint32_t *a, const uint32_t *b) { return a[0] == b[0] && a[1] == b[1] && a[2] == b[2]; }

static void expect_kernel(const struct audit_case *c, int step, const struct device_record *k, int at, struct audit_report *r)
{
    const struct plan_step *s = &c->plan->steps[step];
    const struct audit_kernel *code = &c->kernels[step];
    if (k->kind != DEVICE_RECORD_KERNEL || strcmp(k->name, s->kernel) != 0) {
        rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "record %d is %.60s where step %d, %.60s, should be", at,
             k->kind == DEVICE_RECORD_KERNEL ? k->name : "no kernel", step, s->kernel);
        return;
    }
    uint32_t cluster[3], seen[3];
    for (int i = 0; i < 3; i++)
        cluster[i] = s->cluster[i] ? s->cluster[i] : 1, seen[i] = k->cluster[i] ? k->cluster[i] : 1;
    if (!same3(k->grid, s->grid) || !same3(k->block, s->block) || !same3(seen, cluster))
        rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "record %d: grid (%u,%u,%u) of blocks (%u,%u,%u), not the plan's", at, k->grid[0], k->grid[1],
             k->grid[2], k->block[0], k->block[1], k->block[2]);
    if (k->dynamic_shared_bytes != (int64_t)s->shared_bytes ||
        (k->static_shared_bytes != code->static_shared_bytes && k->static_shared_bytes != code->static_shared_bytes + RESERVED_SHARED_BYTES))
        rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "record %d: %d + %d bytes of shared memory, the plan and its code have %lld + %u", at,
             k->static_shared_bytes, k->dynamic_shared_bytes, (long long)code->static_shared_bytes, s->shared_bytes);
    if (k->registers != code->registers && !(k->registers == LEAST_REGISTERS && code->registers < LEAST_REGISTERS))
        rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "record %d: %d registers, the assembled code has %d", at, k->registers, code->registers);
    if (k->completed_ns > k->end_ns + TOLERANCE_NS)
        rules_find(&r->rules, RULE_FOREIGN, RULE_REJECT, "record %d: what it launched itself ended %lld ns after it", at,
             (long long)(k->completed_ns - k->end_ns));
}

static void expect_memset(const struct audit_case *c, int step, const struct device_record *k, int at, struct audit_report *r)
{
    const struct plan_step *s = &c->plan->steps[step];
    if (k->kind != DEVICE_RECORD_MEMSET || k->bytes != c->workspace_bytes[s->memset_workspace] || (uint8_t)k->value != s->memset_value)
        rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "record %d is not step %d, a memset of %lld bytes", at, step,
             (long long)c->workspace_bytes[s->memset_workspace]);
}

static void expect_step(const struct audit_case *c, int step, const struct device_record *k, int at, struct audit_report *r)
{
    if (c->plan->steps[step].is_memset)
        expect_memset(c, step, k, at, r);
    else
        expect_kernel(c, step, k, at, r);
    if (k->device_launched || k->access_policy)
        rules_find(&r->rules, RULE_FOREIGN, RULE_REJECT, "record %d %s", at, k->device_launched ? "was launched by the device" : "has an access-policy window");
}

/* What holds of each record, whosever it is. */
static void sound(const struct device_trace *t, const char *which, struct audit_report *r)
{
    if (t->dropped || t->unknown)
        rules_find(&r->rules, RULE_LOST, RULE_REJECT, "%llu records of the %s trace were lost, %llu are of a kind that was not asked for",
             (unsigned long long)t->dropped, which, (unsigned long long)t->unknown);
    for (int i = 0; i < t->count; i++) {
        const struct device_record *k = &t->list[i];
        if (k->kind == DEVICE_RECORD_JIT)
            rules_find(&r->rules, RULE_FOREIGN, RULE_REJECT, "something was compiled while the %s trace was taken", which);
        else if (k->start_ns <= 0 || k->end_ns <= k->start_ns)
            rules_find(&r->rules, RULE_LOST, RULE_REJECT, "record %d of the %s trace has no duration", i, which);
        if (k->stream != t->list[0].stream || k->context != t->list[0].context)
            rules_find(&r->rules, RULE_FOREIGN, RULE_REJECT, "record %d of the %s trace is of another stream or context", i, which);
    }
}

/*
 * How much before the end of what was before it a launch may seem to start: a part of the shorter of the two, and that seldom. A kernel that
 * overlaps does so in every launch.
 */
static int64_t order_tolerance_ns(const struct device_record *k, int64_t end_ns, bool first, int *seldom)
{
    if (first || k->start_ns >= end_ns - TOLERANCE_NS || --*seldom < 0)
        return TOLERANCE_NS;
    const int64_t a = k[-1].end_ns - k[-1].start_ns, b = k->end_ns - k->start_ns, part = (a < b ? a : b) / STAMP_PART;
    return part > TOLERANCE_NS ? part : TOLERANCE_NS;
}

static void check_graph(const struct audit_case *c, struct audit_report *r)
{
    const struct device_trace *t = &c->seen->graph;
    int at = 0, steps = c->plan->step_count, wanted = c->launches * steps;
    while (at < t->count && is_ours(&t->list[at]))
        at++;
    int first = at, taken = 0, seldom = 1 + wanted / SELDOM;
    double launch_ns = 0, durations[MOST_LAUNCHES];
    int64_t before_ns = first ? t->list[first - 1].end_ns : 0, end_ns = before_ns;
    for (int n = 0; n < wanted; n++, at++) {
        if (at >= t->count || is_ours(&t->list[at])) {
            rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "%d records of the plan where %d launches of %d steps make %d", n, c->launches, steps, wanted);
            return;
        }
        const struct device_record *k = &t->list[at];
        expect_step(c, n % steps, k, at, r);
        if (k->graph == 0)
            rules_find(&r->rules, RULE_FOREIGN, RULE_REJECT, "record %d was not launched from the graph", at);
        /* A dependent launch may begin early, but not end early: what follows the plan counts on that. */
        const bool dependent = c->plan->steps[n % steps].dependent;
        if (dependent ? k->end_ns < end_ns - END_TOLERANCE_NS : k->start_ns < end_ns - order_tolerance_ns(k, end_ns, !at, &seldom))
            rules_find(&r->rules, RULE_ORDER, RULE_REJECT, "record %d %s %lld ns before the one before it ends", at,
                       dependent ? "ends" : "starts", (long long)(end_ns - (dependent ? k->end_ns : k->start_ns)));
        launch_ns += (double)(k->end_ns - (dependent && k->start_ns < end_ns ? end_ns : k->start_ns));
        end_ns = k->end_ns > end_ns ? k->end_ns : end_ns;     /* else tolerances would add up from step to step */
        if (n % steps == steps - 1) {
            if (taken < MOST_LAUNCHES)
                durations[taken++] = launch_ns;
            launch_ns = 0;
        }
    }
    int third = taken / 3;
    for (int i = 0; i < 3 && third >= LEAST_THIRD; i++) {
        double part[MOST_LAUNCHES];
        memcpy(part, durations + (i == 2 ? taken - third : i * third), (size_t)third * sizeof *part);
        r->third_ns[i] = stats_median(part, third);
    }
    stats_timer_of(durations, taken, &r->graph);
    r->graph_kernels_ns = stats_median(durations, taken);
    int last = at - 1;
    for (; at < t->count; at++)
        if (!is_ours(&t->list[at]))
            rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "%d records more than the plan has", t->count - at);
        else if (t->list[at].start_ns < end_ns - TOLERANCE_NS)
            rules_find(&r->rules, RULE_ORDER, RULE_REJECT, "the launch behind the timed ones starts %lld ns before the last of them ends",
                       (long long)(end_ns - t->list[at].start_ns));
    double envelope = (double)(t->list[last].end_ns - t->list[first].start_ns), event = (double)c->seen->sample.event_ns;
    r->graph_launch_ns = envelope / c->launches;
    rules_figure(&r->rules, RULE_OUTSIDE, "records_ns", envelope);
    rules_figure(&r->rules, RULE_OUTSIDE, "events_ns", event);
    if (envelope > event + TOLERANCE_NS)
        rules_find(&r->rules, RULE_OUTSIDE, RULE_REJECT, "the records span %.0f ns, the events around them %.0f", envelope, event);
    if (!(c->untraced_ns > 0))
        return;
    /* Events around a traced graph are no measure: tracing costs a tenth of a millisecond where the graph begins. So events are untraced. */
    double launch = c->untraced_ns - c->offset_ns, apart = fabs(r->graph_launch_ns - launch) * c->launches;
    rules_done(&r->rules, RULE_ENVELOPE);
    rules_figure(&r->rules, RULE_ENVELOPE, "launch_by_records_ns", r->graph_launch_ns);
    rules_figure(&r->rules, RULE_ENVELOPE, "launch_by_events_ns", c->untraced_ns);
    rules_figure(&r->rules, RULE_ENVELOPE, "of_it_calibrated_ns", c->offset_ns);
    if (apart > TOLERANCE_NS && apart > 0.03 * envelope)
        rules_find(&r->rules, RULE_ENVELOPE, RULE_FLAG, "%.0f ns a launch by the records, %.0f by the events", r->graph_launch_ns, launch);
    if (launch > 1.1 * r->graph_launch_ns)
        rules_find(&r->rules, RULE_OUTSIDE, RULE_FLAG, "%.0f ns a launch by the events, the records explain %.0f", launch, r->graph_launch_ns);
}

static void check_cold(const struct audit_case *c, struct audit_report *r)
{
    const struct device_trace *t = &c->seen->cold;
    double spans[MOST_LAUNCHES], empties[MOST_LAUNCHES];
    int at = 0, empty = 0, taken = 0, seldom = 1;
    for (int n = 0; n < c->cold_launches; n++) {
        bool swept = false;
        for (; at < t->count && is_ours(&t->list[at]) && !swept; at++) {
            swept = t->list[at].kind == DEVICE_RECORD_KERNEL && strcmp(t->list[at].name, AUDIT_READ) == 0;
            if (t->list[at].kind == DEVICE_RECORD_KERNEL && strcmp(t->list[at].name, AUDIT_EMPTY) == 0 && empty < MOST_LAUNCHES)
                empties[empty++] = (double)(t->list[at].end_ns - t->list[at].start_ns);
        }
        if (!swept || at + c->plan->step_count > t->count) {
            rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "cold launch %d of %d is not in the records", n, c->cold_launches);
            return;
        }
        int64_t end_ns = t->list[at - 1].end_ns;
        double sum_ns = 0;
        for (int s = 0; s < c->plan->step_count; s++, at++) {
            const struct device_record *k = &t->list[at];
            expect_step(c, s, k, at, r);
            const bool dependent = c->plan->steps[s].dependent;
            if (dependent ? k->end_ns < end_ns - END_TOLERANCE_NS : k->start_ns < end_ns - order_tolerance_ns(k, end_ns, !s, &seldom))
                rules_find(&r->rules, RULE_ORDER, RULE_REJECT, "cold record %d %s %lld ns before the one before it ends", at,
                           dependent ? "ends" : "starts", (long long)(end_ns - (dependent ? k->end_ns : k->start_ns)));
            sum_ns += (double)(k->end_ns - (dependent && k->start_ns < end_ns ? end_ns : k->start_ns));
            end_ns = k->end_ns > end_ns ? k->end_ns : end_ns;     /* else tolerances would add up from step to step */
        }
        if (taken < MOST_LAUNCHES)
            spans[taken++] = sum_ns;
    }
    for (; at < t->count; at++)
        if (!is_ours(&t->list[at]))
            rules_find(&r->rules, RULE_RECORDS, RULE_REJECT, "cold record %d, %.60s, is more than the plan has", at, t->list[at].name);
    if (taken)
        stats_side_of(spans, taken, &r->cold);
    if (c->seen->cold_count > 0)
        stats_side_of(c->seen->cold_event_ns, c->seen->cold_count, &r->cold_event);
    r->empty_ns = empty ? stats_median(empties, empty) : 0;
}

static void check_durations(const struct device_trace *t, struct audit_report *r)
{
    for (int i = 0; i < t->count; i++)
        if (t->list[i].kind == DEVICE_RECORD_KERNEL && !is_ours(&t->list[i]) &&
            (double)(t->list[i].end_ns - t->list[i].start_ns) < 0.8 * r->empty_ns)
            rules_find(&r->rules, RULE_LOST, RULE_REJECT, "record %d takes %lld ns, an empty kernel %.0f", i,
                 (long long)(t->list[i].end_ns - t->list[i].start_ns), r->empty_ns);
}

/* The events are wider than a launch, never narrower. */
static void check_cold_events(struct audit_report *r)
{
    if (r->cold.median > 0 && r->cold_event.median > 0 && r->cold_event.median + TOLERANCE_NS < r->cold.median)
        rules_find(&r->rules, RULE_OUTSIDE, RULE_REJECT, "cold: %.0f ns by the records, the events around them say %.0f", r->cold.median,
                   r->cold_event.median);
}

void audit_check(const struct audit_case *c, struct audit_report *ret)
{
    static const enum rule looked_at[] = {RULE_RECORDS, RULE_FOREIGN, RULE_ORDER, RULE_LOST, RULE_OUTSIDE};
    *ret = (struct audit_report){.records = c->seen->graph.count + c->seen->cold.count};
    BUG_ON(c->launches < 1 || c->cold_launches < 0 || c->plan->step_count < 1);
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++)
        rules_done(&ret->rules, looked_at[i]);
    sound(&c->seen->graph, "graph's", ret);
    sound(&c->seen->cold, "cold", ret);
    check_graph(c, ret);
    check_cold(c, ret);
    check_durations(&c->seen->graph, ret);
    check_durations(&c->seen->cold, ret);
    check_cold_events(ret);
    rules_figure(&ret->rules, RULE_RECORDS, "records", ret->records);
    rules_figure(&ret->rules, RULE_LOST, "empty_kernel_ns", ret->empty_ns);
}

void audit_compare_thirds(const struct audit_report *candidate, const struct audit_report *base, struct rules *ret)
{
    static const char *const names[] = {"graph_first_ns", "graph_middle_ns", "graph_last_ns"};
    const double *mine = candidate->third_ns, *usual = base->third_ns;
    if (!(mine[0] > 0) || !(usual[0] > 0))
        return;
    for (int i = 0; i < 3; i++)
        rules_figure(ret, RULE_DRIFT, names[i], mine[i]);
    rules_done(ret, RULE_DRIFT);
    /* Along a graph every kernel slows down a little, as L2 fills with what it must write back: alike for both sides. */
    for (int i = 1; i < 3; i++)
        if (fabs(mine[i] / mine[0] / (usual[i] / usual[0]) - 1) > 0.03)
            rules_find(ret, RULE_DRIFT, RULE_FLAG, "launches at the %s of a graph take %.3g of the first, the baseline's %.3g", i == 1 ? "middle" : "end",
                       mine[i] / mine[0], usual[i] / usual[0]);
}

json_t *audit_encode(const struct audit_report *r)
{
    json_t *doc = json_object();
    json_put_int(doc, "records", r->records);
    json_put_num(doc, "graph_launch_ns", r->graph_launch_ns);
    json_put_num(doc, "graph_kernels_ns", r->graph_kernels_ns);
    json_put(doc, "cold_isolated_ns", stats_side_encode(&r->cold));
    json_put(doc, "cold_isolated_event_ns", stats_side_encode(&r->cold_event));
    json_put_num(doc, "empty_kernel_ns", r->empty_ns);
    return doc;
}
