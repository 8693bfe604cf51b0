/*
 * What is served: the certificate with what only the server knows, its signature over the exact bytes, the artifacts as blobs, and
 * the kernel's manifest. What is served of a shape, and since when, is the shelf's to decide (shelf.h).
 */
#include "server/jobs/internal.h"

static const char *const blob_names[] = {"kernel.ptx", "kernel.cubin", "baseline"};
static const char *const part_names[] = {"kernel.cubin", "kernel.ptx", "source", "baseline", "certificate.json", "certificate.json.minisig"};

static void put_artifact(struct store_batch *b, json_t *artifacts, const char *name, const void *data, size_t size)
{
    struct hash_hex digest;
    json_t *one = json_object();
    store_put_blob(b, data, size, &digest);
    json_put_str(one, "digest", digest.text);
    json_put_int(one, "bytes", (int64_t)size);
    json_put(artifacts, name, one);
}

static json_t *certificate_complete(const struct judge_answer *a, const struct shape *s, const json_t *record, const char *now)
{
    json_t *doc = json_deep_copy(a->certificate), *times = json_object_get(doc, "times");
    if (!json_is_object(times)) {
        times = json_object();
        json_put(doc, "times", times);
    }
    json_put_str(times, "proposed", json_str(record, "created", ""));
    json_put_str(times, "certified", now);
    json_put_str(doc, "shape_hash", shape_hash(s).text);
    json_put_str(doc, "job", json_str(record, "job", ""));
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    json_put_bool(doc, "is_baseline", json_bool(record, "is_baseline", false));
    return doc;
}

void manifest_store_artifacts(struct jobs *j, struct store_batch *b, const struct shape *s, json_t *record, struct judge_answer *a)
{
    json_t *artifacts = json_object();
    const char *source = json_str(json_object_get(record, "candidate"), "source", "");
    int64_t now_ns = clock_wall_ns();
    put_artifact(b, artifacts, "source", source, strlen(source));
    for (int i = 0; i < a->blob_count; i++)
        for (size_t k = 0; k < sizeof blob_names / sizeof *blob_names; k++)
            if (strcmp(a->blobs[i].name, blob_names[k]) == 0)
                put_artifact(b, artifacts, blob_names[k], buf_cstr(&a->blobs[i].bytes), a->blobs[i].bytes.size);
    cleanup(json) json_t *certificate = certificate_complete(a, s, record, clock_text(now_ns).text);
    cleanup(buf) struct buf text = {0}, signature = {0};
    json_write_pretty(&text, certificate);
    put_artifact(b, artifacts, "certificate.json", text.data, text.size);
    cleanup(str) char *comment = xfmt("timestamp:%lld file:certificate.json shape:%s target:%s", (long long)(now_ns / 1000000000),
                                      shape_hash(s).text, s->target);
    signer_sign(j->signer, text.data, text.size, comment, &signature);
    put_artifact(b, artifacts, "certificate.json.minisig", signature.data, signature.size);
    json_put_str(record, "certificate_digest", json_str(json_object_get(artifacts, "certificate.json"), "digest", ""));
    json_put_str(record, "signature_digest", json_str(json_object_get(artifacts, "certificate.json.minisig"), "digest", ""));
    json_put(record, "artifacts", artifacts);
    const char *baseline_of = json_str(json_object_get(certificate, "baseline"), "of", NULL);
    if (baseline_of)
        json_put_str(record, "baseline_of", baseline_of);
    const json_t *toolkit = json_object_get(certificate, "toolkit");
    const char *version = json_is_string(toolkit) ? json_string_value(toolkit) : json_str(toolkit, "version", NULL);
    if (version)
        json_put_str(record, "toolkit", version);
    if (json_is_object(json_object_get(certificate, "device")))
        json_put(record, "device", json_incref(json_object_get(certificate, "device")));
}

/* triton: what the compiler said of it (figures); NULL for other languages. */
static bool resolve_plan(const struct shape *s, const json_t *candidate, const json_t *triton, struct plan *ret, struct err *err)
{
    cleanup(candidate) struct candidate c = {0};
    struct faults f = {0};
    char why[240];
    if (!candidate_parse(candidate, "", &c, &f))
        return err_set(err, ERR_INTERNAL, "a judged candidate cannot be read: %s: %s", f.list[0].pointer, f.list[0].detail);
    return (plan_resolve(&c, s, ret, why, sizeof why) && (!triton || plan_take_triton(ret, triton, why, sizeof why))) ||
           err_set(err, ERR_INTERNAL, "a judged candidate's plan does not resolve: %s", why);
}

static void put_parts(json_t *manifest, const json_t *record, const char *hash)
{
    json_t *digests = json_object(), *sizes = json_object(), *links = json_object();
    const json_t *artifacts = json_object_get(record, "artifacts");
    for (size_t i = 0; i < sizeof part_names / sizeof *part_names; i++) {
        const json_t *one = json_object_get(artifacts, part_names[i]);
        if (!one)
            continue;
        cleanup(str) char *path = xfmt("/v1/kernels/%s/%s", hash, part_names[i]);
        json_put_str(digests, part_names[i], json_str(one, "digest", ""));
        json_put_int(sizes, part_names[i], json_int(one, "bytes", 0));
        json_put_str(links, part_names[i], path);
    }
    cleanup(str) char *self = xfmt("/v1/kernels/%s", hash), *bundle = xfmt("/v1/kernels/%s/bundle.tar", hash);
    cleanup(str) char *candidate = xfmt("/v1/candidates/%s", json_str(record, "id", ""));
    cleanup(str) char *job = xfmt("/v1/jobs/%s", json_str(record, "job", ""));
    json_put_str(links, "self", self);
    json_put_str(links, "bundle.tar", bundle);
    json_put_str(links, "candidate", candidate);
    json_put_str(links, "job", job);
    json_put(manifest, "digests", digests);
    json_put(manifest, "sizes", sizes);
    json_put(manifest, "links", links);
}

static bool manifest_new(const struct shape *s, const json_t *record, const json_t *result, json_t **ret, struct err *err)
{
    const json_t *candidate = json_object_get(record, "candidate"), *figures = json_object_get(record, "figures");
    cleanup(mem) void *memory = xalloc(sizeof(struct plan));
    struct plan *plan = memory;
    cleanup(json) json_t *before = NULL;
    if (!resolve_plan(s, candidate, json_object_get(figures, "triton"), plan, err) || !plan_preconditions(plan, s, json_str(record, "toolkit", NULL), &before, err))
        return false;
    struct hash_hex hash = shape_hash(s);
    bool is_baseline = json_bool(record, "is_baseline", false);
    json_t *doc = json_object();
    json_put_str(doc, "shape_hash", hash.text);
    json_put(doc, "shape", shape_encode(s));
    json_put_str(doc, "op", s->op->name);
    json_put_int(doc, "op_version", s->op->version);
    json_put_str(doc, "target", s->target);
    json_put_str(doc, "candidate", json_str(record, "id", ""));
    json_put_str(doc, "job", json_str(record, "job", ""));
    json_put_bool(doc, "is_baseline", is_baseline);
    json_put_str(doc, "language", json_str(candidate, "language", ""));
    json_put_str(doc, "evidence", json_str(result, "evidence", ""));
    json_put_str(doc, "mode", json_str(figures, "mode", ""));
    json_put_num(doc, "time_ns", json_num(result, "time_ns", 0));
    json_put_num(doc, "baseline_time_ns", json_num(is_baseline ? result : figures, is_baseline ? "time_ns" : "baseline_ns", 0));
    json_put(doc, "speedup", json_incref(json_object_get(result, "speedup")));
    if (json_str(record, "baseline_of", NULL))
        json_put_str(doc, "baseline_of", json_str(record, "baseline_of", ""));
    json_put(doc, "plan", plan_encode(plan, s));
    if (json_object_get(record, "device"))
        json_put(doc, "device", json_incref(json_object_get(record, "device")));
    if (json_object_get(record, "toolkit"))
        json_put(doc, "toolkit", json_incref(json_object_get(record, "toolkit")));
    put_parts(doc, record, hash.text);
    json_put(doc, "preconditions", json_incref(before));
    *ret = doc;
    return true;
}

bool manifest_offer(struct jobs *j, struct shelf *shelf, const struct shape *s, const json_t *record, const json_t *result,
                    const char *instead_of, struct err *err)
{
    (void)j;
    cleanup(json) json_t *manifest = NULL;
    if (!manifest_new(s, record, result, &manifest, err))
        return false;
    shelf_offer(shelf, manifest, candidate_digest(json_object_get(record, "candidate")).text, instead_of);
    return true;
}
