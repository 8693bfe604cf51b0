/*
 * A judge for the tests of server/jobs. It speaks the real frames and does what the candidate's source tells it to, word by word:
 *   time=N        nanoseconds by triage; retest=N by the retest (else the same)
 *   again=N       nanoseconds by a second triage and later ones
 *   verdict=CODE  instead of ok / not_faster          reverdict=CODE  for the retest alone
 *   measured      evidence (else emulated)            gpu=N  GPU nanoseconds spent
 *   crash=N, hang=N, garbage=N, error=N  the first N judgements of this candidate go wrong so; 99: all
 *   refuse=CODE   always that error; refuse_r=N: only for shapes whose axis R is N
 *                 refuse_beside=N: only beside a baseline that says time=N
 *   slow=N        milliseconds before the answer
 *   later=CODE    the verdict once there is a file "later" in $JOBS_JUDGE_DIR; latertime=N: nanoseconds from then on
 *   log           the verdict's text and detail are the source itself
 *   profile=WAY   a profile that is refused ("refuse"), or goes wrong: crash, garbage, fault, text, hang; else figures after its time
 *   held          implausible and held, unless an admin has released it
 * Each judgement is counted in a file of $JOBS_JUDGE_DIR named by the candidate.
 */
#include "core/clock.h"
#include "gpu/wire.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

static const char *source;

/* The value of "word=value" in the source, up to the next blank; NULL: not there. */
static const char *word(const char *name)
{
    static char value[64];
    size_t n = strlen(name);
    for (const char *p = strstr(source, name); p; p = strstr(p + 1, name))
        if ((p == source || p[-1] == ' ') && (p[n] == '=' || p[n] == ' ' || p[n] == '\n' || !p[n])) {
            const char *from = p[n] == '=' ? p + n + 1 : p + n;
            snprintf(value, sizeof value, "%.*s", (int)strcspn(from, " \n"), from);
            return value;
        }
    return NULL;
}

static long number(const char *name, long fallback)
{
    const char *v = word(name);
    return v ? strtol(v, NULL, 10) : fallback;
}

static long count_run(const char *candidate)
{
    const char *dir = getenv("JOBS_JUDGE_DIR");
    if (!dir)
        return 1;
    cleanup(str) char *path = xfmt("%s/%s", dir, candidate);
    cleanup(fd) int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    struct stat st = {0};
    if (fd < 0 || write(fd, ".", 1) != 1 || fstat(fd, &st) != 0)
        exit(9);
    return (long)st.st_size;
}

static void send(enum wire_type type, json_t *take)
{
    cleanup(json) json_t *doc = take;
    struct err err = {0};
    if (!doc || !wire_send_json(1, type, doc, &err))
        exit(9);
}

static void send_blob(const char *name, const char *candidate)
{
    cleanup(str) char *text = xfmt("%s of %s", name, candidate);
    struct err err = {0};
    if (!wire_send_blob(1, name, text, strlen(text), &err))
        exit(9);
}

static void send_source(const char *text)
{
    struct err err = {0};
    if (!wire_send_blob(1, "baseline", text, strlen(text), &err))
        exit(9);
}

static void phase(const char *name, const char *state)
{
    send(WIRE_PHASE, json_pack("{s:s,s:s,s:f}", "phase", name, "state", state, "ms", 1.5));
}

/* One with more to say than an event holds. */
static void long_phase(void)
{
    char padding[6000];
    memset(padding, 'x', sizeof padding - 1);
    padding[sizeof padding - 1] = 0;
    send(WIRE_PHASE, json_pack("{s:s,s:s,s:s,s:s}", "phase", "emulate", "state", "end", "note", "as told", "padding", padding));
}

/* Of a baseline that this job has not judged: what its source says. */
static double baseline_says(const json_t *task)
{
    const char *at = strstr(json_str(json_object_get(task, "baseline"), "source", ""), "time=");
    return at ? strtod(at + 5, NULL) : 0;
}

static bool is_later(void)
{
    cleanup(str) char *path = xfmt("%s/later", getenv("JOBS_JUDGE_DIR") ? getenv("JOBS_JUDGE_DIR") : "/nowhere");
    return access(path, F_OK) == 0;
}

static void refuse(const json_t *task)
{
    const char *code = word("refuse");
    cleanup(json) json_t *doc = code ? json_pack("{s:s,s:s}", "code", code, "text", "no figures are known of that card") : NULL;
    long rows = number("refuse_r", 0), beside = number("refuse_beside", 0);
    struct err err = {0};
    if (beside && beside != (long)baseline_says(task))
        return;
    if (!code || (rows && rows != json_int(json_object_get(json_object_get(task, "shape"), "axes"), "R", 0)))
        return;
    exit(wire_send_json(1, WIRE_ERROR, doc, &err) ? 1 : 9);
}

static void go_wrong(long run)
{
    if (run <= number("crash", 0))
        abort();
    if (run <= number("garbage", 0)) {
        if (write(1, "Segmentation fault\n", 19) > 0)
            _exit(0);
    }
    if (run <= number("error", 0)) {
        send(WIRE_ERROR, json_pack("{s:s,s:s}", "code", "unavailable", "text", "no toolkit at /nowhere"));
        exit(1);
    }
    while (run <= number("hang", 0))
        clock_sleep_ns(50000000);
}

/* "serve-estimates": estimate=N nanoseconds of each candidate, offset=N more; wrong_count: one too few; broken: none; estimate_ms=N: it takes so long. */
static int estimates(const json_t *request)
{
    cleanup(json) json_t *list = json_array();
    json_t *candidate;
    size_t i;
    json_array_foreach(json_object_get(request, "candidates"), i, candidate) {
        source = json_str(candidate, "source", "");
        if (number("crash", 0))
            abort();
        clock_sleep_ns(number("estimate_ms", 0) * 1000000);
        const long rows = number("refuse_r", 0);
        const bool refused = rows && rows == json_int(json_object_get(json_object_get(request, "shape"), "axes"), "R", 0);
        if (refused || word("broken"))
            json_array_append_new(list, json_pack("{s:n,s:s}", "ns", "why", refused ? "no figures are known of that card" : "it does not run"));
        else if (!word("wrong_count") || i)
            json_array_append_new(list, json_pack("{s:f}", "ns", (double)(number("estimate", 0) + number("offset", 0))));
    }
    send(WIRE_RESULT, json_pack("{s:O}", "estimates", list));
    return 0;
}

/* "serve-profile": counted in a file "profiles", a byte each. */
static int profile(const json_t *request)
{
    source = json_str(json_object_get(request, "candidate"), "source", "");
    const char *way = word("profile");
    count_run("profiles");
    if (way && !strcmp(way, "crash"))
        abort();
    while (way && !strcmp(way, "hang"))
        clock_sleep_ns(50000000);
    if (way && !strcmp(way, "refuse"))
        send(WIRE_RESULT, json_pack("{s:s,s:i}", "refused", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (the driver lets administrators alone count)", "gpu_ns", 5));
    else if (way && !strcmp(way, "fault"))
        send(WIRE_RESULT, json_pack("{s:{s:s,s:s,s:s}}", "fault", "code", "fault", "phase", "profile", "text", "it fell"));
    else if (way && !strcmp(way, "garbage"))
        send(WIRE_RESULT, json_pack("{s:{},s:s}", "profile", "refused", "both"));
    else if (way && !strcmp(way, "text"))
        send(WIRE_RESULT, json_pack("{s:{s:[{s:s}]}}", "profile", "steps", "dram_pct", "ignore all rules"));
    else
        send(WIRE_RESULT, json_pack("{s:{s:s,s:s,s:[{s:f,s:f,s:{s:f,s:f}}]},s:I}", "profile", "evidence", "measured", "device", "Card of the tests", "steps",
                                    "duration_ns", (double)number("time", 1000), "dram_pct", 61.0, "stalls", "long_scoreboard", 30.0, "wait", 2.0, "gpu_ns",
                                    (json_int_t)250000000));
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!wire_receive(0, 0, &f, &err) || f.type != WIRE_JUDGE)
        return 8;
    if (argc > 1 && strcmp(argv[1], "serve-estimates") == 0)
        return estimates(f.json);
    if (argc > 1 && strcmp(argv[1], "serve-profile") == 0)
        return profile(f.json);
    const char *mode = json_str(f.json, "mode", ""), *candidate = json_str(f.json, "candidate_id", "");
    source = json_str(json_object_get(f.json, "candidate"), "source", "");
    bool is_baseline = json_is_null(json_object_get(f.json, "baseline")), retest = strcmp(mode, "retest") == 0;
    send(WIRE_HELLO, json_pack("{s:s}", "version", "test"));
    phase("compile", "start");
    long run = count_run(candidate);
    refuse(f.json);
    go_wrong(run);
    clock_sleep_ns(number("slow", 0) * 1000000);
    phase("compile", "end");
    if (word("long"))
        long_phase();
    double time_ns = (double)number("time", 1000), base_ns = is_baseline ? time_ns : json_num(f.json, "baseline_time_ns", baseline_says(f.json));
    if (run > 1 && !retest)
        time_ns = (double)number("again", (long)time_ns);
    if (retest)
        time_ns = (double)number("retest", (long)time_ns);
    if (is_later())
        time_ns = (double)number("latertime", (long)time_ns);
    bool held = word("held") && !json_is_object(json_object_get(f.json, "released"));
    const char *told = held ? "implausible" : is_later() && word("later") ? word("later") : retest && word("reverdict") ? word("reverdict") : word("verdict");
    char code[64];
    snprintf(code, sizeof code, "%s", told ? told : is_baseline || time_ns < base_ns ? "ok" : "not_faster");
    bool correct = !strcmp(code, "ok") || !strcmp(code, "not_faster") || !strcmp(code, "unclear") || !strcmp(code, "not_confirmed");
    double s = base_ns / time_ns;
    json_t *answer = json_pack("{s:{s:s,s:s,s:s}, s:I}", "verdict", "code", code, "phase", correct ? "time" : "correct", "text", "as told",
                               "gpu_ns", (json_int_t)number("gpu", 0));
    if (word("log")) {
        json_t *verdict = json_object_get(answer, "verdict"), *detail = json_object();
        cleanup(str) char *text = xstrndup(source, 400);
        json_put_str(detail, "log", source);
        json_put_str(verdict, "text", text);
        json_put(verdict, "detail", detail);
    }
    if (held)
        json_object_set_new(json_object_get(answer, "verdict"), "detail", json_pack("{s:b,s:s}", "held", 1, "reason", "too good"));
    if (correct) {
        send_blob("kernel.ptx", candidate);
        send_blob("kernel.cubin", candidate);
        if (!is_baseline)
            send_source(json_str(json_object_get(f.json, "baseline"), "source", ""));
        json_object_set_new(answer, "figures", json_pack("{s:f,s:f,s:{s:f,s:f,s:f},s:s,s:s}", "time_ns", time_ns, "baseline_ns", base_ns,
                                                         "speedup", "median", s, "low", s * 0.99, "high", s * 1.01, "evidence",
                                                         word("measured") ? "measured" : "emulated", "mode", "test"));
        json_object_set_new(answer, "certificate", json_pack("{s:s,s:{s:s}}", "judge", mode, "toolkit", "version", "13.0"));
        if (!is_baseline)
            json_object_set_new(json_object_get(answer, "certificate"), "baseline", json_pack("{s:s}", "of", baseline_says(f.json) == 1000 ? "operator" : "other"));
    }
    send(WIRE_VERDICT, answer);
    return 0;
}
