/*
 * A sample of the blocks, where all of them would take too long. A launch begins as any other, in order; after a part of its budget it is
 * clear what a block takes. Where all would go far beyond, those that have run stay, and of the others some are drawn from the seed, one
 * in each of as many equal stretches; the last, the one before it and the corners of the grid are always among them. A cluster is one.
 *
 * Only what other blocks do not need may be left out: blocks that can pass something on to one another (ptx_talks) run all or not at all.
 * What only a later launch needs is the caller's to see to: struct ptx_buffer, `partial`. A cluster that is left out because it needs
 * what is missing has perhaps stored something before it came to that, some of its warps or lanes and not others, as their turns were: all
 * of that is unsaid, or two runs of the same sample would store different things.
 */
#include "core/clock.h"
#include "gpu/ptx/machine.h"
#include "gpu/ptx/opcode.h"

#include <string.h>

#define PILOT 8                 /* parts of the budget until it is decided */
#define SHARE 4                 /* parts of the budget that a sample takes */
#define LEAST_DRAWN 4
#define ALWAYS 10               /* most that are not drawn */
#define MOST_NOTED (1u << 18)   /* stores of a cluster that can be undone */

/* ---- may a block need another one? ---- */

static bool orders_blocks(const char *name)
{
    static const char *const marks[] = {".acquire", ".release", ".acq_rel", ".relaxed", ".volatile", ".mmio", ".cv"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(name, marks[i]))
            return true;
    return false;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static const char *talks(const struct ptx_module *m, const struct function *f)
{
    for (uint32_t i = f->stmt_first; i < f->stmt_first + f->stmt_count; i++) {
        const char *name = ptx_name(m, m->stmts[i].opcode);
        const bool memory = begins(name, "ld.") || begins(name, "st."), combines = begins(name, "atom.") || begins(name, "red.");
        if (begins(name, "multimem.") || begins(name, "cp.reduce.") || begins(name, "griddepcontrol."))
            return name;
        if ((combines || (memory && orders_blocks(name))) && !strstr(name, ".shared"))
            return name;
    }
    return NULL;
}

/* Other entries aside: whatever the kernel may call counts. */
const char *ptx_talks(const struct ptx_module *m, const char *kernel)
{
    const char *found = NULL;
    for (uint32_t i = 0; i < m->function_count && !found; i++) {
        const struct function *f = &m->functions[i];
        if (f->has_body && (!f->is_entry || strcmp(ptx_name(m, f->name), kernel) == 0))
            found = talks(m, f);
    }
    return found;
}

/* ---- which ---- */

struct drawn { uint64_t *list; uint64_t count; };

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void add(struct drawn *d, uint64_t unit, uint64_t low, uint64_t high)
{
    if (unit >= low && unit < high)
        d->list[d->count++] = unit;
}

/* They are there whatever the seed: what they stored says nothing of those that were not drawn. */
static bool is_corner(const uint64_t size[3], uint64_t unit)
{
    const uint64_t at[3] = {unit % size[0], unit / size[0] % size[1], unit / size[0] / size[1]};
    bool corner = true;
    for (int i = 0; i < 3; i++)
        corner = corner && (at[i] == 0 || at[i] == size[i] - 1);
    return corner || unit == 1 || unit == size[0] * size[1] * size[2] - 2;
}

static void grid_size(const struct machine *m, uint64_t ret[3])
{
    for (int i = 0; i < 3; i++)
        ret[i] = m->launch->grid[i] / m->cluster[i];
}

static void add_corners(struct drawn *d, const uint64_t size[3], uint64_t low, uint64_t high)
{
    const uint64_t all = size[0] * size[1] * size[2];
    for (unsigned n = 0; n < 8; n++)
        add(d, (n & 1 ? size[0] - 1 : 0) + size[0] * ((n & 2 ? size[1] - 1 : 0) + size[1] * (n & 4 ? size[2] - 1 : 0)), low, high);
    add(d, 1, low, high);
    add(d, all - 2, low, high);
}

static void sort_once(struct drawn *d)
{
    uint64_t kept = 0;
    qsort(d->list, d->count, sizeof *d->list, by_number);
    for (uint64_t i = 0; i < d->count; i++)
        if (!kept || d->list[kept - 1] != d->list[i])
            d->list[kept++] = d->list[i];
    d->count = kept;
}

/* One of each of `wanted` stretches of [low, high), times `wide` units from there on. */
static void add_drawn(struct drawn *d, uint64_t *state, uint64_t low, uint64_t high, uint64_t wanted, uint64_t wide)
{
    for (uint64_t n = 0; n < wanted; n++) {
        const uint64_t from = low + (uint64_t)((double)(high - low) * (double)n / (double)wanted);
        const uint64_t to = low + (uint64_t)((double)(high - low) * (double)(n + 1) / (double)wanted);
        const uint64_t at = from + (to > from ? draw(state) % (to - from) : 0);
        for (uint64_t k = 0; k < wide; k++)
            d->list[d->count++] = at * wide + k;
    }
}

/* All between `first` and `last` that run: what is drawn of those between `low` and `high`, the rows that have begun beside them, the corners. */
static void list_make(struct ptx_sample *s)
{
    struct drawn d = {.list = xarray(s->wanted * s->wide + ALWAYS + s->wide, sizeof *d.list)};
    uint64_t state = s->seed;
    for (uint64_t n = s->first; n < s->low; n++)
        d.list[d.count++] = n;
    for (uint64_t n = s->high; n < s->last; n++)
        d.list[d.count++] = n;
    add_drawn(&d, &state, s->low / s->wide, s->high / s->wide, s->wanted, s->wide);
    add_corners(&d, s->size, s->first, s->last);
    sort_once(&d);
    free(s->list);
    s->list = d.list, s->count = d.count;
}

void ptx_sample_redraw(struct ptx_sample *s, uint64_t seed)
{
    if (!s->taken || s->seed == seed)
        return;
    s->seed = seed;
    list_make(s);
}

/*
 * After `done` clusters that took that part of the budget. False: all of them may as well run. The numbers of what is left are [low, high).
 * By rows: clusters of equal y and z together, since what comes next joins their results.
 */
static bool choose(struct machine *m, uint64_t done, double used)
{
    struct ptx_sample *s = m->sample;
    uint64_t size[3];
    grid_size(m, size);
    const uint64_t all = size[0] * size[1] * size[2], wide = s->rows && all / size[0] >= 2 * LEAST_DRAWN ? size[0] : 1;
    const double left = 1.0 / SHARE - used, each = used / (double)done, wish = left > 0.5 / PILOT ? left : 0.5 / PILOT;
    if (each * (double)all <= 1)
        return false;
    uint64_t wanted = wish > each ? (uint64_t)(wish / each) / wide : 0;
    wanted = wanted < LEAST_DRAWN ? LEAST_DRAWN : wanted;
    const bool down = m->seed & PTX_SEED_DESCENDING;
    const uint64_t low = down ? 0 : (done + wide - 1) / wide * wide, high = down ? (all - done) / wide * wide : all;
    if (low >= high || wanted >= (high - low) / wide / 2)
        return false;
    struct drawn corners = {.list = (uint64_t[ALWAYS]){0}};
    add_corners(&corners, size, low, high);
    sort_once(&corners);
    s->corners = corners.count, s->wide = wide, s->wanted = wanted;
    s->low = low, s->high = high;
    s->taken = true;
    s->first = down ? 0 : done;
    s->last = down ? all - done : all;
    memcpy(s->size, size, sizeof s->size);
    list_make(s);
    return true;
}

/* Part of the budget that is used: of instructions or of time, whichever is more of its own. */
static double used_of(const struct machine *m)
{
    const double instructions = (double)atomic_load(&m->instructions) / (double)m->sample->budget;
    const double time = m->sample->cpu_ns ? (double)(clock_cpu_ns() - m->sample_cpu_ns) / (double)m->sample->cpu_ns : 0;
    return instructions > time ? instructions : time;
}

/* Of those that a sample of this many takes, the n-th, ascending. */
static bool nth(const struct ptx_sample *s, uint64_t all, uint64_t n, uint64_t *ret)
{
    if (n < s->first)
        *ret = n;
    else if (n - s->first < s->count)
        *ret = s->list[n - s->first];
    else
        *ret = s->last + (n - s->first - s->count);
    return *ret < all;
}

static bool is_drawn(const struct machine *m, uint64_t unit)
{
    const struct ptx_sample *s = m->sample;
    uint64_t size[3];
    grid_size(m, size);
    return s->taken && unit >= s->low && unit < s->high && !is_corner(size, unit);
}

bool sample_next(struct machine *m, uint64_t all, uint64_t *ret_turn, uint64_t *ret_unit, bool *ret_drawn)
{
    struct ptx_sample *s = m->sample;
    const bool down = m->seed & PTX_SEED_DESCENDING;
    *ret_drawn = false;
    if (!s) {
        *ret_turn = atomic_fetch_add(&m->next_block, 1);
        *ret_unit = down ? all - 1 - *ret_turn : *ret_turn;
        return *ret_turn < all;
    }
    pthread_mutex_lock(&m->sample_lock);
    const uint64_t turn = *ret_turn = atomic_fetch_add(&m->next_block, 1);
    const double used = s->taken ? 0 : used_of(m);
    bool more = turn < all;
    if (more && turn && used > m->sample_look) {
        m->sample_drawn = choose(m, turn, used);
        m->sample_look = used * 2;
        m->sample_from = turn;
    }
    if (!s->taken) {
        *ret_unit = down ? all - 1 - turn : turn;
    } else if (m->sample_drawn) {                        /* decided in this run: what is drawn is what is left */
        const uint64_t n = turn - m->sample_from;
        more = n < s->count;
        *ret_unit = more ? s->list[down ? s->count - 1 - n : n] : 0;
    } else {
        const uint64_t count = s->first + s->count + (all - s->last);
        more = turn < count && nth(s, all, down ? count - 1 - turn : turn, ret_unit);
    }
    *ret_drawn = more && is_drawn(m, *ret_unit);
    pthread_mutex_unlock(&m->sample_lock);
    return more;
}

/* ---- what a cluster stored that was left out ---- */

void sample_note(struct worker *k, uint32_t region, uint64_t offset, uint64_t bytes)
{
    struct noted_stores *n = &k->noted;
    struct noted_store *last = n->count ? &n->list[n->count - 1] : NULL;
    if (last && last->region == region && last->offset + last->bytes == offset && last->bytes + bytes < UINT32_MAX) {
        last->bytes += (uint32_t)bytes;
        return;
    }
    if (n->count == n->room && n->room < MOST_NOTED) {
        n->room = n->room ? n->room * 2 : 256;
        n->list = xrealloc(n->list, n->room * sizeof *n->list);
    }
    if (n->count < n->room)
        n->list[n->count] = (struct noted_store){offset, (uint32_t)bytes, region};
    n->count += n->count <= MOST_NOTED;         /* one more than there is room for: too many */
}

static bool undo(struct worker *k)
{
    const struct noted_stores *n = &k->noted;
    for (uint32_t i = 0; i < n->count && i < n->room; i++) {
        const struct noted_store *s = &n->list[i];
        const struct region *r = &k->machine->regions[s->region];
        if (r->initialised)
            bits_clear(r->initialised, s->offset, s->bytes);
        if (r->tags)
            memset(r->tags + s->offset, 0, s->bytes);
    }
    return n->count <= MOST_NOTED;
}

bool sample_ended(struct worker *k, bool drawn, bool left_out)
{
    const struct machine *m = k->machine;
    const bool undone = !left_out || undo(k);
    k->noted.count = 0;
    k->counts.left_out_blocks += left_out ? m->cluster_size : 0;
    if (drawn && !left_out)
        k->counts.drawn_blocks += m->cluster_size;
    for (int r = 0; m->sample && r < m->region_count; r++) {
        struct tagged *t = &k->tagged[r];
        if (drawn && !left_out) {
            t->bytes += (double)t->fresh;
            t->squares += (double)t->fresh * (double)t->fresh;
        }
        t->fresh = 0;
    }
    return undone;
}

void sample_open(struct machine *m, struct ptx_sample *wanted)
{
    pthread_mutex_init(&m->sample_lock, NULL);
    m->sample_look = 1.0 / PILOT;
    m->sample_cpu_ns = clock_cpu_ns();
    m->sample = wanted && (wanted->taken || wanted->budget) && !m->history && !m->launch->dependent && !ptx_talks(m->module, m->launch->kernel) ? wanted : NULL;
}

void sample_close(struct machine *m)
{
    pthread_mutex_destroy(&m->sample_lock);
}

void ptx_sample_done(struct ptx_sample *s)
{
    free(s->list);
    *s = (struct ptx_sample){.budget = 0};
}

/* ---- what all of them would come to ---- */

void ptx_counts_scale(struct ptx_counts *c, uint64_t blocks, uint64_t most_sectors)
{
    if (!c->blocks || c->blocks >= blocks)
        return;
    const struct ptx_counts part = *c;
    const double by = (double)blocks / (double)part.blocks;
    uint64_t *fields = (uint64_t *)c;   /* all fields are uint64_t */
    for (size_t i = 0; i < sizeof *c / sizeof *fields; i++)
        fields[i] = (uint64_t)((double)fields[i] * by);
    c->longest_warp_instructions = part.longest_warp_instructions;
    c->dependent_loads = part.dependent_loads;
    c->waited_grid = part.waited_grid;
    c->reads_later = part.reads_later;
    c->shadow_bytes = part.shadow_bytes;
    c->modelled_blocks = part.modelled_blocks;
    c->blocks = blocks;
    c->unique_load_sectors = c->unique_load_sectors < most_sectors ? c->unique_load_sectors : most_sectors;
    c->unique_store_sectors = c->unique_store_sectors < most_sectors ? c->unique_store_sectors : most_sectors;
    c->dram_load_sectors = c->dram_load_sectors < most_sectors ? c->dram_load_sectors : most_sectors;
}
