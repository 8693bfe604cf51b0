/*
 * The buffer sets of timed launches: where they lie and what they hold.
 *
 * Inputs lie in one mapping that device code can only read; what launches write lies in another; the content that sets are restored
 * from, what is swept and our lists in a third, which is read-only as well. Where anything lies is drawn at random for each set-up and
 * known to nobody: every buffer at a multiple of 256 bytes as a caller's allocator would give it, sets in no order, the buffers of each
 * in no order, gaps of random length around them. For each block contents, poison, order and which sets are launched are drawn
 * anew (places are not: they would make samples scatter by more than the differences that are looked for). So nothing can be counted
 * out from a launch's arguments: not where its other buffers are, not where another set's are. Gaps between inputs hold left-over
 * content and look like inputs; gaps between the others hold the poison that outputs hold. Nor can a launch look around: nothing tells
 * where the mappings end, and around them is nothing, so a kernel that reads beyond its buffers, to fetch or to do what other launches
 * will need, meets an end within about as many launches as there are sets. Some sets are never launched in a block; nothing tells
 * them from the others, and they must be as they were afterwards (cuda_sets_check.c).
 */
#include "core/hash.h"
#include "core/rng.h"
#include "gpu/device/cuda_sets.h"

#include <string.h>

/* cuMemAlloc gives no less. */
#define STEP ((size_t)256)
#define GAP_STEPS 8                   /* between buffers of a set, at most and never less than one; a power of two */
#define SHARE_OF_FREE 2               /* sets take at most this fraction (1/n) of the free memory */
#define STREWN 1024                   /* inputs, before the first block */
#define WORDS_FROM 4096               /* bytes; windows of smaller tensors begin at single elements: more of them differ */

struct slot { int set, buffer; };
struct between { CUdeviceptr at; size_t bytes; };

void cuda_sets_free(struct cuda_sets *s)
{
    if (!s)
        return;
    if (!s->device->dead) {
        if (s->graph)
            cu.cuGraphExecDestroy(s->graph);
        arena_done(&s->fixed);
        arena_done(&s->open);
        arena_done(&s->own);
        if (s->begin)
            cu.cuEventDestroy(s->begin);
        if (s->end)
            cu.cuEventDestroy(s->end);
    }
    free(s->windows);
    free(s->pieces);
    free(s->order);
    free(s->slots);
    free(s->shuffled);
    free(s->at);
    free(s->seen);
    free(s->between);
    free(s);
}
DEFINE_CLEANUP(sets, struct cuda_sets *, cuda_sets_free(*it))

static size_t steps(int64_t bytes)
{
    return ((size_t)bytes + STEP - 1) / STEP;
}

void sets_addresses(const struct device_program *p, int set, CUdeviceptr *ret)
{
    memcpy(ret, p->sets->at + (size_t)set * (size_t)p->buffer_count, (size_t)p->buffer_count * sizeof *ret);
}

/* ---- how much ---- */

/* What a set takes of either mapping, in steps; and in how many buffers. */
struct need { size_t steps; int buffers; };

static struct need need_of(const struct device_program *p, bool writable)
{
    struct need n = {0, 0};
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].bytes && p->buffers[i].writable == writable)
            n.steps += steps(p->buffers[i].bytes), n.buffers++;
    return n;
}

static bool choose_count(const struct device_program *p, const struct device_time_setup *how, struct cuda_sets *s,
                         struct device_fault *fault, struct err *err)
{
    size_t free_bytes = 0, total_bytes = 0, set_bytes = (need_of(p, true).steps + need_of(p, false).steps + 1) * STEP;
    if (how->max_sets < 2)
        return err_set(err, ERR_INVALID, "timing needs at least two sets of buffers");
    if (!CU(err, cuMemGetInfo, &free_bytes, &total_bytes))
        return false;
    int64_t wanted = how->rotate_bytes_least / (int64_t)set_bytes + 2, most = (int64_t)(free_bytes / SHARE_OF_FREE / set_bytes);
    /* What others hold is nobody's fault here; what no card of this size has room for is the candidate's. */
    if (most < 2 && (int64_t)(total_bytes / SHARE_OF_FREE / set_bytes) >= 2)
        return err_set(err, ERR_UNAVAILABLE, "the card has %zu of its %zu bytes free: two sets of buffers of %zu bytes need half of that",
                       free_bytes, total_bytes, set_bytes);
    if (most < 2)
        return fault_set(fault, VERDICT_RESOURCE_LIMIT, NULL,
                         "two sets of buffers and workspaces (%zu bytes each) do not fit into half of the free memory", set_bytes);
    wanted = wanted > how->max_sets ? how->max_sets : wanted;
    s->count = (int)(wanted > most ? most : wanted);
    return true;
}

/* ---- what lies where ---- */

static void shuffle(struct slot *slots, int n, uint64_t seed)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)rng_below(seed, 1, (uint64_t)i, (uint64_t)i + 1);
        struct slot swap = slots[i];
        slots[i] = slots[k];
        slots[k] = swap;
    }
}

/* Buffers of one kind, of all sets, in the order in which they will lie; how many. */
static int line_up(const struct device_program *p, bool writable, uint64_t seed)
{
    struct cuda_sets *s = p->sets;
    int n = 0;
    for (int k = 0; k < s->count; k++) {
        const int first = n;
        for (int i = 0; i < p->buffer_count; i++)
            if (p->buffers[i].bytes && p->buffers[i].writable == writable)
                s->slots[n++] = (struct slot){s->shuffled[k], i};
        shuffle(s->slots + first, n - first, seed + (uint64_t)k);
    }
    return n;
}

static void gap(struct cuda_sets *s, CUdeviceptr from, CUdeviceptr to)
{
    s->between[s->between_count++] = (struct between){from, to - from};
}

/*
 * Places them over the mapping, one to eight steps apart; what is left over lies where the next is another set's, in shares drawn at
 * random. A set's buffers of a kind share pages as an allocator would have it: pages that are new to a launch cost it time.
 */
static void scatter(const struct device_program *p, const struct arena *a, bool writable, uint64_t seed)
{
    struct cuda_sets *s = p->sets;
    device_set_order(rng_at(seed, 4, 0), s->count, s->shuffled);
    const int n = line_up(p, writable, seed);
    const size_t all = a->bytes / STEP - need_of(p, writable).steps * (size_t)s->count - 1;
    size_t within = 0, at = 0;
    uint64_t sum = 0, so_far = 0;
    CUdeviceptr after = a->at;
    for (int i = 0; i < n; i++) {
        within += 1 + (rng_at(seed, 2, (uint64_t)i) & (GAP_STEPS - 1));
        sum += i == 0 || s->slots[i].set != s->slots[i - 1].set ? rng_at(seed, 3, (uint64_t)i) >> 40 : 0;
    }
    sum += (rng_at(seed, 3, (uint64_t)n) >> 40) + 1;
    for (int i = 0; i < n; i++) {
        const struct slot *k = &s->slots[i];
        at += 1 + (rng_at(seed, 2, (uint64_t)i) & (GAP_STEPS - 1));
        so_far += i == 0 || k->set != k[-1].set ? rng_at(seed, 3, (uint64_t)i) >> 40 : 0;
        CUdeviceptr here = a->at + (at + (size_t)((unsigned __int128)(all - within) * so_far / sum)) * STEP;
        s->at[(size_t)k->set * (size_t)p->buffer_count + (size_t)k->buffer] = here;
        if (writable)
            gap(s, after, here);
        after = here + (size_t)p->buffers[k->buffer].bytes;
        at += steps(p->buffers[k->buffer].bytes);
    }
    if (writable)
        gap(s, after, a->at + a->bytes);
}

int sets_pieces(const struct device_program *p, int buffer)
{
    return buffer < p->tensor_count && p->sets->mix[buffer] && p->tensors[buffer].span_elements > 1 ? 2 : 1;
}

/*
 * Windows by whole 16-byte words where a tensor of some size has them, so that restoring is wide copies. Each is a quarter of the tensor at
 * least, and begins anywhere that leaves it whole; of few elements, which leave no choice, they come to a rotation.
 */
static struct device_windows draw_windows(const struct device_program *p, int t, uint64_t seed, uint64_t set)
{
    const struct tensor *tensor = &p->tensors[t];
    const int64_t step = tensor->bytes % 16 == 0 && tensor->bytes >= WORDS_FROM ? 16 / dtype_bytes(tensor->dtype) : 1, places = tensor->span_elements / step;
    const uint64_t lane = (uint64_t)t * 4;
    if (sets_pieces(p, t) == 1)
        return (struct device_windows){.cut = tensor->span_elements};
    int64_t cut = 1 + (int64_t)rng_below(seed, lane, set, (uint64_t)places - 1), first = places - cut, second = 0;
    if (places >= 4) {
        cut = places / 4 + (int64_t)rng_below(seed, lane, set, (uint64_t)(places / 2 + 1));
        first = (int64_t)rng_below(seed, lane + 1, set, (uint64_t)(places - cut + 1));
        second = (int64_t)rng_below(seed, lane + 2, set, (uint64_t)cut + 1);
    }
    return (struct device_windows){.cut = cut * step, .first = first * step, .second = second * step};
}

static void draw_contents(const struct device_program *p, uint64_t seed)
{
    struct cuda_sets *s = p->sets;
    for (int set = 0; set < s->count; set++)
        for (int t = 0; t < p->tensor_count; t++) {
            struct device_windows *w = &s->windows[set * s->tensor_count + t];
            const int content = (int)rng_below(seed, 0x636f, (uint64_t)set, (uint64_t)s->contents);
            *w = draw_windows(p, t, seed, (uint64_t)set);
            w->content = s->base[content][t] ? content : 0;
        }
}

static void content(const struct device_program *p, int set, bool writable)
{
    struct cuda_sets *s = p->sets;
    for (int i = 0; i < p->buffer_count; i++) {
        const struct program_buffer *b = &p->buffers[i];
        if (!b->bytes || b->writable != writable)
            continue;
        const CUdeviceptr at = s->at[(size_t)set * (size_t)p->buffer_count + (size_t)i], to = writable ? at : at - s->fixed.at + s->fixed.back;
        struct piece piece = {.to = to, .bytes = (uint64_t)b->bytes, .pattern = s->poison, .element = b->tensor ? (uint32_t)dtype_bytes(b->tensor->dtype) : 1};
        if (b->output) {
            s->pieces[s->pieces_end++] = piece;
            continue;
        }
        const struct device_windows *w = &s->windows[set * s->tensor_count + i];
        const CUdeviceptr from = s->base[w->content][i];
        const uint64_t cut = sets_pieces(p, i) > 1 ? (uint64_t)w->cut * piece.element : piece.bytes;
        piece.bytes = cut, piece.from = from + (uint64_t)w->first * piece.element;
        s->pieces[s->pieces_end++] = piece;
        if (sets_pieces(p, i) == 1)
            continue;
        piece.to = to + cut, piece.bytes = (uint64_t)b->bytes - cut, piece.from = from + (uint64_t)w->second * piece.element;
        s->pieces[s->pieces_end++] = piece;
    }
}

/* Each launch's results as pieces to be summed: equal bytes of different buffers count differently. */
static void results(const struct device_program *p, int launches)
{
    struct cuda_sets *s = p->sets;
    for (int n = 0; n < launches; n++)
        for (int i = 0; i < p->tensor_count; i++)
            if (p->buffers[i].bytes && p->buffers[i].writable)
                s->pieces[s->pieces_end++] = (struct piece){.to = s->at[(size_t)s->order[n] * (size_t)p->buffer_count + (size_t)i],
                                                            .bytes = (uint64_t)p->buffers[i].bytes,
                                                            .pattern = rng_mix(s->salt + (uint64_t)i),
                                                            .element = 1,
                                                            .slot = (uint32_t)n};
}

bool sets_draw(struct device_program *p, uint64_t order_seed, int launches, struct err *err)
{
    struct cuda_sets *s = p->sets;
    const uint64_t seed = rng_mix(s->seed ^ rng_mix(order_seed));
    if (launches < 1 || launches > device_most_launches(s->count))
        return err_set(err, ERR_INVALID, "%d launches on %d sets: some of them must stay as they are", launches, s->count);
    device_set_order(order_seed, s->count, s->order);
    s->poison = rng_at(seed, 0x706f, 0) | 1;
    s->salt = random_u64();
    s->pieces_end = 0;
    s->drawn = launches;
    draw_contents(p, seed);
    for (int set = 0; set < s->count; set++)
        content(p, set, false);
    s->gaps = s->pieces_end;
    for (int i = 0; i < s->between_count; i++)
        s->pieces[s->pieces_end++] = (struct piece){.to = s->between[i].at, .bytes = s->between[i].bytes, .pattern = s->poison, .element = 1};
    s->idle = s->pieces_end;
    for (int n = launches; n < s->count; n++)
        content(p, s->order[n], true);
    s->used = s->pieces_end;
    for (int n = 0; n < launches; n++)
        content(p, s->order[n], true);
    s->printed = s->pieces_end;
    results(p, launches);
    s->each = (s->printed - s->used) / launches;
    s->results = (s->pieces_end - s->printed) / launches;
    int numbered = pieces_number(s->pieces, s->pieces_end);
    BUG_ON(numbered != s->pieces_end);
    return true;
}

/* ---- what they hold ---- */

bool sets_restore(struct device_program *p, struct err *err)
{
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    return helper_upload(d, s->list, s->pieces, (size_t)s->pieces_end * sizeof *s->pieces, err) &&
           helper_pieces(d, d->restore, s->list, s->pieces, s->printed, 0, err);
}

bool sets_restore_used(struct device_program *p, struct err *err)
{
    struct cuda_sets *s = p->sets;
    const size_t from = (size_t)s->used * sizeof *s->pieces;
    return helper_pieces(p->device, p->device->restore, s->list + from, s->pieces + s->used, s->printed - s->used, 0, err);
}

bool sets_sweep(struct device *d, const struct cuda_sets *s, struct err *err)
{
    uint64_t words = s->sweep_bytes / 16;
    CUdeviceptr from = s->sweep;
    void *args[] = {&from, &words, &d->found};
    return helper_launch(d, d->read, 4 * (unsigned)d->info.sm_count, 512, 0, args, err);
}

bool sets_flush(struct device *d, const struct cuda_sets *s, struct err *err)
{
    struct piece all = {.to = s->sweep - s->own.at + s->own.back, .bytes = s->sweep_bytes};
    return helper_restore(d, &all, 1, err) && CU(err, cuMemsetD8Async, d->pieces, 0, d->pieces_bytes, d->stream) && sets_sweep(d, s, err);
}

/* ---- set-up ---- */

static const void *content_of(const struct device_time_setup *how, int content, int t)
{
    return !content ? how->tensors[t] : how->more[content - 1] ? how->more[content - 1][t] : NULL;
}

static bool make_memory(struct device_program *p, const struct device_time_setup *how, struct err *err)
{
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    const struct need in = need_of(p, false), out = need_of(p, true);
    const size_t count = (size_t)s->count, inputs = in.steps * STEP * count,
                 buffers = (size_t)(in.buffers + out.buffers) * count, pieces = 2 * buffers + 2 * count * (size_t)out.buffers + 2 + STREWN;
    size_t own = s->sweep_bytes + steps((int64_t)(pieces * sizeof *s->pieces)) * STEP + steps((int64_t)((count + REPLAYS + 2) * sizeof(uint64_t))) * STEP;
    for (int t = 0; t < p->tensor_count; t++)
        for (int c = 0; c < s->contents && !p->buffers[t].output; c++)
            own += content_of(how, c, t) ? steps(p->buffers[t].bytes) * STEP : 0;
    s->windows = xarray(count * (size_t)(s->tensor_count ? s->tensor_count : 1), sizeof *s->windows);
    s->at = xarray(count * (size_t)(p->buffer_count ? p->buffer_count : 1), sizeof *s->at);
    s->slots = xarray(buffers + 1, sizeof *s->slots);
    s->shuffled = xarray(count, sizeof *s->shuffled);
    s->order = xarray(count, sizeof *s->order);
    s->pieces = xarray(pieces, sizeof *s->pieces);
    s->pieces_most = pieces;
    s->between = xarray((size_t)out.buffers * count + 1, sizeof *s->between);
    s->seen = xarray(count + REPLAYS + 2, sizeof *s->seen);
    return arena_make(d, inputs + (size_t)in.buffers * count * GAP_STEPS * STEP + STEP, true, &s->fixed, err) &&
           arena_make(d, (out.steps + (size_t)out.buffers * GAP_STEPS) * STEP * count + STEP, false, &s->open, err) &&
           arena_make(d, own, true, &s->own, err) && CU(err, cuEventCreate, &s->begin, CU_EVENT_DEFAULT) &&
           CU(err, cuEventCreate, &s->end, CU_EVENT_DEFAULT);
}

/* Base content all over where inputs will lie, whole tensors in no order: the first launches find what later ones do. */
static bool strew(struct device_program *p, struct err *err)
{
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    const size_t inputs = need_of(p, false).steps * STEP;
    size_t at = 0;
    int n = 0;
    for (; inputs && n < STREWN && at < s->fixed.bytes; n++) {
        int t = (int)(random_u64() % (uint64_t)p->tensor_count);
        const struct program_buffer *b = &p->buffers[t];
        size_t bytes = (size_t)b->bytes < s->fixed.bytes - at ? (size_t)b->bytes : s->fixed.bytes - at;
        /* A large tensor is as likely to be met at a place as it is large. */
        if (!bytes || b->writable || random_u64() % inputs > bytes)
            continue;
        s->pieces[n] = (struct piece){.to = s->fixed.back + at, .from = s->base[0][t], .bytes = bytes, .element = 1};
        at += bytes < 16 ? 16 : bytes / 16 * 16;       /* the next begins within its last bytes rather than leave a hole */
    }
    if (!at)
        return true;
    n = pieces_number(s->pieces, n);
    if (!helper_restore(d, s->pieces, n, err))
        return false;
    for (n = 0; n < STREWN && at < s->fixed.bytes; n++, at *= 2) {
        const size_t left = s->fixed.bytes - at;
        struct piece again = {.to = s->fixed.back + at, .from = s->fixed.back, .bytes = at < left ? at : left, .element = 1};
        if (!helper_restore(d, &again, 1, err))
            return false;
    }
    return true;
}

/* The base content, where everything lies, and no left-over memory of others anywhere. Addresses of ours stay in no memory but our own. */
static bool fill(struct device_program *p, const struct device_time_setup *how, struct err *err)
{
    struct cuda_sets *s = p->sets;
    struct device *d = p->device;
    CUdeviceptr at = s->own.at + s->sweep_bytes;
    const CUdeviceptr back = s->own.back - s->own.at;           /* from where it is read to where it is written */
    struct piece clean[] = {{.to = s->own.back, .bytes = s->sweep_bytes}, {.to = s->fixed.back, .bytes = s->fixed.bytes}};
    s->sweep = s->own.at;
    for (int t = 0; t < p->tensor_count; t++) {
        const struct program_buffer *b = &p->buffers[t];
        for (int c = 0; c < s->contents && !b->output && b->bytes; c++) {
            if (!content_of(how, c, t))
                continue;
            s->base[c][t] = at;
            at += steps(b->bytes) * STEP;
            if (!helper_upload(d, s->base[c][t] + back, content_of(how, c, t), (size_t)b->bytes, err))
                return err_wrap(err, "content %d of %s", c, b->name);
        }
    }
    s->list = at + back;
    s->sums = s->list + steps((int64_t)(s->pieces_most * sizeof *s->pieces)) * STEP;
    scatter(p, &s->fixed, false, random_u64());
    scatter(p, &s->open, true, random_u64());
    return helper_restore(d, clean, 2, err) && strew(p, err) && CU(err, cuStreamSynchronize, d->stream) &&
           (!d->pieces || CU(err, cuMemsetD8Async, d->pieces, 0, d->pieces_bytes, d->stream));
}

bool cuda_time_setup(struct device_program *p, const struct device_time_setup *how, int *ret_sets,
                     struct device_fault *fault, struct err *err)
{
    if (!cuda_alive(p->device, err))
        return false;
    cuda_sets_free(steal(&p->sets));
    cleanup(sets) struct cuda_sets *s = xalloc(sizeof *s);
    s->device = p->device;
    s->tensor_count = p->tensor_count;
    s->exact = how->exact;
    s->seed = how->seed;
    s->sweep_bytes = ((size_t)p->device->info.l2_bytes * 2 + STEP - 1) / STEP * STEP;
    for (int t = 0; t < p->tensor_count; t++)
        s->mix[t] = how->mix[t] && !p->buffers[t].output;
    s->contents = how->contents < 1 ? 1 : how->contents > DEVICE_MAX_CONTENTS ? DEVICE_MAX_CONTENTS : how->contents;
    if (!choose_count(p, how, s, fault, err))
        return false;
    if (fault->code != VERDICT_OK)
        return true;
    p->sets = s;
    bool ok = make_memory(p, how, err) && fill(p, how, err);
    p->sets = NULL;
    if (!ok)
        return err_wrap(err, "buffers for timing");
    *ret_sets = s->count;
    p->sets = steal(&s);
    return true;
}
