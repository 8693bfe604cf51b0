/*
 * The host's python and its Triton, for candidates of language triton. Asked for once a process, and only where it is needed: the
 * python itself says where its files lie, isolated (-I) and outside of the sandbox, which is then shown these and no others.
 */
#pragma once
#include "core/json.h"

#define PYTHON_MAX_PATHS 32

struct python_paths {
    char *program;                      /* absolute; a virtual environment's own link */
    char version[32], triton[32];
    int count;
    char *paths[PYTHON_MAX_PATHS + 1];  /* read-only in the sandbox; NULL-ended */
};
void python_done(struct python_paths *p);
DEFINE_CLEANUP(python, struct python_paths, python_done(it))

/* python: a path, or a name on PATH; NULL or "": $PROTEUS_PYTHON, then python3. ERR_UNAVAILABLE "no Triton on this host: ...". */
bool python_find(const char *python, struct python_paths *ret, struct err *err) MUST_CHECK;
