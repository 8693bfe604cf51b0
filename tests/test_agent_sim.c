/*
 * The whole way: a scripted model's first answer does not compile, its second is wrong, its third is right and faster; the real judge
 * says so on the emulator, and the third is served. Then the same without a model, from the transcripts.
 */
#include "tests/test_agent.h"

#define JOB "{'op':'rmsnorm','shapes':[{'R':16,'N':1024}],'generator':'llm','budget':{'candidates':3}"

static struct llm_server server;

static const char *move_of(const json_t *candidates, int i)
{
    return json_str(json_object_get(json_array_get(candidates, (size_t)i), "origin"), "move", "?");
}

static void check_job(struct world *w, const char *id, bool replayed)
{
    for (int i = 0; i < 4; i++) {        /* a busy machine takes its time */
        cleanup(json) json_t *so_far = wait_job(w, id);
        if (json_object_get(so_far, "finished"))
            break;
    }
    cleanup(json) json_t *job = wait_job(w, id), *all = candidates_of(w, id), *attempts = attempts_of(w, id);
    const json_t *shape = json_array_get(json_object_get(job, "shapes"), 0), *best = json_object_get(shape, "best");
    check_str(json_str(job, "state", ""), "done");
    check_int(json_array_size(all), 4);
    static const char *const verdicts[] = {"ok", "compile_error", "wrong_result", "ok"}, *const moves[] = {"?", "scratch", "repair", "repair"};
    for (int i = 0; i < 4; i++) {
        check_str(code_of(json_array_get(all, (size_t)i)), verdicts[i]);
        check_str(move_of(all, i), moves[i]);
    }
    check_str(json_str(best, "candidate", ""), json_str(json_array_get(all, 3), "id", "?"));
    check(json_num(json_object_get(best, "speedup"), "median", 0) > 1.05);
    cleanup(json) json_t *kernel = get(w, STORE_KERNEL, json_str(shape, "shape_hash", ""));
    check_int(json_array_size(attempts), 3);
    check_int(spent_tokens(job), replayed ? 0 : 3 * 2900);
    check_int(spent_on(job, "generation", "calls"), replayed ? 1 : 1);
    check_int(spent_on(job, "repair", "calls"), 2);
    check_int(spent_on(job, "generation", "output"), replayed ? 0 : 900);
    if (!replayed)
        check_str(json_str(kernel, "candidate", ""), json_str(best, "candidate", "?"));
    size_t i;
    json_t *a;
    json_array_foreach(attempts, i, a) {
        check_str(json_str(a, "outcome", ""), "candidate");
        check_str(json_str(a, "candidate", ""), json_str(json_array_get(all, i + 1), "id", "?"));
        check(json_int(json_object_get(a, "prompt"), "tokens", 1 << 30) <= 12000);
        check_int(json_array_size(json_object_get(json_object_get(a, "prompt"), "sections")), SECTION_COUNT);
    }
}

static void prompts_say_what_went_wrong(void)
{
    cleanup(json) json_t *second = llm_server_body(&server, 1), *third = llm_server_body(&server, 2);
    const char *a = json_str(json_array_get(json_object_get(second, "messages"), 1), "content", ""),
               *b = json_str(json_array_get(json_object_get(third, "messages"), 1), "content", "");
    check(strstr(a, "identifier \"epsilon\" is undefined") && strstr(a, "compile_error") && strstr(a, "rsqrtf(sum / N + epsilon)"));
    check(strstr(b, "wrong_result") && strstr(b, "float sum = 0.5f") && strstr(b, "axes") && strstr(b, "reference.c"));
    check(strstr(a, "By source line") && strstr(a, "lines with the most instructions") && strstr(a, "step 0, line ") && strstr(a, " lanes"));
    const char *at = strstr(a, "lines with the most instructions"), *text = at ? strstr(at, " | ") : NULL;
    check(text && text < strstr(at, "=====END"));           /* what stands there is fenced */
    check(!strstr(a, "outliers"));       /* a hidden regime */
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    judge_program = argv[1];
    cleanup(world) struct world w = {0};
    cleanup(llm) struct llm *llm = NULL;
    struct err err = {0};
    hash_init();
    log_threshold(LOG_ERROR + 1);
    if (access("/usr/local/cuda/include/cuda_bf16.h", R_OK) != 0 && !getenv("CUDA_HOME"))
        test_skip("no CUDA toolkit, so no kernel can be compiled");
    llm_server_start(&server, argv[3], (const char *const[]){"broken.script", "wrong.script", "good.script", NULL});
    struct llm_config settings = llm_settings(&server, "openai");
    must(llm_open(&settings, &llm, &err), &err);
    w.config.runners = 0;
    world_open(&w);
    op_set_done(&w.ops);
    must(op_set_load(argv[2], &w.ops, &err), &err);
    w.config.spawn.ops_dir = argv[2];
    w.config.spawn.device = "sim";
    w.config.spawn.wall_limit_ns = 100000000000;
    w.config.find_generator = generator_find;
    w.config.llm = llm;
    w.config.prompt_tokens = 12000;
    w.config.default_tokens = 400000;
    w.config.attempt_failures = 3;
    world_start(&w);
    char first[40], second[40];
    snprintf(first, sizeof first, "%s", submit(&w, JOB "}"));
    check_job(&w, first, false);
    check_int(llm_server_requests(&server), 3);
    prompts_say_what_went_wrong();
    cleanup(str) char *again = xfmt(JOB ",'reuse':'never','replays':'%s'}", first);
    snprintf(second, sizeof second, "%s", submit(&w, again));
    check_job(&w, second, true);
    check_int(llm_server_requests(&server), 3);
    check_int(grep_world(&w, LLM_KEY), 0);
    check(grep_world(&w, "identifier \\\"epsilon\\\" is undefined") > 0);    /* the search finds what is there */
    llm_server_stop(&server);
    return test_done();
}
