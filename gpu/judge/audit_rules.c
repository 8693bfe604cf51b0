/*
 * A trace is walked once. In the graph's trace everything launched from a graph must be the plan, step by step, `launches` times,
 * without overlap; what is not from a graph is ours (restoring, sweeping) and lies wholly before or behind. In the cold trace each
 * launch of the plan follows a sweep of ours. What does not fit is found at the first record that is out of place.
 * Numbers of rules and thresholds: timers and audits that disagree, as the design lists them; a flag is recorded, a rejection
 * decides.
 */
#include "gpu/judge/audit_rules.h"
#include "gpu/judge/stats.h"

#include <math.h>
#include <string.h>

#define TOLERANCE_NS 1000               /* between stamps of different sources */
#define RESERVED_SHARED_BYTES 1024      /* what the driver keeps of each block's shared memory on sm_90 and newer; counted by some versions */
#define MOST_LAUNCHES 256

enum rule { RULE_RECORDS, RULE_FOREIGN, RULE_SPAN, RULE_LOST, RULE_ENVELOPE, RULE_OUTSIDE, RULE_COLD };
static const struct { int number; const char *text; } rules[AUDIT_RULES] = {
    [RULE_RECORDS] = {1, "the records are the plan's launches, each with the plan's grid, block, cluster and shared memory and the code's registers"},
    [RULE_FOREIGN] = {2, "nothing else ran: nothing launched by the device, copied, set, compiled, and no access-policy window"},
    [RULE_SPAN] = {3, "launches follow one another and lie between what surrounds them"},
    [RULE_LOST] = {4, "no record was lost, none is empty, none is shorter than an empty kernel"},
    /* Events around a traced graph are no help: tracing costs a tenth of a millisecond where the graph begins. So this is rule 8 too. */
    [RULE_ENVELOPE] = {5, "a launch takes as long by the records, traced, as by the events, untraced"},
    [RULE_OUTSIDE] = {6, "no work lies outside the events"},
    [RULE_COLD] = {10, "a cold launch is not faster than one among others"},
};
const char *audit_rule_text(int index) { return rules[index].text; }

static void find(struct audit_report *r, enum rule rule, enum audit_outcome outcome, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void find(struct audit_report *r, enum rule rule, enum audit_outcome outcome, const char *fmt, ...)
{
    struct audit_finding *f = &r->rules[rule];
    va_list ap;
    if (outcome <= f->outcome)          /* the first of the worst is kept */
        return;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    f->outcome = outcome;
    r->worst = outcome > r->worst ? outcome : r->worst;
}

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
        find(r, RULE_RECORDS, AUDIT_REJECT, "record %d is %.60s where step %d, %.60s, should be", at,
             k->kind == DEVICE_RECORD_KERNEL ? k->name : "no kernel", step, s->kernel);
        return;
    }
    uint32_t cluster[3], seen[3];
    for (int i = 0; i < 3; i++)
        cluster[i] = s->cluster[i] ? s->cluster[i] : 1, seen[i] = k->cluster[i] ? k->cluster[i] : 1;
    if (!same3(k->grid, s->grid) || !same3(k->block, s->block) || !same3(seen, cluster))
        find(r, RULE_RECORDS, AUDIT_REJECT, "record %d: grid (%u,%u,%u) of blocks (%u,%u,%u), not the plan's", at, k->grid[0], k->grid[1],
             k->grid[2], k->block[0], k->block[1], k->block[2]);
    if (k->dynamic_shared_bytes != (int64_t)s->shared_bytes ||
        (k->static_shared_bytes != code->static_shared_bytes && k->static_shared_bytes != code->static_shared_bytes + RESERVED_SHARED_BYTES))
        find(r, RULE_RECORDS, AUDIT_REJECT, "record %d: %d + %d bytes of shared memory, the plan and its code have %lld + %u", at,
             k->static_shared_bytes, k->dynamic_shared_bytes, (long long)code->static_shared_bytes, s->shared_bytes);
    if (k->registers != code->registers)
        find(r, RULE_RECORDS, AUDIT_REJECT, "record %d: %d registers, the assembled code has %d", at, k->registers, code->registers);
    if (k->completed_ns > k->end_ns + TOLERANCE_NS)
        find(r, RULE_FOREIGN, AUDIT_REJECT, "record %d: what it launched itself ended %lld ns after it", at,
             (long long)(k->completed_ns - k->end_ns));
}

static void expect_memset(const struct audit_case *c, int step, const struct device_record *k, int at, struct audit_report *r)
{
    const struct plan_step *s = &c->plan->steps[step];
    if (k->kind != DEVICE_RECORD_MEMSET || k->bytes != c->workspace_bytes[s->memset_workspace] || (uint8_t)k->value != s->memset_value)
        find(r, RULE_RECORDS, AUDIT_REJECT, "record %d is not step %d, a memset of %lld bytes", at, step,
             (long long)c->workspace_bytes[s->memset_workspace]);
}

static void expect_step(const struct audit_case *c, int step, const struct device_record *k, int at, struct audit_report *r)
{
    if (c->plan->steps[step].is_memset)
        expect_memset(c, step, k, at, r);
    else
        expect_kernel(c, step, k, at, r);
    if (k->device_launched || k->access_policy)
        find(r, RULE_FOREIGN, AUDIT_REJECT, "record %d %s", at, k->device_launched ? "was launched by the device" : "has an access-policy window");
}

/* What holds of each record, whosever it is. */
static void sound(const struct device_trace *t, const char *which, struct audit_report *r)
{
    if (t->dropped || t->unknown)
        find(r, RULE_LOST, AUDIT_REJECT, "%llu records of the %s trace were lost, %llu are of a kind that was not asked for",
             (unsigned long long)t->dropped, which, (unsigned long long)t->unknown);
    for (int i = 0; i < t->count; i++) {
        const struct device_record *k = &t->list[i];
        if (k->kind == DEVICE_RECORD_JIT)
            find(r, RULE_FOREIGN, AUDIT_REJECT, "something was compiled while the %s trace was taken", which);
        else if (k->start_ns <= 0 || k->end_ns <= k->start_ns)
            find(r, RULE_LOST, AUDIT_REJECT, "record %d of the %s trace has no duration", i, which);
        if (k->stream != t->list[0].stream || k->context != t->list[0].context)
            find(r, RULE_FOREIGN, AUDIT_REJECT, "record %d of the %s trace is of another stream or context", i, which);
    }
}

static void check_graph(const struct audit_case *c, struct audit_report *r)
{
    const struct device_trace *t = &c->seen->graph;
    int at = 0, steps = c->plan->step_count, wanted = c->launches * steps;
    while (at < t->count && is_ours(&t->list[at]))
        at++;
    int first = at, taken = 0;
    double launch_ns = 0, durations[MOST_LAUNCHES];
    int64_t before_ns = first ? t->list[first - 1].end_ns : 0, end_ns = before_ns;
    for (int n = 0; n < wanted; n++, at++) {
        if (at >= t->count || is_ours(&t->list[at])) {
            find(r, RULE_RECORDS, AUDIT_REJECT, "%d records of the plan where %d launches of %d steps make %d", n, c->launches, steps, wanted);
            return;
        }
        const struct device_record *k = &t->list[at];
        expect_step(c, n % steps, k, at, r);
        if (k->graph == 0)
            find(r, RULE_FOREIGN, AUDIT_REJECT, "record %d was not launched from the graph", at);
        /* A dependent launch may begin early, but not end early: what follows the plan counts on that. */
        const bool dependent = c->plan->steps[n % steps].dependent;
        if (dependent ? k->end_ns < end_ns - TOLERANCE_NS : k->start_ns < end_ns - TOLERANCE_NS)
            find(r, RULE_SPAN, AUDIT_REJECT, "record %d %s %lld ns before the one before it ends", at,
                 dependent ? "ends" : "starts", (long long)(end_ns - (dependent ? k->end_ns : k->start_ns)));
        launch_ns += (double)(k->end_ns - (dependent && k->start_ns < end_ns ? end_ns : k->start_ns));
        end_ns = k->end_ns;
        if (n % steps == steps - 1) {
            if (taken < MOST_LAUNCHES)
                durations[taken++] = launch_ns;
            launch_ns = 0;
        }
    }
    r->graph_kernels_ns = stats_median(durations, taken);
    if (at < t->count && !is_ours(&t->list[at]))
        find(r, RULE_RECORDS, AUDIT_REJECT, "%d records more than the plan has", t->count - at);
    double envelope = (double)(t->list[at - 1].end_ns - t->list[first].start_ns), event = (double)c->seen->sample.event_ns;
    r->graph_launch_ns = envelope / c->launches;
    if (envelope > event + TOLERANCE_NS)
        find(r, RULE_OUTSIDE, AUDIT_REJECT, "the records span %.0f ns, the events around them %.0f", envelope, event);
    double apart = fabs(envelope - c->untraced_ns * c->launches);
    if (c->untraced_ns > 0 && apart > TOLERANCE_NS && apart > 0.03 * envelope)
        find(r, RULE_ENVELOPE, AUDIT_FLAG, "%.0f ns a launch by the records, %.0f by the events", r->graph_launch_ns, c->untraced_ns);
}

static void check_cold(const struct audit_case *c, struct audit_report *r)
{
    const struct device_trace *t = &c->seen->cold;
    double spans[MOST_LAUNCHES], empties[MOST_LAUNCHES];
    int at = 0, empty = 0, taken = 0;
    for (int n = 0; n < c->cold_launches; n++) {
        bool swept = false;
        for (; at < t->count && is_ours(&t->list[at]) && !swept; at++) {
            swept = t->list[at].kind == DEVICE_RECORD_KERNEL && strcmp(t->list[at].name, AUDIT_READ) == 0;
            if (t->list[at].kind == DEVICE_RECORD_KERNEL && strcmp(t->list[at].name, AUDIT_EMPTY) == 0 && empty < MOST_LAUNCHES)
                empties[empty++] = (double)(t->list[at].end_ns - t->list[at].start_ns);
        }
        if (!swept || at + c->plan->step_count > t->count) {
            find(r, RULE_RECORDS, AUDIT_REJECT, "cold launch %d of %d is not in the records", n, c->cold_launches);
            return;
        }
        int64_t end_ns = t->list[at - 1].end_ns;
        double sum_ns = 0;
        for (int s = 0; s < c->plan->step_count; s++, at++) {
            const struct device_record *k = &t->list[at];
            expect_step(c, s, k, at, r);
            const bool dependent = c->plan->steps[s].dependent;
            if (dependent ? k->end_ns < end_ns - TOLERANCE_NS : k->start_ns < end_ns - TOLERANCE_NS)
                find(r, RULE_SPAN, AUDIT_REJECT, "cold record %d %s %lld ns before the one before it ends", at, dependent ? "ends" : "starts",
                     (long long)(end_ns - (dependent ? k->end_ns : k->start_ns)));
            sum_ns += (double)(k->end_ns - (dependent && k->start_ns < end_ns ? end_ns : k->start_ns));
            end_ns = k->end_ns;
        }
        if (taken < MOST_LAUNCHES)
            spans[taken++] = sum_ns;
    }
    for (; at < t->count; at++)
        if (!is_ours(&t->list[at]))
            find(r, RULE_RECORDS, AUDIT_REJECT, "cold record %d, %.60s, is more than the plan has", at, t->list[at].name);
    struct stats_side side = {0};
    if (taken)
        stats_side_of(spans, taken, &side);
    r->cold_launch_ns = side.median, r->cold_q1_ns = side.q1, r->cold_q3_ns = side.q3;
    r->empty_ns = empty ? stats_median(empties, empty) : 0;
}

static void check_durations(const struct device_trace *t, struct audit_report *r)
{
    for (int i = 0; i < t->count; i++)
        if (t->list[i].kind == DEVICE_RECORD_KERNEL && !is_ours(&t->list[i]) &&
            (double)(t->list[i].end_ns - t->list[i].start_ns) < 0.8 * r->empty_ns)
            find(r, RULE_LOST, AUDIT_REJECT, "record %d takes %lld ns, an empty kernel %.0f", i,
                 (long long)(t->list[i].end_ns - t->list[i].start_ns), r->empty_ns);
}

void audit_check(const struct audit_case *c, struct audit_report *ret)
{
    *ret = (struct audit_report){.records = c->seen->graph.count + c->seen->cold.count};
    for (int i = 0; i < AUDIT_RULES; i++)
        ret->rules[i].rule = rules[i].number;
    BUG_ON(c->launches < 1 || c->cold_launches < 0 || c->plan->step_count < 1);
    sound(&c->seen->graph, "graph's", ret);
    sound(&c->seen->cold, "cold", ret);
    check_graph(c, ret);
    check_cold(c, ret);
    check_durations(&c->seen->graph, ret);
    check_durations(&c->seen->cold, ret);
    if (ret->cold_launch_ns > 0 && ret->graph_kernels_ns > 0 && ret->cold_launch_ns < 0.9 * ret->graph_kernels_ns)
        find(ret, RULE_COLD, AUDIT_FLAG, "%.0f ns cold, %.0f ns in the graph", ret->cold_launch_ns, ret->graph_kernels_ns);
}

json_t *audit_encode(const struct audit_report *r)
{
    static const char *const outcomes[] = {"ok", "flag", "reject"};
    json_t *doc = json_object(), *list = json_array();
    for (int i = 0; i < AUDIT_RULES; i++) {
        json_t *one = json_object();
        json_put_int(one, "rule", r->rules[i].rule);
        json_put_str(one, "what", rules[i].text);
        json_put_str(one, "outcome", outcomes[r->rules[i].outcome]);
        if (r->rules[i].text[0])
            json_put_str(one, "found", r->rules[i].text);
        json_array_append_new(list, one);
    }
    json_put(doc, "rules", list);
    json_put_int(doc, "records", r->records);
    json_put_num(doc, "graph_launch_ns", r->graph_launch_ns);
    json_put_num(doc, "graph_kernels_ns", r->graph_kernels_ns);
    json_put(doc, "cold_isolated_ns", json_pack("{s:f,s:f,s:f}", "q1", r->cold_q1_ns, "median", r->cold_launch_ns, "q3", r->cold_q3_ns));
    json_put_num(doc, "empty_kernel_ns", r->empty_ns);
    return doc;
}
