/*
 * Vectors of texts by an OpenAI-compatible endpoint (POST /v1/embeddings). One request, one try: who asks in the background asks again later, and who
 * waits goes without. What comes back is bounded and looked at figure by figure; no word of it is told on, so that no key can be in it.
 */
#pragma once
#include "core/json.h"

#include <stdint.h>

struct embedder;
struct embed_config {
    const char *url, *model;       /* as llm_config's */
    const char *key;               /* NULL or "": none is sent */
    int64_t whole_ns, query_ns;    /* for a request; for one that somebody waits for */
    bool (*stopped)(void *ctx);    /* looked at at least every 100 ms; may be NULL */
    void *ctx;
};
#define EMBED_MOST_DIM 4096
#define EMBED_MOST_TEXTS 64
/* Copies the config. ERR_INVALID names the setting. */
bool embed_open(const struct embed_config *config, struct embedder **ret, struct err *err) MUST_CHECK;
void embed_close(struct embedder *e);
DEFINE_CLEANUP(embedder, struct embedder *, embed_close(*it))
/* count vectors of *ret_dim figures; the caller frees. ERR_UPSTREAM, ERR_TIMEOUT, ERR_CONFLICT: stopped. Any thread. */
bool embed_ask(const struct embedder *e, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err) MUST_CHECK;
