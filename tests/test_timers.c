/* Rules about timers that need no trace, the table of all twelve, and what a time may be: each line crossed from both sides. */
#include "gpu/judge/plausible_rules.h"
#include "gpu/judge/timer_rules.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

/* ---- the table ---- */

static void test_table(void)
{
    struct rules a = {0}, b = {0};
    cleanup(json) json_t *nothing = rules_encode(&a);
    check_int((int)json_array_size(nothing), 12);
    for (size_t i = 0; i < 12; i++) {
        const json_t *one = json_array_get(nothing, i);
        check(json_int(one, "rule", 0) == (int64_t)i + 1 && json_str(one, "what", NULL) && strcmp(json_str(one, "outcome", ""), "not_done") == 0);
    }
    rules_done(&a, RULE_LOST);
    rules_find(&a, RULE_LOST, RULE_REJECT, "first");
    rules_find(&a, RULE_LOST, RULE_REJECT, "second");
    rules_done(&a, RULE_LOST);
    check_str(a.list[RULE_LOST].text, "first");
    rules_find(&b, RULE_COLD, RULE_FLAG, "cold");
    rules_figure(&b, RULE_COLD, "ns", 5);
    rules_figure(&b, RULE_COLD, "ns", 6);
    rules_skip_rest(&b, "for a reason");
    rules_merge(&b, &a);
    enum rule which = RULE_RECORDS;
    check(rules_rejection(&b, &which) && which == RULE_LOST && rule_number(which) == 4);
    check(b.list[RULE_COLD].outcome == RULE_FLAG && b.list[RULE_COLD].figure_count == 1 && b.list[RULE_COLD].figures[0].value == 6);
    check_str(b.list[RULE_CYCLES].text, "for a reason");
    /* Flags alone reject nothing. */
    struct rules flags = {0};
    static const enum rule all[] = {RULE_ENVELOPE, RULE_OUTSIDE, RULE_WALL, RULE_TRACED, RULE_GAINS, RULE_COLD, RULE_DRIFT, RULE_CYCLES};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        rules_find(&flags, all[i], RULE_FLAG, "flag");
    check(!rules_rejection(&flags, &which) && rules_worst(&flags) == RULE_FLAG);
    cleanup(json) json_t *doc = rules_encode(&b);
    check_str(json_str(json_array_get(doc, 3), "outcome", ""), "reject");
    check_str(json_str(json_array_get(doc, 3), "found", ""), "first");
    check_str(json_str(json_array_get(doc, 11), "why", ""), "for a reason");
}

/* ---- 7, 11, 12 ---- */

enum { COUNT = 48, LAUNCHES = 100 };
static struct stats_pair pairs[COUNT];
static struct stats_result result;
static struct rules rules;
static double wall_gain;
static bool alone;
static double host_ns;

/* 10 us and 5 us a launch; the host takes 9 us beside a graph. */
static void make_samples(void)
{
    for (int i = 0; i < COUNT; i++) {
        pairs[i] = (struct stats_pair){10000 + i % 5, 5000 + i % 3, 1980, 1980, i / 4, false, 9000 + i % 7, 9000 + i % 5};
    }
    alone = false, host_ns = 0;
}

static enum rule_outcome looked(enum rule rule)
{
    rules = (struct rules){0};
    stats_compare(pairs, COUNT, 1, &result);
    const struct timer_case c = {pairs, COUNT, LAUNCHES, &result, alone, host_ns};
    timer_rules(&c, &rules, &wall_gain);
    return rules.list[rule].outcome;
}

static void add(double to_base, double to_mine)
{
    for (int i = 0; i < COUNT; i++)
        pairs[i].base_beyond_ns += to_base, pairs[i].candidate_beyond_ns += to_mine;
}

static void test_wall(void)
{
    make_samples();
    check_int(looked(RULE_WALL), RULE_OK);
    check(wall_gain > 1.95 && wall_gain < 2);
    check(rules.list[RULE_WALL].figure_count == 3);
    add(0, 19000);                /* of 500 us: 3.8 % */
    check_int(looked(RULE_WALL), RULE_OK);
    add(0, 10000);
    check_int(looked(RULE_WALL), RULE_FLAG);
    add(0, 100000);
    check_int(looked(RULE_WALL), RULE_REJECT);
    check(strstr(rules.list[RULE_WALL].text, "wall clock"));
    add(110000, 0);               /* a slow host is slow to both */
    check_int(looked(RULE_WALL), RULE_OK);
    alone = true;                           /* by itself it is measured by what a graph costs */
    check_int(looked(RULE_WALL), RULE_NOT_DONE);
    host_ns = 9000;
    check_int(looked(RULE_WALL), RULE_REJECT);
    host_ns = 130000;
    check_int(looked(RULE_WALL), RULE_OK);
}

static void test_drift(void)
{
    make_samples();
    check_int(looked(RULE_DRIFT), RULE_OK);
    for (int i = COUNT * 2 / 3; i < COUNT; i++)
        pairs[i].base_ns *= 1.2, pairs[i].candidate_ns *= 1.2;
    check_int(looked(RULE_DRIFT), RULE_OK);         /* both */
    for (int i = COUNT * 2 / 3; i < COUNT; i++)
        pairs[i].candidate_ns *= 0.96;
    check_int(looked(RULE_DRIFT), RULE_FLAG);
    make_samples();
    for (int i = COUNT / 3; i < COUNT * 2 / 3; i++)
        pairs[i].candidate_ns *= 1.04;
    check_int(looked(RULE_DRIFT), RULE_FLAG);
}

static void test_cycles(void)
{
    make_samples();
    check_int(looked(RULE_CYCLES), RULE_OK);
    for (int i = 0; i < COUNT; i++)
        pairs[i].candidate_mhz = 2010;
    check_int(looked(RULE_CYCLES), RULE_FLAG);
    for (int i = 0; i < COUNT; i++)
        pairs[i].candidate_mhz = pairs[i].base_mhz = 0;
    check_int(looked(RULE_CYCLES), RULE_NOT_DONE);
}

/* ---- 8, 9 ---- */

static void test_traced(void)
{
    struct traced_side mine = {3000, 3060, 2700, 3000}, base = {3500, 3540, 3100, 3420};
    rules = (struct rules){0};
    traced_rule(&mine, &base, &rules);
    cold_rule(&mine, &base, &rules);
    check_int(rules.list[RULE_TRACED].outcome, RULE_OK);
    check_int(rules.list[RULE_COLD].outcome, RULE_OK);
    mine.traced_ns = 3300;                  /* knows that it is watched */
    mine.cold_ns = 2300;                    /* 0.77, where 0.91 is usual */
    traced_rule(&mine, &base, &rules);
    cold_rule(&mine, &base, &rules);
    check_int(rules.list[RULE_TRACED].outcome, RULE_FLAG);
    check_int(rules.list[RULE_COLD].outcome, RULE_FLAG);
    rules = (struct rules){0};
    mine.cold_ns = 2450;
    cold_rule(&mine, NULL, &rules);
    check_int(rules.list[RULE_COLD].outcome, RULE_OK);
    mine.cold_ns = 2350;
    cold_rule(&mine, NULL, &rules);
    check_int(rules.list[RULE_COLD].outcome, RULE_FLAG);
    /* A baseline that is slower cold is no licence. */
    rules = (struct rules){0};
    base.cold_ns = 5000;
    mine.cold_ns = 2750;
    cold_rule(&mine, &base, &rules);
    check_int(rules.list[RULE_COLD].outcome, RULE_OK);
}

static enum rule_outcome gains(double events, double records, double wall)
{
    rules = (struct rules){0};
    gains_rule(events, records, wall, &rules);
    return rules.list[RULE_GAINS].outcome;
}

static void test_gains(void)
{
    check_int(gains(1.20, 1.21, 1.18), RULE_OK);
    check_int(gains(1.20, 1.25, 1.20), RULE_FLAG);
    check_int(gains(1.20, 1.20, 1.15), RULE_FLAG);
    check_int(gains(1.01, 0.99, 1.01), RULE_FLAG);          /* in sign */
    check_int(gains(1.001, 0.999, 1.0), RULE_OK);           /* none of them has one */
    check_int(gains(1.2, 0, 1.2), RULE_NOT_DONE);
    check(gains_contradict(1.5, 0.9) && gains_contradict(1.2, 1.05));
    check(!gains_contradict(1.2, 1.17) && !gains_contradict(1.2, 0) && !gains_contradict(0.9, 0.5) && !gains_contradict(1.2, 1.6));
}

/* ---- what a time may be ---- */

/* 100 MB a launch, a third of them written, at 4.8 TB/s by the data sheet and 4.4 measured, in graphs of 80. */
static struct plausible_case usual(double ns)
{
    return (struct plausible_case){.bytes = 100000000, .flops = 1000000, .written_bytes = 33000000, .l2_bytes = 60000000, .launches = 80,
                                   .table_bytes_per_ns = 4800, .table_flops_per_ns = 989000, .empty_ns = 500, .copy_bytes_per_ns = 4200,
                                   .read_bytes_per_ns = 4400, .candidate_ns = ns, .baseline_ns = 30000, .gain = 30000 / ns};
}

static struct plausible_result of(struct plausible_case c)
{
    struct plausible_result r;
    plausible_lines(&c, &r);
    cleanup(json) json_t *doc = plausible_encode(&c, &r);
    check(json_num(doc, "floor_ns", 0) == r.floor_ns && json_is_array(json_object_get(doc, "notes")));
    return r;
}

static void test_plausible(void)
{
    double at_ceiling = 100e6 / 4400, at_sheet = 100e6 / 4800;
    struct plausible_result r = of(usual(at_ceiling / 0.97));
    check_int(r.outcome, PLAUSIBLE);        /* 97 % of what was measured is what we are here for */
    check(r.near_ceiling && r.limit[0] == 'm' && fabs(r.memory_ns - at_sheet) < 1e-6);
    check_int(of(usual(at_ceiling)).outcome, PLAUSIBLE);    /* what stays in L2 at a graph's end is allowed for: 0.75 % here */
    check_int(of(usual(at_ceiling * 0.98)).outcome, PLAUSIBLE_HELD_CEILING);
    check_int(of(usual(at_sheet * 1.001)).outcome, PLAUSIBLE_HELD_CEILING);
    check_int(of(usual(at_sheet * 0.999)).outcome, PLAUSIBLE_IMPOSSIBLE);
    check_int(of(usual(100)).outcome, PLAUSIBLE_IMPOSSIBLE);
    /* Short graphs leave more of themselves in L2. */
    struct plausible_case c = usual(at_ceiling * 0.98);
    c.launches = 10;
    check_int(of(c).outcome, PLAUSIBLE);
    /* Over a hundred times the baseline, and over ten. */
    c = usual(25000);
    c.baseline_ns = 2600000, c.gain = 104;
    check_int(of(c).outcome, PLAUSIBLE_HELD_GAIN);
    c.baseline_ns = 300000, c.gain = 12;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.gain_noted);
    /* A baseline below the floor: the operator's figures are wrong. Below the measured line alone: the line is. */
    c = usual(25000);
    c.baseline_ns = 20000;
    check_int(of(c).outcome, PLAUSIBLE_BASELINE_BELOW);
    c = usual(22000);
    c.baseline_ns = 22200;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.ceiling_void);
    /* A baseline that somebody brought voids no line: judged alone it is held above the floor and refused below, beside it nobody gains. */
    c.foreign = true;
    check_int(of(c).outcome, PLAUSIBLE_HELD_CEILING);
    c.alone = true, c.candidate_ns = c.baseline_ns;
    r = of(c);
    check(r.outcome == PLAUSIBLE_HELD_CEILING && !r.ceiling_void);
    c.candidate_ns = c.baseline_ns = 20000;
    check_int(of(c).outcome, PLAUSIBLE_IMPOSSIBLE);
    c.foreign = false;
    check_int(of(c).outcome, PLAUSIBLE_BASELINE_BELOW);
    /* A card that is measured above its row of the table: the row is another card's, and impossible by it is nothing. */
    c = usual(25000);
    c.table_bytes_per_ns = 3350;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.table_exceeded && fabs(r.memory_ns - 100e6 / 5500) < 1e-6);
    c.candidate_ns = 20000;
    check_int(of(c).outcome, PLAUSIBLE_HELD_CEILING);
    c.candidate_ns = 18000;
    check_int(of(c).outcome, PLAUSIBLE_IMPOSSIBLE);
    c = usual(60000);
    c.baseline_ns = 70000, c.copy_bytes_per_ns = 1900, c.read_bytes_per_ns = 2000;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.table_far);
    /* Small work: an empty kernel is the floor, with its own error allowed for. */
    c = usual(480);
    c.bytes = c.written_bytes = 1000, c.baseline_ns = 900, c.gain = 2;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.limit[0] == 'l');
    c.candidate_ns = 440;
    check_int(of(c).outcome, PLAUSIBLE_IMPOSSIBLE);
    /* Arithmetic. */
    c = usual(30000);
    c.flops = (int64_t)989000 * 40000, c.baseline_ns = 50000;
    r = of(c);
    check(r.outcome == PLAUSIBLE_IMPOSSIBLE && r.limit[0] == 'c');
    /* An estimate knows no measured line. */
    c = usual(at_ceiling * 0.98);
    c.launches = 0, c.copy_bytes_per_ns = c.read_bytes_per_ns = 0;
    r = of(c);
    check(r.outcome == PLAUSIBLE && r.ceiling_ns == 0);
}

int main(void)
{
    test_table();
    test_wall();
    test_drift();
    test_cycles();
    test_traced();
    test_gains();
    test_plausible();
    return test_done();
}
