/* Answers of the service: errors in words and exit statuses, fields that several commands read. */
#include "api/cli/cli.h"

#include <stdarg.h>
#include <string.h>

const struct option_spec no_options[] = {{0}};

static void complain(const struct cli *cli, const char *text)
{
    cleanup(buf) struct buf b = {0};
    term_clean(&b, text, 4000);
    fflush(stdout);
    fprintf(stderr, "proteus %s: %s\n", cli->command, buf_cstr(&b));
}

/* Errors that arise here, not answers of the server. */
static int exit_for(enum err_code code)
{
    static const struct { enum err_code code; int status; } table[] = {
        {ERR_INVALID, CLI_USAGE}, {ERR_NOT_FOUND, CLI_LOCAL}, {ERR_CONFLICT, CLI_INTERRUPTED},
        {ERR_UPSTREAM, CLI_UNREACHED}, {ERR_UNAVAILABLE, CLI_UNREACHED}, {ERR_TIMEOUT, CLI_UNREACHED}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            return table[i].status;
    return CLI_LOCAL;
}

int cli_fail(const struct cli *cli, const struct err *err)
{
    complain(cli, err->text);
    return exit_for(err->code);
}

int cli_problem(const struct cli *cli, const struct reply *r)
{
    cleanup(buf) struct buf head = {0};
    const char *title = json_str(r->doc, "title", NULL), *detail = json_str(r->doc, "detail", NULL);
    fflush(stdout);
    if (cli->json && r->doc) {
        term_json(r->doc);
    } else {
        buf_fmt(&head, "%s", title ? title : r->status == 401 ? "a token is needed" : "the server answered with an error");
        if (detail)
            buf_fmt(&head, ": %s", detail);
        buf_fmt(&head, " (%d%s%s)", r->status, json_str(r->doc, "code", NULL) ? " " : "", json_str(r->doc, "code", ""));
        complain(cli, buf_cstr(&head));
        const json_t *list = json_object_get(r->doc, "errors"), *fault;
        size_t i;
        json_array_foreach(list, i, fault) {
            cleanup(buf) struct buf line = {0}, where = {0};
            const char *pointer = json_str(fault, "pointer", "");
            term_clean(&where, *pointer ? pointer : "(the whole request)", 200);
            term_clean(&line, json_str(fault, "detail", ""), 1000);
            fprintf(stderr, "  %s  %s\n", buf_cstr(&where), buf_cstr(&line));
        }
        if (r->status == 401)
            fprintf(stderr, "  give one with --token-file FILE or PROTEUS_TOKEN\n");
    }
    return r->status >= 500 ? CLI_SERVER : r->status >= 400 ? CLI_REFUSED : CLI_UNREACHED;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "proteus%s%s: ", cli->command ? " " : "", cli->command ? cli->command : "");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n`proteus%s%s --help` shows what there is.\n", cli->command ? " " : "", cli->command ? cli->command : "");
    return CLI_USAGE;
}

int cli_send(const struct cli *cli, const char *method, const char *path, const json_t *body, const char *header, struct reply *ret)
{
    struct err err = {0};
    if (!client_call(&cli->client, method, path, body, header, CLIENT_MAX_JSON_BYTES, ret, &err))
        return cli_fail(cli, &err);
    if (ret->status < 200 || ret->status > 299)
        return cli_problem(cli, ret);
    if (!ret->doc && ret->status != 204) {
        err_set(&err, ERR_UPSTREAM, "%s answered %s with \"%s\" instead of JSON: is it a Proteus service?", cli->client.server, path,
                ret->type);
        return cli_fail(cli, &err);
    }
    return CLI_OK;
}

int cli_get(const struct cli *cli, const char *path, struct reply *ret)
{
    return cli_send(cli, "GET", path, NULL, NULL, ret);
}

int cli_file(const struct cli *cli, const char *path, struct reply *ret)
{
    struct err err = {0};
    if (!client_call(&cli->client, "GET", path, NULL, NULL, CLIENT_MAX_FILE_BYTES, ret, &err))
        return cli_fail(cli, &err);
    return ret->status == 200 ? CLI_OK : cli_problem(cli, ret);
}

/* ---- fields ---- */
struct speedup doc_speedup(const json_t *doc)
{
    const json_t *s = json_object_get(doc, "speedup");
    if (json_is_number(s))
        return (struct speedup){.median = json_number_value(s)};
    return (struct speedup){json_num(s, "median", 0), json_num(s, "low", 0), json_num(s, "high", 0)};
}

const char *doc_verdict(const json_t *doc)
{
    const json_t *v = json_object_get(doc, "verdict");
    return json_is_string(v) ? json_string_value(v) : json_str(v, "code", NULL);
}

void speedup_text(struct buf *to, struct speedup s)
{
    if (!(s.median > 0))
        buf_str(to, "-");
    else if (s.low > 0 && s.high > 0 && (s.low != s.median || s.high != s.median))
        buf_fmt(to, "%.2fx [%.2f, %.2f]", s.median, s.low, s.high);
    else
        buf_fmt(to, "%.2fx", s.median);
}

const char *evidence_word(const json_t *doc)
{
    const char *e = json_str(doc, "evidence", NULL);
    return !e ? "-" : !strcmp(e, "measured") ? "measured" : "emulated (estimate)";
}

const char *baseline_words(const char *of)
{
    return !strcmp(of, "operator") ? "the operator's baseline" : *of ? "a baseline that is not the operator's" : "the baseline";
}

void serving_text(struct buf *to, const json_t *shape)
{
    const json_t *serving = json_object_get(shape, "serving");
    if (json_str(json_object_get(shape, "best"), "own_baseline", NULL))
        buf_str(to, " over the job's own baseline");
    if (!json_is_object(serving))
        return;
    buf_fmt(to, "; %sserved: beside the operator's baseline ", json_bool(serving, "served", false) ? "" : "not ");
    if (doc_speedup(serving).median > 0)
        buf_fmt(to, "%.2fx, ", doc_speedup(serving).median);
    term_clean(to, json_str(serving, "verdict", "?"), 40);
}

void time_text(struct buf *to, const json_t *doc)
{
    if (!(json_num(doc, "time_ns", 0) > 0))
        return;
    if (strcmp(json_str(doc, "evidence", ""), "measured") != 0)
        buf_str(to, "~");
    duration_text(to, json_num(doc, "time_ns", 0));
}

void axes_text(struct buf *to, const json_t *axes)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)axes, name, value)
        buf_fmt(to, "%s%s=%lld", to->size ? " " : "", name, (long long)json_integer_value(value));
}
