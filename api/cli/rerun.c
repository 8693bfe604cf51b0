/*
 * verify --rerun: the program of a bundle judged again on this machine, by proteus-gpu beside this program, with fresh seeds. Only after
 * the bundle has been verified; what is judged is what the certificate's digest is of. The judge runs it in its sandboxes.
 *
 * Three answers: confirmed; not confirmed; right here too, but its speed was measured on a card and there is none here to measure on.
 */
#include "api/cli/rerun.h"

#include "core/candidate.h"
#include "core/certificate.h"
#include "core/hash.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define RESULT_BYTES ((size_t)64 << 20)
#define MOST_LOSS 0.05                   /* of the speed-up, as in the judge's own retest */

extern char **environ;

/* ---- the judge as a process ---- */

/* proteus-gpu beside this program, else the first on the PATH. */
static char *judge_program(const struct cli *cli)
{
    const char *given = args_or(&cli->args, "judge", "PROTEUS_JUDGE", NULL);
    char self[4096];
    if (given)
        return xstrdup(given);
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size > 0) {
        self[size] = 0;
        char *slash = strrchr(self, '/');
        cleanup(str) char *beside = xfmt("%.*s/proteus-gpu", (int)(slash ? slash - self : 0), self);
        if (access(beside, X_OK) == 0)
            return steal(&beside);
    }
    return xstrdup("proteus-gpu");
}

struct words { char *list[32]; int count; };
static void words_done(struct words *w)
{
    for (int i = 0; i < w->count; i++)
        free(w->list[i]);
}
DEFINE_CLEANUP(words, struct words, words_done(it))

static void word(struct words *w, const char *name, const char *value)
{
    BUG_ON(w->count + 3 > (int)(sizeof w->list / sizeof *w->list));
    if (name)
        w->list[w->count++] = xstrdup(name);
    if (value)
        w->list[w->count++] = xstrdup(value);
    w->list[w->count] = NULL;
}

/* Phases as the judge prints them; what follows them is in the result's file. */
static void pass_on(const struct cli *cli, FILE *from)
{
    char line[512];
    bool phases = true;
    while (fgets(line, sizeof line, from)) {
        cleanup(buf) struct buf clean = {0};
        phases = phases && line[0] != '{';
        line[strcspn(line, "\n")] = 0;
        if (!phases || cli->json)
            continue;
        term_clean(&clean, line, 200);
        printf("  %s\n", buf_cstr(&clean));
        fflush(stdout);
    }
}

static bool run(const struct cli *cli, char **argv, struct err *err)
{
    int fds[2];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (pipe(fds) != 0)
        return err_errno(err, ERR_INTERNAL, "pipe");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    posix_spawn_file_actions_addclose(&actions, fds[0]);
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ), status = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    cleanup(file) FILE *from = fdopen(fds[0], "r");
    if (failed) {
        errno = failed;
        return err_errno(err, ERR_NOT_FOUND, "%s cannot be started (--judge PROGRAM)", argv[0]);
    }
    pass_on(cli, from);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) || err_set(err, ERR_UPSTREAM, "the judge was ended by signal %d", WTERMSIG(status));
}

/* ---- the task ---- */

/* A program of the certificate with its source out of the bundle; NULL: it has none. */
static json_t *candidate_of(const struct bundle *b, const json_t *program, const char *source)
{
    for (int i = 0; json_is_object(program) && i < b->count; i++)
        if (!strcmp(b->files[i].name, source)) {
            json_t *doc = json_deep_copy(program);
            json_put(doc, "source", json_stringn(b->files[i].data, b->files[i].size));
            return doc;
        }
    return NULL;
}

static bool write_json(const char *path, const json_t *doc, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    json_write(&text, doc);
    return file_write(path, text.data, text.size, 0600, err);
}

/* A folder of ours for the task and the result, removed with what is in it. */
struct folder { char path[40]; };
static const char *const folder_files[] = {"shape.json", "candidate.json", "baseline.json", "result.json"};
static void folder_done(struct folder *f)
{
    for (size_t i = 0; *f->path && i < sizeof folder_files / sizeof *folder_files; i++) {
        cleanup(str) char *file = xfmt("%s/%s", f->path, folder_files[i]);
        unlink(file);
    }
    if (*f->path)
        rmdir(f->path);
}
DEFINE_CLEANUP(folder, struct folder, folder_done(it))

static bool judge(const struct cli *cli, const struct bundle *b, const json_t *certificate, json_t **ret, struct err *err)
{
    cleanup(folder) struct folder f = {"/tmp/proteus-rerun-XXXXXX"};
    cleanup(json) json_t *candidate = candidate_of(b, json_object_get(certificate, "program"), "source");
    cleanup(json) json_t *baseline = candidate_of(b, json_object_get(json_object_get(certificate, "baseline"), "program"), "baseline");
    cleanup(words) struct words w = {.count = 0};
    cleanup(str) char *program = judge_program(cli);
    bool is_baseline = json_bool(certificate, "is_baseline", false) || !certificate_phase(certificate, "retest");
    if (!mkdtemp(f.path)) {
        *f.path = 0;
        return err_errno(err, ERR_INTERNAL, "a temporary folder");
    }
    cleanup(str) char *shape = xfmt("@%s/shape.json", f.path), *file = xfmt("%s/candidate.json", f.path), *result = xfmt("%s/result.json", f.path);
    cleanup(str) char *compared = xfmt("%s/baseline.json", f.path);
    if (!write_json(shape + 1, json_object_get(certificate, "shape"), err) || !write_json(file, candidate, err) ||
        (baseline && !write_json(compared, baseline, err)))
        return false;
    word(&w, program, "judge-file");
    word(&w, "--shape", shape);
    word(&w, "--candidate", file);
    word(&w, "--mode", is_baseline ? "full" : "retest");
    if (is_baseline)
        word(&w, "--baseline", "none");
    else if (baseline)                   /* what it was compared with, whoever's that is */
        word(&w, "--baseline", compared);
    word(&w, "--op-digest", json_str(json_object_get(certificate, "digests"), "op", ""));
    static const char *const passed[] = {"ops-dir", "device", "cuda-home"};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        const char *value = args_or(&cli->args, passed[i], NULL, NULL);
        cleanup(str) char *flag = xfmt("--%s", passed[i]);
        if (value)
            word(&w, flag, value);
    }
    word(&w, "--json", result);
    if (!run(cli, w.list, err))
        return false;
    return json_parse_file(result, RESULT_BYTES, ret, err) ||
           err_set(err, ERR_UNAVAILABLE, "the judge could not judge it here; what it says stands above");
}

/* ---- what it came to ---- */

struct outcome { bool right, speed_repeated, speed_holds, same_toolkit, bytes_hold; const char *why; };

static bool measured(const json_t *doc)
{
    return !strcmp(json_str(doc, "evidence", ""), "measured");
}

static const char *digest(const json_t *certificate, const char *name)
{
    return json_str(json_object_get(certificate, "digests"), name, "");
}

static struct outcome weigh(const json_t *was, const json_t *result)
{
    const json_t *now = json_object_get(result, "certificate");
    const char *code = json_str(json_object_get(result, "verdict"), "code", "");
    struct outcome o = {.right = json_is_object(now), .bytes_hold = true};
    double before = doc_speedup(was).median, here = doc_speedup(now).median;
    o.same_toolkit = !strcmp(json_str(json_object_get(was, "toolkit"), "version", "?"), json_str(json_object_get(now, "toolkit"), "version", "!"));
    if (!o.right) {
        o.why = "it is not right here";
        return o;
    }
    if (o.same_toolkit)
        o.bytes_hold = !strcmp(digest(was, "ptx"), digest(now, "ptx")) && !strcmp(digest(was, "cubin"), digest(now, "cubin"));
    o.speed_repeated = measured(now) || !measured(was);
    o.speed_holds = !strcmp(code, "ok") && (measured(now) != measured(was) || here >= before * (1 - MOST_LOSS));
    if (!o.bytes_hold)
        o.why = "the same toolkit makes other bytes of its source";
    else if (o.speed_repeated && !o.speed_holds)
        o.why = strcmp(code, "ok") ? "it is right, and not faster than the baseline here" : "it is right, and its gain is smaller here than it was";
    return o;
}

static void row(struct table *t, const char *name, const char *was, const char *now)
{
    table_cell(t, STYLE_DIM, "%s", name);
    table_cell(t, STYLE_PLAIN, "%s", *was ? was : "-");
    table_cell(t, STYLE_PLAIN, "%s", *now ? now : "-");
}

static void row_of(struct table *t, const char *name, const json_t *was, const json_t *now, void (*put)(struct buf *, const json_t *))
{
    cleanup(buf) struct buf left = {0}, right = {0};
    put(&left, was);
    put(&right, now);
    row(t, name, buf_cstr(&left), buf_cstr(&right));
}

static void put_digest(struct buf *to, const json_t *doc, const char *name)
{
    const char *text = digest(doc, name);
    buf_fmt(to, "%.16s", hash_hex_valid(text) ? text : "");
}

static void put_verdict(struct buf *to, const json_t *doc) { term_clean(to, json_str(doc, "verdict", ""), 40); }
static void put_evidence(struct buf *to, const json_t *doc) { buf_str(to, evidence_word(doc)); }
static void put_speedup(struct buf *to, const json_t *doc) { if (doc_speedup(doc).median > 0) speedup_text(to, doc_speedup(doc)); }
static void put_device(struct buf *to, const json_t *doc) { term_clean(to, json_str(json_object_get(doc, "device"), "name", ""), 60); }
static void put_toolkit(struct buf *to, const json_t *doc) { term_clean(to, json_str(json_object_get(doc, "toolkit"), "version", ""), 20); }
static void put_version(struct buf *to, const json_t *doc) { term_clean(to, json_str(doc, "proteus_version", ""), 20); }
static void put_source(struct buf *to, const json_t *doc) { put_digest(to, doc, "source"); }
static void put_ptx(struct buf *to, const json_t *doc) { put_digest(to, doc, "ptx"); }
static void put_cubin(struct buf *to, const json_t *doc) { put_digest(to, doc, "cubin"); }
static void put_baseline(struct buf *to, const json_t *doc) { put_digest(to, doc, "baseline"); }
static void put_baseline_of(struct buf *to, const json_t *doc) { if (*certificate_baseline_of(doc)) buf_str(to, baseline_words(certificate_baseline_of(doc))); }

static void put_baseline_time(struct buf *to, const json_t *doc)
{
    cleanup(json) json_t *other = json_pack("{s:f,s:s}", "time_ns", json_num(doc, "baseline_ns", 0), "evidence", json_str(doc, "evidence", ""));
    time_text(to, other);
}

/* The largest error of any regime, of the retest's where there was one. */
static void put_worst(struct buf *to, const json_t *doc)
{
    const json_t *occasion = json_array_get(json_object_get(certificate_phase(doc, "retest"), "occasions"), 0);
    const json_t *regimes = json_object_get(occasion ? occasion : certificate_phase(doc, "correct"), "regimes"), *regime, *tensor;
    double worst = -1;
    size_t i, k;
    json_array_foreach(regimes, i, regime)
        json_array_foreach(json_object_get(regime, "tensors"), k, tensor)
            worst = json_num(tensor, "worst_error", -1) > worst ? json_num(tensor, "worst_error", -1) : worst;
    if (worst >= 0)
        buf_fmt(to, "%.2e in %zu regimes", worst, json_array_size(regimes));
}

static const struct { const char *name; void (*put)(struct buf *, const json_t *); } rows[] = {
    {"verdict", put_verdict}, {"evidence", put_evidence}, {"speed-up", put_speedup}, {"time", time_text}, {"baseline's time", put_baseline_time},
    {"worst error", put_worst}, {"device", put_device}, {"toolkit", put_toolkit}, {"proteus", put_version}, {"source", put_source},
    {"ptx", put_ptx}, {"cubin", put_cubin}, {"baseline", put_baseline},
    {"which is", put_baseline_of}};

static void print_sides(const json_t *was, const json_t *now)
{
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    puts("");
    table_start(&t, "|CERTIFICATE|HERE", &heads);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        row_of(&t, rows[i].name, was, now, rows[i].put);
    table_print(&t);
}

static void print_outcome(const struct outcome *o, const json_t *was, const json_t *result)
{
    const json_t *verdict = json_object_get(result, "verdict"), *now = json_object_get(result, "certificate");
    cleanup(buf) struct buf text = {0}, card = {0};
    bool other_baseline = o->right && *digest(was, "baseline") && strcmp(digest(was, "baseline"), digest(now, "baseline")) != 0;
    if (o->right)
        print_sides(was, now);
    puts("");
    if (o->right && !o->same_toolkit)
        puts("the toolkit is another one here: PTX and cubin need not be the same bytes");
    if (other_baseline)
        puts("the baseline is another one here: the gains are over different kernels");
    if (o->why) {
        term_clean(&text, json_str(verdict, "code", "?"), 40);
        buf_str(&text, ": ");
        term_clean(&text, json_str(verdict, "text", ""), 300);
        printf("%sNOT confirmed%s: %s (%s)\n", style_on(STYLE_BAD), style_off(), o->why, buf_cstr(&text));
    } else if (!o->speed_repeated) {
        put_device(&card, was);
        printf("%scorrectness is confirmed%s: judged again on the emulator. Its speed was measured on a card (%s) and could not be "
               "measured here\n", style_on(STYLE_GOOD), style_off(), buf_cstr(&card));
    } else {
        printf("%sconfirmed%s%s\n", style_on(STYLE_GOOD), style_off(), measured(now) ? "" : " (both are estimates of the emulator)");
    }
}

int rerun(const struct cli *cli, const struct bundle *b, const json_t *certificate, json_t **ret_doc)
{
    cleanup(json) json_t *result = NULL;
    struct err err = {0};
    if (!cli->json)
        puts("\njudged again here, with fresh seeds:");
    fflush(stdout);
    if (!judge(cli, b, certificate, &result, &err)) {
        err.code = ERR_NOT_FOUND;       /* something that is needed here is not */
        cli_fail(cli, &err);
        return CLI_LOCAL;
    }
    struct outcome o = weigh(certificate, result);
    if (!cli->json)
        print_outcome(&o, certificate, result);
    json_t *doc = json_object();
    json_put_bool(doc, "correct", o.right);
    json_put_bool(doc, "speed_repeated", o.right && o.speed_repeated);
    json_put_bool(doc, "confirmed", !o.why && o.speed_repeated);
    json_put(doc, "why_not", o.why ? json_string(o.why) : json_null());
    json_put_bool(doc, "same_toolkit", o.right && o.same_toolkit);
    json_put(doc, "verdict", json_incref(json_object_get(result, "verdict")));
    json_put(doc, "figures", json_incref(json_object_get(result, "figures")));
    json_put(doc, "certificate", json_incref(json_object_get(result, "certificate")));
    *ret_doc = doc;
    return o.why ? CLI_NO : o.speed_repeated ? CLI_OK : CLI_PARTLY;
}
