/* Packed kernels, one after the other: their times on a card, or what the emulator counts of them. */
#include "tests/bench/settings.h"

#include "core/clock.h"
#include "core/rng.h"
#include "gpu/device/device.h"
#include "gpu/judge/inputs.h"

#include <errno.h>
#include <string.h>

#define FILE_LIMIT ((size_t)16 << 20)
#define SEED SETTINGS_SEED
#define BLOCKS 9
#define GRAPH_NS 600000.0
#define MOST_LAUNCHES 400
#define LEAST_LAUNCHES 48

struct op_set ops;

void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_settings: %s: %s\n", what, why);
    exit(2);
}

void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
        die(path, strerror(errno));
}

void read_file(const char *path, struct buf *to)
{
    char part[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        die(path, strerror(errno));
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(to, part, n);
    fclose(f);
}

void write_json(const char *path, const json_t *doc)
{
    cleanup(buf) struct buf text = {0};
    json_write_pretty(&text, doc);
    write_file(path, text.data, text.size);
}

void read_json(const char *path, json_t **ret)
{
    struct err err = {0};
    if (!json_parse_file(path, FILE_LIMIT, ret, &err))
        die(path, err.text);
}

void take_shape(const json_t *doc, struct shape *s, struct tensor *tensors)
{
    struct faults f = {0};
    struct err err = {0};
    if (!shape_parse(&ops, doc, "sm_90a", "", s, &f))
        die("shape", f.list[0].detail);
    if (!shape_tensors(s, tensors, &err))
        die("shape", err.text);
}

/* ---- one entry, loaded ---- */

struct loaded {
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];
    struct plan plan;
    struct ptx_resources resources[PLAN_MAX_STEPS];
    struct buf ptx, cubin;
    void *inputs[OP_MAX_TENSORS];      /* `made`'s */
    struct device_program *program;
};

/* The inputs of the last shape: making them takes longer than most kernels. */
static struct { struct hash_hex shape; const struct op *op; void *inputs[OP_MAX_TENSORS]; } made;

static void inputs_for(struct loaded *x)
{
    struct err err = {0};
    struct hash_hex h = shape_hash(&x->shape);
    if (!made.op || strcmp(h.text, made.shape.text)) {
        if (made.op)
            inputs_free(made.op, made.inputs);
        made.op = x->shape.op, made.shape = h;
        if (!inputs_make(&x->shape, x->tensors, 0, SEED, made.inputs, &err))
            die("inputs", err.text);
    }
    memcpy(x->inputs, made.inputs, sizeof x->inputs);
}

static void entry_load(const struct device_ops *ops_of, struct device *d, const char *dir, size_t id, const json_t *entry,
                       struct loaded *x)
{
    struct err err = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    cleanup(str) char *ptx_path = xfmt("%s/%zu.ptx", dir, id), *cubin_path = xfmt("%s/%zu.cubin", dir, id);
    take_shape(json_object_get(entry, "shape"), &x->shape, x->tensors);
    if (!plan_parse(json_object_get(entry, "plan"), &x->shape, &x->plan, &err))
        die("plan", err.text);
    read_file(ptx_path, &x->ptx);
    read_file(cubin_path, &x->cubin);
    const json_t *resources = json_object_get(entry, "resources");
    for (size_t i = 0; i < json_array_size(resources); i++) {
        const json_t *r = json_array_get(resources, i);
        x->resources[i] = (struct ptx_resources){(int)json_int(r, "registers", 0), (uint32_t)json_int(r, "shared_bytes", 0),
                                                 (uint32_t)json_int(r, "local_bytes", 0)};
    }
    const struct device_load what = {.shape = &x->shape, .tensors = x->tensors, .plan = &x->plan, .ptx = buf_cstr(&x->ptx),
                                     .ptx_bytes = x->ptx.size, .cubin = x->cubin.data, .cubin_bytes = x->cubin.size,
                                     .resources = x->resources};
    inputs_for(x);
    if (!ops_of->load(d, &what, &x->program, &fault, &err))
        die("load", err.text);
    if (fault.code != VERDICT_OK)
        die("load", fault.text);
}

static void entry_done(const struct device_ops *ops_of, struct loaded *x)
{
    ops_of->unload(x->program);
    buf_done(&x->ptx);
    buf_done(&x->cubin);
}

/* ---- time ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static json_t *time_entry(struct device *d, struct loaded *x, int64_t l2_bytes)
{
    bool mix[OP_MAX_TENSORS];
    struct err err = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    struct device_sample sample = {0};
    double ns[BLOCKS], mhz = 0, guess = 0;
    int sets = 0, launches = 40;
    (void)d;
    /* Sets for graphs of 400 us and more, where memory allows: a graph's own start is then a small part of it. */
    int64_t set_bytes = 0, rotate_bytes = 2 * l2_bytes;
    for (int t = 0; t < x->shape.op->tensor_count; t++)
        set_bytes += x->tensors[t].bytes;
    if (set_bytes < l2_bytes * 2 && rotate_bytes < LEAST_LAUNCHES * set_bytes / 3)
        rotate_bytes = LEAST_LAUNCHES * set_bytes / 3;
    inputs_rotatable(x->shape.op, x->tensors, 0, mix);
    const struct device_time_setup how = {.tensors = (const void *const *)x->inputs, .mix = mix,
                                          .rotate_bytes_least = rotate_bytes, .max_sets = MOST_LAUNCHES, .seed = SEED};
    if (!device_cuda.time_setup(x->program, &how, &sets, &fault, &err) || fault.code != VERDICT_OK)
        die("time_setup", fault.code != VERDICT_OK ? fault.text : err.text);
    for (int n = -2; n < BLOCKS; n++) {
        const struct device_time_block block = {launches < sets ? launches : sets, rng_at(SEED, 5, (uint64_t)(n + 2))};
        if (!device_cuda.time_block(x->program, &block, &sample, &fault, &err) || fault.code != VERDICT_OK)
            die("time_block", fault.code != VERDICT_OK ? fault.text : err.text);
        guess = (double)sample.event_ns / sample.launches;
        if (n < 0) {
            launches = (int)(GRAPH_NS / guess) + 1;
            launches = launches < 16 ? 16 : launches > MOST_LAUNCHES ? MOST_LAUNCHES : launches;
        } else {
            ns[n] = guess, mhz = sample.sm_clock_mhz;
        }
    }
    qsort(ns, BLOCKS, sizeof *ns, by_value);
    return json_pack("{s:f,s:f,s:f,s:i,s:f}", "ns", ns[BLOCKS / 2], "least_ns", ns[0], "most_ns", ns[BLOCKS - 1], "launches",
                     sample.launches, "mhz", mhz);
}

static void write_times(const char *out, const struct device_info *info, const json_t *calibration, const json_t *times)
{
    cleanup(json) json_t *doc = json_object();
    json_put(doc, "device", device_info_encode(info));
    json_put(doc, "calibration", json_incref((json_t *)(uintptr_t)calibration));
    json_put_str(doc, "mode", "graph-rotated: median of 9 graphs, time of a graph / launches in it");
    json_put(doc, "times", json_incref((json_t *)(uintptr_t)times));
    write_json(out, doc);
}

/* What was timed is written down now and then: a call that is cut off loses little. */
int run_time(const char *dir, const char *out, const char *card, int64_t seconds)
{
    const int64_t until_ns = clock_mono_ns() + seconds * 1000000000;
    cleanup(str) char *path = xfmt("%s/index.json", dir);
    cleanup(json) json_t *index = NULL, *results = json_array(), *calibration = NULL;
    struct device *d = NULL;
    struct device_info info = {0};
    struct err err = {0};
    read_json(path, &index);
    if (!device_cuda.open(card, &d, &err) || !device_cuda.info(d, &info, &err) || !device_cuda.calibrate(d, &calibration, &err))
        die("card", err.text);
    for (size_t i = 0; i < json_array_size(index) && clock_mono_ns() < until_ns; i++) {
        struct loaded x = {.program = NULL};
        const json_t *entry = json_array_get(index, i);
        entry_load(&device_cuda, d, dir, i, entry, &x);
        json_t *one = time_entry(d, &x, info.l2_bytes);
        json_put(one, "shape", json_incref(json_object_get(entry, "shape")));
        json_put(one, "params", json_incref(json_object_get(entry, "params")));
        json_array_append_new(results, one);
        entry_done(&device_cuda, &x);
        if (i % 10 == 9)
            write_times(out, &info, calibration, results);
    }
    write_times(out, &info, calibration, results);
    printf("%zu times in %s\n", json_array_size(results), out);
    device_cuda.close(d);
    return 0;
}

/* ---- count ---- */

#define COUNTS(X)                                                                                                                  \
    X(warp_instructions) X(blocks) X(warps) X(global_load_requests) X(global_store_requests) X(global_load_sectors)                \
    X(global_store_sectors) X(unique_load_sectors) X(unique_store_sectors) X(shared_requests) X(shared_wavefronts) X(barriers)     \
    X(longest_warp_instructions) X(dependent_loads) X(l1_hit_sectors) X(l2_load_sectors) X(l2_hit_sectors) X(l2_store_sectors)     \
    X(dram_load_sectors) X(dram_store_sectors) X(modelled_blocks) X(chain_cycles) X(expanded_cycles) \
    X(cluster_releases) X(cluster_drains)

static json_t *count_entry(struct loaded *x)
{
    struct err err = {0};
    cleanup(device_fault) struct device_fault fault = {0};
    cleanup(mem) void *memory = xalloc(sizeof(struct device_run_result));
    struct device_run_result *result = memory;
    const struct device_run how = {.tensors = (const void *const *)x->inputs, .schedule_seed = SEED, .place = DEVICE_AT_START,
                                   .wall_limit_ns = INT64_C(120000000000), .thread_instruction_limit = UINT64_C(1) << 40, .threads = 1};
    double ns = 0;
    json_t *terms = NULL, *steps = json_array();
    if (!device_sim.run(x->program, &how, result, &fault, &err) || fault.code != VERDICT_OK ||
        !device_sim.estimate(x->program, result, &ns, &terms, &err))
        die("emulate", fault.code != VERDICT_OK ? fault.text : err.text);
    for (int i = 0; i < result->step_count; i++) {
        const struct ptx_counts *c = &result->counts[i];
        json_t *one = json_object(), *classes = json_array();
#define X(field) json_put_int(one, #field, (int64_t)c->field);
        COUNTS(X)
#undef X
        for (int k = 0; k < 16; k++)
            json_array_append_new(classes, json_integer((json_int_t)c->warp_by_class[k]));
        json_put(one, "warp_by_class", classes);
        json_array_append_new(steps, one);
    }
    json_t *doc = json_object();
    json_put(doc, "counts", steps);
    json_put_num(doc, "estimate_ns", ns);
    json_decref(terms);
    return doc;
}

int run_count(const char *dir, const char *out)
{
    cleanup(str) char *path = xfmt("%s/index.json", dir);
    cleanup(json) json_t *index = NULL;
    struct device *d = NULL;
    struct err err = {0};
    FILE *f = fopen(out, "w");
    read_json(path, &index);
    if (!f || !device_sim.open("sim", &d, &err))
        die(out, f ? err.text : strerror(errno));
    fputs("[\n", f);
    for (size_t i = 0; i < json_array_size(index); i++) { /* an entry a line */
        struct loaded x = {.program = NULL};
        const json_t *entry = json_array_get(index, i);
        entry_load(&device_sim, d, dir, i, entry, &x);
        cleanup(json) json_t *one = count_entry(&x);
        const struct plan_step *s = &x.plan.steps[0];
        json_put(one, "launch", json_pack("{s:[i,i,i],s:[i,i,i],s:i}", "grid", (int)s->grid[0], (int)s->grid[1], (int)s->grid[2], "block",
                                          (int)s->block[0], (int)s->block[1], (int)s->block[2], "shared_bytes", (int)s->shared_bytes));
        static const char *const keys[] = {"shape", "params", "resources"};
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            json_put(one, keys[k], json_incref(json_object_get(entry, keys[k])));
        cleanup(str) char *text = json_text(one);
        fprintf(f, "%s%s\n", text, i + 1 < json_array_size(index) ? "," : "");
        entry_done(&device_sim, &x);
    }
    fputs("]\n", f);
    device_sim.close(d);
    return fclose(f) ? 2 : 0;
}
