/*
 * All spikes of all rows, tensor after tensor of those whose turns they are, are counted: the first have the places in their order, so that
 * they are all met where there are so many, and the foremost where there are few; the others draw from the seed.
 *
 * Why these places. What a loop leaves out at the end has the last element in it, at the start the first; an end that is one short, or one
 * late, their neighbours. Where a row is parted in two, or at a power of two, or in quarters, the same is so beside the cut. A loop over
 * whole vectors or blocks may end one too early, or what is left over may begin one too late: both sides of each n - n % 2^k, and of blocks of
 * any size, one of n - 2^k is in the last whole one. Of threads
 * that go through a row in strides of all of them (B threads, V elements at once) the last warp may be left out: it has the elements before
 * each multiple of B*V, so that the last one before the largest a * 2^k, a of 1, 3, 5 and 7, is in it whatever B*V is of that form.
 */
#include "gpu/judge/spikes.h"

#include "core/rng.h"

static void add(struct spikes *s, int64_t place)
{
    bool known = place < 0 || place >= s->row || s->count == SPIKES_PLACES;
    for (int i = 0; i < s->count; i++)
        known |= s->places[i] == place;
    if (!known)
        s->places[s->count++] = place;
}

static int64_t largest(int64_t odd, int64_t most)
{
    int64_t at = odd;
    while (at * 2 <= most)
        at *= 2;
    return at <= most ? at : 0;
}

void spikes_open(struct spikes *s)
{
    const int64_t n = s->row, middle = n / 2, two = largest(1, n - 1);
    const int64_t foremost[] = {n - 1, middle, 0, n - 2, middle - 1, 1, two, two - 1};
    s->count = 0;
    for (size_t i = 0; i < sizeof foremost / sizeof *foremost; i++)
        add(s, foremost[i]);
    for (int64_t odd = 3; odd <= 7; odd += 2)
        add(s, largest(odd, n) - 1);
    for (int64_t block = 4; block <= 1024; block *= 2)
        if (n % block) {
            add(s, n - n % block);
            add(s, n - n % block - 1);
        }
    for (int64_t back = 4; back < n; back *= 2)
        add(s, n - back);
    add(s, n / 4);
    add(s, n - n / 4);
    for (int64_t at = two; at >= 8; at /= 2) {
        add(s, at);
        add(s, at - 1);
    }
}

int64_t spikes_place(const struct spikes *s, int64_t r, int64_t i)
{
    const int64_t n = (s->turn * s->rows + r) * s->each + i, all = s->rows * s->turns * s->each;
    const int64_t in_order = all >= s->count ? s->count : all - all / 8;
    if (n < in_order)
        return s->places[n];
    const uint64_t at = 2 * (uint64_t)n, stream = s->stream ^ 0x7370696b657300u;
    if (all > s->count && rng_below(s->seed, stream, at + 1, 2))
        return (int64_t)rng_below(s->seed, stream, at, (uint64_t)s->row);
    const int64_t from = all >= s->count ? 0 : in_order;
    return s->places[from + (int64_t)rng_below(s->seed, stream, at, (uint64_t)(s->count - from))];
}
