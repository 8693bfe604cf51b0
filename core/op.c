/* Operators: one folder each, its digest, and the set of all of them; what op.json says is read in op_read.c. */
#include "core/op.h"

#include <string.h>

enum { OP_JSON_LIMIT = 1 << 20, SOURCE_LIMIT = 1 << 20 };

/* One line a file: name, size, content's digest. A file that is not there counts as such. */
static bool folder_digest(struct op *op, struct err *err)
{
    static const char *const files[] = {"op.json", "reference.c", "baseline.cu", "baseline.json"};
    cleanup(buf) struct buf list = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", op->dir, files[i]);
        cleanup(buf) struct buf content = {0};
        if (!file_read(path, SOURCE_LIMIT, &content, err))
            return false;
        buf_fmt(&list, "%s %zu %s\n", files[i], content.size, hash_of(content.data, content.size).text);
    }
    op->digest = hash_of(list.data, list.size);
    return true;
}

bool op_load(const char *dir, struct op **ret, struct err *err)
{
    cleanup(op) struct op *op = xalloc(sizeof *op);
    cleanup(str) char *path = xfmt("%s/op.json", dir);
    op->dir = xstrdup(dir);
    if (!json_parse_file(path, OP_JSON_LIMIT, &op->doc, err))
        return false;
    if (!op_read(op, path, err) || !folder_digest(op, err))
        return false;
    *ret = steal(&op);
    return true;
}

void op_free(struct op *op)
{
    if (!op)
        return;
    free(op->dir);
    free(op->description);
    json_decref(op->doc);
    free(op);
}

int op_results(const struct op *op)
{
    return op->between >= 0 ? 2 : 1;
}

#define INDEX_BY_NAME(what, list, count)                       \
    int op_##what##_index(const struct op *op, const char *name) \
    {                                                          \
        for (int i = 0; i < op->count; i++)                    \
            if (strcmp(op->list[i].name, name) == 0)           \
                return i;                                      \
        return -1;                                             \
    }
INDEX_BY_NAME(axis, axes, axis_count)
INDEX_BY_NAME(tensor, tensors, tensor_count)
INDEX_BY_NAME(scalar, scalars, scalar_count)
INDEX_BY_NAME(letter, letters, letter_count)

json_t *op_public(const struct op *op)
{
    json_t *doc = json_deep_copy(op->doc), *regimes = json_object_get(doc, "regimes"), *item;
    const char *key;
    void *next;
    json_object_foreach_safe(regimes, next, key, item)
        if (json_bool(item, "hidden", false))
            json_object_del(regimes, key);
    return doc;
}

static int by_name(const void *a, const void *b)
{
    const struct op *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

bool op_set_load(const char *dir, struct op_set *ret, struct err *err)
{
    cleanup(op_set) struct op_set set = {0};
    cleanup(dir) DIR *d = opendir(dir);
    if (!d)
        return err_errno(err, ERR_UNAVAILABLE, "operators: %s", dir);
    for (struct dirent *e; (e = readdir(d));) {
        cleanup(str) char *sub = xfmt("%s/%s", dir, e->d_name);
        cleanup(str) char *file = xfmt("%s/op.json", sub);
        if (e->d_name[0] == '.' || access(file, F_OK) != 0)
            continue;
        struct op *op;
        if (!op_load(sub, &op, err))
            return false;
        set.list = xrealloc(set.list, (size_t)(set.count + 1) * sizeof *set.list);
        set.list[set.count++] = op;
        if (strcmp(op->name, e->d_name) != 0)
            return err_set(err, ERR_INVALID, "%s: the operator is named %s, its folder is not", file, op->name);
    }
    if (!set.count)
        return err_set(err, ERR_UNAVAILABLE, "operators: no folder of %s holds an op.json", dir);
    qsort(set.list, (size_t)set.count, sizeof *set.list, by_name);
    *ret = set;
    set = (struct op_set){0};
    return true;
}

void op_set_done(struct op_set *set)
{
    for (int i = 0; i < set->count; i++)
        op_free(set->list[i]);
    free(set->list);
    *set = (struct op_set){0};
}

const struct op *op_set_find(const struct op_set *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->list[i]->name, name) == 0)
            return set->list[i];
    return NULL;
}

char *op_default_dir(void)
{
    cleanup(str) char *self = self_dir();
    /* dist/bin/../share, build/server/../share, build/gpu/judge/../../share */
    static const char *const tries[] = {"../share/proteus/ops", "share/proteus/ops", "../../share/proteus/ops"};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        cleanup(str) char *path = xfmt("%s/%s", self, tries[i]);
        if (access(path, R_OK) == 0)
            return steal(&path);
    }
    return xfmt("%s/%s", self, tries[0]);
}
