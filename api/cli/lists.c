/* ops, devices, token: lists and small answers. */
#include "api/cli/cli.h"

#include <string.h>

const struct option_spec token_options[] = {
    {"name", "TEXT", "what the token is for (create)"},
    {"scopes", "read,submit,admin", "what it may do (create)"},
    {"output", "FILE", "write the secret there with mode 0600 instead of printing it (create)"},
    {0}};

/* The list in an answer: the value of `key`, or the answer itself. */
static const json_t *list_of(const json_t *doc, const char *key)
{
    return json_is_array(doc) ? doc : json_object_get(doc, key);
}

static void join(struct buf *to, const json_t *list)
{
    const json_t *word;
    size_t i;
    json_array_foreach(list, i, word)
        buf_fmt(to, "%s%s", i ? "," : "", json_is_string(word) ? json_string_value(word) : "?");
}

static int op_show(struct cli *cli)
{
    cleanup(str) char *name = client_escape(cli->args.words[0]);
    cleanup(str) char *path = xfmt("/v1/ops/%s", name);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    cleanup(buf) struct buf pretty = {0}, safe = {0};
    json_write_pretty(&pretty, r.doc);
    term_clean_block(&safe, buf_cstr(&pretty), 1 << 20, "");
    fputs(buf_cstr(&safe), stdout);
    return CLI_OK;
}

static void keyed_axes(struct buf *to, const json_t *axes)
{
    const char *name;
    json_t *axis;
    json_object_foreach((json_t *)axes, name, axis)
        buf_fmt(to, "%s%s%s", to->size ? " " : "", name, json_object_get(axis, "default") || json_object_get(axis, "value") ? "?" : "");
}

int cmd_ops(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    if (cli->args.count)
        return op_show(cli);
    int status = cli_get(cli, "/v1/ops", &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *op;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "OPERATOR|>VERSION|AXES (? HAS A DEFAULT)|WHAT", &heads);
    json_array_foreach(list_of(r.doc, "ops"), i, op) {
        cleanup(buf) struct buf axes = {0};
        keyed_axes(&axes, json_object_get(op, "axes"));
        table_cell(&t, STYLE_ACCENT, "%s", json_str(op, "name", "?"));
        table_cell(&t, STYLE_PLAIN, "%lld", (long long)json_int(op, "version", 0));
        table_cell(&t, STYLE_PLAIN, "%s", buf_cstr(&axes));
        const char *what = json_str(op, "description", ""), *stop = strstr(what, ". ");
        table_cell(&t, STYLE_PLAIN, "%.*s", stop ? (int)(stop - what + 1) : (int)strlen(what), what);
    }
    table_print(&t);
    return CLI_OK;
}

int cmd_devices(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, "/v1/devices", &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *device, *sandbox = json_object_get(r.doc, "sandbox"), *toolkit = json_object_get(r.doc, "toolkit");
    const char *shared = json_str(sandbox, "level", NULL);
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "KIND|NAME|TARGET|HEALTH|SANDBOX|UUID", &heads);
    json_array_foreach(list_of(r.doc, "devices"), i, device) {
        const json_t *own = json_object_get(device, "sandbox"), *health = json_object_get(device, "health");
        table_cell(&t, STYLE_ACCENT, "%s", json_str(device, "kind", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(device, "name", ""));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(device, "target", ""));
        table_cell(&t, STYLE_PLAIN, "%s", json_is_string(health) ? json_string_value(health) : json_str(health, "state", "-"));
        table_cell(&t, STYLE_PLAIN, "%s", json_is_string(own) ? json_string_value(own) : json_str(own, "level", shared ? shared : "-"));
        table_cell(&t, STYLE_DIM, "%s", json_str(device, "uuid", "-"));
    }
    table_print(&t);
    if (toolkit) {
        fputs("\nCUDA toolkit: ", stdout);
        term_put(json_str(toolkit, "version", json_str(toolkit, "missing", "not found")));
        puts("");
    }
    return CLI_OK;
}

/* ---- tokens ---- */
static int token_list(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, "/v1/tokens", &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *token;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "TOKEN|SCOPES|CREATED|NAME", &heads);
    json_array_foreach(list_of(r.doc, "tokens"), i, token) {
        cleanup(buf) struct buf scopes = {0};
        join(&scopes, json_object_get(token, "scopes"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(token, "id", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", buf_cstr(&scopes));
        table_cell(&t, STYLE_DIM, "%s", json_str(token, "created", ""));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(token, "name", ""));
    }
    table_print(&t);
    return CLI_OK;
}

static json_t *scopes_from(const char *text)
{
    cleanup(str) char *copy = xstrdup(text);
    char *save = NULL;
    json_t *list = json_array();
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save))
        json_array_append_new(list, json_string(word));
    return list;
}

static int token_create(struct cli *cli)
{
    cleanup(json) json_t *request = json_object();
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    const char *scopes = args_or(&cli->args, "scopes", NULL, NULL), *name = args_or(&cli->args, "name", NULL, NULL);
    const char *output = args_or(&cli->args, "output", NULL, NULL);
    if (!scopes)
        return cli_usage(cli, "say what the token may do: --scopes read,submit,admin");
    json_put(request, "scopes", scopes_from(scopes));
    if (name)
        json_put_str(request, "name", name);
    int status = cli_send(cli, "POST", "/v1/tokens", request, NULL, &r);
    if (status)
        return status;
    const char *secret = json_str(r.doc, "token", NULL);
    if (output) {
        cleanup(str) char *line = xfmt("%s\n", secret ? secret : "");
        if (!file_write(output, line, strlen(line), 0600, &err))
            return cli_fail(cli, &err);
        json_object_del(r.doc, "token");
    }
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    term_put(json_str(r.doc, "id", "?"));
    puts("");
    if (output) {
        printf("The secret is in %s; use it with --token-file.\n", output);
        return CLI_OK;
    }
    term_put(secret ? secret : "?");
    puts("\nThe second line is the secret. It is not stored and will not be shown again.");
    return CLI_OK;
}

static int token_revoke(struct cli *cli)
{
    if (cli->args.count < 2)
        return cli_usage(cli, "which token? proteus token revoke ID");
    cleanup(str) char *id = client_escape(cli->args.words[1]);
    cleanup(str) char *path = xfmt("/v1/tokens/%s", id);
    cleanup(reply) struct reply r = {0};
    int status = cli_send(cli, "DELETE", path, NULL, NULL, &r);
    if (status)
        return status;
    if (cli->json && r.doc)
        term_json(r.doc);
    else if (!cli->json)
        puts("revoked");
    return CLI_OK;
}

int cmd_token(struct cli *cli)
{
    static const struct { const char *word; int (*run)(struct cli *cli); } table[] = {
        {"list", token_list}, {"create", token_create}, {"revoke", token_revoke}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(cli->args.words[0], table[i].word))
            return table[i].run(cli);
    return cli_usage(cli, "there is no `token %s`; there are list, create and revoke", cli->args.words[0]);
}
