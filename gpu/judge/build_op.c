/*
 * An operator that comes as text: its files are laid into a folder of our own, its reference is compiled in a sandbox, and then it
 * is checked like any other. The folder is gone afterwards; what is kept of it is the library.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>
#include <sys/stat.h>

static const char *const files[] = {"op.json", "reference.c", "reference.so", "baseline.cu", "baseline.json"};
struct workplace { char dir[48]; };

static void workplace_done(struct workplace *w)
{
    for (size_t i = 0; *w->dir && i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", w->dir, files[i]);
        unlink(path);
    }
    if (*w->dir)
        rmdir(w->dir);
}
DEFINE_CLEANUP(workplace, struct workplace, workplace_done(it))

static bool workplace_make(struct workplace *w, struct err *err)
{
    char dir[] = "/tmp/proteus-operator-XXXXXX";
    if (!mkdtemp(dir))
        return err_errno(err, ERR_INTERNAL, "a temporary folder");
    snprintf(w->dir, sizeof w->dir, "%s", dir);
    return chmod(dir, 0755) == 0 || err_errno(err, ERR_INTERNAL, "%s", dir);
}

static bool put(const struct workplace *w, const char *name, const char *data, size_t size, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/%s", w->dir, name);
    return file_write(path, data, size, 0644, err);
}

/* A fault of the operator: where in the request, and what. Paths of ours are no part of it. */
static bool refuse(struct op_answer *a, const struct workplace *w, const char *where, const char *text)
{
    size_t n = strlen(w->dir);
    snprintf(a->where, sizeof a->where, "%s", where);
    for (const char *at; *w->dir && (at = strstr(text, w->dir)) != NULL; text = at + n + (at[n] == '/'))
        buf_add(&a->why, text, (size_t)(at - text));
    buf_str(&a->why, text);
    return true;
}

static const char *find_compiler(void)
{
    static const char *const tries[] = {"/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc", "/usr/local/bin/gcc"};
    static char found[PATH_MAX];
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        if (realpath(tries[i], found) && strncmp(found, "/usr/", 5) == 0 && access(found, X_OK) == 0)
            return found;
    return NULL;
}

/* False: ours. a->where is set where the source is at fault. */
static bool compile_reference(struct child_watch *w, const struct workplace *work, const char *source, struct op_answer *a, struct err *err)
{
    static const char *const paths[] = {"/usr", NULL};
    const struct sandbox_paths visible = {.read_only = paths};
    const char *cc = find_compiler();
    cleanup(child) struct child c = {0};
    cleanup(json) json_t *job = judge_job("cc"), *answer = NULL;
    struct verdict none = {0};
    if (!cc)
        return err_set(err, ERR_UNAVAILABLE, "there is no C compiler on the judge's host to compile the reference: install gcc or clang");
    json_put_str(job, "cc", cc);
    json_put_str(job, "source", source);
    if (!child_start(w, SANDBOX_CC, "operator", &visible, NULL, &c, err))
        return false;
    if (!child_ask(w, &c, job, err) || !child_take(w, &c, clock_mono_ns() + LIMIT_CC_WALL_NS, &answer, err)
        || (json_bool(answer, "ok", false)
            && !child_take_blob_buf(w, &c, clock_mono_ns() + LIMIT_CC_WALL_NS, "reference.so", (size_t)LIMIT_REFERENCE_SO_BYTES, &a->library, err))) {
        bool began = c.greeted && err->code != ERR_CONFLICT && err->code != ERR_UNAVAILABLE;
        (void)child_end_cause(&c, "compiling the reference", &none, err);
        return began && refuse(a, work, "/reference", err->text);
    }
    if (!json_bool(answer, "ok", false))
        return refuse(a, work, "/reference", json_str(answer, "log", "it does not compile"));
    return put(work, "reference.so", a->library.data, a->library.size, err);
}

static bool lay_files(const struct workplace *w, const json_t *request, struct err *err)
{
    const json_t *given = json_object_get(request, "baseline");
    cleanup(json) json_t *baseline = json_copy((json_t *)(uintptr_t)given), *op = json_incref(json_object_get(request, "op"));
    const char *source = json_str(given, "source", ""), *reference = json_str(request, "reference", "");
    cleanup(buf) struct buf op_text = {0}, baseline_text = {0};
    json_object_del(baseline, "source");
    json_write_pretty(&op_text, op);
    json_write_pretty(&baseline_text, baseline);
    return put(w, "op.json", op_text.data, op_text.size, err) && put(w, "reference.c", reference, strlen(reference), err)
           && put(w, "baseline.cu", source, strlen(source), err) && put(w, "baseline.json", baseline_text.data, baseline_text.size, err);
}

void op_answer_done(struct op_answer *a)
{
    json_decref(a->report);
    buf_done(&a->library);
    buf_done(&a->why);
    *a = (struct op_answer){0};
}

static bool check(const struct judge_config *config, const struct workplace *work, const json_t *request, struct op_answer *a, struct err *err)
{
    struct child_watch w = {.level_needed = config->sandbox_minimum && *config->sandbox_minimum ? config->sandbox_minimum : "none",
                            .idle_since_ns = clock_mono_ns()};
    cleanup(op) struct op *op = NULL;
    const char *reference = json_str(request, "reference", NULL);
    struct err why = {0};
    if (!json_is_object(json_object_get(request, "op")))
        return refuse(a, work, "/op", "the operator's op.json is needed, an object");
    if (!reference || strlen(reference) > (size_t)LIMIT_REFERENCE_C_BYTES)
        return refuse(a, work, "/reference", "the operator's reference.c is needed, a text of at most 1 MiB");
    if (!json_is_object(json_object_get(request, "baseline")) || !json_str(json_object_get(request, "baseline"), "source", NULL))
        return refuse(a, work, "/baseline", "the operator's baseline is needed, a candidate with its source");
    if (!lay_files(work, request, err))
        return false;
    if (!op_load(work->dir, &op, &why) || !inputs_check(op, &why) || !compare_check(op, &why))
        return refuse(a, work, "/op", why.text);
    if (!compile_reference(&w, work, reference, a, err))
        return false;
    if (*a->where)
        return true;
    const struct op_set one = {1, &op};
    struct judge_config mine = *config;
    const char *where = "/op";
    mine.ops = &one;
    a->digest = op->digest;
    if (!judge_check_op(&mine, op, &a->report, &where, &why))
        return why.code == ERR_UNPROCESSABLE || why.code == ERR_INVALID ? refuse(a, work, where, why.text) : err_set(err, why.code, "%s", why.text);
    return true;
}

bool judge_build_op(const struct judge_config *config, const json_t *request, struct op_answer *ret, struct err *err)
{
    cleanup(workplace) struct workplace work = {.dir = ""};
    cleanup(op_answer) struct op_answer a = {.where = ""};
    if (!workplace_make(&work, err) || !check(config, &work, request, &a, err))
        return false;
    *ret = a;
    a = (struct op_answer){.where = ""};
    return true;
}
