/* Threads for handlers that commit: a sync of the disk takes as long as it takes, and several requests share one. */
#include "server/http/edge.h"

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct exchange *first, **last;
    int queued, max_queued, count;
    bool quit;
    pthread_t threads[];
};

static void work(struct exchange *ex)
{
    ex->req.route->handle(&ex->req, &ex->res);
    BUG_ON(ex->res.wait_until_ns && !(ex->req.route->flags & ROUTE_WAITS));
    exchange_keep_note(ex);
    ex->phase = ex->res.wait_until_ns ? EXCHANGE_WAITING : EXCHANGE_READY;    /* waiting: called again by the server's threads */
    exchange_resume(ex);     /* ex belongs to the server's threads again */
}

static void *workers_main(void *arg)
{
    struct workers *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->quit)
            pthread_cond_wait(&w->more, &w->lock);
        struct exchange *ex = w->first;
        if (!ex)
            break;
        w->first = ex->next;
        if (!w->first)
            w->last = &w->first;
        w->queued--;
        pthread_mutex_unlock(&w->lock);
        work(ex);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct workers *workers_new(int threads, int max_queued)
{
    struct workers *w = xalloc(sizeof *w + (size_t)threads * sizeof w->threads[0]);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->last = &w->first;
    w->max_queued = max_queued;
    w->count = threads;
    for (int i = 0; i < threads; i++)
        BUG_ON(pthread_create(&w->threads[i], NULL, workers_main, w) != 0);
    return w;
}

bool workers_push(struct workers *w, struct exchange *ex)
{
    pthread_mutex_lock(&w->lock);
    bool room = w->queued < w->max_queued && !w->quit;
    if (room) {
        ex->next = NULL;
        *w->last = ex;
        w->last = &ex->next;
        w->queued++;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->count; i++)
        pthread_join(w->threads[i], NULL);
    pthread_cond_destroy(&w->more);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
