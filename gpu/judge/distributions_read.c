/* What op.json's regimes may say of a distribution: checked when the operator is read, and read for one tensor of a shape. */
#include "gpu/judge/distributions_kinds.h"

#include "core/expr.h"

#include <math.h>
#include <string.h>

/* ---- what a regime may say ---- */

static bool check_number(const json_t *doc, const char *key, bool needed, double least, double most, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (!value)
        return !needed || err_set(err, ERR_INVALID, "%s: \"%s\" is missing", where, key);
    if (!json_is_number(value) || !(json_number_value(value) >= least && json_number_value(value) <= most))
        return err_set(err, ERR_INVALID, "%s/%s: must be a number from %g to %g", where, key, least, most);
    return true;
}

static bool check_size(const json_t *doc, const char *key, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (!json_is_string(value) && !json_is_integer(value))
        return err_set(err, ERR_INVALID, "%s/%s: must be an integer or an expression over the axes", where, key);
    return true;
}

static bool check_spikes(const json_t *doc, const char *where, struct err *err)
{
    const json_t *turn = json_object_get(doc, "turn"), *turns = json_object_get(doc, "turns");
    if ((turn || turns) && !(json_is_integer(turn) && json_is_integer(turns) && json_integer_value(turn) >= 1 &&
                             json_integer_value(turns) >= json_integer_value(turn) && json_integer_value(turns) <= DIST_MOST_TURNS))
        return err_set(err, ERR_INVALID, "%s/turn: must be an integer from 1 to \"turns\", which is at most %d", where, DIST_MOST_TURNS);
    if (!json_object_get(doc, "value") == !json_object_get(doc, "weight"))
        return err_set(err, ERR_INVALID, "%s/value: \"value\" or \"weight\" is needed, not both", where);
    return check_number(doc, "value", false, -1e30, 1e30, where, err) && check_number(doc, "weight", false, 0, 1e9, where, err) &&
           check_size(doc, "each", where, err);
}

static bool check_padding(const json_t *doc, const char *where, struct err *err)
{
    if (!check_number(doc, "padding", false, 0, 1, where, err))
        return false;
    const json_t *values = json_object_get(doc, "padding_values");
    if (!values)
        return true;
    if (!json_is_array(values) || !json_array_size(values) || json_array_size(values) > DIST_MAX_PADDING_VALUES)
        return err_set(err, ERR_INVALID, "%s/padding_values: must be a list of 1 to %d values", where, DIST_MAX_PADDING_VALUES);
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        if (!json_is_integer(value) && !(json_is_string(value) && !strcmp(json_string_value(value), "negative")))
            return err_set(err, ERR_INVALID, "%s/padding_values/%zu: must be an integer or \"negative\"", where, i);
    }
    return true;
}

/* Parts of a row: [from, to], more than 1 being all of it. */
static bool check_masked(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, "masked");
    double from = -1, to = -1;
    if (json_array_size(value) == 2) {
        from = json_number_value(json_array_get(value, 0));
        to = json_number_value(json_array_get(value, 1));
    }
    return !value || (floats && from >= 0 && to >= from && to > 0 && to <= 1000)
           || err_set(err, ERR_INVALID, "%s/masked: must be [from, to], parts of a row of floats, 0 <= from <= to", where);
}

static bool check_times(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const json_t *value = json_object_get(doc, "times");
    double from = 0, to = 0;
    if (json_array_size(value) == 2) {
        from = json_number_value(json_array_get(value, 0));
        to = json_number_value(json_array_get(value, 1));
    }
    return !value || (floats && from >= 1e-30 && to >= from && to <= 1e30)
           || err_set(err, ERR_INVALID, "%s/times: must be [from, to], factors of a tensor of floats, 1e-30 <= from <= to <= 1e30", where);
}

static bool check_edge(const json_t *doc, const char *where, struct err *err)
{
    const bool edge = json_object_get(doc, "edge"), multiple = json_object_get(doc, "multiple");
    if (edge && multiple)
        return err_set(err, ERR_INVALID, "%s: \"edge\" or \"multiple\", not both", where);
    return (!edge || check_size(doc, "edge", where, err))
           && (!multiple || (json_is_integer(json_object_get(doc, "multiple")) && json_num(doc, "multiple", 0) >= 1)
               || err_set(err, ERR_INVALID, "%s/multiple: must be an integer of at least 1", where));
}

static bool check_dist(const json_t *doc, const struct dist_kind *kind, const char *where, struct err *err)
{
    static const struct { const char *key; unsigned by; } known[] = {
        {"dist", ~0u}, {"for", ~0u}, {"beyond", ~(unsigned)TAKES_RANGE}, {"masked", ~(unsigned)TAKES_RANGE}, {"times", ~(unsigned)TAKES_RANGE},
        {"from", TAKES_ENDS}, {"to", TAKES_ENDS}, {"along", TAKES_ENDS | TAKES_PART}, {"part", TAKES_PART}, {"sign", TAKES_PART},
        {"edge", TAKES_EDGE}, {"multiple", TAKES_EDGE},
        {"mean", TAKES_MEAN}, {"std", TAKES_STD}, {"low", TAKES_LOW | TAKES_RANGE}, {"high", TAKES_LOW | TAKES_RANGE},
        {"scale", TAKES_SCALE}, {"every", TAKES_SCALE}, {"value", TAKES_VALUE | TAKES_SPIKES}, {"stretch", TAKES_STRETCH},
        {"each", TAKES_SPIKES}, {"weight", TAKES_SPIKES}, {"turn", TAKES_SPIKES}, {"turns", TAKES_SPIKES}, {"padding", TAKES_RANGE}, {"padding_values", TAKES_RANGE}};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)doc, key, value) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= !strcmp(known[i].key, key) && (known[i].by & kind->takes);
        if (!found)
            return err_set(err, ERR_INVALID, "%s/%s: \"%s\" takes no such parameter", where, key, kind->name);
    }
    const double big = 1e30;
    if ((kind->takes & TAKES_MEAN) && !check_number(doc, "mean", false, -big, big, where, err))
        return false;
    if ((kind->takes & TAKES_STD) && !check_number(doc, "std", true, 0, big, where, err))
        return false;
    if ((kind->takes & TAKES_VALUE) && !check_number(doc, "value", true, -big, big, where, err))
        return false;
    if ((kind->takes & TAKES_SCALE) && !(check_number(doc, "scale", true, -big, big, where, err) && check_number(doc, "every", true, 1, 1e9, where, err)))
        return false;
    if ((kind->takes & TAKES_ENDS) && !(check_number(doc, "from", true, -big, big, where, err) && check_number(doc, "to", true, -big, big, where, err)))
        return false;
    if ((kind->takes & TAKES_PART) && !(check_number(doc, "part", true, 0, big, where, err) && check_number(doc, "sign", true, -1, 1, where, err)))
        return false;
    if ((kind->takes & (TAKES_ENDS | TAKES_PART)) && !check_number(doc, "along", false, 0, OP_MAX_DIMS - 1, where, err))
        return false;
    if ((kind->takes & TAKES_STRETCH) && !check_size(doc, "stretch", where, err))
        return false;
    if ((kind->takes & TAKES_SPIKES) && !check_spikes(doc, where, err))
        return false;
    if ((kind->takes & TAKES_EDGE) && !check_edge(doc, where, err))
        return false;
    if (kind->takes & TAKES_RANGE)
        return check_size(doc, "low", where, err) && check_size(doc, "high", where, err) && check_padding(doc, where, err);
    if (!(kind->takes & TAKES_LOW))
        return true;
    const bool whole = kind->takes & TAKES_WHOLE, positive = kind->takes & TAKES_POSITIVE;
    double most = whole ? 1e9 : big;
    if (!check_number(doc, "low", true, positive ? 1e-30 : -most, most, where, err) ||
        !check_number(doc, "high", true, json_num(doc, "low", 0), most, where, err))
        return false;
    if (whole && (!json_is_integer(json_object_get(doc, "low")) || !json_is_integer(json_object_get(doc, "high"))))
        return err_set(err, ERR_INVALID, "%s: the ends of \"integers\" must be integers", where);
    return true;
}

bool dist_check(const json_t *doc, bool floats, const char *where, struct err *err)
{
    const struct dist_kind *kind = dist_kind_find(json_str(doc, "dist", NULL));
    if (!kind)
        return err_set(err, ERR_INVALID, "%s/dist: must be one of normal, uniform, constant, integers, outliers, rows, slope, mirrored, hot, spikes, distinct, indices, edges", where);
    if (!(floats ? kind->floats : kind->integers))
        return err_set(err, ERR_INVALID, "%s/dist: \"%s\" does not suit a tensor of %s", where, kind->name, floats ? "floats" : "integers");
    return check_masked(doc, floats, where, err) && check_times(doc, floats, where, err) && check_dist(doc, kind, where, err);
}

/* ---- for one tensor ---- */

static bool size_of(const struct shape *s, const json_t *doc, const char *key, int64_t *ret, struct err *err)
{
    const json_t *value = json_object_get(doc, key);
    if (json_is_integer(value)) {
        *ret = json_integer_value(value);
        return true;
    }
    return expr_eval(json_string_value(value), EXPR_SIZE, shape_lookup, (void *)(uintptr_t)s, ret, err);
}

static bool expression_failed(const struct shape *s, const struct tensor *t, struct err *err)
{
    if (err)
        err->code = ERR_UNPROCESSABLE;
    return err_wrap(err, "operator %s: distribution of %s", s->op->name, t->spec->name);
}

static bool parse_spikes(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err)
{
    ret->spikes = (struct spikes){.row = ret->row, .rows = t->elements / ret->row, .turn = (int64_t)json_num(doc, "turn", 1) - 1,
                                  .turns = (int64_t)json_num(doc, "turns", 1), .seed = ret->seed, .stream = ret->stream};
    if (!size_of(s, doc, "each", &ret->spikes.each, err))
        return expression_failed(s, t, err);
    if (ret->spikes.each < 1 || ret->spikes.each > DIST_MOST_SPIKES)
        return err_set(err, ERR_UNPROCESSABLE, "operator %s: distribution of %s: %lld spikes a row", s->op->name, t->spec->name, (long long)ret->spikes.each);
    if (json_object_get(doc, "weight"))
        ret->value = ret->std * sqrt(json_num(doc, "weight", 0) * (double)ret->row / (double)ret->spikes.each);
    spikes_open(&ret->spikes);
    return true;
}

bool dist_parse(const struct shape *s, const struct tensor *t, const json_t *doc, struct dist *ret, struct err *err)
{
    ret->mean = json_num(doc, "mean", 0);
    ret->std = json_num(doc, "std", 1);
    ret->low = json_num(doc, "low", 0);
    ret->high = json_num(doc, "high", 0);
    ret->scale = json_num(doc, "scale", 1);
    ret->value = json_num(doc, "value", 0);
    ret->padding = json_num(doc, "padding", 0);
    ret->every = (int64_t)json_num(doc, "every", 1);
    ret->row = t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1;
    ret->elements = t->elements;
    const json_t *masked = json_object_get(doc, "masked");
    for (size_t i = 0; i < 2; i++)
        ret->masked[i] = json_number_value(json_array_get(masked, i));
    const json_t *values = json_object_get(doc, "padding_values");
    ret->padding_count = values ? (int)json_array_size(values) : 1;
    for (int i = 0; values && i < ret->padding_count; i++)
        ret->padding_values[i] = json_is_string(json_array_get(values, (size_t)i)) ? NAN : json_number_value(json_array_get(values, (size_t)i));
    const json_t *times = json_object_get(doc, "times");
    ret->times = times ? dist_factor(json_number_value(json_array_get(times, 0)), json_number_value(json_array_get(times, 1)), ret->seed,
                                ret->stream ^ 0x74696d657300u, 0) : 1;
    ret->part = json_num(doc, "part", 0);
    ret->sign = json_num(doc, "sign", 1);
    ret->kind = dist_kind_find(json_str(doc, "dist", ""));
    if (ret->kind->takes & TAKES_ENDS) {
        ret->low = json_num(doc, "from", 0);
        ret->high = json_num(doc, "to", 0);
    }
    if (ret->kind->takes & (TAKES_ENDS | TAKES_PART)) {
        const int along = (int)json_num(doc, "along", t->rank - 1);
        ret->along = along < t->rank && t->dims[along] > 0 ? t->dims[along] : 1;
        ret->along_inner = 1;
        for (int i = along + 1; i < t->rank; i++)
            ret->along_inner *= t->dims[i] > 0 ? t->dims[i] : 1;
    }
    if (ret->kind->takes & TAKES_STRETCH) {
        if (!size_of(s, doc, "stretch", &ret->stretch, err))
            return expression_failed(s, t, err);
        if (ret->stretch < 1)
            return err_set(err, ERR_UNPROCESSABLE, "operator %s: distribution of %s: a stretch of %lld elements", s->op->name, t->spec->name, (long long)ret->stretch);
    }
    if ((ret->kind->takes & TAKES_SPIKES) && !parse_spikes(s, t, doc, ret, err))
        return false;
    if (!(ret->kind->takes & TAKES_RANGE))
        return true;
    int64_t high;
    if (!size_of(s, doc, "low", &ret->first, err) || !size_of(s, doc, "high", &high, err))
        return expression_failed(s, t, err);
    ret->range = high >= ret->first ? high - ret->first + 1 : 0;
    ret->multiple = (int64_t)json_num(doc, "multiple", 0);
    ret->has_edge = json_object_get(doc, "edge");
    if (ret->has_edge && !size_of(s, doc, "edge", &ret->edge, err))
        return expression_failed(s, t, err);
    return true;
}
