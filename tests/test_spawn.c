/* The server's end of the judge against a judge that misbehaves: every mode gives a clear error, in time, and leaves no process. */
#include "gpu/spawn.h"
#include "core/clock.h"
#include "core/environment.h"
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define MS ((int64_t)1000000)
static const char *fake;
static int progressed;
static int64_t cancel_at_ns;

static void progress(void *ctx, const json_t *phase)
{
    (void)ctx;
    check(json_is_object(phase));
    progressed++;
}

static bool cancelled(void *ctx)
{
    (void)ctx;
    return cancel_at_ns && clock_mono_ns() >= cancel_at_ns;
}

static bool run(const char *mode, int64_t limit_ms, struct judge_answer *a, struct err *err)
{
    setenv("FAKE_JUDGE", mode, 1);
    struct spawn_config c = {.program = fake, .wall_limit_ns = limit_ms * MS};
    cleanup(json) json_t *task = json_pack("{s:s}", "mode", "triage");
    progressed = 0;
    return spawn_judge(&c, task, progress, cancelled, NULL, a, err);
}

static int open_descriptors(void)
{
    int n = 0;
    cleanup(dir) DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    return n;
}

static void fails(const char *mode, int64_t limit_ms, enum err_code code, const char *says)
{
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    int descriptors = open_descriptors();
    int64_t from = clock_mono_ns();
    bool ok = run(mode, limit_ms, &a, &err);
    int64_t took = clock_mono_ns() - from;
    check(!ok);
    if (err.code != code || !strstr(err.text, says))
        fprintf(stderr, "mode %.40s: %s: %s\n", mode, err_name(err.code), err.text);
    check_int(err.code, code);
    check(strstr(err.text, says) != NULL);
    check(took < (limit_ms + 3000) * MS);
    check(a.figures == NULL && a.blob_count == 0);
    check_int(open_descriptors(), descriptors);
    check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    check(!sigismember(&mask, SIGPIPE));
}

static void test_ok(void)
{
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    bool ok = run("ok", 20000, &a, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    check_int(progressed, 2);
    check_int(a.verdict.code, VERDICT_OK);
    check_int(a.blob_count, 2);
    check_str(a.blobs[0].name, "kernel.ptx");
    check_int(a.blobs[0].bytes.size, 100000);
    check(json_num(a.figures, "time_ns", 0) == 1000);
    check(json_is_object(a.certificate));
    check(a.wall_ns > 0);
    check_int(a.gpu_ns, 5);
}

static void test_stderr_does_not_block(void)
{
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    check(run("chatter", 20000, &a, &err));
}

static void test_modes(void)
{
    fails("crash", 20000, ERR_UPSTREAM, "about to die");
    fails("exit3", 20000, ERR_UPSTREAM, "exit 3");
    fails("early_end", 20000, ERR_UPSTREAM, "without an answer");
    fails("half_frame", 20000, ERR_UPSTREAM, "middle of a frame");
    fails("garbage", 20000, ERR_UPSTREAM, "garbage");
    fails("version", 20000, ERR_UPSTREAM, "version 2");
    fails("type", 20000, ERR_UPSTREAM, "type 77");
    fails("huge", 20000, ERR_UPSTREAM, "the limit is");
    fails("huge_blob", 20000, ERR_UPSTREAM, "the limit is");
    fails("not_json", 20000, ERR_UPSTREAM, "not JSON");
    fails("flood", 20000, ERR_UPSTREAM, "frames");
    fails("hello_flood", 20000, ERR_UPSTREAM, "frames");
    fails("ok_then_crash", 20000, ERR_UPSTREAM, "signal 6");
    fails("ok_then_exit5", 20000, ERR_UPSTREAM, "exit 5");
    fails("blob_unnamed", 20000, ERR_UPSTREAM, "out of order");
    fails("blob_twice", 20000, ERR_UPSTREAM, "twice");
    fails("blob_path", 20000, ERR_UPSTREAM, "usable name");
    fails("blob_many", 20000, ERR_UPSTREAM, "too many blobs");
    fails("error", 20000, ERR_UNAVAILABLE, "no toolkit");
    fails("deaf", 20000, ERR_UNAVAILABLE, "no toolkit");
}

static void test_silence(void)
{
    fails("hang", 300, ERR_TIMEOUT, "no answer within 0.3 s");
    fails("drip", 700, ERR_TIMEOUT, "no answer within 0.7 s");
}

/* Large tensors have more time and time in line is nobody's, both with an end; and who gives up says at what. */
static void test_patience(void)
{
    static const char *const fine[] = {"in_line", "large"};
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        cleanup(judge_answer) struct judge_answer a = {0};
        const bool ok = run(fine[i], 500, &a, &err);
        if (!ok)
            fprintf(stderr, "%s: %s\n", fine[i], err.text);
        check(ok && progressed == 3);           /* what it said of time is not told on */
    }
    fails("hangs_with_card", 300, ERR_TIMEOUT, "no answer within 0.3 s and 0.2 s in line for a card, for 0.");
    fails("hangs_with_card", 300, ERR_TIMEOUT, "s at correct");
    fails("in_line_for_ever", 50, ERR_TIMEOUT, "and 1.0 s in line for a card");
    fails("says_anything", 30, ERR_TIMEOUT, "no answer within 0.9 s, for 0.9 s at correct");
}

/* The task is larger than a pipe holds and the judge does not read: the deadline holds for writing too. */
static void test_never_reads(void)
{
    setenv("FAKE_JUDGE", "never_reads", 1);
    struct spawn_config c = {.program = fake, .wall_limit_ns = 300 * MS};
    cleanup(str) char *source = xalloc(400001);
    memset(source, 'x', 400000);
    cleanup(json) json_t *task = json_pack("{s:s}", "source", source);
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    check(!spawn_judge(&c, task, NULL, NULL, NULL, &a, &err));
    check_int(err.code, ERR_TIMEOUT);
    check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

#define FINE "\"certificate\":{},\"gpu_ns\":0,"
static void test_lies_about_types(void)
{
    fails("answer:{}", 20000, ERR_UPSTREAM, "verdict cannot be read");
    fails("answer:[]", 20000, ERR_UPSTREAM, "verdict cannot be read");
    fails("answer:{\"verdict\":{\"code\":\"splendid\",\"phase\":\"x\",\"text\":\"\"}}", 20000, ERR_UPSTREAM, "verdict cannot be read");
    fails("answer:{\"verdict\":{\"code\":7,\"phase\":\"x\",\"text\":\"\"}}", 20000, ERR_UPSTREAM, "verdict cannot be read");
#define V "\"verdict\":{\"code\":\"ok\",\"phase\":\"time\",\"text\":\"\"}"
    fails("answer:{" V "}", 20000, ERR_UPSTREAM, "without figures");
    fails("answer:{" FINE V ",\"figures\":7}", 20000, ERR_UPSTREAM, "not an object");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":\"fast\"}}", 20000, ERR_UPSTREAM, "time_ns");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":-1}}", 20000, ERR_UPSTREAM, "time_ns");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":0}}", 20000, ERR_UPSTREAM, "time_ns");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":5}}", 20000, ERR_UPSTREAM, "speedup");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":5,\"speedup\":{\"median\":2,\"low\":1}}}", 20000, ERR_UPSTREAM, "speedup.high");
    fails("answer:{" FINE V ",\"figures\":{\"time_ns\":5,\"speedup\":{\"median\":2,\"low\":1,\"high\":3},\"evidence\":\"trust me\"}}", 20000,
          ERR_UPSTREAM, "evidence");
#define F "\"figures\":{\"evidence\":\"emulated\",\"time_ns\":5,\"speedup\":{\"median\":2,\"low\":1,\"high\":3}}"
    fails("answer:{" V "," F "}", 20000, ERR_UPSTREAM, "certificate");
    fails("answer:{" V "," F ",\"certificate\":[]}", 20000, ERR_UPSTREAM, "certificate");
    fails("answer:{" V "," F ",\"certificate\":{},\"gpu_ns\":-5}", 20000, ERR_UPSTREAM, "gpu_ns");
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    check(run("answer:{\"verdict\":{\"code\":\"compile_error\",\"phase\":\"compile\",\"text\":\"no\"}}", 20000, &a, &err));
    check_int(a.verdict.code, VERDICT_COMPILE_ERROR);
    check(a.figures != NULL && a.certificate == NULL);
}

static void test_cancel(void)
{
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    int64_t from = clock_mono_ns();
    cancel_at_ns = from + 200 * MS;
    check(!run("hang", 60000, &a, &err));
    check_int(err.code, ERR_CONFLICT);
    check_str(err.text, "cancelled");
    check(clock_mono_ns() - from < 3000 * MS);
    cancel_at_ns = 0;
    check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void test_start_and_runner(void)
{
    struct spawn_config c = {.program = "/nonexistent/proteus-gpu", .wall_limit_ns = 1000 * MS};
    cleanup(json) json_t *task = json_object();
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    check(!spawn_judge(&c, task, NULL, NULL, NULL, &a, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    setenv("FAKE_JUDGE", "echo_arguments", 1);
    c = (struct spawn_config){.program = fake, .runner = " env  FAKE_EXTRA=1 ", .ops_dir = "/o p s", .device = "sim", .sandbox_minimum = "",
                              .wall_limit_ns = 20000 * MS};
    err = (struct err){0};
    check(!spawn_judge(&c, task, NULL, NULL, NULL, &a, &err));
    check(strstr(err.text, "[judge][--ops-dir][/o p s][--device][sim]") != NULL);
    setenv("FAKE_JUDGE", "ok", 1);
    check(spawn_judge(&c, task, NULL, NULL, NULL, &a, &err));
}

/* Neither a judge nor the runner before it is told a key or a token; what they need is there. */
static void test_secrets_stay_here(void)
{
    static const char *const secret[] = {"PROTEUS_LLM_KEY", "PROTEUS_EMBED_KEY", "PROTEUS_ADMIN_TOKEN", "PROTEUS_LLM_KEY_FILE", "PROTEUS_ADMIN_TOKEN_FILE"};
    struct spawn_config c = {.program = fake, .runner = "env FAKE_EXTRA=1", .wall_limit_ns = 20000 * MS};
    cleanup(json) json_t *task = json_object();
    struct err err = {0};
    cleanup(judge_answer) struct judge_answer a = {0};
    setenv("FAKE_JUDGE", "echo_environment", 1);
    setenv("PROTEUS_OPS_DIR", "/the/ops", 1);
    setenv("PROTEUS_KEYS_OF_NOTHING", "kept", 1);
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        setenv(secret[i], "s3cret", 1);
    check(!spawn_judge(&c, task, NULL, NULL, NULL, &a, &err));
    check(strstr(err.text, "[PROTEUS_OPS_DIR=/the/ops]") && strstr(err.text, "[PROTEUS_KEYS_OF_NOTHING=kept]"));
    check(!strstr(err.text, "s3cret"));
    /* and a process can forget its own: where the value lay, nothing is left */
    const char *value = getenv("PROTEUS_LLM_KEY");
    check(value && !strcmp(value, "s3cret"));
    environment_forget_secrets();
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        check(!getenv(secret[i]));
    check(getenv("PROTEUS_OPS_DIR") && getenv("FAKE_JUDGE"));
    unsetenv("PROTEUS_OPS_DIR");
    unsetenv("PROTEUS_KEYS_OF_NOTHING");
}

static void test_devices(void)
{
    struct spawn_config c = {.program = fake, .wall_limit_ns = 500 * MS};
    static const struct { const char *mode; enum err_code code; } cases[] = {
        {"hang", ERR_TIMEOUT}, {"early_end", ERR_UPSTREAM}, {"garbage", ERR_UPSTREAM}, {"crash", ERR_UPSTREAM}, {"error", ERR_UNAVAILABLE},
        {"exit3", ERR_UPSTREAM}, {"answer:{}", ERR_UPSTREAM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("FAKE_JUDGE", cases[i].mode, 1);
        struct err err = {0};
        json_t *doc = NULL;
        check(!spawn_devices(&c, &doc, &err));
        check_int(err.code, cases[i].code);
        check(doc == NULL);
    }
    c.wall_limit_ns = 20000 * MS;
    setenv("FAKE_JUDGE", "ok", 1);
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    check(spawn_devices(&c, &doc, &err));
    check_int(json_array_size(json_object_get(doc, "devices")), 1);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FAKE_JUDGE\n", argv[0]);
        return 2;
    }
    fake = argv[1];
    signal(SIGPIPE, SIG_DFL);
    test_ok();
    test_stderr_does_not_block();
    test_modes();
    test_silence();
    test_patience();
    test_never_reads();
    test_secrets_stay_here();
    test_lies_about_types();
    test_cancel();
    test_start_and_runner();
    test_devices();
    return test_done();
}
