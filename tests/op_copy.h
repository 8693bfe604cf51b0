/* Operators of the tree made worse: a copy in a temporary folder whose op.json a test has changed. */
#pragma once
#include "core/op.h"
#include "gpu/judge/compare.h"
#include "gpu/judge/inputs.h"
#include "tests/test.h"

/* A copy of an operator of the tree whose op.json `change` has been at. */
struct copy { char root[32]; struct op *op; };

static inline void copy_done(struct copy *c)
{
    static const char *const files[] = {"op.json", "reference.c", "reference.so", "baseline.cu", "baseline.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", c->root, files[i]);
        unlink(path);
    }
    rmdir(c->root);
    op_free(c->op);
}
DEFINE_CLEANUP(copy, struct copy, copy_done(it))

static inline void copy_make(struct copy *c, const struct op_set *ops, const char *name, void (*change)(json_t *doc))
{
    const struct op *op = op_set_find(ops, name);
    cleanup(json) json_t *doc = json_deep_copy(op->doc);
    static const char *const files[] = {"reference.c", "reference.so", "baseline.cu", "baseline.json"};
    struct err err = {0};
    snprintf(c->root, sizeof c->root, "/tmp/test_canary.XXXXXX");
    check(mkdtemp(c->root) != NULL);
    change(doc);
    cleanup(str) char *text = json_text(doc), *path = xfmt("%s/op.json", c->root);
    check(file_write(path, text, strlen(text), 0600, &err));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *given = xfmt("%s/%s", op->dir, files[i]), *to = xfmt("%s/%s", c->root, files[i]);
        cleanup(str) char *from = realpath(given, NULL);
        check(from && symlink(from, to) == 0);
    }
    check(op_load(c->root, &c->op, &err) && inputs_check(c->op, &err) && compare_check(c->op, &err));
    check_str(err.text, "");
}

/* Another content for one of the copy's files; the operator is loaded anew. */
static inline void copy_put(struct copy *c, const char *file, const char *text)
{
    struct err err = {0};
    cleanup(str) char *path = xfmt("%s/%s", c->root, file);
    unlink(path);
    check(file_write(path, text, strlen(text), 0600, &err));
    op_free(c->op);
    c->op = NULL;
    check(op_load(c->root, &c->op, &err));
}
