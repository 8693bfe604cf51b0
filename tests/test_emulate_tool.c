/*
 * `proteus-gpu emulate` as a person or a CI system calls it: a bug of each class is found, with its line, in text and in SARIF, and the
 * exit status says so. PTX files need nothing; .cu files need the toolkit and are left out where it is missing.
 */
#include "core/hash.h"
#include "core/json.h"
#include "core/verdict.h"
#include "gpu/device/device.h"
#include "tests/test.h"

#include <string.h>
#include <sys/wait.h>

static char dir[] = "/tmp/emulate_tool_XXXXXX";
static char *text;         /* what the last call printed, stdout and stderr */

static int call(const char *arguments)
{
    cleanup(str) char *command = xfmt("cd %s && %s emulate %s 2>&1", dir, PROGRAM, arguments);
    struct buf out = {0};
    char part[4096];
    FILE *f = popen(command, "r");
    if (!f)
        return -1;
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(&out, part, n);
    const int status = pclose(f);
    free(text);
    text = buf_take(&out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *name, const char *content)
{
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    check(f && fputs(content, f) >= 0);
    if (f)
        fclose(f);
}

static bool says(const char *what)
{
    if (text && strstr(text, what))
        return true;
    fprintf(stderr, "  \"%s\" is not in:\n%s\n", what, text ? text : "");
    return false;
}

/* ---- SARIF: what the schema requires, and what a viewer needs ---- */
static const char *at_text(const json_t *o, const char *key) { return json_str(o, key, NULL); }

static bool has_message(const json_t *o) { return at_text(json_object_get(o, "message"), "text") != NULL; }

static void check_result(const json_t *result, const json_t *rules, const char *uri)
{
    const json_t *rule = json_array_get(rules, (size_t)json_int(result, "ruleIndex", -1));
    const char *level = json_str(result, "level", "");
    check_str(at_text(rule, "id"), json_str(result, "ruleId", "?"));
    check(!strcmp(level, "error") || !strcmp(level, "warning") || !strcmp(level, "note"));
    check(has_message(result));
    const json_t *place = json_object_get(json_array_get(json_object_get(result, "locations"), 0), "physicalLocation");
    check_str(json_str(json_object_get(place, "artifactLocation"), "uri", ""), uri);
    check(json_int(json_object_get(place, "region"), "startLine", 0) >= 1);
    check(json_is_object(json_object_get(result, "partialFingerprints")));
}

/* Number of results; *ret_first is the first one's rule and line. */
static size_t check_sarif(const char *name, const char *uri, char rule[64], int64_t *ret_line)
{
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    *rule = 0;
    *ret_line = 0;
    check(json_parse_file(path, 1 << 20, &doc, &err));
    if (!doc)
        return 0;
    check_str(json_str(doc, "version", ""), "2.1.0");
    check(strstr(json_str(doc, "$schema", ""), "sarif-2.1.0.json") != NULL);
    check(json_array_size(json_object_get(doc, "runs")) == 1);
    const json_t *run = json_array_get(json_object_get(doc, "runs"), 0), *driver = json_object_get(json_object_get(run, "tool"), "driver");
    const json_t *rules = json_object_get(driver, "rules"), *results = json_object_get(run, "results");
    check(at_text(driver, "name") && json_is_array(results));
    check(json_is_boolean(json_object_get(json_array_get(json_object_get(run, "invocations"), 0), "executionSuccessful")));
    for (size_t i = 0; i < json_array_size(rules); i++) {
        enum verdict_code code;
        const json_t *one = json_array_get(rules, i);
        check(verdict_code_parse(json_str(one, "id", ""), &code));
        check(at_text(json_object_get(one, "shortDescription"), "text") && at_text(json_object_get(one, "help"), "text"));
        for (size_t k = 0; k < i; k++)
            check(strcmp(json_str(json_array_get(rules, k), "id", ""), json_str(one, "id", "")) != 0);
    }
    for (size_t i = 0; i < json_array_size(results); i++)
        check_result(json_array_get(results, i), rules, uri);
    const json_t *first = json_array_get(results, 0);
    snprintf(rule, 64, "%s", json_str(first, "ruleId", ""));
    const json_t *places = json_object_get(first, "locations");
    *ret_line = json_int(json_object_get(json_object_get(json_array_get(places, 0), "physicalLocation"), "region"), "startLine", 0);
    return json_array_size(results);
}

/* ---- PTX ---- */
#define HEAD ".version 8.3\n.target sm_80\n.address_size 64\n" /* 3 lines */
#define OPEN ".visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)\n{\n"  /* lines 4, 5 */
#define REGISTERS ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>; .shared .align 4 .b8 s[256];\n"  /* 6 */
#define POINTERS "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;\n"  /* 7 */
#define ADDRESSES "add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; cvt.u64.u32 %rd6, %r1;\n"  /* 8 */
#define KERNEL(body) HEAD OPEN REGISTERS POINTERS ADDRESSES body "ret;\n}\n"

static const struct { const char *name, *code, *buffers, *rule; int line, status; } programs[] = {
    {"clean", KERNEL("ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd5], %f1;\n"), "", "", 0, 0},
    {"out_of_bounds", KERNEL("ld.global.f32 %f1, [%rd4+4];\nst.global.f32 [%rd5], %f1;\n"), "", "out_of_bounds", 9, 1},
    {"uninitialised", KERNEL("ld.global.f32 %f1, [%rd5];\nst.global.f32 [%rd5], %f1;\n"), "", "uninitialised_read", 9, 1},
    {"register", KERNEL("@%p1 mov.f32 %f1, 0f00000000;\nst.global.f32 [%rd5], %f1;\n"), "", "uninitialised_read", 9, 1},
    {"misaligned", KERNEL("ld.global.f32 %f1, [%rd1+2];\nst.global.f32 [%rd5], %f1;\n"), "", "misaligned", 9, 1},
    {"read_only", KERNEL("ld.global.f32 %f1, [%rd4];\nst.global.f32 [%rd4], %f1;\n"), "", "input_modified", 10, 1},
    {"race", KERNEL("mov.u64 %rd7, s;\nst.shared.u32 [s], %r1;\nld.shared.u32 %r2, [s];\nst.global.u32 [%rd5], %r2;\n"), "", "race", 10, 1},
    {"barrier", KERNEL("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;\nst.global.u32 [%rd5], %r1;\n"), "", "barrier_divergence", 10, 1},
    {"trap", KERNEL("st.global.u32 [%rd5], %r1;\ntrap;\n"), "", "fault", 10, 1},
    {"endless", KERNEL("L: bra.uni L;\n"), "", "timeout", 0, 1},
    {"syntax", HEAD OPEN "add.s32 %r1, %r2\n}\n", "", "compile_error", 0, 1},
    {"unknown", KERNEL("stacksave.u64 %rd1;\n"), "", "unsupported_on_sim", 9, 2},
};

static void ptx_programs(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        cleanup(str) char *file = xfmt("%s.ptx", programs[i].name), *sarif = xfmt("%s.sarif", programs[i].name);
        cleanup(str) char *arguments = xfmt("%s --kernel k --block 64 --buffer x=256:random:ro --buffer y=256 --arg x --arg y --arg 64 --schedules 1 --instructions 1000000 --sarif %s", file, sarif);
        cleanup(str) char *place = xfmt("%s:%d: %s: ", file, programs[i].line, programs[i].rule);
        char rule[64];
        int64_t line;
        write_file(file, programs[i].code);
        const int status = call(arguments);
        check(status == programs[i].status);
        if (status != programs[i].status)
            fprintf(stderr, "  %s: exit %d\n%s\n", programs[i].name, status, text);
        const size_t results = check_sarif(sarif, file, rule, &line);
        check((results > 0) == (*programs[i].rule != 0));
        check_str(rule, programs[i].rule);
        if (programs[i].line) {
            check(line == programs[i].line);
            check(says(place));
        }
    }
    check(says("unsupported_on_sim"));
}

/* Seeds are printed, and equal seeds give equal runs. */
static void schedules(void)
{
    check(call("race.ptx --kernel k --block 64 --buffer x=256:random:ro --buffer y=256 --arg x --arg y --arg 64 --schedules 3 --seed 40") == 1);
    check(says("3 schedules (seeds 40 to 42)"));
    char *before = text, *time = strstr(text, "(seeds 40 to 42)");
    check(time != NULL);
    if (time)
        *time = 0;
    text = NULL;
    check(call("race.ptx --kernel k --block 64 --buffer x=256:random:ro --buffer y=256 --arg x --arg y --arg 64 --schedules 3 --seed 40") == 1);
    check(strncmp(text, before, strlen(before)) == 0 && strlen(before) > 200);
    free(before);
    /* right only as long as the lanes of a warp go together: found where they do not, and said so */
    write_file("apart.ptx", KERNEL("mul.lo.u32 %r3, %r1, 4; mov.u32 %r4, s; add.u32 %r4, %r4, %r3;\nst.shared.u32 [%r4], %r1;\nand.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0;\n"
                                   "@%p1 bra E;\nld.shared.u32 %r2, [%r4+-4];\nst.global.u32 [%rd5], %r2;\nE:\n"));
    check(call("apart.ptx --kernel k --block 32 --buffer x=256:random:ro --buffer y=256 --arg x --arg y --arg 64 --schedules 1 --seed 1") == 0);
    check(call("apart.ptx --kernel k --block 32 --buffer x=256:random:ro --buffer y=256 --arg x --arg y --arg 64 --schedules 8") == 1);
    check(says(", lanes apart"));
    /* memory asked to be zeros is, in every run, whatever was there before */
    write_file("zeros.ptx", KERNEL("ld.global.u32 %r2, [%rd5];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 trap;\nst.global.u32 [%rd5], 77;\n"));
    check(call("zeros.ptx --kernel k --block 64 --buffer x=256:random:ro --buffer y=256:zeros --arg x --arg y --arg 64 --schedules 6") == 0);
}

static void arguments(void)
{
    write_file("arg.ptx", HEAD ".visible .entry k(.param .u64 y, .param .f32 f, .param .u32 n, .param .f64 d)\n{\n" REGISTERS
               "ld.param.u64 %rd1, [y]; ld.param.f32 %f1, [f]; ld.param.u32 %r1, [n]; ld.param.u64 %rd2, [d];\n"
               "setp.eq.f32 %p1, %f1, 0f3FC00000; @!%p1 trap;\nsetp.eq.u32 %p1, %r1, 0xffffffff; @!%p1 trap;\n"
               "setp.eq.u64 %p1, %rd2, 0xbfe0000000000000; @!%p1 trap;\nst.global.u32 [%rd1], %r1;\nret;\n}\n");
    check(call("arg.ptx --kernel k --block 1 --buffer y=8 --arg y+4 --arg 1.5 --arg -1 --arg -0.5") == 0);
    check(call("arg.ptx --kernel k --block 1 --buffer y=8 --arg y+8 --arg 1.5 --arg -1 --arg -0.5") == 1);
    check(says("out_of_bounds"));
    check(call("arg.ptx --kernel k --block 1 --buffer y=8 --arg y --arg 1 --arg -1 --arg -0.5") == 1);   /* an integer's bits are no 1.5 */
    check(says(": fault: "));
    static const char *const wrong[] = {
        "", "missing.ptx --kernel k", "arg.ptx", "arg.ptx --kernel nosuch", "arg.ptx --kernel k", "arg.ptx --kernel k --plan {}",
        "arg.ptx --kernel k --buffer y=0 --arg y --arg 1 --arg 1 --arg 1", "arg.ptx --kernel k --buffer y=8:wild --arg y --arg 1 --arg 1 --arg 1",
        "arg.ptx --kernel k --buffer y=8 --arg z --arg 1 --arg 1 --arg 1", "arg.ptx --kernel k --grid 1,2,3,4 --buffer y=8 --arg y --arg 1 --arg 1 --arg 1",
        "arg.ptx --kernel k --block 0 --buffer y=8 --arg y --arg 1 --arg 1 --arg 1", "arg.ptx --kernel k --nosuch", "arg.ptx --kernel k --seed",
        "arg.ptx --kernel k --schedules 0 --buffer y=8 --arg y --arg 1 --arg 1 --arg 1", "arg.ptx --kernel k --device Z80 --buffer y=8 --arg y --arg 1 --arg 1 --arg 1",
        "arg.ptx --plan {} --shape {}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int status = call(wrong[i]);
        check(status == 2 && strlen(text) > 20);
        if (status != 2)
            fprintf(stderr, "  \"%s\": exit %d\n%s\n", wrong[i], status, text);
    }
    check(call("--help") == 0);
    check(says("Exit status: 0 clean, 1 findings, 2"));
}

/* Counts by line of a kernel whose counts are known: 64 threads, the odd ones skip a store; rows 8 bytes apart. */
static void lines(void)
{
    write_file("lines.ptx", KERNEL("and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0;\n@%p1 bra SKIP;\nst.global.u32 [%rd5], %r1;\nSKIP:\n"
                                   "mul.wide.u32 %rd7, %r1, 64; add.s64 %rd7, %rd1, %rd7;\nld.global.u32 %r5, [%rd7];\n"));
    check(call("lines.ptx --kernel k --block 64 --buffer x=4096:index:ro --buffer y=256 --arg x --arg y --arg 64 --lines --device H200 --schedules 1") == 0);
    /* line, instructions, idle lanes, sectors, times the bytes asked */
    check(says("11             32    50%            8     2.00"));      /* 16 lanes of each warp, every other word of 4 sectors */
    check(says("14             64     0%           64     8.00"));      /* each lane a sector of its own */
    check(says("an estimate of"));
    check(says("no measurement"));
}

/* ---- CUDA, where there is a toolkit ---- */
static const struct { const char *kernel, *rule, *line; } planted[] = {
    {"no_bug", NULL, NULL},
    {"out_of_bounds", "out_of_bounds", "y[i] = x[i] + x[i + 1];"},
    {"stray_store", "out_of_bounds", "work[i + 400000] = 1.0f;"},
    {"uninitialised_global", "uninitialised_read", "y[i] = x[i] + work[i];"},
    {"uninitialised_shared", "uninitialised_read", "y[i] = part[threadIdx.x] + part[threadIdx.x + 1];"},
    {"shared_race", "race", "last = x[i];"},
    {"missing_barrier", "race", "part[threadIdx.x] += part[threadIdx.x + half];"},
    {"global_race", "race", "y[0] = x[i];"},
    {"divergent_barrier", "barrier_divergence", "bar.sync 1, 128"},
    {"misaligned", "misaligned", "*reinterpret_cast<const float4 *>"},
};

static void planted_bugs(void)
{
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        cleanup(str) char *arguments = xfmt("%s/bench/planted/planted.cu --kernel %s --grid 4 --block 128 --buffer x=2048:random:ro --buffer work=2048 "
                                            "--buffer y=2048 --arg x --arg work --arg y --arg 512 --schedules 2", TESTS, planted[i].kernel);
        const int status = call(arguments);
        check(status == (planted[i].rule ? 1 : 0));
        if (planted[i].rule) {
            cleanup(str) char *rule = xfmt(": %s: ", planted[i].rule);
            check(says(rule));
            check(says(planted[i].line));
        }
    }
}

#define SHAPE "'{\"op\":\"rmsnorm\",\"axes\":{\"R\":3,\"N\":512}}'"
static void with_an_operator(void)
{
    cleanup(str) char *base = xfmt("%s/rmsnorm/baseline.cu", OPS_DIR);
    cleanup(str) char *good = xfmt("%s --plan %s/rmsnorm/baseline.json --shape " SHAPE " --ops-dir %s", base, OPS_DIR, OPS_DIR);
    check(call(good) == 0);
    check(says("results as the reference's"));
    cleanup(str) char *regime = xfmt("%s --regime mixed_rows --seed 9", good), *none = xfmt("%s --regime nosuch", good);
    check(call(regime) == 0);
    check(call(none) == 2);
    /* a plan that the operator does not allow, a source that does not compile, a result that is wrong */
    cleanup(str) char *plan = xfmt("%s --plan '{\"steps\":[{\"kernel\":\"rms_norm\",\"grid\":[\"R\"],\"block\":[32],\"args\":[\"nosuch\"]}]}' --shape " SHAPE " --ops-dir %s", base, OPS_DIR);
    check(call(plan) == 1);
    check(says("rejected.plan"));
    write_file("bad.cu", "extern \"C\" __global__ void rms_norm(const __nv_bfloat16 *x, int y)\n{\n    not_a_thing;\n}\n");
    cleanup(str) char *bad = xfmt("bad.cu --plan %s/rmsnorm/baseline.json --shape " SHAPE " --ops-dir %s --sarif bad.sarif", OPS_DIR, OPS_DIR);
    check(call(bad) == 1);
    check(says("bad.cu:1: compile_error: "));
    char rule[64];
    int64_t line;
    check(check_sarif("bad.sarif", "bad.cu", rule, &line) == 1);
    check_str(rule, "compile_error");
    write_file("wrong.cu", "#include <cuda_bf16.h>\nextern \"C\" __global__ void rms_norm(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, float eps)\n"
               "{\n    for (int i = threadIdx.x; i < AXIS_N; i += blockDim.x)\n        y[blockIdx.x * AXIS_N + i] = x[blockIdx.x * AXIS_N + i];\n}\n");
    cleanup(str) char *wrong = xfmt("wrong.cu --plan %s/rmsnorm/baseline.json --shape " SHAPE " --ops-dir %s", OPS_DIR, OPS_DIR);
    check(call(wrong) == 1);
    check(says("wrong.cu: wrong_result: y: "));
    check(says("; in every schedule"));
}

int main(void)
{
    hash_init();
    check(mkdtemp(dir) != NULL);
    ptx_programs();
    schedules();
    arguments();
    lines();
    struct err err = {0};
    struct toolkit_paths paths;
    if (toolkit_find(NULL, &paths, &err)) {
        planted_bugs();
        with_an_operator();
    } else {
        printf("without .cu files: %s\n", err.text);
    }
    cleanup(str) char *remove = xfmt("rm -r %s", dir);
    check(system(remove) == 0);
    free(text);
    return test_done();
}
