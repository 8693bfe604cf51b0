/* Vectors by a model: a lesson without a word of the query is found by them; whatever the model does, all else goes on as without. */
#include "tests/test_know.h"

#include <math.h>

enum how { WELL, FAILS, NAN_COMES, OTHER_LENGTH, NO_LENGTH };
static struct { enum how how; int calls, queries, texts; } model;

/* A model that knows two meanings: of what is cold and of what is warm, in words that share no letters' row. */
static bool embed(void *ctx, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err)
{
    static const char *const cold[] = {"frozen", "glacier", "icy"};
    (void)ctx;
    model.calls++;
    model.queries += for_query;
    model.texts += count;
    if (model.how == FAILS)
        return err_set(err, ERR_UPSTREAM, "no model");
    *ret_dim = model.how == OTHER_LENGTH ? 5 : model.how == NO_LENGTH ? 0 : 4;
    *ret = xarray((size_t)count * 5, sizeof **ret);
    for (int i = 0; i < count; i++) {
        bool is_cold = false;
        for (size_t k = 0; k < sizeof cold / sizeof *cold; k++)
            is_cold |= strstr(texts[i], cold[k]) != NULL;
        (*ret)[i * *ret_dim + !is_cold] = model.how == NAN_COMES ? NAN : 3;
    }
    return true;
}

static struct lesson_list find(struct layer *l, const char *text, bool may_wait)
{
    struct lesson_list list = {.count = 0};
    struct err err = {0};
    struct lesson_query q = {.text = text, .may_wait = may_wait};
    check(lessons_retrieve(l->know, &q, &list, &err));
    return list;
}

static int64_t stat_of(struct layer *l, const char *key)
{
    cleanup(json) json_t *doc = know_stats(l->know);
    return json_int(doc, key, -1);
}

static bool fill(struct layer *l, int *ret_count)
{
    struct err err = {0};
    l->know->embed_after_ns = 0;         /* as if the pause after a failure were over */
    return know_embed(l->know, ret_count, &err);
}

static void the_meaning_finds_what_no_word_does(struct layer *l, const char *cold)
{
    int count = 0;
    check(fill(l, &count) && count == 40 && model.calls == 2);      /* in batches */
    check(fill(l, &count) && count == 0 && model.calls == 2);
    check_int(stat_of(l, "vectors"), 40);
    cleanup(lesson_list) struct lesson_list with = find(l, "icy", true), without = find(l, "icy", false);
    check(with.count && !strcmp(with.list[0].id, cold) && with.list[0].parts.model_rank == 1 && fabs(with.list[0].parts.model_cosine - 1) < 0.02);
    check_str(with.backend, "hashed-ngrams+endpoint");
    check(!without.count || strcmp(without.list[0].id, cold));
    check_str(without.backend, "hashed-ngrams");
    check_int(model.queries, 1);
}

static void a_changed_text_needs_another(struct layer *l)
{
    int count = 0;
    cleanup(json) json_t *more = propose_signed(l, "op/late", "A glacier moves.", "Wait.");
    check_int(stat_of(l, "vectors"), 40);
    check(fill(l, &count) && count == 1);
    cleanup(json) json_t *doc = lesson_now(l, json_str(more, "id", ""));
    json_put_str(doc, "situation", "Something warm now.");
    pthread_mutex_lock(&l->know->writing);
    struct err err = {0};
    check(know_commit(l->know, store_batch_new(), (const json_t *const[]){doc}, 1, &err));
    pthread_mutex_unlock(&l->know->writing);
    check(fill(l, &count) && count == 1);
}

static void a_failing_model_changes_nothing(struct layer *l)
{
    static const enum how hows[] = {FAILS, NAN_COMES, NO_LENGTH};
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        const int64_t failures = stat_of(l, "embed_failures"), fallbacks = stat_of(l, "embed_fallbacks");
        const int calls = model.calls;
        model.how = hows[i];
        l->know->embed_after_ns = 0;
        cleanup(lesson_list) struct lesson_list first = find(l, "lesson number seven", true), second = find(l, "lesson number seven", true),
                                                plain = find(l, "lesson number seven", false);
        check(first.count && first.count == plain.count && second.count == plain.count && !strcmp(first.list[0].id, plain.list[0].id));
        check_str(first.backend, "hashed-ngrams");
        check_int(model.calls, calls + 1);       /* for a while it is not asked again */
        check_int(stat_of(l, "embed_failures"), failures + 1);
        check_int(stat_of(l, "embed_fallbacks"), fallbacks + 2);
    }
    int count = 0;
    cleanup(json) json_t *late = propose_signed(l, "op/later", "Comes while the model is away.", "Wait.");
    model.how = FAILS;
    check(!fill(l, &count));
    model.how = OTHER_LENGTH;
    check(!fill(l, &count) && count == 0);
    cleanup(lesson_list) struct lesson_list odd = find(l, "icy", true);      /* a query of another length compares with nothing */
    for (int i = 0; i < odd.count; i++)
        check(!odd.list[i].parts.model_rank);
    model.how = WELL;
    check(fill(l, &count) && count == 1);
}

static void a_new_index_keeps_them(struct layer *l)
{
    const int64_t before = stat_of(l, "vectors");
    struct err err = {0};
    cleanup(lesson_list) struct lesson_list any = find(l, "lesson number seven", false);
    cleanup(json) json_t *doc = json_deep_copy(any.list[0].doc);
    int rounds = 0, dead = 0, count;
    for (; dead < 70; rounds++, dead++) {        /* until the index is made anew */
        cleanup(str) char *text = xfmt("Another text, number %d.", rounds);
        json_put_str(doc, "situation", text);
        pthread_mutex_lock(&l->know->writing);
        check(know_commit(l->know, store_batch_new(), (const json_t *const[]){doc}, 1, &err));
        pthread_mutex_unlock(&l->know->writing);
    }
    check(!index_is_stale(l->know->index));
    check(fill(l, &count) && count == 1);        /* the one whose text is new, and no other */
    check_int(stat_of(l, "vectors"), before);
}

/* After a start they are there without a question; another model, or another text, asks anew; what has ended keeps none. */
static void a_restart_asks_for_none(struct layer *l, const char *cold)
{
    int count = 0;
    const int64_t vectors = stat_of(l, "vectors");
    struct err err = {0};
    layer_down(l);                       /* a moment ago the endpoint's vectors had another length: none is kept of that */
    layer_up(l);
    model.calls = 0;
    check(fill(l, &count) && count == vectors && model.calls == (vectors + 31) / 32);
    layer_down(l);
    layer_up(l);
    model.calls = 0;
    check_int(stat_of(l, "vectors"), 0);
    check(fill(l, &count) && count == vectors && model.calls == 0);
    check_int(stat_of(l, "vectors"), vectors);
    cleanup(lesson_list) struct lesson_list list = find(l, "icy", true);
    check(list.count && list.list[0].parts.model_rank == 1 && fabs(list.list[0].parts.model_cosine - 1) < 0.02);
    cleanup(json) json_t *gone = NULL, *record = NULL, *again = propose_signed(l, "op/again", "Is written once more.", "Wait.");
    check(fill(l, &count) && count == 1 && model.calls == 2);            /* a query and this one */
    check(store_get(l->store, STORE_VECTOR, cold, &record, &err));
    check(lessons_retire(l->know, cold, "a test", &gone, &err));
    json_decref(record);
    record = NULL;
    check(!store_get(l->store, STORE_VECTOR, cold, &record, &err) && err.code == ERR_NOT_FOUND);
    json_put_str(again, "action", "Something else entirely.");
    pthread_mutex_lock(&l->know->writing);
    check(know_commit(l->know, store_batch_new(), (const json_t *const[]){again}, 1, &err));
    pthread_mutex_unlock(&l->know->writing);
    layer_down(l);
    layer_up(l);
    model.calls = 0;
    check(fill(l, &count) && count == vectors && model.calls == 1);      /* the one whose text is new; one has ended, one has come */
    layer_down(l);
    l->config.embed_model = "another";
    layer_up(l);
    model.calls = 0;
    check(fill(l, &count) && count == vectors && model.calls >= 2);
    /* The same name and other vectors: it is said, and a start later all are asked for. */
    layer_down(l);
    layer_up(l);
    cleanup(json) json_t *more = propose_signed(l, "op/last", "The last one.", "Wait.");
    model.how = OTHER_LENGTH;
    check(!fill(l, &count) && count == vectors);
    layer_down(l);
    layer_up(l);
    model.calls = 0;
    check(fill(l, &count) && count == vectors + 1 && model.calls >= 2);
    model.how = WELL;
}

int main(void)
{
    struct layer l = {.dir = ""};
    char cold[LESSON_ID_SIZE] = "";
    hash_init();
    layer_up(&l);
    layer_down(&l);
    l.config.embed = embed;
    layer_up(&l);
    for (int i = 0; i < 40; i++) {
        cleanup(str) char *situation = i == 17 ? xstrdup("The frozen path is taken.") : xfmt("This is lesson number %s%d of a set.", i == 7 ? "seven " : "", i * 7919);
        cleanup(str) char *action = xfmt("Do what %d says.", i * 104729), *tag = xfmt("op/o%d", i);
        cleanup(json) json_t *doc = propose_signed(&l, tag, situation, action);
        if (i == 17)
            snprintf(cold, sizeof cold, "%s", json_str(doc, "id", ""));
    }
    the_meaning_finds_what_no_word_does(&l, cold);
    a_changed_text_needs_another(&l);
    a_failing_model_changes_nothing(&l);
    a_new_index_keeps_them(&l);
    a_restart_asks_for_none(&l, cold);
    layer_remove(&l);
    return test_done();
}
