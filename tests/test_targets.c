/*
 * Targets beyond sm_90a: operators of a model's decode step are compiled for them, emulated with all checks and estimated with that
 * card's figures; and the template search finds what can be judged there. This program is its own child (argv[1] = "child").
 * Usage: test_targets OPS_DIR MODELS_DIR all | OPERATOR...
 */
#include "core/preset.h"
#include "gpu/judge/judge.h"
#include "server/generate/generate.h"
#include "tests/test.h"

#define PROPOSALS 3

static struct op_set ops;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 2};
static const struct { const char *target, *card; } targets[] = {{"sm_80", "A100"}, {"sm_100a", "B200"}};

static bool judge(const struct shape *s, json_t *candidate, json_t *baseline, double baseline_ns, const char *mode, struct judge_result *r)
{
    cleanup(json) json_t *task = json_object();
    struct err err = {0};
    *r = (struct judge_result){.gpu_ns = 0};
    json_put(task, "shape", shape_encode(s));
    json_put(task, "candidate", json_incref(candidate));
    json_put(task, "baseline", baseline ? json_incref(baseline) : json_null());
    json_put_str(task, "mode", mode);
    if (baseline_ns > 0)
        json_put_num(task, "baseline_time_ns", baseline_ns);
    bool ok = judge_run(&config, task, NULL, NULL, NULL, r, &err);
    if (!ok)
        fprintf(stderr, "%s, %s: %s\n", s->op->name, s->target, err.text);
    check(ok);
    return ok;
}

static double judge_baseline(const struct shape *s, const char *card, json_t **ret_baseline)
{
    struct err err = {0};
    struct judge_result r;
    json_t *doc = NULL;
    bool loaded = candidate_load(s->op->dir, "baseline", &doc, &err);
    check(loaded);
    *ret_baseline = doc;
    if (!loaded || !judge(s, doc, NULL, 0, "full", &r))
        return 0;
    if (r.verdict.code != VERDICT_OK)
        fprintf(stderr, "%s, %s: the baseline: %s: %s\n", s->op->name, s->target, verdict_name(r.verdict.code), r.verdict.text);
    check(r.verdict.code == VERDICT_OK);
    const json_t *device = json_object_get(r.certificate, "device");
    double time_ns = json_num(r.figures, "time_ns", 0);
    check_str(json_str(device, "target", ""), s->target);
    check(strstr(json_str(device, "name", ""), card) && strstr(json_str(device, "name", ""), "emulator"));
    check_str(json_str(r.figures, "evidence", ""), "emulated");
    check(time_ns > 0);
    judge_result_done(&r);
    return time_ns;
}

/* Of the search's first proposals some are right there; what the target cannot do has a verdict that says so. */
static void judge_proposals(const struct shape *s, json_t *baseline, double baseline_ns)
{
    struct gen_past past[PROPOSALS] = {{0}};
    struct gen_proposal proposals[PROPOSALS] = {{0}};
    struct judge_result results[PROPOSALS] = {{.gpu_ns = 0}};
    struct err err = {0};
    int count = 0, right = 0;
    for (; count < PROPOSALS && baseline_ns > 0; count++) {
        struct gen_input in = {.op = s->op, .shape = s, .past = past, .past_count = count, .baseline_ns = baseline_ns,
                               .candidates_left = PROPOSALS - count, .seed = 1};
        struct gen_proposal *p = &proposals[count];
        struct judge_result *r = &results[count];
        if (!template_propose(&in, p, &err) || p->done || !judge(s, p->candidate, baseline, baseline_ns, "triage", r))
            break;
        past[count] = (struct gen_past){.id = "x", .candidate = p->candidate, .origin = p->origin, .verdict = r->verdict.code,
                                        .time_ns = json_num(r->figures, "time_ns", 0), .figures = r->figures};
        right += verdict_is_correct(r->verdict.code);
        if (!verdict_is_correct(r->verdict.code))
            fprintf(stderr, "  (%s, %s: %s: %.200s)\n", s->op->name, s->target, verdict_name(r->verdict.code), r->verdict.text);
    }
    if (!right)
        fprintf(stderr, "%s, %s: none of %d proposals was right\n", s->op->name, s->target, count);
    check(right > 0);
    for (int i = 0; i < PROPOSALS; i++) {
        gen_proposal_done(&proposals[i]);
        judge_result_done(&results[i]);
    }
}

static bool wanted(const char *op, int argc, char **argv)
{
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], "all") == 0 || strcmp(argv[i], op) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct toolkit_paths paths;
    cleanup(preset_set) struct preset_set presets = {0};
    struct err err = {0};
    hash_init();
    check(argc > 3 && op_set_load(argv[1], &ops, &err) && preset_set_load(argv[2], &presets, &err));
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    const struct preset *p = preset_set_find(&presets, "qwen3.5-122b");
    int judged = 0;
    for (size_t t = 0; p && t < sizeof targets / sizeof *targets; t++) {
        cleanup(json) json_t *list = json_array();
        struct preset_at at = {p->tp[p->tp_count - 1], 1, targets[t].target};
        json_t *entry;
        size_t i;
        check(preset_expand(p, &ops, &at, list, &err));
        cleanup(json) json_t *seen = json_object();
        json_array_foreach(list, i, entry) {
            struct faults f = {0};
            struct shape shape;
            check(shape_parse(&ops, json_object_get(entry, "shape"), NULL, "", &shape, &f));
            if (!wanted(shape.op->name, argc, argv) || json_object_get(seen, shape.op->name))
                continue;
            json_put_bool(seen, shape.op->name, true);
            cleanup(json) json_t *baseline = NULL;
            double baseline_ns = judge_baseline(&shape, targets[t].card, &baseline);
            judge_proposals(&shape, baseline, baseline_ns);
            judged++;
        }
    }
    check(judged >= 2);
    op_set_done(&ops);
    return test_done();
}
