/*
 * The cuda device's own logic against a driver without a card (fake_cuda.c): guards, faults and what follows them, buffer sets,
 * rotations, order, outputs. What a real card does is in gpu/test_cuda_device.c. A fault ends a context, so each case forks.
 */
#include "gpu/device/card.h"
#include "gpu/device/cuda_sets.h"
#include "tests/device_case.h"

#include <dlfcn.h>
#include <sys/wait.h>

enum { N = 1003 };
static float x[N], s[N], after_x[N], after_s[N], after_y[N];
static struct device_case c;

static const char *const ptx_text = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                    ".global .u32 kept[4] = {1, 2, 3, 4};\n.const .u32 left_out;\n"
                                    ".visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2, .param .u64 "
                                    "k_3, .param .u32 k_4)\n{\n  ret;\n}\n";

static int scrubs(int which)
{
    int (*f)(int);
    void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_scrubs");
    if (!symbol)
        return -1;
    memcpy(&f, &symbol, sizeof f);
    return f(which);
}

static int ask_fake(const char *what)
{
    int (*f)(void);
    void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), what);
    if (!symbol)
        return -1;
    memcpy(&f, &symbol, sizeof f);
    return f();
}

static int live(void)
{
    return ask_fake("fake_cuda_live");
}

/* Device code must reach no memory but the card's own: no call that would let it was made, by any path of the device. */
static void check_reach(void)
{
    check_int(ask_fake("fake_cuda_reached"), 0);
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
/* Nor is one in the table of calls, by its name. */
static void test_reach(void)
{
#define X(fn) check(!cuda_reaches_host(TEXT(fn)));
    CU_API(X)
#undef X
    static const char *const bad[] = {"cuMemAllocHost_v2", "cuMemHostAlloc", "cuMemHostRegister_v2", "cuMemAllocManaged", "cuIpcOpenMemHandle_v2",
                                      "cuCtxEnablePeerAccess", "cuMemcpyPeerAsync", "cuMemImportFromShareableHandle", "cuImportExternalMemory"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(cuda_reaches_host(bad[i]));
}

static struct device_program *load(struct device **ret_device)
{
    struct err err = {0};
    struct device_fault fault = {0};
    struct device_program *p = NULL;
    case_shape(&c, N);
    case_fill(x, s, N);
    c.load = (struct device_load){.shape = &c.shape,
                                  .tensors = c.tensors,
                                  .plan = &c.plan,
                                  .ptx = ptx_text,
                                  .ptx_bytes = strlen(ptx_text),
                                  .cubin = "x",
                                  .cubin_bytes = 1};
    bool ok = device_cuda.open("cuda:0", ret_device, &err) && device_cuda.load(*ret_device, &c.load, &p, &fault, &err);
    if (!ok || !p)
        fprintf(stderr, "load: %s%s\n", err.text, fault.text);
    check(ok && p);
    return p;
}

static bool run(struct device_program *p, enum device_place place, struct device_run_result *result,
                struct device_fault *fault, struct err *err)
{
    static void *after[3] = {after_x, after_s, after_y};
    const void *const before[3] = {x, s, NULL};
    *result = (struct device_run_result){.tensors = after};
    const struct device_run how = {.tensors = before, .poison = UINT64_C(0x7ff7a5a57ff7a5a5), .place = place};
    return device_cuda.run(p, &how, result, fault, err);
}

/* In a process of its own: one behaviour of the kernel, and what must come of it. */
static int run_case(const char *kernel, enum device_place place, enum verdict_code code, bool guards)
{
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", kernel, 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    int before = live();
    struct device_run_result result;
    struct device_fault fault = {0};
    struct err err = {0};
    check(p && run(p, place, &result, &fault, &err));
    check_int(fault.code, code);
    if (code == VERDICT_OK) {
        check_int(result.guards_intact, guards);
        int wrong = 0;
        for (int i = 0; i < N; i++)
            wrong += after_y[i] != 2 * x[i] + s[i] || after_s[i] != s[i] + 1 || after_x[i] != x[i];
        check_int(wrong, 0);
        check_int(live(), before + 1);      /* the helper's argument list stays (the sums came with the module's variables) */
    } else {
        check_str(json_str(fault.detail, "kernel", ""), "k");
        check_str(json_str(fault.detail, "cuda_error", ""), "CUDA_ERROR_ILLEGAL_ADDRESS");
        device_fault_done(&fault);
        check(!run(p, place, &result, &fault, &err));
        check_int(err.code, ERR_CONFLICT);
    }
    check_reach();
    device_cuda.unload(p);
    device_cuda.close(d);
    return test_failures != 0;
}

static bool same_order(const int *a, const int *b, int n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Which sets a block launched, by asking for every set's output. */
static int launched(struct device_program *p, int sets, int *ret)
{
    struct err err;
    int count = 0;
    for (int set = 0; set < sets; set++)
        if (device_cuda.time_output(p, set, CASE_Y, after_y, &err))
            ret[count++] = set;
    return count;
}

static int run_timing(void)
{
    test_checks = test_failures = 0;
    struct device *d = NULL;
    struct device_program *p = load(&d);
    struct err err = {0};
    struct device_fault fault = {0};
    /* s has structure: it comes whole, of one content or another. */
    static float other_s[2][N];
    const void *const base[3] = {x, s, NULL}, *const more[2][3] = {{NULL, other_s[0], NULL}, {NULL, other_s[1], NULL}};
    for (int k = 0; k < N; k++)
        other_s[0][k] = s[k] + 1000, other_s[1][k] = s[k] + 2000;
    static const bool mix[3] = {true, false, false};
    enum { LEAST = 1 << 20, LAUNCHES = 8 };
    struct device_time_setup setup = {
        .tensors = base, .more = {more[0], more[1]}, .contents = 3, .mix = mix, .rotate_bytes_least = LEAST, .max_sets = 100, .seed = 3, .exact = true};
    int sets = 0, met = 0, first[128], second[128];
    struct device_sample sample = {0};
    check(device_cuda.time_setup(p, &setup, &sets, &fault, &err));
    check(sets > LAUNCHES && (int64_t)sets * 4 * 4096 >= LEAST && sets <= 100);
    for (int block = 0; block < 3; block++) {
        /* Blocks 0 and 2 have one order, block 1 another. */
        check(device_cuda.time_block(p, &(struct device_time_block){LAUNCHES, block == 1 ? 9 : 8}, &sample, &fault,
                                     &err));
        check(sample.launches == LAUNCHES && sample.event_ns > 0 && sample.wall_ns >= sample.event_ns);
        int *sets_of = block == 1 ? second : first, again[128];
        int n = launched(p, sets, block == 2 ? again : sets_of);
        check_int(n, LAUNCHES);
        if (block == 2)
            check(same_order(again, first, n));
        int distinct = 0;
        int64_t last = -1;
        for (int i = 0; i < n; i++) {
            struct device_windows w[OP_MAX_TENSORS];
            check(device_cuda.time_windows(p, sets_of[i], w, &err) && w[CASE_S].cut == N && w[CASE_S].first == 0 && w[CASE_X].content == 0);
            check(w[CASE_X].cut >= N / 4 && w[CASE_X].cut <= N - N / 4 && w[CASE_X].first <= N - w[CASE_X].cut && w[CASE_X].second <= w[CASE_X].cut);
            distinct += w[CASE_X].first != last;
            last = w[CASE_X].first;
            met |= 1 << w[CASE_S].content;
            check(device_cuda.time_output(p, sets_of[i], CASE_Y, after_y, &err) &&
                  device_cuda.time_output(p, sets_of[i], CASE_S, after_s, &err));
            int wrong = 0;
            /* Inouts were restored before each block: their state counts one launch, however many blocks there were. */
            for (int k = 0; k < N; k++)
                wrong += after_y[k] != 2 * x[device_windows_element(&w[CASE_X], k)] + s[k] + 1000 * (float)w[CASE_S].content
                         || after_s[k] != s[k] + 1000 * (float)w[CASE_S].content + 1;
            check_int(wrong, 0);
        }
        check(distinct > n / 2);
    }
    check(!same_order(first, second, LAUNCHES));
    check_int(met, 7);                  /* all three contents were met */
    /* More launches than sets: each set once, and some never. */
    check(device_cuda.time_block(p, &(struct device_time_block){1000, 1}, &sample, &fault, &err) &&
          sample.launches == device_most_launches(sets) && sample.launches < sets && sets <= device_sets_for(sample.launches) + 1);
    /* A kernel that does nothing leaves poison, not the last block's results: other poison when it is launched once more. */
    setenv("FAKE_KERNEL", "nothing", 1);
    for (int i = 0; i < 40 && fault.code == VERDICT_OK; i++)
        check(device_cuda.time_block(p, &(struct device_time_block){LAUNCHES, 8}, &sample, &fault, &err));
    check_int(fault.code, VERDICT_NON_DETERMINISTIC);
    device_fault_done(&fault);
    check(!device_cuda.time_output(p, first[0], CASE_Y, after_y, &err));
    setup.exact = false;
    check(device_cuda.time_setup(p, &setup, &sets, &fault, &err));
    check(device_cuda.time_block(p, &(struct device_time_block){LAUNCHES, 8}, &sample, &fault, &err));
    check_int(fault.code, VERDICT_OK);
    check(device_cuda.time_output(p, first[0], CASE_Y, after_y, &err));
    int right = 0;
    for (int k = 0; k < N; k++)
        right += after_y[k] == 2 * x[k] + s[k];
    check(right < N / 10);
    check(!device_cuda.time_output(p, sets, CASE_Y, after_y, &err) &&
          !device_cuda.time_output(p, 0, 3, after_y, &err) &&
          !device_cuda.time_windows(p, -1, (struct device_windows[OP_MAX_TENSORS]){{0}}, &err));
    /* Memory that is not there is the candidate's doing; a silly order ours. */
    c.plan.workspaces[0].bytes = (int64_t)900 << 20;
    struct device_program *big = NULL;
    check(device_cuda.load(d, &c.load, &big, &fault, &err) && device_cuda.time_setup(big, &setup, &sets, &fault, &err));
    check_int(fault.code, VERDICT_RESOURCE_LIMIT);
    device_fault_done(&fault);
    check(!device_cuda.time_block(big, &(struct device_time_block){1, 1}, &sample, &fault, &err));
    device_cuda.unload(big);
    json_t *figures = NULL;
    check(device_cuda.calibrate(d, &figures, &err));
    check(json_num(figures, "node_ns", -1) >= 0 && json_num(figures, "event_pair_ns", -1) >= 0 &&
          json_array_size(json_object_get(figures, "empty_graphs")) == 6);
    json_decref(figures);
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    check_reach();
    return test_failures != 0;
}

/* ---- what timed launches must leave alone ---- */

static struct device_program *set_up(struct device **d, const char *kernel, int *ret_sets)
{
    static const void *base[3] = {x, s, NULL};
    static const bool mix[3] = {true, true, false};
    static const struct device_time_setup setup = {.tensors = base, .mix = mix, .rotate_bytes_least = 1 << 18, .max_sets = 100, .seed = 3, .exact = true};
    struct err err = {0};
    struct device_fault fault = {0};
    setenv("FAKE_KERNEL", kernel, 1);
    struct device_program *p = load(d);
    check(p && device_cuda.time_setup(p, &setup, ret_sets, &fault, &err));
    return p;
}

/* A byte of each kind, changed behind the device's back: an input, a gap before and behind, a set that is not launched, the module. */
static int run_untouched(void)
{
    enum { LAUNCHES = 9 };
    static const char *const kinds[] = {"input", "gap", "gap", "set", "set", "set"};
    test_checks = test_failures = 0;
    struct device *d = NULL;
    int sets = 0;
    struct device_program *p = set_up(&d, "good", &sets);
    struct cuda_sets *all = p->sets;
    check(sets > 11 && sets <= 20);
    for (int i = -1; i < 6; i++) {
        struct err err = {0};
        struct device_fault fault = {0};
        check(sets_draw(p, (uint64_t)i, LAUNCHES, &err) && sets_restore(p, &err));
        check(CU(&err, cuStreamSynchronize, d->stream));
        const CUdeviceptr *used = all->at + all->order[LAUNCHES - 1] * p->buffer_count, *idle = all->at + all->order[LAUNCHES] * p->buffer_count;
        /* The last byte of a gap is the one before a buffer, its first the one behind. */
        const CUdeviceptr places[] = {all->at[(sets - 1) * p->buffer_count + CASE_X] + 77 - all->fixed.at + all->fixed.back, used[CASE_Y] - 1, used[CASE_S] + 4 * N, idle[CASE_S], idle[CASE_Y] + 4 * N - 1, idle[3] + 5};
        if (i >= 0)
            *(unsigned char *)places[i] ^= 1;
        else        /* what is launched may change */
            *(unsigned char *)used[CASE_Y] ^= 1, *(unsigned char *)used[3] ^= 1;
        check(sets_look_begin(p, &err) && sets_look_end(p, false, &fault, &err));
        check_int(fault.code, i < 0 ? VERDICT_OK : i == 0 ? VERDICT_INPUT_MODIFIED : VERDICT_OUT_OF_BOUNDS);
        check(i < 0 || strcmp(json_str(fault.detail, "what", ""), kinds[i]) == 0);
        device_fault_done(&fault);
    }
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    return test_failures != 0;
}

static void check_places(const struct device_program *p, int sets)
{
    const struct cuda_sets *all = p->sets;
    int beside = 0, odd = 0;
    for (int i = 0; i < sets * 4; i++) {
        const struct arena *a = i % 4 == CASE_X ? &all->fixed : &all->open;
        check(all->at[i] % 256 == 0 && all->at[i] > a->at && all->at[i] + 4 * N < a->at + a->bytes);
        odd += all->at[i] % 512 != 0;
        for (int k = 0; k < i; k++)
            check((i % 4 == CASE_X) != (k % 4 == CASE_X) || all->at[i] + 4 * N < all->at[k] || all->at[k] + 4 * N < all->at[i]);
    }
    for (int set = 1; set < sets; set++)
        beside += all->at[set * 4 + CASE_Y] - all->at[(set - 1) * 4 + CASE_Y] == all->at[set * 4 + CASE_X] - all->at[(set - 1) * 4 + CASE_X];
    check(beside == 0 && odd > sets && odd < 3 * sets);
}

/* Nothing lies where it lay in another set-up, or holds what it held in the block before; aligned as by an allocator, and not better. */
static int run_drawn(void)
{
    enum { LAUNCHES = 9 };
    test_checks = test_failures = 0;
    struct device *d = NULL;
    int sets = 0, same_rotation = 0, same_distance = 0;
    int64_t distance[128] = {0}, turned[128] = {0};
    uint64_t poison = 0;
    struct err err = {0};
    for (int setup = 0; setup < 2; setup++) {
        struct device_program *p = set_up(&d, "good", &sets);
        struct cuda_sets *all = p->sets;
        check(sets <= 128 && p->buffer_count == 4);
        check_places(p, sets);
        for (int block = 0; block < 2; block++) {
            check(sets_draw(p, (uint64_t)block, LAUNCHES, &err) && all->poison != poison);
            poison = all->poison;
            for (int set = 0; set < sets; set++) {
                same_rotation += block && turned[set] == all->windows[set * 3].first;
                turned[set] = all->windows[set * 3].first;
            }
        }
        for (int set = 0; set < sets; set++) {
            const int64_t away = (int64_t)(all->at[set * 4 + CASE_Y] - all->at[set * 4 + CASE_S]);
            same_distance += setup && distance[set] == away;
            distance[set] = away;
        }
        /* The first byte that a launch may not write is poison, as its outputs are: their end does not show. */
        check(sets_restore(p, &err) && memcmp((void *)(all->at[CASE_Y] + 4 * N), &poison, 4) == 0);
        /* Nor does that of inputs. */
        check(*(float *)(all->at[CASE_X] + 4 * N) != 0 || *(float *)(all->at[CASE_X] + 4 * N + 4) != 0);
        check(!sets_draw(p, 1, sets, &err) && !sets_draw(p, 1, 0, &err));
        device_cuda.unload(p);
        device_cuda.close(d);
    }
    check(same_distance < sets / 2 && same_rotation < sets / 4);
    check_int(live(), 0);
    return test_failures != 0;
}

/* Kernels that are right on their own, and in the first launches. */
static int run_timed_attack(const char *kernel, int from, enum verdict_code code)
{
    enum { LAUNCHES = 8, BLOCKS = 40 };         /* one in three is replayed */
    test_checks = test_failures = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", from);
    setenv("FAKE_FROM", number, 1);
    struct device *d = NULL;
    int sets = 0;
    struct device_program *p = set_up(&d, kernel, &sets);
    struct err err = {0};
    struct device_fault fault = {0};
    struct device_sample sample = {0};
    for (int b = 0; b < BLOCKS && fault.code == VERDICT_OK; b++)
        check(device_cuda.time_block(p, &(struct device_time_block){LAUNCHES, (uint64_t)b}, &sample, &fault, &err));
    /* Where a mark falls into what was launched already, it is a result that differs. */
    const bool mark = strcmp(kernel, "marks_earlier") == 0 && fault.code == VERDICT_NON_DETERMINISTIC;
    if (fault.code != code)
        fprintf(stderr, "%s: %s\n", kernel, fault.text);
    check(fault.code == code || mark);
    device_fault_done(&fault);
    check_reach();
    if (!d->dead) {
        device_cuda.unload(p);
        device_cuda.close(d);
        check_int(live(), 0);
    }
    return test_failures != 0;
}

/* ---- series of launches ---- */

static float other_x[N];
struct series_case { const char *kernel; int from; enum verdict_code code; int differs; bool old_content; };

/* At equal addresses: a launch, one with other content, then many with the first content again. */
static int run_series(const struct series_case *k)
{
    enum { MANY = 600 };
    test_checks = test_failures = 0;
    char number[16];
    snprintf(number, sizeof number, "%d", k->from);
    setenv("FAKE_KERNEL", k->kernel, 1);
    setenv("FAKE_FROM", number, 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    const int before = live();
    static void *after[3] = {after_x, after_s, after_y};
    const void *const first[3] = {x, s, NULL}, *const second[3] = {other_x, s, NULL};
    for (int i = 0; i < N; i++)
        other_x[i] = x[N - 1 - i] + 1;
    struct device_probe how = {.tensors = first, .poison = 0x7ff7a5a57ff7a5a5, .launches = 1, .salt = 99, .wall_ns = (int64_t)1e10};
    struct device_probe_result result = {.tensors = after};
    struct device_fault fault = {0};
    struct err err = {0};
    check(p && device_cuda.probe(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
    check(result.launches == 1 && result.differs == 0 && result.guards_intact);
    how.again = true;
    how.tensors = second;
    check(p && device_cuda.probe(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += after_y[i] != 2 * other_x[i] + s[i] || after_s[i] != s[i] + 1 || after_x[i] != other_x[i];
    check_int(wrong != 0, k->old_content);
    how.tensors = first;
    how.launches = MANY;
    check(p && device_cuda.probe(p, &how, &result, &fault, &err));
    check_int(fault.code, k->code);
    if (fault.code == VERDICT_OK) {
        check_int(result.launches, MANY);
        check_int(result.differs, k->differs);
        check(result.guards_intact);
        check(scrubs(0) >= MANY / 2 && scrubs(0) < MANY);
    } else if (fault.code == VERDICT_STATE_CARRIED) {
        check_str(json_str(fault.detail, "variable", ""), "kept");
    }
    if (fault.code == VERDICT_OK || fault.code == VERDICT_STATE_CARRIED) {
        how.launches = 0;
        check(device_cuda.probe(p, &how, &result, &fault, &err));
        check_int(live(), before + 1);      /* the helper's arguments; no mapping, no copy of an inout */
        how.launches = 1;
        check(!device_cuda.probe(p, &how, &result, &fault, &err));      /* again, in what is not there any more */
        check_int(err.code, ERR_INVALID);
        how.again = false;
        how.launches = DEVICE_PROBE_LAUNCHES + 1;
        check(!device_cuda.probe(p, &how, &result, &fault, &err));
    }
    device_fault_done(&fault);
    device_cuda.unload(p);
    device_cuda.close(d);
    return test_failures != 0;
}

/* Around the buffers, and in inputs, nothing may be written here either. */
static int run_series_guards(const char *kernel, enum verdict_code code)
{
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", kernel, 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    const void *const first[3] = {x, s, NULL};
    const struct device_probe how = {.tensors = first, .poison = 0x7ff7a5a57ff7a5a5, .launches = 20, .wall_ns = (int64_t)1e10};
    struct device_probe_result result = {.tensors = NULL};
    struct device_fault fault = {0};
    struct err err = {0};
    check(p && device_cuda.probe(p, &how, &result, &fault, &err));
    check_int(fault.code, code);
    check(code != VERDICT_OK || !result.guards_intact);
    device_fault_done(&fault);
    device_cuda.unload(p);
    device_cuda.close(d);
    return test_failures != 0;
}

/* No time: it stops, and says how far it came. */
static int run_series_late(void)
{
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", "good", 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    const void *const first[3] = {x, s, NULL};
    struct device_probe how = {.tensors = first, .launches = 1000, .salt = 1};
    struct device_probe_result result = {.tensors = NULL};
    struct device_fault fault = {0};
    struct err err = {0};
    check(p && device_cuda.probe(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
    check_int(result.launches, 16);
    how.least = 100;
    check(p && device_cuda.probe(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
    check_int(result.launches, 112);        /* in sixteens */
    how.least_wall_ns = 1;
    check(p && device_cuda.probe(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
    check_int(result.launches, 16);
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    return test_failures != 0;
}

/* What a launch finds in shared memory and in frames depends on the poison, so that one and its complement show it. */
static int run_leftovers(const char *kernel, const char *frame, int which)
{
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", kernel, 1);
    setenv("FAKE_FRAME", frame, 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    struct device_fault fault = {0};
    struct err err = {0};
    float seen[2];
    for (int i = 0; i < 2 && p; i++) {
        static void *after[3] = {after_x, after_s, after_y};
        const void *const before[3] = {x, s, NULL};
        struct device_run_result result = {.tensors = after};
        const struct device_run how = {.tensors = before, .scrub = true, .poison = i ? UINT64_C(0x7ff7a5a500000000) : ~UINT64_C(0x7ff7a5a500000000)};
        check(device_cuda.run(p, &how, &result, &fault, &err) && fault.code == VERDICT_OK);
        seen[i] = after_y[1];
    }
    check(seen[0] != seen[1]);
    check_int(scrubs(0), 2);
    for (int i = 1; i < 4; i++)
        check_int(scrubs(i), i == which ? 2 : 0);
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    return test_failures != 0;
}

/* ---- rows that are held ---- */

/*
 * Of s, 250 rows of four floats, some hold what they are given and the others zeros. A kernel changes one float: in a row that is held it
 * comes back, elsewhere it is found with its place.
 */
static int run_held(const char *mark, enum device_place place, bool found)
{
    static const int64_t rows[] = {0, 3, 4, 100, 249};
    enum { HELD = sizeof rows / sizeof *rows };
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", "marks_a_row", 1);
    setenv("FAKE_FROM", mark, 1);
    struct device *d = NULL;
    struct device_program *p = load(&d);
    const int before = live(), at = atoi(mark);
    float given[HELD * 4], after[HELD * 4];
    for (int i = 0; i < HELD * 4; i++)
        given[i] = (float)(i + 1), after[i] = -1;
    void *results[3] = {after_x, after, after_y};
    const void *const tensors[3] = {x, given, NULL};
    const struct device_held held[3] = {{NULL}, {rows, HELD, 16}, {NULL}};
    struct device_run_result result = {.tensors = results};
    struct device_fault fault = {0};
    struct err err = {0};
    const struct device_run how = {.tensors = tensors, .held = held, .poison = UINT64_C(0x7ff7a5a5deadbeef), .place = place};
    check(p && device_cuda.run(p, &how, &result, &fault, &err));
    check_str(err.text, "");
    check_int(fault.code, found ? VERDICT_INPUT_MODIFIED : VERDICT_OK);
    if (found) {
        check_int(json_int(fault.detail, "row", -1), at / 4);
        check_int(json_int(fault.detail, "offset_bytes", -1) / 4, at);
        check_str(json_str(fault.detail, "buffer", ""), "s");
    }
    for (int i = 0; i < HELD * 4 && !found; i++)
        check(after[i] == given[i] + (rows[i / 4] * 4 + i % 4 == at));
    check(!memcmp(after_x, x, sizeof x) && (found || result.guards_intact));
    check_int(live(), before + 1);          /* the helper's argument list stays */
    device_fault_done(&fault);
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    return test_failures != 0;
}

/* ---- as a naive checker launches ---- */

static float pool[4 * 1024];
struct seen { int launches, stop_after; bool kept; };

static bool look(void *ctx, int launch)
{
    struct seen *seen = ctx;
    check_int(launch, seen->launches++);
    /* y = 2 x + s, and s one more each time: nothing is put back between launches */
    for (int i = 0; i < N; i++)
        seen->kept = seen->kept && pool[2048 + i] == 2 * x[i] + s[i] + (float)launch && pool[1024 + i] == s[i] + (float)launch + 1;
    return seen->launches < seen->stop_after;
}

static int run_plain(const char *kernel, int stop_after, int launches, enum verdict_code code)
{
    static const size_t tensor_at[3] = {0, 4096, 8192}, workspace_at[1] = {12288};
    test_checks = test_failures = 0;
    setenv("FAKE_KERNEL", kernel, 1);
    case_shape(&c, N);
    case_fill(x, s, N);
    memcpy(pool, x, sizeof x);
    memcpy(pool + 1024, s, sizeof s);
    struct seen seen = {.stop_after = stop_after, .kept = true};
    struct device_fault fault = {0};
    struct err err = {0};
    const struct device_plain what = {.ptx = "x", .plan = &c.plan, .tensor_count = 3, .pool = pool, .pool_bytes = sizeof pool, .tensor_at = tensor_at,
                                      .workspace_at = workspace_at};
    check(device_cuda_plain("cuda:0", &what, 3, look, &seen, &fault, &err));
    check_int(fault.code, code);
    check_int(seen.launches, launches);
    check(seen.kept);
    check(code != VERDICT_OK || live() == 0);
    device_fault_done(&fault);
    check(!device_cuda_plain("cuda:5", &what, 3, look, &seen, &fault, &err));
    return test_failures != 0;
}

static void wide_block(void) { c.plan.steps[0].block[0] = 512; }
static void much_shared(void) { c.plan.steps[0].shared_bytes = 300000; }
static void wrong_arguments(void) { c.plan.steps[0].arg_count = 3; }

static int run_refusals(void)
{
    static const struct { void (*change)(void); enum verdict_code code;
    } table[] = {{wide_block, VERDICT_RESOURCE_LIMIT},
                 {much_shared, VERDICT_RESOURCE_LIMIT},
                 {wrong_arguments, VERDICT_REJECTED_PLAN}};
    test_checks = test_failures = 0;
    struct device *d = NULL;
    device_cuda.unload(load(&d));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct err err = {0};
        struct device_fault fault = {0};
        struct device_program *p = (void *)1;
        case_shape(&c, N);
        c.plan.steps[0].shared_bytes = 0;
        table[i].change();
        check(device_cuda.load(d, &c.load, &p, &fault, &err));
        check(!p);
        check_int(fault.code, table[i].code);
        device_fault_done(&fault);
    }
    struct err err = {0};
    struct device *none = NULL;
    check(!device_cuda.open("cuda:7", &none, &err));
    check_int(err.code, ERR_NOT_FOUND);
    cleanup(json) json_t *list = NULL;
    check(device_list(&list, &err) && json_array_size(list) == 2);
    check_str(json_str(json_array_get(list, 0), "id", ""), "cuda:0");
    check_str(json_str(json_array_get(list, 0), "target", ""), "sm_90a");
    device_cuda.close(d);
    return test_failures != 0;
}

static int run_no_card(void)
{
    test_checks = test_failures = 0;
    setenv("FAKE_NO_CARD", "1", 1);
    struct err err = {0};
    struct device *d = NULL;
    cleanup(json) json_t *list = NULL;
    check(!device_cuda.open("cuda:0", &d, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(device_list(&list, &err) && json_array_size(list) == 1);
    return test_failures != 0;
}

/* Warming up, launches one at a time, and watching for others. */
static int run_other_modes(void)
{
    test_checks = test_failures = 0;
    struct device *d = NULL;
    struct device_program *p = load(&d);
    struct err err = {0};
    struct device_fault fault = {0};
    const void *const base[3] = {x, s, NULL};
    static const bool mix[3] = {true, false, false};
    enum { LEAST = 1 << 20, LAUNCHES = 8 };
    struct device_time_setup setup = {.tensors = base, .mix = mix, .rotate_bytes_least = LEAST, .max_sets = 100, .seed = 3};
    struct device_sample sample = {0};
    struct device_time_warm warm = {LAUNCHES, 5, 100000, 2000000000};
    struct device_time_block eager = {LAUNCHES, 6};
    int64_t walls[LAUNCHES] = {0};
    int sets = 0;
    check(!device_cuda.time_warm(p, &warm, &sample, &fault, &err) && !device_cuda.time_eager(p, &eager, walls, &fault, &err));
    check(device_cuda.time_setup(p, &setup, &sets, &fault, &err));
    check(device_cuda.time_warm(p, &warm, &sample, &fault, &err) && sample.event_ns > 0 && sample.sm_clock_mhz == 1980 && sample.clock_reasons == 1);
    /* A clock that never stands still ends at the cap. */
    warm.busy_ns = 1, warm.cap_ns = 1;
    check(device_cuda.time_warm(p, &warm, &sample, &fault, &err));
    check(device_cuda.time_eager(p, &eager, walls, &fault, &err));
    for (int i = 0; i < LAUNCHES; i++)
        check(walls[i] > 0);
    check(!device_cuda.time_output(p, 0, CASE_Y, after_y, &err));        /* nothing of these is looked at */
    eager.launches = device_most_launches(sets) + 1;
    check(!device_cuda.time_eager(p, &eager, walls, &fault, &err));
    check_int(err.code, ERR_INVALID);
    check(device_cuda.time_block(p, &(struct device_time_block){LAUNCHES, 8}, &sample, &fault, &err));
    struct device_alone alone = {0};
    check(device_cuda.alone(d, 10000000, &alone, &err) && alone.gaps == 0 && alone.longest_gap_ns == 64 && alone.watched_ns == 10000000);
    setenv("FAKE_GAP_NS", "2400000", 1);
    check(device_cuda.alone(d, 10000000, &alone, &err) && alone.gaps == 1 && alone.longest_gap_ns == 2400000 && alone.gaps_ns == 2400000);
    device_cuda.unload(p);
    device_cuda.close(d);
    check_int(live(), 0);
    return test_failures != 0;
}

/* What the management library says, and what follows from it. */
static int run_card(void)
{
    test_checks = test_failures = 0;
    static const char uuid[] = "GPU-abababab-abab-abab-abab-abababababab";
    struct card_reading r;
    char why[160] = "";
    bool visible = false;
    const int64_t me = getpid(), mine[] = {me}, wrong[] = {me + 1}, two[] = {me, me + 1};
    card_read("GPU-other", &r);
    check(!r.known && strstr(r.why, "no card") && card_well(&r, why, sizeof why));
    check_int(card_others(&r, mine, 1, &visible), 0);
    check(!visible);
    card_read(uuid, &r);
    check(r.known && r.process_count == 1 && r.xid == 0 && r.ecc_uncorrected == 0 && r.ecc_corrected == 7 && r.sm_mhz == 1980 && r.power_mw == -1);
    check(card_well(&r, why, sizeof why));
    check(card_others(&r, mine, 1, &visible) == 0 && visible);
    check(card_others(&r, wrong, 1, &visible) == 0 && visible);          /* numbers of another namespace: as many as there should be */
    check(card_others(&r, two, 2, &visible) == 0 && !visible);           /* one of ours is not shown: nothing can be said */
    setenv("FAKE_PROCESSES", "2", 1);
    card_read(uuid, &r);
    check(card_others(&r, mine, 1, &visible) == 2 && visible);
    check(card_others(&r, wrong, 1, &visible) == 2 && visible);
    setenv("FAKE_HIDDEN", "1", 1);
    unsetenv("FAKE_PROCESSES");
    card_read(uuid, &r);
    check(card_others(&r, mine, 1, &visible) == 0 && !visible);
    static const struct { const char *name, *value, *says; } ills[] = {
        {"FAKE_ECC", "3", "3 uncorrectable"}, {"FAKE_ROWS_PENDING", "1", "waiting for remapping"}, {"FAKE_REASONS", "0x41", "heat"},
        {"FAKE_REASONS", "0x80", "power supply"}, {"FAKE_XID", "79", "fault 79"}};
    for (size_t i = 0; i < sizeof ills / sizeof *ills; i++) {
        setenv(ills[i].name, ills[i].value, 1);
        card_read(uuid, &r);
        check(!card_well(&r, why, sizeof why) && strstr(why, ills[i].says));
        unsetenv(ills[i].name);
    }
    setenv("FAKE_XID", "13", 1);            /* a kernel's own illegal access */
    card_read(uuid, &r);
    check(r.xid == 13 && card_well(&r, why, sizeof why));
    check(card_reasons_hindering(0x103) == 0 && card_reasons_hindering(0x5) == 4 && card_reasons_hindering(0x1000) == 0x1000);
    cleanup(json) json_t *doc = card_encode(&r);
    check(json_array_size(json_object_get(doc, "clock_reasons")) == 1 && json_int(doc, "xid", 0) == 13 && json_is_null(json_object_get(doc, "power_mw")));
    /* A card that is not well is not opened. */
    struct err err = {0};
    struct device *d = NULL;
    setenv("FAKE_ECC", "1", 1);
    check(!device_cuda.open("cuda:0", &d, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(strstr(err.text, "uncorrectable"));
    return test_failures != 0;
}

/* Memory that others hold is no candidate's fault, and no crash of its either. */
static int run_full(void)
{
    test_checks = test_failures = 0;
    struct device *d = NULL;
    struct device_program *p = load(&d);
    struct device_run_result result;
    struct device_fault fault = {0};
    struct err err = {0};
    const void *const base[3] = {x, s, NULL};
    static const bool mix[3] = {true, false, false};
    const struct device_time_setup setup = {.tensors = base, .mix = mix, .rotate_bytes_least = 1 << 20, .max_sets = 100, .seed = 3};
    int sets = 0;
    setenv("FAKE_FULL", "1", 1);
    check(!run(p, DEVICE_AT_END, &result, &fault, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(!device_cuda.time_setup(p, &setup, &sets, &fault, &err) && strstr(err.text, "4096 of its"));
    check_int(err.code, ERR_UNAVAILABLE);
    check_int(fault.code, VERDICT_OK);
    return test_failures != 0;
}

static int run_no_nvml(void)
{
    test_checks = test_failures = 0;
    struct card_reading r;
    setenv("FAKE_NVML_INIT", "3", 1);
    card_read("GPU-abababab-abab-abab-abab-abababababab", &r);
    check(!r.known && strstr(r.why, "does not start"));
    struct device *d = NULL;
    device_cuda.unload(load(&d));
    struct device_info info;
    struct err err;
    check(device_cuda.info(d, &info, &err) && info.healthy && info.memory_used_bytes == -1);
    device_cuda.close(d);
    return test_failures != 0;
}

#define IN_A_CHILD(call)                        \
    do {                                        \
        int status = -1;                        \
        fflush(NULL);                           \
        pid_t pid = fork();                     \
        if (pid == 0)                           \
            _exit(call);                        \
        waitpid(pid, &status, 0);               \
        if (status != 0)                        \
            fprintf(stderr, "%s: %x\n", #call, status); \
        check_int(status, 0);                   \
    } while (0)

int main(void)
{
    if (live() < 0)
        test_skip("the libcuda.so.1 found is not the test's: run this through ctest");
    test_reach();
    IN_A_CHILD(run_case("good", DEVICE_AT_END, VERDICT_OK, true));
    IN_A_CHILD(run_case("good", DEVICE_AT_START, VERDICT_OK, true));
    IN_A_CHILD(run_case("good", DEVICE_ODD, VERDICT_OK, true));
    IN_A_CHILD(run_case("past_end", DEVICE_AT_END, VERDICT_OK,
                        false)); /* 1003 floats: 4 bytes of alignment are left, and watched */
    IN_A_CHILD(run_case("write_input", DEVICE_AT_END, VERDICT_OUT_OF_BOUNDS, true));
    IN_A_CHILD(run_case("near_before", DEVICE_ODD, VERDICT_OK, false));
    IN_A_CHILD(run_case("near_before", DEVICE_AT_START, VERDICT_OUT_OF_BOUNDS, true));     /* unmapped before it */
    IN_A_CHILD(run_case("near_after", DEVICE_ODD, VERDICT_OK, false));
    IN_A_CHILD(run_case("needs_32", DEVICE_ODD, VERDICT_OUT_OF_BOUNDS, true));
    IN_A_CHILD(run_case("needs_32", DEVICE_AT_START, VERDICT_OK, true));
    IN_A_CHILD(run_case("fails_2m", DEVICE_AT_START, VERDICT_OUT_OF_BOUNDS, true));
    IN_A_CHILD(run_case("fails_2m", DEVICE_ODD, VERDICT_OK, true));
    IN_A_CHILD(run_case("fails_2m", DEVICE_AT_END, VERDICT_OK, true));
    IN_A_CHILD(run_case("near_before", DEVICE_AT_END, VERDICT_OK, false));
    IN_A_CHILD(run_case("near_after", DEVICE_AT_START, VERDICT_OK, false));
    static const struct series_case series[] = {
        {"good", 0, VERDICT_OK, 0, false},
        {"counts", 2, VERDICT_OK, 0, true},
        {"counts", 5, VERDICT_OK, 3, false},
        {"counts", 600, VERDICT_OK, 598, false},
        /* what the launch of other content left is there in the first of a call, and another launch's or a pattern in the next two */
        {"leftover", 0, VERDICT_OK, 3, true},
        {"shared_shows", 0, VERDICT_OK, 4, true},
        {"same_pointer", 0, VERDICT_OK, 0, true},
        {"variable", 4, VERDICT_STATE_CARRIED, 0, false},
    };
    for (size_t i = 0; i < sizeof series / sizeof *series; i++)
        IN_A_CHILD(run_series(&series[i]));
    IN_A_CHILD(run_series_guards("near_before", VERDICT_OK));
    IN_A_CHILD(run_series_guards("write_input", VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_series_late());
    IN_A_CHILD(run_leftovers("shared_shows", "0", 0));
    static const struct { const char *mark; bool found; } marks[] = {{"0", false}, {"19", false}, {"401", false}, {"999", false}, {"4", true}, {"11", true}, {"20", true}, {"403", false}, {"404", true}, {"995", true}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        IN_A_CHILD(run_held(marks[i].mark, DEVICE_AT_END, marks[i].found));
        IN_A_CHILD(run_held(marks[i].mark, DEVICE_AT_START, marks[i].found));
    }
    IN_A_CHILD(run_leftovers("frame_shows", "8", 1));
    IN_A_CHILD(run_leftovers("frame_shows", "2000", 2));
    IN_A_CHILD(run_leftovers("frame_shows", "70000", 3));
    IN_A_CHILD(run_plain("good", 3, 3, VERDICT_OK));
    IN_A_CHILD(run_plain("good", 2, 2, VERDICT_OK));
    IN_A_CHILD(run_plain("near_after", 3, 3, VERDICT_OK));
    IN_A_CHILD(run_plain("crashes", 3, 0, VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_timing());
    IN_A_CHILD(run_untouched());
    IN_A_CHILD(run_drawn());
    IN_A_CHILD(run_timed_attack("good", 0, VERDICT_OK));
    IN_A_CHILD(run_timed_attack("write_input", 0, VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_timed_attack("near_after", 0, VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_timed_attack("near_before", 0, VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_timed_attack("marks_earlier", 0, VERDICT_OUT_OF_BOUNDS));
    IN_A_CHILD(run_timed_attack("skips_some", 0, VERDICT_NON_DETERMINISTIC));
    IN_A_CHILD(run_timed_attack("counts", 12, VERDICT_NON_DETERMINISTIC));
    IN_A_CHILD(run_timed_attack("leftover", 0, VERDICT_NON_DETERMINISTIC));
    IN_A_CHILD(run_timed_attack("shared_shows", 0, VERDICT_NON_DETERMINISTIC));
    IN_A_CHILD(run_timed_attack("variable", 20, VERDICT_STATE_CARRIED));
    IN_A_CHILD(run_other_modes());
    IN_A_CHILD(run_card());
    IN_A_CHILD(run_full());
    IN_A_CHILD(run_no_nvml());
    IN_A_CHILD(run_refusals());
    IN_A_CHILD(run_no_card());
    return test_done();
}
