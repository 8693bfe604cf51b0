/*
 * The index: three kinds of postings over the lessons, in one table by 64-bit hash: terms (BM25 over fields), n-grams (cosine), tags.
 * A posting is 24 bits of document and 8 bits of weight, with all that depends on the document already in it, so that a query adds up
 * products. What is rare comes first, and a query reads no more than a fixed number of postings of each kind: that bounds its time
 * whatever it asks, and what is left out is what almost every lesson has.
 *
 * BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009. Fusion by reciprocal rank: Cormack,
 * Clarke, Buettcher, "Reciprocal Rank Fusion outperforms Condorcet", SIGIR 2009.
 *
 * Not thread-safe: readers together or one writer alone. A lesson whose text changed is added again, and its old entry is dead.
 */
#include "know/internal.h"

#include "core/rng.h"

#include <math.h>

#define BM25_K1 1.2
#define BM25_B 0.6
#define TYPICAL_WORDS 45.0               /* terms of a lesson: what lengths are measured by */
#define IMPACT_SCALE 100.0               /* of BM25's impact, at most 1 + k1 */
#define COSINE_SCALE 1000.0
#define TAG_SCALE 200.0
#define MOST_POSTINGS 100000             /* read for one kind of one query */
#define LIST_DEPTH 120                   /* of each ranked list */
#define RRF_K 60.0
#define ACTION_WEIGHT 0.8
#define TAG_WORDS_WEIGHT 0.7
#define WEIGHT_TAGS 1.0
#define WEIGHT_BM25 1.0
#define WEIGHT_VECTORS 0.5
#define WEIGHT_MODEL 1.0
#define TRUST_FLOOR 0.75                 /* of the score that trust cannot take away */
#define MOST_DOCS (1 << 24)

enum kind { KIND_TERM, KIND_NGRAM, KIND_TAG, KIND_TAG_BELOW };
struct postings { uint64_t key; uint32_t count, capacity; uint32_t *items; };
/* What decides whether a lesson is looked at at all, small enough for all of them to lie in a cache: tags that can exclude; more: there are more of them. */
#define GATE_TAGS 3
struct gate { uint32_t tags[GATE_TAGS]; uint8_t state, tag_count; bool dead, more; };
struct doc { char id[LESSON_ID_SIZE]; uint64_t content; int8_t *vector; float trust; uint8_t tag_count; uint32_t tags[LESSON_MAX_TAGS]; };

struct index {
    const struct thesaurus *thesaurus;
    int count, capacity, dead, in_state[3];
    int dim, vectors;                    /* of a model: figures of each; how many there are */
    struct doc *docs;
    struct gate *gates;
    int *by_id, id_slots;                /* open addressing over docs; -1: empty */
    struct postings *table;
    int slots, used;
    char (*tags)[LESSON_TAG_BYTES];
    int tag_count, tag_capacity;
    pthread_mutex_t lock;                /* guards spare alone: readers are many */
    struct sums *spare;
};
/* Sums of a query, kept for the next: fresh pages cost more than the sums. */
struct sums { struct sums *next; int capacity; float of[]; };

struct index *index_new(const struct thesaurus *t)
{
    struct index *ix = xalloc(sizeof *ix);
    ix->thesaurus = t;
    ix->slots = 1024;
    ix->table = xarray((size_t)ix->slots, sizeof *ix->table);
    ix->id_slots = 1024;
    ix->by_id = xarray((size_t)ix->id_slots, sizeof *ix->by_id);
    memset(ix->by_id, 0xff, (size_t)ix->id_slots * sizeof *ix->by_id);
    pthread_mutex_init(&ix->lock, NULL);
    return ix;
}

void index_free(struct index *ix)
{
    if (!ix)
        return;
    for (int i = 0; i < ix->slots; i++)
        free(ix->table[i].items);
    for (int i = 0; i < ix->count; i++)
        free(ix->docs[i].vector);
    for (struct sums *next; ix->spare; ix->spare = next) {
        next = ix->spare->next;
        free(ix->spare);
    }
    pthread_mutex_destroy(&ix->lock);
    free(ix->table);
    free(ix->docs);
    free(ix->gates);
    free(ix->by_id);
    free(ix->tags);
    free(ix);
}

/* ---- tables ---- */

static uint64_t hash_text(const char *text, uint64_t salt)
{
    uint64_t h = 0xcbf29ce484222325u ^ salt;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return rng_mix(h);
}

static uint64_t key_of(enum kind kind, uint64_t hash)
{
    uint64_t key = rng_mix(hash + kind);
    return key ? key : 1;                /* 0 is an empty slot */
}

static struct postings *slot_of(const struct index *ix, uint64_t key)
{
    int i = (int)(key & (uint64_t)(ix->slots - 1));
    while (ix->table[i].key && ix->table[i].key != key)
        i = (i + 1) & (ix->slots - 1);
    return &ix->table[i];
}

static void grow_table(struct index *ix)
{
    struct postings *old = ix->table;
    int n = ix->slots;
    ix->slots *= 2;
    ix->table = xarray((size_t)ix->slots, sizeof *ix->table);
    for (int i = 0; i < n; i++)
        if (old[i].key)
            *slot_of(ix, old[i].key) = old[i];
    free(old);
}

static void post(struct index *ix, enum kind kind, uint64_t hash, int doc, double weight)
{
    if (ix->used > ix->slots / 2)
        grow_table(ix);
    uint64_t key = key_of(kind, hash);
    struct postings *p = slot_of(ix, key);
    if (!p->key) {
        p->key = key;
        ix->used++;
    }
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? p->capacity + (p->capacity + 1) / 2 : 2;
        p->items = xrealloc(p->items, p->capacity * sizeof *p->items);
    }
    unsigned quantised = weight < 1 ? 1 : weight > 255 ? 255 : (unsigned)(weight + 0.5);
    p->items[p->count++] = (uint32_t)doc << 8 | quantised;
}

static int *id_slot(const struct index *ix, const char *id)
{
    int i = (int)(hash_text(id, 0) & (uint64_t)(ix->id_slots - 1));
    while (ix->by_id[i] >= 0 && strcmp(ix->docs[ix->by_id[i]].id, id))
        i = (i + 1) & (ix->id_slots - 1);
    return &ix->by_id[i];
}

static void grow_ids(struct index *ix)
{
    free(ix->by_id);
    ix->id_slots *= 2;
    ix->by_id = xarray((size_t)ix->id_slots, sizeof *ix->by_id);
    memset(ix->by_id, 0xff, (size_t)ix->id_slots * sizeof *ix->by_id);
    for (int i = 0; i < ix->count; i++)
        if (!ix->gates[i].dead)
            *id_slot(ix, ix->docs[i].id) = i;
}

/* Tags are few and shared; the newest is looked for first. */
static uint32_t tag_index(struct index *ix, const char *tag)
{
    uint64_t key = key_of(KIND_TAG, hash_text(tag, 1));
    struct postings *p = slot_of(ix, key);           /* one posting: the tag's place */
    if (p->key)
        return p->items[0] >> 8;
    if (ix->tag_count == ix->tag_capacity) {
        ix->tag_capacity = ix->tag_capacity ? 2 * ix->tag_capacity : 64;
        ix->tags = xrealloc(ix->tags, (size_t)ix->tag_capacity * sizeof *ix->tags);
    }
    snprintf(ix->tags[ix->tag_count], LESSON_TAG_BYTES, "%s", tag);
    post(ix, KIND_TAG, hash_text(tag, 1), ix->tag_count, 1);
    return (uint32_t)ix->tag_count++;
}

/* ---- adding ---- */

static void post_terms(struct index *ix, int doc, const struct terms *t)
{
    double length = 0;
    for (int i = 0; i < t->count; i++)
        length += t->list[i].flags & TERM_CONCEPT ? 0 : t->list[i].weight;
    for (int i = 0; i < t->count; i++) {
        double tf = t->list[i].weight, norm = BM25_K1 * (1 - BM25_B + BM25_B * length / TYPICAL_WORDS);
        post(ix, KIND_TERM, t->list[i].hash, doc, IMPACT_SCALE * tf * (BM25_K1 + 1) / (tf + norm));
    }
}

static void post_ngrams(struct index *ix, int doc, const struct terms *t)
{
    double sum = 0;
    for (int i = 0; i < t->count; i++)
        sum += pow(1 + log1p(t->list[i].weight), 2);
    for (int i = 0; i < t->count; i++)
        post(ix, KIND_NGRAM, t->list[i].hash, doc, COSINE_SCALE * (1 + log1p(t->list[i].weight)) / sqrt(sum));
}

static void post_tag(struct index *ix, int doc, const char *tag)
{
    char above[LESSON_TAG_BYTES];
    double weight = TAG_SCALE * tag_facet_weight(tag_facet(tag)) / 8;
    snprintf(above, sizeof above, "%s", tag);
    post(ix, KIND_TAG, hash_text(tag, 0), doc, weight);
    for (char *slash = strrchr(above, '/'); slash && (*slash = 0, strchr(above, '/')); slash = strrchr(above, '/'))
        post(ix, KIND_TAG_BELOW, hash_text(above, 0), doc, weight);
}

static void add_text(const struct thesaurus *t, const json_t *lesson, struct terms *terms, struct terms *ngrams)
{
    const char *situation = json_str(lesson, "situation", ""), *action = json_str(lesson, "action", "");
    size_t i;
    json_t *tag;
    words_terms(t, situation, strlen(situation), 1, terms);
    words_terms(t, action, strlen(action), ACTION_WEIGHT, terms);
    words_ngrams(situation, strlen(situation), 1, ngrams);
    words_ngrams(action, strlen(action), ACTION_WEIGHT, ngrams);
    words_concepts(t, situation, strlen(situation), VECTOR_CONCEPT, ngrams);
    words_concepts(t, action, strlen(action), VECTOR_CONCEPT * ACTION_WEIGHT, ngrams);
    json_array_foreach(json_object_get(lesson, "tags"), i, tag) {
        const char *text = json_string_value(tag), *name = text ? strchr(text, '/') : NULL;
        if (!name)
            continue;
        words_terms(t, name, strlen(name), TAG_WORDS_WEIGHT, terms);
        words_ngrams(name, strlen(name), TAG_WORDS_WEIGHT, ngrams);
    }
}

static uint64_t content_of(const json_t *lesson)
{
    cleanup(str) char *tags = json_text(json_object_get(lesson, "tags") ? json_object_get(lesson, "tags") : json_null());
    return hash_text(tags, hash_text(json_str(lesson, "action", ""), hash_text(json_str(lesson, "situation", ""), 2)));
}

static void set_standing(struct index *ix, int doc, const json_t *lesson, bool is_new)
{
    struct trust trust = trust_read(lesson);
    double lower = json_num(json_object_get(lesson, "trust"), "lower", -1);
    ix->in_state[ix->gates[doc].state] -= !is_new;
    ix->docs[doc].trust = (float)(lower >= 0 && lower <= 1 ? lower : trust_lower(&trust));
    ix->gates[doc].state = (uint8_t)lesson_state_of(lesson);
    ix->in_state[ix->gates[doc].state]++;
}

static void add_tags(struct index *ix, int doc, const json_t *lesson)
{
    size_t i;
    json_t *tag;
    for (int pass = 0; pass < 2; pass++)            /* those that exclude come first */
        json_array_foreach(json_object_get(lesson, "tags"), i, tag) {
            const char *text = json_string_value(tag);
            if (!text || !tag_valid(text) || ix->docs[doc].tag_count == LESSON_MAX_TAGS || tag_facet_excludes(tag_facet(text)) != !pass)
                continue;
            uint32_t at = tag_index(ix, text);
            ix->docs[doc].tags[ix->docs[doc].tag_count++] = at;
            if (!pass && ix->gates[doc].tag_count < GATE_TAGS)
                ix->gates[doc].tags[ix->gates[doc].tag_count++] = at;
            else
                ix->gates[doc].more |= !pass;
            post_tag(ix, doc, text);
        }
}

void index_put(struct index *ix, const json_t *lesson)
{
    const char *id = json_str(lesson, "id", "");
    if (strlen(id) >= LESSON_ID_SIZE || ix->count == MOST_DOCS)
        return;
    uint64_t content = content_of(lesson);
    int *slot = id_slot(ix, id);
    if (*slot >= 0) {
        if (ix->docs[*slot].content == content) {
            set_standing(ix, *slot, lesson, false);
            return;
        }
        ix->in_state[ix->gates[*slot].state]--;
        ix->gates[*slot].dead = true;
        ix->vectors -= ix->docs[*slot].vector != NULL;
        free(steal(&ix->docs[*slot].vector));
        ix->dead++;
    }
    if (ix->count == ix->capacity) {
        ix->capacity = ix->capacity ? 2 * ix->capacity : 256;
        ix->docs = xrealloc(ix->docs, (size_t)ix->capacity * sizeof *ix->docs);
        ix->gates = xrealloc(ix->gates, (size_t)ix->capacity * sizeof *ix->gates);
    }
    int doc = ix->count++;
    ix->docs[doc] = (struct doc){.content = content};
    ix->gates[doc] = (struct gate){.state = LESSON_ACTIVE};
    snprintf(ix->docs[doc].id, LESSON_ID_SIZE, "%s", id);
    *id_slot(ix, id) = doc;
    set_standing(ix, doc, lesson, true);
    cleanup(terms) struct terms terms = {0}, ngrams = {0};
    add_text(ix->thesaurus, lesson, &terms, &ngrams);
    post_terms(ix, doc, &terms);
    post_ngrams(ix, doc, &ngrams);
    add_tags(ix, doc, lesson);
    if (ix->count > ix->id_slots / 2)
        grow_ids(ix);
}

/* ---- a model's vectors: a byte a figure, of length 127 ---- */

static void quantise(const float *v, int dim, int8_t *to)
{
    double sum = 0;
    for (int i = 0; i < dim; i++)
        sum += (double)v[i] * v[i];
    const double scale = sum > 0 ? 127 / sqrt(sum) : 0;
    for (int i = 0; i < dim; i++)
        to[i] = (int8_t)lrint(v[i] * scale);
}

bool index_set_vector(struct index *ix, const char *id, uint64_t content, const float *v, int dim)
{
    const int doc = *id_slot(ix, id);
    if (doc < 0 || ix->docs[doc].content != content || (ix->dim && ix->dim != dim))
        return false;
    ix->dim = dim;
    ix->vectors += !ix->docs[doc].vector;
    free(ix->docs[doc].vector);
    ix->docs[doc].vector = xarray((size_t)dim, 1);
    quantise(v, dim, ix->docs[doc].vector);
    return true;
}

int index_next_bare(const struct index *ix, int doc, uint64_t *ret_content)
{
    for (; doc < ix->count; doc++)
        if (!ix->docs[doc].vector && !ix->gates[doc].dead && ix->gates[doc].state == LESSON_ACTIVE) {
            *ret_content = ix->docs[doc].content;
            return doc;
        }
    return -1;
}

int index_vectors(const struct index *ix) { return ix->vectors; }

void index_move_vectors(struct index *to, struct index *from)
{
    to->dim = from->dim;
    for (int i = 0; i < from->count; i++) {
        const int doc = from->docs[i].vector ? *id_slot(to, from->docs[i].id) : -1;
        if (doc < 0 || to->docs[doc].vector || to->docs[doc].content != from->docs[i].content)
            continue;
        to->docs[doc].vector = from->docs[i].vector;
        from->docs[i].vector = NULL;
        to->vectors++;
    }
}

static void want_vector(const struct index *ix, const struct index_query *q, float *sums)
{
    if (!q->vector || q->dim != ix->dim)
        return;
    cleanup(mem) void *memory = xarray((size_t)q->dim, 1);
    int8_t *want = memory;
    quantise(q->vector, q->dim, want);
    for (int doc = 0; doc < ix->count; doc++) {
        const int8_t *v = ix->docs[doc].vector;
        int sum = 0;
        for (int i = 0; v && i < q->dim; i++)
            sum += v[i] * want[i];
        sums[doc] = sum > 0 ? (float)sum / (127 * 127) : 0;
    }
}

int index_count(const struct index *ix, enum lesson_state state) { return ix->in_state[state]; }
bool index_is_stale(const struct index *ix) { return ix->dead > 64 && ix->dead > ix->count / 4; }
const char *index_id(const struct index *ix, int doc) { return ix->docs[doc].id; }

/* ---- finding ---- */

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
        const struct postings *p = slot_of(ix, key_of(kind, t->list[i].hash));
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
        const struct postings *p = slot_of(ix, key_of(KIND_TAG, hash_text(q->tags[i], 0))), *below = slot_of(ix, key_of(KIND_TAG_BELOW, hash_text(q->tags[i], 0)));
        if (p->count)
            wants[n++] = (struct want){p, 1};
        if (below->count)
            wants[n++] = (struct want){below, 0.6};
        snprintf(above, sizeof above, "%s", q->tags[i]);
        for (char *slash = strrchr(above, '/'); slash && (*slash = 0, strchr(above, '/')) && n < LESSON_MAX_TAGS * 8; slash = strrchr(above, '/'))
            if ((p = slot_of(ix, key_of(KIND_TAG, hash_text(above, 0))))->count)
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
