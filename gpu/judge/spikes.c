/*
 * All spikes of all rows, and of the tensors whose turns they are, are counted: the first have the places in their order, so that they are
 * all met where there are so many, and the foremost where there are few; the others draw from the seed.
 */
#include "gpu/judge/spikes.h"

#include "core/rng.h"

#define FOREMOST 6

static void add(struct spikes *s, int64_t place)
{
    bool known = place < 0 || place >= s->row || s->count == SPIKES_PLACES;
    for (int i = 0; i < s->count; i++)
        known |= s->places[i] == place;
    if (!known)
        s->places[s->count++] = place;
}

void spikes_open(struct spikes *s)
{
    const int64_t n = s->row, middle = n / 2;
    static const int64_t vectors[] = {4, 8, 32, 128, 256, 1024};
    const int64_t foremost[FOREMOST] = {n - 1, middle, 0, n - 2, middle - 1, 1};
    s->count = 0;
    for (int i = 0; i < FOREMOST; i++)
        add(s, foremost[i]);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (n % vectors[i])
            add(s, n - n % vectors[i]);
    for (int64_t at = 1024; at < n; at *= 2) {
        add(s, at);
        add(s, at - 1);
    }
}

int64_t spikes_place(const struct spikes *s, int64_t r, int64_t i)
{
    const int64_t n = (r * s->turns + s->turn) * s->each + i;
    const bool enough = s->rows * s->turns * s->each >= s->count;
    const int64_t in_order = enough ? s->count : FOREMOST, from = enough || s->count <= FOREMOST ? 0 : FOREMOST;
    if (n < in_order && n < s->count)
        return s->places[n];
    const uint64_t at = 2 * (uint64_t)n, stream = s->stream ^ 0x7370696b657300u;
    if (enough && rng_below(s->seed, stream, at + 1, 2))
        return (int64_t)rng_below(s->seed, stream, at, (uint64_t)s->row);
    return s->places[from + (int64_t)rng_below(s->seed, stream, at, (uint64_t)(s->count - from))];
}
