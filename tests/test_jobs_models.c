/* Jobs of a model: its shapes, of several operators, in one job; one that cannot be judged does not take the others with it. */
#include "tests/test_jobs.h"

#include "core/preset.h"

static struct preset_set presets;

static void write_preset(const struct world *w, const char *name, const char *step)
{
    cleanup(str) char *dir = xfmt("%s/models", w->dir), *file = xfmt("%s.json", name);
    cleanup(str) char *text = xfmt("{\"name\":\"%s\",\"tp\":[1,2],\"batch_max\":64,\"step\":[%s]}", name, step);
    struct err err = {0};
    must(dir_make(dir, 0755, &err), &err);
    write_text(dir, file, text);
}

/* A second operator, "shift", beside "scale". */
static void copy_operator(const struct world *w)
{
    static const char *const files[] = {"op.json", "baseline.json", "baseline.cu", "reference.c"};
    struct err err = {0};
    cleanup(str) char *to = xfmt("%s/ops/shift", w->dir);
    must(dir_make(to, 0755, &err), &err);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *from = xfmt("%s/ops/scale/%s", w->dir, files[i]);
        cleanup(buf) struct buf text = {0};
        must(file_read(from, 1 << 20, &text, &err), &err);
        char *name = strstr(text.data, "\"name\":\"scale\"");
        if (name)
            memcpy(name + 8, "shift", 5);
        write_text(to, files[i], text.data);
    }
}

static void world_with_models(struct world *w)
{
    struct err err = {0};
    world_open(w);
    copy_operator(w);
    write_preset(w, "two", "{\"op\":\"scale\",\"what\":\"a\",\"count\":\"3*tp\",\"axes\":{\"R\":\"batch\",\"N\":\"64/tp\"}},"
                           "{\"op\":\"shift\",\"what\":\"b\",\"count\":5,\"axes\":{\"R\":\"batch\",\"N\":8}}");
    write_preset(w, "large", "{\"op\":\"scale\",\"what\":\"a\",\"axes\":{\"R\":4096,\"N\":65536}}");
    write_preset(w, "lacking", "{\"op\":\"nowhere\",\"what\":\"a\",\"axes\":{}}");
    op_set_done(&w->ops);
    cleanup(str) char *ops = xfmt("%s/ops", w->dir), *models = xfmt("%s/models", w->dir);
    must(op_set_load(ops, &w->ops, &err) && preset_set_load(models, &presets, &err), &err);
    w->config.presets = &presets;
    world_start(w);
}

static void a_model_is_one_job(struct world *w)
{
    SET_SCRIPT("time=500 ", "time=800 ");
    cleanup(json) json_t *job = wait_job(w, submit(w, "{'model':{'preset':'two','tp':2,'batch':[1,4]}}"));
    check_str(json_str(job, "state", ""), "done");
    check_str(json_str(job, "op", ""), "*");
    check_str(json_str(json_object_get(job, "model"), "preset", ""), "two");
    check_int(json_array_size(json_object_get(job, "shapes")), 4);
    check_int(json_int(json_object_get(job, "budget"), "candidates", 0), 4 * 8);      /* the default, for each of its shapes */
    check_int(json_int(json_object_get(job, "budget"), "wall_seconds", 0), 4 * 100);
    static const char *const ops[] = {"scale", "shift", "scale", "shift"};
    static const int counts[] = {6, 5, 6, 5};
    size_t i;
    json_t *shape;
    json_array_foreach(json_object_get(job, "shapes"), i, shape) {
        cleanup(json) json_t *kernel = get(w, STORE_KERNEL, json_str(shape, "shape_hash", ""));
        check_str(json_str(json_object_get(shape, "shape"), "op", ""), ops[i]);
        check_int(json_int(shape, "count", 0), counts[i]);
        check_int(json_array_size(json_object_get(shape, "launches")), 1);
        check_str(json_str(kernel, "op", ""), ops[i]);
        check_int(json_num(kernel, "time_ns", 0), 500);
    }
    /* what is known is answered at once, and only what is not is searched for */
    cleanup(json) json_t *again = wait_job(w, submit(w, "{'model':{'preset':'two','tp':2,'batch':4}}"));
    check(json_bool(json_array_get(json_object_get(again, "shapes"), 0), "reused", false));
    cleanup(json) json_t *one = wait_job(w, submit(w, "{'model':{'preset':'two','batch':1},'budget':{'candidates':2}}"));
    check_int(json_int(json_object_get(one, "budget"), "candidates", 0), 2);
}

static void refused(struct world *w, const char *text, const char *pointer, const char *says)
{
    cleanup(json) json_t *request = json_of(text), *job = NULL;
    struct faults f = {0};
    struct err err = {0};
    int64_t as_of;
    check(!jobs_submit(w->jobs, request, NULL, &job, &as_of, &f, &err));
    check_int(err.code, ERR_INVALID);
    if (strcmp(f.list[0].pointer, pointer) != 0 || !strstr(f.list[0].detail, says))
        fprintf(stderr, "%s: %s: %s\n", text, f.list[0].pointer, f.list[0].detail);
    check_str(f.list[0].pointer, pointer);
    check(strstr(f.list[0].detail, says));
}

static void bad_models(struct world *w)
{
    refused(w, "{'model':3}", "/model", "object");
    refused(w, "{'model':{'preset':'none'}}", "/model/preset", "two");
    refused(w, "{'model':{'preset':'two'},'op':'scale'}", "/op", "model");
    refused(w, "{'model':{'preset':'two'},'shapes':[]}", "/shapes", "model");
    refused(w, "{'model':{'preset':'two','tp':3}}", "/model", "1, 2");
    refused(w, "{'model':{'preset':'two','batch':[1,2,3]}}", "/model", "6 shapes; a job has 1 to 4");
    refused(w, "{'model':{'preset':'large'}}", "/model", "too large");
    refused(w, "{'model':{'preset':'lacking'}}", "/model", "nowhere");
    refused(w, "{'model':{'preset':'two'},'target':'x'}", "/model", "target");
}

/* The judge breaks down over one shape's baseline, again and again. */
static void one_shape_fails_alone(struct world *w)
{
    SET_SCRIPT("time=500 ");
    set_baseline(w, "refuse=unavailable refuse_r=4 time=1000 ");
    w->config.judge_retries = 0;
    world_stop(w);
    preset_set_done(&presets);
    world_with_models(w);
    cleanup(json) json_t *job = wait_job(w, submit(w, "{'model':{'preset':'two','batch':[3,4]},'reuse':'never'}"));
    check_str(json_str(job, "state", ""), "done");
    check_str(json_str(json_array_get(json_object_get(job, "shapes"), 0), "state", ""), "done");
    check_str(json_str(json_array_get(json_object_get(job, "shapes"), 2), "state", ""), "failed");
    check_str(json_str(json_array_get(json_object_get(job, "shapes"), 3), "state", ""), "failed");
}

int main(int argc, char **argv)
{
    check_int(argc, 2);
    judge_program = argv[1];
    hash_init();
    log_threshold(LOG_ERROR + 1);
    struct world w = {0};
    world_with_models(&w);
    a_model_is_one_job(&w);
    bad_models(&w);
    one_shape_fails_alone(&w);
    world_done(&w);
    preset_set_done(&presets);
    return test_done();
}
