/*
 * The twelve rules about timers that must agree, in one table: what each says, and the worst that may come of it. Several files look
 * (audit_rules.c at the records, timer_rules.c at samples and gains, plausible.c at the floor); what they find is gathered here, so that
 * a certificate names all twelve, each with its outcome and its figures. A flag is told and decides nothing, however many there are.
 */
#pragma once
#include "core/json.h"

/* In order of what outweighs what. NOT_DONE comes with a reason. */
enum rule_outcome { RULE_NOT_DONE, RULE_OK, RULE_FLAG, RULE_REJECT };

/* X(number, NAME, worst, what) */
#define RULES_TABLE(X)                                                                                                                            \
    X(1, RECORDS, RULE_REJECT, "the records are the plan's launches, each with the plan's grid, block, cluster and shared memory and the code's registers") \
    X(2, FOREIGN, RULE_REJECT, "nothing else ran: nothing launched by the device, copied, set, compiled, and no access-policy window")           \
    X(3, ORDER, RULE_REJECT, "launches follow one another and lie between what surrounds them, within 1 us, seldom 4 % of a long one")                       \
    X(4, LOST, RULE_REJECT, "no record was lost, none is empty, none is shorter than 0.8 of an empty kernel")                                    \
    X(5, ENVELOPE, RULE_FLAG, "a launch takes as long by the records as by the events, within 1 us a graph or 3 percent")                        \
    X(6, OUTSIDE, RULE_REJECT, "the records span no more than the events (reject) and no less than a tenth (flag)")                              \
    X(7, WALL, RULE_REJECT, "the wall clock shows no more beyond the events than such a graph costs the host: 5 percent (flag), 20 (reject)")    \
    X(8, TRACED, RULE_FLAG, "tracing slows the candidate's launches as it slows the baseline's, within 5 percent")                           \
    X(9, GAINS, RULE_FLAG, "the gain is the same by events, records and wall clock, within 3 percent and in sign")                               \
    X(10, COLD, RULE_FLAG, "cold against among others is at least 0.9 of the baseline's share, and a launch takes at least what its bytes take at the best bandwidth of the card") \
    X(11, DRIFT, RULE_FLAG, "first, middle and last launches take the same, within 3 percent: over the run, and within a graph")                 \
    X(12, CYCLES, RULE_FLAG, "the gain is the same in time and in cycles, within 1 percent")
enum rule {
#define X(number, name, worst, what) RULE_##name = (number) - 1,
    RULES_TABLE(X)
#undef X
};
#define RULES 12

#define RULE_FIGURES 8
struct rule_finding {
    enum rule_outcome outcome;
    char text[160];                     /* what was found, or why it was not done */
    int figure_count;
    struct { const char *name; double value; } figures[RULE_FIGURES];
};
struct rules { struct rule_finding list[RULES]; };

int rule_number(enum rule r);
const char *rule_text(enum rule r);
/* It was looked at; nothing found so far. */
void rules_done(struct rules *r, enum rule rule);
/* The first of the worst is kept. More than the table allows is a bug. */
void rules_find(struct rules *r, enum rule rule, enum rule_outcome outcome, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Why rules that nobody looked at were not done. */
void rules_skip(struct rules *r, enum rule rule, const char *why);
void rules_skip_rest(struct rules *r, const char *why);
void rules_figure(struct rules *r, enum rule rule, const char *name, double value);
/* The worse of the two, rule by rule, with the figures of both. */
void rules_merge(struct rules *to, const struct rules *from);
enum rule_outcome rules_worst(const struct rules *r);
/* The first rejection, or NULL. */
const struct rule_finding *rules_rejection(const struct rules *r, enum rule *ret_rule);
const char *rule_outcome_name(enum rule_outcome o);
/* [{"rule","what","outcome":"ok"|"flag"|"reject"|"not_done","found"?,"figures"?}]: all twelve; new reference. */
json_t *rules_encode(const struct rules *r);
