/* Kernels as they are served: parts and their immutable twins, validators, the bundle, the next best, neighbours, waiting. */
#include "tests/test_api_ask.h"

#include "core/tar.h"

#include <pthread.h>

static json_t *shape_of(int n, char hash[HASH_HEX_SIZE])
{
    char body[100];
    int status;
    snprintf(body, sizeof body, "{\"op\":\"scale\",\"axes\":{\"N\":%d}}", n);
    cleanup(json) json_t *doc = ask_json("POST", "/v1/shape-hash", JSON_TYPE, body, &status);
    snprintf(hash, HASH_HEX_SIZE, "%s", json_str(doc, "shape_hash", ""));
    return json_incref(json_object_get(doc, "shape"));
}

static void *put_kernel_soon(void *arg)
{
    clock_sleep_ns(200000000);
    cleanup(json) json_t *none = NULL;
    fake_kernel(service.app.store, arg, none, "emulated", "cubin two");
    return NULL;
}

static void kernels_are_served_with_validators(void)
{
    char hash[HASH_HEX_SIZE], other[HASH_HEX_SIZE], path[200], etag[100], value[200], extra[200];
    cleanup(json) json_t *shape = shape_of(64, hash), *near = shape_of(128, other);
    check(fake_kernel(service.app.store, hash, shape, "emulated", "cubin one"));
    snprintf(path, sizeof path, "/v1/kernels/%s", hash);
    check_int(get(path), 200);
    check_str(field("evidence"), "emulated");
    check_str(answer_header(&answer, "Cache-Control", value, sizeof value), "no-cache");
    answer_header(&answer, "ETag", etag, sizeof etag);
    snprintf(extra, sizeof extra, "If-None-Match: %s\r\n", etag);
    check_int(ask(service.address, "GET", path, extra, NULL, &answer), 304);
    check_int(ask(service.address, "HEAD", path, NULL, NULL, &answer), 200);
    check_int(answer.body.size, 0);
    snprintf(path, sizeof path, "/v1/kernels/%s?evidence=measured", hash);
    check_int(get(path), 404);
    /* parts, and their immutable twins */
    static const char *const parts[] = {"kernel.cubin", "kernel.ptx", "source", "certificate.json", "certificate.json.minisig"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "/v1/kernels/%s/%s", hash, parts[i]);
        check_int(get(path), 200);
        cleanup(buf) struct buf first = {0};
        buf_add(&first, buf_cstr(&answer.body), answer.body.size);
        char digest[100];
        snprintf(digest, sizeof digest, "\"%s\"", hash_of(first.data, first.size).text);
        check_str(answer_header(&answer, "ETag", etag, sizeof etag), digest);
        answer_header(&answer, "Content-Location", value, sizeof value);
        check_int(get(path), 200);                       /* now from memory */
        check_str(buf_cstr(&answer.body), buf_cstr(&first));
        snprintf(extra, sizeof extra, "If-None-Match: %s\r\n", etag);
        check_int(ask(service.address, "GET", path, extra, NULL, &answer), 304);
        check_int(ask(service.address, "HEAD", path, NULL, NULL, &answer), 200);
        check_int(get(value), 200);
        check_str(buf_cstr(&answer.body), buf_cstr(&first));
        check_str(answer_header(&answer, "Cache-Control", value, sizeof value), "public, max-age=31536000, immutable");
        snprintf(path, sizeof path, "/v1/kernels/%s/%s?evidence=measured", hash, parts[i]);
        check_int(get(path), 404);
    }
    snprintf(path, sizeof path, "/v1/kernels/%s/bundle.tar", hash);
    check_int(get(path), 200);
    struct tar_entry entries[16];
    int count = 0;
    struct err err;
    check(tar_parse(buf_cstr(&answer.body), answer.body.size, entries, 16, &count, &err));
    check_int(count, 7);
    cleanup(buf) struct buf key = {0}, comment = {0};
    signer_public_file(&service.signer, &key);
    check_str(entries[5].name, "manifest.json");
    check_str(entries[6].name, "manifest.json.minisig");
    check(minisign_verify(key.data, key.size, entries[6].data, entries[6].size, entries[5].data, entries[5].size, &comment, &err));
    check(strstr(buf_cstr(&comment), "file:manifest.json ") && strstr(buf_cstr(&comment), hash));
    /* the next best replaces it at once, in every cache */
    snprintf(path, sizeof path, "/v1/kernels/%s/kernel.cubin", hash);
    check(fake_kernel(service.app.store, hash, shape, "measured", "cubin better"));
    check_int(get(path), 200);
    check_str(buf_cstr(&answer.body), "cubin better");
    check(fake_event(service.app.store, NULL, "device.health", 1));      /* news of something else changes nothing */
    check_int(get(path), 200);
    check_str(buf_cstr(&answer.body), "cubin better");
    snprintf(path, sizeof path, "/v1/kernels/%s?evidence=measured", hash);
    check_int(get(path), 200);
    check_int(get("/v1/kernels?op=scale&target=sm_90a&evidence=measured"), 200);
    check(strstr(buf_cstr(&answer.body), hash));
    check_int(get("/v1/kernels?op=other"), 200);
    check(!strstr(buf_cstr(&answer.body), hash));
    /* a neighbour is named */
    snprintf(path, sizeof path, "/v1/kernels/%s", other);
    check_int(get(path), 404);
    check(strstr(buf_cstr(&answer.body), "\"nearest\":[{") && strstr(buf_cstr(&answer.body), hash));
    /* and waited for */
    pthread_t thread;
    int64_t from = clock_mono_ns();
    pthread_create(&thread, NULL, put_kernel_soon, other);
    snprintf(path, sizeof path, "/v1/kernels/%s?wait=10", other);
    check_int(get(path), 200);
    check(clock_mono_ns() - from < 3000000000);
    pthread_join(thread, NULL);
    snprintf(path, sizeof path, "/v1/kernels/%s?wait=1&evidence=measured", other);
    from = clock_mono_ns();
    check_int(get(path), 404);
    check(clock_mono_ns() - from >= 990000000);
}

int main(void)
{
    service_make();
    service_up(1, no_flags);
    kernels_are_served_with_validators();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}
