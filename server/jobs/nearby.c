/*
 * Estimates of observed shapes, to guess from at shapes close by that have none of their own. A guess is the saving at the nearest shape of
 * the same operator, types and target, times how much longer the baseline there would take with the bytes of the shape asked for: bytes take at
 * least their time at the nominal rate, and what the baseline takes beyond them (the launch, waiting) stays as it is. So where a launch is
 * all overhead the saving is nearly the same, and where it is all bytes it grows as they do.
 */
#include "server/jobs/observed.h"

#include <math.h>
#include <string.h>

#define FAR_DOUBLINGS 3.0                /* of all axes together: further away an estimate says nothing */

struct known {
    const struct op *op;
    char target[TARGET_SIZE], hash[HASH_HEX_SIZE];
    enum dtype dtypes[OP_MAX_DTYPES];
    double logs[OP_MAX_AXES], floor_ns, baseline_ns, saving_ns;
};
struct nearby { int count, capacity; struct known *list; };

struct nearby *nearby_new(void)
{
    return xalloc(sizeof(struct nearby));
}

void nearby_free(struct nearby *n)
{
    if (!n)
        return;
    free(n->list);
    free(n);
}

static void put_logs(const struct shape *s, double *to)
{
    for (int i = 0; i < s->op->axis_count; i++)
        to[i] = s->op->axes[i].keyed ? log2((double)s->axes[i] + 1) : 0;
}

void nearby_add(struct nearby *n, const char *hash, const struct shape *s, double floor_ns, double baseline_ns, double saving_ns)
{
    if (n->count == n->capacity) {
        n->capacity = n->capacity ? 2 * n->capacity : 64;
        n->list = xrealloc(n->list, (size_t)n->capacity * sizeof *n->list);
    }
    struct known *k = &n->list[n->count++];
    *k = (struct known){.op = s->op, .floor_ns = floor_ns, .baseline_ns = baseline_ns, .saving_ns = saving_ns};
    snprintf(k->hash, sizeof k->hash, "%s", hash);
    memcpy(k->target, s->target, sizeof k->target);
    memcpy(k->dtypes, s->dtypes, sizeof k->dtypes);
    put_logs(s, k->logs);
}

/* The nearest, or NULL where none is near enough. */
static const struct known *find(const struct nearby *n, const struct shape *s)
{
    const struct known *best = NULL;
    double logs[OP_MAX_AXES], least = FAR_DOUBLINGS;
    put_logs(s, logs);
    for (int i = 0; i < n->count; i++) {
        const struct known *k = &n->list[i];
        double far = 0;
        if (k->op != s->op || strcmp(k->target, s->target) != 0 || memcmp(k->dtypes, s->dtypes, (size_t)s->op->letter_count * sizeof *k->dtypes) != 0)
            continue;
        for (int a = 0; a < s->op->axis_count && far <= least; a++)
            far += fabs(k->logs[a] - logs[a]);
        if (far < least || (far <= least && !best)) {
            least = far;
            best = k;
        }
    }
    return best;
}

bool nearby_has(const struct nearby *n, const struct shape *s)
{
    return find(n, s);
}

bool nearby_guess(const struct nearby *n, const struct shape *s, double floor_ns, struct saving *ret)
{
    const struct known *k = find(n, s);
    if (!k)
        return false;
    const double by_bytes = floor_ns / k->floor_ns, by_time = 1 + (floor_ns - k->floor_ns) / k->baseline_ns;
    ret->factor = fmax(by_time, fmin(1, by_bytes));   /* a baseline below the nominal time would lead below nothing */
    ret->each_ns = k->saving_ns * ret->factor;
    ret->basis = SAVING_NEARBY;
    memcpy(ret->from, k->hash, sizeof ret->from);
    return true;
}
