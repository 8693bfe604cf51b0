/* Spikes: elements that stand out where loops end, so that whoever leaves a tail out of a sum or a maximum is found, in rows of any length. */
#include "tests/regimes_made.h"
#include "gpu/judge/spikes.h"

#include <math.h>

/* Bit i of *ret_places[r]: whether row r has its i-th place of these. The number of spikes. */
static int spikes(struct made *m, const int64_t *places, int count, uint32_t *ret_places)
{
    const int n = (int)m->tensors[0].dims[1], rows = (int)m->tensors[0].dims[0];
    const float *x = m->in[0];
    int all = 0;
    for (int r = 0; r < rows; r++) {
        ret_places[r] = 0;
        for (int i = 0; i < n; i++) {
            const float v = fabsf(x[(int64_t)r * n + i]);
            check(v < 5 || (v > 95 && v < 105));
            for (int k = 0; v > 95 && k < count; k++)
                ret_places[r] |= (uint32_t)(places[k] == i) << k;
            all += v > 95;
        }
    }
    return all;
}

#define SPIKES "{\"x\":{\"dist\":\"spikes\",\"std\":1,\"value\":%d,\"each\":%s,\"turn\":%d,\"turns\":%d}}"
static int spiked(int r, int n, int value, const char *each, int turn, int turns, uint64_t seed, const int64_t *places, int count, uint32_t *ret_places)
{
    cleanup(made) struct made m = {0};
    char shape[128], inputs[160];
    snprintf(shape, sizeof shape, "{\"op\":\"rmsnorm\",\"axes\":{\"R\":%d,\"N\":%d},\"dtypes\":{\"io\":\"f32\"}}", r, n);
    snprintf(inputs, sizeof inputs, SPIKES, value, each, turn, turns);
    bool rotate[OP_MAX_TENSORS];
    check(make(&m, shape, "typical", inputs, seed));
    inputs_rotatable(&m.op, m.tensors, 0, rotate);
    check(!rotate[0]);
    return spikes(&m, places, count, ret_places);
}

/* One row: two tensors have all of the places between them; four with one each the foremost. Many rows: one each, everywhere. */
static void test_spikes(void)
{
    static const int64_t places[] = {4196, 2098, 0, 4195, 2097, 1, 4192, 4096, 1023, 1024, 2047, 2048, 4095};
    const int count = sizeof places / sizeof *places;
    static uint32_t rows[2000];
    for (uint64_t seed = 0; seed < 10; seed++) {
        uint32_t seen = 0;
        for (int turn = 1; turn <= 2; turn++) {
            const int all = spiked(1, 4197, 100, "16", turn, 2, seed, places, count, rows);
            check(all >= (turn == 1 ? 13 : 4) && all <= 16);
            seen |= rows[0];
        }
        check_int(seen, (1 << count) - 1);
        for (int turn = 1; turn <= 4; turn++) {
            check_int(spiked(1, 4197, turn % 2 ? 100 : -100, "1", turn, 4, seed, places, count, rows), 1);
            check_int(rows[0], 1 << (turn - 1));
        }
    }
    check_int(spiked(2000, 300, 100, "1", 1, 1, 7, (const int64_t[]){299, 150, 0, 296, 288, 256}, 6, rows), 2000);
    int hits[7] = {0};
    for (int r = 0; r < 2000; r++) {
        hits[6] += !rows[r];
        for (int k = 0; k < 6; k++)
            hits[k] += rows[r] >> k & 1;
    }
    for (int k = 0; k < 6; k++)
        check(hits[k] > 20 && hits[k] < 100);
    check(hits[6] > 1550 && hits[6] < 1850);
    /* as large as they must be for all to weigh as much as said, of squares */
    cleanup(made) struct made m = {0};
    check(make(&m, "{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":40000},\"dtypes\":{\"io\":\"f32\"}}", "typical",
               "{\"x\":{\"dist\":\"spikes\",\"std\":2,\"weight\":4,\"each\":16}}", 3));
    check(fabsf(((const float *)m.in[0])[39999] - 200) < 10 && fabsf(((const float *)m.in[0])[39997]) < 10);
    /* short rows: never past the end; of more than there is room for, all */
    for (int n = 1; n < 12; n++) {
        check_int(spiked(3, n, 100, "1", 1, 1, 3, places, 1, rows), 3);
        check(spiked(3, n, 100, "\"N\"", 1, 1, 3, places, 1, rows) <= 3 * n);
    }
    check_int(spiked(1, 4, 100, "64", 1, 1, 3, places, 1, rows), 4);
}

/*
 * What loops leave out of one row: an operator that looks for a largest has as many regimes as there are places, and meets each of these.
 * Beside n: of whole blocks (vectors) of `block`, of threads that go in strides of `block`, `share` elements at once.
 */
static bool last_ones(int64_t n, int64_t i, int64_t block) { return i >= n - block; }
static bool left_over(int64_t n, int64_t i, int64_t block) { return n % block && i >= n - n % block; }
static bool first_left_over(int64_t n, int64_t i, int64_t block) { return n % block && i == n - n % block; }
static bool last_whole(int64_t n, int64_t i, int64_t block) { return i < n - n % block && i >= n - n % block - block; }
static bool end_of_whole(int64_t n, int64_t i, int64_t block) { return n >= block && i == n - n % block - 1; }
static bool starts_later(int64_t n, int64_t i, int64_t block) { return n > block && i && i % block == 0; }     /* each block but the first one late */
static bool ends_early(int64_t n, int64_t i, int64_t block) { return n > block && i % block == block - 1; }
static bool last_warp(int64_t n, int64_t i, int64_t block) { return n >= block && i % block >= block - 32; }
static bool last_thread(int64_t n, int64_t i, int64_t block) { return n >= block && i % block == block - 1; }
static bool second_half(int64_t n, int64_t i, int64_t block) { return block == 4 && i == n / 2; }
static bool first_half(int64_t n, int64_t i, int64_t block) { return block == 4 && i == n / 2 - 1; }
static bool very_first(int64_t n, int64_t i, int64_t block) { return n && block && !i; }

static void test_left_out(void)
{
    static const int64_t rows[] = {64, 100, 128, 160, 256, 384, 512, 1000, 1024, 1025, 1536, 2048, 2880, 3072, 4096, 4197, 5000, 5120, 6144, 7168, 8192, 11008, 14336, 16384, 28672, 65536};
    static const struct { const char *what; bool (*leaves)(int64_t n, int64_t i, int64_t block); int64_t least; bool odd; } all[] = {
        {"the last ones", last_ones, 1, false}, {"what is left over", left_over, 4, false}, {"its first", first_left_over, 4, false}, {"the last whole block", last_whole, 4, true},
        {"its end", end_of_whole, 4, false}, {"where blocks begin", starts_later, 8, false}, {"where blocks end", ends_early, 8, false},
        {"the last warp", last_warp, 64, true}, {"the last thread", last_thread, 64, true}, {"the middle", second_half, 4, false}, {"before the middle", first_half, 4, false},
        {"the first", very_first, 4, false},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t a = 0; a < sizeof all / sizeof *all; a++)
            for (int64_t odd = 1; odd <= (all[a].odd ? 7 : 1); odd += 2)
                for (int64_t block = odd; block <= (all[a].odd ? 16384 : 1024); block *= 2) {
                    bool any = false, met = false;
                    for (int64_t i = 0; i < rows[r] && block >= all[a].least; i++)
                        any |= all[a].leaves(rows[r], i, block);
                    for (int64_t turn = 0; turn < SPIKES_PLACES && any; turn++) {
                        struct spikes s = {.row = rows[r], .rows = 1, .each = 1, .turn = turn, .turns = SPIKES_PLACES, .seed = 5};
                        spikes_open(&s);
                        met |= all[a].leaves(rows[r], spikes_place(&s, 0, 0), block);
                    }
                    check(met || !any);
                    if (any && !met)
                        fprintf(stderr, "  %s of a row of %d, by %d\n", all[a].what, (int)rows[r], (int)block);
                }
}

int main(void)
{
    static void (*const tests[])(void) = {test_spikes, test_left_out};
    return regimes_main(tests, sizeof tests / sizeof *tests);
}
