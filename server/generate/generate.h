/*
 * Generators propose the next candidate for one shape, from values alone: they see no store and no judge.
 *
 * The history is complete at each call (a restart loses nothing): a generator is a function of (operator, shape, history, seed).
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"

struct gen_past {                       /* one judged candidate, oldest first */
    const char *id;
    const json_t *candidate;            /* its document; template candidates carry "notes" and defines */
    const json_t *origin;               /* what the generator said when it proposed it (gen_proposal.origin); may be NULL */
    enum verdict_code verdict;
    double time_ns;                     /* measured or estimated; 0: none */
    double speedup;                     /* against the baseline; 0: none */
    const json_t *figures;              /* may be NULL */
    const json_t *profile;              /* what the card's counters said of it, or why not; may be NULL */
    const json_t *said;                 /* the verdict as it is kept, with its text and detail; may be NULL */
};
struct gen_input {
    const struct op *op;
    const struct shape *shape;
    const struct gen_past *past;
    int past_count;
    double baseline_ns;
    int64_t candidates_left;            /* of the budget, for this shape */
    uint64_t seed;                      /* of the job */
    bool measured;                      /* times are measurements (a card), not estimates */
    /*
     * What is known before anything was judged; either may be NULL. Both are kept with the job, so that a restart sees the same.
     * estimates: [{"template","params","ns": by the emulator | null where it does not compile or run,"why"?,"resources"?}], never
     * measurements. resources: the compiler's figures of each kernel; what spills is not tried, nor what costs more registers.
     * neighbours: the best settings of the nearest shapes, nearest first: [{"template","params","shape"?: text to show}].
     */
    const json_t *estimates, *neighbours;
    const json_t *lessons;              /* effects of templates' parameters over other shapes: [{"id","effects": know/effects.h}...]; may be NULL */
};
struct gen_proposal {
    bool done;                          /* nothing more worth trying; `reason` says why */
    json_t *candidate;                  /* owned: a candidate document, `notes` says why it was chosen */
    json_t *origin;                     /* owned: {"template","params":{...},"move":"...","parent":id|null} */
    char reason[256];
};
void gen_proposal_done(struct gen_proposal *p);
DEFINE_CLEANUP(gen_proposal, struct gen_proposal, gen_proposal_done(it))

struct agent_input;                     /* agent.h */
struct agent_attempt;
struct generator {
    const char *name;                                   /* "template" */
    bool (*propose)(const struct gen_input *in, struct gen_proposal *ret, struct err *err);
    /*
     * Which candidates to estimate next, at most `most` in all with those that in->estimates has: an array of {"template","params",
     * "candidate"}, empty when there is nothing more to ask; new reference. NULL: this one has no use for estimates.
     */
    bool (*wants)(const struct gen_input *in, int most, json_t **ret, struct err *err);
    /* Instead of propose: one that asks a language model, which takes time and tokens and may give no candidate (agent.h). */
    bool (*attempt)(const struct agent_input *in, struct agent_attempt *ret, struct err *err);
};
/* The template search (template.c): parameters of the operator's templates, chosen by what the history says. */
bool template_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err);

/* Every setting that fits the shape: [{"template","params"},...]; new reference. For those who play searches again. */
bool template_every(const struct gen_input *in, json_t **ret, struct err *err);
bool template_wants(const struct gen_input *in, int most, json_t **ret, struct err *err);

/* NULL: there is none of that name here; "external" has neither propose nor attempt. */
const struct generator *generator_find(const char *name);
