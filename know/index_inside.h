/* The index as its two files share it: index.c builds it, index_find.c reads it. */
#pragma once
#include "know/internal.h"

#define IMPACT_SCALE 100.0               /* of BM25's impact, at most 1 + k1 */
#define COSINE_SCALE 1000.0

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

uint64_t index_hash(const char *text, uint64_t salt);
uint64_t index_key(enum kind kind, uint64_t hash);
/* Where the postings of that key are, or would be (key 0). */
struct postings *index_slot(const struct index *ix, uint64_t key);
/* A vector of a model, scaled to length 127, a byte a figure. */
void index_quantise(const float *v, int dim, int8_t *to);
