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
struct selftest_place { char device[16]; char *card_lock; };    /* card_lock: NULL on the emulator */

void selftest_ask_init(struct selftest_ask *a, const struct selftest_options *o, const char *program, const char *threads);
void selftest_ask_done(struct selftest_ask *a);
/* False: our failure; nothing is known of the case then. */
bool selftest_ask_case(struct selftest_ask *a, const struct selftest_place *at, const struct selftest_case *c, struct selftest_result *r,
                       struct err *err) MUST_CHECK;
