#include "core/json.h"

#include <math.h>
#include <string.h>

/* Deepest nesting of the text, looked at before jansson recurses over it. */
static int text_depth(const char *text, size_t size)
{
    int depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest)
                deepest = depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

bool json_parse(const char *text, size_t size, json_t **ret, struct err *err)
{
    if (text_depth(text, size) > JSON_MAX_DEPTH)
        return err_set(err, ERR_INVALID, "not accepted as JSON: nested deeper than %d", JSON_MAX_DEPTH);
    json_error_t why;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value)
        return err_set(err, ERR_INVALID, "not accepted as JSON: line %d, column %d: %s", why.line, why.column, why.text);
    *ret = value;
    return true;
}

bool json_parse_file(const char *path, size_t limit_bytes, json_t **ret, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    if (!file_read(path, limit_bytes, &text, err))
        return false;
    const size_t mark = text.size >= 3 && !memcmp(text.data, "\xef\xbb\xbf", 3) ? 3 : 0;      /* some editors put a byte order mark in front */
    return json_parse(text.data + mark, text.size - mark, ret, err) || err_wrap(err, "%s", path);
}

static void write_string(struct buf *to, const char *text, size_t size)
{
    buf_str(to, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            buf_fmt(to, "\\%c", c);
        else if (c == '\n')
            buf_str(to, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_fmt(to, "\\u%04x", c);
        else
            buf_add(to, text + i, 1);
    }
    buf_str(to, "\"");
}

static void write_real(struct buf *to, double value)
{
    char text[64];
    int digits = 1;
    for (; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* 4130.0 rather than 4.13e+03 where a person would write it so */
    const char *exponent = strchr(text, 'e');
    int power = exponent ? atoi(exponent + 1) : 0;
    if (exponent && power >= 0 && power < 16)
        snprintf(text, sizeof text, "%.*f", digits - 1 > power ? digits - 1 - power : 0, value);
    buf_str(to, text);
    if (!strpbrk(text, ".e"))
        buf_str(to, ".0");   /* stays a real when read back */
}

static void newline(struct buf *to, int indent)
{
    if (indent >= 0)
        buf_fmt(to, "\n%*s", 2 * indent, "");
}

/* indent < 0: compact. */
static void write_value(struct buf *to, const json_t *value, int indent)
{
    int inner = indent < 0 ? indent : indent + 1;
    size_t i;
    const char *key;
    json_t *item;
    bool first = true;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        buf_str(to, "{");
        json_object_foreach((json_t *)value, key, item) {
            if (!first)
                buf_str(to, ",");
            first = false;
            newline(to, inner);
            write_string(to, key, strlen(key));
            buf_str(to, indent < 0 ? ":" : ": ");
            write_value(to, item, inner);
        }
        if (!first)
            newline(to, indent);
        buf_str(to, "}");
        break;
    case JSON_ARRAY:
        buf_str(to, "[");
        json_array_foreach(value, i, item) {
            if (!first)
                buf_str(to, ",");
            first = false;
            bool nested = json_is_object(item) || json_is_array(item);
            if (nested)
                newline(to, inner);
            else if (i && indent >= 0)
                buf_str(to, " ");
            write_value(to, item, inner);
        }
        if (!first && (json_is_object(json_array_get(value, 0)) || json_is_array(json_array_get(value, 0))))
            newline(to, indent);
        buf_str(to, "]");
        break;
    case JSON_STRING:
        write_string(to, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        buf_fmt(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        write_real(to, json_real_value(value));
        break;
    case JSON_TRUE:
        buf_str(to, "true");
        break;
    case JSON_FALSE:
        buf_str(to, "false");
        break;
    case JSON_NULL:
        buf_str(to, "null");
        break;
    }
}

void json_write(struct buf *to, const json_t *value)
{
    write_value(to, value, -1);
}

void json_write_pretty(struct buf *to, const json_t *value)
{
    write_value(to, value, 0);
    buf_str(to, "\n");
}

char *json_text(const json_t *value)
{
    struct buf b = {0};
    json_write(&b, value);
    return buf_take(&b);
}

const char *json_str(const json_t *object, const char *key, const char *fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_string(v) ? json_string_value(v) : fallback;
}

int64_t json_int(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

double json_num(const json_t *object, const char *key, double fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : fallback;
}

bool json_bool(const json_t *object, const char *key, bool fallback)
{
    const json_t *v = json_object_get(object, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

void json_put(json_t *object, const char *key, json_t *value)
{
    BUG_ON(!value);
    int failed = json_object_set_new(object, key, value);
    BUG_ON(failed);
}

void json_put_str(json_t *object, const char *key, const char *value)
{
    if (!value) {
        json_put(object, key, json_null());
        return;
    }
    json_t *text = json_string(value);
    if (!text) {
        cleanup(buf) struct buf clean = {0};
        utf8_clean(&clean, value, strlen(value));
        text = json_string(buf_cstr(&clean));
    }
    json_put(object, key, text);
}

void json_put_int(json_t *object, const char *key, int64_t value)
{
    json_put(object, key, json_integer(value));
}

void json_put_num(json_t *object, const char *key, double value)
{
    json_put(object, key, isfinite(value) ? json_real(value) : json_null());
}

void json_put_bool(json_t *object, const char *key, bool value)
{
    json_put(object, key, json_boolean(value));
}

void faults_add(struct faults *f, const char *pointer, const char *fmt, ...)
{
    if (f->count++ >= FAULTS_MAX)
        return;
    char detail[sizeof f->list[0].detail];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    int at = f->count - 1;
    snprintf(f->list[at].pointer, sizeof f->list[at].pointer, "%s", pointer);
    snprintf(f->list[at].detail, sizeof f->list[at].detail, "%s", detail);
}

void json_only_keys(const json_t *object, const char *pointer, const char *const *keys, struct faults *f)
{
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)object, key, item) {
        bool known = false;
        for (const char *const *k = keys; *k && !known; k++)
            known = strcmp(*k, key) == 0;
        if (known)
            continue;
        cleanup(str) char *where = xfmt("%s/%.64s", pointer, key);
        faults_add(f, where, "unknown key");
    }
}
