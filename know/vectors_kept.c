/*
 * Vectors by a model outlive the process: a record a lesson, known by a digest of the model's name and of the text that it is of, so that
 * another model or another text asks anew. Only active lessons have one (know_commit takes those of others away), which bounds them.
 * A figure is a byte here too, of the largest figure's size.
 *
 * (STORE_VECTOR, by lesson) {"key": digest,"dim","data": hex}
 */
#include "know/internal.h"

#include "core/hash.h"

#include <math.h>

static struct hash_hex key_of(const struct know *k, const char *text)
{
    cleanup(str) char *both = xfmt("%s\n%s", k->config.embed_model ? k->config.embed_model : "", text);
    return hash_of(both, strlen(both));
}

void vector_keep(const struct know *k, struct store_batch *b, const char *id, const char *text, const float *v, int dim)
{
    static const char digits[] = "0123456789abcdef";
    cleanup(str) char *data = xalloc(2 * (size_t)dim + 1);
    cleanup(json) json_t *doc = json_object();
    double most = 0;
    for (int i = 0; i < dim; i++)
        most = fmax(most, fabs(v[i]));
    for (int i = 0; i < dim; i++) {
        unsigned byte = (uint8_t)(int8_t)lrint(most > 0 ? v[i] * 127 / most : 0);
        data[2 * i] = digits[byte >> 4], data[2 * i + 1] = digits[byte & 15];
    }
    json_put_str(doc, "key", key_of(k, text).text);
    json_put_int(doc, "dim", dim);
    json_put_str(doc, "data", data);
    store_put(b, STORE_VECTOR, id, NULL, doc);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

float *vector_kept(struct know *k, const char *id, const char *text, int *ret_dim)
{
    cleanup(json) json_t *doc = NULL;
    struct err none = {0};
    if (!store_get(k->store, STORE_VECTOR, id, &doc, &none) || strcmp(json_str(doc, "key", ""), key_of(k, text).text))
        return NULL;
    const char *data = json_str(doc, "data", "");
    int64_t dim = json_int(doc, "dim", 0);
    if (dim < 1 || dim > LESSON_MOST_DIM || strlen(data) != 2 * (size_t)dim)
        return NULL;
    cleanup(mem) void *memory = xarray((size_t)dim, sizeof(float));
    float *v = memory;
    for (int64_t i = 0; i < dim; i++) {
        int high = digit_of(data[2 * i]), low = digit_of(data[2 * i + 1]);
        if (high < 0 || low < 0)
            return NULL;
        v[i] = (float)(int8_t)(uint8_t)(high << 4 | low);
    }
    *ret_dim = (int)dim;
    return steal(&memory);
}

static bool add_id(void *ctx, const char *id, const json_t *doc)
{
    (void)doc;
    store_delete(ctx, STORE_VECTOR, id);
    return true;
}

bool vectors_forget(struct know *k, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        char *next = NULL;
        struct store_page page = {STORE_VECTOR, NULL, after, 1000, false};
        struct store_batch *b = store_batch_new();
        if (!store_list(k->store, &page, add_id, b, &next, NULL, err)) {
            store_batch_free(b);
            return false;
        }
        free(after);
        after = next;
        if (!store_commit(k->store, b, NULL, err))
            return false;
    } while (after);
    return true;
}
