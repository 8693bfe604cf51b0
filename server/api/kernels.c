/*
 * Kernels by shape hash: the manifest, and the parts of the artifact. What is best for a shape changes; so everything here is
 * answered with a strong ETag and "no-cache", and the bytes themselves lie immutable under /v1/artifacts.
 */
#include "server/api/api.h"

#include "core/clock.h"
#include "core/tar.h"

#include <string.h>

#define ANY_EVIDENCE "any"

/* X(code, file (its digest's name in the manifest too), content type) */
#define PARTS(X)                                                                                   \
    X(PART_CUBIN, "kernel.cubin", "application/octet-stream")                                      \
    X(PART_PTX, "kernel.ptx", "text/plain; charset=utf-8")                                         \
    X(PART_SOURCE, "source", "text/plain; charset=utf-8")                                          \
    X(PART_BASELINE, "baseline", "text/plain; charset=utf-8")                                      \
    X(PART_CERTIFICATE, "certificate.json", "application/json")                                    \
    X(PART_SIGNATURE, "certificate.json.minisig", "text/plain; charset=utf-8")
enum part {
#define X(code, ...) code,
    PARTS(X)
#undef X
    PART_COUNT,
    PART_BUNDLE = PART_COUNT,
    PART_ARTIFACT, PART_ARTIFACT_PRIVATE
};
static const struct { const char *file, *content_type; } parts[] = {
#define X(code, file, content_type) {file, content_type},
    PARTS(X)
#undef X
};

static const char *digest_of(const json_t *kernel, const char *name)
{
    return json_str(json_object_get(kernel, "digests"), name, NULL);
}

bool evidence_read(const struct request *req, struct response *res, const char **ret)
{
    const char *text = req->query(req, "evidence");
    *ret = NULL;
    if (!text || !strcmp(text, ANY_EVIDENCE))
        return true;
    if (strcmp(text, "measured") && strcmp(text, "emulated")) {
        respond_bad_query(req, res, "evidence", "must be measured, emulated or any");
        return false;
    }
    *ret = text;
    return true;
}

/* It was withdrawn and nothing else is there: 410 with the reason. False: it was not, or the store cannot tell. */
static bool respond_withdrawn(const struct request *req, struct response *res, const char *hash, const char *evidence)
{
    static const char *const told[] = {"candidate", "reason", "since", "evidence"};
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    const json_t *entry = shelf_open(app_of(req)->store, hash, &shelf, &err) ? shelf_withdrawn(&shelf, evidence) : NULL;
    if (!entry)
        return false;
    cleanup(buf) struct buf detail = {0};
    json_t *extra = json_object();
    buf_fmt(&detail, "the kernel of shape %.64s was withdrawn: %s", hash, json_str(entry, "reason", ""));
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (json_object_get(entry, told[i]))
            json_object_set(extra, told[i], json_object_get(entry, told[i]));
    json_put(extra, "nearest", shapes_nearest(app_of(req), hash));
    respond_problem(req, res, 410, err_name(ERR_GONE), err_title(ERR_GONE), buf_cstr(&detail), extra);
    return true;
}

static void respond_no_kernel(const struct request *req, struct response *res, const char *hash, const char *evidence)
{
    char detail[256];
    if (respond_withdrawn(req, res, hash, evidence))
        return;
    if (evidence)
        snprintf(detail, sizeof detail, "there is no kernel with evidence \"%s\" for shape %.64s", evidence, hash);
    else
        snprintf(detail, sizeof detail, "there is no kernel for shape %.64s; a job (POST /v1/jobs) finds one", hash);
    json_t *extra = json_object();
    json_put(extra, "nearest", shapes_nearest(app_of(req), hash));
    respond_problem(req, res, 404, err_name(ERR_NOT_FOUND), err_title(ERR_NOT_FOUND), detail, extra);
}

static bool hash_param(const struct request *req, struct response *res)
{
    if (hash_hex_valid(req->params[0]))
        return true;
    struct err err;
    err_set(&err, ERR_NOT_FOUND, "\"%.80s\" is no shape hash or digest: those are 64 lower-case hex digits", req->params[0]);
    respond_err(req, res, &err);
    return false;
}

/* The kernel of a shape, if its evidence is the one asked for. ERR_NOT_FOUND. */
static bool kernel_find(struct app *app, const char *hash, const char *evidence, json_t **ret, int64_t *ret_as_of, struct err *err)
{
    cleanup(json) json_t *kernel = NULL;
    if (!store_get_as_of(app->store, STORE_KERNEL, hash, &kernel, ret_as_of, err))
        return false;
    if (evidence && strcmp(json_str(kernel, "evidence", ""), evidence))
        return err_set(err, ERR_NOT_FOUND, "the kernel's evidence is \"%s\"", json_str(kernel, "evidence", ""));
    *ret = steal(&kernel);
    return true;
}

static void add_links(json_t *kernel, const char *hash)
{
    json_t *links = json_object();
    char path[200];
    snprintf(path, sizeof path, "/v1/kernels/%s", hash);
    json_put_str(links, "self", path);
    for (int i = 0; i < PART_COUNT; i++) {
        const char *digest = digest_of(kernel, parts[i].file);
        if (!digest)
            continue;
        snprintf(path, sizeof path, "/v1/kernels/%s/%s", hash, parts[i].file);
        json_put_str(links, parts[i].file, path);
    }
    snprintf(path, sizeof path, "/v1/kernels/%s/bundle.tar", hash);
    json_put_str(links, "bundle.tar", path);
    if (digest_of(kernel, "kernel.cubin")) {
        snprintf(path, sizeof path, "/v1/artifacts/%s", digest_of(kernel, "kernel.cubin"));
        json_put_str(links, "artifact", path);
    }
    json_put(kernel, "links", links);
}

bool kernel_shown(struct app *app, const char *hash, const char *evidence, json_t **ret, struct err *err)
{
    int64_t as_of;
    if (!kernel_find(app, hash, evidence, ret, &as_of, err))
        return false;
    add_links(*ret, hash);
    return true;
}

void kernels_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    const char *hash = req->params[0], *evidence;
    int64_t wait_s, as_of;
    if (!hash_param(req, res) || !evidence_read(req, res, &evidence) ||
        !request_int(req, res, "wait", 0, app->config->max_wait_s, 0, &wait_s))
        return;
    json_t *kernel = NULL;
    struct err err;
    if (kernel_find(app, hash, evidence, &kernel, &as_of, &err)) {
        add_links(kernel, hash);
        respond_json(res, 200, kernel);
        respond_etag(res, "no-cache");
        return;
    }
    int64_t until = req->started_ns + wait_s * 1000000000;
    if (err.code != ERR_NOT_FOUND)
        respond_err(req, res, &err);
    else if (wait_s && clock_mono_ns() < until)
        respond_wait(res, until);
    else
        respond_no_kernel(req, res, hash, evidence);
}

/* ---- lists ---- */
struct filter { const char *op, *target, *evidence; };

static bool kernel_matches(void *ctx, json_t *kernel)
{
    const struct filter *f = ctx;
    const json_t *shape = json_object_get(kernel, "shape");
    if ((f->op && strcmp(f->op, json_str(shape, "op", ""))) || (f->target && strcmp(f->target, json_str(shape, "target", ""))) ||
        (f->evidence && strcmp(f->evidence, json_str(kernel, "evidence", ""))))
        return false;
    const char *hash = json_str(kernel, "shape_hash", NULL);
    if (hash)
        add_links(kernel, hash);
    return true;
}

void kernels_list(const struct request *req, struct response *res)
{
    struct filter f = {req->query(req, "op"), req->query(req, "target"), NULL};
    if (!evidence_read(req, res, &f.evidence))
        return;
    cleanup(buf) struct buf filters = {.limit = 1024};
    buf_fmt(&filters, "%s\n%s\n%s", f.op ? f.op : "", f.target ? f.target : "", f.evidence ? f.evidence : "");
    page_respond(req, res, STORE_KERNEL, false, "kernels", buf_cstr(&filters), kernel_matches, &f);
}

/* ---- parts ---- */
static struct http_blob *blob_of(struct buf *take, enum part part, const char *digest)
{
    char etag[80], location[100];
    snprintf(etag, sizeof etag, "\"%s\"", digest);
    snprintf(location, sizeof location, "/v1/artifacts/%s", digest);
    if (part == PART_BUNDLE)
        return http_blob_new(take, "application/x-tar", etag, "no-cache", NULL, NULL);
    if (part == PART_ARTIFACT || part == PART_ARTIFACT_PRIVATE)
        return http_blob_new(take, "application/octet-stream", etag, part == PART_ARTIFACT ? "public, max-age=31536000, immutable" :
                             "private, max-age=31536000, immutable", NULL, NULL);
    return http_blob_new(take, parts[part].content_type, etag, "no-cache", "Content-Location", location);
}

/* Over the exact bytes that the bundle holds: the manifest has the digest of every other file of it. */
static void manifest_sign(struct app *app, const json_t *kernel, const struct buf *manifest, struct buf *to)
{
    cleanup(str) char *comment = xfmt("file:manifest.json shape:%s served_since:%s", json_str(kernel, "shape_hash", ""),
                                      json_str(kernel, "served_since", ""));
    signer_sign(app->signer, manifest->data, manifest->size, comment, to);
}

/* The bundle: what `proteus verify` reads. Its bytes depend on the kernel and the key alone. */
static bool bundle_make(struct app *app, const json_t *kernel, struct buf *to, struct err *err)
{
    for (int i = 0; i < PART_COUNT; i++) {
        const char *digest = digest_of(kernel, parts[i].file);
        cleanup(buf) struct buf bytes = {0};
        if (!digest)
            continue;
        if (!store_get_blob(app->store, digest, &bytes, err))
            return false;
        tar_add(to, parts[i].file, buf_cstr(&bytes), bytes.size, 0);
    }
    cleanup(buf) struct buf manifest = {0}, signature = {0};
    json_write_pretty(&manifest, kernel);
    manifest_sign(app, kernel, &manifest, &signature);
    tar_add(to, "manifest.json", manifest.data, manifest.size, 0);
    tar_add(to, "manifest.json.minisig", signature.data, signature.size, 0);
    tar_end(to);
    return true;
}

static bool part_load(struct app *app, const json_t *kernel, enum part part, const char *digest, struct http_blob **ret, struct err *err)
{
    cleanup(buf) struct buf bytes = {0};
    if (!(part == PART_BUNDLE ? bundle_make(app, kernel, &bytes, err) : store_get_blob(app->store, digest, &bytes, err)))
        return err_wrap(err, "the kernel's %s", part == PART_BUNDLE ? "bundle" : parts[part].file);
    *ret = blob_of(&bytes, part, digest);
    return true;
}

/* What the part's ETag says: the digest of its bytes; of a bundle, the digest of the manifest that it is made from and of the key. */
static bool part_digest(const struct app *app, const json_t *kernel, enum part part, struct hash_hex *ret)
{
    if (part == PART_BUNDLE) {
        cleanup(buf) struct buf made_from = {0};
        json_write(&made_from, kernel);
        buf_add(&made_from, app->signer->public_key, sizeof app->signer->public_key);
        *ret = hash_of(made_from.data, made_from.size);
        return true;
    }
    const char *digest = digest_of(kernel, parts[part].file);
    if (digest)
        snprintf(ret->text, sizeof ret->text, "%s", digest);
    return digest != NULL;
}

static enum part part_of(const struct request *req)
{
    const char *file = strrchr(req->route->pattern, '/') + 1;
    for (int i = 0; i < PART_COUNT; i++)
        if (!strcmp(file, parts[i].file))
            return (enum part)i;
    return PART_BUNDLE;
}

static bool is_digest_of(const struct http_blob *b, const char *digest)
{
    const char *etag = http_blob_etag(b);
    return !strncmp(etag + 1, digest, HASH_HEX_SIZE - 1);
}

static void part_from_store(const struct request *req, struct response *res, const struct cache_key *key, const char *evidence,
                            int64_t generation, struct http_blob *stale)
{
    struct app *app = app_of(req);
    enum part part = (enum part)key->part;
    cleanup(json) json_t *kernel = NULL;
    struct http_blob *b = NULL;
    struct hash_hex digest;
    struct err err;
    int64_t as_of;
    bool found = kernel_find(app, key->hash, evidence, &kernel, &as_of, &err);
    if (found && !part_digest(app, kernel, part, &digest)) {
        err_set(&err, ERR_NOT_FOUND, "this kernel has no %s", parts[part].file);
        respond_err(req, res, &err);
    } else if (found) {
        if (stale && is_digest_of(stale, digest.text))
            b = http_blob_ref(stale);
        if (b || part_load(app, kernel, part, digest.text, &b, &err)) {
            if (!evidence)
                cache_put(app->cache, key, generation, b);
            respond_blob(res, b);
        } else {
            respond_err(req, res, &err);
        }
    } else if (err.code == ERR_NOT_FOUND) {
        respond_no_kernel(req, res, key->hash, evidence);
    } else {
        respond_err(req, res, &err);
    }
}

void kernels_part(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    const char *evidence;
    if (!hash_param(req, res) || !evidence_read(req, res, &evidence))
        return;
    struct cache_key key = {.part = part_of(req)};
    memcpy(key.hash, req->params[0], HASH_HEX_SIZE);
    bool fresh = false;
    int64_t generation = store_last_event(app->store);
    struct http_blob *b = evidence ? NULL : cache_get(app->cache, &key, generation, &fresh);
    if (b && fresh) {
        respond_blob(res, b);
        return;
    }
    part_from_store(req, res, &key, evidence, generation, b);
    http_blob_free(b);
}

void artifacts_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    if (!hash_param(req, res))
        return;
    struct cache_key key = {.part = auth_is_open(app->auth) ? PART_ARTIFACT : PART_ARTIFACT_PRIVATE};
    memcpy(key.hash, req->params[0], HASH_HEX_SIZE);
    bool fresh;
    struct http_blob *b = cache_get(app->cache, &key, 0, &fresh);
    if (!b) {
        cleanup(buf) struct buf bytes = {0};
        struct err err;
        if (!store_get_blob(app->store, key.hash, &bytes, &err)) {
            respond_err(req, res, &err);
            return;
        }
        b = blob_of(&bytes, (enum part)key.part, key.hash);
        cache_put(app->cache, &key, 0, b);
    }
    respond_blob(res, b);
}
