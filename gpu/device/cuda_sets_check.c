/*
 * What timed launches left, looked at after each block and before its sample counts.
 *
 *   untouched   inputs, the gaps between buffers, and everything of the sets that were not launched must hold what they were given, byte
 *               by byte: the list that restored them says what that is. A kernel that does the work of several launches at once, keeps
 *               a count, or leaves itself something where the next one may find it, has to write there: it cannot know which sets
 *               are launched, nor where they lie
 *   replays     of each launch's results a sum is taken. In blocks chosen at random some launches, chosen now, are made once more, one
 *               by one, from other poison and scrubbed multiprocessors, and their sums must be the same: what a kernel does while it is
 *               timed is what it does when it is not. A part f of skipped launches is missed with (1 - f)^n, n being 5 a block on
 *               average: in the 48 blocks of the shortest judgement once in 12 for f = 1 %, once in 170 for 2 %; in the 240 of a full
 *               one once in 400,000 for 1 %. What is right is not known here: the supervisor compares some results of either kind
 *               with the reference (measure_outputs.c). Where atomics are declared bits may differ: then only the reference speaks
 *   variables   of the module are as they were when it was loaded
 *
 * Lists and sums lie where device code neither finds nor may write them.
 */
#include "core/clock.h"
#include "core/hash.h"
#include "core/rng.h"
#include "gpu/device/cuda_sets.h"
#include "gpu/device/spent.h"

#include <string.h>

static bool clear_sums(struct device_program *p, struct err *err)
{
    return CU(err, cuMemsetD8Async, p->sets->sums, 0, (size_t)(p->sets->count + REPLAYS) * sizeof(uint64_t), p->device->stream);
}

static CUdeviceptr found(const struct cuda_sets *s)
{
    return s->sums + (size_t)(s->count + REPLAYS) * sizeof(uint64_t);
}

bool sets_replays(void)
{
    return random_u64() % REPLAY_BLOCKS == 0;
}

bool sets_look_begin(struct device_program *p, struct err *err)
{
    static const uint64_t none[2] = {0, UINT64_MAX};
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    const size_t results = (size_t)s->printed * sizeof *s->pieces;
    if (s->traced)                          /* not a launch, not a copy but the plan's: this was looked at where nobody traces */
        return true;
    return helper_upload(d, found(s), none, sizeof none, err) && clear_sums(p, err) &&
           helper_pieces(d, d->compare, s->list, s->pieces, s->used, found(s), err) &&
           helper_pieces(d, d->sums, s->list + results, s->pieces + s->printed, s->pieces_end - s->printed, s->sums, err);
}

static bool touched(const struct cuda_sets *s, uint64_t piece, struct device_fault *fault)
{
    const bool input = piece < (uint64_t)s->gaps, gap = piece < (uint64_t)s->idle;
    return fault_set(fault, input ? VERDICT_INPUT_MODIFIED : VERDICT_OUT_OF_BOUNDS, json_pack("{s:s}", "what", input ? "input" : gap ? "gap" : "set"),
                     "while it was timed the kernel changed %s", input ? "an input"
                     : gap ? "memory outside its buffers" : "the buffers of a launch that was not made");
}

static bool take(struct device_program *p, struct err *err)
{
    struct cuda_sets *s = p->sets;
    return CU(err, cuStreamSynchronize, p->device->stream) && CU(err, cuMemcpyDtoH, s->seen, s->sums, (size_t)(s->count + REPLAYS + 2) * sizeof *s->seen);
}

/* ---- once more ---- */

struct again { int count, launches[REPLAYS]; };

static void choose(int launches, struct again *a)
{
    a->count = launches < REPLAYS ? launches : REPLAYS;
    for (int i = 0; i < a->count; i++) {
        bool known = true;
        while (known) {
            known = false;
            a->launches[i] = (int)(random_u64() % (uint64_t)launches);
            for (int k = 0; k < i; k++)
                known |= a->launches[k] == a->launches[i];
        }
    }
}

/* A strided output has poison between its rows, which is in its sum. */
static bool is_dense(const struct program_buffer *b)
{
    return !b->tensor || b->tensor->bytes == b->tensor->elements * dtype_bytes(b->tensor->dtype);
}

/* What each of them may write, with other poison where that must not show. */
static int contents(const struct device_program *p, const struct again *a, struct piece *ret)
{
    const struct cuda_sets *s = p->sets;
    int count = 0;
    for (int i = 0; i < a->count; i++) {
        const struct piece *from = s->pieces + s->used + a->launches[i] * s->each;
        for (int b = 0; b < p->buffer_count; b++) {
            if (!p->buffers[b].bytes || !p->buffers[b].writable)
                continue;
            for (int n = sets_pieces(p, b); n > 0; n--) {
                ret[count] = *from++;
                if (is_dense(&p->buffers[b]))
                    ret[count].pattern = ~s->poison;
                count++;
            }
        }
    }
    return count;
}

static int results(const struct cuda_sets *s, const struct again *a, struct piece *ret)
{
    int count = 0;
    for (int i = 0; i < a->count; i++)
        for (int k = 0; k < s->results; k++) {
            ret[count] = s->pieces[s->printed + a->launches[i] * s->results + k];
            ret[count++].slot = (uint32_t)(s->count + i);
        }
    return count;
}

static bool launch(struct device_program *p, const struct again *a, struct device_fault *fault, struct err *err)
{
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS];
    CUresult r = CUDA_SUCCESS;
    int step = -1;
    for (int i = 0; i < a->count && r == CUDA_SUCCESS; i++) {
        sets_addresses(p, p->sets->order[a->launches[i]], addresses);
        for (step = 0; step < p->plan.step_count && r == CUDA_SUCCESS; step++)
            r = step_launch(p, step, addresses);
    }
    if (r == CUDA_SUCCESS)
        r = cu.cuCtxSynchronize();
    if (r == CUDA_SUCCESS)
        return true;
    p->device->dead = true;
    return fault_from_cu(fault, r, &p->plan, p->plan.step_count == 1 ? 0 : -1, err);
}

static bool replays(struct device_program *p, struct device_fault *fault, struct err *err)
{
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    struct again a;
    uint64_t first[REPLAYS];
    cleanup(mem) void *memory = xarray((size_t)REPLAYS * (size_t)(s->each + s->results) + 1, sizeof(struct piece));
    struct piece *list = memory;
    choose(s->drawn, &a);
    for (int i = 0; i < a.count; i++)
        first[i] = s->seen[a.launches[i]];
    int count = pieces_number(list, contents(p, &a, list));
    if (!helper_upload(d, s->list, list, (size_t)count * sizeof *list, err) || !helper_pieces(d, d->restore, s->list, list, count, 0, err) ||
        !scrub(d, (uint32_t)random_u64(), p->local_bytes, err))
        return false;
    if (!launch(p, &a, fault, err) || fault->code != VERDICT_OK)
        return fault->code != VERDICT_OK;
    count = pieces_number(list, results(s, &a, list));
    if (!clear_sums(p, err) || !helper_upload(d, s->list, list, (size_t)count * sizeof *list, err) ||
        !helper_pieces(d, d->sums, s->list, list, count, s->sums, err) || !take(p, err))
        return false;
    for (int i = 0; i < a.count; i++)
        if (s->seen[s->count + i] != first[i])
            return fault_set(fault, VERDICT_NON_DETERMINISTIC, json_pack("{s:i,s:i}", "launch", a.launches[i], "launches", s->drawn),
                             "launch %d of %d that were timed gave other bits than the same launch on its own", a.launches[i] + 1, s->drawn);
    return true;
}

bool sets_look_end(struct device_program *p, bool replay, struct device_fault *fault, struct err *err)
{
    struct cuda_sets *s = p->sets;
    if (s->traced)
        return true;
    if (!take(p, err))
        return false;
    const uint64_t *wrong = s->seen + s->count + REPLAYS;       /* how many elements, and the first piece */
    if (wrong[0])
        return touched(s, wrong[1], fault);
    const int64_t from_ns = clock_mono_ns();
    if (replay && s->exact && s->results && (!replays(p, fault, err) || fault->code != VERDICT_OK))
        return fault->code != VERDICT_OK;
    spent_add(SPENT_REPLAY, from_ns);
    return variables_check(p, fault, err);
}
