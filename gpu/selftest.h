/*
 * The red-team corpus, run: every attack through the whole judge must get one of the verdicts it names, every honest kernel must be
 * accepted; and each attack that claims to fool the naive checker (gpu/naive.h) is shown to.
 *
 * CORPUS/attacks/NAME/ and CORPUS/honest/NAME/ hold case.json and kernel.cu or kernel.ptx (none where the plan is the whole point):
 *   {"title", "rows":[numbers of the catalogue], "operator", "axes":{}, "dtypes"?:{}, "target"?,
 *    "candidate":{as in the contract, without source},
 *    "expect":[verdicts],                       attacks: caught if the verdict is one of them
 *    "naive":"fooled"|"n/a",                    attacks; with "naive_regime"?, "naive_outputs"?:"zeros"|"stale", "naive_axes"?:{}
 *    "mode"?:"triage"|"full"|"retest",           how far it is judged; triage. An honest kernel in a retest is accepted only if it came to the
 *                                               retest, and its certificate shows that to have had fresh processes, seeds and buffers
 *    "needs"?:"cuda",                           only a card can show it: not counted on the emulator
 *    "fast"?:true,                              in the part that runs with the tests
 *    "defence"?, "why"}
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"

struct selftest_options {
    const struct op_set *ops;
    const char *ops_dir, *cuda_home, *sandbox_minimum, *need;
    const char *device;             /* "sim", "cuda:N", "cuda:N,cuda:M" */
    const char *threads;            /* of each judge's emulator; NULL: one a CPU, beside a card 2 */
    const char *card_lock;          /* file that other processes on the cards use too, ".cuda:N" behind it; NULL: there are none */
    const char *corpus;             /* NULL: beside the operators */
    const char *only;               /* names, comma between; NULL: all */
    const char *shard;              /* "K/N", K from 1; NULL: all */
    const char *part;               /* "fast" or "all" (NULL) */
    const char *json, *resume;      /* files; NULL: none */
    const char *jobs;               /* at the same time; NULL: one a CPU, beside a card three of four */
};
/* Prints a line a case; the very last is `N of N attacks caught, M of M honest kernels accepted`. 0 only if it says so. */
int selftest_run(const struct selftest_options *o);

/*
 * Results that --resume has written, of several runs, as one table in Markdown at path ("-": stdout). False: a file cannot be read. What
 * is missing in them is said in the table and counts as neither caught nor accepted. Of o: ops, corpus, device (the kind of it).
 */
struct selftest_totals;
bool selftest_merge(const struct selftest_options *o, const char *path, int count, char *const *files, struct selftest_totals *ret,
                    struct err *err) MUST_CHECK;
char *selftest_default_corpus(void);

/* ---- cases, for the runner and for tests of the corpus itself ---- */
#define SELFTEST_MAX_ROWS 12
#define SELFTEST_MAX_EXPECTED 6
struct selftest_case {
    bool attack;
    char name[128];                 /* "attacks/skips-after-twenty" */
    json_t *doc;                    /* case.json */
    json_t *candidate;              /* with its source */
    struct hash_hex digest;
    struct shape shape;
    int row_count, rows[SELFTEST_MAX_ROWS];
    int expected_count;
    enum verdict_code expected[SELFTEST_MAX_EXPECTED];
    const char *mode;               /* into doc */
    const char *need;               /* into doc; NULL: as this host needs it (--need) */
    bool fools_naive, needs_card, fast;
};
struct selftest_corpus { int count; struct selftest_case *list; };   /* attacks, then honest kernels; each by name */
/* ERR_INVALID names the case and what is wrong with it. */
bool selftest_load(const char *dir, const struct op_set *ops, struct selftest_corpus *ret, struct err *err) MUST_CHECK;
void selftest_corpus_done(struct selftest_corpus *c);
DEFINE_CLEANUP(selftest_corpus, struct selftest_corpus, selftest_corpus_done(it))
