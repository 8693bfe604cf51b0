/*
 * What strangers send, damaged: candidates, shapes, plans, expressions, archives, signatures. Each must be refused or taken within
 * its bounds, never crash; what is taken must survive its own encoding. Deterministic but for the key that signs. Arguments: [first seed] [count].
 */
#include "core/candidate.h"
#include "core/expr.h"
#include "core/minisign.h"
#include "core/tar.h"
#include "core/verdict.h"
#include "tests/test.h"

static struct op_set ops;
static uint64_t state;
static int taken;

static uint32_t next(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % (below ? below : 1));
}

static const char *const words[] = {
    "{", "}", "[", "]", "\"", ",", ":", "null", "true", "-1", "0", "1e999", "9223372036854775807", "-9223372036854775808", "99999999999999999999",
    "\"steps\"", "\"grid\"", "\"$N\"", "\"x\"", "\"4*R*N\"", "\"cdiv(N,0)\"", "\\u0000", "\\ud800", "\xff", "((((((((", "min(", "%", "/", "\"memset\":\"w\"",
    "\"axes\"", "\"N\":8", "\"R\":4096", "\"op\":\"toy\"", "../", "ustar", "untrusted comment: ", "RWQ", "\n",
};

static size_t mutate(char *text, size_t size, size_t room)
{
    for (uint32_t n = 1 + (next(3) ? 0 : next(4)); n && size; n--) {
        size_t at = next((uint32_t)size);
        const char *word = words[next(sizeof words / sizeof *words)];
        size_t length = strlen(word), cut = 1 + next(20);
        switch (next(4)) {
        case 0: text[at] = (char)next(256); break;
        case 1:
            cut = cut > size - at ? size - at : cut;
            memmove(text + at, text + at + cut, size - at - cut);
            size -= cut;
            break;
        case 2:
            if (size + length < room) {
                memmove(text + at + length, text + at, size - at);
                memcpy(text + at, word, length);
                size += length;
            }
            break;
        default:
            if (at + length <= size)
                memcpy(text + at, word, length);
        }
    }
    text[size] = 0;
    return size;
}

static const char candidate_text[] =
    "{\"language\":\"cuda\",\"source\":\"x\",\"plan\":{\"workspace\":[{\"name\":\"w\",\"bytes\":\"4*R*SPLIT\"}],\"steps\":[{\"memset\":\"w\",\"value\":0},"
    "{\"kernel\":\"k\",\"grid\":[\"cdiv(N,4)\",\"R\"],\"block\":[\"32*SPLIT\",1,1],\"cluster\":[1],\"shared_bytes\":\"N*4\",\"args\":[\"x\",\"w\",\"eps\",\"$N\",\"y\"]}]},"
    "\"defines\":{\"SPLIT\":2},\"options\":{\"maxrregcount\":64,\"fast_math\":false},\"declares\":{\"atomics\":false},\"notes\":\"n\"}";
static const char shape_text[] =
    "{\"op\":\"toy\",\"axes\":{\"R\":3,\"N\":8,\"G\":4,\"row_stride\":10,\"slots\":9},\"dtypes\":{\"io\":\"f16\"},\"target\":\"sm_90a\"}";

static void shape_and_candidate(const json_t *doc)
{
    struct faults f = {0}, g = {0};
    struct shape s;
    if (shape_parse(&ops, doc, "sm_90a", "", &s, &f)) {
        struct shape back;
        cleanup(json) json_t *again = shape_encode(&s);
        taken++;
        check(shape_parse(&ops, again, NULL, "", &back, &f));
        check_str(shape_hash(&back).text, shape_hash(&s).text);
    } else
        check(f.count > 0 && f.list[0].detail[0]);
    cleanup(candidate) struct candidate c = {0};
    if (!candidate_parse(doc, "", &c, &g)) {
        check(g.count > 0 && g.list[0].detail[0]);
        return;
    }
    static struct plan plan, again;
    char why[256] = "";
    cleanup(json) json_t *fixed = json_pack("{s:s,s:{s:i,s:i}}", "op", "toy", "axes", "R", 3, "N", 8);
    struct faults none = {0};
    check(shape_parse(&ops, fixed, "sm_90a", "", &s, &none));
    taken++;
    check(hash_hex_valid(candidate_digest(doc).text));
    if (!plan_resolve(&c, &s, &plan, why, sizeof why)) {
        check(why[0]);
        return;
    }
    cleanup(json) json_t *encoded = plan_encode(&plan, &s);
    struct err err = {0};
    check(plan_parse(encoded, &s, &again, &err));
    check(memcmp(&plan, &again, sizeof plan) == 0);
    for (int i = 0; i < plan.step_count; i++)
        check(plan.steps[i].is_memset || (plan.steps[i].block[0] * plan.steps[i].block[1] * plan.steps[i].block[2] <= 1024 && plan.steps[i].grid[0] > 0));
}

static bool names(void *ctx, const char *name, int64_t *ret)
{
    (void)ctx, (void)name;
    *ret = 7;
    return true;
}

/* Equal but for line ends. */
static bool same_lines(const char *a, const char *b)
{
    while (a && b && (*a || *b)) {
        a += strspn(a, "\r\n");
        b += strspn(b, "\r\n");
        if (*a != *b)
            return false;
        a += *a != 0;
        b += *b != 0;
    }
    return a && b;
}

static void one(uint64_t seed, const struct buf *archive, const struct buf *signature, const struct buf *public_key)
{
    char text[8192];
    state = seed * 0x9e3779b97f4a7c15u;
    uint32_t kind = next(10);
    struct err err = {0};
    if (kind < 6) {
        const char *from = kind < 4 ? candidate_text : shape_text;
        size_t size = strlen(from);
        memcpy(text, from, size + 1);
        size = mutate(text, size, sizeof text - 1);
        cleanup(json) json_t *doc = NULL;
        if (!json_parse(text, size, &doc, &err)) {
            check(err.code == ERR_INVALID);
            return;
        }
        cleanup(str) char *written = json_text(doc);
        cleanup(json) json_t *back = NULL;
        check(json_parse(written, strlen(written), &back, &err) && json_equal(doc, back));
        shape_and_candidate(doc);
    } else if (kind < 8) {
        static const char expression[] = "min(max(A,2)*cdiv(B,4),(C-1)%D) && -A < 3 || B == 9223372036854775807";
        memcpy(text, expression, sizeof expression);
        mutate(text, sizeof expression - 1, sizeof text - 1);
        int64_t v = 0;
        taken += expr_eval(text, next(2) ? EXPR_LOGIC : EXPR_SIZE, names, NULL, &v, &err);
    } else if (kind == 8) {
        memcpy(text, archive->data, archive->size);
        size_t size = mutate(text, archive->size, sizeof text - 1);
        struct tar_entry entries[4];
        int count = 0;
        if (tar_parse(text, size, entries, 4, &count, &err))
            for (int i = 0; i < count; i++)
                check(entries[i].data >= text && entries[i].data + entries[i].size <= text + size && !strstr(entries[i].name, ".."));
    } else {
        memcpy(text, signature->data, signature->size);
        size_t size = mutate(text, signature->size, sizeof text - 1);
        /* the untrusted comment is not signed, line ends do not count: all else must be whole */
        bool ok = minisign_verify(public_key->data, public_key->size, text, size, "message", 7, NULL, &err);
        bool same = !ok || same_lines(memchr(text, '\n', size), strchr(signature->data, '\n'));
        check(same);
        if (!same)
            fprintf(stderr, "accepted:\n%s\nsigned:\n%s", text, signature->data);
    }
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 40000;
    char dir[] = "/tmp/proteus_fuzz_XXXXXX";
    struct err err = {0};
    struct signer signer = {0};
    cleanup(buf) struct buf archive = {0}, signature = {0}, public_key = {0};
    hash_init();
    if (!op_set_load(TEST_DATA "/ops", &ops, &err) || !mkdtemp(dir) || !signer_open(dir, &signer, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    signer_sign(&signer, "message", 7, "timestamp:1 file:message", &signature);
    signer_public_file(&signer, &public_key);
    tar_add(&archive, "a.json", "{}", 2, 0);
    tar_add(&archive, "kernel.ptx", "ptx", 3, 0);
    tar_end(&archive);
    archive.size = archive.size < 6000 ? archive.size : 6000;
    for (uint64_t seed = first; seed < first + count && !test_failures; seed++) {
        one(seed, &archive, &signature, &public_key);
        if (test_failures)
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    }
    printf("%d of %llu taken\n", taken, (unsigned long long)count);
    check(taken > 0);
    cleanup(str) char *command = xfmt("rm -rf %s", dir);
    check(system(command) == 0);
    op_set_done(&ops);
    return test_done();
}
