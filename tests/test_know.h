/* A knowledge layer on a store in a folder of its own, candidates put into it as if they had been judged. */
#pragma once
#include "core/hash.h"
#include "know/internal.h"
#include "tests/test.h"

#include <ftw.h>

struct layer { char dir[64]; struct store *store; struct know *know; struct know_config config; };

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void layer_up(struct layer *l)
{
    struct err err = {0};
    if (!*l->dir) {
        snprintf(l->dir, sizeof l->dir, "/tmp/proteus-know-XXXXXX");
        check(mkdtemp(l->dir) != NULL);
        l->config = (struct know_config){.max_lessons = 100, .max_notes = 4, .text_bytes = 1200, .thesaurus = l->config.thesaurus};
    }
    check(store_open(&(struct store_config){.dir = l->dir, .map_bytes = 64 << 20}, &l->store, &err));
    check(know_open(&l->config, l->store, &l->know, &err));
}

static void layer_down(struct layer *l)
{
    know_close(l->know);
    store_close(l->store);
}

__attribute__((unused)) static void layer_remove(struct layer *l)
{
    layer_down(l);
    nftw(l->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

__attribute__((unused)) static const char *judged_job = "job_1";         /* of candidates that are put */

/* A judged candidate of `shape`; parent, lesson and the caller that it is from may be NULL. Its id. */
static struct id put_judged_from(struct layer *l, const char *shape, const char *verdict, const char *text, double speedup, const char *parent, const char *lesson, const char *caller)
{
    struct id id = id_new("cand");
    struct err err = {0};
    cleanup(json) json_t *candidate = json_object();
    if (parent)
        json_put_str(candidate, "parent", parent);
    if (lesson)
        lessons_used(candidate, &lesson, 1);
    cleanup(json) json_t *record = json_pack("{s:s,s:s,s:s,s:s,s:b,s:O,s:{s:s,s:s,s:s},s:{s:f,s:s,s:{s:f,s:f,s:f}}}", "id", id.text, "job", judged_job, "shape_hash", shape, "op", "scale",
                                             "is_baseline", 0, "candidate", candidate, "verdict", "code", verdict, "phase", "correct", "text", text, "figures", "time_ns",
                                             1000 / speedup, "evidence", "measured", "speedup", "median", speedup, "low", speedup * 0.99, "high", speedup * 1.01);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_CANDIDATE, id.text, "job_1", record);
    know_put_judged(b, record, 1.2, caller);
    check(store_commit(l->store, b, NULL, &err));
    return id;
}

__attribute__((unused)) static struct id put_judged(struct layer *l, const char *shape, const char *verdict, const char *text, double speedup, const char *parent, const char *lesson)
{
    return put_judged_from(l, shape, verdict, text, speedup, parent, lesson, NULL);
}

__attribute__((unused)) static json_t *propose_signed(struct layer *l, const char *tags, const char *situation, const char *action)
{
    struct faults f = {0};
    struct err err = {0};
    cleanup(json) json_t *request = json_object(), *list = json_array();
    cleanup(str) char *copy = xstrdup(tags);
    char *save = NULL;
    json_t *made = NULL;
    for (char *t = strtok_r(copy, " ", &save); t; t = strtok_r(NULL, " ", &save))
        json_array_append_new(list, json_string(t));
    json_put(request, "tags", json_incref(list));
    json_put_str(request, "situation", situation);
    json_put_str(request, "action", action);
    if (!lessons_propose(l->know, request, "operator", "pk_1", "A. Operator", &made, &f, &err))
        fprintf(stderr, "%s %s\n", err.text, f.count ? f.list[0].detail : "");
    check(made != NULL);
    return made;
}

/* All events as text, and how many of a type. */
__attribute__((unused)) static int count_events(struct layer *l, const char *type)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    int64_t last;
    int count, n = 0;
    cleanup(str) char *line = xfmt("event: %s\n", type);
    check(store_events(l->store, NULL, 0, 10000, &text, &last, &count, &err));
    for (const char *at = strstr(buf_cstr(&text), line); at; at = strstr(at + 1, line))
        n++;
    return n;
}

__attribute__((unused)) static json_t *lesson_now(struct layer *l, const char *id)
{
    json_t *doc = NULL;
    struct err err = {0};
    check(store_get(l->store, STORE_LESSON, id, &doc, &err));
    return doc;
}
