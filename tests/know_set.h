/* The labelled set of retrieval in a store of its own, and recall over it: for the test that holds the bound and the bench that prints the table. */
#pragma once
#include "core/hash.h"
#include "know/lessons.h"

#include <string.h>

#define SET_TOP 5

struct set { char dir[64]; struct store *store; struct know *know; json_t *lessons, *keys; };   /* keys: lesson id to key */

static inline void set_die(const char *what, const struct err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(2);
}

static inline void set_open(struct set *s, const char *folder, const char *thesaurus)
{
    struct err err = {0};
    struct faults f = {0};
    size_t i;
    json_t *lesson;
    cleanup(str) char *path = xfmt("%s/lessons.json", folder);
    snprintf(s->dir, sizeof s->dir, "/tmp/proteus-know-XXXXXX");
    if (!mkdtemp(s->dir) || !json_parse_file(path, 1 << 22, &s->lessons, &err) ||
        !store_open(&(struct store_config){.dir = s->dir, .map_bytes = (int64_t)4 << 30}, &s->store, &err) ||
        !know_open(&(struct know_config){.max_lessons = 200000, .max_notes = 64, .text_bytes = 2048, .thesaurus = thesaurus}, s->store, &s->know, &err))
        set_die(folder, &err);
    s->keys = json_object();
    json_array_foreach(json_object_get(s->lessons, "lessons"), i, lesson) {
        cleanup(json) json_t *request = json_deep_copy(lesson), *made = NULL;
        json_object_del(request, "key");
        if (!lessons_propose(s->know, request, "operator", "test", "the labelled set", &made, &f, &err)) {
            fprintf(stderr, "%s: %s %s\n", json_str(lesson, "key", ""), err.text, f.count ? f.list[0].detail : "");
            exit(2);
        }
        json_put_str(s->keys, json_str(made, "id", ""), json_str(lesson, "key", ""));
    }
}

static inline void set_close(struct set *s)
{
    know_close(s->know);
    store_close(s->store);
    json_decref(s->lessons);
    json_decref(s->keys);
    cleanup(str) char *command = xfmt("rm -rf '%s'", s->dir);
    if (system(command))
        fprintf(stderr, "%s is left\n", s->dir);
}

static inline double set_recall_one(const struct set *s, const json_t *query, unsigned without, bool verbose)
{
    const char *tags[LESSON_MAX_TAGS];
    const json_t *want = json_object_get(query, "want");
    int tag_count = 0, found = 0;
    size_t i;
    json_t *item;
    struct err err = {0};
    cleanup(lesson_list) struct lesson_list list = {.count = 0};
    json_array_foreach(json_object_get(query, "tags"), i, item)
        if (tag_count < LESSON_MAX_TAGS)
            tags[tag_count++] = json_string_value(item);
    struct lesson_query q = {.tags = tags, .tag_count = tag_count, .text = json_str(query, "text", NULL), .limit = SET_TOP, .without = without};
    if (!lessons_retrieve(s->know, &q, &list, &err))
        set_die("retrieve", &err);
    for (int k = 0; k < list.count; k++)
        json_array_foreach(want, i, item)
            found += !strcmp(json_string_value(item), json_str(s->keys, list.list[k].id, ""));
    double recall = (double)found / (double)(json_array_size(want) < SET_TOP ? json_array_size(want) : SET_TOP);
    if (verbose && recall < 1) {
        cleanup(str) char *wanted = json_text(want);
        printf("  %.2f  %s  %s  got", recall, json_str(query, "text", ""), wanted);
        for (int k = 0; k < list.count; k++)
            printf(" %s", json_str(s->keys, list.list[k].id, ""));
        printf("\n");
    }
    return recall;
}

/* Mean recall among the first five over a file of queries; -1 where there is no such file. */
static inline double set_recall(const struct set *s, const char *folder, const char *file, unsigned without, bool verbose, int *ret_count)
{
    cleanup(json) json_t *doc = NULL;
    cleanup(str) char *path = xfmt("%s/%s", folder, file);
    struct err err = {0};
    double sum = 0;
    size_t i;
    json_t *query;
    *ret_count = 0;
    if (!json_parse_file(path, 1 << 22, &doc, &err)) {
        if (err.code != ERR_NOT_FOUND)
            set_die(path, &err);
        return -1;
    }
    json_array_foreach(json_object_get(doc, "queries"), i, query)
        sum += set_recall_one(s, query, without, verbose);
    *ret_count = (int)json_array_size(json_object_get(doc, "queries"));
    return *ret_count ? sum / *ret_count : -1;
}
