/* Presets as requests name them, and as they are shown. */
#include "core/preset.h"

#include <string.h>

struct numbers { int count; int64_t list[PRESET_MAX_PLACES]; };

static void take_numbers(const json_t *request, const char *key, const char *pointer, struct numbers *to, struct faults *f)
{
    json_t *given = json_object_get(request, key), *item;
    cleanup(str) char *where = xfmt("%s/%s", pointer, key);
    size_t i;
    *to = (struct numbers){1, {1}};
    if (!given)
        return;
    cleanup(json) json_t *list = json_is_array(given) ? json_incref(given) : json_pack("[O]", given);
    if (!json_array_size(list) || json_array_size(list) > PRESET_MAX_PLACES) {
        faults_add(f, where, "a number or a list of 1 to %d numbers is needed", PRESET_MAX_PLACES);
        return;
    }
    to->count = 0;
    json_array_foreach(list, i, item) {
        bool twice = false;
        for (int n = 0; n < to->count; n++)
            twice |= to->list[n] == json_integer_value(item);
        if (!json_is_integer(item) || json_integer_value(item) < 1)
            faults_add(f, where, "whole numbers from 1 on are needed");
        else if (twice)
            faults_add(f, where, "%lld stands twice", (long long)json_integer_value(item));
        else
            to->list[to->count++] = json_integer_value(item);
    }
}

static void no_preset(const struct preset_set *set, const char *name, const char *pointer, struct faults *f, struct err *err)
{
    cleanup(buf) struct buf names = {0};
    cleanup(str) char *where = xfmt("%s/preset", pointer);
    for (int i = 0; set && i < set->count; i++)
        buf_fmt(&names, "%s%s", i ? ", " : "", set->list[i]->name);
    faults_add(f, where, "there is no preset \"%.64s\"; there are: %.120s", name, names.size ? buf_cstr(&names) : "none");
    err_set(err, ERR_NOT_FOUND, "there is no preset \"%.64s\"; there are: %.300s", name, names.size ? buf_cstr(&names) : "none");
}

bool preset_expand_request(const struct preset_set *set, const struct op_set *ops, const json_t *request, const char *default_target,
                           const char *pointer, json_t *list, struct faults *f, struct err *err)
{
    static const char *const keys[] = {"preset", "tp", "batch", "target", NULL};
    const char *name = json_str(request, "preset", ""), *target = json_str(request, "target", default_target);
    const struct preset *p = preset_set_find(set, name);
    struct numbers tp, batch;
    int before = f->count;
    struct err why = {0};
    json_only_keys(request, pointer, keys, f);
    take_numbers(request, "tp", pointer, &tp, f);
    take_numbers(request, "batch", pointer, &batch, f);
    if (!target || !target_valid(target))
        faults_add(f, pointer, "\"%.40s\" is not a target; one is sm_90a", target ? target : "");
    if (f->count == before && tp.count * batch.count > PRESET_MAX_PLACES)
        faults_add(f, pointer, "%d times %d pairs of tp and batch; at most %d are taken", tp.count, batch.count, PRESET_MAX_PLACES);
    if (!p) {
        no_preset(set, name, pointer, f, err);
        return false;
    }
    if (f->count > before)
        return err_set(err, ERR_INVALID, "%s: %s", f->list[before < FAULTS_MAX ? before : 0].pointer, f->list[before < FAULTS_MAX ? before : 0].detail);
    for (int t = 0; t < tp.count; t++)
        for (int b = 0; b < batch.count; b++) {
            struct preset_at at = {tp.list[t], batch.list[b], target};
            if (preset_expand(p, ops, &at, list, &why))
                continue;
            faults_add(f, pointer, "%s", why.text);
            return err_set(err, why.code, "%s", why.text);
        }
    return true;
}

json_t *preset_summary(const struct preset *p)
{
    static const char *const keys[] = {"name", "description", "source", "left_out", "tp", "batch_max"};
    json_t *doc = json_object(), *ops = json_array(), *launch, *op;
    const json_t *step = json_object_get(p->doc, "step");
    size_t i, k;
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(p->doc, keys[i]))
            json_object_set(doc, keys[i], json_object_get(p->doc, keys[i]));
    json_array_foreach(step, i, launch) {
        bool known = false;
        json_array_foreach(ops, k, op)
            known = known || json_equal(op, json_object_get(launch, "op"));
        if (!known)
            json_array_append(ops, json_object_get(launch, "op"));
    }
    json_put(doc, "ops", ops);
    return doc;
}
