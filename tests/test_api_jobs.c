/* Jobs and their candidates: lists in pages that join, filters, when candidates are taken, and that a restart forgets none. */
#include "tests/test_api_ask.h"

static void jobs_and_pages(char first_job[80])
{
    char path[200], value[100];
    check_int(post("/v1/jobs", submit), 202);
    snprintf(first_job, 80, "%s", field("id"));
    snprintf(path, sizeof path, "/v1/jobs/%s", first_job);
    check_str(answer_header(&answer, "Location", value, sizeof value), path);
    check_int(get(path), 200);
    check_str(field("id"), first_job);
    check_str(field("state"), "queued");
    for (int i = 0; i < 4; i++)
        check_int(post("/v1/jobs", submit), 202);
    /* five jobs in pages of two, newest first, none twice */
    char cursor[700] = "", seen[5][80];
    int count = 0, pages = 0;
    do {
        int status;
        char page[800];
        snprintf(page, sizeof page, "/v1/jobs?limit=2%s%s", *cursor ? "&cursor=" : "", cursor);
        cleanup(json) json_t *doc = ask_json("GET", page, NULL, NULL, &status);
        const json_t *job;
        size_t i;
        check_int(status, 200);
        check(json_int(doc, "as_of", 0) > 0);
        json_array_foreach(json_object_get(doc, "jobs"), i, job)
            if (count < 5)
                snprintf(seen[count++], 80, "%s", json_str(job, "id", ""));
        snprintf(cursor, sizeof cursor, "%s", json_str(doc, "next", ""));
        pages++;
    } while (*cursor && pages < 10);
    check_int(count, 5);
    check_int(pages, 3);
    for (int i = 1; i < count; i++)
        check(strcmp(seen[i - 1], seen[i]) > 0);
    check_str(seen[4], first_job);
    /* by state: all five are queued, and nothing of it ended */
    static const struct { const char *state; int count; } states[] = {{"queued", 5}, {"live", 5}, {"running", 0}, {"ended", 0}, {"done", 0}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        int status;
        snprintf(path, sizeof path, "/v1/jobs?state=%s", states[i].state);
        cleanup(json) json_t *doc = ask_json("GET", path, NULL, NULL, &status);
        check_int(status, 200);
        check_int((int)json_array_size(json_object_get(doc, "jobs")), states[i].count);
    }
    /* a cursor belongs to its list and its filters */
    check_int(get("/v1/jobs?limit=2"), 200);
    snprintf(path, sizeof path, "/v1/jobs?state=live&cursor=%s", field("next"));
    check_int(get(path), 400);
    check_int(get("/v1/jobs?limit=2"), 200);
    snprintf(path, sizeof path, "/v1/kernels?cursor=%s", field("next"));
    check_int(get(path), 400);
}

/* Newest first, in pages that join, without what is large; the cursor of one job's list is no good for another's. */
static void candidates_are_listed_in_brief(const char *path)
{
    int status;
    char at[400], other[400], one[100] = "";
    snprintf(at, sizeof at, "%s?limit=1", path);
    cleanup(json) json_t *all = ask_json("GET", path, NULL, NULL, &status), *page = ask_json("GET", at, NULL, NULL, &status);
    const json_t *list = json_object_get(all, "candidates"), *newest = json_array_get(list, 0), *oldest = json_array_get(list, 1);
    check_int(json_array_size(list), 2);
    check(json_is_null(json_object_get(all, "next")) && json_int(all, "as_of", 0) > 0);
    check(strcmp(json_str(newest, "id", ""), json_str(oldest, "id", "")) > 0);
    check_str(json_str(newest, "language", ""), "cuda");
    check(json_is_null(json_object_get(newest, "verdict")) && !json_object_get(newest, "candidate") && !json_object_get(newest, "source"));
    snprintf(one, sizeof one, "%s", json_str(page, "next", ""));
    snprintf(at, sizeof at, "%s?limit=1&cursor=%s", path, one);
    cleanup(json) json_t *second = ask_json("GET", at, NULL, NULL, &status);
    check_int(status, 200);
    check_str(json_str(json_array_get(json_object_get(second, "candidates"), 0), "id", ""), json_str(oldest, "id", ""));
    check_int(post("/v1/jobs", submit), 202);
    snprintf(other, sizeof other, "/v1/jobs/%s/candidates", field("id"));
    snprintf(at, sizeof at, "%s?cursor=%s", other, one);
    check_int(get(at), 400);
    check_int(get(other), 200);
    check(strstr(buf_cstr(&answer.body), "\"candidates\":[]"));
}

static void candidates_are_taken_until_the_job_has_ended(const char *job)
{
    char path[200];
    static const char candidate[] = "{\"language\":\"cuda\",\"source\":\"x\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[1,1,1],\"block\":[32,1,1],"
                                    "\"args\":[\"x\",\"y\"]}]}}";
    snprintf(path, sizeof path, "/v1/jobs/%s/candidates", job);
    check_int(post(path, candidate), 202);
    char location[100];
    answer_header(&answer, "Location", location, sizeof location);
    check_int(get(location), 200);
    check_str(field("job"), job);
    check_int(post(path, "{\"language\":\"cuda\"}"), 400);
    /* a repetition is answered from the store, where the key lies since the candidate does */
    char first[4000], value[100];
    check_int(post_key("candidate-1", path, candidate), 202);
    snprintf(first, sizeof first, "%s", buf_cstr(&answer.body));
    answer_header(&answer, "Location", location, sizeof location);
    check(answer_header(&answer, "Idempotency-Replayed", value, sizeof value) == NULL || !*value);
    check_int(post_key("candidate-1", path, candidate), 202);
    check_str(buf_cstr(&answer.body), first);
    check_str(answer_header(&answer, "Idempotency-Replayed", value, sizeof value), "true");
    check_str(answer_header(&answer, "Location", value, sizeof value), location);
    check_int(post_key("candidate-1", path, "{\"language\":\"cuda\"}"), 422);
    candidates_are_listed_in_brief(path);
    char cancel[200];
    snprintf(cancel, sizeof cancel, "/v1/jobs/%s/cancel", job);
    check_int(ask(service.address, "POST", cancel, NULL, "", &answer), 200);
    check_str(field("state"), "cancelled");
    check_int(post(path, candidate), 409);
}

static void a_restart_forgets_nothing(const char *job)
{
    char path[200];
    service_down();
    service_up(1, no_flags);
    snprintf(path, sizeof path, "/v1/jobs/%s", job);
    check_int(get(path), 200);
    check_str(field("state"), "cancelled");
}

int main(void)
{
    char job[80];
    service_make();
    service_up(1, no_flags);
    jobs_and_pages(job);
    candidates_are_taken_until_the_job_has_ended(job);
    a_restart_forgets_nothing(job);
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}
