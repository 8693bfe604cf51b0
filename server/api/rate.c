/* How often a caller may write: a bucket for each of the callers seen lately, refilled by the clock. */
#include "server/api/api.h"

#include "core/clock.h"

#include <pthread.h>
#include <string.h>

#define CALLERS 256

struct bucket { char caller[44]; double tokens; int64_t filled_ns; };
struct rate {
    pthread_mutex_t lock;
    double per_ns, most;
    struct bucket buckets[CALLERS];
};

struct rate *rate_new(int64_t per_minute)
{
    struct rate *r = xalloc(sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    r->per_ns = (double)per_minute / 60e9;
    r->most = (double)per_minute / 6 + 1;     /* a burst: what ten seconds give */
    return r;
}

void rate_free(struct rate *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* The caller's bucket, else the one that was used longest ago. */
static struct bucket *bucket_for(struct rate *r, const char *caller, int64_t now)
{
    struct bucket *oldest = &r->buckets[0];
    for (int i = 0; i < CALLERS; i++) {
        struct bucket *b = &r->buckets[i];
        if (!strcmp(b->caller, caller))
            return b;
        if (b->filled_ns < oldest->filled_ns)
            oldest = b;
    }
    snprintf(oldest->caller, sizeof oldest->caller, "%s", caller);
    oldest->tokens = r->most;
    oldest->filled_ns = now;
    return oldest;
}

bool rate_allows(const struct request *req, struct response *res)
{
    struct rate *r = app_of(req)->rate;
    int64_t now = clock_mono_ns();
    pthread_mutex_lock(&r->lock);
    struct bucket *b = bucket_for(r, req->caller.id, now);
    b->tokens += (double)(now - b->filled_ns) * r->per_ns;
    b->filled_ns = now;
    if (b->tokens > r->most)
        b->tokens = r->most;
    bool ok = b->tokens >= 1;
    if (ok)
        b->tokens -= 1;
    pthread_mutex_unlock(&r->lock);
    struct err err;
    if (!ok) {
        err_set(&err, ERR_BUSY, "this caller writes more often than it may; try again in a moment (--submits-per-minute)");
        respond_err(req, res, &err);
    }
    return ok;
}
