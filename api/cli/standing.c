/* quarantine, restore, revalidate, release, refuse: what an admin decides about kernels and held candidates. */
#include "api/cli/cli.h"
#include "core/hash.h"

#include <string.h>

#define REASON {"reason", "TEXT", "why; it is shown to whoever asks for the kernel"}
#define CANDIDATE {"candidate", "CANDIDATE", "which of the shape's kernels, by its candidate (the one that is served)"}
#define WATCH {"watch", NULL, "follow the job until it has ended"}
const struct option_spec standing_options[] = {REASON, CANDIDATE, {0}};
const struct option_spec reason_options[] = {REASON, {0}};
const struct option_spec revalidate_options[] = {REASON, CANDIDATE, WATCH, {0}};
const struct option_spec release_options[] = {REASON, WATCH, {0}};

static json_t *body_of(const struct cli *cli)
{
    static const char *const keys[] = {"reason", "candidate"};
    json_t *body = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (args_or(&cli->args, keys[i], NULL, NULL))
            json_put_str(body, keys[i], args_or(&cli->args, keys[i], NULL, NULL));
    return body;
}

static int send(struct cli *cli, const char *of, const char *what, const json_t *body, struct reply *ret)
{
    cleanup(str) char *id = client_escape(cli->args.words[0]), *path = xfmt("/v1/%s/%s/%s", of, id, what);
    return cli_send(cli, "POST", path, body, NULL, ret);
}

/*
 * A repeated request must mean the same kernel: so the one that is served is named. Where there is none, or the service cannot tell,
 * the request goes as it is and the service answers.
 */
static void name_served(struct cli *cli, json_t *body)
{
    cleanup(str) char *id = client_escape(cli->args.words[0]), *path = xfmt("/v1/kernels/%s/candidates", id);
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    if (json_object_get(body, "candidate") || !client_call(&cli->client, "GET", path, NULL, NULL, CLIENT_MAX_JSON_BYTES, &r, &err) || r.status != 200)
        return;
    const char *serves = json_str(r.doc, "serves", NULL);
    if (serves)
        json_put_str(body, "candidate", serves);
}

static void print_shelf(const json_t *view)
{
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    const char *serves = json_str(view, "serves", "");
    const json_t *k;
    size_t i;
    table_start(&t, "CANDIDATE|STATE|>SPEED-UP|EVIDENCE|REASON", &heads);
    json_array_foreach(json_object_get(view, "kernels"), i, k) {
        cleanup(buf) struct buf speedup = {0};
        bool is = !strcmp(serves, json_str(k, "candidate", "?"));
        speedup_text(&speedup, doc_speedup(k));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(k, "candidate", "?"));
        table_cell(&t, is ? STYLE_GOOD : STYLE_PLAIN, "%s", is ? "served" : json_str(k, "state", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", buf_cstr(&speedup));
        table_cell(&t, STYLE_PLAIN, "%s", evidence_word(k));
        table_cell(&t, STYLE_DIM, "%s", json_str(k, "reason", ""));
    }
    table_print(&t);
    if (!*serves)
        puts("\nnothing is served for this shape now");
}

static int change(struct cli *cli, const char *what, bool served_one)
{
    cleanup(json) json_t *body = body_of(cli);
    cleanup(reply) struct reply r = {0};
    if (!hash_hex_valid(cli->args.words[0]))
        return cli_usage(cli, "a shape hash is 64 lower-case hexadecimal digits");
    if (served_one)
        name_served(cli, body);
    int status = send(cli, "kernels", what, body, &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        print_shelf(r.doc);
    return CLI_OK;
}

int cmd_quarantine(struct cli *cli)
{
    if (!args_has(&cli->args, "reason"))
        return cli_usage(cli, "--reason TEXT is missing: it is what others are told");
    return change(cli, "quarantine", true);
}

int cmd_restore(struct cli *cli)
{
    return change(cli, "restore", false);
}

static int ask_job(struct cli *cli, const char *of, const char *what)
{
    cleanup(json) json_t *body = body_of(cli);
    cleanup(reply) struct reply r = {0};
    int status = send(cli, of, what, body, &r);
    if (status)
        return status;
    const char *id = json_str(r.doc, "id", "");
    if (args_has(&cli->args, "watch"))
        return watch_job(cli, id);
    if (cli->json) {
        term_json(r.doc);
    } else {
        fputs("judged again by job ", stdout);
        term_put(id);
        puts("");
    }
    return CLI_OK;
}

int cmd_revalidate(struct cli *cli)
{
    if (!hash_hex_valid(cli->args.words[0]))
        return cli_usage(cli, "a shape hash is 64 lower-case hexadecimal digits");
    return ask_job(cli, "kernels", "revalidate");
}

int cmd_release(struct cli *cli)
{
    return ask_job(cli, "candidates", "release");
}

int cmd_refuse(struct cli *cli)
{
    cleanup(json) json_t *body = body_of(cli);
    cleanup(reply) struct reply r = {0};
    int status = send(cli, "candidates", "refuse", body, &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        puts("refused for good");
    return CLI_OK;
}
