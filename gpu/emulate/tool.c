/* `proteus-gpu emulate`: options, problem, runs, reports, exit status. */
#include "gpu/emulate/emulate.h"

#include <string.h>
#include <unistd.h>

#define MOST_SCHEDULES 1000

static int trouble(const struct err *err)
{
    fprintf(stderr, "proteus-gpu emulate: %s\n", err->text);
    return EXIT_TROUBLE;
}

static bool number(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t fallback, uint64_t *ret, struct err *err)
{
    char *end = NULL;
    *ret = text ? strtoull(text, &end, 0) : fallback;
    if (text && (*end || end == text || *text == '-' || *ret < least || *ret > most))
        return err_set(err, ERR_INVALID, "%s: a number from %llu to %llu is needed", flag, (unsigned long long)least, (unsigned long long)most);
    return true;
}

static bool write_sarif(const char *path, const struct emulate_problem *p, const struct emulate_findings *f, int schedules, uint64_t seed, struct err *err)
{
    cleanup(json) json_t *doc = emulate_sarif(p, f, schedules, seed);
    cleanup(buf) struct buf text = {0};
    json_write_pretty(&text, doc);
    FILE *to = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!to)
        return err_set(err, ERR_INVALID, "%s: %m", path);
    bool ok = fwrite(text.data, 1, text.size, to) == text.size && !fflush(to);
    if (to != stdout)
        ok = !fclose(to) && ok;
    return ok ? true : err_set(err, ERR_NO_SPACE, "%s: not written", path);
}

static void print_summary(FILE *to, const struct emulate_problem *p, const struct emulate_result *r, const struct emulate_findings *f)
{
    uint64_t instructions = 0, blocks = 0;
    for (int i = 0; i < p->step_count; i++) {
        instructions += r->counts[i].thread_instructions;
        blocks += r->counts[i].blocks;
    }
    fprintf(to, "%s: %s; %d schedule%s (seeds %llu to %llu) in %.1f ms", p->path, f->count ? "findings" : "clean", r->schedules, r->schedules == 1 ? "" : "s",
            (unsigned long long)r->first_seed, (unsigned long long)(r->first_seed + (uint64_t)r->schedules - 1), (double)r->run_ns * 1e-6);
    if (!f->count)
        fprintf(to, ", %llu blocks, %llu thread instructions in the first%s", (unsigned long long)blocks, (unsigned long long)instructions,
                r->compared ? "; results as the reference's" : "");
    fputc('\n', to);
}

static int status_of(const struct emulate_findings *f)
{
    int status = EXIT_CLEAN;
    for (int i = 0; i < f->count; i++) {
        if (f->list[i].code != VERDICT_UNSUPPORTED_ON_SIM)
            return EXIT_FINDINGS;
        status = EXIT_TROUBLE;       /* nothing is known: neither clean nor wrong */
    }
    return status;
}

static int run(const struct emulate_options *o)
{
    cleanup(emulate_problem) struct emulate_problem p = {.path = NULL};
    cleanup(mem) void *findings_memory = xalloc(sizeof(struct emulate_findings)), *result_memory = xalloc(sizeof(struct emulate_result));
    struct emulate_findings *f = findings_memory;
    struct emulate_result *r = result_memory;
    struct err err = {0};
    uint64_t seed, schedules, threads, instructions;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (!number("--seed", o->seed, 0, INT64_MAX, 1, &seed, &err) || !number("--schedules", o->schedules, 1, MOST_SCHEDULES, 4, &schedules, &err) ||
        !number("--threads", o->threads, 1, 64, cpus < 1 ? 1 : cpus > 64 ? 64 : (uint64_t)cpus, &threads, &err) ||
        !number("--instructions", o->instructions, 1, UINT64_MAX, ptx_default_limits.thread_instructions, &instructions, &err))
        return trouble(&err);
    p.seed = seed;
    if (o->device && !(p.device = ptx_device_find(o->device))) {
        err_set(&err, ERR_INVALID, "--device %s: H100, H200, B200 or A100 is needed", o->device);
        return trouble(&err);
    }
    if (o->by_line && !p.device)
        p.device = ptx_device_find("H200");      /* counts by line are the same for all */
    if (!emulate_problem_make(o, &p, f, &err))
        return trouble(&err);
    const struct emulate_how how = {.schedules = (int)schedules, .threads = (int)threads, .first_seed = seed ? seed : 1,
                                    .instruction_limit = instructions, .by_line = o->by_line};
    FILE *to = o->sarif && !strcmp(o->sarif, "-") ? stderr : stdout;
    int status = EXIT_TROUBLE;
    if (f->count || emulate_run(&p, &how, r, f, &err)) {
        emulate_print_findings(to, &p, f, r->schedules);
        if (r->schedules) {
            emulate_print_lines(to, &p, r);
            if (o->device && !f->count)
                emulate_print_estimate(to, &p, r);
            print_summary(to, &p, r, f);
        }
        status = status_of(f);
        if (o->sarif && !write_sarif(o->sarif, &p, f, r->schedules, r->first_seed, &err))
            status = trouble(&err);
    } else {
        trouble(&err);
    }
    emulate_result_done(r);
    return status;
}

int emulate_tool_main(int argc, char **argv)
{
    struct emulate_options o;
    if (!emulate_options_parse(argc, argv, &o))
        return EXIT_TROUBLE;
    if (o.help) {
        emulate_help(stdout);
        return EXIT_CLEAN;
    }
    return run(&o);
}
