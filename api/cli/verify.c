#include "api/cli/verify.h"

#include "core/hash.h"
#include "core/minisign.h"

#include <string.h>

/* Files that the certificate has a digest of, by their names. */
static const struct { const char *file, *digest; } parts[] = {
    {"kernel.cubin", "cubin"},
    {"kernel.ptx", "ptx"},
    {"source", "source"},
};
static const char *const signed_files[] = {"certificate.json", "certificate.json.minisig"};
/* Unsigned and of no weight: what it says is in the certificate too. */
static const char *const ignored_files[] = {"manifest.json", "bundle.tar"};

struct check {
    const struct bundle *bundle;
    verify_report *report;
    void *ctx;
    bool all_ok;
};

static bool say(struct check *c, bool ok, const char *name, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static bool say(struct check *c, bool ok, const char *name, const char *fmt, ...)
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
    for (size_t i = 0; i < sizeof ignored_files / sizeof *ignored_files; i++)
        if (!strcmp(name, ignored_files[i]))
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
            say(c, !strcmp(got.text, wanted), parts[i].file, "%s", !strcmp(got.text, wanted) ? got.text : "is not what was judged: its digest differs from the certificate's");
    }
}

/* The value that the canonical text gives to "KIND.NAME", as text; false if it has none. */
static bool canonical_value(const char *canonical, const char *kind, const char *name, struct buf *ret)
{
    cleanup(str) char *start = xfmt("\n%s%s=", kind, name);
    const char *line = strstr(canonical, start);
    if (!line)
        return false;
    line += strlen(start);
    buf_add(ret, line, strcspn(line, "\n"));
    return true;
}

/* Every line of the canonical text says what the shape beside it says. Axes that are not keyed are not in the text. */
static bool canonical_fits(const char *canonical, const json_t *shape)
{
    const char *name, *op = json_str(shape, "op", "");
    json_t *value;
    int lines = 0, used = 3;   /* version, op, target */
    for (const char *p = canonical; *p; p++)
        lines += *p == '\n';
    cleanup(buf) struct buf op_line = {0}, target = {0};
    if (strncmp(canonical, "proteus-shape-v1\n", 17) != 0 || !canonical_value(canonical, "op", "", &op_line) ||
        strncmp(buf_cstr(&op_line), op, strlen(op)) != 0 || buf_cstr(&op_line)[strlen(op)] != '@' ||
        !canonical_value(canonical, "target", "", &target) || strcmp(buf_cstr(&target), json_str(shape, "target", "")) != 0)
        return false;
    json_object_foreach(json_object_get(shape, "axes"), name, value) {
        cleanup(buf) struct buf got = {0};
        cleanup(str) char *want = xfmt("%lld", (long long)json_integer_value(value));
        if (!canonical_value(canonical, "axis.", name, &got))
            continue;
        used++;
        if (strcmp(buf_cstr(&got), want) != 0)
            return false;
    }
    json_object_foreach(json_object_get(shape, "dtypes"), name, value) {
        cleanup(buf) struct buf got = {0};
        used++;
        if (!json_is_string(value) || !canonical_value(canonical, "dtype.", name, &got) ||
            strcmp(buf_cstr(&got), json_string_value(value)) != 0)
            return false;
    }
    return used == lines;
}

static void check_shape(struct check *c, const json_t *certificate, const char *wanted_hash)
{
    const char *hash = json_str(certificate, "shape_hash", ""), *canonical = json_str(certificate, "canonical", NULL);
    const json_t *shape = json_object_get(certificate, "shape");
    if (!canonical)
        say(c, false, "shape", "the certificate does not hold the text that its shape hash is of");
    else if (strcmp(hash_of(canonical, strlen(canonical)).text, hash) != 0)
        say(c, false, "shape", "the shape hash is not the hash of the certificate's shape");
    else if (!canonical_fits(canonical, shape))
        say(c, false, "shape", "the certificate's shape and the text that is hashed differ");
    else
        say(c, true, "shape", "%s", hash);
    if (wanted_hash && strcmp(wanted_hash, hash) != 0)
        say(c, false, "asked for", "this kernel is for shape %s", hash);
    else if (wanted_hash)
        say(c, true, "asked for", "it is the shape that was asked for");
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
    if (c.all_ok && ret_certificate)
        *ret_certificate = json_incref(certificate);
    return c.all_ok;
}
