/*
 * Follows a job: one stream of events, resumed with Last-Event-ID until the job has ended. Each judged candidate becomes a line,
 * each new best one more; on a terminal a bar stands below them. What counts is the events alone: the snapshot is read for the
 * budget before, and for the result afterwards.
 */
#include "api/cli/cli.h"
#include "api/cli/sse.h"
#include "core/clock.h"

#include <string.h>

#define MAX_ATTEMPTS 12             /* connections in a row that bring no event */
#define BEST_MAX 64                 /* shapes whose best is kept for the bar */
#define SEEN_MAX 4096               /* candidates whose notes are kept; later ones are shown without */

const struct option_spec watch_options[] = {
    {"after", "ID", "start after this event instead of at the job's first"}, {0}};

struct watch {
    struct cli *cli;
    struct sse sse;
    int64_t started_ns, budget;
    int proposed, judged, shape_count, seen_count;
    struct { char id[48]; char *notes; int number; bool is_baseline, judged, measured; struct speedup speedup; double time_ns; } *seen;
    int best_count;
    struct { char shape[80]; struct speedup speedup; double time_ns; bool measured; } best[BEST_MAX];
    char phase[48];
    int phase_of;
    bool ended, heard;
};

static void watch_done(struct watch *w)
{
    for (int i = 0; i < w->seen_count; i++)
        free(w->seen[i].notes);
    free(w->seen);
    sse_done(&w->sse);
}
DEFINE_CLEANUP(watch, struct watch, watch_done(it))

static int seen_find(const struct watch *w, const char *id)
{
    for (int i = w->seen_count - 1; i >= 0; i--)
        if (!strcmp(w->seen[i].id, id))
            return i;
    return -1;
}

static int seen_add(struct watch *w, const char *id)
{
    int i = seen_find(w, id);
    if (i >= 0 || w->seen_count == SEEN_MAX)
        return i;
    w->seen = xrealloc(w->seen, (size_t)(w->seen_count + 1) * sizeof *w->seen);
    memset(&w->seen[w->seen_count], 0, sizeof *w->seen);
    snprintf(w->seen[w->seen_count].id, sizeof w->seen->id, "%s", id);
    return w->seen_count++;
}

/* ---- the bar ---- */
static void draw(struct watch *w)
{
    if (!term_is_tty() || w->cli->json)
        return;
    cleanup(buf) struct buf line = {0};
    int64_t elapsed_s = (clock_mono_ns() - w->started_ns) / 1000000000;
    int64_t total = w->budget > w->judged ? w->budget : w->judged;
    bar(&line, total ? (double)w->judged / (double)total : 0, term_width() > 90 ? 28 : 14);
    buf_fmt(&line, " %d/%lld", w->judged, (long long)total);
    const struct speedup *best = NULL;
    for (int i = 0; i < w->best_count; i++)
        if (!best || w->best[i].speedup.median > best->median)
            best = &w->best[i].speedup;
    if (best)
        buf_fmt(&line, "  best %.2fx", best->median);
    if (*w->phase)
        buf_fmt(&line, w->phase_of ? "  #%d " : "  baseline ", w->phase_of), term_clean(&line, w->phase, 24);
    buf_fmt(&line, "  %lld s", (long long)elapsed_s);
    bottom_draw(buf_cstr(&line));
}

static void say(struct watch *w, const struct buf *line)
{
    bottom_say(buf_cstr(line));
    draw(w);
}

/* ---- events ---- */
static void on_proposed(struct watch *w, const json_t *e)
{
    int i = seen_add(w, json_str(e, "candidate", "?"));
    if (i < 0 || w->seen[i].notes)
        return;
    w->seen[i].notes = xstrdup(json_str(e, "notes", ""));
    w->seen[i].is_baseline = json_bool(e, "is_baseline", false);
    if (!w->seen[i].is_baseline)
        w->seen[i].number = ++w->proposed;
}

static void on_phase(struct watch *w, const json_t *e)
{
    int i = seen_add(w, json_str(e, "candidate", "?"));
    snprintf(w->phase, sizeof w->phase, "%s", json_str(e, "phase", ""));
    w->phase_of = i >= 0 ? w->seen[i].number : w->proposed;
    draw(w);
}

static void on_timed(struct watch *w, const json_t *e)
{
    int i = seen_add(w, json_str(e, "candidate", "?"));
    if (i < 0)
        return;
    w->seen[i].speedup = doc_speedup(e);
    w->seen[i].time_ns = json_num(e, "time_ns", 0);
    w->seen[i].measured = !strcmp(json_str(e, "evidence", ""), "measured");
}

static void figures_text(struct buf *to, struct speedup s, double time_ns, bool measured)
{
    if (s.median > 0) {
        buf_str(to, "  ");
        speedup_text(to, s);
    }
    if (time_ns > 0) {
        buf_str(to, measured ? "  " : "  ~");
        duration_text(to, time_ns);
    }
}

static void on_verdict(struct watch *w, const json_t *e)
{
    const char *code = doc_verdict(e), *text = json_str(json_object_get(e, "verdict"), "text", "");
    int i = seen_add(w, json_str(e, "candidate", "?"));
    bool ok = code && !strcmp(code, "ok"), is_baseline = json_bool(e, "is_baseline", false);
    cleanup(buf) struct buf line = {0}, word = {0};
    *w->phase = 0;
    term_clean(&word, code ? code : "?", 24);
    if (!is_baseline && (i < 0 || !w->seen[i].judged))   /* the best is judged once more in its retest */
        w->judged++;
    if (i >= 0)
        w->seen[i].judged = true;
    if (is_baseline || i < 0)
        buf_str(&line, is_baseline ? "base" : "   ?");
    else
        buf_fmt(&line, "%4d", w->seen[i].number);
    buf_fmt(&line, "  %s%-18s%s", style_on(ok ? STYLE_GOOD : STYLE_WARN), buf_cstr(&word), style_off());
    if (i >= 0)
        figures_text(&line, w->seen[i].speedup, w->seen[i].time_ns, w->seen[i].measured);
    const char *notes = i >= 0 && w->seen[i].notes ? w->seen[i].notes : "";
    if (!ok && *text)
        buf_str(&line, "  "), term_clean(&line, text, 160);
    else if (*notes)
        buf_fmt(&line, "  %s", style_on(STYLE_DIM)), term_clean(&line, notes, 160), buf_str(&line, style_off());
    say(w, &line);
}

static void on_best(struct watch *w, const json_t *e)
{
    const char *shape = json_str(e, "shape_hash", "?");
    bool measured = !strcmp(json_str(e, "evidence", ""), "measured");
    cleanup(buf) struct buf line = {0};
    int b = 0;
    while (b < w->best_count && strcmp(w->best[b].shape, shape) != 0)
        b++;
    const bool stands = json_str(e, "stands_for", NULL) != NULL;       /* the job's best beside another baseline: no new best */
    if (b < BEST_MAX && !stands) {
        snprintf(w->best[b].shape, sizeof w->best[b].shape, "%s", shape);
        w->best[b].speedup = doc_speedup(e);
        w->best[b].time_ns = json_num(e, "time_ns", 0);
        w->best[b].measured = measured;
        w->best_count = b == w->best_count ? b + 1 : w->best_count;
    }
    buf_fmt(&line, "      %s%s", style_on(STYLE_BOLD), json_bool(e, "reused", false) ? "already known" : stands ? "served" : "best so far");
    figures_text(&line, doc_speedup(e), json_num(e, "time_ns", 0), measured);
    buf_fmt(&line, "%s  %s%s", style_off(), evidence_word(e), json_bool(e, "is_baseline", false) ? "  (the baseline)" : "");
    if (stands || json_str(e, "own_baseline", NULL))
        buf_fmt(&line, "  over %s", stands ? baseline_words("operator") : "the job's own baseline");
    if (w->shape_count > 1)
        buf_str(&line, "  shape "), term_clean(&line, shape, 12);
    say(w, &line);
}

static void on_state(struct watch *w, const json_t *e)
{
    const char *state = json_str(e, "state", "?");
    w->ended = w->ended || !strcmp(state, "done") || !strcmp(state, "failed") || !strcmp(state, "cancelled");
    cleanup(buf) struct buf line = {0};
    buf_str(&line, "      job ");
    term_clean(&line, state, 40);
    const char *why = json_str(json_object_get(e, "error"), "text", NULL);
    if (why)
        buf_str(&line, ": "), term_clean(&line, why, 300);
    say(w, &line);
}

static void on_done(struct watch *w, const json_t *e)
{
    (void)e;
    w->ended = true;
}

static bool on_event(void *ctx, const char *type, const char *id, const char *data, size_t size)
{
    static const struct { const char *type; void (*run)(struct watch *w, const json_t *e); } table[] = {
        {"job.state", on_state}, {"candidate.proposed", on_proposed}, {"candidate.phase", on_phase}, {"candidate.timed", on_timed},
        {"candidate.verdict", on_verdict}, {"shape.best", on_best}, {"job.done", on_done}};
    struct watch *w = ctx;
    cleanup(json) json_t *doc = NULL;
    (void)id;
    w->heard = true;
    if (!json_parse(data, size, &doc, NULL) || !json_is_object(doc))
        return true;   /* an event of a newer service that we cannot read is no reason to stop */
    if (w->cli->json) {
        if (!json_object_get(doc, "type"))
            json_put_str(doc, "type", type);
        term_json(doc);
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(type, table[i].type) && !(w->cli->json && table[i].run != on_done && table[i].run != on_state))
            table[i].run(w, doc);
    return true;
}

static bool on_piece(void *ctx, const char *bytes, size_t size)
{
    struct watch *w = ctx;
    bool go_on = sse_feed(&w->sse, bytes, size, on_event, w);
    draw(w);   /* heartbeats move the clock */
    return go_on;
}

/* ---- the connection ---- */
static void pause_before(const struct watch *w, int attempt)
{
    int64_t ms = w->sse.retry_ms ? w->sse.retry_ms : (int64_t)250 << (attempt < 5 ? attempt : 5);
    ms = ms < 100 ? 100 : ms > 10000 ? 10000 : ms;
    for (; ms > 0 && !client_interrupted; ms -= 100)
        clock_sleep_ns((ms < 100 ? ms : 100) * 1000000);
}

/* True: go on connecting. Else *ret_exit. */
static bool connect_once(struct watch *w, const char *path, int *ret_exit)
{
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    sse_restart(&w->sse);
    bool answered = client_stream(&w->cli->client, path, w->sse.last_id, on_piece, w, &r, &err);
    if (client_interrupted) {
        *ret_exit = CLI_INTERRUPTED;
        return false;
    }
    if (!answered) {
        bool first = !*w->sse.last_id;
        if (first && err.code != ERR_TIMEOUT && err.code != ERR_UPSTREAM)
            *ret_exit = cli_fail(w->cli, &err);
        return !(first && err.code != ERR_TIMEOUT && err.code != ERR_UPSTREAM);
    }
    if (w->sse.failed) {
        err_set(&err, ERR_UPSTREAM, "an event is larger than %zu bytes", SSE_MAX_EVENT_BYTES);
        *ret_exit = cli_fail(w->cli, &err);
        return false;
    }
    if (r.status == 204)
        w->ended = true;
    bool passing = r.status == 200 || r.status == 204 || r.status == 429 || r.status >= 500;
    if (!passing)
        *ret_exit = cli_problem(w->cli, &r);
    return passing;
}

static int follow(struct watch *w, const char *path)
{
    int status = CLI_OK;
    struct err err = {0};
    for (int attempt = 0; !w->ended; attempt++) {
        if (attempt >= MAX_ATTEMPTS) {
            err_set(&err, ERR_UPSTREAM, "gave up after %d connections without an event", MAX_ATTEMPTS);
            return cli_fail(w->cli, &err);
        }
        if (attempt)
            pause_before(w, attempt);
        w->heard = false;
        if (!connect_once(w, path, &status))
            return status;
        if (w->heard)
            attempt = 0;
    }
    return CLI_OK;
}

/* ---- before and after ---- */
static int snapshot(struct watch *w, const char *job_path, struct reply *ret)
{
    int status = cli_get(w->cli, job_path, ret);
    if (!status) {
        w->shape_count = (int)json_array_size(json_object_get(ret->doc, "shapes"));
        w->budget = json_int(json_object_get(ret->doc, "budget"), "candidates", 0);
    }
    return status;
}

static void summary(struct watch *w, const json_t *job)
{
    const json_t *shapes = json_object_get(job, "shapes"), *shape;
    size_t i;
    puts("");
    json_array_foreach(shapes, i, shape) {
        const json_t *best = json_object_get(shape, "best");
        cleanup(buf) struct buf line = {0};
        term_clean(&line, json_str(shape, "shape_hash", "?"), 64);
        if (json_is_object(best)) {
            figures_text(&line, doc_speedup(best), json_num(best, "time_ns", 0), !strcmp(json_str(best, "evidence", ""), "measured"));
            buf_fmt(&line, "  %s", evidence_word(best));
            serving_text(&line, shape);
        } else {
            buf_str(&line, "  no kernel");
        }
        puts(buf_cstr(&line));
    }
    (void)w;
}

static bool all_have_kernels(const json_t *job)
{
    const json_t *shapes = json_object_get(job, "shapes"), *shape;
    size_t i;
    json_array_foreach(shapes, i, shape)
        if (!json_is_object(json_object_get(shape, "best")))
            return false;
    return json_array_size(shapes) > 0;
}

int watch_job(struct cli *cli, const char *id)
{
    cleanup(watch) struct watch w = {.cli = cli, .started_ns = clock_mono_ns()};
    cleanup(str) char *part = client_escape(id);
    cleanup(str) char *job_path = xfmt("/v1/jobs/%s", part), *events_path = xfmt("/v1/jobs/%s/events", part);
    cleanup(reply) struct reply before = {0}, after = {0};
    const char *from = args_or(&cli->args, "after", NULL, "");
    snprintf(w.sse.last_id, sizeof w.sse.last_id, "%s", from);
    if (strspn(from, "0123456789") != strlen(from))
        return cli_usage(cli, "--after wants the number of an event");
    int status = snapshot(&w, job_path, &before);
    if (status)
        return status;
    status = follow(&w, events_path);
    bottom_draw(NULL);
    if (status == CLI_INTERRUPTED && !cli->json) {
        fputs("\ninterrupted; the job goes on. `proteus watch ", stdout);
        term_put(id);
        puts("` follows it again");
    }
    if (status || (status = snapshot(&w, job_path, &after)))
        return status;
    if (!cli->json)
        summary(&w, after.doc);
    return !strcmp(json_str(after.doc, "state", ""), "done") && all_have_kernels(after.doc) ? CLI_OK : CLI_NO;
}

int cmd_watch(struct cli *cli)
{
    return watch_job(cli, cli->args.words[0]);
}
