/* Folders to cases. A corpus is trusted text, but a typing error in it must not make a case pass by not being run. */
#include "gpu/selftest.h"

#include <string.h>

#define CASE_LIMIT_BYTES ((size_t)1 << 20)

void selftest_corpus_done(struct selftest_corpus *c)
{
    for (int i = 0; i < c->count; i++) {
        json_decref(c->list[i].doc);
        json_decref(c->list[i].candidate);
    }
    free(c->list);
    *c = (struct selftest_corpus){0};
}

/* ---- one case ---- */

static bool take_shape(const struct op_set *ops, struct selftest_case *c, struct err *err)
{
    cleanup(json) json_t *shape = json_object();
    const json_t *axes = json_object_get(c->doc, "axes"), *dtypes = json_object_get(c->doc, "dtypes");
    struct faults f = {0};
    json_put_str(shape, "op", json_str(c->doc, "operator", ""));
    json_put(shape, "axes", axes ? json_incref((json_t *)(uintptr_t)axes) : json_object());
    if (dtypes)
        json_put(shape, "dtypes", json_incref((json_t *)(uintptr_t)dtypes));
    if (!shape_parse(ops, shape, json_str(c->doc, "target", "sm_90a"), "", &c->shape, &f))
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    return true;
}

static bool take_source(const char *dir, struct selftest_case *c, struct buf *digest, struct err *err)
{
    static const char *const names[] = {"kernel.cu", "kernel.ptx"};
    c->candidate = json_deep_copy(json_object_get(c->doc, "candidate"));
    if (!json_is_object(c->candidate))
        return err_set(err, ERR_INVALID, "candidate: an object is needed");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup(str) char *path = xfmt("%s/%s", dir, names[i]);
        cleanup(buf) struct buf text = {0};
        if (access(path, R_OK) != 0)
            continue;
        if (!file_read(path, CASE_LIMIT_BYTES, &text, err))
            return false;
        buf_add(digest, text.data, text.size);
        json_put_str(c->candidate, "source", buf_cstr(&text));
    }
    return true;
}

static bool take_expected(struct selftest_case *c, struct err *err)
{
    const json_t *list = json_object_get(c->doc, "expect");
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        if (c->expected_count == SELFTEST_MAX_EXPECTED || !json_is_string(item)
            || !verdict_code_parse(json_string_value(item), &c->expected[c->expected_count]))
            return err_set(err, ERR_INVALID, "expect/%zu is no verdict", i);
        /* In a retest a right kernel that is not as fast as it seemed is refused its place. */
        const enum verdict_code code = c->expected[c->expected_count++];
        if (verdict_is_correct(code) && !(code == VERDICT_NOT_CONFIRMED && strcmp(json_str(c->doc, "mode", ""), "retest") == 0))
            return err_set(err, ERR_INVALID, "expect/%zu would accept the attack", i);
    }
    if (c->attack != (c->expected_count > 0))
        return err_set(err, ERR_INVALID, c->attack ? "expect: at least one verdict is needed" : "expect: an honest kernel is accepted, no more");
    return true;
}

static bool take_rows(struct selftest_case *c, struct err *err)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(c->doc, "rows"), i, item) {
        if (c->row_count == SELFTEST_MAX_ROWS || !json_is_integer(item) || json_integer_value(item) < 1 || json_integer_value(item) > 120)
            return err_set(err, ERR_INVALID, "rows/%zu: a row of the catalogue, 1 to 120", i);
        c->rows[c->row_count++] = (int)json_integer_value(item);
    }
    return !c->attack || c->row_count ? true : err_set(err, ERR_INVALID, "rows: at least one is needed");
}

static bool check_words(const struct selftest_case *c, struct err *err)
{
    static const char *const keys[] = {"title", "rows", "operator", "axes", "dtypes", "target", "candidate", "expect", "naive", "naive_regime",
                                       "naive_outputs", "naive_axes", "mode", "needs", "need", "fast", "defence", "why", NULL};
    static const struct { const char *key, *words[3]; bool needed; } words[] = {
        {"naive", {"fooled", "n/a"}, true}, {"naive_outputs", {"zeros", "stale"}, false}, {"needs", {"sim", "cuda"}, false},
        {"mode", {"triage", "full", "retest"}, false}};
    struct faults f = {0};
    json_only_keys(c->doc, "", keys, &f);
    if (f.count)
        return err_set(err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *word = json_str(c->doc, words[i].key, NULL);
        bool known = false;
        for (int k = 0; k < 3 && word && words[i].words[k]; k++)
            known |= !strcmp(word, words[i].words[k]);
        if (word ? !known : c->attack && words[i].needed)
            return err_set(err, ERR_INVALID, "%s: \"%s\" or \"%s\" is needed", words[i].key, words[i].words[0], words[i].words[1]);
    }
    if (!*json_str(c->doc, "title", "") || !*json_str(c->doc, "why", ""))
        return err_set(err, ERR_INVALID, "title and why are needed");
    return true;
}

static bool case_load(const char *dir, const struct op_set *ops, struct selftest_case *c, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/case.json", dir);
    cleanup(buf) struct buf text = {0};
    if (!file_read(path, CASE_LIMIT_BYTES, &text, err) || !json_parse(text.data, text.size, &c->doc, err) || !check_words(c, err)
        || !take_rows(c, err) || !take_expected(c, err) || !take_shape(ops, c, err) || !take_source(dir, c, &text, err))
        return err_wrap(err, "%s", c->name);
    buf_str(&text, c->shape.op->digest.text);
    c->digest = hash_of(text.data, text.size);
    c->fools_naive = strcmp(json_str(c->doc, "naive", "n/a"), "fooled") == 0;
    c->mode = json_str(c->doc, "mode", "triage");
    c->need = json_str(c->doc, "need", NULL);
    c->needs_card = strcmp(json_str(c->doc, "needs", "sim"), "cuda") == 0;
    c->fast = json_bool(c->doc, "fast", false);
    return true;
}

/* ---- the folders ---- */

static int by_name(const void *a, const void *b)
{
    const struct selftest_case *x = a, *y = b;
    return x->attack != y->attack ? y->attack - x->attack : strcmp(x->name, y->name);
}

static bool folder_load(const char *dir, bool attack, const struct op_set *ops, struct selftest_corpus *c, struct err *err)
{
    cleanup(dir) DIR *list = opendir(dir);
    struct dirent *entry;
    if (!list)
        return err_errno(err, ERR_NOT_FOUND, "%s", dir);
    while ((entry = readdir(list))) {
        cleanup(str) char *path = xfmt("%s/%s", dir, entry->d_name), *inside = xfmt("%s/case.json", path);
        if (entry->d_name[0] == '.' || access(inside, R_OK) != 0)
            continue;
        c->list = xrealloc(c->list, (size_t)(c->count + 1) * sizeof *c->list);
        struct selftest_case *one = &c->list[c->count++];
        *one = (struct selftest_case){.attack = attack};
        snprintf(one->name, sizeof one->name, "%s/%s", attack ? "attacks" : "honest", entry->d_name);
        if (!case_load(path, ops, one, err))
            return false;
    }
    return true;
}

bool selftest_load(const char *dir, const struct op_set *ops, struct selftest_corpus *ret, struct err *err)
{
    cleanup(selftest_corpus) struct selftest_corpus c = {0};
    cleanup(str) char *attacks = xfmt("%s/attacks", dir), *honest = xfmt("%s/honest", dir), *inner = xfmt("%s/honest/candidates", dir);
    if (!folder_load(attacks, true, ops, &c, err) || !folder_load(access(inner, R_OK) == 0 ? inner : honest, false, ops, &c, err))
        return false;
    if (!c.count)
        return err_set(err, ERR_NOT_FOUND, "%s holds no case", dir);
    qsort(c.list, (size_t)c.count, sizeof *c.list, by_name);
    *ret = c;
    c = (struct selftest_corpus){0};
    return true;
}
