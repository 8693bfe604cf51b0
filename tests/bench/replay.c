/*
 * The template search played again over stored times: how many candidates it needs, with the emulator's estimates and without.
 *
 *   bench_replay join TIMES.json COUNTS.json OUT.json   times of a card (bench_settings time, or a list of its entries) beside the
 *                                                       emulator's estimates of the same settings (bench_settings count)
 *   bench_replay order JOINED.json OUT.json             of all pairs that differ by more than 5 %: which part is estimated in order
 *   bench_replay play JOINED.json OUT.json              candidates until within 2 % of the best known, and the curves (replay_curve.c)
 *   bench_replay sample JOINED.json OUT.json SEED       games for choosing between rules (replay_sample.c)
 *
 * JOINED: [{"shape","settings":[{"template","params","measured_ns","estimate_ns"},...]},...]. A game is one shape: the search may
 * propose what was timed and nothing else, and is told the time. Only measured_ns are measurements.
 */
#include "core/op.h"
#include "server/generate/generate.h"
#include "tests/bench/replay_curve.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define FILE_LIMIT ((size_t)64 << 20)
#define APART 0.05                       /* pairs that differ by less are no test of an order */
#define GOAL 0.02
#define LEAST_SETTINGS 10                /* of a game */

static struct op_set ops;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_replay: %s: %s\n", what, why);
    exit(2);
}

static json_t *read_json(const char *path)
{
    struct err err = {0};
    json_t *doc = NULL;
    if (!json_parse_file(path, FILE_LIMIT, &doc, &err))
        die(path, err.text);
    return doc;
}

static void write_json(const char *path, const json_t *doc)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    json_write_pretty(&text, doc);
    if (!file_write(path, text.data, text.size, 0644, &err))
        die(path, err.text);
}

static void take_shape(const json_t *doc, struct shape *s)
{
    struct faults f = {0};
    if (!shape_parse(&ops, doc, "sm_90a", "", s, &f))
        die("shape", f.list[0].detail);
}

/* ---- join ---- */

static char *key_of(const json_t *entry)
{
    struct shape s;
    take_shape(json_object_get(entry, "shape"), &s);
    cleanup(json) json_t *params = json_deep_copy(json_object_get(entry, "params"));
    if (!json_str(params, "template", NULL) && json_is_object(params))
        json_put_str(params, "template", "rows");        /* older lists are of operators with one template */
    cleanup(str) char *text = json_dumps(params ? params : json_null(), JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY);
    return xfmt("%s %s", shape_hash(&s).text, text);
}

static json_t *game_of(json_t *games, const json_t *shape_doc)
{
    struct shape s;
    json_t *game;
    size_t i;
    take_shape(shape_doc, &s);
    cleanup(json) json_t *shape = shape_encode(&s);
    json_array_foreach(games, i, game)
        if (json_equal(json_object_get(game, "shape"), shape))
            return game;
    game = json_object();
    json_put(game, "shape", json_incref(shape));
    json_put(game, "settings", json_array());
    json_array_append_new(games, game);
    return game;
}

static int run_join(const char *times_path, const char *counts_path, const char *out)
{
    cleanup(json) json_t *times = read_json(times_path), *counts = read_json(counts_path), *estimates = json_object(), *games = json_array();
    const json_t *list = json_is_array(times) ? times : json_object_get(times, "times");
    json_t *entry;
    size_t i;
    int joined = 0;
    json_array_foreach(counts, i, entry) {
        cleanup(str) char *key = key_of(entry);
        json_put(estimates, key, json_incref(json_object_get(entry, "estimate_ns")));
    }
    json_array_foreach(list, i, entry) {
        cleanup(str) char *key = key_of(entry);
        json_t *params = json_object_get(entry, "params");
        if (!json_is_object(params) || !json_object_get(estimates, key))
            continue;
        json_t *one = json_object(), *copy = json_deep_copy(params);
        json_put_str(one, "template", json_str(params, "template", "rows"));
        json_object_del(copy, "template");
        json_put(one, "params", copy);
        json_put_num(one, "measured_ns", json_num(entry, "ns", 0));
        json_put_num(one, "estimate_ns", json_num(estimates, key, 0));
        json_array_append_new(json_object_get(game_of(games, json_object_get(entry, "shape")), "settings"), one);
        joined++;
    }
    write_json(out, games);
    printf("%d settings of %zu shapes\n", joined, json_array_size(games));
    return 0;
}

/* ---- order ---- */

struct pairs { int64_t right, all; };

static struct pairs count_pairs(const json_t *settings)
{
    struct pairs p = {0};
    for (size_t i = 0; i < json_array_size(settings); i++)
        for (size_t k = 0; k < i; k++) {
            const json_t *a = json_array_get(settings, i), *b = json_array_get(settings, k);
            double x = json_num(a, "measured_ns", 0), y = json_num(b, "measured_ns", 0);
            double d = json_num(a, "estimate_ns", 0) - json_num(b, "estimate_ns", 0);
            if (fmax(x, y) <= (1 + APART) * fmin(x, y))
                continue;
            p.all++;
            p.right += (x > y && d > 0) || (x < y && d < 0);
        }
    return p;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *list, size_t n)
{
    qsort(list, n, sizeof *list, by_value);
    return n ? (list[(n - 1) / 2] + list[n / 2]) / 2 : NAN;
}

/*
 * What an operator's times were used for: nothing; they led to what a division costs, or to a count that was mended, and no constant was
 * chosen by them (of gemm_nt but what a cluster costs, by ten settings that were timed before); or the constants were fitted to them.
 */
static enum part part_of(const char *op)
{
    static const char *const led[] = {"silu_and_mul", "quant_fp8_per_token", "gated_rmsnorm", "gemm_nt"};
    static const char *const fitted[] = {"gdn_packed_decode", "rmsnorm", "gdn_decode_step"};
    for (size_t i = 0; i < sizeof led / sizeof *led; i++)
        if (!strcmp(op, led[i]))
            return LED;
    for (size_t i = 0; i < sizeof fitted / sizeof *fitted; i++)
        if (!strcmp(op, fitted[i]))
            return FITTED;
    return UNTOUCHED;
}

static int run_order(const char *path, const char *out)
{
    cleanup(json) json_t *games = read_json(path), *rows = json_array(), *doc = json_object();
    cleanup(mem) void *memory = xarray(PARTS * (json_array_size(games) + 1), sizeof(double));
    double *shares[PARTS];
    size_t n[PARTS] = {0}, i;
    json_t *game, *medians = json_object();
    for (int k = 0; k < PARTS; k++)
        shares[k] = (double *)memory + (size_t)k * (json_array_size(games) + 1);
    printf("| operator | axes | settings | pairs over 5 %% | in order |\n|---|---|---|---|---|\n");
    json_array_foreach(games, i, game) {
        const json_t *shape = json_object_get(game, "shape"), *settings = json_object_get(game, "settings");
        struct pairs p = count_pairs(settings);
        const enum part part = part_of(json_str(shape, "op", ""));
        if (p.all < 10)
            continue;
        double share = (double)p.right / (double)p.all;
        cleanup(str) char *axes = json_text(json_object_get(shape, "axes"));
        printf("| %s%s | `%s` | %zu | %lld | %.2f |\n", json_str(shape, "op", ""), part == FITTED ? " (fitted)" : part == LED ? " (led to a term)" : "", axes, json_array_size(settings), (long long)p.all, share);
        shares[part][n[part]++] = share;
        json_array_append_new(rows, json_pack("{s:O,s:i,s:I,s:f,s:s}", "shape", shape, "settings", (int)json_array_size(settings), "pairs",
                                              (json_int_t)p.all, "in_order", share, "part", part_names[part]));
    }
    for (int k = 0; k < PARTS; k++) {
        printf("%s: median of %zu shapes %.3f\n", part_names[k], n[k], median(shares[k], n[k]));
        json_put_num(medians, part_names[k], median(shares[k], n[k]));
    }
    json_put(doc, "shapes", json_incref(rows));
    json_put(doc, "medians", medians);
    write_json(out, doc);
    return 0;
}

/* ---- play ---- */

struct play {
    struct gen_past past[MOST_TRIES];
    json_t *keep[MOST_TRIES];
    int count, reached;                  /* tries until within GOAL; 0: never */
    double best[MOST_TRIES], spent_ns;   /* best so far; sum of the times of all tried until the goal */
};

static const json_t *find(const json_t *settings, const json_t *origin)
{
    size_t i;
    json_t *one;
    json_array_foreach(settings, i, one)
        if (!strcmp(json_str(one, "template", ""), json_str(origin, "template", "-")) &&
            json_equal(json_object_get(one, "params"), json_object_get(origin, "params")))
            return one;
    return NULL;
}

/* What may be proposed: everything that was not timed is said not to work, by way of an estimate that failed. */
static json_t *estimates_of(const struct shape *s, const json_t *settings, bool with_ns, struct err *err);

static const json_t *best_of(const json_t *settings)
{
    const json_t *best = NULL, *one;
    size_t i;
    json_array_foreach(settings, i, one)
        if (!best || json_num(one, "measured_ns", 0) < json_num(best, "measured_ns", 0))
            best = one;
    return best;
}

static double far(const struct shape *a, const struct shape *b)
{
    double sum = 0;
    if (a->op != b->op || memcmp(a->dtypes, b->dtypes, sizeof a->dtypes))
        return INFINITY;
    for (int i = 0; i < a->op->axis_count; i++)
        sum += fabs(log2((double)a->axes[i] + 1) - log2((double)b->axes[i] + 1));
    return sum;
}

/* The best settings of the three nearest other shapes. */
static json_t *neighbours_of(const json_t *games, const json_t *mine)
{
    struct shape s, other;
    json_t *list = json_array(), *game;
    double last = -1;
    take_shape(json_object_get(mine, "shape"), &s);
    for (int n = 0; n < 3; n++) {
        const json_t *found = NULL;
        double least = INFINITY;
        size_t i;
        json_array_foreach(games, i, game) {
            take_shape(json_object_get(game, "shape"), &other);
            double d = far(&s, &other);
            if (game != mine && d > last && d < least) {
                least = d;
                found = game;
            }
        }
        if (!found)
            break;
        last = least;
        const json_t *best = best_of(json_object_get(found, "settings"));
        json_array_append_new(list, json_pack("{s:O,s:O}", "template", json_object_get(best, "template"), "params", json_object_get(best, "params")));
    }
    return list;
}

static json_t *estimates_of(const struct shape *s, const json_t *settings, bool with_ns, struct err *err)
{
    const struct gen_input in = {.op = s->op, .shape = s, .candidates_left = 1};
    json_t *list = NULL, *one;
    size_t i;
    if (!template_every(&in, &list, err))
        die("templates", err->text);
    json_array_foreach(list, i, one) {
        const json_t *timed = find(settings, one);
        if (!timed)
            json_put(one, "ns", json_null());
        else if (with_ns)
            json_put(one, "ns", json_incref(json_object_get(timed, "estimate_ns")));
    }
    for (i = json_array_size(list); i-- > 0;)
        if (!json_object_get(json_array_get(list, i), "ns"))
            json_array_remove(list, i);
    return list;
}

static void play(const json_t *game, const struct shape *s, const json_t *estimates, const json_t *neighbours, struct play *p)
{
    const json_t *settings = json_object_get(game, "settings");
    const double goal = json_num(best_of(settings), "measured_ns", 0) * (1 + GOAL);
    double best = INFINITY;
    for (int i = 0; i < MOST_TRIES; i++, p->count++) {
        cleanup(gen_proposal) struct gen_proposal g = {0};
        struct err err = {0};
        struct gen_input in = {.op = s->op, .shape = s, .past = p->past, .past_count = p->count, .baseline_ns = 2 * goal,
                               .candidates_left = MOST_TRIES - i, .seed = 11, .measured = true, .estimates = estimates, .neighbours = neighbours};
        if (!template_propose(&in, &g, &err))
            die("propose", err.text);
        if (g.done)
            return;
        const json_t *timed = find(settings, g.origin);
        if (!timed)
            die("propose", "a setting that was not timed");
        double ns = json_num(timed, "measured_ns", 0);
        p->keep[i] = json_incref(g.origin);
        p->past[i] = (struct gen_past){.id = "cand", .origin = g.origin, .verdict = VERDICT_OK, .time_ns = ns};
        best = fmin(best, ns);
        p->best[i] = best;
        if (!p->reached) {
            p->spent_ns += ns;
            p->reached = best <= goal ? i + 1 : 0;
        }
    }
}

/* Expected tries when drawing at random, without replacement. */
static double by_chance(const json_t *settings)
{
    const double goal = json_num(best_of(settings), "measured_ns", 0) * (1 + GOAL);
    int good = 0;
    size_t i;
    json_t *one;
    json_array_foreach(settings, i, one)
        good += json_num(one, "measured_ns", 0) <= goal;
    return (double)(json_array_size(settings) + 1) / (good + 1);
}

static int run_play(const char *path, const char *out)
{
    cleanup(json) json_t *games = read_json(path), *rows = json_array(), *doc = json_object(), *curves = json_object();
    cleanup(mem) void *memory = xalloc(sizeof(struct curves));
    struct curves *all = memory;
    double sum[PARTS][ARMS] = {{0}}, chance = 0;
    int count[PARTS] = {0}, unreached[ARMS] = {0};
    size_t g;
    json_t *game;
    printf("| operator | axes | settings | by chance | plain | neighbours | estimates | both |\n|---|---|---|---|---|---|---|---|\n");
    json_array_foreach(games, g, game) {
        const json_t *settings = json_object_get(game, "settings");
        struct shape s;
        struct err err = {0};
        if (json_array_size(settings) < LEAST_SETTINGS)
            continue;
        take_shape(json_object_get(game, "shape"), &s);
        cleanup(json) json_t *with = estimates_of(&s, settings, true, &err), *without = estimates_of(&s, settings, false, &err);
        int playable = 0;                /* an older text of a template had other parameters */
        for (size_t i = 0; i < json_array_size(with); i++)
            playable += !json_is_null(json_object_get(json_array_get(with, i), "ns"));
        if (playable < LEAST_SETTINGS)
            continue;
        cleanup(json) json_t *near = neighbours_of(games, game), *row = json_object(), *tries = json_object();
        cleanup(str) char *axes = json_text(json_object_get(json_object_get(game, "shape"), "axes"));
        printf("| %s | `%s` | %zu | %.1f |", s.op->name, axes, json_array_size(settings), by_chance(settings));
        const double least = json_num(best_of(settings), "measured_ns", 0);
        const enum part part = part_of(s.op->name);
        if (all->count == MOST_GAMES)
            die("play", "too many games");
        struct curve_game *seen = &all->games[all->count++];
        seen->part = part;
        for (int a = 0; a < ARMS; a++) {
            struct play p = {.count = 0};
            play(game, &s, a == ESTIMATES || a == BOTH ? with : without, a == NEIGHBOURS || a == BOTH ? near : NULL, &p);
            for (int k = 0; k < MOST_TRIES && p.count; k++)
                seen->log_above[a][k] = log(p.best[k < p.count ? k : p.count - 1] / least);
            unreached[a] += !p.reached;
            seen->tries[a] = p.reached ? p.reached : (int)json_array_size(settings);    /* then all of them have to be timed */
            sum[part][a] += seen->tries[a];
            printf(" %d%s |", p.reached ? p.reached : p.count, p.reached ? "" : " (not)");
            json_put(tries, arm_names[a], p.reached ? json_integer(p.reached) : json_null());
            for (int k = 0; k < p.count; k++)
                json_decref(p.keep[k]);
        }
        printf("\n");
        chance += by_chance(settings);
        count[part]++;
        json_put_str(row, "part", part_names[part]);
        json_put(row, "shape", json_incref(json_object_get(game, "shape")));
        json_put_int(row, "settings", (int64_t)json_array_size(settings));
        json_put_num(row, "by_chance", by_chance(settings));
        json_put(row, "candidates_to_2_percent", json_incref(tries));
        json_array_append(rows, row);
    }
    const int n = count[UNTOUCHED] + count[LED] + count[FITTED];
    json_t *parts = json_object();
    printf("mean of %d games: by chance %.2f", n, chance / n);
    for (int a = 0; a < ARMS; a++)
        printf(", %s %.2f (%d not reached)", arm_names[a], (sum[UNTOUCHED][a] + sum[LED][a] + sum[FITTED][a]) / n, unreached[a]);
    for (int h = 0; h < PARTS; h++) {
        json_t *means = json_object();
        printf("\n%s, %d games:", part_names[h], count[h]);
        for (int a = 0; a < ARMS && count[h]; a++) {
            printf(" %s %.2f", arm_names[a], sum[h][a] / count[h]);
            json_put_num(means, arm_names[a], sum[h][a] / count[h]);
        }
        json_put_int(means, "games", count[h]);
        json_put(parts, part_names[h], means);
    }
    printf("\n");
    for (int h = 0; h <= PARTS; h++)
        json_put(curves, part_names[h], curves_show(all, (enum part)h));
    json_put_str(doc, "what", "a replay over times measured on a card (measured_ns); the estimates are the emulator's");
    json_t *means = json_object();
    for (int a = 0; a < ARMS; a++)
        json_put_num(means, arm_names[a], (sum[UNTOUCHED][a] + sum[LED][a] + sum[FITTED][a]) / n);
    json_put_num(means, "by_chance", chance / n);
    json_put(doc, "mean_candidates_to_2_percent", means);
    json_put(doc, "mean_candidates_of_part", parts);
    json_put(doc, "games", json_incref(rows));
    json_put(doc, "curves", json_incref(curves));
    write_json(out, doc);
    return 0;
}

/* gdn_decode_step was timed with an older text and cannot be played. */
static bool sampled(const char *op)
{
    return part_of(op) == FITTED && strcmp(op, "gdn_decode_step") != 0;
}

static int run_sample(const char *path, const char *out, const char *seed)
{
    cleanup(json) json_t *games = read_json(path), *list = sample_games(games, strtoull(seed, NULL, 10), sampled);
    write_json(out, list);
    printf("%zu games\n", json_array_size(list));
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    const char *dir = getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *fallback = op_default_dir();
    if (!op_set_load(dir ? dir : fallback, &ops, &err))
        die("operators", err.text);
    int rc = 2;
    if (argc == 5 && !strcmp(argv[1], "join"))
        rc = run_join(argv[2], argv[3], argv[4]);
    else if (argc == 4 && !strcmp(argv[1], "order"))
        rc = run_order(argv[2], argv[3]);
    else if (argc == 4 && !strcmp(argv[1], "play"))
        rc = run_play(argv[2], argv[3]);
    else if (argc == 5 && !strcmp(argv[1], "sample"))
        rc = run_sample(argv[2], argv[3], argv[4]);
    else
        fprintf(stderr, "usage: bench_replay join TIMES.json COUNTS.json OUT.json | order JOINED.json OUT.json | play JOINED.json OUT.json | sample JOINED.json OUT.json SEED\n");
    op_set_done(&ops);
    return rc;
}
