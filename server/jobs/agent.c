/*
 * The step of a job whose candidates a language model writes. What an attempt may spend is reserved in the job's record before the model
 * is asked, raised before each further question of the attempt, and settled when its answer is there, in the transaction that also holds the attempt, its transcript and its candidate. A process
 * that dies in between leaves the reservation, which the next one charges in full: a budget is never passed because nobody counted.
 *
 * An attempt that gives no candidate is counted; several in a row end the shape's search. Where the endpoint fails for good, the
 * job fails, with what was spent and found until then. A job that replays another asks nobody: its answers are the other's transcripts'.
 */
#include "server/jobs/internal.h"

#define LEAST_TOKENS 1024                /* fewer hold no question and answer */
#define RESERVED "tokens_reserved"

bool generator_is_external(const struct generator *g)
{
    return !g->propose && !g->attempt;
}

/* ---- replaying ---- */

bool replay_find(struct jobs *j, const json_t *request, json_t **ret, struct faults *f)
{
    const char *id = json_str(request, "replays", "");
    struct err err = {0};
    cleanup(json) json_t *job = NULL;
    if (!id_valid(id, "job") || !store_get(j->store, STORE_JOB, id, &job, &err) || strcmp(json_str(job, "generator", ""), "llm") != 0) {
        faults_add(f, "/replays", "the id of a job of generator llm is needed");
        return false;
    }
    *ret = steal(&job);
    return true;
}

struct recording { struct jobs *j; const char *hash; int64_t number; json_t *attempt, *transcript; int call; };

static bool see_attempt(void *ctx, const char *id, const json_t *record)
{
    struct recording *rec = ctx;
    (void)id;
    if (!strcmp(json_str(record, "shape_hash", ""), rec->hash) && json_int(record, "number", 0) == rec->number) {
        json_decref(rec->attempt);
        rec->attempt = json_incref((json_t *)(uintptr_t)record);
    }
    return !rec->attempt;
}

/* The recorded attempt of that number, with its transcript; nothing where there is none. */
static bool recording_open(struct recording *rec, const char *job, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {STORE_ATTEMPT, job, after, 500, false};
        char *next = NULL;
        if (!store_list(rec->j->store, &page, see_attempt, rec, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after && !rec->attempt);
    cleanup(buf) struct buf text = {0};
    const char *digest = json_str(json_object_get(rec->attempt, "transcript"), "digest", NULL);
    return !digest || (store_get_blob(rec->j->store, digest, &text, err) && json_parse(text.data, text.size, &rec->transcript, err));
}

static void recording_done(struct recording *rec)
{
    json_decref(rec->attempt);
    json_decref(rec->transcript);
}
DEFINE_CLEANUP(recording, struct recording, recording_done(it))

static enum llm_stop stop_parse(const char *name)
{
    for (int s = LLM_STOP_END; s <= LLM_STOP_TOO_LARGE; s++)
        if (!strcmp(llm_stop_name((enum llm_stop)s), name))
            return (enum llm_stop)s;
    return LLM_STOP_END;
}

static bool ask_recording(void *ctx, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err)
{
    struct recording *rec = ctx;
    const json_t *calls = json_object_get(rec->transcript, "calls"), *said = NULL;
    bool reflects = call->purpose == LLM_REFLECTION, found = false;
    (void)account;
    while (!found && (said = json_array_get(calls, (size_t)rec->call)) != NULL) {      /* what was asked then and not now is passed over */
        found = (strcmp(json_str(said, "purpose", ""), llm_purpose_name(LLM_REFLECTION)) == 0) == reflects;
        if (!found && reflects)
            break;
        rec->call++;
    }
    const char *reply = found ? json_str(said, "reply", NULL) : NULL;
    if (!reply)
        return err_set(err, ERR_NOT_FOUND, "the recording has no answer to this attempt");
    *ret = (struct llm_reply){xstrdup(reply), strlen(reply), stop_parse(json_str(said, "stop", ""))};
    return true;
}

/* ---- the account ---- */

static int64_t tokens_left(const struct run *r)
{
    const json_t *spent = json_object_get(r->job, "spent");
    return json_int(json_object_get(r->job, "budget"), "tokens", r->j->config.default_tokens) - json_int(spent, "tokens", 0);
}

static void add_usage(json_t *llm, const char *purpose, const struct llm_usage *u, int calls)
{
    json_t *to = json_object_get(llm, purpose);
    if (!to)
        json_put(llm, purpose, to = json_object());
#define X(field) json_put_int(to, #field, json_int(to, #field, 0) + u->field);
    LLM_COUNTERS(X)
#undef X
    json_put_int(to, "calls", json_int(to, "calls", 0) + calls);
    if (u->estimated)
        json_put_bool(to, "estimated", true);
}

/* Into a job's "spent": by purpose and in all; the reservation goes. */
static void settle_tokens(json_t *job, const struct agent_attempt *t)
{
    json_t *spent = json_object_get(job, "spent"), *llm = json_object_get(spent, "llm");
    if (!llm)
        json_put(spent, "llm", llm = json_object());
    for (int p = 0; p < LLM_PURPOSE_COUNT; p++)
        if (t->accounts[p].calls)
            add_usage(llm, llm_purpose_name((enum llm_purpose)p), &t->accounts[p].usage, t->accounts[p].calls);
    json_put_int(spent, "tokens", json_int(spent, "tokens", 0) + agent_tokens(t));
    json_object_del(spent, RESERVED);
}

static void count(struct jobs *j, const struct agent_attempt *t, bool ok)
{
    pthread_mutex_lock(&j->lock);
    for (int p = 0; p < LLM_PURPOSE_COUNT; p++) {
        llm_usage_add(&j->llm[p].usage, &t->accounts[p].usage);
        j->llm[p].calls += t->accounts[p].calls;
        j->llm[p].tries += t->accounts[p].tries;
    }
    j->attempts++;
    j->attempts_failed += !ok || t->outcome != ATTEMPT_CANDIDATE;
    pthread_mutex_unlock(&j->lock);
}

void jobs_count_llm(struct jobs *j, int purpose, const struct llm_account *account)
{
    pthread_mutex_lock(&j->lock);
    llm_usage_add(&j->llm[purpose].usage, &account->usage);
    j->llm[purpose].calls++;
    j->llm[purpose].tries += account->tries;
    pthread_mutex_unlock(&j->lock);
    spending_add_tokens(j, llm_usage_total(&account->usage));
}

json_t *agent_stats(struct jobs *j)
{
    json_t *doc = json_object(), *purposes = json_object();
    json_put_int(doc, "attempts", j->attempts);
    json_put_int(doc, "attempts_failed", j->attempts_failed);
    for (int p = 0; p < LLM_PURPOSE_COUNT; p++) {
        json_t *usage = llm_usage_encode(&j->llm[p].usage);
        json_put_int(usage, "calls", j->llm[p].calls);
        json_put_int(usage, "tries", j->llm[p].tries);
        json_put(purposes, llm_purpose_name((enum llm_purpose)p), usage);
    }
    json_put(doc, "usage", purposes);
    return doc;
}

/* A process before this one was asking when it ended: what it had reserved counts as spent. */
static enum step_result charge_reserved(struct run *r)
{
    json_t *next = run_next(r);
    struct agent_attempt lost = {.outcome = ATTEMPT_UNUSABLE};
    struct agent_account *a = &lost.accounts[LLM_GENERATION];
    a->calls = 1;
    a->usage = (struct llm_usage){.input = json_int(json_object_get(next, "spent"), RESERVED, 0), .estimated = true};
    settle_tokens(next, &lost);
    return run_commit(r, store_batch_new(), next, NULL);
}

static enum step_result reserve(struct run *r, int64_t tokens)
{
    json_t *next = run_next(r);
    json_put_int(json_object_get(next, "spent"), RESERVED, tokens);
    enum step_result done = run_commit(r, store_batch_new(), next, NULL);
    r->reserved = done == STEP_GO;
    return done;
}

/* What one call may cost with all its tries. */
static int64_t call_most(const struct llm *l, int64_t prompt_tokens)
{
    return llm_tries(l) * (prompt_tokens + llm_output_tokens(l));
}

/* Whoever asks a model for a run. used: what the attempt's earlier calls cost; left: what there was of the budget before it. */
struct asking { struct run *r; const struct llm *llm; int64_t used, left; };

/* No call may cost more than is reserved by then: a process that dies within it has charged enough. */
static bool ask_model(void *ctx, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err)
{
    struct asking *q = ctx;
    const int64_t before = llm_usage_total(&account->usage);
    int64_t most = call_most(q->llm, llm_call_estimate(call)), wanted = q->used + most;
    wanted = wanted < q->left ? wanted : q->left;
    if (wanted > json_int(json_object_get(q->r->job, "spent"), RESERVED, 0) && reserve(q->r, wanted) != STEP_GO)
        return err_set(err, ERR_CONFLICT, "stopped");
    struct llm_call within = *call;
    within.tokens_most = call->tokens_most < most ? call->tokens_most : most;
    bool ok = llm_ask(q->llm, &within, ret, account, err);
    q->used += llm_usage_total(&account->usage) - before;
    return ok;
}

/* The job was cancelled while the model was asked: its end is written, and what was spent is added to it. */
static void account_late(struct run *r, const struct agent_attempt *t)
{
    for (int tries = 0; tries < JOBS_TRIES; tries++) {
        struct err err = {0};
        cleanup(json) json_t *was = NULL, *now = NULL;
        if (!store_get(r->j->store, STORE_JOB, r->e->id, &was, &err))
            return;
        now = json_deep_copy(was);
        settle_tokens(now, t);
        struct store_batch *b = store_batch_new();
        store_expect(b, STORE_JOB, r->e->id, was);
        store_put(b, STORE_JOB, r->e->id, NULL, now);
        if (spending_commit(r->j, b, was, now, &err) || err.code != ERR_CONFLICT)
            return;
    }
}

/* ---- an attempt's record ---- */

static json_t *usage_of(const struct agent_attempt *t)
{
    json_t *doc = json_object();
    for (int p = 0; p < LLM_PURPOSE_COUNT; p++)
        if (t->accounts[p].calls)
            add_usage(doc, llm_purpose_name((enum llm_purpose)p), &t->accounts[p].usage, t->accounts[p].calls);
    return doc;
}

static json_t *event_doc(const json_t *record, int64_t tokens)
{
    static const char *const keys[] = {"shape_hash", "number", "move", "outcome", "why", "candidate"};
    json_t *doc = json_object();
    json_put_str(doc, "attempt", json_str(record, "id", ""));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(record, keys[i]))
            json_object_set(doc, keys[i], json_object_get(record, keys[i]));
    json_put_int(doc, "tokens", tokens);
    return doc;
}

/* Attempt, transcript and event into the batch; the job's shape counts it. */
static void put_attempt(struct run *r, struct store_batch *b, json_t *next, int index, const struct agent_attempt *t, const char *outcome, const char *why,
                        const char *candidate, const struct recording *rec)
{
    json_t *shape = job_shape(next, index);
    struct id id = id_new("att");
    struct hash_hex digest;
    cleanup(json) json_t *record = json_object();
    cleanup(str) char *text = json_text(t->transcript);
    int64_t number = json_int(shape, "attempts", 0) + 1;
    bool failed = !candidate;
    store_put_blob(b, text, strlen(text), &digest);
    json_put_str(record, "id", id.text);
    json_put_str(record, "job", r->e->id);
    json_put_str(record, "shape_hash", json_str(shape, "shape_hash", ""));
    json_put_int(record, "number", number);
    json_put_str(record, "move", agent_move_name(t->move));
    json_put_str(record, "outcome", outcome);
    if (*why)
        json_put_str(record, "why", why);
    if (candidate)
        json_put_str(record, "candidate", candidate);
    json_put(record, "prompt", t->prompt ? json_incref(t->prompt) : json_null());
    json_put(record, "usage", usage_of(t));
    json_put(record, "transcript", json_pack("{s:s,s:I}", "digest", digest.text, "bytes", (json_int_t)strlen(text)));
    if (rec->attempt)
        json_put_str(record, "replays", json_str(rec->attempt, "id", ""));
    json_put_str(record, "created", clock_text(clock_wall_ns()).text);
    json_put_int(shape, "attempts", number);
    json_put_int(shape, "failed_attempts", failed ? json_int(shape, "failed_attempts", 0) + 1 : 0);
    store_put(b, STORE_ATTEMPT, id.text, r->e->id, record);
    cleanup(json) json_t *event = event_doc(record, agent_tokens(t));
    store_event(b, "llm.attempt", r->e->id, event);
}

/* ---- the step ---- */

static bool is_stopped(void *ctx)
{
    const struct run *r = ctx;
    return r->j->stopping || r->e->cancelled;
}

/* The endpoint failed, time is up, or we were told to stop. The attempt is written in any case. */
static enum step_result settle_failure(struct run *r, int index, const struct agent_attempt *t, const struct err *why, const struct recording *rec)
{
    if (r->e->cancelled) {
        account_late(r, t);
        return STEP_END;
    }
    json_t *next = run_next(r);
    struct store_batch *b = store_batch_new();
    settle_tokens(next, t);
    r->reserved = false;
    if (why->code != ERR_CONFLICT)
        put_attempt(r, b, next, index, t, "error", why->text, NULL, rec);
    enum step_result done = run_commit(r, b, next, NULL);
    if (done == STEP_END)
        account_late(r, t);
    if (done != STEP_GO || why->code == ERR_CONFLICT)
        return done;
    cleanup(str) char *reason = run_used_up(r);
    return reason ? run_stop_search(r, index, reason) : run_fail(r, why);
}

static enum step_result settle_attempt(struct run *r, int index, const struct agent_attempt *t, const struct recording *rec)
{
    if (t->outcome == ATTEMPT_EXHAUSTED && !rec->attempt) {
        cleanup(str) char *reason = xfmt("all attempts of %s are replayed", json_str(r->job, "replays", "the other job"));
        return run_stop_search(r, index, reason);      /* a replay reserves nothing */
    }
    json_t *next = run_next(r);
    struct store_batch *b = store_batch_new();
    struct id id = id_new("cand");
    bool has = t->outcome == ATTEMPT_CANDIDATE;
    settle_tokens(next, t);
    r->reserved = false;
    put_attempt(r, b, next, index, t, agent_outcome_name(t->outcome), t->why, has ? id.text : NULL, rec);
    enum step_result done = has ? run_take_proposal(r, b, next, index, &t->proposal, id.text) : run_commit(r, b, next, NULL);
    if (done == STEP_END)
        account_late(r, t);
    if (done != STEP_GO || t->outcome != ATTEMPT_BUDGET)
        return done;
    cleanup(str) char *reason = xfmt("the budget of %lld tokens is used up: %s", (long long)json_int(json_object_get(r->job, "budget"), "tokens", 0), t->why);
    return run_stop_search(r, index, reason);
}

/* What the agent is told beyond what every generator is; the records are the caller's. */
static bool load_baseline_record(struct run *r, int index, json_t **ret, struct err *err)
{
    const json_t *result = json_object_get(job_shape(r->job, index), "baseline");
    return store_get(r->j->store, STORE_CANDIDATE, json_str(result, "candidate", ""), ret, err);
}

static enum step_result make_attempt(struct run *r, int index, int64_t left, const struct generator *g)
{
    struct err err = {0};
    cleanup(json) json_t *baseline = NULL;
    cleanup(agent_attempt) struct agent_attempt t = {.outcome = ATTEMPT_UNUSABLE};
    cleanup(recalled) struct recalled known = {.lessons = NULL};
    cleanup(recording) struct recording rec = {.j = r->j, .hash = json_str(job_shape(r->job, index), "shape_hash", ""),
                                               .number = json_int(job_shape(r->job, index), "attempts", 0) + 1};
    const char *replays = json_str(r->job, "replays", NULL);
    const struct llm *llm = r->j->config.llm;
    struct asking asking = {.r = r, .llm = llm, .left = tokens_left(r)};
    struct agent_port port = {.ask = replays ? ask_recording : ask_model, .ctx = replays ? (void *)&rec : (void *)&asking,
                              .model = llm && !replays ? llm_model(llm) : "replay", .protocol = llm && !replays ? llm_protocol(llm) : "replay",
                              .output_tokens = llm ? llm_output_tokens(llm) : 1};
    struct gen_past *past = NULL;
    struct gen_input in;
    if (!run_load_shape(r, index, &err) || !load_baseline_record(r, index, &baseline, &err) || (replays && !recording_open(&rec, replays, &err)) ||
        !run_gen_input(r, index, left, NULL, &past, &in, &err))
        return run_fail(r, &err);
    cleanup(mem) void *memory = past;
    if (!recall(r->j, &r->shape, past, in.past_count, agent_best(&in), &known, &err))
        return run_fail(r, &err);
    struct agent_input a = {.lessons = known.lessons, .notes = known.notes, .in = &in,
                            .baseline = json_object_get(baseline, "candidate"), .baseline_figures = json_object_get(baseline, "figures"),
                            .baseline_profile = json_object_get(baseline, "profile"),
                            .attempt = rec.number, .prompt_tokens = r->j->config.prompt_tokens, .tokens_left = tokens_left(r),
                            .deadline_ns = run_wall_limit_ns(r), .stopped = is_stopped, .stopped_ctx = r, .port = &port};
    bool ok = g->attempt(&a, &t, &err);
    count(r->j, &t, ok);
    return ok ? settle_attempt(r, index, &t, &rec) : settle_failure(r, index, &t, &err, &rec);
}

enum step_result propose_agent(struct run *r, int index, int64_t left, const struct generator *g)
{
    const json_t *shape = job_shape(r->job, index);
    int64_t tokens = tokens_left(r), most = r->j->config.llm ? call_most(r->j->config.llm, r->j->config.prompt_tokens) : 0;
    if (json_object_get(json_object_get(r->job, "spent"), RESERVED) && !r->reserved)
        return charge_reserved(r);
    if (tokens < LEAST_TOKENS) {
        cleanup(str) char *reason = xfmt("the budget of %lld tokens is used up", (long long)json_int(json_object_get(r->job, "budget"), "tokens", 0));
        return run_stop_search(r, index, reason);
    }
    if (json_int(shape, "failed_attempts", 0) >= r->j->config.attempt_failures) {
        cleanup(str) char *reason = xfmt("the model gave no candidate %lld times in a row", (long long)json_int(shape, "failed_attempts", 0));
        return run_stop_search(r, index, reason);
    }
    if (!json_str(r->job, "replays", NULL) && !r->j->config.llm) {
        struct err err;
        err_set(&err, ERR_UNPROCESSABLE, "no model's endpoint is configured any more");
        return run_fail(r, &err);
    }
    if (!json_str(r->job, "replays", NULL)) {
        enum step_result profiled;
        if (!r->reserved && profile_best(r, index, &profiled))
            return profiled;
        enum step_result reserved = r->reserved ? STEP_GO : reserve(r, tokens < most ? tokens : most);
        if (reserved != STEP_GO)
            return reserved;
    }
    return make_attempt(r, index, left, g);
}
