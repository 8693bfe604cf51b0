/*
 * Template files: hostile ones, and which settings a target gets: none that asks for what it does not have, as far as that is known before
 * anything is compiled.
 */
#include "server/generate/generate.h"
#include "server/generate/target.h"
#include "server/generate/template_file.h"

#include "core/expr.h"
#include "tests/test.h"

#include <sys/stat.h>

static struct op_set ops;

static void shape_of(const char *text, struct shape *s)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f));
}

/* A target gets the settings that it can run: no clusters, dependent launches or bulk copies before sm_90, and all others. */
static void test_targets(void)
{
    static const struct { const char *target; bool clusters; } cases[] = {{"sm_80", false}, {"sm_89", false}, {"sm_90a", true}, {"sm_100a", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const shapes[] = {"gdn_decode_step\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128,\"W\":4}", "gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}"};
        for (int k = 0; k < 2; k++) {
            cleanup(str) char *text = xfmt("{\"op\":\"%s,\"target\":\"%s\"}", shapes[k], cases[i].target);
            cleanup(json) json_t *every = NULL;
            struct shape s;
            struct err err = {0};
            json_t *item;
            size_t n;
            int needing = 0, plain = 0;
            shape_of(text, &s);
            const struct gen_input in = {.op = s.op, .shape = &s, .baseline_ns = 6000, .candidates_left = 1};
            check(template_every(&in, &every, &err));
            json_array_foreach(every, n, item) {
                const char *name = json_str(item, "template", "");
                const json_t *params = json_object_get(item, "params");
                const bool needs = strcmp(name, "send") == 0 || strcmp(name, "fused") == 0 || strcmp(name, "bulk") == 0 || json_int(params, "DEPENDENT", 0) ||
                                   (strcmp(name, "shift") == 0 && json_int(params, "SPLIT", 1) > 1);
                if (needs && !cases[i].clusters)
                    fprintf(stderr, "%s: %s %s\n", cases[i].target, shapes[k], name);
                needing += needs;
                plain += !needs;
            }
            check(plain > 0);
            check((needing > 0) == cases[i].clusters);
        }
    }
}

/* What a block of each setting asks for fits each target, and what is left out is what does not fit: stages of the streams are large. */
static void test_shared_memory(void)
{
    static const struct { const char *shape, *name; int split; bool same; } cases[] = {
        {"{\"op\":\"gqa_decode\",\"axes\":{\"B\":4,\"HQ\":32,\"HK\":2,\"d\":256,\"T\":8192},\"target\":\"%s\"}", "stream", 2, false},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":16,\"N\":3072,\"K\":8192},\"target\":\"%s\"}", "stream", 1, false},
        {"{\"op\":\"gemm_nt\",\"axes\":{\"M\":1,\"N\":256,\"K\":1024},\"target\":\"%s\"}", "rows", 1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int counts[2] = {0};
        static const char *const targets[] = {"sm_90a", "sm_80"};
        for (int k = 0; k < 2; k++) {
            char text[300];
            struct shape s;
            struct err err = {0};
            cleanup(template_set) struct template_set set = {0};
            snprintf(text, sizeof text, cases[i].shape, targets[k]);
            shape_of(text, &s);
            check(template_set_load(s.op, &set, &err));
            const int64_t most = target_limits_of(targets[k])->shared_kib_block * INT64_C(1024);
            for (int t = 0; t < set.count; t++) {
                struct setting *list = NULL;
                int count = 0;
                if (strcmp(set.list[t].name, cases[i].name))
                    continue;
                check(template_settings(&set.list[t], &s, &list, &count, &err));
                for (int n = 0; n < count; n++) {
                    cleanup(json) json_t *doc = template_candidate(&set.list[t], &list[n]);
                    cleanup(candidate) struct candidate c = {0};
                    struct faults f = {0};
                    struct plan plan;
                    char why[256];
                    check(candidate_parse(doc, "", &c, &f) && plan_resolve(&c, &s, &plan, why, sizeof why));
                    for (int step = 0; step < plan.step_count; step++)
                        check((int64_t)plan.steps[step].shared_bytes <= most);
                    /* clusters and the like differ for reasons of their own */
                    const json_t *params = json_object_get(doc, "defines");
                    counts[k] += json_int(params, "SPLIT", 0) == cases[i].split && !json_int(params, "DEPENDENT", 0) && !json_int(params, "BULK", 0);
                }
                free(list);
            }
        }
        check(counts[1] > 0 && (cases[i].same ? counts[1] == counts[0] : counts[1] < counts[0]));
    }
}

/* ---- template files ---- */

static void try_template(const char *json, const char *source, const char *says)
{
    char root[] = "/tmp/test_template_file.XXXXXX";
    struct err err = {0};
    check(mkdtemp(root) != NULL);
    cleanup(str) char *dir = xfmt("%s/templates", root), *doc = xfmt("%s/t.json", dir), *code = xfmt("%s/t.cu", dir);
    check(mkdir(dir, 0700) == 0 && file_write(doc, json, strlen(json), 0600, &err));
    if (source)
        check(file_write(code, source, strlen(source), 0600, &err));
    struct op op = *op_set_find(&ops, "rmsnorm");
    op.dir = root;
    cleanup(template_set) struct template_set set = {0};
    bool ok = template_set_load(&op, &set, &err);
    check(ok == !says && (ok || strstr(err.text, says)));
    if (ok == !!says || (!ok && !strstr(err.text, says)))
        fprintf(stderr, "  %s: \"%s\"\n", json, err.text);
    unlink(doc);
    unlink(code);
    rmdir(dir);
    rmdir(root);
}

static void test_files(void)
{
#define CAND "\"candidate\":{\"language\":\"cuda\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[1],\"block\":[1],\"args\":[]}]}}"
#define PARAM "\"params\":{\"A\":{\"values\":[1,2],\"default\":1}}"
    try_template("{\"name\":\"t\"," PARAM "," CAND "}", "x", NULL);
    try_template("{\"name\":\"t\"," PARAM "," CAND "}", NULL, "t.cu");
    try_template("{\"name\":\"u\"," PARAM "," CAND "}", "x", "must be the file's");
    try_template("{\"name\":\"t\",\"extra\":1," PARAM "," CAND "}", "x", "extra");
    try_template("{\"name\":\"t\"," PARAM "}", "x", "candidate");
    try_template("[]", "x", "keys");
    try_template("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[2,1],\"default\":1}}," CAND "}", "x", "rising");
    try_template("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[],\"default\":1}}," CAND "}", "x", "1 to 16");
    try_template("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[1]}}," CAND "}", "x", "expression");
    try_template("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[1],\"default\":\"Q+1\"}}," CAND "}", "x", "Q");
    try_template("{\"name\":\"t\",\"params\":{\"R\":{\"values\":[1],\"default\":1}}," CAND "}", "x", "axis");
    try_template("{\"name\":\"t\",\"params\":{\"a\":{\"values\":[1],\"default\":1}}," CAND "}", "x", "upper-case");
    try_template("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[1],\"default\":1,\"helps\":{\"dram\":\"yes\"}}}," CAND "}", "x", "helps");
    try_template("{\"name\":\"t\",\"constraints\":[\"N % ZZ == 0\"]," PARAM "," CAND "}", "x", "ZZ");
    try_template("{\"name\":\"t\",\"constraints\":[\"N % (A == 0\"]," PARAM "," CAND "}", "x", "constraints");
    try_template("{\"name\":\"t\",\"static_shared_bytes\":{\"k\":\"4*ZZ\"}," PARAM "," CAND "}", "x", "ZZ");
    try_template("{\"name\":\"t\",\"static_shared_bytes\":{\"k\":[1]}," PARAM "," CAND "}", "x", "expression");
    try_template("{\"name\":\"t\",\"static_shared_bytes\":{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1}," PARAM "," CAND "}", "x", "4 kernels");
    cleanup(buf) struct buf many = {0};
    buf_str(&many, "{\"name\":\"t\",\"params\":{");
    for (int i = 0; i < 5; i++)
        buf_fmt(&many, "%s\"P%d\":{\"values\":[1,2,3,4,5,6,7,8,9,10],\"default\":1}", i ? "," : "", i);
    buf_str(&many, "}," CAND "}");
    try_template(buf_cstr(&many), "x", "16384");
}

/* Settings of a template of our own, by its parameter's values. */
static void settings_of(const char *rest, const char *target, const char *expected)
{
    char root[] = "/tmp/test_template_file.XXXXXX";
    struct err err = {0};
    check(mkdtemp(root) != NULL);
    cleanup(str) char *dir = xfmt("%s/templates", root), *doc = xfmt("%s/t.json", dir), *code = xfmt("%s/t.cu", dir);
    cleanup(str) char *json = xfmt("{\"name\":\"t\",\"params\":{\"A\":{\"values\":[1,2,48,99,163,227,228,1024,1025],\"default\":1}},%s}", rest);
    cleanup(str) char *shape = xfmt("{\"op\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":64},\"target\":\"%s\"}", target);
    check(mkdir(dir, 0700) == 0 && file_write(doc, json, strlen(json), 0600, &err) && file_write(code, "x", 1, 0600, &err));
    struct op op = *op_set_find(&ops, "rmsnorm");
    op.dir = root;
    cleanup(template_set) struct template_set set = {0};
    struct shape s;
    struct setting *list = NULL;
    int count = 0;
    cleanup(buf) struct buf got = {0};
    shape_of(shape, &s);
    check(template_set_load(&op, &set, &err) && template_settings(&set.list[0], &s, &list, &count, &err));
    check_str(err.text, "");
    for (int i = 0; i < count; i++)
        buf_fmt(&got, "%s%lld", i ? " " : "", (long long)set.list[0].params[0].values[list[i].at[0]]);
    check_str(buf_cstr(&got), expected);
    free(list);
    unlink(doc);
    unlink(code);
    rmdir(dir);
    rmdir(root);
}

#define STEP(grid, block, more) "\"candidate\":{\"language\":\"cuda\",\"plan\":{\"steps\":[{\"kernel\":\"k\",\"grid\":[" grid "],\"block\":[" block "]" more ",\"args\":[]}]}}"
static void test_limits(void)
{
    settings_of(STEP("1", "\"A\"", ""), "sm_90a", "1 2 48 99 163 227 228 1024");                       /* threads of a block */
    settings_of(STEP("1", "\"A\",2", ""), "sm_90a", "1 2 48 99 163 227 228");
    settings_of(STEP("\"A\"", "32", ",\"cluster\":[\"A\"]"), "sm_90a", "1 2");                         /* blocks of a cluster */
    settings_of(STEP("\"A\"", "32", ",\"cluster\":[\"A\"]"), "sm_80", "1");
    settings_of(STEP("1", "32", ",\"shared_bytes\":\"1024*A\""), "sm_90a", "1 2 48 99 163 227");       /* shared memory of a block */
    settings_of(STEP("1", "32", ",\"shared_bytes\":\"1024*A\""), "sm_89", "1 2 48 99");
    settings_of("\"static_shared_bytes\":{\"k\":\"1024*A\"}," STEP("1", "32", ""), "sm_90a", "1 2 48"); /* what a kernel may declare */
    settings_of("\"static_shared_bytes\":{\"k\":\"1024+8*A\"}," STEP("1", "32", ",\"shared_bytes\":\"1024*A\""), "sm_90a", "1 2 48 99 163");
    settings_of("\"static_shared_bytes\":{\"other\":\"1024*A\"}," STEP("1", "32", ",\"shared_bytes\":\"1024*A\""), "sm_80", "1 2 48 99 163");
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_targets();
    test_shared_memory();
    test_files();
    test_limits();
    op_set_done(&ops);
    return test_done();
}
