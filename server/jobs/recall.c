/*
 * What the knowledge layer has for a shape under search: lessons by its tags, by the symptoms of the best so far and by the words of the last
 * failure; and failure notes of the lineage. Both go into prompts as texts of strangers.
 */
#include "server/jobs/internal.h"

#include "know/lessons.h"

#define LESSONS_MOST 12
#define NOTES_MOST 6
#define NOTE_TOKENS 800

void recalled_done(struct recalled *r)
{
    json_decref(r->lessons);
    json_decref(r->notes);
    *r = (struct recalled){0};
}

/* The words to look for: what bounds the best, and what the last failure said. */
static void query_text(const struct shape *s, const struct gen_past *past, int count, int best, struct buf *to)
{
    buf_fmt(to, "%s", s->op->description);
    if (best >= 0)
        buf_fmt(to, " bound by %s", json_str(past[best].figures, "bound", ""));
    if (count && !verdict_is_correct(past[count - 1].verdict))
        buf_fmt(to, " %s %.300s", verdict_name(past[count - 1].verdict), json_str(past[count - 1].said, "text", ""));
}

static bool find_lessons(struct jobs *j, const struct shape *s, const struct gen_past *past, int count, int best, json_t *to, struct err *err)
{
    struct lesson_tags tags = {.count = 0};
    const char *list[LESSON_MAX_TAGS];
    cleanup(buf) struct buf text = {.limit = LESSON_QUERY_BYTES};
    cleanup(lesson_list) struct lesson_list found = {.count = 0};
    lesson_tags_of_shape(s, &tags);
    if (best >= 0)
        lesson_tags_of_figures(past[best].figures, &tags);
    for (int i = 0; i < tags.count; i++)
        list[i] = tags.list[i];
    query_text(s, past, count, best, &text);
    struct lesson_query q = {.tags = list, .tag_count = tags.count, .text = buf_cstr(&text), .limit = LESSONS_MOST, .may_wait = true,
                             .token_budget = (int)agent_lesson_tokens(j->config.prompt_tokens)};
    if (!lessons_retrieve(j->config.know, &q, &found, err))
        return false;
    for (int i = 0; i < found.count; i++) {
        json_t *lesson = json_object();
        json_put_str(lesson, "id", found.list[i].id);
        json_put_str(lesson, "situation", found.list[i].situation);
        json_put_str(lesson, "action", found.list[i].action);
        json_put_num(lesson, "trust", found.list[i].trust);
        json_array_append_new(to, lesson);
    }
    return true;
}

bool recall(struct jobs *j, const struct shape *s, const struct gen_past *past, int count, int best, struct recalled *ret, struct err *err)
{
    cleanup(json) json_t *lessons = json_array(), *notes = NULL;
    struct hash_hex hash = shape_hash(s);
    if (!j->config.know)
        return true;
    if (!find_lessons(j, s, past, count, best, lessons, err) ||
        !notes_retrieve(j->config.know, hash.text, count ? past[count - 1].id : NULL, NOTES_MOST, NOTE_TOKENS, &notes, err))
        return false;
    ret->lessons = steal(&lessons);
    ret->notes = steal(&notes);
    return true;
}
