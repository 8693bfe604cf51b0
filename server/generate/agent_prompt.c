/*
 * Putting a prompt together within its cap. The sections have an order in which they are read and another in which they get room: what
 * nothing can be written without comes first. Sizes are in bytes here; tokens are their estimate (llm_tokens_estimate), rounded up by
 * section, so that the sum of what is shown is never above the cap.
 *
 * What strangers wrote (sources, logs, notes, lessons) stands between two fence lines with a random word that none of the prompt's texts
 * contains: nothing inside can end its fence. Control characters and those that nobody sees (tags, joiners, other line ends) are taken out, so that
 * a terminal or a person sees what the model sees.
 */
#include "server/generate/agent.h"

#include <string.h>

#define BYTES(tokens) ((size_t)(tokens) * 5 / 2)
#define MARK_BYTES 64                    /* "[... N bytes are left out]" and a line break */
#define LEAST_PART_BYTES 200             /* a part is left out rather than shown in less */
#define FRAME_BYTES 400                  /* of a fence: two lines with word and label */

static const struct { const char *name; int percent; } table[] = {
#define X(code, name, percent) [code] = {name, percent},
    AGENT_SECTIONS(X)
#undef X
};
/* Who gets room first. */
static const enum agent_section by_need[] = {SECTION_TASK, SECTION_SHAPE, SECTION_MOVE, SECTION_OPERATOR, SECTION_BEST, SECTION_FAILURES,
                                             SECTION_DEVICE, SECTION_TIME, SECTION_LESSONS};
_Static_assert(sizeof by_need / sizeof *by_need == SECTION_COUNT, "every section");

int64_t agent_lesson_tokens(int64_t prompt_tokens)
{
    return prompt_tokens * table[SECTION_LESSONS].percent / 100;
}

void prompt_init(struct prompt *p, int64_t cap)
{
    *p = (struct prompt){.cap = cap};
}

void prompt_done(struct prompt *p)
{
    for (int s = 0; s < SECTION_COUNT; s++)
        for (int i = 0; i < p->sections[s].count; i++)
            buf_done(&p->sections[s].parts[i].text);
    buf_done(&p->system);
    buf_done(&p->user);
    json_decref(p->sizes);
}

struct buf *prompt_part(struct prompt *p, enum agent_section s, bool fenced, const char *label)
{
    struct prompt_section *section = &p->sections[s];
    if (section->count < SECTION_PARTS) {
        struct prompt_part *part = &section->parts[section->count++];
        part->fenced = fenced;
        snprintf(part->label, sizeof part->label, "%s", label);
    }
    return &section->parts[section->count - 1].text;
}

/* Cleans all texts, and draws a word for the fences that is in none of them. */
static void draw_fence(struct prompt *p)
{
    for (int s = 0; s < SECTION_COUNT; s++)
        for (int i = 0; i < p->sections[s].count; i++) {
            struct buf *text = &p->sections[s].parts[i].text, clean = {0};
            utf8_clean_visible(&clean, buf_cstr(text), text->size);
            buf_done(text);
            *text = clean;
        }
    for (bool found = true; found;) {
        uint8_t word[16];
        random_bytes(word, sizeof word);
        for (size_t i = 0; i < sizeof word; i++)
            snprintf(p->fence + 2 * i, 3, "%02x", word[i]);
        found = false;
        for (int s = 0; s < SECTION_COUNT; s++)
            for (int i = 0; i < p->sections[s].count; i++)
                found = found || strstr(buf_cstr(&p->sections[s].parts[i].text), p->fence);
    }
}

static size_t part_bytes(const struct prompt_part *part)
{
    return part->text.size + 1 + (part->fenced ? FRAME_BYTES : 0);
}

static size_t section_bytes(const struct prompt_section *s)
{
    size_t sum = 0;
    for (int i = 0; i < s->count; i++)
        sum += part_bytes(&s->parts[i]);
    return sum;
}

/* The text up to `room`, at a line's end where there is one in the last third, at a character's in any case. */
static bool add_cut(struct buf *to, const struct buf *text, size_t room)
{
    if (text->size <= room) {
        buf_add(to, text->data, text->size);
        return false;
    }
    size_t keep = room > MARK_BYTES ? room - MARK_BYTES : 0, line = keep;
    while (line > keep * 2 / 3 && text->data[line - 1] != '\n')
        line--;
    if (line > keep * 2 / 3)
        keep = line;
    while (keep && ((unsigned char)text->data[keep] & 0xc0) == 0x80)
        keep--;
    buf_add(to, text->data, keep);
    buf_fmt(to, "%s[... %zu bytes are left out]", keep && text->data[keep - 1] != '\n' ? "\n" : "", text->size - keep);
    return true;
}

/* At most `room` bytes. Returns whether something was left out. */
static bool write_section(const struct prompt *p, enum agent_section s, size_t room, struct buf *to)
{
    size_t from = to->size;
    bool cut = false;
    for (int i = 0; i < p->sections[s].count; i++) {
        const struct prompt_part *part = &p->sections[s].parts[i];
        size_t left = room - (to->size - from), frame = part->fenced ? FRAME_BYTES : 0;
        if (left < part_bytes(part) && left < frame + LEAST_PART_BYTES) {
            cut = true;
            continue;
        }
        if (part->fenced)
            buf_fmt(to, "=====DATA %s %s\n", p->fence, part->label);
        cut = add_cut(to, &part->text, left - frame - 1) || cut;
        if (to->size > from && to->data[to->size - 1] != '\n')
            buf_str(to, "\n");
        if (part->fenced)
            buf_fmt(to, "=====END %s\n", p->fence);
    }
    return cut;
}

static void note_size(json_t *sizes, enum agent_section s, size_t bytes, bool cut)
{
    json_t *doc = json_object();
    json_put_str(doc, "name", table[s].name);
    json_put_int(doc, "tokens", llm_tokens_estimate(bytes));
    json_put_int(doc, "bytes", (int64_t)bytes);
    if (cut)
        json_put_bool(doc, "cut", true);
    json_array_append_new(sizes, doc);
}

void prompt_build(struct prompt *p)
{
    size_t room[SECTION_COUNT], left = BYTES(p->cap - SECTION_COUNT);
    draw_fence(p);
    for (int i = 0; i < SECTION_COUNT; i++) {
        enum agent_section s = by_need[i];
        size_t need = section_bytes(&p->sections[s]), most = BYTES(p->cap * table[s].percent / 100);
        room[s] = need < most ? need : most;
        room[s] = room[s] < left ? room[s] : left;
        left -= room[s];
    }
    json_t *list = json_array();
    int64_t sum = 0;
    for (int s = 0; s < SECTION_COUNT; s++) {
        struct buf *to = s == SECTION_TASK ? &p->system : &p->user;
        size_t from = to->size;
        bool cut = write_section(p, (enum agent_section)s, room[s], to);
        note_size(list, (enum agent_section)s, to->size - from, cut);
        sum += llm_tokens_estimate(to->size - from);
    }
    BUG_ON(sum > p->cap);
    p->sizes = json_object();
    json_put_int(p->sizes, "cap", p->cap);
    json_put_int(p->sizes, "tokens", sum);
    json_put(p->sizes, "sections", list);
}
