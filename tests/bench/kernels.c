/*
 * The bookkeeping of scripts/bench-kernels.sh: which cells are to do, what came of one, many files as one. It judges nothing: every
 * figure is one that the service gave, with its evidence.
 */
#include "tests/bench/kernels.h"

#include "core/clock.h"

#include <string.h>

static const char what[] =
    "Time of one launch of the whole plan by the retest; baseline: the operator's, in the same run, pairwise; speed-up: their ratio with its "
    "99 % interval. The mode is graph-rotated: calls with other buffers each in one CUDA graph, what vLLM's file calls cold. vLLM us: the fastest "
    "of its rows for this work, measured elsewhere on an H200 (tests/bench/baselines). Attainable: the speed-up over vLLM of a hand-written kernel there. "
    "Floor: the least bytes and operations at the card's data sheet; of the roofline: against what this card's own copy reached, where it was "
    "measured. Figures with a degree sign were timed only, not judged in this run: the fastest of the settings that bench_settings timed there, "
    "and the baseline beside them. Aims: kernels.json.";

/* Whether the id holds one of "a|b|c". */
static bool is_wanted(const char *id, const char *patterns)
{
    cleanup(str) char *copy = xstrdup(patterns);
    char *save = NULL;
    for (char *one = strtok_r(copy, "|", &save); one; one = strtok_r(NULL, "|", &save))
        if (strstr(id, one))
            return true;
    return false;
}

/* list SHARE BENCH K/N RESULTS [PATTERN]: a line for each cell of the shard that was not judged yet: ID, operator, axes, dtypes, hash. */
static bool list(char **args, int count, struct err *err)
{
    cleanup(cells) struct cells c = {0};
    cleanup(json) json_t *results = NULL;
    int k = 0, n = 0;
    if (sscanf(args[2], "%d/%d", &k, &n) != 2 || n < 1 || k < 1 || k > n)
        return err_set(err, ERR_INVALID, "\"%s\" is no shard: 2/3 is the second of three", args[2]);
    if (!cells_load(args[0], args[1], &c, err) || !results_load(args[3], &results, err))
        return false;
    for (int i = 0, place = 0; i < c.count; i++) {
        const struct cell *cell = &c.list[i];
        const json_t *done = results_find(results, cell->id);
        if (count > 4 && !is_wanted(cell->id, args[4]))
            continue;
        if (place++ % n != k - 1 || (json_str(done, "evidence", NULL) && !json_str(done, "failed", NULL)))
            continue;
        printf("%s\t%s\t", cell->id, cell->shape.op->name);
        bool first = true;
        for (int a = 0; a < cell->shape.op->axis_count; a++)
            if (cell->shape.op->axes[a].keyed && !cell->shape.op->axes[a].is_const) {
                printf("%s%s=%lld", first ? "" : ",", cell->shape.op->axes[a].name, (long long)cell->shape.axes[a]);
                first = false;
            }
        for (int l = 0; l < cell->shape.op->letter_count; l++)
            printf("%s%s=%s", l ? "," : "\t", cell->shape.op->letters[l].name, dtype_name(cell->shape.dtypes[l]));
        printf("\t%s\n", cell->hash);
    }
    return true;
}

/* The device that figures of this evidence come from. */
static const json_t *device_for(const json_t *devices, bool measured)
{
    const json_t *device;
    size_t i;
    json_array_foreach(json_object_get(devices, "devices"), i, device)
        if ((strcmp(json_str(device, "kind", ""), "cuda") == 0) == measured)
            return device;
    return NULL;
}

static void copy(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(from, *keys))
            json_object_set(to, *keys, json_object_get(from, *keys));
}

static json_t *cell_head(const struct cells *c, const struct cell *cell)
{
    cleanup(json) json_t *shape = shape_encode(&cell->shape), *others = cell_others(c, cell);
    json_t *doc = json_object(), *tp = json_array();
    json_put_str(doc, "id", cell->id);
    json_put_str(doc, "name", json_str(cell->from, "name", ""));
    json_put(doc, "tp", tp);
    for (int i = 0; i < cell->tp_count; i++)
        json_array_append_new(tp, json_integer(cell->tp[i]));
    json_put_int(doc, "batch", cell->batch);
    json_put(doc, "shape", json_incref(shape));
    json_put_str(doc, "shape_hash", cell->hash);
    json_object_update(doc, others);
    return doc;
}

/* What the job and its best candidate say. The figures are those of the candidate's last judgement: the retest, of a baseline its own. */
static void put_figures(json_t *doc, const json_t *job, const json_t *candidate)
{
    static const char *const figures[] = {"evidence", "mode", "time_ns", "baseline_ns", "speedup", "decision", "roofline", "resources", NULL};
    static const char *const record[] = {"is_baseline", "origin", NULL}, *const modes[] = {"modes", NULL}, *const costs[] = {"gpu_ns", "judge_wall_ns", NULL};
    const json_t *shape = json_array_get(json_object_get(job, "shapes"), 0), *spent = json_object_get(job, "spent");
    copy(doc, json_object_get(candidate, "figures"), figures);
    copy(doc, candidate, record);
    copy(doc, json_object_get(candidate, "figures"), modes);
    copy(doc, json_object_get(candidate, "figures"), costs);
    json_put_str(doc, "candidate_digest", json_str(json_object_get(json_object_get(candidate, "artifacts"), "source"), "digest", ""));
    json_put(doc, "spent", spent ? json_incref((json_t *)(uintptr_t)spent) : json_null());
    json_put_str(doc, "why_ended", json_str(shape, "why_ended", ""));
}

static bool put_refused(json_t *doc, const char *path, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    if (!file_read(path, 64 << 10, &text, err))
        return false;
    if (text.size)
        json_put_str(doc, "refused", buf_cstr(&text));
    return true;
}

static const struct cell *cell_by_id(const struct cells *c, const char *id)
{
    for (int i = 0; i < c->count; i++)
        if (strcmp(c->list[i].id, id) == 0)
            return &c->list[i];
    return NULL;
}

/* What the figure that counts, the judged one where there is one, is held against. */
static bool put_aims(const struct cells *c, const struct cell *cell, json_t *doc, const char *device, struct err *err)
{
    const json_t *timed = json_object_get(doc, "timed");
    const bool judged = strcmp(json_str(doc, "evidence", ""), "measured") == 0 && !json_str(doc, "failed", NULL);
    double time_ns = judged ? json_num(doc, "time_ns", 0) : json_num(timed, "ns", 0);
    cleanup(json) json_t *aims = NULL;
    json_object_del(doc, "aims");
    json_put_num(doc, "floor_ns", cell_floor_ns(c, cell, device));
    if (!(time_ns > 0))
        return true;
    if (!cell_aims(c, cell, time_ns, device, &aims, err))
        return false;
    if (json_array_size(aims))
        json_put(doc, "aims", json_incref(aims));
    return true;
}

/*
 * timed SHARE BENCH RESULTS TIMES: puts what bench_settings timed beside what was judged, and instead of it where nothing was. Every cell is
 * in the file then; one that was neither says so.
 */
static bool timed(char **args, int count, struct err *err)
{
    cleanup(cells) struct cells c = {0};
    cleanup(json) json_t *results = NULL, *all = NULL;
    (void)count;
    if (!cells_load(args[0], args[1], &c, err) || !results_load(args[2], &results, err) || !times_load(args[3], &all, err))
        return false;
    json_put_str(results, "what", what);
    for (int i = 0; i < c.count; i++) {
        json_t *time = times_of_cell(&c, all, &c.list[i]), *doc = results_find(results, c.list[i].id);
        if (!time && doc)
            continue;
        if (doc)
            json_incref(doc);
        else
            doc = cell_head(&c, &c.list[i]);
        cleanup(json) json_t *mine = doc;
        cleanup(str) char *device = xstrdup(json_str(time ? time : json_object_get(results, "device"), time ? "device" : "name", ""));
        if (time)
            json_put(doc, "timed", time);
        else
            json_put_str(doc, "failed", "neither judged nor timed");
        if (!put_aims(&c, &c.list[i], doc, device, err))
            return false;
        results_put(results, doc);
    }
    return results_save(args[2], results, err);
}

/* settings OUT TIMES...: files of bench_settings as one; seeds SHARE BENCH OUT TIMES: the fastest of it, to be tried first. */
static bool settings(char **args, int count, struct err *err)
{
    return times_merge(args[0], args + 1, count - 1, err);
}

static bool seeds(char **args, int count, struct err *err)
{
    cleanup(cells) struct cells c = {0};
    cleanup(json) json_t *all = NULL;
    (void)count;
    return cells_load(args[0], args[1], &c, err) && times_load(args[3], &all, err) && times_seeds(&c, args[2], all, err);
}

/*
 * record SHARE BENCH RESULTS ID DEVICES JOB [CANDIDATE [REFUSED]]: without a candidate the cell has failed, and the job says why. REFUSED: a file
 * with what was said of candidates where the baseline stayed best.
 */
static bool record(char **args, int count, struct err *err)
{
    cleanup(cells) struct cells c = {0};
    cleanup(json) json_t *results = NULL, *devices = NULL, *job = NULL, *candidate = NULL, *doc = NULL;
    if (!cells_load(args[0], args[1], &c, err) || !results_load(args[2], &results, err) || !json_parse_file(args[4], 4 << 20, &devices, err) ||
        !json_parse_file(args[5], 64 << 20, &job, err) || (count > 6 && !json_parse_file(args[6], 64 << 20, &candidate, err)))
        return false;
    const struct cell *cell = cell_by_id(&c, args[3]);
    if (!cell)
        return err_set(err, ERR_NOT_FOUND, "there is no cell \"%s\"", args[3]);
    doc = cell_head(&c, cell);
    if (json_object_get(results_find(results, args[3]), "timed"))
        json_put(doc, "timed", json_incref(json_object_get(results_find(results, args[3]), "timed")));
    const json_t *shape = json_array_get(json_object_get(job, "shapes"), 0);
    if (candidate && strcmp(json_str(shape, "shape_hash", ""), json_str(doc, "shape_hash", "-")) != 0)
        return err_set(err, ERR_INVALID, "the job is of another shape than the cell \"%s\"", args[3]);
    if (candidate)
        put_figures(doc, job, candidate);
    else
        json_put_str(doc, "failed", json_str(json_object_get(job, "error"), "text", json_str(shape, "why_ended", "no answer")));
    if (count > 7 && !put_refused(doc, args[7], err))
        return false;
    json_put_str(doc, "date", clock_text(clock_wall_ns()).text);
    const json_t *device = device_for(devices, strcmp(json_str(doc, "evidence", ""), "measured") == 0);
    const char *mine = json_str(device, "name", ""), *theirs = json_str(json_object_get(results, "device"), "name", mine);
    if (candidate && strcmp(mine, theirs) != 0)
        return err_set(err, ERR_CONFLICT, "%s has figures of \"%s\"; those of \"%s\" belong elsewhere", args[2], theirs, mine);
    json_put_str(results, "what", what);
    if (candidate) {
        json_put(results, "device", device ? json_incref((json_t *)(uintptr_t)device) : json_null());
        json_put(results, "toolkit", json_incref(json_object_get(devices, "toolkit")));
    }
    if (!put_aims(&c, cell, doc, mine, err))
        return false;
    results_put(results, doc);
    if (!results_save(args[2], results, err))
        return false;
    printf("%s: %s\n", args[3], candidate ? json_str(doc, "evidence", "?") : json_str(doc, "failed", ""));
    return true;
}

static bool is_judged(const json_t *cell)
{
    return json_str(cell, "evidence", NULL) && !json_str(cell, "failed", NULL);
}

/* merge OUT RESULTS...: shards of one device as one file; a later file's cell replaces an earlier one's unless only that was judged. */
static bool merge(char **args, int count, struct err *err)
{
    cleanup(json) json_t *all = NULL;
    for (int i = 1; i < count; i++) {
        cleanup(json) json_t *one = NULL;
        json_t *cell;
        size_t k;
        if (!json_parse_file(args[i], 64 << 20, &one, err))
            return false;
        if (!all) {
            all = json_incref(one);
            continue;
        }
        if (strcmp(json_str(json_object_get(all, "device"), "name", ""), json_str(json_object_get(one, "device"), "name", "")) != 0)
            return err_set(err, ERR_CONFLICT, "%s is of another device than %s", args[i], args[1]);
        json_array_foreach(json_object_get(one, "cells"), k, cell)
            if (is_judged(cell) || !is_judged(results_find(all, json_str(cell, "id", ""))))
                results_put(all, cell);
    }
    return results_save(args[0], all, err);
}

/* table RESULTS: the markdown. */
static bool table(char **args, int count, struct err *err)
{
    (void)count;
    cleanup(json) json_t *results = NULL;
    cleanup(buf) struct buf text = {0};
    if (!json_parse_file(args[0], 64 << 20, &results, err))
        return false;
    results_table(results, &text);
    fputs(buf_cstr(&text), stdout);
    return true;
}

/* judged RESULTS: how many cells of it were. */
static bool judged(char **args, int count, struct err *err)
{
    cleanup(json) json_t *results = NULL;
    const json_t *cell;
    size_t i;
    int n = 0;
    (void)count;
    if (!json_parse_file(args[0], 64 << 20, &results, err))
        return false;
    json_array_foreach(json_object_get(results, "cells"), i, cell)
        n += is_judged(cell);
    printf("%d\n", n);
    return true;
}

/* field FILE POINTER...: the text or number at /a/0/b of a JSON file, each on a line; an empty line where it is not. */
static bool field(char **args, int count, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    if (!json_parse_file(args[0], 64 << 20, &doc, err))
        return false;
    for (int i = 1; i < count; i++) {
        cleanup(str) char *path = xstrdup(args[i]);
        const json_t *at = doc;
        char *save = NULL;
        for (char *word = strtok_r(path, "/", &save); word; word = strtok_r(NULL, "/", &save))
            at = json_is_array(at) ? json_array_get(at, (size_t)strtoul(word, NULL, 10)) : json_object_get(at, word);
        cleanup(str) char *text = at && !json_is_string(at) && !json_is_null(at) ? json_text(at) : NULL;
        puts(text ? text : json_is_string(at) ? json_string_value(at) : "");
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; int least, most; bool (*run)(char **args, int count, struct err *err); } table_of[] = {
        {"list", 4, 5, list}, {"record", 6, 8, record}, {"merge", 2, 1000, merge}, {"table", 1, 1, table}, {"judged", 1, 1, judged}, {"field", 2, 100, field},
        {"settings", 2, 1000, settings}, {"seeds", 4, 4, seeds}, {"timed", 4, 4, timed}};
    struct err err = {0};
    hash_init();
    for (size_t i = 0; argc > 1 && i < sizeof table_of / sizeof *table_of; i++) {
        if (strcmp(argv[1], table_of[i].name) != 0 || argc - 2 < table_of[i].least || argc - 2 > table_of[i].most)
            continue;
        if (table_of[i].run(argv + 2, argc - 2, &err))
            return 0;
        fprintf(stderr, "bench_kernels %s: %s\n", argv[1], err.text);
        return 1;
    }
    fprintf(stderr, "usage: bench_kernels list SHARE BENCH K/N RESULTS [PATTERN] | record SHARE BENCH RESULTS ID DEVICES JOB [CANDIDATE [REFUSED]] |\n"
                    "       merge OUT RESULTS... | table RESULTS | judged RESULTS | field FILE POINTER... |\n"
                    "       settings OUT TIMES... | seeds SHARE BENCH OUT SETTINGS | timed SHARE BENCH RESULTS SETTINGS\n");
    return 2;
}
