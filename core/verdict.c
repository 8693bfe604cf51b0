#include "core/verdict.h"

#include <string.h>

static const struct { const char *name, *fault, *person, *generator; } table[] = {
#define X(code, name, fault, person, generator) [code] = {name, fault, person, generator},
    VERDICT_TABLE(X)
#undef X
};

const char *verdict_name(enum verdict_code code) { return table[code].name; }
const char *verdict_fault(enum verdict_code code) { return table[code].fault; }
const char *verdict_person(enum verdict_code code) { return table[code].person; }
const char *verdict_generator(enum verdict_code code) { return table[code].generator; }

bool verdict_code_parse(const char *name, enum verdict_code *ret)
{
    for (int i = 0; i < VERDICT_COUNT; i++)
        if (strcmp(table[i].name, name) == 0) {
            *ret = (enum verdict_code)i;
            return true;
        }
    return false;
}

bool verdict_is_correct(enum verdict_code code)
{
    return code == VERDICT_OK || code == VERDICT_NOT_FASTER || code == VERDICT_UNCLEAR || code == VERDICT_NOT_CONFIRMED;
}

void verdict_done(struct verdict *v)
{
    json_decref(v->detail);
    v->detail = NULL;
}

/* Cut to size without splitting a character. */
static void clean_copy(char *to, size_t size, const char *text)
{
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, text, strlen(text));
    size_t n = clean.size < size - 1 ? clean.size : size - 1;
    while (n && n < clean.size && ((unsigned char)clean.data[n] & 0xc0) == 0x80)
        n--;
    if (n)
        memcpy(to, clean.data, n);
    to[n] = 0;
}

void verdict_set(struct verdict *v, enum verdict_code code, const char *phase, const char *fmt, ...)
{
    char text[2 * sizeof v->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->code = code;
    snprintf(v->phase, sizeof v->phase, "%s", phase);
    clean_copy(v->text, sizeof v->text, text);
}

json_t *verdict_encode(const struct verdict *v)
{
    json_t *doc = json_object();
    json_put_str(doc, "code", verdict_name(v->code));
    json_put_str(doc, "phase", v->phase);
    json_put_str(doc, "fault", verdict_fault(v->code));
    json_put_str(doc, "text", v->text);
    json_put_str(doc, "for_person", verdict_person(v->code));
    json_put_str(doc, "for_generator", verdict_generator(v->code));
    json_put(doc, "detail", v->detail ? json_incref(v->detail) : json_null());
    return doc;
}

bool verdict_parse(const json_t *doc, struct verdict *ret, struct err *err)
{
    struct verdict v = {0};
    const char *name = json_str(doc, "code", "");
    if (!verdict_code_parse(name, &v.code))
        return err_set(err, ERR_UPSTREAM, "unknown verdict \"%.64s\"", name);
    snprintf(v.phase, sizeof v.phase, "%s", json_str(doc, "phase", ""));
    clean_copy(v.text, sizeof v.text, json_str(doc, "text", ""));
    json_t *detail = json_object_get(doc, "detail");
    v.detail = json_is_object(detail) ? json_incref(detail) : NULL;
    *ret = v;
    return true;
}
