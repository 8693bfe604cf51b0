/* One case put before the judge and, where it claims to fool one, before the naive checker. Threads share one of these. */
#pragma once
#include "gpu/selftest_result.h"

#include <pthread.h>

struct selftest_ask {
    const struct selftest_options *o;
    const char *program, *threads;
    pthread_mutex_t lock;               /* of the baselines */
    pthread_cond_t made;
    pthread_mutex_t naive;              /* the naive checker forks on a card, and none may open a library then */
    int baseline_count;
    struct selftest_baseline *baselines;
};
/*
 * Where the jobs of a thread are judged: a card of its own, the others behind it for retests; with a lock each, lock_base with the device's
 * name behind it, of which card_lock is its own card's. NULL on the emulator.
 */
struct selftest_place { char device[16], devices[128]; char *lock_base, *card_lock; };

void selftest_ask_init(struct selftest_ask *a, const struct selftest_options *o, const char *program, const char *threads);
void selftest_ask_done(struct selftest_ask *a);
/* False: our failure; nothing is known of the case then. */
bool selftest_ask_case(struct selftest_ask *a, const struct selftest_place *at, const struct selftest_case *c, struct selftest_result *r,
                       struct err *err) MUST_CHECK;
