/*
 * The checkers on honest kernels (tests/honest): each is right under every schedule, and wrong, under at least one, as soon as any one
 * of the instructions that order its accesses is taken out of its PTX. Those that may go are listed, each with its reason.
 */
#include "gpu/device/device.h"
#include "tests/test_ptx.h"

#define MOST_INTS 4096
#define EXPLORED 6              /* schedules beside the lockstep one */

struct honest {
    const char *name;
    uint32_t grid[3], block[3], cluster;
    bool cooperative, out_zero, work_fresh;
    int in_ints, out_ints, work_ints;
    void (*expect)(const int *in, int *out);
    const char *second;         /* a kernel that is launched behind it, as dependent */
};

/* ---- what they should give ---- */
static void sums_of(const int *in, int *out, int groups, int each)
{
    for (int g = 0; g < groups; g++) {
        out[g] = 0;
        for (int i = 0; i < each; i++)
            out[g] += in[g * each + i];
    }
}
static void expect_block_reduce(const int *in, int *out) { sums_of(in, out, 6, 256); }
static void expect_warp_shuffle(const int *in, int *out) { sums_of(in, out, 3, 256); }
static void expect_named_barriers(const int *in, int *out)
{
    for (int i = 0; i < 6 * 64; i++)
        out[i] = in[i / 64 * 64 + 63 - i % 64] * 2;
}
static void expect_mbarrier(const int *in, int *out)
{
    for (int i = 0; i < 6 * 64; i++)
        out[i] = in[i / 64 * 64 + 63 - i % 64] + 1;
}
static void expect_cp_async(const int *in, int *out)
{
    for (int t = 0; t < 64; t++) {
        out[t] = 0;
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 4; j++)
                out[t] += in[i * 256 + ((t * 4 + j + 37) & 255)] * (j + 1);
    }
}
static void expect_cluster(const int *in, int *out)
{
    for (int b = 0; b < 8; b++)
        for (int t = 0; t < 64; t++) {
            out[b * 64 + t] = 0;
            for (int r = 0; r < 4; r++)
                out[b * 64 + t] += in[(b / 4 * 4 + r) * 64 + ((t + r + b % 4) & 63)];
        }
}
static void expect_grid_sync(const int *in, int *out)
{
    enum { ALL = 5 * 64 };
    static int work[ALL], next[ALL];
    memcpy(work, in, sizeof work);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < ALL; i++)
            next[i] = work[(i + 64) % ALL] + work[(i + ALL - 1) % ALL];
        memcpy(work, next, sizeof work);
    }
    for (int i = 0; i < ALL; i++)
        out[i] = work[ALL - 1 - i];
}
static void expect_last_block(const int *in, int *out) { sums_of(in, out, 1, 6 * 64); }
static void expect_histogram(const int *in, int *out)
{
    memset(out, 0, 64 * sizeof *out);
    for (int i = 0; i < 1000; i++)
        out[in[i] & 63]++;
}
static void expect_syncwarp(const int *in, int *out)
{
    for (int i = 0; i < 256; i++) {
        out[i] = i % 32;
        for (int l = 0; l < 32; l++)
            out[i] += in[i / 32 * 32 + l];
    }
}
static void expect_local_arrays(const int *in, int *out)
{
    for (int i = 0; i < 128; i++) {
        int stack[24], depth = 0;
        unsigned seen = 0, sum = 0;
        for (int j = 0; j < 24; j++) {
            const int v = in[(i + j) % 200] & 15;
            if (!(seen >> v & 1))
                stack[depth++] = v;
            seen |= 1u << v;
        }
        while (depth)
            sum = sum * 17 + (unsigned)stack[--depth];
        out[i] = (int)sum;
    }
}
static void expect_volatile_flag(const int *in, int *out)
{
    for (int l = 0; l < 32; l++)
        out[l] = in[31 - l] * 3;
}
static void expect_look_back(const int *in, int *out)
{
    for (int i = 0, sum = 0; i < 5 * 64; i++)
        out[i] = sum += in[i];
}
static void expect_spin_lock(const int *in, int *out)
{
    out[0] = out[1] = 0;
    for (int i = 0; i < 64; i++) {
        out[0] += in[i];
        out[1] = in[i] > out[1] ? in[i] : out[1];
    }
}
static void expect_global_exchange(const int *in, int *out)
{
    for (int b = 0; b < 2; b++)
        for (int round = 0; round < 3; round++)
            for (int t = 0; t < 128; t++)
                out[(b * 3 + round) * 128 + t] = in[b * 128 + 127 - t] + in[b * 128 + ((t + 40) & 127)] + 2 * round;
}
static void expect_transpose(const int *in, int *out)
{
    for (int y = 0; y < 32; y++)
        for (int x = 0; x < 64; x++)
            out[x * 32 + y] = in[y * 64 + x];
}
static void expect_dependent_launch(const int *in, int *out)
{
    for (int i = 0; i < 256; i++)
        out[i] = in[i] + in[255 - i] * 5;
}

static const struct honest kernels[] = {
    {.name = "block_reduce", .grid = {3, 1, 1}, .block = {256, 1, 1}, .in_ints = 1536, .out_ints = 6, .expect = expect_block_reduce},
    {.name = "warp_shuffle", .grid = {3, 1, 1}, .block = {256, 1, 1}, .in_ints = 768, .out_ints = 3, .expect = expect_warp_shuffle},
    {.name = "named_barriers", .grid = {1, 1, 1}, .block = {96, 1, 1}, .in_ints = 384, .out_ints = 384, .expect = expect_named_barriers},
    {.name = "cp_async", .grid = {1, 1, 1}, .block = {64, 1, 1}, .in_ints = 1280, .out_ints = 64, .expect = expect_cp_async},
    {.name = "mbarrier", .grid = {1, 1, 1}, .block = {96, 1, 1}, .in_ints = 384, .out_ints = 384, .expect = expect_mbarrier},
    {.name = "cluster", .grid = {8, 1, 1}, .block = {64, 1, 1}, .cluster = 4, .in_ints = 512, .out_ints = 512, .expect = expect_cluster},
    {.name = "grid_sync", .grid = {5, 1, 1}, .block = {64, 1, 1}, .cooperative = true, .in_ints = 320, .out_ints = 320, .work_ints = 320, .work_fresh = true, .expect = expect_grid_sync},
    {.name = "last_block", .grid = {6, 1, 1}, .block = {64, 1, 1}, .in_ints = 384, .out_ints = 1, .work_ints = 64, .expect = expect_last_block},
    {.name = "histogram", .grid = {4, 1, 1}, .block = {96, 1, 1}, .in_ints = 1000, .out_ints = 64, .out_zero = true, .expect = expect_histogram},
    {.name = "syncwarp", .grid = {2, 1, 1}, .block = {128, 1, 1}, .in_ints = 256, .out_ints = 256, .expect = expect_syncwarp},
    {.name = "local_arrays", .grid = {2, 1, 1}, .block = {64, 1, 1}, .in_ints = 200, .out_ints = 128, .expect = expect_local_arrays},
    {.name = "volatile_flag", .grid = {1, 1, 1}, .block = {64, 1, 1}, .in_ints = 32, .out_ints = 32, .expect = expect_volatile_flag},
    {.name = "look_back", .grid = {5, 1, 1}, .block = {64, 1, 1}, .in_ints = 320, .out_ints = 320, .work_ints = 128, .expect = expect_look_back},
    {.name = "spin_lock", .grid = {1, 1, 1}, .block = {64, 1, 1}, .in_ints = 64, .out_ints = 2, .expect = expect_spin_lock},
    {.name = "global_exchange", .grid = {2, 1, 1}, .block = {128, 1, 1}, .in_ints = 256, .out_ints = 768, .work_ints = 256, .work_fresh = true, .expect = expect_global_exchange},
    {.name = "transpose", .grid = {2, 1, 1}, .block = {32, 8, 1}, .in_ints = 2048, .out_ints = 2048, .expect = expect_transpose},
    {.name = "dependent_launch", .grid = {4, 1, 1}, .block = {64, 1, 1}, .in_ints = 256, .out_ints = 256, .work_ints = 256, .work_fresh = true, .expect = expect_dependent_launch, .second = "second"},
    {.name = "dependent_by_mbarrier", .grid = {4, 1, 1}, .block = {64, 1, 1}, .in_ints = 256, .out_ints = 256, .work_ints = 256, .work_fresh = true, .expect = expect_dependent_launch, .second = "second"},
    {.name = "dependent_by_cluster", .grid = {4, 1, 1}, .block = {64, 1, 1}, .cluster = 2, .in_ints = 256, .out_ints = 256, .work_ints = 256, .work_fresh = true, .expect = expect_dependent_launch, .second = "second"},
};
#define KERNELS ((int)(sizeof kernels / sizeof *kernels))

/* ---- one run ---- */
struct buffers { struct ptx_buffer list[3]; };
static void buffers_done(struct buffers *b)
{
    for (int n = 0; n < 3; n++) {
        free(b->list[n].data);
        free(b->list[n].initialised);
    }
}
DEFINE_CLEANUP(buffers, struct buffers, buffers_done(it))

static void buffer_make(struct ptx_buffer *b, const char *name, int n, int ints, bool writable, const int *fill, bool zero)
{
    const size_t bytes = (size_t)(ints ? ints : 1) * 4;
    snprintf(b->name, sizeof b->name, "%s", name);
    b->address = 0x7000000000ull + (uint64_t)n * 0x40000000ull + 16;
    b->bytes = bytes;
    b->data = xalloc(bytes + 16);
    b->initialised = xalloc(bytes / 8 + 16);
    b->writable = writable;
    memset(b->initialised, fill || zero ? 255 : 0, bytes / 8 + 1);
    memset(b->data, zero ? 0 : 0xa5, bytes);
    if (fill)
        memcpy(b->data, fill, (size_t)ints * 4);
}

static bool launch(const struct ptx_module *m, const struct honest *k, const char *name, bool dependent, struct buffers *b,
                   const struct ptx_run_options *o, struct ptx_finding *f, struct err *err)
{
    struct ptx_launch l = {.kernel = name, .cooperative = k->cooperative, .dependent = dependent, .arg_count = 4};
    memcpy(l.grid, k->grid, sizeof l.grid);
    memcpy(l.block, k->block, sizeof l.block);
    for (int n = 0; n < 3; n++) {
        l.cluster[n] = n || !k->cluster ? 1 : k->cluster;
        l.args[n] = (struct ptx_arg){8, b->list[n].address};
    }
    l.args[3] = (struct ptx_arg){4, (uint32_t)k->in_ints};
    return ptx_run(m, &l, b->list, 3, o, f, NULL, err);
}

/* What is wrong with it under this schedule; "" if nothing. */
static void run_one(const struct honest *k, const struct ptx_module *m, uint64_t schedule, int threads, char *why, size_t size)
{
    static int in[MOST_INTS], want[MOST_INTS];
    cleanup(buffers) struct buffers b = {0};
    struct err err = {0};
    struct ptx_finding f = {0};
    struct ptx_history *history = k->second ? ptx_history_new() : NULL;
    struct ptx_run_options o = {.history = history, .limits = ptx_default_limits, .schedule_seed = schedule,
                                .schedule = schedule ? PTX_EXPLORE : PTX_LOCKSTEP, .check_races = true};
    o.limits.threads = threads;
    o.limits.thread_instructions = 100000000;
    for (int i = 0; i < k->in_ints; i++)
        in[i] = (int)((unsigned)i * 2654435761u >> 20);
    buffer_make(&b.list[0], "in", 0, k->in_ints, false, in, false);
    buffer_make(&b.list[1], "out", 1, k->out_ints, true, NULL, k->out_zero);
    buffer_make(&b.list[2], "work", 2, k->work_ints, true, NULL, !k->work_fresh);
    *why = 0;
    bool ours = launch(m, k, "k", false, &b, &o, &f, &err);
    if (ours && k->second && f.kind == PTX_CLEAN)
        ours = launch(m, k, k->second, true, &b, &o, &f, &err);
    check(ours);
    ptx_history_free(history);
    k->expect(in, want);
    const int *out = (const int *)(const void *)b.list[1].data;
    if (f.kind != PTX_CLEAN)
        snprintf(why, size, "%s: %s [%s]", ptx_finding_name(f.kind), f.text, f.opcode);
    for (int i = 0; i < k->out_ints && !*why; i++)
        if (out[i] != want[i])
            snprintf(why, size, "out[%d] is %d, wanted %d", i, out[i], want[i]);
    if (f.kind != PTX_CLEAN)
        check(f.schedule_seed == schedule && f.explored == (schedule != 0));
}

/* ---- without one of what orders ---- */
struct rule { const char *find, *put; };       /* put: NULL: the whole instruction goes; else instead of what was found */
static const struct rule rules[] = {
    {"bar.sync", NULL}, {"barrier.sync", NULL}, {"bar.arrive", NULL}, {"bar.warp.sync", NULL}, {"membar", NULL}, {"fence", NULL},
    {"cp.async.wait", NULL}, {"cp.async.commit", NULL}, {"mbarrier.try_wait", "setp"}, {"mbarrier.arrive", NULL},
    {"barrier.cluster.arrive", NULL}, {"barrier.cluster.wait", NULL}, {"griddepcontrol.wait", NULL},
    {".release.", ".relaxed."}, {".acquire.", ".relaxed."}, {".acq_rel.", ".relaxed."},
};
#define RULES ((int)(sizeof rules / sizeof *rules))

static const struct { const char *kernel; int mutation; const char *why; } harmless[] = {
    {"block_reduce", 6, "nothing comes after it"},
    {"last_block", 7, "thread 0 alone reads what it wrote itself"},
};

static const char *harmless_why(const char *kernel, int mutation)
{
    for (size_t n = 0; n < sizeof harmless / sizeof *harmless; n++)
        if (!strcmp(harmless[n].kernel, kernel) && harmless[n].mutation == mutation)
            return harmless[n].why;
    return NULL;
}

static bool starts_word(const char *text, const char *at) { return at == text || strchr(" \t\n;{}", at[-1]); }

/* The text without the instruction at `at`; *ret_line what went. False: not one of these. */
static bool mutate(char *text, char *at, const struct rule *r, char *ret_line, size_t size)
{
    char *end = strchr(at, ';'), *start = at;
    while (start > text && !strchr("\n;{}", start[-1]))
        start--;
    if (!end || memchr(start, '/', (size_t)(end - start)) || memchr(start, '"', (size_t)(end - start)))
        return false;
    snprintf(ret_line, size, "%.*s", (int)(end - start), start);
    if (*r->find != '.' && !starts_word(text, at))
        return false;
    if (!r->put) {
        memset(start, ' ', (size_t)(end - start + 1));
        return true;
    }
    if (*r->put == '.') {       /* shorter or as long: filled up with nothing, as spaces may not stand in an opcode */
        const size_t from = strlen(r->find), to = strlen(r->put);
        char rest[512];
        const size_t left = (size_t)(end - at) - from;
        if (left >= sizeof rest)
            return false;
        memcpy(rest, at + from, left);
        if (to > from)
            return false;
        memcpy(at, r->put, to);
        memcpy(at + to, rest, left);
        memset(at + to + left, ' ', from - to);
        return true;
    }
    /* mbarrier.try_wait P, ...: P is true at once */
    char name[64] = "";
    const char *p = at;
    while (p < end && !strchr(" \t", *p))
        p++;
    if (sscanf(p, " %63[%a-zA-Z0-9_$]", name) != 1 || (size_t)(end - start) < strlen(name) + 24)
        return false;
    memset(start, ' ', (size_t)(end - start));
    char put[128];
    snprintf(put, sizeof put, " setp.eq.u32 %s, 0, 0", name);
    memcpy(start, put, strlen(put));
    return true;
}

static int mutated, found_lockstep, let_be;

static void run_mutations(const struct honest *k, const char *ptx)
{
    int number = 0;
    for (int r = 0; r < RULES; r++)
        for (const char *at = strstr(ptx, rules[r].find); at; at = strstr(at + 1, rules[r].find)) {
            cleanup(str) char *text = xfmt("%s", ptx);
            cleanup(ptx) struct ptx_module *m = NULL;
            struct ptx_finding f = {0};
            struct err err = {0};
            char line[160], why[600] = "";
            if (!mutate(text, text + (at - ptx), &rules[r], line, sizeof line))
                continue;
            number++;
            mutated++;
            check(ptx_parse(text, strlen(text), NULL, &m, &f, &err) && m);
            if (!m) {
                fprintf(stderr, "  %s without %d (%s): %s\n", k->name, number, line, f.text);
                continue;
            }
            for (uint64_t schedule = 0; schedule <= EXPLORED && !*why; schedule++) {
                run_one(k, m, schedule, 1, why, sizeof why);
                found_lockstep += *why && !schedule;
            }
            const char *fine = harmless_why(k->name, number);
            let_be += fine != NULL;
            check(fine ? !*why : *why);
            if (getenv("PROTEUS_TEST_SHOW") || (fine ? *why : !*why))
                fprintf(stderr, "  %s without %d (%s): %s%s\n", k->name, number, line, *why ? why : "nothing found", fine ? " (listed as harmless)" : "");
        }
}

int main(int argc, char **argv)
{
    static struct toolkit_paths toolkit;
    struct err err = {0};
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    for (int n = 0; n < KERNELS; n++) {
        const struct honest *k = &kernels[n];
        cleanup(str) char *path = xfmt("%s/%s.cu", HONEST_DIR, k->name);
        cleanup(buf) struct buf source = {0};
        cleanup(ptx) struct ptx_module *m = NULL;
        struct toolkit_compiled out = {0};
        struct ptx_finding f = {0};
        char why[600];
        if (argc > 1 && strcmp(argv[1], k->name))
            continue;
        check(file_read(path, 1 << 20, &source, &err));
        check(toolkit_compile(&toolkit, buf_cstr(&source), "sm_90a", "", &out, &err) && out.ok);
        if (!out.ok) {
            fprintf(stderr, "  %s: %s%s\n", k->name, err.text, out.log ? out.log : "");
            continue;
        }
        if (argc > 2)
            puts(out.ptx);
        check(ptx_parse(out.ptx, out.ptx_bytes, NULL, &m, &f, &err) && m);
        bool fine = m != NULL;
        for (uint64_t schedule = 0; m && schedule < 25; schedule++)
            for (int threads = 1; threads <= 2; threads++) {
                run_one(k, m, schedule, threads, why, sizeof why);
                check_str(why, "");
                fine = fine && !*why;
            }
        if (fine)
            run_mutations(k, out.ptx);
        free(out.ptx);
        free(out.log);
    }
    printf("%d kernels; %d ways to spoil one, %d found in lockstep, %d harmless\n", KERNELS, mutated, found_lockstep, let_be);
    return test_done();
}
