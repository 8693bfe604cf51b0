/*
 * More games than were timed: samples of the large ones of operators that constants were fitted to, drawn without replacement, in turn of 20
 * and 30 settings. For choosing between rules of the search: what is chosen by one seed has to hold with another, or it was chance.
 */
#include "tests/bench/replay_curve.h"

#include "core/buf.h"
#include "core/rng.h"

#define LEAST_TO_SAMPLE 60
#define SAMPLES 25
#define SMALL 20
#define LARGE 30

static json_t *draw(const json_t *settings, uint64_t seed, uint64_t stream, size_t count)
{
    const size_t n = json_array_size(settings);
    json_t *list = json_array();
    cleanup(mem) void *memory = xarray(n, sizeof(size_t));
    size_t *order = memory;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i < count; i++) {
        const size_t k = i + (size_t)rng_below(seed, stream, i, n - i), kept = order[k];
        order[k] = order[i];
        order[i] = kept;
        json_array_append(list, json_array_get(settings, kept));
    }
    return list;
}

json_t *sample_games(const json_t *games, uint64_t seed, bool (*wanted)(const char *op))
{
    json_t *list = json_array(), *game;
    size_t i;
    json_array_foreach(games, i, game) {
        const json_t *settings = json_object_get(game, "settings");
        if (json_array_size(settings) < LEAST_TO_SAMPLE || !wanted(json_str(json_object_get(game, "shape"), "op", "")))
            continue;
        for (int k = 0; k < SAMPLES; k++) {
            json_t *one = json_object();
            json_put(one, "shape", json_incref(json_object_get(game, "shape")));
            json_put(one, "settings", draw(settings, seed, i * SAMPLES + (size_t)k, k % 2 ? LARGE : SMALL));
            json_array_append_new(list, one);
        }
    }
    return list;
}
