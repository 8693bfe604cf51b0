/*
 * Counting in depth: the caches' model and counts by instruction. See depth.h.
 *
 * Blocks go to the SMs in turn (block n to SM n mod their number), which is what a card does in its first wave and about what it
 * does later. An SM's L1 sees its blocks one after the other, L2 all blocks in order; both are empty at the start. L1 is what the
 * SM's memory has left beside the shared memory of the blocks that fit; it is written through and keeps nothing that was only
 * stored. What L2 still holds changed at the end is written to DRAM later, in the time of whoever comes next: it counts as ours.
 */
#include "gpu/ptx/depth.h"
#include "gpu/ptx/async.h"
#include "gpu/ptx/cache.h"

#include <pthread.h>
#include <string.h>

#define MODEL_ENTRIES (UINT64_C(24) << 20)  /* line accesses that the model follows; later blocks are taken to be like the ones before */
#define BLOCK_ENTRIES (UINT32_C(1) << 19)   /* of one block */
#define WINDOW 64                           /* units that may wait for a lower one */
#define L1_LEAST (32 * 1024)

enum reach { REACH_L1, REACH_L2, REACH_STORE, REACH_ATOMIC };

/* One line of one warp access: line << 12 | block's rank in its cluster << 8 | sectors << 4 | reach. */
struct trace { uint64_t *entries; uint32_t count, capacity; bool too_long; };

struct stmt_counts { uint64_t accesses, sectors, asked_sectors, shared_requests, shared_wavefronts; };

struct depth {
    struct ptx_depth *wanted;
    const struct machine *machine;
    uint8_t *past_l1;               /* by statement: it does not look in L1 */
    struct cache *l1, l2;
    int sm_count;
    uint64_t l1_hits, l2_loads, l2_load_hits, l2_stores, dram_loads, dram_stores, followed, blocks;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct trace waiting[WINDOW];
    bool ready[WINDOW];
    uint64_t next;                  /* the unit that the model waits for */
    bool full, broken;
};

struct depth_worker {
    struct trace trace;
    uint64_t last_sectors, last_requests, last_wavefronts;   /* of the worker's counts, when they were last looked at */
    uint32_t last_stmt;
    struct stmt_counts *by_stmt;    /* NULL: not wanted */
};

/* ---- the model ---- */
static void apply(struct depth *d, uint64_t unit, uint64_t entry)
{
    const uint64_t line = entry >> 12, block = unit * d->machine->cluster_size + (entry >> 8 & 15);
    const unsigned mask = entry >> 4 & 15;
    const enum reach reach = (enum reach)(entry & 15);
    struct cache *l1 = &d->l1[block % (uint64_t)d->sm_count];
    unsigned rest = mask;
    d->followed++;
    if (reach == REACH_L1) {
        const unsigned hit = cache_use(l1, line, mask, false).hit;
        d->l1_hits += (unsigned)__builtin_popcount(hit);
        rest = mask & ~hit;
    }
    if (!rest)
        return;
    const struct cache_answer answer = cache_use(&d->l2, line, rest, reach >= REACH_STORE);
    const unsigned misses = (unsigned)__builtin_popcount(rest & ~answer.hit), all = (unsigned)__builtin_popcount(rest);
    d->dram_stores += answer.written_back;
    if (reach == REACH_STORE) {
        d->l2_stores += all;
        return;
    }
    d->l2_loads += all;
    d->l2_stores += reach == REACH_ATOMIC ? all : 0;
    d->l2_load_hits += all - misses;
    d->dram_loads += misses;
}

static void apply_unit(struct depth *d, uint64_t unit, struct trace *t)
{
    if (t->too_long || d->followed + t->count > MODEL_ENTRIES)
        d->full = true;
    for (uint32_t n = 0; n < t->count && (!d->full || !d->blocks); n++)   /* of a first unit that is too long as much as there is */
        apply(d, unit, t->entries[n]);
    d->blocks += !d->full || !d->blocks ? d->machine->cluster_size : 0;
    t->count = 0;
    t->too_long = false;
}

/* ---- a warp's access to lines ---- */
static void trace_add(struct trace *t, uint64_t entry)
{
    if (t->count == t->capacity) {
        if (t->count >= BLOCK_ENTRIES) {
            t->too_long = true;
            return;
        }
        t->capacity = t->capacity ? t->capacity * 2 : 1024;
        t->entries = xrealloc(t->entries, t->capacity * sizeof *t->entries);
    }
    t->entries[t->count++] = entry;
}

/* Sectors of `bytes` at `address`, within its lines, joined to those of the same warp's lanes before. Returns how many lines there are. */
static unsigned join(uint64_t *lines, uint8_t *masks, unsigned count, uint64_t address, unsigned bytes)
{
    for (uint64_t sector = address >> 5; sector <= (address + bytes - 1) >> 5; sector++) {
        const uint64_t line = sector >> 2;
        unsigned n = count;
        while (n && lines[n - 1] != line)
            n--;
        if (!n) {
            lines[count] = line;
            masks[count] = 0;
            n = ++count;
        }
        masks[n - 1] |= (uint8_t)(1u << (sector & 3));
    }
    return count;
}

static void count_stmt(struct worker *k, uint32_t stmt)
{
    struct depth_worker *x = k->depth;
    const struct ptx_counts *c = &k->counts;
    const uint64_t sectors = c->global_load_sectors + c->global_store_sectors;
    if (x->last_stmt != UINT32_MAX) {
        struct stmt_counts *s = &x->by_stmt[x->last_stmt];
        s->sectors += sectors - x->last_sectors;
        s->shared_requests += c->shared_requests - x->last_requests;
        s->shared_wavefronts += c->shared_wavefronts - x->last_wavefronts;
    }
    x->last_sectors = sectors;
    x->last_requests = c->shared_requests;
    x->last_wavefronts = c->shared_wavefronts;
    x->last_stmt = stmt;
}

void depth_access(struct warp *w, const struct insn *i, uint32_t active)
{
    struct worker *k = w->block->worker;
    const struct machine *m = k->machine;
    struct depth *d = m->depth;
    struct depth_worker *x = k->depth;
    if (x->by_stmt)
        count_stmt(k, i->stmt);
    if (!active || (i->kind != K_LD && i->kind != K_ST && i->kind != K_ATOM && i->kind != K_CP_ASYNC) ||
        (i->space != SPACE_GLOBAL && i->space != SPACE_GENERIC && i->kind != K_CP_ASYNC))
        return;
    const bool copy = i->kind == K_CP_ASYNC;
    const uint32_t from = copy ? i->b : i->a;
    const uint64_t *base = from ? (const uint64_t *)slot(w, from) : NULL;
    const unsigned bytes = i->kind == K_LD || i->kind == K_ST ? i->size * (unsigned)i->vec : i->size;
    uint64_t lines[WARP_LANES * 2 + 2];
    uint8_t masks[WARP_LANES * 2 + 2];
    unsigned count = 0, lanes = 0;
    for (uint32_t rest = active; rest; rest &= rest - 1) {
        const uint64_t address = (base ? base[first_lane(rest)] : 0) + (copy ? 0 : (uint64_t)i->imm);
        if (address >= GRID_WINDOW || !bytes || bytes > 64)
            continue;
        count = join(lines, masks, count, address, bytes);
        lanes++;
    }
    const enum reach reach = i->kind == K_ATOM ? REACH_ATOMIC : i->kind == K_ST ? REACH_STORE : d->past_l1[i->stmt] ? REACH_L2 : REACH_L1;
    for (unsigned n = 0; n < count; n++) {
        const uint64_t entry = lines[n] << 12 | (uint64_t)(w->block->rank & 15) << 8 | (uint64_t)masks[n] << 4 | reach;
        if (m->many)
            trace_add(&x->trace, entry);
        else if (!d->full)
            apply(d, w->block->number / m->cluster_size, entry);
    }
    if (!m->many && d->followed > MODEL_ENTRIES)
        d->full = true;
    if (x->by_stmt && count) {
        struct stmt_counts *s = &x->by_stmt[i->stmt];
        s->accesses++;
        s->asked_sectors += (lanes * bytes + 31) / 32;
    }
}

void depth_stretch(struct warp *w, uint64_t address, uint32_t bytes, bool store)
{
    struct worker *k = w->block->worker;
    const struct machine *m = k->machine;
    struct depth *d = m->depth;
    if (!d || !k->depth)
        return;
    for (uint64_t line = address >> 7; bytes && line <= (address + bytes - 1) >> 7; line++) {
        uint64_t mask = 0;
        for (uint64_t sector = 0; sector < 4; sector++) {
            const uint64_t from = line * 128 + sector * 32;
            mask |= (uint64_t)(from < address + bytes && from + 32 > address) << sector;
        }
        const uint64_t entry = line << 12 | (uint64_t)(w->block->rank & 15) << 8 | mask << 4 | (store ? REACH_STORE : REACH_L2);
        if (m->many)
            trace_add(&k->depth->trace, entry);
        else if (!d->full)
            apply(d, w->block->number / m->cluster_size, entry);
    }
    if (!m->many && d->followed > MODEL_ENTRIES)
        d->full = true;
}

/* ---- units in order ---- */
void depth_unit_end(struct worker *k, uint64_t unit, bool whole)
{
    struct depth *d = k->machine->depth;
    struct depth_worker *x = k->depth;
    if (x->by_stmt)
        count_stmt(k, UINT32_MAX);
    if (!k->machine->many) {
        d->blocks += !d->full || !d->blocks ? k->machine->cluster_size : 0;
        return;
    }
    pthread_mutex_lock(&d->lock);
    if (!whole) {
        d->broken = true;
        pthread_cond_broadcast(&d->moved);
    }
    while (unit - d->next >= WINDOW && !d->broken && !d->full)
        pthread_cond_wait(&d->moved, &d->lock);
    if (!d->broken && !d->full) {
        struct trace *to = &d->waiting[unit % WINDOW], own = *to;
        *to = x->trace;
        x->trace = own;                     /* an empty one, with its memory */
        d->ready[unit % WINDOW] = true;
        while (d->ready[d->next % WINDOW]) {
            d->ready[d->next % WINDOW] = false;
            apply_unit(d, d->next, &d->waiting[d->next % WINDOW]);
            d->next++;
        }
        pthread_cond_broadcast(&d->moved);
    }
    x->trace.count = 0;
    x->trace.too_long = false;
    pthread_mutex_unlock(&d->lock);
}

/* ---- dependency depth ---- */
/* Cycles until a dependent instruction may go: measured on an H200 (tests/bench/card/micro.cu), moves and loads aside. */
static const uint8_t latency_cycles[16] = {
    [PTX_CLASS_INT] = 4, [PTX_CLASS_F32] = 4, [PTX_CLASS_F16] = 4, [PTX_CLASS_F64] = 9, [PTX_CLASS_SFU] = 19, [PTX_CLASS_CONVERT] = 6,
    [PTX_CLASS_CONTROL] = 4, [PTX_CLASS_SHARED] = 29, [PTX_CLASS_LOCAL] = 40, [PTX_CLASS_SHUFFLE] = 23, [PTX_CLASS_BARRIER] = 1,
    [PTX_CLASS_MATRIX] = 32, [PTX_CLASS_OTHER] = 1,
};

static void ready_of(const struct ptx_module *m, const struct operand *o, const uint32_t *ready, uint32_t *latest, int nested)
{
    if (o->kind == O_REG || (o->kind == O_ADDRESS && o->base == O_REG))
        *latest = ready[o->id] > *latest ? ready[o->id] : *latest;
    for (uint32_t k = 0; (o->kind == O_LIST || o->kind == O_PAIR) && k < o->count && nested < 4; k++)
        ready_of(m, &m->operands[o->id + k], ready, latest, nested + 1);
}

static bool has_result(const char *opcode)
{
    static const char *const none[] = {"st.", "bra", "bar", "ret", "exit", "red.", "cp.", "fence", "membar", "call", "trap", "nanosleep"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!strncmp(opcode, none[i], strlen(none[i])))
            return false;
    return true;
}

/*
 * What a warp sleeps, in cycles of a clock that is not slow: the operand where the block says what it is, else the most that PTX allows.
 * A warp that sleeps goes on with nothing.
 */
#define MOST_SLEEP_NS 1000000
#define CYCLES_A_NS 2
#define MOST_CHAIN (1u << 31)
static uint32_t sleep_cycles(const struct ptx_module *m, const struct block_info *b, uint32_t stmt)
{
    const struct operand *o = &m->operands[m->stmts[stmt].first];
    uint64_t ns = o->kind == O_IMM ? (uint64_t)o->imm : MOST_SLEEP_NS;
    for (uint32_t s = stmt; o->kind == O_REG && s > b->stmt_first; s--) {
        const struct stmt *st = &m->stmts[s - 1];
        const struct operand *to = st->count ? &m->operands[st->first] : NULL;
        if (!to || to->kind == O_LIST || to->kind == O_PAIR)    /* it may be among these */
            break;
        if (to->kind != O_REG || to->id != o->id)
            continue;
        if (st->count == 2 && st->pred < 0 && to[1].kind == O_IMM && !strncmp(ptx_name(m, st->opcode), "mov.", 4))
            ns = (uint64_t)to[1].imm;
        break;
    }
    return (uint32_t)(ns < MOST_SLEEP_NS ? ns : MOST_SLEEP_NS) * CYCLES_A_NS;
}

/*
 * Takes a basic block's instructions into account: `ready` is when each register has its value, in cycles. What a register of another
 * block holds is ready when it was. Returns the longest chain that ends here. Loads of global memory count nothing here:
 * dependent_loads has them.
 */
struct chain { uint32_t *ready, barrier, longest; };
static void chain_add(const struct ptx_module *m, const struct block_info *b, struct chain *x)
{
    uint32_t code = b->first + 1;
    for (uint32_t s = b->stmt_first; s < b->stmt_first + b->total && s < m->stmt_count; s++) {
        const struct stmt *st = &m->stmts[s];
        while (code < m->code_count && m->code[code].kind != K_ENTER && m->code[code].stmt < s)
            code++;
        const bool known = code < m->code_count && m->code[code].kind != K_ENTER && m->code[code].stmt == s;
        const unsigned class = known ? m->code[code].class_ & 15u : PTX_CLASS_MOVE;
        const bool result = st->count && has_result(ptx_name(m, st->opcode));
        uint32_t at = x->barrier;
        if (st->pred >= 0)
            at = x->ready[st->pred] > at ? x->ready[st->pred] : at;
        for (uint32_t k = result; k < st->count; k++)
            ready_of(m, &m->operands[st->first + k], x->ready, &at, 0);
        const uint32_t sleeps = st->count && !strncmp(ptx_name(m, st->opcode), "nanosleep", 9) ? sleep_cycles(m, b, s) : 0;
        at += latency_cycles[class] + expanded_latency(m, st) + sleeps;
        at = at < MOST_CHAIN ? at : MOST_CHAIN;
        if (sleeps)
            x->barrier = at;
        x->longest = at > x->longest ? at : x->longest;
        if (class == PTX_CLASS_BARRIER)
            x->barrier = x->longest;
        const struct operand *o = result ? &m->operands[st->first] : NULL;
        const bool several = o && (o->kind == O_LIST || o->kind == O_PAIR);
        for (uint32_t k = 0; o && k < (several ? o->count : 1); k++) {
            const struct operand *item = several ? &m->operands[o->id + k] : o;
            if (item->kind == O_REG)
                x->ready[item->id] = at;
        }
    }
}

/*
 * Cycles of a warp's longest chain: once through the code that any warp went through, in its order; and each block by itself as often
 * again as a warp came back to it.
 */
static uint64_t chains_sum(const struct machine *m, const uint64_t *warps, uint64_t all_warps)
{
    uint64_t sum = 0;
    for (uint32_t f = 0; f < m->module->function_count; f++) {
        const struct function *fn = &m->module->functions[f];
        if (!fn->decoded || (fn->is_entry && fn != m->entry))
            continue;
        cleanup(mem) void *through_memory = xarray(fn->reg_count + 1, sizeof(uint32_t)), *alone_memory = xarray(fn->reg_count + 1, sizeof(uint32_t));
        struct chain through = {.ready = through_memory};
        for (uint32_t b = 0; b < m->module->block_count; b++) {
            const struct block_info *info = &m->module->blocks[b];
            if (!warps[b] || info->first < fn->code_first || info->first >= fn->code_end)
                continue;
            chain_add(m->module, info, &through);
            if (warps[b] > all_warps) {
                struct chain alone = {.ready = alone_memory};
                memset(alone_memory, 0, (fn->reg_count + 1) * sizeof(uint32_t));
                chain_add(m->module, info, &alone);
                sum += (warps[b] - all_warps) * alone.longest;
            }
        }
        sum += through.longest * all_warps;
    }
    return sum;
}

/* ---- by line ---- */
static int by_place(const void *a, const void *b)
{
    const struct ptx_line *x = a, *y = b;
    const int file = strcmp(x->source_file, y->source_file);
    return file ? file : x->source_line != y->source_line ? x->source_line - y->source_line : x->ptx_line - y->ptx_line;
}

static void line_add(struct ptx_line *to, const struct ptx_line *from)
{
    to->thread_instructions += from->thread_instructions;
    to->warp_instructions += from->warp_instructions;
    to->global_accesses += from->global_accesses;
    to->global_sectors += from->global_sectors;
    to->asked_sectors += from->asked_sectors;
    to->shared_requests += from->shared_requests;
    to->shared_wavefronts += from->shared_wavefronts;
}

static void lines_fill(const struct depth *d, const uint64_t *threads, const uint64_t *warps, const struct stmt_counts *by_stmt)
{
    const struct ptx_module *m = d->machine->module;
    struct ptx_line *lines = xarray(m->stmt_count + 1, sizeof *lines);
    int count = 0;
    for (uint32_t b = 0; b < m->block_count; b++)
        for (uint32_t s = m->blocks[b].stmt_first; warps[b] && s < m->blocks[b].stmt_first + m->blocks[b].total && s < m->stmt_count; s++) {
            struct ptx_finding at = {.source_line = -1};
            const struct stmt_counts *c = &by_stmt[s];
            ptx_finding_at(m, s, &at);
            lines[count] = (struct ptx_line){.source_line = at.source_line, .ptx_line = at.ptx_line, .thread_instructions = threads[b],
                                             .warp_instructions = warps[b], .global_accesses = c->accesses, .global_sectors = c->sectors,
                                             .asked_sectors = c->asked_sectors, .shared_requests = c->shared_requests,
                                             .shared_wavefronts = c->shared_wavefronts};
            memcpy(lines[count++].source_file, at.source_file, sizeof at.source_file);
        }
    qsort(lines, (size_t)count, sizeof *lines, by_place);
    int kept = 0;
    for (int n = 0; n < count; n++) { /* statements of one source line together, of one PTX line where there are none */
        const struct ptx_line *last = kept ? &lines[kept - 1] : NULL;
        if (last && last->source_line == lines[n].source_line && !strcmp(last->source_file, lines[n].source_file) &&
            (last->source_line > 0 || last->ptx_line == lines[n].ptx_line))
            line_add(&lines[kept - 1], &lines[n]);
        else
            lines[kept++] = lines[n];
    }
    d->wanted->lines = lines;
    d->wanted->line_count = kept;
}

void ptx_depth_done(struct ptx_depth *d)
{
    free(d->lines);
    d->lines = NULL;
    d->line_count = 0;
}

/* ---- open, close ---- */
static bool looks_past_l1(const char *opcode)
{
    static const char *const marks[] = {".cg", ".cv", ".volatile", ".relaxed", ".acquire", ".mmio"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(opcode, marks[i]))
            return true;
    return false;
}

static size_t l1_bytes(const struct machine *m, const struct ptx_device_row *row)
{
    const uint64_t warps = (m->threads_block + WARP_LANES - 1) / WARP_LANES, shared = m->shared_bytes ? m->shared_bytes + 1024u : 0;
    uint64_t resident = (uint64_t)row->max_warps_sm / warps;
    resident = resident > (uint64_t)row->max_blocks_sm ? (uint64_t)row->max_blocks_sm : resident;
    if (shared && resident > row->shared_bytes_sm / shared)
        resident = row->shared_bytes_sm / shared;
    const uint64_t taken = resident * shared;
    return (size_t)(row->l1_bytes_sm > taken + L1_LEAST ? row->l1_bytes_sm - taken : L1_LEAST);
}

struct depth *depth_open(const struct machine *m, struct ptx_depth *wanted)
{
    if (!wanted || !wanted->device)
        return NULL;
    struct depth *d = xalloc(sizeof *d);
    d->wanted = wanted;
    d->machine = m;
    d->sm_count = wanted->device->sm_count;
    d->past_l1 = xalloc(m->module->stmt_count + 1);
    for (uint32_t s = 0; s < m->module->stmt_count; s++)
        d->past_l1[s] = looks_past_l1(ptx_name(m->module, m->module->stmts[s].opcode));
    if ((uint64_t)d->sm_count > m->total_blocks)
        d->sm_count = (int)m->total_blocks;
    d->l1 = xarray((size_t)d->sm_count, sizeof *d->l1);
    for (int n = 0; n < d->sm_count; n++)
        cache_init(&d->l1[n], l1_bytes(m, wanted->device), 4);
    cache_init(&d->l2, (size_t)wanted->device->l2_bytes, 16);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->moved, NULL);
    return d;
}

struct depth_worker *depth_worker_open(struct depth *d)
{
    if (!d)
        return NULL;
    struct depth_worker *x = xalloc(sizeof *x);
    x->last_stmt = UINT32_MAX;
    if (d->wanted->by_line)
        x->by_stmt = xarray(d->machine->module->stmt_count + 1, sizeof *x->by_stmt);
    return x;
}

static uint64_t scaled(uint64_t value, uint64_t part, uint64_t whole)
{
    return part && part < whole ? (uint64_t)((double)value * (double)whole / (double)part) : value;
}

void depth_close(struct depth *d, struct worker *workers, int worker_count, struct ptx_counts *counts)
{
    if (!d)
        return;
    const struct ptx_module *m = d->machine->module;
    cleanup(mem) void *threads_memory = xarray(m->block_count + 1, sizeof(uint64_t)), *warps_memory = xarray(m->block_count + 1, sizeof(uint64_t)),
                      *stmts_memory = xarray(m->stmt_count + 1, sizeof(struct stmt_counts));
    uint64_t *threads = threads_memory, *warps = warps_memory;
    struct stmt_counts *by_stmt = stmts_memory;
    for (int n = 0; n < worker_count; n++) {
        struct depth_worker *x = workers[n].depth;
        for (uint32_t b = 0; b < m->block_count; b++) {
            threads[b] += workers[n].block_threads[b];
            warps[b] += workers[n].block_warps[b];
        }
        for (uint32_t s = 0; x->by_stmt && s < m->stmt_count; s++) {
            by_stmt[s].accesses += x->by_stmt[s].accesses;
            by_stmt[s].sectors += x->by_stmt[s].sectors;
            by_stmt[s].asked_sectors += x->by_stmt[s].asked_sectors;
            by_stmt[s].shared_requests += x->by_stmt[s].shared_requests;
            by_stmt[s].shared_wavefronts += x->by_stmt[s].shared_wavefronts;
        }
        free(x->by_stmt);
        free(x->trace.entries);
        free(x);
    }
    const uint64_t part = d->blocks, whole = counts->blocks;
    counts->l1_hit_sectors = scaled(d->l1_hits, part, whole);
    counts->l2_load_sectors = scaled(d->l2_loads, part, whole);
    counts->l2_hit_sectors = scaled(d->l2_load_hits, part, whole);
    counts->l2_store_sectors = scaled(d->l2_stores, part, whole);
    counts->dram_load_sectors = scaled(d->dram_loads, part, whole);
    counts->dram_store_sectors = scaled(d->dram_stores + d->l2.dirty, part, whole);
    counts->modelled_blocks = part;
    counts->chain_cycles = chains_sum(d->machine, warps, counts->warps);
    counts->expanded_cycles = expanded_sum(m, warps);
    if (d->wanted->by_line)
        lines_fill(d, threads, warps, by_stmt);
    for (int n = 0; n < d->sm_count; n++)
        cache_done(&d->l1[n]);
    for (int n = 0; n < WINDOW; n++)
        free(d->waiting[n].entries);
    cache_done(&d->l2);
    free(d->l1);
    free(d->past_l1);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->moved);
    free(d);
}
