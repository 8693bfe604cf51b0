#include "gpu/judge/crew.h"

#include "gpu/judge/limits.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

struct work {
    void (*run)(void *ctx, int64_t part);
    void *ctx;
    int64_t parts, taken, done;
    pthread_cond_t all_done;
    struct work *next;
};

/* All that callers wait for, oldest first, and how many helpers there are. */
static struct {
    pthread_mutex_t mutex;
    struct work *first;
    int helpers, most;
} crew = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int allowed(void)
{
    cpu_set_t set;
    const int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return cpus < 1 ? 1 : cpus > LIMIT_HOST_THREADS ? (int)LIMIT_HOST_THREADS : cpus;
}

/* Under the mutex. */
static int threads(void)
{
    if (!crew.most)
        crew.most = allowed();
    return crew.most;
}

int crew_threads(void)
{
    pthread_mutex_lock(&crew.mutex);
    const int n = threads();
    pthread_mutex_unlock(&crew.mutex);
    return n;
}

void crew_limit(int most)
{
    pthread_mutex_lock(&crew.mutex);
    crew.most = most > LIMIT_HOST_THREADS ? (int)LIMIT_HOST_THREADS : most;
    pthread_mutex_unlock(&crew.mutex);
}

/* One part of it, if one is left; the mutex is held before and after. */
static bool one_part(struct work *w)
{
    if (w->taken == w->parts)
        return false;
    const int64_t part = w->taken++;
    pthread_mutex_unlock(&crew.mutex);
    w->run(w->ctx, part);
    pthread_mutex_lock(&crew.mutex);
    if (++w->done == w->parts)
        pthread_cond_signal(&w->all_done);
    return true;
}

static void *helper(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&crew.mutex);
    /* From the first again after each part: the list is another one by then. */
    for (struct work *w = crew.first; w; w = one_part(w) ? crew.first : w->next)
        ;
    crew.helpers--;
    pthread_mutex_unlock(&crew.mutex);
    return NULL;
}

/* Signals are the caller's business. Under the mutex, so that a helper finds the work that it was started for. */
static void call_helpers(int64_t wanted)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        while (wanted > 0 && crew.helpers < threads() - 1 && pthread_create(&thread, &attr, helper, NULL) == 0)
            crew.helpers++, wanted--;
        pthread_attr_destroy(&attr);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void crew_run(int64_t parts, void (*run)(void *ctx, int64_t part), void *ctx)
{
    struct work w = {.run = run, .ctx = ctx, .parts = parts, .all_done = PTHREAD_COND_INITIALIZER};
    struct work **at = &crew.first;
    if (parts == 1)
        run(ctx, 0);
    if (parts <= 1)
        return;
    pthread_mutex_lock(&crew.mutex);
    while (*at)
        at = &(*at)->next;
    *at = &w;
    call_helpers(parts - 1);
    while (one_part(&w))
        continue;
    while (w.done < w.parts)
        pthread_cond_wait(&w.all_done, &crew.mutex);
    for (at = &crew.first; *at != &w; at = &(*at)->next)
        continue;
    *at = w.next;
    pthread_mutex_unlock(&crew.mutex);
    pthread_cond_destroy(&w.all_done);
}

/* ---- bytes ---- */

struct bytes { char *to; const char *a, *b; int64_t count; atomic_int_fast64_t first; };

static void copy_part(void *ctx, int64_t part)
{
    const struct bytes *x = ctx;
    const int64_t at = part * CREW_PART_BYTES;
    memcpy(x->to + at, x->a + at, (size_t)crew_part_count(x->count, CREW_PART_BYTES, part));
}

void crew_copy(void *to, const void *from, size_t bytes)
{
    struct bytes x = {.to = to, .a = from, .count = (int64_t)bytes};
    crew_run(crew_parts(x.count, CREW_PART_BYTES), copy_part, &x);
}

static void difference_part(void *ctx, int64_t part)
{
    struct bytes *x = ctx;
    const int64_t from = part * CREW_PART_BYTES, end = from + crew_part_count(x->count, CREW_PART_BYTES, part);
    int64_t at = from, least = atomic_load(&x->first);
    if (from > least || memcmp(x->a + from, x->b + from, (size_t)(end - from)) == 0)
        return;
    while (x->a[at] == x->b[at])
        at++;
    while (at < least && !atomic_compare_exchange_weak(&x->first, &least, at))
        continue;
}

int64_t crew_difference(const void *a, const void *b, size_t bytes)
{
    struct bytes x = {.a = a, .b = b, .count = (int64_t)bytes};
    atomic_init(&x.first, INT64_MAX);
    crew_run(crew_parts(x.count, CREW_PART_BYTES), difference_part, &x);
    const int64_t first = atomic_load(&x.first);
    return first == INT64_MAX ? -1 : first;
}
