/*
 * A call: the tries it takes, the pauses between them, and what they cost. A try ends in one of a table's outcomes; the table says
 * whether another may go better and whether what was sent is charged.
 */
#include "server/llm/internal.h"

#include <string.h>

#define MIB ((size_t)1 << 20)
#define SLICE_NS ((int64_t)50 * 1000000)
#define BACKOFF_MOST_NS ((int64_t)60 * 1000000000)
#define RAW_TIMES 8                      /* what may be sent for an answer, in answers: a stream's frame around its text */
#define LEAST_OUTPUT_TOKENS 16
#define FRAME_TOKENS 16                  /* of a request, and of each of its messages */
#define MESSAGE_TOKENS 8
#define KEY_PART 8                       /* so much of a key in a text is the key */

struct llm {
    const struct dialect *dialect;
    struct llm_config c;
    char *url, *model, *key, *protocol, *key_line, *limit_name;
};

/* X(code, name, another try may help, charged, error) */
#define OUTCOMES(X)                                                                   \
    X(TRY_ANSWERED, "answered", false, true, ERR_OK)                                  \
    X(TRY_STOPPED, "stopped", false, true, ERR_CONFLICT)                              \
    X(TRY_NO_CONNECTION, "no_connection", true, false, ERR_UPSTREAM)                  \
    X(TRY_NO_FIRST_BYTE, "no_first_byte", true, true, ERR_TIMEOUT)                    \
    X(TRY_STALLED, "stalled", true, true, ERR_TIMEOUT)                                \
    X(TRY_TOO_LONG, "too_long", true, true, ERR_TIMEOUT)                              \
    X(TRY_TRUNCATED, "truncated", true, true, ERR_UPSTREAM)                           \
    X(TRY_GARBAGE, "garbage", true, true, ERR_UPSTREAM)                               \
    X(TRY_STREAM_ERROR, "stream_error", true, true, ERR_UPSTREAM)                     \
    X(TRY_STREAM_REFUSED, "stream_refused", false, true, ERR_UNPROCESSABLE)           \
    X(TRY_BUSY, "busy", true, false, ERR_UPSTREAM)                                    \
    X(TRY_REFUSED, "refused", false, false, ERR_UNPROCESSABLE)
enum outcome {
#define X(code, ...) code,
    OUTCOMES(X)
#undef X
};
static const struct { const char *name; bool again, charged; enum err_code code; } outcomes[] = {
#define X(code, name, again, charged, err) [code] = {name, again, charged, err},
    OUTCOMES(X)
#undef X
};

static const char *const purposes[] = {
#define X(code, name) [code] = name,
    LLM_PURPOSES(X)
#undef X
};

const char *llm_purpose_name(enum llm_purpose p)
{
    return purposes[p];
}

const char *llm_stop_name(enum llm_stop s)
{
    static const char *const names[] = {"end", "length", "refusal", "too_large"};
    return names[s];
}

const char *llm_model(const struct llm *l) { return l->model; }
const char *llm_protocol(const struct llm *l) { return l->protocol; }
int llm_tries(const struct llm *l) { return l->c.retries + 1; }
int64_t llm_output_tokens(const struct llm *l) { return l->c.output_tokens; }

void llm_reply_done(struct llm_reply *r)
{
    free(r->text);
    *r = (struct llm_reply){0};
}

void llm_account_done(struct llm_account *a)
{
    json_decref(a->log);
    *a = (struct llm_account){0};
}

/* ---- the client ---- */

char *endpoint_url(const char *base, const char *path)
{
    size_t size = strlen(base);
    while (size && base[size - 1] == '/')
        size--;
    bool has = size >= 3 && !strncmp(base + size - 3, "/v1", 3);
    return xfmt("%.*s%s%s", (int)size, base, has ? "" : "/v1", path);
}

static bool visible(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= 0x20 || (unsigned char)*text >= 0x7f)
            return false;
    return true;
}

bool endpoint_check(const char *name, const char *url, const char *model, const char *key, struct err *err)
{
    if ((strncmp(url, "http://", 7) && strncmp(url, "https://", 8)) || !visible(url) || strpbrk(url, "@?#"))
        return err_set(err, ERR_INVALID, "--%s-url: an address such as https://host/v1 is needed, without a name, a password or a query in it", name);
    if (!model || !*model || strlen(model) > 128)
        return err_set(err, ERR_INVALID, "--%s-model: the name of a model is needed where --%s-url is set", name, name);
    if (!visible(key) || strlen(key) > 1024 || (*key && strlen(key) < KEY_PART))
        return err_set(err, ERR_INVALID, "--%s-key: a key is %d to 1024 visible characters, without blanks", name, KEY_PART);
    return http_start(err);
}

bool llm_open(const struct llm_config *config, struct llm **ret, struct err *err)
{
    const struct dialect *d = dialect_find(config->protocol);
    const char *key = config->key ? config->key : "";
    if (!d)
        return err_set(err, ERR_INVALID, "--llm-protocol: \"%.40s\" is none of: openai anthropic", config->protocol);
    if (!endpoint_check("llm", config->url, config->model, key, err))
        return false;
    struct llm *l = xalloc(sizeof *l);
    *l = (struct llm){.dialect = d, .c = *config, .url = endpoint_url(config->url, d->path), .model = xstrdup(config->model),
                      .key = xstrdup(key), .protocol = xstrdup(d->name),
                      .limit_name = xstrdup(config->limit_name && *config->limit_name ? config->limit_name : "max_tokens")};
    l->key_line = *key ? xfmt("%s%s", d->key_header, key) : NULL;
    l->c.url = l->c.model = l->c.key = l->c.protocol = l->c.limit_name = NULL;
    *ret = l;
    return true;
}

void llm_close(struct llm *l)
{
    if (!l)
        return;
    free(l->url);
    free(l->model);
    free(l->key);
    free(l->protocol);
    free(l->key_line);
    free(l->limit_name);
    free(l);
}

/* Takes the key out of a text that came from the other side, also a longer part of it. */
static void hide_key(const struct llm *l, char *text)
{
    size_t size = strlen(l->key);
    if (!size || !text)
        return;
    for (size_t from = 0; from + KEY_PART <= size; from++) {
        char part[KEY_PART + 1];
        snprintf(part, sizeof part, "%.*s", KEY_PART, l->key + from);
        for (char *at = strstr(text, part); at; at = strstr(at, part)) {
            size_t run = 0;
            while (from + run < size && at[run] == l->key[from + run])
                run++;
            memset(at, '*', run);
        }
    }
}

/* ---- one try ---- */

struct trial {
    const struct llm *l;
    const struct llm_call *call;
    int64_t output_tokens;
    struct answer answer;
    struct sse sse;
    struct buf whole;                    /* of an endpoint that does not stream */
    size_t raw_bytes;
    int64_t events;
    bool is_stream, too_large, garbage;
};

static void trial_done(struct trial *t)
{
    answer_done(&t->answer);
    sse_done(&t->sse);
    buf_done(&t->whole);
}
DEFINE_CLEANUP(trial, struct trial, trial_done(it))

static bool on_event(void *ctx, const char *name, const char *data, size_t size)
{
    struct trial *t = ctx;
    struct err err = {0};
    cleanup(json) json_t *doc = NULL;
    (void)name;
    t->events++;
    if (!strcmp(data, "[DONE]")) {
        t->answer.ended = true;
        return true;
    }
    if (!json_parse(data, size, &doc, &err) || !json_is_object(doc)) {
        t->garbage = true;
        return false;
    }
    t->l->dialect->event(&t->answer, doc);
    t->too_large = t->too_large || t->answer.text.overflow;
    return !t->too_large && !t->answer.error[0];
}

static bool on_bytes(void *ctx, const char *data, size_t size, bool is_stream)
{
    struct trial *t = ctx;
    t->raw_bytes += size;
    t->is_stream = is_stream;
    if (t->raw_bytes > (size_t)t->l->c.answer_bytes * RAW_TIMES + MIB) {
        t->too_large = true;
        return false;
    }
    if (!is_stream) {
        buf_add(&t->whole, data, size);
        return true;
    }
    bool go_on = sse_feed(&t->sse, data, size);
    t->too_large = t->too_large || t->sse.line.overflow || t->sse.data.overflow;
    return go_on;
}

static void read_whole(struct trial *t)
{
    struct err err = {0};
    cleanup(json) json_t *doc = NULL;
    if (!json_parse(buf_cstr(&t->whole), t->whole.size, &doc, &err) || !json_is_object(doc)) {
        t->garbage = true;
        return;
    }
    t->l->dialect->whole(&t->answer, doc);
    t->too_large = t->too_large || t->answer.text.overflow;
}

/* What an endpoint says with a status, in its own words where they are JSON of the usual form. */
static void explain_status(const struct http_end *end, char *to, size_t size)
{
    struct err err = {0};
    cleanup(json) json_t *doc = NULL;
    const char *message = NULL;
    if (json_parse(buf_cstr(&end->error), end->error.size, &doc, &err))
        message = json_str(json_object_get(doc, "error"), "message", json_str(doc, "error", json_str(doc, "message", NULL)));
    snprintf(to, size, "status %d%s%.160s", end->status, message ? ": " : "", message ? message : "");
}

static bool status_passes(int status)
{
    return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

static enum outcome outcome_of(struct trial *t, const struct http_end *end, char *detail, size_t size)
{
    static const enum outcome by_how[] = {[HTTP_CANCELLED] = TRY_STOPPED, [HTTP_NO_CONNECTION] = TRY_NO_CONNECTION,
                                          [HTTP_NO_FIRST_BYTE] = TRY_NO_FIRST_BYTE, [HTTP_STALLED] = TRY_STALLED,
                                          [HTTP_TOO_LONG] = TRY_TOO_LONG, [HTTP_BROKEN] = TRY_TRUNCATED};
    snprintf(detail, size, "%s", end->text);
    if (end->how == HTTP_CANCELLED)
        return TRY_STOPPED;
    if (end->status && end->status != 200) {
        explain_status(end, detail, size);
        return status_passes(end->status) ? TRY_BUSY : TRY_REFUSED;
    }
    if (t->too_large)
        return TRY_ANSWERED;
    if (end->how == HTTP_DONE && !t->is_stream && !t->garbage)
        read_whole(t);
    if (t->answer.error[0]) {
        snprintf(detail, size, "%s", t->answer.error);
        return t->answer.error_passes ? TRY_STREAM_ERROR : TRY_STREAM_REFUSED;
    }
    if (t->garbage) {
        snprintf(detail, size, "what came is not of the protocol");
        return TRY_GARBAGE;
    }
    if (t->answer.has_stop || (t->answer.ended && t->answer.text.size))
        return TRY_ANSWERED;             /* also where the connection broke after the last word */
    if (end->how == HTTP_DONE || end->how == HTTP_ENOUGH) {
        snprintf(detail, size, "the answer ended before its end, after %zu bytes of text", t->answer.text.size);
        return TRY_TRUNCATED;
    }
    return by_how[end->how];
}

static bool passed_on(void *ctx)
{
    const struct llm_call *call = ctx;
    return call->stopped && call->stopped(call->ctx);
}

static enum outcome try_once(struct trial *t, const char *body, size_t body_bytes, struct http_end *end, char *detail, size_t size)
{
    const struct llm_config *c = &t->l->c;
    struct http_ask ask = {.url = t->l->url, .body = body, .body_bytes = body_bytes, .connect_ns = c->connect_ns,
                           .first_byte_ns = c->first_byte_ns, .stall_ns = c->stall_ns, .whole_ns = c->whole_ns, .sink = on_bytes,
                           .sink_ctx = t, .stopped = passed_on, .stopped_ctx = (void *)(uintptr_t)t->call};
    int count = 0;
    ask.headers[count++] = "Content-Type: application/json";
    if (t->l->key_line)
        ask.headers[count++] = t->l->key_line;
    if (t->l->dialect->more_header)
        ask.headers[count++] = t->l->dialect->more_header;
    int64_t left = t->call->deadline_ns ? t->call->deadline_ns - clock_mono_ns() : c->whole_ns;
    if (left < ask.whole_ns)
        ask.whole_ns = left > 0 ? left : 0;
    answer_init(&t->answer, (size_t)c->answer_bytes);
    sse_init(&t->sse, (size_t)c->answer_bytes + MIB, on_event, t);
    http_run(&ask, end);
    enum outcome o = outcome_of(t, end, detail, size);
    hide_key(t->l, detail);
    return o;
}

/* ---- the account ---- */

int64_t llm_call_estimate(const struct llm_call *call)
{
    int64_t tokens = llm_tokens_most(call->system, strlen(call->system)) + FRAME_TOKENS;
    for (int i = 0; i < call->message_count; i++)
        tokens += llm_tokens_most(call->messages[i].text, strlen(call->messages[i].text)) + MESSAGE_TOKENS;
    return tokens;
}

static size_t text_bytes(const struct llm_call *call)
{
    size_t bytes = strlen(call->system);
    for (int i = 0; i < call->message_count; i++)
        bytes += strlen(call->messages[i].text);
    return bytes;
}

static void note_try(struct llm_account *a, const struct trial *t, const struct http_end *end, enum outcome o, const char *detail,
                     int64_t took_ns, int64_t waited_ns)
{
    json_t *entry = json_object();
    a->tries++;
    if (end->status)
        json_put_int(entry, "status", end->status);
    json_put_str(entry, "outcome", outcomes[o].name);
    if (*detail)
        json_put_str(entry, "detail", detail);
    json_put_int(entry, "ms", took_ns / 1000000);
    if (waited_ns)
        json_put_int(entry, "waited_ms", waited_ns / 1000000);
    bool charged = outcomes[o].charged && end->sent && (o != TRY_STOPPED || end->how == HTTP_CANCELLED);
    if (charged) {
        struct llm_usage u = usage_judge(&t->answer.said, text_bytes(t->call), llm_call_estimate(t->call), t->answer.text.size, t->output_tokens);
        /* A stream that was left before it told its figures: it had at least a token an event, be they thoughts that we do not keep. */
        if ((o != TRY_ANSWERED || t->too_large) && t->is_stream && u.output < t->events) {
            u.output = t->events < t->output_tokens ? t->events : t->output_tokens;
            u.estimated = true;
        }
        llm_usage_add(&a->usage, &u);
        json_put(entry, "usage", llm_usage_encode(&u));
    }
    if (!a->log)
        a->log = json_array();
    json_array_append_new(a->log, entry);
}

/* False: stopped, or the deadline has come. */
static bool pause_for(const struct llm_call *call, int64_t ns)
{
    int64_t until = clock_mono_ns() + ns;
    for (int64_t now = clock_mono_ns(); now < until; now = clock_mono_ns()) {
        if (passed_on((void *)(uintptr_t)call) || (call->deadline_ns && now >= call->deadline_ns))
            return false;
        clock_sleep_ns(until - now < SLICE_NS ? until - now : SLICE_NS);
    }
    return true;
}

/* How long until the next try: as the other side says, else twice the one before, a quarter of it by chance. */
static int64_t pause_of(const struct llm *l, const struct http_end *end, int number)
{
    int64_t ns = l->c.backoff_ns;
    if (end->retry_after_ns >= 0)
        return end->retry_after_ns;
    for (int i = 1; i < number && ns < BACKOFF_MOST_NS; i++)
        ns *= 2;
    ns = ns < BACKOFF_MOST_NS ? ns : BACKOFF_MOST_NS;
    return ns - ns / 4 + (int64_t)(random_u64() % (uint64_t)(ns / 4 + 1));
}

static void take_answer(const struct llm *l, struct trial *t, struct llm_reply *ret)
{
    struct buf clean = {0};
    utf8_clean(&clean, buf_cstr(&t->answer.text), t->answer.text.size);
    ret->text_bytes = clean.size;
    ret->text = buf_take(&clean);
    hide_key(l, ret->text);
    ret->stop = t->too_large ? LLM_STOP_TOO_LARGE : t->answer.stop;
}

static bool may_spend(const struct llm *l, const struct llm_call *call, int64_t spent, int64_t *ret_output)
{
    int64_t wanted = call->output_tokens && call->output_tokens < l->c.output_tokens ? call->output_tokens : l->c.output_tokens;
    int64_t left = call->tokens_most - spent - llm_call_estimate(call);
    *ret_output = wanted < left ? wanted : left;
    return left >= LEAST_OUTPUT_TOKENS;
}

bool llm_ask(const struct llm *l, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err)
{
    int64_t waited_ns = 0, before = llm_usage_total(&account->usage);
    BUG_ON(call->message_count < 1 || call->message_count > LLM_MAX_MESSAGES);
    for (int number = 1;; number++) {
        cleanup(trial) struct trial t = {.l = l, .call = call};
        cleanup(http_end) struct http_end end = {.status = 0};
        char detail[240] = "";
        if (!may_spend(l, call, llm_usage_total(&account->usage) - before, &t.output_tokens))
            return err_set(err, ERR_TOO_LARGE, "%lld tokens are too few for %s try of a request of about %lld", (long long)call->tokens_most,
                           number > 1 ? "another" : "a", (long long)llm_call_estimate(call));
        cleanup(json) json_t *doc = l->dialect->body(l->model, call, l->limit_name, t.output_tokens);
        cleanup(str) char *body = json_text(doc);
        int64_t began = clock_mono_ns();
        enum outcome o = try_once(&t, body, strlen(body), &end, detail, sizeof detail);
        note_try(account, &t, &end, o, detail, clock_mono_ns() - began, waited_ns);
        if (o == TRY_ANSWERED) {
            take_answer(l, &t, ret);
            return true;
        }
        bool late = call->deadline_ns && clock_mono_ns() >= call->deadline_ns;
        int64_t pause_ns = pause_of(l, &end, number);
        bool long_pause = pause_ns > l->c.retry_after_most_ns && end.retry_after_ns >= 0;
        if (o == TRY_STOPPED)
            return err_set(err, ERR_CONFLICT, "stopped");
        if (!outcomes[o].again || number > l->c.retries || late || long_pause)
            return err_set(err, late ? ERR_TIMEOUT : outcomes[o].code, "the model's endpoint: %s%s%.200s (%s %d of %d%s)", outcomes[o].name,
                           *detail ? ": " : "", detail, "try", number, l->c.retries + 1,
                           long_pause ? "; it asks for a longer pause than is allowed" : late ? "; no time is left" : "");
        waited_ns = pause_ns;
        if (!pause_for(call, pause_ns)) {
            bool stopped = passed_on((void *)(uintptr_t)call);
            return err_set(err, stopped ? ERR_CONFLICT : ERR_TIMEOUT, stopped ? "stopped" : "the model's endpoint: %s; no time is left", outcomes[o].name);
        }
    }
}
