/*
 * Lessons of the template search. When a shape's search is over, the effects of its templates' parameters are fitted to what was tried and
 * kept, one record a shape:
 *
 *   STORE_EFFECT "GROUP/SHAPE_HASH", listed by group   {"group","op","target","dtypes","measured","shape","shape_hash","fit","n","candidates":[ids]}
 *
 * A group is what can be compared: operator and version, target, dtypes, measured or estimated. Over a group's shapes each parameter whose
 * choice matters becomes one lesson, its id made from group, template and parameter, so that what is learnt later replaces what was said
 * before. What a search starts from is not the average but what near shapes say (know_effects), as far as its lesson is still believed.
 */
#include "know/internal.h"

#include "core/clock.h"
#include "know/effects.h"

#include <math.h>

#define SHAPES_OF_GROUP 256
#define MATTERS 0.03                     /* log: what a wrong value costs at least, for a lesson; and its interval must not reach 0 */
#define LEAST_SHAPES 1
#define FIT_CANDIDATES 4

struct group { char text[300]; };

static struct group group_of(const json_t *shape, int64_t version, bool measured)
{
    struct group g;
    cleanup(str) char *dtypes = json_dumps(json_object_get(shape, "dtypes") ? json_object_get(shape, "dtypes") : json_null(), JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    snprintf(g.text, sizeof g.text, "%s@%lld %s %.120s %s", json_str(shape, "op", ""), (long long)version, json_str(shape, "target", ""), dtypes ? dtypes : "",
             measured ? "measured" : "estimated");
    return g;
}

/* ---- what was tried at a shape ---- */

struct trying { const char *hash; json_t *tried; bool measured; };

static bool see_candidate(void *ctx, const char *id, const json_t *record)
{
    struct trying *t = ctx;
    const json_t *origin = json_object_get(record, "origin"), *figures = json_object_get(record, "figures");
    enum verdict_code code;
    (void)id;
    if (strcmp(json_str(record, "shape_hash", ""), t->hash) || json_bool(record, "is_baseline", false) ||
        json_object_get(json_object_get(record, "origin"), "stands_for") || json_array_size(t->tried) >= EFFECTS_MAX_TRIED)
        return true;
    if (!verdict_code_parse(json_str(json_object_get(record, "verdict"), "code", ""), &code) || !verdict_is_correct(code))
        return true;
    double ns = json_num(figures, "time_ns", 0);
    if (!json_str(origin, "template", NULL) || !json_is_object(json_object_get(origin, "params")) || !(ns > 0))
        return true;
    t->measured |= !strcmp(json_str(figures, "evidence", ""), "measured");
    json_array_append_new(t->tried, json_pack("{s:O,s:O,s:f,s:O}", "template", json_object_get(origin, "template"), "params", json_object_get(origin, "params"), "ns", ns,
                                              "id", json_object_get(record, "id")));
    return true;
}

static json_t *best_ids(const json_t *tried)
{
    json_t *ids = json_array();
    double last = 0;
    for (int n = 0; n < FIT_CANDIDATES; n++) {
        const json_t *found = NULL, *one;
        size_t i;
        json_array_foreach((json_t *)(uintptr_t)tried, i, one)
            if (json_num(one, "ns", 0) > last && (!found || json_num(one, "ns", 0) < json_num(found, "ns", 0)))
                found = one;
        if (!found)
            break;
        last = json_num(found, "ns", 0);
        json_array_append(ids, json_object_get(found, "id"));
    }
    return ids;
}

/* ---- lessons of a group ---- */

static void lesson_id_of(const char *group, const json_t *effect, char id[LESSON_ID_SIZE])
{
    cleanup(str) char *key = xfmt("effect\n%s\n%s\n%s", group, json_str(effect, "template", ""), json_str(effect, "param", "*"));
    snprintf(id, LESSON_ID_SIZE, "les_%.26s", hash_of(key, strlen(key)).text);
}

static const json_t *best_level(const json_t *effect)
{
    const json_t *best = NULL;
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(effect, "levels"), i, level)
        if (!best || json_num(level, "effect", 0) < json_num(best, "effect", 0))
            best = level;
    return best;
}

static bool matters(const json_t *effect)
{
    bool any = false;
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(effect, "levels"), i, level)
        any |= json_num(level, "effect", 0) >= MATTERS && json_num(level, "low", 0) > 0;
    return any;
}

/* "ROWS=2; 1 costs 4 % [1, 7], 8 costs 20 % [12, 28]" */
static void say_levels(const json_t *effect, const json_t *best, struct buf *to)
{
    size_t i;
    json_t *level;
    const char *between = "; ";
    buf_fmt(to, "Take %s=%lld", json_str(effect, "param", ""), (long long)json_int(best, "value", 0));
    json_array_foreach(json_object_get(effect, "levels"), i, level) {
        if (level == best)
            continue;
        buf_fmt(to, "%s%lld costs %.0f %% [%.0f, %.0f]", between, (long long)json_int(level, "value", 0), 100 * expm1(json_num(level, "effect", 0)),
                100 * expm1(json_num(level, "low", 0)), 100 * expm1(json_num(level, "high", 0)));
        between = ", ";
    }
    buf_str(to, ".");
}

/* Best against the mean of the others. */
static json_t *effect_against_others(const json_t *effect, const json_t *best, int n)
{
    double mean = 0, half = 0;
    int others = 0;
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(effect, "levels"), i, level)
        if (level != best) {
            mean += json_num(level, "effect", 0);
            half += (json_num(level, "high", 0) - json_num(level, "low", 0)) / 2;
            others++;
        }
    others = others ? others : 1;
    return effect_encode(mean / others - json_num(best, "effect", 0), half / others, n);
}

static json_t *tags_of(const json_t *shape, const json_t *effect)
{
    struct lesson_tags tags = {.count = 0};
    json_t *list = json_array();
    const char *letter, *param = json_str(effect, "param", "");
    json_t *dtype;
    char lower[LESSON_TAG_BYTES];
    size_t i;
    (void)lesson_tags_add(&tags, "op/%s", json_str(shape, "op", ""));
    (void)lesson_tags_add(&tags, "target/%s", json_str(shape, "target", ""));
    json_object_foreach(json_object_get(shape, "dtypes"), letter, dtype)
        (void)lesson_tags_add(&tags, "dtype/%s", json_string_value(dtype));
    for (i = 0; param[i] && i < sizeof lower - 1; i++)
        lower[i] = (char)(param[i] >= 'A' && param[i] <= 'Z' ? param[i] + 32 : param[i]);
    lower[i] = 0;
    (void)lesson_tags_add(&tags, "template/%s/%s", json_str(effect, "template", ""), lower);
    for (int n = 0; n < tags.count; n++)
        json_array_append_new(list, json_string(tags.list[n]));
    return list;
}

static void set_evidence(json_t *doc, const json_t *records, const json_t *effect, const json_t *best, bool measured)
{
    json_t *evidence = json_object(), *candidates = json_array(), *shapes = json_array(), *record, *id;
    const char *template = json_str(effect, "template", "");
    int n = 0;
    size_t i, c;
    json_array_foreach(records, i, record) {
        const json_t *fit = json_object_get(json_object_get(record, "fit"), template);
        n += (int)json_int(fit, "n", 0);
        if (fit && json_array_size(shapes) < LESSON_MAX_CANDIDATES)
            json_array_append(shapes, json_object_get(record, "shape_hash"));
        json_array_foreach(json_object_get(record, "candidates"), c, id)
            if (fit && c < 1 && json_array_size(candidates) < LESSON_MAX_CANDIDATES)
                json_array_append(candidates, id);
    }
    json_put_str(evidence, "basis", "replicated");
    json_put(evidence, "candidates", candidates);
    json_put(evidence, "shapes", shapes);
    json_put(evidence, "effect", effect_against_others(effect, best, n));
    json_put_bool(evidence, "measured", measured);
    json_put(doc, "evidence", evidence);
}

/* The lesson of one parameter, new or said anew; NULL: nothing worth saying, or it has ended and stays so. */
static json_t *make_lesson(const json_t *shape, const json_t *records, const json_t *effect, bool measured, const char *id, const json_t *was)
{
    const json_t *best = best_level(effect);
    const char *param = json_str(effect, "param", NULL);
    if (!param || !best || !matters(effect) || json_int(effect, "shapes", 0) < LEAST_SHAPES || (was && lesson_state_of(was) != LESSON_ACTIVE))
        return NULL;
    cleanup(json) json_t *tags = tags_of(shape, effect);
    cleanup(buf) struct buf action = {0};
    cleanup(str) char *situation = xfmt("Template %s of %s on %s: its parameter %s, %s over %lld %s.", json_str(effect, "template", ""), json_str(shape, "op", ""),
                                        json_str(shape, "target", ""), param, measured ? "measured" : "estimated", (long long)json_int(effect, "shapes", 0),
                                        json_int(effect, "shapes", 0) == 1 ? "shape" : "shapes");
    say_levels(effect, best, &action);
    json_t *doc = lesson_new(tags, situation, buf_cstr(&action), "template", "the template search");
    json_put_str(doc, "id", id);
    json_put(doc, "effects", json_deep_copy(effect));
    set_evidence(doc, records, effect, best, measured);
    const json_t *its = json_object_get(json_object_get(doc, "evidence"), "effect");
    struct trust t = trust_of_evidence(json_num(its, "ratio", 0), json_num(its, "low", 0), (int)json_int(effect, "shapes", 0));
    trust_write(doc, &t, "its evidence", NULL);
    static const char *const kept[] = {"trust", "history", "uses", "wins", "created", "supersedes"};
    for (size_t i = 0; was && i < sizeof kept / sizeof *kept; i++)
        if (json_object_get(was, kept[i]))
            json_object_set(doc, kept[i], json_object_get(was, kept[i]));
    return doc;
}

static bool append_record(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    json_array_append(ctx, (json_t *)(uintptr_t)doc);
    return true;
}

static bool load_group(struct know *k, const char *group, json_t **ret, struct err *err)
{
    cleanup(json) json_t *list = json_array();
    cleanup(str) char *next = NULL;
    struct store_page page = {STORE_EFFECT, group, NULL, SHAPES_OF_GROUP, true};
    if (!store_list(k->store, &page, append_record, list, &next, NULL, err))
        return false;
    *ret = json_incref(list);
    return true;
}

static json_t *fits_of(const json_t *records, double (*far)(const json_t *shape, const void *ctx), const void *ctx)
{
    json_t *fits = json_array(), *record;
    size_t i;
    json_array_foreach(records, i, record) {
        double d = far ? far(json_object_get(record, "shape"), ctx) : 0;
        if (isfinite(d))
            json_array_append_new(fits, json_pack("{s:O,s:f}", "fit", json_object_get(record, "fit"), "far", d));
    }
    return fits;
}

static bool teach_group(struct know *k, struct store_batch *b, const json_t *record, json_t *docs[TEACH_MAX], int *ret_count, struct err *err)
{
    cleanup(json) json_t *records = NULL;
    const char *group = json_str(record, "group", "");
    size_t i;
    json_t *effect, *other;
    if (!load_group(k, group, &records, err))
        return false;
    json_array_foreach(records, i, other)
        if (!strcmp(json_str(other, "shape_hash", ""), json_str(record, "shape_hash", "-"))) {
            json_array_remove(records, i);
            break;
        }
    json_array_append(records, (json_t *)(uintptr_t)record);
    cleanup(json) json_t *fits = fits_of(records, NULL, NULL), *effects = effects_combine(fits);
    json_array_foreach(effects, i, effect) {
        char id[LESSON_ID_SIZE];
        cleanup(json) json_t *was = NULL;
        lesson_id_of(group, effect, id);
        if (!get_or_null(k, STORE_LESSON, id, &was, err))
            return false;
        json_t *doc = *ret_count < TEACH_MAX ? make_lesson(json_object_get(record, "shape"), records, effect, json_bool(record, "measured", false), id, was) : NULL;
        if (!doc)
            continue;
        docs[(*ret_count)++] = doc;
        if (!was)
            event_learned(b, doc);
    }
    return true;
}

bool teach_shape(struct know *k, struct store_batch *b, const json_t *entry, json_t *docs[TEACH_MAX], int *ret_count, struct err *err)
{
    struct trying t = {.hash = json_str(entry, "shape_hash", "")};
    cleanup(json) json_t *tried = json_array(), *job = NULL, *was = NULL;
    cleanup(str) char *after = NULL;
    const json_t *shape = NULL;
    size_t i;
    json_t *one;
    *ret_count = 0;
    t.tried = tried;
    if (!get_or_null(k, STORE_JOB, json_str(entry, "job", ""), &job, err))
        return false;
    json_array_foreach(json_object_get(job, "shapes"), i, one)
        if (!strcmp(json_str(one, "shape_hash", ""), t.hash))
            shape = json_object_get(one, "shape");
    if (!shape)
        return true;
    do {
        struct store_page page = {STORE_CANDIDATE, json_str(entry, "job", ""), after, 500, false};
        char *next = NULL;
        if (!store_list(k->store, &page, see_candidate, &t, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after);
    cleanup(json) json_t *fit = effects_fit(tried), *record = json_object();
    if (!json_object_size(fit))
        return true;
    struct group g = group_of(shape, json_int(entry, "op_version", 1), t.measured);
    cleanup(str) char *key = xfmt("%.32s/%s", hash_of(g.text, strlen(g.text)).text, t.hash);
    if (!get_or_null(k, STORE_EFFECT, key, &was, err))
        return false;
    if (json_int(was, "n", 0) > (int64_t)json_array_size(tried))
        return true;                     /* an earlier search here has seen more */
    json_put_str(record, "group", g.text);
    json_put_bool(record, "measured", t.measured);
    json_put(record, "shape", json_incref((json_t *)(uintptr_t)shape));
    json_put_str(record, "shape_hash", t.hash);
    json_put(record, "fit", json_incref(fit));
    json_put_int(record, "n", (int64_t)json_array_size(tried));
    json_put(record, "candidates", best_ids(tried));
    store_put(b, STORE_EFFECT, key, g.text, record);
    return teach_group(k, b, record, docs, ret_count, err);
}

/* ---- what a search starts from ---- */

static double far_from(const json_t *shape, const void *ctx)
{
    const struct shape *s = ctx;
    const json_t *axes = json_object_get(shape, "axes");
    double sum = 0;
    for (int i = 0; i < s->op->axis_count; i++) {
        double other = (double)json_int(axes, s->op->axes[i].name, -1);
        if (other < 0)
            return INFINITY;
        if (s->op->axes[i].keyed)
            sum += fabs(log2(other + 1) - log2((double)s->axes[i] + 1));
    }
    return sum;
}

json_t *know_effects(struct know *k, const struct shape *s, bool measured)
{
    struct err err = {0};
    cleanup(json) json_t *shape = shape_encode(s), *records = NULL, *list = json_array();
    struct group g = group_of(shape, s->op->version, measured);
    size_t i;
    json_t *effect;
    if (!load_group(k, g.text, &records, &err) || !json_array_size(records))
        return NULL;
    cleanup(json) json_t *fits = fits_of(records, far_from, s), *effects = effects_combine(fits);
    json_array_foreach(effects, i, effect) {
        char id[LESSON_ID_SIZE];
        cleanup(json) json_t *lesson = NULL;
        lesson_id_of(g.text, effect, id);
        if (!get_or_null(k, STORE_LESSON, id, &lesson, &err) || (lesson && lesson_state_of(lesson) != LESSON_ACTIVE))
            continue;                    /* not believed any more: nor is what it rests on */
        json_t *one = json_object();
        if (lesson)
            json_put_str(one, "id", id);
        json_put(one, "effects", json_incref(effect));
        json_array_append_new(list, one);
    }
    return json_array_size(list) ? json_incref(list) : NULL;
}
