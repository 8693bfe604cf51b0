#include "gpu/judge/stats.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

#define EXACT_MOST 40
#define STATS_NORMAL 2.5758293035489004     /* where the normal distribution leaves half of 1 - STATS_CONFIDENCE above */
#define STATS_NORMAL_EARLY 3.8905918864131   /* the same of STATS_AA_EARLY */
_Static_assert(STATS_CONFIDENCE == 0.99 && STATS_AA_EARLY == 0.9999, "the figures are of these confidences");

const char *stats_decision_name(enum stats_decision d)
{
    static const char *const names[] = {
#define X(code, name) name,
        STATS_TABLE(X)
#undef X
    };
    return names[d];
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The k-th smallest (quickselect, median of three). */
static double select_kth(double *v, int n, int k)
{
    int lo = 0, hi = n - 1;
    while (lo < hi) {
        double a = v[lo], b = v[lo + (hi - lo) / 2], c = v[hi];
        double pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                double t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return v[k];
}

double stats_median(double *values, int count)
{
    BUG_ON(count <= 0);
    double upper = select_kth(values, count, count / 2);
    if (count % 2)
        return upper;
    double lower = values[0];
    for (int i = 1; i < count / 2; i++)
        lower = values[i] > lower ? values[i] : lower;
    return (lower + upper) / 2;
}

/* The same of a list in no order, which it reorders. */
static double quantile_unsorted(double *values, int n, double q)
{
    int i = (int)(q * (n - 1));
    double part = q * (n - 1) - i, below = select_kth(values, n, i);
    return i + 1 < n && part > 0 ? below + part * (select_kth(values, n, i + 1) - below) : below;
}

static double quantile(const double *sorted, int n, double q)
{
    double at = q * (n - 1);
    int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

void stats_side_of(const double *values, int count, struct stats_side *ret)
{
    cleanup(mem) void *memory = xarray((size_t)count, sizeof(double));
    double *sorted = memory, sum = 0;
    memcpy(sorted, values, (size_t)count * sizeof(double));
    qsort(sorted, (size_t)count, sizeof(double), by_value);
    for (int i = 0; i < count; i++)
        sum += values[i];
    *ret = (struct stats_side){.min = sorted[0],
                               .q1 = quantile(sorted, count, 0.25),
                               .median = quantile(sorted, count, 0.5),
                               .q3 = quantile(sorted, count, 0.75),
                               .p95 = quantile(sorted, count, 0.95),
                               .mean = sum / count};
}

int stats_blocks(const struct stats_pair *pairs, int count)
{
    int blocks = 0;
    for (int i = 0; i < count; i++)
        blocks += i == 0 || pairs[i].block != pairs[i - 1].block;
    return blocks;
}

/* Pairs from `from` on that are of one block. */
static int block_length(const struct stats_pair *pairs, int count, int from)
{
    int n = 1;
    while (from + n < count && pairs[from + n].block == pairs[from].block)
        n++;
    return n;
}

static bool clock_steady(const struct stats_pair *p, double low)
{
    bool known = p->base_mhz > 0 && p->candidate_mhz > 0;
    return !p->throttled && (!known || (p->base_mhz >= low && p->candidate_mhz >= low
                      && fabs(p->base_mhz / p->candidate_mhz - 1) <= STATS_CLOCK_PAIR));
}

int stats_discard(struct stats_pair *pairs, int count, int *ret_count)
{
    cleanup(mem) void *memory = xarray((size_t)count * 2 + 1, sizeof(double));
    double *clocks = memory;
    int clock_count = 0, kept = 0;
    for (int i = 0; i < count; i++) {
        if (pairs[i].base_mhz > 0)
            clocks[clock_count++] = pairs[i].base_mhz;
        if (pairs[i].candidate_mhz > 0)
            clocks[clock_count++] = pairs[i].candidate_mhz;
    }
    double low = clock_count ? STATS_CLOCK_LOW * stats_median(clocks, clock_count) : 0;
    for (int b = 0, size; b < count; b += size) {
        size = block_length(pairs, count, b);
        int good = 0;
        for (int i = b; i < b + size; i++)
            good += clock_steady(&pairs[i], low);
        for (int i = b; i < b + size && 2 * good >= size; i++)
            if (clock_steady(&pairs[i], low))
                pairs[kept++] = pairs[i];
    }
    *ret_count = kept;
    return count - kept;
}

/* ---- Wilcoxon ---- */

struct ranked { double size; int sign; double rank; };

static int by_size(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->size, y = ((const struct ranked *)b)->size;
    return (x > y) - (x < y);
}

/* Probability that a sum of ranks 1..n, each taken with probability 1/2, is at most w. */
static double exact_tail(int n, int w)
{
    double ways[EXACT_MOST * (EXACT_MOST + 1) / 2 + 1] = {1};
    int most = n * (n + 1) / 2;
    for (int rank = 1; rank <= n; rank++)
        for (int s = most; s >= rank; s--)
            ways[s] += ways[s - rank];
    double sum = 0;
    for (int s = 0; s <= w && s <= most; s++)
        sum += ways[s];
    return ldexp(sum, -n);
}

double stats_wilcoxon(const double *differences, int count)
{
    cleanup(mem) void *memory = xarray((size_t)count + 1, sizeof(struct ranked));
    struct ranked *r = memory;
    int n = 0;
    for (int i = 0; i < count; i++)
        if (differences[i] != 0)
            r[n++] = (struct ranked){.size = fabs(differences[i]), .sign = differences[i] > 0 ? 1 : -1};
    if (!n)
        return 1;
    qsort(r, (size_t)n, sizeof *r, by_size);
    double ties = 0, plus = 0;
    for (int i = 0, j; i < n; i = j) {
        for (j = i; j < n && r[j].size == r[i].size; j++)
            continue;
        double t = j - i;
        ties += t * t * t - t;
        for (int k = i; k < j; k++)
            r[k].rank = (i + 1 + j) / 2.0;
    }
    for (int i = 0; i < n; i++)
        plus += r[i].sign > 0 ? r[i].rank : 0;
    double all = n * (n + 1) / 2.0, w = plus < all - plus ? plus : all - plus, p;
    if (n <= EXACT_MOST && ties == 0) {
        p = 2 * exact_tail(n, (int)w);
    } else {
        double variance = n * (n + 1.0) * (2.0 * n + 1) / 24 - ties / 48;
        double z = (w - all / 2 + 0.5) / sqrt(variance);
        p = erfc(-z / sqrt(2));
    }
    return p < 1 ? p : 1;
}

/* ---- comparison ---- */

/* Log-ratios in one list, block by block. */
struct series { int count, blocks; const double *values; const int *starts; /* of blocks; starts[blocks] is count */ double *medians; /* by block */ };

/* Student's t where the normal has that tail, by its expansion in 1 / degrees: 99 % is good to 0.1 % from five on, 99.99 % to 0.5 % from eleven. */
static double student(double normal, int degrees)
{
    double z = normal, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, n = degrees < 3 ? 3 : degrees;
    return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n)
           + (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

/* How much wider than its draws an interval of so few blocks has to be. */
static double few_blocks(int blocks)
{
    return student(STATS_NORMAL, blocks - 1) / STATS_NORMAL * sqrt(blocks / (blocks - 1.0));
}

static double autocorrelation(const struct series *s)
{
    cleanup(mem) void *memory = xarray((size_t)s->blocks * 2, sizeof(double));
    double *centred = memory, *sizes = centred + s->blocks, products = 0, squares = 0;
    memcpy(centred, s->medians, (size_t)s->blocks * sizeof(double));
    double middle = stats_median(centred, s->blocks);
    for (int b = 0; b < s->blocks; b++)
        centred[b] = s->medians[b] - middle, sizes[b] = fabs(centred[b]);
    double most = 4 * stats_median(sizes, s->blocks);       /* about 2.7 standard deviations: one wild block says nothing of its neighbours */
    for (int b = 0; b < s->blocks; b++) {
        centred[b] = centred[b] > most ? most : centred[b] < -most ? -most : centred[b];
        squares += centred[b] * centred[b];
        products += b ? centred[b] * centred[b - 1] : 0;
    }
    if (!(squares > 0))
        return 0;
    /* The estimate is low by about (1 + 3 r) / n, and uncertain by 1 / sqrt(n): most of that is put on top. */
    double n = s->blocks, found = (products / squares + 1 / n) / (1 - 3 / n) + 0.75 / sqrt(n);
    return found < 0 ? 0 : found > STATS_ALIKE_MOST ? STATS_ALIKE_MOST : found;
}

struct ordered { double value; int block; };

static int by_ordered(const void *a, const void *b)
{
    double x = ((const struct ordered *)a)->value, y = ((const struct ordered *)b)->value;
    return (x > y) - (x < y);
}

/*
 * Median of each resampling of the blocks. The values are sorted once; a draw says how often each block is in it, and its median is
 * where the running sum of these weights over the sorted values reaches half.
 */
static void draw_medians(const struct series *s, uint64_t seed, double *ret)
{
    cleanup(mem) void *memory = xarray((size_t)s->count, sizeof(struct ordered));
    cleanup(mem) void *counts = xarray((size_t)s->blocks, sizeof(int));
    struct ordered *sorted = memory;
    int *weight = counts;
    for (int b = 0; b < s->blocks; b++)
        for (int i = s->starts[b]; i < s->starts[b + 1]; i++)
            sorted[i] = (struct ordered){s->values[i], b};
    qsort(sorted, (size_t)s->count, sizeof *sorted, by_ordered);
    for (int d = 0; d < STATS_DRAWS; d++) {
        int total = 0, sum = 0, at = 0;
        memset(weight, 0, (size_t)s->blocks * sizeof *weight);
        for (int b = 0; b < s->blocks; b++) {
            uint64_t bits = rng_mix(seed + (uint64_t)d * 0x9e3779b97f4a7c15u + ((uint64_t)b << 40));
            int from = (int)((bits >> 32) * (uint64_t)s->blocks >> 32);
            weight[from]++;
            total += s->starts[from + 1] - s->starts[from];
        }
        int half = (total + 1) / 2;
        while ((sum += weight[sorted[at].block]) < half)
            at++;
        double lower = sorted[at].value;
        if (total % 2 == 0 && sum == half)
            while (!weight[sorted[++at].block])
                continue;
        ret[d] = (lower + sorted[at].value) / 2;
    }
}

static struct stats_interval bootstrap(const struct series *s, double alike, uint64_t seed)
{
    cleanup(mem) void *memory = xarray((size_t)s->count + STATS_DRAWS, sizeof(double));
    double *copy = memory, *medians = copy + s->count;
    draw_medians(s, seed, medians);
    memcpy(copy, s->values, (size_t)s->count * sizeof(double));
    double point = stats_median(copy, s->count), wider = few_blocks(s->blocks) * sqrt((1 + alike) / (1 - alike));
    double tail = (1 - STATS_CONFIDENCE) / 2, low = quantile_unsorted(medians, STATS_DRAWS, tail), high = quantile_unsorted(medians, STATS_DRAWS, 1 - tail);
    return (struct stats_interval){
        .median = exp(point), .low = exp(point - (point - low) * wider), .high = exp(point + (high - point) * wider)};
}

/* The sides' block medians (in logarithms), each block's common level taken out. */
static bool lie_apart(const double *base, const double *candidate, int blocks)
{
    cleanup(mem) void *memory = xarray((size_t)blocks * 2, sizeof(double));
    double *b = memory, *c = b + blocks;
    for (int i = 0; i < blocks; i++) {
        double level = (base[i] + candidate[i]) / 2;
        b[i] = exp(base[i] - level), c[i] = exp(candidate[i] - level);
    }
    struct stats_side base_side, candidate_side;
    stats_side_of(b, blocks, &base_side);
    stats_side_of(c, blocks, &candidate_side);
    return candidate_side.q3 * (1 + STATS_GAP) <= base_side.min;
}

static enum stats_decision decide(const struct stats_result *r)
{
    bool in_time = r->time.low > 1, in_cycles = !r->has_cycles || r->cycles.low > 1;
    if (in_time && in_cycles && r->wilcoxon_p < STATS_WILCOXON_P && r->apart)
        return STATS_FASTER;
    if (r->time.low >= 1 - STATS_SAME && r->time.high <= 1 + STATS_SAME)
        return STATS_SAME_SPEED;
    if (r->time.high < 1)
        return STATS_SLOWER;
    return STATS_UNCLEAR;
}

/* One opinion of all three kinds: by time, or by cycles. */
struct opinion { struct stats_interval interval; double autocorrelation, wilcoxon_p; bool apart; };

static double median_of(const double *values, int count, double *scratch)
{
    memcpy(scratch, values, (size_t)count * sizeof(double));
    return stats_median(scratch, count);
}

/* base and candidate: logarithms, by pair. */
static struct opinion form(const double *base, const double *candidate, const int *starts, int blocks, uint64_t seed)
{
    int count = starts[blocks];
    cleanup(mem) void *memory = xarray((size_t)(2 * count + 3 * blocks), sizeof(double));
    double *ratio = memory, *scratch = ratio + count, *medians = scratch + count, *bases = medians + blocks, *candidates = bases + blocks;
    for (int i = 0; i < count; i++)
        ratio[i] = base[i] - candidate[i];
    for (int b = 0; b < blocks; b++) {
        int from = starts[b], size = starts[b + 1] - from;
        medians[b] = median_of(ratio + from, size, scratch);
        bases[b] = median_of(base + from, size, scratch);
        candidates[b] = median_of(candidate + from, size, scratch);
    }
    const struct series s = {count, blocks, ratio, starts, medians};
    double alike = autocorrelation(&s);
    return (struct opinion){.interval = bootstrap(&s, alike, seed),
                            .autocorrelation = alike,
                            .wilcoxon_p = stats_wilcoxon(medians, blocks),
                            .apart = lie_apart(bases, candidates, blocks)};
}

void stats_compare(const struct stats_pair *pairs, int count, uint64_t seed, struct stats_result *ret)
{
    int blocks = stats_blocks(pairs, count);
    BUG_ON(blocks < STATS_LEAST_BLOCKS || count > STATS_MAX_PAIRS);
    cleanup(mem) void *memory = xarray((size_t)count * 4, sizeof(double)), *places = xarray((size_t)blocks + 1, sizeof(int));
    double *base = memory, *candidate = base + count, *base_log = candidate + count, *candidate_log = base_log + count;
    int *starts = places, b = 0;
    struct stats_result r = {.pairs = count, .blocks = blocks, .has_cycles = true};
    bool one_clock = true;              /* the same for both of each pair: cycles say what time says */
    for (int i = 0; i < count; i++) {
        const struct stats_pair *p = &pairs[i];
        if (i == 0 || p->block != p[-1].block)
            starts[b++] = i;
        base[i] = p->base_ns, candidate[i] = p->candidate_ns;
        base_log[i] = log(p->base_ns), candidate_log[i] = log(p->candidate_ns);
        r.has_cycles = r.has_cycles && p->base_mhz > 0 && p->candidate_mhz > 0;
        one_clock = one_clock && p->base_mhz == p->candidate_mhz;
    }
    starts[blocks] = count;
    stats_side_of(base, count, &r.base);
    stats_side_of(candidate, count, &r.candidate);
    struct opinion time = form(base_log, candidate_log, starts, blocks, seed), cycles = time;
    if (r.has_cycles && !one_clock) {
        for (int i = 0; i < count; i++)
            base_log[i] += log(pairs[i].base_mhz), candidate_log[i] += log(pairs[i].candidate_mhz);
        cycles = form(base_log, candidate_log, starts, blocks, rng_mix(seed ^ 1));
    }
    r.time = time.interval;
    r.cycles = r.has_cycles ? cycles.interval : (struct stats_interval){0};
    r.autocorrelation = time.autocorrelation;
    r.wilcoxon_p = fmax(time.wilcoxon_p, cycles.wilcoxon_p);
    r.apart = time.apart && cycles.apart;
    r.decision = decide(&r);
    *ret = r;
}

static double half_width(const struct stats_result *r)
{
    return log(r->time.high / r->time.low) / 2;
}

int stats_control_longer(int first, int blocks)
{
    const int most = first * STATS_AA_LONGER, next = blocks + (first + STATS_AA_PARTS - 1) / STATS_AA_PARTS;
    return blocks >= most ? 0 : next < most ? next : most;
}

bool stats_alike(const struct stats_result *r)
{
    bool excludes = r->time.low > 1 || r->time.high < 1;
    return half_width(r) <= STATS_AA_BLUNT && !(excludes && fabs(r->time.median - 1) > STATS_AA_NOTED);
}

/* The interval excludes 1 when it is stretched to STATS_AA_EARLY, too. */
static bool certainly_off(const struct stats_result *r)
{
    const double wider = student(STATS_NORMAL_EARLY, r->blocks - 1) / student(STATS_NORMAL, r->blocks - 1), point = log(r->time.median);
    return point + wider * (log(r->time.low) - point) > 0 || point + wider * (log(r->time.high) - point) < 0;
}

bool stats_control_settled(const struct stats_result *r)
{
    return half_width(r) <= STATS_AA_SHARP && (stats_alike(r) || certainly_off(r));
}

#define NORMAL_99 2.5758293035489004    /* of STATS_CONFIDENCE, two-sided */

/* How many samples lie below the true median is binomial, whatever their distribution: so two ranks hold it. Few samples: all of them. */
void stats_timer_of(const double *values, int count, struct stats_timer *ret)
{
    BUG_ON(count <= 0);
    cleanup(mem) void *memory = xarray((size_t)count, sizeof(double));
    double *sorted = memory, half = NORMAL_99 * sqrt(count) / 2;
    memcpy(sorted, values, (size_t)count * sizeof(double));
    qsort(sorted, (size_t)count, sizeof(double), by_value);
    int low = (int)floor((count - 1) / 2. - half), high = (int)ceil((count - 1) / 2. + half);
    *ret = (struct stats_timer){.count = count, .q1 = quantile(sorted, count, 0.25), .q3 = quantile(sorted, count, 0.75),
                                .median = {quantile(sorted, count, 0.5), sorted[low < 0 ? 0 : low], sorted[high >= count ? count - 1 : high]}};
}

/* ---- JSON ---- */

json_t *stats_timer_encode(const struct stats_timer *t)
{
    json_t *o = json_object();
    json_put_int(o, "samples", t->count);
    json_put_num(o, "q1_ns", t->q1);
    json_put_num(o, "median_ns", t->median.median);
    json_put_num(o, "q3_ns", t->q3);
    json_put_num(o, "low_ns", t->median.low);
    json_put_num(o, "high_ns", t->median.high);
    return o;
}

json_t *stats_side_encode(const struct stats_side *s)
{
    json_t *o = json_object();
    json_put_num(o, "min_ns", s->min);
    json_put_num(o, "q1_ns", s->q1);
    json_put_num(o, "median_ns", s->median);
    json_put_num(o, "q3_ns", s->q3);
    json_put_num(o, "p95_ns", s->p95);
    json_put_num(o, "mean_ns", s->mean);
    return o;
}

static json_t *interval_encode(const struct stats_interval *i)
{
    json_t *o = json_object();
    json_put_num(o, "median", i->median);
    json_put_num(o, "low", i->low);
    json_put_num(o, "high", i->high);
    return o;
}

json_t *stats_encode(const struct stats_result *r)
{
    json_t *o = json_object();
    json_put_str(o, "decision", stats_decision_name(r->decision));
    json_put_int(o, "pairs", r->pairs);
    json_put_int(o, "blocks", r->blocks);
    json_put_num(o, "confidence", STATS_CONFIDENCE);
    json_put(o, "ratio", interval_encode(&r->time));
    json_put(o, "ratio_in_cycles", r->has_cycles ? interval_encode(&r->cycles) : json_null());
    json_put_num(o, "autocorrelation", r->autocorrelation);
    json_put_num(o, "wilcoxon_p", r->wilcoxon_p);
    json_put_bool(o, "quartiles_apart", r->apart);
    json_put(o, "baseline", stats_side_encode(&r->base));
    json_put(o, "candidate", stats_side_encode(&r->candidate));
    return o;
}
