/* What both devices share: finding one by name, faults, whether a plan fits its module, the list of buffers. */
#include "gpu/device/inside.h"

#include "core/rng.h"

#include <stdarg.h>
#include <string.h>

const struct device_ops *device_find(const char *id)
{
    if (strcmp(id, "sim") == 0)
        return &device_sim;
    if (strncmp(id, "cuda:", 5) == 0 && id[5] && strspn(id + 5, "0123456789") == strlen(id + 5) && strlen(id) < 10)
        return &device_cuda;
    return NULL;
}

void device_tags_done(struct device_run_result *r)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(r->tags[t]);
        r->tags[t] = NULL;
    }
}

bool device_list(json_t **ret, struct err *err)
{
    cleanup(json) json_t *list = json_array();
    struct device *sim = NULL;
    struct device_info info = {0};
    if (!device_cuda_list(list, err) || !device_sim.open("sim", &sim, err))
        return false;
    bool ok = device_sim.info(sim, &info, err);
    device_sim.close(sim);
    if (!ok)
        return false;
    json_array_append_new(list, device_info_encode(&info));
    *ret = steal(&list);
    return true;
}

bool device_needs_find(const char *id, struct device_needs *ret, struct err *err)
{
    const struct device_ops *ops = device_find(id);
    if (!ops)
        return err_set(err, ERR_INVALID, "there is no device \"%.40s\"", id);
    if (ops == &device_cuda)
        return device_cuda_needs(ret, err);
    *ret = (struct device_needs){.env = {0}};
    return true;
}

void device_needs_done(struct device_needs *n)
{
    for (int i = 0; i < DEVICE_MAX_NEEDS; i++) {
        free(n->read_only[i]);
        free(n->devices[i]);
    }
    for (size_t i = 0; i < sizeof n->env / sizeof *n->env; i++)
        free(n->env[i]);
    *n = (struct device_needs){.env = {0}};
}

json_t *device_info_encode(const struct device_info *i)
{
    json_t *doc = json_object();
    json_put_str(doc, "kind", i->kind);
    json_put_str(doc, "id", i->id);
    json_put_str(doc, "name", i->name);
    if (i->uuid[0])
        json_put_str(doc, "uuid", i->uuid);
    json_put_str(doc, "target", i->target);
    if (i->driver[0])
        json_put_str(doc, "driver", i->driver);
    if (i->toolkit[0])
        json_put_str(doc, "toolkit", i->toolkit);
    json_put_int(doc, "sm_count", i->sm_count);
    json_put_int(doc, "memory_bytes", i->memory_bytes);
    json_put_int(doc, "l2_bytes", i->l2_bytes);
    json_put_bool(doc, "pageable_memory_access", i->pageable_memory_access);
    json_put_bool(doc, "healthy", i->healthy);
    if (i->health[0])
        json_put_str(doc, "health", i->health);
    if (strcmp(i->kind, "cuda") == 0 && i->memory_used_bytes >= 0)
        json_put_int(doc, "memory_used_bytes", i->memory_used_bytes);
    return doc;
}

void device_set_order(uint64_t order_seed, int sets, int *ret_order)
{
    for (int i = 0; i < sets; i++)
        ret_order[i] = i;
    for (int i = sets - 1; i > 0; i--) {
        int k = (int)rng_below(order_seed, 0x6f72, (uint64_t)i, (uint64_t)i + 1), swap = ret_order[i];
        ret_order[i] = ret_order[k];
        ret_order[k] = swap;
    }
}

void device_audit_done(struct device_audit_result *r)
{
    free(r->graph.list);
    free(r->cold.list);
    *r = (struct device_audit_result){0};
}

/* ---- faults ---- */

void device_fault_done(struct device_fault *f)
{
    json_decref(f->detail);
    *f = (struct device_fault){0};
}

bool fault_set(struct device_fault *f, enum verdict_code code, json_t *detail, const char *fmt, ...)
{
    if (f->code != VERDICT_OK) {
        json_decref(detail);
        return true;
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    f->code = code;
    f->detail = detail;
    return true;
}

static json_t *triple(const uint32_t v[3])
{
    return json_pack("[i,i,i]", (int)v[0], (int)v[1], (int)v[2]);
}

bool fault_from_finding(struct device_fault *f, const struct ptx_finding *finding, int step, const struct plan *plan)
{
    enum verdict_code code = VERDICT_FAULT;
    (void)verdict_code_parse(ptx_finding_verdict(finding->kind), &code);
    json_t *d = json_object();
    if (step >= 0) {
        json_put_int(d, "step", step);
        json_put_str(d, "kernel", plan->steps[step].kernel);
        json_put(d, "block", triple(finding->block));
        json_put(d, "thread", triple(finding->thread));
    }
    if (finding->buffer[0]) {
        json_put_str(d, "buffer", finding->buffer);
        json_put_int(d, "offset_bytes", finding->offset_bytes);
    }
    if (finding->access_bytes)
        json_put_int(d, "access_bytes", finding->access_bytes);
    if (finding->source_line > 0)
        json_put_int(d, "source_line", finding->source_line);
    if (finding->source_file[0])
        json_put_str(d, "source_file", finding->source_file);
    if (finding->ptx_line > 0)
        json_put_int(d, "ptx_line", finding->ptx_line);
    if (finding->opcode[0])
        json_put_str(d, "opcode", finding->opcode);
    if (finding->kind == PTX_TIMEOUT) {
        json_put_str(d, "limit", finding->out_of_time ? "wall" : "instructions");
        json_put_int(d, "thread_instructions", (int64_t)finding->executed);
    }
    if (step >= 0) {
        char seed[24];
        snprintf(seed, sizeof seed, "0x%016llx", (unsigned long long)finding->schedule_seed);
        json_put_str(d, "schedule", ptx_schedule_name(finding->explored ? PTX_EXPLORE : PTX_LOCKSTEP));
        json_put_str(d, "schedule_seed", seed);
    }
    return fault_set(f, code, d, "%s", finding->text[0] ? finding->text : ptx_finding_name(finding->kind));
}

/* ---- plan against module ---- */

static void list_entries(const struct ptx_module *m, struct buf *to)
{
    for (int i = 0; i < ptx_kernel_count(m); i++) {
        struct ptx_kernel k;
        if (ptx_kernel_get(m, i, &k))
            buf_fmt(to, "%s%s", i ? ", " : "", k.name);
    }
}

static bool misfit(struct device_fault *f, int step, const char *kernel, const char *text)
{
    fault_set(f, VERDICT_REJECTED_PLAN, json_pack("{s:i,s:s}", "step", step, "kernel", kernel), "%s", text);
    return false;
}

static bool step_fits(const struct ptx_module *m, const struct plan *plan, int step, struct device_fault *f)
{
    const struct plan_step *s = &plan->steps[step];
    struct ptx_kernel k;
    char text[400];
    if (!ptx_kernel_find(m, s->kernel, &k)) {
        cleanup(buf) struct buf entries = {.limit = 200};
        list_entries(m, &entries);
        snprintf(text, sizeof text, "the plan launches \"%.80s\", the code has: %s", s->kernel,
                 entries.size ? buf_cstr(&entries) : "no kernel");
        return misfit(f, step, s->kernel, text);
    }
    if (k.param_count != s->arg_count) {
        snprintf(text, sizeof text, "%.80s takes %d arguments, the plan gives %d", s->kernel, k.param_count,
                 s->arg_count);
        return misfit(f, step, s->kernel, text);
    }
    for (int i = 0; i < s->arg_count; i++)
        if (k.params[i].bytes != (uint32_t)s->args[i].bytes) {
            snprintf(text, sizeof text,
                     "argument %d of %.80s has %u bytes in the code and %d in the plan (pointers have 8, axes are a "
                     "32-bit int)",
                     i, s->kernel, k.params[i].bytes, s->args[i].bytes);
            return misfit(f, step, s->kernel, text);
        }
    uint64_t threads = (uint64_t)s->block[0] * s->block[1] * s->block[2], most = 1;
    for (int d = 0; d < 3; d++) {
        most *= k.maxntid[d] ? k.maxntid[d] : 1;
        if (k.reqntid[0] && s->block[d] != (k.reqntid[d] ? k.reqntid[d] : 1)) {
            snprintf(text, sizeof text,
                     "%.80s was compiled for blocks of %u x %u x %u threads, the plan launches %u x %u x %u", s->kernel,
                     k.reqntid[0], k.reqntid[1] ? k.reqntid[1] : 1, k.reqntid[2] ? k.reqntid[2] : 1, s->block[0],
                     s->block[1], s->block[2]);
            return misfit(f, step, s->kernel, text);
        }
    }
    if (k.maxntid[0] && threads > most) {
        snprintf(text, sizeof text, "%.80s was compiled for at most %llu threads a block, the plan launches %llu",
                 s->kernel, (unsigned long long)most, (unsigned long long)threads);
        return misfit(f, step, s->kernel, text);
    }
    for (int d = 0; d < 3; d++) {
        uint32_t wanted = s->cluster[d] ? s->cluster[d] : 1;
        if (k.cluster[0] && wanted != (k.cluster[d] ? k.cluster[d] : 1)) {
            snprintf(text, sizeof text, "%.80s was compiled for clusters of %u x %u x %u blocks: the plan must say so",
                     s->kernel, k.cluster[0], k.cluster[1] ? k.cluster[1] : 1, k.cluster[2] ? k.cluster[2] : 1);
            return misfit(f, step, s->kernel, text);
        }
        if (s->grid[d] % wanted) {
            snprintf(text, sizeof text, "the grid of %.80s (%u in dimension %d) is not a multiple of its cluster (%u)",
                     s->kernel, s->grid[d], d, wanted);
            return misfit(f, step, s->kernel, text);
        }
    }
    return true;
}

bool plan_fits(const struct ptx_module *m, const struct device_load *what, struct device_fault *f)
{
    for (int i = 0; i < what->plan->step_count; i++)
        if (!what->plan->steps[i].is_memset && !step_fits(m, what->plan, i, f))
            return false;
    return true;
}

/* ---- buffers ---- */

int program_buffers(const struct device_load *what, struct program_buffer ret[PROGRAM_MAX_BUFFERS])
{
    int count = 0;
    for (int t = 0; t < what->shape->op->tensor_count; t++) {
        const struct tensor *tensor = &what->tensors[t];
        struct program_buffer *b = &ret[count++];
        *b = (struct program_buffer){.bytes = tensor->bytes,
                                     .alignment_bytes = tensor->spec->alignment_bytes,
                                     .tensor = tensor,
                                     .writable = tensor->spec->role != OP_INPUT,
                                     .output = tensor->spec->role == OP_OUTPUT};
        snprintf(b->name, sizeof b->name, "%s", tensor->spec->name);
    }
    for (int w = 0; w < what->plan->workspace_count; w++) {
        struct program_buffer *b = &ret[count++];
        *b = (struct program_buffer){.bytes = what->plan->workspaces[w].bytes,
                                     .alignment_bytes = PLAN_WORKSPACE_ALIGNMENT_BYTES,
                                     .writable = true,
                                     .output = true};
        snprintf(b->name, sizeof b->name, "%s", what->plan->workspaces[w].name);
    }
    return count;
}

int argument_buffer(const struct plan_arg *a, int tensor_count)
{
    return a->kind == PLAN_TENSOR ? a->index : a->kind == PLAN_WORKSPACE ? tensor_count + a->index : -1;
}

void fill_pattern(void *to, size_t bytes, uint64_t pattern)
{
    unsigned char *p = to;
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8)
        memcpy(p + i, &pattern, 8);
    memcpy(p + i, &pattern, bytes - i);
}
