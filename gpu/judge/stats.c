#include "gpu/judge/stats.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

#define EXACT_MOST 40

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

int stats_discard(struct stats_pair *pairs, int count, int block_size, int *ret_count)
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
    for (int b = 0; b + block_size <= count; b += block_size) {
        bool good = true;
        for (int i = b; i < b + block_size; i++) {
            const struct stats_pair *p = &pairs[i];
            bool known = p->base_mhz > 0 && p->candidate_mhz > 0;
            good = good && (!known || (p->base_mhz >= low && p->candidate_mhz >= low
                                       && fabs(p->base_mhz / p->candidate_mhz - 1) <= STATS_CLOCK_PAIR));
        }
        if (good) {
            memmove(&pairs[kept], &pairs[b], (size_t)block_size * sizeof *pairs);
            kept += block_size;
        }
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

static struct stats_interval bootstrap(const double *log_ratio, int count, int block_size, uint64_t seed)
{
    int blocks = count / block_size;
    cleanup(mem) void *memory = xarray((size_t)count + STATS_DRAWS, sizeof(double));
    double *draw = memory, *medians = draw + count;
    for (int d = 0; d < STATS_DRAWS; d++) {
        for (int b = 0; b < blocks; b++) {
            uint64_t from = rng_below(seed, (uint64_t)d, (uint64_t)b, (uint64_t)blocks);
            memcpy(draw + b * block_size, log_ratio + from * (uint64_t)block_size, (size_t)block_size * sizeof(double));
        }
        medians[d] = stats_median(draw, count);
    }
    qsort(medians, STATS_DRAWS, sizeof(double), by_value);
    memcpy(draw, log_ratio, (size_t)count * sizeof(double));
    double tail = (1 - STATS_CONFIDENCE) / 2;
    return (struct stats_interval){.median = exp(stats_median(draw, count)),
                                   .low = exp(quantile(medians, STATS_DRAWS, tail)),
                                   .high = exp(quantile(medians, STATS_DRAWS, 1 - tail))};
}

static bool lie_apart(const struct stats_side *base, const struct stats_side *candidate)
{
    return candidate->q3 * (1 + STATS_GAP) <= base->min;
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

void stats_compare(const struct stats_pair *pairs, int count, int block_size, uint64_t seed, struct stats_result *ret)
{
    BUG_ON(block_size <= 0 || count < 2 * block_size || count % block_size || count > STATS_MAX_PAIRS);
    cleanup(mem) void *memory = xarray((size_t)count * 7, sizeof(double));
    double *base = memory, *candidate = base + count, *time = candidate + count, *cycles = time + count;
    double *base_cycles = cycles + count, *candidate_cycles = base_cycles + count, *medians = candidate_cycles + count;
    struct stats_result r = {.pairs = count, .blocks = count / block_size, .has_cycles = true};
    for (int i = 0; i < count; i++) {
        const struct stats_pair *p = &pairs[i];
        base[i] = p->base_ns, candidate[i] = p->candidate_ns;
        base_cycles[i] = p->base_ns * p->base_mhz, candidate_cycles[i] = p->candidate_ns * p->candidate_mhz;
        time[i] = log(p->base_ns / p->candidate_ns);
        r.has_cycles = r.has_cycles && p->base_mhz > 0 && p->candidate_mhz > 0;
        cycles[i] = r.has_cycles ? log(base_cycles[i] / candidate_cycles[i]) : 0;
    }
    stats_side_of(base, count, &r.base);
    stats_side_of(candidate, count, &r.candidate);
    r.apart = lie_apart(&r.base, &r.candidate);
    if (r.has_cycles) {
        struct stats_side b, c;
        stats_side_of(base_cycles, count, &b);
        stats_side_of(candidate_cycles, count, &c);
        r.apart = r.apart && lie_apart(&b, &c);
        r.cycles = bootstrap(cycles, count, block_size, rng_mix(seed ^ 1));
    }
    r.time = bootstrap(time, count, block_size, seed);
    for (int b = 0; b < r.blocks; b++) {
        memcpy(base, time + b * block_size, (size_t)block_size * sizeof(double));
        medians[b] = stats_median(base, block_size);
    }
    r.wilcoxon_p = stats_wilcoxon(medians, r.blocks);
    r.decision = decide(&r);
    *ret = r;
}

bool stats_alike(const struct stats_result *r)
{
    bool excludes = r->time.low > 1 || r->time.high < 1;
    double bias = fabs(r->time.median - 1);
    return bias <= STATS_AA_BIAS && !(excludes && bias > STATS_AA_NOTED);
}

/* ---- JSON ---- */

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
    json_put_num(o, "wilcoxon_p", r->wilcoxon_p);
    json_put_bool(o, "quartiles_apart", r->apart);
    json_put(o, "baseline", stats_side_encode(&r->base));
    json_put(o, "candidate", stats_side_encode(&r->candidate));
    return o;
}
