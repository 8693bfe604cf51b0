/* Shapes as people type them: only the form is looked at here; what the numbers may be is the service's business. */
#include "api/cli/cli.h"

#include <errno.h>
#include <string.h>

#define TEXT_LIMIT_BYTES ((size_t)64 << 20)

#define SHAPE_OPTIONS                                                                                  \
    {"op", "NAME", "the operator (`proteus ops` lists them)"},                                         \
    {"axes", "B=4,H=2,...", "the value of each axis; those with a default may be left out"},           \
    {"dtype", "LETTER=TYPE,...", "dtypes, e.g. state=f32; the operator's first choice otherwise"},     \
    {"target", "SM", "e.g. sm_90a; the first device's otherwise"}

const struct option_spec shape_options[] = {SHAPE_OPTIONS, {"shape", "FILE", "a shape as JSON instead (- is stdin)"}, {0}};

bool pairs_add(json_t *to, const char *text, bool integers, struct err *err)
{
    cleanup(str) char *copy = xstrdup(text);
    char *save = NULL;
    for (char *word = strtok_r(copy, ", ", &save); word; word = strtok_r(NULL, ", ", &save)) {
        char *equals = strchr(word, '='), *end = NULL;
        if (!equals || equals == word || !equals[1])
            return err_set(err, ERR_INVALID, "\"%s\" is not of the form NAME=VALUE", word);
        *equals = 0;
        if (json_object_get(to, word))
            return err_set(err, ERR_INVALID, "%s is given twice", word);
        if (!integers) {
            json_put_str(to, word, equals + 1);
            continue;
        }
        errno = 0;
        long long v = strtoll(equals + 1, &end, 10);
        if (errno || *end)
            return err_set(err, ERR_INVALID, "%s=%s: the value of an axis is a whole number", word, equals + 1);
        json_put_int(to, word, v);
    }
    return json_object_size(to) || err_set(err, ERR_INVALID, "\"%s\" holds no NAME=VALUE", text);
}

bool text_read(const char *path, struct buf *ret, struct err *err)
{
    if (strcmp(path, "-") != 0)
        return file_read(path, TEXT_LIMIT_BYTES, ret, err);
    for (char piece[4096];;) {
        size_t n = fread(piece, 1, sizeof piece, stdin);
        if (!n)
            return ferror(stdin) ? err_set(err, ERR_NOT_FOUND, "stdin cannot be read") : true;
        if (ret->size + n > TEXT_LIMIT_BYTES)
            return err_set(err, ERR_INVALID, "stdin gives more than 64 MiB");
        buf_add(ret, piece, n);
    }
}

static json_t *shape_from_file(const struct cli *cli, const char *path, int *ret_exit)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    json_t *doc = NULL;
    if (!text_read(path, &text, &err) || !json_parse(buf_cstr(&text), text.size, &doc, &err)) {
        *ret_exit = cli_fail(cli, &err);
        return NULL;
    }
    return doc;
}

json_t *shape_from_args(const struct cli *cli, int n, int *ret_exit)
{
    const char *file = args_or(&cli->args, "shape", NULL, NULL), *op = args_or(&cli->args, "op", NULL, NULL);
    const char *axes = args_get(&cli->args, "axes", n), *target = args_or(&cli->args, "target", NULL, NULL);
    struct err err = {0};
    if (file)
        return shape_from_file(cli, file, ret_exit);
    if (!op || !axes) {
        *ret_exit = cli_usage(cli, "a shape needs --op NAME and --axes NAME=VALUE,...");
        return NULL;
    }
    cleanup(json) json_t *shape = json_object(), *values = json_object(), *dtypes = json_object();
    bool ok = pairs_add(values, axes, true, &err);
    for (int i = 0; ok && args_get(&cli->args, "dtype", i); i++)
        ok = pairs_add(dtypes, args_get(&cli->args, "dtype", i), false, &err);
    if (!ok) {
        *ret_exit = cli_usage(cli, "%s", err.text);
        return NULL;
    }
    json_put_str(shape, "op", op);
    json_put(shape, "axes", json_incref(values));
    if (json_object_size(dtypes))
        json_put(shape, "dtypes", json_incref(dtypes));
    if (target)
        json_put_str(shape, "target", target);
    return json_incref(shape);
}

int cmd_hash(struct cli *cli)
{
    int status = CLI_OK;
    cleanup(json) json_t *shape = shape_from_args(cli, 0, &status);
    cleanup(reply) struct reply r = {0};
    if (!shape || (status = cli_send(cli, "POST", "/v1/shape-hash", shape, NULL, &r)))
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    cleanup(buf) struct buf canonical = {0};
    const char *text = json_str(r.doc, "canonical", "");
    cleanup(str) char *lines = xstrndup(text, strlen(text) - (*text && text[strlen(text) - 1] == '\n'));
    term_clean_block(&canonical, lines, 8000, "  ");
    term_put(json_str(r.doc, "shape_hash", ""));
    printf("\n\nBLAKE2b-256 of these lines, each ended by a newline:\n%s\n", buf_cstr(&canonical));
    return CLI_OK;
}
