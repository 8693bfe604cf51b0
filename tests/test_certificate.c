/*
 * The certificate of a real judgement with its retest, on sim: it holds every item that the contract lists; without any one of them it
 * is refused; its retest was in other processes, with other seeds; a hidden regime's values are not in it. This program is its own child.
 * Usage: test_certificate OPS_DIR SOURCE.cu
 */
#include "core/candidate.h"
#include "core/certificate.h"
#include "core/hash.h"
#include "gpu/judge/judge.h"
#include "tests/test.h"

static struct op_set ops;
static char *source;
static struct judge_config config = {.ops = &ops, .device = "sim", .threads = 2};

static json_t *candidate_of(const char *kernel, int threads)
{
    return json_pack("{s:s,s:s,s:{s:[{s:s,s:[s],s:[i],s:[s,s,s,s]}]},s:{s:i},s:{s:b},s:s}", "language", "cuda", "source", source, "plan", "steps",
                     "kernel", kernel, "grid", "R", "block", threads, "args", "x", "weight", "y", "eps", "defines", "MODE", 0, "declares",
                     "atomics", 0, "notes", "talk is not part of it");
}

static json_t *certificate_of(const char *mode, bool alone)
{
    struct judge_result r = {.gpu_ns = 0};
    struct err err = {0};
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i},s:{s:s},s:s},s:s}", "shape", "op", "rmsnorm", "axes", "R", 3, "N", 256, "dtypes",
                                           "io", "f32", "target", "sm_90a", "mode", mode);
    json_put(task, "candidate", candidate_of("k", 128));
    json_put(task, "baseline", alone ? json_null() : candidate_of("slow", 32));
    bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err) && r.verdict.code == VERDICT_OK && r.certificate;
    if (!ok)
        fprintf(stderr, "%s: %s\n", err.text, r.verdict.text);
    check(ok);
    json_t *certificate = ok ? json_incref(r.certificate) : NULL;
    judge_result_done(&r);
    return certificate;
}

/* ---- what the contract lists, each item by its place; "*" is the first of a list ---- */

static const char *const listed[] = {
    "format", "shape", "shape/axes", "shape/dtypes", "shape/target", "shape_hash", "op_version",
    /* digests of source, PTX, cubin, plan, op folder */
    "digests/source", "digests/ptx", "digests/cubin", "digests/plan", "digests/op", "digests/candidate", "digests/baseline",
    "program", "plan", "preconditions", "options", "resources",
    "evidence", "mode", "verdict", "time_ns", "baseline_ns", "speedup/median", "speedup/low", "speedup/high", "timing",
    /* every phase with its figures: seeds, regimes, error ratios, worst element */
    "phases", "phases/*/phase", "phases/*/ms", "phases/#correct/regimes/*/seed", "phases/#correct/regimes/*/name",
    "phases/#correct/regimes/*/hidden", "phases/#correct/regimes/*/tensors", "phases/#correct/regimes/*/tensors/*/index",
    "phases/#correct/poisons", "phases/#correct/processes", "phases/#correct/yardstick",
    /* emulated blocks out of all */
    "phases/#emulate/blocks_emulated", "phases/#emulate/blocks_of_all", "phases/#emulate/checks", "phases/#emulate/schedules/*/seed",
    /* roofline floor and fraction */
    /* audit rules one by one */
    "rules", "rules/*/rule", "rules/*/what", "rules/*/outcome",
    "roofline/floor_ns", "roofline/fraction", "roofline/limit",
    /* the retest */
    "phases/#retest/occasions", "phases/#retest/occasions/*/regimes/*/seed", "phases/#retest/occasions/*/poisons",
    "phases/#retest/occasions/*/processes/candidate/nonce", "phases/#retest/occasions/*/processes/candidate/pid",
    "phases/#retest/occasions/*/processes/baseline/nonce", "phases/#retest/occasions/*/processes/reference/nonce",
    "phases/#retest/occasions/*/decision", "phases/#retest/ratio", "phases/#retest/ratio_before",
    /* device, toolkit, Proteus version, times */
    "device", "device/name", "device/kind", "sandbox/level", "toolkit/version", "proteus_version", "times/started", "times/ended"};

/* The object or list that holds the last part of the path, and that part; NULL: there is none. */
static json_t *holder(json_t *doc, const char *path, char last[64])
{
    for (;;) {
        size_t size = strcspn(path, "/");
        snprintf(last, 64, "%.*s", (int)size, path);
        if (!path[size])
            return doc;
        if (*last == '*')
            doc = json_array_get(doc, 0);
        else if (*last == '#') {
            size_t i;
            json_t *one, *found = NULL;
            json_array_foreach(doc, i, one)
                if (!strcmp(json_str(one, "phase", ""), last + 1))
                    found = one;
            doc = found;
        } else
            doc = json_object_get(doc, last);
        path += size + 1;
    }
}

static void test_listed(const json_t *certificate)
{
    struct err err = {0};
    char last[64];
    bool ok = certificate_check(certificate, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    check(certificate_items(certificate) > 70);
    static const char *const phases[] = {"admit", "compile", "scan", "emulate", "assemble", "correct", "probe", "time", "audit", "plausible",
                                        "range", "retest"};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        const json_t *at = certificate_phase(certificate, phases[i]);
        check(at == json_array_get(json_object_get(certificate, "phases"), i));
    }
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        cleanup(json) json_t *less = json_deep_copy(certificate), *empty = json_deep_copy(certificate);
        json_t *from = holder(less, listed[i], last);
        bool was_there = json_object_get(from, last) != NULL;
        if (!was_there)
            fprintf(stderr, "%s is not in the certificate\n", listed[i]);
        check(was_there);
        json_object_del(from, last);
        if (certificate_check(less, &err))
            fprintf(stderr, "its loss is not noticed: %s\n", listed[i]);
        check(!certificate_check(less, &err));
        json_object_set_new(holder(empty, listed[i], last), last, json_null());
        if (certificate_check(empty, &err))
            fprintf(stderr, "null will do for %s\n", listed[i]);
        check(!certificate_check(empty, &err));
    }
    for (size_t i = 0; i < json_array_size(json_object_get(certificate, "phases")); i++) {
        cleanup(json) json_t *less = json_deep_copy(certificate);
        json_array_remove(json_object_get(less, "phases"), i);
        bool retest = i + 1 == sizeof phases / sizeof *phases;      /* a triage has none */
        check(certificate_check(less, &err) == retest);
    }
}

/* ---- axes that are not keyed ---- */

/* Judged with a value that the submitter chose: it decides nothing, and a large one of the judge's own was tried. */
static void test_range(void)
{
    static const char *const needed[] = {"phases/#range/bytes", "phases/#range/poisons", "phases/#range/regimes/*/seed", "phases/#range/ran_in/candidate/nonce",
                                         "phases/#range/held/axis", "phases/#range/reached/row"};
    struct judge_result r = {.gpu_ns = 0};
    struct err err = {0};
    char last[64];
    cleanup(json) json_t *candidate = NULL;
    const struct op *op = op_set_find(&ops, "rope_neox");
    cleanup(json) json_t *task = json_pack("{s:{s:s,s:{s:i,s:i,s:i,s:i,s:i,s:i},s:s},s:s,s:n}", "shape", "op", "rope_neox", "axes", "B", 3, "HQ", 2, "HK", 1,
                                           "d", 32, "rot", 16, "P", 1, "target", "sm_90a", "mode", "full", "baseline");
    check(op && candidate_load(op->dir, "baseline", &candidate, &err));
    json_put(task, "candidate", json_incref(candidate));
    bool ok = judge_run(&config, task, NULL, NULL, NULL, &r, &err) && r.verdict.code == VERDICT_OK && r.certificate;
    if (!ok)
        fprintf(stderr, "%s: %s\n", err.text, r.verdict.text);
    check(ok);
    const json_t *range = certificate_phase(r.certificate, "range");
    check(certificate_check(r.certificate, &err));
    check_int((long)json_int(json_object_get(json_object_get(r.certificate, "shape"), "axes"), "P", 0), 256);
    check_int((long)json_int(json_object_get(range, "default"), "P", 0), 256);
    check(json_int(json_object_get(range, "axes"), "P", 0) > 65536);
    /* indices name a row of the last sixteenth, of a tensor of which few rows are there */
    const int64_t all = json_int(json_object_get(range, "axes"), "P", 0), row = json_int(json_object_get(range, "reached"), "row", 0);
    check(row < all && row >= all - all / 16 - 1 && json_int(json_object_get(range, "held"), "rows", 0) == 3 + 14);
    check_int((long)json_int(json_object_get(range, "reached"), "byte", 0), (long)((row + 1) * 16 * 2 - 1));
    check(strstr(json_str(r.certificate, "options", ""), "AXIS_rot=16") && !strstr(json_str(r.certificate, "options", ""), "AXIS_P"));
    check(json_array_size(json_object_get(range, "regimes")) == 2);
    check(!json_object_get(range, "far"));          /* there are no larger ones */
    for (size_t i = 0; ok && i < sizeof needed / sizeof *needed; i++) {
        cleanup(json) json_t *less = json_deep_copy(r.certificate);
        json_object_del(holder(less, needed[i], last), last);
        check(!certificate_check(less, &err) && strstr(err.text, "range"));
    }
    judge_result_done(&r);
}

/* ---- evidence ---- */

static void test_evidence(const json_t *certificate)
{
    static const struct { const char *path, *value; } lies[] = {{"evidence", "measured"}, {"evidence", "Emulated"}, {"mode", "graph-rotated"},
                                                              {"device/kind", "cuda"}, {"format", "proteus-certificate-v2"}};
    struct err err = {0};
    char last[64];
    check_str(json_str(certificate, "evidence", ""), "emulated");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        cleanup(json) json_t *lie = json_deep_copy(certificate);
        json_t *at = holder(lie, lies[i].path, last);
        json_put_str(at, last, lies[i].value);
        check(!certificate_check(lie, &err));
    }
    /* nothing of an emulated certificate may call itself measured; what a rule on timers is says how none of them was tried */
    cleanup(json) json_t *rest = json_copy((json_t *)(uintptr_t)certificate);
    const json_t *rule;
    size_t k;
    json_array_foreach(json_object_get(certificate, "rules"), k, rule)
        check_str(json_str(rule, "outcome", ""), "not_done");
    check_int(k, 12);
    json_object_del(rest, "rules");
    cleanup(str) char *text = json_text(rest);
    check(strstr(text, "measured") == NULL);
}

/* ---- the retest ---- */

static const char *nonce_of(const json_t *round, const char *side)
{
    return json_str(json_object_get(json_object_get(round, "processes"), side), "nonce", "");
}

static int64_t pid_of(const json_t *round, const char *side)
{
    return json_int(json_object_get(json_object_get(round, "processes"), side), "pid", -1);
}

static void test_retest(const json_t *certificate)
{
    static const char *const sides[] = {"candidate", "baseline", "reference"};
    const json_t *first = certificate_phase(certificate, "correct"), *retest = certificate_phase(certificate, "retest");
    const json_t *again = json_array_get(json_object_get(retest, "occasions"), 0);
    const json_t *seeds = json_object_get(first, "regimes"), *more = json_object_get(again, "regimes");
    struct err err = {0};
    for (size_t i = 0; i < 3; i++) {
        check(*nonce_of(first, sides[i]) && strcmp(nonce_of(first, sides[i]), nonce_of(again, sides[i])) != 0);
        check(pid_of(first, sides[i]) > 0 && pid_of(again, sides[i]) > 0 && pid_of(first, sides[i]) != pid_of(again, sides[i]));
        check(pid_of(again, sides[i]) != getpid());
    }
    check(json_array_size(seeds) == json_array_size(more) && json_array_size(seeds) > 3);
    for (size_t i = 0; i < json_array_size(seeds); i++)
        for (size_t k = 0; k < json_array_size(more); k++)
            check(strcmp(json_str(json_array_get(seeds, i), "seed", ""), json_str(json_array_get(more, k), "seed", "")) != 0);
    check(!json_equal(json_object_get(first, "poisons"), json_object_get(again, "poisons")));
    check(certificate_fresh(certificate, &err));
    /* a judge that uses something once more is told by its certificate alone */
    static const char *const reused[] = {"regimes", "poisons", "processes"};
    for (size_t i = 0; i < sizeof reused / sizeof *reused; i++) {
        cleanup(json) json_t *lazy = json_deep_copy(certificate);
        json_t *occasion = json_array_get(json_object_get((json_t *)(uintptr_t)certificate_phase(lazy, "retest"), "occasions"), 0);
        json_object_set(occasion, reused[i], json_object_get(first, reused[i]));
        check(!certificate_fresh(lazy, &err) && !certificate_check(lazy, &err));
    }
    cleanup(json) json_t *twice = json_deep_copy(certificate);      /* two occasions that are one */
    json_t *list = json_object_get((json_t *)(uintptr_t)certificate_phase(twice, "retest"), "occasions");
    json_array_append(list, json_array_get(list, 0));
    check(!certificate_fresh(twice, &err));
    /* on a card the buffers too */
    cleanup(json) json_t *buffers = json_deep_copy(certificate);
    json_put_str(json_object_get((json_t *)(uintptr_t)certificate_phase(buffers, "time"), "figures"), "buffer_seed", "0x0000000000000001");
    list = json_object_get((json_t *)(uintptr_t)certificate_phase(buffers, "retest"), "occasions");
    json_put_str(json_object_get(json_array_get(list, 0), "figures"), "buffer_seed", "0x0000000000000002");
    check(certificate_fresh(buffers, &err));
    json_put_str(json_object_get(json_array_get(list, 0), "figures"), "buffer_seed", "0x0000000000000001");
    check(!certificate_fresh(buffers, &err) && strstr(err.text, "buffer"));
}

/* ---- what is held out stays out ---- */

static void test_hidden(const json_t *certificate)
{
    const json_t *regimes = json_object_get(certificate_phase(certificate, "correct"), "regimes"), *regime;
    struct err err = {0};
    size_t i;
    int hidden = 0, open = 0;
    json_array_foreach(regimes, i, regime) {
        const json_t *tensor = json_array_get(json_object_get(regime, "tensors"), 0);
        bool is = json_bool(regime, "hidden", false);
        hidden += is, open += !is;
        check((json_num(tensor, "worst_error", -1) >= 0 && json_num(tensor, "rms_error", -1) >= 0) == !is);
        check(!is || json_object_size(tensor) == 3);
        check((json_object_get(tensor, "got") == NULL) == is && (json_object_get(tensor, "index") == NULL) == is);
        check((json_object_get(regime, "name") == NULL) == is);
    }
    check(hidden >= 2 && open >= 3);
    static const char *const told[] = {"got", "wanted", "index", "worst_error", "rms_error", "baseline_worst_error", "ratio_to_baseline", "worst_tile", "bias",
                                       "worst_magnitude", "unchanged_elements", "text"};
    for (i = 0; i < sizeof told / sizeof *told; i++) {
        cleanup(json) json_t *leak = json_deep_copy(certificate);
        const json_t *list = json_object_get(certificate_phase(leak, "correct"), "regimes");
        json_put_num(json_array_get(json_object_get(json_array_get(list, json_array_size(list) - 1), "tensors"), 0), told[i], 1);
        check(!certificate_check(leak, &err) && strstr(err.text, "hidden"));
    }
}

/* With the source beside it the program is the candidate that was judged. */
static void test_program(const json_t *certificate)
{
    cleanup(json) json_t *candidate = json_deep_copy(json_object_get(certificate, "program")), *judged = candidate_of("k", 128);
    check(!json_object_get(candidate, "source") && !json_object_get(candidate, "notes"));
    json_put_str(candidate, "source", source);
    check_str(candidate_digest(candidate).text, json_str(json_object_get(certificate, "digests"), "candidate", ""));
    check_str(candidate_digest(candidate).text, candidate_digest(judged).text);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    struct err err = {0};
    struct toolkit_paths paths;
    cleanup(buf) struct buf text = {0};
    hash_init();
    if (argc != 3 || !op_set_load(argv[1], &ops, &err) || !file_read(argv[2], 1 << 20, &text, &err)) {
        fprintf(stderr, "usage: %s OPS_DIR SOURCE.cu: %s\n", argv[0], err.text);
        return 2;
    }
    if (!toolkit_find(NULL, &paths, &err))
        test_skip(err.text);
    buf_cstr(&text);
    source = text.data;
    test_range();
    cleanup(json) json_t *certificate = certificate_of("retest", false), *alone = certificate_of("full", true);
    if (certificate && alone) {
        test_listed(certificate);
        test_evidence(certificate);
        test_retest(certificate);
        test_hidden(certificate);
        test_program(certificate);
        check(certificate_check(alone, &err) && !certificate_phase(alone, "retest"));
    }
    op_set_done(&ops);
    return test_done();
}
