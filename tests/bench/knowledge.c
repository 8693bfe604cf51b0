/*
 * What lessons save: the template search played again over stored times, with what was learnt at other shapes and without.
 *
 *   bench_knowledge JOINED.json measured_ns|estimate_ns OUT.json
 *
 * JOINED is bench_replay's. A game is one shape, left out: the plain search is played at each other shape of the same operator and dtypes
 * with a budget of its own, effects are fitted to what it tried there and to nothing else, and combined for the shape that is left out. Then
 * that is searched, and candidates are counted until one reaches 95 % of the best that is known. Arms: see arms[]. "random" is the control:
 * the same lessons with their effects dealt out anew among the values; it must not help.
 * estimate_ns plays with the emulator's estimates in place of times: what a host without a card sees. No measurement then.
 */
#include "know/effects.h"

#include "core/op.h"
#include "core/rng.h"
#include "server/generate/generate.h"

#include <math.h>
#include <string.h>

#define FILE_LIMIT ((size_t)64 << 20)
#define MOST_TRIES 40
#define LEARNT_FROM 24                   /* candidates of the search at a shape that is learnt from: the default budget */
#define GOAL 0.95
#define LEAST_SETTINGS 10
#define RANDOM_DEALS 5
#define MOST_GAMES 256
#define NEIGHBOURS 3

enum { NEAR = 1, ESTIMATED = 2, TAUGHT = 4, RANDOM = 8 };
static const struct { const char *name; unsigned with; } arms[] = {
    {"without", 0}, {"lessons", TAUGHT}, {"random", RANDOM}, {"neighbours", NEAR}, {"lessons+neighbours", TAUGHT | NEAR},
    {"estimates", ESTIMATED}, {"estimates+lessons", ESTIMATED | TAUGHT}, {"estimates+random", ESTIMATED | RANDOM}};
#define ARMS (sizeof arms / sizeof *arms)

struct game {
    struct shape shape;
    const json_t *settings;
    json_t *allowed, *estimated;         /* what may be proposed; the same with estimates */
    json_t *fit;                         /* learnt from the plain search here */
    double best;
    const json_t *best_setting;
};
static struct op_set ops;
static struct game games[MOST_GAMES];
static int game_count;
static const char *truth;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_knowledge: %s: %s\n", what, why);
    exit(2);
}

static const json_t *find(const json_t *settings, const json_t *origin)
{
    size_t i;
    json_t *one;
    json_array_foreach(settings, i, one)
        if (!strcmp(json_str(one, "template", ""), json_str(origin, "template", "-")) && json_equal(json_object_get(one, "params"), json_object_get(origin, "params")))
            return one;
    return NULL;
}

/* All that was not timed is said not to work, by an estimate that failed; what was timed has an estimate only where asked for. */
static json_t *estimates_of(const struct game *g, bool with_ns)
{
    const struct gen_input in = {.op = g->shape.op, .shape = &g->shape, .candidates_left = 1};
    struct err err = {0};
    json_t *list = NULL, *one;
    size_t i;
    if (!template_every(&in, &list, &err))
        die("templates", err.text);
    for (i = json_array_size(list); i-- > 0;) {
        one = json_array_get(list, i);
        const json_t *timed = find(g->settings, one);
        if (!timed)
            json_put(one, "ns", json_null());
        else if (with_ns)
            json_put(one, "ns", json_incref(json_object_get(timed, "estimate_ns")));
        else
            json_array_remove(list, i);
    }
    return list;
}

static bool take_game(struct game *g, const json_t *doc)
{
    struct faults f = {0};
    size_t i;
    json_t *one;
    *g = (struct game){.settings = json_object_get(doc, "settings"), .best = INFINITY};
    if (!shape_parse(&ops, json_object_get(doc, "shape"), "sm_90a", "", &g->shape, &f))
        die("shape", f.list[0].detail);
    g->allowed = estimates_of(g, false);
    g->estimated = estimates_of(g, true);
    int playable = 0;                    /* an older text of a template had other parameters */
    json_array_foreach(g->estimated, i, one)
        if (!json_is_null(json_object_get(one, "ns"))) {
            const json_t *timed = find(g->settings, one);
            double ns = json_num(timed, truth, 0);
            playable += ns > 0;
            if (ns > 0 && ns < g->best) {
                g->best = ns;
                g->best_setting = timed;
            }
        }
    return playable >= LEAST_SETTINGS;
}

struct play { int count, reached; double spent_ns; json_t *tried; };

static struct play play(const struct game *g, int budget, const json_t *estimates, const json_t *neighbours, const json_t *lessons, bool to_goal)
{
    struct gen_past past[MOST_TRIES];
    struct play p = {.tried = json_array()};
    for (int i = 0; i < budget; i++) {
        cleanup(gen_proposal) struct gen_proposal next = {0};
        struct err err = {0};
        struct gen_input in = {.op = g->shape.op, .shape = &g->shape, .past = past, .past_count = p.count, .baseline_ns = 2 * g->best, .candidates_left = budget - i,
                               .seed = 11, .measured = !strcmp(truth, "measured_ns"), .estimates = estimates, .neighbours = neighbours, .lessons = lessons};
        if (!template_propose(&in, &next, &err))
            die("propose", err.text);
        if (next.done)
            break;
        const json_t *timed = find(g->settings, next.origin);
        if (!timed)
            die("propose", "a setting that was not timed");
        double ns = json_num(timed, truth, 0);
        json_t *one = json_copy(next.origin);
        json_put_num(one, "ns", ns);
        json_array_append_new(p.tried, one);
        past[p.count++] = (struct gen_past){.id = "cand", .origin = one, .verdict = VERDICT_OK, .time_ns = ns};
        if (ns > 0 && g->best / ns >= GOAL) {
            p.reached = p.count;
            if (to_goal)
                break;
        }
    }
    return p;
}

static double far(const struct game *a, const struct game *b)
{
    double sum = 0;
    if (a->shape.op != b->shape.op || memcmp(a->shape.dtypes, b->shape.dtypes, sizeof a->shape.dtypes) || !memcmp(a->shape.axes, b->shape.axes, sizeof a->shape.axes))
        return INFINITY;                 /* another operator, or the very shape */
    for (int i = 0; i < a->shape.op->axis_count; i++)
        if (a->shape.op->axes[i].keyed)
            sum += fabs(log2((double)a->shape.axes[i] + 1) - log2((double)b->shape.axes[i] + 1));
    return sum;
}

static json_t *learn(const struct game *g)
{
    cleanup(json) json_t *fits = json_array();
    for (int i = 0; i < game_count; i++) {
        double d = far(g, &games[i]);
        if (isfinite(d))
            json_array_append_new(fits, json_pack("{s:O,s:f}", "fit", games[i].fit, "far", d));
    }
    cleanup(json) json_t *effects = effects_combine(fits);
    json_t *lessons = json_array(), *one;
    size_t i;
    json_array_foreach(effects, i, one)
        json_array_append_new(lessons, json_pack("{s:s,s:O}", "id", "les_bench", "effects", one));
    return lessons;
}

/* The effects of each parameter dealt out anew among its values; the levels of templates among the templates. */
static json_t *deal_anew(const json_t *lessons, uint64_t seed)
{
    static const char *const keys[] = {"effect", "deviation", "low", "high"};
    json_t *copy = json_deep_copy(lessons), *one;
    cleanup(json) json_t *templates = json_array();
    size_t i;
    json_array_foreach(copy, i, one) {
        json_t *effects = json_object_get(one, "effects");
        json_t *levels = json_object_get(effects, "levels");
        if (json_is_null(json_object_get(effects, "param"))) {
            if (json_array_size(levels))
                json_array_append(templates, json_array_get(levels, 0));
            continue;
        }
        for (size_t n = json_array_size(levels); n > 1; n--) {
            json_t *a = json_array_get(levels, n - 1), *b = json_array_get(levels, (size_t)rng_below(seed, i, n, n));
            for (size_t k = 0; k < 4 && a != b; k++) {
                json_t *x = json_incref(json_object_get(a, keys[k]));
                json_object_set(a, keys[k], json_object_get(b, keys[k]));
                json_put(b, keys[k], x);
            }
        }
    }
    for (size_t n = json_array_size(templates); n > 1; n--) {
        json_t *a = json_array_get(templates, n - 1), *b = json_array_get(templates, (size_t)rng_below(seed, 999, n, n));
        if (a == b)
            continue;
        json_t *x = json_incref(json_object_get(a, "effect"));
        json_object_set(a, "effect", json_object_get(b, "effect"));
        json_put(b, "effect", x);
    }
    return copy;
}

static json_t *neighbours_of(const struct game *g)
{
    json_t *list = json_array();
    bool taken[MOST_GAMES] = {false};
    for (int n = 0; n < NEIGHBOURS; n++) {
        int found = -1;
        for (int i = 0; i < game_count; i++)
            if (!taken[i] && isfinite(far(g, &games[i])) && (found < 0 || far(g, &games[i]) < far(g, &games[found])))
                found = i;
        if (found < 0)
            break;
        taken[found] = true;
        json_array_append_new(list, json_pack("{s:O,s:O}", "template", json_object_get(games[found].best_setting, "template"), "params",
                                              json_object_get(games[found].best_setting, "params")));
    }
    return list;
}

/* Candidates until the goal, as a number that can be averaged; what never came there counts as all of its settings. */
static double count_of(const struct game *g, unsigned with, const json_t *lessons, const json_t *near)
{
    double sum = 0;
    int deals = with & RANDOM ? RANDOM_DEALS : 1;
    for (int deal = 0; deal < deals; deal++) {
        cleanup(json) json_t *dealt = with & RANDOM ? deal_anew(lessons, (uint64_t)deal + 1) : NULL;
        struct play p = play(g, MOST_TRIES, with & ESTIMATED ? g->estimated : g->allowed, with & NEAR ? near : NULL, with & TAUGHT ? lessons : dealt, true);
        sum += p.reached ? p.reached : (double)json_array_size(g->settings);
        json_decref(p.tried);
    }
    return sum / deals;
}

static int run(const char *path, const char *out)
{
    struct err err = {0};
    cleanup(json) json_t *doc = NULL, *result = json_object(), *rows = json_array(), *means = json_object();
    double sum[ARMS] = {0}, log_sum[ARMS] = {0}, unseen_sum[ARMS] = {0};
    bool measured = !strcmp(truth, "measured_ns");
    int taught = 0;
    size_t i;
    json_t *one;
    if (!json_parse_file(path, FILE_LIMIT, &doc, &err))
        die(path, err.text);
    json_array_foreach(doc, i, one)
        if (game_count < MOST_GAMES && json_array_size(json_object_get(one, "settings")) >= LEAST_SETTINGS)
            game_count += take_game(&games[game_count], one);
    for (int g = 0; g < game_count; g++) {
        struct play p = play(&games[g], LEARNT_FROM, games[g].allowed, NULL, NULL, false);
        games[g].fit = effects_fit(p.tried);
        json_decref(p.tried);
    }
    printf("| operator | axes | settings | learnt at |");
    for (size_t a = 0; a < ARMS; a++)
        if (measured || !(arms[a].with & ESTIMATED))
            printf(" %s |", arms[a].name);
    printf("\n");
    for (int g = 0; g < game_count; g++) {
        cleanup(json) json_t *lessons = learn(&games[g]), *near = neighbours_of(&games[g]), *row = json_object();
        cleanup(json) json_t *shape = shape_encode(&games[g].shape);
        cleanup(str) char *axes = json_text(json_object_get(shape, "axes"));
        int others = 0;
        for (int k = 0; k < game_count; k++)
            others += isfinite(far(&games[g], &games[k]));
        taught += others > 0;
        printf("| %s | `%s` | %zu | %d |", games[g].shape.op->name, axes, json_array_size(games[g].settings), others);
        json_put(row, "shape", json_incref(shape));
        json_put_int(row, "learnt_at", others);
        for (size_t a = 0; a < ARMS; a++) {
            if (!measured && (arms[a].with & ESTIMATED))
                continue;
            double n = count_of(&games[g], arms[a].with, lessons, near);
            printf(" %.3g |", n);
            json_put_num(row, arms[a].name, n);
            sum[a] += n;
            log_sum[a] += log(n);
            unseen_sum[a] += others ? n : 0;
        }
        printf("\n");
        json_array_append(rows, row);
    }
    for (size_t a = 0; a < ARMS; a++)
        if (measured || !(arms[a].with & ESTIMATED)) {
            printf("%-20s mean %.2f candidates to 95 %% (geometric %.2f) over %d games; %.2f over the %d with something to learn from: %.0f %% of without\n", arms[a].name,
                   sum[a] / game_count, exp(log_sum[a] / game_count), game_count, unseen_sum[a] / taught, taught, 100 * unseen_sum[a] / unseen_sum[0]);
            json_put(means, arms[a].name, json_pack("{s:f,s:f,s:f}", "mean", sum[a] / game_count, "geometric", exp(log_sum[a] / game_count), "mean_where_taught",
                                                    unseen_sum[a] / taught));
        }
    json_put_str(result, "what", measured ? "a replay over times measured on a card" : "a replay over the emulator's estimates: no measurement");
    json_put(result, "candidates_to_95_percent", json_incref(means));
    json_put(result, "games", json_incref(rows));
    cleanup(buf) struct buf text = {0};
    json_write_pretty(&text, result);
    if (!file_write(out, text.data, text.size, 0644, &err))
        die(out, err.text);
    for (int g = 0; g < game_count; g++) {
        json_decref(games[g].allowed);
        json_decref(games[g].estimated);
        json_decref(games[g].fit);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    const char *dir = getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *fallback = op_default_dir();
    if (argc != 4 || (strcmp(argv[2], "measured_ns") && strcmp(argv[2], "estimate_ns"))) {
        fprintf(stderr, "usage: bench_knowledge JOINED.json measured_ns|estimate_ns OUT.json\n");
        return 2;
    }
    truth = argv[2];
    if (!op_set_load(dir ? dir : fallback, &ops, &err))
        die("operators", err.text);
    int rc = run(argv[1], argv[3]);
    op_set_done(&ops);
    return rc;
}
