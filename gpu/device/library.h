/*
 * A table of function pointers filled by dlopen. The table's types come from the library's own header and its symbols from the
 * preprocessor (headers rename by macro), so that each name is written once.
 */
#pragma once
#include "core/err.h"

#include <stddef.h>

struct library { void *handle; };
struct library_entry { const char *symbol; void **slot; };    /* ended by a NULL symbol */

/*
 * Opens once and fills every slot; later calls cost nothing. Stays open until the process ends. Not thread-safe.
 * ERR_UNAVAILABLE names the library or the first symbol that it lacks.
 */
bool library_open(struct library *l, const char *path, const struct library_entry *entries, struct err *err) MUST_CHECK;
