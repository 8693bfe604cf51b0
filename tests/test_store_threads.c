/*
 * Many threads at once: every acknowledged write is there, expectations make a counter exact, a failing batch does not spoil its
 * neighbours, and what a snapshot shows agrees with its as_of.
 */
#include "tests/test_store.h"

#include <pthread.h>
#include <stdatomic.h>

#define WRITERS 6
#define ROUNDS 60

struct shared { struct store *s; atomic_int running; atomic_int conflicts; };
struct worker { struct shared *shared; int number; pthread_t thread; };

/* Read, add one, write if unchanged: until it worked. The event carries the new value. */
static void count_up(struct shared *sh)
{
    for (;;) {
        cleanup(json) json_t *was = NULL, *now = NULL;
        struct err err = {0};
        check(store_get(sh->s, STORE_META, "counter", &was, &err));
        now = doc_of(json_int(was, "n", 0) + 1);
        struct store_batch *b = store_batch_new();
        store_expect(b, STORE_META, "counter", was);
        store_put(b, STORE_META, "counter", NULL, now);
        store_put(b, STORE_META, "twin", NULL, now);
        store_event(b, "count", "job", now);
        int64_t last = 0;
        if (store_commit(sh->s, b, &last, &err)) {
            check_int(last, json_int(now, "n", -1));   /* one event a count, nothing else makes events */
            return;
        }
        check_int(err.code, ERR_CONFLICT);
        sh->conflicts++;
    }
}

static void *write_all(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < ROUNDS; i++) {
        cleanup(str) char *id = xfmt("w%d-%03d", w->number, i), *owner = xfmt("owner%d", w->number);
        check(put_number(w->shared->s, STORE_CANDIDATE, id, owner, i));
        check_int(number_of(w->shared->s, STORE_CANDIDATE, id), i);
        count_up(w->shared);
        if (i % 10 == 0) {   /* can never be written */
            struct err err = {0};
            struct store_batch *b = store_batch_new();
            cleanup(json) json_t *doc = doc_of(0);
            store_put(b, STORE_META, "counter", NULL, doc);
            store_expect(b, STORE_META, "nobody", doc);
            check(!store_commit(w->shared->s, b, NULL, &err));
        }
    }
    w->shared->running--;
    return NULL;
}

static bool same(void *ctx, const char *id, const json_t *doc)
{
    int64_t *seen = ctx;
    if (strcmp(id, "counter") == 0)
        seen[0] = json_int(doc, "n", -1);
    if (strcmp(id, "twin") == 0)
        seen[1] = json_int(doc, "n", -1);
    return true;
}

static void *read_all(void *arg)
{
    struct shared *sh = arg;
    int64_t before = 0;
    while (sh->running) {
        struct err err = {0};
        int64_t seen[2] = {-1, -1}, as_of = -1;
        struct store_page page = {STORE_META, NULL, NULL, 100, false};
        check(store_list(sh->s, &page, same, seen, NULL, &as_of, &err));
        check_int(seen[0], seen[1]);
        check_int(seen[0], as_of);
        check(as_of >= before);
        before = as_of;
        cleanup(json) json_t *doc = NULL;
        check(store_get_as_of(sh->s, STORE_META, "counter", &doc, &as_of, &err));
        check_int(json_int(doc, "n", -1), as_of);
        cleanup(buf) struct buf text = {0};
        int64_t last;
        int count;
        check(store_events(sh->s, "job", as_of, 1000, &text, &last, &count, &err));
        check_int(last, as_of + count);   /* none missing, none doubled */
    }
    return NULL;
}

static void note(void *ctx, int64_t last)
{
    _Atomic int64_t *seen = ctx;
    check(last > *seen);
    *seen = last;
}

static bool count_one(void *ctx, const char *id, const json_t *doc)
{
    int *next = ctx;
    check_int(json_int(doc, "n", -1), (*next)++);
    check(id[0] == 'w');
    return true;
}

int main(void)
{
    cleanup(temp) char *dir = temp_dir();
    struct shared sh = {.s = open_or_die(dir, 0, 0), .running = WRITERS};
    check(put_number(sh.s, STORE_META, "counter", NULL, 0));
    check(put_number(sh.s, STORE_META, "twin", NULL, 0));
    _Atomic int64_t notified = 0;
    store_on_events(sh.s, note, (void *)&notified);
    struct worker w[WRITERS];
    pthread_t readers[2];
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct worker){.shared = &sh, .number = i};
        pthread_create(&w[i].thread, NULL, write_all, &w[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&readers[i], NULL, read_all, &sh);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
    check_int(number_of(sh.s, STORE_META, "counter"), WRITERS * ROUNDS);
    check_int(store_last_event(sh.s), WRITERS * ROUNDS);
    struct err err = {0};
    for (int i = 0; i < WRITERS; i++) {
        cleanup(str) char *owner = xfmt("owner%d", i);
        struct store_page page = {STORE_CANDIDATE, owner, NULL, 1000, false};
        int next = 0;
        check(store_list(sh.s, &page, count_one, &next, NULL, NULL, &err));
        check_int(next, ROUNDS);
    }
    cleanup(json) json_t *stats = NULL;
    check(store_stats(sh.s, &stats, &err));
    check(json_int(stats, "commits", 0) < json_int(stats, "batches", 0));   /* some shared a sync */
    store_close(sh.s);
    check_int(notified, WRITERS * ROUNDS);
    printf("%d conflicts resolved, %lld batches in %lld commits\n", sh.conflicts, (long long)json_int(stats, "batches", 0),
           (long long)json_int(stats, "commits", 0));
    return test_done();
}
