/* A child's life: lock down, say hello, answer jobs until the socket ends. */
#include "gpu/judge/child.h"
#include "core/clock.h"
#include "gpu/device/spent.h"
#include "gpu/judge/judge.h"
#include "gpu/sandbox/sandbox.h"

#include <signal.h>
#include <string.h>

static bool do_shape(struct child_state *s, const json_t *job, struct err *err)
{
    struct op_set one = {1, &s->op};
    struct faults faults = {0};
    if (!op_load(json_str(job, "op_dir", ""), &s->op, err))
        return false;
    if (!shape_parse(&one, json_object_get(job, "shape"), "", "", &s->shape, &faults))
        return err_set(err, ERR_INTERNAL, "the child cannot read the shape: %s %s", faults.list[0].pointer,
                       faults.list[0].detail);
    enum shared_what what = json_bool(job, "doubles", false) ? SHARED_DOUBLES : SHARED_OUTPUTS;
    s->in = s->out = (struct shared)SHARED_NONE;
    s->held = (struct held){.axis = (int)json_int(job, "held_axis", -1), .count = json_int(job, "held_count", 0)};
    if (s->held.axis >= s->op->axis_count || s->held.count < 0 || (s->held.axis >= 0 && s->held.count > s->shape.axes[s->held.axis]))
        return err_set(err, ERR_INTERNAL, "more rows than there are");
    if (!shape_tensors(&s->shape, s->full, err))
        return false;
    held_tensors(&s->held, s->op, s->full, s->tensors);
    if (!shared_receive(CHILD_FD, what, s->op, s->tensors, &s->out, err))
        return false;
    for (int t = 0; t < s->op->tensor_count; t++)
        s->outputs[t] =
            s->op->tensors[t].role == OP_INPUT ? xalloc((size_t)s->tensors[t].bytes) : s->out.base + s->out.offsets[t];
    return child_answer(json_object(), err);
}

static bool take_rows(struct child_state *s, struct err *err)
{
    const size_t bytes = (size_t)s->held.count * sizeof *s->rows;
    if (s->held.axis < 0)
        return true;
    if (!s->rows)
        s->rows = xalloc(bytes);
    return wire_receive_blob(CHILD_FD, 0, "rows", s->rows, bytes, err) && (held_rows_fit(&s->held, &s->shape, s->rows) || err_set(err, ERR_INTERNAL, "these are no rows"));
}

static bool do_inputs(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    if (!shared_receive(CHILD_FD, SHARED_INPUTS, s->op, s->tensors, &s->in, err) || !take_rows(s, err))
        return false;
    for (int t = 0; t < s->op->tensor_count; t++)
        s->inputs[t] = s->op->tensors[t].role == OP_OUTPUT ? NULL : s->in.base + s->in.offsets[t];
    return child_answer(json_object(), err);
}

#define R(role) (1u << SANDBOX_##role)
#define RUNS (R(RUN_SIM) | R(RUN_CUDA))
static const struct { const char *name; unsigned roles; child_job *job; } jobs[] = {
    {"compile", R(COMPILE), child_do_compile},
    {"assemble", R(COMPILE), child_do_assemble},
    {"cc", R(CC), child_do_cc},
    {"triton", R(TRITON), child_do_triton},
    {"shape", R(REFERENCE) | RUNS, do_shape},
    {"reference", R(REFERENCE), child_do_reference},
    {"canaries", R(REFERENCE), child_do_canaries},
    {"prepare", RUNS, child_do_prepare},
    {"open", RUNS, child_do_open},
    {"scan", RUNS, child_do_scan},
    {"load", RUNS, child_do_load},
    {"inputs", R(REFERENCE) | RUNS, do_inputs},
    {"run", RUNS, child_do_run},
    {"probe", RUNS, child_do_probe},
    {"estimate", RUNS, child_do_estimate},
    {"calibrate", RUNS, child_do_calibrate},
    {"time_setup", RUNS, child_do_time_setup},
    {"time_block", RUNS, child_do_time_block},
    {"time_output", RUNS, child_do_time_output},
    {"time_warm", RUNS, child_do_time_warm},
    {"time_eager", RUNS, child_do_time_eager},
    {"alone", RUNS, child_do_alone},
    {"audit", R(RUN_CUDA), child_do_audit},
    {"profile", R(RUN_CUDA), child_do_profile},
};

static struct { const char *name; int64_t since_ns; } doing;      /* the job that is being answered */

/* For how long the job went on and, on a card, what for: told with its answer. */
static void put_spent(json_t *doc)
{
    char name[40];
    int64_t ns[SPENT_KINDS];
    json_t *spent = json_object();
    snprintf(name, sizeof name, "job.%s", doing.name);
    json_put_int(spent, name, clock_mono_ns() - doing.since_ns);
    spent_take(ns);
    for (int i = 0; i < SPENT_KINDS; i++)
        if (ns[i])
            json_put_int(spent, spent_name((enum spent)i), ns[i]);
    json_put(doc, "spent", spent);
}

bool child_answer(json_t *doc, struct err *err)
{
    cleanup(json) json_t *mine = doc;
    if (doing.name && json_is_object(mine))
        put_spent(mine);
    return wire_send_json(CHILD_FD, WIRE_RESULT, mine, err);
}

uint64_t child_u64(const json_t *job, const char *key)
{
    return strtoull(json_str(job, key, "0"), NULL, 16);
}

json_t *child_u64_json(uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "0x%016llx", (unsigned long long)value);
    return json_string(text);
}

static bool one_job(struct child_state *s, enum sandbox_role role, const json_t *job, struct err *err)
{
    const char *what = json_str(job, "do", "");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (strcmp(jobs[i].name, what) != 0 || !(jobs[i].roles & 1u << role))
            continue;
        bool needs_shape = role != SANDBOX_COMPILE && role != SANDBOX_CC && role != SANDBOX_TRITON && jobs[i].job != do_shape && jobs[i].job != child_do_canaries;
        if (needs_shape && !s->op)
            return err_set(err, ERR_INTERNAL, "job \"%s\" before the shape", what);
        doing.name = jobs[i].name, doing.since_ns = clock_mono_ns();
        return jobs[i].job(s, job, err);
    }
    return err_set(err, ERR_INTERNAL, "a %s child has no job \"%.40s\"", sandbox_role_name(role), what);
}

int child_main(int argc, char **argv, const struct device_ops *device)
{
    static struct child_state state;
    enum sandbox_role role;
    unsigned layers = 0;
    struct err err = {0};
    signal(SIGPIPE, SIG_IGN);
    if (!sandbox_enter(argc, argv, &role, &layers, &err)) {
        fprintf(stderr, "sandbox: %s\n", err.text);
        return 3;
    }
    state.ops = device;
    hash_init();
    cleanup(json) json_t *hello = json_object();
    json_put_str(hello, "version", PROTEUS_VERSION);
    json_put_int(hello, "layers", layers);
    json_put_str(hello, "level", sandbox_level(layers));
    if (!wire_send_json(CHILD_FD, WIRE_HELLO, hello, &err))
        return 4;
    for (;;) {
        cleanup(wire_frame) struct wire_frame f = {0};
        if (!wire_receive(CHILD_FD, 0, &f, &err))
            return 0;           /* the supervisor is done with us */
        if (!wire_expect(&f, WIRE_JOB, &err) || !one_job(&state, role, f.json, &err)) {
            cleanup(json) json_t *failure = wire_error_encode(&err);
            (void)!wire_send_json(CHILD_FD, WIRE_ERROR, failure, &err);
            return 5;
        }
    }
}
