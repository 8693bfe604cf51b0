/*
 * One walk over the tensor, row by row, fills tiles; each tile is judged when it is full and added to sums of the whole, which are
 * judged at the end. The first rule broken (in the header's order, classes and kept bits before numbers) is the answer; the worst
 * element is told with it.
 *
 * What rounding alone must cost is taken from the reference rounded to the type, not from a constant: a tile whose values all lie
 * just above a power of two may have twice the error of another.
 */
#include "gpu/judge/compare.h"
#include "gpu/judge/compare_walk.h"
#include "gpu/judge/crew.h"

#include "gpu/judge/values.h"

#include <string.h>

#define RUN_LEAST 8                                /* unchanged elements in a row that must keep their bits; fewer may be chance */
#define TIE 0x1p-10                                /* of a number: so far from the middle of two it may still be rounded to either */
#define TIE_OF_TILE 0x1p-20                        /* the same where it was made of the tile's larger ones in single precision */
#define LARGEST_OF_A_TILE 3                        /* of some hundred deviations the largest, in their root mean square */

static void element_index(const struct tensor *t, int64_t at, int64_t *ret)
{
    for (int d = t->rank - 1; d >= 0; d--) {
        ret[d] = t->dims[d] ? at % t->dims[d] : 0;
        at = t->dims[d] ? at / t->dims[d] : 0;
    }
}

static void point_at(struct walk *w, int64_t at, double got, double wanted)
{
    w->ret->has_element = true;
    element_index(w->c->tensor, at, w->ret->index);
    w->ret->got = got;
    w->ret->wanted = wanted;
}

static int class_of(double x)
{
    return isnan(x) ? 1 : isinf(x) ? (x > 0 ? 2 : 3) : 0;
}

/* Counts wrong classes; true if there are none in this tile. */
static bool tile_classes(struct walk *w)
{
    int64_t wrong = 0;
    for (int i = 0; i < w->count; i++) {
        if (class_of(w->got[i]) == class_of(w->rounded[i]))
            continue;
        if (!wrong++ && !w->ret->wrong_class && w->ret->rule == COMPARE_NONE)
            point_at(w, w->at[i], w->got[i], w->reference[i]);
    }
    w->ret->wrong_class += wrong;
    return !wrong;
}

static struct sums tile_sums(struct walk *w)
{
    struct sums s = {.n = w->count};
    double mean = 0;
    w->tile_between = 0;
    for (int i = 0; i < w->count; i++) {
        double r = w->reference[i], q = w->rounded[i], y = w->got[i], d = w->between[i] - r;
        mean += d / w->count;
        s.between += d * d;
        w->tile_between = larger(w->tile_between, fabs(d));
        if (!isfinite(q))
            continue;                              /* classes agree: nothing to subtract */
        double e = y - r, b = w->baseline[i] - r;
        s.reference += r * r;
        s.error += e * e;
        s.baseline += isfinite(b) ? b * b : 0;
        s.rounding += (q - r) * (q - r);
        s.bias += y - q;
        s.inward += r < 0 ? q - y : y - q;
        w->max_error = larger(w->max_error, fabs(e));
        w->max_baseline = larger(w->max_baseline, isfinite(b) ? fabs(b) : 0);
        w->max_reference = larger(w->max_reference, fabs(r));
    }
    w->max_between = larger(w->max_between, w->tile_between);
    s.drift = mean * mean * w->count;
    return s;
}

/*
 * What RMS(error) may be: relative to the baseline's error, or where there is none to the table. A tile of which one element makes nearly
 * all of the sum may, in a type of few bits, be further off by right rounding alone than tiles are as a rule.
 */
#define AS_ROUNDED 1.25
static double allowed_rms(const struct walk *w, const struct sums *s, double furthest_row)
{
    const struct granted *g = &w->between_steps;
    const double reference = of_scale(w, root_mean(s->reference, s->n)), factor = w->tolerance.factor,
                 between = larger(factor * root_mean(larger(s->between, g->usual * s->reference), s->n), furthest_row * reference);
    if (!w->c->baseline)
        return larger(w->tolerance.rms * reference, AS_ROUNDED * root_mean(s->rounding, s->n)) + between;
    return larger(factor * root_mean(larger(s->baseline, s->rounding), s->n), between) + w->floor_rms * reference;
}

/* How many powers of two x lies below y, from the exponents' bits; x, y >= 0. */
static int powers_below(double x, double y)
{
    uint64_t a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    int64_t n = (int64_t)(b >> 52) - (int64_t)(a >> 52);
    return n < 0 ? 0 : n >= MAGNITUDES ? MAGNITUDES - 1 : (int)n;
}

static void magnitude_add(struct walk *w, int i, double tile_rms)
{
    double r = w->reference[i], e = w->got[i] - r, b = w->baseline[i] - r, q = w->rounded[i] - r, d = w->between[i] - r;
    struct magnitude *m = &w->magnitudes[powers_below(fabs(r), tile_rms)];
    m->n++;
    m->error += e * e;
    m->trusted += larger(larger(isfinite(b) ? b * b : 0, q * q), d * d);
    m->scale += tile_rms * tile_rms;
}

/* Which of its type's numbers this is, counted from zero. */
static int64_t number_of(enum dtype t, double x)
{
    const int bits = dtype_bytes(t) * 8;
    uint8_t bytes[8] = {0};
    uint64_t code = 0;
    dtype_store(t, bytes, 0, x);
    for (int i = 0; i < bits / 8; i++)
        code |= (uint64_t)bytes[i] << 8 * i;
    const int64_t size = (int64_t)(code & ~(UINT64_C(1) << (bits - 1)));
    return code >> (bits - 1) ? -size : size;
}

static void count_steps(struct walk *w, int i, double tile_rms)
{
    const enum dtype t = w->c->tensor->dtype;
    const int64_t steps = llabs(number_of(t, w->got[i]) - number_of(t, w->rounded[i]));
    w->most_steps = steps > w->most_steps ? steps : w->most_steps;
    /* To the other side than the reference goes only what lies near the middle, as near as half precision's few roundings reach. */
    if (steps == 1 && w->tolerance.steps == 1 && fabs(w->reference[i] - (w->got[i] + w->rounded[i]) / 2) > TIE * fabs(w->reference[i]) + TIE_OF_TILE * tile_rms
        && !w->clear_of_ties++ && !w->ret->wrong_class && w->ret->rule == COMPARE_NONE)
        point_at(w, w->at[i], w->got[i], w->rounded[i]);
}

static void tile_elements(struct walk *w, double tile_rms)
{
    for (int i = 0; i < w->count; i++) {
        double r = w->reference[i];
        if (!isfinite(w->rounded[i]))
            continue;
        magnitude_add(w, i, tile_rms);
        if (w->tolerance.steps > 0)
            count_steps(w, i, tile_rms);
        if (w->tolerance.exact && w->got[i] != w->rounded[i]) {
            if (!w->inexact++ && !w->ret->wrong_class && w->ret->rule == COMPARE_NONE)
                point_at(w, w->at[i], w->got[i], w->rounded[i]);
        }
        double scale = larger(tile_rms, fabs(r)),
               usual = w->tolerance.factor * larger(w->tile_between, LARGEST_OF_A_TILE * sqrt(w->between_steps.usual) * tile_rms),
               granted = larger(usual, w->between_steps.element * scale);
        double error = against(larger(fabs(w->got[i] - r) - granted, 0), scale);
        w->rare += against(larger(fabs(w->got[i] - r) - usual, 0), scale) > w->tolerance.max;
        if (error > w->tolerance.max)
            w->beyond++;
        if (error > w->ret->worst || w->worst_at < 0) {
            w->ret->worst = error;
            w->worst_at = w->at[i];
            if (!w->ret->wrong_class && !w->inexact && !w->clear_of_ties && w->ret->rule == COMPARE_NONE)
                point_at(w, w->at[i], w->got[i], r);
        }
        if (w->c->baseline && isfinite(w->baseline[i]))
            w->ret->baseline_worst = larger(w->ret->baseline_worst, against(larger(fabs(w->baseline[i] - r) - granted, 0), scale));
    }
}

void compare_tile(struct walk *w)
{
    if (!w->count)
        return;
    w->ret->elements += w->count;
    if (tile_classes(w)) {
        struct sums s = tile_sums(w);
        tile_elements(w, of_scale(w, root_mean(s.reference, s.n)));
        double error = root_mean(s.error, s.n), part = against(error, allowed_rms(w, &s, w->between_steps.row));
        w->tiles++;
        w->rare_tiles += against(error, allowed_rms(w, &s, 0)) > 1;
        if (part > w->ret->worst_tile)
            w->ret->worst_tile = part;
        w->all.n += s.n;
        w->all.reference += s.reference;
        w->all.error += s.error;
        w->all.baseline += s.baseline;
        w->all.rounding += s.rounding;
        w->all.between += s.between;
        w->all.drift += s.drift;
        w->all.bias += s.bias;
        w->all.inward += s.inward;
    }
    w->count = 0;
}

/* Whether the reference left these elements as they were; then the bits must be the same, not just the values. */
static bool piece_unchanged(struct walk *w, const double *before, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (w->c->reference[first + i] != before[i])
            return false;
    return true;
}

static void piece_keeps_bits(struct walk *w, int64_t first, int64_t count)
{
    const struct tensor *t = w->c->tensor;
    size_t size = (size_t)dtype_bytes(t->dtype);
    w->ret->unchanged += count;
    for (int64_t i = 0; i < count; i++) {
        size_t at = (size_t)tensor_offset(t, first + i) * size;
        if (!memcmp((const char *)w->c->got + at, (const char *)w->c->before + at, size))
            continue;
        double got = dtype_load(t->dtype, (const char *)w->c->got + at, 0);
        double was = dtype_load(t->dtype, (const char *)w->c->before + at, 0);
        if (got == 0 && was == 0)
            continue;                              /* a zero may change its sign */
        if (w->ret->rule == COMPARE_NONE)
            point_at(w, first + i, got, was);
        compare_fail(w, COMPARE_UNCHANGED, "%s changes where the operator leaves it alone", t->spec->name);
        return;
    }
}

/* Of what was added at `to`, those that were written. */
static int piece_pick(struct walk *w, int to, int64_t count)
{
    double *const lists[] = {w->reference, w->rounded, w->got, w->baseline, w->between};
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!w->c->written[w->at[to + i]])
            continue;
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            lists[k][to + kept] = lists[k][to + i];
        w->at[to + kept++] = w->at[to + i];
    }
    return kept;
}

static void piece_add(struct walk *w, int64_t first, int64_t count)
{
    const struct tensor *t = w->c->tensor;
    int to = w->count;
    for (int64_t i = 0; i < count; i++) {
        w->at[to + i] = first + i;
        w->reference[to + i] = w->c->reference[first + i];
    }
    const double *between = w->c->reference + (op_results(w->c->op) - 1) * t->elements;
    memcpy(w->between + to, between + first, (size_t)count * sizeof *between);
    values_round(t->dtype, w->reference + to, count, w->rounded + to);
    values_gather(t, w->c->got, first, count, w->got + to);
    if (w->c->baseline)
        values_gather(t, w->c->baseline, first, count, w->baseline + to);
    else
        memcpy(w->baseline + to, w->rounded + to, (size_t)count * sizeof *w->baseline);
    w->count += w->c->written ? piece_pick(w, to, count) : (int)count;
}

/* Parts of a row that the operator leaves alone keep their bits; only the others are in tiles. */
static void piece_split(struct walk *w, const double *before, int64_t first, int64_t count)
{
    const double *after = w->c->reference + first;
    for (int64_t at = 0; at < count;) {
        int64_t end = at, same = 0;
        while (end < count && after[end] == before[end])
            end++;
        if (end - at >= RUN_LEAST) {
            piece_keeps_bits(w, first + at, end - at);
            at = end;
            continue;
        }
        while (end < count && same < RUN_LEAST) {
            same = after[end] == before[end] ? same + 1 : 0;
            end++;
        }
        end -= same >= RUN_LEAST ? same : 0;
        piece_add(w, first + at, end - at);
        at = end;
    }
}

/* Rows that begin at `from` and before `end`. What is left at the end is too short for a tile, or the last one. */
void compare_walk(struct walk *w, int64_t from, int64_t end)
{
    const struct tensor *t = w->c->tensor;
    bool inout = t->spec->role == OP_INOUT && w->c->before;
    int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    int64_t pieces = (row + TILE_MOST - 1) / TILE_MOST;
    double before[TILE_MOST];
    for (int64_t start = from; start < end; start += row)
        for (int64_t p = 0; p < pieces; p++) {
            int64_t first = start + row * p / pieces, count = start + row * (p + 1) / pieces - first;
            if (inout) {
                values_gather(t, w->c->before, first, count, before);
                if (piece_unchanged(w, before, first, count)) {
                    piece_keeps_bits(w, first, count);
                    continue;
                }
            }
            if (w->count >= TILE_LEAST && end - first >= TILE_LEAST)
                compare_tile(w);
            if (inout)
                piece_split(w, before, first, count);
            else
                piece_add(w, first, count);
        }
}

static void judge_exact(struct walk *w)
{
    const struct tensor *t = w->c->tensor;
    int64_t wrong = 0, looked = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        if (w->c->written && !w->c->written[i])
            continue;
        looked++;
        double got = dtype_load(t->dtype, w->c->got, (size_t)tensor_offset(t, i));
        if (got == w->c->reference[i])
            continue;
        if (!wrong++)
            point_at(w, i, got, w->c->reference[i]);
    }
    w->ret->elements = looked;
    if (wrong)
        compare_fail(w, COMPARE_EXACT, "%s: %lld of %lld integers differ", t->spec->name, (long long)wrong, (long long)looked);
}

/* The image before, with the elements of the image after: where that differs from the image after, it is in a gap. */
static void judge_gaps(struct walk *w)
{
    const struct tensor *t = w->c->tensor;
    if (!w->c->before || t->span_elements == t->elements)
        return;
    size_t size = (size_t)dtype_bytes(t->dtype);
    cleanup(mem) void *image = xalloc((size_t)t->bytes + 1);
    memcpy(image, w->c->before, (size_t)t->bytes);
    for (int64_t i = 0; i < t->elements; i++) {
        size_t at = (size_t)tensor_offset(t, i) * size;
        memcpy((char *)image + at, (const char *)w->c->got + at, size);
    }
    int64_t offset;
    if (compare_same(t, image, w->c->got, &offset))
        return;
    if (w->ret->rule == COMPARE_NONE)
        w->ret->has_element = false;
    compare_fail(w, COMPARE_GAPS, "%s: byte %lld, between two rows, is written", t->spec->name, (long long)offset);
}

/* Blocks write pieces of rows: how short they are, and which place in a row belongs to none. */
static void look_at_pieces(const struct tensor *t, const uint8_t *written, struct compare_result *ret)
{
    const int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    cleanup(mem) void *memory = xalloc((size_t)row + 1);
    uint8_t *met = memory;
    int64_t shortest = row, run = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        const bool is = written[i], ends = run && (!is || i % row == 0);
        met[i % row] |= is;
        shortest = ends && run < shortest ? run : shortest;
        run = !is ? 0 : i % row ? run + 1 : 1;
    }
    for (int64_t at = 0; at < row && ret->unmet_place < 0; at++)
        ret->unmet_place = met[at] ? -1 : at;
    ret->shortest_piece = row ? (double)shortest / (double)row : 0;
}

void compare_tensor(const struct compare_case *c, struct compare_result *ret)
{
    const struct tensor *t = c->tensor;
    cleanup(mem) void *memory = xalloc(sizeof(struct walk));
    struct walk *w = memory;
    *ret = (struct compare_result){.code = VERDICT_OK, .baseline_worst = c->baseline ? 0 : -1, .baseline_rms = -1, .ratio = -1, .unmet_place = -1};
    if (c->written)
        look_at_pieces(t, c->written, ret);
    w->c = c;
    w->ret = ret;
    w->worst_at = -1;
    w->tolerance = compare_tolerance(c->op, t);
    w->roundoff = dtype_roundoff(t->dtype);
    w->least_scale = compare_least_scale(t->dtype);
    /* f32 results may differ by the order of their sums: there the floor is a part of the table, not of one rounding */
    w->floor_rms = larger(w->roundoff / 2, w->tolerance.rms / 4);
    w->floor_worst = larger(4 * w->roundoff, w->tolerance.max / 4);
    w->floor_bias = larger(w->roundoff / 8, w->tolerance.rms / 16);
    if (dtype_is_float(t->dtype)) {
        w->between_steps = compare_between(c);
        compare_parts(w);
        judge_gaps(w);
        compare_whole(w);
    } else {
        judge_exact(w);
        judge_gaps(w);
    }
}

bool compare_same(const struct tensor *t, const void *a, const void *b, int64_t *ret_offset)
{
    const int64_t at = crew_difference(a, b, (size_t)t->bytes);
    if (at >= 0)
        *ret_offset = at;
    return at < 0;
}
