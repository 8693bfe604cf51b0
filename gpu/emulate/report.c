/* What was found, what each line did, and the estimate, for a person. */
#include "gpu/emulate/emulate.h"

#include <math.h>
#include <string.h>

#define MOST_LINES 40

void emulate_line(const struct buf *text, int line, char *to, size_t size)
{
    const char *at = buf_cstr((struct buf *)(uintptr_t)text);
    *to = 0;
    for (int n = 1; at && n < line; n++) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (line < 1 || !at)
        return;
    const size_t length = strcspn(at, "\r\n");
    struct buf clean = {.limit = size - 1};
    utf8_clean(&clean, at, length < size - 1 ? length : size - 1);
    snprintf(to, size, "%s", buf_cstr(&clean));
    for (char *c = to; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    buf_done(&clean);
}

static bool is_own(const char *source_file) { return !*source_file || !strcmp(source_file, "candidate.cu"); }

int emulate_user_line(const struct emulate_problem *p, const struct ptx_finding *at)
{
    if (p->is_ptx)
        return at->ptx_line > 0 ? at->ptx_line : 0;
    return at->source_line > 0 && is_own(at->source_file) ? at->source_line : 0;
}

static void print_finding(FILE *to, const struct emulate_problem *p, const struct emulate_finding *f, int schedules)
{
    char line[200];
    const int at = emulate_user_line(p, &f->at);
    if (at)
        fprintf(to, "%s:%d: %s: %s\n", p->path, at, verdict_name(f->code), f->text);
    else
        fprintf(to, "%s: %s: %s\n", p->path, verdict_name(f->code), f->text);
    emulate_line(&p->source, at, line, sizeof line);
    if (*line)
        fprintf(to, "%6d | %s\n", at, line);
    if (f->at.opcode[0])
        fprintf(to, "  instruction  %s%s%s, PTX line %d\n", f->at.opcode, *f->kernel ? " of " : "", f->kernel, f->at.ptx_line);
    if (!is_own(f->at.source_file))
        fprintf(to, "  in           %s:%d\n", f->at.source_file, f->at.source_line);
    if (*f->kernel)
        fprintf(to, "  thread       (%u,%u,%u) of block (%u,%u,%u)\n", f->at.thread[0], f->at.thread[1], f->at.thread[2], f->at.block[0], f->at.block[1],
                f->at.block[2]);
    if (f->at.buffer[0] && f->at.access_bytes)
        fprintf(to, "  memory       %s, %u bytes at offset %lld\n", f->at.buffer, f->at.access_bytes, (long long)f->at.offset_bytes);
    if (f->schedule_seed)
        fprintf(to, "  schedule     seed %llu%s%s\n", (unsigned long long)f->schedule_seed, f->at.explored ? ", lanes apart" : "",
                schedules < 2 ? "" : f->schedules == schedules ? "; in every schedule" : "; not in every schedule");
    fprintf(to, "  %s %s\n\n", verdict_person(f->code), verdict_generator(f->code));
}

void emulate_print_findings(FILE *to, const struct emulate_problem *p, const struct emulate_findings *f, int schedules)
{
    for (int i = 0; i < f->count; i++)
        print_finding(to, p, &f->list[i], schedules);
}

/* ---- by line ---- */
static int by_instructions(const void *a, const void *b)
{
    const struct ptx_line *x = a, *y = b;
    return x->thread_instructions > y->thread_instructions ? -1 : x->thread_instructions < y->thread_instructions;
}

static void print_step_lines(FILE *to, const struct emulate_problem *p, const struct emulate_step *s, struct ptx_depth *d)
{
    qsort(d->lines, (size_t)d->line_count, sizeof *d->lines, by_instructions);
    fprintf(to, "%s: by source line, most thread instructions first\n", s->kernel);
    fprintf(to, "%6s %14s %6s %12s %8s %12s %8s\n", "line", "instructions", "idle", "sectors", "x asked", "shared", "passes");
    for (int n = 0; n < d->line_count && n < MOST_LINES; n++) {
        const struct ptx_line *l = &d->lines[n];
        char text[80], sectors[24] = "", asked[24] = "", shared[24] = "", passes[24] = "";
        const double lanes = 32.0 * (double)l->warp_instructions;
        const int own = p->is_ptx ? l->ptx_line : l->source_line > 0 && is_own(l->source_file) ? l->source_line : 0;
        emulate_line(&p->source, own, text, sizeof text);
        if (l->global_sectors) {
            snprintf(sectors, sizeof sectors, "%llu", (unsigned long long)l->global_sectors);
            snprintf(asked, sizeof asked, "%.2f", l->asked_sectors ? (double)l->global_sectors / (double)l->asked_sectors : 0);
        }
        if (l->shared_requests) {
            snprintf(shared, sizeof shared, "%llu", (unsigned long long)l->shared_requests);
            snprintf(passes, sizeof passes, "%.2f", (double)l->shared_wavefronts / (double)l->shared_requests);
        }
        fprintf(to, "%6d %14llu %5.0f%% %12s %8s %12s %8s  %s%s\n", own ? own : l->source_line, (unsigned long long)l->thread_instructions,
                lanes > 0 ? 100 * (1 - (double)l->thread_instructions / lanes) : 0, sectors, asked, shared, passes, own ? "" : l->source_file, text);
    }
    if (d->line_count > MOST_LINES)
        fprintf(to, "and %d more lines\n", d->line_count - MOST_LINES);
    fprintf(to, "idle: lanes that stood by (divergence, exit); sectors: of 32 bytes, of global memory, and how many times the bytes asked for (below 1: lanes share);\n"
                "shared: accesses of warps to shared memory, and passes over its banks for each.\n\n");
}

void emulate_print_lines(FILE *to, const struct emulate_problem *p, const struct emulate_result *r)
{
    for (int i = 0; i < p->step_count; i++)
        if (!p->steps[i].is_memset && r->depth[i].lines)
            print_step_lines(to, p, &p->steps[i], (struct ptx_depth *)(uintptr_t)&r->depth[i]);
}

/* ---- estimate ---- */
void emulate_print_estimate(FILE *to, const struct emulate_problem *p, const struct emulate_result *r)
{
    static const struct ptx_resources unknown = {.registers_thread = 64};
    double sum = 0;
    for (int i = 0; i < p->step_count; i++) {
        const struct emulate_step *s = &p->steps[i];
        const struct ptx_counts *c = &r->counts[i];
        struct ptx_estimate e;
        if (s->is_memset || !c->blocks)
            continue;
        ptx_estimate_time(c, &s->launch, s->has_resources ? &s->resources : &unknown, p->device, &e);
        sum += e.ns;
        fprintf(to, "%s on %s: an estimate of %.2f us, no measurement; bound by %s\n", s->kernel, p->device->name, e.ns * 1e-3, e.bound);
        fprintf(to, "  launch %.2f us, a block's latency %.2f us; busy: dram %.2f, l2 %.2f, l1 %.2f, issue %.2f, shared %.2f, block starts %.2f, rounds %.2f us\n",
                e.launch_ns * 1e-3, e.latency_ns * 1e-3, e.dram_ns * 1e-3, e.l2_ns * 1e-3, e.load_store_ns * 1e-3, e.issue_ns * 1e-3,
                e.shared_ns * 1e-3, e.blocks_ns * 1e-3, e.rounds_ns * 1e-3);
        if (s->has_resources)
            fprintf(to, "  %d registers, %u bytes of local memory, occupancy %.0f %%, %d blocks at once on an SM\n", s->resources.registers_thread,
                    s->resources.local_bytes_thread, 100 * e.occupancy, e.blocks_per_sm);
        else
            fprintf(to, "  registers not known (no toolkit): taken as 64; occupancy %.0f %%\n", 100 * e.occupancy);
        fprintf(to, "  sectors of 32 bytes: %llu from DRAM, %llu to it; %llu of %llu loads hit L2, %llu hit L1\n", (unsigned long long)c->dram_load_sectors,
                (unsigned long long)c->dram_store_sectors, (unsigned long long)c->l2_hit_sectors, (unsigned long long)c->l2_load_sectors,
                (unsigned long long)c->l1_hit_sectors);
    }
    if (p->step_count > 1)
        fprintf(to, "all launches: an estimate of %.2f us\n", sum * 1e-3);
}
