/*
 * Consolidation, in the background: lessons that say the same become one, lessons that say the opposite are told apart by evidence. Each step
 * is one transaction with a record of what every lesson was before (undo.c) and an event.
 *
 * The same: equal tags and nearly equal text. The more trusted one stays, takes the other's evidence and outcomes over, and a language model,
 * where there is one, may say both in one text.
 * The opposite: equal situation and an action that turns the other's around (raise and lower), or pairs of candidates the other way round, or
 * another best value of the same parameter. What is measured goes before what is estimated; then intervals that do not touch; then the judge is
 * asked, if it can be: the candidates of both are measured against each other; then trust, where it is far apart. Else both stay.
 */
#include "know/internal.h"

#include "core/clock.h"
#include "core/hash.h"

#include <math.h>

#define SAME_TEXT 0.90                   /* cosine of n-grams of situation and action */
#define SAME_SITUATION 0.80
#define NEAR_LESSONS 8                   /* looked at beside each */
#define STEPS_AT_ONCE 64                 /* of one round */
#define LESSONS_A_ROUND 2048
#define TRUST_APART 0.25
#define APART_KEPT 16

struct said { struct terms situation, action, all; };

static void said_done(struct said *s)
{
    terms_done(&s->situation);
    terms_done(&s->action);
    terms_done(&s->all);
}
DEFINE_CLEANUP(said, struct said, said_done(it))

static void said_read(const json_t *doc, struct said *s)
{
    const char *situation = json_str(doc, "situation", ""), *action = json_str(doc, "action", "");
    words_ngrams(situation, strlen(situation), 1, &s->situation);
    words_ngrams(action, strlen(action), 1, &s->action);
    words_ngrams(situation, strlen(situation), 1, &s->all);
    words_ngrams(action, strlen(action), 1, &s->all);
}

static bool has_item(const json_t *list, const char *text)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (json_is_string(item) && !strcmp(json_string_value(item), text))
            return true;
    return false;
}

static bool same_tags(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "tags"), *y = json_object_get(b, "tags");
    size_t i;
    json_t *tag;
    json_array_foreach(x, i, tag)
        if (!has_item(y, json_string_value(tag)))
            return false;
    return json_array_size(x) == json_array_size(y);
}

static bool kept_apart(const json_t *a, const json_t *b)
{
    return has_item(json_object_get(a, "apart"), json_str(b, "id", "")) || has_item(json_object_get(b, "apart"), json_str(a, "id", ""));
}

/* ---- opposites ---- */

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strcasestr(text, word); at; at = strcasestr(at + 1, word)) {
        bool begins = at == text || !(((unsigned char)at[-1] | 32) >= 'a' && ((unsigned char)at[-1] | 32) <= 'z');
        bool ends = !(((unsigned char)at[n] | 32) >= 'a' && ((unsigned char)at[n] | 32) <= 'z');
        if (begins && ends)
            return true;
    }
    return false;
}

static bool turned_around(const char *a, const char *b)
{
    static const char *const pairs[][2] = {{"raise", "lower"}, {"increase", "decrease"}, {"more", "fewer"}, {"more", "less"}, {"larger", "smaller"}, {"enable", "disable"},
                                           {"use", "avoid"}, {"add", "remove"}, {"wider", "narrower"}, {"split", "merge"}, {"on", "off"}, {"deeper", "shallower"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int way = 0; way < 2; way++) {
            const char *one = pairs[i][way], *other = pairs[i][!way];
            if (has_word(a, one) && !has_word(a, other) && has_word(b, other) && !has_word(b, one))
                return true;
        }
    return false;
}

static const char *evidence_candidate(const json_t *doc, size_t index)
{
    return json_string_value(json_array_get(json_object_get(json_object_get(doc, "evidence"), "candidates"), index));
}

static bool is_basis(const json_t *doc, const char *basis)
{
    return !strcmp(json_str(json_object_get(doc, "evidence"), "basis", ""), basis);
}

/* A pair of one is a pair of the other the other way round: with, without, with, without, ... */
static bool pairs_reversed(const json_t *a, const json_t *b)
{
    if (!is_basis(a, "paired") || !is_basis(b, "paired"))
        return false;
    for (size_t i = 0; evidence_candidate(a, i) && evidence_candidate(a, i + 1); i += 2)
        for (size_t k = 0; evidence_candidate(b, k) && evidence_candidate(b, k + 1); k += 2)
            if (!strcmp(evidence_candidate(a, i), evidence_candidate(b, k + 1)) && !strcmp(evidence_candidate(a, i + 1), evidence_candidate(b, k)))
                return true;
    return false;
}

static int64_t best_value(const json_t *effects)
{
    const json_t *best = NULL;
    size_t i;
    json_t *level;
    json_array_foreach(json_object_get(effects, "levels"), i, level)
        if (!best || json_num(level, "effect", 0) < json_num(best, "effect", 0))
            best = level;
    return json_int(best, "value", INT64_MIN);
}

static bool other_best(const json_t *a, const json_t *b)
{
    const json_t *x = json_object_get(a, "effects"), *y = json_object_get(b, "effects");
    return x && y && !strcmp(json_str(x, "template", ""), json_str(y, "template", "-")) && !strcmp(json_str(x, "param", ""), json_str(y, "param", "-")) &&
           best_value(x) != best_value(y);
}

enum relation { UNRELATED, DUPLICATE, OPPOSITE };
static enum relation relate(const json_t *a, const json_t *b)
{
    if (!same_tags(a, b) || kept_apart(a, b))
        return UNRELATED;
    if (json_object_get(a, "effects") || json_object_get(b, "effects"))
        return other_best(a, b) ? OPPOSITE : UNRELATED;      /* those are said anew by whoever learnt them */
    if (pairs_reversed(a, b))
        return OPPOSITE;
    cleanup(said) struct said x = {.all = {0}}, y = {.all = {0}};
    said_read(a, &x);
    said_read(b, &y);
    if (ngram_cosine(&x.situation, &y.situation) >= SAME_SITUATION && turned_around(json_str(a, "action", ""), json_str(b, "action", "")))
        return OPPOSITE;
    return ngram_cosine(&x.all, &y.all) >= SAME_TEXT ? DUPLICATE : UNRELATED;
}

/* ---- steps ---- */

static void add_change(json_t *step, const json_t *before, const json_t *after)
{
    json_array_append_new(json_object_get(step, "changes"), json_pack("{s:O,s:O,s:O}", "lesson", json_object_get(after, "id"), "before", before, "after", after));
}

static json_t *step_new(const char *kind, const char *reason)
{
    json_t *step = json_object();
    json_put_str(step, "id", id_new("step").text);
    json_put_str(step, "kind", kind);
    json_put_str(step, "reason", reason);
    json_put_str(step, "time", clock_text(clock_wall_ns()).text);
    json_put_bool(step, "undone", false);
    json_put(step, "changes", json_array());
    return step;
}

static bool commit_step(struct know *k, const json_t *step, const json_t *a_was, const json_t *b_was, const json_t *const docs[2], struct err *err)
{
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *event = json_object(), *ids = json_array();
    const json_t *was[2] = {a_was, b_was};
    for (int i = 0; i < 2; i++) {
        store_expect(b, STORE_LESSON, json_str(was[i], "id", ""), was[i]);
        json_array_append(ids, json_object_get(docs[i], "id"));
        if (lesson_state_of(docs[i]) == LESSON_RETIRED && lesson_state_of(was[i]) == LESSON_ACTIVE)
            event_retired(b, docs[i], json_str(docs[i], "why_ended", ""));
    }
    json_put_str(event, "step", json_str(step, "id", ""));
    json_put_str(event, "kind", json_str(step, "kind", ""));
    json_put(event, "lessons", json_incref(ids));
    store_event(b, "lesson.step", NULL, event);
    store_put(b, STORE_STEP, json_str(step, "id", ""), NULL, step);
    return know_commit(k, b, docs, 2, err);
}

/* Adds what the other list has, up to what evidence may hold. */
static void unite(json_t *evidence, const json_t *other, const char *key)
{
    json_t *list = json_object_get(evidence, key), *item;
    size_t i;
    json_array_foreach(json_object_get(other, key), i, item)
        if (json_is_array(list) && json_array_size(list) < LESSON_MAX_CANDIDATES && !has_item(list, json_string_value(item)))
            json_array_append(list, item);
}

static json_t *end_for(const json_t *loser, const json_t *winner, const char *why)
{
    json_t *doc = json_deep_copy(loser);
    lesson_end(doc, LESSON_SUPERSEDED, why);
    json_put_str(doc, "superseded_by", json_str(winner, "id", ""));
    return doc;
}

static void say_in_one(struct know *k, json_t *kept, const json_t *a, const json_t *b)
{
    struct err err = {0};
    cleanup(json) json_t *both = json_pack("[O,O]", a, b);
    cleanup(str) char *situation = NULL, *action = NULL;
    cleanup(json) json_t *request = NULL, *tags = NULL;
    cleanup(str) char *clean_situation = NULL, *clean_action = NULL;
    struct faults f = {0};
    if (!k->config.summarise || !k->config.summarise(k->config.ctx, both, &situation, &action, &err) || !situation || !action)
        return;
    request = json_object();
    json_put(request, "tags", json_incref(json_object_get(kept, "tags")));
    json_put_str(request, "situation", situation);
    json_put_str(request, "action", action);
    if (!lesson_parse(request, k->config.text_bytes, &tags, &clean_situation, &clean_action, &f))
        return;                          /* what a model says is held to the same limits; else the old text stays */
    json_put_str(kept, "situation", clean_situation);
    json_put_str(kept, "action", clean_action);
}

static bool merge(struct know *k, const json_t *winner, const json_t *loser, struct err *err)
{
    cleanup(json) json_t *step = step_new("merge", "they say the same"), *kept = json_deep_copy(winner), *ended = end_for(loser, winner, "another lesson says the same");
    struct trust a = trust_read(winner), b = trust_read(loser);
    struct trust both = {a.alpha + b.alpha - 1, a.beta + b.beta - 1};     /* what both began with counts once */
    both.alpha = fmax(both.alpha, 0.25);
    both.beta = fmax(both.beta, 0.25);
    trust_write(kept, &both, "it took over another lesson that says the same", NULL);
    json_put_int(kept, "uses", json_int(winner, "uses", 0) + json_int(loser, "uses", 0));
    json_put_int(kept, "wins", json_int(winner, "wins", 0) + json_int(loser, "wins", 0));
    json_put_str(kept, "updated", clock_text(clock_wall_ns()).text);
    if (is_basis(winner, "paired") == is_basis(loser, "paired")) {        /* pairs stay pairs */
        unite(json_object_get(kept, "evidence"), json_object_get(loser, "evidence"), "candidates");
        unite(json_object_get(kept, "evidence"), json_object_get(loser, "evidence"), "shapes");
    }
    json_t *supersedes = json_object_get(kept, "supersedes");
    if (json_is_array(supersedes) && json_array_size(supersedes) < APART_KEPT)
        json_array_append(supersedes, json_object_get(loser, "id"));
    say_in_one(k, kept, winner, loser);
    add_change(step, winner, kept);
    add_change(step, loser, ended);
    const json_t *docs[2] = {kept, ended};
    return commit_step(k, step, winner, loser, docs, err);
}

/* ---- evidence ---- */

enum winner { NEITHER, FIRST, SECOND };
struct ruling { enum winner winner; char reason[200]; };

static void rule_by(struct ruling *r, bool first, const char *why)
{
    r->winner = first ? FIRST : SECOND;
    snprintf(r->reason, sizeof r->reason, "%s", why);
}

/* By what is known. NEITHER: it does not tell. */
static struct ruling rule_known(const json_t *a, const json_t *b)
{
    struct ruling r = {NEITHER, ""};
    const json_t *x = json_object_get(a, "evidence"), *y = json_object_get(b, "evidence");
    const json_t *ex = json_object_get(x, "effect"), *ey = json_object_get(y, "effect");
    bool mx = json_bool(x, "measured", false), my = json_bool(y, "measured", false);
    if (mx != my)
        rule_by(&r, mx, "one was measured, the other was not");
    else if (json_num(ex, "low", 0) > json_num(ey, "high", INFINITY) || json_num(ey, "low", 0) > json_num(ex, "high", INFINITY))
        rule_by(&r, json_num(ex, "low", 0) > json_num(ey, "high", INFINITY), "the intervals of their effects do not touch");
    return r;
}

/* A candidate of each that was made as its lesson says, both of one shape: these can be laid side by side. */
static bool find_comparable(struct know *k, const json_t *a, const json_t *b, const char **ret_x, const char **ret_y)
{
    const char *x, *y;
    for (size_t i = 0; (x = evidence_candidate(a, i)); i += is_basis(a, "paired") ? 2 : 1) {
        cleanup(json) json_t *first = NULL;
        struct err none = {0};
        if (!store_get(k->store, STORE_CANDIDATE, x, &first, &none))
            continue;
        for (size_t n = 0; (y = evidence_candidate(b, n)); n += is_basis(b, "paired") ? 2 : 1) {
            cleanup(json) json_t *second = NULL;
            if (strcmp(x, y) && store_get(k->store, STORE_CANDIDATE, y, &second, &none) &&
                !strcmp(json_str(first, "shape_hash", ""), json_str(second, "shape_hash", "-"))) {
                *ret_x = x, *ret_y = y;
                return true;
            }
        }
    }
    return false;
}

/* Of both as they are: one that says something else, or rests on something else, is another. */
static uint64_t pair_mark(const json_t *a, const json_t *b)
{
    cleanup(str) char *x = json_text(json_object_get(a, "evidence")), *y = json_text(json_object_get(b, "evidence"));
    cleanup(str) char *text = xfmt("%s %s %s %s %s %s", json_str(a, "id", ""), json_str(a, "action", ""), x, json_str(b, "id", ""), json_str(b, "action", ""), y);
    uint64_t mark;
    struct hash_hex hash = hash_of(text, strlen(text));
    memcpy(&mark, hash.text, sizeof mark);
    return mark;
}

/* What did not differ is not measured again each round: a card has better things to do. */
static bool was_undecided(const struct know *k, uint64_t mark)
{
    for (int i = 0; i < UNDECIDED_KEPT; i++)
        if (k->undecided[i] == mark)
            return true;
    return false;
}

/* Anyone may propose lessons that contradict: what that makes the judge work has a limit, and a pair that nobody has used is worth none of it. */
static bool may_measure(struct know *k, const json_t *a, const json_t *b)
{
    return k->config.measure && k->round_measured < k->config.measure_round && measured_today(k) < k->config.measure_day &&
           (json_int(a, "uses", 0) > 0 || json_int(b, "uses", 0) > 0);
}

static struct ruling rule_measured(struct know *k, const json_t *a, const json_t *b)
{
    struct ruling r = {NEITHER, ""};
    struct err err = {0};
    struct lesson_comparison c;
    const char *x, *y;
    const uint64_t mark = pair_mark(a, b);
    if (!may_measure(k, a, b) || was_undecided(k, mark) || !find_comparable(k, a, b, &x, &y))
        return r;
    k->round_measured++;
    if (!measured_another(k, &err) || !k->config.measure(k->config.ctx, x, y, &c, &err))
        return r;
    k->measured_again++;
    if (c.low > 1 || c.high < 1) {
        r.winner = c.low > 1 ? FIRST : SECOND;
        snprintf(r.reason, sizeof r.reason, "%s again: %.40s is %.4g [%.4g, %.4g] times as fast as %.40s", c.measured ? "measured" : "estimated", x, c.ratio, c.low,
                 c.high, y);
    } else {
        k->measured_same++;
        k->undecided[k->undecided_at] = mark;
        k->undecided_at = (k->undecided_at + 1) % UNDECIDED_KEPT;
    }
    return r;
}

static struct ruling rule_trusted(const json_t *a, const json_t *b)
{
    struct ruling r = {NEITHER, ""};
    struct trust x = trust_read(a), y = trust_read(b);
    double apart = trust_lower(&x) - trust_lower(&y);
    if (fabs(apart) >= TRUST_APART)
        rule_by(&r, apart > 0, "what became of their candidates speaks for one");
    return r;
}

static bool resolve(struct know *k, const json_t *a, const json_t *b, const struct ruling *r, struct err *err)
{
    const json_t *winner = r->winner == FIRST ? a : b, *loser = r->winner == FIRST ? b : a;
    cleanup(json) json_t *step = step_new("resolve", r->reason), *kept = json_deep_copy(winner), *ended = end_for(loser, winner, r->reason);
    json_t *supersedes = json_object_get(kept, "supersedes");
    if (json_is_array(supersedes) && json_array_size(supersedes) < APART_KEPT)
        json_array_append(supersedes, json_object_get(loser, "id"));
    add_change(step, winner, kept);
    add_change(step, loser, ended);
    const json_t *docs[2] = {kept, ended};
    return commit_step(k, step, winner, loser, docs, err);
}

/* ---- a round ---- */

/* Both as they are now; false where one of them is not active any more. */
static bool reload(struct know *k, const char *a, const char *b, json_t **ret_a, json_t **ret_b)
{
    struct err gone = {0};
    return store_get(k->store, STORE_LESSON, a, ret_a, &gone) && store_get(k->store, STORE_LESSON, b, ret_b, &gone) &&
           lesson_state_of(*ret_a) == LESSON_ACTIVE && lesson_state_of(*ret_b) == LESSON_ACTIVE;
}

/* The judge and a model take their time: both are asked before the lock is taken, and what they said counts only if nothing has changed. */
static bool step_pair(struct know *k, const char *id, const char *other, bool *ret_done, struct err *err)
{
    cleanup(json) json_t *a = NULL, *b = NULL, *now_a = NULL, *now_b = NULL;
    struct err why = {0};
    *ret_done = false;
    if (!reload(k, id, other, &a, &b))
        return true;
    enum relation relation = relate(a, b);
    struct ruling r = {NEITHER, ""};
    if (relation == OPPOSITE) {
        r = rule_known(a, b);
        r = r.winner ? r : rule_measured(k, a, b);
        r = r.winner ? r : rule_trusted(a, b);
    }
    if (relation == UNRELATED || (relation == OPPOSITE && !r.winner))
        return true;
    pthread_mutex_lock(&k->writing);
    bool ok = true, same = reload(k, id, other, &now_a, &now_b) && json_equal(a, now_a) && json_equal(b, now_b);
    if (same && relation == DUPLICATE) {
        struct trust x = trust_read(a), y = trust_read(b);
        bool first = trust_lower(&x) != trust_lower(&y) ? trust_lower(&x) > trust_lower(&y) : strcmp(json_str(a, "created", ""), json_str(b, "created", "")) <= 0;
        ok = merge(k, first ? a : b, first ? b : a, &why);
    } else if (same)
        ok = resolve(k, a, b, &r, &why);
    pthread_mutex_unlock(&k->writing);
    *ret_done = same && ok;
    return ok || why.code == ERR_CONFLICT || err_set(err, why.code, "%s", why.text);
}

static bool look_around(struct know *k, const json_t *lesson, int *steps, struct err *err)
{
    const char *tags[LESSON_MAX_TAGS], *id = json_str(lesson, "id", "");
    int tag_count = 0;
    size_t i;
    json_t *tag;
    cleanup(str) char *text = xfmt("%s %s", json_str(lesson, "situation", ""), json_str(lesson, "action", ""));
    cleanup(lesson_list) struct lesson_list near = {.count = 0};
    json_array_foreach(json_object_get(lesson, "tags"), i, tag)
        if (tag_count < LESSON_MAX_TAGS)
            tags[tag_count++] = json_string_value(tag);
    struct lesson_query q = {.tags = tags, .tag_count = tag_count, .text = text, .limit = NEAR_LESSONS};
    if (!lessons_retrieve(k, &q, &near, err))
        return false;
    for (int n = 0; n < near.count && *steps < STEPS_AT_ONCE && !k->stopping; n++) {
        bool done = false;
        if (strcmp(near.list[n].id, id) <= 0)        /* each pair once, from its first */
            continue;
        const int64_t measured = k->round_measured;
        if (!step_pair(k, id, near.list[n].id, &done, err))
            return false;
        if (k->round_measured != measured && !know_work(k, err))     /* a judgement takes its time: what jobs left does not wait for all of them */
            return false;
        *steps += done;
        if (done)
            break;                       /* it may be another lesson now: the next round looks again */
    }
    return true;
}

struct ids { int count; char list[LESSONS_A_ROUND][LESSON_ID_SIZE]; };

static bool take_id(void *ctx, const char *id, const json_t *doc)
{
    struct ids *ids = ctx;
    if (lesson_state_of(doc) == LESSON_ACTIVE && strlen(id) < LESSON_ID_SIZE)
        snprintf(ids->list[ids->count++], LESSON_ID_SIZE, "%s", id);
    return ids->count < LESSONS_A_ROUND;
}

bool know_consolidate(struct know *k, int *ret_steps, struct err *err)
{
    cleanup(mem) void *memory = xalloc(sizeof(struct ids));
    struct ids *ids = memory;
    char *next = NULL;
    struct store_page page = {STORE_LESSON, lesson_state_name(LESSON_ACTIVE), k->round_after, LESSONS_A_ROUND, false};
    *ret_steps = 0;
    k->round_measured = 0;
    if (!store_list(k->store, &page, take_id, ids, &next, NULL, err))
        return false;
    free(k->round_after);                /* the next round goes on where this one ends, then from the start */
    k->round_after = next;
    for (int i = 0; i < ids->count && *ret_steps < STEPS_AT_ONCE && !k->stopping; i++) {
        cleanup(json) json_t *lesson = NULL;
        if (!get_or_null(k, STORE_LESSON, ids->list[i], &lesson, err))
            return false;
        if (lesson && lesson_state_of(lesson) == LESSON_ACTIVE && !look_around(k, lesson, ret_steps, err))
            return false;
    }
    return true;
}
