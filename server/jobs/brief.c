/* The brief of a shape: the prompt of a model (server/generate/agent.h) for a person or another agent, from what the store has. */
#include "server/jobs/internal.h"

#define PAST_MOST 200                    /* candidates of a job that are looked at, the newest */
#define TOKENS_LEAST 4096

struct history { const char *hash; json_t *list, *baseline; };

static bool see_candidate(void *ctx, const char *id, const json_t *record)
{
    struct history *h = ctx;
    (void)id;
    if (strcmp(json_str(record, "shape_hash", ""), h->hash) || strcmp(json_str(record, "state", ""), "judged"))
        return true;
    if (record_stands_for(record))
        return true;
    if (json_bool(record, "is_baseline", false)) {
        json_decref(h->baseline);
        h->baseline = json_incref((json_t *)(uintptr_t)record);
    } else {
        json_array_insert(h->list, 0, (json_t *)(uintptr_t)record);      /* they come newest first */
    }
    return true;
}

static bool history_of_job(struct jobs *j, const char *job, struct history *h, struct err *err)
{
    cleanup(json) json_t *record = NULL;
    struct store_page page = {STORE_CANDIDATE, job, NULL, PAST_MOST, true};
    return store_get(j->store, STORE_JOB, job, &record, err) && store_list(j->store, &page, see_candidate, h, NULL, NULL, err);
}

/* The served kernel alone, where there is one. */
static void history_of_kernel(struct jobs *j, struct history *h, double *ret_baseline_ns)
{
    cleanup(json) json_t *kernel = NULL, *record = NULL;
    struct err none = {0};
    if (!store_get(j->store, STORE_KERNEL, h->hash, &kernel, &none) || !store_get(j->store, STORE_CANDIDATE, json_str(kernel, "candidate", ""), &record, &none))
        return;
    *ret_baseline_ns = json_num(kernel, "baseline_time_ns", json_num(kernel, "time_ns", 0));
    see_candidate(h, "", record);
}

static void history_done(struct history *h)
{
    json_decref(h->list);
    json_decref(h->baseline);
}
DEFINE_CLEANUP(history, struct history, history_done(it))

static bool read_request(struct jobs *j, const json_t *request, struct shape *ret, int64_t *ret_tokens, struct faults *f, struct err *err)
{
    static const char *const keys[] = {"op", "axes", "dtypes", "target", "tokens", "job", NULL}, *const of_shape[] = {"op", "axes", "dtypes", "target"};
    cleanup(json) json_t *doc = json_object();
    const json_t *tokens = json_object_get(request, "tokens");
    json_only_keys(request, "", keys, f);
    for (size_t i = 0; i < sizeof of_shape / sizeof *of_shape; i++)
        if (json_object_get(request, of_shape[i]))
            json_object_set(doc, of_shape[i], json_object_get(request, of_shape[i]));
    *ret_tokens = j->config.prompt_tokens;
    if (tokens && (!json_is_integer(tokens) || json_integer_value(tokens) < TOKENS_LEAST || json_integer_value(tokens) > j->config.prompt_tokens))
        faults_add(f, "/tokens", "an integer from %d to %lld is needed", TOKENS_LEAST, (long long)j->config.prompt_tokens);
    else if (tokens)
        *ret_tokens = json_integer_value(tokens);
    if (!shape_parse(j->ops, doc, j->config.default_target, "", ret, f) || f->count)
        return err_set(err, ERR_INVALID, "the request has %d %s, the first at %s: %s", f->count, f->count == 1 ? "fault" : "faults",
                       *f->list[0].pointer ? f->list[0].pointer : "its top", f->list[0].detail);
    return true;
}

bool jobs_brief(struct jobs *j, const json_t *request, json_t **ret, struct faults *f, struct err *err)
{
    struct shape shape;
    int64_t tokens;
    double baseline_ns = 0;
    const char *job = json_str(request, "job", NULL);
    if (!read_request(j, request, &shape, &tokens, f, err))
        return false;
    struct hash_hex hash = shape_hash(&shape);
    cleanup(history) struct history h = {hash.text, json_array(), NULL};
    cleanup(json) json_t *baseline = NULL, *sections = NULL;
    cleanup(buf) struct buf text = {0};
    if (job && !history_of_job(j, job, &h, err))
        return false;
    if (!job)
        history_of_kernel(j, &h, &baseline_ns);
    if (!h.baseline && !candidate_load(shape.op->dir, "baseline", &baseline, err))
        return false;
    int count = (int)json_array_size(h.list);
    cleanup(mem) void *memory = xarray((size_t)count + 1, sizeof(struct gen_past));
    struct gen_past *past = memory;
    for (int i = 0; i < count; i++)
        past[i] = gen_past_of(json_array_get(h.list, (size_t)i));
    const json_t *figures = json_object_get(h.baseline, "figures");
    struct gen_input in = {.op = shape.op, .shape = &shape, .past = past, .past_count = count, .measured = j->measured,
                           .baseline_ns = h.baseline ? json_num(figures, "time_ns", 0) : baseline_ns};
    cleanup(recalled) struct recalled known = {.lessons = NULL};
    if (!recall(j, &shape, past, count, agent_best(&in), &known, err))
        return false;
    if (job)
        jobs_told(j, job, known.lessons);
    int best = agent_best(&in);
    const json_t *shown = best >= 0 ? json_array_get(h.list, (size_t)best) : h.baseline;
    bool unread = job && profile_lacks(j, shown);
    struct agent_input a = {.in = &in, .lessons = known.lessons, .notes = known.notes, .baseline_figures = figures,
                            .baseline_profile = json_object_get(h.baseline, "profile"),
                            .baseline = h.baseline ? json_object_get(h.baseline, "candidate") : baseline,
                            .prompt_tokens = tokens, .tokens_left = tokens};
    if (!agent_brief(&a, &text, &sections, err))
        return false;
    *ret = json_object();
    json_put_str(*ret, "shape_hash", hash.text);
    json_put(*ret, "shape", shape_encode(&shape));
    json_put_str(*ret, "text", buf_cstr(&text));
    json_put(*ret, "prompt", json_incref(sections));
    if (unread)
        json_put_str(*ret, "counters", "not read");
    return true;
}
