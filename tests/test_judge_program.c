/*
 * The program as the server starts it: a task over the pipe, the answer with its blobs, and what happens when a process of a
 * judgement is killed, when the caller cancels, or when the caller is gone.
 * Usage: test_judge_program PROTEUS_GPU OPS_DIR SOURCE.cu
 */
#include "core/clock.h"
#include "core/hash.h"
#include "gpu/device/device.h"
#include "gpu/spawn.h"
#include "tests/test.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#define SECOND ((int64_t)1000000000)
extern char **environ;
static const char *program, *ops_dir;
static char *source;

static json_t *task_of(int mode)
{
    json_t *candidate = json_pack("{s:s,s:s,s:{s:i},s:{s:[{s:s,s:[s],s:[i],s:[s,s,s,s]}]}}", "language", "cuda", "source", source, "defines", "MODE", mode, "plan",
                                  "steps", "kernel", "k", "grid", "R", "block", 128, "args", "x", "weight", "y", "eps");
    return json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s,s:o,s:n}", "shape", "op", "rmsnorm", "axes", "R", 3, "N", 256, "dtypes", "io", "f32", "target", "sm_90a",
                     "mode", "triage", "candidate", candidate, "baseline");
}

static struct spawn_config config(void)
{
    return (struct spawn_config){.program = program, .ops_dir = ops_dir, .device = "sim", .wall_limit_ns = 120 * SECOND};
}

static int phases_begun, phases_ended;
static void count_phase(void *ctx, const json_t *phase)
{
    (void)ctx;
    phases_begun += strcmp(json_str(phase, "state", ""), "start") == 0;
    phases_ended += strcmp(json_str(phase, "state", ""), "end") == 0;
    check_str(json_str(phase, "device", ""), "sim");
}

static void test_answer(void)
{
    struct spawn_config c = config();
    struct err err = {0};
    cleanup(json) json_t *task = task_of(0);
    cleanup(judge_answer) struct judge_answer a = {0};
    bool ok = spawn_judge(&c, task, count_phase, NULL, NULL, &a, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    check_str(verdict_name(a.verdict.code), "ok");
    check_int(phases_begun, 9);
    check_int(phases_ended, 9);
    check_int(a.blob_count, 2);
    check(a.blob_count == 2 && strstr(buf_cstr(&a.blobs[0].bytes), ".entry") != NULL);
    check(a.blob_count == 2 && memcmp(buf_cstr(&a.blobs[1].bytes), "\x7f" "ELF", 4) == 0);
    const json_t *digests = json_object_get(a.certificate, "digests");
    check_str(json_str(digests, "cubin", ""), hash_of(a.blobs[1].bytes.data, a.blobs[1].bytes.size).text);
    check_str(json_str(digests, "ptx", ""), hash_of(a.blobs[0].bytes.data, a.blobs[0].bytes.size).text);
    /* What was compiled before need not be again, and nothing changes by it. */
    cleanup(json) json_t *again = task_of(0);
    json_put(again, "baseline", json_incref(json_object_get(task, "candidate")));
    json_put_str(again, "baseline_ptx", buf_cstr(&a.blobs[0].bytes));
    cleanup(judge_answer) struct judge_answer b = {0};
    check(spawn_judge(&c, again, NULL, NULL, NULL, &b, &err));
    check_str(verdict_name(b.verdict.code), "not_faster");
    check_str(json_str(json_object_get(b.certificate, "digests"), "baseline_cubin", ""), json_str(digests, "cubin", "?"));
    cleanup(judge_answer) struct judge_answer wrong = {0};
    cleanup(json) json_t *bad = task_of(1);
    check(spawn_judge(&c, bad, NULL, NULL, NULL, &wrong, &err));
    check_str(verdict_name(wrong.verdict.code), "wrong_result");
    check(wrong.certificate == NULL);
}

/* Estimates of several at once: what does not compile has none, the same twice has the same, and no verdict comes with it. */
static void test_estimates(void)
{
    struct spawn_config c = config();
    struct err err = {0};
    cleanup(json) json_t *task = task_of(0), *request = json_object(), *list = NULL, *broken = json_deep_copy(json_object_get(task, "candidate"));
    json_put_str(broken, "source", "this is no kernel");
    json_put(request, "shape", json_incref(json_object_get(task, "shape")));
    json_put(request, "candidates", json_pack("[O,O,O]", json_object_get(task, "candidate"), broken, json_object_get(task, "candidate")));
    check(spawn_estimates(&c, request, NULL, NULL, &list, &err));
    check_int(json_array_size(list), 3);
    double first = json_num(json_array_get(list, 0), "ns", 0), third = json_num(json_array_get(list, 2), "ns", 0);
    check(first > 100 && first < 1e6 && first == third);
    check(json_is_null(json_object_get(json_array_get(list, 1), "ns")));
    check(strstr(json_str(json_array_get(list, 1), "why", ""), "compile_error"));
    check(json_int(json_array_get(json_object_get(json_array_get(list, 0), "resources"), 0), "registers", 0) > 0);
    json_put(request, "candidates", json_object());
    cleanup(json) json_t *none = NULL;
    check(!spawn_estimates(&c, request, NULL, NULL, &none, &err) && err.code == ERR_INVALID);
}

static void test_devices(void)
{
    struct spawn_config c = config();
    struct err err = {0};
    cleanup(json) json_t *doc = NULL;
    check(spawn_devices(&c, &doc, &err));
    const json_t *devices = json_object_get(doc, "devices");
    check(json_array_size(devices) >= 1);
    check_str(json_str(json_array_get(devices, json_array_size(devices) - 1), "kind", ""), "sim");
    check(json_str(json_object_get(doc, "toolkit"), "version", NULL) != NULL);
    check(*json_str(json_object_get(doc, "sandbox"), "level", ""));
}

/* ---- processes of a judgement, found below this one ---- */

static pid_t find_below(pid_t parent, const char *word)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    cleanup(dir) DIR *tasks = opendir(path);
    struct dirent *t;
    while (tasks && (t = readdir(tasks))) {
        if (!isdigit((unsigned char)t->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)parent, t->d_name);
        cleanup(file) FILE *children = fopen(path, "re");
        int child;
        while (children && fscanf(children, "%d", &child) == 1) {
            snprintf(path, sizeof path, "/proc/%d/cmdline", child);
            cleanup(file) FILE *command = fopen(path, "re");
            size_t n = command ? fread(line, 1, sizeof line - 1, command) : 0;
            for (size_t i = 0; i < n; i++)
                if (!line[i])
                    line[i] = ' ';
            line[n] = 0;
            /* The judge's own children look like it between fork and exec. */
            if (strncmp(word, "judge", 5) == 0 && strstr(line, word))
                return child;
            pid_t below = find_below(child, word);
            if (below)
                return below;
            if (strstr(line, word))
                return child;
        }
    }
    return 0;
}

struct judging { json_t *task; bool ok; struct err err; struct judge_answer answer; };

static void *judge_in_thread(void *arg)
{
    struct judging *j = arg;
    struct spawn_config c = config();
    j->ok = spawn_judge(&c, j->task, NULL, NULL, NULL, &j->answer, &j->err);
    return NULL;
}

/* Starts judging an endless kernel and kills the first process with this word on its command line. */
static void killed(const char *word, const char *says)
{
    struct judging j = {.task = task_of(7)};
    pthread_t thread;
    pthread_create(&thread, NULL, judge_in_thread, &j);
    pid_t victim = 0;
    int64_t deadline = clock_mono_ns() + 60 * SECOND;
    while (!(victim = find_below(getpid(), word)) && clock_mono_ns() < deadline)
        clock_sleep_ns(20000000);
    check(victim > 0);
    clock_sleep_ns(strcmp(word, "child run_sim") == 0 ? 1500000000 : 100000000);
    if (victim > 0)
        kill(victim, SIGKILL);
    pthread_join(thread, NULL);
    /* Ours, and the caller judges again; never a verdict on the candidate. */
    if (j.ok || !strstr(j.err.text, says))
        fprintf(stderr, "killed %s: %s\n", word, j.ok ? j.answer.verdict.text : j.err.text);
    check(!j.ok);
    check_int(j.err.code, ERR_UPSTREAM);
    check(strstr(j.err.text, says) != NULL);
    judge_answer_done(&j.answer);
    json_decref(j.task);
    check(find_below(getpid(), "child") == 0);
    check(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* A compiler that dies once is started again: nothing has been decided yet. */
static void compiler_killed(void)
{
    struct judging j = {.task = task_of(0)};
    pthread_t thread;
    pthread_create(&thread, NULL, judge_in_thread, &j);
    pid_t victim = 0;
    int64_t deadline = clock_mono_ns() + 60 * SECOND;
    while (!(victim = find_below(getpid(), "child compile")) && clock_mono_ns() < deadline)
        clock_sleep_ns(5000000);
    if (victim > 0)
        kill(victim, SIGKILL);
    pthread_join(thread, NULL);
    check(victim > 0);
    if (!j.ok)
        fprintf(stderr, "compiler killed: %s\n", j.err.text);
    check(j.ok && j.answer.verdict.code == VERDICT_OK);
    judge_answer_done(&j.answer);
    json_decref(j.task);
}

static int64_t cancel_at;
static bool cancelled(void *ctx)
{
    (void)ctx;
    return clock_mono_ns() > cancel_at;
}

static void test_cancel(void)
{
    struct spawn_config c = config();
    struct err err = {0};
    cleanup(json) json_t *task = task_of(7);
    cleanup(judge_answer) struct judge_answer a = {0};
    cancel_at = clock_mono_ns() + SECOND;
    check(!spawn_judge(&c, task, NULL, cancelled, NULL, &a, &err));
    check_int(err.code, ERR_CONFLICT);
    check(find_below(getpid(), "child") == 0);
}

/* Runs the program with this on stdin (closed afterwards); its exit status, and how long it took. */
static int run_with(const char *command, const char *input, size_t size, int64_t *ret_ns)
{
    int in[2];
    pid_t pid;
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)command, (char *)"--ops-dir", (char *)(uintptr_t)ops_dir, NULL};
    check(pipe2(in, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    check(posix_spawn(&pid, program, &files, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    close(in[0]);
    int64_t from = clock_mono_ns();
    struct err err = {0};
    (void)!fd_write_all(in[1], input, size, &err);
    close(in[1]);
    int status = 0;
    waitpid(pid, &status, 0);
    *ret_ns = clock_mono_ns() - from;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_caller_gone_or_garbage(void)
{
    int64_t took;
    check_int(run_with("judge", "", 0, &took), 1);
    check(took < 10 * SECOND);
    check_int(run_with("judge", "GET / HTTP/1.1\r\n\r\n", 18, &took), 1);
    check_int(run_with("judge", "\x02\0\0\0\x02\0\x01\0[]", 10, &took), 1);
    /* A whole task, then the end of stdin: nobody waits any more, so it stops long before the endless kernel's limit. */
    cleanup(json) json_t *task = task_of(7);
    cleanup(str) char *text = json_text(task);
    cleanup(buf) struct buf frame = {0};
    uint32_t n = (uint32_t)strlen(text);
    const unsigned char head[8] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16), (unsigned char)(n >> 24), 2, 0, 1, 0};
    buf_add(&frame, head, 8);
    buf_str(&frame, text);
    check_int(run_with("judge", frame.data, frame.size, &took), 1);
    check(took < 20 * SECOND);
    check_int(run_with("frobnicate", "", 0, &took), 2);
    check_int(run_with("--help", "", 0, &took), 0);
    check_int(run_with("golden", "", 0, &took), 1);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    struct toolkit_paths paths;
    cleanup(buf) struct buf text = {0};
    hash_init();
    if (argc != 4 || !file_read(argv[3], 1 << 20, &text, &err)) {
        fprintf(stderr, "usage: %s PROTEUS_GPU OPS_DIR SOURCE.cu: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    program = argv[1], ops_dir = argv[2], source = buf_take(&text);
    signal(SIGPIPE, SIG_IGN);
    test_answer();
    test_estimates();
    test_devices();
    killed("child run_sim", "run_sim child");
    compiler_killed();
    killed("judge --ops-dir", "signal 9");
    test_cancel();
    test_caller_gone_or_garbage();
    free(source);
    return test_done();
}
