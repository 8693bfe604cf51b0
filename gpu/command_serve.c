/*
 * What speaks frames (gpu/wire.h): one task from stdin, the answer on what was stdout. Descriptor 1 is moved away and stderr put in its
 * place, so that a library that prints cannot break them. The end of stdin means that nobody waits for the answer any more.
 */
#include "gpu/commands.h"
#include "core/clock.h"
#include "gpu/wire.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define TASK_WAIT_NS ((int64_t)60 * 1000000000)

/* Frames go to what was stdout; whatever else is printed goes to stderr. */
static int take_stdout(void)
{
    int fd = dup(1);
    dup2(2, 1);
    return fd;
}

int command_serve_error(int fd, const struct err *err)
{
    cleanup(json) json_t *doc = wire_error_encode(err);
    struct err ignored = {0};
    (void)!wire_send_json(fd, WIRE_ERROR, doc, &ignored);
    return 1;
}

int command_serve_devices(const struct command_options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    if (!judge_devices(c, &doc, &err))
        return command_serve_error(out, &err);
    return wire_send_json(out, WIRE_DEVICES, doc, &err) ? 0 : 1;
}

/* An operator to be registered: WIRE_JUDGE with its text in, WIRE_RESULT out, before it the library where it passed. */
int command_serve_op(const struct command_options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(op_answer) struct op_answer a = {.where = ""};
    cleanup(json) json_t *doc = json_object();
    struct err err = {0};
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err) ||
        !judge_build_op(c, task.json, &a, &err))
        return command_serve_error(out, &err);
    if (*a.where) {
        json_put_str(doc, "where", a.where);
        json_put_str(doc, "why", buf_cstr(&a.why));
    } else {
        if (!wire_send_blob(out, "reference.so", a.library.data, a.library.size, &err))
            return command_fail("serve-op", &err);
        json_put_str(doc, "digest", a.digest.text);
        json_put(doc, "report", json_incref(a.report));
    }
    return wire_send_json(out, WIRE_RESULT, doc, &err) ? 0 : 1;
}

struct session { int out; bool failed; };

static void send_progress(void *ctx, const json_t *phase)
{
    struct session *s = ctx;
    struct err err = {0};
    s->failed = s->failed || !wire_send_json(s->out, WIRE_PHASE, phase, &err);
}

/* Nobody there any more, or something came on stdin, where only a cancel can come. */
static bool gone(void *ctx)
{
    struct session *s = ctx;
    struct pollfd p = {.fd = 0, .events = POLLIN};
    return s->failed || (poll(&p, 1, 0) > 0 && p.revents);
}

static bool answer(int out, const struct judge_result *r, struct err *err)
{
    for (int i = 0; i < r->blob_count; i++)
        if (!wire_send_blob(out, r->blobs[i].name, r->blobs[i].bytes.data, r->blobs[i].bytes.size, err))
            return false;
    cleanup(json) json_t *doc = json_object();
    json_put(doc, "verdict", verdict_encode(&r->verdict));
    json_put(doc, "figures", json_incref(r->figures));
    json_put(doc, "certificate", r->certificate ? json_incref(r->certificate) : json_null());
    json_put_int(doc, "gpu_ns", r->gpu_ns);
    return wire_send_json(out, WIRE_VERDICT, doc, err);
}

int command_judge(const struct command_options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    struct session s = {.out = out};
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(judge_result) struct judge_result result = {.figures = NULL};
    cleanup(json) json_t *hello = json_pack("{s:s}", "version", PROTEUS_VERSION);
    if (!wire_send_json(out, WIRE_HELLO, hello, &err))
        return command_fail("judge", &err);
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err)
        || !judge_run(c, task.json, send_progress, gone, &s, &result, &err) || !answer(out, &result, &err))
        return command_serve_error(out, &err);
    return 0;
}

/* WIRE_JUDGE in, WIRE_RESULT with what the question answers out. */
static int serve(const struct judge_config *c,
                 bool (*question)(const struct judge_config *c, const json_t *task, judge_cancelled_fn *cancelled, void *ctx, json_t **ret, struct err *err))
{
    cleanup(fd) int out = take_stdout();
    struct session s = {.out = out};
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(json) json_t *doc = NULL;
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err) ||
        !question(c, task.json, gone, &s, &doc, &err))
        return command_serve_error(out, &err);
    return wire_send_json(out, WIRE_RESULT, doc, &err) ? 0 : 1;
}

/* A shape and candidates; an estimate each. */
int command_serve_estimates(const struct command_options *o, const struct judge_config *c)
{
    (void)o;
    return serve(c, judge_estimates);
}

/* A shape and one candidate; a profile. */
int command_serve_profile(const struct command_options *o, const struct judge_config *c)
{
    (void)o;
    return serve(c, judge_profile);
}
