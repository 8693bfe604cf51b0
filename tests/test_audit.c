/* The audit's rules, with traces made up here: a sound one passes, and each way of breaking it is found by its rule. */
#include "gpu/judge/audit_rules.h"
#include "tests/test.h"

#include <string.h>

#define LAUNCHES 10
#define COLD 5
#define MOST 256

static struct plan plan;
static const int64_t workspace_bytes[] = {4096};
static struct audit_kernel kernels[] = {{0}, {40, 512, 0}, {24, 0, 16}};
static struct device_record graph[MOST], cold[MOST];
static struct device_audit_result seen;
static int64_t now_ns;
static double untraced_ns, offset_ns;

static void make_plan(void)
{
    plan = (struct plan){.workspace_count = 1, .step_count = 3};
    plan.steps[0] = (struct plan_step){.is_memset = true, .memset_value = 7};
    plan.steps[1] = (struct plan_step){.kernel = "first", .grid = {8, 2, 1}, .block = {128, 1, 1}, .cluster = {2, 1, 1}, .shared_bytes = 2048};
    plan.steps[2] = (struct plan_step){.kernel = "second", .grid = {1, 1, 1}, .block = {64, 1, 1}};
}

static struct device_record *add(struct device_trace *t, enum device_record_kind kind, const char *name, int64_t took_ns, uint32_t from)
{
    struct device_record *r = &t->list[t->count++];
    *r = (struct device_record){.kind = kind, .start_ns = now_ns, .end_ns = now_ns + took_ns, .completed_ns = now_ns + took_ns,
                                .grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = 13, .context = 1, .graph = from};
    snprintf(r->name, sizeof r->name, "%s", name);
    now_ns += took_ns + 400;
    return r;
}

static void add_plan(struct device_trace *t, uint32_t from)
{
    struct device_record *r = add(t, DEVICE_RECORD_MEMSET, "", 900, from);
    r->bytes = workspace_bytes[0], r->value = 7;
    for (int s = 1; s < 3; s++) {
        r = add(t, DEVICE_RECORD_KERNEL, plan.steps[s].kernel, 2000, from);
        memcpy(r->grid, plan.steps[s].grid, sizeof r->grid);
        memcpy(r->block, plan.steps[s].block, sizeof r->block);
        memcpy(r->cluster, plan.steps[s].cluster, sizeof r->cluster);
        r->registers = kernels[s].registers;
        r->static_shared_bytes = (int32_t)kernels[s].static_shared_bytes;
        r->dynamic_shared_bytes = (int32_t)plan.steps[s].shared_bytes;
        r->local_bytes_thread = (uint32_t)kernels[s].local_bytes;
    }
}

static void make_traces(void)
{
    make_plan();
    now_ns = 1000000;
    untraced_ns = 6060, offset_ns = 0;
    seen = (struct device_audit_result){.graph.list = graph, .cold.list = cold};
    add(&seen.graph, DEVICE_RECORD_MEMCPY, "", 700, 0);
    add(&seen.graph, DEVICE_RECORD_KERNEL, "proteus_restore", 9000, 0);
    add(&seen.graph, DEVICE_RECORD_KERNEL, AUDIT_READ, 30000, 0);
    int64_t from = now_ns;
    for (int n = 0; n < LAUNCHES; n++)
        add_plan(&seen.graph, 3);
    seen.sample = (struct device_sample){.event_ns = now_ns - from + 2500, .wall_ns = now_ns - from + 9000, .launches = LAUNCHES};
    for (int n = 0; n < 3; n++)
        add(&seen.cold, DEVICE_RECORD_KERNEL, AUDIT_EMPTY, 600, 0);
    for (int n = 0; n < COLD; n++) {
        add(&seen.cold, DEVICE_RECORD_KERNEL, AUDIT_READ, 30000, 0);
        add_plan(&seen.cold, 0);
    }
}

static struct audit_report checked(void)
{
    struct audit_report r;
    const struct audit_case c = {.plan = &plan, .workspace_bytes = workspace_bytes, .kernels = kernels, .launches = LAUNCHES,
                                 .cold_launches = COLD, .seen = &seen, .untraced_ns = untraced_ns, .offset_ns = offset_ns};
    audit_check(&c, &r);
    return r;
}

/* The rule of that number has this outcome, and none is worse. */
static void expect(const char *what, int number, enum rule_outcome outcome)
{
    const struct audit_report r = checked();
    enum rule_outcome got = r.rules.list[number - 1].outcome;
    if (got != outcome || rules_worst(&r.rules) != outcome)
        fprintf(stderr, "%s: rule %d gives %s, worst %s\n", what, number, rule_outcome_name(got), rule_outcome_name(rules_worst(&r.rules)));
    check(got == outcome);
    check(rules_worst(&r.rules) == outcome);
}

static struct device_record *in_graph(int launch, int step) { return &graph[3 + launch * 3 + step]; }
static struct device_record *in_cold(int launch, int step) { return &cold[3 + launch * 4 + 1 + step]; }

/* Both kernels take thirty times as long, in both traces. */
static void longer(void)
{
    for (int which = 0; which < 2; which++) {
        struct device_trace *t = which ? &seen.cold : &seen.graph;
        int64_t later = 0;
        for (int i = 0; i < t->count; i++) {
            struct device_record *r = &t->list[i];
            const bool theirs = r->kind == DEVICE_RECORD_KERNEL && (!strcmp(r->name, "first") || !strcmp(r->name, "second"));
            r->start_ns += later;
            later += theirs ? 58000 : 0;
            r->end_ns += later, r->completed_ns += later;
        }
        if (!which)
            seen.sample.event_ns += later, seen.sample.wall_ns += later;
    }
    untraced_ns += 2 * 58000;
}

static void often_off(void)
{
    for (int n = 0; n < LAUNCHES; n++)
        in_graph(n, 2)->start_ns -= 1800;
}

static void test_sound(void)
{
    make_traces();
    struct audit_report r = checked();
    static const enum rule looked_at[] = {RULE_RECORDS, RULE_FOREIGN, RULE_ORDER, RULE_LOST, RULE_ENVELOPE, RULE_OUTSIDE};
    for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++)
        check_int(r.rules.list[looked_at[i]].outcome, RULE_OK);
    check(rules_worst(&r.rules) == RULE_OK);
    check_int(r.rules.list[RULE_WALL].outcome, RULE_NOT_DONE);
    enum rule none = RULE_RECORDS;
    check(!rules_rejection(&r.rules, &none));
    check(r.empty_ns == 600);
    check(r.cold.median == 900 + 2000 + 2000);
    check(r.graph_kernels_ns == 900 + 2000 + 2000);
    check(r.graph.count > 0 && r.graph.median.median == r.graph_kernels_ns && r.graph.median.low <= r.graph_kernels_ns && r.graph.q3 >= r.graph_kernels_ns);
    check(r.graph_launch_ns > 6050 && r.graph_launch_ns < 6100);
    cleanup(json) json_t *doc = audit_encode(&r);
    check(json_num(json_object_get(doc, "cold_isolated_ns"), "median_ns", 0) == 4900);
    /* Static shared memory may be counted with what the driver keeps. */
    for (int n = 0; n < LAUNCHES; n++)
        in_graph(n, 1)->static_shared_bytes += 1024;
    expect("with the reserved kilobyte", 1, RULE_OK);
    const int usual = kernels[2].registers;
    kernels[2].registers = 13;
    make_traces();
    for (int i = 0; i < seen.graph.count; i++)
        graph[i].registers = graph[i].registers == 13 ? 16 : graph[i].registers;
    for (int i = 0; i < seen.cold.count; i++)
        cold[i].registers = cold[i].registers == 13 ? 16 : cold[i].registers;
    expect("with the registers that a thread has at least", 1, RULE_OK);
    kernels[2].registers = usual;
}

#define BREAK(what, rule, outcome, ...) \
    do {                                \
        make_traces();                  \
        __VA_ARGS__;                    \
        expect(what, rule, outcome);    \
    } while (0)

static void drop(struct device_trace *t, int at)
{
    memmove(t->list + at, t->list + at + 1, (size_t)(t->count - at - 1) * sizeof *t->list);
    t->count--;
}

static void insert(struct device_trace *t, int at, struct device_record r)
{
    memmove(t->list + at + 1, t->list + at, (size_t)(t->count - at) * sizeof *t->list);
    t->list[at] = r;
    t->count++;
}

/* The launch of ours behind the timed ones. */
static struct device_record empty_probe(void)
{
    struct device_record r = {.kind = DEVICE_RECORD_KERNEL, .start_ns = graph[seen.graph.count - 1].end_ns + 500, .stream = 13, .context = 1};
    r.end_ns = r.completed_ns = r.start_ns + 600;
    snprintf(r.name, sizeof r.name, "%s", AUDIT_EMPTY);
    return r;
}

static void test_broken(void)
{
    make_traces();
    insert(&seen.graph, seen.graph.count, empty_probe());
    expect("with the launch behind", 3, RULE_OK);
    BREAK("another kernel", 1, RULE_REJECT, strcpy(in_graph(4, 1)->name, "other"));
    BREAK("our name in the candidate's place", 1, RULE_REJECT, strcpy(in_graph(4, 1)->name, AUDIT_READ));
    BREAK("another grid", 1, RULE_REJECT, in_graph(9, 2)->grid[0] = 2);
    BREAK("another block", 1, RULE_REJECT, in_graph(0, 1)->block[1] = 2);
    BREAK("another cluster", 1, RULE_REJECT, in_graph(0, 1)->cluster[0] = 4);
    BREAK("more dynamic shared memory", 1, RULE_REJECT, in_graph(5, 1)->dynamic_shared_bytes += 16);
    BREAK("other static shared memory", 1, RULE_REJECT, in_graph(5, 1)->static_shared_bytes += 16);
    BREAK("other registers", 1, RULE_REJECT, in_graph(5, 2)->registers = 32);
    BREAK("the card's least registers where the code has more", 1, RULE_REJECT, in_graph(5, 2)->registers = 16);
    BREAK("another memset", 1, RULE_REJECT, in_graph(5, 0)->value = 0);
    BREAK("a shorter memset", 1, RULE_REJECT, in_graph(5, 0)->bytes = 64);
    BREAK("a record too few", 1, RULE_REJECT, drop(&seen.graph, seen.graph.count - 1));
    BREAK("a record too many", 1, RULE_REJECT, insert(&seen.graph, seen.graph.count, graph[seen.graph.count - 1]), in_graph(10, 0)->start_ns += 2400,
          in_graph(10, 0)->end_ns += 2400, seen.sample.event_ns += 2400);
    BREAK("steps in another order", 1, RULE_REJECT, strcpy(in_graph(2, 1)->name, "second"));
    BREAK("a cold launch missing", 1, RULE_REJECT, seen.cold.count -= 4);
    BREAK("another kernel, cold", 1, RULE_REJECT, strcpy(in_cold(2, 1)->name, "other"));
    BREAK("one more kernel behind the cold ones", 1, RULE_REJECT, insert(&seen.cold, seen.cold.count, cold[seen.cold.count - 1]));
    BREAK("launched by the device", 2, RULE_REJECT, in_graph(3, 2)->device_launched = true);
    BREAK("an access-policy window", 2, RULE_REJECT, in_cold(3, 2)->access_policy = true);
    BREAK("children that end later", 2, RULE_REJECT, in_graph(3, 2)->completed_ns += 5000);
    BREAK("another stream", 2, RULE_REJECT, in_graph(7, 0)->stream = 14);
    BREAK("another context", 2, RULE_REJECT, in_graph(7, 0)->context = 2);
    BREAK("something compiled", 2, RULE_REJECT, insert(&seen.cold, 0, (struct device_record){.kind = DEVICE_RECORD_JIT, .stream = 13, .context = 1}));
    BREAK("not from the graph", 2, RULE_REJECT, in_graph(6, 1)->graph = 0);
    BREAK("overlapping launches", 3, RULE_REJECT, in_graph(6, 2)->start_ns -= 1800);
    /* of long launches a stamp may be off by a part of them, but not often */
    BREAK("a stamp of a long launch a little off", 3, RULE_OK, longer(), in_graph(6, 2)->start_ns -= 1800);
    BREAK("a stamp of a long launch far off", 3, RULE_REJECT, longer(), in_graph(6, 2)->start_ns -= 4000);
    BREAK("stamps of long launches often off", 3, RULE_REJECT, longer(), often_off());
    /* a dependent launch may begin early, and not end early */
    BREAK("overlap where the plan allows it", 3, RULE_OK, plan.steps[2].dependent = true, in_graph(6, 2)->start_ns -= 1800,
          in_cold(3, 2)->start_ns -= 1800);
    BREAK("a dependent launch that ends first", 3, RULE_REJECT, plan.steps[2].dependent = true, in_graph(6, 2)->start_ns -= 1800,
          in_graph(6, 1)->completed_ns = in_graph(6, 1)->end_ns += 4000, in_graph(7, 0)->start_ns += 4000, in_graph(7, 0)->end_ns += 4000);
    BREAK("dependent launches that each end a little early", 3, RULE_REJECT, plan.steps[1].dependent = plan.steps[2].dependent = true,
          in_graph(6, 1)->start_ns = in_graph(6, 0)->start_ns, in_graph(6, 2)->start_ns = in_graph(6, 0)->start_ns,
          in_graph(6, 1)->completed_ns = in_graph(6, 1)->end_ns = in_graph(6, 0)->end_ns - 150,
          in_graph(6, 2)->completed_ns = in_graph(6, 2)->end_ns = in_graph(6, 0)->end_ns - 300);
    BREAK("started before the sweep's end", 3, RULE_REJECT, in_graph(0, 0)->start_ns -= 20000, seen.sample.event_ns += 20000);
    BREAK("still running when the next launch begins", 3, RULE_REJECT, insert(&seen.graph, seen.graph.count, empty_probe()),
          graph[seen.graph.count - 1].start_ns -= 3000);
    BREAK("lost records", 4, RULE_REJECT, seen.graph.dropped = 1);
    BREAK("no duration", 4, RULE_REJECT, in_cold(1, 1)->end_ns = in_cold(1, 1)->start_ns);
    BREAK("a memset of no duration", 4, RULE_REJECT, in_graph(1, 0)->end_ns = in_graph(1, 0)->start_ns);
    BREAK("shorter than nothing", 4, RULE_REJECT, in_graph(1, 2)->end_ns = in_graph(1, 2)->start_ns + 300);
    BREAK("work outside the events", 6, RULE_REJECT, seen.sample.event_ns -= 9000);
    BREAK("events wider than the records", 5, RULE_FLAG, untraced_ns *= 1.08);
    BREAK("events far wider than the records", 6, RULE_FLAG, untraced_ns *= 1.2);
    BREAK("of which a part is calibrated away", 5, RULE_OK, untraced_ns += 2000, offset_ns = 2000);
    BREAK("events of a cold launch narrower than its records", 6, RULE_REJECT, seen.cold_count = 1, seen.cold_event_ns[0] = 3000);
    BREAK("events of a cold launch wider", 6, RULE_OK, seen.cold_count = 1, seen.cold_event_ns[0] = 9000);
    BREAK("records far wider than the events", 5, RULE_FLAG, untraced_ns *= 0.9);
}

static void test_empty(void)
{
    make_traces();
    seen.graph.count = 0;
    expect("no records at all", 1, RULE_REJECT);
    make_traces();
    seen.graph.count = 3;
    expect("ours alone", 1, RULE_REJECT);
}

/* Along a graph: what the baseline does too is nothing; what the candidate alone does is told. */
static void test_thirds(void)
{
    struct audit_report mine = {.third_ns = {3000, 3200, 3250}}, base = {.third_ns = {4000, 4260, 4330}}, none = {.records = 1};
    struct rules r = {0};
    audit_compare_thirds(&mine, &none, &r);
    check_int(r.list[RULE_DRIFT].outcome, RULE_NOT_DONE);
    audit_compare_thirds(&mine, &base, &r);
    check_int(r.list[RULE_DRIFT].outcome, RULE_OK);
    mine.third_ns[2] = 2900;
    audit_compare_thirds(&mine, &base, &r);
    check_int(r.list[RULE_DRIFT].outcome, RULE_FLAG);
    /* From records: ten launches make no thirds, thirty do. */
    make_traces();
    check(checked().third_ns[0] == 0);
}

int main(void)
{
    test_sound();
    test_thirds();
    test_broken();
    test_empty();
    return test_done();
}
