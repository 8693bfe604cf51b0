/*
 * What stands behind a shape's served kernel: every kernel that was verified for it (the best of them is the one served), those that
 * were withdrawn and why, and candidates that are held until an admin has looked. One record a shape, changed together with the
 * manifest that is served, so that no moment has one without the other.
 *
 * Shelf   (STORE_SHELF, by shape hash) {"shape_hash","serves": candidate|null,"entries":[ENTRY...],"held":[HELD...],"last"?: the manifest
 *         served last, while none is}
 * ENTRY   {"candidate","digest": candidate_digest, what it is known by if it is found again,"is_baseline","time_ns","speedup":{...},
 *         "evidence","state":"verified"|"quarantined","since","reason"?,"by"?,"revalidation"?: job,"manifest"}
 * HELD    {"candidate","reason","since"}
 *
 * All functions may be called from any thread. Two that change one shelf at once: the store refuses the later, and it is done again.
 */
#pragma once
#include "store/store.h"

#define SHELF_VERIFIED_MAX 16            /* the best are kept */
#define SHELF_QUARANTINED_MAX 64         /* the latest are kept */
#define SHELF_HELD_MAX 16                /* the latest */
#define SHELF_HISTORY 16
#define SHELF_REASON_BYTES 500
#define SHELF_VERIFIED "verified"        /* states of an entry */
#define SHELF_QUARANTINED "quarantined"

struct shelf {
    char hash[HASH_HEX_SIZE];
    json_t *was, *kernel_was;            /* as they are in the store; NULL: none */
    json_t *doc;
    bool changed;
};
/* Of a shape that has none an empty one; of a kernel served before there were shelves, one with that kernel. */
bool shelf_open(struct store *store, const char *hash, struct shelf *ret, struct err *err) MUST_CHECK;
void shelf_done(struct shelf *s);
DEFINE_CLEANUP(shelf, struct shelf, shelf_done(it))

json_t *shelf_entry(const struct shelf *s, const char *candidate);   /* borrowed; NULL: none */
/*
 * A verified kernel; the manifest lacks what changes while it is served (served_since, history). One that is there already by its
 * digest is replaced where the new one is better, and stays withdrawn where it was withdrawn. `instead_of` (may be NULL): a candidate
 * whose place it takes in any case.
 */
void shelf_offer(struct shelf *s, const json_t *manifest, const char *digest, const char *instead_of);
void shelf_withdraw(struct shelf *s, json_t *entry, const char *reason, const char *by);
void shelf_restore(struct shelf *s, json_t *entry);
void shelf_hold(struct shelf *s, const char *candidate, const char *reason);
void shelf_unhold(struct shelf *s, const char *candidate);
/* Decides what is served, and adds both records to the batch with the expectation that nobody changed them. */
void shelf_write(struct shelf *s, struct store_batch *b);
const char *shelf_serves(const struct shelf *s);                     /* after shelf_write; NULL: none */
/* Why there is nothing served of this evidence (NULL: of any): the latest entry that was withdrawn; borrowed, NULL: none was. */
const json_t *shelf_withdrawn(const struct shelf *s, const char *evidence);
/* {"shape_hash","serves","kernels":[entries without manifests],"held":[...]}; new reference. */
json_t *shelf_view(const struct shelf *s);

/*
 * Withdraws a kernel (candidate NULL: the one that is served), or brings one back (NULL: the one withdrawn last). What is so already
 * stays as it is, and nothing is written. ERR_NOT_FOUND: there is none. *ret: shelf_view's. Durable when it returns; the event
 * kernel.state is told. reason and by are kept as they are.
 */
struct shelf_order { const char *candidate, *reason, *by; };
bool kernel_quarantine(struct store *store, const char *hash, const struct shelf_order *order, json_t **ret, struct err *err) MUST_CHECK;
bool kernel_restore(struct store *store, const char *hash, const struct shelf_order *order, json_t **ret, struct err *err) MUST_CHECK;
/* A held candidate is refused for good. ERR_CONFLICT: it is not held, or was released. *ret: its record. */
bool candidate_refuse(struct store *store, const char *id, const struct shelf_order *order, json_t **ret, struct err *err) MUST_CHECK;

/* Whether `now` displaces `old` (both with "speedup" and "evidence"; old may be null). */
bool result_beats(const json_t *now, const json_t *old);
double result_speedup(const json_t *result);             /* the median; 0: none */
bool candidate_is_held(const json_t *record);            /* implausible, and for an admin to decide; decided or not */
void event_kernel(struct store_batch *b, const char *job, const char *hash, const char *candidate, const char *state, const char *reason,
                  const char *serves);
