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
static struct llm_server server, embeddings;

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
        setenv("PROTEUS_EMBED_KEY", KEY, 1);
        execl(program, program, "--listen", "127.0.0.1:0", "--data", dir, "--device", "sim", "--log-level", "debug", "--llm-url", url, "--llm-model", "scripted",
              "--llm-protocol", "anthropic", "--llm-retries", "0", "--llm-prompt-tokens", "9000", "--llm-output-tokens", "3000", "--llm-job-tokens", "77000", "--consolidate", "1", "--embed-url", embeddings.address, "--embed-model", "vectors", "--embed-query-ms", "5000", NULL);
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

/* ---- the knowledge layer's model and endpoint ---- */

static json_t *lesson(const char *situation, const char *action)
{
    cleanup(str) char *body = xfmt("{\"tags\":[\"op/rmsnorm\",\"symptom/spill\"],\"situation\":\"%s\",\"action\":\"%s\",\"signed_by\":\"A. Operator\"}", situation, action);
    return look("POST", "/v1/lessons", body, 201);
}

static bool metric_is(const char *line)
{
    struct answer a = {0};
    check_int(ask(address, "GET", "/metrics", NULL, NULL, &a), 200);
    bool is = strstr(buf_cstr(&a.body), line) != NULL;
    answer_done(&a);
    return is;
}

static bool becomes(const char *line)
{
    for (int i = 0; i < 400; i++) {
        if (metric_is(line))
            return true;
        clock_sleep_ns(50000000);
    }
    return false;
}

static void vectors_come_from_their_endpoint(void)
{
    cleanup(json) json_t *one = lesson("Blocks wait at a barrier in each round.", "Give a warp its own rows.");
    check(becomes("proteus_lesson_vectors 1\n"));
    check(llm_server_has_header(&embeddings, 0, "POST /v1/embeddings") && llm_server_has_header(&embeddings, 0, "Authorization: Bearer " KEY));
    cleanup(json) json_t *asked = llm_server_body(&embeddings, 0);
    check_str(json_string_value(json_array_get(json_object_get(asked, "input"), 0)), "Blocks wait at a barrier in each round. Give a warp its own rows.");
    cleanup(json) json_t *found = look("GET", "/v1/lessons?q=zzzz", NULL, 200);
    check_str(json_str(found, "semantic_backend", ""), "hashed-ngrams+endpoint");
    const json_t *first = json_array_get(json_object_get(found, "lessons"), 0);
    check_str(json_str(first, "id", ""), json_str(one, "id", "?"));
    check_int(json_int(json_object_get(first, "score"), "model_rank", 0), 1);
    llm_server_play(&embeddings, ".", (const char *const[]){"status 500\nas raw\n---\n{\"error\":\"" KEY "\"}\n", NULL});
    cleanup(json) json_t *without = look("GET", "/v1/lessons?q=barrier", NULL, 200);
    check_str(json_str(without, "semantic_backend", ""), "hashed-ngrams");
    check(json_array_size(json_object_get(without, "lessons")) == 1);
    check(metric_is("proteus_embed_failures_total 1\n") && metric_is("proteus_embed_fallbacks_total 1\n"));
}

static void duplicates_are_said_in_one_text_by_the_model(void)
{
    llm_server_play(&server, ".", (const char *const[]){"as anthropic\nusage 200 30\n---\n```json\n{\"situation\":\"It spills once its loop is unrolled far.\",\"action\":\"Unroll less.\"}\n```\n", NULL});
    cleanup(json) json_t *a = lesson("The assembler reports spill stores after the loop was unrolled by eight.", "Unroll the inner loop less than before."),
                         *b = lesson("The assembler reports spill stores after a loop was unrolled by sixteen.", "Unroll the inner loop less than before.");
    check(becomes("proteus_lessons_superseded 1\n") || becomes("proteus_lessons_superseded 2\n"));
    cleanup(json) json_t *all = look("GET", "/v1/lessons?tag=symptom/spill", NULL, 200), *one;
    size_t i;
    int said = 0;
    json_array_foreach(json_object_get(all, "lessons"), i, one)
        said += !strcmp(json_str(one, "situation", ""), "It spills once its loop is unrolled far.") && !strcmp(json_str(one, "action", ""), "Unroll less.");
    one = NULL;
    check_int(said, 1);
    check(metric_is("proteus_llm_tokens_total{purpose=\"consolidation\",kind=\"input\"} 200\n") && metric_is("{purpose=\"consolidation\",kind=\"output\"} 30\n"));
    check_int(llm_server_requests(&server), 1);
    cleanup(json) json_t *prompt = llm_server_body(&server, 0);
    cleanup(str) char *text = json_text(prompt);
    check(strstr(text, "unrolled by eight") && strstr(text, "unrolled by sixteen") && strstr(text, "=====DATA"));
    cleanup(json) json_t *steps = look("GET", "/v1/lessons/steps", NULL, 200);
    const char *step = json_str(json_array_get(json_object_get(steps, "steps"), 0), "id", "");
    cleanup(str) char *path = xfmt("/v1/lessons/steps/%s/undo", step);
    cleanup(json) json_t *undone = look("POST", path, NULL, 200), *twice = look("POST", path, NULL, 409);
    cleanup(str) char *first = xfmt("/v1/lessons/%s", json_str(a, "id", ""));
    cleanup(json) json_t *again = look("GET", first, NULL, 200);
    check_str(json_str(again, "situation", ""), json_str(a, "situation", "?"));
    check_str(json_str(again, "state", ""), "active");
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
    llm_server_start(&embeddings, argv[2], (const char *const[]){"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[0.25,1,0]}]}\n", NULL});
    start_service(argv[1], server.address);
    if (!test_failures) {
        vectors_come_from_their_endpoint();
        duplicates_are_said_in_one_text_by_the_model();
        llm_server_play(&server, argv[2], (const char *const[]){"good_anthropic.script", NULL});
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
    llm_server_stop(&embeddings);
    return test_done();
}
