/*
 * Plausible: nothing is faster than moving the operator's least bytes at the data sheet's bandwidth, its operations at the peak, or
 * an empty kernel (plausible_rules.h). Then, and only for what is possible, whether it is faster than the baseline.
 */
#include "gpu/judge/internal.h"
#include "gpu/judge/plausible_rules.h"
#include "gpu/judge/timer_rules.h"

#include <string.h>

static int64_t written_bytes(const struct judge *j)
{
    int64_t sum = 0;
    for (int t = 0; t < j->op->tensor_count; t++)
        sum += j->tensors[t].spec->role != OP_INPUT ? j->tensors[t].bytes : 0;
    return sum;
}

/* Whether the baseline, or what is judged without one, is the operator's own. */
static bool baseline_foreign(const struct judge *j)
{
    const struct judge_side *s = j->sides[BASELINE].present ? &j->sides[BASELINE] : &j->sides[CANDIDATE];
    cleanup(json) json_t *own = NULL;
    struct err none = {0};
    return !candidate_load(j->op->dir, "baseline", &own, &none) || strcmp(candidate_digest(own).text, candidate_digest(s->candidate.doc).text) != 0;
}

static bool make_case(struct judge *j, struct plausible_case *ret, struct err *err)
{
    const struct ptx_device_row *row = NULL;
    const struct judge_timing *t = &j->timing;
    if (j->on_card && j->sides[CANDIDATE].info)
        row = ptx_device_find(json_str(j->sides[CANDIDATE].info, "name", ""));
    if (!row)
        row = ptx_device_find(j->shape.target);
    struct plausible_case c = {.candidate_ns = t->candidate_ns, .baseline_ns = t->baseline_ns, .gain = t->speedup.median,
                               .foreign = baseline_foreign(j), .alone = !j->sides[BASELINE].present};
    if (!shape_work(&j->shape, &c.bytes, &c.flops, err))
        return false;
    if (!row)
        return err_set(err, ERR_UNPROCESSABLE,
                       "no figures are known of a card of target %s: nothing can be said about what is plausible",
                       j->shape.target);
    c.written_bytes = written_bytes(j);
    c.l2_bytes = json_int(j->sides[CANDIDATE].info, "l2_bytes", (int64_t)row->l2_bytes);
    c.launches = t->measured ? (int)json_int(t->record, "launches_in_a_graph", 0) : 0;
    c.table_bytes_per_ns = row->datasheet_dram_bytes_per_ns;
    c.table_flops_per_ns =
        row->bf16_matrix_flops_per_ns > row->f32_flops_per_ns ? row->bf16_matrix_flops_per_ns : row->f32_flops_per_ns;
    /* A node of a graph with an empty kernel; in a graph it is all that is left of a launch. */
    c.empty_ns = json_num(j->calibration, "node_ns", 500);
    c.copy_bytes_per_ns = json_num(j->calibration, "copy_bytes_per_ns", 0);
    c.read_bytes_per_ns = json_num(j->calibration, "read_bytes_per_ns", 0);
    *ret = c;
    return true;
}

/* Until an admin has looked at it; where one has, he let it go on: what is possible at all stays a question of the floor alone. */
static void hold(struct judge *j, struct verdict *v, const char *reason)
{
    json_t *by = json_object_get(j->task, "released");
    if (json_is_object(by)) {
        json_put(j->phase, "released", json_incref(by));
        return;
    }
    verdict_set(v, VERDICT_IMPLAUSIBLE, "plausible", "%s: held until someone has looked", reason);
    v->detail = json_pack("{s:b,s:s}", "held", 1, "reason", reason);
}

bool plausible_check(struct judge *j, struct verdict *v, struct err *err)
{
    struct plausible_case c;
    struct plausible_result r;
    cleanup(str) char *reason = NULL;
    if (!make_case(j, &c, err))
        return false;
    plausible_lines(&c, &r);
    json_put(j->phase, "roofline", plausible_encode(&c, &r));
    json_put(j->figures, "roofline", plausible_encode(&c, &r));
    if (r.ceiling_ns > 0) {
        rules_figure(&j->rules, RULE_COLD, "measured_bandwidth_ns", r.ceiling_ns);
        if (c.candidate_ns < r.ceiling_ns)
            rules_find(&j->rules, RULE_COLD, RULE_FLAG, "%.0f ns; at the measured bandwidth its bytes take %.0f", c.candidate_ns, r.ceiling_ns);
    }
    switch (r.outcome) {
    case PLAUSIBLE:
        if (gains_contradict(j->timing.speedup.median, j->records_gain)) {
            reason = xfmt("%.4g times the baseline's speed by the events, %.4g by the records of the audit", j->timing.speedup.median, j->records_gain);
            hold(j, v, reason);
            break;
        }
        reason = needs_missing(j);
        if (reason)
            hold(j, v, reason);
        break;
    case PLAUSIBLE_BASELINE_BELOW:
        return err_set(err, ERR_INTERNAL,
                       "the baseline's %.0f ns are below what the operator's bytes and flops allow (%.0f ns): its "
                       "op.json is wrong",
                       c.baseline_ns, r.floor_ns);
    case PLAUSIBLE_IMPOSSIBLE:
        verdict_set(v, VERDICT_IMPLAUSIBLE, "plausible", "%.0f ns; no kernel can take less than %.0f ns (%s)", c.candidate_ns,
                    r.floor_ns, r.limit);
        break;
    case PLAUSIBLE_HELD_CEILING:
        reason = xfmt("%.0f ns, where its bytes take %.0f ns at the best bandwidth measured on this card", c.candidate_ns, r.ceiling_ns);
        hold(j, v, reason);
        break;
    case PLAUSIBLE_HELD_GAIN:
        reason = xfmt("%.0f times the baseline's speed", c.gain);
        hold(j, v, reason);
        break;
    }
    return true;
}

bool phase_plausible(struct judge *j, struct verdict *v, struct err *err)
{
    STEP(plausible_check(j, v, err));
    if (j->mode != MODE_RETEST)
        (void)timing_verdict(j, &j->timing, "time", v);
    return true;
}
