/*
 * Every row's kernel on the emulator against what a card answered: all threads by digest, the kept values within PTX's documented error
 * (the table's bound, gpu/ptx/isa.def, plus a unit in the last place for our own rounding) where PTX leaves the bits open.
 * Argument: the file of answers; then, for people, rows to look at (a part of their text) and "-v".
 */
#include "gpu/ptx/isa.h"
#include "tests/test_ptx.h"
#include "tests/truth/truth.h"

#include <inttypes.h>

static int verbose;

/* What a card can do and this emulator says it cannot, by the start of the row's text. */
static const char *const not_here[] = {"fma.rn.oob", "mma.sync.aligned.m8n8k4.row.col.rz."};
static bool known_missing(const char *text)
{
    for (size_t i = 0; i < sizeof not_here / sizeof *not_here; i++)
        if (!strncmp(text, not_here[i], strlen(not_here[i])))
            return true;
    return false;
}

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

/* ---- approximations ---- */
/* A number and the distance to the next one of its type; false: a NaN. */
static bool number(char kind, uint64_t bits, double *ret, double *ret_unit)
{
    uint32_t word = 0;
    switch (kind) {
    case 'd': memcpy(ret, &bits, 8); *ret_unit = fabs(*ret) * 0x1p-52; return *ret == *ret;
    case 'b': word = (uint32_t)bits << 16; break;
    case 'f': word = (uint32_t)bits; break;
    default: { /* f16 */
        const unsigned exp = bits >> 10 & 31, man = bits & 1023;
        *ret = exp == 31 ? man ? NAN : INFINITY : exp ? ldexp(man + 1024, (int)exp - 25) : ldexp(man, -24);
        *ret *= bits & 0x8000 ? -1 : 1;
        *ret_unit = fmax(fabs(*ret) * 0x1p-10, 0x1p-24);
        return *ret == *ret;
    }
    }
    float f;
    memcpy(&f, &word, 4);
    *ret = f;
    *ret_unit = kind == 'b' ? fmax(fabs(*ret) * 0x1p-7, 0x1p-133) : fmax(fabs(*ret) * 0x1p-23, 0x1p-149);
    return f == f;
}

static bool near(const struct ptx_isa_row *row, char kind, uint64_t card, uint64_t ours)
{
    double x, y, unit, ignored;
    const bool x_is = number(kind, card, &x, &unit), y_is = number(kind, ours, &y, &ignored);
    if (!x_is || !y_is)
        return x_is == y_is;
    if (x == y)
        return true;
    const double least = kind == 'd' ? 0x1p-1022 : kind == 'e' ? 0x1p-14 : 0x1p-126; /* results below may be flushed */
    if (fabs(x) <= least && fabs(y) <= least)
        return true;
    const double most = row->exact == EXACT_ULP ? row->bound * unit : row->exact == EXACT_RELATIVE ? row->bound * fabs(x)
                        : row->exact == EXACT_ABSOLUTE ? row->bound : fmax(row->bound, row->bound * fabs(x));
    return isfinite(x) && isfinite(y) && fabs(x - y) <= most + unit;
}

/* How many kept results of a row with one float result lie too far away. */
static uint32_t far_away(const struct truth_row *text, const struct truth_shape *s, const struct truth_answer *a, const uint32_t *out)
{
    char opcode[TRUTH_ROW_TEXT];
    snprintf(opcode, sizeof opcode, "%.*s", (int)strcspn(text->text, " "), text->text);
    const int at = ptx_isa_find(opcode);
    const struct ptx_isa_row *row = at < 0 ? NULL : ptx_isa_row(at);
    if (!row || row->exact < EXACT_ULP || row->exact > EXACT_EITHER)
        return a->kept;
    const char kind = s->operands[0].kind, half = kind == 'E' ? 'e' : kind == 'B' ? 'b' : 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < a->kept; k++) {
        const uint32_t *card = a->values + (size_t)k * a->words, *ours = out + (size_t)k * a->stride * a->words;
        const uint64_t x = card[0] | (a->words > 1 ? (uint64_t)card[1] << 32 : 0), y = ours[0] | (a->words > 1 ? (uint64_t)ours[1] << 32 : 0);
        const bool ok = half ? near(row, half, x & 0xffff, y & 0xffff) && near(row, half, x >> 16, y >> 16) : near(row, kind, x, y);
        if (!ok && n++ < (verbose ? 8u : 2u))
            show(text, s, a, out, k * a->stride);
    }
    return n;
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

/* What a row does though PTX leaves it undefined, a load by the read-only path of what the launch has stored, is found, whatever a card made of it. */
static bool undefined_in_ptx(const char *text, enum ptx_finding_kind finding)
{
    return finding == PTX_RACE && strncmp(text, "ld.global.nc", 12) == 0;
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
    struct truth_row *rows, *listed;
    const size_t count = truth_rows(&rows), listed_count = truth_listed_rows(&listed);
    free(listed);
    size_t same = 0, close = 0, differ = 0, unsupported = 0, missing = 0, not_yet = 0, not_asked = 0, undefined = 0;
    for (size_t i = 0; i < count; i++) {
        if (!strstr(rows[i].text, only))
            continue;
        struct truth_shape s;
        check(truth_row_shape(rows[i].text, &s, &err));
        const struct truth_answer *a = truth_data_find(&d, rows[i].text);
        struct outcome o = emulate(&rows[i], &s);
        if (o.finding == PTX_UNSUPPORTED && known_missing(rows[i].text)) {
            not_yet++;
        } else if (undefined_in_ptx(rows[i].text, o.finding)) {
            undefined++;
        } else if (o.finding != PTX_CLEAN) {
            unsupported++;
            printf("%s: %s\n", rows[i].text, ptx_finding_name(o.finding));
        } else if (!a || a->threads != s.threads || a->words != s.out_words) {
            /* a row that the emulator's table got since a card was last asked is run all the same */
            if (i < listed_count)
                missing++;
            else
                not_asked++;
        } else if (truth_row_close(rows[i].text)) {
            const uint32_t n = far_away(&rows[i], &s, a, o.out);
            if (n)
                printf("%s: %u of %u kept results are too far away\n", rows[i].text, n, a->kept);
            differ += n != 0;
            close += n == 0;
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
    printf("%zu rows: %zu the same, %zu within their bound, %zu differ, %zu not known here, %zu failed, %zu without an answer, %zu undefined and found, %zu new ones not asked yet\n", count, same, close,
           differ, not_yet, unsupported, missing, undefined, not_asked);
    free(rows);
    check(!differ && !unsupported && !missing);
    check(undefined == 1 || *only);
    return test_done();
}
