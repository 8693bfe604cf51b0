/*
 * The statistics in simulation, with fixed seeds: how often a kernel that is no faster is called faster, how often a real gain of 2 %
 * is found, how often the interval holds the truth, how often an A/A control gives a false alarm; with the settings of a published
 * figure and of triage, each under correlated noise, clocks that drift, common and opposite, and outliers. And each opinion by itself
 * against figures from tables.
 *
 *   test_stats [RUNS]     of each combination; 250 unless said
 */
#include "gpu/judge/stats.h"
#include "core/rng.h"
#include "tests/test.h"

#include <limits.h>
#include <string.h>

#define MOST_PAIRS 512
#define TRIAGE_TIMES 5

/* As gpu/judge/measure.c has them. */
struct setting { const char *name; int blocks, size, longer; };
static const struct setting published = {"published", 30, 8, STATS_LONGER}, triage = {"triage", 12, 4, STATS_LONGER_TRIAGE};

struct world {
    const char *name;
    double noise;               /* standard deviation of a pair's log-ratio */
    double memory;              /* of a side's noise, from one sample to the next */
    double block;               /* standard deviation of what a block adds to one side */
    double common, opposite;    /* amplitude of slow waves: of the clock, seen by both; of one side against the other */
    double slow_share, slow_by; /* samples that something slows */
    double burst_share;         /* of quads in which one side takes 4 % more */
};
static const struct world worlds[] = {
    {"independent", 0.01, 0, 0, 0, 0, 0, 0, 0},
    {"correlated", 0.01, 0.8, 0.001, 0, 0, 0, 0, 0},
    {"clock drifts", 0.01, 0, 0, 0.03, 0, 0, 0, 0},
    {"sides drift apart", 0.01, 0, 0, 0, 0.003, 0, 0, 0},
    {"outliers", 0.01, 0, 0, 0, 0, 0.03, 0.3, 0.03},
    {"all of it", 0.01, 0.5, 0.001, 0.02, 0.002, 0.02, 0.3, 0.02},
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

static double wave(double amplitude, double at, double times, double phase) { return amplitude * sin(6.283185307179586 * (at * times + phase)); }

/* A clock as the driver tells it, in steps of 15 MHz. */
static double told(double mhz) { return 15 * floor(mhz / 15 + 0.5); }

/* Quads in time, a b b a or b a a b, as the measurement takes them; side 0 is the baseline. */
static int simulate(const struct setting *s, const struct world *w, double speedup, uint64_t seed, struct stats_pair *ret)
{
    int pairs = s->longer * s->blocks * s->size, quads = pairs / 2;
    double state[2] = {rng_normal(seed, 1, 0), rng_normal(seed, 2, 0)}, fresh = sqrt(1 - w->memory * w->memory);
    double phase = rng_unit(seed, 3, 0), other_phase = rng_unit(seed, 3, 1), times = 0.5 + 2 * rng_unit(seed, 3, 2);
    double whole_times = s->longer * (1 + (double)rng_below(seed, 3, 3, 3));          /* so that its median is none, of a part too */
    for (int q = 0; q < quads; q++) {
        bool swap = rng_at(seed, 4, (uint64_t)q) & 1;
        int burst = rng_unit(seed, 5, (uint64_t)q) < w->burst_share ? (int)(rng_at(seed, 6, (uint64_t)q) & 1) : -1;
        double ns[4], mhz[4];
        for (int i = 0; i < 4; i++) {
            int side = ((i == 0 || i == 3) != swap) ? 0 : 1;
            uint64_t n = (uint64_t)q * 4 + (uint64_t)i;
            double at = (q + i / 4.0) / quads, clock = wave(w->common, at, times, phase);
            int block = q * 2 / s->size;
            state[side] = w->memory * state[side] + fresh * rng_normal(seed, 7, n);
            double log_ns = w->noise / sqrt(2) * state[side] + w->block / sqrt(2) * rng_normal(seed, 8 + (uint64_t)side, (uint64_t)block)
                            - clock + (side ? -1 : 1) * wave(w->opposite, at, whole_times, other_phase) - (side ? log(speedup) : 0);
            log_ns += rng_unit(seed, 10, n) < w->slow_share ? w->slow_by * rng_unit(seed, 11, n) : 0;
            log_ns += burst == side ? 0.04 : 0;
            ns[i] = 10000 * exp(log_ns), mhz[i] = told(1980 * exp(clock));
        }
        for (int p = 0; p < 2; p++) {
            int outer = p ? 3 : 0, inner = p ? 2 : 1, base = swap ? inner : outer, mine = swap ? outer : inner;
            ret[2 * q + p] = (struct stats_pair){ns[base], ns[mine], mhz[base], mhz[mine], (2 * q + p) / s->size, false, 0, 0};
        }
    }
    return pairs;
}

struct tally { int runs, invalid, decisions[4], covered; double width; };

/* As measure.c does it: longer while the answer is open. False: too much was discarded. */
static bool measured(const struct setting *s, uint64_t seed, const struct stats_pair *taken, struct stats_result *ret)
{
    static struct stats_pair pairs[MOST_PAIRS];
    for (int times = 1; times <= s->longer; times++) {
        int count = times * s->blocks * s->size, left = 0;
        memcpy(pairs, taken, (size_t)count * sizeof *pairs);
        if (stats_discard(pairs, count, &left) > STATS_DISCARD * count)
            return false;
        stats_compare(pairs, left, seed + (uint64_t)times, ret);
        if (ret->decision != STATS_UNCLEAR)
            break;
    }
    return true;
}

static struct tally many(const struct setting *s, const struct world *w, double speedup, int runs, uint64_t salt)
{
    struct tally t = {.runs = runs};
    static struct stats_pair pairs[MOST_PAIRS];
    for (int run = 0; run < runs; run++) {
        struct stats_result r;
        (void)simulate(s, w, speedup, rng_mix(salt * 1000003 + (uint64_t)run), pairs);
        if (!measured(s, (uint64_t)run, pairs, &r)) {
            t.invalid++;
            continue;
        }
        t.decisions[r.decision]++;
        t.covered += r.time.low <= speedup && speedup <= r.time.high;
        t.width += log(r.time.high / r.time.low) / 2 / runs;
    }
    printf("%-9s %-17s %.3f: faster %5d same %5d slower %4d unclear %5d invalid %3d; covered %.4f of %d, +-%.2f %%\n", s->name, w->name, speedup,
           t.decisions[STATS_FASTER], t.decisions[STATS_SAME_SPEED], t.decisions[STATS_SLOWER], t.decisions[STATS_UNCLEAR], t.invalid,
           (double)t.covered / (runs - t.invalid), runs, 100 * t.width);
    return t;
}

/* What share of successes is too few for a true share, three standard errors and a half below (one in 4,000). */
static double least_share(double share, int runs) { return share - 3.5 * sqrt(share * (1 - share) / runs); }

static const struct setting controls[] = {{"full", 20, 2, 1}, {"triage", 12, 2, 1}};

/* A control as measure.c takes it: longer until settled, at most `looks` times. */
static struct stats_result control(const struct setting *first, const struct world *w, double bias, int run, uint64_t seed, int looks)
{
    static struct stats_pair pairs[MOST_PAIRS];
    struct setting longest = {first->name, first->blocks, first->size, STATS_AA_LONGER};
    struct world one_side = *w;
    struct stats_result r;
    one_side.opposite = 0;              /* both sides are one process: what moves one moves the other */
    (void)simulate(&longest, &one_side, bias, seed, pairs);
    for (int blocks = first->blocks; blocks && looks; blocks = stats_control_longer(first->blocks, blocks), looks--) {
        stats_compare(pairs, blocks * first->size, (uint64_t)run, &r);
        if (stats_control_settled(&r))
            break;
    }
    return r;
}

/* How many give a false alarm. */
static int false_alarms(const struct setting *first, const struct world *w, int runs, uint64_t salt, double *ret_pairs)
{
    int alarms = 0;
    *ret_pairs = 0;
    for (int run = 0; run < runs; run++) {
        const struct stats_result r = control(first, w, 1.0, run, rng_mix(salt * 7919 + (uint64_t)run), INT_MAX);
        *ret_pairs += (double)r.pairs / runs;
        alarms += !stats_alike(&r);
    }
    return alarms;
}

/* Of a judgement: three attempts of two controls each must all fail before it is given up. */
static void test_controls(int runs)
{
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < WORLDS; i++) {
            double pairs = 0, one = (double)false_alarms(&controls[s], &worlds[i], runs, (uint64_t)(s * 10 + i), &pairs) / runs;
            double attempt = 1 - (1 - one) * (1 - one);
            printf("control of %-6s %-17s: %.0f pairs, false alarm %.4f a control, %.4f an attempt, %.6f a judgement\n", controls[s].name,
                   worlds[i].name, pairs, one, attempt, attempt * attempt * attempt);
            check(one <= 1 - least_share(0.98, runs));
            check(attempt * attempt * attempt < 0.001);
        }
}

/*
 * What a first look may spend of the 1 % by which a control may be wrong: half. In a world that is quiet enough for a third of the
 * controls to be sharp at once: one in thirty of these is so by chance, and excludes 1.
 */
static void test_control_early(int runs)
{
    struct world w = worlds[WORLDS - 1];
    int sharp = 0, alarms = 0;
    w.noise *= 0.4, w.block *= 0.4, w.slow_by *= 0.4, w.common = 0;
    for (int run = 0; run < runs; run++) {
        const struct stats_result r = control(&controls[1], &w, 1.0, run, rng_mix((uint64_t)run + 17), 1);
        sharp += stats_control_settled(&r), alarms += stats_control_settled(&r) && !stats_alike(&r);
    }
    printf("control of triage, first look: settled %d of %d, false alarm %d\n", sharp, runs, alarms);
    check(sharp > 0.2 * runs);
    check(alarms <= 0.005 * runs);
}

/* A control that is off by 1 % is seen nearly always, though nothing of the harness is known to it: as it is taken, and at full length. */
static void test_control_sees(int runs)
{
    for (int s = 0; s < 2; s++) {
        double pairs = 0;
        int seen = 0;
        for (int run = 0; run < runs; run++) {
            const struct stats_result r = control(&controls[s], &worlds[0], 1.01, run, rng_mix((uint64_t)(s * 100000 + run) + 11), INT_MAX);
            seen += !stats_alike(&r), pairs += (double)r.pairs / runs;
        }
        printf("control of %-6s that is 1 %% off: seen %d of %d, after %.0f pairs\n", controls[s].name, seen, runs, pairs);
        check(seen >= 0.99 * runs);
        check(pairs < 0.75 * STATS_AA_LONGER * controls[s].blocks * controls[s].size);      /* what is certain ends it before its last look */
    }
    static const struct setting longest = {"full", 20, 2, STATS_AA_LONGER};
    static struct stats_pair pairs[MOST_PAIRS];
    int seen = 0;
    for (int run = 0; run < runs; run++) {
        struct stats_result r;
        int count = simulate(&longest, &worlds[0], 1.01, rng_mix((uint64_t)run + 5), pairs);
        stats_compare(pairs, count, 1, &r);
        seen += !stats_alike(&r);
    }
    printf("control that is 1 %% off: seen %d of %d\n", seen, runs);
    check(seen >= 0.99 * runs);
}

static void test_simulated(int published_runs)
{
    static const struct setting *const settings[] = {&published, &triage};
    int aa_runs = 0, aa_faster = 0, published_faster = 0;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < WORLDS; i++) {
            int runs = s == 0 ? published_runs : TRIAGE_TIMES * published_runs;      /* they cost little */
            uint64_t salt = (uint64_t)(s * 100 + i);
            struct tally aa = many(settings[s], &worlds[i], 1.0, runs, salt);
            aa_runs += runs, aa_faster += aa.decisions[STATS_FASTER];
            published_faster += s == 0 ? aa.decisions[STATS_FASTER] : 0;
            /* In the world that is worst for it triage may be wrong twice in a thousand (stats.h says why), three standard errors allowed. */
            check(s == 0 || aa.decisions[STATS_FASTER] <= 0.002 * runs + 3 * sqrt(0.002 * runs));
            /* Twelve blocks tell badly how much samples remember of those before them: there, and only there, 97.5 % must do. */
            double claimed = s == 1 && worlds[i].memory > 0.6 ? 0.975 : STATS_CONFIDENCE;
            check(aa.covered >= least_share(claimed, runs - aa.invalid) * (runs - aa.invalid));
            check(aa.invalid <= (s == 1 && worlds[i].common > 0 ? 0.15 : 0) * runs);     /* a clock that moves within quads: repeated */
            if (s == 0) {
                struct tally two = many(settings[s], &worlds[i], 1.02, runs / 2, salt + 50);
                check(two.decisions[STATS_FASTER] >= 0.9 * two.runs);
                check(two.covered >= least_share(STATS_CONFIDENCE, two.runs) * two.runs);
                check(two.width < 0.009);       /* an interval that covers by being wide is worth nothing */
            } else {
                (void)many(settings[s], &worlds[i], 1.02, published_runs / 2, salt + 50);
                struct tally six = many(settings[s], &worlds[i], 1.06, published_runs / 2, salt + 70);
                check(six.decisions[STATS_FASTER] >= 0.8 * six.runs);
            }
        }
    printf("A/A: %d of %d faster\n", aa_faster, aa_runs);
    check(aa_faster < aa_runs / 1000.0);
    check(published_faster < WORLDS * published_runs / 1000.0);
}

static void test_wilcoxon(void)
{
    /* All positive, n = 5: 2/32. n = 8 with W = 3: exact two-sided 10/256. */
    const double five[] = {1, 2, 3, 4, 5};
    check(fabs(stats_wilcoxon(five, 5) - 0.0625) < 1e-12);
    const double eight[] = {-1, -2, 3, 4, 5, 6, 7, 8};
    check(fabs(stats_wilcoxon(eight, 8) - 10.0 / 256) < 1e-12);
    const double none[] = {0, 0, 0};
    check(stats_wilcoxon(none, 3) == 1);
    const double both[] = {1, -1.5, 2, -2.5};
    check(stats_wilcoxon(both, 4) > 0.5);
    /* Ties take the approximation: near the exact figure for many differences. */
    double exact[30], tied[30];
    for (int i = 0; i < 30; i++)
        exact[i] = (i + 1) * (i % 4 ? 1 : -1.0), tied[i] = i == 29 ? 29 : exact[i];
    check(fabs(stats_wilcoxon(exact, 30) - stats_wilcoxon(tied, 30)) < 0.005);
}

static void test_median(void)
{
    double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
    check(stats_median(odd, 5) == 3);
    check(stats_median(even, 4) == 2.5);
    check(stats_median(one, 1) == 7);
    for (uint64_t s = 0; s < 200; s++) {
        double v[64], w[64];
        int n = 1 + (int)rng_below(s, 0, 0, 64), below = 0, above = 0;
        for (int i = 0; i < n; i++)
            w[i] = v[i] = (double)rng_below(s, 1, (uint64_t)i, 20);
        double m = stats_median(v, n);
        for (int i = 0; i < n; i++)
            below += w[i] < m, above += w[i] > m;
        check(below <= n / 2 && above <= n / 2);
    }
}

static void test_discard(void)
{
    struct stats_pair p[40];
    for (int i = 0; i < 40; i++)
        p[i] = (struct stats_pair){100 + i, 50, 1980, 1980, i / 4, false, 0, 0};
    int left = 0;
    check_int(stats_discard(p, 40, &left), 0);
    check_int(left, 40);
    check_int(stats_blocks(p, 40), 10);
    p[5].candidate_mhz = 1900;                      /* differs by 4 %: it goes, its block stays */
    p[6].candidate_mhz = 1965;                      /* one step of the driver's clock */
    p[13].base_mhz = p[13].candidate_mhz = 1200;    /* both slow, and with it most of its block */
    p[14].base_mhz = 1950;
    p[15].base_mhz = 1950;
    check_int(stats_discard(p, 40, &left), 5);
    check_int(left, 35);
    check_int(stats_blocks(p, left), 9);
    check(p[4].base_ns == 104 && p[5].base_ns == 106 && p[11].base_ns == 116);
    for (int i = 0; i < 40; i++)
        p[i] = (struct stats_pair){100 + i, 50, 1980, 1980, i / 4, i == 9, 0, 0};
    check(stats_discard(p, 40, &left) == 1 && p[9].base_ns == 110);
    struct stats_pair unknown[4] = {{.base_ns = 1, .candidate_ns = 1}, {.base_ns = 1, .candidate_ns = 1}, {.base_ns = 2, .candidate_ns = 1}, {.base_ns = 1, .candidate_ns = 2}};
    check_int(stats_discard(unknown, 4, &left), 0);
}

static const struct setting once = {"once", 30, 8, 1};
static const struct world quiet = {"quiet", 0.005, 0, 0, 0, 0, 0, 0, 0};

/* Faster in time by a higher clock alone is not faster. */
static void test_clock_is_not_speed(void)
{
    struct stats_pair p[MOST_PAIRS];
    int count = simulate(&once, &quiet, 1.1, 77, p);
    struct stats_result r;
    stats_compare(p, count, 1, &r);
    check_int(r.decision, STATS_FASTER);
    for (int i = 0; i < count; i++)
        p[i].candidate_mhz = 1980 * 1.12;
    stats_compare(p, count, 1, &r);
    check(r.time.low > 1 && r.cycles.high < 1);
    check(r.decision != STATS_FASTER);
    for (int i = 0; i < count; i++)
        p[i].base_mhz = p[i].candidate_mhz = 0;
    stats_compare(p, count, 1, &r);
    check(!r.has_cycles);
    check_int(r.decision, STATS_FASTER);
}

/* A gain that a tenth of the blocks do not show is not published, however sure the median is. */
static void test_some_blocks(void)
{
    struct stats_pair p[MOST_PAIRS];
    int count = simulate(&once, &quiet, 1.05, 78, p);
    struct stats_result r;
    for (int i = 0; i < count; i++)
        if (p[i].block % 10 == 3)
            p[i].candidate_ns *= 1.10;
    stats_compare(p, count, 1, &r);
    check(r.time.low > 1 && !r.apart);
    check_int(r.decision, STATS_UNCLEAR);
}

/* Blocks that lost pairs count with what is left of them. */
static void test_uneven_blocks(void)
{
    struct stats_pair p[MOST_PAIRS];
    int count = simulate(&once, &quiet, 1.05, 79, p), left = 0;
    struct stats_result r;
    for (int i = 0; i < count; i += 24)
        p[i].base_mhz = 1500;
    int gone = stats_discard(p, count, &left);
    check_int(gone, 10);
    stats_compare(p, left, 1, &r);
    check(r.pairs == 230 && r.blocks == 30);
    check(r.time.low < 1.05 && 1.05 < r.time.high);
    check_int(r.decision, STATS_FASTER);
}

/* Blocks of four pairs, with no clock known; in block b the candidate is faster by that part. */
static struct stats_result of_blocks(const double *gains, int blocks)
{
    struct stats_pair p[4 * 64];
    struct stats_result r;
    for (int i = 0; i < 4 * blocks; i++)
        p[i] = (struct stats_pair){10000 + i % 4, (10000 + i % 4) * exp(-gains[i / 4]), 0, 0, i / 4, false, 0, 0};
    stats_compare(p, 4 * blocks, 3, &r);
    return r;
}

/* Of few blocks the interval is wider than what they themselves span, as far as nothing says that neighbours are alike. */
static void test_few_blocks(void)
{
    static const double gains[] = {0.01, -0.01, 0.01, -0.01, 0};
    const struct stats_result r = of_blocks(gains, 5);
    check(r.autocorrelation < 0.2);
    check(r.time.high > exp(0.016) && r.time.low < exp(-0.016));
    check(r.time.high < exp(0.03));
}

/* The same blocks in an order in which neighbours are alike say less. */
static void test_blocks_alike(void)
{
    double wave[24], mixed[24];
    for (int b = 0; b < 24; b++)
        wave[b] = 0.02 * sin(b * 0.2618), mixed[b * 7 % 24] = wave[b];
    const struct stats_result alike = of_blocks(wave, 24), apart = of_blocks(mixed, 24);
    check(alike.autocorrelation > apart.autocorrelation + 0.3);
    check(log(alike.time.high / alike.time.low) > 1.4 * log(apart.time.high / apart.time.low));
}

/* Faster in every block, by ranks and quartiles too, but by so little at first and so much in the end that the interval holds 1: not settled. */
static void test_interval_decides(void)
{
    double ramp[12];
    for (int b = 0; b < 12; b++)
        ramp[b] = 0.006 + 0.0175 * b;
    const struct stats_result r = of_blocks(ramp, 12);
    check(r.wilcoxon_p < STATS_WILCOXON_P && r.apart && r.time.median > 1.05 && r.time.low < 1);
    check_int(r.decision, STATS_UNCLEAR);
}

/* What a control of equal sides may say. */
static void test_alike(void)
{
    static const struct { struct stats_interval time; bool alike; } rows[] = {
        {{1, 0.999, 1.001}, true}, {{1.0005, 1.0001, 1.0009}, true}, {{1.004, 1.002, 1.006}, false}, {{0.996, 0.994, 0.998}, false}, {{1.004, 0.999, 1.009}, true},
        {{1, 0.96, 1.04}, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct stats_result r = {.time = rows[i].time};
        check_int(stats_alike(&r), rows[i].alike);
    }
}

/* What ends a control before its last look: an early difference has to be more certain, and the more so of few blocks. */
static void test_settled(void)
{
    static const struct { struct stats_interval time; int blocks; bool settled; } rows[] = {
        {{1, 0.998, 1.002}, 12, true}, {{1.0005, 1.0001, 1.0009}, 12, true}, {{1.002, 0.996, 1.008}, 12, false}, {{1.02, 1.01, 1.03}, 12, false},
        {{1.004, 1.001, 1.007}, 12, false}, {{1.004, 1.001, 1.007}, 60, false}, {{0.996, 0.993, 0.999}, 12, false},
        {{1.004, 1.0018, 1.0062}, 12, false}, {{1.004, 1.0018, 1.0062}, 60, true}, {{1.006, 1.003, 1.009}, 12, true}, {{0.994, 0.991, 0.997}, 12, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct stats_result r = {.time = rows[i].time, .blocks = rows[i].blocks};
        check_int(stats_control_settled(&r), rows[i].settled);
    }
}

/* A timer's interval holds the true median as often as it says, of what is skewed as well. */
static void test_timer(void)
{
    static const struct { int count; double low, high; } rows[] = {{1, 0, 0}, {5, 0, 4}, {101, 37, 63}, {720, 324, 395}};
    double values[720];
    struct stats_timer t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = rows[i].count;
        for (int k = 0; k < n; k++)
            values[k] = k;
        stats_timer_of(values, n, &t);
        check(t.count == n && t.median.median == (n - 1) / 2. && t.median.low == rows[i].low && t.median.high == rows[i].high);
        check(t.q1 <= t.median.median && t.median.median <= t.q3);
    }
    int missed = 0;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        for (int k = 0; k < 60; k++)
            values[k] = exp(2 * rng_normal(seed, 1, (uint64_t)k));      /* the true median is 1 */
        stats_timer_of(values, 60, &t);
        missed += t.median.low > 1 || t.median.high < 1;
    }
    check(missed > 0 && missed < 60);    /* of 4000, 40 were expected */
}

static void test_seed(void)
{
    struct stats_pair p[MOST_PAIRS];
    int count = simulate(&once, &worlds[0], 1.05, 5, p);
    struct stats_result a, b;
    stats_compare(p, count, 9, &a);
    stats_compare(p, count, 9, &b);
    check(a.time.low == b.time.low && a.time.high == b.time.high);
    cleanup(json) json_t *doc = stats_encode(&a);
    check(json_num(json_object_get(doc, "ratio"), "median", 0) == a.time.median);
}

int main(int argc, char **argv)
{
    test_median();
    test_wilcoxon();
    test_discard();
    test_clock_is_not_speed();
    test_some_blocks();
    test_uneven_blocks();
    test_seed();
    test_timer();
    test_few_blocks();
    test_blocks_alike();
    test_interval_decides();
    test_alike();
    test_settled();
    int runs = argc > 1 ? atoi(argv[1]) : 250;          /* 0: what needs no simulation; too few, and its own shares are chance */
    if (runs > 0) {
        test_controls(runs);
        test_control_early(8 * runs);
        test_control_sees(runs / 4);
        test_simulated(runs);
    }
    return test_done();
}
