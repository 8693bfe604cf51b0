/* The file of results: cells in it are done, so that a run can be cut off at any time and go on elsewhere. And the table. */
#include "tests/bench/kernels.h"

#include <math.h>
#include <string.h>

bool results_load(const char *path, json_t **ret, struct err *err)
{
    struct err why = {0};
    if (json_parse_file(path, 64 << 20, ret, &why))
        return true;
    if (why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    *ret = json_object();
    json_put(*ret, "cells", json_array());
    return true;
}

static int index_of(const json_t *results, const char *id)
{
    json_t *cell;
    size_t i;
    json_array_foreach(json_object_get(results, "cells"), i, cell)
        if (strcmp(json_str(cell, "id", ""), id) == 0)
            return (int)i;
    return -1;
}

json_t *results_find(const json_t *results, const char *id)
{
    int at = index_of(results, id);
    return at < 0 ? NULL : json_array_get(json_object_get(results, "cells"), (size_t)at);
}

void results_put(json_t *results, json_t *cell)
{
    json_t *cells = json_object_get(results, "cells");
    int at = index_of(results, json_str(cell, "id", ""));
    if (at >= 0)
        json_array_set(cells, (size_t)at, cell);
    else
        json_array_append(cells, cell);
}

/* ---- the table ---- */

static void us(struct buf *to, double ns, bool estimated)
{
    if (ns > 0)
        buf_fmt(to, " %s%.*f |", estimated ? "~" : "", ns < 10000 ? 2 : 1, ns / 1000);
    else
        buf_str(to, " - |");
}

static void ratio(struct buf *to, double value)
{
    if (value > 0)
        buf_fmt(to, " %.2f |", value);
    else
        buf_str(to, " - |");
}

/* "met", or by how much not. */
static void add_aims(struct buf *to, const json_t *cell)
{
    const json_t *aim;
    size_t i;
    bool met = true;
    json_array_foreach(json_object_get(cell, "aims"), i, aim)
        if (!json_bool(aim, "met", false)) {
            buf_fmt(to, "%s %.2f of %.3g", met ? " **missed**:" : ",", json_num(aim, "got", 0), json_num(aim, "least", 0));
            met = false;
        }
    buf_str(to, !json_array_size(json_object_get(cell, "aims")) ? " - |\n" : met ? " met |\n" : " |\n");
}

static void add_row(struct buf *to, const json_t *cell)
{
    const json_t *speedup = json_object_get(cell, "speedup"), *roofline = json_object_get(cell, "roofline"), *ceiling = json_object_get(roofline, "ceiling");
    bool estimated = strcmp(json_str(cell, "evidence", ""), "measured") != 0;
    double time_ns = json_num(cell, "time_ns", 0), vllm_ns = 1000 * json_num(cell, "vllm_fastest_us", 0);
    cleanup(buf) struct buf degrees = {0};
    const json_t *tp;
    size_t i;
    json_array_foreach(json_object_get(cell, "tp"), i, tp)
        buf_fmt(&degrees, "%s%lld", i ? ", " : "", (long long)json_integer_value(tp));
    buf_fmt(to, "| %s | %s | %lld |", json_str(cell, "name", ""), buf_cstr(&degrees), (long long)json_int(cell, "batch", 0));
    const json_t *timed = json_object_get(cell, "timed");
    const bool judged = json_str(cell, "evidence", NULL) && !json_str(cell, "failed", NULL);
    if (!judged && timed) {
        time_ns = json_num(timed, "ns", 0);
        estimated = false;
        const int places = time_ns < 10000 ? 2 : 1;
        const double baseline_ns = json_num(timed, "baseline_ns", 0);
        buf_fmt(to, " %.*f° |", places, time_ns / 1000);
        if (baseline_ns > 0)
            buf_fmt(to, " %.*f° | %.2f° |", places, baseline_ns / 1000, baseline_ns / time_ns);
        else
            buf_str(to, " - | - |");
    } else if (!judged) {
        buf_fmt(to, " failed: %.120s | | | | | | | | |\n", json_str(cell, "failed", "not done"));
        return;
    } else {
        us(to, time_ns, estimated);
        us(to, json_num(cell, "baseline_ns", 0), estimated);
        if (json_bool(cell, "is_baseline", false))
            buf_str(to, " none beat it |");
        else
            buf_fmt(to, " %.2f [%.2f, %.2f] |", json_num(speedup, "median", 0), json_num(speedup, "low", 0), json_num(speedup, "high", 0));
    }
    us(to, vllm_ns, false);
    ratio(to, !estimated && time_ns > 0 ? vllm_ns / time_ns : 0);
    ratio(to, json_num(cell, "attainable", 0));
    /* The judge's floor is never less than an empty launch; here it is what bytes and operations take. */
    const double floor_ns = fmax(json_num(roofline, "memory_ns", json_num(cell, "floor_ns", 0)), json_num(roofline, "compute_ns", 0));
    us(to, floor_ns, false);
    double fraction = json_num(ceiling, "fraction", time_ns > 0 ? floor_ns / time_ns : 0);
    if (fraction > 0)
        buf_fmt(to, " %s%.*f %% |", estimated ? "~" : "", fraction < 0.02 ? 1 : 0, 100 * fraction);
    else
        buf_str(to, " - |");
    add_aims(to, cell);
}

/* Those that were missed, by numbers. */
static void add_missed(struct buf *to, const json_t *results)
{
    const json_t *cell, *aim;
    size_t i, k;
    int missed = 0, all = 0;
    cleanup(buf) struct buf list = {0};
    json_array_foreach(json_object_get(results, "cells"), i, cell)
        json_array_foreach(json_object_get(cell, "aims"), k, aim) {
            all++;
            if (json_bool(aim, "met", false))
                continue;
            missed++;
            buf_fmt(&list, "- %s: %.3f of %.3g over %s; %s\n", json_str(cell, "id", ""), json_num(aim, "got", 0), json_num(aim, "least", 0),
                    json_str(aim, "over", ""), json_str(aim, "numbers", ""));
        }
    int judged = 0, timed = 0;
    json_array_foreach(json_object_get(results, "cells"), i, cell) {
        const bool is_judged = json_str(cell, "evidence", NULL) && !json_str(cell, "failed", NULL);
        judged += is_judged;
        timed += !is_judged && json_object_get(cell, "timed");
    }
    buf_fmt(to, "\n%d of %zu cells are judged to the retest; %d are timed only (°), %zu neither.\n", judged, i, timed, i - (size_t)(judged + timed));
    if (all)
        buf_fmt(to, "\n## Aims: %d of %d met\n\n%s", all - missed, all, missed ? buf_cstr(&list) : "None was missed.\n");
}

static int by_name(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    const int64_t tp[] = {json_integer_value(json_array_get(json_object_get(x, "tp"), 0)), json_integer_value(json_array_get(json_object_get(y, "tp"), 0))};
    const int names = strcmp(json_str(x, "name", ""), json_str(y, "name", ""));
    if (names)
        return names;
    return tp[0] != tp[1] ? (int)(tp[0] - tp[1]) : (int)(json_int(x, "batch", 0) - json_int(y, "batch", 0));
}

void results_table(const json_t *results, struct buf *to)
{
    const json_t *device = json_object_get(results, "device"), *cell;
    bool estimated = false;
    size_t i;
    json_array_foreach(json_object_get(results, "cells"), i, cell)
        estimated = estimated || strcmp(json_str(cell, "evidence", "measured"), "measured") != 0;
    buf_fmt(to, "# Kernels found by Proteus's template search on %s\n\n", json_str(device, "name", "?"));
    if (estimated)
        buf_str(to, "**Figures with a ~ are the emulator's estimates. Nothing was measured for them.**\n\n");
    buf_fmt(to, "%s\n\n", json_str(results, "what", ""));
    buf_str(to, "| operator | TP | batch | Proteus us | baseline us | speed-up | vLLM us | over vLLM | attainable | floor us | of the roofline | aims |\n"
                "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    const size_t count = json_array_size(json_object_get(results, "cells"));
    cleanup(mem) void *memory = xarray(count + 1, sizeof(json_t *));
    json_t **rows = memory;
    for (i = 0; i < count; i++)
        rows[i] = json_array_get(json_object_get(results, "cells"), i);
    qsort(rows, count, sizeof *rows, by_name);
    for (i = 0; i < count; i++)
        add_row(to, rows[i]);
    add_missed(to, results);
}

/* ---- writing ---- */

static void add_lines(struct buf *to, const json_t *results)
{
    const char *key;
    json_t *value, *cell;
    size_t i;
    buf_str(to, "{\n");
    json_object_foreach((json_t *)(uintptr_t)results, key, value) {
        cleanup(str) char *text = strcmp(key, "cells") != 0 ? json_text(value) : NULL;
        if (text)
            buf_fmt(to, " \"%s\": %s,\n", key, text);
    }
    buf_str(to, " \"cells\": [");
    json_array_foreach(json_object_get(results, "cells"), i, cell) {
        cleanup(str) char *text = json_text(cell);
        buf_fmt(to, "%s\n  %s", i ? "," : "", text);
    }
    buf_str(to, "\n ]\n}\n");
}

bool results_save(const char *path, const json_t *results, struct err *err)
{
    cleanup(buf) struct buf text = {0}, table = {0};
    size_t stem = strlen(path);
    if (stem < 6 || strcmp(path + stem - 5, ".json") != 0)
        return err_set(err, ERR_INVALID, "%s: the results are a .json", path);
    cleanup(str) char *beside = xfmt("%.*s.md", (int)stem - 5, path);
    add_lines(&text, results);
    results_table(results, &table);
    return file_write(path, text.data, text.size, 0644, err) && file_write(beside, table.data, table.size, 0644, err);
}
