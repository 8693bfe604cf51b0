/*
 * A small Gaussian process over settings: what the results so far say of settings not tried yet. Plain numbers, no templates.
 *
 * The kernel is exp(-sum over dimensions of weight x distance^2); weights are chosen by marginal likelihood among a few, one
 * dimension after the other, so that a parameter without effect stops counting. Source: Rasmussen and Williams, "Gaussian
 * Processes for Machine Learning", MIT Press 2006, chapters 2 and 5.
 */
#pragma once
#include <stdbool.h>

#define MODEL_MAX_DIMS 10
#define MODEL_MAX_SEEN 256              /* results beyond are left out, the slowest first */

struct model;
/* x: count rows of dims values in [0, 1]; y: log of the time; noise: its deviation; least: what y varies by at least, however alike the
 * first few are; rough: 1, or less where y varies more slowly. NULL if the matrix can't be solved. */
struct model *model_fit(const double *x, const double *y, int count, int dims, double noise, double least, double rough);
void model_free(struct model *m);
void model_predict(const struct model *m, const double *x, double *ret_mean, double *ret_deviation);
/* Expected amount by which what is foretold so falls below `best`. */
double model_improvement(double mean, double deviation, double best);
