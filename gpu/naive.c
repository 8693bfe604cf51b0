/* One pool, one input, three launches, one or two comparisons. What it does not look at is the point. */
#include "gpu/naive.h"

#include "core/clock.h"
#include "gpu/card_turn.h"
#include "gpu/device/device.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"
#include "gpu/ptx/ptx.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define NAIVE_SEED 42
#define NAIVE_TOLERANCE 1e-2
#define NAIVE_LAUNCHES 3
#define POOL_ADDRESS UINT64_C(0x7f0000000000)
#define POOL_SLACK_BYTES ((size_t)64 << 10)
#define POOL_ALIGNMENT ((size_t)512)

struct naive {
    const struct shape *shape;
    const struct op *op;
    struct tensor tensors[OP_MAX_TENSORS];
    void *inputs[OP_MAX_TENSORS];
    double *reference[OP_MAX_TENSORS];
    struct plan plan;
    struct ptx_module *module;
    uint8_t *pool;
    size_t pool_bytes, tensor_at[OP_MAX_TENSORS], expected_at[OP_MAX_TENSORS], workspace_at[PLAN_MAX_WORKSPACES];
};

static void naive_done(struct naive *n)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(n->inputs[t]);
        free(n->reference[t]);
    }
    ptx_free(n->module);
    free(n->pool);
}
DEFINE_CLEANUP(naive, struct naive, naive_done(it))

static size_t place(size_t *at, int64_t bytes)
{
    size_t here = *at;
    *at += ((size_t)bytes + POOL_ALIGNMENT - 1) / POOL_ALIGNMENT * POOL_ALIGNMENT;
    return here;
}

static void pool_make(struct naive *n, enum naive_outputs outputs)
{
    size_t at = POOL_SLACK_BYTES;
    const int count = n->op->tensor_count;
    for (int t = 0; t < count; t++)
        if (n->op->tensors[t].role != OP_OUTPUT)
            n->tensor_at[t] = place(&at, n->tensors[t].bytes);
    for (int t = 0; t < count; t++)
        if (n->op->tensors[t].role == OP_OUTPUT)
            n->expected_at[t] = place(&at, n->tensors[t].bytes);
    for (int t = 0; t < count; t++)
        if (n->op->tensors[t].role == OP_OUTPUT)
            n->tensor_at[t] = place(&at, n->tensors[t].bytes);
    for (int w = 0; w < n->plan.workspace_count; w++)
        n->workspace_at[w] = place(&at, n->plan.workspaces[w].bytes);
    n->pool_bytes = at + POOL_SLACK_BYTES;
    n->pool = xalloc(n->pool_bytes);
    for (int t = 0; t < count; t++) {
        const struct tensor *tensor = &n->tensors[t];
        if (n->inputs[t])
            memcpy(n->pool + n->tensor_at[t], n->inputs[t], (size_t)tensor->bytes);
        for (int64_t i = 0; !n->inputs[t] && i < tensor->elements; i++) {
            dtype_store(tensor->dtype, n->pool + n->expected_at[t], (size_t)tensor_offset(tensor, i), n->reference[t][i]);
            if (outputs == NAIVE_STALE)
                dtype_store(tensor->dtype, n->pool + n->tensor_at[t], (size_t)tensor_offset(tensor, i), n->reference[t][i]);
        }
    }
}

static uint64_t argument(const struct naive *n, const struct plan_arg *a)
{
    return a->kind == PLAN_TENSOR      ? POOL_ADDRESS + n->tensor_at[a->index]
           : a->kind == PLAN_WORKSPACE ? POOL_ADDRESS + n->workspace_at[a->index]
                                       : a->value;
}

/* One launch of the whole plan. Something found ends it: not even a naive checker takes a kernel that faults. */
static bool launch(struct naive *n, uint64_t *ret_instructions, struct ptx_finding *found, struct err *err)
{
    struct ptx_buffer pool = {.name = "the pool", .address = POOL_ADDRESS, .bytes = n->pool_bytes, .data = n->pool, .writable = true};
    const struct ptx_run_options options = {.limits = ptx_default_limits, .schedule_seed = NAIVE_SEED, .lenient = true};
    *ret_instructions = 0;
    for (int i = 0; i < n->plan.step_count && found->kind == PTX_CLEAN; i++) {
        const struct plan_step *s = &n->plan.steps[i];
        struct ptx_counts counts = {0};
        struct ptx_launch l = {.kernel = s->kernel, .dynamic_shared_bytes = s->shared_bytes, .cooperative = n->plan.cooperative,
                               .arg_count = s->arg_count};
        if (s->is_memset) {
            memset(n->pool + n->workspace_at[s->memset_workspace], s->memset_value, (size_t)n->plan.workspaces[s->memset_workspace].bytes);
            continue;
        }
        memcpy(l.grid, s->grid, sizeof l.grid);
        memcpy(l.block, s->block, sizeof l.block);
        memcpy(l.cluster, s->cluster, sizeof l.cluster);
        for (int k = 0; k < s->arg_count; k++)
            l.args[k] = (struct ptx_arg){(uint8_t)s->args[k].bytes, argument(n, &s->args[k])};
        if (!ptx_run(n->module, &l, &pool, 1, &options, found, &counts, err))
            return false;
        *ret_instructions += counts.thread_instructions;
    }
    return true;
}

/* Refuses what differs by more than the tolerance. A NaN does not differ by more than anything. */
static bool all_close(const struct naive *n, char *why, size_t size)
{
    for (int t = 0; t < n->op->tensor_count; t++) {
        const struct tensor *tensor = &n->tensors[t];
        for (int64_t i = 0; tensor->spec->role != OP_INPUT && i < tensor->elements; i++) {
            double got = dtype_load(tensor->dtype, n->pool + n->tensor_at[t], (size_t)tensor_offset(tensor, i)), wanted;
            values_round(tensor->dtype, &n->reference[t][i], 1, &wanted);
            if (fabs(got - wanted) > NAIVE_TOLERANCE + NAIVE_TOLERANCE * fabs(wanted)) {
                snprintf(why, size, "element %lld of %s is %.6g, expected %.6g", (long long)i, tensor->spec->name, got, wanted);
                return false;
            }
        }
    }
    return true;
}

static bool changes_in_place(const struct op *op)
{
    for (int t = 0; t < op->tensor_count; t++)
        if (op->tensors[t].role == OP_INOUT)
            return true;
    return false;
}

/* After a launch: does it go on? */
static bool look(const struct naive *n, int launch, struct naive_result *ret)
{
    char why[200] = "";
    const bool last = launch == NAIVE_LAUNCHES - 1, looks = launch == 0 || (last && !changes_in_place(n->op));
    if (looks && !all_close(n, why, sizeof why)) {
        snprintf(ret->text, sizeof ret->text, "after launch %d %s", launch + 1, why);
        return false;
    }
    ret->fooled = last;
    return true;
}

static bool on_emulator(struct naive *n, struct naive_result *ret, struct err *err)
{
    for (int i = 0; i < NAIVE_LAUNCHES; i++) {
        struct ptx_finding found = {0};
        if (!launch(n, i ? &ret->last_instructions : &ret->first_instructions, &found, err))
            return false;
        if (found.kind != PTX_CLEAN) {
            snprintf(ret->text, sizeof ret->text, "launch %d: %s: %s", i + 1, ptx_finding_name(found.kind), found.text);
            return true;
        }
        if (!look(n, i, ret))
            return true;
    }
    return true;
}

/*
 * ---- on a card: in a process that a fault may spoil, and a kernel that does not end may hold up ----
 *
 * The child starts the driver, which needs no card, and waits. The parent takes the turn for it and keeps it until the child is gone: a
 * lock of the child's own would be let go of while its context is still being taken down.
 */

#define CARD_WALL_NS ((int64_t)10 * 1000000000)     /* three launches of some microseconds, and the driver's start */
#define LOOK_NS ((int64_t)1000000)

struct card_answer { atomic_bool prepared, turn; bool answered, ok; struct naive_result result; struct err err; };
struct card_look { const struct naive *n; struct naive_result *result; };

static bool look_again(void *ctx, int launch)
{
    const struct card_look *x = ctx;
    return look(x->n, launch, x->result);
}

static void card_child(struct naive *n, const char *device, const char *ptx, struct card_answer *to)
{
    struct err later = {0};
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);      /* a context comes and goes the sooner; one stream needs no more */
    if (device_cuda.prepare)
        (void)!device_cuda.prepare(device, &later);     /* what is wrong here is told by what follows */
    atomic_store(&to->prepared, true);
    while (!atomic_load(&to->turn))
        clock_sleep_ns(LOOK_NS);
    struct card_look x = {n, &to->result};
    struct device_fault fault = {0};
    const struct device_plain what = {.ptx = ptx, .plan = &n->plan, .tensor_count = n->op->tensor_count, .pool = n->pool, .pool_bytes = n->pool_bytes,
                                      .tensor_at = n->tensor_at, .workspace_at = n->workspace_at};
    to->ok = device_cuda_plain(device, &what, NAIVE_LAUNCHES, look_again, &x, &fault, &to->err);
    if (to->ok && fault.code != VERDICT_OK) {
        to->result.fooled = false;
        snprintf(to->result.text, sizeof to->result.text, "%.300s", fault.text);
    }
    to->answered = true;
}

/* Until it stands there with the driver started, or is gone, or for so long that something else must be wrong. */
static void card_wait_prepared(pid_t pid, struct card_answer *a)
{
    const int64_t until_ns = clock_mono_ns() + CARD_WALL_NS;
    siginfo_t gone = {0};
    while (!atomic_load(&a->prepared) && clock_mono_ns() < until_ns
           && waitid(P_PID, (id_t)pid, &gone, WEXITED | WNOHANG | WNOWAIT) == 0 && !gone.si_pid)
        clock_sleep_ns(LOOK_NS);
}

static void card_wait(pid_t pid, struct naive_result *ret)
{
    const int64_t until_ns = clock_mono_ns() + CARD_WALL_NS;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (clock_mono_ns() > until_ns) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            snprintf(ret->text, sizeof ret->text, "it does not end");
            return;
        }
        clock_sleep_ns(LOOK_NS);
    }
}

/* The turn from here to the child's end. */
static bool card_turn(pid_t pid, const char *card_lock, struct card_answer *shared, struct naive_result *ret, struct err *err)
{
    int turn = -1;
    card_wait_prepared(pid, shared);
    if (!card_turn_wait(card_lock, NULL, NULL, &turn, err)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return false;
    }
    const int64_t from_ns = clock_mono_ns();
    atomic_store(&shared->turn, true);
    card_wait(pid, ret);
    ret->gpu_ns = clock_mono_ns() - from_ns;
    if (turn >= 0)
        close(turn);
    return true;
}

static bool on_card(struct naive *n, const char *device, const char *card_lock, const char *ptx, struct naive_result *ret, struct err *err)
{
    struct card_answer *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_errno(err, ERR_INTERNAL, "memory for the naive checker");
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        card_child(n, device, ptx, shared);
        _exit(0);
    }
    bool turned = pid > 0 && card_turn(pid, card_lock, shared, ret, err);
    const bool answered = shared->answered, ok = shared->ok;
    struct naive_result result = shared->result;
    const struct err said = shared->err;
    munmap(shared, sizeof *shared);
    if (pid < 0)
        return err_errno(err, ERR_INTERNAL, "a process for the naive checker");
    if (!turned)
        return false;
    if (answered && !ok)
        return err_set(err, said.code, "%s", said.text);
    result.gpu_ns = ret->gpu_ns;
    if (answered)
        *ret = result;
    else if (!ret->text[0])
        snprintf(ret->text, sizeof ret->text, "its process ended");
    return true;
}

bool naive_check(const char *device, const char *card_lock, const struct shape *shape, const struct candidate *candidate, const char *ptx, size_t ptx_bytes, const char *regime,
                 enum naive_outputs outputs, struct naive_result *ret, struct err *err)
{
    cleanup(naive) struct naive n = {.shape = shape, .op = shape->op};
    struct ptx_finding found = {0};
    const int r = regime ? inputs_regime_index(n.op, regime) : 0;
    *ret = (struct naive_result){.fooled = false};
    if (r < 0)
        return err_set(err, ERR_INVALID, "operator %s has no regime %s", n.op->name, regime);
    if (!plan_resolve(candidate, shape, &n.plan, ret->text, sizeof ret->text))
        return true;
    if (!ptx_parse(ptx, ptx_bytes, &ptx_default_limits, &n.module, &found, err))
        return false;
    if (!n.module) {
        snprintf(ret->text, sizeof ret->text, "%s", found.text);
        return true;
    }
    if (!shape_tensors(shape, n.tensors, err) || !inputs_make(shape, n.tensors, r, NAIVE_SEED, n.inputs, err)
        || !reference_run(shape, n.tensors, (const void *const *)n.inputs, n.reference, err))
        return false;
    pool_make(&n, outputs);
    return strcmp(device, "sim") == 0 ? on_emulator(&n, ret, err) : on_card(&n, device, card_lock, ptx, ret, err);
}
