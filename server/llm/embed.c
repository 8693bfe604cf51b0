/* A request for vectors, and what is believed of its answer. See embed.h. */
#include "server/llm/embed.h"

#include "server/llm/internal.h"

#include <math.h>
#include <string.h>

#define FIGURE_BYTES 40                  /* that one figure may take as text */
#define FRAME_BYTES ((size_t)64 << 10)   /* what stands around them */

struct embedder {
    struct embed_config c;
    char *url, *model, *key_line;
};

bool embed_open(const struct embed_config *config, struct embedder **ret, struct err *err)
{
    const char *key = config->key ? config->key : "";
    if (!endpoint_check("embed", config->url, config->model, key, err))
        return false;
    struct embedder *e = xalloc(sizeof *e);
    *e = (struct embedder){.c = *config, .url = endpoint_url(config->url, "/embeddings"), .model = xstrdup(config->model),
                           .key_line = *key ? xfmt("Authorization: Bearer %s", key) : NULL};
    e->c.url = e->c.model = e->c.key = NULL;
    *ret = e;
    return true;
}

void embed_close(struct embedder *e)
{
    if (!e)
        return;
    free(e->url);
    free(e->model);
    free(e->key_line);
    free(e);
}

static char *body_of(const struct embedder *e, const char *const *texts, int count)
{
    cleanup(json) json_t *doc = json_object(), *input = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(input, json_string(texts[i]));
    json_put_str(doc, "model", e->model);
    json_put(doc, "input", json_incref(input));
    json_put_str(doc, "encoding_format", "float");
    return json_text(doc);
}

static bool on_bytes(void *ctx, const char *data, size_t size, bool is_stream)
{
    struct buf *to = ctx;
    (void)is_stream;
    buf_add(to, data, size);
    return !to->overflow;
}

/* One vector into its place; false: it is none, or of another length than the others. */
static bool take_one(const json_t *one, int count, float **v, int *dim, bool *has)
{
    const json_t *list = json_object_get(one, "embedding"), *index = json_object_get(one, "index");
    const int64_t at = json_is_integer(index) ? json_integer_value(index) : -1;
    const size_t size = json_array_size(list);
    if (at < 0 || at >= count || has[at] || !size || size > EMBED_MOST_DIM || (*dim && size != (size_t)*dim))
        return false;
    if (!*v)
        *v = xarray((size_t)count * size, sizeof **v);
    *dim = (int)size;
    has[at] = true;
    for (size_t i = 0; i < size; i++) {
        const json_t *figure = json_array_get(list, i);
        const double x = json_number_value(figure);
        if (!json_is_number(figure) || !(fabs(x) < 1e6))
            return false;
        (*v)[(size_t)at * size + i] = (float)x;
    }
    return true;
}

static bool read_answer(const struct buf *text, int count, float **ret, int *ret_dim, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    const json_t *data, *one;
    bool has[EMBED_MOST_TEXTS] = {0};
    struct err parse = {0};
    size_t i;
    *ret_dim = 0;
    if (!json_parse(text->data ? text->data : "", text->size, &doc, &parse) || json_array_size(data = json_object_get(doc, "data")) != (size_t)count)
        return err_set(err, ERR_UPSTREAM, "the endpoint for vectors did not answer with one for each text");
    json_array_foreach(data, i, one)
        if (!take_one(one, count, ret, ret_dim, has)) {
            free(*ret);
            *ret = NULL;
            return err_set(err, ERR_UPSTREAM, "the endpoint for vectors answered with something that is none");
        }
    return true;
}

bool embed_ask(const struct embedder *e, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err)
{
    static const char *const ends[] = {[HTTP_CANCELLED] = "was not waited for", [HTTP_NO_CONNECTION] = "is not reached", [HTTP_NO_FIRST_BYTE] = "said nothing in time",
                                       [HTTP_STALLED] = "stood still", [HTTP_TOO_LONG] = "took too long", [HTTP_BROKEN] = "broke off", [HTTP_ENOUGH] = "said too much"};
    BUG_ON(count < 1 || count > EMBED_MOST_TEXTS);
    cleanup(str) char *body = body_of(e, texts, count);
    cleanup(buf) struct buf text = {.limit = (size_t)count * EMBED_MOST_DIM * FIGURE_BYTES + FRAME_BYTES};
    cleanup(http_end) struct http_end end = {.status = 0};
    const int64_t limit_ns = for_query ? e->c.query_ns : e->c.whole_ns;
    const struct http_ask ask = {.url = e->url, .headers = {"Content-Type: application/json", e->key_line}, .body = body, .body_bytes = strlen(body), .connect_ns = limit_ns,
                                 .first_byte_ns = limit_ns, .stall_ns = limit_ns, .whole_ns = limit_ns, .sink = on_bytes, .sink_ctx = &text, .stopped = e->c.stopped,
                                 .stopped_ctx = e->c.ctx};
    *ret = NULL;
    http_run(&ask, &end);
    if (end.status && end.status != 200)
        return err_set(err, ERR_UPSTREAM, "the endpoint for vectors answered with status %d", end.status);
    if (end.how != HTTP_DONE)
        return err_set(err, end.how == HTTP_CANCELLED ? ERR_CONFLICT : end.how == HTTP_BROKEN || end.how == HTTP_NO_CONNECTION ? ERR_UPSTREAM : ERR_TIMEOUT,
                       "the endpoint for vectors %s", ends[end.how]);
    return read_answer(&text, count, ret, ret_dim, err);
}
