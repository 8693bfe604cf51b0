/* The first error of a compiler's log, for a verdict's one sentence; cut at a whole character. No error in it: its first plain line. */
#pragma once
#include <stddef.h>
#include <stdbool.h>

void compile_log_first_error(const char *log, char *to, size_t size);
