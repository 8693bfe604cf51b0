/*
 * What a coding agent can do through MCP: see what there is, read a shape's brief, and have candidates judged. Each tool is a row of the
 * table; what it is asked for is checked by the part that does it, and told as a result with isError.
 */
#include "server/api/mcp.h"

#include "core/clock.h"
#include "know/lessons.h"

#include <string.h>

#define LIST_MOST 200
#define SCAN_MOST 2000
#define SOURCE_MOST_BYTES ((size_t)512 << 10)
#define LOG_MOST_BYTES 8000
#define LESSON_TOKENS 4000

static enum mcp_outcome failed(struct mcp_result *ret, const struct err *err, const struct faults *f)
{
    ret->doc = json_object();
    json_put_str(ret->doc, "code", err_name(err->code));
    json_put_str(ret->doc, "text", err->text);
    if (f && f->count) {
        json_t *list = json_array();
        for (int i = 0; i < f->count && i < FAULTS_MAX; i++)
            json_array_append_new(list, json_pack("{s:s,s:s}", "pointer", f->list[i].pointer, "detail", f->list[i].detail));
        json_put(ret->doc, "faults", list);
    }
    return MCP_FAILED;
}

static enum mcp_outcome done(struct mcp_result *ret, json_t *take)
{
    ret->doc = take;
    return MCP_OK;
}

static enum mcp_outcome refuse(struct mcp_result *ret, enum err_code code, const char *text)
{
    struct err err;
    err_set(&err, code, "%s", text);
    return failed(ret, &err, NULL);
}

/* A write counts against its caller's rate like any other. */
static bool may_write(const struct request *req, struct response *res, struct mcp_result *ret, enum mcp_outcome *ret_outcome)
{
    if (rate_allows(req, res))
        return true;
    *ret_outcome = refuse(ret, ERR_BUSY, "too many writes: wait a moment");
    return false;
}

static void copy(json_t *to, const json_t *from, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(from, *keys))
            json_object_set(to, *keys, json_object_get(from, *keys));
}

/* An id of that kind in the arguments; NULL: ret says what is wrong. */
static const char *id_of(const json_t *arguments, const char *key, const char *prefix, struct mcp_result *ret)
{
    const char *id = json_str(arguments, key, "");
    if (id_valid(id, prefix))
        return id;
    struct err err;
    err_set(&err, ERR_INVALID, "%s: an id such as %s_... is needed", key, prefix);
    failed(ret, &err, NULL);
    return NULL;
}

/* ---- what there is ---- */

static enum mcp_outcome list_operators(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    static const char *const keys[] = {"name", "version", "description", "tags", "axes", "dtypes", "constraints", NULL};
    const struct op_set *ops = app_of(req)->ops;
    json_t *list = json_array();
    (void)res, (void)arguments;
    for (int i = 0; i < ops->count; i++) {
        cleanup(json) json_t *shown = op_public(ops->list[i]);
        json_t *entry = json_object();
        copy(entry, shown, keys);
        json_array_append_new(list, entry);
    }
    return done(ret, json_pack("{s:o}", "operators", list));
}

struct shapes { const char *op; json_t *list; int seen, most; };

static bool see_kernel(void *ctx, const char *hash, const json_t *kernel)
{
    static const char *const keys[] = {"shape_hash", "shape", "time_ns", "baseline_time_ns", "speedup", "evidence", "is_baseline", NULL};
    struct shapes *s = ctx;
    (void)hash;
    s->seen++;
    if (s->op && strcmp(s->op, json_str(json_object_get(kernel, "shape"), "op", "")))
        return true;
    json_t *entry = json_object();
    copy(entry, kernel, keys);
    json_array_append_new(s->list, entry);
    return (int)json_array_size(s->list) < s->most;
}

static bool see_observed(void *ctx, const char *hash, const json_t *record)
{
    static const char *const keys[] = {"shape_hash", "shape", "count", "estimate", NULL};
    struct shapes *s = ctx;
    (void)hash;
    s->seen++;
    if (s->op && strcmp(s->op, json_str(json_object_get(record, "shape"), "op", "")))
        return true;
    json_t *entry = json_object();
    copy(entry, record, keys);
    json_array_append_new(s->list, entry);
    return (int)json_array_size(s->list) < s->most;
}

static bool scan(struct app *app, enum store_kind kind, store_each *each, struct shapes *s, struct err *err)
{
    cleanup(str) char *after = NULL;
    do {
        struct store_page page = {kind, NULL, after, LIST_MOST, false};
        char *next = NULL;
        if (!store_list(app->store, &page, each, s, &next, NULL, err))
            return false;
        free(after);
        after = next;
    } while (after && s->seen < SCAN_MOST && (int)json_array_size(s->list) < s->most);
    return true;
}

static enum mcp_outcome list_shapes(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    int64_t limit = json_int(arguments, "limit", 50);
    int most = limit < 1 ? 1 : limit > LIST_MOST ? LIST_MOST : (int)limit;
    struct shapes kernels = {json_str(arguments, "op", NULL), json_array(), 0, most}, observed = {kernels.op, json_array(), 0, most};
    struct err err;
    (void)res;
    bool ok = scan(app_of(req), STORE_KERNEL, see_kernel, &kernels, &err) && scan(app_of(req), STORE_OBSERVED, see_observed, &observed, &err);
    json_t *doc = json_pack("{s:o,s:o}", "with_kernel", kernels.list, "observed_in_the_field", observed.list);
    if (ok)
        return done(ret, doc);
    json_decref(doc);
    return failed(ret, &err, NULL);
}

static enum mcp_outcome get_brief(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    struct faults f = {0};
    struct err err = {0};
    json_t *doc = NULL;
    (void)res;
    if (!jobs_brief(app_of(req)->jobs, arguments, &doc, &f, &err))
        return failed(ret, &err, &f);
    ret->text = xstrdup(json_str(doc, "text", ""));
    json_object_del(doc, "text");
    /* It costs the card a second, once a candidate: not for those who may only read. */
    if (json_str(doc, "counters", NULL) && req->caller.scope >= SCOPE_SUBMIT) {
        jobs_want_profile(app_of(req)->jobs, json_str(arguments, "job", ""));
        json_put_str(doc, "counters", "asked for: in some seconds a brief has them");
    }
    return done(ret, doc);
}

static enum mcp_outcome get_kernel(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    static const char *const keys[] = {"shape_hash", "shape", "candidate", "evidence", "time_ns", "baseline_time_ns", "speedup", "plan", "digests", "preconditions",
                                       "is_baseline", "links", NULL};
    const char *hash = json_str(arguments, "shape_hash", "");
    struct err err = {0};
    cleanup(json) json_t *kernel = NULL;
    cleanup(buf) struct buf source = {0};
    (void)res;
    if (!hash_hex_valid(hash))
        return refuse(ret, ERR_INVALID, "shape_hash: 64 hexadecimal digits are needed; get_brief tells a shape's");
    if (!kernel_shown(app_of(req), hash, NULL, &kernel, &err))
        return failed(ret, &err, NULL);
    json_t *doc = json_object();
    copy(doc, kernel, keys);
    const char *digest = json_str(json_object_get(kernel, "digests"), "source", NULL);
    if (digest && store_get_blob(app_of(req)->store, digest, &source, &err) && source.size <= SOURCE_MOST_BYTES)
        json_put_str(doc, "source", buf_cstr(&source));
    return done(ret, doc);
}

/* ---- jobs ---- */

static json_t *job_brief(const json_t *job)
{
    static const char *const keys[] = {"id", "op", "generator", "state", "budget", "spent", "error", "as_of", NULL},
                      *const inner[] = {"shape_hash", "shape", "state", "baseline", "best", "tried", "why_ended", NULL};
    json_t *doc = json_object(), *shapes = json_array(), *shape;
    size_t i;
    copy(doc, job, keys);
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        json_t *entry = json_object();
        copy(entry, shape, inner);
        json_array_append_new(shapes, entry);
    }
    json_put(doc, "shapes", shapes);
    return doc;
}

static enum mcp_outcome start_job(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    cleanup(json) json_t *request = json_copy((json_t *)(uintptr_t)arguments), *job = NULL;
    struct faults f = {0};
    struct err err = {0};
    int64_t as_of = 0;
    enum mcp_outcome outcome;
    if (!may_write(req, res, ret, &outcome))
        return outcome;
    if (!json_object_get(request, "generator"))
        json_put_str(request, "generator", "external");
    if (!json_object_get(request, "reuse"))
        json_put_str(request, "reuse", "never");
    if (!jobs_submit(app_of(req)->jobs, request, req->caller.id, &job, &as_of, &f, &err))
        return failed(ret, &err, &f);
    json_put_int(job, "as_of", as_of);
    return done(ret, job_brief(job));
}

static enum mcp_outcome job_status(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    const char *id = id_of(arguments, "job", "job", ret);
    cleanup(json) json_t *job = NULL;
    struct err err = {0};
    (void)res;
    if (!id)
        return MCP_FAILED;
    return store_get(app_of(req)->store, STORE_JOB, id, &job, &err) ? done(ret, job_brief(job)) : failed(ret, &err, NULL);
}

static enum mcp_outcome cancel_job(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    const char *id = id_of(arguments, "job", "job", ret);
    cleanup(json) json_t *job = NULL;
    struct err err = {0};
    enum mcp_outcome outcome;
    if (!id || !may_write(req, res, ret, &outcome))
        return MCP_FAILED;
    bool ok = job_is_callers(req, id, &err) && jobs_cancel(app_of(req)->jobs, id, &job, &err);
    return ok ? done(ret, job_brief(job)) : failed(ret, &err, NULL);
}

/* ---- candidates ---- */

/* A candidate's verdict as its author needs it: with the beginning of the log, without samples. */
static json_t *candidate_brief(const json_t *record)
{
    static const char *const keys[] = {"id", "job", "shape_hash", "state", "is_baseline", "certificate_digest", "profile", NULL},
                      *const figures[] = {"time_ns", "baseline_ns", "speedup", "evidence", "mode", "bound", "occupancy", "resources", "roofline",
                                        "terms", "counts", "lines", NULL};
    json_t *doc = json_object();
    copy(doc, record, keys);
    cleanup(json) json_t *verdict = json_deep_copy(json_object_get(record, "verdict"));
    json_t *detail = json_object_get(verdict, "detail");
    const char *log = json_str(detail, "log", NULL);
    if (log && strlen(log) > LOG_MOST_BYTES) {
        cleanup(str) char *cut = xstrndup(log, LOG_MOST_BYTES);
        json_put_str(detail, "log", cut);
        json_put_bool(detail, "log_cut", true);
    }
    json_put(doc, "verdict", verdict ? json_incref(verdict) : json_null());
    json_put(doc, "figures", json_object());
    copy(json_object_get(doc, "figures"), json_object_get(record, "figures"), figures);
    return doc;
}

/* Until when a call may wait for a verdict. */
static int64_t wait_until(const struct request *req, const json_t *arguments)
{
    int64_t s = json_int(arguments, "wait_seconds", 30), most = app_of(req)->config->max_wait_s;
    return req->started_ns + (s < 0 ? 0 : s > most ? most : s) * 1000000000;
}

/* The candidate as it is once it was judged, or when the time is up. */
static enum mcp_outcome await_candidate(const struct request *req, struct response *res, const json_t *arguments, const char *id, struct mcp_result *ret)
{
    cleanup(json) json_t *record = NULL;
    struct err err = {0};
    int64_t until = wait_until(req, arguments);
    if (!store_get(app_of(req)->store, STORE_CANDIDATE, id, &record, &err))
        return failed(ret, &err, NULL);
    const char *state = json_str(record, "state", "");
    bool ended = !strcmp(state, "judged") || !strcmp(state, "dropped");
    if (!ended && clock_mono_ns() < until) {
        respond_wait(res, until);
        snprintf(res->note, sizeof res->note, "%s", id);
        return MCP_WAIT;
    }
    json_t *doc = candidate_brief(record);
    if (!ended)
        json_put_str(doc, "note", "not judged yet: ask get_candidate again");
    return done(ret, doc);
}

static enum mcp_outcome submit_candidate(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    static const char *const keys[] = {"job", "shape_hash", "candidate", "wait_seconds", NULL}, *const passed[] = {"candidate", "shape_hash", NULL};
    cleanup(json) json_t *request = json_object(), *record = NULL;
    struct faults f = {0};
    struct err err = {0};
    enum mcp_outcome outcome;
    if (*req->note)                      /* it was sent by this call's first turn, and is waited for */
        return await_candidate(req, res, arguments, req->note, ret);
    const char *job = id_of(arguments, "job", "job", ret);
    if (!job || !may_write(req, res, ret, &outcome))
        return MCP_FAILED;
    json_only_keys(arguments, "", keys, &f);
    if (f.count)
        return err_set(&err, ERR_INVALID, "%s: %s", f.list[0].pointer, f.list[0].detail), failed(ret, &err, &f);
    if (!json_is_object(json_object_get(arguments, "candidate")))
        return refuse(ret, ERR_INVALID, "candidate: an object with language, source and plan is needed; get_brief says its form");
    copy(request, arguments, passed);
    if (!job_is_callers(req, job, &err) || !jobs_add_candidate(app_of(req)->jobs, job, request, &record, &f, &err))
        return failed(ret, &err, &f);
    return await_candidate(req, res, arguments, json_str(record, "id", ""), ret);
}

static enum mcp_outcome get_candidate(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    const char *id = id_of(arguments, "candidate", "cand", ret);
    return id ? await_candidate(req, res, arguments, id, ret) : MCP_FAILED;
}

/* ---- lessons ---- */

static enum mcp_outcome search_lessons(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    static const char *const keys[] = {"id", "situation", "action", "tags", "evidence", "trust", "uses", "wins", NULL};
    struct lesson_tags tags = {.count = 0};
    const char *list[LESSON_MAX_TAGS];
    struct err err = {0};
    cleanup(lesson_list) struct lesson_list found = {.count = 0};
    const json_t *tag;
    size_t i;
    (void)res;
    json_array_foreach(json_object_get(arguments, "tags"), i, tag)
        if (!json_is_string(tag) || !lesson_tags_add(&tags, "%s", json_string_value(tag)))
            return refuse(ret, ERR_INVALID, "tags: each is FACET/NAME, such as op/NAME, target/sm_90a, dtype/bf16, regime/latency, symptom/spill");
    for (int t = 0; t < tags.count; t++)
        list[t] = tags.list[t];
    int64_t limit = json_int(arguments, "limit", 8);
    struct lesson_query q = {.tags = list, .tag_count = tags.count, .text = json_str(arguments, "text", NULL),
                             .limit = limit < 1 ? 1 : limit > 50 ? 50 : (int)limit, .token_budget = LESSON_TOKENS, .may_wait = true};
    if (!lessons_retrieve(app_of(req)->know, &q, &found, &err))
        return failed(ret, &err, NULL);
    json_t *lessons = json_array();
    for (int k = 0; k < found.count; k++) {
        json_t *entry = json_object();
        copy(entry, found.list[k].doc, keys);
        json_array_append_new(lessons, entry);
    }
    if (json_str(arguments, "job", NULL) && req->caller.scope >= SCOPE_SUBMIT && job_is_callers(req, json_str(arguments, "job", ""), &err))
        jobs_told(app_of(req)->jobs, json_str(arguments, "job", ""), lessons);
    return done(ret, json_pack("{s:o,s:s}", "lessons", lessons, "semantic_backend", found.backend ? found.backend : "none"));
}

static enum mcp_outcome propose_lesson(const struct request *req, struct response *res, const json_t *arguments, struct mcp_result *ret)
{
    struct faults f = {0};
    struct err err = {0};
    json_t *doc = NULL;
    enum mcp_outcome outcome;
    if (!may_write(req, res, ret, &outcome))
        return outcome;
    if (!lessons_propose(app_of(req)->know, arguments, "external", req->caller.id, NULL, &doc, &f, &err))
        return failed(ret, &err, &f);
    return done(ret, doc);
}

/* ---- the table ---- */

#define OBJECT(properties, required) "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "],\"additionalProperties\":false}"
#define SHAPE_PROPERTIES                                                                                                              \
    "\"op\":{\"type\":\"string\",\"description\":\"name of an operator\"},"                                                            \
    "\"axes\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"description\":\"a value for each axis\"},"          \
    "\"dtypes\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"                                                  \
    "\"target\":{\"type\":\"string\",\"description\":\"such as sm_90a; default: this server's device\"}"
#define JOB_PROPERTY "\"job\":{\"type\":\"string\",\"description\":\"id, job_...\"}"
#define WAIT_PROPERTY "\"wait_seconds\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"how long to wait for the verdict; default 30\"}"

static const struct mcp_tool tools[] = {
    {"list_operators", "Operators", "All operators with their axes, dtypes and constraints.", OBJECT("", ""), list_operators, SCOPE_READ, true, false},
    {"list_shapes", "Shapes", "Shapes that have a verified kernel, with its figures, and shapes that clients run in the field.",
     OBJECT("\"op\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":200}", ""), list_shapes, SCOPE_READ, true, false},
    {"get_brief", "Brief of a shape",
     "Everything one needs to write a kernel for a shape: the candidate's form and rules, operator with its reference, card, the best so far with source and figures, "
     "where its time goes, and what failed. With job: that job's history.",
     OBJECT(SHAPE_PROPERTIES ",\"job\":{\"type\":\"string\"},\"tokens\":{\"type\":\"integer\",\"description\":\"the most the brief may have\"}", "\"op\",\"axes\""), get_brief,
     SCOPE_READ, true, false},
    {"get_kernel", "Kernel", "The served kernel of a shape: figures, plan, digests, source.", OBJECT("\"shape_hash\":{\"type\":\"string\"}", "\"shape_hash\""), get_kernel, SCOPE_READ,
     true, false},
    {"start_job", "Start a job",
     "A search for one or more shapes of an operator, whose candidates you send with submit_candidate (generator external, the default), or which the server makes itself "
     "(template, llm). The baseline is judged first.",
     OBJECT("\"op\":{\"type\":\"string\"},\"shapes\":{\"type\":\"array\",\"items\":{\"type\":\"object\"},\"description\":\"each an object of axes\"},\"dtypes\":{\"type\":\"object\"},"
            "\"target\":{\"type\":\"string\"},\"generator\":{\"enum\":[\"external\",\"template\",\"llm\"]},\"reuse\":{\"enum\":[\"never\",\"verified\"]},"
            "\"budget\":{\"type\":\"object\",\"description\":\"candidates, gpu_seconds, wall_seconds, tokens\"}", "\"op\",\"shapes\""),
     start_job, SCOPE_SUBMIT, false, false},
    {"job_status", "Job", "A job's state, its shapes with their best, and what was spent.", OBJECT(JOB_PROPERTY, "\"job\""), job_status, SCOPE_READ, true, false},
    {"cancel_job", "Cancel a job", "Ends a job; what was found until then stays.", OBJECT(JOB_PROPERTY, "\"job\""), cancel_job, SCOPE_SUBMIT, false, false},
    {"submit_candidate", "Submit a candidate",
     "Has a candidate judged for a shape of an external job, and waits for the verdict: right or wrong and why, and how fast. The candidate is "
     "{\"language\":\"cuda\",\"source\":\"...\",\"plan\":{\"steps\":[...]}, ...} as get_brief says.",
     OBJECT(JOB_PROPERTY ",\"shape_hash\":{\"type\":\"string\",\"description\":\"needed where the job has several\"},\"candidate\":{\"type\":\"object\"}," WAIT_PROPERTY,
            "\"job\",\"candidate\""),
     submit_candidate, SCOPE_SUBMIT, false, false},
    {"get_candidate", "Candidate", "A candidate's verdict and figures; waits for them where it is not judged yet.",
     OBJECT("\"candidate\":{\"type\":\"string\",\"description\":\"id, cand_...\"}," WAIT_PROPERTY, "\"candidate\""), get_candidate, SCOPE_READ, true, false},
    {"search_lessons", "Lessons", "What helped or hurt before: lessons with their evidence and trust, by tags and words. Name the ids of those you use in the candidate's \"lessons\"; with job, that job's candidates may.",
     OBJECT("\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"FACET/NAME: op, target, dtype, regime, symptom, technique\"},"
            "\"text\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":50}," JOB_PROPERTY, ""),
     search_lessons, SCOPE_READ, true, true},
    {"propose_lesson", "Propose a lesson",
     "Adds a lesson: a specific situation with an action, and pairs of judged candidates that show its effect, which is computed from their figures. Without evidence it is refused.",
     OBJECT("\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"situation\":{\"type\":\"string\"},\"action\":{\"type\":\"string\"},"
            "\"evidence\":{\"type\":\"object\",\"description\":\"pairs: [{with: cand_..., without: cand_...}], reason\"}", "\"tags\",\"situation\",\"action\",\"evidence\""),
     propose_lesson, SCOPE_SUBMIT, false, true},
};
#define TOOL_COUNT (sizeof tools / sizeof *tools)

const struct mcp_tool *mcp_tool_find(const struct app *app, const char *name)
{
    for (size_t i = 0; i < TOOL_COUNT; i++)
        if (!strcmp(tools[i].name, name) && (app->know || !tools[i].enabled_by_knowledge))
            return &tools[i];
    return NULL;
}

json_t *mcp_tools_list(const struct app *app)
{
    json_t *list = json_array();
    for (size_t i = 0; i < TOOL_COUNT; i++) {
        if (tools[i].enabled_by_knowledge && !app->know)
            continue;
        json_t *doc = json_object(), *schema = NULL;
        struct err err;
        BUG_ON(!json_parse(tools[i].schema, strlen(tools[i].schema), &schema, &err));
        json_put_str(doc, "name", tools[i].name);
        json_put_str(doc, "title", tools[i].title);
        json_put_str(doc, "description", tools[i].description);
        json_put(doc, "inputSchema", schema);
        json_put(doc, "annotations", json_pack("{s:b}", "readOnlyHint", (int)tools[i].reads_only));
        json_array_append_new(list, doc);
    }
    return list;
}
