/*
 * Profiles in jobs: the best measured candidate has one before it stands in a prompt, once; a host that refuses is asked once; one that
 * fails costs no job; an external job makes one when somebody read a brief that lacks it. The judge does as the sources say.
 */
#include "tests/test_agent.h"

#define REQUEST "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never','generator':'%s','budget':{'candidates':3,'wall_seconds':60}}"
#define PLAN "\"plan\":{\"steps\":[{\"kernel\":\"scale\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"x\",\"y\"]}]}"
#define SAYS(source) "usage 1000 200\n---\n```json\n{" PLAN "}\n```\n```cuda\n// scale measured " source " \n```\n"

static struct llm_server server;

static int profiles_made(struct world *w)
{
    cleanup(str) char *path = xfmt("%s/runs/profiles", w->dir);
    struct stat st;
    return stat(path, &st) == 0 ? (int)st.st_size : 0;
}

static void forget(struct world *w)
{
    cleanup(str) char *path = xfmt("%s/runs/profiles", w->dir);
    (void)!unlink(path);
}

static json_t *play(struct world *w, const char *const *scripts)
{
    llm_server_play(&server, ".", scripts);
    forget(w);
    cleanup(str) char *request = xfmt(REQUEST, "llm");
    json_t *job = wait_job(w, submit(w, request));
    check_str(json_str(job, "state", ""), "done");
    return job;
}

static char *prompt_of(int request)
{
    cleanup(json) json_t *body = llm_server_body(&server, request);
    return xstrdup(json_str(json_array_get(json_object_get(body, "messages"), 1), "content", ""));
}

static void the_best_of_a_path_is_looked_at_once(struct world *w)
{
    /* Baseline, then a better one, one that is worse, and the prompt after it: two profiles. */
    cleanup(json) json_t *job = play(w, (const char *const[]){SAYS("time=500 gpu=1000000"), SAYS("time=700"), SAYS("time=400"), NULL});
    cleanup(json) json_t *all = candidates_of(w, json_str(job, "id", ""));
    check_int(profiles_made(w), 2);
    check(json_object_get(json_object_get(json_array_get(all, 0), "profile"), "steps") != NULL);
    check(json_object_get(json_object_get(json_array_get(all, 1), "profile"), "steps") != NULL);
    check(!json_object_get(json_array_get(all, 2), "profile") && !json_object_get(json_array_get(all, 3), "profile"));
    cleanup(str) char *first = prompt_of(0), *second = prompt_of(1), *third = prompt_of(2);
    check(strstr(first, "Measured by the card's own counters") && strstr(first, "DRAM at 61 % of its peak") && strstr(first, "1 us"));
    check(strstr(second, "0.5 us") && strstr(second, "global or local memory 30.0 (long_scoreboard)") && strstr(third, "0.5 us") && !strstr(third, "0.7 us"));
    check(strstr(first, "on Card of the tests"));
    check(json_num(json_object_get(job, "spent"), "gpu_seconds", 0) >= 2 * 0.25);     /* they are paid for */
}

static void what_is_estimated_has_none(struct world *w)
{
    set_baseline(w, "time=1000 ");
    cleanup(json) json_t *job = play(w, (const char *const[]){"usage 1000 200\n---\n```json\n{" PLAN "}\n```\n```cuda\n// scale time=500 \n```\n", NULL});
    check(job != NULL);
    check_int(profiles_made(w), 0);
    set_baseline(w, "time=1000 measured ");
}

static void a_profile_that_fails_costs_no_job(struct world *w)
{
    static const char *const ways[] = {"profile=crash", "profile=garbage", "profile=fault", "profile=text"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cleanup(str) char *first = xfmt(SAYS("time=500 %s"), ways[i]);
        cleanup(json) json_t *job = play(w, (const char *const[]){first, SAYS("time=450"), SAYS("time=400"), NULL});
        cleanup(json) json_t *all = candidates_of(w, json_str(job, "id", ""));
        check(*json_str(json_object_get(json_array_get(all, 1), "profile"), "not_done", "") != 0);
        check(json_object_get(json_object_get(json_array_get(all, 2), "profile"), "steps") != NULL);
        check_int(profiles_made(w), 3);
        cleanup(str) char *second = prompt_of(1);
        check(!strstr(second, "Measured by the card's own counters"));
    }
}

static void external_jobs_make_one_for_a_brief(struct world *w)
{
    cleanup(str) char *text = xfmt(REQUEST, "external");
    forget(w);
    char id[40];
    snprintf(id, sizeof id, "%s", submit(w, text));
    cleanup(str) char *ask = xfmt("{'op':'scale','axes':{'R':4,'N':8},'job':'%s'}", id);
    cleanup(json) json_t *request = json_of(ask), *brief = NULL;
    struct err err = {0};
    int asked = 0;
    for (int i = 0; i < 1500; i++) {
        struct faults f = {0};
        json_decref(brief);
        brief = NULL;
        must(jobs_brief(w->jobs, request, &brief, &f, &err), &err);
        if (json_str(brief, "counters", NULL)) {
            jobs_want_profile(w->jobs, id);
            asked++;
        }
        if (strstr(json_str(brief, "text", ""), "Measured by the card's own counters"))
            break;
        clock_sleep_ns(10000000);
    }
    check(asked > 0 && !json_object_get(brief, "counters"));
    check(strstr(json_str(brief, "text", ""), "1 us"));
    check_int(profiles_made(w), 1);          /* of the baseline, however often it was asked for */
    cleanup(json) json_t *ended = NULL;
    must(jobs_cancel(w->jobs, id, &ended, &err), &err);
    /* Nobody who does not ask pays for one. */
    cleanup(str) char *quiet = xstrdup(submit(w, text));
    for (int i = 0; i < 1000; i++) {
        cleanup(json) json_t *job = get(w, STORE_JOB, quiet);
        if (!strcmp(json_str(job, "step", ""), "propose"))
            break;
        clock_sleep_ns(10000000);
    }
    clock_sleep_ns(50000000);
    check_int(profiles_made(w), 1);
    cleanup(json) json_t *other = NULL;
    must(jobs_cancel(w->jobs, quiet, &other, &err), &err);
}

static void a_cancelled_job_waits_for_none(struct world *w)
{
    llm_server_play(&server, ".", (const char *const[]){SAYS("time=500 profile=hang"), SAYS("time=400"), NULL});
    forget(w);
    cleanup(str) char *request = xfmt(REQUEST, "llm");
    char id[40];
    struct err err = {0};
    snprintf(id, sizeof id, "%s", submit(w, request));
    for (int i = 0; i < 2000 && profiles_made(w) < 2; i++)
        clock_sleep_ns(5000000);
    int64_t began = clock_mono_ns();
    cleanup(json) json_t *cancelled = NULL;
    must(jobs_cancel(w->jobs, id, &cancelled, &err), &err);
    cleanup(json) json_t *job = wait_job(w, id);
    check_str(json_str(job, "state", ""), "cancelled");
    world_stop(w);                          /* nobody is left waiting for it */
    check(clock_mono_ns() - began < 3000000000);
    world_open(w);
    world_start(w);
}

static void a_host_that_refuses_is_asked_once(struct world *w)
{
    set_baseline(w, "time=1000 measured profile=refuse ");
    cleanup(json) json_t *job = play(w, (const char *const[]){SAYS("time=500"), SAYS("time=450"), SAYS("time=400"), NULL});
    cleanup(json) json_t *all = candidates_of(w, json_str(job, "id", ""));
    check(strstr(json_str(json_object_get(json_array_get(all, 0), "profile"), "not_done", ""), "administrators"));
    check_int(profiles_made(w), 1);
    cleanup(json) json_t *again = play(w, (const char *const[]){SAYS("time=500"), NULL});
    check(again != NULL);
    check_int(profiles_made(w), 0);
    cleanup(str) char *prompt = prompt_of(0);
    check(strstr(prompt, "Where its time goes") && !strstr(prompt, "own counters"));
    set_baseline(w, "time=1000 measured ");
    world_stop(w);
    world_open(w);
    w->config.profiles = false;
    world_start(w);
    cleanup(json) json_t *off = play(w, (const char *const[]){SAYS("time=500"), NULL});
    check(off != NULL);
    check_int(profiles_made(w), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    judge_program = argv[1];
    hash_init();
    log_threshold(LOG_ERROR + 1);
    cleanup(llm) struct llm *llm = NULL;
    struct err err = {0};
    llm_server_start(&server, ".", (const char *const[]){SAYS("time=500"), NULL});
    struct llm_config settings = llm_settings(&server, "openai");
    must(llm_open(&settings, &llm, &err), &err);
    cleanup(world) struct world w = {0};
    world_with(&w, llm);
    world_stop(&w);
    set_baseline(&w, "time=1000 measured ");
    world_open(&w);
    w.config.profiles = true;
    world_start(&w);
    the_best_of_a_path_is_looked_at_once(&w);
    what_is_estimated_has_none(&w);
    a_profile_that_fails_costs_no_job(&w);
    external_jobs_make_one_for_a_brief(&w);
    a_cancelled_job_waits_for_none(&w);
    a_host_that_refuses_is_asked_once(&w);
    llm_server_stop(&server);
    return test_done();
}
