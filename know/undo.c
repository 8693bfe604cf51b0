/*
 * Steps of consolidation taken back: every lesson of the step becomes what it was before, but for what was learnt about it since, which stays.
 * Lessons that were put apart so are not put together again. And an operator's own end of a lesson, which is a step too.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <math.h>

#define STEPS_LOOKED_AT 2000
#define APART_KEPT 16

struct later { const char *step; const json_t *changes; char found[LESSON_ID_SIZE]; };

static bool touches(const json_t *changes, const json_t *others)
{
    size_t i, k;
    json_t *a, *b;
    json_array_foreach(changes, i, a)
        json_array_foreach(others, k, b)
            if (json_equal(json_object_get(a, "lesson"), json_object_get(b, "lesson")))
                return true;
    return false;
}

/* Newest first: those that come before the step itself are later ones. */
static bool see_step(void *ctx, const char *id, const json_t *doc)
{
    struct later *l = ctx;
    if (!strcmp(id, l->step))
        return false;
    if (!json_bool(doc, "undone", false) && touches(json_object_get(doc, "changes"), l->changes))
        snprintf(l->found, sizeof l->found, "%s", id);
    return true;
}

/* before, with what trust and counts have moved by since the step. */
static json_t *restored(const json_t *before, const json_t *after, const json_t *now)
{
    json_t *doc = json_deep_copy(before);
    struct trust b = trust_read(before), a = trust_read(after), n = trust_read(now);
    struct trust t = {fmax(0.25, b.alpha + n.alpha - a.alpha), fmax(0.25, b.beta + n.beta - a.beta)};
    if (json_object_get(now, "history"))
        json_put(doc, "history", json_deep_copy(json_object_get(now, "history")));
    trust_write(doc, &t, "a step of consolidation was taken back", NULL);
    static const char *const counts[] = {"uses", "wins"};
    for (size_t i = 0; i < 2; i++)
        json_put_int(doc, counts[i], json_int(before, counts[i], 0) + json_int(now, counts[i], 0) - json_int(after, counts[i], 0));
    json_put_str(doc, "updated", clock_text(clock_wall_ns()).text);
    return doc;
}

static void keep_apart(json_t *doc, const json_t *changes)
{
    json_t *apart = json_object_get(doc, "apart"), *change;
    size_t i;
    if (!json_is_array(apart)) {
        apart = json_array();
        json_put(doc, "apart", apart);
    }
    json_array_foreach(changes, i, change) {
        json_t *id = json_object_get(change, "lesson");
        if (json_equal(id, json_object_get(doc, "id")))
            continue;
        if (json_array_size(apart) >= APART_KEPT)
            json_array_remove(apart, 0);
        json_array_append(apart, id);
    }
}

static bool take_back(struct know *k, const json_t *step, const char *by, json_t **ret, struct err *err)
{
    const json_t *changes = json_object_get(step, "changes");
    struct later later = {json_str(step, "id", ""), changes, ""};
    struct store_page page = {STORE_STEP, NULL, NULL, STEPS_LOOKED_AT, true};
    cleanup(str) char *next = NULL;
    json_t *docs[4] = {NULL}, *change;
    int count = 0;
    size_t i;
    if (!store_list(k->store, &page, see_step, &later, &next, NULL, err))
        return false;
    if (*later.found)
        return err_set(err, ERR_CONFLICT, "step %s came later and changed the same lessons: take that back first", later.found);
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *undone = json_deep_copy(step), *event = json_object(), *ids = json_array();
    bool ok = true;
    json_array_foreach(changes, i, change) {
        cleanup(json) json_t *now = NULL;
        ok = ok && count < 4 && store_get(k->store, STORE_LESSON, json_str(change, "lesson", ""), &now, err);
        if (!ok)
            break;
        docs[count] = restored(json_object_get(change, "before"), json_object_get(change, "after"), now);
        keep_apart(docs[count++], changes);
        store_expect(b, STORE_LESSON, json_str(change, "lesson", ""), now);
        json_array_append(ids, json_object_get(change, "lesson"));
    }
    json_put_bool(undone, "undone", true);
    json_put_str(undone, "undone_by", by);
    json_put_str(undone, "undone_at", clock_text(clock_wall_ns()).text);
    json_put_str(event, "step", json_str(step, "id", ""));
    json_put_str(event, "kind", json_str(step, "kind", ""));
    json_put(event, "lessons", json_incref(ids));
    store_event(b, "lesson.undone", NULL, event);
    store_put(b, STORE_STEP, json_str(step, "id", ""), NULL, undone);
    if (ok)
        ok = know_commit(k, b, (const json_t *const *)docs, count, err);
    else
        store_batch_free(b);
    for (int n = 0; n < count; n++)
        json_decref(docs[n]);
    if (ok)
        *ret = json_incref(undone);
    return ok;
}

bool know_undo(struct know *k, const char *id, const char *by, json_t **ret, struct err *err)
{
    cleanup(json) json_t *step = NULL;
    pthread_mutex_lock(&k->writing);
    bool ok = store_get(k->store, STORE_STEP, id, &step, err);
    if (ok && json_bool(step, "undone", false))
        ok = err_set(err, ERR_CONFLICT, "step %s was taken back already", id);
    ok = ok && take_back(k, step, by, ret, err);
    pthread_mutex_unlock(&k->writing);
    return ok;
}

bool lessons_retire(struct know *k, const char *id, const char *reason, json_t **ret, struct err *err)
{
    cleanup(json) json_t *was = NULL, *doc = NULL, *step = json_object();
    pthread_mutex_lock(&k->writing);
    bool ok = store_get(k->store, STORE_LESSON, id, &was, err);
    if (ok && lesson_state_of(was) != LESSON_ACTIVE)
        ok = err_set(err, ERR_CONFLICT, "lesson %s is %s already", id, json_str(was, "state", ""));
    if (ok) {
        struct store_batch *b = store_batch_new();
        doc = json_deep_copy(was);
        lesson_end(doc, LESSON_RETIRED, reason);
        json_put_str(step, "id", id_new("step").text);
        json_put_str(step, "kind", "retire");
        json_put_str(step, "reason", reason);
        json_put_str(step, "time", clock_text(clock_wall_ns()).text);
        json_put_bool(step, "undone", false);
        json_put(step, "changes", json_pack("[{s:s,s:O,s:O}]", "lesson", id, "before", was, "after", doc));
        store_expect(b, STORE_LESSON, id, was);
        store_put(b, STORE_STEP, json_str(step, "id", ""), NULL, step);
        event_retired(b, doc, reason);
        ok = know_commit(k, b, (const json_t *const *)&doc, 1, err);
    }
    pthread_mutex_unlock(&k->writing);
    if (ok)
        *ret = json_incref(doc);
    return ok;
}

json_t *know_stats(struct know *k)
{
    static const char *const names[] = {"active", "superseded", "retired"};
    json_t *doc = json_object();
    pthread_rwlock_rdlock(&k->lock);
    for (int i = 0; i < 3; i++)
        json_put_int(doc, names[i], index_count(k->index, (enum lesson_state)i));
    json_put_int(doc, "vectors", index_vectors(k->index));
    pthread_rwlock_unlock(&k->lock);
    json_put_int(doc, "embed_failures", k->embed_failures);
    json_put_int(doc, "embed_fallbacks", k->embed_fallbacks);
    json_put_int(doc, "measured_again", k->measured_again);
    json_put_int(doc, "measured_same", k->measured_same);
    return doc;
}
