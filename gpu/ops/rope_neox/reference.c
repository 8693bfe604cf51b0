/*
 * For every head of q and k of token t, with row = cos_sin_cache[positions[t]] and i < rot/2, in place:
 *
 *   (x[i], x[i + rot/2]) <- (x[i] cos - x[i + rot/2] sin, x[i + rot/2] cos + x[i] sin),   cos = row[i], sin = row[i + rot/2]
 */
#include "reference.h"

static void turn(double *heads, int64_t count, int64_t d, int64_t half, const double *row)
{
    for (int64_t h = 0; h < count; h++)
        for (int64_t i = 0; i < half; i++) {
            double *x = heads + h * d + i, a = x[0], b = x[half];
            x[0] = a * row[i] - b * row[half + i];
            x[half] = b * row[i] + a * row[half + i];
        }
}

void proteus_reference(const struct reference_call *call)
{
    int64_t tokens = reference_axis(call, "B"), hq = reference_axis(call, "HQ"), hk = reference_axis(call, "HK");
    int64_t d = reference_axis(call, "d"), rot = reference_axis(call, "rot"), rows = reference_axis(call, "P");
    const double *positions = reference_data(call, "positions"), *cache = reference_data(call, "cos_sin_cache");
    double *q = reference_data(call, "q"), *k = reference_data(call, "k");

    for (int64_t t = 0; t < tokens; t++) {
        int64_t at = (int64_t)positions[t];
        if (at < 0 || at >= rows)
            abort();
        turn(q + t * hq * d, hq, d, rot / 2, cache + at * rot);
        turn(k + t * hk * d, hk, d, rot / 2, cache + at * rot);
    }
}
