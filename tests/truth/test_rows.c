/*
 * Every row's kernel on the emulator against what a card answered: all threads by digest where PTX fixes the result, the kept values
 * within a bound elsewhere. Argument: the file of answers; then, for people, rows to look at (a part of their text) and "-v".
 */
#include "tests/test_ptx.h"
#include "tests/truth/truth.h"

#include <inttypes.h>

static int verbose;

struct outcome { enum ptx_finding_kind finding; uint32_t *out; };

static struct outcome emulate(const struct truth_row *row, const struct truth_shape *s)
{
    cleanup(buf) struct buf text = {0};
    struct err err;
    struct outcome o = {.out = xalloc((size_t)s->threads * s->out_words * 4)};
    truth_module_head(&text);
    if (!truth_row_kernel(&text, row->text, 0, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    cleanup(bench) struct bench b = {0};
    if (!bench_text(&b, buf_cstr(&text))) {
        o.finding = b.finding.kind;
        return o;
    }
    uint32_t *in = truth_row_inputs(row->text, s);
    b.launch.kernel = "row0";
    b.launch.block[0] = TRUTH_BLOCK;
    b.launch.grid[0] = s->threads / TRUTH_BLOCK;
    bench_buffer(&b, "in", (size_t)s->threads * s->in_words * 4 + 4, false, in);
    const void *out = bench_buffer(&b, "out", (size_t)s->threads * s->out_words * 4, true, NULL);
    bench_buffer(&b, "cells", (size_t)s->threads * TRUTH_CELL_WORDS * 4, true, NULL);
    o.finding = bench_run(&b);
    if (o.finding != PTX_CLEAN && verbose)
        printf("%s: %s\n", row->text, b.finding.text);
    memcpy(o.out, out, (size_t)s->threads * s->out_words * 4);
    free(in);
    return o;
}

static void show(const struct truth_row *row, const struct truth_shape *s, const struct truth_answer *a, const uint32_t *out, uint32_t thread)
{
    uint32_t *in = truth_row_inputs(row->text, s);
    printf("  thread %u:", thread);
    for (unsigned w = 0; w < s->in_words; w++)
        printf(" %08" PRIx32, in[(size_t)thread * s->in_words + w]);
    printf(" -> card");
    for (unsigned w = 0; w < s->out_words; w++)
        printf(" %08" PRIx32, a->values[(size_t)(thread / a->stride) * s->out_words + w]);
    printf(", emulator");
    for (unsigned w = 0; w < s->out_words; w++)
        printf(" %08" PRIx32, out[(size_t)thread * s->out_words + w]);
    printf("\n");
    free(in);
}

/* How many kept threads differ; the first few are shown. */
static uint32_t differences(const struct truth_row *row, const struct truth_shape *s, const struct truth_answer *a, const uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < a->kept; k++) {
        if (!memcmp(a->values + (size_t)k * a->words, out + (size_t)k * a->stride * a->words, a->words * 4))
            continue;
        if (n++ < (verbose ? 8u : 2u))
            show(row, s, a, out, k * a->stride);
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "rows.bin";
    const char *only = argc > 2 ? argv[2] : "";
    verbose = argc > 3;
    cleanup(truth_data) struct truth_data d = {0};
    struct err err;
    const bool have = truth_data_read(path, &d, &err);
    if (!have)
        fprintf(stderr, "%s\n", err.text);
    check(have);
    struct truth_row *rows;
    const size_t count = truth_rows(&rows);
    size_t same = 0, differ = 0, unsupported = 0, missing = 0;
    for (size_t i = 0; i < count; i++) {
        if (!strstr(rows[i].text, only))
            continue;
        struct truth_shape s;
        check(truth_row_shape(rows[i].text, &s, &err));
        const struct truth_answer *a = truth_data_find(&d, rows[i].text);
        struct outcome o = emulate(&rows[i], &s);
        if (o.finding != PTX_CLEAN) {
            unsupported++;
            printf("%s: %s\n", rows[i].text, ptx_finding_name(o.finding));
        } else if (!a || a->threads != s.threads || a->words != s.out_words) {
            missing++;
        } else if (a->digest == truth_hash(TRUTH_HASH_START, o.out, (size_t)s.threads * s.out_words * 4)) {
            same++;
        } else {
            printf("%s: differs\n", rows[i].text);
            const uint32_t n = differences(&rows[i], &s, a, o.out);
            printf("  %u of %u kept threads differ\n", n, a->kept);
            differ++;
        }
        free(o.out);
    }
    printf("%zu rows: %zu same, %zu differ, %zu not run, %zu without an answer\n", count, same, differ, unsupported, missing);
    free(rows);
    check(!differ && !unsupported && !missing);
    return test_done();
}
