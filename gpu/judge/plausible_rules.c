#include "gpu/judge/plausible_rules.h"

#include <math.h>

/*
 * A graph ends when its last launch does, not when L2 has written back what that and the launches before it left there: so many bytes of
 * a graph's are no DRAM traffic of its.
 */
static double ceiling_ns(const struct plausible_case *c, double bytes_per_ns)
{
    double left = fmin((double)c->l2_bytes, (double)c->written_bytes * c->launches);
    return ((double)c->bytes * c->launches - left) / c->launches / bytes_per_ns;
}

void plausible_lines(const struct plausible_case *c, struct plausible_result *ret)
{
    struct plausible_result r = {.limit = "launch"};
    double measured = fmax(c->copy_bytes_per_ns, c->read_bytes_per_ns), table = c->table_bytes_per_ns;
    r.table_exceeded = measured > table;
    r.table_far = measured > 0 && measured < PLAUSIBLE_TABLE_FAR * table;
    if (r.table_exceeded)
        table = measured / PLAUSIBLE_OF_SHEET;
    r.memory_ns = (double)c->bytes / table;
    r.compute_ns = (double)c->flops / c->table_flops_per_ns;
    r.empty_ns = c->empty_ns;
    r.floor_ns = PLAUSIBLE_EMPTY * c->empty_ns;
    if (r.memory_ns > r.floor_ns)
        r.floor_ns = r.memory_ns, r.limit = "memory";
    if (r.compute_ns > r.floor_ns)
        r.floor_ns = r.compute_ns, r.limit = "compute";
    if (measured > 0 && c->launches > 0) {
        r.ceiling_bytes_per_ns = measured;
        r.ceiling_ns = ceiling_ns(c, measured);
        r.ceiling_void = !c->foreign && c->baseline_ns < r.ceiling_ns;
        r.near_ceiling = c->candidate_ns < PLAUSIBLE_NEAR * r.ceiling_ns;
    }
    r.gain_noted = c->gain > PLAUSIBLE_GAIN_NOTED;
    if (c->baseline_ns < r.floor_ns && !(c->foreign && c->alone))
        r.outcome = PLAUSIBLE_BASELINE_BELOW;
    else if (c->candidate_ns < r.floor_ns)
        r.outcome = PLAUSIBLE_IMPOSSIBLE;
    else if (r.ceiling_ns > 0 && !r.ceiling_void && c->candidate_ns < r.ceiling_ns)
        r.outcome = PLAUSIBLE_HELD_CEILING;
    else if (c->gain > PLAUSIBLE_GAIN_HELD)
        r.outcome = PLAUSIBLE_HELD_GAIN;
    *ret = r;
}

json_t *plausible_encode(const struct plausible_case *c, const struct plausible_result *r)
{
    const struct { bool noted; const char *text; } notes[] = {
        {r->table_exceeded, "the card is measured above its data sheet's row: a quarter above the measurement takes its place"},
        {r->table_far, "the card is measured far below its data sheet's row: the row may be another card's"},
        {r->near_ceiling, "within 5 percent of what was measured on this card"},
        {r->ceiling_void, "the baseline is faster than what was measured on this card: that line holds nobody"},
        {r->gain_noted, "over 10 times the baseline"},
    };
    json_t *doc = json_object(), *list = json_array();
    json_put_int(doc, "bytes", c->bytes);
    json_put_int(doc, "flops", c->flops);
    json_put_num(doc, "memory_ns", r->memory_ns);
    json_put_num(doc, "compute_ns", r->compute_ns);
    json_put_num(doc, "launch_ns", r->empty_ns);
    json_put_num(doc, "floor_ns", r->floor_ns);
    json_put_str(doc, "limit", r->limit);
    json_put_num(doc, "fraction", r->floor_ns / c->candidate_ns);
    json_put(doc, "ceiling", r->ceiling_ns > 0 ? json_pack("{s:f,s:f,s:f}", "bytes_per_ns", r->ceiling_bytes_per_ns, "memory_ns", r->ceiling_ns,
                                                            "fraction", r->ceiling_ns / c->candidate_ns)
                                                : json_null());
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i].noted)
            json_array_append_new(list, json_string(notes[i].text));
    json_put(doc, "notes", list);
    return doc;
}
