#include "core/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

struct rfc3339 clock_text(int64_t wall_ns)
{
    struct rfc3339 r;
    time_t s = (time_t)(wall_ns / 1000000000);
    struct tm tm;
    gmtime_r(&s, &tm);
    size_t n = strftime(r.text, sizeof r.text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(r.text + n, sizeof r.text - n, ".%03dZ", (int)(wall_ns / 1000000 % 1000));
    return r;
}

void clock_sleep_ns(int64_t ns)
{
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&ts, NULL);
}
