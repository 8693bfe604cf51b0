/* Shared responses: made once with all their headers, then queued for each request that wants the same bytes. */
#include "server/http/edge.h"

#include <string.h>

struct http_blob {
    _Atomic int references;
    struct MHD_Response *full, *unmodified;
    const char *data;              /* owned by `full` */
    size_t size;
    char etag[80];
};

static void add_headers(struct MHD_Response *r, const char *content_type, const char *etag, const char *cache_control,
                        const char *extra_name, const char *extra_value)
{
    MHD_add_response_header(r, "Content-Type", content_type);
    MHD_add_response_header(r, "ETag", etag);
    MHD_add_response_header(r, "Cache-Control", cache_control);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (extra_name)
        MHD_add_response_header(r, extra_name, extra_value);
}

struct http_blob *http_blob_new(struct buf *take, const char *content_type, const char *etag, const char *cache_control,
                                const char *extra_name, const char *extra_value)
{
    struct http_blob *b = xalloc(sizeof *b);
    atomic_store(&b->references, 1);
    b->size = take->size;
    char *data = buf_take(take);
    b->data = data;
    snprintf(b->etag, sizeof b->etag, "%s", etag);
    b->full = MHD_create_response_from_buffer(b->size, data, MHD_RESPMEM_MUST_FREE);
    b->unmodified = MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    BUG_ON(!b->full || !b->unmodified);
    add_headers(b->full, content_type, etag, cache_control, extra_name, extra_value);
    add_headers(b->unmodified, content_type, etag, cache_control, extra_name, extra_value);
    return b;
}

struct http_blob *http_blob_ref(struct http_blob *b)
{
    atomic_fetch_add_explicit(&b->references, 1, memory_order_relaxed);
    return b;
}

void http_blob_free(struct http_blob *b)
{
    if (!b || atomic_fetch_sub(&b->references, 1) != 1)
        return;
    MHD_destroy_response(b->full);
    MHD_destroy_response(b->unmodified);
    free(b);
}

const char *http_blob_etag(const struct http_blob *b)
{
    return b->etag;
}

const char *http_blob_data(const struct http_blob *b, size_t *ret_size)
{
    *ret_size = b->size;
    return b->data;
}

struct MHD_Response *blob_response(struct http_blob *b, bool modified)
{
    return modified ? b->full : b->unmodified;
}
