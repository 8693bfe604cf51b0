/*
 * The wake-up list: connections that have nothing to do sleep here until something newer exists, their time has come, or their
 * client went away. It carries no data.
 *
 * One thread. It also watches the sleepers' sockets, since a suspended connection does not notice that its client left: a closed
 * reading side wakes the sleeper (it writes a comment, which a dead peer answers with a reset), a reset marks it gone.
 * Wake-ups are spaced so that many streams cannot eat the machine: at least 5 ms, and 50 us for each sleeper.
 */
#pragma once
#include "core/buf.h"

#include <stdatomic.h>

struct hub;
struct hub_entry {                 /* owned by the connection; zero before first use */
    void (*wake)(void *ctx);       /* called under the hub's lock, exactly once for each sleep */
    void *ctx;
    int fd;                        /* the client's socket; -1: not watched */
    /* the hub's own */
    struct hub_entry *prev, *next;
    bool listed, asleep, watched;
    _Atomic bool nudged;                   /* the client's writing side is closed */
    _Atomic bool gone;                     /* the client is gone for good */
    uint32_t serial;
    int64_t wake_at_ns;
};

struct hub *hub_new(int max_entries);
void hub_free(struct hub *h);      /* nobody may sleep any more */
/* Something newer exists. */
void hub_notify(struct hub *h);
/* What hub_sleep compares with: read it before looking for news. */
uint64_t hub_seen(struct hub *h);
/*
 * Falls asleep until wake_at_ns (0: no time): calls suspend(ctx) under the lock. False, and no sleep, if something was
 * notified since `seen`, if the client left, or if the hub is stopping.
 */
bool hub_sleep(struct hub *h, struct hub_entry *e, uint64_t seen, int64_t wake_at_ns, void (*suspend)(void *ctx));
/* Before the entry's memory or its socket goes. It is not asleep. */
void hub_remove(struct hub *h, struct hub_entry *e);
/* Wakes all, and from now on nobody sleeps. */
void hub_stop(struct hub *h);
