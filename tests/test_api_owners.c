/* Whose a job is: only the token that made it, or an admin's, feeds and cancels it; where there are no tokens, everybody. */
#include "tests/test_api.h"

#define CANDIDATE "{\"language\":\"cuda\",\"source\":\"extern \\\"C\\\" __global__ void k() {}\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[32],\"args\":[\"x\",\"y\"]}]}}"
#define SUBMIT "{\"op\":\"scale\",\"shapes\":[{\"N\":64}],\"generator\":\"external\"}"

static struct answer answer;

struct who { char id[44], head[200]; };

static struct who token(const char *by, const char *scope)
{
    struct who who = {.id = ""};
    int status;
    cleanup(str) char *body = xfmt("{\"scopes\":[\"%s\"]}", scope);
    cleanup(json) json_t *doc = ask_json("POST", "/v1/tokens", by, body, &status);
    check_int(status, 201);
    snprintf(who.id, sizeof who.id, "%s", json_str(doc, "id", ""));
    snprintf(who.head, sizeof who.head, "Authorization: Bearer %s\r\n" JSON_TYPE, json_str(doc, "token", ""));
    return who;
}

/* A new job of that caller's; the paths of what may be done to it. */
struct job { char id[40]; char *feed, *cancel, *list; };
static struct job job_of(const char *head)
{
    int status;
    cleanup(json) json_t *doc = ask_json("POST", "/v1/jobs", head, SUBMIT, &status);
    struct job job = {.id = ""};
    check_int(status, 202);
    snprintf(job.id, sizeof job.id, "%s", json_str(doc, "id", ""));
    job.feed = xfmt("/v1/jobs/%s/candidates", job.id);
    job.cancel = xfmt("/v1/jobs/%s/cancel", job.id);
    job.list = xfmt("/v1/jobs/%s", job.id);
    return job;
}

static void job_done(struct job *job)
{
    free(job->feed);
    free(job->cancel);
    free(job->list);
}
DEFINE_CLEANUP(job, struct job, job_done(it))

static int send_as(const struct who *who, const char *path, const char *body)
{
    return ask(service.address, "POST", path, who ? who->head : JSON_TYPE, body, &answer);
}

static int candidates(const struct who *who, const struct job *job)
{
    int status;
    cleanup(json) json_t *doc = ask_json("GET", job->feed, who->head, NULL, &status);
    check_int(status, 200);
    return (int)json_array_size(json_object_get(doc, "candidates"));
}

static void check_state(const struct who *who, const struct job *job, const char *state)
{
    int status;
    cleanup(json) json_t *doc = ask_json("GET", job->list, who->head, NULL, &status);
    check_int(status, 200);               /* whoever may read reads all jobs */
    check_str(json_str(doc, "state", ""), state);
}

static void a_job_is_the_tokens_that_made_it(const struct who *admin, const struct who *one, const struct who *two)
{
    cleanup(job) struct job mine = job_of(one->head);
    check_int(send_as(two, mine.feed, CANDIDATE), 403);
    check(strstr(buf_cstr(&answer.body), "another caller") && strstr(buf_cstr(&answer.body), "\"forbidden\""));
    check_int(send_as(two, mine.cancel, NULL), 403);
    check_int(candidates(two, &mine), 0);
    check_state(two, &mine, "queued");
    check_int(send_as(one, mine.feed, CANDIDATE), 202);
    check_int(send_as(admin, mine.feed, CANDIDATE), 202);
    check_int(candidates(two, &mine), 2);
    check_int(send_as(one, mine.cancel, NULL), 200);
    check_state(two, &mine, "cancelled");
    cleanup(job) struct job other = job_of(two->head);
    check_int(send_as(one, other.cancel, NULL), 403);
    check_int(send_as(admin, other.cancel, NULL), 200);
    check_state(one, &other, "cancelled");
    /* what is not there is not somebody's */
    static const char *const paths[] = {"/v1/jobs/job_00000000000000000000000000/cancel", "/v1/jobs/nothing/cancel", "/v1/jobs/job_00000000000000000000000000/candidates"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        check_int(send_as(two, paths[i], i == 2 ? CANDIDATE : NULL), 404);
}

/* A refusal is no answer that is kept: another token's key is another key, and one's own still does its work. */
static void a_key_opens_no_other_job(const struct who *one, const struct who *two)
{
    cleanup(job) struct job mine = job_of(one->head);
    struct who one_keyed = *one, two_keyed = *two;
    snprintf(one_keyed.head + strlen(one->head), sizeof one_keyed.head - strlen(one->head), "Idempotency-Key: k\r\n");
    snprintf(two_keyed.head + strlen(two->head), sizeof two_keyed.head - strlen(two->head), "Idempotency-Key: k\r\n");
    check_int(send_as(&two_keyed, mine.feed, CANDIDATE), 403);
    check_int(send_as(&one_keyed, mine.feed, CANDIDATE), 202);
    check_int(send_as(&two_keyed, mine.feed, CANDIDATE), 403);
    check_int(send_as(&one_keyed, mine.feed, CANDIDATE), 202);
    check_int(candidates(one, &mine), 1);
}

static void a_job_of_nobody_is_for_admins(const struct job *open, const struct who *admin, const struct who *one)
{
    check_int(send_as(one, open->feed, CANDIDATE), 403);
    check_int(send_as(one, open->cancel, NULL), 403);
    check_int(send_as(admin, open->feed, CANDIDATE), 202);
    check_int(send_as(admin, open->cancel, NULL), 200);
}

int main(void)
{
    char *flags[] = {(char *)"proteusd", NULL};
    service_make();
    service_up(1, flags);
    cleanup(job) struct job open = job_of(JSON_TYPE), also_open = job_of(JSON_TYPE);
    check_int(send_as(NULL, open.feed, CANDIDATE), 202);
    struct who admin = token(JSON_TYPE, "admin"), one = token(admin.head, "submit"), two = token(admin.head, "submit");
    a_job_is_the_tokens_that_made_it(&admin, &one, &two);
    a_key_opens_no_other_job(&one, &two);
    a_job_of_nobody_is_for_admins(&open, &admin, &one);
    /* without tokens everybody may again, whoever made it */
    cleanup(job) struct job left = job_of(one.head);
    const struct who *const gone[] = {&one, &two, &admin};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        cleanup(str) char *path = xfmt("/v1/tokens/%s", gone[i]->id);
        check_int(ask(service.address, "DELETE", path, admin.head, NULL, &answer), 204);
    }
    check_int(send_as(NULL, left.feed, CANDIDATE), 202);
    check_int(send_as(NULL, left.cancel, NULL), 200);
    check_int(send_as(NULL, also_open.cancel, NULL), 200);
    answer_done(&answer);
    service_down();
    service_remove();
    return test_done();
}
