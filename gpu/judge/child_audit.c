/* In the run child that is used for an audit alone: what the tracing library has seen, as numbers. */
#include "gpu/judge/child.h"

#include <string.h>

static int name_index(json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return (int)i;
    cleanup(buf) struct buf clean = {.limit = PLAN_KERNEL_SIZE};
    utf8_clean(&clean, name, strlen(name));
    json_array_append_new(names, json_string(buf_cstr(&clean)));
    return (int)json_array_size(names) - 1;
}

static json_t *trace_encode(const struct device_trace *t)
{
    json_t *doc = json_object(), *names = json_array(), *records = json_array();
    for (int i = 0; i < t->count; i++) {
        const struct device_record *r = &t->list[i];
        const int64_t n[] = {r->kind, name_index(names, r->name), r->start_ns, r->end_ns, r->completed_ns, r->grid[0], r->grid[1],
                             r->grid[2], r->block[0], r->block[1], r->block[2], r->cluster[0], r->cluster[1], r->cluster[2],
                             r->registers, r->static_shared_bytes, r->dynamic_shared_bytes, r->local_bytes_thread, r->bytes,
                             r->value, r->stream, r->graph, r->context, r->device_launched | r->access_policy << 1};
        json_t *one = json_array();
        for (size_t k = 0; k < sizeof n / sizeof *n; k++)
            json_array_append_new(one, json_integer(n[k]));
        json_array_append_new(records, one);
    }
    json_put(doc, "names", names);
    json_put(doc, "records", records);
    json_put_int(doc, "dropped", (int64_t)t->dropped);
    json_put_int(doc, "unknown", (int64_t)t->unknown);
    return doc;
}

bool child_do_audit(struct child_state *s, const json_t *job, struct err *err)
{
    const struct device_audit how = {(int)json_int(job, "launches", 1), (int)json_int(job, "cold_launches", 1), child_u64(job, "order_seed")};
    cleanup(device_audit) struct device_audit_result seen = {.sample = {0}};
    cleanup(device_fault) struct device_fault fault = {0};
    if (!child_loaded(s, err))
        return false;
    if (!s->ops->audit)
        return err_set(err, ERR_INTERNAL, "this device cannot be audited");
    if (!s->ops->audit(s->program, &how, &seen, &fault, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "event_ns", seen.sample.event_ns);
    json_put_int(doc, "wall_ns", seen.sample.wall_ns);
    json_put_int(doc, "launches", seen.sample.launches);
    json_put(doc, "graph", trace_encode(&seen.graph));
    json_put(doc, "cold", trace_encode(&seen.cold));
    json_t *events = json_array();
    for (int i = 0; i < seen.cold_count && i < DEVICE_MAX_COLD; i++)
        json_array_append_new(events, json_real(seen.cold_event_ns[i]));
    json_put(doc, "cold_event_ns", events);
    json_put_int(doc, "flush_bytes", seen.flush_bytes);
    return child_answer(doc, err);
}
