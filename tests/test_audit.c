/* The audit's rules, with traces made up here: a sound one passes, and each way of breaking it is found by its rule. */
#include "gpu/judge/audit_rules.h"
#include "tests/test.h"

#include <string.h>

#define LAUNCHES 10
#define COLD 5
#define MOST 256

static struct plan plan;
static const int64_t workspace_bytes[] = {4096};
static const struct audit_kernel kernels[] = {{0}, {40, 512, 0}, {24, 0, 16}};
static struct device_record graph[MOST], cold[MOST];
static struct device_audit_result seen;
static int64_t now_ns;
static double untraced_ns;

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
    untraced_ns = 6060;
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
                                 .cold_launches = COLD, .seen = &seen, .untraced_ns = untraced_ns};
    audit_check(&c, &r);
    return r;
}

/* The rule of that number has this outcome, and none is worse. */
static void expect(const char *what, int number, enum audit_outcome outcome)
{
    const struct audit_report r = checked();
    enum audit_outcome got = AUDIT_OK;
    for (int i = 0; i < AUDIT_RULES; i++)
        if (r.rules[i].rule == number)
            got = r.rules[i].outcome;
    if (got != outcome || r.worst != outcome)
        fprintf(stderr, "%s: rule %d gives %d, worst %d\n", what, number, got, r.worst);
    check(got == outcome);
    check(r.worst == outcome);
}

static struct device_record *in_graph(int launch, int step) { return &graph[3 + launch * 3 + step]; }
static struct device_record *in_cold(int launch, int step) { return &cold[3 + launch * 4 + 1 + step]; }

static void test_sound(void)
{
    make_traces();
    struct audit_report r = checked();
    for (int i = 0; i < AUDIT_RULES; i++)
        if (r.rules[i].outcome != AUDIT_OK)
            fprintf(stderr, "rule %d: %s\n", r.rules[i].rule, r.rules[i].text);
    check(r.worst == AUDIT_OK);
    check(r.empty_ns == 600);
    check(r.cold_launch_ns == 900 + 2000 + 2000);
    check(r.graph_kernels_ns == 900 + 2000 + 2000);
    check(r.graph_launch_ns > 6050 && r.graph_launch_ns < 6100);
    cleanup(json) json_t *doc = audit_encode(&r);
    check(json_array_size(json_object_get(doc, "rules")) == AUDIT_RULES);
    /* Static shared memory may be counted with what the driver keeps. */
    for (int n = 0; n < LAUNCHES; n++)
        in_graph(n, 1)->static_shared_bytes += 1024;
    expect("with the reserved kilobyte", 1, AUDIT_OK);
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

static void test_broken(void)
{
    BREAK("another kernel", 1, AUDIT_REJECT, strcpy(in_graph(4, 1)->name, "other"));
    BREAK("our name in the candidate's place", 1, AUDIT_REJECT, strcpy(in_graph(4, 1)->name, AUDIT_READ));
    BREAK("another grid", 1, AUDIT_REJECT, in_graph(9, 2)->grid[0] = 2);
    BREAK("another block", 1, AUDIT_REJECT, in_graph(0, 1)->block[1] = 2);
    BREAK("another cluster", 1, AUDIT_REJECT, in_graph(0, 1)->cluster[0] = 4);
    BREAK("more dynamic shared memory", 1, AUDIT_REJECT, in_graph(5, 1)->dynamic_shared_bytes += 16);
    BREAK("other static shared memory", 1, AUDIT_REJECT, in_graph(5, 1)->static_shared_bytes += 16);
    BREAK("other registers", 1, AUDIT_REJECT, in_graph(5, 2)->registers = 32);
    BREAK("another memset", 1, AUDIT_REJECT, in_graph(5, 0)->value = 0);
    BREAK("a shorter memset", 1, AUDIT_REJECT, in_graph(5, 0)->bytes = 64);
    BREAK("a record too few", 1, AUDIT_REJECT, drop(&seen.graph, seen.graph.count - 1));
    BREAK("a record too many", 1, AUDIT_REJECT, insert(&seen.graph, seen.graph.count, graph[seen.graph.count - 1]), in_graph(10, 0)->start_ns += 2400,
          in_graph(10, 0)->end_ns += 2400, seen.sample.event_ns += 2400);
    BREAK("steps in another order", 1, AUDIT_REJECT, strcpy(in_graph(2, 1)->name, "second"));
    BREAK("a cold launch missing", 1, AUDIT_REJECT, seen.cold.count -= 4);
    BREAK("another kernel, cold", 1, AUDIT_REJECT, strcpy(in_cold(2, 1)->name, "other"));
    BREAK("one more kernel behind the cold ones", 1, AUDIT_REJECT, insert(&seen.cold, seen.cold.count, cold[seen.cold.count - 1]));
    BREAK("launched by the device", 2, AUDIT_REJECT, in_graph(3, 2)->device_launched = true);
    BREAK("an access-policy window", 2, AUDIT_REJECT, in_cold(3, 2)->access_policy = true);
    BREAK("children that end later", 2, AUDIT_REJECT, in_graph(3, 2)->completed_ns += 5000);
    BREAK("another stream", 2, AUDIT_REJECT, in_graph(7, 0)->stream = 14);
    BREAK("another context", 2, AUDIT_REJECT, in_graph(7, 0)->context = 2);
    BREAK("something compiled", 2, AUDIT_REJECT, insert(&seen.cold, 0, (struct device_record){.kind = DEVICE_RECORD_JIT, .stream = 13, .context = 1}));
    BREAK("not from the graph", 2, AUDIT_REJECT, in_graph(6, 1)->graph = 0);
    BREAK("overlapping launches", 3, AUDIT_REJECT, in_graph(6, 2)->start_ns -= 1800);
    /* a dependent launch may begin early, and not end early */
    BREAK("overlap where the plan allows it", 0, AUDIT_OK, plan.steps[2].dependent = true, in_graph(6, 2)->start_ns -= 1800,
          in_cold(3, 2)->start_ns -= 1800);
    BREAK("a dependent launch that ends first", 3, AUDIT_REJECT, plan.steps[2].dependent = true, in_graph(6, 2)->start_ns -= 1800,
          in_graph(6, 1)->completed_ns = in_graph(6, 1)->end_ns += 4000, in_graph(7, 0)->start_ns += 4000, in_graph(7, 0)->end_ns += 4000);
    BREAK("started before the sweep's end", 3, AUDIT_REJECT, in_graph(0, 0)->start_ns -= 20000, seen.sample.event_ns += 20000);
    BREAK("lost records", 4, AUDIT_REJECT, seen.graph.dropped = 1);
    BREAK("no duration", 4, AUDIT_REJECT, in_cold(1, 1)->end_ns = in_cold(1, 1)->start_ns);
    BREAK("shorter than nothing", 4, AUDIT_REJECT, in_graph(1, 2)->end_ns = in_graph(1, 2)->start_ns + 300);
    BREAK("work outside the events", 6, AUDIT_REJECT, seen.sample.event_ns -= 9000);
    BREAK("events far wider than the records", 5, AUDIT_FLAG, untraced_ns *= 1.1);
    BREAK("records far wider than the events", 5, AUDIT_FLAG, untraced_ns *= 0.9);
    BREAK("cold faster than in the graph", 10, AUDIT_FLAG, for (int n = 0; n < COLD; n++) for (int s = 0; s < 3; s++) {
        in_cold(n, s)->start_ns = cold[3 + n * 4].end_ns + 100 + s * 900;
        in_cold(n, s)->completed_ns = in_cold(n, s)->end_ns = in_cold(n, s)->start_ns + 800;
    });
}

static void test_empty(void)
{
    make_traces();
    seen.graph.count = 0;
    expect("no records at all", 1, AUDIT_REJECT);
    make_traces();
    seen.graph.count = 3;
    expect("ours alone", 1, AUDIT_REJECT);
}

int main(void)
{
    test_sound();
    test_broken();
    test_empty();
    return test_done();
}
