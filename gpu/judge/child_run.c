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
    X(dram_store_sectors) X(modelled_blocks) X(chain_cycles) X(expanded_cycles) X(drawn_blocks) X(drawn_of) X(left_out_blocks) \
    X(sample_cpu_ns)

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
        .shape = &s->shape, .tensors = s->full, .plan = &s->plan, .ptx = buf_cstr(&s->ptx), .ptx_bytes = s->ptx.size,
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

/* Of a sample: what the drawn blocks of each step stored, by tensor: [[[bytes, squares], ...], ...]. */
static json_t *stores_encode(const struct child_state *s)
{
    json_t *steps = json_array();
    for (int i = 0; i < s->last.step_count && i < PLAN_MAX_STEPS; i++) {
        json_t *one = json_array();
        for (int t = 0; t < s->op->tensor_count; t++)
            json_array_append_new(one, json_pack("[f,f]", s->last.drawn_bytes[i][t], s->last.drawn_squares[i][t]));
        json_array_append_new(steps, one);
    }
    return steps;
}

/* And who stored which element. */
static bool send_tags(struct child_state *s, struct err *err)
{
    bool ok = true;
    for (int t = 0; t < s->op->tensor_count && ok; t++)
        if (s->op->tensors[t].role != OP_INPUT)
            ok = s->last.tags[t] ? wire_send_blob(CHILD_FD, "tags", s->last.tags[t], (size_t)s->tensors[t].elements, err)
                                 : err_set(err, ERR_INTERNAL, "nobody knows who stored %s", s->op->tensors[t].name);
    device_tags_done(&s->last);
    return ok;
}

/* By tensor, which of its rows are there. */
static const struct device_held *held_by_tensor(const struct child_state *s, struct device_held ret[OP_MAX_TENSORS])
{
    for (int t = 0; t < s->op->tensor_count; t++)
        ret[t] = held_is(&s->held, s->op, t) ? (struct device_held){s->rows, s->held.count, held_row_bytes(&s->full[t])} : (struct device_held){NULL};
    return s->held.axis >= 0 ? ret : NULL;
}

static void take_list(const json_t *list, bool *ret)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (json_integer_value(item) >= 0 && json_integer_value(item) < OP_MAX_TENSORS)
            ret[json_integer_value(item)] = true;
}

static struct device_far far_of(const json_t *doc)
{
    struct device_far far = {.axis = (int)json_int(doc, "axis", -1), .rows = json_int(doc, "rows", 0)};
    take_list(json_object_get(doc, "held"), far.held);
    take_list(json_object_get(doc, "points"), far.points);
    return far;
}

bool child_do_run(struct child_state *s, const json_t *job, struct err *err)
{
    if (!child_loaded(s, err))
        return false;
    struct device_held held[OP_MAX_TENSORS];
    const struct device_far far = far_of(json_object_get(job, "far"));
    const struct device_run how = {
        .far = far.rows > 0 ? &far : NULL,
        .tensors = (const void *const *)s->inputs,
        .held = held_by_tensor(s, held),
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
        .sample_cpu_ns = json_int(job, "sample_cpu_ns", LIMIT_EMULATED_CPU_NS),
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
        if (s->last.sampled)
            json_put(doc, "stores", stores_encode(s));
        for (int i = 0; i < s->last.step_count && i < PLAN_MAX_STEPS; i++)
            json_array_append_new(counts, child_counts_encode(&s->last.counts[i]));
        for (int i = 0; i < s->last.line_count && i < DEVICE_MAX_LINES; i++)
            json_array_append_new(lines, child_line_encode(&s->last.lines[i]));
    }
    return child_answer(doc, err) && (!s->ran || !s->last.sampled || send_tags(s, err));
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
