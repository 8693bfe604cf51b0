/* Time: int64_t nanoseconds everywhere inside; text at the edges. */
#pragma once
#include <stdint.h>

int64_t clock_mono_ns(void);            /* CLOCK_MONOTONIC */
int64_t clock_cpu_ns(void);             /* of this process, all its threads */
int64_t clock_wall_ns(void);            /* since 1970, UTC */
struct rfc3339 { char text[32]; };
struct rfc3339 clock_text(int64_t wall_ns);   /* "2026-11-30T03:14:15.926Z" */
void clock_sleep_ns(int64_t ns);
