#include "api/cli/verify.h"

#include "core/hash.h"
#include "core/minisign.h"

#include <stdlib.h>
#include <string.h>

/* Files that the certificate has a digest of, by their names. */
static const struct { const char *file, *digest; } parts[] = {
    {"kernel.cubin", "cubin"},
    {"kernel.ptx", "ptx"},
    {"source", "source"},
};
static const char *const signed_files[] = {"certificate.json", "certificate.json.minisig"};
static const char *const other_files[] = {"manifest.json"};

struct check {
    const struct bundle *bundle;
    verify_report *report;
    void *ctx;
    bool all_ok;
};

__attribute__((format(printf, 4, 5))) static bool say(struct check *c, bool ok, const char *name, const char *fmt, ...)
{
    cleanup(buf) struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&text, fmt, ap);
    va_end(ap);
    c->report(c->ctx, ok, name, buf_cstr(&text));
    c->all_ok = c->all_ok && ok;
    return ok;
}

static const struct bundle_file *find(const struct bundle *b, const char *name)
{
    for (int i = 0; i < b->count; i++)
        if (!strcmp(b->files[i].name, name))
            return &b->files[i];
    return NULL;
}

static bool known(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(name, parts[i].file))
            return true;
    for (size_t i = 0; i < sizeof signed_files / sizeof *signed_files; i++)
        if (!strcmp(name, signed_files[i]))
            return true;
    for (size_t i = 0; i < sizeof other_files / sizeof *other_files; i++)
        if (!strcmp(name, other_files[i]))
            return true;
    return false;
}

static bool check_files(struct check *c)
{
    for (size_t i = 0; i < sizeof signed_files / sizeof *signed_files; i++)
        if (!find(c->bundle, signed_files[i]))
            return say(c, false, "files", "%s is missing", signed_files[i]);
    for (int i = 0; i < c->bundle->count; i++)
        if (!known(c->bundle->files[i].name))
            return say(c, false, "files", "%s does not belong into a bundle", c->bundle->files[i].name);
    return say(c, true, "files", "%d files, all of them known", c->bundle->count);
}

static bool check_signature(struct check *c, const char *key, size_t key_size, struct buf *comment)
{
    const struct bundle_file *cert = find(c->bundle, "certificate.json"), *sig = find(c->bundle, "certificate.json.minisig");
    struct err err = {0};
    if (!minisign_verify(key, key_size, sig->data, sig->size, cert->data, cert->size, comment, &err))
        return say(c, false, "signature", "%s", err.text);
    return say(c, true, "signature", "certificate.json is signed with the key given (%s)", buf_cstr(comment));
}

static void check_digests(struct check *c, const json_t *certificate)
{
    const json_t *digests = json_object_get(certificate, "digests");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct bundle_file *f = find(c->bundle, parts[i].file);
        const char *wanted = json_str(digests, parts[i].digest, NULL);
        if (!f) {
            say(c, false, parts[i].file, "is missing");
            continue;
        }
        struct hash_hex got = hash_of(f->data, f->size);
        if (!wanted)
            say(c, false, parts[i].file, "the certificate has no digest for it");
        else
            say(c, !strcmp(got.text, wanted), parts[i].file, "%s",
                !strcmp(got.text, wanted) ? got.text : "is not what was judged: its digest differs from the certificate's");
    }
}

/* ---- shape ---- */
#define AXES_MAX 24
#define UNKEYED_MAX 4

struct axis { const char *name; long long value; };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct axis *)a)->name, ((const struct axis *)b)->name);
}

/* A name or value of a line: what could end the line or look like another one is not of the form. */
static bool plain(const char *text)
{
    return *text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(text);
}

/* The members of a JSON object, sorted; -1 if it is not of the documented form. */
static int read_axes(const json_t *object, struct axis ret[AXES_MAX])
{
    const char *name;
    json_t *value;
    int count = 0;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (count == AXES_MAX || !plain(name) || !json_is_integer(value))
            return -1;
        ret[count++] = (struct axis){name, json_integer_value(value)};
    }
    qsort(ret, (size_t)count, sizeof *ret, by_name);
    return count;
}

static bool read_dtypes(const json_t *object, struct buf *to)
{
    struct axis letters[AXES_MAX];
    const char *name;
    json_t *value;
    int count = 0;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        if (count == AXES_MAX || !plain(name) || !json_is_string(value) || !plain(json_string_value(value)))
            return false;
        letters[count++] = (struct axis){name, 0};
    }
    qsort(letters, (size_t)count, sizeof *letters, by_name);
    for (int i = 0; i < count; i++)
        buf_fmt(to, "dtype.%s=%s\n", letters[i].name, json_str(object, letters[i].name, ""));
    return true;
}

/*
 * Whether the hash is that of the shape. Which axes are keyed is written in the operator's op.json, which is not here; but only the
 * right choice gives the hash, so all choices with few axes left out are tried. *ret_unkeyed names those left out.
 */
static bool shape_has_hash(const json_t *certificate, const char *hash, struct buf *ret_unkeyed)
{
    const json_t *shape = json_object_get(certificate, "shape");
    const char *op = json_str(shape, "op", ""), *target = json_str(shape, "target", "");
    struct axis axes[AXES_MAX];
    int count = read_axes(json_object_get(shape, "axes"), axes);
    cleanup(buf) struct buf head = {0}, tail = {0}, text = {0};
    buf_fmt(&head, "proteus-shape-v1\nop=%s@%lld\n", op, (long long)json_int(certificate, "op_version", 0));
    if (count < 0 || !plain(op) || !plain(target) || !read_dtypes(json_object_get(shape, "dtypes"), &tail))
        return false;
    buf_fmt(&tail, "target=%s\n", target);
    for (uint32_t left_out = 0; left_out < (uint32_t)1 << count; left_out++) {
        if (__builtin_popcount(left_out) > UNKEYED_MAX)
            continue;
        buf_clear(&text);
        buf_str(&text, buf_cstr(&head));
        for (int i = 0; i < count; i++)
            if (!(left_out >> i & 1))
                buf_fmt(&text, "axis.%s=%lld\n", axes[i].name, axes[i].value);
        buf_str(&text, buf_cstr(&tail));
        if (strcmp(hash_of(text.data, text.size).text, hash) != 0)
            continue;
        for (int i = 0; i < count; i++)
            if (left_out >> i & 1)
                buf_fmt(ret_unkeyed, "%s%s", ret_unkeyed->size ? ", " : "", axes[i].name);
        return true;
    }
    return false;
}

static void check_shape(struct check *c, const json_t *certificate, const char *wanted_hash)
{
    const char *hash = json_str(certificate, "shape_hash", "");
    cleanup(buf) struct buf unkeyed = {0};
    if (!shape_has_hash(certificate, hash, &unkeyed))
        say(c, false, "shape", "the shape hash is not the hash of the certificate's shape");
    else
        say(c, true, "shape", "%s%s%s%s", hash, unkeyed.size ? " (any " : "", buf_cstr(&unkeyed), unkeyed.size ? ")" : "");
    if (wanted_hash && strcmp(wanted_hash, hash) != 0)
        say(c, false, "asked for", "this kernel is for shape %s", hash);
    else if (wanted_hash)
        say(c, true, "asked for", "it is the shape that was asked for");
}

/* The manifest is not signed: what a loader would take from it must be what the certificate says. */
static void check_manifest(struct check *c, const json_t *certificate)
{
    static const char *const keys[] = {"shape_hash", "shape", "evidence", "mode", "plan", "preconditions", "speedup", "time_ns"};
    const struct bundle_file *f = find(c->bundle, "manifest.json");
    cleanup(json) json_t *manifest = NULL;
    struct err err = {0};
    if (!f)
        return;
    if (!json_parse(f->data, f->size, &manifest, &err)) {
        say(c, false, "manifest.json", "%s", err.text);
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(manifest, keys[i]), json_object_get(certificate, keys[i]))) {
            say(c, false, "manifest.json", "its \"%s\" is not the certificate's", keys[i]);
            return;
        }
    const char *name;
    json_t *digest;
    json_object_foreach(json_object_get(manifest, "digests"), name, digest) {
        const struct bundle_file *part = find(c->bundle, name);
        if (!part || !json_is_string(digest) || strcmp(hash_of(part->data, part->size).text, json_string_value(digest)) != 0) {
            say(c, false, "manifest.json", "its digest of %.40s is not that of the file", name);
            return;
        }
    }
    say(c, true, "manifest.json", "shape, plan, preconditions, evidence, figures and digests are the certificate's (the rest of it is not signed)");
}

bool verify_bundle(const struct bundle *b, const char *key, size_t key_size, const char *wanted_hash, verify_report *report, void *ctx,
                   json_t **ret_certificate)
{
    struct check c = {b, report, ctx, true};
    cleanup(buf) struct buf comment = {0};
    cleanup(json) json_t *certificate = NULL;
    struct err err = {0};
    if (!check_files(&c) || !check_signature(&c, key, key_size, &comment))
        return false;
    const struct bundle_file *f = find(b, "certificate.json");
    if (!json_parse(f->data, f->size, &certificate, &err))
        return say(&c, false, "certificate", "%s", err.text);
    check_digests(&c, certificate);
    check_shape(&c, certificate, wanted_hash);
    check_manifest(&c, certificate);
    if (c.all_ok && ret_certificate)
        *ret_certificate = json_incref(certificate);
    return c.all_ok;
}
