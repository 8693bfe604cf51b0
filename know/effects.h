/*
 * Main effects of a template's parameters on the time, learnt from settings that were tried. Pure: values in, values out.
 *
 * Of one shape: log time = level of the template + one effect for each value of each parameter + noise, by ridge regression (effects are
 * expected to be small until results say otherwise), with the posterior's deviation. Effects of a parameter are told against its best value,
 * so that 0 is best and 0.1 costs ten percent. Over shapes: the weighted mean, with a deviation that holds how much the shapes differ
 * among each other (a random-effects meta-analysis: DerSimonian and Laird, "Meta-analysis in clinical trials", 1986).
 *
 * Fit    (of a shape)   {TEMPLATE: {"n","best": log ns,"params":{PARAM:[[value,effect,deviation]...]}}}
 * Effect (over shapes)  {"template","param": name | null for the template itself,"shapes","levels":[{"value","effect","deviation","low","high",
 *                       "shapes"}...]}; low and high: 95 %
 */
#pragma once
#include "core/json.h"

#define EFFECTS_MAX_TRIED 512            /* of one shape; more are left out */
/* tried: [{"template","params":{NAME:int},"ns"}]; new reference; {} where nothing can be learnt. */
json_t *effects_fit(const json_t *tried);
/*
 * fits: [{"fit": FIT,"far": how far the shape is, in doublings of its axes; 0 for all: what holds over them}...]; near ones count more.
 * An array of effects, template by template; new reference.
 */
json_t *effects_combine(const json_t *fits);
