/*
 * Ownership by declaration: `cleanup(buf) struct buf b = {0};` is released on every way out of the scope,
 * `steal(&p)` hands a pointer over and leaves NULL behind. Always initialise at the declaration; no goto into scope.
 */
#pragma once
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* DEFINE_CLEANUP(name, type, statement using `it`, a pointer to the variable) */
#define DEFINE_CLEANUP(name, type, statement)                             \
    __attribute__((unused)) static inline void cleanup_##name(type *it)   \
    {                                                                     \
        statement;                                                        \
    }
#define cleanup(name) __attribute__((cleanup(cleanup_##name)))

#define steal(p)                        \
    __extension__({                     \
        __typeof__(*(p)) stolen_ = *(p); \
        *(p) = NULL;                    \
        stolen_;                        \
    })
#define steal_fd(p)         \
    __extension__({         \
        int stolen_ = *(p); \
        *(p) = -1;          \
        stolen_;            \
    })

DEFINE_CLEANUP(str, char *, free(*it))
DEFINE_CLEANUP(mem, void *, free(*it))
DEFINE_CLEANUP(fd, int, if (*it >= 0) close(*it))
DEFINE_CLEANUP(file, FILE *, if (*it) fclose(*it))
DEFINE_CLEANUP(dir, DIR *, if (*it) closedir(*it))
