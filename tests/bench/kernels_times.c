/*
 * Times of settings that bench_settings took on a card: which is the fastest of a shape, what to try first there and near it, and a
 * figure for a cell that was not judged (marked as such: nobody has checked what that kernel computes in that run).
 *
 *   [{"shape":{...},"device","baseline":{"ns","least_ns","most_ns"},"settings":[{"template","params","ns","least_ns","most_ns"}...]}...]
 *
 * Settings the fastest first; ns is the median of nine graphs, least and most the spread over them.
 */
#include "tests/bench/kernels.h"

#include <string.h>

#define SEEDS_OF_A_SHAPE 2               /* the fastest */

static json_t *times_of(json_t *all, const json_t *shape)
{
    json_t *one;
    size_t i;
    json_array_foreach(all, i, one)
        if (json_equal(json_object_get(one, "shape"), shape))
            return one;
    one = json_object();
    json_put(one, "shape", json_incref((json_t *)(uintptr_t)shape));
    json_put(one, "settings", json_array());
    json_array_append_new(all, one);
    return one;
}

static json_t *figures_of(const json_t *from)
{
    static const char *const keys[] = {"ns", "least_ns", "most_ns"};
    json_t *doc = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_put_num(doc, keys[i], (double)(int64_t)(json_num(from, keys[i], 0) * 10 + 0.5) / 10);
    return doc;
}

/* Among the settings by time; a setting that is there already keeps its last figure. */
static void put_setting(json_t *list, const json_t *time)
{
    cleanup(json) json_t *params = json_copy(json_object_get(time, "params")), *one = figures_of(time);
    size_t at = 0;
    json_put_str(one, "template", json_str(params, "template", ""));
    json_object_del(params, "template");
    json_put(one, "params", json_incref(params));
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *other = json_array_get(list, i);
        if (json_equal(json_object_get(other, "params"), params) && strcmp(json_str(other, "template", ""), json_str(one, "template", "")) == 0)
            json_array_remove(list, i);
    }
    while (at < json_array_size(list) && json_num(json_array_get(list, at), "ns", 0) <= json_num(one, "ns", 0))
        at++;
    json_array_insert(list, at, one);
}

/* What was merged before. */
static void add_lines(json_t *all, const json_t *lines)
{
    const json_t *line, *setting;
    size_t i, k;
    json_array_foreach(lines, i, line) {
        json_t *one = times_of(all, json_object_get(line, "shape"));
        json_put_str(one, "device", json_str(line, "device", ""));
        if (json_object_get(line, "baseline"))
            json_put(one, "baseline", json_incref(json_object_get(line, "baseline")));
        json_array_foreach(json_object_get(line, "settings"), k, setting) {
            cleanup(json) json_t *time = json_copy((json_t *)(uintptr_t)setting), *params = json_copy(json_object_get(setting, "params"));
            json_put_str(params, "template", json_str(setting, "template", ""));
            json_put(time, "params", json_incref(params));
            put_setting(json_object_get(one, "settings"), time);
        }
    }
}

static void add_times(json_t *all, const json_t *file)
{
    const json_t *time;
    size_t i;
    json_array_foreach(json_object_get(file, "times"), i, time) {
        json_t *one = times_of(all, json_object_get(time, "shape"));
        json_put_str(one, "device", json_str(json_object_get(file, "device"), "name", ""));
        if (json_is_object(json_object_get(time, "params")))
            put_setting(json_object_get(one, "settings"), time);
        else
            json_put(one, "baseline", figures_of(time));
    }
}

static bool write_lines(const char *path, const json_t *all, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    const json_t *one, *setting;
    size_t i, k;
    buf_str(&text, "[");
    json_array_foreach(all, i, one) {
        cleanup(json) json_t *head = json_copy((json_t *)(uintptr_t)one);
        json_object_del(head, "settings");
        cleanup(str) char *first = json_text(head);
        buf_fmt(&text, "%s\n%.*s,\"settings\":[", i ? "," : "", (int)strlen(first) - 1, first);
        json_array_foreach(json_object_get(one, "settings"), k, setting) {
            cleanup(str) char *line = json_text(setting);
            buf_fmt(&text, "%s\n%s", k ? "," : "", line);
        }
        buf_str(&text, "]}");
    }
    buf_str(&text, "\n]\n");
    return file_write(path, text.data, text.size, 0644, err);
}

bool times_merge(const char *out, char **files, int count, struct err *err)
{
    cleanup(json) json_t *all = json_array();
    for (int i = 0; i < count; i++) {
        cleanup(json) json_t *one = NULL;
        if (!json_parse_file(files[i], 64 << 20, &one, err))
            return false;
        if (json_is_array(one))
            add_lines(all, one);
        else
            add_times(all, one);
    }
    return write_lines(out, all, err);
}

bool times_load(const char *path, json_t **ret, struct err *err)
{
    struct err why = {0};
    *ret = NULL;
    if (json_parse_file(path, 64 << 20, ret, &why) || why.code == ERR_NOT_FOUND) {
        if (!*ret)
            *ret = json_array();
        return true;
    }
    return err_set(err, why.code, "%s", why.text);
}

/* The line of a shape; shapes are compared by their hash, so that axes left out count as their defaults. */
static const json_t *line_of(const struct cells *c, const json_t *all, const char *hash)
{
    const json_t *one;
    size_t i;
    json_array_foreach(all, i, one) {
        struct faults f = {0};
        struct shape shape;
        if (shape_parse(&c->ops, json_object_get(one, "shape"), NULL, "", &shape, &f) && strcmp(shape_hash(&shape).text, hash) == 0)
            return one;
    }
    return NULL;
}

json_t *times_of_cell(const struct cells *c, const json_t *all, const struct cell *cell)
{
    const json_t *line = line_of(c, all, cell->hash), *best = json_array_get(json_object_get(line, "settings"), 0);
    if (!best)
        return NULL;
    json_t *doc = json_copy((json_t *)(uintptr_t)best);
    if (json_object_get(line, "baseline"))
        json_put_num(doc, "baseline_ns", json_num(json_object_get(line, "baseline"), "ns", 0));
    json_put_str(doc, "device", json_str(line, "device", ""));
    json_put_int(doc, "settings_timed", (int64_t)json_array_size(json_object_get(line, "settings")));
    return doc;
}

bool times_seeds(const struct cells *c, const char *out, const json_t *all, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    const json_t *one, *setting;
    size_t i, k;
    int count = 0;
    buf_str(&text, "[");
    json_array_foreach(all, i, one) {
        struct faults f = {0};
        struct shape shape;
        if (!shape_parse(&c->ops, json_object_get(one, "shape"), NULL, "", &shape, &f))
            return err_set(err, ERR_INVALID, "a shape of the times: %s", f.list[0].detail);
        json_array_foreach(json_object_get(one, "settings"), k, setting) {
            if (k == SEEDS_OF_A_SHAPE)
                break;
            cleanup(json) json_t *seed = json_object();
            json_put(seed, "shape", shape_encode(&shape));
            json_put_str(seed, "template", json_str(setting, "template", ""));
            json_put(seed, "params", json_incref(json_object_get(setting, "params")));
            cleanup(str) char *line = json_text(seed);
            buf_fmt(&text, "%s\n%s", count++ ? "," : "", line);
        }
    }
    buf_str(&text, "\n]\n");
    return file_write(out, text.data, text.size, 0644, err);
}
