#include "server/http/hub.h"

#include "core/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define SPACING_LEAST_NS ((int64_t)5000000)
#define SPACING_EACH_NS ((int64_t)50000)
#define POKE_DATA UINT64_MAX

struct hub {
    pthread_mutex_t lock;
    pthread_t thread;
    struct hub_entry *sleepers;        /* all listed entries, asleep or not */
    int asleep, max_entries;
    _Atomic uint64_t generation;
    uint64_t served;                   /* generation of the last waking of all */
    int64_t next_wake_ns;              /* what the thread waits for; INT64_MAX: nothing */
    uint32_t serials;
    bool stopping, quit;
    int epoll, poke;
};

static void poke(struct hub *h)
{
    uint64_t one = 1;
    if (write(h->poke, &one, sizeof one) < 0)
        return;                        /* the counter is full: it is awake anyway */
}

static void wake_entry(struct hub *h, struct hub_entry *e)
{
    if (!e->asleep)
        return;
    e->asleep = false;
    h->asleep--;
    e->wake(e->ctx);
}

static struct hub_entry *find_serial(struct hub *h, uint32_t serial)
{
    for (struct hub_entry *e = h->sleepers; e; e = e->next)
        if (e->serial == serial)
            return e;
    return NULL;
}

/* A client's socket: closed for writing (perhaps only half), or dead. */
static void on_socket(struct hub *h, uint32_t serial, uint32_t events)
{
    struct hub_entry *e = find_serial(h, serial);
    if (!e)
        return;
    uint32_t want = EPOLLONESHOT;
    if (events & (EPOLLHUP | EPOLLERR)) {
        e->gone = true;
    } else {
        e->nudged = true;              /* from now on only a reset counts: EPOLLHUP and EPOLLERR are always reported */
        struct epoll_event ev = {.events = want, .data.u64 = serial};
        epoll_ctl(h->epoll, EPOLL_CTL_MOD, e->fd, &ev);
    }
    wake_entry(h, e);
}

/* Wakes who is due; returns when the next one is. */
static int64_t wake_due(struct hub *h, bool all)
{
    int64_t now = clock_mono_ns(), next = INT64_MAX;
    for (struct hub_entry *e = h->sleepers; e; e = e->next) {
        if (!e->asleep)
            continue;
        if (all || (e->wake_at_ns && e->wake_at_ns <= now))
            wake_entry(h, e);
        else if (e->wake_at_ns && e->wake_at_ns < next)
            next = e->wake_at_ns;
    }
    return next;
}

static int wait_ms(int64_t until_ns)
{
    if (until_ns == INT64_MAX)
        return 60000;
    int64_t left = (until_ns - clock_mono_ns() + 999999) / 1000000;
    return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

static void *hub_main(void *arg)
{
    struct hub *h = arg;
    int64_t not_before = 0;
    struct epoll_event events[64];
    pthread_mutex_lock(&h->lock);
    while (!h->quit) {
        uint64_t generation = atomic_load(&h->generation);
        int64_t now = clock_mono_ns();
        bool all = h->stopping || (generation != h->served && now >= not_before);
        if (all) {
            h->served = generation;
            int64_t spacing = SPACING_EACH_NS * h->asleep;
            not_before = now + (spacing > SPACING_LEAST_NS ? spacing : SPACING_LEAST_NS);
        }
        int64_t next = wake_due(h, all);
        if (generation != h->served && not_before < next)
            next = not_before;
        h->next_wake_ns = next;
        pthread_mutex_unlock(&h->lock);
        int n = epoll_wait(h->epoll, events, 64, wait_ms(next));
        pthread_mutex_lock(&h->lock);
        for (int i = 0; i < n; i++) {
            uint64_t drained;
            if (events[i].data.u64 != POKE_DATA)
                on_socket(h, (uint32_t)events[i].data.u64, events[i].events);
            else if (read(h->poke, &drained, sizeof drained) < 0)
                continue;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

struct hub *hub_new(int max_entries)
{
    struct hub *h = xalloc(sizeof *h);
    pthread_mutex_init(&h->lock, NULL);
    h->max_entries = max_entries;
    h->next_wake_ns = INT64_MAX;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    BUG_ON(h->epoll < 0 || h->poke < 0);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = POKE_DATA};
    BUG_ON(epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->poke, &ev) != 0);
    BUG_ON(pthread_create(&h->thread, NULL, hub_main, h) != 0);
    return h;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    BUG_ON(h->asleep != 0);
    h->quit = true;
    pthread_mutex_unlock(&h->lock);
    poke(h);
    pthread_join(h->thread, NULL);
    close(h->epoll);
    close(h->poke);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void hub_notify(struct hub *h)
{
    atomic_fetch_add(&h->generation, 1);
    poke(h);
}

uint64_t hub_seen(struct hub *h)
{
    return atomic_load(&h->generation);
}

static void list_entry(struct hub *h, struct hub_entry *e)
{
    if (e->listed)
        return;
    e->listed = true;
    e->serial = ++h->serials;
    e->prev = NULL;
    e->next = h->sleepers;
    if (e->next)
        e->next->prev = e;
    h->sleepers = e;
    if (e->fd >= 0) {
        struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = e->serial};
        e->watched = epoll_ctl(h->epoll, EPOLL_CTL_ADD, e->fd, &ev) == 0;
    }
}

bool hub_sleep(struct hub *h, struct hub_entry *e, uint64_t seen, int64_t wake_at_ns, void (*suspend)(void *ctx))
{
    pthread_mutex_lock(&h->lock);
    bool sleeps = !h->stopping && atomic_load(&h->generation) == seen && !e->gone;
    if (sleeps) {
        list_entry(h, e);
        e->asleep = true;
        e->wake_at_ns = wake_at_ns;
        h->asleep++;
        suspend(e->ctx);
    }
    bool earlier = sleeps && wake_at_ns && wake_at_ns < h->next_wake_ns;
    if (earlier)
        h->next_wake_ns = wake_at_ns;
    pthread_mutex_unlock(&h->lock);
    if (earlier)
        poke(h);
    return sleeps;
}

void hub_remove(struct hub *h, struct hub_entry *e)
{
    pthread_mutex_lock(&h->lock);
    if (e->listed) {
        BUG_ON(e->asleep);
        if (e->watched)
            epoll_ctl(h->epoll, EPOLL_CTL_DEL, e->fd, NULL);
        if (e->prev)
            e->prev->next = e->next;
        else
            h->sleepers = e->next;
        if (e->next)
            e->next->prev = e->prev;
        e->listed = e->watched = false;
    }
    pthread_mutex_unlock(&h->lock);
}

void hub_stop(struct hub *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    wake_due(h, true);
    pthread_mutex_unlock(&h->lock);
    poke(h);
}
