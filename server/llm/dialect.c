/*
 * The two protocols: how a call becomes a request, how a streamed event or a whole answer is read, and what of the token figures
 * is believed. Everything read is looked at for its type; what is not understood is passed over.
 */
#include "server/llm/internal.h"

#include <string.h>

#define TOKENS_MOST ((int64_t)1 << 40)
#define BYTES_A_TOKEN_MOST 12            /* no tokeniser makes fewer tokens of text than this */
#define OVERHEAD_TOKENS 1024             /* that an endpoint's own frame around a request may take */

void answer_init(struct answer *a, size_t limit_bytes)
{
    *a = (struct answer){.text.limit = limit_bytes, .said = {-1, -1, -1, -1, false}};
}

void answer_done(struct answer *a)
{
    buf_done(&a->text);
}

static void add_text(struct answer *a, const json_t *v)
{
    if (json_is_string(v))
        buf_add(&a->text, json_string_value(v), json_string_length(v));
}

static void set_stop(struct answer *a, const json_t *v, const char *length, const char *refusal)
{
    const char *word = json_string_value(v);
    if (!word)
        return;
    a->has_stop = true;
    a->stop = !strcmp(word, refusal) ? LLM_STOP_REFUSAL : !strcmp(word, length) ? LLM_STOP_LENGTH : LLM_STOP_END;
}

/* A figure, where it is one. */
static void take_figure(const json_t *object, const char *key, int64_t *to)
{
    const json_t *v = json_object_get(object, key);
    if (json_is_integer(v))
        *to = json_integer_value(v);
    else if (v && !json_is_null(v))
        *to = -2;                        /* said, and nonsense */
}

static void set_error(struct answer *a, const json_t *error)
{
    static const char *const fatal[] = {"invalid_request_error", "authentication_error", "permission_error", "not_found_error",
                                        "request_too_large", "billing_error"};
    const char *type = json_str(error, "type", "error");
    snprintf(a->error, sizeof a->error, "%.60s: %.120s", type, json_str(error, "message", "no message"));
    a->error_passes = true;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (!strcmp(type, fatal[i]))
            a->error_passes = false;
}

static json_t *messages_of(const struct llm_call *call)
{
    json_t *list = json_array();
    for (int i = 0; i < call->message_count; i++) {
        json_t *m = json_object();
        json_put_str(m, "role", call->messages[i].role == LLM_USER ? "user" : "assistant");
        json_put_str(m, "content", call->messages[i].text);
        json_array_append_new(list, m);
    }
    return list;
}

/* ---- OpenAI-compatible chat completions ---- */

static json_t *openai_body(const char *model, const struct llm_call *call, const char *limit_name, int64_t output_tokens)
{
    json_t *doc = json_object(), *list = messages_of(call), *system = json_object();
    json_put_str(doc, "model", model);
    json_put_str(system, "role", "system");
    json_put_str(system, "content", call->system);
    json_array_insert_new(list, 0, system);
    json_put(doc, "messages", list);
    json_put_int(doc, limit_name, output_tokens);
    json_put_bool(doc, "stream", true);
    json_put(doc, "stream_options", json_pack("{s:b}", "include_usage", 1));
    return doc;
}

static void openai_usage(struct answer *a, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    take_figure(usage, "prompt_tokens", &a->said.input);
    take_figure(usage, "completion_tokens", &a->said.output);
    take_figure(json_object_get(usage, "prompt_tokens_details"), "cached_tokens", &a->said.cache_read);
    a->said.cached_within_input = true;
}

static void openai_choice(struct answer *a, const json_t *doc, const char *part)
{
    const json_t *choice = json_array_get(json_object_get(doc, "choices"), 0), *message = json_object_get(choice, part);
    add_text(a, json_object_get(message, "content"));
    set_stop(a, json_object_get(choice, "finish_reason"), "length", "content_filter");
    const char *refusal = json_str(message, "refusal", NULL);
    if (refusal && *refusal) {
        a->has_stop = true;
        a->stop = LLM_STOP_REFUSAL;
    }
    if (json_is_object(json_object_get(doc, "error")))
        set_error(a, json_object_get(doc, "error"));
    openai_usage(a, json_object_get(doc, "usage"));
}

static void openai_event(struct answer *a, const json_t *doc)
{
    enum llm_stop before = a->stop;
    openai_choice(a, doc, "delta");
    if (before == LLM_STOP_REFUSAL)      /* a refusal said in a delta stands, whatever ends the stream */
        a->stop = before;
}

static void openai_whole(struct answer *a, const json_t *doc)
{
    openai_choice(a, doc, "message");
    a->ended = true;
}

/* ---- Anthropic Messages ---- */

static json_t *anthropic_body(const char *model, const struct llm_call *call, const char *limit_name, int64_t output_tokens)
{
    (void)limit_name;
    json_t *doc = json_object();
    json_put_str(doc, "model", model);
    json_put_int(doc, "max_tokens", output_tokens);
    json_put_str(doc, "system", call->system);
    json_put(doc, "messages", messages_of(call));
    json_put_bool(doc, "stream", true);
    return doc;
}

static void anthropic_usage(struct answer *a, const json_t *usage)
{
    if (!json_is_object(usage))
        return;
    take_figure(usage, "input_tokens", &a->said.input);
    take_figure(usage, "output_tokens", &a->said.output);
    take_figure(usage, "cache_read_input_tokens", &a->said.cache_read);
    take_figure(usage, "cache_creation_input_tokens", &a->said.cache_write);
}

static void anthropic_event(struct answer *a, const json_t *doc)
{
    const char *type = json_str(doc, "type", "");
    const json_t *delta = json_object_get(doc, "delta");
    if (!strcmp(type, "message_start")) {
        anthropic_usage(a, json_object_get(json_object_get(doc, "message"), "usage"));
    } else if (!strcmp(type, "content_block_delta")) {
        if (!strcmp(json_str(delta, "type", ""), "text_delta"))
            add_text(a, json_object_get(delta, "text"));
    } else if (!strcmp(type, "message_delta")) {
        set_stop(a, json_object_get(delta, "stop_reason"), "max_tokens", "refusal");
        anthropic_usage(a, json_object_get(doc, "usage"));
    } else if (!strcmp(type, "message_stop")) {
        a->ended = true;
    } else if (!strcmp(type, "error")) {
        set_error(a, json_object_get(doc, "error"));
    }
}

static void anthropic_whole(struct answer *a, const json_t *doc)
{
    const json_t *content = json_object_get(doc, "content"), *block;
    size_t i;
    json_array_foreach(content, i, block)
        if (!strcmp(json_str(block, "type", ""), "text"))
            add_text(a, json_object_get(block, "text"));
    set_stop(a, json_object_get(doc, "stop_reason"), "max_tokens", "refusal");
    anthropic_usage(a, json_object_get(doc, "usage"));
    if (!strcmp(json_str(doc, "type", ""), "error"))
        set_error(a, json_object_get(doc, "error"));
    a->ended = true;
}

static const struct dialect dialects[] = {
    {"openai", "/chat/completions", openai_body, "Authorization: Bearer ", NULL, openai_event, openai_whole},
    {"anthropic", "/messages", anthropic_body, "x-api-key: ", "anthropic-version: 2023-06-01", anthropic_event, anthropic_whole},
};

const struct dialect *dialect_find(const char *name)
{
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (!strcmp(dialects[i].name, name))
            return &dialects[i];
    return NULL;
}

/* ---- usage ---- */

int64_t llm_tokens_estimate(size_t bytes)
{
    return (int64_t)((bytes * 2 + 4) / 5);
}

int64_t llm_tokens_most(const char *text, size_t bytes)
{
    size_t single = 0;
    for (size_t i = 0; i < bytes; i++)
        single += (unsigned char)text[i] >= 0x80 || (text[i] >= '0' && text[i] <= '9');
    return (int64_t)(single + (bytes - single + 1) / 2);
}

/* At most the limit; then it is not what was said any more. */
static int64_t at_most(int64_t said, int64_t limit, bool *estimated)
{
    *estimated = *estimated || said > limit;
    return said > limit ? limit : said;
}

static int64_t within(int64_t said, int64_t least, int64_t most, int64_t estimate, bool *estimated)
{
    if (said >= least && said <= most && said < TOKENS_MOST)
        return said;
    *estimated = true;
    return estimate;
}

struct llm_usage usage_judge(const struct said_usage *said, size_t sent_bytes, int64_t most_in, size_t got_bytes, int64_t output_tokens)
{
    struct llm_usage u = {0};
    int64_t believed_in = (int64_t)sent_bytes + OVERHEAD_TOKENS, most_out = output_tokens > (int64_t)got_bytes ? output_tokens : (int64_t)got_bytes;
    int64_t read = said->cache_read >= 0 ? said->cache_read : 0, written = said->cache_write >= 0 ? said->cache_write : 0;
    bool sound = said->cache_read >= -1 && said->cache_write >= -1 && read <= believed_in && written <= believed_in && said->input >= 0;
    int64_t all = sound ? said->cached_within_input ? said->input : said->input + read + written : -1;
    sound = sound && (!said->cached_within_input || read <= said->input);
    int64_t input = within(sound ? all : -1, (int64_t)(sent_bytes / BYTES_A_TOKEN_MOST), believed_in, -1, &u.estimated);
    if (input < 0) {
        u.input = at_most(llm_tokens_estimate(sent_bytes), most_in, &u.estimated);
    } else if (input > most_in) {
        u.input = at_most(input, most_in, &u.estimated);
    } else {
        u.cache_read = read;
        u.cache_write = written;
        u.input = input - read - written;
    }
    /* Nobody is charged for more than was asked for, and an answer has some tokens for its bytes. */
    int64_t least = (int64_t)(got_bytes / BYTES_A_TOKEN_MOST), estimate = llm_tokens_estimate(got_bytes);
    u.output = within(said->output, least < output_tokens ? least : output_tokens, most_out, estimate < output_tokens ? estimate : output_tokens, &u.estimated);
    u.output = at_most(u.output, output_tokens, &u.estimated);
    return u;
}

int64_t llm_usage_total(const struct llm_usage *u)
{
    int64_t sum = 0;
#define X(field) sum += u->field;
    LLM_COUNTERS(X)
#undef X
    return sum;
}

void llm_usage_add(struct llm_usage *to, const struct llm_usage *more)
{
#define X(field) to->field += more->field;
    LLM_COUNTERS(X)
#undef X
    to->estimated = to->estimated || more->estimated;
}

json_t *llm_usage_encode(const struct llm_usage *u)
{
    json_t *doc = json_object();
#define X(field) json_put_int(doc, #field, u->field);
    LLM_COUNTERS(X)
#undef X
    if (u->estimated)
        json_put_bool(doc, "estimated", true);
    return doc;
}
