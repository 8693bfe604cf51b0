/*
 * A client of language models over HTTP: OpenAI-compatible chat completions and the Anthropic Messages API, streamed. The one
 * folder of the service that includes curl.
 *
 * One call is one question and one answer. It is tried again where that helps (408, 409, 429, 5xx with 529, a connection that fails, stands
 * still or ends in the middle), after the pause that the other side asks for or one that doubles. Everything the other side
 * sends is bounded: a line, an event, the answer, the time to connect, to the first byte, between bytes, and in all.
 * What was spent is told in any case, also by a call that failed; figures that the other side does not give, or that cannot be true, are
 * estimated and marked so.
 *
 * The key is in this struct and in the request's headers, nowhere else: texts that come back are searched for it.
 * `struct llm` is constant after llm_open: any thread may ask.
 */
#pragma once
#include "core/json.h"

/* X(code, name): what a call is for */
#define LLM_PURPOSES(X)                       \
    X(LLM_GENERATION, "generation")           \
    X(LLM_REPAIR, "repair")                   \
    X(LLM_REFLECTION, "reflection")           \
    X(LLM_CONSOLIDATION, "consolidation")
enum llm_purpose {
#define X(code, name) code,
    LLM_PURPOSES(X)
#undef X
    LLM_PURPOSE_COUNT
};
const char *llm_purpose_name(enum llm_purpose p);

/* X(field): tokens, as both protocols are brought to: input is what was neither read from a cache nor written to one */
#define LLM_COUNTERS(X) X(input) X(output) X(cache_read) X(cache_write)
struct llm_usage {
#define X(field) int64_t field;
    LLM_COUNTERS(X)
#undef X
    bool estimated;                /* at least one figure is ours */
};
int64_t llm_usage_total(const struct llm_usage *u);
void llm_usage_add(struct llm_usage *to, const struct llm_usage *more);
json_t *llm_usage_encode(const struct llm_usage *u);       /* {"input","output","cache_read","cache_write","estimated"?}; new reference */
/* Tokens of so many bytes of text: more than a tokeniser would make of most code. For budgets, never shown as a count. */
int64_t llm_tokens_estimate(size_t bytes);
/* The most that a tokeniser in use makes of this text: a digit, and a byte of what is not ASCII, may be a token each, of all else two bytes. */
int64_t llm_tokens_most(const char *text, size_t bytes);

struct llm_config {
    const char *url;               /* "https://host[:port][/path]", with or without a last "/v1" */
    const char *protocol;          /* "openai" or "anthropic" */
    const char *model;
    const char *key;               /* NULL or "": none is sent */
    const char *limit_name;        /* what openai's requests call their limit of output; NULL: "max_tokens" */
    int64_t connect_ns, first_byte_ns, stall_ns, whole_ns;     /* of one try */
    int64_t answer_bytes;          /* of an answer's text; eight times that in all that is sent for it */
    int64_t output_tokens;         /* the most that is asked for */
    int retries;                   /* after the first try */
    int64_t backoff_ns;            /* the first pause; doubles */
    int64_t retry_after_most_ns;   /* a longer pause than this is not waited for */
};

struct llm;
/* Copies the config. ERR_INVALID names the setting. */
bool llm_open(const struct llm_config *config, struct llm **ret, struct err *err) MUST_CHECK;
void llm_close(struct llm *l);
const char *llm_model(const struct llm *l);
const char *llm_protocol(const struct llm *l);
int llm_tries(const struct llm *l);             /* requests that one call makes at most */
int64_t llm_output_tokens(const struct llm *l);
DEFINE_CLEANUP(llm, struct llm *, llm_close(*it))

#define LLM_MAX_MESSAGES 8
enum llm_role { LLM_USER, LLM_ASSISTANT };
struct llm_call {
    enum llm_purpose purpose;
    const char *system;
    int message_count;             /* user first, then in turns */
    struct { enum llm_role role; const char *text; } messages[LLM_MAX_MESSAGES];
    int64_t output_tokens;         /* the most; at most the config's */
    int64_t tokens_most;           /* what the call may spend with all its tries */
    int64_t deadline_ns;           /* clock_mono_ns; 0: none */
    bool (*stopped)(void *ctx);    /* looked at at least every 100 ms; may be NULL */
    void *ctx;
};
/* What a request of this call will count as input, by our estimate. */
int64_t llm_call_estimate(const struct llm_call *call);

enum llm_stop { LLM_STOP_END, LLM_STOP_LENGTH /* of its tokens */, LLM_STOP_REFUSAL, LLM_STOP_TOO_LARGE /* cut by us */ };
const char *llm_stop_name(enum llm_stop s);
struct llm_reply {
    char *text;                    /* owned; clean UTF-8, without the key */
    size_t text_bytes;
    enum llm_stop stop;
};
void llm_reply_done(struct llm_reply *r);
DEFINE_CLEANUP(llm_reply, struct llm_reply, llm_reply_done(it))

/* Added to by each call, also by one that fails. */
struct llm_account {
    struct llm_usage usage;
    int tries;                     /* requests that were made */
    json_t *log;                   /* [{"status"?,"outcome","detail"?,"ms","waited_ms"?,"usage"?}] or NULL; owned */
};
void llm_account_done(struct llm_account *a);
DEFINE_CLEANUP(llm_account, struct llm_account, llm_account_done(it))

/*
 * ERR_CONFLICT: stopped. ERR_TIMEOUT, ERR_UPSTREAM: after all tries. ERR_UNPROCESSABLE: the endpoint refused the request in a way that
 * another try would not mend (401, 403, 404, 400, 413). ERR_TOO_LARGE: its tokens do not allow a (further) try. Blocks.
 */
bool llm_ask(const struct llm *l, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err) MUST_CHECK;
