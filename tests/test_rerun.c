/*
 * `proteus verify --rerun` against a judge that says what the test wants: confirmed or not, another toolkit, a measured kernel where there
 * is no card, an operator that is another one, a judge that is not there. The bundles are real ones, signed here.
 * Usage: test_rerun PROTEUS
 */
#include "api/cli/verify.h"
#include "core/candidate.h"
#include "core/certificate.h"
#include "core/hash.h"
#include "core/minisign.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define CANONICAL "proteus-shape-v1\nop=scale@1\naxis.N=64\ndtype.io=bf16\ntarget=sm_90a\n"

static const char *proteus;
static char dir[] = "/tmp/proteus-rerun-test-XXXXXX";
static struct signer signer;
static struct buf output;

static char *in_dir(const char *name)
{
    return xfmt("%s/%s", dir, name);
}

static void put_text(const char *name, const char *text, size_t size, mode_t mode)
{
    cleanup(str) char *path = in_dir(name);
    struct err err = {0};
    check(file_write(path, text, size, mode, &err));
}

/* A certificate that holds all it must: that of a real judgement, for a shape of the test's. */
static json_t *certificate_new(void)
{
    json_t *c = NULL;
    struct err err = {0};
    check(json_parse_file(TEST_DATA "/certificate.json", 1 << 20, &c, &err));
    cleanup(json) json_t *program = json_deep_copy(json_object_get(c, "program"));
    cleanup(json) json_t *baseline = json_deep_copy(json_object_get(json_object_get(c, "baseline"), "program"));
    json_t *digests = json_object_get(c, "digests");
    json_put_str(program, "source", "source");
    json_put(c, "shape", json_pack("{s:s,s:{s:i},s:{s:s},s:s}", "op", "scale", "axes", "N", 64, "dtypes", "io", "bf16", "target", "sm_90a"));
    json_put_str(c, "shape_hash", hash_of(CANONICAL, strlen(CANONICAL)).text);
    json_put_str(digests, "candidate", candidate_digest(program).text);
    json_put_str(baseline, "source", "baseline");
    json_put_str(digests, "baseline", candidate_digest(baseline).text);
    json_put_str(digests, "baseline_source", hash_of("baseline", 8).text);
    json_put_str(digests, "cubin", hash_of("cubin", 5).text);
    json_put_str(digests, "ptx", hash_of("ptx", 3).text);
    json_put_str(digests, "source", hash_of("source", 6).text);
    return c;
}

/* Seeds, poisons and nonces of a copied occasion, made other ones. */
static void make_fresh(json_t *value, const char *key, int n)
{
    size_t i;
    const char *name, *text = json_string_value(value);
    json_t *one;
    if (text && *text && (!strcmp(key, "seed") || !strcmp(key, "nonce") || !strcmp(key, "poisons"))) {
        cleanup(str) char *other = xstrdup(text);
        char *last = other + strlen(other) - 1;
        *last = (char)(*last >= 'a' ? '0' + n : *last - '0' < 10 - n ? *last + n : 'a' + n);
        json_string_set(value, other);
    }
    json_object_foreach(value, name, one)
        make_fresh(one, name, n);
    json_array_foreach(value, i, one)
        make_fresh(one, key, n);
}

/* As measured on a card: all that the table wants of such a one. */
static void make_measured(json_t *c)
{
    static const char timing[] =
        "{\"mode\":\"graph-rotated\",\"launches_in_a_graph\":100,\"buffer_sets\":100,\"buffer_seed\":\"0x00000000000000%02d\","
        "\"order_seed\":\"0x10000000000000%02d\",\"pairs_discarded\":0,\"outputs_checked_a_side\":8,\"statistics\":{\"pairs\":240,"
        "\"confidence\":0.99,\"ratio\":{\"median\":2.0},\"ratio_in_cycles\":null,\"candidate\":{\"median_ns\":10.0},\"baseline\":{\"median_ns\":20.0}},"
        "\"control\":[{\"ratio\":{\"median\":1.0}}],\"pairs_throttled\":0,\"attempts\":1,\"card\":{\"before\":{},\"after\":{}},"
        "\"clocks\":{\"reasons\":[],\"candidate_mhz\":{\"median\":1980.0},\"baseline_mhz\":{\"median\":1980.0}}}";
    size_t i;
    json_t *phase, *occasion;
    int n = 1;
    json_put_str(c, "evidence", "measured");
    json_put_str(c, "mode", "graph-rotated");
    json_put(c, "device", json_pack("{s:s,s:s,s:s,s:s,s:s}", "kind", "cuda", "name", "NVIDIA H200", "target", "sm_90a", "uuid", "GPU-1", "driver", "580"));
    json_put(c, "calibration", json_pack("{s:f}", "node_ns", 500.0));
    json_put(c, "samples", json_pack("{s:[f],s:[f],s:[f],s:[f]}", "candidate", 10.0, "baseline", 20.0, "candidate_wall", 11.0, "baseline_wall", 21.0));
    cleanup(json) json_t *side = json_loads("{\"samples\":9,\"q1_ns\":9,\"median_ns\":10,\"q3_ns\":11,\"low_ns\":9.5,\"high_ns\":10.5}", 0, NULL), *timers = json_object();
    json_put_num(timers, "confidence", 0.99);
    for (i = 0; i < 3; i++)
        json_put(timers, (const char *[]){"events", "wall_clock", "records"}[i], json_pack("{s:O,s:O,s:O}", "candidate", side, "baseline", side, "gain",
                                                                                           json_object_get(c, "speedup")));
    json_put(c, "timers", json_incref(timers));
    json_put(c, "modes", json_pack("{s:{s:{s:f}}}", "graph-rotated", "candidate", "median_ns", 10.0));
    cleanup(str) char *own = xfmt(timing, 99, 99);
    json_put(c, "timing", json_loads(own, 0, NULL));
    json_t *occasions = json_object_get(certificate_phase(c, "retest"), "occasions");
    const json_t *first = json_array_get(occasions, 0);
    for (int k = 1; k < CERTIFICATE_OCCASIONS; k++) {
        json_t *more = json_deep_copy(first);
        make_fresh(more, "", k);
        json_array_append_new(occasions, more);
    }
    json_put_int(json_object_get(c, "timing"), "occasions_pooled", CERTIFICATE_OCCASIONS);
    json_array_foreach(json_object_get(c, "phases"), i, phase)
        if (!strcmp(json_str(phase, "phase", ""), "time"))
            json_put(phase, "figures", json_deep_copy(json_object_get(c, "timing")));
    json_array_foreach(occasions, i, occasion) {
        cleanup(str) char *text = xfmt(timing, n, n);
        json_put(occasion, "figures", json_loads(text, 0, NULL));
        json_put(occasion, "device", json_deep_copy(json_object_get(c, "device")));
        n++;
    }
}

static void add(struct bundle *b, const char *name, const char *data, size_t size)
{
    b->files[b->count++] = (struct bundle_file){.name = name, .data = data, .size = size};
}

static void put_bundle(const json_t *c)
{
    static const char *const repeated[] = {"shape_hash", "shape", "evidence", "mode", "plan", "preconditions", "speedup", "time_ns"};
    cleanup(buf) struct buf certificate = {0}, signature = {0}, manifest = {0}, manifest_signature = {0}, archive = {0};
    cleanup(json) json_t *m = json_object(), *digests = json_object();
    struct bundle b = {.count = 0};
    json_write(&certificate, c);
    signer_sign(&signer, certificate.data, certificate.size, "file:certificate.json", &signature);
    add(&b, "kernel.cubin", "cubin", 5), add(&b, "kernel.ptx", "ptx", 3), add(&b, "source", "source", 6), add(&b, "baseline", "baseline", 8);
    add(&b, "certificate.json", certificate.data, certificate.size), add(&b, "certificate.json.minisig", signature.data, signature.size);
    for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++)
        json_object_set(m, repeated[i], json_object_get(c, repeated[i]));
    json_put_str(m, "baseline_of", certificate_baseline_of(c));
    for (int i = 0; i < b.count; i++)
        json_put_str(digests, b.files[i].name, hash_of(b.files[i].data, b.files[i].size).text);
    json_put(m, "digests", json_incref(digests));
    json_write_pretty(&manifest, m);
    signer_sign(&signer, manifest.data, manifest.size, "file:manifest.json", &manifest_signature);
    add(&b, "manifest.json", manifest.data, manifest.size), add(&b, "manifest.json.minisig", manifest_signature.data, manifest_signature.size);
    bundle_archive(&b, &archive);
    put_text("bundle.tar", archive.data, archive.size, 0644);
}

/* What the judge will answer: the certificate is the one judged here; NULL: its verdict is none of a right kernel. */
static void put_answer(const char *code, const json_t *certificate)
{
    cleanup(buf) struct buf text = {0};
    cleanup(json) json_t *doc = json_pack("{s:{s:s,s:s},s:{}}", "verdict", "code", code, "text", "as told", "figures");
    json_put(doc, "certificate", certificate ? json_deep_copy(certificate) : json_null());
    json_write(&text, doc);
    put_text("answer.json", text.data, text.size, 0644);
}

static int verify(const char *more)
{
    cleanup(str) char *command = xfmt("%s verify %s/bundle.tar --key %s/key.pub %s >%s/out 2>&1 </dev/null", proteus, dir, dir, more, dir);
    cleanup(str) char *out = in_dir("out");
    int status = system(command);
    struct err err = {0};
    buf_clear(&output);
    check(file_read(out, 1 << 20, &output, &err));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(int line, int wanted, const char *says)
{
    cleanup(str) char *more = xfmt("--rerun --judge %s/judge --ops-dir /the/operators", dir);
    int got = verify(more);
    if (got != wanted || (says && !strstr(buf_cstr(&output), says)))
        fprintf(stderr, "line %d: status %d, wanted %d, and \"%s\" in:\n%s\n", line, got, wanted, says ? says : "", buf_cstr(&output));
    check_int(got, wanted);
    check(!says || strstr(buf_cstr(&output), says));
}

static void set_speedup(json_t *c, double median)
{
    json_put(c, "speedup", json_pack("{s:f,s:f,s:f}", "median", median, "low", median, "high", median));
}

static void test_emulated(void)
{
    cleanup(json) json_t *was = certificate_new(), *now = json_deep_copy(was), *slower = json_deep_copy(was), *bytes = json_deep_copy(was);
    cleanup(json) json_t *toolkit = json_deep_copy(was);
    put_bundle(was);
    check_int(verify(""), 0);
    check(!strstr(buf_cstr(&output), "judged again"));
    put_answer("ok", now);
    expect(__LINE__, 0, "confirmed");
    check(strstr(buf_cstr(&output), "CERTIFICATE") && strstr(buf_cstr(&output), "2.13x") && strstr(buf_cstr(&output), "estimate"));
    check(strstr(buf_cstr(&output), "emulate") && !strstr(buf_cstr(&output), "noise"));     /* the phases, and no more of the judge's talk */
    set_speedup(slower, 1.5);
    put_answer("ok", slower);
    expect(__LINE__, 1, "its gain is smaller here");
    put_answer("not_faster", slower);
    expect(__LINE__, 1, "not faster than the baseline");
    put_answer("wrong_result", NULL);
    expect(__LINE__, 1, "it is not right here");
    json_put_str(json_object_get(bytes, "digests"), "ptx", hash_of("other", 5).text);
    put_answer("ok", bytes);
    expect(__LINE__, 1, "other bytes");
    json_put_str(json_object_get(bytes, "toolkit"), "version", "13.9");      /* another toolkit may */
    put_answer("ok", bytes);
    expect(__LINE__, 0, "need not be the same bytes");
    json_put_str(json_object_get(toolkit, "digests"), "baseline", hash_of("other", 5).text);
    put_answer("ok", toolkit);
    expect(__LINE__, 0, "the baseline is another one here");
}

static void test_measured(void)
{
    cleanup(json) json_t *was = certificate_new(), *here = certificate_new(), *on_card = NULL, *slower = NULL;
    struct err err = {0};
    make_measured(was);
    bool ok = certificate_check(was, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    /* A timer lacks a figure, has one that cannot be, or another gain than the published one. */
    static const struct { const char *timer, *side, *key; double value; const char *says; } timers[] = {
        {"wall_clock", "baseline", "q3_ns", 0, "timers/wall_clock/baseline/q3_ns must be"}, {"events", "candidate", "low_ns", 0, "timers/events/candidate/low_ns"},
        {"records", "candidate", "high_ns", 9.9, "timers/records/candidate: its figures are not in order"},
        {"wall_clock", "candidate", "q1_ns", 10.1, "not in order"}, {"events", "gain", "median", 9, "timers/events/gain is not the published"}};
    for (size_t i = 0; i < sizeof timers / sizeof *timers; i++) {
        cleanup(json) json_t *other = json_deep_copy(was);
        json_t *at = json_object_get(json_object_get(json_object_get(other, "timers"), timers[i].timer), timers[i].side);
        if (timers[i].value > 0)
            json_put_num(at, timers[i].key, timers[i].value);
        else
            json_object_del(at, timers[i].key);
        err = (struct err){0};
        check(!certificate_check(other, &err) && strstr(err.text, timers[i].says));
    }
    err = (struct err){0};
    /* Fewer occasions than a card's retest has, or not all of them in the published figure. */
    cleanup(json) json_t *fewer = json_deep_copy(was), *unpooled = json_deep_copy(was);
    json_array_remove(json_object_get(certificate_phase(fewer, "retest"), "occasions"), CERTIFICATE_OCCASIONS - 1);
    json_put_int(json_object_get(fewer, "timing"), "occasions_pooled", CERTIFICATE_OCCASIONS - 1);
    json_put_int(json_object_get(unpooled, "timing"), "occasions_pooled", 1);
    check(!certificate_check(fewer, &err) && strstr(err.text, "its retest has 2 occasions"));
    err = (struct err){0};
    check(!certificate_check(unpooled, &err) && strstr(err.text, "not all of them in the published figure"));
    err = (struct err){0};
    put_bundle(was);
    put_answer("ok", here);
    expect(__LINE__, 7, "correctness is confirmed");
    check(strstr(buf_cstr(&output), "could not be measured here") && strstr(buf_cstr(&output), "NVIDIA H200"));
    put_answer("not_faster", here);          /* the emulator's opinion of speed is none */
    expect(__LINE__, 7, "correctness is confirmed");
    put_answer("race", NULL);
    expect(__LINE__, 1, "NOT confirmed");
    on_card = json_deep_copy(was);
    put_answer("ok", on_card);
    expect(__LINE__, 0, "confirmed");
    check(!strstr(buf_cstr(&output), "estimate"));
    slower = json_deep_copy(was);
    set_speedup(slower, 1.9);
    put_answer("ok", slower);
    expect(__LINE__, 1, "its gain is smaller here");
    put_answer("not_confirmed", slower);
    expect(__LINE__, 1, "not faster");
}

static void test_refused(void)
{
    cleanup(json) json_t *was = certificate_new();
    cleanup(str) char *answer = in_dir("answer.json"), *asked = in_dir("asked");
    put_bundle(was);
    unlink(answer);
    expect(__LINE__, 6, "operator scale is another one here");
    check_int(verify("--rerun --judge /nowhere/judge"), 6);
    check(strstr(buf_cstr(&output), "cannot be started"));
    /* a bundle that does not verify is not judged at all */
    cleanup(str) char *bundle = in_dir("bundle.tar");
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    check(file_read(bundle, 1 << 20, &text, &err));
    text.data[700] ^= 1;
    put_text("bundle.tar", text.data, text.size, 0644);
    unlink(asked);
    put_answer("ok", was);
    expect(__LINE__, 1, "NOT verified");
    check(access(asked, F_OK) != 0);
}

static void test_json(void)
{
    cleanup(json) json_t *was = certificate_new(), *doc = NULL;
    cleanup(str) char *more = xfmt("--rerun --json --judge %s/judge", dir);
    struct err err = {0};
    put_bundle(was);
    put_answer("ok", was);
    check_int(verify(more), 0);
    check(json_parse(output.data, output.size, &doc, &err));
    const json_t *again = json_object_get(doc, "rerun");
    check(json_bool(doc, "ok", false) && json_bool(again, "confirmed", false) && json_bool(again, "correct", false));
    check_str(json_str(json_object_get(again, "verdict"), "code", ""), "ok");
}

/* A line of the output, its blanks run together. */
static bool has_row(const char *wanted)
{
    cleanup(str) char *text = xstrdup(buf_cstr(&output));
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        cleanup(buf) struct buf words = {0};
        for (char *word, *at = line; (word = strsep(&at, " "));)
            if (*word)
                buf_fmt(&words, "%s%s", words.size ? " " : "", word);
        if (!strcmp(buf_cstr(&words), wanted))
            return true;
    }
    return false;
}

static void test_rows(void)
{
    static const char *const wanted[] = {"CERTIFICATE HERE", "verdict ok ok", "evidence emulated (estimate) emulated (estimate)",
                                         "which is the operator's baseline the operator's baseline"};
    cleanup(json) json_t *was = certificate_new();
    put_bundle(was);
    put_answer("ok", was);
    expect(__LINE__, 0, "confirmed");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!has_row(wanted[i])) {
            fprintf(stderr, "no row \"%s\" in:\n%s\n", wanted[i], buf_cstr(&output));
            check(!"a row");
        }
}

static int verify_dir(const char *more)
{
    cleanup(str) char *command = xfmt("%s verify %s/laid --key %s/key.pub %s >%s/out 2>&1 </dev/null", proteus, dir, dir, more, dir);
    cleanup(str) char *out = in_dir("out");
    int status = system(command);
    struct err err = {0};
    buf_clear(&output);
    check(file_read(out, 1 << 20, &output, &err));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A folder of files is as good as the archive; one that lies beside them must hold them. A file too large is our own fault, no server's. */
static void test_folder(void)
{
    cleanup(json) json_t *was = certificate_new();
    cleanup(str) char *lay = xfmt("mkdir %s/laid && tar -C %s/laid -xf %s/bundle.tar", dir, dir, dir), *bundle = in_dir("bundle.tar");
    cleanup(str) char *remove = xfmt("rm -r %s/laid", dir);
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    put_bundle(was);
    check_int(system(lay), 0);
    check_int(verify_dir(""), 0);
    check(file_read(bundle, 1 << 20, &text, &err));
    put_text("laid/bundle.tar", text.data, text.size, 0644);
    check_int(verify_dir(""), 0);
    for (size_t i = 0; i < 4; i++) {
        const size_t at = (size_t[]){0, 200, 700, text.size - 1}[i];
        text.data[at] ^= 1;
        put_text("laid/bundle.tar", text.data, text.size, 0644);
        check_int(verify_dir(""), 1);
        check(strstr(buf_cstr(&output), "bundle.tar does not hold the files beside it") && strstr(buf_cstr(&output), "NOT verified"));
        text.data[at] ^= 1;
    }
    check_int(system(remove), 0);
    cleanup(str) char *large = xalloc(1 << 17);
    put_text("large.pub", large, 1 << 17, 0644);
    cleanup(str) char *more = xfmt("--key %s/large.pub", dir);
    check_int(verify(more), 6);
    check(strstr(buf_cstr(&output), "is larger than"));
}

/* What it is asked with: the program, the shape, the operator's digest, a retest. */
static void test_asked(void)
{
    cleanup(json) json_t *was = certificate_new(), *candidate = NULL, *baseline = NULL;
    cleanup(str) char *asked = in_dir("asked"), *given = in_dir("given.json"), *beside = in_dir("beside.json");
    cleanup(buf) struct buf words = {0};
    struct err err = {0};
    put_bundle(was);
    put_answer("ok", was);
    expect(__LINE__, 0, "confirmed");
    check(file_read(asked, 1 << 16, &words, &err));
    check(strstr(buf_cstr(&words), "judge-file --shape @") && strstr(buf_cstr(&words), "--mode retest") && strstr(buf_cstr(&words), "--ops-dir /the/operators"));
    cleanup(str) char *op = xfmt("--op-digest %s", json_str(json_object_get(was, "digests"), "op", "?"));
    check(strstr(buf_cstr(&words), op) != NULL);
    check(json_parse_file(given, 1 << 20, &candidate, &err) && json_parse_file(beside, 1 << 20, &baseline, &err));
    check_str(candidate_digest(baseline).text, json_str(json_object_get(was, "digests"), "baseline", ""));    /* and what it was compared with */
    check_str(candidate_digest(candidate).text, json_str(json_object_get(was, "digests"), "candidate", ""));
    check_int(system("ls -d /tmp/proteus-rerun-?????? >/dev/null 2>&1") == 0, 0);       /* nothing is left behind */
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    struct err err = {0};
    proteus = argv[1];
    hash_init();
    check(mkdtemp(dir) != NULL && signer_open(dir, &signer, &err));
    cleanup(buf) struct buf key = {0};
    signer_public_file(&signer, &key);
    put_text("key.pub", key.data, key.size, 0644);
    cleanup(str) char *script = xfmt("#!/bin/sh\n"
                                     "echo \"$@\" >%s/asked\n"
                                     "while [ $# -gt 1 ]; do [ \"$1\" = --json ] && to=$2; [ \"$1\" = --candidate ] && cp \"$2\" %s/given.json;\n"
                                     "[ \"$1\" = --baseline ] && cp \"$2\" %s/beside.json; shift; done\n"
                                     "echo 'emulate        1.0 ms  ok'\n"
                                     "[ -f %s/answer.json ] || { echo 'proteus-gpu: judge-file: operator scale is another one here' >&2; exit 1; }\n"
                                     "echo '{'; echo 'noise'; cp %s/answer.json \"$to\"\n", dir, dir, dir, dir, dir);
    put_text("judge", script, strlen(script), 0755);
    test_emulated();
    test_measured();
    test_refused();
    test_json();
    test_asked();
    test_rows();
    test_folder();
    cleanup(str) char *remove = xfmt("rm -rf %s", dir);
    check_int(system(remove), 0);
    buf_done(&output);
    return test_done();
}
