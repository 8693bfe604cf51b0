/*
 * Failure notes: what went wrong at a shape, each kind once. A kind is a signature: verdict, phase and the text without what differs from
 * one time to the next. A note knows the roots of the lineages it was seen in, so that whoever goes on from a candidate is told first what
 * failed in its own line. One record a shape, bounded: of the job that has brought most kinds, the one that was not seen for longest goes, so that a
 * job of a thousand odd failures drives out its own. Texts are a candidate's in part: what a source makes the compiler say is no kind.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <ctype.h>

#define SIGNATURE_BYTES 160
#define NOTE_TEXT_BYTES 400
#define NOTE_ROOTS 8
#define NOTE_CANDIDATES 4
#define LINEAGE_DEPTH 32
#define OTHER_SHAPES 16                  /* of the operator, looked at for what is missing */

/* Up to where a compiler's message is its own: what follows these words is what the source tells it to say. */
static size_t own_bytes(const char *text)
{
    static const char *const given[] = {"#error", "error directive", "static assertion", "static_assert"};
    size_t bytes = strlen(text);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        const char *at = strstr(text, given[i]);
        if (at && (size_t)(at - text) + strlen(given[i]) < bytes)
            bytes = (size_t)(at - text) + strlen(given[i]);
    }
    return bytes;
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

struct note_signature note_signature_of(const char *verdict, const char *phase, const char *text)
{
    struct note_signature s = {{0}};
    cleanup(buf) struct buf to = {.limit = SIGNATURE_BYTES};
    const bool compiler = !strcmp(verdict, verdict_name(VERDICT_COMPILE_ERROR));
    cleanup(str) char *own = xstrndup(text, compiler ? own_bytes(text) : strlen(text));
    buf_fmt(&to, "%.40s|%.16s|", verdict, phase);
    for (const char *p = own; *p && !to.overflow;) {
        if (isdigit((unsigned char)p[*p == '-'])) {  /* numbers, and all that begins with one (0x7f..., 12KiB, 1e-3) */
            for (p++; is_name(*p) || (*p == '-' && p[-1] == 'e'); p++)
                continue;
            buf_str(&to, "#");
        } else if (*p == '"' || *p == '`') {
            const char *end = strpbrk(p + 1, "\"`\n");
            p = end && *end != '\n' ? end + 1 : p + 1;
            buf_str(&to, "\"\"");
        } else if (compiler && *p == '\'' && (p == own || p[-1] == ' ') && strchr(p + 1, '\'')) {      /* the assembler's quotes */
            p = strchr(p + 1, '\'') + 1;
            buf_str(&to, "\"\"");
        } else if (isalpha((unsigned char)*p) || *p == '_') {
            const char *start = p;
            bool digits = false;
            for (; is_name(*p); p++)
                digits |= isdigit((unsigned char)*p) != 0;
            if (digits)                              /* tmp3, kernel.cu, _Z4rowsPf: names differ, words do not */
                buf_str(&to, "@");
            else
                for (const char *c = start; c < p; c++) {
                    char lower = (char)tolower((unsigned char)*c);
                    buf_add(&to, &lower, 1);
                }
        } else {
            bool space = isspace((unsigned char)*p) || (unsigned char)*p >= 0x80;
            if (!space)
                buf_add(&to, p, 1);
            else if (to.size && to.data[to.size - 1] != ' ')
                buf_str(&to, " ");
            p++;
        }
    }
    snprintf(s.text, sizeof s.text, "%s", buf_cstr(&to));
    return s;
}

/* The first of the candidate's line that is still known: itself where it has no parent. */
static void root_of(struct know *k, const char *candidate, char root[LESSON_ID_SIZE])
{
    snprintf(root, LESSON_ID_SIZE, "%s", candidate);
    for (int i = 0; i < LINEAGE_DEPTH; i++) {
        cleanup(json) json_t *record = NULL;
        struct err gone = {0};
        if (!store_get(k->store, STORE_CANDIDATE, root, &record, &gone))
            return;
        const char *parent = json_str(json_object_get(record, "candidate"), "parent", NULL);
        if (!parent || !id_valid(parent, "cand"))
            return;
        snprintf(root, LESSON_ID_SIZE, "%s", parent);
    }
}

static void add_once(json_t *list, const char *text, size_t most)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
        if (!strcmp(json_string_value(item), text))
            return;
    if (json_array_size(list) >= most)
        json_array_remove(list, 0);
    json_array_append_new(list, json_string(text));
}

/* The place of the note to give up: the oldest of the job that has most. A note of before jobs were told apart stands for itself. */
static size_t note_to_drop(const json_t *notes)
{
    size_t i, n, drop = 0;
    int most = 0;
    json_t *one, *other;
    json_array_foreach(notes, i, one) {
        const char *job = json_str(one, "job", "");
        int count = !*job;
        json_array_foreach(notes, n, other)
            count += *job && !strcmp(json_str(other, "job", ""), job);
        if (count > most)
            most = count, drop = i;
    }
    return drop;
}

static json_t *note_new(const char *signature, const json_t *verdict, const char *job, const char *now)
{
    cleanup(buf) struct buf text = {0};
    const char *said = json_str(verdict, "text", "");
    utf8_clean_visible(&text, said, strnlen(said, NOTE_TEXT_BYTES));
    json_t *note = json_object();
    json_put_str(note, "signature", signature);
    json_put_str(note, "job", job);      /* that brought it first */
    json_put_str(note, "verdict", json_str(verdict, "code", ""));
    json_put_str(note, "phase", json_str(verdict, "phase", ""));
    json_put_str(note, "text", buf_cstr(&text));
    json_put_int(note, "count", 0);
    json_put(note, "roots", json_array());
    json_put(note, "candidates", json_array());
    json_put_str(note, "first", now);
    return note;
}

bool notes_add(struct know *k, struct store_batch *b, const json_t *record, struct err *err)
{
    const char *hash = json_str(record, "shape_hash", ""), *id = json_str(record, "id", "");
    const json_t *verdict = json_object_get(record, "verdict");
    struct note_signature s = note_signature_of(json_str(verdict, "code", ""), json_str(verdict, "phase", ""), json_str(verdict, "text", ""));
    struct rfc3339 now = clock_text(clock_wall_ns());
    struct err why = {0};
    cleanup(json) json_t *doc = NULL, *note = NULL;
    char root[LESSON_ID_SIZE];
    size_t i;
    json_t *one;
    if (!store_get(k->store, STORE_NOTE, hash, &doc, &why)) {
        if (why.code != ERR_NOT_FOUND)
            return err_set(err, why.code, "%s", why.text);
        doc = json_pack("{s:s,s:s,s:[]}", "shape_hash", hash, "op", json_str(record, "op", ""), "notes");
    }
    json_t *notes = json_object_get(doc, "notes");
    json_array_foreach(notes, i, one)
        if (!strcmp(json_str(one, "signature", ""), s.text)) {
            note = json_incref(one);
            json_array_remove(notes, i);
            break;
        }
    if (!note)
        note = note_new(s.text, verdict, json_str(record, "job", ""), now.text);
    root_of(k, id, root);
    json_put_int(note, "count", json_int(note, "count", 0) + 1);
    json_put_str(note, "last", now.text);
    add_once(json_object_get(note, "roots"), root, NOTE_ROOTS);
    add_once(json_object_get(note, "candidates"), id, NOTE_CANDIDATES);
    while ((int64_t)json_array_size(notes) >= (k->config.max_notes > 0 ? k->config.max_notes : 1))
        json_array_remove(notes, note_to_drop(notes));
    json_array_append(notes, note);      /* the newest last */
    cleanup(str) char *owner = xfmt("op/%s", json_str(record, "op", ""));
    store_put(b, STORE_NOTE, hash, owner, doc);
    return true;
}

/* ---- reading ---- */

struct telling { json_t *list; int limit, budget, tokens; };

static void tell(struct telling *t, const json_t *note)
{
    static const char *const keys[] = {"signature", "verdict", "phase", "text", "count"};
    size_t i;
    json_t *other;
    if (!json_is_object(note) || (int)json_array_size(t->list) >= t->limit)
        return;
    json_array_foreach(t->list, i, other)
        if (!strcmp(json_str(other, "signature", ""), json_str(note, "signature", "")))
            return;
    const char *text = json_str(note, "text", "");
    int tokens = lesson_tokens(text, strlen(text)) + 8;
    if (t->budget > 0 && t->tokens + tokens > t->budget)
        return;
    t->tokens += tokens;
    json_t *one = json_object();
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        if (json_object_get(note, keys[n]))
            json_object_set(one, keys[n], json_object_get(note, keys[n]));
    json_array_append_new(t->list, one);
}

static void tell_all(struct telling *t, const json_t *doc, const char *root)
{
    const json_t *notes = json_object_get(doc, "notes");
    size_t i;
    json_t *item;
    for (size_t n = json_array_size(notes); n-- > 0;) {
        const json_t *note = json_array_get(notes, n);
        bool its = !root;
        json_array_foreach(json_object_get(note, "roots"), i, item)
            its |= root && !strcmp(json_string_value(item), root);
        if (its)
            tell(t, note);
    }
}

static bool tell_other(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    tell_all(ctx, doc, NULL);
    return true;
}

bool notes_retrieve(struct know *k, const char *shape_hash, const char *parent, int limit, int token_budget, json_t **ret, struct err *err)
{
    cleanup(json) json_t *doc = NULL, *list = json_array();
    struct telling t = {list, limit > 0 ? limit : 8, token_budget, 0};
    struct err why = {0};
    char root[LESSON_ID_SIZE] = "";
    if (!store_get(k->store, STORE_NOTE, shape_hash, &doc, &why) && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    if (parent && id_valid(parent, "cand")) {
        root_of(k, parent, root);
        tell_all(&t, doc, root);
    }
    tell_all(&t, doc, NULL);
    if (doc && (int)json_array_size(list) < t.limit) {
        cleanup(str) char *owner = xfmt("op/%s", json_str(doc, "op", ""));
        cleanup(str) char *next = NULL;
        struct store_page page = {STORE_NOTE, owner, NULL, OTHER_SHAPES, true};
        if (!store_list(k->store, &page, tell_other, &t, &next, NULL, err))
            return false;
    }
    *ret = json_incref(list);
    return true;
}
