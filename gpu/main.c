/*
 * proteus-gpu: judges one candidate and exits; also lists devices and checks golden files. Flags and commands are tables.
 *
 * On `judge` stdout carries frames and nothing else: descriptor 1 is moved away and stderr put in its place, so that a library
 * that prints cannot break them. The end of stdin means that nobody waits for the answer any more.
 */
#include "core/certificate.h"
#include "core/clock.h"
#include "gpu/emulate/emulate.h"
#include "gpu/judge/golden.h"
#include "gpu/judge/judge.h"
#include "gpu/selftest_result.h"
#include "gpu/wire.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define TASK_WAIT_NS ((int64_t)60 * 1000000000)
#define FILE_LIMIT_BYTES ((size_t)4 << 20)

struct options {
    const char *ops_dir, *cuda_home, *python, *device, *sandbox_minimum, *need, *threads, *card_lock;
    const char *shape, *candidate, *baseline, *mode, *target, *op_digest;
    const char *corpus, *only, *shard, *part, *json, *resume, *jobs, *merge;
    int argument_count;
    char **arguments;               /* what is left: files */
};

#define FLAG(field) offsetof(struct options, field)
static const struct { const char *name, *value; size_t at; const char *text; } flags[] = {
    {"--ops-dir", "DIR", FLAG(ops_dir), "the operators' folders (default: $PROTEUS_OPS_DIR, else beside the program)"},
    {"--cuda-home", "DIR", FLAG(cuda_home), "the CUDA toolkit (default: $CUDA_HOME, else /usr/local/cuda)"},
    {"--python", "PROGRAM", FLAG(python), "the python whose Triton compiles candidates in Triton (default: $PROTEUS_PYTHON, else python3)"},
    {"--device", "NAME", FLAG(device), "auto, sim, cuda:N, or several cards, comma between: a retest goes to another than the first where one is free (default: auto; selftest: sim)"},
    {"--sandbox-minimum", "LEVEL", FLAG(sandbox_minimum),
     "none, limits, filtered or isolated: refuse to run below it (default: none)"},
    {"--need", "LIST", FLAG(need), "what a verdict on a card must rest on: audit, watch, private-memory, emulation, or none (default: " NEEDS_DEFAULT ")"},
    {"--threads", "N", FLAG(threads), "host threads of the emulator (default: one a CPU)"},
    {"--card-lock", "FILE", FLAG(card_lock), "judgements that share cards share this file, \".cuda:N\" behind it for each, and take turns (default: the cards are ours)"},
    {"--shape", "JSON|@FILE", FLAG(shape), "judge-file: {\"op\",\"axes\",\"dtypes\"?,\"target\"?}"},
    {"--candidate", "FILE", FLAG(candidate),
     "judge-file: a candidate as JSON, or a folder with baseline.json and baseline.cu"},
    {"--baseline", "FILE|none", FLAG(baseline), "judge-file: what to compare with (default: the operator's own)"},
    {"--op-digest", "HEX", FLAG(op_digest), "judge-file: refuse where the operator is another one than this"},
    {"--mode", "MODE", FLAG(mode), "judge-file: triage, full or retest (default: full)"},
    {"--target", "SM", FLAG(target), "golden, judge-file: for what cards to compile (default: sm_90a)"},
    {"--corpus", "DIR", FLAG(corpus), "selftest: folder with attacks/ and honest/ (default: beside the operators)"},
    {"--only", "NAME,...", FLAG(only), "selftest: these cases"},
    {"--part", "PART", FLAG(part), "selftest: all, or fast: a case for each kind of defence (default: all)"},
    {"--shard", "K/N", FLAG(shard), "selftest: every N-th case, from the K-th"},
    {"--jobs", "N", FLAG(jobs), "selftest: judges at the same time (default: one a CPU; beside a card, which one at a time has, three of four)"},
    {"--merge", "FILE", FLAG(merge),
     "selftest: runs nothing; writes the table of the results in the files given (each by --resume) to FILE, - for stdout"},
    {"--resume", "FILE", FLAG(resume), "selftest: keep results in FILE; cases whose results are there are not run again"},
    {"--json", "FILE", FLAG(json), "selftest: write results as JSON; judge-file: verdict, figures and certificate"},
};

static int run_devices(const struct options *o, const struct judge_config *c);
static int run_serve_devices(const struct options *o, const struct judge_config *c);
static int run_serve_op(const struct options *o, const struct judge_config *c);
static int run_judge(const struct options *o, const struct judge_config *c);
/* All that a judgement leaves, for programs: {"verdict","figures","certificate"|null,"digests":{blob: digest}}. */
static bool write_result(const char *path, const struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *doc = json_object(), *digests = json_object();
    cleanup(buf) struct buf text = {0};
    for (int i = 0; i < r->blob_count; i++)
        json_put_str(digests, r->blobs[i].name, hash_of(r->blobs[i].bytes.data, r->blobs[i].bytes.size).text);
    json_put(doc, "verdict", verdict_encode(&r->verdict));
    json_put(doc, "figures", json_incref(r->figures));
    json_put(doc, "certificate", r->certificate ? json_incref(r->certificate) : json_null());
    json_put(doc, "digests", json_incref(digests));
    json_write_pretty(&text, doc);
    return file_write(path, text.data, text.size, 0644, err);
}

static int run_judge_file(const struct options *o, const struct judge_config *c);
static int run_serve_estimates(const struct options *o, const struct judge_config *c);
static int run_serve_profile(const struct options *o, const struct judge_config *c);
static int run_profile_file(const struct options *o, const struct judge_config *c);
static int run_golden(const struct options *o, const struct judge_config *c);
static int run_canaries(const struct options *o, const struct judge_config *c);
static int run_selftest(const struct options *o, const struct judge_config *c);

static const struct {
    const char *name, *arguments, *text;
    int (*run)(const struct options *, const struct judge_config *);
    bool needs_ops;
} commands[] = {
    {"devices", "", "prints the devices as a JSON array", run_devices, false},
    {"judge", "", "judges one task from stdin, in frames (gpu/wire.h)", run_judge, true},
    {"judge-file", "--shape .. --candidate ..", "the same for people: prints phases, verdict and figures",
     run_judge_file, true},
    {"profile-file", "--shape .. --candidate ..", "prints what the card's counters say of a candidate, as JSON", run_profile_file, true},
    {"golden", "FILE...", "checks operators' references and baselines against golden files", run_golden, true},
    {"canaries", "[OP|DIR]...", "checks that operators tell wrong results from right ones (default: all of them)", run_canaries, true},
    {"selftest", "", "runs the red-team corpus: attacks must be caught, honest kernels accepted", run_selftest, true},
    {"serve-devices", "", "devices, sandbox and toolkit as one frame", run_serve_devices, false},
    {"serve-estimates", "", "estimates of several candidates from stdin, in frames", run_serve_estimates, true},
    {"serve-profile", "", "a profile of one candidate from stdin, in frames", run_serve_profile, true},
    {"serve-op", "", "builds and checks an operator from stdin, in frames", run_serve_op, false},
};

static void print_help(FILE *to)
{
    fprintf(to, "usage: proteus-gpu COMMAND [FLAGS]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-15s %-26s %s\n", commands[i].name, commands[i].arguments, commands[i].text);
    fprintf(to, "  %-15s %-26s %s\n", "emulate", "FILE ..", "checks a kernel on the CPU, without a GPU; see proteus-gpu emulate --help");
    fprintf(to, "\n");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        fprintf(to, "  %-18s %-10s  %s\n", flags[i].name, flags[i].value, flags[i].text);
    fprintf(to, "  --version, --help\n");
}

static int fail(const char *what, const struct err *err)
{
    fprintf(stderr, "proteus-gpu: %s%s%s\n", what, *what ? ": " : "", err->text);
    return 1;
}

static bool parse_flags(int argc, char **argv, struct options *o)
{
    for (int i = 2; i < argc; i++) {
        size_t f = 0;
        if (strncmp(argv[i], "--", 2) != 0) {
            o->arguments[o->argument_count++] = argv[i];
            continue;
        }
        while (f < sizeof flags / sizeof *flags && strcmp(flags[f].name, argv[i]) != 0)
            f++;
        if (f == sizeof flags / sizeof *flags || i + 1 == argc) {
            fprintf(stderr, "proteus-gpu: %s %s; see proteus-gpu --help\n", argv[i],
                    i + 1 == argc && f < sizeof flags / sizeof *flags ? "needs a value" : "is no flag");
            return false;
        }
        memcpy((char *)o + flags[f].at, &argv[++i], sizeof(char *));
    }
    return true;
}

/* ---- devices ---- */

static int run_devices(const struct options *o, const struct judge_config *c)
{
    (void)o, (void)c;
    cleanup(json) json_t *list = NULL;
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    if (!device_list(&list, &err))
        return fail("devices", &err);
    json_write_pretty(&text, list);
    fputs(buf_cstr(&text), stdout);
    return 0;
}

/* Frames go to what was stdout; whatever else is printed goes to stderr. */
static int take_stdout(void)
{
    int fd = dup(1);
    dup2(2, 1);
    return fd;
}

static int serve_error(int fd, const struct err *err)
{
    cleanup(json) json_t *doc = wire_error_encode(err);
    struct err ignored = {0};
    (void)!wire_send_json(fd, WIRE_ERROR, doc, &ignored);
    return 1;
}

static int run_serve_devices(const struct options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    if (!judge_devices(c, &doc, &err))
        return serve_error(out, &err);
    return wire_send_json(out, WIRE_DEVICES, doc, &err) ? 0 : 1;
}

/* An operator to be registered: WIRE_JUDGE with its text in, WIRE_RESULT out, before it the library where it passed. */
static int run_serve_op(const struct options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(op_answer) struct op_answer a = {.where = ""};
    cleanup(json) json_t *doc = json_object();
    struct err err = {0};
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err) ||
        !judge_build_op(c, task.json, &a, &err))
        return serve_error(out, &err);
    if (*a.where) {
        json_put_str(doc, "where", a.where);
        json_put_str(doc, "why", buf_cstr(&a.why));
    } else {
        if (!wire_send_blob(out, "reference.so", a.library.data, a.library.size, &err))
            return fail("serve-op", &err);
        json_put_str(doc, "digest", a.digest.text);
        json_put(doc, "report", json_incref(a.report));
    }
    return wire_send_json(out, WIRE_RESULT, doc, &err) ? 0 : 1;
}

/* ---- judge ---- */

struct session { int out; bool failed; };

static void send_progress(void *ctx, const json_t *phase)
{
    struct session *s = ctx;
    struct err err = {0};
    s->failed = s->failed || !wire_send_json(s->out, WIRE_PHASE, phase, &err);
}

/* Nobody there any more, or something came on stdin, where only a cancel can come. */
static bool gone(void *ctx)
{
    struct session *s = ctx;
    struct pollfd p = {.fd = 0, .events = POLLIN};
    return s->failed || (poll(&p, 1, 0) > 0 && p.revents);
}

static bool answer(int out, const struct judge_result *r, struct err *err)
{
    for (int i = 0; i < r->blob_count; i++)
        if (!wire_send_blob(out, r->blobs[i].name, r->blobs[i].bytes.data, r->blobs[i].bytes.size, err))
            return false;
    cleanup(json) json_t *doc = json_object();
    json_put(doc, "verdict", verdict_encode(&r->verdict));
    json_put(doc, "figures", json_incref(r->figures));
    json_put(doc, "certificate", r->certificate ? json_incref(r->certificate) : json_null());
    json_put_int(doc, "gpu_ns", r->gpu_ns);
    return wire_send_json(out, WIRE_VERDICT, doc, err);
}

static int run_judge(const struct options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    struct session s = {.out = out};
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(judge_result) struct judge_result result = {.figures = NULL};
    cleanup(json) json_t *hello = json_pack("{s:s}", "version", PROTEUS_VERSION);
    if (!wire_send_json(out, WIRE_HELLO, hello, &err))
        return fail("judge", &err);
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err)
        || !judge_run(c, task.json, send_progress, gone, &s, &result, &err) || !answer(out, &result, &err))
        return serve_error(out, &err);
    return 0;
}

/* WIRE_JUDGE with a shape and candidates in, WIRE_RESULT with an estimate each out. */
static int run_serve_estimates(const struct options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    struct session s = {.out = out};
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(json) json_t *doc = NULL;
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err) ||
        !judge_estimates(c, task.json, gone, &s, &doc, &err))
        return serve_error(out, &err);
    return wire_send_json(out, WIRE_RESULT, doc, &err) ? 0 : 1;
}

/* The same with one candidate, and a profile. */
static int run_serve_profile(const struct options *o, const struct judge_config *c)
{
    (void)o;
    cleanup(fd) int out = take_stdout();
    struct session s = {.out = out};
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    cleanup(json) json_t *doc = NULL;
    if (!wire_receive(0, clock_mono_ns() + TASK_WAIT_NS, &task, &err) || !wire_expect(&task, WIRE_JUDGE, &err) ||
        !judge_profile(c, task.json, gone, &s, &doc, &err))
        return serve_error(out, &err);
    return wire_send_json(out, WIRE_RESULT, doc, &err) ? 0 : 1;
}

/* ---- judge-file ---- */

static void show_progress(void *ctx, const json_t *phase)
{
    (void)ctx;
    if (strcmp(json_str(phase, "state", ""), "end") == 0)
        printf("%-10s %8.1f ms  %s\n", json_str(phase, "phase", ""), json_num(phase, "ms", 0),
               json_str(phase, "verdict", ""));
    fflush(stdout);
}

static bool read_json(const char *where, json_t **ret, struct err *err)
{
    if (*where == '@')
        return json_parse_file(where + 1, FILE_LIMIT_BYTES, ret, err);
    return *where == '{' ? json_parse(where, strlen(where), ret, err)
                         : json_parse_file(where, FILE_LIMIT_BYTES, ret, err);
}

static bool read_candidate(const char *where, json_t **ret, struct err *err)
{
    cleanup(str) char *inside = xfmt("%s/baseline.json", where);
    return access(inside, R_OK) == 0 ? candidate_load(where, "baseline", ret, err) : read_json(where, ret, err);
}

static bool make_task(const struct options *o, const struct judge_config *c, json_t **ret, struct err *err)
{
    cleanup(json) json_t *shape = NULL, *candidate = NULL, *baseline = NULL, *task = json_object();
    if (!o->shape || !o->candidate)
        return err_set(err, ERR_INVALID, "--shape and --candidate are needed");
    if (!read_json(o->shape, &shape, err) || !read_candidate(o->candidate, &candidate, err))
        return false;
    if (!json_str(shape, "target", NULL))
        json_put_str(shape, "target", o->target ? o->target : "sm_90a");
    const struct op *op = op_set_find(c->ops, json_str(shape, "op", ""));
    if (!op)
        return err_set(err, ERR_NOT_FOUND, "there is no operator \"%s\"", json_str(shape, "op", ""));
    if (!o->baseline ? !candidate_load(op->dir, "baseline", &baseline, err)
                     : strcmp(o->baseline, "none") && !read_candidate(o->baseline, &baseline, err))
        return false;
    json_put(task, "shape", steal(&shape));
    json_put(task, "candidate", steal(&candidate));
    json_put(task, "baseline", baseline ? steal(&baseline) : json_null());
    json_put_str(task, "mode", o->mode ? o->mode : "full");
    if (o->op_digest)
        json_put_str(task, "op_digest", o->op_digest);
    *ret = steal(&task);
    return true;
}

/* Whether what would be signed holds all that the contract lists: a lack is ours, and is seen before anybody verifies. */
static bool certificate_whole(const struct judge_result *r)
{
    struct err err = {0};
    if (!r->certificate)
        return true;
    if (!certificate_check(r->certificate, &err)) {
        printf("certificate: %s\n", err.text);
        return false;
    }
    printf("certificate: all %d items are there\n", certificate_items(r->certificate));
    return true;
}

static int run_judge_file(const struct options *o, const struct judge_config *c)
{
    cleanup(json) json_t *task = NULL, *verdict = NULL;
    cleanup(buf) struct buf text = {0};
    cleanup(judge_result) struct judge_result result = {.figures = NULL};
    struct err err = {0};
    int64_t from = clock_mono_ns();
    if (!make_task(o, c, &task, &err) || !judge_run(c, task, show_progress, NULL, NULL, &result, &err))
        return fail("judge-file", &err);
    if (o->json && !write_result(o->json, &result, &err))
        return fail("judge-file", &err);
    verdict = verdict_encode(&result.verdict);
    json_object_del(result.figures, "samples");       /* hundreds of numbers; the certificate has them */
    json_write_pretty(&text, verdict);
    json_write_pretty(&text, result.figures);
    fputs(buf_cstr(&text), stdout);
    bool whole = certificate_whole(&result);
    printf("%s in %.0f ms\n", verdict_name(result.verdict.code),
           (double)(clock_mono_ns() - from) * 1e-6);
    return result.verdict.code == VERDICT_OK && whole ? 0 : 1;
}

static int run_profile_file(const struct options *o, const struct judge_config *c)
{
    cleanup(json) json_t *task = NULL, *doc = NULL;
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    if (!make_task(o, c, &task, &err) || !judge_profile(c, task, NULL, NULL, &doc, &err))
        return fail("profile-file", &err);
    json_write_pretty(&text, doc);
    fputs(buf_cstr(&text), stdout);
    return json_object_get(doc, "profile") ? 0 : 1;
}

/* ---- golden ---- */

static bool run_baseline(void *ctx, const struct shape *s, const struct tensor *tensors, const void *const *inputs,
                         void **outputs, struct err *err)
{
    (void)tensors;
    void *given[1][OP_MAX_TENSORS], *made[1][OP_MAX_TENSORS];
    for (int t = 0; t < s->op->tensor_count; t++) {
        given[0][t] = (void *)(uintptr_t)inputs[t];
        made[0][t] = outputs[t];
    }
    return judge_baseline_outputs(ctx, s, 1, given, made, err);
}

static int run_golden(const struct options *o, const struct judge_config *c)
{
    int matches = 0;
    struct judge_config mine = *c;
    for (int i = 0; i < o->argument_count; i++) {
        struct golden_result r = {.match = false};
        struct err err = {0};
        if (!golden_check_file(c->ops, o->arguments[i], o->target ? o->target : "sm_90a", run_baseline, &mine, &r, &err))
            printf("FAIL  %s: %s\n", o->arguments[i], err.text);
        else if (!r.match)
            printf("FAIL  %s/%s: %s\n", r.op, r.name, r.text);
        else
            printf("ok    %s/%s: reference%s\n", r.op, r.name, r.baseline_ran ? " and baseline" : "");
        matches += r.match;
        fflush(stdout);
    }
    printf("%d of %d match\n", matches, o->argument_count);
    return o->argument_count && matches == o->argument_count ? 0 : 1;
}

/* ---- canaries ---- */

/* A name of the set, or a folder with an op.json (which is then *ret_own). */
static bool find_op(const struct op_set *ops, const char *which, const struct op **ret, struct op **ret_own, struct err *err)
{
    *ret = op_set_find(ops, which);
    if (*ret)
        return true;
    if (!strchr(which, '/'))
        return err_set(err, ERR_NOT_FOUND, "there is no operator \"%s\" (a folder has a slash in its name)", which);
    if (!op_load(which, ret_own, err))
        return false;
    *ret = *ret_own;
    return true;
}

/* The baseline's shape is looked up in the set: a folder's own operator is all of it. */
static bool check_op(const struct judge_config *c, const char *which, struct err *err)
{
    cleanup(op) struct op *own = NULL;
    cleanup(json) json_t *report = NULL;
    const struct op *op;
    if (!find_op(c->ops, which, &op, &own, err))
        return false;
    const struct op_set one = {1, &own};
    struct judge_config mine = *c;
    if (own)
        mine.ops = &one;
    if (!judge_check_op(&mine, op, &report, NULL, err))
        return false;
    printf("ok    %s: %d canaries caught, %d skipped, over %d choices of dtypes\n", op->name, (int)json_int(report, "caught", 0),
           (int)json_int(report, "skipped", 0), (int)json_array_size(json_object_get(report, "shapes")));
    return true;
}

static int run_canaries(const struct options *o, const struct judge_config *c)
{
    int passed = 0, count = o->argument_count ? o->argument_count : c->ops->count;
    for (int i = 0; i < count; i++) {
        const char *which = o->argument_count ? o->arguments[i] : c->ops->list[i]->name;
        struct err err = {0};
        if (check_op(c, which, &err))
            passed++;
        else
            printf("FAIL  %s: %s\n", which, err.text);
        fflush(stdout);
    }
    printf("%d of %d pass\n", passed, count);
    return count && passed == count ? 0 : 1;
}

/* ---- selftest ---- */

static int run_selftest(const struct options *o, const struct judge_config *c)
{
    const struct selftest_options s = {.ops = c->ops, .ops_dir = o->ops_dir, .cuda_home = o->cuda_home, .sandbox_minimum = o->sandbox_minimum, .need = o->need,
                                       .device = o->device && *o->device ? o->device : "sim", .corpus = o->corpus, .only = o->only,
                                       .shard = o->shard, .part = o->part, .json = o->json, .resume = o->resume, .jobs = o->jobs,
                                       .threads = o->threads, .card_lock = o->card_lock};
    if (!o->merge)
        return selftest_run(&s);
    struct selftest_totals t = {0};
    struct err err = {0};
    if (!selftest_merge(&s, o->merge, o->argument_count, o->arguments, &t, &err))
        return fail("selftest", &err);
    printf("%d of %d attacks caught, %d of %d honest kernels accepted\n", t.caught, t.attacks, t.accepted, t.honest);
    return t.caught == t.attacks && t.accepted == t.honest && !t.not_fooled ? 0 : 1;
}

/* ---- main ---- */

static bool load_ops(const struct options *o, struct op_set *ret, struct err *err)
{
    const char *given = o->ops_dir && *o->ops_dir ? o->ops_dir : getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *dir = given && *given ? xstrdup(given) : op_default_dir();
    return op_set_load(dir, ret, err);
}

static void print_help_command(size_t which)
{
    printf("usage: proteus-gpu %s %s\n%s\n\n", commands[which].name, commands[which].arguments, commands[which].text);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        printf("  %-18s %-10s  %s\n", flags[i].name, flags[i].value, flags[i].text);
}

static int run_command(size_t which, int argc, char **argv)
{
    cleanup(mem) void *arguments = xarray((size_t)argc, sizeof(char *));
    cleanup(op_set) struct op_set ops = {0};
    struct options o = {.arguments = arguments};
    struct err err = {0};
    if (argc > 2 && strcmp(argv[2], "--help") == 0) {
        print_help_command(which);
        return 0;
    }
    if (!parse_flags(argc, argv, &o))
        return 2;
    char *end = NULL;
    long threads = o.threads ? strtol(o.threads, &end, 10) : 0;
    if (o.threads && (*end || !*o.threads || threads < 1 || threads > 256)) {
        fprintf(stderr, "proteus-gpu: --threads must be 1 to 256\n");
        return 2;
    }
    const struct judge_config c = {.ops = &ops,
                                   .cuda_home = o.cuda_home,
                                   .python = o.python,
                                   .device = o.device,
                                   .sandbox_minimum = o.sandbox_minimum,
                                   .need = o.need,
                                   .threads = (int)threads,
                                   .card_lock = o.card_lock};
    if (commands[which].needs_ops && !load_ops(&o, &ops, &err)) {
        if (commands[which].run == run_judge)
            serve_error(1, &err);
        return fail("operators", &err);
    }
    return commands[which].run(&o, &c);
}

int main(int argc, char **argv)
{
    /* Tensors of megabytes come and go many times: keep their pages instead of asking the kernel for zeroed ones each time.
       32 MiB is the most that glibc takes; a larger value is refused. */
    int taken = mallopt(M_MMAP_THRESHOLD, 32 << 20) && mallopt(M_TRIM_THRESHOLD, 1 << 30);
    BUG_ON(!taken);
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    signal(SIGPIPE, SIG_IGN);
    hash_init();
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--help") == 0 || strcmp(command, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(command, "--version") == 0) {
        printf("proteus-gpu %s\n", PROTEUS_VERSION);
        return 0;
    }
    if (strcmp(command, "emulate") == 0)
        return emulate_tool_main(argc - 2, argv + 2);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, command) == 0)
            return run_command(i, argc, argv);
    print_help(stderr);
    return 2;
}
