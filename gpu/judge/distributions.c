/*
 * Distributions are a table; each fills a run of elements of one tensor from (seed, stream, index of the element): integer arithmetic,
 * additions and multiplications only, so that all machines make the same bits. What op.json may say of them is read in distributions_read.c.
 */
#include "gpu/judge/distributions_kinds.h"

#include "core/rng.h"

#include <math.h>
#include <string.h>

/* Sum of eight uniforms of 16 bits, scaled to mean 0 and deviation 1: the same bits everywhere. */
static double normal(const struct dist *d, uint64_t at)
{
    uint64_t x = rng_at(d->seed, d->stream, 2 * at), y = rng_at(d->seed, d->stream, 2 * at + 1);
    int64_t sum = 0;
    for (int i = 0; i < 64; i += 16)
        sum += (int64_t)((x >> i) & 0xffff) + (int64_t)((y >> i) & 0xffff);
    return (double)(2 * sum - 8 * 65535) * (0x1p-17 * 1.2247448713915890);   /* sqrt(12/8) / 65536 / 2 */
}

static void fill_normal(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->mean + d->std * normal(d, (uint64_t)(first + i));
}

static void fill_uniform(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->low + (d->high - d->low) * rng_unit(d->seed, d->stream, (uint64_t)(first + i));
}

/* A zero is of either sign: a kernel that looks at bits must know both. */
static double signed_zero(const struct dist *d, int64_t at, double value)
{
    return value == 0 && rng_below(d->seed, d->stream ^ 0x7a65726f00000000u, (uint64_t)at, 2) ? -0.0 : value;
}

static void fill_constant(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++)
        ret[i] = signed_zero(d, first + i, d->value);
}

static void fill_integers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    uint64_t n = (uint64_t)(int64_t)(d->high - d->low) + 1;
    for (int64_t i = 0; i < count; i++)
        ret[i] = signed_zero(d, first + i, d->low + (double)rng_below(d->seed, d->stream, (uint64_t)(first + i), n));
}

static void fill_outliers(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t i = 0; i < count; i++)
        if (!rng_below(d->seed, ~d->stream, (uint64_t)(first + i), (uint64_t)d->every))
            ret[i] *= d->scale;
}

double dist_factor(double low, double high, uint64_t seed, uint64_t stream, uint64_t row)
{
    int exponents = 0;
    for (double x = low; x * 2 <= high; x *= 2)
        exponents++;
    uint64_t exponent = rng_below(seed, stream, row, (uint64_t)exponents + 1);
    double drawn = ldexp(low, (int)exponent) * (1 + rng_unit(seed, stream, row + ((uint64_t)1 << 40)));
    return drawn < high ? drawn : high;
}

static void fill_rows(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t i = 0; i < count; i++)
        ret[i] *= dist_factor(d->low, d->high, d->seed, ~d->stream, (uint64_t)((first + i) / d->row));
}

/*
 * The second half along a dimension repeats the first, or its opposite. It begins elsewhere in it, alike in all tensors of a seed: of two
 * that meet in a sum the terms cancel, but not those that one part of a kernel adds up.
 */
static void fill_mirrored(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const int64_t half = d->along / 2;
    const int64_t turn = half ? (int64_t)rng_below(d->seed, 0x6d6972726f72u, 0, (uint64_t)half) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i, index = at / d->along_inner % d->along;
        const bool second = index >= half && index < 2 * half;
        const int64_t other = second ? at + ((index - half + turn) % half - index) * d->along_inner : at;
        ret[i] = d->mean + d->std * normal(d, (uint64_t)other);
        if (second)
            ret[i] = d->sign * ret[i] + d->part * d->std * normal(d, (uint64_t)at);
        else if (index == 2 * half)
            ret[i] = d->part * (ret[i] - d->mean);
    }
}

static void fill_slope(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const double step = d->along > 1 ? (d->high - d->low) / (double)(d->along - 1) : 0;
    for (int64_t i = 0; i < count; i++)
        ret[i] = d->low + step * (double)((first + i) / d->along_inner % d->along);
}

/* A stretch is known by its first element, wherever a run of elements begins; the last of a row may be too short to hold the one. */
static void fill_hot(struct dist *d, int64_t first, int64_t count, double *ret)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i, place = (at % d->row - d->origin) % d->stretch;
        ret[i] = (int64_t)rng_below(d->seed, d->stream ^ 0x686f7400000000u, (uint64_t)(at - place), (uint64_t)d->stretch) == place ? d->value : 0;
    }
}

static void fill_spikes(struct dist *d, int64_t first, int64_t count, double *ret)
{
    fill_normal(d, first, count, ret);
    for (int64_t r = first / d->row; count > 0 && r <= (first + count - 1) / d->row; r++)
        for (int64_t k = 0; k < d->spikes.each; k++) {
            const int64_t i = r * d->row + spikes_place(&d->spikes, r, k) - first;
            if (i >= 0 && i < count)
                ret[i] = d->value + d->std * normal(d, (uint64_t)(first + i));
        }
}

/* Each row has a part of its own that is masked. */
static void fill_masked(const struct dist *d, int64_t first, int64_t count, double *ret)
{
    const uint64_t stream = d->stream ^ 0x6d61736b65640000u;
    for (int64_t i = 0; i < count; i++) {
        const double part = d->masked[0] + (d->masked[1] - d->masked[0]) * rng_unit(d->seed, ~stream, (uint64_t)((first + i) / d->row));
        if (rng_unit(d->seed, stream, (uint64_t)(first + i)) < part)
            ret[i] = -INFINITY;
    }
}

/* A permutation of 0..n-1 without memory: four Feistel rounds over the next even number of bits, walked until inside. */
static uint64_t permuted(uint64_t seed, uint64_t stream, uint64_t n, uint64_t x)
{
    int half = 1;
    while (half < 31 && ((uint64_t)1 << (2 * half)) < n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = left ^ (rng_at(seed, stream + round + 1, right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= n);
    return x;
}

/* Below zero, of every magnitude of an i32. */
static double padding_value(const struct dist *d, uint64_t at)
{
    const double value = d->padding_values[rng_below(d->seed, d->stream, at, (uint64_t)d->padding_count)];
    const uint64_t stream = d->stream ^ 0x70616464656400u;
    return isnan(value) ? -floor(dist_factor(1, 0x1p31, d->seed, stream, at)) : value;
}

static void fill_distinct(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || d->rank >= d->range;
        ret[i] = pad ? padding_value(d, at)
                     : (double)(d->first + (int64_t)permuted(d->seed, d->stream, (uint64_t)d->range, (uint64_t)d->rank++));
    }
}

static void fill_indices(struct dist *d, int64_t first, int64_t count, double *ret)
{
    int64_t padded = (int64_t)ceil(d->padding * (double)d->elements);
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)(first + i);
        bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < padded || !d->range;
        ret[i] = pad ? padding_value(d, at)
                     : (double)(d->first + (int64_t)rng_below(d->seed, d->stream, at, (uint64_t)d->range));
    }
}

/* One of the multiples of m, or beside one; the last value where there is none in range. */
static int64_t multiple(const struct dist *d, uint64_t at, int64_t m, int64_t off)
{
    const int64_t last = d->first + d->range - 1, from = d->first - off <= m ? 1 : (d->first - off + m - 1) / m;
    const int64_t to = last - off < 0 ? 0 : (last - off) / m;
    return to < from ? last : m * (from + (int64_t)rng_below(d->seed, ~d->stream, at, (uint64_t)(to - from + 1))) + off;
}

/* Where a kernel's tiles end, and the ends of the range. */
static int64_t edge(const struct dist *d, uint64_t at)
{
    const uint64_t stream = d->stream ^ 0x6564676500u, kind = rng_below(d->seed, stream, 3 * at, 10);
    const int64_t last = d->range - 1, ends[] = {0, last, last > 0 ? last - 1 : 0, last > 0};
    return kind < 4 ? d->first + ends[kind] : multiple(d, at, (int64_t)8 << (kind - 4), (int64_t)rng_below(d->seed, stream, 3 * at + 1, 3) - 1);
}

static void fill_edges(struct dist *d, int64_t first, int64_t count, double *ret)
{
    const bool said = d->has_edge || d->multiple;
    fill_indices(d, first, count, ret);
    for (int64_t i = 0; i < count && d->range; i++) {
        const uint64_t at = (uint64_t)(first + i);
        const bool pad = (int64_t)permuted(d->seed, ~d->stream, (uint64_t)d->elements, at) < (int64_t)ceil(d->padding * (double)d->elements);
        if (!pad && (said ? at % 2 == 0 : rng_below(d->seed, d->stream ^ 0x6564676500u, 3 * at + 2, 2)))
            ret[i] = (double)(d->has_edge ? d->edge : d->multiple ? multiple(d, at, d->multiple, 0) : edge(d, at));
    }
}

static const struct dist_kind dist_kinds[] = {
    {"normal", fill_normal, TAKES_MEAN | TAKES_STD, true, false, true},
    {"uniform", fill_uniform, TAKES_LOW, true, false, true},
    {"constant", fill_constant, TAKES_VALUE, true, true, true},
    {"integers", fill_integers, TAKES_LOW | TAKES_WHOLE, true, true, true},
    {"outliers", fill_outliers, TAKES_MEAN | TAKES_STD | TAKES_SCALE, true, false, true},
    {"rows", fill_rows, TAKES_LOW | TAKES_POSITIVE, true, false, false},
    {"slope", fill_slope, TAKES_ENDS, true, false, false},
    {"mirrored", fill_mirrored, TAKES_MEAN | TAKES_STD | TAKES_PART, true, false, false},
    {"hot", fill_hot, TAKES_VALUE | TAKES_STRETCH, true, false, false},
    {"spikes", fill_spikes, TAKES_STD | TAKES_SPIKES, true, false, false},
    {"distinct", fill_distinct, TAKES_RANGE, false, true, false},
    {"indices", fill_indices, TAKES_RANGE, false, true, false},
    {"edges", fill_edges, TAKES_RANGE | TAKES_EDGE, false, true, false},
};

const struct dist_kind *dist_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof dist_kinds / sizeof *dist_kinds; i++)
        if (name && !strcmp(dist_kinds[i].name, name))
            return &dist_kinds[i];
    return NULL;
}

bool dist_independent(const json_t *doc)
{
    const struct dist_kind *kind = dist_kind_find(json_str(doc, "dist", NULL));
    return kind && kind->independent;
}

bool dist_ordered(const struct dist *d)
{
    return d->kind->fill == fill_distinct;      /* it counts the values that it gave */
}

void dist_fill(struct dist *d, int64_t first, int64_t count, double *ret)
{
    d->kind->fill(d, first, count, ret);
    for (int64_t i = 0; i < count && d->times != 1; i++)
        ret[i] *= d->times;
    if (d->masked[1] > 0)
        fill_masked(d, first, count, ret);
}
