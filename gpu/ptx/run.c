/*
 * A launch: what it is checked for, how its memory is laid out, who runs it and what came of it. How blocks and warps take turns is in
 * turns.c, what a block has in block.c.
 */
#include "gpu/ptx/run.h"
#include "core/clock.h"

#include <string.h>

static bool refuse(struct ptx_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(struct ptx_finding *f, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ptx_finding_set(f, PTX_BAD_LAUNCH, "%s", text);
    return false;
}

static bool cluster_check(struct machine *m, struct ptx_finding *f)
{
    const struct ptx_launch *l = m->launch;
    const uint32_t *compiled = m->entry->cluster;
    m->cluster_size = 1;
    for (int i = 0; i < 3; i++) {
        m->cluster[i] = l->cluster[i] ? l->cluster[i] : compiled[0] && compiled[i] ? compiled[i] : 1;
        m->explicit_cluster |= l->cluster[i] != 0 || compiled[0];
        if (compiled[0] && m->cluster[i] != (compiled[i] ? compiled[i] : 1))
            return refuse(f, "clusters of %ux%ux%u blocks; the kernel was compiled for %ux%ux%u", l->cluster[0], l->cluster[1], l->cluster[2],
                          compiled[0], compiled[1], compiled[2]);
        if (m->cluster[i] > MOST_CLUSTER_BLOCKS || l->grid[i] % m->cluster[i])
            return refuse(f, "clusters of %ux%ux%u blocks in a grid of %ux%ux%u", m->cluster[0], m->cluster[1], m->cluster[2], l->grid[0],
                          l->grid[1], l->grid[2]);
        m->cluster_size *= m->cluster[i];
    }
    if (m->cluster_size > MOST_CLUSTER_BLOCKS)
        return refuse(f, "%u blocks in a cluster; at most %d", m->cluster_size, MOST_CLUSTER_BLOCKS);
    return true;
}

static bool launch_check(struct machine *m, struct ptx_finding *f)
{
    const struct ptx_launch *l = m->launch;
    const uint32_t grid_limits[3] = {INT32_MAX, 65535, 65535}, block_limits[3] = {1024, 1024, 64};
    for (uint32_t i = 0; i < m->module->function_count; i++)
        if (m->module->functions[i].is_entry && m->module->functions[i].has_body &&
            !strcmp(ptx_name(m->module, m->module->functions[i].name), l->kernel))
            m->entry = &m->module->functions[i];
    if (!m->entry)
        return refuse(f, "there is no kernel %.100s", l->kernel);
    m->total_blocks = m->threads_block = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || l->grid[i] > grid_limits[i] || !l->block[i] || l->block[i] > block_limits[i])
            return refuse(f, "grid (%u,%u,%u), block (%u,%u,%u): out of range", l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                          l->block[2]);
        if (m->entry->reqntid[0] && m->entry->reqntid[i] != l->block[i])
            return refuse(f, "the kernel requires blocks of %ux%ux%u threads", m->entry->reqntid[0], m->entry->reqntid[1], m->entry->reqntid[2]);
        m->total_blocks *= l->grid[i];
        m->threads_block *= l->block[i];
    }
    if (!cluster_check(m, f))
        return false;
    if (m->threads_block > 1024)
        return refuse(f, "%llu threads in a block; at most 1024", (unsigned long long)m->threads_block);
    const uint64_t most = (uint64_t)m->entry->maxntid[0] * m->entry->maxntid[1] * m->entry->maxntid[2];
    if (m->entry->maxntid[0] && m->threads_block > most)
        return refuse(f, "%llu threads in a block; the kernel was compiled for at most %llu", (unsigned long long)m->threads_block,
                      (unsigned long long)most);
    if (l->arg_count != m->entry->param_count)
        return refuse(f, "%d arguments; the kernel has %d parameters", l->arg_count, m->entry->param_count);
    for (int i = 0; i < l->arg_count; i++) {
        const struct variable *v = &m->module->vars[m->entry->params[i]];
        if (l->args[i].bytes != v->bytes)
            return refuse(f, "argument %d has %u bytes; the parameter has %llu", i, l->args[i].bytes, (unsigned long long)v->bytes);
        if (v->bytes > 8)
            return refuse(f, "parameter %d has %llu bytes; a plan passes at most 8", i, (unsigned long long)v->bytes);
        memcpy(m->params + v->offset, &l->args[i].value, v->bytes);
    }
    if (l->dynamic_shared_bytes > 1u << 20)
        return refuse(f, "%u bytes of dynamic shared memory", l->dynamic_shared_bytes);
    m->static_end = m->entry->static_shared_bytes;
    m->shared_bytes = l->dynamic_shared_bytes ? m->module->dynamic_shared + l->dynamic_shared_bytes : m->static_end;
    if (m->static_end + l->dynamic_shared_bytes > 232448)
        return refuse(f, "%u bytes of shared memory in a block; there are 232448", m->static_end + l->dynamic_shared_bytes);
    m->frame_bytes = (m->module->func_frame_bytes + m->entry->local_bytes + 15) / 16 * 16;
    m->file_bytes = m->entry->file_base + m->entry->file_bytes;
    m->moving = xarray(m->module->fill_count + 1, sizeof *m->moving);
    for (uint32_t index = 0; index < m->module->function_count; index++) {
        const struct function *fn = &m->module->functions[index];
        for (uint32_t n = 0; n < fn->fill_count && fn->decoded && (fn == m->entry || !fn->is_entry); n++)
            if (differs_by_block(&m->module->fills[fn->fill_first + n]))
                m->moving[m->moving_count++] = &m->module->fills[fn->fill_first + n];
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const struct region *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static size_t sector_words(uint64_t bytes) { return (size_t)((bytes / 32 + 2) / 64 + 2); }

static uint64_t sectors_marked(const struct machine *m, const struct region *r, const uint64_t *marks)
{
    return r->held ? holes_count_sectors(m, r, marks) : m->lanes->bits_count(marks, sector_words(r->bytes));
}

static bool regions_build(struct machine *m, struct ptx_buffer *buffers, int count, struct ptx_finding *f)
{
    m->regions = xarray((size_t)count + 2, sizeof *m->regions);
    for (int i = 0; i < count; i++) {
        buffers[i].drawn_bytes = buffers[i].drawn_squares = 0;
        m->partial |= buffers[i].partial;
        const uint64_t words = sector_words(buffers[i].bytes);
        m->regions[i] = (struct region){.base = buffers[i].address, .bytes = buffers[i].bytes, .data = buffers[i].data,
                                        .initialised = buffers[i].initialised, .name = buffers[i].name, .writable = buffers[i].writable, .frozen = buffers[i].frozen, .held = buffers[i].held, .buffer = &buffers[i], .tags = buffers[i].tags,
                                        .counted = true, .loaded = xarray(words, 8), .stored = xarray(words, 8)};
        m->region_count++;
        m->shadow_bytes += words * 16 + (buffers[i].initialised ? buffers[i].bytes / 8 : 0);
        if (buffers[i].address + buffers[i].bytes < buffers[i].address || buffers[i].address + buffers[i].bytes > GRID_WINDOW)
            return refuse(f, "buffer %s lies outside the address space", buffers[i].name);
    }
    for (int i = 0; i < count; i++)
        m->regions[i].noted = m->regions[i].tags || m->partial;
    m->regions[m->region_count++] = (struct region){.base = GRID_WINDOW, .bytes = GRID_WORKSPACE_BYTES, .data = m->grid_workspace,
                                                    .name = "the grid barrier's workspace", .writable = true};
    m->regions[m->region_count++] = (struct region){.base = MODULE_WINDOW, .bytes = m->module->data_bytes ? m->module->data_bytes : 1,
                                                    .data = m->module->data, .name = "the module's variables", .writable = m->lenient};
    qsort(m->regions, (size_t)m->region_count, sizeof *m->regions, by_address);
    for (int i = 0; i + 1 < m->region_count; i++)
        if (m->regions[i].base + m->regions[i].bytes > m->regions[i + 1].base)
            return refuse(f, "buffers %s and %s overlap", m->regions[i].name, m->regions[i + 1].name);
    return true;
}

static void counts_add(struct ptx_counts *to, const struct ptx_counts *from)
{
    const uint64_t longest = to->longest_warp_instructions > from->longest_warp_instructions ? to->longest_warp_instructions
                                                                                            : from->longest_warp_instructions;
    const uint64_t chain = to->dependent_loads > from->dependent_loads ? to->dependent_loads : from->dependent_loads;
    uint64_t *t = (uint64_t *)to; /* all fields are uint64_t */
    const uint64_t *s = (const uint64_t *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *t; i++)
        t[i] += s[i];
    to->longest_warp_instructions = longest;
    to->dependent_loads = chain;
}

static void machine_run(struct machine *m, struct worker *workers, int threads)
{
    pthread_t handles[64];
    if (m->launch->cooperative || m->entry->uses_grid_barrier) {
        cooperative_main(&workers[0]);
        return;
    }
    int started = 1;
    for (; started < threads; started++)
        if (pthread_create(&handles[started], NULL, worker_main, &workers[started]))
            break;
    worker_main(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(handles[i], NULL);
}

/* Memory for `threads` blocks (or all, if cooperative): within the limit? */
static bool memory_fits(const struct machine *m, uint64_t blocks)
{
    const uint64_t warps = (m->threads_block + 31) / 32;
    const uint64_t one = warps * (m->file_bytes + m->file_bytes / 32 + sizeof(struct warp)) + (uint64_t)m->shared_bytes * 6 +
                         (uint64_t)m->frame_bytes * warps * 32 * 9 / 8;
    return one < m->limits.memory_bytes && one * blocks < m->limits.memory_bytes * (blocks > 64 ? 4 : blocks);
}

/*
 * A card of some other size, after some number of launches, at some time in forty years. Blocks in order come with a clock that races,
 * blocks in descending order with a slow one: who runs a kernel in both has seen both sides of any time that it may wait for.
 */
static void where_and_when(struct machine *m, bool wander)
{
    static const uint32_t sizes[] = {132, 114, 78, 148, 160, 46};
    uint64_t state = m->seed;
    m->sm_count = 132;
    m->grid_id = 1;
    m->clock_base = 1000;
    m->clock_rate = 4;
    m->timer_base = 1700000000000000000ull;
    if (!wander)
        return;
    m->sm_count = sizes[draw(&state) % (sizeof sizes / sizeof *sizes)];
    m->sm_first = (uint32_t)(draw(&state) % m->sm_count);
    m->warp_first = draw(&state);
    m->graph_exec = m->seed & PTX_SEED_DESCENDING ? 1 + (draw(&state) >> 16) : 0;      /* in a graph, or not */
    m->grid_id = 1 + (draw(&state) >> (24 + draw(&state) % 32));
    m->clock_base = draw(&state) >> 16;
    m->clock_rate = m->seed & PTX_SEED_DESCENDING ? 4ull << draw(&state) % 4 : 4ull << (16 + draw(&state) % 8);
    m->timer_base = 1577836800000000000ull + draw(&state) % 1262304000000000000ull;
}

const char *ptx_schedule_name(enum ptx_schedule schedule)
{
    return schedule == PTX_EXPLORE ? "explore" : "lockstep";
}

bool ptx_run(const struct ptx_module *module, const struct ptx_launch *launch, struct ptx_buffer *buffers, int buffer_count,
             const struct ptx_run_options *options, struct ptx_finding *ret_finding, struct ptx_counts *ret_counts, struct err *err)
{
    (void)err;
    struct ptx_finding finding = {.source_line = -1};
    struct machine *m = xalloc(sizeof *m);
    m->module = module;
    m->launch = launch;
    m->lanes = ptx_lanes_get();
    m->limits = options->limits;
    m->tag = options->tag;
    m->seed = options->schedule_seed;
    m->schedule = options->schedule;
    m->history = options->history;
    m->check_races = options->check_races;
    m->lenient = options->lenient;
    where_and_when(m, options->wander);
    m->shared_races_only = options->shared_races_only;
    m->found_block = UINT64_MAX;
    m->start_ns = now_ns();
    m->deadline_ns = m->start_ns + m->limits.wall_ns;
    struct ptx_counts counts = {0};
    bool fine = launch_check(m, &finding) && regions_build(m, buffers, buffer_count, &finding);
    int threads = m->limits.threads < 1 ? 1 : m->limits.threads > 64 ? 64 : m->limits.threads;
    const bool together = fine && (launch->cooperative || m->entry->uses_grid_barrier);
    if (fine && (uint64_t)threads > m->total_blocks / m->cluster_size)
        threads = (int)(m->total_blocks / m->cluster_size);
    if (together)
        threads = 1;
    m->many = threads > 1;
    if (fine && !memory_fits(m, together ? m->total_blocks : (uint64_t)threads * m->cluster_size)) {
        ptx_finding_set(&finding, PTX_RESOURCE, "a running block needs more memory than is allowed");
        fine = false;
    }
    if (fine) {
        sample_open(m, options->sample);
        race_grid_open(m, !options->shared_races_only);
        stale_open(m);
        m->depth = depth_open(m, options->depth);
        struct worker *workers = aligned((size_t)threads * sizeof *workers);
        m->workers = workers, m->worker_count = threads;
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            k->machine = m;
            k->depth = depth_worker_open(m->depth);
            k->finding.source_line = -1;
            k->found_block = UINT64_MAX;
            k->tag = m->tag;
            k->tagged = xarray((size_t)m->region_count, sizeof *k->tagged);
            k->block_threads = xarray(module->block_count + 1, sizeof(uint64_t));
            k->block_warps = xarray(module->block_count + 1, sizeof(uint64_t));
            k->block_count = together ? (uint32_t)m->total_blocks : m->cluster_size;
            k->cluster_count = k->block_count / m->cluster_size;
            k->blocks = xarray(k->block_count, sizeof *k->blocks);
            k->clusters = xarray(k->cluster_count, sizeof *k->clusters);
            for (uint32_t b = 0; b < k->block_count; b++)
                block_open(k, &k->blocks[b]);
            for (uint32_t c = 0; c < k->cluster_count; c++)
                cluster_open(k, &k->clusters[c], &k->blocks[c * m->cluster_size]);
        }
        machine_run(m, workers, threads);
        uint64_t lowest = UINT64_MAX;
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            if (k->finding.kind != PTX_CLEAN && k->found_block <= lowest) {
                lowest = k->found_block;
                finding = k->finding;
            }
            counts_add(&counts, &k->counts);
            for (int r = 0; r < m->region_count; r++)
                if (m->regions[r].tags) {
                    m->regions[r].buffer->drawn_bytes += k->tagged[r].bytes;
                    m->regions[r].buffer->drawn_squares += k->tagged[r].squares;
                }
        }
        depth_close(m->depth, workers, threads, &counts);
        for (int i = 0; i < threads; i++) {
            struct worker *k = &workers[i];
            for (uint32_t b = 0; b < k->block_count; b++)
                block_close(&k->blocks[b]);
            for (uint32_t c = 0; c < k->cluster_count; c++)
                cluster_close(&k->clusters[c]);
            free(k->clusters);
            free(k->blocks);
            free(k->tagged);
            free(k->noted.list);
            free(k->block_threads);
            free(k->block_warps);
        }
        free(workers);
        if (m->sample && m->sample->taken) {
            counts.drawn_of = (m->sample->high - m->sample->low - m->sample->corners) * m->cluster_size;
            counts.sample_cpu_ns = (uint64_t)(clock_cpu_ns() - m->sample_cpu_ns);
        }
        sample_close(m);
    }
    for (int i = 0; i < m->region_count; i++)
        if (m->regions[i].counted) {
            const uint64_t loaded = sectors_marked(m, &m->regions[i], m->regions[i].loaded), stored = sectors_marked(m, &m->regions[i], m->regions[i].stored);
            counts.unique_load_sectors += loaded;
            counts.unique_store_sectors += stored;
            m->regions[i].buffer->loaded = loaded > 0;
            m->regions[i].buffer->stored = stored > 0;
            free(m->regions[i].loaded);
            free(m->regions[i].stored);
        }
    stale_close(m);
    race_grid_close(m);
    counts.shadow_bytes = m->shadow_bytes;
    counts.waited_grid = atomic_load(&m->any_waited_grid);
    counts.reads_later = m->many && atomic_load(&m->reads_later);
    free(m->regions);
    free(m->moving);
    free(m);
    finding.schedule_seed = options->schedule_seed;
    finding.explored = options->schedule == PTX_EXPLORE;
    *ret_finding = finding;
    if (ret_counts)
        *ret_counts = counts;
    return true;
}
