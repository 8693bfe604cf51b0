/*
 * Plausible: nothing is faster than moving the operator's least bytes at the data sheet's bandwidth, its operations at the peak, or
 * an empty kernel. Then, and only for what is possible, whether it is faster than the baseline.
 */
#include "gpu/judge/internal.h"

struct roofline { int64_t bytes, flops; double memory_ns, compute_ns, launch_ns, floor_ns; const char *limit; };

static bool roofline(struct judge *j, struct roofline *ret, struct err *err)
{
    const struct ptx_device_row *row = NULL;
    if (j->on_card && j->sides[CANDIDATE].info)
        row = ptx_device_find(json_str(j->sides[CANDIDATE].info, "name", ""));
    if (!row)
        row = ptx_device_find(j->shape.target);
    struct roofline r = {.limit = "launch"};
    if (!shape_work(&j->shape, &r.bytes, &r.flops, err))
        return false;
    if (!row)
        return err_set(err, ERR_UNPROCESSABLE,
                       "no figures are known of a card of target %s: nothing can be said about what is plausible",
                       j->shape.target);
    double peak =
        row->bf16_matrix_flops_per_ns > row->f32_flops_per_ns ? row->bf16_matrix_flops_per_ns : row->f32_flops_per_ns;
    r.memory_ns = (double)r.bytes / row->datasheet_dram_bytes_per_ns;
    r.compute_ns = (double)r.flops / peak;
    /* A node of a graph with an empty kernel; in a graph it is all that is left of a launch. */
    r.launch_ns = j->calibration ? json_num(j->calibration, "node_ns", 500) : 500;
    r.floor_ns = r.launch_ns;
    if (r.memory_ns > r.floor_ns)
        r.floor_ns = r.memory_ns, r.limit = "memory";
    if (r.compute_ns > r.floor_ns)
        r.floor_ns = r.compute_ns, r.limit = "compute";
    *ret = r;
    return true;
}

static json_t *roofline_encode(const struct roofline *r, double ns)
{
    json_t *doc = json_object();
    json_put_int(doc, "bytes", r->bytes);
    json_put_int(doc, "flops", r->flops);
    json_put_num(doc, "memory_ns", r->memory_ns);
    json_put_num(doc, "compute_ns", r->compute_ns);
    json_put_num(doc, "launch_ns", r->launch_ns);
    json_put_num(doc, "floor_ns", r->floor_ns);
    json_put_str(doc, "limit", r->limit);
    json_put_num(doc, "fraction", r->floor_ns / ns);
    return doc;
}

/* An admin has looked at it and let it go on: what is possible at all stays a question of the floor alone. */
static bool released(struct judge *j)
{
    const json_t *by = json_object_get(j->task, "released");
    if (!json_is_object(by))
        return false;
    json_put(j->phase, "released", json_incref((json_t *)(uintptr_t)by));
    return true;
}

bool plausible_check(struct judge *j, struct verdict *v, struct err *err)
{
    struct roofline r;
    const struct judge_timing *t = &j->timing;
    if (!roofline(j, &r, err))
        return false;
    json_put(j->phase, "roofline", roofline_encode(&r, t->candidate_ns));
    json_put(j->figures, "roofline", roofline_encode(&r, t->candidate_ns));
    if (t->baseline_ns < r.floor_ns)
        return err_set(err, ERR_INTERNAL,
                       "the baseline's %.0f ns are below what the operator's bytes and flops allow (%.0f ns): its "
                       "op.json is wrong",
                       t->baseline_ns, r.floor_ns);
    if (t->candidate_ns < r.floor_ns) {
        verdict_set(v, VERDICT_IMPLAUSIBLE, "plausible", "%.0f ns; no kernel can take less than %.0f ns (%s)",
                    t->candidate_ns, r.floor_ns, r.limit);
        return true;
    }
    if (t->speedup.median > 100 && !released(j)) {
        verdict_set(v, VERDICT_IMPLAUSIBLE, "plausible",
                    "%.0f times the baseline's speed: held until someone has looked", t->speedup.median);
        v->detail = json_pack("{s:b,s:s}", "held", 1, "reason", "over 100 times the baseline");
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
