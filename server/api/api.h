/*
 * The endpoints: one file a resource, handlers over our own request and response. What they share is here.
 *
 * Threads: handlers run on several at once; `struct app` is constant while the server runs, and what it points to locks itself.
 * No handler starts a process or waits for one.
 */
#pragma once
#include "core/minisign.h"
#include "core/preset.h"
#include "server/config.h"
#include "server/http/http.h"
#include "server/jobs/jobs.h"
#include "store/store.h"

struct app {
    const struct config *config;
    struct store *store;
    struct jobs *jobs;
    _Atomic(const struct op_set *) ops; /* another set when an operator is registered; one once read stays as it is */
    const struct preset_set *presets;  /* NULL: none */
    const struct signer *signer;
    struct know *know;                 /* lessons; NULL: there is no such layer */
    struct auth *auth;
    struct http_server *http;          /* NULL in tests without sockets */
    const char *default_target;
    const char *static_dir;            /* NULL: there is no dashboard */
    const char *openapi_path;          /* NULL: none */
    struct devices *devices;
    struct cache *cache;
    struct idempotency *idempotency;
    struct rate *rate;
    struct shape_memory *shapes;
    struct files *files;
    struct registry *registry;
    int64_t started_ns;                /* clock_wall_ns */
};

extern const struct route api_routes[];
extern const int api_route_count;

/* Makes the parts that belong to the API itself, from the fields above them. spawn is copied; its texts must live on. */
void app_open(struct app *app, const struct spawn_config *spawn);
void app_close(struct app *app);

static inline struct app *app_of(const struct request *req)
{
    return req->app;
}

#define PAGE_KEY_SIZE 512
/* ---- pages (page.c) ---- */
/*
 * Reads ?limit= and ?cursor=. A cursor holds the last key and a check over path and filters; one of another list is refused.
 * False: the response is set.
 */
struct page_request { int limit; char after[PAGE_KEY_SIZE]; const char *filters; };
bool page_read(const struct request *req, struct response *res, const char *filters, struct page_request *ret);
void page_cursor(const struct request *req, const char *filters, const char *key, struct buf *to);
/* A page of records as {"NAME":[...],"next":...,"as_of":N}; `keep` may be NULL, and may change the (owned) document. */
typedef bool page_keep(void *ctx, json_t *doc);
void page_respond(const struct request *req, struct response *res, enum store_kind kind, bool backwards, const char *name,
                  const char *filters, page_keep *keep, void *ctx);
/* The same of the records that belong to `owner` (NULL: all); `filters` must name the owner, so that cursors are of its list only. */
void page_respond_of(const struct request *req, struct response *res, enum store_kind kind, const char *owner, bool backwards,
                     const char *name, const char *filters, page_keep *keep, void *ctx);

/* ---- blobs that are served often (cache.c) ---- */
struct cache;
struct cache *cache_new(int64_t limit_bytes);
void cache_free(struct cache *c);
struct cache_key { char hash[HASH_HEX_SIZE]; int part; };
/* A reference, and whether it is of this generation (else it must be looked at whether its digest still holds). NULL: none. */
struct http_blob *cache_get(struct cache *c, const struct cache_key *key, int64_t generation, bool *ret_fresh);
void cache_put(struct cache *c, const struct cache_key *key, int64_t generation, struct http_blob *b);   /* takes no reference */
void cache_drop(struct cache *c, const struct cache_key *key);
void cache_metrics(struct cache *c, struct buf *to);

/* ---- Idempotency-Key (idempotency.c) ---- */
struct idempotency;
struct idempotency *idempotency_new(struct store *store, int64_t keep_ns);
void idempotency_free(struct idempotency *i);                  /* what is to be kept later is kept now */
struct claim { bool held; struct hash_hex id, fingerprint; };
/* False: the response is set (a kept answer, 409, 422, 400). Without the header the claim is not held and all is well. */
bool claim_begin(const struct request *req, struct response *res, struct claim *ret);
/* What is kept of the request, before there is an answer; new reference. */
json_t *claim_record(const struct claim *c, int status);
/*
 * Adds what the request made (a "job", under /v1/jobs/ID) and the answer's body to the record. The store has the record with the id
 * already; the body follows within a second.
 */
void claim_keep_later(const struct request *req, const struct claim *c, json_t *record, const char *kind, const json_t *body);
void claim_end(const struct request *req, struct claim *c);

/* ---- how often (rate.c) ---- */
struct rate;
struct rate *rate_new(int64_t per_minute);
void rate_free(struct rate *r);
/* False: the response is set (429). */
bool rate_allows(const struct request *req, struct response *res);

/* ---- shapes seen lately, by hash, so that a 404 can name neighbours (shapes.c) ---- */
struct shape_memory;
struct shape_memory *shape_memory_new(void);
void shape_memory_free(struct shape_memory *m);
void shape_memory_add(struct shape_memory *m, const char *hash, const json_t *shape);
json_t *shape_memory_find(struct shape_memory *m, const char *hash);    /* new reference or NULL */
/* Kernels whose shapes are nearest to that of the hash; the newest if it is unknown. New reference: [{"shape_hash","shape",...}]. */
json_t *shapes_nearest(struct app *app, const char *hash);

/* ---- kernels (kernels.c) ---- */
/* ?evidence=: NULL takes any. False: the response is set. */
bool evidence_read(const struct request *req, struct response *res, const char **ret);
/* The manifest of a shape's kernel as it is served, links and all, if its evidence is the one asked for. New reference; ERR_NOT_FOUND. */
bool kernel_shown(struct app *app, const char *hash, const char *evidence, json_t **ret, struct err *err) MUST_CHECK;

/* ---- devices (devices.c) ---- */
struct devices;
/* Each answer is told with the one before it (both may be NULL), on the devices' own thread. */
typedef void devices_told(void *ctx, const json_t *before, const json_t *now);
struct devices *devices_new(const struct spawn_config *spawn, int64_t refresh_ns, devices_told *told, void *ctx);
/* Stops asking. A judge that hangs is left behind with the memory. */
void devices_free(struct devices *d);
/* New reference; NULL: not known yet, or the last asking failed (why says so). */
json_t *devices_get(struct devices *d, char *why, size_t why_size);
/* Waits for the first answer; for main, before jobs start. */
void devices_await(struct devices *d, int64_t limit_ns);

/* ---- operators registered over HTTP (registry.c, registered.c) ---- */
struct registry;
/* Adds the stored ones to app->ops. What cannot be read any more is left out and logged. */
struct registry *registry_new(struct app *app, const struct spawn_config *spawn);
/* Stops looking at operators. A judge that hangs is left behind with the memory, as are all operators then. */
void registry_free(struct registry *r);

/* ---- files (files.c) ---- */
struct files;
struct files *files_new(void);
void files_free(struct files *f);

bool tokens_load(struct app *app, struct err *err) MUST_CHECK;

/*
 * Whoever feeds or cancels a job (jobs.c) is the token that made it, or an admin's; without any token everybody is one. An agent reads what
 * strangers wrote: what that may talk it into ends at its own jobs. ERR_FORBIDDEN, ERR_NOT_FOUND.
 */
bool job_is_callers(const struct request *req, const char *id, struct err *err) MUST_CHECK;

http_handler mcp_post;
http_handler jobs_attempts;
http_handler jobs_post, jobs_list, jobs_get, jobs_post_cancel, jobs_post_candidate, jobs_candidates, candidates_get;
http_handler events_of_job, events_of_all;
http_handler kernels_list, kernels_get, kernels_part, artifacts_get;
http_handler kernels_quarantine, kernels_restore, kernels_revalidate, kernels_candidates, candidates_release, candidates_refuse;
http_handler observations_post, observations_list, observations_clear;
http_handler spending_get;
http_handler lessons_list, lessons_get, lessons_post, lessons_post_retire, lesson_steps_list, lesson_steps_post_undo, notes_get;
http_handler presets_list, sets_get, sets_post;
http_handler ops_list, ops_get, ops_put, shape_hash_post;
http_handler devices_list, signing_key_get, health_get, ready_get, metrics_get, openapi_get, problems_get;
http_handler tokens_list, tokens_post, tokens_delete;
http_handler files_get;
