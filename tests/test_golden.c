/* The operators' references against golden files; the safetensors reader and the golden check against hostile ones. */
#include "gpu/judge/golden.h"
#include "gpu/judge/inputs.h"
#include "gpu/judge/reference.h"
#include "gpu/judge/safetensors.h"

#include "tests/test.h"

#include <dirent.h>
#include <sys/stat.h>

static struct op_set ops;

/* A baseline that is right: the reference, rounded. `off` is added to one element of each result. */
struct fake { double off; int calls; };
static bool run_reference(void *ctx, const struct shape *s, const struct tensor *tensors, const void *const *inputs, void **outputs, struct err *err)
{
    struct fake *fake = ctx;
    double *arrays[OP_MAX_TENSORS] = {0};
    fake->calls++;
    if (!reference_run(s, tensors, inputs, arrays, err))
        return false;
    for (int t = 0; t < s->op->tensor_count; t++) {
        if (!arrays[t])
            continue;
        arrays[t][tensors[t].elements / 2] += fake->off;
        if (inputs[t])
            memcpy(outputs[t], inputs[t], (size_t)tensors[t].bytes);
        values_store(tensors[t].dtype, outputs[t], 0, tensors[t].elements, arrays[t]);
        free(arrays[t]);
    }
    return true;
}

static void test_files(const char *folder, int least)
{
    cleanup(str) char *path = xfmt("%s/%s", GOLDEN_DIR, folder);
    cleanup(dir) DIR *dir = opendir(path);
    int count = 0;
    check(dir != NULL);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (*e->d_name == '.')
            continue;
        cleanup(str) char *file = xfmt("%s/%s", path, e->d_name);
        struct golden_result r = {0};
        struct err err = {0};
        struct fake good = {0, 0}, bad = {1000, 0};
        count++;
        check(golden_check_file(&ops, file, "sm_90a", run_reference, &good, &r, &err));
        check_str(err.text, "");
        check(r.match && r.reference_ok && r.baseline_ran && r.baseline_ok);
        check_str(r.text, "");
        check_str(r.op, folder);
        check_int(good.calls, 1);
        check(golden_check_file(&ops, file, "sm_90a", run_reference, &bad, &r, &err));
        check(!r.match && r.reference_ok && !r.baseline_ok && strstr(r.text, "baseline: "));
        check(golden_check_file(&ops, file, "sm_90a", NULL, NULL, &r, &err));
        check(r.match && !r.baseline_ran);
    }
    check(count >= least);
}

/* A file of ours: header text, then `size` zero bytes. */
static void make(struct buf *to, const char *header, size_t size)
{
    uint64_t n = strlen(header);
    buf_clear(to);
    buf_add(to, &n, 8);
    buf_str(to, header);
    for (size_t i = 0; i < size; i++)
        buf_add(to, "", 1);
}

static void test_hostile(void)
{
    static const struct { const char *header; size_t size; const char *says; } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
        {"{\"__metadata__\":{\"note\":\"x\"}}", 0, NULL},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9, "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "its shape and dtype want 12"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "sensible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,8]}}", 8, "sensible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, "at most 8"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "two integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "hole"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6, "overlaps"},
        {"{\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"I8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, "header"},
        {"[1]", 0, "object"},
        {"{", 0, "header"},
        {"{\"a\":5}", 0, "no object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(buf) struct buf file = {0};
        cleanup(safetensors) struct safetensors s = {0};
        struct err err = {0};
        make(&file, cases[i].header, cases[i].size);
        bool ok = safetensors_parse(&file, &s, &err);
        check(ok == !cases[i].says);
        check(!cases[i].says || strstr(err.text, cases[i].says));
        if (ok == !!cases[i].says || (cases[i].says && !strstr(err.text, cases[i].says)))
            fprintf(stderr, "  case %zu: \"%s\"\n", i, err.text);
        check(!file.data);
    }
    /* lengths that lie */
    static const uint64_t lengths[] = {0, 1, 3, 1u << 20, (1u << 20) + 1, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        cleanup(buf) struct buf file = {0};
        cleanup(safetensors) struct safetensors s = {0};
        struct err err = {0};
        buf_add(&file, &lengths[i], 8);
        buf_str(&file, "{}");
        check(!safetensors_parse(&file, &s, &err) && *err.text);
    }
    for (size_t size = 0; size < 8; size++) {
        cleanup(buf) struct buf file = {0};
        cleanup(safetensors) struct safetensors s = {0};
        struct err err = {0};
        buf_add(&file, "\2\0\0\0\0\0\0\0", size);
        check(!safetensors_parse(&file, &s, &err));
    }
}

/* Every single bit of a real header flipped, and the file cut anywhere: an answer, never a crash. */
static void test_mutations(void)
{
    cleanup(buf) struct buf good = {0};
    struct err err = {0};
    check(file_read(GOLDEN_DIR "/rmsnorm/r2_n256_big.safetensors", 1 << 20, &good, &err));
    int refused = 0, tried = 0;
    for (size_t bit = 0; bit < 8 * 320 && bit < good.size * 8; bit++) {
        cleanup(buf) struct buf file = {0};
        cleanup(safetensors) struct safetensors s = {0};
        buf_add(&file, good.data, good.size);
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ 1 << bit % 8);
        tried++;
        refused += !safetensors_parse(&file, &s, &err);
    }
    check(refused > tried / 4);
    for (size_t size = 0; size < good.size; size += 61) {
        cleanup(buf) struct buf file = {0};
        cleanup(safetensors) struct safetensors s = {0};
        buf_add(&file, good.data, size);
        check(!safetensors_parse(&file, &s, &err));
    }
}

static void write_and_check(const char *folder, const char *header, size_t size, const char *says)
{
    char root[] = "/tmp/test_golden.XXXXXX";
    check(mkdtemp(root) != NULL);
    cleanup(str) char *dir = xfmt("%s/%s", root, folder), *path = xfmt("%s/case.safetensors", dir);
    cleanup(buf) struct buf file = {0};
    struct golden_result r = {0};
    struct err err = {0};
    make(&file, header, size);
    check(mkdir(dir, 0700) == 0 && file_write(path, file.data, file.size, 0600, &err));
    bool ok = golden_check_file(&ops, path, "sm_90a", NULL, NULL, &r, &err);
    check(!ok && strstr(err.text, says));
    if (ok || !strstr(err.text, says))
        fprintf(stderr, "  %s: \"%s\", wanted \"%s\"\n", folder, err.text, says);
    unlink(path);
    rmdir(dir);
    rmdir(root);
}

static void test_wrong_files(void)
{
#define XW(rows) "\"in.x\":{\"dtype\":\"BF16\",\"shape\":[" rows ",4],\"data_offsets\":[0,8]}"
#define META(axes) "\"__metadata__\":{\"axes\":\"" axes "\"}"
    write_and_check("no_such_op", "{}", 0, "no operator no_such_op");
    write_and_check("rmsnorm", "{}", 0, "no axes");
    write_and_check("rmsnorm", "{" META("{") "}", 0, "axes");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":1,\\\"N\\\":4}") "}", 0, "in.x: missing");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":1,\\\"N\\\":4}") "," XW("1") "}", 8, "in.weight: missing");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":0,\\\"N\\\":4}") "," XW("1")
                    ",\"in.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}", 16, "/axes/R");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":1,\\\"N\\\":4}") "," XW("1")
                    ",\"in.weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}", 24, "another tensor of dtype letter io");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":1,\\\"N\\\":5}") "," XW("1")
                    ",\"in.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}", 16, "not what the axes say");
    write_and_check("rmsnorm", "{" META("{\\\"R\\\":1,\\\"N\\\":4}") "," XW("1")
                    ",\"in.weight\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[8,16]}}", 16, "out.y: missing");
    struct golden_result r;
    struct err err = {0};
    check(!golden_check_file(&ops, "case.safetensors", "sm_90a", NULL, NULL, &r, &err));
    check(!golden_check_file(&ops, "/nowhere/rmsnorm/case.safetensors", "sm_90a", NULL, NULL, &r, &err) && err.code == ERR_NOT_FOUND);
}

/* A file whose result is wrong in one place is told so, with the place. */
static void test_mismatch(void)
{
    cleanup(buf) struct buf file = {0};
    char root[] = "/tmp/test_golden.XXXXXX";
    struct err err = {0};
    struct golden_result r = {0};
    check(mkdtemp(root) != NULL);
    cleanup(str) char *dir = xfmt("%s/rmsnorm", root), *path = xfmt("%s/case.safetensors", dir);
    check(file_read(GOLDEN_DIR "/rmsnorm/r2_n256_big.safetensors", 1 << 20, &file, &err));
    uint64_t header;
    memcpy(&header, file.data, 8);
    float *y = (float *)(void *)(file.data + 8 + header) + 300;      /* out.y is first in the file */
    float value;
    memcpy(&value, y, sizeof value);
    value *= 1.00001f;
    memcpy(y, &value, sizeof value);
    check(mkdir(dir, 0700) == 0 && file_write(path, file.data, file.size, 0600, &err));
    check(golden_check_file(&ops, path, "sm_90a", NULL, NULL, &r, &err));
    check(!r.match && !r.reference_ok && strstr(r.text, "element 300 of y"));
    unlink(path);
    rmdir(dir);
    rmdir(root);
}

int main(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    test_files("gdn_packed_decode", 4);
    test_files("rmsnorm", 3);
    test_files("gdn_decode_step", 1);
    test_files("gqa_decode", 1);
    test_files("gemm_nt", 1);
    test_files("topk_softmax", 2);
    test_files("causal_conv1d_update", 2);
    test_files("rope_neox", 1);
    test_files("quant_fp8_per_token", 1);
    test_files("fused_add_rmsnorm", 1);
    test_files("gated_rmsnorm", 2);
    test_files("silu_and_mul", 1);
    test_hostile();
    test_mutations();
    test_wrong_files();
    test_mismatch();
    op_set_done(&ops);
    return test_done();
}
