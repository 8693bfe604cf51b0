/*
 * In the run child: the device with the candidate. It gets PTX, cubin, plan and raw inputs, and gives back raw outputs; it knows
 * neither seeds nor expected results. Scanning and emulating parse hostile text: that is why they are here and not in the
 * supervisor, which takes their findings as plain JSON.
 */
#include "gpu/judge/child.h"
#include "core/clock.h"
#include "gpu/judge/limits.h"

#include <stddef.h>
#include <string.h>

/* ---- records ---- */

json_t *child_finding_encode(const struct ptx_finding *f)
{
    if (f->kind == PTX_CLEAN)
        return json_null();
    json_t *doc = json_object();
    json_put_str(doc, "verdict", ptx_finding_verdict(f->kind));
    json_put_str(doc, "text", f->text);
    if (f->ptx_line > 0)
        json_put_int(doc, "ptx_line", f->ptx_line);
    if (f->source_line > 0)
        json_put_int(doc, "source_line", f->source_line);
    if (f->opcode[0])
        json_put_str(doc, "opcode", f->opcode);
    return doc;
}

#define COUNT_TABLE(X)                                                                                     \
    X(thread_instructions) X(warp_instructions) X(blocks) X(warps) X(global_load_bytes)                    \
    X(global_store_bytes) X(global_load_requests) X(global_store_requests) X(global_load_sectors)          \
    X(global_store_sectors) X(unique_load_sectors) X(unique_store_sectors) X(shared_requests)              \
    X(shared_wavefronts) X(barriers) X(atomics) X(shuffles) X(longest_warp_instructions) X(dependent_loads)         \
    X(l1_hit_sectors) X(l2_load_sectors) X(l2_hit_sectors) X(l2_store_sectors) X(dram_load_sectors)        \
    X(dram_store_sectors) X(modelled_blocks) X(chain_cycles)

json_t *child_counts_encode(const struct ptx_counts *c)
{
    json_t *doc = json_object();
#define X(field) json_put_int(doc, #field, (int64_t)c->field);
    COUNT_TABLE(X)
#undef X
    return doc;
}

json_t *child_line_encode(const struct device_line *l)
{
    json_t *doc = json_object();
    json_put_int(doc, "step", l->step);
    if (l->source_line > 0)
        json_put_int(doc, "line", l->source_line);
    else
        json_put_int(doc, "ptx_line", l->ptx_line);
#define X(field) json_put_int(doc, #field, (int64_t)l->field);
    DEVICE_LINE_COUNTS(X)
#undef X
    return doc;
}

json_t *child_fault_encode(const struct device_fault *f)
{
    if (f->code == VERDICT_OK)
        return json_null();
    json_t *doc = json_object();
    json_put_str(doc, "code", verdict_name(f->code));
    json_put_str(doc, "text", f->text);
    if (f->detail)
        json_put(doc, "detail", json_incref(f->detail));
    return doc;
}

/* ---- open, scan, load ---- */

static bool find_device(struct child_state *s, const char *id, struct err *err)
{
    if (!s->ops)
        s->ops = device_find(id);
    return s->ops || err_set(err, ERR_INVALID, "there is no device \"%.40s\"", id);
}

bool child_do_prepare(struct child_state *s, const json_t *job, struct err *err)
{
    return find_device(s, json_str(job, "device", "sim"), err) && (!s->ops->prepare || s->ops->prepare(json_str(job, "device", "sim"), err)) && child_answer(json_object(), err);
}

bool child_do_open(struct child_state *s, const json_t *job, struct err *err)
{
    const char *id = json_str(job, "device", "sim");
    struct device_info info = {0};
    if (!find_device(s, id, err))
        return false;
    const char *library = json_str(job, "audit_library", NULL);
    if (library && !s->ops->audit_prepare)
        return err_set(err, ERR_UNAVAILABLE, "a device of kind %s cannot be audited", s->ops->kind);
    if (library && !s->ops->audit_prepare(library, err))
        return false;
    const char *profiler = json_str(job, "profile_library", NULL);
    if (profiler && !s->ops->profile_prepare)
        return err_set(err, ERR_UNAVAILABLE, "a device of kind %s has no counters", s->ops->kind);
    if (profiler && !s->ops->profile_prepare(profiler, err))
        return false;
    if (!s->ops->open(id, &s->device, err) || !s->ops->info(s->device, &info, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "info", device_info_encode(&info));
    return child_answer(doc, err);
}

static json_t *kernels_encode(const struct ptx_module *m)
{
    json_t *list = json_array();
    for (int i = 0; i < ptx_kernel_count(m); i++) {
        struct ptx_kernel k;
        if (ptx_kernel_get(m, i, &k))
            json_array_append_new(list, json_string(k.name));
    }
    return list;
}

bool child_do_scan(struct child_state *s, const json_t *job, struct err *err)
{
    if (!wire_receive_blob_buf(CHILD_FD, 0, "kernel.ptx", (size_t)LIMIT_PTX_BYTES, &s->ptx, err))
        return false;
    const json_t *d = json_object_get(job, "declares");
    const struct ptx_declares declares = {json_bool(d, "atomics", false), json_bool(d, "cooperative", false),
                                          json_bool(d, "cache_hints", false)};
    cleanup(ptx) struct ptx_module *m = NULL;
    cleanup(buf) struct buf unsupported = {.limit = 1024};
    struct ptx_finding finding = {0};
    struct ptx_scan scan = {0};
    json_t *doc = json_object(), *flags = json_array(), *uses = json_object();
    json_put(doc, "flags", flags);
    json_put(doc, "uses", uses);
    if (!ptx_parse(buf_cstr(&s->ptx), s->ptx.size, &ptx_default_limits, &m, &finding, err)
        || (m && !ptx_scan(m, &declares, &scan, err))) {
        json_decref(doc);
        return false;
    }
    json_put(doc, "refused", child_finding_encode(m ? &scan.refused : &finding));
    if (m) {
        for (int i = 0; i < scan.flag_count; i++)
            json_array_append_new(flags, json_pack("{s:s,s:i,s:i,s:s}", "rule", scan.flags[i].rule, "ptx_line",
                                                   scan.flags[i].ptx_line, "source_line", scan.flags[i].source_line,
                                                   "text", scan.flags[i].text));
        json_put_bool(uses, "atomics", scan.uses_atomics);
        json_put_bool(uses, "grid_barrier", scan.uses_grid_barrier);
        json_put_bool(uses, "cache_hints", scan.uses_cache_hints);
        json_put_bool(uses, "clock", scan.uses_clock);
        json_put(doc, "kernels", kernels_encode(m));
        ptx_unsupported(m, &unsupported);
    }
    json_put_str(doc, "unsupported", buf_cstr(&unsupported));
    return child_answer(doc, err);
}

static bool take_resources(struct child_state *s, const json_t *list)
{
    for (int i = 0; i < PLAN_MAX_STEPS; i++) {
        const json_t *r = json_array_get(list, (size_t)i);
        s->resources[i] =
            (struct ptx_resources){(int)json_int(r, "registers", 0), (uint32_t)json_int(r, "shared_bytes", 0),
                                   (uint32_t)json_int(r, "local_bytes", 0)};
    }
    return json_is_array(list);
}

bool child_do_load(struct child_state *s, const json_t *job, struct err *err)
{
    bool with_cubin = json_bool(job, "cubin", false),
         with_resources = take_resources(s, json_object_get(job, "resources"));
    if (!s->device)
        return err_set(err, ERR_INTERNAL, "load before open");
    if (!plan_parse(json_object_get(job, "plan"), &s->shape, &s->plan, err)
        || !wire_receive_blob_buf(CHILD_FD, 0, "kernel.ptx", (size_t)LIMIT_PTX_BYTES, &s->ptx, err)
        || (with_cubin && !wire_receive_blob_buf(CHILD_FD, 0, "kernel.cubin", (size_t)LIMIT_CUBIN_BYTES, &s->cubin, err)))
        return false;
    if (s->program)
        s->ops->unload(steal(&s->program));
    s->ran = false;
    const struct device_load what = {
        .shape = &s->shape, .tensors = s->tensors, .plan = &s->plan, .ptx = buf_cstr(&s->ptx), .ptx_bytes = s->ptx.size,
        .cubin = with_cubin ? s->cubin.data : NULL, .cubin_bytes = with_cubin ? s->cubin.size : 0,
        .resources = with_resources ? s->resources : NULL,
    };
    cleanup(device_fault) struct device_fault fault = {0};
    if (!s->ops->load(s->device, &what, &s->program, &fault, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", child_fault_encode(&fault));
    return child_answer(doc, err);
}

/* ---- run ---- */

bool child_loaded(const struct child_state *s, struct err *err)
{
    return s->program && s->in.base ? true : err_set(err, ERR_INTERNAL, "no program is loaded, or it has no inputs");
}

/* Whether inputs still hold what was uploaded. Inouts are the supervisor's to judge. */
static bool inputs_intact(const struct child_state *s, int *ret_tensor)
{
    for (int t = 0; t < s->op->tensor_count; t++)
        if (s->op->tensors[t].role == OP_INPUT && memcmp(s->inputs[t], s->outputs[t], (size_t)s->tensors[t].bytes) != 0) {
            *ret_tensor = t;
            return false;
        }
    return true;
}

static enum device_place place_of(const json_t *job)
{
    const char *place = json_str(job, "place", "end");
    return strcmp(place, "start") == 0 ? DEVICE_AT_START : strcmp(place, "odd") == 0 ? DEVICE_ODD : DEVICE_AT_END;
}

static void put_intact(const struct child_state *s, json_t *doc, bool guards_intact)
{
    int changed = -1;
    json_put_bool(doc, "guards_intact", guards_intact);
    json_put_bool(doc, "inputs_intact", inputs_intact(s, &changed));
    if (changed >= 0)
        json_put_str(doc, "changed", s->op->tensors[changed].name);
}

bool child_do_run(struct child_state *s, const json_t *job, struct err *err)
{
    if (!child_loaded(s, err))
        return false;
    const struct device_run how = {
        .tensors = (const void *const *)s->inputs,
        .poison = child_u64(job, "poison"),
        .place = place_of(job),
        .scrub = json_bool(job, "scrub", true),
        .schedule_seed = child_u64(job, "schedule_seed"),
        .check_races = json_bool(job, "check_races", false),
        .explore = json_bool(job, "explore", false),
        .wall_limit_ns = json_int(job, "wall_limit_ns", LIMIT_RUN_WALL_NS),
        .thread_instruction_limit = (uint64_t)json_int(job, "thread_instruction_limit", LIMIT_THREAD_INSTRUCTIONS),
        .threads = (int)json_int(job, "threads", 1),
        .sample_budget = (uint64_t)json_int(job, "sample_budget", 0),
        .sample_seed = child_u64(job, "sample_seed"),
        .sample_cpu_ns = LIMIT_EMULATED_CPU_NS,
    };
    cleanup(device_fault) struct device_fault fault = {0};
    s->last = (struct device_run_result){.tensors = s->outputs};
    s->ran = false;
    int64_t from = clock_mono_ns();
    if (!s->ops->run(s->program, &how, &s->last, &fault, err))
        return false;
    s->ran = fault.code == VERDICT_OK;
    json_t *doc = json_object(), *counts = json_array(), *lines = json_array();
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "ns", clock_mono_ns() - from);
    json_put(doc, "counts", counts);
    json_put(doc, "lines", lines);
    if (s->ran) {
        put_intact(s, doc, s->last.guards_intact);
        json_put_bool(doc, "sampled", s->last.sampled);
        for (int i = 0; i < s->last.step_count && i < PLAN_MAX_STEPS; i++)
            json_array_append_new(counts, child_counts_encode(&s->last.counts[i]));
        for (int i = 0; i < s->last.line_count && i < DEVICE_MAX_LINES; i++)
            json_array_append_new(lines, child_line_encode(&s->last.lines[i]));
    }
    return child_answer(doc, err);
}

bool child_do_probe(struct child_state *s, const json_t *job, struct err *err)
{
    if (!child_loaded(s, err))
        return false;
    json_t *doc = json_object();
    json_put(doc, "fault", json_null());
    if (!s->ops->probe)
        return child_answer(doc, err);
    const struct device_probe how = {
        .tensors = (const void *const *)s->inputs,
        .poison = child_u64(job, "poison"),
        .place = place_of(job),
        .again = json_bool(job, "again", false),
        .launches = (int)json_int(job, "launches", 0),
        .salt = child_u64(job, "salt"),
        .wall_ns = json_int(job, "wall_ns", 0),
        .least = (int)json_int(job, "least", 0),
        .least_wall_ns = json_int(job, "least_wall_ns", 0),
    };
    cleanup(device_fault) struct device_fault fault = {0};
    struct device_probe_result result = {.tensors = s->outputs};
    s->ran = false;
    if (!s->ops->probe(s->program, &how, &result, &fault, err)) {
        json_decref(doc);
        return false;
    }
    json_put(doc, "fault", child_fault_encode(&fault));
    json_put_int(doc, "launches", result.launches);
    json_put_int(doc, "differs", result.differs);
    if (fault.code == VERDICT_OK && how.launches)
        put_intact(s, doc, result.guards_intact);
    return child_answer(doc, err);
}

bool child_do_estimate(struct child_state *s, const json_t *job, struct err *err)
{
    (void)job;
    double ns = 0;
    json_t *terms = NULL;
    if (!child_loaded(s, err))
        return false;
    if (!s->ops->estimate || !s->ran)
        return err_set(err, ERR_INTERNAL, "nothing to estimate from");
    if (!s->ops->estimate(s->program, &s->last, &ns, &terms, err))
        return false;
    json_t *doc = json_object();
    json_put_num(doc, "ns", ns);
    json_put(doc, "terms", terms ? terms : json_null());
    return child_answer(doc, err);
}

/* ---- time, on a card ---- */

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

/* ---- audit ---- */

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
