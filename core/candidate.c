/* The form of a candidate is checked key by key from tables; what its numbers mean for a shape is in plan.c. */
#include "core/candidate.h"

#include <ctype.h>
#include <string.h>

static const char *const languages[LANGUAGE_COUNT] = {"cuda", "ptx", "triton"};

const char *language_name(enum language l)
{
    return languages[l];
}

static bool text_at(const json_t *object, const char *pointer, const char *key, size_t limit, bool needed, struct faults *f)
{
    const json_t *v = json_object_get(object, key);
    cleanup(str) char *where = xfmt("%s/%s", pointer, key);
    if (!v && !needed)
        return true;
    if (!json_is_string(v)) {
        faults_add(f, where, "a string is needed");
        return false;
    }
    if (json_string_length(v) > limit) {
        faults_add(f, where, "%zu bytes, at most %zu", json_string_length(v), limit);
        return false;
    }
    return true;
}

/* An object whose keys all are in the list, each true, false or (where `ints`) an integer. */
static void flags_at(const json_t *doc, const char *pointer, const char *key, const char *const *keys, const char *integer_key,
                     struct faults *f)
{
    const json_t *object = json_object_get(doc, key);
    cleanup(str) char *where = xfmt("%s/%s", pointer, key);
    const char *name;
    json_t *item;
    if (!object)
        return;
    if (!json_is_object(object)) {
        faults_add(f, where, "an object is needed");
        return;
    }
    json_only_keys(object, where, keys, f);
    json_object_foreach((json_t *)object, name, item) {
        cleanup(str) char *at = xfmt("%s/%.64s", where, name);
        bool wants_integer = integer_key && strcmp(name, integer_key) == 0;
        if (wants_integer ? !json_is_integer(item) : !json_is_boolean(item))
            faults_add(f, at, wants_integer ? "an integer is needed" : "true or false is needed");
    }
}

static void take_defines(struct candidate *c, const json_t *doc, const char *pointer, struct faults *f)
{
    const json_t *defines = json_object_get(doc, "defines");
    cleanup(str) char *where = xfmt("%s/defines", pointer);
    const char *name;
    json_t *item;
    if (!defines)
        return;
    if (!json_is_object(defines) || json_object_size(defines) > CANDIDATE_MAX_DEFINES) {
        faults_add(f, where, "an object of at most %d names is needed", CANDIDATE_MAX_DEFINES);
        return;
    }
    json_object_foreach((json_t *)defines, name, item) {
        cleanup(str) char *at = xfmt("%s/%.64s", where, name);
        size_t k = (size_t)c->define_count;
        int name_size = snprintf(c->defines[k].name, sizeof c->defines[k].name, "%s", name), value_size = -1;
        if (json_is_integer(item))
            value_size = snprintf(c->defines[k].value, sizeof c->defines[k].value, "%lld", (long long)json_integer_value(item));
        else if (json_is_string(item))
            value_size = snprintf(c->defines[k].value, sizeof c->defines[k].value, "%s", json_string_value(item));
        if (value_size < 0 || value_size >= (int)sizeof c->defines[k].value || name_size >= (int)sizeof c->defines[k].name)
            faults_add(f, at, "an integer or an identifier of at most 63 characters is needed");
        else
            c->define_count++;
    }
}

static void check_step(const json_t *step, const char *pointer, struct faults *f)
{
    static const char *const launch_keys[] = {"kernel", "grid", "block", "cluster", "shared_bytes", "args", "dependent", NULL};
    static const char *const memset_keys[] = {"memset", "value", NULL};
    if (!json_is_object(step)) {
        faults_add(f, pointer, "an object is needed");
        return;
    }
    if (json_object_get(step, "memset")) {
        json_only_keys(step, pointer, memset_keys, f);
        text_at(step, pointer, "memset", 63, true, f);
        return;
    }
    json_only_keys(step, pointer, launch_keys, f);
    text_at(step, pointer, "kernel", PLAN_KERNEL_SIZE - 1, true, f);
    static const struct { const char *key; bool needed; } triples[] = {{"grid", true}, {"block", true}, {"cluster", false}};
    for (size_t i = 0; i < sizeof triples / sizeof *triples; i++) {
        const json_t *v = json_object_get(step, triples[i].key);
        cleanup(str) char *where = xfmt("%s/%s", pointer, triples[i].key);
        if ((v || triples[i].needed) && (!json_is_array(v) || json_array_size(v) < 1 || json_array_size(v) > 3))
            faults_add(f, where, "a list of one to three sizes is needed");
    }
    const json_t *args = json_object_get(step, "args"), *dependent = json_object_get(step, "dependent");
    cleanup(str) char *where = xfmt("%s/args", pointer), *at_dependent = xfmt("%s/dependent", pointer);
    if (dependent && !json_is_boolean(dependent) && !json_is_integer(dependent) && !json_is_string(dependent))
        faults_add(f, at_dependent, "true, false, or an expression that gives 0 or 1 is needed");
    size_t i;
    json_t *item;
    if (!json_is_array(args) || json_array_size(args) > PLAN_MAX_ARGS)
        faults_add(f, where, "a list of at most %d names is needed", PLAN_MAX_ARGS);
    json_array_foreach(args, i, item)
        if (!json_is_string(item))
            faults_add(f, where, "argument %zu is not a name", i);
}

static void check_plan(const json_t *plan, const char *pointer, struct faults *f)
{
    static const char *const plan_keys[] = {"workspace", "steps", NULL};
    static const char *const workspace_keys[] = {"name", "bytes", NULL};
    if (!json_is_object(plan)) {
        faults_add(f, pointer, "an object with steps is needed");
        return;
    }
    json_only_keys(plan, pointer, plan_keys, f);
    const json_t *steps = json_object_get(plan, "steps"), *workspaces = json_object_get(plan, "workspace");
    size_t i;
    json_t *item;
    cleanup(str) char *at_steps = xfmt("%s/steps", pointer), *at_workspace = xfmt("%s/workspace", pointer);
    if (!json_is_array(steps) || !json_array_size(steps) || json_array_size(steps) > PLAN_MAX_STEPS)
        faults_add(f, at_steps, "a list of 1 to %d steps is needed", PLAN_MAX_STEPS);
    json_array_foreach(steps, i, item) {
        cleanup(str) char *where = xfmt("%s/%zu", at_steps, i);
        check_step(item, where, f);
    }
    if (workspaces && (!json_is_array(workspaces) || json_array_size(workspaces) > PLAN_MAX_WORKSPACES))
        faults_add(f, at_workspace, "a list of at most %d workspaces is needed", PLAN_MAX_WORKSPACES);
    json_array_foreach(workspaces, i, item) {
        cleanup(str) char *where = xfmt("%s/%zu", at_workspace, i);
        if (!json_is_object(item)) {
            faults_add(f, where, "an object with name and bytes is needed");
            continue;
        }
        json_only_keys(item, where, workspace_keys, f);
        text_at(item, where, "name", 63, true, f);
    }
}

bool candidate_parse(const json_t *doc, const char *pointer, struct candidate *ret, struct faults *f)
{
    static const char *const keys[] = {"language", "source", "plan", "defines", "options", "declares", "triton",
                                       "parent", "lessons", "notes", NULL};
    static const char *const option_keys[] = {"maxrregcount", "fast_math", NULL};
    static const char *const declare_keys[] = {"atomics", "cooperative", "cache_hints", NULL};
    int before = f->count;
    if (!json_is_object(doc)) {
        faults_add(f, pointer, "a candidate must be an object with language, source and plan");
        return false;
    }
    json_only_keys(doc, pointer, keys, f);
    cleanup(str) char *at_language = xfmt("%s/language", pointer), *at_plan = xfmt("%s/plan", pointer);
    cleanup(str) char *at_lessons = xfmt("%s/lessons", pointer);
    struct candidate c = {.language = LANGUAGE_COUNT};
    const char *language = json_str(doc, "language", "");
    for (int i = 0; i < LANGUAGE_COUNT; i++)
        if (strcmp(language, languages[i]) == 0)
            c.language = (enum language)i;
    if (c.language == LANGUAGE_COUNT)
        faults_add(f, at_language, "one of cuda, ptx, triton is needed");
    text_at(doc, pointer, "source", CANDIDATE_MAX_SOURCE_BYTES, true, f);
    text_at(doc, pointer, "notes", CANDIDATE_MAX_NOTES_BYTES, false, f);
    text_at(doc, pointer, "parent", 64, false, f);
    check_plan(json_object_get(doc, "plan"), at_plan, f);
    flags_at(doc, pointer, "options", option_keys, "maxrregcount", f);
    flags_at(doc, pointer, "declares", declare_keys, NULL, f);
    const json_t *lessons = json_object_get(doc, "lessons");
    size_t i;
    json_t *item;
    if (lessons && (!json_is_array(lessons) || json_array_size(lessons) > 16))
        faults_add(f, at_lessons, "a list of at most 16 lesson ids is needed");
    json_array_foreach(lessons, i, item)
        if (!json_is_string(item) || json_string_length(item) > 64)
            faults_add(f, at_lessons, "lesson %zu is not an id", i);
    if (c.language == LANGUAGE_TRITON)
        candidate_check_triton(doc, pointer, f);
    take_defines(&c, doc, pointer, f);
    if (f->count != before)
        return false;
    const json_t *options = json_object_get(doc, "options"), *declares = json_object_get(doc, "declares");
    c.maxrregcount = (int)json_int(options, "maxrregcount", 0);
    c.fast_math = json_bool(options, "fast_math", false);
    c.atomics = json_bool(declares, "atomics", false);
    c.cooperative = json_bool(declares, "cooperative", false);
    c.cache_hints = json_bool(declares, "cache_hints", false);
    c.source = xstrdup(json_str(doc, "source", ""));
    c.source_bytes = strlen(c.source);
    c.doc = json_incref((json_t *)doc);
    *ret = c;
    return true;
}

void candidate_done(struct candidate *c)
{
    free(c->source);
    json_decref(c->doc);
    *c = (struct candidate){0};
}

bool candidate_load(const char *dir, const char *stem, json_t **ret, struct err *err)
{
    cleanup(str) char *json_path = xfmt("%s/%s.json", dir, stem), *source_path = xfmt("%s/%s.cu", dir, stem);
    cleanup(json) json_t *doc = NULL;
    cleanup(buf) struct buf source = {0};
    if (!json_parse_file(json_path, 1 << 20, &doc, err) || !file_read(source_path, CANDIDATE_MAX_SOURCE_BYTES, &source, err))
        return false;
    if (!json_is_object(doc) || !utf8_valid(source.data, source.size))
        return err_set(err, ERR_INVALID, "%s: an object, and UTF-8 text in %s, are needed", json_path, source_path);
    json_put_str(doc, "source", source.data);
    *ret = steal(&doc);
    return true;
}

struct hash_hex candidate_digest(const json_t *doc)
{
    cleanup(json) json_t *copy = json_copy((json_t *)doc);
    json_object_del(copy, "parent");
    json_object_del(copy, "lessons");
    json_object_del(copy, "notes");
    /* sorted: equal documents with keys in another order are the same work */
    cleanup(str) char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
    BUG_ON(!text);
    return hash_of(text, strlen(text));
}

/* ---- the -D options ---- */

static bool upper_identifier(const char *s)
{
    return isupper((unsigned char)*s) && s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == 0;
}

static bool identifier_or_integer(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t n = strlen(s);
    if (*s == '-' || isdigit((unsigned char)*s))
        return n > (*s == '-') && strspn(s + (*s == '-'), "0123456789") == n - (*s == '-');
    return n && strspn(s, letters) == n;
}

bool candidate_options(const struct candidate *c, const struct shape *s, struct buf *to, char *why, size_t why_size)
{
    for (int i = 0; i < c->define_count; i++) {
        const char *name = c->defines[i].name, *value = c->defines[i].value;
        const char *wrong = !upper_identifier(name)                                                ? "a name must be an upper-case identifier"
                            : strncmp(name, "AXIS_", 5) == 0 || strncmp(name, "DTYPE_", 6) == 0 ? "AXIS_ and DTYPE_ are predefined"
                            : !identifier_or_integer(value)                                        ? "a value must be an integer or an identifier"
                                                                                                   : NULL;
        if (wrong) {
            snprintf(why, why_size, "define \"%.40s\": %s", name, wrong);
            return false;
        }
        buf_fmt(to, "-D%s=%s\n", name, value);
    }
    if (c->maxrregcount && (c->maxrregcount < 16 || c->maxrregcount > 255)) {
        snprintf(why, why_size, "options.maxrregcount is %d, it must be 16 to 255", c->maxrregcount);
        return false;
    }
    /* One cubin serves all values of an axis that is not keyed: its value comes as an argument, if at all. */
    for (int i = 0; i < s->op->axis_count; i++)
        if (s->op->axes[i].keyed)
            buf_fmt(to, "-DAXIS_%s=%lld\n", s->op->axes[i].name, (long long)s->axes[i]);
    for (int i = 0; i < s->op->letter_count; i++)
        buf_fmt(to, "-DDTYPE_%s=%s\n", s->op->letters[i].name, dtype_cuda(s->dtypes[i]));
    if (c->maxrregcount)
        buf_fmt(to, "--maxrregcount=%d\n", c->maxrregcount);
    if (c->fast_math)
        buf_str(to, "--use_fast_math\n");
    return true;
}
