/* Presets: what a file may say, what it expands to, and that the shipped ones give the shapes they are of. */
#include "core/preset.h"
#include "tests/test.h"

#include <sys/stat.h>

static struct op_set toy, ops;
static char dir[] = "/tmp/proteus-preset-XXXXXX";

static json_t *parse(const char *text)
{
    json_t *v = NULL;
    struct err err = {0};
    check(json_parse(text, strlen(text), &v, &err));
    return v;
}

static void put(const char *text)
{
    cleanup(str) char *path = xfmt("%s/p.json", dir);
    struct err err = {0};
    check(file_write(path, text, strlen(text), 0644, &err));
}

#define HEAD "{\"name\":\"p\",\"tp\":[1,2],\"batch_max\":8,\"names\":{\"h\":8,\"w\":\"2*h/tp\"},\"step\":["
#define STEP "{\"op\":\"toy\",\"what\":\"a\",\"count\":3,\"axes\":{\"R\":\"batch\",\"N\":\"w\"}}"

static void files_are_checked(void)
{
    static const struct { const char *text, *says; } rows[] = {
        {HEAD STEP "]}", NULL},
        {HEAD "]}", "/step"},
        {"{\"name\":\"q\",\"tp\":[1],\"batch_max\":1,\"step\":[" STEP "]}", "/name"},
        {"{\"name\":\"p\",\"tp\":[],\"batch_max\":1,\"step\":[" STEP "]}", "/tp"},
        {"{\"name\":\"p\",\"tp\":[0],\"batch_max\":1,\"step\":[" STEP "]}", "/tp/0"},
        {"{\"name\":\"p\",\"tp\":[1],\"batch_max\":0,\"step\":[" STEP "]}", "/batch_max"},
        {"{\"name\":\"p\",\"tp\":[1],\"batch_max\":1,\"step\":[" STEP "]}", "/step/0: /axes: /N"},    /* w is nowhere */
        {"{\"name\":\"p\",\"tp\":[1],\"batch_max\":1,\"names\":{\"a\":\"b\",\"b\":1},\"step\":[" STEP "]}", "/names/a"},
        {HEAD "{\"op\":\"toy\",\"what\":\"a\",\"axes\":{},\"more\":1}]}", "/more"},
        {HEAD "{\"op\":\"toy\",\"axes\":{}}]}", "/step/0"},
        {HEAD "{\"op\":\"toy\",\"what\":\"a\",\"count\":[],\"axes\":{}}]}", "/count"},
        {HEAD "{\"op\":\"toy\",\"what\":\"a\",\"when\":\"batch <\",\"axes\":{}}]}", "/when"},
        {HEAD "{\"op\":\"toy\",\"what\":\"a\",\"axes\":{\"R\":true}}]}", "/R"},
        {HEAD STEP "],\"extra\":1}", "/extra"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(preset_set) struct preset_set set = {0};
        struct err err = {0};
        put(rows[i].text);
        check(preset_set_load(dir, &set, &err) == !rows[i].says);
        if (rows[i].says && !strstr(err.text, rows[i].says))
            fprintf(stderr, "row %zu: %s\n", i, err.text);
        check(!rows[i].says || strstr(err.text, rows[i].says));
    }
}

static void steps_expand(void)
{
    cleanup(preset_set) struct preset_set set = {0};
    cleanup(json) json_t *list = json_array();
    struct err err = {0};
    put(HEAD STEP ",{\"op\":\"toy\",\"what\":\"b\",\"count\":\"tp\",\"when\":\"batch <= 2\",\"axes\":{\"R\":\"batch\",\"N\":\"w\"}},"
        "{\"op\":\"toy\",\"what\":\"c\",\"when\":\"tp == 2\",\"axes\":{\"R\":\"batch\",\"N\":4},\"dtypes\":{\"io\":\"f16\"}}]}");
    check(preset_set_load(dir, &set, &err));
    const struct preset *p = preset_set_find(&set, "p");
    check(p && !preset_set_find(&set, "q") && !preset_set_find(NULL, "p"));
    check(preset_expand(p, &toy, &(struct preset_at){1, 2, "sm_90a"}, list, &err));
    check_int(json_array_size(list), 1);                            /* a and b are the same shape, c is not there at tp 1 */
    const json_t *first = json_array_get(list, 0);
    check_int(json_int(first, "count", 0), 4);
    check_int(json_array_size(json_object_get(first, "launches")), 2);
    check_int(json_int(json_object_get(json_object_get(first, "shape"), "axes"), "N", 0), 16);
    check(preset_expand(p, &toy, &(struct preset_at){2, 4, "sm_90a"}, list, &err));
    check_int(json_array_size(list), 3);                            /* b is not there at batch 4; c counts once unless it says more */
    check_int(json_int(json_array_get(list, 1), "count", 0), 3);
    check_int(json_int(json_array_get(list, 2), "count", 0), 1);
    check(!preset_expand(p, &toy, &(struct preset_at){4, 2, "sm_90a"}, list, &err) && strstr(err.text, "1, 2") && err.code == ERR_INVALID);
    check(!preset_expand(p, &toy, &(struct preset_at){1, 9, "sm_90a"}, list, &err) && err.code == ERR_INVALID);
    check(!preset_expand(p, &ops, &(struct preset_at){1, 1, "sm_90a"}, list, &err) && err.code == ERR_UNPROCESSABLE);
    check(strstr(err.text, "\"toy\"") && strstr(err.text, "\"a\""));  /* the operator that is not there, and the launch that names it */
}

static void an_impossible_shape_is_told(void)
{
    cleanup(preset_set) struct preset_set set = {0};
    cleanup(json) json_t *list = json_array();
    struct err err = {0};
    put(HEAD "{\"op\":\"toy\",\"what\":\"a\",\"axes\":{\"R\":\"batch\",\"Q\":1}}]}");
    check(preset_set_load(dir, &set, &err));
    check(!preset_expand(set.list[0], &toy, &(struct preset_at){1, 1, "sm_90a"}, list, &err) && err.code == ERR_UNPROCESSABLE);
    check(strstr(err.text, "Q"));
    check_int(json_array_size(list), 0);
}

static void requests_are_checked(void)
{
    static const struct { const char *text, *pointer; enum err_code code; } rows[] = {
        {"{\"preset\":\"p\",\"tp\":[1,2],\"batch\":[1,4]}", NULL, ERR_OK},
        {"{\"preset\":\"p\"}", NULL, ERR_OK},
        {"{\"preset\":\"none\"}", "/model/preset", ERR_NOT_FOUND},
        {"{}", "/model/preset", ERR_NOT_FOUND},
        {"{\"preset\":\"p\",\"tp\":\"1\"}", "/model/tp", ERR_INVALID},
        {"{\"preset\":\"p\",\"batch\":[1,4,1]}", "/model/batch", ERR_INVALID},
        {"{\"preset\":\"p\",\"batch\":[]}", "/model/batch", ERR_INVALID},
        {"{\"preset\":\"p\",\"batch\":[0]}", "/model/batch", ERR_INVALID},
        {"{\"preset\":\"p\",\"batch\":9}", "/model", ERR_INVALID},
        {"{\"preset\":\"p\",\"tp\":3}", "/model", ERR_INVALID},
        {"{\"preset\":\"p\",\"target\":\"x\"}", "/model", ERR_INVALID},
        {"{\"preset\":\"p\",\"size\":1}", "/model/size", ERR_INVALID},
        {"{\"preset\":\"p\",\"tp\":[1,2,3,4,5,6,7,8,9],\"batch\":[1,2,3,4,5,6,7,8]}", "/model", ERR_INVALID},
    };
    cleanup(preset_set) struct preset_set set = {0};
    struct err err = {0};
    put(HEAD STEP "]}");
    check(preset_set_load(dir, &set, &err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(json) json_t *request = parse(rows[i].text), *list = json_array();
        struct faults f = {0};
        struct err why = {0};
        bool ok = preset_expand_request(&set, &toy, request, "sm_90a", "/model", list, &f, &why);
        check(ok == !rows[i].pointer);
        check_int(why.code, rows[i].code);
        if (rows[i].pointer)
            check_str(f.list[0].pointer, rows[i].pointer);
        if (i == 0)
            check_int(json_array_size(list), 4);
    }
}

static int64_t axis(const json_t *entry, const char *name)
{
    return json_int(json_object_get(json_object_get(entry, "shape"), "axes"), name, -1);
}

/* Of one operator: how many shapes, and how many launches a step. */
static int count_of(const json_t *list, const char *op, int64_t *ret_launches, const json_t **ret_last)
{
    const json_t *entry;
    size_t i;
    int n = 0;
    *ret_launches = 0;
    json_array_foreach(list, i, entry) {
        if (strcmp(json_str(json_object_get(entry, "shape"), "op", ""), op) != 0)
            continue;
        n++;
        *ret_launches += json_int(entry, "count", 0);
        *ret_last = entry;
    }
    return n;
}

/* Every shipped preset, at all its places; and one whose shapes are known from elsewhere. */
static void shipped_presets_expand(const char *models)
{
    cleanup(preset_set) struct preset_set set = {0};
    struct err err = {0};
    bool loaded = preset_set_load(models, &set, &err);
    if (!loaded)
        fprintf(stderr, "%s\n", err.text);
    check(loaded && set.count > 0);
    for (int i = 0; i < set.count; i++)
        for (int t = 0; t < set.list[i]->tp_count; t++)
            for (int64_t batch = 1; batch <= set.list[i]->batch_max; batch *= 2) {
                cleanup(json) json_t *list = json_array();
                bool ok = preset_expand(set.list[i], &ops, &(struct preset_at){set.list[i]->tp[t], batch, "sm_90a"}, list, &err);
                if (!ok)
                    fprintf(stderr, "%s\n", err.text);
                check(ok && json_array_size(list) > 8);
            }
    const struct preset *p = preset_set_find(&set, "qwen3.5-122b");
    static const int64_t degrees[] = {1, 2, 4, 8};
    for (size_t i = 0; p && i < sizeof degrees / sizeof *degrees; i++) {
        int64_t tp = degrees[i], launches, heads = 2 / tp > 1 ? 2 / tp : 1;
        const json_t *e = NULL;
        cleanup(json) json_t *list = json_array();
        check(preset_expand(p, &ops, &(struct preset_at){tp, 4, "sm_90a"}, list, &err));
        check_int(count_of(list, "gdn_packed_decode", &launches, &e), 1);
        check(launches == 36 && axis(e, "B") == 4 && axis(e, "H") == 16 / tp && axis(e, "HV") == 64 / tp && axis(e, "K") == 128 && axis(e, "V") == 128);
        check_int(count_of(list, "gdn_decode_step", &launches, &e), 1);
        check(launches == 36 && axis(e, "H") == 16 / tp && axis(e, "HV") == 64 / tp && axis(e, "W") == 4);
        check_int(json_array_size(json_object_get(json_array_get(json_object_get(e, "launches"), 0), "instead_of")), 3);
        check_int(count_of(list, "gqa_decode", &launches, &e), 2);
        check(axis(e, "HQ") == 32 / tp && axis(e, "HK") == heads && axis(e, "d") == 256 && axis(e, "T") == 8192);
        check_int(count_of(list, "causal_conv1d_update", &launches, &e), 1);
        check(launches == 36 && axis(e, "C") == 12288 / tp && axis(e, "W") == 4);
        check_int(count_of(list, "gated_rmsnorm", &launches, &e), 1);
        check(launches == 36 && axis(e, "R") == 4 * 64 / tp && axis(e, "N") == 128);
        check_int(count_of(list, "fused_add_rmsnorm", &launches, &e), 1);
        check(launches == 96 && axis(e, "R") == 4 && axis(e, "N") == 3072);
        check_int(count_of(list, "topk_softmax", &launches, &e), 1);
        check(launches == 48 && axis(e, "E") == 256 && axis(e, "k") == 8);
        check_int(count_of(list, "silu_and_mul", &launches, &e), 2);
        check(launches == 96 && axis(e, "R") == 4 && axis(e, "N") == 1024 / tp);
        check_int(count_of(list, "rope_neox", &launches, &e), 1);
        check(launches == 12 && axis(e, "HQ") == 32 / tp && axis(e, "HK") == heads && axis(e, "d") == 256 && axis(e, "rot") == 64);
    }
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    check(argc == 3 && mkdtemp(dir));
    check(op_set_load(TEST_DATA "/ops", &toy, &err) && op_set_load(argv[2], &ops, &err));
    files_are_checked();
    steps_expand();
    an_impossible_shape_is_told();
    requests_are_checked();
    shipped_presets_expand(argv[1]);
    cleanup(str) char *path = xfmt("%s/p.json", dir);
    unlink(path);
    rmdir(dir);
    op_set_done(&toy);
    op_set_done(&ops);
    return test_done();
}
