/*
 * Samples of blocks: taken only where all would be too much, the last and the corners among them, the same ones in later runs whatever the
 * order, by rows where that is wished; never where blocks can pass something on; what was left out is not there for a later launch.
 */
#include "tests/test_ptx.h"

/* Each block writes its number where it lies, after `turns` rounds of nothing. */
#define KERNEL(extra) ".version 9.0\n.target sm_90a\n.address_size 64\n" \
    ".visible .entry k(.param .u64 y, .param .u32 turns) {\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n" \
    "ld.param.u64 %rd1, [y]; ld.param.u32 %r1, [turns];\n" \
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r5, %r3, %r4, %r2;\n" \
    "mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r6, 0;\n" \
    "L: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r1; @%p1 bra L;\n" extra "mov.u32 %r7, %tid.x; setp.eq.u32 %p2, %r7, 0; @%p2 st.global.u32 [%rd3], %r5;\nret;\n}\n"
/* Each block copies what the block of that number wrote. */
#define COPY ".version 9.0\n.target sm_90a\n.address_size 64\n" \
    ".visible .entry k(.param .u64 x, .param .u64 y) {\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n" \
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd4, [y]; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; add.s64 %rd5, %rd4, %rd2;\n" \
    "mov.u32 %r7, %tid.x; setp.ne.u32 %p2, %r7, 0; @%p2 ret; ld.global.u32 %r1, [%rd3]; st.global.u32 [%rd5], %r1;\nret;\n}\n"

/* Each block has four warps, each of which copies to two places what one block wrote. */
#define COPY_FOUR ".version 9.0\n.target sm_90a\n.address_size 64\n" \
    ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z) {\n.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>;\n" \
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd4, [y]; ld.param.u64 %rd6, [z]; mov.u32 %r2, %ctaid.x; mov.u32 %r7, %tid.x; shr.u32 %r8, %r7, 5;\n" \
    "and.b32 %r9, %r7, 31; mad.lo.u32 %r2, %r2, 4, %r8; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r1, [%rd3];\n" \
    "mad.lo.u32 %r10, %r2, 32, %r9; mul.wide.u32 %rd7, %r10, 4; add.s64 %rd5, %rd4, %rd7; add.s64 %rd8, %rd6, %rd7;\n" \
    "st.global.u32 [%rd5], %r1; st.global.u32 [%rd8], %r1;\nret;\n}\n"

enum { WIDE = 16, HIGH = 256, ALL = WIDE * HIGH, TURNS = 100, EACH = 3 * TURNS * 32 };

static void prepare(struct bench *b, const char *text, struct ptx_sample *s, uint64_t seed)
{
    check(bench_text(b, text));
    bench_buffer(b, "y", ALL * 4, true, NULL);
    bench_int(b, TURNS);
    b->launch.grid[0] = WIDE, b->launch.grid[1] = HIGH;
    b->options.schedule_seed = seed;
    b->options.limits.threads = 2;
    b->options.sample = s;
}

static bool written(const struct bench *b, int buffer, int i)
{
    return b->buffers[buffer].initialised[i / 2] >> (i % 2 * 4) & 1;
}

static int count(const struct bench *b, int buffer)
{
    int sum = 0;
    for (int i = 0; i < ALL; i++)
        sum += written(b, buffer, i);
    return sum;
}

/* A budget of a quarter of what all take: an eighth of it in order, a quarter of it in all. */
static void taken(bool rows, uint64_t seed)
{
    cleanup(bench) struct bench first = {0}, second = {0};
    struct ptx_sample s = {.budget = (uint64_t)EACH * ALL / 4, .seed = 5, .rows = rows};
    prepare(&first, KERNEL(""), &s, seed);
    check_int(bench_run(&first), PTX_CLEAN);
    check(s.taken);
    const int blocks = (int)first.counts.blocks;
    check(blocks > ALL / 32 && blocks < ALL / 8);
    check_int(count(&first, 0), blocks);
    check(first.buffers[0].stored && !first.buffers[0].loaded);
    static const int always[] = {0, 1, WIDE - 1, ALL - WIDE, ALL - 2, ALL - 1};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        check(written(&first, 0, always[i]));
    int whole = 0, part = 0;
    for (int y = 0; y < HIGH; y++) {
        int of = 0;
        for (int x = 0; x < WIDE; x++)
            of += written(&first, 0, y * WIDE + x);
        whole += of == WIDE, part += of && of != WIDE;
    }
    if (rows)
        check(part <= 3 && whole >= 4);
    else
        check(part > 20);
    /* The same again, from the other end and on one thread. */
    prepare(&second, KERNEL(""), &s, seed ^ PTX_SEED_DESCENDING);
    second.options.limits.threads = 1;
    check_int(bench_run(&second), PTX_CLEAN);
    check_int((int)second.counts.blocks, blocks);
    check(!memcmp(first.buffers[0].initialised, second.buffers[0].initialised, ALL / 2));
    /* Others, by another seed: as many, those that are always there among them. */
    cleanup(bench) struct bench third = {0}, fourth = {0};
    ptx_sample_redraw(&s, 9);
    prepare(&third, KERNEL(""), &s, seed);
    check_int(bench_run(&third), PTX_CLEAN);
    check((int)third.counts.blocks > blocks * 9 / 10 && (int)third.counts.blocks < blocks * 11 / 10);
    check(memcmp(first.buffers[0].initialised, third.buffers[0].initialised, ALL / 2) != 0);
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        check(written(&third, 0, always[i]));
    ptx_sample_redraw(&s, 5);
    prepare(&fourth, KERNEL(""), &s, seed);
    check_int(bench_run(&fourth), PTX_CLEAN);
    check(!memcmp(first.buffers[0].initialised, fourth.buffers[0].initialised, ALL / 2));
    ptx_sample_done(&s);
}

static void other_seeds(void)
{
    cleanup(bench) struct bench a = {0}, b = {0};
    struct ptx_sample s = {.budget = (uint64_t)EACH * ALL / 4, .seed = 5}, t = {.budget = s.budget, .seed = 6};
    prepare(&a, KERNEL(""), &s, 1);
    prepare(&b, KERNEL(""), &t, 1);
    check(bench_run(&a) == PTX_CLEAN && bench_run(&b) == PTX_CLEAN);
    check(memcmp(a.buffers[0].initialised, b.buffers[0].initialised, ALL / 2) != 0);
    ptx_sample_done(&s);
    ptx_sample_done(&t);
}

/* Where all fit, and where blocks could wait for one another, all run. */
static void not_taken(void)
{
    static const char *const talk[] = {"atom.global.add.u32 %r8, [%rd1], 0;", "ld.acquire.gpu.global.u32 %r8, [%rd3];", "ld.volatile.global.u32 %r8, [%rd1];",
                                       "red.add.u32 [%rd1], 1;"};
    cleanup(bench) struct bench all = {0};
    struct ptx_sample s = {.budget = (uint64_t)EACH * ALL * 2, .seed = 5};
    prepare(&all, KERNEL(""), &s, 1);
    check_int(bench_run(&all), PTX_CLEAN);
    check(!s.taken && all.counts.blocks == ALL && all_written(&all, 0));
    check(ptx_talks(all.m, "k") == NULL);
    for (size_t i = 0; i < sizeof talk / sizeof *talk; i++) {
        cleanup(bench) struct bench b = {0};
        char text[4096];
        snprintf(text, sizeof text, "%s%s%s", ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 y) {\n.reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
                 "ld.param.u64 %rd1, [y]; mov.u64 %rd3, %rd1;\n", talk[i], "\nret;\n}\n");
        check(bench_text(&b, text));
        check(b.m && ptx_talks(b.m, "k") != NULL);
    }
    cleanup(bench) struct bench own = {0};
    check(bench_text(&own, ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<4>; .shared .b32 s;\natom.shared.add.u32 %r1, [s], 1;\nret;\n}\n"));
    check(own.m && ptx_talks(own.m, "k") == NULL);
    cleanup(bench) struct bench whole = {0};
    struct ptx_sample t = {.budget = (uint64_t)EACH * ALL / 4, .seed = 5};
    prepare(&whole, KERNEL("atom.global.add.u32 %r8, [%rd3], 0;"), &t, 1);
    memset(whole.buffers[0].initialised, 0xff, ALL / 2);
    check_int(bench_run(&whole), PTX_CLEAN);
    check(!t.taken && whole.counts.blocks == ALL);
}

/* What follows reads what is not there: such a block is left out where that is why, and at fault where it is not. */
static void followed(void)
{
    cleanup(bench) struct bench first = {0};
    struct ptx_sample s = {.budget = (uint64_t)EACH * ALL / 4, .seed = 5, .rows = true};
    prepare(&first, KERNEL(""), &s, 1);
    check_int(bench_run(&first), PTX_CLEAN);
    for (int partial = 0; partial < 2; partial++) {
        cleanup(bench) struct bench next = {0};
        check(bench_text(&next, COPY));
        bench_buffer(&next, "x", ALL * 4, true, first.buffers[0].data);
        memcpy(next.buffers[0].initialised, first.buffers[0].initialised, ALL / 2);
        bench_buffer(&next, "y", ALL * 4, true, NULL);
        next.buffers[0].partial = partial;
        next.launch.grid[0] = ALL;
        check_int(bench_run(&next), partial ? PTX_CLEAN : PTX_UNINITIALISED);
        check(!partial || (int)next.counts.blocks == count(&first, 0));
        check(!partial || (count(&next, 1) == (int)next.counts.blocks && !memcmp(next.buffers[1].initialised, first.buffers[0].initialised, ALL / 2)));
    }
    ptx_sample_done(&s);
}

/*
 * A block some of whose warps have what they read has stored something before another of them ends it, and which of them came first is
 * chance: nothing of it is there afterwards, so that all runs store the same.
 */
static void leaves_nothing(void)
{
    enum { GROUPS = 64, LANES = GROUPS * 4 * 32 };
    uint32_t x[GROUPS * 4];
    uint8_t tags[LANES * 4], before[LANES * 4];
    for (int i = 0; i < GROUPS * 4; i++)
        x[i] = (uint32_t)i;
    memset(before, 0x11, sizeof before);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        cleanup(bench) struct bench b = {0};
        check(bench_text(&b, COPY_FOUR));
        bench_buffer(&b, "x", sizeof x, true, x);
        bench_buffer(&b, "y", LANES * 4, true, NULL);                    /* an output or workspace: nobody has written it */
        bench_buffer(&b, "z", LANES * 4, true, before);                  /* changed in place */
        b.buffers[0].partial = true;
        for (int g = 0; g < GROUPS; g++)          /* of every second group one is missing, of every eighth all are */
            for (int k = 0; k < 4; k++)
                if (g % 8 == 7 || (g % 2 && k == g / 2 % 4))
                    b.buffers[0].initialised[(g * 4 + k) / 2] &= (g * 4 + k) % 2 ? 0x0f : 0xf0;
        b.buffers[2].tags = memset(tags, 0, sizeof tags);
        b.options.tag = 3;
        b.options.schedule = seed % 2 ? PTX_EXPLORE : PTX_LOCKSTEP;
        b.options.schedule_seed = seed & 2 ? seed | PTX_SEED_DESCENDING : seed;
        b.options.limits.threads = 2;
        b.launch.grid[0] = GROUPS, b.launch.block[0] = 128;
        check_int(bench_run(&b), PTX_CLEAN);
        check_int((int)b.counts.blocks, GROUPS / 2);
        check_int((int)b.counts.left_out_blocks, GROUPS / 2);
        int wrong = 0;
        for (int i = 0; i < LANES; i++) {
            const bool there = i / 128 % 2 == 0;
            for (int n = i * 4; n < i * 4 + 4; n++)
                wrong += tags[n] != (there ? 3 : 0) || (b.buffers[1].initialised[n / 8] >> (n % 8) & 1) != there;
        }
        check_int(wrong, 0);
    }
}

static void scaled(void)
{
    struct ptx_counts c = {.blocks = 10, .thread_instructions = 1000, .global_load_bytes = 640, .unique_load_sectors = 20, .longest_warp_instructions = 7, .dependent_loads = 3};
    ptx_counts_scale(&c, 100, 150);
    check(c.blocks == 100 && c.thread_instructions == 10000 && c.global_load_bytes == 6400 && c.unique_load_sectors == 150);
    check(c.longest_warp_instructions == 7 && c.dependent_loads == 3);
    ptx_counts_scale(&c, 100, 1);
    check(c.unique_load_sectors == 150);
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        taken(i & 1, i & 2 ? PTX_SEED_DESCENDING | 9 : 9);
    other_seeds();
    not_taken();
    followed();
    leaves_nothing();
    scaled();
    return test_done();
}
