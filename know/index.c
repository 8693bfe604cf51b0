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
#include "know/index_inside.h"

#include "core/rng.h"

#include <math.h>

#define BM25_K1 1.2
#define BM25_B 0.6
#define TYPICAL_WORDS 45.0               /* terms of a lesson: what lengths are measured by */
#define TAG_SCALE 200.0
#define ACTION_WEIGHT 0.8
#define TAG_WORDS_WEIGHT 0.7
#define MOST_DOCS (1 << 24)

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

uint64_t index_hash(const char *text, uint64_t salt)
{
    uint64_t h = 0xcbf29ce484222325u ^ salt;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return rng_mix(h);
}

uint64_t index_key(enum kind kind, uint64_t hash)
{
    uint64_t key = rng_mix(hash + kind);
    return key ? key : 1;                /* 0 is an empty slot */
}

struct postings *index_slot(const struct index *ix, uint64_t key)
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
            *index_slot(ix, old[i].key) = old[i];
    free(old);
}

static void post(struct index *ix, enum kind kind, uint64_t hash, int doc, double weight)
{
    if (ix->used > ix->slots / 2)
        grow_table(ix);
    uint64_t key = index_key(kind, hash);
    struct postings *p = index_slot(ix, key);
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
    int i = (int)(index_hash(id, 0) & (uint64_t)(ix->id_slots - 1));
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
    uint64_t key = index_key(KIND_TAG, index_hash(tag, 1));
    struct postings *p = index_slot(ix, key);           /* one posting: the tag's place */
    if (p->key)
        return p->items[0] >> 8;
    if (ix->tag_count == ix->tag_capacity) {
        ix->tag_capacity = ix->tag_capacity ? 2 * ix->tag_capacity : 64;
        ix->tags = xrealloc(ix->tags, (size_t)ix->tag_capacity * sizeof *ix->tags);
    }
    snprintf(ix->tags[ix->tag_count], LESSON_TAG_BYTES, "%s", tag);
    post(ix, KIND_TAG, index_hash(tag, 1), ix->tag_count, 1);
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
    post(ix, KIND_TAG, index_hash(tag, 0), doc, weight);
    for (char *slash = strrchr(above, '/'); slash && (*slash = 0, strchr(above, '/')); slash = strrchr(above, '/'))
        post(ix, KIND_TAG_BELOW, index_hash(above, 0), doc, weight);
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
    return index_hash(tags, index_hash(json_str(lesson, "action", ""), index_hash(json_str(lesson, "situation", ""), 2)));
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

void index_quantise(const float *v, int dim, int8_t *to)
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
    index_quantise(v, dim, ix->docs[doc].vector);
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


int index_count(const struct index *ix, enum lesson_state state) { return ix->in_state[state]; }
bool index_is_stale(const struct index *ix) { return ix->dead > 64 && ix->dead > ix->count / 4; }
const char *index_id(const struct index *ix, int doc) { return ix->docs[doc].id; }
