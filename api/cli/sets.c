/* sets: a model's decode step, by preset. */
#include "api/cli/cli.h"

#include <errno.h>
#include <string.h>

const struct option_spec sets_options[] = {
    {"tp", "N[,N...]", "degrees of tensor parallelism (1)"},
    {"batch", "N[,N...]", "batches (1)"},
    {"target", "SM", "e.g. sm_90a; the first device's otherwise"},
    {"evidence", "measured|emulated", "with this evidence only"},
    {0}};

/* "1,2,4" as numbers; whether the model runs at them is the service's business. */
static bool numbers_add(json_t *to, const char *name, const char *text, struct err *err)
{
    cleanup(str) char *copy = xstrdup(text);
    char *rest = copy;
    json_t *list = json_array();
    json_put(to, name, list);
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        char *end = NULL;
        errno = 0;
        long long v = strtoll(word, &end, 10);
        end += strspn(end, " ");
        if (errno || *end || v < 1)       /* 1,,2 has no number between its commas */
            return err_set(err, ERR_INVALID, "--%s wants whole numbers such as 1,2,4, not \"%s\"", name, text);
        json_array_append_new(list, json_integer(v));
    }
    return true;
}

json_t *model_from_args(const struct cli *cli, const char *preset, int *ret_exit)
{
    static const char *const lists[] = {"tp", "batch"};
    cleanup(json) json_t *doc = json_object();
    struct err err = {0};
    json_put_str(doc, "preset", preset);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const char *text = args_or(&cli->args, lists[i], NULL, NULL);
        if (text && !numbers_add(doc, lists[i], text, &err)) {
            *ret_exit = cli_usage(cli, "%s", err.text);
            return NULL;
        }
    }
    return json_incref(doc);
}

static void add_rows(struct table *t, const json_t *list, bool found)
{
    const json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry) {
        const json_t *kernel = json_object_get(entry, "kernel"), *shape = json_object_get(entry, "shape");
        cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
        axes_text(&axes, json_object_get(shape, "axes"));
        speedup_text(&speedup, doc_speedup(kernel));
        time_text(&time, kernel);
        table_cell(t, STYLE_PLAIN, "%s", json_str(entry, "shape_hash", "?"));
        table_cell(t, STYLE_PLAIN, "%s", json_str(shape, "op", "?"));
        table_cell(t, STYLE_PLAIN, "%lld", (long long)json_int(entry, "count", 0));
        table_cell(t, found ? STYLE_GOOD : STYLE_WARN, "%s", found ? buf_cstr(&speedup) : "missing");
        table_cell(t, STYLE_PLAIN, "%s", time.size ? buf_cstr(&time) : "-");
        table_cell(t, STYLE_PLAIN, "%s", found ? evidence_word(kernel) : "-");
        table_cell(t, STYLE_DIM, "%s", buf_cstr(&axes));
    }
}

static void print_set(const json_t *doc)
{
    const json_t *kernels = json_object_get(doc, "kernels"), *missing = json_object_get(doc, "missing");
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "SHAPE HASH|OPERATOR|>A STEP|>SPEED-UP|>TIME|EVIDENCE|AXES", &heads);
    add_rows(&t, kernels, true);
    add_rows(&t, missing, false);
    table_print(&t);
    printf("\n%zu of %zu shapes have a kernel\n", json_array_size(kernels), json_array_size(kernels) + json_array_size(missing));
}

static void print_presets(const json_t *list)
{
    const json_t *preset, *number;
    size_t i, k;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "PRESET|TP|>BATCH UP TO|WHAT", &heads);
    json_array_foreach(list, i, preset) {
        cleanup(buf) struct buf tp = {0};
        json_array_foreach(json_object_get(preset, "tp"), k, number)
            buf_fmt(&tp, "%s%lld", k ? "," : "", (long long)json_integer_value(number));
        const char *what = json_str(preset, "description", ""), *stop = strstr(what, ". ");
        table_cell(&t, STYLE_ACCENT, "%s", json_str(preset, "name", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", buf_cstr(&tp));
        table_cell(&t, STYLE_PLAIN, "%lld", (long long)json_int(preset, "batch_max", 0));
        table_cell(&t, STYLE_PLAIN, "%.*s", stop ? (int)(stop - what + 1) : (int)strlen(what), what);
    }
    table_print(&t);
}

int cmd_sets(struct cli *cli)
{
    static const char *const queries[] = {"tp", "batch", "target", "evidence"};
    cleanup(buf) struct buf path = {0};
    cleanup(reply) struct reply r = {0};
    cleanup(str) char *name = cli->args.count ? client_escape(cli->args.words[0]) : NULL;
    if (name)
        buf_fmt(&path, "/v1/sets/%s", name);
    else
        buf_str(&path, "/v1/presets");
    for (size_t i = 0, n = 0; i < sizeof queries / sizeof *queries; i++) {
        const char *value = args_or(&cli->args, queries[i], NULL, NULL);
        cleanup(str) char *escaped = value ? client_escape(value) : NULL;
        if (value)
            buf_fmt(&path, "%c%s=%s", n++ ? '&' : '?', queries[i], escaped);
    }
    int status = cli_get(cli, buf_cstr(&path), &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else if (name)
        print_set(r.doc);
    else
        print_presets(json_object_get(r.doc, "presets"));
    return !name || json_bool(r.doc, "complete", false) ? CLI_OK : CLI_NO;
}
