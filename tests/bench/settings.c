/*
 * Template settings as a set of ready kernels, and their times on a card: what the estimate is calibrated with and judged by.
 *
 *   bench_settings pack DIR            compiles and assembles a fixed sample of settings (no card needed) into DIR
 *   bench_settings pack-others DIR     the same of other shapes, which no calibration has seen
 *   bench_settings pack-list LIST DIR K/N   settings that a file names, the K-th of N parts of its shapes: [{"shape":{...},
 *                                      "template":"rows","settings":[{"ROWS":1,...},...]},...]; "settings" a number: so many drawn
 *   bench_settings time DIR OUT.json [cuda:N [SECONDS]]   on a card: each one's time a launch, graph-rotated as the judge does it
 *   bench_settings count DIR OUT.json  in the emulator: what each one does, and the estimate of it
 *
 * DIR/index.json lists the kernels; their PTX and cubins lie beside it. The sample is drawn by a fixed seed, so that times that were
 * taken on a card once fit what is packed anew elsewhere: an entry is known by its operator, shape and parameters.
 */
#include "tests/bench/settings.h"

#include "core/rng.h"
#include "gpu/device/device.h"
#include "server/generate/template_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define SEED SETTINGS_SEED

struct sample { const char *shape; int settings; };
static const struct sample cases[] = {
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":1,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", 24},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", 40},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":16,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", 24},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":64,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}", 24},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":16,\"HV\":64,\"K\":128,\"V\":128}}", 24},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":8,\"H\":4,\"HV\":16,\"K\":64,\"V\":64},\"dtypes\":{\"state\":\"bf16\"}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":4,\"N\":3072}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":64,\"N\":3072}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":512,\"N\":4096}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":4096,\"N\":8192}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":16,\"N\":16384}}", 24},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":128,\"N\":2048},\"dtypes\":{\"io\":\"f32\"}}", 24},
};

/* Shapes that the calibration never saw: how the estimate does on other ones. */
static const struct sample others[] = {
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":32,\"H\":4,\"HV\":32,\"K\":128,\"V\":128}}", 12},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":2,\"H\":2,\"HV\":4,\"K\":256,\"V\":128}}", 12},
    {"{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":12,\"H\":4,\"HV\":8,\"K\":128,\"V\":256},\"dtypes\":{\"io\":\"f16\",\"state\":\"f16\"}}", 12},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":1024,\"N\":1024},\"dtypes\":{\"io\":\"f16\"}}", 12},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":256,\"N\":5120}}", 12},
    {"{\"op\":\"rmsnorm\",\"axes\":{\"R\":2,\"N\":32768}}", 12},
};

/* ---- pack ---- */

struct pack { const char *dir; struct toolkit_paths toolkit; json_t *list; };

static void pack_one(struct pack *p, const struct shape *s, const json_t *candidate, json_t *params)
{
    cleanup(candidate) struct candidate c = {0};
    cleanup(buf) struct buf options = {0};
    struct faults f = {0};
    struct err err = {0};
    struct plan plan;
    struct toolkit_compiled ptx = {0};
    struct toolkit_assembled cubin = {0};
    char why[512] = "";
    if (!candidate_parse(candidate, "", &c, &f))
        die("candidate", f.list[0].detail);
    if (!plan_resolve(&c, s, &plan, why, sizeof why) || !candidate_options(&c, s, &options, why, sizeof why))
        die("plan", why);
    if (!toolkit_compile(&p->toolkit, c.source, s->target, buf_cstr(&options), &ptx, &err) || !ptx.ok)
        die("compile", ptx.log ? ptx.log : err.text);
    if (!toolkit_assemble(&p->toolkit, ptx.ptx, ptx.ptx_bytes, s->target, c.maxrregcount, &cubin, &err) || !cubin.ok)
        die("assemble", cubin.log ? cubin.log : err.text);
    const int id = (int)json_array_size(p->list);
    cleanup(str) char *ptx_path = xfmt("%s/%d.ptx", p->dir, id), *cubin_path = xfmt("%s/%d.cubin", p->dir, id);
    write_file(ptx_path, ptx.ptx, ptx.ptx_bytes);
    write_file(cubin_path, cubin.cubin, cubin.cubin_bytes);
    json_t *entry = json_object(), *resources = json_array();
    json_put(entry, "shape", shape_encode(s));
    json_put(entry, "params", params);
    json_put(entry, "plan", plan_encode(&plan, s));
    for (int i = 0; i < plan.step_count; i++)
        for (int k = 0; k < cubin.kernel_count; k++)
            if (!plan.steps[i].is_memset && !strcmp(plan.steps[i].kernel, cubin.kernels[k].name))
                json_array_append_new(resources, json_pack("{s:i,s:i,s:i}", "registers", cubin.kernels[k].resources.registers_thread,
                                                           "shared_bytes", (int)cubin.kernels[k].resources.static_shared_bytes,
                                                           "local_bytes", (int)cubin.kernels[k].resources.local_bytes_thread));
    json_put(entry, "resources", resources);
    json_array_append_new(p->list, entry);
    free(ptx.ptx), free(ptx.log), free(cubin.cubin), free(cubin.log);
}

static void pack_case(struct pack *p, const char *text, int wanted)
{
    cleanup(json) json_t *doc = NULL, *baseline = NULL;
    cleanup(template_set) struct template_set set = {0};
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct setting *list = NULL;
    struct err err = {0};
    int count = 0;
    if (!json_parse(text, strlen(text), &doc, &err))
        die(text, err.text);
    take_shape(doc, &s, tensors);
    if (!candidate_load(s.op->dir, "baseline", &baseline, &err) || !template_set_load(s.op, &set, &err))
        die(text, err.text);
    pack_one(p, &s, baseline, json_null());
    for (int t = 0; t < set.count; t++) {
        if (!template_settings(&set.list[t], &s, &list, &count, &err) || !count)
            die(text, "no setting");
        /* the defaults, and the rest without replacement */
        cleanup(mem) void *memory = xalloc((size_t)count);
        uint8_t *taken = memory;
        int at = template_default(&set.list[t], &s, list, count);
        for (int n = 0; n < wanted && n < count; n++) {
            for (uint64_t k = 0; n && taken[at]; k++)
                at = (int)rng_below(SEED, (uint64_t)n, k + (uint64_t)json_array_size(p->list) * 4096, (uint64_t)count);
            taken[at] = 1;
            cleanup(json) json_t *candidate = template_candidate(&set.list[t], &list[at]);
            pack_one(p, &s, candidate, template_params(&set.list[t], &list[at]));
        }
        fprintf(stderr, "%s: %d of %d settings\n", text, wanted < count ? wanted : count, count);
        free(list);
    }
}

/* One entry of a list: named settings of one template, or so many of it drawn; the baseline comes first. */
static void pack_entry(struct pack *p, const json_t *entry)
{
    cleanup(json) json_t *baseline = NULL;
    cleanup(template_set) struct template_set set = {0};
    struct shape s;
    struct tensor tensors[OP_MAX_TENSORS];
    struct err err = {0};
    const json_t *settings = json_object_get(entry, "settings");
    const char *name = json_str(entry, "template", "");
    take_shape(json_object_get(entry, "shape"), &s, tensors);
    if (!candidate_load(s.op->dir, "baseline", &baseline, &err) || !template_set_load(s.op, &set, &err))
        die("list", err.text);
    if (json_bool(entry, "baseline", true))
        pack_one(p, &s, baseline, json_null());
    for (int t = 0; t < set.count; t++) {
        const struct template *of = &set.list[t];
        struct setting *list = NULL;
        int count = 0;
        if (*name && strcmp(name, of->name))
            continue;
        if (!template_settings(of, &s, &list, &count, &err))
            die("list", err.text);
        cleanup(mem) void *memory = list;
        cleanup(mem) void *taken_memory = xalloc((size_t)count + 1);
        uint8_t *taken = taken_memory;
        const int wanted = json_is_array(settings) ? 0 : (int)json_int(entry, "settings", 0);
        for (int n = 0; n < wanted && n < count; n++) {
            int at = (int)rng_below(SEED, (uint64_t)n, 0, (uint64_t)count);
            while (taken[at])
                at = (at + 1) % count;
            taken[at] = 1;
        }
        size_t k;
        json_t *one;
        json_array_foreach(settings, k, one) {
            struct setting wish;
            if (!template_find(of, one, &wish))
                continue;
            for (int i = 0; i < count; i++)
                taken[i] |= !memcmp(&list[i], &wish, sizeof wish);
        }
        for (int i = 0; i < count; i++)
            if (taken[i]) {
                cleanup(json) json_t *candidate = template_candidate(of, &list[i]);
                json_t *params = template_params(of, &list[i]);
                json_put_str(params, "template", of->name);
                pack_one(p, &s, candidate, params);
            }
    }
}

static int run_pack_list(const char *list, const char *dir, const char *part)
{
    struct pack p = {.dir = dir, .list = json_array()};
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    unsigned k = 0, n = 1;
    if (sscanf(part, "%u/%u", &k, &n) != 2 || !n || k >= n)
        die(part, "not K/N");
    if (!toolkit_find(NULL, &p.toolkit, &err))
        die("toolkit", err.text);
    read_json(list, &doc);
    mkdir(dir, 0755);
    for (size_t i = k; i < json_array_size(doc); i += n)
        pack_entry(&p, json_array_get(doc, i));
    cleanup(str) char *path = xfmt("%s/index.json", dir);
    write_json(path, p.list);
    printf("%zu kernels in %s\n", json_array_size(p.list), dir);
    json_decref(p.list);
    return 0;
}

static int run_pack(const char *dir, const struct sample *list, size_t count)
{
    struct pack p = {.dir = dir, .list = json_array()};
    struct err err = {0};
    if (!toolkit_find(NULL, &p.toolkit, &err))
        die("toolkit", err.text);
    mkdir(dir, 0755);
    for (size_t i = 0; i < count; i++)
        pack_case(&p, list[i].shape, list[i].settings);
    cleanup(str) char *path = xfmt("%s/index.json", dir);
    write_json(path, p.list);
    printf("%zu kernels in %s\n", json_array_size(p.list), dir);
    json_decref(p.list);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    hash_init();
    const char *dir = getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *fallback = op_default_dir();
    if (!op_set_load(dir ? dir : fallback, &ops, &err))
        die("operators", err.text);
    int rc = 2;
    if (argc == 3 && !strcmp(argv[1], "pack"))
        rc = run_pack(argv[2], cases, sizeof cases / sizeof *cases);
    else if (argc == 3 && !strcmp(argv[1], "pack-others"))
        rc = run_pack(argv[2], others, sizeof others / sizeof *others);
    else if (argc == 5 && !strcmp(argv[1], "pack-list"))
        rc = run_pack_list(argv[2], argv[3], argv[4]);
    else if (argc >= 4 && argc <= 6 && !strcmp(argv[1], "time"))
        rc = run_time(argv[2], argv[3], argc > 4 ? argv[4] : "cuda:0", argc > 5 ? strtoll(argv[5], NULL, 10) : 86400);
    else if (argc == 4 && !strcmp(argv[1], "count"))
        rc = run_count(argv[2], argv[3]);
    else
        fprintf(stderr, "usage: bench_settings pack DIR | pack-others DIR | pack-list LIST DIR K/N | time DIR OUT.json [cuda:N [SECONDS]] | count DIR OUT.json\n");
    op_set_done(&ops);
    return rc;
}
