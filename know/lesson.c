/* The document of a lesson: made of checked parts, read without trust, shown as one line of text. */
#include "know/internal.h"

#include "core/clock.h"

#define MOST_SITUATION_PART 4            /* quarters of the text that the action may not have */

static const char *const state_names[] = {
#define X(code, name) [code] = name,
    LESSON_STATES(X)
#undef X
};

const char *lesson_state_name(enum lesson_state s) { return state_names[s]; }

enum lesson_state lesson_state_of(const json_t *doc)
{
    const char *name = json_str(doc, "state", "");
    for (size_t i = 0; i < sizeof state_names / sizeof *state_names; i++)
        if (!strcmp(name, state_names[i]))
            return (enum lesson_state)i;
    return LESSON_RETIRED;
}

/* One line, clean UTF-8, no two spaces side by side; the caller frees. */
static char *one_line(const char *text, size_t bytes)
{
    cleanup(buf) struct buf clean = {0}, line = {0};
    utf8_clean_visible(&clean, text, bytes);
    for (size_t i = 0; i < clean.size; i++) {
        bool space = clean.data[i] == ' ' || clean.data[i] == '\n' || clean.data[i] == '\t';
        if (!space)
            buf_add(&line, clean.data + i, 1);
        else if (line.size && line.data[line.size - 1] != ' ')
            buf_str(&line, " ");
    }
    while (line.size && line.data[line.size - 1] == ' ')
        line.data[--line.size] = 0;
    return buf_take(&line);
}

static void take_text(const json_t *request, const char *key, int64_t most, char **ret, struct faults *f)
{
    const json_t *value = json_object_get(request, key);
    cleanup(str) char *where = xfmt("/%s", key);
    *ret = one_line(json_string_value(value) ? json_string_value(value) : "", json_string_length(value));
    if (!json_is_string(value) || !**ret || (int64_t)json_string_length(value) > most)
        faults_add(f, where, "a text of 1 to %lld bytes is needed", (long long)most);
}

static json_t *take_tags(const json_t *request, struct faults *f)
{
    const json_t *list = json_object_get(request, "tags");
    cleanup(json) json_t *tags = json_array();
    size_t i, k;
    json_t *item, *other;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > LESSON_MAX_TAGS) {
        faults_add(f, "/tags", "a list of 1 to %d tags is needed", LESSON_MAX_TAGS);
        return NULL;
    }
    json_array_foreach(list, i, item) {
        cleanup(str) char *where = xfmt("/tags/%zu", i);
        bool twice = false;
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item) || !tag_valid(json_string_value(item))) {
            faults_add(f, where, "a tag is FACET/NAME, at most %d bytes of a-z 0-9 - _ . /; facets are op, target, dtype, regime, symptom, "
                       "technique, template", LESSON_TAG_BYTES - 1);
            continue;
        }
        json_array_foreach(tags, k, other)
            twice |= json_equal(item, other);
        if (!twice)
            json_array_append(tags, item);
    }
    return steal(&tags);
}

bool lesson_parse(const json_t *request, int64_t text_bytes, json_t **ret_tags, char **ret_situation, char **ret_action, struct faults *f)
{
    int before = f->count;
    cleanup(json) json_t *tags = take_tags(request, f);
    cleanup(str) char *situation = NULL, *action = NULL;
    take_text(request, "situation", text_bytes * (MOST_SITUATION_PART - 1) / MOST_SITUATION_PART, &situation, f);
    take_text(request, "action", text_bytes * (MOST_SITUATION_PART - 1) / MOST_SITUATION_PART, &action, f);
    if (f->count == before && (int64_t)(strlen(situation) + strlen(action)) > text_bytes)
        faults_add(f, "/situation", "situation and action may have %lld bytes together", (long long)text_bytes);
    if (f->count != before)
        return false;
    *ret_tags = steal(&tags);
    *ret_situation = steal(&situation);
    *ret_action = steal(&action);
    return true;
}

json_t *lesson_new(const json_t *tags, const char *situation, const char *action, const char *source, const char *by)
{
    json_t *doc = json_object();
    struct rfc3339 now = clock_text(clock_wall_ns());
    json_put_str(doc, "id", id_new("les").text);
    json_put_str(doc, "state", lesson_state_name(LESSON_ACTIVE));
    json_put(doc, "tags", json_deep_copy(tags));
    json_put_str(doc, "situation", situation);
    json_put_str(doc, "action", action);
    json_put_int(doc, "uses", 0);
    json_put_int(doc, "wins", 0);
    json_put_str(doc, "source", source);
    json_put_str(doc, "by", by);
    json_put_str(doc, "created", now.text);
    json_put_str(doc, "updated", now.text);
    json_put(doc, "supersedes", json_array());
    return doc;
}

void lesson_text(const json_t *lesson, struct buf *to)
{
    const json_t *effect = json_object_get(json_object_get(lesson, "evidence"), "effect");
    const json_t *trust = json_object_get(lesson, "trust");
    buf_fmt(to, "[%s] %s -> %s", json_str(lesson, "id", ""), json_str(lesson, "situation", ""), json_str(lesson, "action", ""));
    const char *kind = json_bool(json_object_get(lesson, "evidence"), "measured", false) ? "measured" : "estimated";
    const double ratio = json_num(effect, "ratio", 0), low = json_num(effect, "low", 0);
    if (ratio > 0 && low > 0)
        buf_fmt(to, " (%.3gx [%.3g, %.3g], %s, trust %.2f)", ratio, low, json_num(effect, "high", 0), kind, json_num(trust, "lower", 0));
    else if (ratio > 0)                  /* pairs of estimates have no interval */
        buf_fmt(to, " (%.3gx, %s, trust %.2f)", ratio, kind, json_num(trust, "lower", 0));
    else
        buf_fmt(to, " (trust %.2f)", json_num(trust, "lower", 0));
}

/* Prose has some 4 bytes a token, code and identifiers fewer: three are on the safe side for all tokenisers in use. */
int lesson_tokens(const char *text, size_t bytes)
{
    (void)text;
    return (int)((bytes + 2) / 3);
}

void lessons_used(json_t *candidate, const char *const *ids, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count && i < LESSON_MAX_USED; i++)
        json_array_append_new(list, json_string(ids[i]));
    json_put(candidate, "lessons", list);
}
