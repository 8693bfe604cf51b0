/*
 * A coding agent with nothing but /mcp optimises an operator: the real service, the real judge on the emulator. It finds the operator, reads the
 * brief, starts a job, sends a candidate that does not compile, one that is wrong and one that is right and faster, each after the verdict of the
 * one before, and fetches the kernel. In the modern form of the protocol; the job's end in the older one.
 */
#include "core/json.h"
#include "tests/test_http.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char address[80], dir[64];
static pid_t service;

static void start_service(const char *program)
{
    int out[2];
    snprintf(dir, sizeof dir, "/tmp/proteus-mcp-XXXXXX");
    check(mkdtemp(dir) && !pipe(out));
    service = fork();
    if (service == 0) {
        dup2(out[1], 1);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 2);
        close(out[0]);
        execl(program, program, "--listen", "127.0.0.1:0", "--data", dir, "--device", "sim", NULL);
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

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void stop_service(void)
{
    int status;
    kill(service, SIGTERM);
    waitpid(service, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static json_t *answer_of(const char *headers, const json_t *message)
{
    struct answer a = {0};
    struct err err = {0};
    json_t *doc = NULL;
    cleanup(str) char *body = json_text(message), *extra = xfmt("Content-Type: application/json\r\n%s", headers);
    int status = ask(address, "POST", "/mcp", extra, body, &a);
    check_int(status, 200);
    if (!a.body.size || !json_parse(a.body.data, a.body.size, &doc, &err))
        doc = json_object();
    answer_done(&a);
    return doc;
}

/* A tool's structured result, and its text where that is wanted; new reference. */
static json_t *call(const char *tool, json_t *take_arguments, char **ret_text)
{
    static int id;
    cleanup(json) json_t *message = json_pack("{s:s,s:i,s:s,s:{s:s,s:o,s:{s:s,s:{}}}}", "jsonrpc", "2.0", "id", ++id, "method", "tools/call", "params", "name", tool,
                                              "arguments", take_arguments, "_meta", "io.modelcontextprotocol/protocolVersion", "2026-07-28",
                                              "io.modelcontextprotocol/clientCapabilities");
    cleanup(str) char *headers = xfmt("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n", tool);
    cleanup(json) json_t *doc = answer_of(headers, message);
    const json_t *result = json_object_get(doc, "result");
    check_str(json_str(result, "resultType", ""), "complete");
    if (json_bool(result, "isError", true)) {
        cleanup(str) char *text = json_text(doc);
        fprintf(stderr, "%s: %s\n", tool, text);
        check(!"a tool failed");
    }
    if (ret_text)
        *ret_text = xstrdup(json_str(json_array_get(json_object_get(result, "content"), 0), "text", ""));
    return json_incref(json_object_get(result, "structuredContent"));
}

static json_t *shape_arguments(void)
{
    return json_pack("{s:s,s:{s:i,s:i}}", "op", "rmsnorm", "axes", "R", 16, "N", 1024);
}

/* Sends a source and waits until it is judged; new reference. */
static json_t *judge(const char *job, const char *folder, const char *name)
{
    cleanup(str) char *path = xfmt("%s/%s.cu", folder, name);
    cleanup(buf) struct buf source = {0};
    struct err err = {0};
    check(file_read(path, 1 << 20, &source, &err));
    json_t *candidate = json_pack("{s:s,s:{s:[{s:s,s:[s],s:[s],s:[s,s,s,s]}]}}", "language", "cuda", "plan", "steps", "kernel", "rows", "grid", "R", "block", "N/8", "args", "x", "weight",
                                  "y", "eps");
    json_put_str(candidate, "source", buf_cstr(&source));
    json_t *got = call("submit_candidate", json_pack("{s:s,s:o,s:i}", "job", job, "candidate", candidate, "wait_seconds", 8), NULL);
    for (int i = 0; i < 12 && strcmp(json_str(got, "state", ""), "judged"); i++) {
        json_t *more = call("get_candidate", json_pack("{s:s,s:i}", "candidate", json_str(got, "id", ""), "wait_seconds", 8), NULL);
        json_decref(got);
        got = more;
    }
    return got;
}

static const char *verdict_of(const json_t *candidate)
{
    return json_str(json_object_get(candidate, "verdict"), "code", "none");
}

static void an_agent_optimises_an_operator(const char *folder)
{
    cleanup(json) json_t *ops = call("list_operators", json_object(), NULL), *shapes = call("list_shapes", json_pack("{s:s}", "op", "rmsnorm"), NULL);
    check(json_array_size(json_object_get(ops, "operators")) >= 12 && json_array_size(json_object_get(shapes, "with_kernel")) == 0);
    cleanup(str) char *before = NULL, *after = NULL;
    cleanup(json) json_t *brief = call("get_brief", shape_arguments(), &before);
    const char *hash = json_str(brief, "shape_hash", "");
    check(strstr(before, "THE CANDIDATE") && strstr(before, "source of the baseline") && strstr(before, "reference.c") && !strstr(before, "outliers"));
    check(json_int(json_object_get(brief, "prompt"), "tokens", 0) > 1000);
    cleanup(json) json_t *job = call("start_job", json_pack("{s:s,s:[{s:i,s:i}],s:{s:i}}", "op", "rmsnorm", "shapes", "R", 16, "N", 1024, "budget", "candidates", 3), NULL);
    const char *id = json_str(job, "id", "");
    cleanup(json) json_t *broken = judge(id, folder, "rows_broken"), *wrong = NULL, *good = NULL;
    check_str(verdict_of(broken), "compile_error");
    check(strstr(json_str(json_object_get(broken, "verdict"), "text", ""), "epsilon"));
    wrong = judge(id, folder, "rows_wrong");
    check_str(verdict_of(wrong), "wrong_result");
    cleanup(json) json_t *arguments = shape_arguments();
    json_put_str(arguments, "job", id);
    cleanup(json) json_t *history = call("get_brief", json_incref(arguments), &after);
    check(history && strstr(after, "wrong_result") && strstr(after, "compile_error") && strstr(after, "Where its time goes"));
    good = judge(id, folder, "rows");
    check_str(verdict_of(good), "ok");
    check(json_num(json_object_get(json_object_get(good, "figures"), "speedup"), "median", 0) > 1.05);
    cleanup(json) json_t *kernel = NULL;
    for (int i = 0; i < 400; i++) {
        cleanup(json) json_t *state = call("job_status", json_pack("{s:s}", "job", id), NULL);
        if (!strcmp(json_str(state, "state", ""), "done"))
            break;
        clock_sleep_ns(50000000);
    }
    kernel = call("get_kernel", json_pack("{s:s}", "shape_hash", hash), NULL);
    check_str(json_str(kernel, "candidate", ""), json_str(good, "id", "?"));
    check(strstr(json_str(kernel, "source", ""), "void __launch_bounds__") && !json_bool(kernel, "is_baseline", true));
    cleanup(json) json_t *message = json_pack("{s:s,s:i,s:s,s:{s:s,s:{s:s}}}", "jsonrpc", "2.0", "id", 99, "method", "tools/call", "params", "name", "job_status", "arguments", "job", id);
    cleanup(json) json_t *older = answer_of("MCP-Protocol-Version: 2025-11-25\r\n", message);
    check_str(json_str(json_object_get(json_object_get(older, "result"), "structuredContent"), "state", ""), "done");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (access("/usr/local/cuda/include/cuda_bf16.h", R_OK) != 0 && !getenv("CUDA_HOME"))
        test_skip("no CUDA toolkit, so no kernel can be compiled");
    start_service(argv[1]);
    if (!test_failures)
        an_agent_optimises_an_operator(argv[2]);
    stop_service();
    return test_done();
}
