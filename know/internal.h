/*
 * What the files of this folder share.
 *
 *   tags.c      tags: their form, which say the same, which contradict
 *   lesson.c    the document of a lesson: what it may hold, as text
 *   trust.c     how far a lesson is to be believed, by what became of the candidates that used it
 *   words.c     text into terms and into hashed n-grams; the thesaurus
 *   index.c     postings over terms, n-grams and tags, in memory
 *   retrieve.c  three ranked lists, fused, weighted, packed
 *   know.c      the open layer: the index beside the store, writes of lessons
 *   propose.c   a lesson from outside: its evidence is looked up and computed
 *   vectors.c   vectors by a model, where one is configured; vectors_kept.c: over restarts
 *   notes.c     failure notes
 *   learn.c     what jobs left to be learnt from, worked off
 *   effects.c   main effects of a template's parameters (pure)
 *   consolidate.c, undo.c   duplicates, contradictions, steps taken back
 */
#pragma once
#include "know/lessons.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* ---- tags.c ---- */
/* X(facet, weight of a tag that fits, whether another tag of the facet contradicts) */
#define TAG_FACETS(X)              \
    X("op", 8, true)               \
    X("target", 2, true)           \
    X("dtype", 2, true)            \
    X("regime", 3, false)          \
    X("symptom", 6, false)         \
    X("technique", 4, false)       \
    X("template", 3, false)
bool tag_valid(const char *tag);                      /* "facet/a/b": lower case, digits, - _ . ; a facet of the table */
int tag_facet(const char *tag);                       /* index into the table; -1 */
double tag_facet_weight(int facet);
bool tag_facet_excludes(int facet);
/* 1: the same; 0.6: one is above the other ("op/a" and "op/a/b"); 0: neither. */
double tag_match(const char *a, const char *b);

/* ---- lesson.c ---- */
#define LESSON_STATES(X) X(LESSON_ACTIVE, "active") X(LESSON_SUPERSEDED, "superseded") X(LESSON_RETIRED, "retired")
enum lesson_state {
#define X(code, name) code,
    LESSON_STATES(X)
#undef X
};
const char *lesson_state_name(enum lesson_state s);
enum lesson_state lesson_state_of(const json_t *doc);
/* Checks tags, situation and action of a request; the texts become one line, cleaned. False: faults. */
bool lesson_parse(const json_t *request, int64_t text_bytes, json_t **ret_tags, char **ret_situation, char **ret_action, struct faults *f);
json_t *lesson_new(const json_t *tags, const char *situation, const char *action, const char *source, const char *by);

/* ---- trust.c ---- */
#define TRUST_KEEP 0.97                  /* of what was known before, at each new outcome: a half-life of 23 outcomes */
#define TRUST_LOWER 0.05                 /* the quantile of the posterior that counts */
#define TRUST_LEAST_USES 8               /* before a lesson can retire itself */
#define TRUST_HISTORY 24
struct trust { double alpha, beta; };
double beta_cdf(double a, double b, double x);
double beta_quantile(double a, double b, double p);
struct trust trust_of_evidence(double ratio, double low, int pairs);
struct trust trust_signed(void);
void trust_move(struct trust *t, bool helped);
double trust_mean(const struct trust *t);
double trust_lower(const struct trust *t);
/* Whether it has to go: even its upper bound is below what candidates without lessons achieve. */
bool trust_spent(const struct trust *t, int64_t uses, double base_rate);
struct trust trust_read(const json_t *lesson);
/* Sets it, and adds to the lesson's "history" (the first and the newest TRUST_HISTORY - 1) what moved it; candidate may be NULL. */
void trust_write(json_t *lesson, const struct trust *t, const char *why, const char *candidate);

/* ---- words.c ---- */
#define VECTOR_CONCEPT 4.0               /* in the vectors a concept stands for a word, whose n-grams are some seven */
#define TERM_CONCEPT 1                   /* a term that stands for a group of the thesaurus */
struct term { uint64_t hash; float weight; int flags; };
struct terms { int count, capacity, slot_count; struct term *list; int *slots; };   /* slots: places in list by hash, 0 is empty */
void terms_done(struct terms *t);
const struct term *terms_find(const struct terms *t, uint64_t hash);   /* NULL: it is not there */
DEFINE_CLEANUP(terms, struct terms, terms_done(it))
struct thesaurus;
bool thesaurus_load(const char *path, struct thesaurus **ret, struct err *err) MUST_CHECK;
bool thesaurus_parse(const json_t *doc, struct thesaurus **ret, struct err *err) MUST_CHECK;
void thesaurus_free(struct thesaurus *t);
/* Stems of the text's words with `weight`, and the concepts that its words name; equal terms are added up. */
void words_terms(const struct thesaurus *t, const char *text, size_t bytes, double weight, struct terms *to);
/* The concepts alone. */
void words_concepts(const struct thesaurus *t, const char *text, size_t bytes, double weight, struct terms *to);
/* Concepts near those that are in `to` already, at a part of their weight: for queries. */
void words_near(const struct thesaurus *t, struct terms *to);
/* Hashed n-grams of the characters of the text's words. */
void words_ngrams(const char *text, size_t bytes, double weight, struct terms *to);

/* ---- index.c ---- */
struct index;
struct index *index_new(const struct thesaurus *t);   /* borrowed */
void index_free(struct index *ix);
/* Adds a lesson, or takes over what changed of one. */
void index_put(struct index *ix, const json_t *lesson);
int index_count(const struct index *ix, enum lesson_state state);
/* So much of it is dead that it should be made anew. */
bool index_is_stale(const struct index *ix);
struct found { int doc; struct lesson_parts parts; };
struct index_query {
    const struct terms *terms, *ngrams;
    const char *const *tags;
    int tag_count;
    unsigned without;
    bool ended_too;
    unsigned loose;                      /* bit set of facets that do not exclude */
    const float *vector;                 /* of a model, dim figures; NULL: none */
    int dim;
};
/* The most promising, best first, at most `most`; how many. */
int index_find(struct index *ix, const struct index_query *q, struct found *ret, int most);
const char *index_id(const struct index *ix, int doc);
/* A model's vector of a lesson's text; false: the lesson is gone or says something else now, or all others have another length. */
bool index_set_vector(struct index *ix, const char *id, uint64_t content, const float *v, int dim);
/* The next from `doc` on that is active and has none, with what its content is known by; -1: no more. */
int index_next_bare(const struct index *ix, int doc, uint64_t *ret_content);
int index_vectors(const struct index *ix);
/* Vectors of lessons that both hold go over to the new one. */
void index_move_vectors(struct index *to, struct index *from);
/* Cosine over n-grams of two texts, 0 to 1: for duplicates. */
double ngram_cosine(const struct terms *a, const struct terms *b);

/* ---- know.c ---- */
#define UNDECIDED_KEPT 512
struct know {
    struct know_config config;
    struct store *store;
    struct thesaurus *thesaurus;
    pthread_rwlock_t lock;               /* guards the index */
    struct index *index;
    pthread_mutex_t writing;             /* whoever reads lessons to change them */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    pthread_t thread;
    bool started, news;                  /* news: under sleep */
    atomic_bool stopping;
    atomic_int_fast64_t embed_failures, embed_fallbacks, embed_after_ns;   /* after: no query asks the model before */
    atomic_int_fast64_t measured_again, measured_same;       /* contradictions that the judge was asked about; and where it saw no difference */
    atomic_bool embed_asking;            /* by a query: one at a time */
    uint64_t undecided[UNDECIDED_KEPT];  /* pairs that were measured and did not differ, as they were then; of the thread of consolidation too */
    int undecided_at;
    int64_t round_measured, day_measured;                    /* asked of the judge in this round, and on that day (measured.c); of that thread too */
    char measured_day[11];               /* 2026-11-30 */
    char *round_after;                   /* where the next round of consolidation goes on; of its thread */
};
/* Commits lessons with what else is in the batch, and takes them into the index. Takes batch; the docs are borrowed. */
bool know_commit(struct know *k, struct store_batch *b, const json_t *const *docs, int count, struct err *err) MUST_CHECK;

/* ---- propose.c ---- */
double student_95(int degrees);          /* the factor of a two-sided 95 % interval */
json_t *effect_encode(double mean_log_ratio, double half_width, int pairs);
void event_learned(struct store_batch *b, const json_t *lesson);
/* Absent is no error: *ret is NULL then. */
bool get_or_null(struct know *k, enum store_kind kind, const char *id, json_t **ret, struct err *err) MUST_CHECK;

/* ---- vectors.c ---- */
#define EMBED_RETRY_NS ((int64_t)30000000000)
/* The text's vector by the model, or NULL: there is no model, it failed or is asked by somebody else. The caller frees. */
float *vector_of_query(struct know *k, const char *text, int *ret_dim);

/* ---- vectors_kept.c ---- */
/* What the model said of this text, before this process too; NULL: nobody asked it. The caller frees. */
float *vector_kept(struct know *k, const char *id, const char *text, int *ret_dim);
void vector_keep(const struct know *k, struct store_batch *b, const char *id, const char *text, const float *v, int dim);
bool vectors_forget(struct know *k, struct err *err) MUST_CHECK;      /* all that are kept */

/* ---- measured.c: how often the judge was asked ---- */
bool measured_load(struct know *k, struct err *err) MUST_CHECK;
int64_t measured_today(struct know *k);
bool measured_another(struct know *k, struct err *err) MUST_CHECK;    /* one more, in the store */

/* ---- notes.c ---- */
bool notes_add(struct know *k, struct store_batch *b, const json_t *record, struct err *err) MUST_CHECK;

/* ---- learn.c ---- */
#define STORE_KEY_MAX 512
void event_retired(struct store_batch *b, const json_t *lesson, const char *reason);
void lesson_end(json_t *doc, enum lesson_state state, const char *why);

/* ---- teach.c ---- */
#define TEACH_MAX 160                    /* lessons that one shape can change: parameters of an operator's templates */
/* What a shape's search has shown, into the batch; the lessons that say so are the caller's to commit and release. */
bool teach_shape(struct know *k, struct store_batch *b, const json_t *entry, json_t *docs[TEACH_MAX], int *ret_count, struct err *err) MUST_CHECK;
