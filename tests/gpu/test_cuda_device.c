/*
 * The cuda device on a card: compile, assemble, run guarded, be caught, be timed. Says what it measured, for RESULTS.md. A fault
 * ends a context, so each case is a process of its own: this program again, as `case NAME`. `child ROLE` is a case in the sandbox.
 */
#include "core/clock.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/device_case.h"

#include <sys/wait.h>

enum { SMALL = 1000 };
static struct toolkit_paths toolkit;

#define KERNEL(body)                                                                                                  \
    "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n{\n    int i = blockIdx.x " \
    "* blockDim.x + threadIdx.x;\n" body "}\n"
#define REST "    if (i < n) { y[i] = 2.f * x[i] + s[i]; s[i] += 1.f; }\n"

static const struct row {
    const char *name, *source;
    enum verdict_code code;
    bool guards;          /* wanted, where code is ok */
    enum device_place place;
} rows[] = {
    {"good", case_good, VERDICT_OK, true, DEVICE_AT_END},
    {"good_at_start", case_good, VERDICT_OK, true, DEVICE_AT_START},
    {"write_past_end", KERNEL(REST "    if (i == n) y[i] = 1.f;\n"), VERDICT_OUT_OF_BOUNDS, true, DEVICE_AT_END},
    {"read_past_end", KERNEL(REST "    if (i == n) y[0] = x[i];\n"), VERDICT_OUT_OF_BOUNDS, true, DEVICE_AT_END},
    {"read_far_before", KERNEL(REST "    if (i == 0) y[0] = x[-16];\n"), VERDICT_OUT_OF_BOUNDS, true, DEVICE_AT_START},
    {"write_input", KERNEL(REST "    if (i == 0) ((float *)x)[3] = 1.f;\n"), VERDICT_OUT_OF_BOUNDS, true,
     DEVICE_AT_END},
    {"write_near_before", KERNEL(REST "    if (i == 0) y[-2] = 1.f;\n"), VERDICT_OK, false, DEVICE_ODD},
    {"write_before_start", KERNEL(REST "    if (i == 0) y[-2] = 1.f;\n"), VERDICT_OUT_OF_BOUNDS, true, DEVICE_AT_START},
    {"good_odd", case_good, VERDICT_OK, true, DEVICE_ODD},
    {"misaligned", KERNEL(REST "    if (i == 0) *(float *)((char *)w + 2) = 1.f;\n"), VERDICT_MISALIGNED, true,
     DEVICE_AT_END},
    {"trap", KERNEL(REST "    if (i == 0) __trap();\n"), VERDICT_FAULT, true, DEVICE_AT_END},
    {"counts_on_alignment", KERNEL(REST "    if (i == 0 && ((unsigned long long)x & 31)) __trap();\n"), VERDICT_FAULT,
     true, DEVICE_ODD},
    {"counts_on_aligned_ok", KERNEL(REST "    if (i == 0 && ((unsigned long long)x & 255)) __trap();\n"), VERDICT_OK,
     true, DEVICE_AT_START},
    {"counts_on_unaligned", KERNEL(REST "    if (i == 0 && !((unsigned long long)x & 255)) __trap();\n"), VERDICT_FAULT,
     true, DEVICE_AT_START},
    {"counts_on_unaligned_ok", KERNEL(REST "    if (i == 0 && !((unsigned long long)x & 255)) __trap();\n"), VERDICT_OK,
     true, DEVICE_ODD},
};

/* Runs one row here; 0 as it should be. */
static int run_row(const struct row *r)
{
    static struct device_case c;
    static float x[SMALL], s[SMALL], after_x[SMALL], after_s[SMALL], after_y[SMALL];
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    struct device_fault fault = {0};
    struct device_info info;
    int64_t at = clock_mono_ns();
    if (!device_cuda.open("cuda:0", &d, &err) || !device_cuda.info(d, &info, &err))
        return fprintf(stderr, "%s: open: %s\n", r->name, err.text), 1;
    int64_t open_ns = clock_mono_ns() - at;
    case_shape(&c, SMALL);
    case_fill(x, s, SMALL);
    if (!case_code(&c, &toolkit, r->source, info.target, &err) || !device_cuda.load(d, &c.load, &p, &fault, &err) || !p)
        return fprintf(stderr, "%s: load: %s%s\n", r->name, err.text, fault.text), 1;
    void *after[3] = {after_x, after_s, after_y};
    const void *const before[3] = {x, s, NULL};
    int64_t run_ns = 0;
    for (int k = 0; k < 3 && fault.code == VERDICT_OK; k++) {
        struct device_run_result result = {.tensors = after};
        const struct device_run how = {
            .tensors = before, .poison = UINT64_C(0x7ff7a5a57ff7a500) + (unsigned)k, .place = r->place};
        at = clock_mono_ns();
        if (!device_cuda.run(p, &how, &result, &fault, &err))
            return fprintf(stderr, "%s: run: %s\n", r->name, err.text), 1;
        run_ns = clock_mono_ns() - at;
        if (fault.code == VERDICT_OK && result.guards_intact != r->guards)
            return fprintf(stderr, "%s: guards intact: %d\n", r->name, result.guards_intact), 1;
    }
    printf("  %-20s %-14s open %.1f ms, run %.2f ms %s\n", r->name, verdict_name(fault.code), (double)open_ns / 1e6,
           (double)run_ns / 1e6, fault.text);
    if (fault.code != r->code)
        return fprintf(stderr, "%s: %s, wanted %s\n", r->name, verdict_name(fault.code), verdict_name(r->code)), 1;
    if (r->code != VERDICT_OK) {
        /* The context is gone, and the device says so instead of going on. */
        struct device_run_result result = {.tensors = after};
        const struct device_run how = {.tensors = before};
        device_fault_done(&fault);
        bool refused = !device_cuda.run(p, &how, &result, &fault, &err);
        return refused ? 0 : (fprintf(stderr, "%s: ran on after a fault\n", r->name), 1);
    }
    int wrong = 0;
    for (int i = 0; i < SMALL; i++)
        wrong += after_y[i] != 2 * x[i] + s[i] || after_s[i] != s[i] + 1 || after_x[i] != x[i];
    if (wrong)
        fprintf(stderr, "%s: %d of %d elements wrong\n", r->name, wrong, SMALL);
    device_cuda.unload(p);
    device_cuda.close(d);
    case_done(&c);
    return wrong != 0;
}

/* ---- timing ---- */

static double median(double *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            double swap = v[k];
            v[k] = v[k - 1];
            v[k - 1] = swap;
        }
    return v[n / 2];
}

/* A launch that does nothing leaves the poison; one that works leaves the right result for its own rotation. */
static int check_outputs(struct device_program *p, int sets, int64_t n, const float *x, const float *s, bool empty)
{
    float *y = xarray((size_t)n, sizeof *y);
    struct err err = {0};
    int checked = 0, wrong = 0;
    for (int set = 0; set < sets && checked < 5; set++) {
        struct device_windows w[OP_MAX_TENSORS];
        if (!device_cuda.time_windows(p, set, w, &err))
            return fprintf(stderr, "windows: %s\n", err.text), 1;
        if (!device_cuda.time_output(p, set, CASE_Y, y, &err))
            continue;
        checked++;
        for (int64_t i = 0; i < n; i++) {
            float want = 2 * x[device_windows_element(&w[CASE_X], i)] + s[device_windows_element(&w[CASE_S], i)];
            wrong += empty ? y[i] == want : y[i] != want;
        }
    }
    free(y);
    if (!checked || wrong)
        fprintf(stderr, "timed outputs: %d sets checked, %d elements wrong\n", checked, wrong);
    return !checked || wrong > (empty ? (int)n : 0);
}

static int time_one(struct device *d, const char *target, const char *name, const char *source, int64_t n,
                    int per_thread, int launches, bool empty)
{
    enum { BLOCKS = 21 };
    static struct device_case c;
    struct err err = {0};
    struct device_program *p = NULL;
    struct device_fault fault = {0};
    float *x = xarray((size_t)n, sizeof *x), *s = xarray((size_t)n, sizeof *s);
    double event[BLOCKS], wall[BLOCKS], clock = 0;
    static const bool mix[3] = {true, true, false};
    int sets = 0;
    c = (struct device_case){.plan = {0}};
    case_shape(&c, n);
    c.plan.workspaces[0].bytes = 256;
    c.plan.steps[0].grid[0] = (uint32_t)((n / per_thread + 127) / 128);
    case_fill(x, s, n);
    const void *const base[3] = {x, s, NULL};
    const struct device_time_setup setup = {
        .tensors = base, .mix = mix, .rotate_bytes_least = (int64_t)300 << 20, .max_sets = 450, .seed = 7, .exact = !empty};
    int64_t at = clock_mono_ns();
    if (!case_code(&c, &toolkit, source, target, &err) || !device_cuda.load(d, &c.load, &p, &fault, &err) || !p ||
        !device_cuda.time_setup(p, &setup, &sets, &fault, &err) || fault.code != VERDICT_OK)
        return fprintf(stderr, "%s: %s%s\n", name, err.text, fault.text), 1;
    int64_t setup_ns = clock_mono_ns() - at;
    int got = 0;
    at = clock_mono_ns();
    for (int b = 0; b < BLOCKS; b++) {
        struct device_sample sample = {0};
        const struct device_time_block how = {launches, (uint64_t)b};
        if (!device_cuda.time_block(p, &how, &sample, &fault, &err) || fault.code != VERDICT_OK)
            return fprintf(stderr, "%s: block %d: %s%s\n", name, b, err.text, fault.text), 1;
        event[b] = (double)sample.event_ns / sample.launches;
        wall[b] = (double)sample.wall_ns / sample.launches;
        clock = sample.sm_clock_mhz;
        got = sample.launches;
    }
    int64_t block_ns = (clock_mono_ns() - at) / BLOCKS;
    double median_ns = median(event, BLOCKS);
    printf("  %-16s %4d launches of %4d sets: %9.1f ns a launch (least %.1f, most %.1f), wall %.1f; SM %.0f MHz; setup "
           "%.0f ms, block %.2f ms\n",
           name, got, sets, median_ns, event[0], event[BLOCKS - 1], median(wall, BLOCKS), clock, (double)setup_ns / 1e6,
           (double)block_ns / 1e6);
    int bad = check_outputs(p, sets, n, x, s, empty);
    device_cuda.unload(p);
    case_done(&c);
    free(x);
    free(s);
    return bad;
}

static int run_timing(void)
{
    struct err err = {0};
    struct device *d = NULL;
    struct device_info info;
    cleanup(json) json_t *figures = NULL;
    if (!device_cuda.open("cuda:0", &d, &err) || !device_cuda.info(d, &info, &err) ||
        !device_cuda.calibrate(d, &figures, &err))
        return fprintf(stderr, "calibrate: %s\n", err.text), 1;
    cleanup(str) char *text = json_text(figures);
    printf("  %s, driver %s, %d SMs, L2 %lld bytes, pageable access %d\n  calibration: %s\n", info.name, info.driver,
           info.sm_count, (long long)info.l2_bytes, info.pageable_memory_access, text);
    static const char *const empty = KERNEL("");
    static const char *const vector =
        "extern \"C\" __global__ void k(const float4 *x, float4 *s, float4 *y, float *w, int n)\n{\n    int i = "
        "blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n / 4) { float4 a = x[i], b = s[i]; y[i] = make_float4(2*a.x+b.x, 2*a.y+b.y, 2*a.z+b.z, "
        "2*a.w+b.w); s[i] = make_float4(b.x+1,b.y+1,b.z+1,b.w+1); }\n}\n";
    int bad = time_one(d, info.target, "empty", empty, SMALL, 1, 200, true);
    bad += time_one(d, info.target, "1000 elements", KERNEL(REST), SMALL, 1, 200, false);
    bad += time_one(d, info.target, "4 Mi elements", KERNEL(REST), (int64_t)4 << 20, 1, 20, false);
    bad += time_one(d, info.target, "4 Mi, float4", vector, (int64_t)4 << 20, 4, 20, false);
    bad += time_one(d, info.target, "odd size", KERNEL(REST), 1000003, 1, 40, false);
    device_cuda.close(d);
    return bad;
}

/* What the card's counters say of 4 Mi elements: 48 MiB through DRAM, read and written. */
static int run_profile(void)
{
    static struct device_case c;
    enum { N = 4 << 20 };
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    struct device_fault fault = {0};
    struct device_info info;
    struct device_profile_result r = {0};
    float *x = calloc(N, sizeof *x), *s = calloc(N, sizeof *s);
    const struct device_profile how = {.tensors = (const void *const[]){x, s, NULL}, .poison = UINT64_C(0x7ff7a5a57ff7a5a5)};
    int64_t at = clock_mono_ns();
    if (!device_cuda.profile_prepare(toolkit.cupti, &err) || !device_cuda.open("cuda:0", &d, &err) || !device_cuda.info(d, &info, &err))
        return fprintf(stderr, "profile: open: %s\n", err.text), 1;
    case_shape(&c, N);
    if (!case_code(&c, &toolkit, KERNEL(REST), info.target, &err) || !device_cuda.load(d, &c.load, &p, &fault, &err))
        return fprintf(stderr, "profile: load: %s%s\n", err.text, fault.text), 1;
    int64_t begun = clock_mono_ns();
    bool ok = device_cuda.profile(p, &how, &r, &fault, &err);
    fprintf(stderr, "  profile: %s%s; %d passes in %.0f ms, %.0f ms before\n", ok ? "done" : err.text, fault.text, r.passes,
            (double)(clock_mono_ns() - begun) / 1e6, (double)(begun - at) / 1e6);
    if (ok && r.step_count) {
        static const char *const names[] = {
#define X(name, metric) #name,
            PROFILE_FIGURES(X)
#undef X
#define X(name) #name,
            PROFILE_STALLS(X)
#undef X
        };
        for (int k = 0; k < PROFILE_ITEMS; k++)
            fprintf(stderr, "%s%s %.4g", k ? ", " : "    ", names[k], r.steps[0][k]);
        fprintf(stderr, "\n");
    }
    double moved = r.steps[0][PROFILE_dram_read_bytes];
    return !ok || r.step_count != 1 || !(moved > 30e6 && moved < 40e6);     /* x and s are read: 32 MiB */
}

/* ---- in the sandbox ---- */

static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers;
    struct err err = {0};
    if (!sandbox_enter(argc, argv, &role, &layers, &err))
        return fprintf(stderr, "enter: %s\n", err.text), 1;
    if (!toolkit_find(NULL, &toolkit, &err))
        return fprintf(stderr, "toolkit: %s\n", err.text), 1;
    int bad = getenv("PROFILES") ? run_profile() : run_row(&rows[0]);
    fflush(stdout);
    if (write(3, &layers, sizeof layers) != sizeof layers)
        return 1;
    return bad;
}

static void test_sandboxed(const char *label, unsigned without, bool profiles)
{
    struct device_needs needs;
    struct err err = {0};
    bool found = device_needs_find("cuda:0", &needs, &err);
    check(found);
    if (!found)
        return;
    const char *paths[DEVICE_MAX_NEEDS + 9];
    int n = 0;
    for (char **p = needs.read_only; *p; p++)
        paths[n++] = *p;
    paths[n++] = toolkit.nvrtc, paths[n++] = toolkit.builtins, paths[n++] = toolkit.nvjitlink,
    paths[n++] = toolkit.include;
    static const char *const helpers[] = {"libnvperf_host.so", "libnvperf_target.so"};
    cleanup(str) char *folder = xstrndup(toolkit.cupti, strlen(toolkit.cupti) - strlen(strrchr(toolkit.cupti, '/')));
    cleanup(str) char *host = xfmt("%s/%s", folder, helpers[0]), *target = xfmt("%s/%s", folder, helpers[1]);
    if (profiles)
        paths[n++] = toolkit.cupti, paths[n++] = host, paths[n++] = target;
    paths[n] = NULL;
    const char *env[12];
    int e = 0;
    while (needs.env[e])
        env[e] = needs.env[e], e++;
    cleanup(str) char *home = xfmt("CUDA_HOME=%s", toolkit.home);
    env[e++] = home;
    if (profiles)
        env[e++] = "PROFILES=1";
    env[e] = NULL;
    const struct sandbox_limits limits = {
        .cpu_seconds = 60, .memory_bytes = (int64_t)16 << 30, .file_bytes = 0, .open_files = 256, .processes = 256};
    const struct sandbox_paths visible = {paths, (const char *const *)needs.devices};
    struct sandbox_child child = {0};
    struct sandbox_status status;
    sandbox_without(without);
    bool spawned = sandbox_spawn(SANDBOX_RUN_CUDA, &limits, &visible, env, &child, &err);
    sandbox_without(0);
    check(spawned);
    if (!spawned)
        return;
    unsigned layers = 0;
    sandbox_wait(&child, clock_mono_ns() + 60000000000, &status);
    const char *said = sandbox_stderr(&child);
    bool ok = status.end == SANDBOX_EXITED && status.code == 0;
    printf("  %-40s end %d code %d, %.0f ms\n%s", label, status.end, status.code, (double)status.wall_ns / 1e6, said);
    check(ok);
    (void)layers;
    buf_done(&child.stderr_tail);
    device_needs_done(&needs);
}

static int run_case(const char *program, const char *name)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "case", name, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    cleanup(json) json_t *list = NULL;
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    if (argc == 3 && strcmp(argv[1], "case") == 0) {
        if (strcmp(argv[2], "profile") == 0)
            return run_profile();
        if (strcmp(argv[2], "timing") == 0)
            return run_timing();
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (strcmp(rows[i].name, argv[2]) == 0)
                return run_row(&rows[i]);
        return 2;
    }
    int64_t at = clock_mono_ns();
    if (argc == 2 && strcmp(argv[1], "profiles") == 0) {       /* these alone: from the bottom up, so that a layer that is in the way is known */
        check_int(run_case(argv[0], "profile"), 0);
        test_sandboxed("limits alone", SANDBOX_NAMESPACES | SANDBOX_LANDLOCK | SANDBOX_SECCOMP, true);
        test_sandboxed("without seccomp", SANDBOX_SECCOMP, true);
        test_sandboxed("without namespaces", SANDBOX_NAMESPACES, true);
        test_sandboxed("all layers", 0, true);
        return test_done();
    }
    if (!device_list(&list, &err) || strcmp(json_str(json_array_get(list, 0), "kind", ""), "cuda") != 0)
        test_skip("no CUDA card here");
    cleanup(str) char *text = json_text(list);
    printf("devices in %.1f ms: %s\n", (double)(clock_mono_ns() - at) / 1e6, text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_int(run_case(argv[0], rows[i].name), 0);
    check_int(run_case(argv[0], "timing"), 0);
    check_int(run_case(argv[0], "profile"), 0);
    unsigned layers = 0;
    check(sandbox_probe(&layers, &err));
    printf("sandbox: %s (%u)\n", sandbox_level(layers), layers);
    /* From the top down, so that one failing layer is known by name. */
    test_sandboxed("all layers", 0, false);
    test_sandboxed("without namespaces", SANDBOX_NAMESPACES, false);
    test_sandboxed("without Landlock", SANDBOX_LANDLOCK, false);
    test_sandboxed("without seccomp", SANDBOX_SECCOMP, false);
    test_sandboxed("limits alone", SANDBOX_NAMESPACES | SANDBOX_LANDLOCK | SANDBOX_SECCOMP, false);
    test_sandboxed("a profile, all layers", 0, true);
    return test_done();
}
