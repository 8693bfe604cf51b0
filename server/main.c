/*
 * proteusd: reads its settings, opens what there is, serves, and stops in the order in which things depend on each other:
 *
 *   store <- signing key, knowledge <- jobs (runners, judges) <- HTTP
 *
 * Signals arrive in the main thread alone. Whatever hangs, the process is gone within five seconds of SIGTERM: what had to be
 * durable is durable by then, and the rest is judged again at the next start.
 */
#include "server/api/api.h"
#include "server/config.h"
#include "server/generate/agent.h"
#include "server/llm/embed.h"
#include "server/llm/llm.h"
#include "server/signing.h"
#include "know/lessons.h"

#include "core/clock.h"
#include "core/environment.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#define SEEDS_MAX_BYTES ((size_t)8 << 20)
#define DEVICES_WAIT_NS ((int64_t)10000000000)
#define REQUEST_GRACE_NS ((int64_t)1500000000)
#define RETAIN_PASS_NS ((int64_t)600 * 1000000000)
#define STOP_LIMIT_NS ((int64_t)4500000000)
#define OTHER_FILES 512
#define FALLBACK_TARGET "sm_90a"

extern char **environ;

struct server {
    struct config config;
    struct op_set ops;
    struct signer signer;
    struct store *store;
    struct auth *auth;
    struct know *know;
    atomic_bool stopping;            /* whoever measures for the knowledge layer gives up */
    struct jobs *jobs;
    struct llm *llm;
    struct embedder *embedder;
    int64_t consolidation_tokens;    /* spent; the knowledge layer's thread alone */
    struct http_server *http;
    struct app app;
    struct preset_set presets;
    json_t *seeds;
    char *static_dir, *openapi, *ops_dir, *card_lock, *thesaurus;
    char target[TARGET_SIZE];
};

static const struct { const char *name; enum log_level level; } levels[] = {
    {"debug", LOG_DEBUG}, {"info", LOG_INFO}, {"warn", LOG_WARN}, {"error", LOG_ERROR}};

static void set_log_level(const char *name)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(levels[i].name, name))
            log_threshold(levels[i].level);
}

static void warn_lines(const struct buf *lines)
{
    cleanup(str) char *copy = xstrdup(buf_cstr(lines));
    char *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        log_line(LOG_WARN, line, NULL);
}

/* NAME where the programs' data lies: dist/share/proteus, or share/proteus of the build. NULL: not there. */
static char *share_path(const char *name)
{
    static const char *const tries[] = {"../share/proteus", "share/proteus", "../../share/proteus"};
    cleanup(str) char *self = self_dir();
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        cleanup(str) char *path = xfmt("%s/%s/%s", self, tries[i], name);
        if (access(path, R_OK) == 0)
            return steal(&path);
    }
    return NULL;
}

/*
 * Every connection is an open file; the library wants a few, LMDB and judges some more. Where the machine allows fewer than the
 * settings ask for, there are fewer connections.
 */
static int64_t fit_connections(int64_t connections)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)connections + OTHER_FILES;
    BUG_ON(getrlimit(RLIMIT_NOFILE, &limit) != 0);
    if (limit.rlim_cur < want) {
        struct rlimit raised = {want, limit.rlim_max < want ? want : limit.rlim_max};     /* the hard limit too, if we may */
        struct rlimit most = {limit.rlim_max, limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) != 0 && setrlimit(RLIMIT_NOFILE, &most) != 0)
            log_line(LOG_WARN, "the limit of open files cannot be raised", NULL);
        BUG_ON(getrlimit(RLIMIT_NOFILE, &limit) != 0);
    }
    if (limit.rlim_cur >= want)
        return connections;
    int64_t left = (int64_t)limit.rlim_cur - OTHER_FILES, fit = left < 16 ? 16 : left;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)fit);
    log_line(LOG_WARN, "the limit of open files (ulimit -n) allows fewer connections than --connections", "connections", text, NULL);
    return fit;
}

static bool add_admin_token(struct auth *auth, const char *text, const char *from, struct err *err)
{
    char id[44];
    struct hash_hex hash;
    if (!token_split(text, id, &hash, err) || !auth_add(auth, id, hash.text, SCOPE_ADMIN, err))
        return err_wrap(err, "%s", from);
    return true;
}

static bool read_admin_tokens(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    if (c->admin_token && *c->admin_token && !add_admin_token(s->auth, c->admin_token, "--admin-token", err))
        return false;
    if (!c->admin_token_file || !*c->admin_token_file)
        return true;
    cleanup(buf) struct buf text = {0};
    if (!file_read(c->admin_token_file, 4096, &text, err))
        return err_wrap(err, "--admin-token-file");
    while (text.size && strchr(" \t\r\n", text.data[text.size - 1]))
        text.data[--text.size] = 0;
    return add_admin_token(s->auth, buf_cstr(&text), c->admin_token_file, err);
}

static bool read_key(const char *path, const char *flag, struct buf *to, struct err *err)
{
    if (path && *path && !file_read(path, 4096, to, err))
        return err_wrap(err, "%s", flag);
    while (to->size && strchr(" \t\r\n", to->data[to->size - 1]))
        to->data[--to->size] = 0;
    return true;
}

/* Without an address there is no model, and jobs that want one are told so. */
static bool open_llm(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    cleanup(buf) struct buf key = {0};
    if (!c->llm_url || !*c->llm_url)
        return true;
    if (!read_key(c->llm_key_file, "--llm-key-file", &key, err))
        return false;
    const int64_t ms = 1000000;
    struct llm_config llm = {.url = c->llm_url, .protocol = c->llm_protocol, .model = c->llm_model, .key = key.size ? buf_cstr(&key) : c->llm_key,
                             .limit_name = c->llm_limit_name,
                             .connect_ns = c->llm_connect_ms * ms, .first_byte_ns = c->llm_first_byte_ms * ms, .stall_ns = c->llm_stall_ms * ms,
                             .whole_ns = c->llm_whole_ms * ms, .answer_bytes = c->llm_answer_bytes, .output_tokens = c->llm_output_tokens,
                             .retries = (int)c->llm_retries, .backoff_ns = c->llm_backoff_ms * ms,
                             .retry_after_most_ns = c->llm_retry_after_s * 1000 * ms};
    return llm_open(&llm, &s->llm, err);
}

/* None at all is no fault: then there are no presets. One that cannot be read is. */
static bool open_presets(struct server *s, struct err *err)
{
    const char *given = s->config.models_dir;
    cleanup(str) char *dir = given && *given ? xstrdup(given) : share_path("models");
    if (!dir || preset_set_load(dir, &s->presets, err))
        return true;
    return err_wrap(err, "the model presets (--models-dir)");
}

static bool open_seeds(struct server *s, struct err *err)
{
    const char *given = s->config.seeds;
    if (!given || !*given)
        return true;
    if (!json_parse_file(given, SEEDS_MAX_BYTES, &s->seeds, err))
        return err_wrap(err, "the settings to try first (--seeds)");
    return json_is_array(s->seeds) || err_set(err, ERR_INVALID, "--seeds: %s is not a list of {shape,template,params}", given);
}

static bool open_state(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    s->ops_dir = c->ops_dir && *c->ops_dir ? xstrdup(c->ops_dir) : op_default_dir();
    if (!op_set_load(s->ops_dir, &s->ops, err))
        return err_wrap(err, "the operators (--ops-dir %s)", s->ops_dir);
    if (!open_presets(s, err) || !open_seeds(s, err))
        return false;
    if (!dir_make(c->data, 0700, err))
        return err_wrap(err, "the data folder (--data)");
    struct store_config store = {.dir = c->data, .map_bytes = c->store_map_bytes, .job_events_kept = c->job_events_kept};
    if (!store_open(&store, &s->store, err) || !signing_open(c->data, s->store, !strcmp(c->new_signing_key, "yes"), &s->signer, err))
        return false;
    s->auth = auth_new((int)c->max_tokens + 2);
    s->app.store = s->store;
    s->app.auth = s->auth;
    return tokens_load(&s->app, err) && read_admin_tokens(s, err);
}

static bool is_stopping(void *ctx)
{
    return ((struct server *)ctx)->stopping;
}

/* On the knowledge layer's thread. */
static bool measure_again(void *ctx, const char *a, const char *b, struct lesson_comparison *ret, struct err *err)
{
    struct server *s = ctx;
    struct comparison c;
    if (!jobs_measure(s->jobs, a, b, is_stopping, s, &c, err))
        return false;
    *ret = (struct lesson_comparison){c.ratio, c.low, c.high, c.measured};
    return true;
}

static bool ask_llm(void *ctx, const struct llm_call *call, struct llm_reply *ret, struct llm_account *account, struct err *err)
{
    struct server *s = ctx;
    struct llm_call stoppable = *call;
    stoppable.stopped = is_stopping;
    stoppable.ctx = s;
    return llm_ask(s->llm, &stoppable, ret, account, err);
}

/* On the knowledge layer's thread. What this may spend since the start has a limit of its own: it is of no job. */
static bool summarise(void *ctx, const json_t *lessons, char **ret_situation, char **ret_action, struct err *err)
{
    struct server *s = ctx;
    int64_t left = s->config.llm_consolidation_tokens - s->consolidation_tokens;
    cleanup(llm_account) struct llm_account account = {.log = NULL};
    struct agent_port port = {.ask = ask_llm, .ctx = s, .model = llm_model(s->llm), .protocol = llm_protocol(s->llm), .output_tokens = llm_output_tokens(s->llm)};
    bool ok = agent_summarise(&port, lessons, left, &account, ret_situation, ret_action, err);
    s->consolidation_tokens += llm_usage_total(&account.usage);
    if (account.tries)
        jobs_count_llm(s->jobs, LLM_CONSOLIDATION, &account);
    return ok;
}

/* Without an address lessons are found by their words alone. */
static bool open_embedder(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    cleanup(buf) struct buf key = {0};
    if (!c->embed_url || !*c->embed_url)
        return true;
    if (!read_key(c->embed_key_file, "--embed-key-file", &key, err))
        return false;
    const struct embed_config embed = {.url = c->embed_url, .model = c->embed_model, .key = key.size ? buf_cstr(&key) : c->embed_key,
                                       .whole_ns = c->embed_ms * 1000000, .query_ns = c->embed_query_ms * 1000000, .stopped = is_stopping, .ctx = s};
    return embed_open(&embed, &s->embedder, err);
}

/* On any thread. */
static bool embed(void *ctx, const char *const *texts, int count, bool for_query, float **ret, int *ret_dim, struct err *err)
{
    return embed_ask(((struct server *)ctx)->embedder, texts, count, for_query, ret, ret_dim, err);
}

static bool open_knowledge(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    s->thesaurus = c->thesaurus && *c->thesaurus ? xstrdup(c->thesaurus) : share_path("thesaurus.json");
    struct know_config know = {.max_lessons = c->max_lessons, .max_notes = c->max_notes, .text_bytes = c->lesson_bytes,
                               .consolidate_ns = c->consolidate_s * 1000000000, .thesaurus = s->thesaurus, .measure = measure_again,
                               .measure_day = c->lesson_measurements, .measure_round = c->lesson_measurements_round,
                               .summarise = s->llm && c->llm_consolidation_tokens > 0 ? summarise : NULL,
                               .embed = s->embedder ? embed : NULL, .embed_model = c->embed_model, .ctx = s};
    if (!know_open(&know, s->store, &s->know, err))
        return err_wrap(err, "the knowledge layer");
    s->app.know = s->know;
    return true;
}

static struct spawn_config spawn_settings(const struct server *s)
{
    const struct config *c = &s->config;
    return (struct spawn_config){.program = c->judge, .runner = c->runner, .ops_dir = s->ops_dir, .cuda_home = c->cuda_home, .python = c->python,
                                 .sandbox_minimum = c->sandbox_minimum, .need = c->need, .device = c->device,
                                 .card_lock = s->card_lock, .wall_limit_ns = c->judge_wall_seconds * 1000000000};
}

static bool open_http(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    struct http_config http = {
        .listen = c->listen, .threads = (int)c->http_threads, .workers = (int)c->write_threads, .connections = (int)fit_connections(c->connections),
        .header_bytes = (int)c->header_bytes, .body_bytes = c->body_bytes, .pending_body_bytes = c->pending_body_bytes,
        .connection_timeout_s = (int)c->connection_timeout_s, .streams = (int)c->streams, .waiters = (int)c->waiters,
        .heartbeat_ns = c->heartbeat_ms * 1000000, .routes = api_routes, .route_count = api_route_count, .app = &s->app, .auth = s->auth};
    return http_open(&http, &s->http, err);
}

/* What a shape that names no target is for: as configured, else the first device's. */
static void choose_target(struct server *s)
{
    char why[504];
    cleanup(json) json_t *doc = NULL;
    const char *target = s->config.default_target;
    if (!target || !*target) {
        devices_await(s->app.devices, DEVICES_WAIT_NS);
        doc = devices_get(s->app.devices, why, sizeof why);
        target = json_str(json_array_get(json_object_get(doc, "devices"), 0), "target", FALLBACK_TARGET);
    }
    snprintf(s->target, sizeof s->target, "%s", target_valid(target) ? target : FALLBACK_TARGET);
    s->app.default_target = s->target;
}

/* As many as leave the judges half of the processors. */
static int estimate_processes(const struct config *c)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return c->estimate_processes > 0 ? (int)c->estimate_processes : cpus > 1 ? (int)(cpus / 2) : 1;
}

static void on_events(void *ctx, int64_t last)
{
    (void)last;
    http_notify(ctx);
}

static bool start(struct server *s, struct err *err)
{
    const struct config *c = &s->config;
    s->app.config = c;
    if (c->default_target && *c->default_target && !target_valid(c->default_target))
        return err_set(err, ERR_INVALID, "--default-target: \"%.40s\" is not a target; one is sm_90a", c->default_target);
    if (!open_llm(s, err) || !open_embedder(s, err) || !open_state(s, err) || !open_knowledge(s, err) || !open_http(s, err))
        return false;
    s->static_dir = c->static_dir && *c->static_dir ? xstrdup(c->static_dir) : share_path("static");
    s->openapi = c->openapi && *c->openapi ? xstrdup(c->openapi) : share_path("openapi.yaml");
    s->app.ops = &s->ops;
    s->app.presets = &s->presets;
    s->app.signer = &s->signer;
    s->app.http = s->http;
    s->app.static_dir = s->static_dir;
    s->app.openapi_path = s->openapi;
    const bool elsewhere = c->runner && *c->runner;      /* the judges run where this folder may not be */
    s->card_lock = c->card_lock && *c->card_lock ? xstrdup(c->card_lock) : elsewhere ? NULL : xfmt("%s/card.lock", c->data);
    struct spawn_config spawn = spawn_settings(s);
    app_open(&s->app, &spawn);
    choose_target(s);
    struct jobs_config jobs = {
        .spawn = spawn, .runners = (int)c->runners, .max_queued = (int)c->max_queued, .max_shapes = (int)c->max_shapes, .presets = &s->presets, .estimate_candidates = (int)c->estimate_candidates,
        .estimate_shapes = c->estimate_shapes, .estimate_wall_ns = c->estimate_seconds * 1000000000,
        .order_wait_ns = c->order_wait_s * 1000000000,
        .job_posted_bytes = c->job_posted_bytes, .caller_posted_bytes = c->caller_posted_bytes,
        .retain_ns = c->retain_days * 86400 * 1000000000, .retain_jobs = c->retain_jobs, .retain_pass_ns = RETAIN_PASS_NS,
        .max_tensor_bytes = c->max_tensor_mib << 20, .max_shape_bytes = c->max_shape_mib << 20,
        .default_candidates = c->default_candidates, .max_candidates = c->max_candidates,
        .default_wall_seconds = c->default_wall_seconds, .max_wall_seconds = c->max_wall_seconds,
        .estimates = (int)c->estimates, .estimate_processes = estimate_processes(c), .judge_retries = (int)c->judge_retries,
        .seeds = s->seeds, .baseline_triage = c->baseline_triage, .default_target = s->target, .know = s->know,
        .profiles = c->profiles, .llm = s->llm, .prompt_tokens = c->llm_prompt_tokens, .default_tokens = c->llm_job_tokens, .attempt_failures = (int)c->llm_failures};
    store_on_events(s->store, on_events, s->http);
    return jobs_start(&jobs, s->store, s->app.ops, &s->signer, &s->jobs, err) && know_start(s->know, err) && (s->app.jobs = s->jobs, http_serve(s->http, err));
}

static void stop(struct server *s)
{
    if (s->jobs)
        jobs_halt(s->jobs);          /* what tries again and again for a request gives up */
    if (s->http)
        http_stop(s->http, REQUEST_GRACE_NS);
    s->stopping = true;
    know_stop(s->know);              /* it may be asking the jobs for a judgement */
    if (s->jobs)
        jobs_stop(s->jobs);
    if (s->store)
        store_on_events(s->store, NULL, NULL);
    app_close(&s->app);
    http_close(s->http);
    know_close(s->know);
    if (s->store)
        store_close(s->store);
    llm_close(s->llm);
    embed_close(s->embedder);
    auth_free(s->auth);
    signer_done(&s->signer);
    op_set_done(&s->ops);
    preset_set_done(&s->presets);
    json_decref(s->seeds);
    free(s->static_dir);
    free(s->openapi);
    free(s->ops_dir);
    free(s->card_lock);
    free(s->thesaurus);
}

static void *watch_stop(void *arg)
{
    (void)arg;
    clock_sleep_ns(STOP_LIMIT_NS);
    log_line(LOG_WARN, "stopping took too long; leaving: all that was acknowledged is durable", NULL);
    _exit(0);
}

static void wait_for_signal(const sigset_t *signals)
{
    int signal = 0;
    while (sigwait(signals, &signal) != 0 || signal == SIGHUP)
        continue;
    log_line(LOG_INFO, "stopping", "signal", signal == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
    pthread_t watchdog;
    if (pthread_create(&watchdog, NULL, watch_stop, NULL) == 0)
        pthread_detach(watchdog);
}

static int serve(struct server *s)
{
    struct err err = {0};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);     /* before any thread: they inherit it */
    signal(SIGPIPE, SIG_IGN);
    bool ok = start(s, &err);
    if (ok) {
        printf("proteusd: listening on http://%s\n", http_address(s->http));
        fflush(stdout);
        log_line(LOG_INFO, "serving", "address", http_address(s->http), "data", s->config.data, "target", s->target, NULL);
        wait_for_signal(&signals);
    } else {
        log_line(LOG_ERROR, "cannot start", "error", err.text, NULL);
        fprintf(stderr, "proteusd: %s\n", err.text);
    }
    stop(s);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct server server;
    cleanup(buf) struct buf warnings = {0}, text = {0};
    enum config_action action;
    struct err err;
    if (!config_read(argc, argv, environ, &server.config, &action, &warnings, &err)) {
        fprintf(stderr, "proteusd: %s\n", err.text);
        return 2;
    }
    environment_forget_secrets();
    if (action == CONFIG_HELP)
        config_help(&text);
    else if (action == CONFIG_PRINT)
        config_print(&server.config, &text);
    else if (action == CONFIG_VERSION)
        buf_str(&text, "proteusd " PROTEUS_VERSION "\n");
    int status = 0;
    if (action == CONFIG_RUN) {
        set_log_level(server.config.log_level);
        warn_lines(&warnings);
        hash_init();
        status = serve(&server);
    } else {
        fputs(buf_cstr(&warnings), stderr);
        fputs(buf_cstr(&text), stdout);
    }
    config_done(&server.config);
    return status;
}
