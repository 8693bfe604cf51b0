/* Sums by day: of all jobs together, kept over a restart, a day for itself, and no more of them than are kept. */
#include "tests/test_jobs.h"

#include "server/llm/llm.h"

#define DAYS_KEPT 100

static const json_t *today_of(const json_t *spending)
{
    return json_array_get(json_object_get(spending, "days"), 0);
}

static void check_day(struct world *w, double gpu_seconds, int candidates)
{
    cleanup(json) json_t *spending = jobs_spending(w->jobs, 1);
    const json_t *day = today_of(spending);
    check_int(json_array_size(json_object_get(spending, "days")), 1);
    check(strncmp(json_str(day, "day", ""), clock_text(clock_wall_ns()).text, 10) == 0);
    check(json_num(day, "gpu_seconds", -1) > gpu_seconds - 1e-6 && json_num(day, "gpu_seconds", -1) < gpu_seconds + 1e-6);
    check_int(json_int(day, "candidates", -1), candidates);
    check_int(json_int(day, "tokens", -1), 0);
}

static void sums_of_all_jobs_outlive_a_restart(void)
{
    static const char *const sources[] = {"time=1900 gpu=600000000 ", "time=1800 gpu=250000000 "};
    cleanup(world) struct world w = {0};
    script = sources, script_count = 2;
    world_new(&w);
    check_day(&w, 0, 0);                            /* today's is told before anything was spent */
    char ids[2][40];
    snprintf(ids[0], sizeof ids[0], "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}"));
    snprintf(ids[1], sizeof ids[1], "%s", submit(&w, "{'op':'scale','shapes':[{'R':8,'N':8}]}"));
    for (int i = 0; i < 2; i++)
        json_decref(wait_job(&w, ids[i]));
    check_day(&w, 1.7, 4);
    world_stop(&w);
    world_open(&w);
    world_start(&w);
    check_day(&w, 1.7, 4);
    json_decref(wait_job(&w, submit(&w, "{'op':'scale','shapes':[{'R':16,'N':8}]}")));
    check_day(&w, 2.55, 6);
}

/* Days of before: as many as are kept, the oldest go first, and none of them changes. */
static void days_are_apart_and_bounded(void)
{
    static const char *const sources[] = {"time=1900 gpu=600000000 "};
    cleanup(world) struct world w = {0};
    struct err err = {0};
    script = sources, script_count = 1;
    world_open(&w);
    cleanup(json) json_t *before = json_pack("{s:[]}", "days");
    for (int i = 0; i < DAYS_KEPT; i++) {
        cleanup(str) char *day = xfmt("2025-%02d-%02d", 1 + i / 28, 1 + i % 28);
        json_array_append_new(json_object_get(before, "days"), json_pack("{s:s,s:i,s:i,s:i}", "day", day, "gpu_seconds", i, "tokens", 1, "candidates", 2));
    }
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_META, "spending", NULL, before);
    must(store_commit(w.store, b, NULL, &err), &err);
    world_start(&w);
    json_decref(wait_job(&w, submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}")));
    check_day(&w, 0.6, 1);
    cleanup(json) json_t *all = jobs_spending(w.jobs, 1000);
    const json_t *days = json_object_get(all, "days");
    check_int(json_array_size(days), DAYS_KEPT);
    check_str(json_str(json_array_get(days, 1), "day", ""), "2025-04-16");
    check_int(json_int(json_array_get(days, 1), "tokens", 0), 1);
    check(json_num(json_array_get(days, 1), "gpu_seconds", 0) == DAYS_KEPT - 1);
    check_str(json_str(json_array_get(days, DAYS_KEPT - 1), "day", ""), "2025-01-02");
}

/* A clock that was set back doesn't open a day twice. */
static void a_clock_set_back_goes_on(void)
{
    static const char *const sources[] = {"time=1900 gpu=600000000 "};
    cleanup(world) struct world w = {0};
    struct err err = {0};
    script = sources, script_count = 1;
    world_open(&w);
    cleanup(json) json_t *before = json_pack("{s:[{s:s,s:f,s:i,s:i}]}", "days", "day", "2999-01-01", "gpu_seconds", 1.0, "tokens", 5, "candidates", 2);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_META, "spending", NULL, before);
    must(store_commit(w.store, b, NULL, &err), &err);
    world_start(&w);
    json_decref(wait_job(&w, submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}")));
    cleanup(json) json_t *all = jobs_spending(w.jobs, 7);
    check_int(json_array_size(json_object_get(all, "days")), 1);
    check_int(json_int(today_of(all), "candidates", 0), 3);
    check_int(json_int(today_of(all), "tokens", 0), 5);
}

/* What a model is asked outside of jobs is spent too. */
static void tokens_of_no_job_count(void)
{
    cleanup(world) struct world w = {0};
    struct llm_account account = {.usage = {.input = 700, .output = 41}, .tries = 1};
    world_new(&w);
    jobs_count_llm(w.jobs, LLM_CONSOLIDATION, &account);
    jobs_count_llm(w.jobs, LLM_CONSOLIDATION, &account);
    world_stop(&w);
    world_open(&w);
    world_start(&w);
    cleanup(json) json_t *spending = jobs_spending(w.jobs, 1);
    check_int(json_int(today_of(spending), "tokens", 0), 1482);
    check_int(json_int(today_of(spending), "candidates", -1), 0);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    sums_of_all_jobs_outlive_a_restart();
    days_are_apart_and_bounded();
    a_clock_set_back_goes_on();
    tokens_of_no_job_count();
    return test_done();
}
