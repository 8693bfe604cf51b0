/*
 * The whole test framework: check() counts, test_done() decides. A program without a check fails.
 * A skip says why: test_skip("no toolkit at ..."), exit code 77.
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the whole program: a test of several files counts in one place. */
__attribute__((weak)) int test_checks, test_failures;

#define check(cond)                                                                        \
    do {                                                                                   \
        __atomic_add_fetch(&test_checks, 1, __ATOMIC_RELAXED);                             \
        if (!(cond)) {                                                                     \
            __atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);                       \
            fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #cond); \
        }                                                                                  \
    } while (0)

#define check_str(got, want)                                                                     \
    do {                                                                                         \
        const char *got_ = (got), *want_ = (want);                                               \
        __atomic_add_fetch(&test_checks, 1, __ATOMIC_RELAXED);                                   \
        if (!got_ || strcmp(got_, want_) != 0) {                                                 \
            __atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);                             \
            fprintf(stderr, "%s:%d: %s: got \"%s\", wanted \"%s\"\n", __FILE__, __LINE__, __func__, \
                    got_ ? got_ : "(null)", want_);                                              \
        }                                                                                        \
    } while (0)

#define check_int(got, want)                                                                         \
    do {                                                                                             \
        long long got_ = (long long)(got), want_ = (long long)(want);                                \
        __atomic_add_fetch(&test_checks, 1, __ATOMIC_RELAXED);                                       \
        if (got_ != want_) {                                                                         \
            __atomic_add_fetch(&test_failures, 1, __ATOMIC_RELAXED);                                 \
            fprintf(stderr, "%s:%d: %s: %s is %lld, wanted %lld\n", __FILE__, __LINE__, __func__, #got, got_, want_); \
        }                                                                                            \
    } while (0)

__attribute__((unused)) static int test_done(void)
{
    if (!test_checks) {
        fprintf(stderr, "no check ran\n");
        return 1;
    }
    printf("%d checks, %d failed\n", test_checks, test_failures);
    return test_failures != 0;
}

__attribute__((unused)) static _Noreturn void test_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    exit(77);
}
