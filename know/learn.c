/*
 * What jobs left to be learnt from, worked off one record at a time, each in one transaction that also takes the record away: exactly once,
 * whatever happens in between, and never in the way of an attempt.
 *
 *   STORE_LEARN "judged/CANDIDATE"      trust of the lessons that it used, or the rate at which candidates without lessons help; a note if it failed
 *   STORE_LEARN "closed/JOB/SHAPE_HASH" effects of the templates' parameters at that shape, and with them the lessons of its group (teach.c)
 *
 * A candidate helped if it is right, faster than the baseline, and not slower than the best before it by more than KEEPS_UP: to reach the best
 * at once and stay there is what a lesson is for, so not only gains count. What is nobody's fault is not counted, nor what never ran (refused, or
 * it did not compile): that says nothing of what a lesson advises. Candidates from outside: each caller once a lesson (lessons.h).
 */
#include "know/internal.h"

#include "core/clock.h"
#include "core/log.h"

#define KEEPS_UP 0.97
#define BASE_KEY "know/base"
#define BASE_KEEP 0.99
#define BASE_HELPED 1.0                  /* what is taken for known before anything is: one in four */
#define BASE_TRIED 4.0
#define LEARN_PAGE 64
#define OUTSIDE_KEPT 256                 /* callers that are remembered of a lesson; more are not counted */

void know_put_judged(struct store_batch *b, const json_t *record, double best_before_speedup, const char *outside)
{
    cleanup(json) json_t *doc = json_object();
    const char *id = json_str(record, "id", "");
    if (json_bool(record, "is_baseline", false) || !*id)
        return;
    cleanup(str) char *key = xfmt("judged/%s", id);
    json_put_str(doc, "candidate", id);
    json_put_num(doc, "best_before", best_before_speedup);
    if (outside)
        json_put_str(doc, "outside", outside);
    store_put(b, STORE_LEARN, key, NULL, doc);
}

void know_put_closed(struct store_batch *b, const char *job, const char *shape_hash, int op_version)
{
    cleanup(json) json_t *doc = json_object();
    cleanup(str) char *key = xfmt("closed/%s/%s", job, shape_hash);
    json_put_str(doc, "job", job);
    json_put_str(doc, "shape_hash", shape_hash);
    json_put_int(doc, "op_version", op_version);
    store_put(b, STORE_LEARN, key, NULL, doc);
}

/* ---- outcomes ---- */

static bool has_helped(const json_t *record, enum verdict_code code, double best_before)
{
    double speedup = json_num(json_object_get(json_object_get(record, "figures"), "speedup"), "median", 0);
    return code == VERDICT_OK && speedup > 1 && speedup >= KEEPS_UP * best_before;
}

static double base_rate(const json_t *base)
{
    double tried = json_num(base, "tried", BASE_TRIED);
    return tried > 0 ? json_num(base, "helped", BASE_HELPED) / tried : BASE_HELPED / BASE_TRIED;
}

static void move_base(struct store_batch *b, const json_t *base, bool helped)
{
    cleanup(json) json_t *next = json_object();
    json_put_num(next, "helped", BASE_KEEP * json_num(base, "helped", BASE_HELPED) + helped);
    json_put_num(next, "tried", BASE_KEEP * json_num(base, "tried", BASE_TRIED) + 1);
    store_put(b, STORE_META, BASE_KEY, NULL, next);
}

void event_retired(struct store_batch *b, const json_t *lesson, const char *reason)
{
    cleanup(json) json_t *event = json_object();
    json_put_str(event, "lesson", json_str(lesson, "id", ""));
    json_put_str(event, "reason", reason);
    store_event(b, "lesson.retired", NULL, event);
}

void lesson_end(json_t *doc, enum lesson_state state, const char *why)
{
    json_put_str(doc, "state", lesson_state_name(state));
    json_put_str(doc, "why_ended", why);
    json_put_str(doc, "updated", clock_text(clock_wall_ns()).text);
}

static void move_lesson(struct store_batch *b, json_t *doc, const char *candidate, bool helped, double rate, bool from_outside)
{
    struct trust t = trust_read(doc);
    trust_move(&t, helped);
    trust_write(doc, &t, helped ? "a candidate that used it helped" : "a candidate that used it did not help", candidate);
    json_put_int(doc, "uses", json_int(doc, "uses", 0) + 1);
    json_put_int(doc, "wins", json_int(doc, "wins", 0) + helped);
    json_put_str(doc, "updated", clock_text(clock_wall_ns()).text);
    if (!trust_spent(&t, json_int(doc, "uses", 0), rate) || (from_outside && json_str(json_object_get(doc, "evidence"), "signed_by", NULL)))
        return;
    cleanup(str) char *why = xfmt("it stopped helping: %lld of %lld candidates that used it did, %.2f at best are to be expected and %.2f come without",
                                  (long long)json_int(doc, "wins", 0), (long long)json_int(doc, "uses", 0), beta_quantile(t.alpha, t.beta, 1 - TRUST_LOWER), rate);
    lesson_end(doc, LESSON_RETIRED, why);
    event_retired(b, doc, why);
}

bool get_or_null(struct know *k, enum store_kind kind, const char *id, json_t **ret, struct err *err)
{
    struct err why = {0};
    *ret = NULL;
    return store_get(k->store, kind, id, ret, &why) || why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
}

/* The lessons a candidate names, each once, as far as they are there and active; how many. */
static bool load_used(struct know *k, const json_t *record, json_t *docs[LESSON_MAX_USED], int *ret_count, bool *ret_named, struct err *err)
{
    size_t i;
    json_t *item;
    *ret_count = 0;
    *ret_named = false;
    json_array_foreach(json_object_get(json_object_get(record, "candidate"), "lessons"), i, item) {
        const char *id = json_string_value(item);
        json_t *doc = NULL;
        bool twice = false;
        if (!id || !id_valid(id, "les") || *ret_count == LESSON_MAX_USED)
            continue;
        for (int n = 0; n < *ret_count; n++)
            twice |= !strcmp(json_str(docs[n], "id", ""), id);
        if (twice)
            continue;
        if (!get_or_null(k, STORE_LESSON, id, &doc, err))
            return false;
        *ret_named |= doc != NULL;
        if (doc && lesson_state_of(doc) == LESSON_ACTIVE)
            docs[(*ret_count)++] = doc;
        else
            json_decref(doc);
    }
    return true;
}

/* Whether this caller's word on the lesson was heard already, or too many were; if not, it is from now on. */
static bool was_heard(struct know *k, struct store_batch *b, const char *lesson, const char *caller, bool *ret, struct err *err)
{
    cleanup(str) char *key = xfmt("know/outside/%s", lesson);
    cleanup(json) json_t *was = NULL, *now = NULL;
    size_t i;
    json_t *item;
    if (!get_or_null(k, STORE_META, key, &was, err))
        return false;
    const json_t *callers = json_object_get(was, "callers");
    *ret = json_array_size(callers) >= OUTSIDE_KEPT;
    json_array_foreach(callers, i, item)
        *ret |= !strcmp(json_string_value(item), caller);
    if (*ret)
        return true;
    now = was ? json_deep_copy(was) : json_pack("{s:[]}", "callers");
    json_array_append_new(json_object_get(now, "callers"), json_string(caller));
    store_put(b, STORE_META, key, NULL, now);
    return true;
}

/* Whether the verdict says anything of how the candidate works. */
static bool has_run(enum verdict_code code)
{
    return code != VERDICT_REJECTED_PLAN && code != VERDICT_REJECTED_FORBIDDEN && code != VERDICT_COMPILE_ERROR;
}

static bool learn_judged(struct know *k, struct store_batch *b, const json_t *entry, json_t *docs[LESSON_MAX_USED], int *ret_count, struct err *err)
{
    cleanup(json) json_t *record = NULL, *base = NULL;
    enum verdict_code code;
    bool named;
    *ret_count = 0;
    if (!get_or_null(k, STORE_CANDIDATE, json_str(entry, "candidate", ""), &record, err))
        return false;
    if (!record || !verdict_code_parse(json_str(json_object_get(record, "verdict"), "code", ""), &code))
        return true;
    const bool nobody = code != VERDICT_OK && !strcmp(verdict_fault(code), "nobody");
    if (!nobody && !verdict_is_correct(code) && !notes_add(k, b, record, err))
        return false;
    if (nobody || !has_run(code))
        return true;
    if (!get_or_null(k, STORE_META, BASE_KEY, &base, err) || !load_used(k, record, docs, ret_count, &named, err))
        return false;
    const char *outside = json_str(entry, "outside", NULL);
    bool helped = has_helped(record, code, json_num(entry, "best_before", 0)), heard = false;
    for (int i = 0; i < *ret_count; i++) {
        if (outside && !was_heard(k, b, json_str(docs[i], "id", ""), outside, &heard, err))
            return false;
        if (!heard)
            move_lesson(b, docs[i], json_str(record, "id", NULL), helped, base_rate(base), outside != NULL);
    }
    if (!named && !outside)
        move_base(b, base, helped);
    return true;
}

/* ---- the work ---- */

struct entries { int count; struct { char key[STORE_KEY_MAX]; json_t *doc; } list[LEARN_PAGE]; };

static bool take_entry(void *ctx, const char *id, const json_t *doc)
{
    struct entries *e = ctx;
    snprintf(e->list[e->count].key, sizeof e->list[0].key, "%s", id);
    e->list[e->count++].doc = json_incref((json_t *)(uintptr_t)doc);
    return e->count < LEARN_PAGE;
}

static bool work_one(struct know *k, const char *key, const json_t *entry, struct err *err)
{
    json_t *docs[TEACH_MAX] = {NULL};
    int count = 0;
    struct store_batch *b = store_batch_new();
    store_expect(b, STORE_LEARN, key, entry);
    bool ok = strncmp(key, "closed/", 7) ? learn_judged(k, b, entry, docs, &count, err) : teach_shape(k, b, entry, docs, &count, err);
    store_delete(b, STORE_LEARN, key);
    if (ok)
        ok = know_commit(k, b, (const json_t *const *)docs, count, err);
    else
        store_batch_free(b);
    for (int i = 0; i < count; i++)
        json_decref(docs[i]);
    return ok;
}

bool know_work(struct know *k, struct err *err)
{
    bool ok = true;
    int count;
    do {
        cleanup(mem) void *memory = xalloc(sizeof(struct entries));
        struct entries *e = memory;
        cleanup(str) char *next = NULL;
        struct store_page page = {STORE_LEARN, NULL, NULL, LEARN_PAGE, false};
        ok = store_list(k->store, &page, take_entry, e, &next, NULL, err);
        count = e->count;
        for (int i = 0; i < e->count; i++) {
            pthread_mutex_lock(&k->writing);
            ok = ok && !k->stopping && work_one(k, e->list[i].key, e->list[i].doc, err);
            pthread_mutex_unlock(&k->writing);
            json_decref(e->list[i].doc);
        }
    } while (ok && count && !k->stopping);
    return ok || k->stopping;
}

/* ---- the thread ---- */

#define RETRY_NS ((int64_t)5000000000)

static void sleep_until(struct know *k, int64_t until_ns)
{
    struct timespec at = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_mutex_lock(&k->sleep);
    while (!k->news && !k->stopping && pthread_cond_timedwait(&k->wake, &k->sleep, &at) == 0)
        continue;
    k->news = false;
    pthread_mutex_unlock(&k->sleep);
}

static void *know_main(void *arg)
{
    struct know *k = arg;
    int64_t consolidate_at_ns = clock_mono_ns() + k->config.consolidate_ns;
    while (!k->stopping) {
        struct err err = {0};
        int64_t now_ns, until_ns;
        bool ok = know_work(k, &err);
        now_ns = clock_mono_ns();
        if (ok && k->config.consolidate_ns > 0 && now_ns >= consolidate_at_ns) {
            int steps = 0;
            ok = know_consolidate(k, &steps, &err);
            consolidate_at_ns = clock_mono_ns() + k->config.consolidate_ns;
        }
        int vectors = 0;
        struct err why = {0};
        const bool embedded = k->stopping || know_embed(k, &vectors, &why);
        if (!embedded)
            log_line(LOG_WARN, "no vectors for lessons; they are found without, and it is tried again", "error", why.text, NULL);
        if (!ok && !k->stopping)
            log_line(LOG_WARN, "the knowledge layer could not work something off; it tries again", "error", err.text, NULL);
        until_ns = !ok ? clock_mono_ns() + RETRY_NS : k->config.consolidate_ns > 0 ? consolidate_at_ns : now_ns + (int64_t)3600 * 1000000000;
        if (!embedded && clock_mono_ns() + EMBED_RETRY_NS < until_ns)
            until_ns = clock_mono_ns() + EMBED_RETRY_NS;
        sleep_until(k, until_ns);
    }
    return NULL;
}

bool know_start(struct know *k, struct err *err)
{
    k->started = pthread_create(&k->thread, NULL, know_main, k) == 0;
    return k->started || err_set(err, ERR_UNAVAILABLE, "the thread of the knowledge layer cannot be started");
}
