/*
 * Retrieval: what the index ranks, from the specific to the general, as whole lessons within a budget of tokens.
 *
 * First only what the tags do not contradict. Where that is too little, what contradicts the target alone, then the dtype, then the
 * operator is taken too, after all that fits: a lesson for another card is better than none, and comes last.
 */
#include "know/internal.h"

#include "core/err.h"

#define DEFAULT_LIMIT 8
#define MOST_LIMIT 64
#define SEMANTIC_BACKEND "hashed-ngrams"

void lesson_list_done(struct lesson_list *l)
{
    for (int i = 0; i < l->count; i++)
        json_decref(l->list[i].doc);
    free(l->list);
    *l = (struct lesson_list){0};
}

struct asked { float *vector; int dim; struct terms terms, ngrams; const char *tags[LESSON_MAX_TAGS]; int tag_count; };

static void asked_done(struct asked *a)
{
    free(a->vector);
    terms_done(&a->terms);
    terms_done(&a->ngrams);
}
DEFINE_CLEANUP(asked, struct asked, asked_done(it))

static void add_query(const struct know *k, const char *text, size_t bytes, double weight, struct asked *a)
{
    words_terms(k->thesaurus, text, bytes, weight, &a->terms);
    words_ngrams(text, bytes, weight, &a->ngrams);
    words_concepts(k->thesaurus, text, bytes, VECTOR_CONCEPT * weight, &a->ngrams);
}

static void read_query(const struct know *k, const struct lesson_query *q, struct asked *a)
{
    for (int i = 0; i < q->tag_count && a->tag_count < LESSON_MAX_TAGS; i++) {
        if (!tag_valid(q->tags[i]))
            continue;
        a->tags[a->tag_count++] = q->tags[i];
        /* symptoms and techniques are also words that a lesson may use without having the tag */
        const char *name = strchr(q->tags[i], '/') + 1;
        if (!tag_facet_excludes(tag_facet(q->tags[i])))
            add_query(k, name, strlen(name), 0.5, a);
    }
    if (q->text)
        add_query(k, q->text, strnlen(q->text, LESSON_QUERY_BYTES), 1, a);
    words_near(k->thesaurus, &a->terms);
}

struct pick { char id[LESSON_ID_SIZE]; struct lesson_parts parts; };

static bool is_picked(const struct pick *list, int count, const char *id)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i].id, id))
            return true;
    return false;
}

/* What is let loose, step by step, where too little fits. */
static int pick_all(const struct know *k, const struct lesson_query *q, const struct asked *a, int most, struct pick *list)
{
    static const char *const steps[] = {"target/", "dtype/", "op/"};
    struct found found[MOST_LIMIT * 2];
    struct index_query iq = {.terms = &a->terms, .ngrams = &a->ngrams, .tags = a->tags, .tag_count = a->tag_count, .without = q->without,
                             .ended_too = q->ended_too, .vector = a->vector, .dim = a->dim};
    int count = 0;
    for (size_t step = 0; step <= sizeof steps / sizeof *steps && count < most; step++) {
        if (step)
            iq.loose |= 1u << tag_facet(steps[step - 1]);
        int n = index_find(k->index, &iq, found, most + count < MOST_LIMIT * 2 ? most + count : MOST_LIMIT * 2);
        for (int i = 0; i < n && count < most; i++) {
            const char *id = index_id(k->index, found[i].doc);
            if (is_picked(list, count, id))
                continue;
            snprintf(list[count].id, sizeof list[count].id, "%s", id);
            list[count++].parts = found[i].parts;
        }
        if (!a->tag_count)
            break;
    }
    return count;
}

static int tokens_of(const json_t *doc)
{
    cleanup(buf) struct buf text = {0};
    lesson_text(doc, &text);
    return lesson_tokens(text.data, text.size);
}

bool lessons_retrieve(struct know *k, const struct lesson_query *q, struct lesson_list *ret, struct err *err)
{
    int limit = q->limit > 0 ? q->limit : DEFAULT_LIMIT;
    limit = limit < MOST_LIMIT ? limit : MOST_LIMIT;
    const int most = q->token_budget > 0 && 2 * limit < MOST_LIMIT ? 2 * limit : limit;   /* what does not fit makes room for the next */
    struct pick picks[MOST_LIMIT];
    cleanup(asked) struct asked a = {.tag_count = 0};
    cleanup(lesson_list) struct lesson_list list = {.backend = SEMANTIC_BACKEND, .list = xarray((size_t)limit, sizeof *list.list)};
    read_query(k, q, &a);
    if (q->may_wait && q->text && *q->text && (a.vector = vector_of_query(k, q->text, &a.dim)))
        list.backend = SEMANTIC_BACKEND "+endpoint";
    pthread_rwlock_rdlock(&k->lock);
    int count = pick_all(k, q, &a, most, picks);
    pthread_rwlock_unlock(&k->lock);
    for (int i = 0; i < count && list.count < limit; i++) {
        json_t *doc = NULL;
        struct err gone = {0};
        if (!store_get(k->store, STORE_LESSON, picks[i].id, &doc, &gone)) {
            if (gone.code != ERR_NOT_FOUND)
                return err_set(err, gone.code, "%s", gone.text);
            continue;
        }
        struct lesson_hit hit = {.doc = doc, .situation = json_str(doc, "situation", ""), .action = json_str(doc, "action", ""),
                                 .trust = picks[i].parts.trust, .tokens = tokens_of(doc), .parts = picks[i].parts};
        snprintf(hit.id, sizeof hit.id, "%s", picks[i].id);
        if (q->token_budget > 0 && list.tokens + hit.tokens > q->token_budget) {
            json_decref(doc);
            continue;
        }
        list.tokens += hit.tokens;
        list.list[list.count++] = hit;
    }
    *ret = list;
    list = (struct lesson_list){0};
    return true;
}

json_t *lesson_list_encode(const struct lesson_list *l)
{
    json_t *doc = json_object(), *lessons = json_array();
    for (int i = 0; i < l->count; i++) {
        const struct lesson_parts *p = &l->list[i].parts;
        json_t *one = json_copy(l->list[i].doc);
        json_object_del(one, "history");         /* a lesson by itself has it */
        json_put(one, "score", json_pack("{s:f,s:f,s:f,s:i,s:i,s:f,s:i,s:f,s:i,s:f}", "score", p->score, "fused", p->fused, "trust", p->trust, "tag_rank",
                                         p->tag_rank, "bm25_rank", p->bm25_rank, "bm25", p->bm25, "vector_rank", p->vector_rank, "cosine", p->cosine,
                                         "model_rank", p->model_rank, "model_cosine", p->model_cosine));
        json_put_int(one, "tokens", l->list[i].tokens);
        json_array_append_new(lessons, one);
    }
    json_put(doc, "lessons", lessons);
    json_put_int(doc, "tokens", l->tokens);
    json_put_str(doc, "semantic_backend", l->backend);
    return doc;
}
