/* What a block may have on each target: public limits, known before anything is compiled. */
#pragma once
#include <stdint.h>

struct target_limits {
    const char *target;
    int sms;                                    /* of the largest card */
    int warps, blocks, shared_kib_sm;           /* of a multiprocessor */
    int shared_kib_block, l2_mib;
    const char *more;                           /* what is worth knowing beyond numbers */
};
const struct target_limits *target_limits_of(const char *target);     /* NULL: not known */
int64_t target_number(const char *target);                            /* "sm_90a" is 90 */
