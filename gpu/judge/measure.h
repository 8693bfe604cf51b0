/* Between measure.c and what it is made of. */
#pragma once
#include "gpu/judge/internal.h"

struct clocked {                        /* one side while it is measured */
    struct judge_side *side;
    int sets, launches;
    double per_launch_ns;               /* first guess */
};

/* ---- measure_outputs.c ---- */
/* Outputs of launches of the side's last timed graph against the reference: first, last, middle, and others that nobody could foresee. */
bool check_timed_outputs(struct judge *j, struct clocked *c, int beside, int *ret_checked, struct verdict *v, struct err *err) MUST_CHECK;
