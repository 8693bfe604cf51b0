#include "gpu/device/spent.h"

#include "core/clock.h"

#include <string.h>

static int64_t sums_ns[SPENT_KINDS];

const char *spent_name(enum spent kind)
{
    static const char *const names[] = {
#define X(name, text) text,
        SPENT_TABLE(X)
#undef X
    };
    return names[kind];
}

void spent_add(enum spent kind, int64_t from_ns)
{
    sums_ns[kind] += clock_mono_ns() - from_ns;
}

void spent_take(int64_t ret_ns[SPENT_KINDS])
{
    memcpy(ret_ns, sums_ns, sizeof sums_ns);
    memset(sums_ns, 0, sizeof sums_ns);
}
