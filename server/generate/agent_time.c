/*
 * Where the time of the best candidate goes: what the card's counters measured, where somebody could read them (server/jobs/profile.c),
 * then what the emulator counted and estimates, in all and by line of the source. Measured and estimated stand apart and say which they are.
 */
#include "server/generate/agent.h"

#include <string.h>

#define LINE_BYTES_MOST 160
#define STALLS_SHOWN 5

static void add_json(struct buf *to, const json_t *v)
{
    cleanup(str) char *text = json_text(v);
    buf_str(to, text);
}

static void add_step_counts(struct prompt *p, const json_t *figures)
{
    struct buf *to = prompt_part(p, SECTION_TIME, true, "figures of its steps");
    const json_t *steps = json_object_get(json_object_get(figures, "terms"), "steps"), *counts = json_object_get(figures, "counts"), *step;
    size_t i;
    json_array_foreach(steps, i, step) {
        buf_fmt(to, "step %zu, estimated terms: ", i);
        add_json(to, step);
        buf_str(to, "\n");
    }
    json_array_foreach(counts, i, step) {
        buf_fmt(to, "step %zu, counted by the emulator (a sector is 32 bytes): ", i);
        add_json(to, step);
        buf_str(to, "\n");
    }
}

/* ---- what the card's counters measured ---- */

/* X(key, what stands before the number, what behind it, its divisor): in the order in which they are told */
#define FIGURES(X)                                                                 \
    X("duration_ns", "", " us", 1000)                                              \
    X("dram_pct", "DRAM at ", " % of its peak", 1)                                 \
    X("dram_read_bytes", "read ", " KiB", 1024)                                    \
    X("dram_write_bytes", "written ", " KiB", 1024)                                \
    X("l2_pct", "L2 at ", " % of its peak", 1)                                     \
    X("l2_bytes", "through L2 ", " KiB", 1024)                                     \
    X("l2_hit_pct", "", " % of that were hits", 1)                                 \
    X("l1_pct", "L1 and shared memory at ", " % of their peak", 1)                 \
    X("sm_pct", "SMs at ", " % of their peak", 1)                                  \
    X("occupancy_pct", "warps resident ", " % of the most", 1)                     \
    X("issue_pct", "an instruction issued in ", " % of the cycles", 1)             \
    X("warp_instructions", "", " instructions of warps", 1)                        \
    X("shared_bank_conflicts", "", " bank conflicts", 1)

/* X(key, what a warp waits for) */
#define STALLS(X)                                                           \
    X("long_scoreboard", "global or local memory") \
    X("short_scoreboard", "shared memory or a slow unit") \
    X("wait", "an instruction of fixed latency") \
    X("barrier", "the block's other warps, at a barrier") \
    X("membar", "a memory fence") \
    X("lg_throttle", "room in the queue for global and local memory") \
    X("mio_throttle", "room in the queue for shared memory and slow units") \
    X("tex_throttle", "room in the queue for texture and surface memory") \
    X("math_pipe_throttle", "a busy arithmetic unit") \
    X("gmma", "a matrix unit") \
    X("imc_miss", "a constant not in its cache") \
    X("no_instruction", "its next instruction to be fetched") \
    X("branch_resolving", "where a branch goes") \
    X("dispatch_stall", "the dispatcher") \
    X("drain", "its stores, at its end") \
    X("sleeping", "a sleep of its own") \
    X("not_selected", "nothing: another warp went first") \
    X("selected", "nothing: it issued") \
    X("misc", "something else")

static const struct { const char *key, *before, *behind; double divisor; } figures_told[] = {
#define X(key, before, behind, divisor) {key, before, behind, divisor},
    FIGURES(X)
#undef X
};
static const struct { const char *key, *what; } stalls_told[] = {
#define X(key, what) {key, what},
    STALLS(X)
#undef X
};

static void add_stalls(struct buf *to, size_t step, const json_t *stalls)
{
    double sum = 0;
    bool told[sizeof stalls_told / sizeof *stalls_told] = {false};
    const size_t count = sizeof stalls_told / sizeof *stalls_told;
    for (size_t i = 0; i < count; i++)
        sum += json_num(stalls, stalls_told[i].key, 0);
    if (!(sum > 0))
        return;
    buf_fmt(to, "step %zu, what its warps wait for, in cycles for each instruction issued (%.1f in all):", step, sum);
    for (int shown = 0; shown < STALLS_SHOWN; shown++) {
        size_t most = count;
        for (size_t i = 0; i < count; i++)
            if (!told[i] && json_num(stalls, stalls_told[i].key, 0) > (most < count ? json_num(stalls, stalls_told[most].key, 0) : sum / 100))
                most = i;
        if (most == count)
            break;
        told[most] = true;
        buf_fmt(to, "%s %s %.1f (%s)", shown ? "," : "", stalls_told[most].what, json_num(stalls, stalls_told[most].key, 0), stalls_told[most].key);
    }
    buf_str(to, "\n");
}

/* Known names and numbers; the card's own name is a driver's, so all of it is fenced. */
static void add_profile(struct prompt *p, const json_t *profile)
{
    const json_t *steps = json_object_get(profile, "steps"), *step;
    size_t i;
    if (!json_array_size(steps))
        return;
    buf_str(prompt_part(p, SECTION_TIME, false, ""),
            "Measured by the card's own counters, each step on its own after L2 was swept (a step alone takes a little longer than in a graph):\n");
    struct buf *to = prompt_part(p, SECTION_TIME, true, "measured");
    buf_fmt(to, "on %.60s\n", json_str(profile, "device", "the card"));
    json_array_foreach(steps, i, step) {
        bool first = true;
        buf_fmt(to, "step %zu:", i);
        for (size_t k = 0; k < sizeof figures_told / sizeof *figures_told; k++) {
            const json_t *v = json_object_get(step, figures_told[k].key);
            if (!json_is_number(v))
                continue;
            double value = json_number_value(v) / figures_told[k].divisor;
            buf_fmt(to, value < 1000 || value > 1e15 ? "%s %s%.3g%s" : "%s %s%.0f%s", first ? "" : ",", figures_told[k].before, value, figures_told[k].behind);
            first = false;
        }
        buf_str(to, "\n");
        add_stalls(to, i, json_object_get(step, "stalls"));
    }
}

/* ---- what the emulator counted ---- */

/* The text of line `number` of a source, without its indent; *ret_bytes 0: there is no such line. */
static const char *line_of(const char *source, int64_t number, size_t *ret_bytes)
{
    *ret_bytes = 0;
    for (int64_t i = 1; source && i < number; i++)
        source = (source = strchr(source, '\n')) ? source + 1 : NULL;
    if (!source || number < 1)
        return "";
    source += strspn(source, " \t");
    *ret_bytes = strcspn(source, "\n");
    return source;
}

/* A line's figures, those that are not 0, and what stands there. */
static void add_line(struct buf *to, const json_t *line, const char *source)
{
    const int64_t number = json_int(line, "line", 0), warps = json_int(line, "warp_instructions", 0), sectors = json_int(line, "global_sectors", 0),
                  requests = json_int(line, "shared_requests", 0);
    size_t bytes;
    const char *text = line_of(source, number, &bytes);
    buf_fmt(to, "step %lld, %s %lld: %lld instructions", (long long)json_int(line, "step", 0), number > 0 ? "line" : "line of the PTX",
            (long long)(number > 0 ? number : json_int(line, "ptx_line", 0)), (long long)warps);
    if (warps > 0)
        buf_fmt(to, ", %.1f lanes", (double)json_int(line, "thread_instructions", 0) / (double)warps);
    if (sectors > 0)
        buf_fmt(to, ", %lld sectors for %lld", (long long)sectors, (long long)json_int(line, "asked_sectors", 0));
    if (requests > 0)
        buf_fmt(to, ", shared %lld in %lld", (long long)requests, (long long)json_int(line, "shared_wavefronts", 0));
    buf_fmt(to, "%s%.*s\n", bytes ? " | " : "", (int)(bytes < LINE_BYTES_MOST ? bytes : LINE_BYTES_MOST), text);
}

/* The text of a line is its author's: all of it is fenced. */
static void add_lines(struct prompt *p, const json_t *lines, const char *source)
{
    const json_t *line;
    size_t i;
    if (!json_array_size(lines))
        return;
    buf_str(prompt_part(p, SECTION_TIME, false, ""),
            "By source line, as the emulator counted: instructions of warps, lanes that took part on average, sectors moved and sectors that their bytes need, shared requests\n"
            "and the wavefronts they took (more are bank conflicts).\n");
    struct buf *to = prompt_part(p, SECTION_TIME, true, "lines with the most instructions");
    json_array_foreach(lines, i, line)
        add_line(to, line, source);
}

void section_time(struct prompt *p, const struct agent_input *a)
{
    int best = agent_best(a->in);
    const json_t *figures = best >= 0 ? a->in->past[best].figures : a->baseline_figures;
    if (!json_is_object(figures))
        return;
    struct buf *to = prompt_part(p, SECTION_TIME, false, "");
    buf_fmt(to, "## Where its time goes\nOf the %s above.\n", best >= 0 ? "candidate" : "baseline");
    add_profile(p, best >= 0 ? a->in->past[best].profile : a->baseline_profile);
    add_step_counts(p, figures);
    add_lines(p, json_object_get(figures, "lines"), json_str(best >= 0 ? a->in->past[best].candidate : a->baseline, "source", NULL));
}
