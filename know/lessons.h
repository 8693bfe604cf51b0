/*
 * The knowledge layer: lessons, how they are found again, and how they gain and lose trust. (docs/knowledge.md)
 *
 * A lesson is a situation with an action, and the evidence for it. Lessons and notes are records of the store; the index over them is in
 * memory and is built again at each start. Nothing here judges, and nothing here is on the path of an attempt but lessons_retrieve and
 * notes_retrieve, which read memory and the store. What jobs learn is put into their own transactions as small records (the "know_put_"
 * functions); one thread of this module works them off.
 *
 * Texts of lessons and notes come from strangers: they are bounded, cleaned, and only ever text. Whoever puts them into a prompt fences
 * them. Threads: all functions may be called from any, but for know_open, know_start and know_close.
 *
 * Lesson (STORE_LESSON, by id) {"id":"les_...","state":"active"|"superseded"|"retired","tags":[...],"situation","action",
 *   "evidence":{"basis":"paired"|"replicated"|"signed","candidates":[ids],"shapes":[hashes],"effect":{"ratio","low","high","level","pairs"}|null,
 *   "measured": bool,"signed_by"?,"reason"?},"effects"?: of a template's parameter (effects.h),"key"?: what replaces what,
 *   "trust":{"alpha","beta","mean","lower"},"uses","wins","source":"template"|"agent"|"external"|"operator"|"consolidation","by",
 *   "created","updated","supersedes":[ids],"superseded_by"?,"why_ended"?,"history":[{"time","trust": lower,"reason","candidate"?}...newest last]}
 *   effect.ratio: time without / time with the lesson, above 1 is faster.
 * Notes (STORE_NOTE, by shape hash; listed by "op/NAME") {"shape_hash","op","notes":[{"signature","verdict","phase","text","count","roots":[ids],
 *   "candidates":[ids],"first","last"}...newest last]}
 *
 * Events: lesson.learned {"lesson","tags","source"}, lesson.retired {"lesson","reason"}, lesson.changed {"lesson","what"},
 * lesson.step {"step","kind","lessons"} and lesson.undone {"step","kind","lessons"} of consolidation.
 */
#pragma once
#include "core/shape.h"
#include "core/verdict.h"
#include "store/store.h"

#define LESSON_ID_SIZE 40
#define LESSON_MAX_TAGS 12
#define LESSON_TAG_BYTES 64
#define LESSON_MAX_USED 16               /* that one candidate can name (core/candidate.h) */
#define LESSON_MAX_CANDIDATES 16         /* of its evidence */
#define LESSON_MOST_DIM 4096             /* figures of a model's vector */
#define LESSON_QUERY_BYTES 4096          /* of a query's text; the rest is not read */

struct know;
struct lesson_comparison { double ratio, low, high; bool measured; };
struct know_config {
    int64_t max_lessons;                 /* active ones; more are ERR_BUSY */
    int64_t max_notes;                   /* of one shape; the oldest goes */
    int64_t text_bytes;                  /* situation and action together */
    int64_t consolidate_ns;              /* between two rounds of consolidation; 0: none */
    const char *thesaurus;               /* a file; NULL: none. Borrowed */
    /*
     * Measures candidate a against candidate b, both of the store and of one shape: time of b / time of a with its interval, and whether a clock
     * said so (else an emulator's estimate did).
     * NULL: contradictions are resolved by what is known. Called by the module's own thread; may take as long as a judgement.
     */
    bool (*measure)(void *ctx, const char *a, const char *b, struct lesson_comparison *ret, struct err *err);
    int64_t measure_round, measure_day;  /* how often at most, in a round of consolidation and in a day (UTC), over restarts; failed ones count. 0: never */
    /*
     * One text for several lessons that say much the same: *ret_situation and *ret_action, owned by the caller. NULL: the most trusted
     * one's text stays.
     */
    bool (*summarise)(void *ctx, const json_t *lessons, char **ret_situation, char **ret_action, struct err *err);
    /*
     * Vectors of texts by a model: count times *ret_dim figures (1 to LESSON_MOST_DIM), which the caller frees. for_query: somebody waits for the answer
     * to one text; else the module's own thread asks for many. NULL: hashed n-grams alone. Where it fails, they do.
     */
    bool (*embed)(void *ctx, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err);
    const char *embed_model;             /* its name: vectors are kept over restarts, and asked for anew of another model. NULL is a name too; borrowed */
    void *ctx;                           /* of all three */
};
/* Reads all lessons. ERR_INVALID: the thesaurus cannot be read. */
bool know_open(const struct know_config *config, struct store *store, struct know **ret, struct err *err) MUST_CHECK;
bool know_start(struct know *k, struct err *err) MUST_CHECK;   /* the thread that learns and consolidates */
void know_stop(struct know *k);          /* ends the thread, waits for what it is at; NULL is fine. All else goes on */
void know_close(struct know *k);

/* ---- finding ---- */
/*
 * tags: what is known of the situation, e.g. "op/NAME", "target/sm_90a", "dtype/bf16", "regime/latency", "symptom/spill". A lesson that
 * says something else of the same kind (another operator) is not found, one that says nothing of it is.
 */
struct lesson_query {
    const char *const *tags;
    int tag_count;
    const char *text;                    /* in plain words; may be NULL */
    int limit;                           /* 0: 8 */
    int token_budget;                    /* 0: no budget; of lesson_text() of all that are given */
    bool ended_too;                      /* superseded and retired ones as well */
    bool may_wait;                       /* for a vector of the text by the configured model; else the query goes without */
    unsigned without;                    /* parts to leave out, LESSON_PART_...; 0: all are used */
};
enum { LESSON_PART_TAGS = 1, LESSON_PART_BM25 = 2, LESSON_PART_VECTORS = 4, LESSON_PART_THESAURUS = 8, LESSON_PART_TRUST = 16 };
struct lesson_parts {                    /* ranks from 1; 0: not on that list */
    int tag_rank, bm25_rank, vector_rank, model_rank;
    double bm25, cosine, model_cosine, fused, trust, score;   /* score = fused, weighted by trust */
};
struct lesson_hit {
    char id[LESSON_ID_SIZE];
    json_t *doc;                         /* the lesson; owned by the list */
    const char *situation, *action;      /* of doc */
    double trust;                        /* the lower bound */
    int tokens;                          /* of lesson_text() */
    struct lesson_parts parts;
};
struct lesson_list { int count, tokens; struct lesson_hit *list; const char *backend; };
/* Best first. Nothing found is no error. */
bool lessons_retrieve(struct know *k, const struct lesson_query *q, struct lesson_list *ret, struct err *err) MUST_CHECK;
void lesson_list_done(struct lesson_list *l);
DEFINE_CLEANUP(lesson_list, struct lesson_list, lesson_list_done(it))
/* {"lessons":[{...the lesson,"score":{...}}],"tokens","semantic_backend"}; new reference. */
json_t *lesson_list_encode(const struct lesson_list *l);
/* "[les_...] situation -> action (effect, trust)": one paragraph without line breaks, for a prompt. Appends. */
void lesson_text(const json_t *lesson, struct buf *to);
/* How many tokens a text is at most likely to be: the measure of all budgets here. */
int lesson_tokens(const char *text, size_t bytes);
/* Tags of a shape's situation: op, target, dtype, regime (by its least bytes); and of a judged candidate's figures (symptoms). Appends. */
struct lesson_tags { int count; char list[LESSON_MAX_TAGS][LESSON_TAG_BYTES]; };
void lesson_tags_of_shape(const struct shape *s, struct lesson_tags *to);
void lesson_tags_of_figures(const json_t *figures, struct lesson_tags *to);
bool lesson_tags_add(struct lesson_tags *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   /* false: no room, or no tag */

/* ---- using and proposing ---- */
/* Says in a candidate's document which lessons it was made with: what becomes of it moves their trust. At most LESSON_MAX_USED. */
void lessons_used(json_t *candidate, const char *const *ids, int count);
/*
 * A lesson with evidence: {"tags","situation","action","evidence":{"pairs":[{"with":cand,"without":cand},...],"reason"?}}. The pairs
 * must be judged candidates of one shape each, found right; the effect is computed from their figures, never taken from the request.
 * signed_by: an operator's name; then evidence may be missing, and the name stands in the lesson. Faults with pointers (err ERR_INVALID),
 * ERR_UNPROCESSABLE (the evidence does not carry it), ERR_CONFLICT (there is one that says the same: it is named), ERR_BUSY.
 */
bool lessons_propose(struct know *k, const json_t *request, const char *source, const char *by, const char *signed_by, json_t **ret,
                     struct faults *f, struct err *err) MUST_CHECK;
/* An operator ends a lesson. ERR_NOT_FOUND, ERR_CONFLICT. */
bool lessons_retire(struct know *k, const char *id, const char *reason, json_t **ret, struct err *err) MUST_CHECK;

/* ---- failure notes ---- */
/* What kind of failure this is: numbers, names of places and the like are taken out of the text. 0-ended, at most 160 bytes. */
struct note_signature { char text[168]; };
struct note_signature note_signature_of(const char *verdict, const char *phase, const char *text);
/*
 * Notes of a shape, each signature once: those of the lineage of `parent` (a candidate, may be NULL) first, then the newest; then of the
 * same operator's other shapes as long as there is room. [{"signature","verdict","phase","text","count"}...]; new reference.
 */
bool notes_retrieve(struct know *k, const char *shape_hash, const char *parent, int limit, int token_budget, json_t **ret, struct err *err) MUST_CHECK;

/* ---- what jobs put into their own transactions ---- */
/* A candidate was judged (its record; before: what was the best, may be NULL). Nothing is put where nothing can be learnt. */
/*
 * outside: who sent it, where a stranger did and not a search of ours; NULL else. Each such caller counts once a lesson, ends no lesson that an
 * operator signed, and says nothing of how often candidates help without lessons: sending costs nothing.
 */
void know_put_judged(struct store_batch *b, const json_t *record, double best_before_speedup, const char *outside);
/* The search for a shape of a job is over. */
void know_put_closed(struct store_batch *b, const char *job, const char *shape_hash, int op_version);
/* There is something to work off; returns at once. k may be NULL. */
void know_wake(struct know *k);
/* Works off all there is, in the caller's thread: for tests, and for whoever has no thread. */
bool know_work(struct know *k, struct err *err) MUST_CHECK;
/* What the template search is to start from at a shape: [{"id"?,"effects": effects.h}...]; new reference, NULL: nothing is known. */
json_t *know_effects(struct know *k, const struct shape *s, bool measured);

/* ---- consolidation ---- */
bool know_consolidate(struct know *k, int *ret_steps, struct err *err) MUST_CHECK;   /* one round, in the caller's thread */
/* Takes a step back. ERR_NOT_FOUND, ERR_CONFLICT: it was already, or a later step changed the same lessons: that one is named. */
bool know_undo(struct know *k, const char *step, const char *by, json_t **ret, struct err *err) MUST_CHECK;
/* Asks the model for the vectors of lessons that have none, in the caller's thread; *ret_count: how many got one. */
bool know_embed(struct know *k, int *ret_count, struct err *err) MUST_CHECK;
/* For /metrics: {"active","superseded","retired","vectors","embed_failures","embed_fallbacks","measured_again","measured_same"}; new reference. */
json_t *know_stats(struct know *k);
