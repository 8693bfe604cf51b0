/*
 * What the system knows, on LMDB. Nothing of LMDB is in this header.
 *
 * One environment, full sync. All changes go through one writer thread: a `struct store_batch` is applied whole or not at all, is
 * durable when store_commit returns, and several batches share one sync (group commit). Readers copy out and hold no transaction
 * afterwards; any thread may read at any time. Records are JSON documents, blobs are bytes under their BLAKE2b-256.
 * Event ids rise by one and never repeat, not even after a power cut: the counter is in the same transaction as the events.
 * Not usable across fork(). An environment is used by one process at a time (a lock file says whose).
 */
#pragma once
#include "core/hash.h"
#include "core/json.h"

struct store;
struct store_batch;

struct store_config {
    const char *dir;
    int64_t map_bytes;              /* the most the store may grow to; 0: 16 GiB */
    int64_t job_events_kept;        /* events a job keeps; 0: all */
};
/* ERR_UNAVAILABLE: read-only, full, in use by another process (named), of a newer version; the text says which and what to do. */
bool store_open(const struct store_config *config, struct store **ret, struct err *err) MUST_CHECK;
void store_close(struct store *s);  /* ends the writer after the queue is empty */

/* X(code, name, what): kinds of records; the key is their id */
#define STORE_KINDS(X)                                                          \
    X(STORE_JOB, "job", "jobs, by id")                                          \
    X(STORE_CANDIDATE, "candidate", "candidates, by id; listed by job")         \
    X(STORE_ATTEMPT, "attempt", "questions to a model and answers, by id; listed by job") \
    X(STORE_KERNEL, "kernel", "the best kernel's manifest, by shape hash")      \
    X(STORE_TOKEN, "token", "tokens, by id (hashes of secrets only)")           \
    X(STORE_IDEMPOTENCY, "idempotency", "answers kept for Idempotency-Key")     \
    X(STORE_LESSON, "lesson", "the knowledge layer")                            \
    X(STORE_META, "meta", "format version, keys of the service, small state")   \
    X(STORE_OP, "op", "operators registered over HTTP, by name")                \
    X(STORE_SHELF, "shelf", "what was verified for a shape, by shape hash")     \
    X(STORE_OBSERVED, "observed", "shapes from the field, by shape hash")       \
    X(STORE_NOTE, "note", "failures, each kind of a shape once")                \
    X(STORE_EFFECT, "effect", "what a template's parameters did to a shape")    \
    X(STORE_LEARN, "learn", "what is to be learnt from, until it is")           \
    X(STORE_STEP, "step", "steps of consolidation, to be taken back")           \
    X(STORE_VECTOR, "vector", "of a lesson, by a model's endpoint, by lesson")
enum store_kind {
#define X(code, ...) code,
    STORE_KINDS(X)
#undef X
    STORE_KIND_COUNT
};

/* ---- writing ---- */
struct store_batch *store_batch_new(void);
void store_batch_free(struct store_batch *b);
/*
 * Adds or replaces a record. `owner` lists it under a parent (a candidate's job id), in order of first writing there; another owner
 * than before moves it to the end of that one's list, NULL leaves it where it is.
 */
void store_put(struct store_batch *b, enum store_kind kind, const char *id, const char *owner, const json_t *doc);
/* Deleting a job takes its events along; deleting what is not there is no error. */
void store_delete(struct store_batch *b, enum store_kind kind, const char *id);
/* The batch applies only if the record's current text equals `was` (NULL: if there is none); else
 * ERR_CONFLICT, nothing is written. */
void store_expect(struct store_batch *b, enum store_kind kind, const char *id, const json_t *was);
void store_put_blob(struct store_batch *b, const void *data, size_t size, struct hash_hex *ret);
/*
 * For whoever removes what no record names any more: while blobs are watched, one that is put (there already or not) is remembered, and
 * is not deleted by a batch of that time. So watch, write something, read all records, delete what none of them named, end the watch.
 */
void store_watch_blobs(struct store *s, bool on);
void store_delete_blob(struct store_batch *b, const char *digest);
/*
 * type e.g. "job.state"; job may be NULL. The store puts "id", "time" and, where there is one, "job" in front. doc is copied at
 * once.
 */
void store_event(struct store_batch *b, const char *type, const char *job, const json_t *doc);
/*
 * Durable on true. Takes the batch over in any case. *ret_last_event: id of the batch's last event, unchanged if it has none.
 * ERR_CONFLICT (an expectation), ERR_NO_SPACE (map or disk full), ERR_INVALID (a key of more than 511 bytes), ERR_TOO_LARGE
 * (a blob of more than 256 MiB).
 */
bool store_commit(struct store *s, struct store_batch *b, int64_t *ret_last_event, struct err *err) MUST_CHECK;

/* ---- reading ---- */
/* ERR_NOT_FOUND. New reference. */
bool store_get(struct store *s, enum store_kind kind, const char *id, json_t **ret, struct err *err) MUST_CHECK;
bool store_get_blob(struct store *s, const char *digest, struct buf *ret, struct err *err) MUST_CHECK;
/*
 * A page of records in key order (owner NULL) or in order of writing under an owner; newest first where `backwards`.
 * `after`: the *ret_next of the page before, or NULL; ERR_INVALID when it is not one. Calls `each`, which must not wait (false stops
 * early and is the last taken). *ret_next: the cursor for the next page (caller frees), NULL at the end. Cursors hold while records
 * come and go. All of one call comes from one snapshot, and *ret_as_of is the id of the last event in that snapshot.
 */
typedef bool store_each(void *ctx, const char *id, const json_t *doc);
struct store_page { enum store_kind kind; const char *owner; const char *after; int limit; bool backwards; };
bool store_list(struct store *s, const struct store_page *page, store_each *each, void *ctx, char **ret_next,
                int64_t *ret_as_of, struct err *err) MUST_CHECK;
/* One record with the id of the last event in the same snapshot. */
bool store_get_as_of(struct store *s, enum store_kind kind, const char *id, json_t **ret, int64_t *ret_as_of,
                     struct err *err) MUST_CHECK;
/*
 * Events with id > after, of one job or all (job NULL), at most `limit`, oldest first; appends them as they are sent,
 * "id: N\nevent: T\ndata: {...}\n\n", to `to`. *ret_last: the id of the last one, or `after`.
 */
bool store_events(struct store *s, const char *job, int64_t after, int limit, struct buf *to, int64_t *ret_last,
                  int *ret_count, struct err *err) MUST_CHECK;
int64_t store_last_event(struct store *s);
/* Calls back (on the writer thread, after the commit) whenever events were added: "something newer exists". One callback. */
void store_on_events(struct store *s, void (*notify)(void *ctx, int64_t last), void *ctx);
/* For /metrics: counts and sizes by kind; new reference. */
bool store_stats(struct store *s, json_t **ret, struct err *err) MUST_CHECK;

/*
 * Fault points, for tests: each state write (one transaction; making the tables of a new store is the first) passes two of them,
 * counted from 0: an even one before it is durable, an odd one after. With PROTEUS_FAULT_POINT=N in the environment the process
 * kills itself (SIGKILL) at point N. store_fault_points says how many were passed.
 */
int64_t store_fault_points(void);
