/* Idempotency-Key: the same request is taken once, whoever repeats it and when, also at the same moment and after a restart. */
#include "tests/test_api_ask.h"

#include <pthread.h>

static void *post_at_once(void *arg)
{
    struct answer a = {0};
    *(int *)arg = ask(service.address, "POST", "/v1/jobs", JSON_TYPE "Idempotency-Key: \"at-once\"\r\n", submit, &a);
    answer_done(&a);
    return NULL;
}

static int jobs_now(void)
{
    int status;
    cleanup(json) json_t *doc = ask_json("GET", "/v1/jobs?limit=200", NULL, NULL, &status);
    return (int)json_array_size(json_object_get(doc, "jobs"));
}

static char kept_body[4000];

static void the_same_key_makes_one_job(void)
{
    int before = jobs_now();
    char value[100], location[100];
    check_int(post_key("\"key-1\"", "/v1/jobs", submit), 202);
    snprintf(kept_body, sizeof kept_body, "%s", buf_cstr(&answer.body));
    answer_header(&answer, "Location", location, sizeof location);
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            clock_sleep_ns(1500000000);      /* by now the answer lies in the store */
        check_int(post_key(i ? "key-1" : "\"key-1\"", "/v1/jobs", submit), 202);
        check_str(buf_cstr(&answer.body), kept_body);
        check_str(answer_header(&answer, "Location", value, sizeof value), location);
        check_str(answer_header(&answer, "Idempotency-Replayed", value, sizeof value), "true");
    }
    check_int(jobs_now(), before + 1);
    check_int(post_key("\"key-1\"", "/v1/jobs", "{\"op\":\"scale\",\"shapes\":[{\"N\":66}]}"), 422);
    check_int(post_key("\"a\\b\"", "/v1/jobs", submit), 400);
    check_int(post_key("\"\"", "/v1/jobs", submit), 400);
    check_int(post_key("\"key-2\"", "/v1/jobs", "{\"op\":\"none\",\"shapes\":[{}]}"), 400);
    check_int(post_key("\"key-2\"", "/v1/jobs", submit), 202);      /* a refused request used no key up */
    check_int(jobs_now(), before + 2);
    /* eight at the same moment: one is taken, the others wait or are told to */
    pthread_t threads[8];
    int status[8], taken = 0, told = 0;
    fake_submit_ns = 100000000;
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, post_at_once, &status[i]);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        taken += status[i] == 202;
        told += status[i] == 409;
    }
    fake_submit_ns = 0;
    check_int(taken + told, 8);
    check(taken >= 1 && told >= 1);
    check_int(jobs_now(), before + 3);
}

static void a_restart_forgets_no_key(void)
{
    int before = jobs_now();
    service_down();
    service_up(1, no_flags);
    check_int(post_key("\"key-1\"", "/v1/jobs", submit), 202);
    check_str(buf_cstr(&answer.body), kept_body);
    check_int(jobs_now(), before);
}

int main(void)
{
    service_make();
    service_up(1, no_flags);
    the_same_key_makes_one_job();
    a_restart_forgets_no_key();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}
