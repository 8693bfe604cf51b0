/* The emulated device through the seam: right results, and each way of being wrong found with its place. */
#include "core/rng.h"
#include "tests/device_case.h"

static struct toolkit_paths toolkit;
enum { N = 1000 };
static float x[N], s[N], y[N];

struct outcome {
    struct device_fault fault;
    struct device_run_result result;
    float after_x[N], after_s[N], after_y[N];
};

static void outcome_done(struct outcome *o)
{
    device_fault_done(&o->fault);
}
DEFINE_CLEANUP(outcome, struct outcome, outcome_done(it))

/* Loads and runs once; `change` may edit the plan first. */
static void run_case(const char *source, void (*change)(struct plan *), uint64_t poison, struct outcome *o)
{
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    static struct device_case c;
    c = (struct device_case){.plan = {0}};
    case_shape(&c, N);
    if (change)
        change(&c.plan);
    bool ok = case_code(&c, &toolkit, source, "sm_90a", &err) && device_sim.open("sim", &d, &err) &&
              device_sim.load(d, &c.load, &p, &o->fault, &err);
    if (ok && p) {
        void *after[3] = {o->after_x, o->after_s, o->after_y};
        o->result = (struct device_run_result){.tensors = after};
        const void *const before[3] = {x, s, NULL};
        const struct device_run how = {.tensors = before,
                                       .poison = poison,
                                       .schedule_seed = 1,
                                       .check_races = true,
                                       .wall_limit_ns = 5000000000,
                                       .thread_instruction_limit = 10000000,
                                       .threads = 1};
        ok = device_sim.run(p, &how, &o->result, &o->fault, &err);
        if (ok && o->fault.code == VERDICT_OK) {
            double ns = 0;
            json_t *terms = NULL;
            ok = device_sim.estimate(p, &o->result, &ns, &terms, &err);
            check(ns > 100 && ns < 1e6 &&
                  json_array_size(json_object_get(terms, "steps")) == (size_t)c.plan.step_count);
            json_decref(terms);
        }
    }
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    if (p)
        device_sim.unload(p);
    if (d)
        device_sim.close(d);
    o->result.tensors = NULL;
    case_done(&c);
}

static void test_right(void)
{
    cleanup(outcome) struct outcome a = {.fault = {0}}, b = {.fault = {0}};
    run_case(case_good, NULL, 0x7ff7a5a57ff7a5a5, &a);
    run_case(case_good, NULL, 0x1234567812345678, &b);
    check_str(a.fault.text, "");
    check_int(a.fault.code, VERDICT_OK);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += a.after_y[i] != 2 * x[i] + s[i] || a.after_s[i] != s[i] + 1 || a.after_x[i] != x[i];
    check_int(wrong, 0);
    check(memcmp(a.after_y, b.after_y, sizeof y) == 0);
    check_int(a.result.step_count, 1);
    check(a.result.guards_intact && a.result.counts[0].blocks == 8 && a.result.counts[0].thread_instructions > N * 8);
    uint64_t sum = 0, sectors = 0;
    check(a.result.line_count > 0 && a.result.line_count <= DEVICE_MAX_LINES);
    for (int i = 0; i < a.result.line_count; i++) {
        const struct device_line *l = &a.result.lines[i];
        check(l->step == 0 && (l->source_line > 0 || l->ptx_line > 0));
        check(!i || l->warp_instructions <= a.result.lines[i - 1].warp_instructions);
        check(l->thread_instructions <= 32 * l->warp_instructions);
        sum += l->thread_instructions;
        sectors += l->global_sectors;
    }
    check(sum <= a.result.counts[0].thread_instructions && 2 * sum > a.result.counts[0].thread_instructions);
    check(sectors > 0 && sectors <= a.result.counts[0].global_load_sectors + a.result.counts[0].global_store_sectors);
}

static void drop_argument(struct plan *p) { p->steps[0].arg_count = 4; }
static void wide_argument(struct plan *p) { p->steps[0].args[4] = (struct plan_arg){PLAN_WORKSPACE, 0, 8, 0}; }
static void other_name(struct plan *p) { snprintf(p->steps[0].kernel, sizeof p->steps[0].kernel, "missing"); }
static void small_workspace(struct plan *p) { p->workspaces[0].bytes = 2000; }
static void zeroed_first(struct plan *p)
{
    p->steps[1] = p->steps[0];
    p->steps[0] = (struct plan_step){.is_memset = true, .memset_workspace = 0, .memset_value = 0};
    p->step_count = 2;
}
static void bad_cluster(struct plan *p) { p->steps[0].cluster[0] = 3; }

#define KERNEL(body)                                                                                                  \
    "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n{\n    int i = blockIdx.x " \
    "* blockDim.x + threadIdx.x;\n" body "}\n"
#define REST "    if (i < n) { y[i] = 2.f * x[i] + s[i]; s[i] += 1.f; }\n"

static const struct {
    const char *what, *source;
    void (*change)(struct plan *);
    enum verdict_code code;
    const char *buffer;
    int64_t offset;       /* -1: not looked at */
    int source_line;      /* 0: not looked at */
} rows[] = {
    {"write past the end", KERNEL(REST "    if (i == n) y[i] = 1.f;\n"), NULL, VERDICT_OUT_OF_BOUNDS, "y", 4000, 5},
    {"read before the start", KERNEL("    if (i == 0) y[0] = x[-1];\n" REST), NULL, VERDICT_OUT_OF_BOUNDS, "x", -4, 4},
    {"write to an input", KERNEL(REST "    if (i == 7) ((float *)x)[3] = 1.f;\n"), NULL, VERDICT_INPUT_MODIFIED, "x",
     12, 5},
    {"read of the output", KERNEL("    if (i < n) y[i] = 0.f * y[i] + 2.f * x[i] + s[i];\n"), NULL,
     VERDICT_UNINITIALISED_READ, "y", -1, 4},
    {"read of a workspace", KERNEL("    if (i < n) y[i] = w[i] + x[i];\n"), NULL, VERDICT_UNINITIALISED_READ, "w", -1,
     4},
    {"a workspace that a memset wrote", KERNEL("    if (i < n) { y[i] = w[i] + 2.f * x[i] + s[i]; s[i] += 1.f; }\n"),
     zeroed_first, VERDICT_OK, NULL, -1, 0},
    {"a workspace too small", case_good, small_workspace, VERDICT_OUT_OF_BOUNDS, "w", 2000, 5},
    {"counts on 32-byte alignment", KERNEL(REST "    if (i == 0 && ((unsigned long long)x & 31)) __trap();\n"), NULL,
     VERDICT_FAULT, NULL, -1, 0},
    {"has 16-byte alignment", KERNEL(REST "    if (i == 0 && ((unsigned long long)x & 15)) __trap();\n"), NULL,
     VERDICT_OK, NULL, -1, 0},
    {"misaligned", KERNEL(REST "    if (i == 0) *(float *)((char *)w + 2) = 1.f;\n"), NULL, VERDICT_MISALIGNED, "w", 2,
     5},
    {"last element never written", KERNEL("    if (i < n - 1) y[i] = 2.f * x[i] + s[i];\n"), NULL, VERDICT_WRONG_RESULT,
     "y", -1, 0},
    {"endless", KERNEL("    while (((volatile float *)s)[0] >= 0.f) ;\n" REST), NULL, VERDICT_TIMEOUT, NULL, -1, 0},
    {"too few arguments", case_good, drop_argument, VERDICT_REJECTED_PLAN, NULL, -1, 0},
    {"an argument too wide", case_good, wide_argument, VERDICT_REJECTED_PLAN, NULL, -1, 0},
    {"no such kernel", case_good, other_name, VERDICT_REJECTED_PLAN, NULL, -1, 0},
    {"grid no multiple of the cluster", case_good, bad_cluster, VERDICT_REJECTED_PLAN, NULL, -1, 0},
    {"block larger than compiled for",
     "extern \"C\" __global__ void __launch_bounds__(64) k(const float *x, float *s, float *y, float *w, int n) { y[0] "
     "= 1.f; }\n",
     NULL, VERDICT_REJECTED_PLAN, NULL, -1, 0},
    {"race in shared memory",
     KERNEL("    __shared__ float t[128];\n    t[threadIdx.x] = 0.f;\n    __syncthreads();\n    t[threadIdx.x] = i < n "
            "? x[i] : 0.f;\n    if (i < n) y[i] = t[(threadIdx.x + 32) % 128];\n"),
     NULL, VERDICT_RACE, NULL, -1, 0},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(outcome) struct outcome o = {.fault = {0}};
        run_case(rows[i].source, rows[i].change, 0x7ff7a5a57ff7a5a5, &o);
        if (o.fault.code != rows[i].code)
            fprintf(stderr, "%s: %s, wanted %s: %s\n", rows[i].what, verdict_name(o.fault.code),
                    verdict_name(rows[i].code), o.fault.text);
        check_int(o.fault.code, rows[i].code);
        if (o.fault.code != rows[i].code || o.fault.code == VERDICT_OK)
            continue;
        check(o.fault.text[0] && utf8_valid(o.fault.text, strlen(o.fault.text)));
        if (rows[i].buffer)
            check_str(json_str(o.fault.detail, "buffer", ""), rows[i].buffer);
        if (rows[i].offset != -1)
            check_int(json_int(o.fault.detail, "offset_bytes", -99), rows[i].offset);
        if (rows[i].source_line)
            check_int(json_int(o.fault.detail, "source_line", 0), rows[i].source_line);
    }
}

/* In the other place buffers lie as well as a caller's may: what is wrong only there is wrong. */
static void test_places(void)
{
    static const char skips[] = KERNEL("    if (((unsigned long long)y & 255) == 0) return;\n" REST);
    for (int place = DEVICE_AT_END; place <= DEVICE_AT_START; place++) {
        static struct device_case c;
        struct err err = {0};
        struct device *d = NULL;
        struct device_program *p = NULL;
        cleanup(device_fault) struct device_fault fault = {0};
        c = (struct device_case){.plan = {0}};
        case_shape(&c, N);
        bool ok = case_code(&c, &toolkit, skips, "sm_90a", &err) && device_sim.open("sim", &d, &err) &&
                  device_sim.load(d, &c.load, &p, &fault, &err);
        check(ok && p);
        if (ok && p) {
            struct device_run_result result = {0};
            const void *const before[3] = {x, s, NULL};
            const struct device_run how = {.tensors = before, .poison = 5, .threads = 1, .place = (enum device_place)place};
            check(device_sim.run(p, &how, &result, &fault, &err));
            check_int(fault.code, place == DEVICE_AT_START ? VERDICT_WRONG_RESULT : VERDICT_OK);
            device_sim.unload(p);
        }
        if (d)
            device_sim.close(d);
        case_done(&c);
    }
}

/* Padding between rows of a strided output is nobody's; a hole in an element is. */
static void test_strided_output(void)
{
    static struct device_case c;
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    cleanup(device_fault) struct device_fault fault = {0};
    c = (struct device_case){.plan = {0}};
    case_shape(&c, 64);
    c.tensors[CASE_Y].rank = 2;
    c.tensors[CASE_Y].dims[0] = 4, c.tensors[CASE_Y].dims[1] = 10, c.tensors[CASE_Y].strides[0] = 16,
    c.tensors[CASE_Y].strides[1] = 1;
    c.tensors[CASE_Y].elements = 40;
    c.tensors[CASE_Y].span_elements = 58;
    c.tensors[CASE_Y].bytes = 58 * 4;
    bool ok = case_code(&c, &toolkit, KERNEL("    if (i % 16 < 10 && i < 58) y[i] = 1.f;\n"), "sm_90a", &err) &&
              device_sim.open("sim", &d, &err) && device_sim.load(d, &c.load, &p, &fault, &err);
    check(ok && p);
    if (ok && p) {
        float out[64];
        void *after[3] = {NULL, NULL, out};
        struct device_run_result result = {.tensors = after};
        const void *const before[3] = {x, s, NULL};
        const struct device_run how = {.tensors = before, .poison = 5, .threads = 1};
        check(device_sim.run(p, &how, &result, &fault, &err));
        check_int(fault.code, VERDICT_OK);
        check(out[0] == 1.f && out[57] == 1.f && out[10] != 1.f);
        device_sim.unload(p);
    }
    if (d)
        device_sim.close(d);
    case_done(&c);
}

/*
 * Blocks that wait for one another without a promise that both run. Eight blocks, so many host threads that all run at once: it must be
 * found all the same, in the order in which the one that is waited for comes later; and who waits for blocks before it passes there.
 */
#define MEET(which, who, ready)                                                                              \
    KERNEL("    volatile int *flag = (volatile int *)w;\n    __shared__ int me;\n"                           \
           "    if (threadIdx.x == 0) {\n        me = " which ";\n        if (" who ")\n            while (" ready ")\n                ;\n" \
           "        __threadfence();\n        flag[16 * me] = 1;\n    }\n    __syncthreads();\n    i = me * blockDim.x + threadIdx.x;\n" REST)
static const struct { const char *what, *source; bool ascending, descending; } meetings[] = {
    {"waits for the next block", MEET("blockIdx.x", "me < 7", "flag[16 * (me + 1)] == 0"), false, true},
    {"waits for the block before", MEET("blockIdx.x", "me > 0", "flag[16 * (me - 1)] == 0"), true, false},
    {"waits for the one before by ticket", MEET("atomicAdd((int *)w + 900, 1)", "me > 0", "flag[16 * (me - 1)] == 0"), true, true},
    {"the last to come does more", MEET("blockIdx.x", "atomicAdd((int *)w + 900, 1) == 7", "flag[16 * me] == 2"), true, true},
    {"waits for all", MEET("blockIdx.x", "atomicAdd((int *)w + 900, 1) < 8", "((volatile int *)w)[900] < 8"), false, false},
};

static void test_meetings(void)
{
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++) {
        static struct device_case c;
        struct err err = {0};
        struct device *d = NULL;
        struct device_program *p = NULL;
        c = (struct device_case){.plan = {0}};
        case_shape(&c, N);
        zeroed_first(&c.plan);
        bool ok = case_code(&c, &toolkit, meetings[i].source, "sm_90a", &err) && device_sim.open("sim", &d, &err) &&
                  device_sim.load(d, &c.load, &p, &(struct device_fault){0}, &err);
        if (!ok || !p)
            fprintf(stderr, "%s: %s\n", meetings[i].what, c.compiled.log ? c.compiled.log : err.text);
        check(ok && p);
        for (uint64_t seed = 1; seed <= 8 && ok && p; seed++) {
            const bool down = seed & 1, may = down ? meetings[i].descending : meetings[i].ascending;
            cleanup(device_fault) struct device_fault fault = {0};
            struct device_run_result result = {.tensors = NULL};
            const void *const before[3] = {x, s, NULL};
            const struct device_run how = {.tensors = before, .threads = 16, .check_races = true, .explore = seed & 2,
                                           .schedule_seed = seed | (down ? PTX_SEED_DESCENDING : 0), .thread_instruction_limit = 3000000};
            check(device_sim.run(p, &how, &result, &fault, &err));
            if (fault.code != (may ? VERDICT_OK : VERDICT_TIMEOUT))
                fprintf(stderr, "%s, %s: %s %s\n", meetings[i].what, down ? "descending" : "ascending", verdict_name(fault.code), fault.text);
            check_int(fault.code, may ? VERDICT_OK : VERDICT_TIMEOUT);
        }
        device_sim.unload(p);
        device_sim.close(d);
        case_done(&c);
    }
}

static void test_seam(void)
{
    struct err err = {0};
    struct device *d = NULL;
    check(device_find("sim") == &device_sim && device_find("cuda:0") == &device_cuda && device_find("cuda:") == NULL &&
          device_find("cuda:x") == NULL && device_find("") == NULL && device_find("gpu") == NULL &&
          device_find("cuda:123456789") == NULL);
    check(!device_sim.open("cuda:0", &d, &err));
    cleanup(json) json_t *list = NULL;
    check(device_list(&list, &err));
    size_t n = json_array_size(list);
    check(n >= 1);
    json_t *sim = json_array_get(list, n - 1);
    check_str(json_str(sim, "kind", ""), "sim");
    check_str(json_str(sim, "target", ""), "sm_90a");
    check(json_bool(sim, "healthy", false) && strstr(json_str(sim, "name", ""), "H200"));
    struct device_needs needs;
    check(device_needs_find("sim", &needs, &err) && !needs.read_only[0] && !needs.devices[0]);
    device_needs_done(&needs);
    check(device_sim.time_setup == NULL && device_sim.calibrate == NULL);
    /* PTX that is none. */
    static struct device_case c;
    cleanup(device_fault) struct device_fault fault = {0};
    struct device_program *p = (void *)1;
    case_shape(&c, 64);
    c.load = (struct device_load){
        .shape = &c.shape, .tensors = c.tensors, .plan = &c.plan, .ptx = "nonsense {", .ptx_bytes = 10};
    check(device_sim.open("sim", &d, &err) && device_sim.load(d, &c.load, &p, &fault, &err));
    check(p == NULL && fault.code == VERDICT_COMPILE_ERROR);
    device_sim.close(d);
}

/*
 * Rows that are held, of a tensor of 64 GiB, which no machine keeps: s as rows of four floats. The kernel stores one float as asked:
 * "value" at element "at". What comes of it, and of so many stores that leave zeros where they are.
 */
#define STORE "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n" \
              "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { y[i] = s[4] + s[%lldll * 4]; w[i] = 0; } %s }\n"

static void held_case(const char *statement, enum verdict_code code, int64_t row, const float *want)
{
    static const int64_t last = ((int64_t)1 << 32) - 1;
    const int64_t there[] = {0, 1, 77, last};
    const float given[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    cleanup(str) char *source = xfmt(STORE, (long long)last, statement);
    struct err err = {0};
    struct device *d = NULL;
    struct device_program *p = NULL;
    static struct device_case c;
    float after[16] = {0};
    static float after_x[N], after_y[N];
    cleanup(device_fault) struct device_fault fault = {0};
    c = (struct device_case){.plan = {0}};
    case_shape(&c, N);
    struct tensor *t = &c.tensors[CASE_S];
    t->dims[0] = t->elements = t->span_elements = (last + 1) * 4;
    t->bytes = t->elements * 4;
    check(case_code(&c, &toolkit, source, "sm_90a", &err) && device_sim.open("sim", &d, &err) && device_sim.load(d, &c.load, &p, &fault, &err));
    void *results[3] = {after_x, after, after_y};
    const void *const tensors[3] = {x, given, NULL};
    const struct device_held held[3] = {{NULL}, {there, 4, 16}, {NULL}};
    struct device_run_result result = {.tensors = results};
    const struct device_run how = {.tensors = tensors, .held = held, .poison = 0x7ff7a5a57ff7a5a5, .schedule_seed = 1, .wall_limit_ns = 5000000000, .thread_instruction_limit = 50000000, .threads = 1};
    check(p && device_sim.run(p, &how, &result, &fault, &err));
    check_str(err.text, "");
    check_int(fault.code, code);
    if (code != VERDICT_OK)
        check(row < 0 || json_int(fault.detail, "offset_bytes", -1) / 16 == row);
    else
        check(!memcmp(after, want ? want : given, sizeof after) && after_y[0] == 5 + 13 && after_y[N - 1] == 5 + 13);
    device_sim.unload(p);
    device_sim.close(d);
    case_done(&c);
}

static void test_held(void)
{
    const float changed[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99, 12, 13, 14, 15, 17};
    held_case("", VERDICT_OK, 0, NULL);
    held_case("if (i == 0) { s[77 * 4 + 2] = 99; s[0xffffffffll * 4 + 3] += 1; }", VERDICT_OK, 0, changed);
    held_case("if (i == 0) s[78 * 4] = 1;", VERDICT_INPUT_MODIFIED, 78, NULL);
    held_case("if (i == 5) s[0xfffffffell * 4 + 3] = 1;", VERDICT_INPUT_MODIFIED, 0xfffffffe, NULL);
    held_case("if (i < 32) s[(76 * 4 + i)] += i < 4 || i > 7;", VERDICT_INPUT_MODIFIED, 76, NULL);   /* a warp's row, into holes on both sides */
    held_case("if (i == 3) atomicAdd(&s[9 * 4], 0.f);", VERDICT_INPUT_MODIFIED, 9, NULL);
    held_case("if (i == 3) *(float2 *)&s[8] = make_float2(0, 1);", VERDICT_INPUT_MODIFIED, 2, NULL);
    /* what changes nothing is let pass, up to as many pages as the emulator keeps */
    held_case("if (i < 900) s[(1000ll + i * 4096ll) * 4] = 0;", VERDICT_OK, 0, NULL);
    held_case("if (i < 900) for (int m = 0; m < 100; m++) s[(1000ll + (i * 100 + m) * 1024ll) * 4] = 0;", VERDICT_RESOURCE_LIMIT, -1, NULL);
    held_case("if (i == 0) s[0x100000000ll * 4] = 1;", VERDICT_OUT_OF_BOUNDS, -1, NULL);
}

int main(void)
{
    struct err err;
    test_seam();
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    case_fill(x, s, N);
    test_right();
    test_wrong();
    test_places();
    test_strided_output();
    test_meetings();
    test_held();
    return test_done();
}
