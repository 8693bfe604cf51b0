/*
 * A query of the index (index.c): what may be looked at by its tags, sums over postings of terms and n-grams and over a model's vectors,
 * the best of each as a ranked list, the lists fused by rank, the whole weighted by trust.
 */
#include "know/index_inside.h"

#include "core/rng.h"

#include <math.h>

#define MOST_POSTINGS 100000             /* read for one kind of one query */
#define LIST_DEPTH 120                   /* of each ranked list */
#define RRF_K 60.0
#define WEIGHT_TAGS 1.0
#define WEIGHT_BM25 1.0
#define WEIGHT_VECTORS 0.5
#define WEIGHT_MODEL 1.0
#define TRUST_FLOOR 0.75                 /* of the score that trust cannot take away */

static void want_vector(const struct index *ix, const struct index_query *q, float *sums)
{
    if (!q->vector || q->dim != ix->dim)
        return;
    cleanup(mem) void *memory = xarray((size_t)q->dim, 1);
    int8_t *want = memory;
    index_quantise(q->vector, q->dim, want);
    for (int doc = 0; doc < ix->count; doc++) {
        const int8_t *v = ix->docs[doc].vector;
        int sum = 0;
        for (int i = 0; v && i < q->dim; i++)
            sum += v[i] * want[i];
        sums[doc] = sum > 0 ? (float)sum / (127 * 127) : 0;
    }
}

enum { TAG_UNKNOWN, TAG_INDIFFERENT, TAG_CONTRADICTS, TAG_FITS };
struct filter { const struct index *ix; const struct index_query *q; uint8_t *known; };

static int judge_tag(const struct filter *f, const char *tag)
{
    int facet = tag_facet(tag);
    bool asked = false;
    if (!tag_facet_excludes(facet) || (f->q->loose >> facet & 1))
        return TAG_INDIFFERENT;
    for (int i = 0; i < f->q->tag_count; i++)
        if (tag_facet(f->q->tags[i]) == facet) {
            asked = true;
            if (tag_match(f->q->tags[i], tag) > 0)
                return TAG_FITS;
        }
    return asked ? TAG_CONTRADICTS : TAG_INDIFFERENT;
}

/* Of a facet, one tag that fits is enough; those that exclude are first, facet by facet in no order. */
static bool passes(const struct filter *f, int doc)
{
    const struct gate *g = &f->ix->gates[doc];
    const uint32_t *tags = g->more ? f->ix->docs[doc].tags : g->tags;
    const int count = g->more ? f->ix->docs[doc].tag_count : g->tag_count;
    unsigned fits = 0, contradicts = 0;
    if (g->dead || (!f->q->ended_too && g->state != LESSON_ACTIVE))
        return false;
    for (int i = 0; i < count; i++) {
        uint8_t *known = &f->known[tags[i]];
        if (*known == TAG_UNKNOWN) {
            const char *tag = f->ix->tags[tags[i]];
            *known = (uint8_t)(judge_tag(f, tag) | tag_facet(tag) << 2);
        }
        if ((*known & 3) == TAG_FITS)
            fits |= 1u << (*known >> 2);
        else if ((*known & 3) == TAG_CONTRADICTS)
            contradicts |= 1u << (*known >> 2);
    }
    return !(contradicts & ~fits);
}

struct want { const struct postings *p; double weight; };

static int by_count(const void *a, const void *b)
{
    const struct want *x = a, *y = b;
    return x->p->count != y->p->count ? (x->p->count < y->p->count ? -1 : 1) : x->p->key < y->p->key ? -1 : x->p->key > y->p->key;
}

static void add_up(struct want *wants, int count, float *sums)
{
    int64_t read = 0;
    if (count)
        qsort(wants, (size_t)count, sizeof *wants, by_count);
    for (int w = 0; w < count; w++) {
        const struct postings *p = wants[w].p;
        if ((read += p->count) > MOST_POSTINGS)
            return;
        float weight = (float)wants[w].weight;
        for (uint32_t i = 0; i < p->count; i++)
            sums[p->items[i] >> 8] += weight * (float)(p->items[i] & 255);
    }
}

struct ranked { int doc; float score; };

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : x->doc < y->doc ? -1 : x->doc > y->doc;
}

/* The LIST_DEPTH best that pass, best first. The list is a heap with the worst on top until it is sorted. */
static int take_best(const struct filter *f, const float *sums, struct ranked *list)
{
    int n = 0;
    float least = 0;                     /* more than this is needed: equal scores go to those that came first */
    for (int doc = 0; doc < f->ix->count; doc++) {
        struct ranked r = {doc, sums[doc]};
        if (r.score <= least || !passes(f, doc))
            continue;
        int i;
        if (n < LIST_DEPTH) {
            for (i = n++; i > 0 && by_score(&list[(i - 1) / 2], &r) < 0; i = (i - 1) / 2)
                list[i] = list[(i - 1) / 2];
        } else {
            for (i = 0;;) {
                int child = 2 * i + 1;
                if (child + 1 < n && by_score(&list[child], &list[child + 1]) < 0)
                    child++;
                if (child >= n || by_score(&r, &list[child]) >= 0)
                    break;
                list[i] = list[child];
                i = child;
            }
        }
        list[i] = r;
        least = n == LIST_DEPTH ? list[0].score : 0;
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_score);
    return n;
}

static double rarity(const struct index *ix, const struct postings *p)
{
    return log(1 + (ix->count - (double)p->count + 0.5) / (p->count + 0.5));
}

static void want_terms(const struct index *ix, enum kind kind, const struct terms *t, bool concepts, float *sums)
{
    struct want *wants = xarray((size_t)t->count + 1, sizeof *wants);
    int n = 0;
    double sum = 0;
    for (int i = 0; i < t->count; i++) {
        const struct postings *p = index_slot(ix, index_key(kind, t->list[i].hash));
        if (!p->count || (!concepts && (t->list[i].flags & TERM_CONCEPT)))
            continue;
        double weight = (kind == KIND_NGRAM ? 1 + log1p(t->list[i].weight) : t->list[i].weight) * fmax(rarity(ix, p), 1e-6);
        wants[n++] = (struct want){p, weight};
        sum += weight * weight;
    }
    for (int i = 0; i < n; i++)
        wants[i].weight *= kind == KIND_NGRAM ? 1 / (COSINE_SCALE * sqrt(sum)) : 1 / IMPACT_SCALE;
    add_up(wants, n, sums);
    free(wants);
}

static void want_tags(const struct index *ix, const struct index_query *q, float *sums)
{
    struct want wants[LESSON_MAX_TAGS * 8];
    int n = 0;
    for (int i = 0; i < q->tag_count && n < LESSON_MAX_TAGS * 8 - 8; i++) {
        char above[LESSON_TAG_BYTES];
        const struct postings *p = index_slot(ix, index_key(KIND_TAG, index_hash(q->tags[i], 0))), *below = index_slot(ix, index_key(KIND_TAG_BELOW, index_hash(q->tags[i], 0)));
        if (p->count)
            wants[n++] = (struct want){p, 1};
        if (below->count)
            wants[n++] = (struct want){below, 0.6};
        snprintf(above, sizeof above, "%s", q->tags[i]);
        for (char *slash = strrchr(above, '/'); slash && (*slash = 0, strchr(above, '/')) && n < LESSON_MAX_TAGS * 8; slash = strrchr(above, '/'))
            if ((p = index_slot(ix, index_key(KIND_TAG, index_hash(above, 0))))->count)
                wants[n++] = (struct want){p, 0.6};
    }
    add_up(wants, n, sums);
}

#define LISTS 4
#define FOUND_SLOTS 1024                 /* more than twice what they can hold */
struct union_of { int count; struct found list[LISTS * LIST_DEPTH]; int16_t slots[FOUND_SLOTS]; };   /* slots: place in list + 1, by document */

static struct found *found_of(struct union_of *u, int doc)
{
    unsigned i = (unsigned)(rng_mix((uint64_t)doc) & (FOUND_SLOTS - 1));
    while (u->slots[i] && u->list[u->slots[i] - 1].doc != doc)
        i = (i + 1) & (FOUND_SLOTS - 1);
    if (!u->slots[i]) {
        u->list[u->count] = (struct found){.doc = doc};
        u->slots[i] = (int16_t)++u->count;
    }
    return &u->list[u->slots[i] - 1];
}

static int by_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->parts.score != y->parts.score ? (x->parts.score > y->parts.score ? -1 : 1) : x->doc < y->doc ? -1 : x->doc > y->doc;
}

/* Equal scores share a rank: tags alone often say the same of many. */
static void take_list(const struct ranked *list, int n, double weight, int which, struct union_of *all)
{
    int rank = 0;
    for (int i = 0; i < n; i++) {
        rank = i && list[i].score == list[i - 1].score ? rank : i + 1;
        struct found *f = found_of(all, list[i].doc);
        f->parts.fused += weight / (RRF_K + rank);
        if (which == 0)
            f->parts.tag_rank = rank;
        else if (which == 1) {
            f->parts.bm25_rank = rank;
            f->parts.bm25 = list[i].score;
        } else if (which == 2) {
            f->parts.vector_rank = rank;
            f->parts.cosine = list[i].score;
        } else {
            f->parts.model_rank = rank;
            f->parts.model_cosine = list[i].score;
        }
    }
}

static struct sums *sums_take(struct index *ix)
{
    pthread_mutex_lock(&ix->lock);
    struct sums *s = ix->spare;
    if (s)
        ix->spare = s->next;
    pthread_mutex_unlock(&ix->lock);
    if (s && s->capacity >= ix->count)
        return s;
    free(s);
    s = xalloc(sizeof *s + ((size_t)ix->count + 1) * sizeof s->of[0]);
    s->capacity = ix->count;
    return s;
}

static void sums_give(struct index *ix, struct sums *s)
{
    pthread_mutex_lock(&ix->lock);
    s->next = ix->spare;
    ix->spare = s;
    pthread_mutex_unlock(&ix->lock);
}

int index_find(struct index *ix, const struct index_query *q, struct found *ret, int most)
{
    struct ranked list[LIST_DEPTH];
    struct union_of all = {.count = 0};
    cleanup(mem) void *known = xalloc((size_t)ix->tag_count + 1);
    struct sums *sums = sums_take(ix);
    const struct filter f = {ix, q, known};
    static const double weights[] = {WEIGHT_TAGS, WEIGHT_BM25, WEIGHT_VECTORS, WEIGHT_MODEL};
    for (int which = 0; which < LISTS; which++) {
        if (which == 3 ? !q->vector : q->without >> which & 1)
            continue;
        memset(sums->of, 0, (size_t)ix->count * sizeof sums->of[0]);
        if (which == 0)
            want_tags(ix, q, sums->of);
        else if (which == 3)
            want_vector(ix, q, sums->of);
        else
            want_terms(ix, which == 1 ? KIND_TERM : KIND_NGRAM, which == 1 ? q->terms : q->ngrams, !(q->without & LESSON_PART_THESAURUS), sums->of);
        int n = take_best(&f, sums->of, list);
        take_list(list, n, weights[which], which, &all);
    }
    sums_give(ix, sums);
    for (int i = 0; i < all.count; i++) {
        struct lesson_parts *p = &all.list[i].parts;
        p->trust = ix->docs[all.list[i].doc].trust;
        p->score = p->fused * (q->without & LESSON_PART_TRUST ? 1 : TRUST_FLOOR + (1 - TRUST_FLOOR) * p->trust);
    }
    if (all.count)
        qsort(all.list, (size_t)all.count, sizeof *all.list, by_found);
    const int count = all.count < most ? all.count : most;
    if (count)
        memcpy(ret, all.list, (size_t)count * sizeof *ret);
    return count;
}

double ngram_cosine(const struct terms *a, const struct terms *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < a->count; i++) {
        aa += (double)a->list[i].weight * a->list[i].weight;
        const struct term *same = terms_find(b, a->list[i].hash);
        ab += same ? (double)a->list[i].weight * same->weight : 0;
    }
    for (int k = 0; k < b->count; k++)
        bb += (double)b->list[k].weight * b->list[k].weight;
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
