/* submit, jobs, cancel, add, candidate. */
#include "api/cli/cli.h"
#include "core/hash.h"

#include <string.h>

const struct option_spec submit_options[] = {
    {"op", "NAME", "the operator (`proteus ops` lists them)"},
    {"axes", "B=4,H=2,...", "a shape; give it again for more shapes of one job"},
    {"dtype", "LETTER=TYPE,...", "dtypes, e.g. state=f32; the operator's first choice otherwise"},
    {"model", "PRESET", "instead of --op and --axes: all shapes of a model's decode step (`proteus sets` lists presets)"},
    {"tp", "N[,N...]", "with --model: degrees of tensor parallelism (1)"},
    {"batch", "N[,N...]", "with --model: batches (1)"},
    {"observed", "N", "instead of --op and --axes: the N observed shapes without a kernel that would save most (with --op: of that one)"},
    {"target", "SM", "e.g. sm_90a; the first device's otherwise"},
    {"generator", "NAME", "template (default), llm or external"},
    {"replays", "JOB", "of generator llm: what that job's model answered, again, without a model"},
    {"candidates", "N", "budget: candidates a job"},
    {"gpu-seconds", "N", "budget: seconds of GPU time"},
    {"wall-seconds", "N", "budget: seconds"},
    {"tokens", "N", "budget: tokens of a language model"},
    {"reuse", "verified|never", "with verified (default) a shape that has a kernel is answered at once"},
    {"baseline", "FILE", "a candidate (JSON) to beat instead of the operator's own baseline"},
    {"request", "FILE", "the whole request as JSON instead of the options above"},
    {"idempotency-key", "KEY", "the same key never makes a second job (default: a fresh one)"},
    {"watch", NULL, "follow the job until it has ended"},
    {0}};
const struct option_spec page_options[] = {
    {"limit", "N", "entries a page (20)"}, {"cursor", "CURSOR", "go on where the page before ended"}, {0}};
const struct option_spec add_options[] = {
    {"plan", "FILE", "the launch plan (JSON) for a FILE.cu or FILE.ptx"},
    {"notes", "TEXT", "why this should be faster"},
    {0}};

/* ---- submit ---- */
static bool budget_add(const struct cli *cli, json_t *request, struct err *err)
{
    static const struct { const char *option, *key; } keys[] = {
        {"candidates", "candidates"}, {"gpu-seconds", "gpu_seconds"}, {"wall-seconds", "wall_seconds"}, {"tokens", "tokens"}};
    cleanup(json) json_t *budget = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t v = -1;
        if (!args_int(&cli->args, keys[i].option, 1, &v, err))
            return false;
        if (v > 0)
            json_put_int(budget, keys[i].key, v);
    }
    if (json_object_size(budget))
        json_put(request, "budget", json_incref(budget));
    return true;
}

/* The shapes that were spelled out, or the model that stands for its shapes. */
static json_t *what_is_asked_for(const struct cli *cli, int *ret_exit)
{
    const char *model = args_or(&cli->args, "model", NULL, NULL), *target = args_or(&cli->args, "target", NULL, NULL);
    cleanup(json) json_t *request = NULL, *shapes = json_array();
    int64_t most = 0;
    struct err err = {0};
    if (!args_int(&cli->args, "observed", 1, &most, &err)) {
        *ret_exit = cli_usage(cli, "%s", err.text);
        return NULL;
    }
    if (most && (model || args_has(&cli->args, "axes"))) {
        *ret_exit = cli_usage(cli, "--observed takes neither --model nor --axes");
        return NULL;
    }
    if (most) {
        json_t *observed = json_object();
        request = json_object();
        json_put(request, "observed", observed);
        json_put_int(observed, "most", most);
        if (args_has(&cli->args, "op"))
            json_put_str(observed, "op", args_or(&cli->args, "op", NULL, ""));
        return json_incref(request);
    }
    if (model && (args_has(&cli->args, "op") || args_has(&cli->args, "axes"))) {
        *ret_exit = cli_usage(cli, "either --model or --op and --axes");
        return NULL;
    }
    if (model) {
        json_t *doc = model_from_args(cli, model, ret_exit);
        if (!doc)
            return NULL;
        request = json_object();
        json_put(request, "model", doc);
        if (target)
            json_put_str(request, "target", target);
        return json_incref(request);
    }
    for (int n = 0; n == 0 || args_get(&cli->args, "axes", n); n++) {
        cleanup(json) json_t *shape = shape_from_args(cli, n, ret_exit);
        if (!shape)
            return NULL;
        json_array_append(shapes, json_object_get(shape, "axes"));
        if (!request) {
            request = json_incref(shape);
        }
    }
    json_object_del(request, "axes");
    json_put(request, "shapes", json_incref(shapes));
    return json_incref(request);
}

static json_t *request_make(const struct cli *cli, int *ret_exit)
{
    struct err err = {0};
    const char *file = args_or(&cli->args, "request", NULL, NULL), *baseline = args_or(&cli->args, "baseline", NULL, NULL);
    cleanup(json) json_t *request = NULL;
    if (file) {
        if (!json_parse_file(file, 8 << 20, &request, &err)) {
            *ret_exit = cli_fail(cli, &err);
            return NULL;
        }
        return json_incref(request);
    }
    request = what_is_asked_for(cli, ret_exit);
    if (!request)
        return NULL;
    if (args_has(&cli->args, "generator"))
        json_put_str(request, "generator", args_or(&cli->args, "generator", NULL, ""));
    if (args_has(&cli->args, "replays"))
        json_put_str(request, "replays", args_or(&cli->args, "replays", NULL, ""));
    if (args_has(&cli->args, "reuse"))
        json_put_str(request, "reuse", args_or(&cli->args, "reuse", NULL, ""));
    if (!budget_add(cli, request, &err)) {
        *ret_exit = cli_usage(cli, "%s", err.text);
        return NULL;
    }
    json_t *candidate = NULL;
    if (baseline && !json_parse_file(baseline, 8 << 20, &candidate, &err)) {
        *ret_exit = cli_fail(cli, &err);
        return NULL;
    }
    if (candidate)
        json_put(request, "baseline", candidate);
    return json_incref(request);
}

/* A request that got no answer may have made its job: the key makes sending it again safe. */
static int send_once_more(const struct cli *cli, const json_t *request, const char *header, struct reply *r)
{
    struct err err = {0};
    for (int attempt = 0; attempt < 2; attempt++) {
        reply_done(r);
        if (client_call(&cli->client, "POST", "/v1/jobs", request, header, CLIENT_MAX_JSON_BYTES, r, &err)) {
            if (r->status / 100 != 2)
                return cli_problem(cli, r);
            if (r->doc)
                return CLI_OK;
            err_set(&err, ERR_UPSTREAM, "%s did not answer with JSON: is it a Proteus service?", cli->client.server);
            break;
        }
        if (err.code == ERR_UNAVAILABLE || client_interrupted)
            break;
    }
    return cli_fail(cli, &err);
}

static void print_shapes(const json_t *job)
{
    const json_t *shapes = json_object_get(job, "shapes"), *shape;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "SHAPE HASH|OPERATOR|AXES|BEST|TIME|EVIDENCE", &heads);
    json_array_foreach(shapes, i, shape) {
        const json_t *best = json_object_get(shape, "best");
        cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
        axes_text(&axes, json_object_get(json_object_get(shape, "shape"), "axes"));
        speedup_text(&speedup, doc_speedup(best));
        time_text(&time, best);
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "shape_hash", "-"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(json_object_get(shape, "shape"), "op", "-"));
        table_cell(&t, STYLE_PLAIN, "%s", buf_cstr(&axes));
        table_cell(&t, STYLE_GOOD, "%s", buf_cstr(&speedup));
        table_cell(&t, STYLE_PLAIN, "%s", time.size ? buf_cstr(&time) : "-");
        table_cell(&t, STYLE_PLAIN, "%s", evidence_word(best));
    }
    table_print(&t);
    json_array_foreach(shapes, i, shape) {
        cleanup(buf) struct buf line = {0};
        serving_text(&line, shape);
        if (line.size)
            printf("%.12s  the best is%s\n", json_str(shape, "shape_hash", "-"), buf_cstr(&line));
    }
}

static enum style state_style(const char *state)
{
    static const struct { const char *state; enum style style; } table[] = {
        {"done", STYLE_GOOD}, {"failed", STYLE_BAD}, {"cancelled", STYLE_WARN}, {"running", STYLE_ACCENT}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(state, table[i].state))
            return table[i].style;
    return STYLE_PLAIN;
}

static void print_job(const json_t *job)
{
    const char *state = json_str(job, "state", "?");
    cleanup(buf) struct buf line = {0};
    term_clean(&line, json_str(job, "id", "?"), 80);
    buf_fmt(&line, "  %s", style_on(state_style(state)));
    term_clean(&line, state, 40);
    buf_fmt(&line, "%s  ", style_off());
    term_clean(&line, json_str(job, "op", ""), 64);
    buf_str(&line, "  ");
    term_clean(&line, json_str(job, "target", ""), 16);
    puts(buf_cstr(&line));
    const char *why = json_str(json_object_get(job, "error"), "text", NULL);
    if (why) {
        cleanup(buf) struct buf b = {0};
        term_clean(&b, why, 1000);
        printf("  %s%s%s\n", style_on(STYLE_BAD), buf_cstr(&b), style_off());
    }
    print_shapes(job);
}

int cmd_submit(struct cli *cli)
{
    int status = CLI_OK;
    cleanup(json) json_t *request = request_make(cli, &status);
    cleanup(reply) struct reply r = {0};
    if (!request)
        return status;
    struct id fresh = id_new("key");
    const char *key = args_or(&cli->args, "idempotency-key", NULL, fresh.text);
    if (strpbrk(key, "\"\\\r\n"))
        return cli_usage(cli, "--idempotency-key may not hold quotes, backslashes or line breaks");
    cleanup(str) char *header = xfmt("Idempotency-Key: \"%s\"", key);
    if ((status = send_once_more(cli, request, header, &r)))
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        print_job(r.doc);
    const char *id = json_str(r.doc, "id", NULL);
    if (!args_has(&cli->args, "watch") || !id)
        return CLI_OK;
    if (!cli->json)
        puts("");
    return watch_job(cli, id);
}

/* ---- jobs ---- */
static void print_jobs(const json_t *list)
{
    const json_t *job;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "JOB|STATE|OPERATOR|TARGET|>SHAPES|>CANDIDATES|CREATED", &heads);
    json_array_foreach(list, i, job) {
        const char *state = json_str(job, "state", "?");
        table_cell(&t, STYLE_PLAIN, "%s", json_str(job, "id", "?"));
        table_cell(&t, state_style(state), "%s", state);
        table_cell(&t, STYLE_PLAIN, "%s", json_str(job, "op", ""));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(job, "target", ""));
        table_cell(&t, STYLE_PLAIN, "%zu", json_array_size(json_object_get(job, "shapes")));
        table_cell(&t, STYLE_PLAIN, "%lld/%lld", (long long)json_int(json_object_get(job, "spent"), "candidates", 0),
                   (long long)json_int(json_object_get(job, "budget"), "candidates", 0));
        table_cell(&t, STYLE_DIM, "%s", json_str(job, "created", ""));
    }
    table_print(&t);
}

static int job_show(struct cli *cli)
{
    cleanup(str) char *id = client_escape(cli->args.words[0]);
    cleanup(str) char *path = xfmt("/v1/jobs/%s", id);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        print_job(r.doc);
    return CLI_OK;
}

int cmd_jobs(struct cli *cli)
{
    int64_t limit = 20;
    struct err err = {0};
    if (cli->args.count)
        return job_show(cli);
    if (!args_int(&cli->args, "limit", 1, &limit, &err))
        return cli_usage(cli, "%s", err.text);
    cleanup(str) char *cursor = client_escape(args_or(&cli->args, "cursor", NULL, ""));
    cleanup(str) char *path = xfmt("/v1/jobs?limit=%lld%s%s", (long long)limit, *cursor ? "&cursor=" : "", cursor);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    print_jobs(json_object_get(r.doc, "jobs"));
    const char *next = json_str(r.doc, "next", NULL);
    if (next) {
        fputs("\nmore: proteus jobs --cursor ", stdout);
        term_put(next);
        puts("");
    }
    return CLI_OK;
}

int cmd_cancel(struct cli *cli)
{
    cleanup(str) char *id = client_escape(cli->args.words[0]);
    cleanup(str) char *path = xfmt("/v1/jobs/%s/cancel", id);
    cleanup(reply) struct reply r = {0};
    int status = cli_send(cli, "POST", path, NULL, NULL, &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        print_job(r.doc);
    return CLI_OK;
}

/* ---- candidates ---- */
/* FILE.json is a whole candidate; FILE.cu and FILE.ptx are its source, with --plan beside it. */
static json_t *candidate_from(const struct cli *cli, const char *path, struct err *err)
{
    const char *dot = strrchr(path, '.'), *plan = args_or(&cli->args, "plan", NULL, NULL);
    bool cuda = dot && !strcmp(dot, ".cu"), ptx = dot && !strcmp(dot, ".ptx");
    json_t *doc = NULL;
    if (!cuda && !ptx)
        return json_parse_file(path, 8 << 20, &doc, err) ? doc : NULL;
    cleanup(buf) struct buf source = {0};
    cleanup(json) json_t *made = json_object();
    if (!plan) {
        err_set(err, ERR_INVALID, "%s is a source alone: its launch plan is missing (--plan FILE)", path);
        return NULL;
    }
    if (!file_read(path, 8 << 20, &source, err) || !json_parse_file(plan, 8 << 20, &doc, err))
        return NULL;
    json_put_str(made, "language", cuda ? "cuda" : "ptx");
    json_put_str(made, "source", buf_cstr(&source));
    json_put(made, "plan", doc);
    return json_incref(made);
}

int cmd_add(struct cli *cli)
{
    struct err err = {0};
    const char *notes = args_or(&cli->args, "notes", NULL, NULL);
    cleanup(json) json_t *candidate = candidate_from(cli, cli->args.words[1], &err);
    if (!candidate)
        return cli_fail(cli, &err);
    if (notes)
        json_put_str(candidate, "notes", notes);
    cleanup(str) char *id = client_escape(cli->args.words[0]);
    cleanup(str) char *path = xfmt("/v1/jobs/%s/candidates", id);
    cleanup(reply) struct reply r = {0};
    int status = cli_send(cli, "POST", path, candidate, NULL, &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    term_put(json_str(r.doc, "id", "?"));
    printf("  accepted; `proteus candidate ");
    term_put(json_str(r.doc, "id", "?"));
    puts("` shows its verdict");
    return CLI_OK;
}

static void print_field(const char *name, const char *value)
{
    if (!value)
        return;
    printf("%s%-10s%s ", style_on(STYLE_DIM), name, style_off());
    term_put(value);
    puts("");
}

int cmd_candidate(struct cli *cli)
{
    cleanup(str) char *id = client_escape(cli->args.words[0]);
    cleanup(str) char *path = xfmt("/v1/candidates/%s", id);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *verdict = json_object_get(r.doc, "verdict"), *candidate = json_object_get(r.doc, "candidate");
    const json_t *figures = json_object_get(r.doc, "figures"), *detail = json_object_get(verdict, "detail");
    print_field("candidate", json_str(r.doc, "id", NULL));
    print_field("job", json_str(r.doc, "job", NULL));
    print_field("shape", json_str(r.doc, "shape_hash", NULL));
    print_field("state", json_str(r.doc, "state", NULL));
    print_field("language", json_str(candidate, "language", NULL));
    print_field("notes", json_str(candidate, "notes", NULL));
    print_field("verdict", doc_verdict(r.doc));
    print_field("phase", json_str(verdict, "phase", NULL));
    print_field("what", json_str(verdict, "text", NULL));
    print_field("advice", json_str(verdict, "for_generator", NULL));
    struct speedup s = doc_speedup(figures);
    if (s.median > 0) {
        cleanup(buf) struct buf text = {0};
        speedup_text(&text, s);
        print_field("speed-up", buf_cstr(&text));
        print_field("evidence", evidence_word(figures));
    }
    if (json_str(detail, "log", NULL)) {
        cleanup(buf) struct buf log = {0};
        term_clean_block(&log, json_str(detail, "log", NULL), 20000, "    ");
        printf("%slog%s\n%s\n", style_on(STYLE_DIM), style_off(), buf_cstr(&log));
    }
    return CLI_OK;
}
