/*
 * Operators as the judge takes them: one that is sound passes; one whose tolerance lets a canary through judges nothing, and one with
 * a wrong baseline is refused, with what is wrong. This program is its own child (argv[1] = "child").
 * Usage: test_check_op OPS_DIR
 */
#include "gpu/judge/judge.h"
#include "core/clock.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/op_copy.h"

static struct op_set ops;

static void same(json_t *doc) { json_put_str(doc, "description", "the same"); }
static void loose(json_t *doc) { json_put(doc, "tolerance", json_pack("{s:{s:i,s:i}}", "y", "max", 1, "rms", 1)); }
static void no_bytes(json_t *doc) { json_put_str(doc, "bytes", "0"); }
static void few_bytes(json_t *doc) { json_put_str(doc, "bytes", "R*N"); }
static void two_dtypes(json_t *doc)
{
    json_put(json_object_get(doc, "dtypes"), "io", json_pack("[s,s]", "f16", "f32"));
}

static bool check_it(const struct copy *c, json_t **ret, struct err *err)
{
    struct op *op = c->op;
    const struct op_set one = {1, &op};
    const struct judge_config config = {.ops = &one, .device = "sim", .threads = 2};
    *ret = NULL;
    *err = (struct err){0};
    return judge_check_op(&config, op, ret, NULL, err);
}

static void test_sound(void)
{
    cleanup(copy) struct copy c = {0};
    cleanup(json) json_t *report = NULL;
    struct err err;
    copy_make(&c, &ops, "rmsnorm", two_dtypes);
    check(check_it(&c, &report, &err));
    check_str(err.text, "");
    check_str(json_str(report, "op", ""), "rmsnorm");
    check_str(json_str(report, "digest", ""), c.op->digest.text);
    check(json_int(report, "caught", 0) >= 20);
    const json_t *shapes = json_object_get(report, "shapes");
    check_int((int)json_array_size(shapes), 2);
    for (size_t i = 0; i < json_array_size(shapes); i++) {
        const json_t *list = json_object_get(json_array_get(shapes, i), "canaries");
        bool scalar = false;
        for (size_t k = 0; k < json_array_size(list); k++)
            scalar |= !strcmp(json_str(json_array_get(list, k), "canary", ""), "dropped:eps");
        check(scalar);
    }
}

static const struct {
    void (*change)(json_t *doc);
    const char *replace, *with;        /* in baseline.cu */
    const char *says[2];
} refused[] = {
    {no_bytes, NULL, NULL, {"operator rmsnorm: its least bytes are 0 where its outputs alone have ", ""}},
    {few_bytes, NULL, NULL, {"operator rmsnorm: its least bytes are ", "outputs alone"}},
    {loose, NULL, NULL, {"operator rmsnorm: canary ", "its tolerance is too loose"}},
    {same, "sum / N + eps", "sum / N", {"operator rmsnorm: its baseline is wrong in regime tiny (bf16): y: ", ""}},
    {same, "rsqrtf(", "no_such_function(", {"the baseline of rmsnorm: compile_error", ""}},
    {same, "to[i] = r;", "to[i + 1] = r;", {"the baseline of rmsnorm: out_of_bounds", ""}},
};

static void replace_in(struct copy *c, const char *what, const char *with)
{
    struct err err = {0};
    cleanup(str) char *path = xfmt("%s/baseline.cu", c->root);
    cleanup(buf) struct buf text = {0}, changed = {0};
    check(file_read(path, 1 << 20, &text, &err));
    const char *at = strstr(buf_cstr(&text), what);
    check(at != NULL);
    if (!at)
        return;
    buf_fmt(&changed, "%.*s%s%s", (int)(at - text.data), text.data, with, at + strlen(what));
    copy_put(c, "baseline.cu", buf_cstr(&changed));
}

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cleanup(copy) struct copy c = {0};
        cleanup(json) json_t *report = NULL;
        struct err err;
        copy_make(&c, &ops, "rmsnorm", refused[i].change);
        if (refused[i].replace)
            replace_in(&c, refused[i].replace, refused[i].with);
        check(!check_it(&c, &report, &err));
        check_int(err.code, ERR_UNPROCESSABLE);
        check(strstr(err.text, refused[i].says[0]) && strstr(err.text, refused[i].says[1]));
        if (!strstr(err.text, refused[i].says[0]))
            fprintf(stderr, "  case %zu: \"%s\"\n", i, err.text);
    }
}

/* No judgement by an operator that a canary passes, of any candidate; with a sound one the certificate tells of its canaries. */
static void test_judgements(void)
{
    for (int bad = 0; bad < 2; bad++) {
        cleanup(copy) struct copy c = {0};
        cleanup(judge_result) struct judge_result r = {.gpu_ns = 0};
        struct err err = {0};
        copy_make(&c, &ops, "rmsnorm", bad ? loose : same);
        const struct op_set one = {1, &c.op};
        const struct judge_config config = {.ops = &one, .device = "sim", .threads = 2};
        cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:s},s:s,s:n}", "shape", "op", "rmsnorm", "axes", "R", 2, "N", 64, "target", "sm_90a",
                                               "mode", "triage", "baseline");
        cleanup(json) json_t *baseline = NULL;
        check(candidate_load(c.op->dir, "baseline", &baseline, &err));
        json_put(task, "candidate", steal(&baseline));
        bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err);
        check(ok == !bad);
        if (bad) {
            check_int(err.code, ERR_UNPROCESSABLE);
            check(strstr(err.text, "operator rmsnorm: canary ") && strstr(err.text, "its tolerance is too loose"));
        } else {
            check_str(err.text, "");
            check_str(verdict_name(r.verdict.code), "ok");
            cleanup(str) char *text = json_text(r.certificate);
            check(strstr(text, "\"canaries\":{\"caught\":16,\"skipped\":0"));
        }
    }
}

/* ---- operators that come as text ---- */

static json_t *request_of(const char *name)
{
    const struct op *op = op_set_find(&ops, name);
    cleanup(str) char *path = xfmt("%s/reference.c", op->dir);
    cleanup(buf) struct buf text = {0};
    json_t *doc = json_object(), *baseline = NULL;
    struct err err = {0};
    check(candidate_load(op->dir, "baseline", &baseline, &err) && file_read(path, 1 << 20, &text, &err));
    json_put(doc, "op", json_deep_copy(op->doc));
    two_dtypes(json_object_get(doc, "op"));
    json_put_str(doc, "reference", buf_cstr(&text));
    json_put(doc, "baseline", baseline);
    return doc;
}

#define REFERENCE(body) "#include \"reference.h\"\nvoid proteus_reference(const struct reference_call *call) { " body " }\n"

static const struct { const char *key, *text, *where, *says; } texts[] = {
    {NULL, NULL, "", ""},
    {"op", NULL, "/op", "is needed"},
    {"reference", NULL, "/reference", "is needed"},
    {"baseline", NULL, "/baseline", "is needed"},
    {"reference", "int proteus_reference", "/reference", "reference.c:1:"},
    {"reference", "#include <stdio.h>\n#include \"no_such_header.h\"\n", "/reference", "no_such_header.h: No such file"},
    {"reference", "#include \"/etc/passwd\"\n", "/reference", "/etc/passwd: No such file"},
    {"reference", "#define A A A\n#include \"reference.c\"\n", "/reference", "nested"},
    {"reference", REFERENCE("__asm__(\"no_such_instruction\"); (void)call;"), "/reference", "no_such_instruction"},
    {"reference", "int x;\n", "/reference", "has no function proteus_reference"},
    {"reference", REFERENCE("abort();"), "/reference", "signal 6"},
    {"reference", REFERENCE("*(volatile int *)0 = (int)call->axis_count;"), "/reference", "ended without an answer"},
    {"reference", REFERENCE("reference_axis(call, \"M\");"), "/reference", "signal 6"},
    {"reference", REFERENCE("(void)call;"), "/reference", "unwritten"},
    {"reference", "#include <unistd.h>\n#include <fcntl.h>\n" REFERENCE("if (open(\"/etc/passwd\", O_RDONLY) >= 0 || fork() >= 0) _exit(77); (void)call;"),
     "/reference", "unwritten"},
};

static void test_texts(void)
{
    const struct op_set none = {0};
    const struct judge_config config = {.ops = &none, .device = "sim", .threads = 2};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cleanup(json) json_t *request = request_of("rmsnorm");
        cleanup(op_answer) struct op_answer a = {.where = ""};
        struct err err = {0};
        if (texts[i].key && texts[i].text)
            json_put_str(request, texts[i].key, texts[i].text);
        else if (texts[i].key)
            json_object_del(request, texts[i].key);
        check(judge_build_op(&config, request, &a, &err));
        check_str(err.text, "");
        check_str(a.where, texts[i].where);
        check(strstr(buf_cstr(&a.why), texts[i].says) && !strstr(buf_cstr(&a.why), "/tmp"));
        if (strcmp(a.where, texts[i].where) || !strstr(buf_cstr(&a.why), texts[i].says))
            fprintf(stderr, "  text %zu: %s: %s\n", i, a.where, buf_cstr(&a.why));
        check(!!*a.where == !a.report || !texts[i].key);
        if (!*texts[i].where) {
            check(a.library.size > 1000 && !memcmp(a.library.data, "\177ELF", 4));
            check_str(json_str(a.report, "digest", ""), a.digest.text);
        }
    }
}

/* An axis that no reader of JSON could write down is refused, whatever its type; a reference without an end costs seconds. */
static void test_limits(void)
{
    const struct op_set none = {0};
    const struct judge_config config = {.ops = &none, .device = "sim", .threads = 2, .canaries_wall_ns = 1000000000};
    static const struct { const char *key, *number; } axes[] = {
        {"max", "9007199254740993"}, {"max", "9223372036854775807"}, {"max", "1e17"}, {"max", "\"8\""}, {"min", "9007199254740993"}, {"min", "-1"}};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        cleanup(json) json_t *request = request_of("rmsnorm"), *number = json_loads(axes[i].number, JSON_DECODE_ANY, NULL);
        cleanup(op_answer) struct op_answer a = {.where = ""};
        struct err err = {0};
        check(number != NULL);
        json_put(json_object_get(json_object_get(json_object_get(request, "op"), "axes"), "R"), axes[i].key, json_incref(number));
        check(judge_build_op(&config, request, &a, &err));
        check_str(a.where, "/op");
        check(strstr(buf_cstr(&a.why), "axes.R") && strstr(buf_cstr(&a.why), "2^53 (9007199254740992)"));
        if (!strstr(buf_cstr(&a.why), "2^53"))
            fprintf(stderr, "  axis %zu: %s\n", i, buf_cstr(&a.why));
    }
    cleanup(json) json_t *request = request_of("rmsnorm");
    cleanup(op_answer) struct op_answer a = {.where = ""};
    struct err err = {0};
    const int64_t start_ns = clock_mono_ns();
    json_put_str(request, "reference", REFERENCE("for (volatile int i = 0; call; i++) ;"));
    check(judge_build_op(&config, request, &a, &err));
    check_str(a.where, "/reference");
    check_str(buf_cstr(&a.why), "operator rmsnorm: its reference did not end within 1 s, at a small shape, all regimes together: is there a loop without an end?");
    check(clock_mono_ns() - start_ns < (int64_t)30 * 1000000000);
}

static int folders_left(void)
{
    int count = 0;
    cleanup(dir) DIR *d = opendir("/tmp");
    for (struct dirent *e; d && (e = readdir(d));)
        count += !strncmp(e->d_name, "proteus-cc-", 11);
    return count;
}

/* Where the host allows no namespaces the compiler works all the same, in the host's /tmp, and leaves nothing there. */
static void test_without_namespaces(void)
{
    const struct op_set none = {0};
    const struct judge_config config = {.ops = &none, .device = "sim", .threads = 2};
    cleanup(json) json_t *request = request_of("rmsnorm");
    cleanup(op_answer) struct op_answer a = {.where = ""};
    struct err err = {0};
    int before = folders_left();
    sandbox_without(SANDBOX_NAMESPACES);
    check(judge_build_op(&config, request, &a, &err));
    sandbox_without(0);
    check_str(err.text, "");
    check_str(a.where, "");
    check(a.library.size > 1000);
    check_int(folders_left(), before);
}

/* What the text of op.json itself has wrong. */
static void test_descriptions(void)
{
    static const struct { void (*change)(json_t *doc); const char *where, *says; } cases[] = {
        {loose, "/op", "canary "},
    };
    const struct op_set none = {0};
    const struct judge_config config = {.ops = &none, .device = "sim", .threads = 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *request = request_of("rmsnorm");
        cleanup(op_answer) struct op_answer a = {.where = ""};
        struct err err = {0};
        cases[i].change(json_object_get(request, "op"));
        check(judge_build_op(&config, request, &a, &err));
        check_str(a.where, cases[i].where);
        check(strstr(buf_cstr(&a.why), cases[i].says));
    }
    cleanup(json) json_t *request = request_of("rmsnorm");
    cleanup(op_answer) struct op_answer a = {.where = ""}, b = {.where = ""};
    struct err err = {0};
    json_put_str(json_object_get(request, "op"), "bytes", "R*Q");
    check(judge_build_op(&config, request, &a, &err));
    check_str(a.where, "/op");
    check(strstr(buf_cstr(&a.why), "op.json: bytes: ") == buf_cstr(&a.why));
    json_put_str(json_object_get(request, "op"), "bytes", "8*R*N");
    json_put_str(json_object_get(request, "baseline"), "source", "extern \"C\" __global__ void rms_norm() { nonsense }");
    check(judge_build_op(&config, request, &b, &err));
    check_str(b.where, "/baseline");
    check(strstr(buf_cstr(&b.why), "compile_error"));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    hash_init();
    if (argc != 2 || !op_set_load(argv[1], &ops, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    test_sound();
    test_refused();
    test_judgements();
    test_texts();
    test_limits();
    test_descriptions();
    test_without_namespaces();
    op_set_done(&ops);
    return test_done();
}
