/*
 * Bundles: what `proteus verify` accepts and refuses. Above all that no byte can be changed and not be found: every byte of a small
 * bundle is flipped, it is cut everywhere, its members are doubled, exchanged, renamed and added to.
 */
#include "api/cli/verify.h"
#include "core/candidate.h"
#include "core/certificate.h"
#include "core/hash.h"
#include "core/minisign.h"
#include "tests/test.h"

#include <sys/wait.h>

#define CANONICAL "proteus-shape-v1\nop=scale@1\naxis.N=64\ndtype.io=bf16\ntarget=sm_90a\n"

struct fixture {
    struct signer signer;
    struct buf key, certificate, signature, manifest, manifest_signature;
    struct bundle bundle;
    char failed[64];           /* the first check that failed */
    int reports;
    char compared[200];
};

/* What of the certificate the manifest repeats, and the digests of the files beside it. */
static void manifest_sign(struct fixture *f, const json_t *manifest)
{
    buf_clear(&f->manifest);
    buf_clear(&f->manifest_signature);
    json_write_pretty(&f->manifest, manifest);
    signer_sign(&f->signer, f->manifest.data, f->manifest.size, "file:manifest.json shape:x", &f->manifest_signature);
    f->bundle.count = 8;
    f->bundle.files[6] = (struct bundle_file){"manifest.json", f->manifest.data, f->manifest.size};
    f->bundle.files[7] = (struct bundle_file){"manifest.json.minisig", f->manifest_signature.data, f->manifest_signature.size};
}

static json_t *manifest_make(const struct fixture *f, const json_t *c)
{
    static const char *const repeated[] = {"shape_hash", "shape", "evidence", "mode", "plan", "preconditions", "speedup", "time_ns"};
    json_t *m = json_object(), *digests = json_object();
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        json_object_set(m, repeated[i], json_object_get(c, repeated[i]));
    json_put_str(m, "baseline_of", certificate_baseline_of(c));
    for (int i = 0; i < 6; i++)
        json_put_str(digests, f->bundle.files[i].name, hash_of(f->bundle.files[i].data, f->bundle.files[i].size).text);
    json_put(m, "digests", digests);
    json_put_str(m, "served_since", "2026-01-01T00:00:00.000Z");
    return m;
}

static void fixture_sign_certificate(struct fixture *f, const json_t *c)
{
    buf_clear(&f->certificate);
    buf_clear(&f->signature);
    json_write(&f->certificate, c);
    signer_sign(&f->signer, f->certificate.data, f->certificate.size, "file:certificate.json", &f->signature);
    f->bundle = (struct bundle){.count = 6, .files = {{"kernel.cubin", "cubin", 5}, {"kernel.ptx", "ptx", 3}, {"source", "source", 6}, {"baseline", "baseline", 8},
        {"certificate.json", f->certificate.data, f->certificate.size}, {"certificate.json.minisig", f->signature.data, f->signature.size}}};
    cleanup(json) json_t *manifest = manifest_make(f, c);
    manifest_sign(f, manifest);
}

static void fixture_sign(struct fixture *f, const char *canonical, int64_t n)
{
    struct err err = {0};
    cleanup(json) json_t *c = NULL, *program = NULL, *compared = NULL, *shape = json_object(), *axes = json_object(), *dtypes = json_object(), *digests = json_object();
    check(json_parse_file(TEST_DATA "/certificate.json", 1 << 20, &c, &err));       /* of a real judgement */
    json_put_int(axes, "N", n);
    json_put_int(axes, "rows", 7);      /* not keyed: in the shape, not in the text */
    json_put_str(dtypes, "io", "bf16");
    json_put_str(shape, "op", "scale");
    json_put(shape, "axes", json_incref(axes));
    json_put(shape, "dtypes", json_incref(dtypes));
    json_put_str(shape, "target", "sm_90a");
    json_object_update(digests, json_object_get(c, "digests"));
    compared = json_deep_copy(json_object_get(json_object_get(c, "baseline"), "program"));
    json_put_str(compared, "source", "baseline");
    json_put_str(digests, "baseline", candidate_digest(compared).text);
    json_put_str(digests, "baseline_source", hash_of("baseline", 8).text);
    program = json_deep_copy(json_object_get(c, "program"));
    json_put_str(program, "source", "source");
    json_put_str(digests, "candidate", candidate_digest(program).text);
    json_put_str(digests, "cubin", hash_of("cubin", 5).text);
    json_put_str(digests, "ptx", hash_of("ptx", 3).text);
    json_put_str(digests, "source", hash_of("source", 6).text);
    json_put(c, "shape", json_incref(shape));
    json_put_str(c, "shape_hash", hash_of(canonical, strlen(canonical)).text);
    json_put_int(c, "op_version", 1);
    json_put_str(c, "evidence", "emulated");
    json_put_str(c, "mode", "estimate");
    json_put_num(c, "time_ns", 2000);
    json_put(c, "digests", json_incref(digests));
    fixture_sign_certificate(f, c);
}

static void on_check(void *ctx, bool ok, const char *check, const char *text)
{
    struct fixture *f = ctx;
    f->reports++;
    if (!strcmp(check, "compared with"))
        snprintf(f->compared, sizeof f->compared, "%s", text);
    if (!ok && !*f->failed)
        snprintf(f->failed, sizeof f->failed, "%s: %.40s", check, text);
}

/* Verifies; the check that fails first must be `want` (NULL: none). */
static void verify(struct fixture *f, const char *wanted_hash, const char *want, int line)
{
    *f->failed = 0;
    f->reports = 0;
    json_t *certificate = NULL;
    bool ok = verify_bundle(&f->bundle, f->key.data, f->key.size, wanted_hash, on_check, f, &certificate);
    bool as_wanted = want ? !ok && !certificate && !strncmp(f->failed, want, strlen(want)) : ok && certificate && !*f->failed;
    if (!as_wanted)
        fprintf(stderr, "line %d: failed is \"%s\", wanted \"%s\"\n", line, f->failed, want ? want : "");
    check(as_wanted && f->reports > 0);
    json_decref(certificate);
}

static void test_bundle(void)
{
    struct fixture f = {0};
    struct signer other = {0};
    char dir[] = "/tmp/proteus-cli-XXXXXX";
    check(mkdtemp(dir) != NULL);
    cleanup(str) char *dir2 = xfmt("%s/other", dir), *remove = xfmt("rm -rf %s", dir);
    struct err err = {0};
    check(dir_make(dir2, 0700, &err) && signer_open(dir, &f.signer, &err) && signer_open(dir2, &other, &err));
    signer_public_file(&f.signer, &f.key);
    struct hash_hex right = hash_of(CANONICAL, strlen(CANONICAL));

    fixture_sign(&f, CANONICAL, 64);
    verify(&f, NULL, NULL, __LINE__);
    verify(&f, right.text, NULL, __LINE__);
    verify(&f, hash_of("x", 1).text, "asked for", __LINE__);

    /* one part is another one; is missing; is one too many */
    for (int i = 0; i < 4; i++) {
        fixture_sign(&f, CANONICAL, 64);
        f.bundle.files[i].size--;
        verify(&f, NULL, f.bundle.files[i].name, __LINE__);
        fixture_sign(&f, CANONICAL, 64);
        const char *name = f.bundle.files[i].name;
        f.bundle.files[i] = f.bundle.files[--f.bundle.count];   /* the last goes into its place: no archive, no order */
        verify(&f, NULL, name, __LINE__);
    }
    fixture_sign(&f, CANONICAL, 64);
    f.bundle.files[f.bundle.count++] = (struct bundle_file){"run-me.sh", "x", 1};
    verify(&f, NULL, "files", __LINE__);
    for (int less = 1; less <= 3; less++) {     /* without the manifest's signature, without manifest, ... */
        fixture_sign(&f, CANONICAL, 64);
        f.bundle.count -= less;
        verify(&f, NULL, "files", __LINE__);
    }

    /* a changed certificate, another key, a certificate that is no JSON */
    fixture_sign(&f, CANONICAL, 64);
    f.certificate.data[2] ^= 1;
    verify(&f, NULL, "signature", __LINE__);
    fixture_sign(&f, CANONICAL, 64);
    cleanup(buf) struct buf foreign = {0}, junk = {0};
    signer_sign(&other, f.certificate.data, f.certificate.size, "file:certificate.json", &foreign);
    f.bundle.files[5].data = foreign.data;
    f.bundle.files[5].size = foreign.size;
    verify(&f, NULL, "signature: certificate.json: signed with", __LINE__);
    fixture_sign(&f, CANONICAL, 64);
    signer_sign(&f.signer, "nonsense", 8, "file:certificate.json", &junk);
    f.bundle.files[4] = (struct bundle_file){"certificate.json", "nonsense", 8};
    f.bundle.files[5] = (struct bundle_file){"certificate.json.minisig", junk.data, junk.size};
    verify(&f, NULL, "certificate", __LINE__);

    /* signed, but an item is missing; or the program is another one than its digest says */
    static const struct { const char *key, *in, *want; } less[] = {{"times", NULL, "certificate: times"}, {"phases", NULL, "certificate: "},
                                                                   {"uuid", "device", NULL}, {"op", "digests", "certificate: digests/op"},
                                                                   {"defines", "program", "program: source, plan"},
                                                                   {"baseline_source", "digests", "baseline: the certificate has no digest"},
                                                                   {"of", "baseline", "certificate: baseline/of"}};
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        cleanup(json) json_t *c = NULL;
        fixture_sign(&f, CANONICAL, 64);
        check(json_parse(f.certificate.data, f.certificate.size, &c, &err));
        json_object_del(less[i].in ? json_object_get(c, less[i].in) : c, less[i].key);
        fixture_sign_certificate(&f, c);
        verify(&f, NULL, less[i].want, __LINE__);
    }

    /* the baseline's plan is another one than was judged; one that is not the operator's is said to be none */
    for (int i = 0; i < 2; i++) {
        cleanup(json) json_t *c = NULL;
        fixture_sign(&f, CANONICAL, 64);
        check(json_parse(f.certificate.data, f.certificate.size, &c, &err));
        json_t *baseline = json_object_get(c, "baseline");
        if (i)
            json_put_str(baseline, "of", CERTIFICATE_OTHERS);
        else
            json_put_int(json_object_get(baseline, "program"), "defines", 7);
        fixture_sign_certificate(&f, c);
        verify(&f, NULL, i ? NULL : "compared with: the baseline's source and plan", __LINE__);
        check(!i || strstr(f.compared, "NOT the operator's"));
    }

    /* signed, but hash and shape do not belong together */
    fixture_sign(&f, CANONICAL, 65);
    verify(&f, NULL, "shape: the shape hash", __LINE__);
    static const char *const texts[] = {
        "", "proteus-shape-v1\nop=scale@1\naxis.N=64\naxis.other=1\ndtype.io=bf16\ntarget=sm_90a\n",
        "proteus-shape-v1\nop=scale@2\naxis.N=64\ndtype.io=bf16\ntarget=sm_90a\n", "proteus-shape-v1\nop=scale@1\naxis.N=64\ntarget=sm_90a\n",
        "proteus-shape-v1\nop=scale@1\naxis.N=64\ndtype.io=f16\ntarget=sm_90a\n", "proteus-shape-v1\nop=scale@1\naxis.N=64\ndtype.io=bf16\ntarget=sm_80\n",
        "proteus-shape-v2\nop=scale@1\naxis.N=64\ndtype.io=bf16\ntarget=sm_90a\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture_sign(&f, texts[i], 64);
        verify(&f, NULL, "shape: the shape hash", __LINE__);
    }

    /* the manifest is signed and says something else than the certificate */
    static const struct { const char *key, *value, *want; } lies[] = {
        {"plan", "{\"grid\":[8]}", "manifest.json: its \"plan\""}, {"evidence", "\"measured\"", "manifest.json: its \"evidence\""},
        {"speedup", "{\"median\":9.5}", "manifest.json: its \"speedup\""}, {"mode", NULL, "manifest.json: its \"mode\""},
        {"preconditions", "{\"tensors\":{\"x\":{\"strides\":[32]}},\"workspace_bytes\":256}", "manifest.json: its \"preconditions\""},
        {"preconditions", NULL, "manifest.json: its \"preconditions\""}, {"digests", "{}", "manifest.json: it has no digest of"},
        {"digests", NULL, "manifest.json: it has no digest of"}, {"baseline_of", "\"other\"", "manifest.json: whose baseline"},
        {"baseline_of", NULL, "manifest.json: whose baseline"}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        cleanup(json) json_t *manifest = NULL, *value = lies[i].value ? json_loads(lies[i].value, JSON_DECODE_ANY, NULL) : NULL;
        fixture_sign(&f, CANONICAL, 64);
        check(json_parse(f.manifest.data, f.manifest.size, &manifest, &err));
        if (value)
            json_object_set(manifest, lies[i].key, value);
        else
            json_object_del(manifest, lies[i].key);
        manifest_sign(&f, manifest);
        verify(&f, NULL, lies[i].want, __LINE__);
    }
    static const struct { const char *file, *digest, *want; } digests[] = {
        {"source", "00", "manifest.json: its digest of source"}, {"other", "00", "manifest.json: its digest of other"}};
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++) {
        cleanup(json) json_t *manifest = NULL;
        fixture_sign(&f, CANONICAL, 64);
        check(json_parse(f.manifest.data, f.manifest.size, &manifest, &err));
        json_put_str(json_object_get(manifest, "digests"), digests[i].file, digests[i].digest);
        manifest_sign(&f, manifest);
        verify(&f, NULL, digests[i].want, __LINE__);
    }
    fixture_sign(&f, CANONICAL, 64);
    f.manifest.data[f.manifest.size / 2] ^= 1;
    verify(&f, NULL, "signature: manifest.json", __LINE__);
    /* the certificate's signature, of what would be a manifest: a signature is for one file */
    fixture_sign(&f, CANONICAL, 64);
    f.bundle.files[6] = (struct bundle_file){"manifest.json", f.certificate.data, f.certificate.size};
    f.bundle.files[7] = (struct bundle_file){"manifest.json.minisig", f.signature.data, f.signature.size};
    verify(&f, NULL, "signature: manifest.json: it was made for", __LINE__);

    /* keys rotate: any of the keys given will do, and each signature may be by another */
    cleanup(buf) struct buf keys = {0}, own = {0};
    buf_add(&own, f.key.data, f.key.size);
    signer_public_file(&other, &keys);
    fixture_sign(&f, CANONICAL, 64);
    buf_clear(&f.key);
    buf_add(&f.key, keys.data, keys.size);
    verify(&f, NULL, "signature: certificate.json: signed with", __LINE__);
    buf_add(&f.key, own.data, own.size);
    verify(&f, NULL, NULL, __LINE__);
    buf_clear(&f.key);
    verify(&f, NULL, "signature: certificate.json: the public", __LINE__);
    buf_done(&f.manifest);
    buf_done(&f.manifest_signature);
    buf_done(&f.key);
    buf_done(&f.certificate);
    buf_done(&f.signature);
    check_int(system(remove), 0);
}


/* ---- tampering ---- */

static void no_report(void *ctx, bool ok, const char *check, const char *text)
{
    (void)ctx, (void)ok, (void)check, (void)text;
}

static bool accepted(const struct fixture *f, const char *archive, size_t size)
{
    static struct tar_entry entries[BUNDLE_MAX_FILES];
    static struct bundle b;
    struct err err = {0};
    return bundle_parse(archive, size, entries, &b, &err) && verify_bundle(&b, f->key.data, f->key.size, NULL, no_report, NULL, NULL);
}

static void fixture_make(struct fixture *f, char *dir)
{
    struct err err = {0};
    check(mkdtemp(dir) != NULL && signer_open(dir, &f->signer, &err));
    signer_public_file(&f->signer, &f->key);
    fixture_sign(f, CANONICAL, 64);
}

static void fixture_done(struct fixture *f, const char *dir)
{
    cleanup(str) char *remove = xfmt("rm -rf %s", dir);
    struct buf *all[] = {&f->key, &f->certificate, &f->signature, &f->manifest, &f->manifest_signature};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        buf_done(all[i]);
    check_int(system(remove), 0);
}

static void report_accepted(const char *what, size_t at)
{
    fprintf(stderr, "%s at byte %zu was not found\n", what, at);
    check(!"found");
}

/* Each byte with one bit flipped, another bit each time, and set to 0, to a digit and to a blank: what parsers like to overlook. */
static void test_every_byte(void)
{
    struct fixture f = {0};
    char dir[] = "/tmp/proteus-bundle-XXXXXX";
    cleanup(buf) struct buf archive = {0};
    fixture_make(&f, dir);
    bundle_archive(&f.bundle, &archive);
    check(accepted(&f, archive.data, archive.size));
    size_t tried = 0;
    for (size_t at = 0; at < archive.size; at++) {
        const char was = archive.data[at], others[] = {(char)(was ^ (1 << at % 8)), 0, '0', ' '};
        for (size_t i = 0; i < sizeof others; i++) {
            if (others[i] == was || (i > 0 && at % 512 >= 345 && at % 7))   /* the rest of a block: one bit each, and a sample of these */
                continue;
            archive.data[at] = others[i];
            tried++;
            if (accepted(&f, archive.data, archive.size))
                report_accepted("a change", at);
        }
        archive.data[at] = was;
    }
    check(tried > archive.size && accepted(&f, archive.data, archive.size));
    for (size_t size = 0; size < archive.size; size += size + 1100 > archive.size ? 1 : 37)
        if (accepted(&f, archive.data, size))
            report_accepted("a cut", size);
    for (int more = 1; more <= 1024; more += more < 4 ? 1 : 255) {      /* zeros behind the end, too */
        cleanup(buf) struct buf longer = {0};
        static const char zeros[1024];
        buf_add(&longer, archive.data, archive.size);
        buf_add(&longer, zeros, (size_t)more);
        check(!accepted(&f, longer.data, longer.size));
    }
    fixture_done(&f, dir);
}

/* Members exchanged, doubled, renamed, added, left out. Headers are those of the writer: only what is in them is wrong. */
static void test_members(void)
{
    struct fixture f = {0};
    char dir[] = "/tmp/proteus-bundle-XXXXXX";
    fixture_make(&f, dir);
    for (int a = 0; a < f.bundle.count; a++)
        for (int b = a; b < f.bundle.count; b++)
            for (int how = 0; how < 2; how++) {
                cleanup(buf) struct buf archive = {0};
                for (int i = 0; i < f.bundle.count; i++) {
                    const struct bundle_file *at = &f.bundle.files[i == a ? b : i == b ? a : i], *name = how ? &f.bundle.files[i] : at;
                    tar_add(&archive, name->name, at->data, at->size, 0);
                    if (a == b && i == a && how)
                        tar_add(&archive, at->name, at->data, at->size, 0);
                }
                tar_end(&archive);
                check(accepted(&f, archive.data, archive.size) == (a == b && !how));
            }
    static const char *const names[] = {"run.sh", "manifest.json.sig", "Source", "kernel.cubin.1", "a/source", "certificate.json.minisig.minisig"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int renamed = -1; renamed < f.bundle.count; renamed++) {
            cleanup(buf) struct buf archive = {0};
            for (int k = 0; k < f.bundle.count; k++)
                tar_add(&archive, k == renamed ? names[i] : f.bundle.files[k].name, f.bundle.files[k].data, f.bundle.files[k].size, 0);
            if (renamed < 0)
                tar_add(&archive, names[i], "x", 1, 0);
            tar_end(&archive);
            check(!accepted(&f, archive.data, archive.size));
        }
    for (int without = 0; without < f.bundle.count; without++) {
        cleanup(buf) struct buf archive = {0};
        for (int k = 0; k < f.bundle.count; k++)
            if (k != without)
                tar_add(&archive, f.bundle.files[k].name, f.bundle.files[k].data, f.bundle.files[k].size, 0);
        tar_end(&archive);
        check(!accepted(&f, archive.data, archive.size));
    }
    cleanup(buf) struct buf dated = {0};
    for (int k = 0; k < f.bundle.count; k++)
        tar_add(&dated, f.bundle.files[k].name, f.bundle.files[k].data, f.bundle.files[k].size, k == 2);
    tar_end(&dated);
    check(!accepted(&f, dated.data, dated.size));
    fixture_done(&f, dir);
}

/* Debian's own program says the same of both signatures, and of both when a byte is changed. */
static void test_minisign_agrees(void)
{
    struct fixture f = {0};
    char dir[] = "/tmp/proteus-bundle-XXXXXX";
    struct err err = {0};
    if (system("command -v minisign >/dev/null 2>&1") != 0) {
        fprintf(stderr, "minisign is not installed: its opinion was not asked\n");
        return;
    }
    fixture_make(&f, dir);
    cleanup(str) char *key = xfmt("%s/key.pub", dir);
    check(file_write(key, f.key.data, f.key.size, 0644, &err));
    for (int i = 4; i < 8; i += 2)
        for (int changed = 0; changed < 3; changed++) {
            cleanup(str) char *file = xfmt("%s/%s", dir, f.bundle.files[i].name), *sig = xfmt("%s.minisig", file);
            cleanup(str) char *command = xfmt("minisign -V -q -m %s -p %s >/dev/null 2>&1", file, key);
            cleanup(buf) struct buf data = {0}, signature = {0};
            buf_add(&data, f.bundle.files[i].data, f.bundle.files[i].size);
            buf_add(&signature, f.bundle.files[i + 1].data, f.bundle.files[i + 1].size);
            if (changed == 1)
                data.data[data.size / 2] ^= 1;
            if (changed == 2)
                signature.data[strcspn(signature.data, "\n") + 150] ^= 1;    /* in the trusted comment */
            check(file_write(file, data.data, data.size, 0644, &err) && file_write(sig, signature.data, signature.size, 0644, &err));
            int status = system(command);
            check(WIFEXITED(status) && (WEXITSTATUS(status) == 0) == (changed == 0));
        }
    fixture_done(&f, dir);
}

int main(void)
{
    hash_init();
    test_bundle();
    test_every_byte();
    test_members();
    test_minisign_agrees();
    return test_done();
}
