/*
 * What is asked of a judge beside judgements: its devices, whether an operator holds, estimates, a profile. One process each, one
 * request, one answer, whose form is looked at before it is believed.
 */
#include "gpu/spawn_internal.h"
#include "core/clock.h"

#include <string.h>

#define DEVICES_LIMIT_NS ((int64_t)60000 * 1000000)

bool spawn_devices(const struct spawn_config *config, json_t **ret, struct err *err)
{
    cleanup(spawn_process) struct spawn_process p = SPAWN_NO_PROCESS;
    cleanup(wire_frame) struct wire_frame f = {0};
    struct err local = {0};
    if (!spawn_process_start(&p, config, "serve-devices", err))
        return false;
    int64_t limit = config->wall_limit_ns > 0 && config->wall_limit_ns < DEVICES_LIMIT_NS ? config->wall_limit_ns
                                                                                          : DEVICES_LIMIT_NS;
    struct spawn_talk t = {.p = &p, .deadline_ns = clock_mono_ns() + limit, .limit_ns = limit};
    bool end = false;
    bool ok = spawn_next_frame(&t, &f, &end, &local);
    wire_reader_done(&t.reader);
    if (ok && end)
        ok = err_set(&local, ERR_UPSTREAM, "it ended without an answer");
    ok = ok && wire_expect(&f, WIRE_DEVICES, &local);
    if (ok && (!json_is_array(json_object_get(f.json, "devices")) || !json_is_object(json_object_get(f.json, "sandbox"))
               || !json_is_object(json_object_get(f.json, "toolkit"))))
        ok = err_set(&local, ERR_UPSTREAM, "devices, sandbox or toolkit is missing from its answer");
    if (!ok || !spawn_exit_clean(&p, &local)) {
        spawn_circumstances(&p, "asking for the devices failed", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = json_incref(f.json);
    return true;
}

void op_verdict_done(struct op_verdict *v)
{
    buf_done(&v->why);
    buf_done(&v->library);
    json_decref(v->report);
    *v = (struct op_verdict){0};
}

static bool take_op(const json_t *doc, struct op_verdict *v, struct err *err)
{
    const char *where = json_str(doc, "where", ""), *digest = json_str(doc, "digest", "");
    const json_t *report = json_object_get(doc, "report");
    if (*where) {
        const char *why = json_str(doc, "why", "it is refused");
        snprintf(v->where, sizeof v->where, "%s", where);
        utf8_clean(&v->why, why, strlen(why));
        return *where == '/' || err_set(err, ERR_UPSTREAM, "it refuses an operator for \"%.20s\", which is no place in it", where);
    }
    if (!v->library.size || !hash_hex_valid(digest) || !json_is_object(report))
        return err_set(err, ERR_UPSTREAM, "an operator that passed without its library, digest or report");
    snprintf(v->digest.text, sizeof v->digest.text, "%s", digest);
    v->report = json_incref((json_t *)(uintptr_t)report);
    return true;
}

/* At most a blob, reference.so, and then the result. */
static bool converse_op(struct spawn_talk *t, struct op_verdict *v, struct err *err)
{
    bool named = false;
    for (int frames = 0; frames < 8; frames++) {
        cleanup(wire_frame) struct wire_frame f = {0};
        bool end;
        if (!spawn_next_frame(t, &f, &end, err))
            return false;
        if (end)
            return err_set(err, ERR_UPSTREAM, "it ended without an answer");
        if (f.type == WIRE_BLOB_NAME && !named && !v->library.size && strcmp(json_str(f.json, "name", ""), "reference.so") == 0) {
            named = true;
        } else if (f.type == WIRE_BLOB && named) {
            named = false;
            v->library = f.blob;
            f.blob = (struct buf){0};
        } else {
            return wire_expect(&f, WIRE_RESULT, err) && take_op(f.json, v, err);
        }
    }
    return err_set(err, ERR_UPSTREAM, "too many frames and no result");
}

bool spawn_op(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct op_verdict *ret,
              struct err *err)
{
    cleanup(spawn_process) struct spawn_process p = SPAWN_NO_PROCESS;
    cleanup(op_verdict) struct op_verdict v = {.where = ""};
    struct err local = {0};
    if (!spawn_process_start(&p, config, "serve-op", err))
        return false;
    struct spawn_talk t = {.p = &p, .deadline_ns = clock_mono_ns() + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = SPAWN_MAX_BLOB_BYTES}};
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, request, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && converse_op(&t, &v, &local) && spawn_exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        spawn_circumstances(&p, "the judge could not look at the operator", &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = v;
    v = (struct op_verdict){.where = ""};
    return true;
}

/* As many estimates as candidates, each a positive number or null. */
static bool take_estimates(const json_t *doc, size_t count, json_t **ret, struct err *err)
{
    json_t *list = json_object_get(doc, "estimates"), *one;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) != count)
        return err_set(err, ERR_UPSTREAM, "not one estimate for each candidate");
    json_array_foreach(list, i, one) {
        const json_t *ns = json_object_get(one, "ns");
        if (!json_is_object(one) || (!json_is_null(ns) && !spawn_positive(ns)))
            return err_set(err, ERR_UPSTREAM, "estimate %zu is not a positive number", i);
    }
    *ret = json_incref(list);
    return true;
}

/* One request in one frame, one result in another, then the end of the process. New reference. */
static bool ask_once(const struct spawn_config *config, const char *command, const json_t *request, const char *nothing, judge_cancelled *cancelled,
                     void *ctx, json_t **ret, struct err *err)
{
    cleanup(spawn_process) struct spawn_process p = SPAWN_NO_PROCESS;
    cleanup(wire_frame) struct wire_frame f = {0};
    struct err local = {0};
    bool end = false;
    if (!spawn_process_start(&p, config, command, err))
        return false;
    struct spawn_talk t = {.p = &p, .deadline_ns = clock_mono_ns() + config->wall_limit_ns, .limit_ns = config->wall_limit_ns,
                     .cancelled = cancelled, .ctx = ctx, .reader = {.max_blob_bytes = 0}};
    bool sent = wire_send_json_by(p.in, WIRE_JUDGE, request, t.deadline_ns, &local);
    bool ok = (sent || local.code == ERR_UPSTREAM) && spawn_next_frame(&t, &f, &end, &local) &&
              (!end || err_set(&local, ERR_UPSTREAM, "it ended without an answer")) && wire_expect(&f, WIRE_RESULT, &local) && spawn_exit_clean(&p, &local);
    wire_reader_done(&t.reader);
    if (!ok) {
        if (local.code == ERR_CONFLICT && strcmp(local.text, "cancelled") == 0)
            return err_set(err, ERR_CONFLICT, "cancelled");
        spawn_circumstances(&p, nothing, &local);
        return err_set(err, local.code, "%s", local.text);
    }
    *ret = json_incref(f.json);
    return true;
}

bool spawn_estimates(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, json_t **ret,
                     struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    return ask_once(config, "serve-estimates", request, "nothing was estimated", cancelled, ctx, &doc, err) &&
           take_estimates(doc, json_array_size(json_object_get(request, "candidates")), ret, err);
}

/* Exactly one of the three, and figures that are numbers. */
static bool take_profile(const json_t *doc, struct profile_answer *ret, struct err *err)
{
    const json_t *profile = json_object_get(doc, "profile"), *steps = json_object_get(profile, "steps"), *step;
    const char *refused = json_str(doc, "refused", NULL);
    const json_t *fault = json_object_get(doc, "fault");
    size_t i;
    if ((json_is_object(profile) != 0) + (refused != NULL) + (json_is_object(fault) != 0) != 1)
        return err_set(err, ERR_UPSTREAM, "it answered neither figures, nor why there are none");
    if (json_is_object(profile) && (!json_is_array(steps) || json_array_size(steps) > PLAN_MAX_STEPS))
        return err_set(err, ERR_UPSTREAM, "a profile without its steps");
    json_array_foreach(steps, i, step) {
        const char *name;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)step, name, value)
            if (!json_is_number(value) && strcmp(name, "stalls") != 0)
                return err_set(err, ERR_UPSTREAM, "%.40s of step %zu of a profile is no number", name, i);
    }
    cleanup(buf) struct buf clean = {.limit = sizeof ret->why - 1};
    const char *why = refused ? refused : json_str(fault, "text", "");
    utf8_clean(&clean, why, strlen(why));
    snprintf(ret->why, sizeof ret->why, "%s", buf_cstr(&clean));
    ret->refused = refused != NULL;
    ret->profile = json_is_object(profile) ? json_incref((json_t *)(uintptr_t)profile) : NULL;
    ret->gpu_ns = json_int(doc, "gpu_ns", 0);
    return true;
}

bool spawn_profile(const struct spawn_config *config, const json_t *request, judge_cancelled *cancelled, void *ctx, struct profile_answer *ret,
                   struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    return ask_once(config, "serve-profile", request, "nothing was counted", cancelled, ctx, &doc, err) && take_profile(doc, ret, err);
}
