/*
 * The level that the sandbox reaches on a host, as it is told and as it is asked for: in the list of devices, in the certificate of
 * each judgement, and against --sandbox-minimum. Layers are left out one after the other, as on hosts that forbid them.
 * This program is its own child (argv[1] = "child"). Usage: test_sandbox_levels OPS_DIR
 */
#include "gpu/judge/judge.h"
#include "gpu/sandbox/sandbox.h"
#include "tests/test.h"

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 1};

static json_t *task_of_baseline(struct err *err)
{
    const struct op *op = op_set_find(&ops, "rmsnorm");
    json_t *candidate = NULL;
    if (!op || !candidate_load(op->dir, "baseline", &candidate, err))
        return NULL;
    json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s}", "shape", "op", "rmsnorm", "axes", "R", 2, "N", 64, "dtypes", "io", "f32", "target", "sm_90a",
                             "mode", "triage");
    json_put(task, "baseline", json_incref(candidate));
    json_put(task, "candidate", candidate);
    return task;
}

static bool has(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), word) == 0)
            return true;
    return false;
}

static void check_record(const json_t *told, const char *level, unsigned layers, bool as_list)
{
    static const struct { unsigned bit; const char *name; } bits[] = {
        {SANDBOX_LIMITS, "limits"}, {SANDBOX_SECCOMP, "seccomp"}, {SANDBOX_LANDLOCK, "landlock"}, {SANDBOX_NAMESPACES, "namespaces"}};
    check_str(json_str(told, "level", ""), level);
    for (size_t i = 0; i < 4; i++)
        check_int(as_list ? has(json_object_get(told, "layers"), bits[i].name) : json_bool(told, bits[i].name, false), (layers & bits[i].bit) != 0);
}

static void test_level(unsigned without, unsigned have)
{
    static const char *const levels[] = {"none", "limits", "filtered", "isolated"};
    unsigned layers = have & ~without;
    const char *level = sandbox_level(layers);
    struct err err = {0};
    cleanup(json) json_t *devices = NULL, *task = task_of_baseline(&err);
    sandbox_without(without);
    check(task != NULL);
    check(judge_devices(&config, &devices, &err));
    check_record(json_object_get(devices, "sandbox"), level, layers, true);
    bool reached = true;
    for (size_t i = 0; i < 4; i++) {
        /* The level itself and the one above it: those between say nothing new, and a judgement takes a second. */
        bool is_own = strcmp(levels[i], level) == 0;
        if (is_own || (!reached && strcmp(levels[i - 1], level) == 0)) {
            cleanup(judge_result) struct judge_result r = {.gpu_ns = 0};
            config.sandbox_minimum = levels[i];
            err = (struct err){0};
            bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err);
            check_int(ok, is_own);
            if (ok) {
                check(verdict_is_correct(r.verdict.code));
                check_record(json_object_get(r.certificate, "sandbox"), level, layers, false);
            } else {
                check_int(err.code, ERR_UNAVAILABLE);
                check(strstr(err.text, level) && strstr(err.text, "--sandbox-minimum") && strstr(err.text, levels[i]));
            }
            if (ok != is_own)
                fprintf(stderr, "minimum %s at level %s: %s\n", levels[i], level, err.text);
        }
        reached = reached && !is_own;
    }
    config.sandbox_minimum = NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    unsigned have = 0;
    hash_init();
    if (argc != 2 || !op_set_load(argv[1], &ops, &err))
        return fprintf(stderr, "usage: %s OPS_DIR: %s\n", argv[0], err.text), 2;
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    check(sandbox_probe(&have, &err));
    test_level(0, have);
    test_level(SANDBOX_NAMESPACES, have);
    test_level(SANDBOX_SECCOMP, have);
    test_level(SANDBOX_NAMESPACES | SANDBOX_LANDLOCK | SANDBOX_SECCOMP, have);
    return test_done();
}
