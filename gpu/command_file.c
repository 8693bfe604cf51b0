/* One candidate out of a file, for people: judged, with phases, verdict and figures on stdout, or profiled. */
#include "gpu/commands.h"
#include "core/certificate.h"
#include "core/clock.h"

#include <string.h>
#include <unistd.h>

#define FILE_LIMIT_BYTES ((size_t)4 << 20)

/* All that a judgement leaves, for programs: {"verdict","figures","certificate"|null,"digests":{blob: digest}}. */
static bool write_result(const char *path, const struct judge_result *r, struct err *err)
{
    cleanup(json) json_t *doc = json_object(), *digests = json_object();
    cleanup(buf) struct buf text = {0};
    for (int i = 0; i < r->blob_count; i++)
        json_put_str(digests, r->blobs[i].name, hash_of(r->blobs[i].bytes.data, r->blobs[i].bytes.size).text);
    json_put(doc, "verdict", verdict_encode(&r->verdict));
    json_put(doc, "figures", json_incref(r->figures));
    json_put(doc, "certificate", r->certificate ? json_incref(r->certificate) : json_null());
    json_put(doc, "digests", json_incref(digests));
    json_write_pretty(&text, doc);
    return file_write(path, text.data, text.size, 0644, err);
}

static void show_progress(void *ctx, const json_t *phase)
{
    (void)ctx;
    if (strcmp(json_str(phase, "state", ""), "end") == 0)
        printf("%-10s %8.1f ms  %s\n", json_str(phase, "phase", ""), json_num(phase, "ms", 0),
               json_str(phase, "verdict", ""));
    fflush(stdout);
}

static bool read_json(const char *where, json_t **ret, struct err *err)
{
    if (*where == '@')
        return json_parse_file(where + 1, FILE_LIMIT_BYTES, ret, err);
    return *where == '{' ? json_parse(where, strlen(where), ret, err)
                         : json_parse_file(where, FILE_LIMIT_BYTES, ret, err);
}

static bool read_candidate(const char *where, json_t **ret, struct err *err)
{
    cleanup(str) char *inside = xfmt("%s/baseline.json", where);
    return access(inside, R_OK) == 0 ? candidate_load(where, "baseline", ret, err) : read_json(where, ret, err);
}

static bool make_task(const struct command_options *o, const struct judge_config *c, json_t **ret, struct err *err)
{
    cleanup(json) json_t *shape = NULL, *candidate = NULL, *baseline = NULL, *task = json_object();
    if (!o->shape || !o->candidate)
        return err_set(err, ERR_INVALID, "--shape and --candidate are needed");
    if (!read_json(o->shape, &shape, err) || !read_candidate(o->candidate, &candidate, err))
        return false;
    if (!json_str(shape, "target", NULL))
        json_put_str(shape, "target", o->target ? o->target : "sm_90a");
    const struct op *op = op_set_find(c->ops, json_str(shape, "op", ""));
    if (!op)
        return err_set(err, ERR_NOT_FOUND, "there is no operator \"%s\"", json_str(shape, "op", ""));
    if (!o->baseline ? !candidate_load(op->dir, "baseline", &baseline, err)
                     : strcmp(o->baseline, "none") && !read_candidate(o->baseline, &baseline, err))
        return false;
    json_put(task, "shape", steal(&shape));
    json_put(task, "candidate", steal(&candidate));
    json_put(task, "baseline", baseline ? steal(&baseline) : json_null());
    json_put_str(task, "mode", o->mode ? o->mode : "full");
    if (o->op_digest)
        json_put_str(task, "op_digest", o->op_digest);
    *ret = steal(&task);
    return true;
}

/* Whether what would be signed holds all that the contract lists: a lack is ours, and is seen before anybody verifies. */
static bool certificate_whole(const struct judge_result *r)
{
    struct err err = {0};
    if (!r->certificate)
        return true;
    if (!certificate_check(r->certificate, &err)) {
        printf("certificate: %s\n", err.text);
        return false;
    }
    printf("certificate: all %d items are there\n", certificate_items(r->certificate));
    return true;
}

int command_judge_file(const struct command_options *o, const struct judge_config *c)
{
    cleanup(json) json_t *task = NULL, *verdict = NULL;
    cleanup(buf) struct buf text = {0};
    cleanup(judge_result) struct judge_result result = {.figures = NULL};
    struct err err = {0};
    int64_t from = clock_mono_ns();
    if (!make_task(o, c, &task, &err) || !judge_run(c, task, show_progress, NULL, NULL, &result, &err))
        return command_fail("judge-file", &err);
    if (o->json && !write_result(o->json, &result, &err))
        return command_fail("judge-file", &err);
    verdict = verdict_encode(&result.verdict);
    json_object_del(result.figures, "samples");       /* hundreds of numbers; the certificate has them */
    json_write_pretty(&text, verdict);
    json_write_pretty(&text, result.figures);
    fputs(buf_cstr(&text), stdout);
    bool whole = certificate_whole(&result);
    printf("%s in %.0f ms\n", verdict_name(result.verdict.code),
           (double)(clock_mono_ns() - from) * 1e-6);
    return result.verdict.code == VERDICT_OK && whole ? 0 : 1;
}

int command_profile_file(const struct command_options *o, const struct judge_config *c)
{
    cleanup(json) json_t *task = NULL, *doc = NULL;
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    if (!make_task(o, c, &task, &err) || !judge_profile(c, task, NULL, NULL, &doc, &err))
        return command_fail("profile-file", &err);
    json_write_pretty(&text, doc);
    fputs(buf_cstr(&text), stdout);
    return json_object_get(doc, "profile") ? 0 : 1;
}
