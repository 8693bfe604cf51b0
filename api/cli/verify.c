#include "api/cli/verify.h"

#include "core/candidate.h"
#include "core/certificate.h"
#include "core/hash.h"
#include "core/minisign.h"

#include <stdlib.h>
#include <string.h>

/* Files that the certificate has a digest of, by their names. */
static const struct { const char *file, *digest; } parts[] = {
    {"kernel.cubin", "cubin"},
    {"kernel.ptx", "ptx"},
    {"source", "source"},
    {"baseline", "baseline_source"},    /* none where it was compared with none */
};
/* In the order in which they stand; a bundle may lack parts of the kernel, never one of the last four. */
static const struct { const char *file; bool needed; } order[] = {
    {"kernel.cubin", false}, {"kernel.ptx", false}, {"source", false}, {"baseline", false},
    {"certificate.json", true}, {"certificate.json.minisig", true}, {"manifest.json", true}, {"manifest.json.minisig", true}};
static const struct { const char *file, *signature; } signed_files[] = {
    {"certificate.json", "certificate.json.minisig"}, {"manifest.json", "manifest.json.minisig"}};

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
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (!strcmp(name, order[i].file))
            return true;
    return false;
}

bool bundle_parse(const char *archive, size_t size, struct tar_entry *entries, struct bundle *ret, struct err *err)
{
    struct bundle b = {.archive = archive, .archive_size = size};
    if (!tar_parse(archive, size, entries, BUNDLE_MAX_FILES, &b.count, err))
        return false;
    for (int i = 0; i < b.count; i++)
        b.files[i] = (struct bundle_file){entries[i].name, entries[i].data, entries[i].size};
    *ret = b;
    return true;
}

void bundle_archive(const struct bundle *b, struct buf *to)
{
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct bundle_file *f = find(b, order[i].file);
        if (f)
            tar_add(to, f->name, f->data, f->size, 0);
    }
    tar_end(to);
}

static bool check_files(struct check *c)
{
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i].needed && !find(c->bundle, order[i].file))
            return say(c, false, "files", "%s is missing", order[i].file);
    for (int i = 0; i < c->bundle->count; i++)
        if (!known(c->bundle->files[i].name))
            return say(c, false, "files", "%s does not belong into a bundle", c->bundle->files[i].name);
    return say(c, true, "files", "%d files, all of them known", c->bundle->count);
}

/* Headers, order, padding: what no signature covers is as a service lays it, byte by byte. */
static bool check_archive(struct check *c)
{
    cleanup(buf) struct buf laid = {0};
    if (!c->bundle->archive)
        return true;
    bundle_archive(c->bundle, &laid);
    bool same = laid.size == c->bundle->archive_size && !memcmp(laid.data, c->bundle->archive, laid.size);
    return say(c, same, "archive", "%s", same ? "laid out as a service lays it"
               : c->bundle->beside ? "bundle.tar does not hold the files beside it: one of them was changed, or it was"
                                              : "it is not laid out as a service lays it: a header, the order or the padding was changed");
}

/* A signature's own comment and line ends are signed by nothing: they are as the service writes them. */
static bool signature_plain(const struct bundle_file *f)
{
    static const char head[] = "untrusted comment: signature from proteus\n";
    int lines = 0;
    for (size_t i = 0; i < f->size; i++)
        lines += f->data[i] == '\n';
    return f->size > sizeof head && !memcmp(f->data, head, sizeof head - 1) && !memchr(f->data, '\r', f->size) && lines == 4 &&
           f->data[f->size - 1] == '\n';
}

/* By any of the keys in the text: keys rotate with overlap. The error is of the last one, or says how many there were. */
static bool signed_by_one(const char *keys, size_t keys_size, const struct bundle_file *sig, const struct bundle_file *data, struct buf *comment,
                          struct err *err)
{
    int tried = 0;
    for (size_t at = 0; at < keys_size;) {
        const char *line = keys + at, *end = memchr(line, '\n', keys_size - at);
        size_t size = end ? (size_t)(end - line) : keys_size - at;
        at += size + 1;
        bool comment_line = size >= 18 && !memcmp(line, "untrusted comment:", 18), blank = size == 0 || (size == 1 && *line == '\r');
        if (comment_line || blank)
            continue;
        if (++tried > VERIFY_MAX_KEYS)
            return err_set(err, ERR_INVALID, "more than %d keys", VERIFY_MAX_KEYS);
        if (minisign_verify(line, size, sig->data, sig->size, data->data, data->size, comment, err))
            return true;
    }
    if (!tried)
        return err_set(err, ERR_INVALID, "the public key is empty");
    return tried == 1 ? false : err_wrap(err, "by none of the %d keys given", tried);
}

static bool check_signature(struct check *c, const char *key, size_t key_size)
{
    for (size_t i = 0; i < sizeof signed_files / sizeof *signed_files; i++) {
        const struct bundle_file *f = find(c->bundle, signed_files[i].file), *sig = find(c->bundle, signed_files[i].signature);
        cleanup(buf) struct buf comment = {0}, wanted = {0};
        struct err err = {0};
        if (!signed_by_one(key, key_size, sig, f, &comment, &err))
            return say(c, false, "signature", "%s: %s", f->name, err.text);
        buf_fmt(&wanted, "file:%s", f->name);
        if (!signature_plain(sig))
            return say(c, false, "signature", "%s is not as a service writes it: its comment or a line end was changed", sig->name);
        const char *named = strstr(buf_cstr(&comment), buf_cstr(&wanted));
        if (!named || (named[wanted.size] && named[wanted.size] != ' '))
            return say(c, false, "signature", "%s: it was made for another file (%s)", f->name, buf_cstr(&comment));
        say(c, true, "signature", "%s is signed with %s (%s)", f->name, "the key given", buf_cstr(&comment));
    }
    return true;
}

static void check_digests(struct check *c, const json_t *certificate)
{
    const json_t *digests = json_object_get(certificate, "digests");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct bundle_file *f = find(c->bundle, parts[i].file);
        const char *wanted = json_str(digests, parts[i].digest, NULL);
        if (!f && !wanted && !strcmp(parts[i].file, "baseline"))
            continue;
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

/* All that the contract lists is in it, and its retest was in other processes with other seeds. */
static void check_certificate(struct check *c, const json_t *certificate)
{
    struct err err = {0};
    if (certificate_check(certificate, &err))
        say(c, true, "certificate", "all %d items that one of its kind must hold are there%s", certificate_items(certificate),
            certificate_phase(certificate, "retest") ? "; its retest used no process and no seed twice" : "");
    else
        say(c, false, "certificate", "%s", err.text);
}

/* A program of the certificate with the source beside it; NULL: there is none, or it's no text. */
static json_t *program_with(const json_t *program, const struct bundle_file *source)
{
    json_t *text = source ? json_stringn(source->data, source->size) : NULL, *doc = json_is_object(program) && text ? json_copy((json_t *)(uintptr_t)program) : NULL;
    if (doc)
        json_object_set(doc, "source", text);
    json_decref(text);
    return doc;
}

/* What was judged is this source with the plan, defines and options that the certificate holds. */
static void check_program(struct check *c, const json_t *certificate)
{
    const struct bundle_file *source = find(c->bundle, "source");
    cleanup(json) json_t *candidate = program_with(json_object_get(certificate, "program"), source);
    if (!source)
        return;         /* said already */
    const char *wanted = json_str(json_object_get(certificate, "digests"), "candidate", "");
    bool same = candidate && !strcmp(candidate_digest(candidate).text, wanted);
    say(c, same, "program", "source, plan, defines and options are %sthose that were judged", same ? "" : "not ");
}

/* What it was compared with is this source with the plan that the certificate holds; and whose it is, said aloud. */
static void check_baseline(struct check *c, const json_t *certificate)
{
    const struct bundle_file *source = find(c->bundle, "baseline");
    const char *of = certificate_baseline_of(certificate), *wanted = json_str(json_object_get(certificate, "digests"), "baseline", "");
    cleanup(json) json_t *candidate = program_with(json_object_get(json_object_get(certificate, "baseline"), "program"), source);
    if (!source)
        return;         /* compared with none, or said already */
    if (!candidate || strcmp(candidate_digest(candidate).text, wanted) != 0)
        say(c, false, "compared with", "the baseline's source and plan are not those that it was compared with");
    else
        say(c, true, "compared with", !strcmp(of, CERTIFICATE_OPERATORS) ? "the operator's own baseline, whose source and plan are here"
                                      : "a baseline that is NOT the operator's: the speed-up is over that one alone (source and plan are here)");
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

/* The manifest has a signature of its own: what a loader would take from it must still be what the certificate says. */
static void check_manifest(struct check *c, const json_t *certificate)
{
    static const char *const keys[] = {"shape_hash", "shape", "evidence", "mode", "plan", "preconditions", "speedup", "time_ns"};
    const struct bundle_file *f = find(c->bundle, "manifest.json");
    cleanup(json) json_t *manifest = NULL;
    struct err err = {0};
    if (!json_parse(f->data, f->size, &manifest, &err)) {
        say(c, false, "manifest.json", "%s", err.text);
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(manifest, keys[i]), json_object_get(certificate, keys[i]))) {
            say(c, false, "manifest.json", "its \"%s\" is not the certificate's", keys[i]);
            return;
        }
    if (strcmp(json_str(manifest, "baseline_of", ""), certificate_baseline_of(certificate)) != 0) {
        say(c, false, "manifest.json", "whose baseline it was compared with is not what the certificate says");
        return;
    }
    const char *name;
    json_t *digest;
    json_t *digests = json_object_get(manifest, "digests");
    for (int i = 0; i < c->bundle->count; i++)
        if (strncmp(c->bundle->files[i].name, "manifest.", 9) != 0 && !json_object_get(digests, c->bundle->files[i].name)) {
            say(c, false, "manifest.json", "it has no digest of %s", c->bundle->files[i].name);
            return;
        }
    json_object_foreach(digests, name, digest) {
        const struct bundle_file *part = find(c->bundle, name);
        if (!part || !json_is_string(digest) || strcmp(hash_of(part->data, part->size).text, json_string_value(digest)) != 0) {
            say(c, false, "manifest.json", "its digest of %.40s is not that of the file", name);
            return;
        }
    }
    say(c, true, "manifest.json", "shape, plan, preconditions, evidence, figures and digests are the certificate's");
}

bool verify_bundle(const struct bundle *b, const char *key, size_t key_size, const char *wanted_hash, verify_report *report, void *ctx,
                   json_t **ret_certificate)
{
    struct check c = {b, report, ctx, true};
    cleanup(json) json_t *certificate = NULL;
    struct err err = {0};
    if (!check_files(&c) || !check_archive(&c) || !check_signature(&c, key, key_size))
        return false;
    const struct bundle_file *f = find(b, "certificate.json");
    if (!json_parse(f->data, f->size, &certificate, &err))
        return say(&c, false, "certificate", "%s", err.text);
    check_digests(&c, certificate);
    check_certificate(&c, certificate);
    check_program(&c, certificate);
    check_baseline(&c, certificate);
    check_shape(&c, certificate, wanted_hash);
    check_manifest(&c, certificate);
    if (c.all_ok && ret_certificate)
        *ret_certificate = json_incref(certificate);
    return c.all_ok;
}
