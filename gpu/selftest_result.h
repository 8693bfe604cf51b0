/* What a case came to, between the files of the self-test: in memory, as a line of JSON (--resume, --json), as a line for people. */
#pragma once
#include "gpu/selftest.h"

/* Who judged: a program that was built anew may judge otherwise, and figures of two programs are no one run's. "": not told. */
struct selftest_build { struct hash_hex program, corpus; };
bool selftest_build_of(const char *program, const struct selftest_corpus *corpus, struct selftest_build *ret, struct err *err) MUST_CHECK;

struct selftest_result {
    bool chosen, done, passed, naive_passed;
    bool fresh;                                 /* mode retest: it was met, and its certificate shows fresh processes, seeds and buffers */
    enum verdict_code code;
    char device[16], phase[16], text[512], naive[400];      /* naive: "" not asked for */
    struct selftest_build by;
    int64_t wall_ns, gpu_ns, naive_gpu_ns;      /* gpu_ns: for how long the card was held; that of the naive checker apart */
};

/* From verdict and freshness: whether it is as the case says. */
void selftest_decide(const struct selftest_case *c, struct selftest_result *r);
json_t *selftest_result_encode(const struct selftest_case *c, const struct selftest_result *r);
/* True: the line is of this case, as it is now, and of a device of that kind. */
bool selftest_result_take(const json_t *doc, const struct selftest_case *c, const char *device, struct selftest_result *ret);
/*
 * Each line of the file that is of a case of the corpus goes to that case's result; later lines win. by (NULL: any): the one program whose
 * lines are taken. Left out, and added to *left (NULL: nobody wants to know): lines of cases that are another now; of another program.
 */
struct selftest_left { int stale, of_others; };
bool selftest_results_read(const char *path, const struct selftest_corpus *corpus, const char *device, const struct selftest_build *by,
                           struct selftest_result *results, struct selftest_left *left, struct err *err) MUST_CHECK;
void selftest_result_show(const struct selftest_case *c, const struct selftest_result *r);

struct selftest_totals { int attacks, caught, honest, accepted, beside, not_fooled, rows; int64_t gpu_ns, naive_gpu_ns; };
/* Of the chosen ones. */
void selftest_sum(const struct selftest_corpus *corpus, const struct selftest_result *results, struct selftest_totals *ret);
bool selftest_write_json(const char *path, const char *device, const char *shard, const struct selftest_build *by, const struct selftest_corpus *corpus,
                         const struct selftest_result *results, struct err *err) MUST_CHECK;
