/* Between measure.c and what it is made of. */
#pragma once
#include "gpu/judge/internal.h"

struct clocked {                        /* one side while it is measured */
    struct judge_side *side;
    bool judged;                        /* not the baseline of a candidate */
    int sets, launches;
    int looked_at, checked;             /* launches whose outputs were taken, and compared with the reference, of this attempt */
    double per_launch_ns;               /* first guess */
};

/* aim_ns: GPU time to sum up a side; the three occasions of a retest reach it together. */
struct effort { int blocks, pairs_in_block, longer, control_blocks, sets_checked; int64_t aim_ns; };
/* What an occasion takes, by the wall clock: part of the certificate, because cost is a promise too. */
enum part { PART_CALIBRATE, PART_SET_UP, PART_WARM_UP, PART_WATCH, PART_CONTROL, PART_PAIRS, PART_OUTPUTS, PARTS };

struct session {
    struct judge *j;
    struct output_checks *looking;      /* measure_outputs.c */
    struct effort effort;
    struct clocked mine, base;
    bool ends;                          /* an occasion of a retest: what runs on the card is not wanted after it */
    bool alone;                         /* the baseline itself is judged: both are the same side */
    uint64_t order, buffers;            /* seeds: of what is shuffled, of what the buffer sets hold */
    uint64_t counter;
    int64_t deadline_ns;
    double gpu_ns[2];                   /* summed event time, by side */
    int64_t spent_ns[PARTS], since_ns;
    uint64_t reasons;                   /* all that held a clock down, of all samples */
    json_t *card;                       /* before and after */
    char unsteady[200];                 /* why the last attempt was not valid */
};

struct pairs { int count; struct stats_pair *list; };
void pairs_done(struct pairs *p);
DEFINE_CLEANUP(pairs, struct pairs, pairs_done(it))

void pairs_make(struct pairs *p);
/* What was taken, what of it was left out, and why. */
struct account { int taken, discarded, throttled, checked; bool clock_steady; };

/* ---- measure_record.c ---- */
json_t *samples_encode(const struct session *x, const struct pairs *p);
json_t *measure_record(const struct session *x, const struct stats_result *r, const struct pairs *p, const struct account *a, json_t *controls);
json_t *spent_encode(const struct session *x);

/* ---- measure_setup.c ---- */
/* bytes_least 0: as a guess has it. */
bool measure_sets(struct session *x, struct clocked *c, uint64_t seed, int64_t bytes_least, struct verdict *v, struct err *err) MUST_CHECK;
/* Chooses how many; how many bytes of sets they need where there are too few now, else 0. */
int64_t measure_launches(struct session *x);

/* ---- measure_outputs.c ---- */
void check_timed_begin(struct session *x);
/* Of the side's last timed graph, now that it is over, perhaps a launch's results: which, and whether any at all, nobody could foresee. */
bool check_timed_maybe(struct session *x, struct clocked *c, struct verdict *v, struct err *err) MUST_CHECK;
/* What is still wanted, of launches of the side's last timed graph: first, middle, last, and others that nobody could foresee. */
bool check_timed_rest(struct session *x, struct clocked *c, struct verdict *v, struct err *err) MUST_CHECK;
/* What was taken is compared beside whatever is measured: says what is known by now, and does not wait. */
bool check_timed_go_on(struct session *x, struct verdict *v, struct err *err) MUST_CHECK;
/* Waits for all of it. */
bool check_timed_settle(struct session *x, struct verdict *v, struct err *err) MUST_CHECK;
/* Whatever was being looked at is not any more. */
void check_timed_drop(struct session *x);
