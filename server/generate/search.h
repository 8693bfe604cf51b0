/*
 * What the files of the template search share: what is known of each setting, by results, by estimates and by the shape's neighbours.
 *
 *   template.c   reads the history, and makes the proposal out of a choice
 *   prior.c      estimates of the emulator: what a setting is expected to take before anything was measured
 *   wants.c      which settings to estimate
 *   choose.c     the moves
 */
#pragma once
#include "core/rng.h"
#include "server/generate/generate.h"
#include "server/generate/model.h"
#include "server/generate/template_file.h"

enum fate { UNTRIED, WORKED, FAILED, AVOIDED };
struct space {
    const struct template *t;
    struct setting *list;
    int count, first;                    /* settings; index of the default */
    int worked, failed;
    enum fate *fate;
    double *cost;                        /* log of ns, where WORKED */
    const struct gen_past **past;        /* where tried */
    struct model *model;                 /* NULL: too little is known. Of cost; where there is a prior, of what that leaves unexplained */
    int estimated;                       /* settings with an estimate */
    double *estimate;                    /* log of the emulator's ns; NAN: none */
    double *prior, *prior_deviation;     /* the same, filled in between the estimates; NULL: the space has none */
};
struct search {
    const struct gen_input *in;
    int space_count;
    struct space spaces[TEMPLATE_MAX];
    int best_space, best;                /* -1: nothing works yet */
    double noise;
    bool has_prior, has_lessons;         /* has_lessons: the prior is, or is also, what lessons say */
    double slope, offset;                /* log time = offset + slope * prior + what the model says, learnt from all results */
};
struct choice { int space, index; const char *move; char why[512]; };

#define ESTIMATE_ROUGH 0.03              /* log: what an estimate is off that no neighbouring setting tells */

/* ---- template.c ---- */
int setting_index(const struct space *sp, const struct setting *p);          /* -1: not one that fits */
int setting_nearest(const struct space *sp, const struct setting *p);        /* -1: none fits */
int64_t spilled_bytes(const struct gen_past *past);
/* What costs at least the registers of setting q, which spills, is avoided. */
void avoid_costlier(struct space *sp, int q);
void coordinates(const struct template *t, const struct setting *p, double *ret);

void fit(const struct search *s, struct space *sp);
/* From here on only results count. */
void prior_forget(struct search *s);

/* ---- prior.c ---- */
void prior_take(struct search *s);                   /* reads the estimates: before the results are counted */
void prior_learn(struct search *s);                  /* slope and offset, once the results are counted */
/* What setting i is expected to take, log of ns, and how sure that is. False: nothing is known of the space. */
bool search_predict(const struct search *s, const struct space *sp, int i, double *ret_mean, double *ret_deviation);

/* ---- lessons.c ---- */
void lessons_take(struct search *s);                 /* after prior_take: lessons become a prior, or part of it */
/* Which lessons spoke of this space, into the candidate's document. */
void lessons_name(const struct search *s, const struct space *sp, json_t *candidate);

/* ---- wants.c ---- */
void wants_list(const struct search *s, int most, json_t *to);

/* ---- choose.c ---- */
const struct gen_past *best_past(const struct search *s);
int distance(const struct setting *a, const struct setting *b, int dims);
/* False: nothing more is worth a try, for `reason`. */
bool choose_next(struct search *s, struct choice *c, char *reason, size_t size);
