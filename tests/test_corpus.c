/*
 * The corpus itself: enough cases over enough rows and operators, every row of the catalogue accounted for, and the table beside the
 * cases up to date.
 * Usage: test_corpus CORPUS OPS_DIR [--write]
 */
#include "gpu/selftest_result.h"
#include "tests/test.h"

#include <string.h>

enum { ROWS = 120 };

static const char *reason_of(const json_t *reasons, int row)
{
    char key[8];
    snprintf(key, sizeof key, "%d", row);
    return json_str(reasons, key, NULL);
}

static bool has_row(const struct selftest_case *c, int row)
{
    for (int i = 0; i < c->row_count; i++)
        if (c->rows[i] == row)
            return true;
    return false;
}

/* Said plainly, beside what is caught. */
static const char beyond[] =
    "\n## Triggers in the data\n\n"
    "A candidate that is right but for one pattern of data (an element that equals a constant, a row whose bits hash to a value) is caught if some\n"
    "test holds the pattern, and only then. No row above stands for it, for no number of cases could: whoever tests can show that a kernel is wrong, not\n"
    "that it is right for all data.\n\n"
    "What defends: seeds are secret and drawn after the candidate is frozen, so that no pattern can be chosen to miss them; each regime, each timed\n"
    "launch and the retest have data of their own, and all their outputs are looked at, so a pattern that is met once in some hundred thousand elements, or in\n"
    "any row or launch in some hundreds, comes up; regimes hold on purpose what normal data do not (zeros, subnormals, outliers, one sign, integers, rows and\n"
    "weights of other magnitudes), and of those that are hidden a generator learns only that one failed; a trigger that is not in the data (clock, number of a launch,\n"
    "address, memory left by others) is what most of the rows above are about.\n\n"
    "What cannot be caught: a branch taken for data so rare that no judgement meets them, 48 given bits in a row for example. Against that there is no test but reading:\n"
    "the source is kept beside the kernel, its certificate names both by hash, and `proteus verify --rerun` draws new data as often as is wanted.\n";

static void table(const struct selftest_corpus *c, const json_t *reasons, struct buf *to)
{
    buf_str(to, "# The catalogue's rows, and what stands for each\n\n"
                "Rows are those of the catalogue of attacks and faults. Cases are folders here; a row without one says why device code and a plan\n"
                "cannot express it, and what stands in its place. Written by `test_corpus --write` from the cases and `rows.json`.\n\n"
                "| row | cases, or why there is none |\n|---|---|\n");
    for (int row = 1; row <= ROWS; row++) {
        buf_fmt(to, "| %d | ", row);
        bool any = false;
        for (int i = 0; i < c->count; i++)
            if (c->list[i].attack && has_row(&c->list[i], row)) {
                buf_fmt(to, "%s`%s`%s", any ? ", " : "", strchr(c->list[i].name, '/') + 1, c->list[i].needs_card ? " (card)" : "");
                any = true;
            }
        buf_fmt(to, "%s |\n", any ? "" : reason_of(reasons, row) ? reason_of(reasons, row) : "MISSING");
    }
    buf_str(to, beyond);
}

static void check_rows(const struct selftest_corpus *c, const json_t *reasons)
{
    int with = 0;
    for (int row = 1; row <= ROWS; row++) {
        bool any = false;
        for (int i = 0; i < c->count; i++)
            any |= c->list[i].attack && has_row(&c->list[i], row);
        if (any == (reason_of(reasons, row) != NULL))
            fprintf(stderr, "row %d has %s\n", row, any ? "cases and a reason for having none" : "neither cases nor a reason");
        check(any != (reason_of(reasons, row) != NULL));
        with += any;
    }
    check(with >= 65);
}

static void check_counts(const struct selftest_corpus *c)
{
    int attacks = 0, by_sim = 0, honest = 0, fast_attacks = 0, fast_honest = 0, fooled = 0;
    const struct op *ops[8];
    int op_count = 0;
    for (int i = 0; i < c->count; i++) {
        const struct selftest_case *one = &c->list[i];
        int k = 0;
        attacks += one->attack;
        honest += !one->attack;
        by_sim += one->attack && !one->needs_card;
        fooled += one->fools_naive;
        fast_attacks += one->attack && one->fast;
        fast_honest += !one->attack && one->fast;
        while (k < op_count && ops[k] != one->shape.op)
            k++;
        if (k == op_count && k < 8)
            ops[op_count++] = one->shape.op;
    }
    check(attacks >= 110);
    check(by_sim >= 90);
    check(honest >= 40);
    check(op_count >= 3);
    check(fooled >= 60);
    check(fast_attacks >= 25 && fast_honest >= 8);
    printf("%d attacks, %d of them by the emulator alone, %d fool the naive checker; %d honest kernels; %d operators\n", attacks, by_sim, fooled,
           honest, op_count);
}

/* What is wrong with a case must be said, not passed over: a case that is not run is a case that passes. */
static void check_refused(const struct op_set *ops)
{
    static const struct { const char *text, *says; } cases[] = {
        {"{}", "naive"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[1],\"operator\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":1},\"candidate\":{},\"expect\":[]}", "expect"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[1],\"operator\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":1},\"candidate\":{},\"expect\":[\"ok\"]}", "accept"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[1],\"operator\":\"rmsnorm\",\"axes\":{\"R\":1,\"N\":1},\"candidate\":{},\"expect\":[\"not_confirmed\"]}", "accept"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[1],\"mode\":\"quick\"}", "mode"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[121],\"operator\":\"rmsnorm\",\"axes\":{},\"candidate\":{},\"expect\":[\"fault\"]}", "rows/0"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"rows\":[1],\"operator\":\"rmsnorm\",\"axes\":{\"R\":1},\"candidate\":{},\"expect\":[\"fault\"]}", "N"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"maybe\",\"rows\":[1]}", "naive"},
        {"{\"title\":\"t\",\"why\":\"w\",\"naive\":\"n/a\",\"known_gap\":\"later\"}", "known_gap"},
    };
    char root[] = "/tmp/corpus.XXXXXX";
    if (!mkdtemp(root))
        exit(1);
    cleanup(str) char *attacks = xfmt("%s/attacks", root), *one = xfmt("%s/one", attacks), *honest = xfmt("%s/honest", root), *file = xfmt("%s/case.json", one);
    struct err err = {0};
    check(dir_make(one, 0755, &err) && dir_make(honest, 0755, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(selftest_corpus) struct selftest_corpus c = {0};
        check(file_write(file, cases[i].text, strlen(cases[i].text), 0644, &err));
        err = (struct err){0};
        check(!selftest_load(root, ops, &c, &err));
        if (!strstr(err.text, cases[i].says))
            fprintf(stderr, "case %zu: %s\n", i, err.text);
        check(strstr(err.text, cases[i].says) != NULL && strstr(err.text, "attacks/one") != NULL);
    }
    unlink(file), rmdir(one), rmdir(attacks), rmdir(honest), rmdir(root);
}

/* A line of a result as a run would have written it. */
static void put_result(struct buf *to, const struct selftest_case *c, const char *device, enum verdict_code code, const char *digest, char build)
{
    struct selftest_result r = {.done = true, .code = code, .naive_passed = true, .gpu_ns = 250 * 1000000, .naive_gpu_ns = 1000000};
    snprintf(r.device, sizeof r.device, "%s", device);
    snprintf(r.phase, sizeof r.phase, "probe");
    if (build)
        memset(r.by.program.text, build, HASH_HEX_SIZE - 1), memset(r.by.corpus.text, 'c', HASH_HEX_SIZE - 1);
    cleanup(json) json_t *doc = selftest_result_encode(c, &r);
    if (digest)
        json_put_str(doc, "digest", digest);
    cleanup(str) char *text = json_text(doc);
    buf_fmt(to, "%s\n", text);
}

/* Of a file that two builds have written, one's lines. */
static void check_builds(const struct selftest_corpus *c, const char *first, const char *second)
{
    struct selftest_build a = {0};
    struct selftest_left left = {0};
    struct err err = {0};
    cleanup(mem) void *memory = xarray((size_t)c->count, sizeof(struct selftest_result));
    struct selftest_result *results = memory;
    memset(a.program.text, 'a', HASH_HEX_SIZE - 1);
    check(selftest_results_read(first, c, "cuda:0", &a, results, &left, &err) && selftest_results_read(second, c, "cuda:0", &a, results, &left, &err));
    check(results[2].done && !results[3].done && !results[8].done && strcmp(results[2].by.program.text, a.program.text) == 0);
    check_int(left.of_others, 2);
    check_int(left.stale, 2);
}

/* Two shards of a run on two cards: what is in either is in the table; another device's word, a case that has changed, and half a line are not. */
static void check_merge(const struct op_set *ops, const char *dir, const struct selftest_corpus *c)
{
    char path[2][32] = {"/tmp/results.XXXXXX", "/tmp/results.XXXXXX"}, table_path[] = "/tmp/table.XXXXXX";
    const struct selftest_options o = {.ops = ops, .device = "cuda:0", .corpus = dir};
    cleanup(buf) struct buf text = {0};
    struct selftest_totals t = {0};
    struct err err = {0};
    int honest = 0;
    while (c->list[honest].attack)
        honest++;
    for (int k = 0; k < 2; k++) {
        cleanup(buf) struct buf lines = {0};
        close(mkstemp(path[k]));
        for (int i = k; i < c->count; i += 2) {
            enum verdict_code code = c->list[i].attack ? c->list[i].expected[0] : VERDICT_NOT_FASTER;
            const char *device = i == 4 ? "sim" : k ? "cuda:1" : "cuda:0";
            put_result(&lines, &c->list[i], device, i == 2 ? VERDICT_OK : i == honest ? VERDICT_WRONG_RESULT : code, i == 6 ? "00" : NULL,
                       i == 3 ? 'b' : i == 8 ? 0 : 'a');
        }
        buf_str(&lines, "{\"name\":\"attacks/");
        check(file_write(path[k], lines.data, lines.size, 0600, &err));
    }
    close(mkstemp(table_path));
    char *files[] = {path[0], path[1]};
    check(selftest_merge(&o, table_path, 2, files, &t, &err));
    check(file_read(table_path, 1 << 20, &text, &err));
    int retests = 0;
    for (int i = 0; i < c->count; i++)
        retests += !c->list[i].attack && !strcmp(c->list[i].mode, "retest");
    check_int(t.attacks + t.honest, c->count);
    check_int(t.attacks - t.caught, 3);
    check_int(t.honest - t.accepted, 1 + retests);       /* none of these lines says that its retest was fresh */
    check(t.gpu_ns == (int64_t)(c->count - 2) * 250 * 1000000);
    cleanup(str) char *missing = xfmt("not judged by any run**: `%s`, `%s`\n", c->list[4].name, c->list[6].name);
    check(strstr(buf_cstr(&text), missing) != NULL);
    check(strstr(buf_cstr(&text), "2 results are left out") != NULL);
    cleanup(str) char *builds = xfmt("**judged by 3 builds**: `aaaaaaaaaaaa` %d of them; `bbbbbbbbbbbb` `%s`; one that did not say which it is `%s`\n",
                                     c->count - 4, c->list[3].name, c->list[8].name);
    check(strstr(buf_cstr(&text), builds) != NULL);
    cleanup(str) char *missed = xfmt("| `%s` | **MISSED** | ok | probe", strchr(c->list[2].name, '/') + 1);
    check(strstr(buf_cstr(&text), missed) != NULL && strstr(buf_cstr(&text), "| cuda:1 | 250 |") != NULL);
    check_builds(c, path[0], path[1]);
    /* one shard alone: the other's cases are missing, not caught */
    check(selftest_merge(&o, table_path, 1, files, &t, &err));
    check(t.caught < t.attacks * 2 / 3);
    check(!selftest_merge(&o, table_path, 0, files, &t, &err));
    unlink(path[0]), unlink(path[1]), unlink(table_path);
}

int main(int argc, char **argv)
{
    cleanup(op_set) struct op_set ops = {0};
    cleanup(selftest_corpus) struct selftest_corpus c = {0};
    cleanup(json) json_t *reasons = NULL;
    cleanup(buf) struct buf wanted = {0}, found = {0};
    struct err err = {0};
    hash_init();
    cleanup(str) char *json = xfmt("%s/attacks/rows.json", argc > 1 ? argv[1] : "."), *text = xfmt("%s/attacks/rows.md", argc > 1 ? argv[1] : ".");
    if (argc < 3 || !op_set_load(argv[2], &ops, &err) || !selftest_load(argv[1], &ops, &c, &err) || !json_parse_file(json, 1 << 20, &reasons, &err)) {
        fprintf(stderr, "usage: %s CORPUS OPS_DIR [--write]: %s\n", argv[0], err.text);
        return 2;
    }
    table(&c, reasons, &wanted);
    if (argc > 3 && strcmp(argv[3], "--write") == 0)
        return file_write(text, wanted.data, wanted.size, 0644, &err) ? 0 : 1;
    check_rows(&c, reasons);
    check_counts(&c);
    check_refused(&ops);
    check_merge(&ops, argv[1], &c);
    check(file_read(text, 1 << 20, &found, &err));
    check_str(buf_cstr(&found), buf_cstr(&wanted));
    return test_done();
}
