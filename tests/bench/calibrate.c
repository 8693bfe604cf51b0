/*
 * Fits the estimate's constants to measured times of template settings, and says how far off it is.
 *
 *   bench_calibrate COUNTS.json TIMES.json            with the constants as compiled in: errors on both halves
 *   bench_calibrate COUNTS.json TIMES.json fit        fits to one half and prints the table of gpu/ptx/estimate.h
 *   bench_calibrate COUNTS.json TIMES.json list       each setting: measured, estimated, what bounds it
 *
 * COUNTS are of `bench_settings count`, TIMES of `bench_settings time` on a card. A setting belongs to the fitted half if a hash of its
 * operator and parameters is even: all shapes of one setting are in the same half. Baselines are in neither: they are reported apart.
 * The error is the logarithm of estimate / measured; 0.1 is about 10 %.
 */
#include "core/rng.h"
#include "gpu/ptx/estimate.h"

#include "core/json.h"

#include <math.h>
#include <string.h>

#define MOST 1024
#define FILE_LIMIT ((size_t)16 << 20)
#define GRAPH_FIXED_NS 2515.0      /* a graph's own time: 3018 ns for one empty node of 503 */

enum half { FITTED, HELD_OUT, BASELINES, HALVES };
struct item {
    struct ptx_counts counts;
    struct ptx_launch launch;
    struct ptx_resources resources;
    enum half half;
    int shape;
    double measured_ns, estimated_ns;
    char bound[16];
    const char *label;
};
static struct item items[MOST];
static int item_count, shape_count;
static char *shapes[64];
static const struct ptx_device_row *row;

static const struct { const char *name; size_t at; } fields[] = {
#define F(field) {#field, offsetof(struct ptx_counts, field)}
    F(warp_instructions), F(blocks), F(warps), F(global_load_requests), F(global_store_requests), F(global_load_sectors), F(global_store_sectors),
    F(unique_load_sectors), F(unique_store_sectors), F(shared_requests), F(shared_wavefronts), F(barriers), F(longest_warp_instructions),
    F(dependent_loads), F(l1_hit_sectors), F(l2_load_sectors), F(l2_hit_sectors), F(l2_store_sectors), F(dram_load_sectors),
    F(dram_store_sectors), F(modelled_blocks), F(chain_cycles), F(expanded_cycles),
    F(cluster_releases), F(cluster_drains)};
static const struct { const char *name; double least, most; } constants[] = {
#define X(name, value, least, most, what) {#name, least, most},
    PTX_ESTIMATE_TABLE(X)
#undef X
};
#define CONSTANTS (sizeof constants / sizeof *constants)
_Static_assert(sizeof(struct ptx_estimate_model) == CONSTANTS * sizeof(double), "all constants are doubles");

static void read_json(const char *path, json_t **ret)
{
    struct err err = {0};
    if (!json_parse_file(path, FILE_LIMIT, ret, &err)) {
        fprintf(stderr, "%s: %s\n", path, err.text);
        exit(2);
    }
}

static int shape_of(const json_t *doc)
{
    char *text = json_text(doc);
    for (int i = 0; i < shape_count; i++)
        if (!strcmp(shapes[i], text)) {
            free(text);
            return i;
        }
    BUG_ON(shape_count == 64);
    shapes[shape_count] = text;
    return shape_count++;
}

static enum half half_of(const json_t *entry)
{
    const json_t *params = json_object_get(entry, "params");
    if (!json_is_object(params))
        return BASELINES;
    uint64_t h = (unsigned char)*json_str(json_object_get(entry, "shape"), "op", "?");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)params, key, value)
        h = rng_mix(h * 31 + (uint64_t)json_integer_value(value));
    return h & 1 ? HELD_OUT : FITTED;
}

static const json_t *time_of(const json_t *times, const json_t *entry)
{
    size_t i;
    json_t *one;
    json_array_foreach(times, i, one)
        if (json_equal(json_object_get(one, "shape"), json_object_get(entry, "shape")) &&
            json_equal(json_object_get(one, "params"), json_object_get(entry, "params")))
            return one;
    return NULL;
}

static void take(const json_t *counts, const json_t *times)
{
    size_t i;
    json_t *entry;
    json_array_foreach(counts, i, entry) {
        const json_t *step = json_array_get(json_object_get(entry, "counts"), 0), *r = json_array_get(json_object_get(entry, "resources"), 0),
                     *l = json_object_get(entry, "launch"), *measured = time_of(times, entry);
        if (!measured || item_count == MOST)
            continue;
        struct item *x = &items[item_count++];
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
            *(uint64_t *)((char *)&x->counts + fields[f].at) = (uint64_t)json_int(step, fields[f].name, 0);
        for (size_t c = 0; c < 16; c++)
            x->counts.warp_by_class[c] = (uint64_t)json_integer_value(json_array_get(json_object_get(step, "warp_by_class"), c));
        x->resources = (struct ptx_resources){(int)json_int(r, "registers", 0), (uint32_t)json_int(r, "shared_bytes", 0), (uint32_t)json_int(r, "local_bytes", 0)};
        for (size_t d = 0; d < 3; d++) {
            x->launch.grid[d] = (uint32_t)json_integer_value(json_array_get(json_object_get(l, "grid"), d));
            x->launch.block[d] = (uint32_t)json_integer_value(json_array_get(json_object_get(l, "block"), d));
        }
        x->launch.dynamic_shared_bytes = (uint32_t)json_int(l, "shared_bytes", 0);
        x->half = half_of(entry);
        x->shape = shape_of(json_object_get(entry, "shape"));
        x->measured_ns = json_num(measured, "ns", 0) - GRAPH_FIXED_NS / (double)json_int(measured, "launches", 100);
        x->label = json_text(json_object_get(entry, "params"));
    }
}

static void estimate_all(const struct ptx_estimate_model *k)
{
    for (int i = 0; i < item_count; i++) {
        struct ptx_estimate e;
        ptx_estimate_with(k, &items[i].counts, &items[i].launch, &items[i].resources, row, &e);
        items[i].estimated_ns = e.ns;
        memcpy(items[i].bound, e.bound, sizeof e.bound);
    }
}

static double error_of(const struct item *x) { return log(x->estimated_ns / x->measured_ns); }

/* Errors squared, large ones held back: a setting that the model cannot know must not bend the rest. */
static double loss(const struct ptx_estimate_model *k)
{
    double sum = 0;
    estimate_all(k);
    for (int i = 0; i < item_count; i++)
        if (items[i].half == FITTED) {
            const double e = error_of(&items[i]);
            sum += e * e / (1 + e * e / 0.09);
        }
    return sum;
}

/* Each constant in turn, in steps that shrink, from several starts. */
static struct ptx_estimate_model fit(void)
{
    struct ptx_estimate_model best = ptx_estimate_fitted;
    double best_loss = loss(&best);
    for (uint64_t start = 0; start < 12; start++) {
        struct ptx_estimate_model now = ptx_estimate_fitted;
        double *value = (double *)&now;
        for (size_t c = 0; start && c < CONSTANTS; c++)
            value[c] = constants[c].least + (constants[c].most - constants[c].least) * rng_unit(20, start, c);
        double at = loss(&now);
        for (double step = 0.25; step > 1e-4;) {
            bool better = false;
            for (size_t c = 0; c < CONSTANTS; c++)
                for (int sign = -1; sign < 2; sign += 2) {
                    const double old = value[c], moved = old + sign * step * (constants[c].most - constants[c].least);
                    value[c] = moved < constants[c].least ? constants[c].least : moved > constants[c].most ? constants[c].most : moved;
                    const double then = loss(&now);
                    if (then < at * (1 - 1e-9))
                        at = then, better = true;
                    else
                        value[c] = old;
                }
            step = better ? step : step / 2;
        }
        fprintf(stderr, "start %d: %.5f\n", (int)start, at);
        if (at < best_loss)
            best = now, best_loss = at;
    }
    return best;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Spearman's rank correlation of estimates and measurements. */
static double rank_of(const struct item *const *list, int count, int which, bool measured)
{
    double rank = 0;
    const double mine = measured ? list[which]->measured_ns : list[which]->estimated_ns;
    for (int i = 0; i < count; i++) {
        const double other = measured ? list[i]->measured_ns : list[i]->estimated_ns;
        rank += other < mine ? 1 : other == mine ? 0.5 : 0;
    }
    return rank;
}

static double rank_correlation(const struct item *const *list, int count)
{
    double sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
    for (int i = 0; i < count; i++) {
        const double x = rank_of(list, count, i, true), y = rank_of(list, count, i, false);
        sx += x, sy += y, sxx += x * x, syy += y * y, sxy += x * y;
    }
    const double n = count, vx = sxx - sx * sx / n, vy = syy - sy * sy / n;
    return vx > 0 && vy > 0 ? (sxy - sx * sy / n) / sqrt(vx * vy) : 1;
}

struct report { int count; double median, ninety, worst, bias, rank, best_chosen; };

/* Of the items of a half; shape -1: all. best_chosen: time of the setting that the estimate likes best / time of the best. */
static struct report report_of(enum half half, int shape)
{
    const struct item *list[MOST];
    double errors[MOST], bias = 0;
    struct report r = {0};
    for (int i = 0; i < item_count; i++)
        if (items[i].half == half && (shape < 0 || items[i].shape == shape)) {
            list[r.count] = &items[i];
            bias += error_of(&items[i]);
            errors[r.count++] = fabs(error_of(&items[i]));
        }
    if (!r.count)
        return r;
    qsort(errors, (size_t)r.count, sizeof *errors, by_value);
    r.median = errors[r.count / 2];
    r.ninety = errors[(r.count * 9) / 10];
    r.worst = errors[r.count - 1];
    r.bias = bias / r.count;
    r.rank = rank_correlation(list, r.count);
    int chosen = 0, best = 0;
    for (int i = 1; i < r.count; i++) {
        chosen = list[i]->estimated_ns < list[chosen]->estimated_ns ? i : chosen;
        best = list[i]->measured_ns < list[best]->measured_ns ? i : best;
    }
    r.best_chosen = list[chosen]->measured_ns / list[best]->measured_ns;
    return r;
}

static void print_report(const char *what, const struct report *r)
{
    printf("| %s | %d | %.3f | %.3f | %.3f | %+.3f | %.3f | %.3f |\n", what, r->count, r->median, r->ninety, r->worst, r->bias, r->rank, r->best_chosen);
}

static void report(void)
{
    static const char *const names[] = {"fitted half", "held-out half", "baselines (not fitted)"};
    printf("| settings | count | median \\|log ratio\\| | 90 %% | worst | bias | rank correlation | chosen / best |\n|---|---|---|---|---|---|---|---|\n");
    for (int h = 0; h < HALVES; h++) {
        const struct report r = report_of((enum half)h, -1);
        print_report(names[h], &r);
    }
    for (int s = 0; s < shape_count; s++) {
        const struct report r = report_of(HELD_OUT, s);
        print_report(shapes[s], &r);
    }
}

int main(int argc, char **argv)
{
    cleanup(json) json_t *counts = NULL, *times = NULL;
    if (argc < 3)
        return fprintf(stderr, "usage: bench_calibrate COUNTS.json TIMES.json [fit | list | check]\n"), 2;
    const char *what = argc > 3 ? argv[3] : "";
    read_json(argv[1], &counts);
    read_json(argv[2], &times);
    row = ptx_device_find("H200");
    take(counts, json_object_get(times, "times"));
    struct ptx_estimate_model k = ptx_estimate_fitted;
    if (!strcmp(what, "fit")) {
        k = fit();
        for (size_t c = 0; c < CONSTANTS; c++)
            printf("    X(%s, %.4g, %g, %g, ...)\n", constants[c].name, ((double *)&k)[c], constants[c].least, constants[c].most);
    }
    estimate_all(&k);
    for (int i = 0; !strcmp(what, "list") && i < item_count; i++)
        printf("%d %d %s %.0f %.0f %+.3f %s\n", items[i].shape, items[i].half, items[i].label, items[i].measured_ns, items[i].estimated_ns,
               error_of(&items[i]), items[i].bound);
    report();
    const struct report held = report_of(HELD_OUT, -1);
    for (int i = 0; i < item_count; i++)
        free((char *)items[i].label);
    for (int s = 0; s < shape_count; s++)
        free(shapes[s]);
    /* as a test: worse than this means that constants, counts or times no longer fit one another */
    return !strcmp(what, "check") && (held.count < 100 || held.median > 0.06 || held.ninety > 0.16 || held.rank < 0.97);
}
