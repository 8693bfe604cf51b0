/*
 * A Triton candidate's own part: which type or value each argument of its function has. The form is checked key by key, as the rest of
 * a candidate; what the values are for a shape is resolved here, so that the compiler's side is told numbers and names of types alone.
 */
#include "core/candidate.h"
#include "core/expr.h"

#include <ctype.h>
#include <string.h>

#define SIGNATURE_MAX 64
#define TYPE_MAX 48

/* Triton's names of our types. */
static const struct { enum dtype dtype; const char *name; } types[] = {
    {DTYPE_F32, "fp32"}, {DTYPE_F16, "fp16"}, {DTYPE_BF16, "bf16"}, {DTYPE_F8E4M3, "fp8e4nv"}, {DTYPE_I32, "i32"},
    {DTYPE_I64, "i64"},  {DTYPE_I8, "i8"},    {DTYPE_U8, "u8"},
};
/* What a signature may name besides, as Triton spells it. */
static const char *const more_types[] = {"i1", "i16", "u16", "u32", "u64", "fp64", "fp8e5"};

static const char *type_of(enum dtype t)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].dtype == t)
            return types[i].name;
    return NULL;
}

static bool type_known(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return true;
    for (size_t i = 0; i < sizeof more_types / sizeof *more_types; i++)
        if (strcmp(more_types[i], name) == 0)
            return true;
    return false;
}

static bool identifier(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++)
        if (!(isalpha((unsigned char)s[n]) || s[n] == '_' || (n && isdigit((unsigned char)s[n]))))
            return false;
    return n > 0 && n < 64;
}

/* ---- the form ---- */

static void check_names(const json_t *object, const char *where, bool texts, struct faults *f)
{
    const char *name;
    json_t *item;
    if (!json_is_object(object) || json_object_size(object) > SIGNATURE_MAX) {
        faults_add(f, where, "an object of at most %d arguments is needed", SIGNATURE_MAX);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)object, name, item) {
        cleanup(str) char *at = xfmt("%s/%.64s", where, name);
        if (!identifier(name))
            faults_add(f, at, "an argument's name is needed, at most 63 letters, digits and _");
        else if (texts && (!json_is_string(item) || json_string_length(item) > TYPE_MAX))
            faults_add(f, at, "a type is needed, such as \"*bf16:16\", \"*DTYPE_io\" or \"i32\"");
        else if (!texts && !json_is_integer(item) && !json_is_real(item) && !json_is_boolean(item) && !json_is_null(item) && !json_is_string(item))
            faults_add(f, at, "a number, true, false, null, an expression or a DTYPE_ is needed");
    }
}

void candidate_check_triton(const json_t *doc, const char *pointer, struct faults *f)
{
    static const char *const keys[] = {"signature", "constexprs", "num_warps", "num_stages", NULL};
    const json_t *triton = json_object_get(doc, "triton"), *constexprs = json_object_get(triton, "constexprs");
    cleanup(str) char *where = xfmt("%s/triton", pointer), *at_signature = xfmt("%s/triton/signature", pointer);
    cleanup(str) char *at_constexprs = xfmt("%s/triton/constexprs", pointer);
    if (!json_is_object(triton)) {
        faults_add(f, where, "an object with signature, constexprs, num_warps and num_stages is needed");
        return;
    }
    json_only_keys(triton, where, keys, f);
    check_names(json_object_get(triton, "signature"), at_signature, true, f);
    if (constexprs)
        check_names(constexprs, at_constexprs, false, f);
    static const struct { const char *key; bool power; int64_t most; } numbers[] = {{"num_warps", true, 32}, {"num_stages", false, 16}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const json_t *v = json_object_get(triton, numbers[i].key);
        cleanup(str) char *at = xfmt("%s/%s", where, numbers[i].key);
        int64_t n = json_integer_value(v);
        if (v && (!json_is_integer(v) || n < 1 || n > numbers[i].most || (numbers[i].power && (n & (n - 1)))))
            faults_add(f, at, "%s from 1 to %lld is needed", numbers[i].power ? "a power of two" : "an integer", (long long)numbers[i].most);
    }
}

/* ---- for a shape ---- */

static bool wrong(char *why, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool wrong(char *why, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return false;
}

/* "DTYPE_io" of this shape; NULL where it is no such thing. */
static const char *letter_type(const struct shape *s, const char *name)
{
    if (strncmp(name, "DTYPE_", 6) != 0)
        return NULL;
    for (int i = 0; i < s->op->letter_count; i++)
        if (strcmp(s->op->letters[i].name, name + 6) == 0)
            return type_of(s->dtypes[i]);
    return NULL;
}

/* "*DTYPE_io:16" is {"type":"*bf16","divisible":true}. */
static bool resolve_type(const struct shape *s, const char *name, const char *text, json_t *to, char *why, size_t why_size)
{
    char base[TYPE_MAX + 1];
    bool pointer = *text == '*';
    size_t n = strcspn(text + pointer, ":");
    const char *hint = text + pointer + n;
    snprintf(base, sizeof base, "%.*s", (int)n, text + pointer);
    const char *type = strncmp(base, "DTYPE_", 6) == 0 ? letter_type(s, base) : base;
    if (!type || !type_known(type))
        return wrong(why, why_size, "triton.signature.%.63s: there is no type \"%.48s\"", name, text);
    if (*hint && strcmp(hint, ":16") != 0)
        return wrong(why, why_size, "triton.signature.%.63s: \"%.48s\": the one hint there is is :16, divisible by 16", name, text);
    cleanup(str) char *full = xfmt("%s%s", pointer ? "*" : "", type);
    json_t *one = json_object();
    json_put_str(one, "type", full);
    json_put_bool(one, "divisible", *hint != 0);
    json_put(to, name, one);
    return true;
}

static bool resolve_value(const struct candidate *c, const struct shape *s, const char *name, json_t *v, json_t *to, char *why, size_t why_size)
{
    const char *text = json_string_value(v), *type = text ? letter_type(s, text) : NULL;
    struct err err = {0};
    int64_t n;
    if (!text)
        json_put(to, name, json_incref(v));
    else if (type)
        json_put(to, name, json_pack("{s:s}", "dtype", type));
    else if (candidate_number(c, s, text, &n, &err))
        json_put_int(to, name, n);
    else
        return wrong(why, why_size, "triton.constexprs.%.63s: %s", name, err.text);
    return true;
}

/* What CUDA's source knows as macros, the function finds as global constants. */
static json_t *constants_of(const struct candidate *c, const struct shape *s)
{
    json_t *doc = json_object();
    for (int i = 0; i < c->define_count; i++) {
        char *end;
        long long n = strtoll(c->defines[i].value, &end, 10);
        if (!*end && end != c->defines[i].value)
            json_put_int(doc, c->defines[i].name, n);
    }
    for (int i = 0; i < s->op->axis_count; i++) {
        cleanup(str) char *name = xfmt("AXIS_%s", s->op->axes[i].name);
        if (s->op->axes[i].keyed)       /* as candidate_options */
            json_put_int(doc, name, s->axes[i]);
    }
    for (int i = 0; i < s->op->letter_count; i++) {
        cleanup(str) char *name = xfmt("DTYPE_%s", s->op->letters[i].name);
        if (type_of(s->dtypes[i]))
            json_put(doc, name, json_pack("{s:s}", "dtype", type_of(s->dtypes[i])));
    }
    return doc;
}

/* Every launch is of one function: that is the one compiled. */
static bool one_function(const struct plan *p, const char **ret, char *why, size_t why_size)
{
    *ret = NULL;
    for (int i = 0; i < p->step_count; i++) {
        if (p->steps[i].is_memset)
            continue;
        if (*ret && strcmp(*ret, p->steps[i].kernel) != 0)
            return wrong(why, why_size, "step %d launches %.80s beside %.80s: a Triton source gives one kernel", i, p->steps[i].kernel, *ret);
        *ret = p->steps[i].kernel;
    }
    return *ret && identifier(*ret) ? true : wrong(why, why_size, "kernel must be the name of a function of the source");
}

bool candidate_triton(const struct candidate *c, const struct shape *s, const struct plan *p, json_t **ret, char *why, size_t why_size)
{
    const json_t *triton = json_object_get(c->doc, "triton");
    cleanup(json) json_t *signature = json_object(), *constexprs = json_object();
    const char *name, *function;
    json_t *item;
    if (c->fast_math)
        return wrong(why, why_size, "options.fast_math is for CUDA C++: Triton has none");
    if (!one_function(p, &function, why, why_size))
        return false;
    json_object_foreach(json_object_get(triton, "signature"), name, item)
        if (!resolve_type(s, name, json_string_value(item), signature, why, why_size))
            return false;
    json_object_foreach(json_object_get(triton, "constexprs"), name, item) {
        if (json_object_get(signature, name))
            return wrong(why, why_size, "triton: %.63s has a type and a value: an argument has one of them", name);
        if (!resolve_value(c, s, name, item, constexprs, why, why_size))
            return false;
    }
    json_t *doc = json_object();
    json_put_str(doc, "function", function);
    json_put(doc, "signature", steal(&signature));
    json_put(doc, "constexprs", steal(&constexprs));
    json_put(doc, "constants", constants_of(c, s));
    json_put_int(doc, "num_warps", json_int(triton, "num_warps", 4));
    json_put_int(doc, "num_stages", json_int(triton, "num_stages", 3));
    *ret = doc;
    return true;
}

/* ---- what the compiler made of it ---- */

static bool entry_name(const char *s)
{
    size_t n = strlen(s);
    return n && n < PLAN_KERNEL_SIZE && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$0123456789") == n && !isdigit((unsigned char)*s);
}

bool plan_take_triton(struct plan *p, const json_t *made, char *why, size_t why_size)
{
    const char *name = json_str(made, "name", "");
    int64_t warps = json_int(made, "num_warps", 0), shared = json_int(made, "shared", -1), hidden = json_int(made, "hidden", -1);
    static const struct { const char *key; const char *what; int64_t allowed; } none[] = {
        {"global_scratch_size", "bytes of global scratch memory, which the plan cannot give", 0},
        {"profile_scratch_size", "bytes of profile scratch memory, which the plan cannot give", 0},
        {"tmem_size", "columns of tensor memory", 512},
        {"clusters", "blocks in a cluster", 1},
    };
    if (!entry_name(name))
        return wrong(why, why_size, "Triton's kernel has a name that is none of a PTX entry");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        int64_t n = json_int(made, none[i].key, -1);
        if (n < 0 || n > none[i].allowed)
            return wrong(why, why_size, "Triton's kernel wants %lld %s (%s)", (long long)n, none[i].what, none[i].key);
    }
    if (warps < 1 || warps > 32 || shared < 0 || shared > PLAN_SHARED_MAX_BYTES || hidden < 0 || hidden > TRITON_MAX_HIDDEN)
        return wrong(why, why_size, "Triton's kernel wants %lld warps, %lld bytes of shared memory and %lld arguments of its own: at most 32, %d and %d",
                     (long long)warps, (long long)shared, (long long)hidden, PLAN_SHARED_MAX_BYTES, TRITON_MAX_HIDDEN);
    for (int i = 0; i < p->step_count; i++) {
        struct plan_step *s = &p->steps[i];
        if (s->is_memset)
            continue;
        if (s->block[0] != warps * 32 || s->block[1] != 1 || s->block[2] != 1)
            return wrong(why, why_size, "step %d: block is %u x %u x %u, Triton's kernel runs in blocks of %lld x 1 x 1 (32 * num_warps)", i, s->block[0],
                         s->block[1], s->block[2], (long long)warps * 32);
        if (s->cluster[0] * s->cluster[1] * s->cluster[2] != 1)
            return wrong(why, why_size, "step %d: Triton's kernel was compiled for no cluster", i);
        if (s->shared_bytes && s->shared_bytes < shared)
            return wrong(why, why_size, "step %d: shared_bytes is %u, Triton's kernel needs %lld", i, s->shared_bytes, (long long)shared);
        if (s->arg_count + hidden > PLAN_MAX_ARGS)
            return wrong(why, why_size, "step %d: more than %d arguments", i, PLAN_MAX_ARGS);
        s->shared_bytes = s->shared_bytes ? s->shared_bytes : (uint32_t)shared;
        for (int64_t k = 0; k < hidden; k++)
            s->args[s->arg_count++] = (struct plan_arg){PLAN_NULL, 0, 8, 0};
        snprintf(s->kernel, sizeof s->kernel, "%s", name);
    }
    return true;
}
