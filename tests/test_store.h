/* What the store's tests share: temporary folders, small documents, short commits. */
#pragma once
#include "store/store.h"
#include "tests/test.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((unused)) static char *temp_dir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = xfmt("%s/proteus-store-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(1);
    }
    return dir;
}

__attribute__((unused)) static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

__attribute__((unused)) static void temp_remove(char *dir)
{
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}
DEFINE_CLEANUP(temp, char *, temp_remove(*it))
DEFINE_CLEANUP(store, struct store *, store_close(*it))

__attribute__((unused)) static struct store *open_or_die(const char *dir, int64_t map_bytes, int64_t events_kept)
{
    struct store *s = NULL;
    struct err err = {0};
    struct store_config config = {.dir = dir, .map_bytes = map_bytes, .job_events_kept = events_kept};
    if (!store_open(&config, &s, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    return s;
}

/* {"n":n} */
__attribute__((unused)) static json_t *doc_of(int64_t n)
{
    json_t *doc = json_object();
    json_put_int(doc, "n", n);
    return doc;
}

__attribute__((unused)) static bool put_number(struct store *s, enum store_kind kind, const char *id, const char *owner, int64_t n)
{
    cleanup(json) json_t *doc = doc_of(n);
    struct store_batch *b = store_batch_new();
    store_put(b, kind, id, owner, doc);
    struct err err = {0};
    bool ok = store_commit(s, b, NULL, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    return ok;
}

/* The record's n; -1: there is none; -2: another error. */
__attribute__((unused)) static int64_t number_of(struct store *s, enum store_kind kind, const char *id)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    if (!store_get(s, kind, id, &doc, &err))
        return err.code == ERR_NOT_FOUND ? -1 : -2;
    return json_int(doc, "n", -3);
}
