/*
 * The statistics in simulation, with fixed seeds: how often a kernel that is no faster is called faster, how often a real gain is
 * found, how often the interval holds the truth; and each opinion by itself against figures from tables.
 */
#include "gpu/judge/stats.h"
#include "core/rng.h"
#include "tests/test.h"

#define RUNS 120
#define BLOCKS 30
#define SIZE 8

/* Pairs with a drift common to both, a block effect, pair noise, and now and then a slow outlier. */
static void simulate(struct stats_pair *p, double speedup, double noise, uint64_t seed)
{
    for (int i = 0; i < BLOCKS * SIZE; i++) {
        double drift = 1 + 0.02 * sin(i * 0.01) + 0.003 * rng_normal(seed, 1, (uint64_t)(i / SIZE));
        double slow = rng_unit(seed, 4, (uint64_t)i) < 0.02 ? 1.3 : 1, slow2 = rng_unit(seed, 5, (uint64_t)i) < 0.02 ? 1.3 : 1;
        p[i].base_ns = 10000 * drift * slow * exp(noise * rng_normal(seed, 2, (uint64_t)i));
        p[i].candidate_ns = 10000 / speedup * drift * slow2 * exp(noise * rng_normal(seed, 3, (uint64_t)i));
        p[i].base_mhz = p[i].candidate_mhz = 1980;
    }
}

struct tally { int decisions[4], covered, alike; };

static struct tally many(double speedup, double noise, uint64_t salt)
{
    struct tally t = {0};
    static struct stats_pair pairs[BLOCKS * SIZE];
    for (int run = 0; run < RUNS; run++) {
        struct stats_result r;
        simulate(pairs, speedup, noise, rng_mix(salt + (uint64_t)run));
        stats_compare(pairs, BLOCKS * SIZE, SIZE, (uint64_t)run, &r);
        t.decisions[r.decision]++;
        t.covered += r.time.low <= speedup && speedup <= r.time.high;
        t.alike += stats_alike(&r);
    }
    printf("speed-up %.3f noise %.3f: faster %d same %d slower %d unclear %d; covered %d, alike %d of %d\n", speedup, noise,
           t.decisions[STATS_FASTER], t.decisions[STATS_SAME_SPEED], t.decisions[STATS_SLOWER], t.decisions[STATS_UNCLEAR], t.covered,
           t.alike, RUNS);
    return t;
}

static void test_simulated(void)
{
    /* A/A: never called faster or slower, called alike nearly always. */
    struct tally aa = many(1.0, 0.005, 1);
    check_int(aa.decisions[STATS_FASTER], 0);
    check(aa.decisions[STATS_SAME_SPEED] >= RUNS * 98 / 100);
    check(aa.alike >= RUNS * 97 / 100);
    check(aa.covered >= RUNS * 96 / 100);
    struct tally noisy = many(1.0, 0.05, 2);
    check_int(noisy.decisions[STATS_FASTER], 0);
    /* Power: 5 % in quiet samples, 20 % in noisy ones. */
    struct tally five = many(1.06, 0.004, 3);
    check(five.decisions[STATS_FASTER] >= RUNS * 95 / 100);
    check(five.covered >= RUNS * 96 / 100);
    struct tally twenty = many(1.30, 0.02, 4);
    check(twenty.decisions[STATS_FASTER] >= RUNS * 95 / 100);
    /* Slower is never faster. */
    struct tally slow = many(0.9, 0.01, 5);
    check_int(slow.decisions[STATS_SLOWER], RUNS);
    /* A gain inside the noise stays open. */
    struct tally open = many(1.02, 0.05, 6);
    check_int(open.decisions[STATS_FASTER], 0);
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
        p[i] = (struct stats_pair){100 + i, 50, 1980, 1980};
    int left = 0;
    check_int(stats_discard(p, 40, 4, &left), 0);
    check_int(left, 40);
    p[5].candidate_mhz = 1900;      /* differs by 4 % */
    p[13].base_mhz = p[13].candidate_mhz = 1200;    /* both slow */
    check_int(stats_discard(p, 40, 4, &left), 8);
    check_int(left, 32);
    check(p[4].base_ns == 108 && p[8].base_ns == 116);
    struct stats_pair unknown[4] = {{1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 0}};
    check_int(stats_discard(unknown, 4, 2, &left), 0);
}

/* Faster in time by a higher clock alone is not faster. */
static void test_clock_is_not_speed(void)
{
    struct stats_pair p[BLOCKS * SIZE];
    simulate(p, 1.1, 0.004, 77);
    struct stats_result r;
    stats_compare(p, BLOCKS * SIZE, SIZE, 1, &r);
    check_int(r.decision, STATS_FASTER);
    for (int i = 0; i < BLOCKS * SIZE; i++)
        p[i].candidate_mhz = 1980 * 1.12;
    stats_compare(p, BLOCKS * SIZE, SIZE, 1, &r);
    check(r.time.low > 1);
    check(r.decision != STATS_FASTER);
    for (int i = 0; i < BLOCKS * SIZE; i++)
        p[i].base_mhz = p[i].candidate_mhz = 0;
    stats_compare(p, BLOCKS * SIZE, SIZE, 1, &r);
    check(!r.has_cycles);
    check_int(r.decision, STATS_FASTER);
}

static void test_seed(void)
{
    struct stats_pair p[BLOCKS * SIZE];
    simulate(p, 1.05, 0.02, 5);
    struct stats_result a, b;
    stats_compare(p, BLOCKS * SIZE, SIZE, 9, &a);
    stats_compare(p, BLOCKS * SIZE, SIZE, 9, &b);
    check(a.time.low == b.time.low && a.time.high == b.time.high);
    cleanup(json) json_t *doc = stats_encode(&a);
    check(json_num(json_object_get(doc, "ratio"), "median", 0) == a.time.median);
}

int main(void)
{
    test_median();
    test_wilcoxon();
    test_discard();
    test_clock_is_not_speed();
    test_seed();
    test_simulated();
    return test_done();
}
