/* One attempt: choose, ask, read the answer, once more where that cannot be used; and the account of it. */
#include "server/generate/agent.h"

#include <string.h>

#define CALLS_MOST 2                     /* the answer, and one more try where it cannot be used */
#define LEAST_OUTPUT_TOKENS 256          /* fewer hold no kernel */
#define TRANSCRIPT_TEXT_MOST ((size_t)1 << 20)

static const char *const outcomes[] = {
#define X(code, name) [code] = name,
    AGENT_OUTCOMES(X)
#undef X
};

const char *agent_outcome_name(enum agent_outcome o)
{
    return outcomes[o];
}

void agent_attempt_done(struct agent_attempt *a)
{
    gen_proposal_done(&a->proposal);
    json_decref(a->prompt);
    json_decref(a->transcript);
    *a = (struct agent_attempt){0};
}

int64_t agent_tokens(const struct agent_attempt *a)
{
    int64_t sum = 0;
    for (int i = 0; i < LLM_PURPOSE_COUNT; i++)
        sum += llm_usage_total(&a->accounts[i].usage);
    return sum;
}

/* ---- the transcript ---- */

static void put_text(json_t *doc, const char *key, const char *text)
{
    size_t size = strlen(text);
    cleanup(str) char *kept = xstrndup(text, size < TRANSCRIPT_TEXT_MOST ? size : TRANSCRIPT_TEXT_MOST);
    json_put_str(doc, key, kept);
}

static void note_call(struct agent_attempt *t, const struct llm_call *call, const struct prompt *p, const struct llm_reply *reply,
                      const json_t *tries, const struct llm_usage *usage, const struct err *err)
{
    json_t *doc = json_object();
    json_put_str(doc, "purpose", llm_purpose_name(call->purpose));
    json_put(doc, "prompt", json_incref(p->sizes));
    put_text(doc, "system", call->system);
    put_text(doc, "user", call->messages[0].text);
    json_put_int(doc, "output_tokens", call->output_tokens);
    if (reply) {
        put_text(doc, "reply", reply->text);
        json_put_str(doc, "stop", llm_stop_name(reply->stop));
    } else {
        json_put(doc, "error", json_pack("{s:s,s:s}", "code", err_name(err->code), "text", err->text));
    }
    json_put(doc, "usage", llm_usage_encode(usage));
    json_put(doc, "tries", tries ? json_deep_copy(tries) : json_array());
    json_array_append_new(json_object_get(t->transcript, "calls"), doc);
}

static void begin_transcript(const struct agent_input *in, struct agent_attempt *t)
{
    t->transcript = json_object();
    json_put_int(t->transcript, "version", 1);
    json_put_str(t->transcript, "model", in->port->model);
    json_put_str(t->transcript, "protocol", in->port->protocol);
    json_put(t->transcript, "shape", shape_encode(in->in->shape));
    json_put_int(t->transcript, "attempt", in->attempt);
    json_put_str(t->transcript, "move", agent_move_name(t->move));
    json_put(t->transcript, "calls", json_array());
}

static void end_transcript(struct agent_attempt *t)
{
    json_put_str(t->transcript, "outcome", outcomes[t->outcome]);
    if (*t->why)
        json_put_str(t->transcript, "why", t->why);
}

/* ---- asking ---- */

static bool stopped(void *ctx)
{
    const struct agent_input *in = ctx;
    return in->stopped && in->stopped(in->stopped_ctx);
}

static bool ask(const struct agent_input *in, struct agent_attempt *t, enum llm_purpose purpose, int64_t output_tokens, const struct prompt *p, struct llm_reply *reply,
                struct err *err)
{
    cleanup(llm_account) struct llm_account account = {.log = NULL};
    struct err why = {0};
    struct llm_call call = {.purpose = purpose, .system = buf_cstr(&p->system), .message_count = 1, .output_tokens = output_tokens,
                            .tokens_most = in->tokens_left - agent_tokens(t), .deadline_ns = in->deadline_ns, .stopped = stopped,
                            .ctx = (void *)(uintptr_t)in};
    call.messages[0].role = LLM_USER;
    call.messages[0].text = buf_cstr(&p->user);
    bool ok = in->port->ask(in->port->ctx, &call, reply, &account, &why);
    struct agent_account *a = &t->accounts[purpose];
    llm_usage_add(&a->usage, &account.usage);
    a->calls++;
    a->tries += account.tries;
    note_call(t, &call, p, ok ? reply : NULL, account.log, &account.usage, &why);
    return ok || err_set(err, why.code, "%s", why.text);
}

/* ---- reading ---- */

/* The candidate that is the same work; -1: none. The baseline is -2. */
static int find_same(const struct agent_input *in, const json_t *doc)
{
    struct hash_hex digest = candidate_digest(doc);
    if (in->baseline && !strcmp(candidate_digest(in->baseline).text, digest.text))
        return -2;
    for (int i = 0; i < in->in->past_count; i++)
        if (!strcmp(candidate_digest(in->in->past[i].candidate).text, digest.text))
            return i;
    return -1;
}

static bool read_answer(const struct agent_input *in, struct agent_attempt *t, const struct llm_reply *reply, json_t **ret)
{
    cleanup(json) json_t *doc = NULL;
    if (reply->stop == LLM_STOP_REFUSAL) {
        t->outcome = ATTEMPT_REFUSAL;
        snprintf(t->why, sizeof t->why, "the model refused");
        return false;
    }
    if (reply->stop == LLM_STOP_TOO_LARGE) {
        t->outcome = ATTEMPT_TOO_LARGE;
        snprintf(t->why, sizeof t->why, "the answer is larger than is taken");
        return false;
    }
    t->outcome = ATTEMPT_UNUSABLE;
    if (!answer_candidate(in, reply, &doc, t->why, sizeof t->why))
        return false;
    int same = find_same(in, doc);
    if (same != -1) {
        t->outcome = ATTEMPT_DUPLICATE;
        snprintf(t->why, sizeof t->why, "this candidate is the same as %s, which was judged already: make a real change",
                 same == -2 ? "the baseline" : in->in->past[same].id);
        return false;
    }
    t->outcome = ATTEMPT_CANDIDATE;
    t->why[0] = 0;
    *ret = steal(&doc);
    return true;
}

static void finish(const struct agent_input *in, struct agent_attempt *t, const struct agent_choice *c, const char *reflection, json_t *take)
{
    const struct gen_past *past = in->in->past;
    json_t *origin = json_object();
    if (c->parent >= 0)
        json_put_str(take, "parent", past[c->parent].id);
    json_put_str(origin, "move", agent_move_name(c->move));
    json_put(origin, "parent", c->parent >= 0 ? json_string(past[c->parent].id) : json_null());
    if (c->other >= 0)
        json_put_str(origin, "other", past[c->other].id);
    if (reflection)
        json_put_str(origin, "reflection", reflection);
    if (c->depth)
        json_put_int(origin, "depth", c->depth);
    json_put_int(origin, "attempt", in->attempt);
    json_put_str(origin, "model", in->port->model);
    t->proposal.candidate = take;
    t->proposal.origin = origin;
}

/*
 * A look back where the search stands still; it goes into this attempt's prompt and, with its candidate's origin, into those that follow. What
 * cannot be paid, or has no words in it, is left out.
 */
static bool reflect(const struct agent_input *in, struct agent_attempt *t, char **ret, struct err *err)
{
    cleanup(prompt) struct prompt p;
    cleanup(llm_reply) struct llm_reply reply = {.text = NULL};
    struct err why = {0};
    prompt_init(&p, in->prompt_tokens);
    sections_reflect(&p, in);
    prompt_build(&p);
    if (2 * (json_int(p.sizes, "tokens", 0) + agent_reflection_tokens()) + LEAST_OUTPUT_TOKENS > in->tokens_left)
        return true;
    if (!ask(in, t, LLM_REFLECTION, agent_reflection_tokens(), &p, &reply, &why))
        return why.code == ERR_TOO_LARGE || why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
    *ret = agent_take_reflection(&reply);
    return true;
}

/* True: asked as often as it may be, or as it needs to be; t->outcome says how it ended. */
static bool converse(const struct agent_input *in, struct agent_attempt *t, const struct agent_choice *c, struct err *err)
{
    cleanup(str) char *last = NULL, *reflection = NULL;
    if (agent_reflection_due(in->in) && !reflect(in, t, &reflection, err))
        return false;
    for (int i = 0; i < CALLS_MOST; i++) {
        cleanup(prompt) struct prompt p;
        cleanup(llm_reply) struct llm_reply reply = {.text = NULL};
        json_t *doc = NULL;
        struct err why = {0};
        prompt_init(&p, in->prompt_tokens);
        if (i) {
            sections_mend(&p, in, last, t->why);
        } else {
            sections_common(&p, in);
            sections_move(&p, in, c);
            if (reflection)
                buf_str(prompt_part(&p, SECTION_MOVE, true, "what you said just now, looking back on this search"), reflection);
        }
        prompt_build(&p);
        if (!i)
            t->prompt = json_incref(p.sizes);
        if (json_int(p.sizes, "tokens", 0) + LEAST_OUTPUT_TOKENS > in->tokens_left - agent_tokens(t)) {
            t->outcome = ATTEMPT_BUDGET;
            snprintf(t->why, sizeof t->why, "%lld tokens are left, and the next prompt alone has about %lld", (long long)(in->tokens_left - agent_tokens(t)),
                     (long long)json_int(p.sizes, "tokens", 0));
            return true;
        }
        if (!ask(in, t, i ? LLM_REPAIR : agent_move_purpose(c->move), in->port->output_tokens, &p, &reply, &why)) {
            if (why.code != ERR_TOO_LARGE && why.code != ERR_NOT_FOUND)
                return err_set(err, why.code, "%s", why.text);
            if (i && why.code == ERR_NOT_FOUND)
                return true;             /* the recording ends with the answer that could not be used */
            t->outcome = why.code == ERR_TOO_LARGE ? ATTEMPT_BUDGET : ATTEMPT_EXHAUSTED;
            snprintf(t->why, sizeof t->why, "%.230s", why.text);
            return true;
        }
        if (read_answer(in, t, &reply, &doc)) {
            finish(in, t, c, reflection, doc);
            return true;
        }
        if (t->outcome != ATTEMPT_UNUSABLE && t->outcome != ATTEMPT_DUPLICATE)
            return true;
        free(last);
        last = steal(&reply.text);
    }
    return true;
}

bool agent_attempt(const struct agent_input *in, struct agent_attempt *ret, struct err *err)
{
    struct agent_choice c = agent_choose(in);
    *ret = (struct agent_attempt){.move = c.move, .outcome = ATTEMPT_UNUSABLE};
    begin_transcript(in, ret);
    bool ok = converse(in, ret, &c, err);
    if (ok)
        end_transcript(ret);
    return ok;
}

bool agent_brief(const struct agent_input *in, struct buf *to, json_t **ret_sections, struct err *err)
{
    cleanup(prompt) struct prompt p;
    (void)err;
    prompt_init(&p, in->prompt_tokens);
    sections_common(&p, in);
    prompt_build(&p);
    buf_add(to, p.system.data, p.system.size);
    buf_str(to, "\n");
    buf_add(to, p.user.data, p.user.size);
    *ret_sections = json_incref(p.sizes);
    return true;
}
