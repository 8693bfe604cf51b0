/*
 * From an answer to a candidate. Prose is passed over; of the fenced blocks one is the plan (the last JSON object with "plan" or "steps")
 * and one the source (the last block of code that names every kernel of the plan). Everything is bounded, and everything else is a fault
 * in one sentence, for one more try.
 */
#include "server/generate/agent.h"

#include <ctype.h>
#include <string.h>

#define BLOCKS_MOST 64
#define PLAN_BYTES_MOST ((size_t)64 << 10)
#define NOTES_BYTES 400

struct block { const char *info; int info_bytes; const char *text; size_t size; bool closed; };
struct blocks { int count; struct block list[BLOCKS_MOST]; const char *prose_end; };

static const char *line_end(const char *at)
{
    return at + strcspn(at, "\n");
}

/* How many of ` or ~ a line begins with, after at most three blanks; 0: it is no fence. */
static int fence_of(const char *line, char *ret_kind)
{
    size_t indent = strspn(line, " ");
    char kind = line[indent];
    if (indent > 3 || (kind != '`' && kind != '~'))
        return 0;
    int count = 0;
    while (line[indent + (size_t)count] == kind)
        count++;
    *ret_kind = kind;
    return count >= 3 ? count : 0;
}

static bool closes(const char *line, char kind, int count)
{
    char own = 0;
    int n = fence_of(line, &own);
    size_t from = strspn(line, " ") + (size_t)n;
    return n >= count && own == kind && strspn(line + from, " \t\r") == strcspn(line + from, "\n");
}

static void find_blocks(const char *text, struct blocks *ret)
{
    *ret = (struct blocks){0};
    for (const char *line = text; *line && ret->count < BLOCKS_MOST;) {
        char kind = 0;
        int fence = fence_of(line, &kind);
        const char *end = line_end(line);
        if (!fence) {
            line = *end ? end + 1 : end;
            continue;
        }
        if (!ret->prose_end)
            ret->prose_end = line;
        struct block *b = &ret->list[ret->count++];
        b->info = line + strspn(line, " ") + fence;
        b->info += strspn(b->info, " ");
        b->info_bytes = (int)strcspn(b->info, " \t\r\n{");
        b->text = *end ? end + 1 : end;
        const char *at = b->text;
        while (*at && !closes(at, kind, fence))
            at = *line_end(at) ? line_end(at) + 1 : line_end(at);
        b->size = (size_t)(at - b->text);
        b->closed = *at;
        line = *line_end(at) ? line_end(at) + 1 : line_end(at);
    }
}

static bool info_is(const struct block *b, const char *const *words)
{
    for (; *words; words++)
        if ((int)strlen(*words) == b->info_bytes && !strncasecmp(b->info, *words, (size_t)b->info_bytes))
            return true;
    return false;
}

/* X(info words), the language they mean */
static const struct { enum language language; const char *const words[8]; } codes[] = {
    {LANGUAGE_CUDA, {"cuda", "cu", "c++", "cpp", "c", "cc", "cuda-c++", NULL}},
    {LANGUAGE_PTX, {"ptx", "asm", NULL}},
    {LANGUAGE_TRITON, {"python", "py", "triton", NULL}},
};
static const char *const json_words[] = {"json", "jsonc", "plan", NULL};

/* The language of a block of code; LANGUAGE_COUNT: it is none. */
static enum language code_of(const struct block *b)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (info_is(b, codes[i].words))
            return codes[i].language;
    return b->info_bytes ? LANGUAGE_COUNT : LANGUAGE_CUDA;
}

static bool looks_like_json(const char *text, size_t size)
{
    size_t blank = strspn(text, " \t\r\n");
    return blank < size && text[blank] == '{';
}

/* An object with a plan; new reference. *why says what was wrong with what nearly was one. */
static json_t *plan_of(const char *text, size_t size, char *why, size_t why_size)
{
    json_t *doc = NULL;
    struct err err = {0};
    if (size > PLAN_BYTES_MOST) {
        snprintf(why, why_size, "the JSON block has %zu bytes, at most %zu are read", size, PLAN_BYTES_MOST);
        return NULL;
    }
    if (!json_parse(text, size, &doc, &err)) {
        snprintf(why, why_size, "the JSON block cannot be read: %.160s", err.text);
        return NULL;
    }
    if (json_is_object(doc) && (json_object_get(doc, "plan") || json_object_get(doc, "steps")))
        return doc;
    snprintf(why, why_size, "the JSON block has no \"plan\" with \"steps\"");
    json_decref(doc);
    return NULL;
}

static json_t *find_plan(const char *text, const struct blocks *blocks, char *why, size_t why_size)
{
    snprintf(why, why_size, "there is no fenced block of JSON with a \"plan\"");
    for (int i = blocks->count - 1; i >= 0; i--) {
        const struct block *b = &blocks->list[i];
        if (!info_is(b, json_words) && (b->info_bytes || !looks_like_json(b->text, b->size)))
            continue;
        json_t *doc = plan_of(b->text, b->size, why, why_size);
        if (doc)
            return doc;
    }
    return !blocks->count && looks_like_json(text, strlen(text)) ? plan_of(text, strlen(text), why, why_size) : NULL;
}

/* Whether the name stands there as a word. */
static bool names(const char *text, size_t size, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; n && i + n <= size; i++)
        if (!memcmp(text + i, name, n) && (!i || !(isalnum((unsigned char)text[i - 1]) || text[i - 1] == '_')) &&
            (i + n == size || !(isalnum((unsigned char)text[i + n]) || text[i + n] == '_')))
            return true;
    return false;
}

static const char *missing_kernel(const json_t *plan, const char *text, size_t size)
{
    const json_t *step;
    size_t i;
    json_array_foreach(json_object_get(plan, "steps"), i, step) {
        const char *kernel = json_str(step, "kernel", NULL);
        if (kernel && !names(text, size, kernel))
            return kernel;
    }
    return NULL;
}

/* The source that goes with the plan, into the document. */
static bool take_source(json_t *doc, const struct blocks *blocks, char *why, size_t why_size)
{
    const json_t *plan = json_object_get(doc, "plan");
    bool any = false;
    for (int i = blocks->count - 1; i >= 0; i--) {
        const struct block *b = &blocks->list[i];
        enum language language = code_of(b);
        if (info_is(b, json_words) || language == LANGUAGE_COUNT || looks_like_json(b->text, b->size))
            continue;
        const char *missing = missing_kernel(plan, b->text, b->size);
        if (missing) {
            if (!any)
                snprintf(why, why_size, "no block of code has the plan's kernel \"%.60s\"", missing);
            any = true;
            continue;
        }
        if (b->size > CANDIDATE_MAX_SOURCE_BYTES)
            return snprintf(why, why_size, "the source has %zu bytes, at most %d are taken", b->size, CANDIDATE_MAX_SOURCE_BYTES), false;
        cleanup(str) char *source = xstrndup(b->text, b->size);
        json_put_str(doc, "source", source);
        if (!json_object_get(doc, "language"))
            json_put_str(doc, "language", language_name(language));
        return true;
    }
    if (json_is_string(json_object_get(doc, "source"))) {
        if (!json_object_get(doc, "language"))
            json_put_str(doc, "language", "cuda");
        return true;
    }
    if (!any)
        snprintf(why, why_size, "there is no fenced block of code");
    return false;
}

/* Where the plan says nothing of itself, the prose before it does. */
static void put_notes(json_t *doc, const char *text, const struct blocks *blocks)
{
    const char *notes = json_str(doc, "notes", NULL);
    size_t size = notes ? strlen(notes) : blocks->prose_end ? (size_t)(blocks->prose_end - text) : 0, most = notes ? CANDIDATE_MAX_NOTES_BYTES : NOTES_BYTES;
    const char *from = notes ? notes : text;
    if (notes && size <= most)
        return;
    size = size < most ? size : most;
    while (size && isspace((unsigned char)from[size - 1]))
        size--;
    while (size && size == most && ((unsigned char)from[size] & 0xc0) == 0x80)
        size--;
    cleanup(str) char *kept = xstrndup(from, size);
    if (*kept)
        json_put_str(doc, "notes", kept);
    else
        json_object_del(doc, "notes");
}

/* Of the lessons that it names, those that it was shown. */
static void keep_lessons(json_t *doc, const json_t *shown)
{
    const json_t *named = json_object_get(doc, "lessons"), *id, *lesson;
    json_t *kept = json_array();
    size_t i, k;
    json_array_foreach(named, i, id)
        json_array_foreach(shown, k, lesson)
            if (json_is_string(id) && !strcmp(json_string_value(id), json_str(lesson, "id", "")) && json_array_size(kept) < 16)
                json_array_append(kept, (json_t *)(uintptr_t)id);
    json_object_del(doc, "lessons");
    if (json_array_size(kept))
        json_object_set(doc, "lessons", kept);
    json_decref(kept);
}

static bool check_form(const struct agent_input *in, const json_t *doc, char *why, size_t why_size)
{
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    cleanup(mem) void *plan = xalloc(sizeof(struct plan));
    char detail[240];
    if (!candidate_parse(doc, "", &c, &f))
        return snprintf(why, why_size, "the candidate has %d %s; at %s: %s", f.count, f.count == 1 ? "fault" : "faults",
                        *f.list[0].pointer ? f.list[0].pointer : "its top", f.list[0].detail), false;
    if (!plan_resolve(&c, in->in->shape, plan, detail, sizeof detail))
        return snprintf(why, why_size, "the plan does not fit the shape: %s", detail), false;
    return true;
}

bool answer_candidate(const struct agent_input *in, const struct llm_reply *reply, json_t **ret, char *why, size_t why_size)
{
    struct blocks blocks;
    find_blocks(reply->text, &blocks);
    if (reply->stop == LLM_STOP_LENGTH && (!blocks.count || !blocks.list[blocks.count - 1].closed))
        return snprintf(why, why_size, "the answer was cut off where its tokens ended: be shorter"), false;
    cleanup(json) json_t *doc = find_plan(reply->text, &blocks, why, why_size);
    if (!doc)
        return false;
    if (!json_object_get(doc, "plan")) {
        static const char *const inner[] = {"steps", "workspace"};
        json_t *plan = json_object();
        for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
            if (json_object_get(doc, inner[i])) {
                json_object_set(plan, inner[i], json_object_get(doc, inner[i]));
                json_object_del(doc, inner[i]);
            }
        json_put(doc, "plan", plan);
    }
    if (!take_source(doc, &blocks, why, why_size))
        return false;
    put_notes(doc, reply->text, &blocks);
    keep_lessons(doc, in->lessons);
    json_object_del(doc, "parent");      /* which is ours to say */
    if (!check_form(in, doc, why, why_size))
        return false;
    *ret = steal(&doc);
    return true;
}
