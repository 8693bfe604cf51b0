/*
 * Random kernels on the emulator, under several schedules, against what a card computed: equal bit for bit, and nothing found wrong,
 * since nothing is. Arguments: the file of seeds and digests and how many of them; or "-" and a first
 * seed and a count: schedules against each other only.
 */
#include "tests/test_ptx.h"
#include "tests/truth/truth.h"

#include <inttypes.h>

#define SCHEDULES 3

static bool emulate(uint64_t seed, uint64_t schedule, uint64_t *ret_digest, FILE *raw)
{
    cleanup(buf) struct buf text = {0};
    struct truth_random k;
    truth_random_kernel(&text, seed, "k", &k);
    cleanup(bench) struct bench b = {0};
    if (!bench_text(&b, buf_cstr(&text)))
        return false;
    cleanup(mem) void *in = xalloc(k.in_bytes);
    cleanup(mem) void *scratch = xalloc(k.scratch_bytes);
    truth_random_input(seed, in, k.in_bytes / 4);
    truth_random_scratch(seed, scratch, k.scratch_bytes / 4);
    b.launch.block[0] = k.block;
    b.launch.grid[0] = k.grid;
    b.options.schedule_seed = schedule;
    bench_buffer(&b, "in", k.in_bytes, false, in);
    const void *out = bench_buffer(&b, "out", k.out_bytes, true, NULL);
    const void *after = bench_buffer(&b, "scratch", k.scratch_bytes, true, scratch);
    if (bench_run(&b) != PTX_CLEAN) {
        fprintf(stderr, "seed %" PRIx64 ", schedule %" PRIu64 ": %s, line %d, %s: %s\n", seed, schedule, ptx_finding_name(b.finding.kind),
                b.finding.ptx_line, b.finding.opcode, b.finding.text);
        return false;
    }
    if (raw) {
        const uint64_t head[2] = {seed, k.out_bytes / 8};
        fwrite(head, sizeof head, 1, raw);
        fwrite(out, k.out_bytes, 1, raw);
    }
    *ret_digest = truth_hash(truth_hash(TRUTH_HASH_START, out, k.out_bytes), after, k.scratch_bytes);
    return true;
}

static void one(uint64_t seed, const uint64_t *want, FILE *raw)
{
    uint64_t first = 0;
    for (uint64_t schedule = 0; schedule < SCHEDULES; schedule++) {
        uint64_t digest = 0;
        const bool ran = emulate(seed, schedule * 0x9e3779b9, &digest, schedule ? NULL : raw);
        check(ran);
        if (!ran)
            return;
        if (!schedule)
            first = digest;
        if (digest != first)
            fprintf(stderr, "seed %" PRIx64 ": schedule %" PRIu64 " gives another result than 0\n", seed, schedule);
        check(digest == first);
    }
    if (want && first != *want)
        fprintf(stderr, "seed %" PRIx64 ": the card says %016" PRIx64 ", the emulator %016" PRIx64 "\n", seed, *want, first);
    check(!want || first == *want);
}

/* A line "seed digest" each. */
static void from_file(const char *path, size_t most)
{
    cleanup(buf) struct buf b = {0};
    struct err err;
    if (!file_read(path, 1 << 20, &b, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    size_t lines = 0;
    for (char *p = b.data; p;) {
        char *end;
        const uint64_t seed = strtoull(p, &end, 16);
        if (end == p || *end != ' ')
            break;
        p = end + 1;
        const uint64_t want = strtoull(p, &end, 16);
        if (end != p + 16 || *end != '\n')
            break;
        p = end + 1;
        lines++;
        one(seed, &want, NULL);
        if (!*p || lines == most) {
            check(lines >= 200);
            printf("%zu kernels\n", lines);
            return;
        }
    }
    fprintf(stderr, "%s: line %zu is no seed and digest\n", path, lines + 1);
    check(false);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-") != 0) {
        from_file(argv[1], strtoull(argv[2], NULL, 10));
    } else if (argc >= 4 && !strcmp(argv[1], "-")) {
        const uint64_t first = strtoull(argv[2], NULL, 0), count = strtoull(argv[3], NULL, 0);
        FILE *raw = argc > 4 ? fopen(argv[4], "wb") : NULL;
        for (uint64_t i = 0; i < count; i++)
            one(first + i, NULL, raw);
        if (raw)
            fclose(raw);
    } else {
        fprintf(stderr, "usage: %s FILE MOST | - FIRST COUNT [RAW]\n", argv[0]);
        return 2;
    }
    return test_done();
}
