/*
 * A batch is a list of operations, copied in at once, that the writer applies in order. What can never be written (a key too long,
 * a blob too large) is remembered as the batch's fault and told by store_commit.
 */
#include "store/internal.h"

#include "core/clock.h"

#include <string.h>

struct store_batch *store_batch_new(void)
{
    return xalloc(sizeof(struct store_batch));
}

void store_batch_free(struct store_batch *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->count; i++) {
        free(b->ops[i].id);
        free(b->ops[i].owner);
        free(b->ops[i].data);
    }
    free(b->ops);
    free(b);
}

static struct store_batch_op *add_op(struct store_batch *b)
{
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 8;
        b->ops = xrealloc(b->ops, (size_t)b->capacity * sizeof *b->ops);
    }
    struct store_batch_op *op = &b->ops[b->count++];
    memset(op, 0, sizeof *op);
    return op;
}

static void check_key(struct store_batch *b, const char *what, const char *key, size_t extra)
{
    if (b->fault.code == ERR_OK && (!*key || strlen(key) + extra > STORE_KEY_BYTES))
        err_set(&b->fault, ERR_INVALID, "%s of %zu bytes cannot be a key of the store: 1 to %zu are possible", what, strlen(key),
                STORE_KEY_BYTES - extra);
}

static void set_text(struct store_batch_op *op, const json_t *doc)
{
    cleanup(buf) struct buf text = {0};
    json_write(&text, doc);
    op->size = text.size;
    op->data = buf_take(&text);
}

void store_put(struct store_batch *b, enum store_kind kind, const char *id, const char *owner, const json_t *doc)
{
    BUG_ON((unsigned)kind >= STORE_KIND_COUNT || !doc);
    struct store_batch_op *op = add_op(b);
    op->what = OP_PUT;
    op->kind = kind;
    op->id = xstrdup(id);
    op->owner = owner ? xstrdup(owner) : NULL;
    set_text(op, doc);
    check_key(b, "an id", id, 0);
    if (owner)
        check_key(b, "an owner", owner, 10);
}

void store_delete(struct store_batch *b, enum store_kind kind, const char *id)
{
    BUG_ON((unsigned)kind >= STORE_KIND_COUNT);
    struct store_batch_op *op = add_op(b);
    op->what = OP_DELETE;
    op->kind = kind;
    op->id = xstrdup(id);
    check_key(b, "an id", id, 0);
}

void store_expect(struct store_batch *b, enum store_kind kind, const char *id, const json_t *was)
{
    BUG_ON((unsigned)kind >= STORE_KIND_COUNT);
    struct store_batch_op *op = add_op(b);
    op->what = OP_EXPECT;
    op->kind = kind;
    op->id = xstrdup(id);
    if (was)
        set_text(op, was);
    check_key(b, "an id", id, 0);
}

void store_put_blob(struct store_batch *b, const void *data, size_t size, struct hash_hex *ret)
{
    struct hash_hex digest = hash_of(data, size);
    *ret = digest;
    if (size > STORE_MAX_BLOB_BYTES) {
        if (b->fault.code == ERR_OK)
            err_set(&b->fault, ERR_TOO_LARGE, "a blob of %zu bytes: at most %zu can be stored", size, STORE_MAX_BLOB_BYTES);
        return;
    }
    struct store_batch_op *op = add_op(b);
    op->what = OP_BLOB;
    op->id = xstrdup(digest.text);
    op->data = xalloc(size + 1);
    if (size)
        memcpy(op->data, data, size);
    op->size = size;
}

void store_delete_blob(struct store_batch *b, const char *digest)
{
    struct store_batch_op *op = add_op(b);
    op->what = OP_DELETE_BLOB;
    op->id = xstrdup(digest);
    check_key(b, "a digest", digest, 0);
}

/* Kept as the members of an object without its braces: the writer puts id and time in front. */
void store_event(struct store_batch *b, const char *type, const char *job, const json_t *doc)
{
    BUG_ON(!json_is_object(doc) || strpbrk(type, "\r\n"));
    cleanup(json) json_t *rest = json_object();
    const char *key;
    json_t *value;
    if (job)
        json_put_str(rest, "job", job);
    json_object_foreach((json_t *)doc, key, value)
        if (strcmp(key, "id") != 0 && strcmp(key, "time") != 0)
            json_object_set(rest, key, value);
    struct store_batch_op *op = add_op(b);
    op->what = OP_EVENT;
    op->id = xstrdup(type);
    op->owner = job ? xstrdup(job) : NULL;
    cleanup(str) char *text = json_text(rest);
    op->size = strlen(text) - 2;
    op->data = xstrndup(text + 1, op->size);
    if (job)
        check_key(b, "a job id", job, 0);
}
