/*
 * The corpus itself: enough cases over enough rows and operators, every row of the catalogue accounted for, and the table beside the
 * cases up to date.
 * Usage: test_corpus CORPUS OPS_DIR [--write]
 */
#include "gpu/selftest.h"
#include "tests/test.h"

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
    check(file_read(text, 1 << 20, &found, &err));
    check_str(buf_cstr(&found), buf_cstr(&wanted));
    return test_done();
}
