/*
 * The operator's folder as its children can read it. They run as an unprivileged user; where no mount namespace brings the folder to
 * them, each folder above it must be open to everyone. One that is not (a checkout in a home of mode 0700) is copied to a temporary
 * folder that is. Source and reference of an operator are no secrets.
 */
#pragma once
#include "core/cleanup.h"
#include "core/err.h"

#include <limits.h>

struct stage { char dir[PATH_MAX]; bool copied; };    /* dir: canonical */

/* ERR_INTERNAL, ERR_NO_SPACE. Release with stage_done, also after a failure. */
bool stage_operator(const char *op_dir, struct stage *ret, struct err *err) MUST_CHECK;
void stage_done(struct stage *s);                      /* removes the copy, if it is one */
DEFINE_CLEANUP(stage, struct stage, stage_done(it))
