/* observe: shapes from the field, with their counts. A long file goes in pieces; counts add up, so a piece that is sent twice counts twice. */
#include "api/cli/cli.h"

#include <string.h>

#define PIECE_BYTES ((size_t)1 << 20)
#define PIECE_LINES 5000

const struct option_spec observe_options[] = {
    {"op", "NAME", "of this operator only (without a file)"},
    {"limit", "N", "entries (20; without a file)"},
    {"forget", NULL, "forget all that was observed (admin scope)"},
    {0}};

/* Whole lines from `at`, as many as one request takes. A line that is too long goes alone, and is the service's to refuse. */
static size_t piece_at(const char *at, size_t left)
{
    size_t size = 0;
    for (int lines = 0; size < left && lines < PIECE_LINES; lines++) {
        const char *stop = memchr(at + size, '\n', left - size);
        size_t next = stop ? (size_t)(stop - at) + 1 : left;
        if (next > PIECE_BYTES && size)
            break;
        size = next;
    }
    return size;
}

static void add_up(json_t *sum, const json_t *doc, int64_t lines_before)
{
    static const char *const keys[] = {"lines", "taken", "new", "skipped"};
    const json_t *told = json_object_get(doc, "skipped_because");
    json_t *one;
    size_t i;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        json_put_int(sum, keys[i], json_int(sum, keys[i], 0) + json_int(doc, keys[i], 0));
    json_array_foreach(told, i, one) {
        json_put_int(one, "line", json_int(one, "line", 0) + lines_before);
        json_array_append(json_object_get(sum, "skipped_because"), one);
    }
}

static int send_piece(const struct cli *cli, const char *text, struct reply *r)
{
    struct err err = {0};
    if (!client_post(&cli->client, "POST", "/v1/observations", text, "application/x-ndjson", NULL, CLIENT_MAX_JSON_BYTES, r, &err))
        return cli_fail(cli, &err);
    if (r->status / 100 != 2)
        return cli_problem(cli, r);
    if (r->doc)
        return CLI_OK;
    err_set(&err, ERR_UPSTREAM, "%s did not answer with JSON: is it a Proteus service?", cli->client.server);
    return cli_fail(cli, &err);
}

static int import(struct cli *cli)
{
    cleanup(buf) struct buf text = {0};
    cleanup(json) json_t *sum = json_pack("{s:[]}", "skipped_because");
    struct err err = {0};
    if (!text_read(cli->args.words[0], &text, &err))
        return cli_fail(cli, &err);
    for (size_t at = 0, size; at < text.size; at += size) {
        size = piece_at(text.data + at, text.size - at);
        cleanup(str) char *piece = xstrndup(text.data + at, size);
        cleanup(reply) struct reply r = {0};
        int64_t before = json_int(sum, "lines", 0);
        int status = send_piece(cli, piece, &r);
        if (status) {
            if (before)
                fprintf(stderr, "  the first %lld lines were taken\n", (long long)before);
            return status;
        }
        add_up(sum, r.doc, before);
    }
    if (cli->json) {
        term_json(sum);
        return CLI_OK;
    }
    printf("%lld lines: %lld taken, %lld shapes not seen before, %lld left out\n", (long long)json_int(sum, "lines", 0),
           (long long)json_int(sum, "taken", 0), (long long)json_int(sum, "new", 0), (long long)json_int(sum, "skipped", 0));
    const json_t *told;
    size_t i;
    json_array_foreach(json_object_get(sum, "skipped_because"), i, told) {
        printf("  line %lld: ", (long long)json_int(told, "line", 0));
        term_put(json_str(told, "detail", ""));
        puts("");
    }
    return CLI_OK;
}

static const char *basis_word(const json_t *order)
{
    static const struct { const char *name, *word; } table[] = {
        {"measured", "measured"}, {"estimate", "estimate"}, {"nearby_estimate", "one close by"}, {"byte_floor", "its bytes alone"}, {"nothing", "nothing known"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(json_str(order, "based_on", ""), table[i].name))
            return table[i].word;
    return "-";
}

/* "2.000 s", "46.6 ms": what many launches would save together. */
static void saving_text(struct buf *to, double ns)
{
    static const struct { double least; const char *format, *unit; } table[] = {{1e9, "%.3f", "s"}, {1e6, "%.1f", "ms"}, {0, "%.1f", "us"}};
    size_t i = 0;
    while (ns < table[i].least)
        i++;
    buf_fmt(to, table[i].format, ns / (table[i].least > 0 ? table[i].least : 1e3));
    buf_fmt(to, " %s", table[i].unit);
}

static int show(struct cli *cli)
{
    const char *op = args_or(&cli->args, "op", NULL, NULL);
    int64_t limit = 20;
    struct err err = {0};
    if (!args_int(&cli->args, "limit", 1, &limit, &err))
        return cli_usage(cli, "%s", err.text);
    cleanup(str) char *escaped = op ? client_escape(op) : NULL;
    cleanup(str) char *path = xfmt("/v1/observations?limit=%lld%s%s", (long long)limit, op ? "&op=" : "", op ? escaped : "");
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *entry;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "SHAPE HASH|OPERATOR|>COUNT|>WOULD SAVE|BASED ON|KERNEL|AXES", &heads);
    json_array_foreach(json_object_get(r.doc, "observations"), i, entry) {
        const json_t *shape = json_object_get(entry, "shape"), *order = json_object_get(entry, "order"), *kernel = json_object_get(entry, "kernel");
        cleanup(buf) struct buf axes = {0}, saving = {0};
        double ns = json_num(order, "saving_ns", 0);
        bool measured = !strcmp(json_str(order, "based_on", ""), "measured");
        saving_text(&saving, ns > 0 ? ns : 0);
        axes_text(&axes, json_object_get(shape, "axes"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(entry, "shape_hash", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "op", "?"));
        table_cell(&t, STYLE_PLAIN, "%lld", (long long)json_int(entry, "count", 0));
        table_cell(&t, STYLE_PLAIN, "%s%s", measured ? "" : "~", buf_cstr(&saving));
        table_cell(&t, STYLE_PLAIN, "%s", basis_word(order));
        table_cell(&t, STYLE_PLAIN, "%s", json_is_object(kernel) ? evidence_word(kernel) : "none");
        table_cell(&t, STYLE_DIM, "%s", buf_cstr(&axes));
    }
    table_print(&t);
    return CLI_OK;
}

int cmd_observe(struct cli *cli)
{
    if (args_has(&cli->args, "forget")) {
        cleanup(reply) struct reply r = {0};
        int status = cli_send(cli, "DELETE", "/v1/observations", NULL, NULL, &r);
        if (!status && cli->json)
            term_json(r.doc);
        else if (!status)
            printf("%lld observed shapes are forgotten\n", (long long)json_int(r.doc, "forgotten", 0));
        return status;
    }
    return cli->args.count ? import(cli) : show(cli);
}
