/* What is to be run: the file compiled, buffers and launches, by a plan and a shape or by flags. */
#include "gpu/emulate/emulate.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"

#include <ctype.h>
#include <string.h>

#define JSON_LIMIT_BYTES ((size_t)4 << 20)
#define BUFFER_LIMIT_BYTES (UINT64_C(1) << 34)

DEFINE_CLEANUP(compiled, struct toolkit_compiled, (free(it->ptx), free(it->log)))
DEFINE_CLEANUP(assembled, struct toolkit_assembled, (free(it->cubin), free(it->log)))

void emulate_problem_done(struct emulate_problem *p)
{
    buf_done(&p->source);
    buf_done(&p->ptx);
    ptx_free(p->module);
    for (int t = 0; p->has_op && t < p->shape.op->tensor_count; t++) {
        free(p->inputs[t]);
        free(p->reference[t]);
    }
    op_set_done(&p->ops);
}

static bool read_json(const char *where, json_t **ret, struct err *err)
{
    while (isspace((unsigned char)*where))
        where++;
    return *where == '{' ? json_parse(where, strlen(where), ret, err) : json_parse_file(where + (*where == '@'), JSON_LIMIT_BYTES, ret, err);
}

/* ---- compiling ---- */
/* The line that a log's first error names: "candidate.cu(12): error: ..." (the name that the compiler knows the file by). */
static int log_line(const char *log)
{
    const char *error = strstr(log, "): error"), *at = error;
    while (at && at > log && isdigit((unsigned char)at[-1]))
        at--;
    return at && at != error ? (int)strtol(at, NULL, 10) : 0;
}

static bool compile(struct emulate_problem *p, const struct toolkit_paths *paths, const char *target, const char *options,
                    struct emulate_findings *f, struct err *err)
{
    cleanup(compiled) struct toolkit_compiled c = {0};
    if (!toolkit_compile(paths, buf_cstr(&p->source), target, options, &c, err))
        return false;
    if (c.ok) {
        buf_add(&p->ptx, c.ptx, c.ptx_bytes);
        return true;
    }
    const struct ptx_finding at = {.kind = PTX_SYNTAX, .source_line = log_line(c.log), .source_file = "candidate.cu"};
    emulate_found(f, VERDICT_COMPILE_ERROR, &at, "", 0, c.log && *c.log ? c.log : "the source does not compile");
    return true;
}

static bool parse(struct emulate_problem *p, struct emulate_findings *f, struct err *err)
{
    struct ptx_finding finding = {0};
    enum verdict_code code = VERDICT_FAULT;
    if (!ptx_parse(buf_cstr(&p->ptx), p->ptx.size, &ptx_default_limits, &p->module, &finding, err))
        return false;
    if (p->module)
        return true;
    (void)verdict_code_parse(ptx_finding_verdict(finding.kind), &code);
    emulate_found(f, code, &finding, "", 0, finding.text);
    return true;
}

/* Registers, shared and local memory of the kernels, where the toolkit is there: for the estimate. */
static void assemble(struct emulate_problem *p, const struct toolkit_paths *paths, const char *target, int maxrregcount)
{
    cleanup(assembled) struct toolkit_assembled a = {0};
    struct err ignored = {0};
    if (!toolkit_assemble(paths, buf_cstr(&p->ptx), p->ptx.size, target, maxrregcount, &a, &ignored) || !a.ok)
        return;
    for (int i = 0; i < p->step_count; i++)
        for (int k = 0; k < a.kernel_count; k++)
            if (!strcmp(a.kernels[k].name, p->steps[i].kernel)) {
                p->steps[i].resources = a.kernels[k].resources;
                p->steps[i].has_resources = true;
            }
}

/* ---- by a plan ---- */
static bool take_candidate(const struct emulate_options *o, const struct emulate_problem *p, struct candidate *ret, struct err *err)
{
    cleanup(json) json_t *plan = NULL, *doc = NULL;
    struct faults faults = {0};
    if (!read_json(o->plan, &plan, err))
        return err_wrap(err, "--plan");
    doc = json_object_get(plan, "steps") ? json_pack("{s:O}", "plan", plan) : json_deep_copy(plan);
    if (!json_is_object(doc))
        return err_set(err, ERR_INVALID, "--plan: an object is needed");
    json_put_str(doc, "language", p->is_ptx ? "ptx" : "cuda");
    json_put_str(doc, "source", buf_cstr(&p->source));
    json_t *defines = json_object_get(doc, "defines");
    if (!defines)
        json_put(doc, "defines", defines = json_object());
    for (int i = 0; i < o->defines.count; i++) {
        const char *text = o->defines.values[i], *equals = strchr(text, '=');
        cleanup(str) char *name = equals ? strndup(text, (size_t)(equals - text)) : xstrdup(text);
        json_put_str(defines, name, equals ? equals + 1 : "1");
    }
    if (!candidate_parse(doc, "", ret, &faults))
        return err_set(err, ERR_INVALID, "--plan%s: %s", faults.list[0].pointer, faults.list[0].detail);
    return true;
}

static bool take_shape(const struct emulate_options *o, struct emulate_problem *p, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    struct faults faults = {0};
    const char *given = o->ops_dir ? o->ops_dir : getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *dir = given && *given ? xstrdup(given) : op_default_dir();
    if (!op_set_load(dir, &p->ops, err) || !read_json(o->shape, &doc, err))
        return err_wrap(err, "--shape");
    if (!shape_parse(&p->ops, doc, o->target ? o->target : "sm_90a", "", &p->shape, &faults))
        return err_set(err, ERR_INVALID, "--shape%s: %s", faults.list[0].pointer, faults.list[0].detail);
    p->has_op = true;
    p->regime = o->regime ? inputs_regime_index(p->shape.op, o->regime) : 0;
    if (p->regime < 0)
        return err_set(err, ERR_INVALID, "%s has no regime \"%s\"", p->shape.op->name, o->regime);
    return shape_tensors(&p->shape, p->tensors, err) && inputs_make(&p->shape, p->tensors, p->regime, p->seed, p->inputs, err) &&
           reference_run(&p->shape, p->tensors, (const void *const *)p->inputs, p->reference, err);
}

static void plan_buffers(struct emulate_problem *p)
{
    for (int t = 0; t < p->shape.op->tensor_count; t++) {
        const struct op_tensor *spec = p->tensors[t].spec;
        struct emulate_buffer *b = &p->buffers[p->buffer_count++];
        *b = (struct emulate_buffer){.bytes = (size_t)p->tensors[t].bytes, .alignment = (size_t)spec->alignment_bytes,
                                     .fill = spec->role == OP_OUTPUT ? FILL_UNWRITTEN : FILL_GIVEN, .given = p->inputs[t],
                                     .writable = spec->role != OP_INPUT};
        snprintf(b->name, sizeof b->name, "%s", spec->name);
    }
    for (int w = 0; w < p->plan.workspace_count; w++) {
        struct emulate_buffer *b = &p->buffers[p->buffer_count++];
        *b = (struct emulate_buffer){.bytes = (size_t)p->plan.workspaces[w].bytes, .alignment = 256, .fill = FILL_UNWRITTEN, .writable = true};
        snprintf(b->name, sizeof b->name, "%s", p->plan.workspaces[w].name);
    }
}

static void plan_steps(struct emulate_problem *p)
{
    const int tensors = p->shape.op->tensor_count;
    p->step_count = p->plan.step_count;
    for (int i = 0; i < p->step_count; i++) {
        const struct plan_step *from = &p->plan.steps[i];
        struct emulate_step *s = &p->steps[i];
        *s = (struct emulate_step){.is_memset = from->is_memset, .buffer = tensors + from->memset_workspace, .value = from->memset_value};
        snprintf(s->kernel, sizeof s->kernel, "%s", from->kernel);
        s->launch = (struct ptx_launch){.kernel = s->kernel, .dynamic_shared_bytes = from->shared_bytes, .cooperative = p->plan.cooperative,
                                        .arg_count = from->arg_count};
        for (int d = 0; d < 3; d++) {
            s->launch.grid[d] = from->grid[d];
            s->launch.block[d] = from->block[d];
            s->launch.cluster[d] = from->cluster[d];
        }
        for (int a = 0; a < from->arg_count; a++) {
            const struct plan_arg *arg = &from->args[a];
            s->launch.args[a] = (struct ptx_arg){(uint8_t)arg->bytes, arg->value};
            s->argument_buffer[a] = arg->kind == PLAN_TENSOR ? arg->index : arg->kind == PLAN_WORKSPACE ? tensors + arg->index : -1;
        }
    }
}

static bool scan(const struct emulate_problem *p, const struct candidate *c, struct emulate_findings *f, struct err *err)
{
    const struct ptx_declares declares = {c->atomics, c->cooperative, c->cache_hints};
    struct ptx_scan s = {0};
    if (!ptx_scan(p->module, &declares, &s, err))
        return false;
    if (s.refused.kind != PTX_CLEAN)
        emulate_found(f, VERDICT_REJECTED_FORBIDDEN, &s.refused, "", 0, s.refused.text);
    for (int i = 0; i < s.flag_count; i++)
        fprintf(stderr, "note: %s, PTX line %d: %s\n", s.flags[i].rule, s.flags[i].ptx_line, s.flags[i].text);
    return true;
}

static bool make_by_plan(const struct emulate_options *o, struct emulate_problem *p, const struct toolkit_paths *paths, struct emulate_findings *f,
                         struct err *err)
{
    cleanup(candidate) struct candidate c = {0};
    cleanup(buf) struct buf options = {0};
    char why[512] = "";
    if (!take_shape(o, p, err) || !take_candidate(o, p, &c, err))
        return false;
    if (!plan_resolve(&c, &p->shape, &p->plan, why, sizeof why) || !candidate_options(&c, &p->shape, &options, why, sizeof why)) {
        emulate_found(f, VERDICT_REJECTED_PLAN, &(struct ptx_finding){.source_line = -1}, "", 0, why);
        return true;
    }
    if (p->is_ptx)
        buf_add(&p->ptx, p->source.data, p->source.size);
    else if (!compile(p, paths, p->shape.target, buf_cstr(&options), f, err))
        return false;
    if (f->count || !parse(p, f, err) || f->count)
        return f->count > 0;
    if (!scan(p, &c, f, err) || f->count)
        return f->count > 0;
    plan_buffers(p);
    plan_steps(p);
    if (p->device && *paths->nvjitlink)
        assemble(p, paths, p->shape.target, c.maxrregcount);
    return true;
}

/* ---- by flags ---- */
static bool take_number(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 0);
    *ret = value;
    return isdigit((unsigned char)*text) && !*end && value <= most;
}

static bool take_triple(const char *what, const char *text, uint32_t *ret, struct err *err)
{
    char part[32];
    for (int d = 0; text && d < 3; d++) {
        const char *comma = strchr(text, ',');
        const size_t size = comma ? (size_t)(comma - text) : strlen(text);
        uint64_t value = 0;
        if (size < sizeof part)
            memcpy(part, text, size), part[size] = 0;
        if (size >= sizeof part || !take_number(part, INT32_MAX, &value) || !value || (comma && d == 2))
            return err_set(err, ERR_INVALID, "%s: one to three numbers from 1 on, with commas between, are needed", what);
        ret[d] = (uint32_t)value;
        text = comma ? comma + 1 : NULL;
    }
    return true;
}

static const struct { const char *name; enum emulate_fill fill; } fills[] = {
    {"random", FILL_RANDOM}, {"bytes", FILL_BYTES}, {"zeros", FILL_ZEROS}, {"index", FILL_INDEX}, {"uninit", FILL_UNWRITTEN}};

/* NAME=BYTES[:WHAT[:ro]] */
static bool take_buffer(const char *text, struct emulate_buffer *ret, struct err *err)
{
    char copy[256], *rest = copy;
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return err_set(err, ERR_INVALID, "--buffer %.40s..: too long", text);
    const char *name = strsep(&rest, "="), *bytes = rest ? strsep(&rest, ":") : NULL, *what = rest ? strsep(&rest, ":") : NULL, *how = rest;
    uint64_t size = 0;
    *ret = (struct emulate_buffer){.alignment = 256, .fill = FILL_UNWRITTEN, .writable = true};
    if (!*name || !bytes || !take_number(bytes, BUFFER_LIMIT_BYTES, &size) || !size || strlen(name) >= sizeof ret->name)
        return err_set(err, ERR_INVALID, "--buffer %s: NAME=BYTES[:WHAT[:ro]] is needed, 1 to %llu bytes", text, (unsigned long long)BUFFER_LIMIT_BYTES);
    snprintf(ret->name, sizeof ret->name, "%s", name);
    ret->bytes = (size_t)size;
    size_t i = 0;
    while (what && i < sizeof fills / sizeof *fills && strcmp(fills[i].name, what) != 0)
        i++;
    if (i == sizeof fills / sizeof *fills || (how && strcmp(how, "ro") != 0))
        return err_set(err, ERR_INVALID, "--buffer %s: %s is none of random, bytes, zeros, index, uninit, and ro after it", text, how && strcmp(how, "ro") ? how : what);
    ret->fill = what ? fills[i].fill : FILL_UNWRITTEN;
    ret->writable = !how;
    return true;
}

/* A buffer's name, NAME+BYTES, or a number of the parameter's size; with a point or an exponent it is a float. */
static bool take_argument(const struct emulate_problem *p, const char *text, uint32_t bytes, struct ptx_arg *ret, int *ret_buffer, struct err *err)
{
    const char *plus = strchr(text, '+');
    const size_t name_size = plus ? (size_t)(plus - text) : strlen(text);
    uint64_t offset = 0;
    *ret = (struct ptx_arg){.bytes = (uint8_t)bytes};
    for (int b = 0; b < p->buffer_count; b++)
        if (strlen(p->buffers[b].name) == name_size && !memcmp(p->buffers[b].name, text, name_size)) {
            if (bytes != 8 || (plus && !take_number(plus + 1, UINT64_MAX, &offset)))
                return err_set(err, ERR_INVALID, "--arg %s: a pointer has 8 bytes, the parameter %u; an offset is a number", text, bytes);
            ret->value = offset;
            *ret_buffer = b;
            return true;
        }
    *ret_buffer = -1;
    char *end;
    const bool hex = !strncmp(text, "0x", 2) || !strncmp(text, "-0x", 3);
    if (!hex && strpbrk(text, ".eE")) {
        const double d = strtod(text, &end);
        const float narrow = (float)d;
        if (*end || end == text || (bytes != 4 && bytes != 8))
            return err_set(err, ERR_INVALID, "--arg %s: not a float of %u bytes", text, bytes);
        memcpy(&ret->value, bytes == 4 ? (const void *)&narrow : (const void *)&d, bytes);
        return true;
    }
    ret->value = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : (uint64_t)strtoull(text, &end, 0);
    if (*end || end == text)
        return err_set(err, ERR_INVALID, "--arg %s: neither a buffer nor a number", text);
    if (bytes < 8)
        ret->value &= (UINT64_C(1) << bytes * 8) - 1;
    return true;
}

static bool make_launch(const struct emulate_options *o, struct emulate_problem *p, struct err *err)
{
    struct emulate_step *s = &p->steps[0];
    struct ptx_kernel k;
    uint64_t shared = 0;
    p->step_count = 1;
    snprintf(s->kernel, sizeof s->kernel, "%s", o->kernel);
    if (!ptx_kernel_find(p->module, o->kernel, &k)) {
        cleanup(buf) struct buf names = {.limit = 400};
        for (int i = 0; i < ptx_kernel_count(p->module) && ptx_kernel_get(p->module, i, &k); i++)
            buf_fmt(&names, "%s%s", i ? ", " : "", k.name);
        return err_set(err, ERR_INVALID, "there is no kernel %s; there are: %s", o->kernel, buf_cstr(&names));
    }
    if (o->args.count != k.param_count)
        return err_set(err, ERR_INVALID, "%s has %d parameters, and there are %d --arg", o->kernel, k.param_count, o->args.count);
    if (o->shared && !take_number(o->shared, 1 << 20, &shared))
        return err_set(err, ERR_INVALID, "--shared: a number of bytes is needed");
    s->launch = (struct ptx_launch){.kernel = s->kernel, .grid = {1, 1, 1}, .block = {k.reqntid[0] ? k.reqntid[0] : 32, 1, 1},
                                    .dynamic_shared_bytes = (uint32_t)shared, .cooperative = o->cooperative, .arg_count = k.param_count};
    for (int d = 0; d < 3; d++) {
        s->launch.block[d] = k.reqntid[0] ? k.reqntid[d] : s->launch.block[d];
        s->launch.cluster[d] = k.cluster[d];
    }
    if (!take_triple("--grid", o->grid, s->launch.grid, err) || !take_triple("--block", o->block, s->launch.block, err))
        return false;
    for (int d = 0; o->cluster && d < 3; d++)
        s->launch.cluster[d] = 1;
    if (!take_triple("--cluster", o->cluster, s->launch.cluster, err))
        return false;
    for (int a = 0; a < k.param_count; a++) {
        if (k.params[a].bytes > 8)
            return err_set(err, ERR_INVALID, "parameter %d of %s has %u bytes; at most 8 can be given", a, o->kernel, k.params[a].bytes);
        if (!take_argument(p, o->args.values[a], k.params[a].bytes, &s->launch.args[a], &s->argument_buffer[a], err))
            return false;
    }
    return true;
}

static bool make_by_flags(const struct emulate_options *o, struct emulate_problem *p, const struct toolkit_paths *paths, struct emulate_findings *f,
                          struct err *err)
{
    cleanup(buf) struct buf options = {0};
    const char *target = o->target ? o->target : "sm_90a";
    for (int i = 0; i < o->defines.count; i++)
        buf_fmt(&options, "-D%s\n", o->defines.values[i]);
    for (int i = 0; i < o->buffers.count && p->buffer_count < EMULATE_MAX_BUFFERS; i++)
        if (!take_buffer(o->buffers.values[i], &p->buffers[p->buffer_count++], err))
            return false;
    if (p->is_ptx)
        buf_add(&p->ptx, p->source.data, p->source.size);
    else if (!compile(p, paths, target, buf_cstr(&options), f, err))
        return false;
    if (f->count || !parse(p, f, err) || f->count)
        return f->count > 0;
    if (!make_launch(o, p, err))
        return false;
    if (p->device && *paths->nvjitlink)
        assemble(p, paths, p->is_ptx ? ptx_target(p->module) : target, 0);
    return true;
}

bool emulate_problem_make(const struct emulate_options *o, struct emulate_problem *ret, struct emulate_findings *f, struct err *err)
{
    struct toolkit_paths paths = {.home = ""};
    struct err none = {0};
    const char *dot = strrchr(o->file, '.');
    ret->path = o->file;
    ret->is_ptx = dot && !strcmp(dot, ".ptx");
    if (!file_read(o->file, ret->is_ptx ? ptx_default_limits.text_bytes : CANDIDATE_MAX_SOURCE_BYTES, &ret->source, err))
        return false;
    if (!utf8_valid(ret->source.data, ret->source.size))
        return err_set(err, ERR_INVALID, "%s: not UTF-8 text", o->file);
    const bool found = toolkit_find(o->cuda_home, &paths, ret->is_ptx ? &none : err);
    if (!found && !ret->is_ptx)
        return err_wrap(err, "a .cu file needs the CUDA toolkit to be compiled");
    if (!found)
        paths = (struct toolkit_paths){.home = ""};
    return o->plan ? make_by_plan(o, ret, &paths, f, err) : make_by_flags(o, ret, &paths, f, err);
}
