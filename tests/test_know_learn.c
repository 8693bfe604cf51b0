/* Learning without a language model: effects of known parameters are found again, over shapes; a search starts from them; what lost trust is left out. */
#include "tests/test_know.h"

#include "core/rng.h"
#include "know/effects.h"

#include <math.h>

/* log time of a setting: A matters much, B little, C not at all; template two is slower. */
static double true_log(const char *template, int a, int b, double size)
{
    return 7 + size + (a == 4 ? 0 : a == 2 ? 0.1 : 0.3) + (b ? 0 : 0.05) + (strcmp(template, "two") ? 0 : 0.4);
}

static json_t *tried_at(double size, uint64_t seed, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        const char *template = rng_below(seed, 1, (uint64_t)i, 4) ? "one" : "two";
        int a = 1 << rng_below(seed, 2, (uint64_t)i, 3), b = (int)rng_below(seed, 3, (uint64_t)i, 2), c = (int)rng_below(seed, 4, (uint64_t)i, 3);
        json_array_append_new(list, json_pack("{s:s,s:{s:i,s:i,s:i},s:f}", "template", template, "params", "A", a, "B", b, "C", c, "ns",
                                              exp(true_log(template, a, b, size) + 0.01 * rng_normal(seed, 5, (uint64_t)i))));
    }
    return list;
}

static const json_t *level_of(const json_t *effects, const char *template, const char *param, int64_t value)
{
    size_t i, k;
    json_t *one, *level;
    json_array_foreach(effects, i, one)
        if (!strcmp(json_str(one, "template", ""), template) && !strcmp(json_str(one, "param", ""), param))
            json_array_foreach(json_object_get(one, "levels"), k, level)
                if (json_int(level, "value", -1) == value)
                    return level;
    return NULL;
}

static void effects_are_found_with_intervals_that_hold(void)
{
    int inside = 0, all = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        cleanup(json) json_t *fits = json_array();
        for (int s = 0; s < 4; s++) {
            cleanup(json) json_t *tried = tried_at(s, 100 * seed + (uint64_t)s, 20);
            json_array_append_new(fits, json_pack("{s:o,s:f}", "fit", effects_fit(tried), "far", 0.0));
        }
        cleanup(json) json_t *effects = effects_combine(fits);
        static const struct { const char *param; int value; double effect; } rows[] = {{"A", 4, 0}, {"A", 2, 0.1}, {"A", 1, 0.3}, {"B", 0, 0.05}, {"B", 1, 0}};
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            const json_t *level = level_of(effects, "one", rows[r].param, rows[r].value);
            check(level && fabs(json_num(level, "effect", 9) - rows[r].effect) < 0.08);
            inside += json_num(level, "low", 9) <= rows[r].effect && json_num(level, "high", -9) >= rows[r].effect;
            all++;
        }
    }
    check(inside >= 0.85 * all);
    printf("%d of %d intervals hold the truth\n", inside, all);
    cleanup(json) json_t *nothing = json_array(), *none = effects_fit(nothing), *combined = effects_combine(nothing);
    check(json_object_size(none) == 0 && json_array_size(combined) == 0);
}

static void hostile_values_do_no_harm(void)
{
    static const char text[] = "[{\"template\":\"t\",\"params\":{\"A\":1},\"ns\":1e308},{\"template\":\"t\",\"params\":{\"A\":2},\"ns\":1},{\"template\":\"t\",\"params\":7,\"ns\":1},"
                               "{\"template\":\"t\",\"params\":{\"A\":\"x\"},\"ns\":5},{\"template\":7},{\"ns\":-1,\"template\":\"t\"},{\"template\":\"t\",\"params\":{\"A\":1},\"ns\":3}]";
    cleanup(json) json_t *tried = NULL, *many = json_array(), *params = json_object();
    struct err err = {0};
    check(json_parse(text, strlen(text), &tried, &err));
    cleanup(json) json_t *fit = effects_fit(tried);
    check(json_object_size(fit) == 1);
    for (int i = 0; i < 400; i++) {      /* more values than there is room for */
        cleanup(str) char *name = xfmt("P%d", i % 40);
        json_put_int(params, name, i);
        json_array_append_new(many, json_pack("{s:s,s:o,s:f}", "template", "t", "params", json_deep_copy(params), "ns", 100.0 + i));
    }
    cleanup(json) json_t *big = effects_fit(many);
    check(json_object_size(big) == 1);
}

/* ---- in the layer ---- */

static struct op op;

static void make_shape(struct shape *s, int64_t n)
{
    op = (struct op){.version = 1, .axis_count = 1, .letter_count = 1};
    snprintf(op.name, sizeof op.name, "scale");
    snprintf(op.axes[0].name, sizeof op.axes[0].name, "N");
    op.axes[0].keyed = true;
    snprintf(op.letters[0].name, sizeof op.letters[0].name, "io");
    *s = (struct shape){.op = &op, .axes = {n}, .dtypes = {DTYPE_BF16}};
    snprintf(s->target, sizeof s->target, "sm_90a");
}

/* A job of one shape whose search tried these; its end is left to be learnt from. */
static void put_search(struct layer *l, const struct shape *s, const char *evidence, const json_t *tried)
{
    struct id job = id_new("job");
    struct err err = {0};
    struct store_batch *b = store_batch_new();
    const char *hash = shape_hash(s).text;
    char kept[HASH_HEX_SIZE];
    size_t i;
    json_t *one;
    snprintf(kept, sizeof kept, "%s", hash);
    cleanup(json) json_t *doc = json_pack("{s:s,s:[{s:s,s:o}]}", "id", job.text, "shapes", "shape_hash", kept, "shape", shape_encode(s));
    store_put(b, STORE_JOB, job.text, NULL, doc);
    json_array_foreach(tried, i, one) {
        struct id id = id_new("cand");
        cleanup(json) json_t *record = json_pack("{s:s,s:s,s:s,s:b,s:{s:O,s:O},s:{s:s},s:{s:O,s:s}}", "id", id.text, "shape_hash", kept, "op", "scale", "is_baseline", 0, "origin",
                                                 "template", json_object_get(one, "template"), "params", json_object_get(one, "params"), "verdict", "code", "ok", "figures",
                                                 "time_ns", json_object_get(one, "ns"), "evidence", evidence);
        store_put(b, STORE_CANDIDATE, id.text, job.text, record);
    }
    know_put_closed(b, job.text, kept, 1);
    check(store_commit(l->store, b, NULL, &err) && know_work(l->know, &err));
}

static const json_t *speaks_of(const json_t *list, const char *param)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
        if (!strcmp(json_str(json_object_get(one, "effects"), "param", ""), param) && !strcmp(json_str(json_object_get(one, "effects"), "template", ""), "one"))
            return one;
    return NULL;
}

static void a_search_writes_lessons_and_the_next_starts_from_them(struct layer *l)
{
    struct shape here, there;
    struct err err = {0};
    make_shape(&here, 1024);
    check(!know_effects(l->know, &here, false));
    for (int i = 0; i < 3; i++) {
        make_shape(&there, 256 << i);
        cleanup(json) json_t *tried = tried_at(i, 77 + (uint64_t)i, 24);
        put_search(l, &there, "emulated", tried);
    }
    make_shape(&here, 1024);
    cleanup(json) json_t *list = know_effects(l->know, &here, false), *measured = know_effects(l->know, &here, true);
    check(list && !measured);            /* what was estimated is not told of a card */
    const json_t *of_a = speaks_of(list, "A");
    const char *id = json_str(of_a, "id", "");
    cleanup(json) json_t *lesson = lesson_now(l, id);
    printf("%s %s\n", json_str(lesson, "situation", ""), json_str(lesson, "action", ""));
    check(strstr(json_str(lesson, "action", ""), "A=4") && strstr(json_str(lesson, "situation", ""), "estimated over 3 shapes"));
    check(!json_bool(json_object_get(lesson, "evidence"), "measured", true));
    check_int(json_array_size(json_object_get(json_object_get(lesson, "evidence"), "shapes")), 3);
    check(speaks_of(list, "C") && !json_str(speaks_of(list, "C"), "id", NULL));      /* no lesson: it does not matter */
    const char *tags[] = {"op/scale", "target/sm_90a"};
    struct lesson_query q = {.tags = tags, .tag_count = 2, .text = "which value of the parameter A", .limit = 3};
    cleanup(lesson_list) struct lesson_list found = {.count = 0};
    check(lessons_retrieve(l->know, &q, &found, &err) && found.count);
    /* a shape more: the same lesson says it, with more behind it */
    make_shape(&there, 4096);
    cleanup(json) json_t *tried = tried_at(4, 99, 24);
    put_search(l, &there, "emulated", tried);
    cleanup(json) json_t *again = lesson_now(l, id);
    check(strstr(json_str(again, "situation", ""), "4 shapes"));
    check_str(json_str(again, "created", ""), json_str(lesson, "created", "-"));
    /* whoever ended it is not told it again */
    cleanup(json) json_t *ended = NULL;
    check(lessons_retire(l->know, id, "wrong", &ended, &err));
    make_shape(&here, 1024);
    cleanup(json) json_t *without = know_effects(l->know, &here, false);
    check(without && !speaks_of(without, "A") && speaks_of(without, "B"));
    put_search(l, &there, "emulated", tried);
    cleanup(json) json_t *still = lesson_now(l, id);
    check_str(json_str(still, "state", ""), "retired");
}

int main(void)
{
    struct layer l = {.config = {.thesaurus = NULL}};
    hash_init();
    effects_are_found_with_intervals_that_hold();
    hostile_values_do_no_harm();
    layer_up(&l);
    a_search_writes_lessons_and_the_next_starts_from_them(&l);
    layer_remove(&l);
    return test_done();
}
