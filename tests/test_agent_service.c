/*
 * The service itself with a model that plays scripts: its settings reach the client, the key stays out of its log, its answers, its metrics and its
 * store, and what was spent is shown everywhere alike.
 */
#include "tests/llm_server.h"
#include "tests/test_http.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KEY "sk-of-the-service-0a1b2c3d4e5f6789"

static char address[80], dir[64], log_path[80];
static pid_t service;
static struct llm_server server;

static void start_service(const char *program, const char *url)
{
    int out[2];
    snprintf(dir, sizeof dir, "/tmp/proteus-llm-XXXXXX");
    check(mkdtemp(dir) && !pipe(out));
    snprintf(log_path, sizeof log_path, "%s.log", dir);
    service = fork();
    if (service == 0) {
        int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out[1], 1);
        dup2(log, 2);
        close(out[0]);
        setenv("PROTEUS_LLM_KEY", KEY, 1);
        execl(program, program, "--listen", "127.0.0.1:0", "--data", dir, "--device", "sim", "--log-level", "debug", "--llm-url", url, "--llm-model", "scripted",
              "--llm-protocol", "anthropic", "--llm-retries", "0", "--llm-prompt-tokens", "9000", "--llm-output-tokens", "3000", "--llm-job-tokens", "77000", NULL);
        _exit(127);
    }
    close(out[1]);
    char line[200] = "";
    size_t used = 0;
    while (used + 1 < sizeof line && !strchr(line, '\n')) {
        ssize_t n = read(out[0], line + used, sizeof line - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
        line[used] = 0;
    }
    close(out[0]);
    const char *at = strstr(line, "http://");
    snprintf(address, sizeof address, "%.*s", at ? (int)strcspn(at + 7, "\n") : 0, at ? at + 7 : "");
    check(*address != 0);
}

static int hits, files;
static int grep_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    cleanup(buf) struct buf file = {0};
    struct err err = {0};
    (void)st, (void)at;
    if (type == FTW_F && file_read(path, (size_t)1 << 30, &file, &err)) {
        files++;
        hits += file.size && memmem(file.data, file.size, KEY, strlen(KEY)) != NULL;
    }
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* The answer's document, and no key in it; new reference. */
static json_t *look(const char *method, const char *path, const char *body, int want)
{
    struct answer a = {0};
    struct err err = {0};
    json_t *doc = NULL;
    check_int(ask(address, method, path, body ? "Content-Type: application/json\r\n" : NULL, body, &a), want);
    check(!strstr(buf_cstr(&a.body), KEY));
    if (!a.body.size || !json_parse(a.body.data, a.body.size, &doc, &err))
        doc = json_object();
    answer_done(&a);
    return doc;
}

static json_t *run(const char *body)
{
    cleanup(json) json_t *job = look("POST", "/v1/jobs", body, 202);
    cleanup(str) char *path = xfmt("/v1/jobs/%s", json_str(job, "id", ""));
    for (int i = 0; i < 1200; i++) {
        json_t *now = look("GET", path, NULL, 200);
        if (json_object_get(now, "finished"))
            return now;
        json_decref(now);
        clock_sleep_ns(50000000);
    }
    check(!"the job ended");
    return json_object();
}

static void a_job_is_shown_as_it_was(void)
{
    cleanup(json) json_t *job = run("{\"op\":\"rmsnorm\",\"shapes\":[{\"R\":16,\"N\":1024}],\"generator\":\"llm\",\"budget\":{\"candidates\":1}}");
    const json_t *spent = json_object_get(job, "spent"), *best = json_object_get(json_array_get(json_object_get(job, "shapes"), 0), "best");
    check_str(json_str(job, "state", ""), "done");
    check_int(json_int(spent, "tokens", 0), 3010);
    check_int(json_int(json_object_get(job, "budget"), "tokens", 0), 77000);
    check(json_num(json_object_get(best, "speedup"), "median", 0) > 1.05);
    check(llm_server_has_header(&server, 0, "x-api-key: " KEY) && llm_server_has_header(&server, 0, "POST /v1/messages"));
    cleanup(json) json_t *body = llm_server_body(&server, 0);
    check_int(json_int(body, "max_tokens", 0), 3000);
    cleanup(str) char *path = xfmt("/v1/jobs/%s/attempts", json_str(job, "id", ""));
    cleanup(json) json_t *attempts = look("GET", path, NULL, 200);
    const json_t *attempt = json_array_get(json_object_get(attempts, "attempts"), 0);
    check_str(json_str(attempt, "outcome", ""), "candidate");
    check_int(json_int(json_object_get(attempt, "prompt"), "cap", 0), 9000);
    cleanup(str) char *blob = xfmt("/v1/artifacts/%s", json_str(json_object_get(attempt, "transcript"), "digest", ""));
    cleanup(json) json_t *transcript = look("GET", blob, NULL, 200);
    check(strstr(json_str(json_array_get(json_object_get(transcript, "calls"), 0), "reply", ""), "one pass") != NULL);
    struct answer a = {0};
    check_int(ask(address, "GET", "/metrics", NULL, NULL, &a), 200);
    check(strstr(a.body.data, "proteus_llm_tokens_total{purpose=\"generation\",kind=\"input\"} 2100\n") && strstr(a.body.data, "proteus_llm_attempts_total 1\n"));
    answer_done(&a);
}

static void a_refused_key_is_told_without_it(void)
{
    llm_server_play(&server, ".", (const char *const[]){"status 401\nas raw\n---\n{\"error\":{\"message\":\"no such key: " KEY "\"}}\n", NULL});
    cleanup(json) json_t *job = run("{\"op\":\"rmsnorm\",\"shapes\":[{\"R\":16,\"N\":1024}],\"generator\":\"llm\",\"reuse\":\"never\",\"budget\":{\"candidates\":1}}");
    check_str(json_str(job, "state", ""), "failed");
    check(strstr(json_str(json_object_get(job, "error"), "text", ""), "401") != NULL);
}

static void settings_hide_the_key(const char *program)
{
    cleanup(str) char *command = xfmt("PROTEUS_LLM_KEY=%s %s --print-config", KEY, program);
    FILE *p = popen(command, "r");
    char text[8192] = "";
    check(p && fread(text, 1, sizeof text - 1, p) > 0 && pclose(p) == 0);
    check(strstr(text, "llm-key=***") && !strstr(text, KEY));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (access("/usr/local/cuda/include/cuda_bf16.h", R_OK) != 0 && !getenv("CUDA_HOME"))
        test_skip("no CUDA toolkit, so no kernel can be compiled");
    llm_server_start(&server, argv[2], (const char *const[]){"good_anthropic.script", NULL});
    start_service(argv[1], server.address);
    if (!test_failures) {
        a_job_is_shown_as_it_was();
        a_refused_key_is_told_without_it();
        settings_hide_the_key(argv[1]);
    }
    int status;
    kill(service, SIGTERM);
    waitpid(service, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    nftw(dir, grep_one, 16, FTW_PHYS);
    struct stat st;
    check(stat(log_path, &st) == 0 && st.st_size > 0);
    grep_one(log_path, &st, FTW_F, NULL);
    check(files >= 3 && hits == 0);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    unlink(log_path);
    llm_server_stop(&server);
    return test_done();
}
