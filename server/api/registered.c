/*
 * Registered operators: the store is the truth, files as blobs and a record {"name","version","digest","fingerprint","registered",
 * "by","files":{name:digest},"canaries"} by name. What judges read is a copy in DATA/ops/DIGEST/NAME, laid out anew where it is not
 * what the store says. A folder belongs to one digest for ever, so a job under way is judged by the operator that it began with.
 */
#include "server/api/registry.h"

#include "core/clock.h"
#include "core/log.h"

#include <string.h>
#include <sys/stat.h>

void op_files_done(struct op_files *f)
{
    buf_done(&f->op);
    buf_done(&f->reference);
    buf_done(&f->baseline_cu);
    buf_done(&f->baseline_json);
    buf_done(&f->library);
}

/* By name, for those who go through all of them. */
static const struct { const char *name; size_t at; } files[] = {
    {"op.json", offsetof(struct op_files, op)},
    {"reference.c", offsetof(struct op_files, reference)},
    {"baseline.cu", offsetof(struct op_files, baseline_cu)},
    {"baseline.json", offsetof(struct op_files, baseline_json)},
    {"reference.so", offsetof(struct op_files, library)},
};
#define FILES (sizeof files / sizeof *files)

static const struct buf *file_at(const struct op_files *f, size_t i)
{
    return (const struct buf *)((const char *)f + files[i].at);
}

void op_files_make(const json_t *request, struct op_files *ret)
{
    const json_t *given = json_object_get(request, "baseline");
    cleanup(json) json_t *baseline = json_copy((json_t *)(uintptr_t)given);
    json_object_del(baseline, "source");
    json_write_pretty(&ret->op, json_object_get(request, "op"));
    json_write_pretty(&ret->baseline_json, baseline);
    buf_str(&ret->reference, json_str(request, "reference", ""));
    buf_str(&ret->baseline_cu, json_str(given, "source", ""));
}

/* ---- folders ---- */

static bool has_content(const char *path, const struct buf *wanted)
{
    cleanup(buf) struct buf there = {0};
    struct err ignored;
    return file_read(path, wanted->size + 1, &there, &ignored) && there.size == wanted->size && !memcmp(there.data ? there.data : "", wanted->data ? wanted->data : "", wanted->size);
}

bool registered_lay(const char *data, const char *name, const char *digest, const struct op_files *f, struct op **ret, struct err *err)
{
    cleanup(str) char *given = xfmt("%s/ops/%s/%s", data, digest, name);
    if (!dir_make(given, 0755, err))
        return false;
    cleanup(str) char *dir = realpath(given, NULL);
    if (!dir)
        return err_errno(err, ERR_INTERNAL, "%s", given);
    for (size_t i = 0; i < FILES; i++) {
        cleanup(str) char *path = xfmt("%s/%s", dir, files[i].name), *part = xfmt("%s.part", path);
        const struct buf *content = file_at(f, i);
        if (has_content(path, content))
            continue;
        if (!file_write(part, content->data ? content->data : "", content->size, 0644, err))
            return false;
        if (rename(part, path) != 0)
            return err_errno(err, ERR_INTERNAL, "%s", path);
    }
    cleanup(op) struct op *op = NULL;
    if (!op_load(dir, &op, err))
        return false;
    if (strcmp(op->digest.text, digest) != 0 || strcmp(op->name, name) != 0)
        return err_set(err, ERR_INTERNAL, "operator %s: its files have another digest (%.12s) here than at the judge (%.12s)", name, op->digest.text, digest);
    *ret = steal(&op);
    return true;
}

/* ---- the store ---- */

bool registered_store(struct store *s, const struct op *op, const struct op_files *f, const char *fingerprint, const char *caller,
                      const json_t *report, struct err *err)
{
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *record = json_object();
    json_t *digests = json_object(), *canaries = json_object();
    struct rfc3339 now = clock_text(clock_wall_ns());
    for (size_t i = 0; i < FILES; i++) {
        struct hash_hex hash;
        const struct buf *content = file_at(f, i);
        store_put_blob(b, content->data ? content->data : "", content->size, &hash);
        json_put_str(digests, files[i].name, hash.text);
    }
    json_put_int(canaries, "caught", json_int(report, "caught", 0));
    json_put_int(canaries, "skipped", json_int(report, "skipped", 0));
    json_put_str(record, "name", op->name);
    json_put_int(record, "version", op->version);
    json_put_str(record, "digest", op->digest.text);
    json_put_str(record, "fingerprint", fingerprint);
    json_put_str(record, "registered", now.text);
    json_put_str(record, "by", caller ? caller : "");
    json_put(record, "files", digests);
    json_put(record, "canaries", canaries);
    store_put(b, STORE_OP, op->name, NULL, record);
    return store_commit(s, b, NULL, err);
}

struct records { int count; json_t *list[1024]; };

static bool keep(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    struct records *r = ctx;
    r->list[r->count++] = json_deep_copy(doc);
    return r->count < (int)(sizeof r->list / sizeof *r->list);
}

static bool load_one(struct store *s, const char *data, const json_t *record, struct op **ret, struct err *err)
{
    cleanup(op_files) struct op_files f = {.op = {0}};
    for (size_t i = 0; i < FILES; i++)
        if (!store_get_blob(s, json_str(json_object_get(record, "files"), files[i].name, ""), (struct buf *)((char *)&f + files[i].at), err))
            return false;
    return registered_lay(data, json_str(record, "name", ""), json_str(record, "digest", ""), &f, ret, err);
}

void registered_load(struct registered *r, struct store *s, const char *data)
{
    cleanup(mem) void *memory = xalloc(sizeof(struct records));
    struct records *records = memory;
    struct store_page page = {.kind = STORE_OP, .limit = (int)(sizeof records->list / sizeof *records->list)};
    struct err err = {0};
    if (!store_list(s, &page, keep, records, NULL, NULL, &err))
        log_line(LOG_ERROR, "registered operators cannot be read", "error", err.text, NULL);
    for (int i = 0; i < records->count; i++) {
        struct op *op = NULL;
        if (load_one(s, data, records->list[i], &op, &err))
            (void)registered_add(r, op);
        else
            log_line(LOG_ERROR, "a registered operator cannot be used and is left out", "op", json_str(records->list[i], "name", ""), "error", err.text, NULL);
        json_decref(records->list[i]);
    }
}

/* ---- sets ---- */

static int by_name(const void *a, const void *b)
{
    const struct op *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* Of one name the highest version; of two alike the one that came later. */
static void set_put(struct op_set *set, struct op *op)
{
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->list[i]->name, op->name) == 0) {
            if (op->version >= set->list[i]->version)
                set->list[i] = op;
            return;
        }
    set->list[set->count++] = op;
}

const struct op_set *registered_add(struct registered *r, struct op *op)
{
    BUG_ON(r->op_count == REGISTERED_MAX_EVER);
    r->ops[r->op_count++] = op;
    struct op_set *set = xalloc(sizeof *set);
    set->list = xarray((size_t)(r->built_in->count + r->op_count), sizeof *set->list);
    for (int i = 0; i < r->built_in->count; i++)
        set_put(set, r->built_in->list[i]);
    for (int i = 0; i < r->op_count; i++)
        set_put(set, r->ops[i]);
    qsort(set->list, (size_t)set->count, sizeof *set->list, by_name);
    r->sets[r->set_count++] = set;
    return set;
}

void registered_done(struct registered *r)
{
    for (int i = 0; i < r->set_count; i++) {
        free(r->sets[i]->list);
        free(r->sets[i]);
    }
    for (int i = 0; i < r->op_count; i++)
        op_free(r->ops[i]);
    r->op_count = r->set_count = 0;
}
