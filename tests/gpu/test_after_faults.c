/*
 * A device must be usable right after whatever a candidate did to it. For each way to go wrong: a kernel does it in a run child in
 * its sandbox, its verdict must be the right one, and an honest kernel in a second child, started at once, must get the right
 * result. Where a kernel never ends the first child is killed, as the judge would.
 *
 * On a card this says how long it takes: from the fault's report (or the kill) to the child's end, and from there to the honest
 * result, beside what the honest child takes when nothing came before it. Without a card the same on the emulator, as far as it
 * knows the fault; its times mean nothing.
 * Usage: test_after_faults [cuda:N|sim]
 */
#include "core/clock.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/device_case.h"

#include <poll.h>
#include <unistd.h>

enum { N = 1000 };
#define MS ((int64_t)1000000)
#define HANG_NS (1500 * MS)              /* a kernel that takes so long has not ended by itself: honest ones take microseconds */
#define ANSWER_NS (60000 * MS)
#define SIM_INSTRUCTIONS 20000000

#define KERNEL(body)                                                                                                  \
    "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n{\n    int i = blockIdx.x " \
    "* blockDim.x + threadIdx.x;\n" body "}\n"
#define REST "    if (i < n) { y[i] = 2.f * x[i] + s[i]; s[i] += 1.f; }\n"

#define V(code) (UINT64_C(1) << VERDICT_##code)
#define OURS (UINT64_C(1) << 63)          /* our failure: the judge refuses so much before a card sees it (LIMIT_STACK_BYTES) */
#define ANY_FAULT (V(FAULT) | V(OUT_OF_BOUNDS) | V(MISALIGNED) | V(RESOURCE_LIMIT))
enum { ON_CARD = 1, ON_SIM = 2, BOTH = 3 };

static void grid_of_many(struct plan *p) { p->cooperative = true, p->steps[0].grid[0] = 100000; }
static void wide_block(struct plan *p) { p->steps[0].block[0] = 1024, p->steps[0].grid[0] = 1; }
static void much_shared(struct plan *p) { p->steps[0].shared_bytes = 300000; }

/* codes: what may come of it, as bits; `hangs`: or nothing at all, until it is killed. */
static const struct fault { const char *name, *source; uint64_t codes; bool hangs; int where; void (*plan)(struct plan *); } faults[] = {
    {"nothing", KERNEL(REST), V(OK), false, BOTH, NULL},
    {"endless loop", KERNEL(REST "    while (*(volatile float *)s != 12345.f) ;\n"), V(TIMEOUT), true, BOTH, NULL},
    {"deadlocked barrier", KERNEL(REST "    if (threadIdx.x < 32) asm volatile(\"bar.sync 1, 64;\");\n    else if (threadIdx.x < 64) while (*(volatile float *)s != 12345.f) ;\n"),
     V(TIMEOUT) | V(BARRIER_DIVERGENCE), true, BOTH, NULL},
    {"barrier that half reach", KERNEL(REST "    if (threadIdx.x < 32) asm volatile(\"bar.sync 1, 64;\");\n"), V(TIMEOUT) | V(BARRIER_DIVERGENCE), true, BOTH, NULL},
    {"trap", KERNEL(REST "    if (i == 7) __trap();\n"), V(FAULT), false, BOTH, NULL},
    {"assert", "#define assert(c) ((c) ? (void)0 : __assertfail(#c, \"f\", 1, \"k\", 1))\n"
               "extern \"C\" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);\n"
               KERNEL(REST "    assert(n == 3);\n"), V(FAULT), false, ON_CARD, NULL},
    {"printf flood", KERNEL("    for (int r = 0; r < 2000; r++) printf(\"%d %d aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\n\", i, r);\n" REST), V(OK), false, ON_CARD, NULL},
    {"heap exhausted", KERNEL("    void *p = 0, *q; while ((q = malloc(1 << 12))) p = q;\n    if (i < n && p == (void *)1) y[i] = 0;\n" REST), V(OK), false, ON_CARD, NULL},
    {"heap, written to nothing", KERNEL("    float *p; do { p = (float *)malloc(1 << 20); p[5] = 1.f; } while (n);\n" REST), ANY_FAULT, false, ON_CARD, NULL},
    {"stack bomb", "__device__ __noinline__ float deep(float v, int d, volatile float *a)\n{\n    volatile float here[64];\n    here[d & 63] = v + a[0];\n"
                   "    return d <= 0 ? here[d & 63] : deep(here[d & 63], d - 1, here) + here[(d + 1) & 63];\n}\n"
                   KERNEL(REST "    float a[1] = {1.f};\n    y[i % n] = deep(1.f, n * 100000, a);\n"), ANY_FAULT, false, ON_CARD, NULL},
    {"illegal address", KERNEL(REST "    if (i == 0) *(volatile float *)0x7000000000 = 1.f;\n"), V(OUT_OF_BOUNDS), false, BOTH, NULL},
    {"null pointer", KERNEL(REST "    if (i == 0) y[0] = *(volatile float *)8;\n"), V(OUT_OF_BOUNDS), false, BOTH, NULL},
    {"write to an input", KERNEL(REST "    if (i == 0) ((volatile float *)x)[3] = 1.f;\n"), V(OUT_OF_BOUNDS) | V(INPUT_MODIFIED), false, BOTH, NULL},
    {"misaligned address", KERNEL(REST "    if (i == 0) *(volatile float *)((char *)w + 2) = 1.f;\n"), V(MISALIGNED), false, BOTH, NULL},
    {"shared, far outside", KERNEL("    __shared__ float a[32];\n" REST "    ((volatile float *)a)[i % n * 1000000 + 100000] = 1.f;\n"), V(OUT_OF_BOUNDS) | V(FAULT), false, BOTH, NULL},
    {"local, far outside", KERNEL("    volatile float a[8];\n    a[i & 7] = 1.f;\n" REST "    a[n * 1000000] = a[i & 7];\n"), V(OUT_OF_BOUNDS) | V(FAULT), false, ON_CARD, NULL},
    {"jump into nowhere", KERNEL(REST "    void (*f)(int) = (void (*)(int))(0x12345678ull * (unsigned long long)n);\n    f(i);\n"), ANY_FAULT, false, ON_CARD, NULL},
    {"illegal descriptor", KERNEL(REST "    __shared__ alignas(128) float a[1024];\n    __shared__ alignas(8) unsigned long long m;\n"
                                  "    unsigned to = (unsigned)__cvta_generic_to_shared(a), bar = (unsigned)__cvta_generic_to_shared(&m);\n"
                                  "    if (threadIdx.x == 0) { asm volatile(\"mbarrier.init.shared.b64 [%0], 1;\" :: \"r\"(bar));\n"
                                  "      asm volatile(\"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];\"\n"
                                  "        :: \"r\"(to), \"l\"(((unsigned long long)w + 63) & ~63ull), \"r\"(0), \"r\"(bar) : \"memory\"); }\n    __syncthreads();\n"),
     ANY_FAULT | V(OK), false, ON_CARD, NULL},
    {"too many registers", "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n{\n    int i = threadIdx.x;\n    float a[200];\n"
                           "    for (int r = 0; r < 200; r++) a[r] = x[(i + r) % n];\n    for (int q = 0; q < n; q++)\n#pragma unroll\n        for (int r = 0; r < 200; r++) a[r] = a[r] * a[(r * 7 + 3) % 200] + 1.f;\n"
                           "    for (int r = 0; r < 200; r++) y[(i + r) % n] = a[r];\n}\n", V(RESOURCE_LIMIT) | V(REJECTED_PLAN), false, ON_CARD, wide_block},
    {"too much shared memory", KERNEL(REST), V(RESOURCE_LIMIT) | V(REJECTED_PLAN), false, BOTH, much_shared},
    {"cooperative, not resident", KERNEL(REST), V(RESOURCE_LIMIT) | V(REJECTED_PLAN), false, ON_CARD, grid_of_many},
    {"half a mebibyte of local memory", KERNEL("    volatile float a[130000];\n    for (int r = 0; r < 3; r++) a[(i * 977 + r * n) % 130000] = (float)r;\n"
                                               "    if (a[(i * 977) % 130000] == 5.f) w[i % n] = 1.f;\n" REST), OURS | V(RESOURCE_LIMIT) | V(OK), false, ON_CARD, NULL},
    {"exit half way", KERNEL("    if (i == 64) asm volatile(\"exit;\");\n" REST), V(OK) | V(WRONG_RESULT), false, BOTH, NULL},
};
#define FAULTS ((int)(sizeof faults / sizeof *faults))

struct job { char device[16], target[16]; int fault; uint32_t ptx_bytes, cubin_bytes; struct ptx_resources resources; };
enum stage { OPENED, LOADED, ENDED };
struct report { enum stage stage; bool ours; enum verdict_code code; int wrong; int64_t at_ns; char text[240]; };

static void tell(enum stage stage, const struct device_fault *f, int wrong, const struct err *err)
{
    struct report r = {.stage = stage, .code = f ? f->code : VERDICT_OK, .wrong = wrong, .ours = err != NULL, .at_ns = clock_mono_ns()};
    snprintf(r.text, sizeof r.text, "%s", err ? err->text : f ? f->text : "");
    struct err ignored;
    (void)!fd_write_all(3, &r, sizeof r, &ignored);
}

/* ---- the run child ---- */

static int run_job(const struct job *job, const char *ptx, const void *cubin)
{
    static struct device_case c;
    static float x[N], s[N], after_x[N], after_s[N], after_y[N];
    const struct device_ops *ops = device_find(job->device);
    struct device *d = NULL;
    struct device_program *p = NULL;
    struct device_fault fault = {0};
    struct err err = {0};
    if (!ops->open(job->device, &d, &err))
        return tell(OPENED, NULL, 0, &err), 1;
    tell(OPENED, NULL, 0, NULL);
    case_shape(&c, N);
    case_fill(x, s, N);
    if (faults[job->fault].plan)
        faults[job->fault].plan(&c.plan);
    for (int i = 0; i < PLAN_MAX_STEPS; i++)
        c.resources[i] = job->resources;
    c.load = (struct device_load){.shape = &c.shape, .tensors = c.tensors, .plan = &c.plan, .ptx = ptx, .ptx_bytes = job->ptx_bytes,
                                  .cubin = cubin, .cubin_bytes = job->cubin_bytes, .resources = c.resources};
    if (!ops->load(d, &c.load, &p, &fault, &err))
        return tell(ENDED, NULL, 0, &err), 1;
    if (!p)
        return tell(ENDED, &fault, 0, NULL), 0;
    tell(LOADED, NULL, 0, NULL);
    void *after[3] = {after_x, after_s, after_y};
    const void *const before[3] = {x, s, NULL};
    struct device_run_result result = {.tensors = after};
    const struct device_run how = {.tensors = before, .poison = UINT64_C(0x7ff7a5a57ff7a500), .place = DEVICE_AT_END, .threads = 1,
                                   .wall_limit_ns = 20000 * MS, .thread_instruction_limit = SIM_INSTRUCTIONS};
    if (!ops->run(p, &how, &result, &fault, &err))
        return tell(ENDED, NULL, 0, &err), 1;
    int wrong = 0;
    for (int i = 0; i < N && fault.code == VERDICT_OK; i++)
        wrong += after_y[i] != 2 * x[i] + s[i] || after_s[i] != s[i] + 1 || after_x[i] != x[i];
    tell(ENDED, &fault, wrong, NULL);
    pause();                /* as the judge's child does: it is ended by the supervisor, with all that it holds */
    return 0;
}

static int be_child(int argc, char **argv)
{
    enum sandbox_role role;
    unsigned layers;
    struct err err = {0};
    struct job job;
    if (!sandbox_enter(argc, argv, &role, &layers, &err) || !fd_read_all(3, &job, sizeof job, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    char *ptx = xalloc(job.ptx_bytes + 1), *cubin = xalloc(job.cubin_bytes + 1);
    if (!fd_read_all(3, ptx, job.ptx_bytes, &err) || !fd_read_all(3, cubin, job.cubin_bytes, &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    return run_job(&job, ptx, cubin);
}

/* ---- the supervisor ---- */

static const char *device;
static struct device_needs needs;
static struct toolkit_paths toolkit;
static struct code { struct toolkit_compiled c; struct toolkit_assembled a; } codes[FAULTS];

static bool start(int fault, struct sandbox_child *child)
{
    bool card = strncmp(device, "cuda", 4) == 0;
    const struct sandbox_limits limits = {.cpu_seconds = 120, .memory_bytes = (int64_t)16 << 30, .open_files = 128, .processes = 64};
    const struct sandbox_paths visible = {(const char *const *)needs.read_only, (const char *const *)needs.devices};
    const struct code *c = &codes[fault];
    struct job job = {.fault = fault, .ptx_bytes = (uint32_t)c->c.ptx_bytes, .cubin_bytes = (uint32_t)c->a.cubin_bytes, .resources = c->a.kernels[0].resources};
    struct err err = {0};
    snprintf(job.device, sizeof job.device, "%s", device);
    bool ok = sandbox_spawn(card ? SANDBOX_RUN_CUDA : SANDBOX_RUN_SIM, &limits, card ? &visible : NULL, card ? (const char *const *)needs.env : NULL, child, &err) &&
              fd_write_all(child->fd, &job, sizeof job, &err) && fd_write_all(child->fd, c->c.ptx, c->c.ptx_bytes, &err) &&
              fd_write_all(child->fd, c->a.cubin, c->a.cubin_bytes, &err);
    if (!ok)
        fprintf(stderr, "%s: %s\n", faults[fault].name, err.text);
    check(ok);
    return ok;
}

/* False: it said nothing in time, or is gone. */
static bool hear(struct sandbox_child *child, enum stage stage, int64_t limit_ns, struct report *ret)
{
    int64_t until = clock_mono_ns() + limit_ns;
    for (;;) {
        struct pollfd p[2] = {{.fd = child->fd, .events = POLLIN}, {.fd = child->stderr_fd, .events = POLLIN}};
        int64_t left_ms = (until - clock_mono_ns()) / MS;
        struct err err;
        if (left_ms < 0 || poll(p, 2, (int)left_ms) < 0)
            return false;
        if (p[1].revents & POLLIN)
            sandbox_stderr(child);           /* a flood is drained, not waited for */
        if (p[0].revents && !fd_read_all(child->fd, ret, sizeof *ret, &err))
            return false;
        if (p[0].revents && (ret->stage == ENDED || ret->stage == stage))
            return true;
    }
}

struct times { int64_t open_ns, fault_ns, end_ns, honest_ns; };      /* spawn to open, to the fault's report, from there to the child's end, to the result */

/* In a child: the kernel of a row, and how long its parts took. */
static void run(int fault, struct report *ret, bool *ret_hung, struct times *t)
{
    struct sandbox_child child = {0};
    struct sandbox_status status;
    struct report r = {0};
    int64_t from = clock_mono_ns();
    if (!start(fault, &child))
        return;
    bool opened = hear(&child, OPENED, ANSWER_NS, &r);
    t->open_ns = clock_mono_ns() - from;
    check(opened && !r.ours);
    bool loaded = opened && (r.stage == ENDED || hear(&child, LOADED, ANSWER_NS, &r));
    check(loaded);
    bool ended = loaded && (r.stage == ENDED || hear(&child, ENDED, faults[fault].hangs ? HANG_NS : ANSWER_NS, &r));
    int64_t at = clock_mono_ns();
    t->fault_ns = at - from;
    *ret_hung = loaded && !ended && poll(&(struct pollfd){.fd = child.fd, .events = POLLIN}, 1, 0) == 0;
    *ret = r;
    sandbox_stop(&child, 0, &status);
    t->end_ns = clock_mono_ns() - at;
    if (!ended && !*ret_hung)
        fprintf(stderr, "%s: ended with %d: %s\n", faults[fault].name, status.code, sandbox_stderr(&child));
    buf_done(&child.stderr_tail);
}

static void test_fault(int f, int64_t usual_ns)
{
    struct report r = {0}, honest = {0};
    struct times t = {0}, after = {0};
    bool hung = false, never = false;
    run(f, &r, &hung, &t);
    int64_t from = clock_mono_ns();
    run(0, &honest, &never, &after);
    int64_t honest_ns = clock_mono_ns() - from - after.end_ns;
    bool right = hung ? faults[f].hangs : r.stage == ENDED && (r.ours ? faults[f].codes & OURS : faults[f].codes >> r.code & 1);
    bool usable = !never && honest.stage == ENDED && !honest.ours && honest.code == VERDICT_OK && honest.wrong == 0;
    printf("  %-32s %-20s fault to end %7.1f ms, then honest ok after %7.1f ms (usual %.1f)  %s\n", faults[f].name,
           hung ? "hangs, killed" : r.ours ? "OUR FAILURE" : verdict_name(r.code), (double)t.end_ns / 1e6, (double)honest_ns / 1e6, (double)usual_ns / 1e6, r.text);
    fflush(stdout);
    if (!right || !usable)
        fprintf(stderr, "%s: %s; then %s %s\n", faults[f].name, right ? "as it must be" : "WRONG VERDICT", usable ? "usable" : "NOT USABLE:", honest.text);
    check(right);
    check(usable);
    check(r.code != VERDICT_OK || hung || r.ours || f == 0 || (faults[f].codes & V(OK)));
    check(t.end_ns < 5000 * MS);
}

static bool compile_all(const char *target, int where)
{
    struct err err = {0};
    for (int f = 0; f < FAULTS; f++) {
        if (!(faults[f].where & where))
            continue;
        struct code *c = &codes[f];
        bool ok = toolkit_compile(&toolkit, faults[f].source, target, "", &c->c, &err) && c->c.ok &&
                  toolkit_assemble(&toolkit, c->c.ptx, c->c.ptx_bytes, target, 0, &c->a, &err) && c->a.ok;
        if (!ok)
            fprintf(stderr, "%s does not compile: %s%s%s\n", faults[f].name, err.text, c->c.log ? c->c.log : "", c->a.log ? c->a.log : "");
        check(ok);
        if (!ok)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        return be_child(argc, argv);
    cleanup(json) json_t *list = NULL;
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    check(device_list(&list, &err));
    device = argc > 1 ? argv[1] : json_str(json_array_get(list, 0), "id", "sim");
    bool card = strncmp(device, "cuda", 4) == 0;
    const char *target = card ? json_str(json_array_get(list, 0), "target", "sm_90a") : "sm_90a";
    if (!compile_all(target, card ? ON_CARD : ON_SIM) || (card && !device_needs_find(device, &needs, &err)))
        return fprintf(stderr, "%s\n", err.text), test_done();
    struct report r = {0};
    struct times t = {0};
    bool hung = false;
    int64_t usual_ns = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        run(0, &r, &hung, &t);
        usual_ns = t.fault_ns < usual_ns ? t.fault_ns : usual_ns;
    }
    printf("%s: an honest kernel in a new process: %.1f ms to the result (%.1f of them to the open device)\n", device, (double)usual_ns / 1e6, (double)t.open_ns / 1e6);
    for (int f = 0; f < FAULTS; f++)
        if (faults[f].where & (card ? ON_CARD : ON_SIM))
            test_fault(f, usual_ns);
    return test_done();
}
