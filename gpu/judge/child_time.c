/*
 * In the run child, on a card: buffer sets, timed graphs and what they left, warming up, launches one at a time, and watching for others on
 * the card. A device that lacks one of them says so.
 */
#include "gpu/judge/child.h"
#include "core/clock.h"
#include "gpu/judge/limits.h"

/* ---- timed graphs ---- */

bool child_do_calibrate(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    json_t *figures = NULL;
    if (!s->device)
        return err_set(err, ERR_INTERNAL, "calibrate before open");
    if (s->ops->calibrate && !s->ops->calibrate(s->device, &figures, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "calibration", figures ? figures : json_null());
    return child_answer(doc, err);
}

/* By content after the first, then by tensor. */
struct further { struct buf list[DEVICE_MAX_CONTENTS - 1][OP_MAX_TENSORS]; const void *bytes[DEVICE_MAX_CONTENTS - 1][OP_MAX_TENSORS]; };
static void further_done(struct further *f)
{
    for (int c = 0; c < DEVICE_MAX_CONTENTS - 1; c++)
        for (int t = 0; t < OP_MAX_TENSORS; t++)
            buf_done(&f->list[c][t]);
}
DEFINE_CLEANUP(further, struct further, further_done(it))

static bool take_further(const struct child_state *s, const json_t *job, struct further *ret, int *ret_count, struct err *err)
{
    const json_t *which = json_object_get(job, "further_tensors");
    const int count = (int)json_int(job, "further", 0);
    if (count < 0 || count >= DEVICE_MAX_CONTENTS)
        return err_set(err, ERR_INVALID, "%d further contents", count);
    for (int c = 0; c < count; c++)
        for (int t = 0; t < s->op->tensor_count; t++) {
            if (!json_is_true(json_array_get(which, (size_t)t)))
                continue;
            cleanup(str) char *name = xfmt("content.%d.%d", c + 1, t);
            struct buf *to = &ret->list[c][t];
            if (!wire_receive_blob_buf(CHILD_FD, 0, name, (size_t)s->tensors[t].bytes, to, err))
                return false;
            if ((int64_t)to->size != s->tensors[t].bytes)
                return err_set(err, ERR_INVALID, "%s has %zu bytes, not %lld", name, to->size, (long long)s->tensors[t].bytes);
            ret->bytes[c][t] = to->data;
        }
    *ret_count = count;
    return true;
}

bool child_do_time_setup(struct child_state *s, const json_t *job, struct err *err)
{
    bool mix[OP_MAX_TENSORS] = {0};
    int sets = 0, further = 0;
    cleanup(further) struct further more = {0};
    if (!take_further(s, job, &more, &further, err) || !child_loaded(s, err))
        return false;
    if (!s->ops->time_setup)
        return err_set(err, ERR_INTERNAL, "this device has no clock");
    for (int t = 0; t < s->op->tensor_count; t++)
        mix[t] = json_is_true(json_array_get(json_object_get(job, "mix"), (size_t)t));
    const struct device_time_setup how = {
        .tensors = (const void *const *)s->inputs,
        .more = {more.bytes[0], more.bytes[1], more.bytes[2]},
        .contents = further + 1,
        .mix = mix,
        .rotate_bytes_least = json_int(job, "rotate_bytes_least", 0),
        .max_sets = (int)json_int(job, "max_sets", 1),
        .seed = child_u64(job, "seed"),
        .exact = json_bool(job, "exact", true),
    };
    cleanup(device_fault) struct device_fault fault = {0};
    if (!s->ops->time_setup(s->program, &how, &sets, &fault, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "sets", sets);
    return child_answer(doc, err);
}

bool child_do_time_block(struct child_state *s, const json_t *job, struct err *err)
{
    struct device_sample sample = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    const struct device_time_block how = {(int)json_int(job, "launches", 1), child_u64(job, "order_seed")};
    if (!child_loaded(s, err) || !s->ops->time_block(s->program, &how, &sample, &fault, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "event_ns", sample.event_ns);
    json_put_int(doc, "wall_ns", sample.wall_ns);
    json_put_int(doc, "launches", sample.launches);
    json_put_num(doc, "sm_clock_mhz", sample.sm_clock_mhz);
    json_put(doc, "clock_reasons", child_u64_json(sample.clock_reasons));
    return child_answer(doc, err);
}

bool child_do_time_output(struct child_state *s, const json_t *job, struct err *err)
{
    int set = (int)json_int(job, "set", 0);
    struct device_windows windows[OP_MAX_TENSORS] = {{0}};
    if (!child_loaded(s, err) || !s->ops->time_windows(s->program, set, windows, err))
        return false;
    json_t *doc = json_object(), *list = json_array();
    for (int t = 0; t < s->op->tensor_count; t++) {
        const struct device_windows *w = &windows[t];
        json_array_append_new(list, json_pack("[I,I,I,i]", (json_int_t)w->cut, (json_int_t)w->first, (json_int_t)w->second, w->content));
        if (s->op->tensors[t].role != OP_INPUT && !s->ops->time_output(s->program, set, t, s->outputs[t], err)) {
            json_decref(doc);
            json_decref(list);
            return false;
        }
    }
    json_put(doc, "windows", list);
    return child_answer(doc, err);
}

/* ---- beside them ---- */

/* With samples, where the device has no other way. */
static bool warm_with_samples(struct child_state *s, const struct device_time_warm *how, struct device_sample *ret, struct device_fault *fault,
                              struct err *err)
{
    const struct device_time_block block = {how->launches, how->order_seed};
    int64_t busy_ns = 0, cap_ns = clock_mono_ns() + how->cap_ns;
    do {
        if (!s->ops->time_block(s->program, &block, ret, fault, err))
            return false;
        busy_ns += ret->event_ns;
    } while (fault->code == VERDICT_OK && busy_ns < how->busy_ns && clock_mono_ns() < cap_ns);
    return true;
}

bool child_do_time_warm(struct child_state *s, const json_t *job, struct err *err)
{
    struct device_sample sample = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    const struct device_time_warm how = {(int)json_int(job, "launches", 1), child_u64(job, "order_seed"), json_int(job, "busy_ns", 0),
                                         json_int(job, "cap_ns", 0)};
    if (!child_loaded(s, err)
        || !(s->ops->time_warm ? s->ops->time_warm(s->program, &how, &sample, &fault, err) : warm_with_samples(s, &how, &sample, &fault, err)))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "event_ns", sample.event_ns);
    json_put_int(doc, "launches", how.launches);
    json_put_num(doc, "sm_clock_mhz", sample.sm_clock_mhz);
    return child_answer(doc, err);
}

bool child_do_time_eager(struct child_state *s, const json_t *job, struct err *err)
{
    const struct device_time_block how = {(int)json_int(job, "launches", 1), child_u64(job, "order_seed")};
    cleanup(device_fault) struct device_fault fault = {0};
    cleanup(mem) void *memory = NULL;
    if (!child_loaded(s, err))
        return false;
    if (how.launches < 1 || how.launches > LIMIT_EAGER_LAUNCHES)
        return err_set(err, ERR_INTERNAL, "%d eager launches were asked for", how.launches);
    int64_t *walls = memory = xarray((size_t)how.launches, sizeof *walls);
    if (s->ops->time_eager && !s->ops->time_eager(s->program, &how, walls, &fault, err))
        return false;
    json_t *doc = json_object(), *list = s->ops->time_eager ? json_array() : json_null();
    json_put(doc, "fault", child_fault_encode(&fault));
    for (int i = 0; i < how.launches && json_is_array(list); i++)
        json_array_append_new(list, json_integer(walls[i]));
    json_put(doc, "wall_ns", list);
    return child_answer(doc, err);
}

bool child_do_alone(struct child_state *s, const json_t *job, struct err *err)
{
    struct device_alone seen = {0};
    if (!s->device)
        return err_set(err, ERR_INTERNAL, "alone before open");
    if (s->ops->alone && !s->ops->alone(s->device, json_int(job, "watch_ns", 0), &seen, err))
        return false;
    json_t *doc = json_object(), *alone = s->ops->alone ? json_object() : json_null();
    if (s->ops->alone) {
        json_put_int(alone, "watched_ns", seen.watched_ns);
        json_put_int(alone, "longest_gap_ns", seen.longest_gap_ns);
        json_put_int(alone, "gaps_ns", seen.gaps_ns);
        json_put_int(alone, "gaps", seen.gaps);
    }
    json_put(doc, "alone", alone);
    return child_answer(doc, err);
}
