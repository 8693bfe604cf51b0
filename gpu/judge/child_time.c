/* In the run child: warming up, launches one at a time, and watching for others on the card. A device that lacks one of them says so. */
#include "gpu/judge/child.h"
#include "core/clock.h"
#include "gpu/judge/limits.h"

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
