/*
 * Two ways to say "98 % of its best with a third of the candidates", and they differ:
 *
 *   goal    the sum over games of the candidates until a game is within 2 %, by that of the plain search (a few hard games weigh most)
 *   mean    candidates until the geometric mean over games of the best so far is within 2 % of the best known
 *
 * and the share of games within 2 % against candidates per game, these as a part of what the plain search needs in the mean. How sure the
 * first is: games drawn anew with replacement. Games of an operator are alike, so the true interval is wider.
 */
#include "tests/bench/replay_curve.h"

#include "core/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GOAL 0.02
#define DRAWS 4000
#define SEED 1
#define SHOWN 12

const char *const arm_names[ARMS] = {"plain", "neighbours", "estimates", "both"};
const char *const part_names[PARTS + 1] = {"untouched", "led_to_a_term", "fitted", "all"};

static int games_of(const struct curves *c, enum part part, int *ret)
{
    int n = 0;
    for (int i = 0; i < c->count; i++)
        if (part == ALL || c->games[i].part == part)
            ret[n++] = i;
    return n;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The middle 95 % of the candidates of an arm over those of the plain search, over draws of as many games. */
static void interval(const struct curves *c, const int *mine, int n, int arm, double *ret_low, double *ret_high)
{
    static double share[DRAWS];
    for (int d = 0; d < DRAWS; d++) {
        double sum = 0, plain = 0;
        for (int i = 0; i < n; i++) {
            int k = (int)(rng_unit(SEED, (uint64_t)d, (uint64_t)i) * n);
            const struct curve_game *g = &c->games[mine[k < n ? k : n - 1]];
            sum += g->tries[arm];
            plain += g->tries[PLAIN];
        }
        share[d] = sum / plain;
    }
    qsort(share, DRAWS, sizeof *share, by_value);
    *ret_low = share[DRAWS / 40];
    *ret_high = share[DRAWS - 1 - DRAWS / 40];
}

static json_t *arm_curve(const struct curves *c, const int *mine, int n, int arm, double plain_mean)
{
    json_t *doc = json_object(), *within = json_array(), *above = json_array();
    double sum = 0, low, high;
    int mean_goal = 0;
    for (int i = 0; i < n; i++)
        sum += c->games[mine[i]].tries[arm];
    interval(c, mine, n, arm, &low, &high);
    printf("  %-10s within 2 %%:", arm_names[arm]);
    for (int k = 0; k < MOST_TRIES; k++) {
        double log_above = 0;
        int reached = 0;
        for (int i = 0; i < n; i++) {
            log_above += c->games[mine[i]].log_above[arm][k] / n;
            reached += c->games[mine[i]].log_above[arm][k] <= log1p(GOAL) + 1e-12;
        }
        if (!mean_goal && exp(log_above) <= 1 + GOAL)
            mean_goal = k + 1;
        json_array_append_new(within, json_real((double)reached / n));
        json_array_append_new(above, json_real(exp(log_above) - 1));
        if (k < SHOWN)
            printf(" %3.0f%%", 100.0 * reached / n);
    }
    printf("; goal %.0f %% of plain (%.0f to %.0f %%), mean within 2 %% after %d\n", 100 * sum / n / plain_mean, 100 * low, 100 * high, mean_goal);
    json_put(doc, "games_within_2_percent_after_k", within);
    json_put(doc, "above_best_after_k", above);
    json_put_num(doc, "mean_candidates", sum / n);
    json_put_num(doc, "of_plain", sum / n / plain_mean);
    json_put_num(doc, "of_plain_low", low);
    json_put_num(doc, "of_plain_high", high);
    json_put_int(doc, "candidates_until_mean_within_2_percent", mean_goal);
    return doc;
}

json_t *curves_show(const struct curves *c, enum part part)
{
    int mine[MOST_GAMES];
    const int n = games_of(c, part, mine);
    json_t *doc = json_object();
    double plain = 0;
    if (!n)
        return doc;
    for (int i = 0; i < n; i++)
        plain += (double)c->games[mine[i]].tries[PLAIN] / n;
    printf("%s, %d games; candidates as a part of the plain search's %.2f:", part_names[part], n, plain);
    for (int k = 0; k < SHOWN; k++)
        printf(" %3.0f%%", 100 * (k + 1) / plain);
    printf("\n");
    json_put_int(doc, "games", n);
    for (int a = 0; a < ARMS; a++)
        json_put(doc, arm_names[a], arm_curve(c, mine, n, a, plain));
    return doc;
}
