/* The pure parts of the command line: arguments, streams of events, hostile text, bundles. */
#include "api/cli/args.h"
#include "api/cli/cli.h"
#include "api/cli/sse.h"
#include "api/cli/term.h"
#include "api/cli/verify.h"
#include "core/hash.h"
#include "core/minisign.h"
#include "tests/test.h"

#include <fcntl.h>

/* ---- arguments ---- */
static void test_args(void)
{
    static const struct option_spec own[] = {{"axes", "A", "x"}, {"watch", NULL, "x"}, {"o", "DIR", NULL}, {0}}, more[] = {{"json", NULL, "x"}, {0}};
    const struct option_spec *const tables[] = {own, more, NULL};
    struct args a;
    struct err err = {0};
    int64_t n = 7;
    char *good[] = {"job", "--axes", "B=4", "--axes=B=8", "-o", "dir", "--json", "--", "--watch"};
    check(args_parse(9, good, tables, &a, &err));
    check_int(a.count, 2);
    check_str(a.words[1], "--watch");
    check_str(args_get(&a, "axes", 0), "B=4");
    check_str(args_get(&a, "axes", 1), "B=8");
    check_str(args_or(&a, "axes", NULL, NULL), "B=8");
    check_str(args_or(&a, "o", NULL, NULL), "dir");
    check(args_has(&a, "json") && !args_has(&a, "watch") && !args_get(&a, "axes", 2));
    check(!args_int(&a, "axes", 1, &n, &err) && n == 7 && strstr(err.text, "whole number"));
    static const struct { char *words[2]; int count; const char *why; } bad[] = {
        {{"--nothing", NULL}, 1, "no option"}, {{"--axes", NULL}, 1, "needs a value"}, {{"--watch=1", NULL}, 1, "takes no value"},
        {{"-axes", "1"}, 2, "no option"}, {{"--", "-"}, 2, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool ok = args_parse(bad[i].count, (char **)bad[i].words, tables, &a, &err);
        check(ok == !bad[i].why && (ok || strstr(err.text, bad[i].why)));
    }
    char *many[200];
    for (int i = 0; i < 200; i++)
        many[i] = "x";
    check(!args_parse(200, many, tables, &a, &err));
}

static void test_pairs(void)
{
    cleanup(json) json_t *axes = json_object(), *types = json_object(), *other = json_object();
    struct err err = {0};
    check(pairs_add(axes, "B=4,H=-2, K=9000000000", true, &err));
    check_int(json_int(axes, "B", 0), 4);
    check_int(json_int(axes, "K", 0), 9000000000);
    check(pairs_add(types, "state=f32", false, &err));
    check_str(json_str(types, "state", NULL), "f32");
    static const char *const bad[] = {"B", "B=", "=4", "", ",", "B=x", "B=4.5", "B=4,B=5", "B=99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_object_clear(other);
        check(!pairs_add(other, bad[i], true, &err));
    }
}

/* ---- events ---- */
struct heard { struct buf text; int stop_after; };

static bool hear(void *ctx, const char *type, const char *id, const char *data, size_t size)
{
    struct heard *h = ctx;
    check_int(strlen(data), size);
    buf_fmt(&h->text, "%s|%s|%s;", type, id, data);
    return --h->stop_after != 0;
}

static void test_sse(void)
{
    static const char stream[] = "\xef\xbb\xbf: a comment\n\nretry: 250\nid: 1\nevent: job.state\ndata: {\"a\":1}\n\n"
                                 "id: 2\r\ndata: one\r\ndata:two\r\n\r\nid: 3\rdata: x\r\rdata\n\nid: 4\n\nevent: cut\nid: 5\ndata: half";
    static const char want[] = "job.state|1|{\"a\":1};message|2|one\ntwo;message|3|x;message|3|;";
    for (size_t step = 1; step < sizeof stream; step++) {   /* cut anywhere: the same events */
        cleanup(sse) struct sse s = {0};
        struct heard h = {.stop_after = -1};
        for (size_t at = 0; at < sizeof stream - 1; at += step)
            check(sse_feed(&s, stream + at, at + step < sizeof stream - 1 ? step : sizeof stream - 1 - at, hear, &h));
        check_str(buf_cstr(&h.text), want);
        check_str(s.last_id, "4");      /* 5 is not whole: resuming asks for what comes after 4 */
        check_int(s.retry_ms, 250);
        sse_restart(&s);
        check(sse_feed(&s, "data: again\n\n", 13, hear, &h));
        check(strstr(buf_cstr(&h.text), "message|4|again;"));
        buf_done(&h.text);
    }
    cleanup(sse) struct sse s = {0};
    struct heard h = {.stop_after = 1};
    check(!sse_feed(&s, "data: 1\n\ndata: 2\n\n", 18, hear, &h) && !s.failed);
    check_str(buf_cstr(&h.text), "message||1;");
    buf_done(&h.text);
    cleanup(sse) struct sse flood = {0};
    struct heard none = {.stop_after = -1};
    cleanup(str) char *line = xalloc(1 << 16);
    memset(line, 'x', 1 << 16);
    bool alive = true;
    int fed = 0;
    for (; alive && fed < 64; fed++)
        alive = sse_feed(&flood, line, 1 << 16, hear, &none);
    check(!alive && flood.failed && fed <= 17);
    cleanup(sse) struct sse ids = {0};
    check(sse_feed(&ids, "id: 123456789012345678901234567890123456\ndata: x\n\n", 49, hear, &none));
    check_str(ids.last_id, "");         /* one that does not fit is not cut and sent back */
    buf_done(&none.text);
}

/* ---- hostile text ---- */
static void test_clean(void)
{
    static const struct { const char *in, *out; } cases[] = {
        {"plain \xc3\xa9", "plain \xc3\xa9"},
        {"\x1b[2J\x1b]0;title\x07", "\xef\xbf\xbd[2J\xef\xbf\xbd]0;title\xef\xbf\xbd"},
        {"a\nb\tc\rd", "a b c\xef\xbf\xbd" "d"},
        {"\xc2\x9b" "31m", "\xef\xbf\xbd" "31m"},                              /* C1: CSI in one character */
        {"\xe2\x80\xaetxt.exe", "\xef\xbf\xbdtxt.exe"},                        /* right-to-left override */
        {"\x7f", "\xef\xbf\xbd"}, {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"}, {NULL, ""},
        {"123456789012345678901", "12345678901234567890..."}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(buf) struct buf b = {0};
        term_clean(&b, cases[i].in, 20);
        check_str(buf_cstr(&b), cases[i].out);
    }
    cleanup(buf) struct buf block = {0}, time = {0}, part = {0};
    term_clean_block(&block, "a\n\x1b[0mb", 100, "  ");
    check_str(buf_cstr(&block), "  a\n  \xef\xbf\xbd[0mb");
    duration_text(&time, 840), buf_str(&time, ","), duration_text(&time, 3214), buf_str(&time, ","), duration_text(&time, 1.4e6);
    check_str(buf_cstr(&time), "840 ns,3.21 us,1.40 ms");
    bar(&part, 0.5, 4), bar(&part, 7, 2), bar(&part, -1, 2);
    check_str(buf_cstr(&part), "[##..][##][..]");
}

static void test_evidence(void)
{
    static const char *const estimates[] = {"emulated", "MEASURED", "measured ", "anything"};
    for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++) {
        cleanup(json) json_t *doc = json_object();
        json_put_str(doc, "evidence", estimates[i]);
        check(strstr(evidence_word(doc), "estimate") != NULL);
    }
    cleanup(json) json_t *doc = json_object();
    check_str(evidence_word(doc), "-");
    json_put_str(doc, "evidence", "measured");
    check_str(evidence_word(doc), "measured");
}

/* ---- bundles ---- */
#define CANONICAL "proteus-shape-v1\nop=scale@1\naxis.N=64\ndtype.io=bf16\ntarget=sm_90a\n"

struct fixture {
    struct signer signer;
    struct buf key, certificate, signature;
    struct bundle bundle;
    char failed[64];           /* the first check that failed */
    int reports;
};

static void fixture_sign(struct fixture *f, const char *canonical, int64_t n)
{
    cleanup(json) json_t *c = json_object(), *shape = json_object(), *axes = json_object(), *dtypes = json_object(), *digests = json_object();
    json_put_int(axes, "N", n);
    json_put_int(axes, "rows", 7);      /* not keyed: in the shape, not in the text */
    json_put_str(dtypes, "io", "bf16");
    json_put_str(shape, "op", "scale");
    json_put(shape, "axes", json_incref(axes));
    json_put(shape, "dtypes", json_incref(dtypes));
    json_put_str(shape, "target", "sm_90a");
    json_put_str(digests, "cubin", hash_of("cubin", 5).text);
    json_put_str(digests, "ptx", hash_of("ptx", 3).text);
    json_put_str(digests, "source", hash_of("source", 6).text);
    json_put(c, "shape", json_incref(shape));
    json_put_str(c, "shape_hash", hash_of(canonical, strlen(canonical)).text);
    json_put_int(c, "op_version", 1);
    json_put(c, "plan", json_pack("{s:[i]}", "grid", 7));
    json_put(c, "preconditions", json_pack("{s:{s:{s:[i]}},s:i}", "tensors", "x", "strides", 64, "workspace_bytes", 256));
    json_put_str(c, "evidence", "emulated");
    json_put_str(c, "mode", "estimate");
    json_put(c, "speedup", json_pack("{s:f}", "median", 1.5));
    json_put_num(c, "time_ns", 2000);
    json_put(c, "digests", json_incref(digests));
    buf_clear(&f->certificate);
    buf_clear(&f->signature);
    json_write(&f->certificate, c);
    signer_sign(&f->signer, f->certificate.data, f->certificate.size, "file:certificate.json", &f->signature);
    f->bundle = (struct bundle){.count = 5, .files = {{"kernel.cubin", "cubin", 5}, {"kernel.ptx", "ptx", 3}, {"source", "source", 6},
        {"certificate.json", f->certificate.data, f->certificate.size}, {"certificate.json.minisig", f->signature.data, f->signature.size}}};
}

static void on_check(void *ctx, bool ok, const char *check, const char *text)
{
    struct fixture *f = ctx;
    f->reports++;
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
    for (int i = 0; i < 3; i++) {
        fixture_sign(&f, CANONICAL, 64);
        f.bundle.files[i].size--;
        verify(&f, NULL, f.bundle.files[i].name, __LINE__);
        fixture_sign(&f, CANONICAL, 64);
        const char *name = f.bundle.files[i].name;
        f.bundle.files[i] = f.bundle.files[--f.bundle.count];
        verify(&f, NULL, name, __LINE__);
    }
    fixture_sign(&f, CANONICAL, 64);
    f.bundle.files[f.bundle.count++] = (struct bundle_file){"run-me.sh", "x", 1};
    verify(&f, NULL, "files", __LINE__);
    fixture_sign(&f, CANONICAL, 64);
    f.bundle.count--;
    verify(&f, NULL, "files", __LINE__);

    /* a changed certificate, another key, a certificate that is no JSON */
    fixture_sign(&f, CANONICAL, 64);
    f.certificate.data[2] ^= 1;
    verify(&f, NULL, "signature", __LINE__);
    fixture_sign(&f, CANONICAL, 64);
    cleanup(buf) struct buf foreign = {0}, junk = {0};
    signer_sign(&other, f.certificate.data, f.certificate.size, "file:certificate.json", &foreign);
    f.bundle.files[4].data = foreign.data;
    f.bundle.files[4].size = foreign.size;
    verify(&f, NULL, "signature: signed with another key", __LINE__);
    fixture_sign(&f, CANONICAL, 64);
    signer_sign(&f.signer, "nonsense", 8, "file:certificate.json", &junk);
    f.bundle.files[3] = (struct bundle_file){"certificate.json", "nonsense", 8};
    f.bundle.files[4] = (struct bundle_file){"certificate.json.minisig", junk.data, junk.size};
    verify(&f, NULL, "certificate", __LINE__);

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

    /* the unsigned manifest says something else */
#define MANIFEST_NEEDS(plan, evidence, speedup, digest, needs)                                                                         \
    "{\"plan\":{\"grid\":[" plan "]},\"evidence\":\"" evidence "\",\"mode\":\"estimate\",\"speedup\":{\"median\":" speedup "},\"time_ns\":2000.0," \
    "\"digests\":{" digest "},\"shape_hash\":\"%s\",\"shape\":{\"op\":\"scale\",\"axes\":{\"N\":64,\"rows\":7},\"dtypes\":{\"io\":\"bf16\"},"    \
    "\"target\":\"sm_90a\"}" needs "}"
#define NEEDS(stride, workspace) ",\"preconditions\":{\"tensors\":{\"x\":{\"strides\":[" stride "]}},\"workspace_bytes\":" workspace "}"
#define MANIFEST(plan, evidence, speedup, digest) MANIFEST_NEEDS(plan, evidence, speedup, digest, NEEDS("64", "256"))
    static const struct { const char *text; const char *want; } manifests[] = {
        {MANIFEST("7", "emulated", "1.5", ""), NULL},
        {MANIFEST("8", "emulated", "1.5", ""), "manifest.json: its \"plan\""},
        {MANIFEST("7", "measured", "1.5", ""), "manifest.json: its \"evidence\""},
        {MANIFEST("7", "emulated", "9.5", ""), "manifest.json: its \"speedup\""},
        {MANIFEST("7", "emulated", "1.5", "\"source\":\"00\""), "manifest.json: its digest of source"},
        {MANIFEST("7", "emulated", "1.5", "\"other\":\"00\""), "manifest.json: its digest of other"},
        {MANIFEST_NEEDS("7", "emulated", "1.5", "", NEEDS("32", "256")), "manifest.json: its \"preconditions\""},
        {MANIFEST_NEEDS("7", "emulated", "1.5", "", NEEDS("64", "0")), "manifest.json: its \"preconditions\""},
        {MANIFEST_NEEDS("7", "emulated", "1.5", "", ""), "manifest.json: its \"preconditions\""},
        {"{}", "manifest.json"}, {"[", "manifest.json"}};
    for (size_t i = 0; i < sizeof manifests / sizeof *manifests; i++) {
        cleanup(str) char *text = xfmt(manifests[i].text, right.text);
        fixture_sign(&f, CANONICAL, 64);
        f.bundle.files[f.bundle.count++] = (struct bundle_file){"manifest.json", text, strlen(text)};
        verify(&f, NULL, manifests[i].want, __LINE__);
    }
    buf_done(&f.key);
    buf_done(&f.certificate);
    buf_done(&f.signature);
    check_int(system(remove), 0);
}

int main(void)
{
    hash_init();
    test_args();
    test_pairs();
    test_sse();
    test_clean();
    test_evidence();
    test_bundle();
    return test_done();
}
