/* What is wrong with a request: every endpoint's refusals, each with its code, its sentence and the page that explains it. */
#include "tests/test_api_ask.h"

static void bad_requests(void)
{
    static const struct { const char *method, *path, *body; int status; const char *code, *says; } rows[] = {
        {"GET", "/v1/jobs/x", NULL, 404, "not_found", "job_"},
        {"GET", "/v1/jobs/job_00000000000000000000000000", NULL, 404, "not_found", "no job"},
        {"GET", "/v1/candidates/job_00000000000000000000000000", NULL, 404, "not_found", "cand_"},
        {"GET", "/v1/candidates/cand_00000000000000000000000000", NULL, 404, "not_found", "no candidate"},
        {"GET", "/v1/jobs/job_00000000000000000000000000/candidates", NULL, 404, "not_found", "no job"},
        {"GET", "/v1/jobs/job_00000000000000000000000000/events", NULL, 404, "not_found", "no job"},
        {"POST", "/v1/jobs/job_00000000000000000000000000/cancel", NULL, 404, "not_found", ""},
        {"GET", "/v1/kernels/XYZ", NULL, 404, "not_found", "64 lower-case"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000", NULL, 404, "not_found", "POST /v1/jobs"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000?wait=x", NULL, 400, "invalid", "wait"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000?wait=100000", NULL, 400, "invalid", "60"},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000/kernel.cubin", NULL, 404, "not_found", ""},
        {"GET", "/v1/kernels/0000000000000000000000000000000000000000000000000000000000000000/other", NULL, 404, "not_found", "no such path"},
        {"GET", "/v1/kernels?evidence=guessed", NULL, 400, "invalid", "evidence"},
        {"GET", "/v1/artifacts/0000000000000000000000000000000000000000000000000000000000000000", NULL, 404, "not_found", ""},
        {"GET", "/v1/jobs?limit=0", NULL, 400, "invalid", "limit"},
        {"GET", "/v1/jobs?limit=100000", NULL, 400, "invalid", "200"},
        {"GET", "/v1/jobs?state=asleep", NULL, 400, "invalid", "state"},
        {"GET", "/v1/jobs?limit=ten", NULL, 400, "invalid", "limit"},
        {"GET", "/v1/jobs?cursor=", NULL, 400, "invalid", "cursor"},
        {"GET", "/v1/jobs?cursor=0123456789abcdef-job_00000000000000000000000000", NULL, 400, "invalid", "cursor"},
        {"GET", "/v1/ops/none", NULL, 404, "not_found", "/v1/ops"},
        {"GET", "/v1/events?after=-1", NULL, 400, "invalid", "after"},
        {"GET", "/v1/events?after=999999", NULL, 400, "invalid", "not happened"},
        {"GET", "/problems/none", NULL, 404, "not_found", ""},
        {"GET", "/../etc/passwd", NULL, 404, "not_found", ""},
        {"GET", "/ops/../data/signing.key", NULL, 404, "not_found", ""},
        {"GET", "/data/%2e%2e/x", NULL, 404, "not_found", ""},
        {"POST", "/v1/jobs", "{\"op\":\"none\",\"shapes\":[{}]}", 400, "invalid", ""},
        {"POST", "/v1/jobs", "{\"op\":\"scale\",\"shapes\":[{\"N\":64}],\"baseline\":{}}", 422, "unprocessable", "baseline"},
        {"POST", "/v1/shape-hash", "[]", 400, "invalid", ""},
        {"POST", "/v1/tokens", "{}", 400, "invalid", "/scopes"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"root\"]}", 400, "invalid", "/scopes/0"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"admin\"],\"x\":1}", 400, "invalid", "/x"},
        {"POST", "/v1/tokens", "{\"scopes\":[\"read\"]}", 409, "conflict", "admin"},
        {"DELETE", "/v1/tokens/none", NULL, 404, "not_found", "none"},
        {"DELETE", "/v1/ops/scale", NULL, 405, "method_not_allowed", "GET"},
        {"DELETE", "/v1/jobs", NULL, 405, "method_not_allowed", "POST"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(service.address, rows[i].method, rows[i].path, rows[i].body ? JSON_TYPE : "", rows[i].body, &answer);
        if (status != rows[i].status || strcmp(field("code"), rows[i].code))
            fprintf(stderr, "%s %s: %s\n", rows[i].method, rows[i].path, buf_cstr(&answer.body));
        check_int(status, rows[i].status);
        check_str(field("code"), rows[i].code);
        check(strstr(field("detail"), rows[i].says));
        if (strncmp(field("type"), "/problems/", 10) == 0)
            check_int(get(field("type")), 200);
    }
}

int main(void)
{
    service_make();
    service_up(1, no_flags);
    bad_requests();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}
