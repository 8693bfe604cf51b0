/*
 * A lesson from outside. Its evidence is pairs of candidates, one made with what it says and one without: both are looked up, must be
 * judged right for one shape, and the effect is computed from their own figures. Or an operator signs for it by name.
 *
 * The effect over pairs: the mean log ratio of times over shapes, since pairs of one shape say the same thing again. Its interval is the wider of
 * Student's (over shapes; of one shape over its pairs) and what the speed-ups' own intervals leave, added in squares over shapes: copies of one
 * pair have no spread, and are known no better than it. Not below 1, and no lesson: what it says has to help. Estimates have no interval: the
 * emulator's error is no noise, and is the same each time.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <math.h>

#define MOST_PAIRS (LESSON_MAX_CANDIDATES / 2)
#define MOST_ESTIMATED 2                 /* shapes that estimates are believed for */
#define NAME_BYTES 120
#define REASON_BYTES 500
#define SAME_TEXT 0.97                   /* cosine: then it says what another one says */

struct pair { double log_ratio, half; char shape[HASH_HEX_SIZE]; bool measured; };

static bool read_side(struct know *k, const json_t *pair, const char *key, const char *where, json_t **ret, struct faults *f)
{
    const char *id = json_str(pair, key, "");
    cleanup(str) char *at = xfmt("%s/%s", where, key);
    struct err err = {0};
    if (!id_valid(id, "cand") || !store_get(k->store, STORE_CANDIDATE, id, ret, &err)) {
        faults_add(f, at, "the id of a candidate of this service is needed");
        return false;
    }
    enum verdict_code code;
    const json_t *figures = json_object_get(*ret, "figures");
    if (!verdict_code_parse(json_str(json_object_get(*ret, "verdict"), "code", ""), &code) || !verdict_is_correct(code) ||
        !(json_num(json_object_get(figures, "speedup"), "median", 0) > 0) || json_num(figures, "time_ns", 0) <= 0) {
        faults_add(f, at, "%s was not judged right, or has no time", id);
        return false;
    }
    return true;
}

static double half_width(const json_t *record)
{
    const json_t *s = json_object_get(json_object_get(record, "figures"), "speedup");
    double low = json_num(s, "low", 0), high = json_num(s, "high", 0);
    return low > 0 && high >= low ? log(high / low) / 2 : 0.05;
}

static bool stands_in(const json_t *candidates, const char *id)
{
    size_t i;
    json_t *one;
    json_array_foreach(candidates, i, one)
        if (!strcmp(json_string_value(one), id))
            return true;
    return false;
}

static bool read_pair(struct know *k, const json_t *doc, size_t index, json_t *candidates, struct pair *ret, struct faults *f)
{
    static const char *const keys[] = {"with", "without", NULL};
    cleanup(json) json_t *with = NULL, *without = NULL;
    cleanup(str) char *where = xfmt("/evidence/pairs/%zu", index);
    int before = f->count;
    if (!json_is_object(doc))
        faults_add(f, where, "{\"with\":candidate,\"without\":candidate} is needed");
    else
        json_only_keys(doc, where, keys, f);
    if (f->count != before || !read_side(k, doc, "with", where, &with, f) || !read_side(k, doc, "without", where, &without, f))
        return false;
    const json_t *a = json_object_get(with, "figures"), *b = json_object_get(without, "figures");
    const char *evidence = json_str(a, "evidence", "");
    if (strcmp(json_str(with, "shape_hash", ""), json_str(without, "shape_hash", "-")) || strcmp(evidence, json_str(b, "evidence", "-")) ||
        json_equal(json_object_get(with, "id"), json_object_get(without, "id"))) {
        faults_add(f, where, "two candidates of one shape and one kind of evidence are needed");
        return false;
    }
    const char *const sides[] = {"with", "without"};
    for (size_t i = 0; i < 2; i++)
        if (stands_in(candidates, json_str(doc, sides[i], ""))) {
            cleanup(str) char *at = xfmt("%s/%s", where, sides[i]);
            faults_add(f, at, "%s stands in another pair: each pair needs two candidates of its own", json_str(doc, sides[i], ""));
            return false;
        }
    /* both against the same baseline, beside each of them */
    ret->log_ratio = log(json_num(json_object_get(a, "speedup"), "median", 1) / json_num(json_object_get(b, "speedup"), "median", 1));
    ret->half = hypot(half_width(with), half_width(without));
    ret->measured = !strcmp(evidence, "measured");
    snprintf(ret->shape, sizeof ret->shape, "%s", json_str(with, "shape_hash", ""));
    json_array_append(candidates, json_object_get(with, "id"));
    json_array_append(candidates, json_object_get(without, "id"));
    return isfinite(ret->log_ratio);
}

double student_95(int degrees)
{
    static const double table[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120};
    return degrees < 1 ? table[0] : degrees <= (int)(sizeof table / sizeof *table) ? table[degrees - 1] : 1.96 + 2.5 / degrees;
}

json_t *effect_encode(double mean, double half, int pairs)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:i}", "ratio", exp(mean), "low", exp(mean - half), "high", exp(mean + half), "level", 0.95, "pairs", pairs);
}

static double mean_of(const double *list, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += list[i];
    return sum / count;
}

static double student_half(const double *list, int count)
{
    const double mean = mean_of(list, count);
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += (list[i] - mean) * (list[i] - mean);
    return count > 1 ? student_95(count - 1) * sqrt(squares / (count - 1) / count) : 0;
}

/* Of the shape of pair `first`: means of its pairs' log ratios and half widths. False: an earlier pair is of that shape. */
static bool mean_of_shape(const struct pair *list, int count, int first, double *ret_ratio, double *ret_half)
{
    int n = 0;
    double ratio = 0, half = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(list[i].shape, list[first].shape))
            continue;
        if (i < first)
            return false;
        ratio += list[i].log_ratio, half += list[i].half, n++;
    }
    *ret_ratio = ratio / n, *ret_half = half / n;
    return true;
}

static json_t *effect_of(const struct pair *list, int count)
{
    double ratios[MOST_PAIRS], halves[MOST_PAIRS], all[MOST_PAIRS], squares = 0;
    int shapes = 0;
    for (int i = 0; i < count; i++) {
        all[i] = list[i].log_ratio;
        shapes += mean_of_shape(list, count, i, &ratios[shapes], &halves[shapes]);
    }
    for (int i = 0; i < shapes; i++)
        squares += halves[i] * halves[i];
    double spread = shapes > 1 ? student_half(ratios, shapes) : student_half(all, count);
    return effect_encode(mean_of(ratios, shapes), fmax(spread, sqrt(squares) / shapes), count);
}

/* Fills evidence by what the pairs show. False: faults, or err. */
static bool take_pairs(struct know *k, const json_t *pairs, json_t *evidence, struct faults *f, struct err *err)
{
    static const char *const of_noise[] = {"low", "high", "level"};
    struct pair list[MOST_PAIRS];
    json_t *candidates = json_array(), *shapes = json_array();
    json_put(evidence, "candidates", candidates);
    json_put(evidence, "shapes", shapes);
    size_t count = json_array_size(pairs);
    if (!json_is_array(pairs) || !count || count > MOST_PAIRS) {
        faults_add(f, "/evidence/pairs", "a list of 1 to %d pairs of candidates is needed", MOST_PAIRS);
        return false;
    }
    bool measured = true;
    for (size_t i = 0; i < count; i++) {
        if (!read_pair(k, json_array_get(pairs, i), i, candidates, &list[i], f))
            return false;
        measured &= list[i].measured;
        bool known = false;
        for (size_t s = 0; s < json_array_size(shapes); s++)
            known |= !strcmp(json_string_value(json_array_get(shapes, s)), list[i].shape);
        if (!known)
            json_array_append_new(shapes, json_string(list[i].shape));
    }
    json_t *effect = effect_of(list, (int)count);
    json_put(evidence, "effect", effect);
    json_put_bool(evidence, "measured", measured);
    if (json_num(effect, "low", 0) <= 1)
        return err_set(err, ERR_UNPROCESSABLE, "the pairs do not carry it: %.3g times faster with it, between %.3g and %.3g", json_num(effect, "ratio", 0),
                       json_num(effect, "low", 0), json_num(effect, "high", 0));
    for (size_t i = 0; i < sizeof of_noise / sizeof *of_noise && !measured; i++)
        json_object_del(effect, of_noise[i]);
    return true;
}

static bool take_evidence(struct know *k, const json_t *request, const char *signed_by, json_t **ret, struct faults *f, struct err *err)
{
    static const char *const keys[] = {"pairs", "reason", NULL};
    const json_t *given = json_object_get(request, "evidence"), *reason = json_object_get(given, "reason");
    cleanup(json) json_t *evidence = json_object();
    int before = f->count;
    if (given && !json_is_object(given))
        faults_add(f, "/evidence", "an object with pairs is needed");
    else if (given)
        json_only_keys(given, "/evidence", keys, f);
    if (reason && (!json_is_string(reason) || json_string_length(reason) > REASON_BYTES))
        faults_add(f, "/evidence/reason", "a text of at most %d bytes is needed", REASON_BYTES);
    if (!given && !signed_by)
        faults_add(f, "/evidence", "a lesson needs evidence: pairs of judged candidates, with it and without; or an operator who signs for it");
    if (f->count != before)
        return false;
    bool paired = json_object_get(given, "pairs") || !signed_by;
    json_put_str(evidence, "basis", paired ? "paired" : "signed");
    if (paired && !take_pairs(k, json_object_get(given, "pairs"), evidence, f, err))
        return false;
    if (!paired) {
        json_put(evidence, "candidates", json_array());
        json_put(evidence, "shapes", json_array());
        json_put(evidence, "effect", json_null());
        json_put_bool(evidence, "measured", false);
    }
    if (signed_by)
        json_put_str(evidence, "signed_by", signed_by);
    if (reason)
        json_put(evidence, "reason", json_incref((json_t *)(uintptr_t)reason));
    *ret = steal(&evidence);
    return true;
}

/* The active lesson that says the same under the same tags; "" none. */
static bool find_same(struct know *k, const json_t *doc, char same[LESSON_ID_SIZE], struct err *err)
{
    const char *tags[LESSON_MAX_TAGS];
    int tag_count = 0;
    size_t i;
    json_t *tag;
    cleanup(str) char *text = xfmt("%s %s", json_str(doc, "situation", ""), json_str(doc, "action", ""));
    json_array_foreach(json_object_get(doc, "tags"), i, tag)
        tags[tag_count++] = json_string_value(tag);
    struct lesson_query q = {.tags = tags, .tag_count = tag_count, .text = text, .limit = 5};
    cleanup(lesson_list) struct lesson_list near = {.count = 0};
    cleanup(terms) struct terms mine = {0};
    *same = 0;
    words_ngrams(text, strlen(text), 1, &mine);
    if (!lessons_retrieve(k, &q, &near, err))
        return false;
    for (int n = 0; n < near.count && !*same; n++) {
        cleanup(terms) struct terms other = {0};
        cleanup(str) char *its = xfmt("%s %s", near.list[n].situation, near.list[n].action);
        words_ngrams(its, strlen(its), 1, &other);
        if (ngram_cosine(&mine, &other) >= SAME_TEXT && json_equal(json_object_get(near.list[n].doc, "tags"), json_object_get(doc, "tags")))
            snprintf(same, LESSON_ID_SIZE, "%s", near.list[n].id);
    }
    return true;
}

void event_learned(struct store_batch *b, const json_t *lesson)
{
    cleanup(json) json_t *event = json_object();
    json_put_str(event, "lesson", json_str(lesson, "id", ""));
    json_put(event, "tags", json_incref(json_object_get(lesson, "tags")));
    json_put_str(event, "source", json_str(lesson, "source", ""));
    store_event(b, "lesson.learned", NULL, event);
}

static int count_active(struct know *k)
{
    pthread_rwlock_rdlock(&k->lock);
    int n = index_count(k->index, LESSON_ACTIVE);
    pthread_rwlock_unlock(&k->lock);
    return n;
}

static bool propose(struct know *k, const json_t *doc, struct err *err)
{
    char same[LESSON_ID_SIZE];
    if (count_active(k) >= k->config.max_lessons)
        return err_set(err, ERR_BUSY, "there are %lld active lessons already; retire some, or raise --max-lessons", (long long)k->config.max_lessons);
    if (!find_same(k, doc, same, err))
        return false;
    if (*same)
        return err_set(err, ERR_CONFLICT, "lesson %s says the same", same);
    struct store_batch *b = store_batch_new();
    event_learned(b, doc);
    return know_commit(k, b, &doc, 1, err);
}

/* The pairs have been found to carry it. A shape counts once; estimates, of however many shapes, for less than an operator's name. */
static struct trust trust_of_pairs(const json_t *evidence)
{
    const double ratio = json_num(json_object_get(evidence, "effect"), "ratio", 0);
    int shapes = (int)json_array_size(json_object_get(evidence, "shapes"));
    if (!json_bool(evidence, "measured", false) && shapes > MOST_ESTIMATED)
        shapes = MOST_ESTIMATED;
    return trust_of_evidence(ratio, ratio, shapes);
}

bool lessons_propose(struct know *k, const json_t *request, const char *source, const char *by, const char *signed_by, json_t **ret,
                     struct faults *f, struct err *err)
{
    static const char *const keys[] = {"tags", "situation", "action", "evidence", NULL};
    cleanup(json) json_t *tags = NULL, *evidence = NULL, *doc = NULL;
    cleanup(str) char *situation = NULL, *action = NULL;
    if (!json_is_object(request)) {
        faults_add(f, "", "must be an object");
        return err_set(err, ERR_INVALID, "a lesson is an object");
    }
    json_only_keys(request, "", keys, f);
    if (signed_by && (!*signed_by || strlen(signed_by) > NAME_BYTES))
        faults_add(f, "/signed_by", "a name of 1 to %d bytes is needed", NAME_BYTES);
    if (!lesson_parse(request, k->config.text_bytes, &tags, &situation, &action, f) || f->count)
        return err_set(err, ERR_INVALID, "the lesson has a fault");
    struct err why = {.code = ERR_INVALID, .text = "the evidence has a fault"};
    if (!take_evidence(k, request, signed_by, &evidence, f, &why))
        return err_set(err, why.code, "%s", why.text);
    doc = lesson_new(tags, situation, action, source, by);
    const json_t *effect = json_object_get(evidence, "effect");
    struct trust trust = json_is_object(effect) ? trust_of_pairs(evidence) : trust_signed();
    json_put(doc, "evidence", steal(&evidence));
    trust_write(doc, &trust, json_is_object(effect) ? "its evidence" : "an operator signed it", NULL);
    pthread_mutex_lock(&k->writing);
    bool ok = propose(k, doc, err);
    pthread_mutex_unlock(&k->writing);
    if (ok)
        *ret = json_incref(doc);
    return ok;
}
