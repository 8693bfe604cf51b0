/*
 * The profiler's own logic against a driver and a library without a card (fake_cuda.c, fake_cupti.c): what it counts, that each pass
 * begins as the first did, one kernel a step, and what a host says that does not let it count. A fault ends a context: each case forks.
 */
#include "gpu/device/cuda_api.h"
#include "tests/device_case.h"

#include <dlfcn.h>
#include <math.h>
#include <sys/wait.h>

enum { N = 1003 };
static float x[N], s[N];
static struct device_case c;
static const char *const ptx_text = ".version 8.0\n.target sm_90a\n.address_size 64\n"
                                    ".visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2, .param .u64 "
                                    "k_3, .param .u32 k_4)\n{\n  ret;\n}\n";

static int ask(const char *library, const char *what)
{
    int (*f)(void);
    void *symbol = dlsym(dlopen(library, RTLD_NOW), what);
    if (!symbol)
        return -1;
    memcpy(&f, &symbol, sizeof f);
    return f();
}

static struct device_program *load(struct device **ret_device)
{
    struct err err = {0};
    struct device_fault fault = {0};
    struct device_program *p = NULL;
    case_shape(&c, N);
    case_fill(x, s, N);
    /* A memset before the launch: a step too. */
    c.plan.steps[1] = c.plan.steps[0];
    c.plan.steps[0] = (struct plan_step){.is_memset = true, .memset_workspace = 0, .memset_value = 3};
    c.plan.step_count = 2;
    c.load = (struct device_load){.shape = &c.shape, .tensors = c.tensors, .plan = &c.plan, .ptx = ptx_text, .ptx_bytes = strlen(ptx_text), .cubin = "x", .cubin_bytes = 1};
    check(device_cuda.profile_prepare(FAKE_CUPTI_LIBRARY, &err));
    check(device_cuda.open("cuda:0", ret_device, &err) && device_cuda.load(*ret_device, &c.load, &p, &fault, &err));
    if (!p)
        fprintf(stderr, "load: %s%s\n", err.text, fault.text);
    return p;
}

static const struct device_profile how = {.tensors = (const void *const[]){x, s, NULL}, .poison = UINT64_C(0x7ff7a5a57ff7a5a5)};

static int run_good(void)
{
    struct device *d = NULL;
    struct device_program *p = load(&d);
    struct device_profile_result r = {0};
    struct device_fault fault = {0};
    struct err err = {0};
    test_checks = test_failures = 0;
    int before = ask("libcuda.so.1", "fake_cuda_live");
    check(p && device_cuda.profile(p, &how, &r, &fault, &err));
    if (test_failures)
        fprintf(stderr, "%s\n", err.text);
    check_int(fault.code, VERDICT_OK);
    check(r.step_count == 2 && r.passes == 3 && r.flush_bytes >= 2 * 65536);
    for (int i = 0; i < 2; i++) {
        check(r.steps[i][PROFILE_duration_ns] == 1000.0 * i + (double)strlen("gpu__time_duration.sum"));
        check(r.steps[i][PROFILE_STALL_long_scoreboard] == 1000.0 * i + (double)strlen(PROFILE_STALL_METRIC("long_scoreboard")));
        check(r.steps[i][PROFILE_STALL_misc] == 1000.0 * i + (double)strlen(PROFILE_STALL_METRIC("misc")));
        check(isnan(r.steps[i][PROFILE_l1_pct]));        /* this chip lacks it; what stands behind it is not shifted */
        check(r.steps[i][PROFILE_sm_pct] == 1000.0 * i + (double)strlen("sm__throughput.avg.pct_of_peak_sustained_elapsed"));
    }
    check_int(ask("libcuda.so.1", "fake_cuda_moved"), 0);       /* each pass found the inout as it was */
    check_int(ask(FAKE_CUPTI_LIBRARY, "fake_cupti_open"), 0);
    check_int(ask("libcuda.so.1", "fake_cuda_live"), before + 1);   /* the helpers' list of pieces stays */
    check_int(ask("libcuda.so.1", "fake_cuda_reached"), 0);
    device_cuda.unload(p);
    device_cuda.close(d);
    return test_failures != 0;
}

/* A host that does not let it count is said to be so, and nothing stays behind. */
static int run_refused(const char *what, enum err_code code, const char *says)
{
    struct device *d = NULL;
    setenv("FAKE_CUPTI", what, 1);
    struct device_program *p = load(&d);
    struct device_profile_result r = {0};
    struct device_fault fault = {0};
    struct err err = {0};
    test_checks = test_failures = 0;
    int before = ask("libcuda.so.1", "fake_cuda_live");
    check(p && !device_cuda.profile(p, &how, &r, &fault, &err));
    check_int(err.code, code);
    check(strstr(err.text, says) != NULL);
    if (test_failures)
        fprintf(stderr, "%s: %s\n", what, err.text);
    check(ask("libcuda.so.1", "fake_cuda_live") <= before + 1);
    check(ask(FAKE_CUPTI_LIBRARY, "fake_cupti_open") <= 1);       /* 1: what could not be begun was not ended */
    return test_failures != 0;
}

static int run_fault(void)
{
    struct device *d = NULL;
    setenv("FAKE_KERNEL", "crashes", 1);
    struct device_program *p = load(&d);
    struct device_profile_result r = {0};
    struct device_fault fault = {0};
    struct err err = {0};
    test_checks = test_failures = 0;
    check(p && device_cuda.profile(p, &how, &r, &fault, &err));
    check_int(fault.code, VERDICT_OUT_OF_BOUNDS);
    check_int(r.step_count, 0);
    device_fault_done(&fault);
    return test_failures != 0;
}

static int run_unprepared(void)
{
    struct err err = {0};
    test_checks = test_failures = 0;
    check(!device_cuda.profile_prepare("/nowhere/libcupti.so.13", &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(strstr(err.text, "libnvperf_host.so") != NULL);
    return test_failures != 0;
}

#define IN_A_CHILD(call)                                                                    \
    do {                                                                                    \
        int status = 0;                                                                     \
        fflush(NULL);                                                                       \
        pid_t pid = fork();                                                                 \
        if (pid == 0)                                                                       \
            _exit(call);                                                                    \
        check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status)); \
        if (!WIFEXITED(status) || WEXITSTATUS(status))                                      \
            fprintf(stderr, "in %s\n", #call);                                              \
    } while (0)

int main(void)
{
    IN_A_CHILD(run_good());
    static const struct { const char *what, *says; } refused[] = {
        {"privileges", "administrators"},    {"privileges_late", "administrators"}, {"no_profiler", "CUPTI_ERROR_NOT_SUPPORTED"},
        {"no_metrics", "none of the counters"}, {"many_passes", "5000 passes"},     {"endless", "more than the 3 passes"},
        {"drops", "dropped 1"},              {"huge_image", "bytes"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        IN_A_CHILD(run_refused(refused[i].what, ERR_UNAVAILABLE, refused[i].says));
    IN_A_CHILD(run_refused("busy", ERR_BUSY, "cuptiRangeProfilerStart"));       /* by another program: it may be over soon */
    IN_A_CHILD(run_fault());
    IN_A_CHILD(run_unprepared());
    return test_done();
}
