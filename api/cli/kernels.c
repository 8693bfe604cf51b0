/* kernels, key. */
#include "api/cli/cli.h"

#include <string.h>

const struct option_spec kernels_options[] = {
    {"op", "NAME", "of this operator only"},
    {"target", "SM", "for this target only"},
    {"evidence", "measured|emulated", "with this evidence only"},
    {"limit", "N", "entries a page (20)"},
    {"cursor", "CURSOR", "go on where the page before ended"},
    {0}};
const struct option_spec key_options[] = {{"output", "FILE", "write it there"}, {0}};

/* Whose baseline a kernel was compared with, in a word. */
static const char *kernel_over(const json_t *k)
{
    const char *of = json_str(k, "baseline_of", "");
    if (json_str(k, "own_baseline", NULL))
        return "a job's";
    return json_bool(k, "is_baseline", false) ? "itself" : !strcmp(of, "operator") ? "operator's" : *of ? "another" : "-";
}

static void print_kernels(const json_t *list)
{
    const json_t *k;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "SHAPE HASH|OPERATOR|TARGET|>SPEED-UP|>TIME|EVIDENCE|OVER|AXES", &heads);
    json_array_foreach(list, i, k) {
        const json_t *shape = json_object_get(k, "shape");
        cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
        axes_text(&axes, json_object_get(shape, "axes"));
        speedup_text(&speedup, doc_speedup(k));
        time_text(&time, k);
        table_cell(&t, STYLE_PLAIN, "%s", json_str(k, "shape_hash", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "op", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "target", "?"));
        table_cell(&t, STYLE_GOOD, "%s", buf_cstr(&speedup));
        table_cell(&t, STYLE_PLAIN, "%s", time.size ? buf_cstr(&time) : "-");
        table_cell(&t, STYLE_PLAIN, "%s", evidence_word(k));
        table_cell(&t, STYLE_DIM, "%s", kernel_over(k));
        table_cell(&t, STYLE_DIM, "%s", buf_cstr(&axes));
    }
    table_print(&t);
}

static void print_pair(const char *name, const char *text)
{
    if (!text || !*text)
        return;
    printf("  %s%-24s%s ", style_on(STYLE_DIM), name, style_off());
    term_put(text);
    puts("");
}

static int kernel_show(struct cli *cli)
{
    cleanup(str) char *hash = client_escape(cli->args.words[0]), *path = xfmt("/v1/kernels/%s", hash);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return r.status == 404 || r.status == 410 ? CLI_NO : status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *shape = json_object_get(r.doc, "shape"), *digests = json_object_get(r.doc, "digests"), *digest;
    cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
    const char *name;
    axes_text(&axes, json_object_get(shape, "axes"));
    speedup_text(&speedup, doc_speedup(r.doc));
    time_text(&time, r.doc);
    print_pair("operator", json_str(shape, "op", NULL));
    print_pair("axes", buf_cstr(&axes));
    print_pair("target", json_str(shape, "target", NULL));
    print_pair("evidence", evidence_word(r.doc));
    print_pair("speed-up", buf_cstr(&speedup));
    print_pair("over the baseline", kernel_over(r.doc));
    print_pair("time", buf_cstr(&time));
    json_object_foreach((json_t *)digests, name, digest)
        print_pair(name, json_string_value(digest));
    return CLI_OK;
}

int cmd_kernels(struct cli *cli)
{
    if (cli->args.count)
        return kernel_show(cli);
    static const char *const filters[] = {"op", "target", "evidence", "cursor"};
    int64_t limit = 20;
    struct err err = {0};
    cleanup(buf) struct buf path = {0};
    if (!args_int(&cli->args, "limit", 1, &limit, &err))
        return cli_usage(cli, "%s", err.text);
    buf_fmt(&path, "/v1/kernels?limit=%lld", (long long)limit);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        const char *value = args_or(&cli->args, filters[i], NULL, NULL);
        cleanup(str) char *escaped = value ? client_escape(value) : NULL;
        if (value)
            buf_fmt(&path, "&%s=%s", filters[i], escaped);
    }
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, buf_cstr(&path), &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    print_kernels(json_object_get(r.doc, "kernels"));
    if (json_str(r.doc, "next", NULL)) {
        fputs("\nmore: proteus kernels --cursor ", stdout);
        term_put(json_str(r.doc, "next", NULL));
        puts("");
    }
    return CLI_OK;
}

int cmd_key(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    const char *output = args_or(&cli->args, "output", NULL, NULL);
    int status = cli_file(cli, "/v1/signing-key", &r);
    if (status)
        return status;
    if (output && !file_write(output, buf_cstr(&r.body), r.body.size, 0644, &err))
        return cli_fail(cli, &err);
    cleanup(buf) struct buf clean = {0};
    term_clean_block(&clean, buf_cstr(&r.body), 1000, "");
    fputs(buf_cstr(&clean), stdout);
    return CLI_OK;
}
