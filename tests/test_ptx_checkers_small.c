/* The checkers one by one, on a few instructions each: kind, thread, buffer, offset, line; and what is no fault. */
#include "tests/test_ptx.h"

#define HEAD ".version 8.7\n.target sm_90a\n.address_size 64\n"
/* y: 64 words a block; %r1 thread, %r2 block, %rd3 its own word of y, %rd4 y, %rd5 the block's part of y, %p1 the first warp, %p2 thread 0 */
#define ENTRY                                                                                                                        \
    ".visible .entry k(.param .u64 y) {\n.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<10>; .reg .b16 %h<4>;\n.shared .align 4 .b32 s[64];\n" \
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %rd4, [y]; mul.wide.u32 %rd1, %r1, 4; mul.wide.u32 %rd2, %r2, 256;\n"    \
    "add.s64 %rd5, %rd4, %rd2; add.s64 %rd3, %rd5, %rd1; setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 0; cvt.u32.u64 %r9, %rd1;\n"  \
    "mov.u32 %r10, s; add.u32 %r10, %r10, %r9;\n"

struct small {
    const char *body;
    enum ptx_finding_kind want;     /* in lockstep */
    enum ptx_finding_kind explored; /* when lanes part */
    const char *text;               /* part of what is said; NULL: anything */
    int blocks, threads;
};

static const struct small cases[] = {
    /* warps of a block in a buffer */
    {"st.global.u32 [%rd3], %r1; xor.b32 %r3, %r1, 32; mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd5, %rd6; ld.global.u32 %r4, [%rd6];", PTX_RACE, PTX_RACE, NULL, 1, 64},
    {"st.global.u32 [%rd3], %r1; bar.sync 0; xor.b32 %r3, %r1, 32; mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd5, %rd6; ld.global.u32 %r4, [%rd6];", PTX_CLEAN, PTX_CLEAN, NULL, 2, 64},
    {"@%p2 st.global.u32 [%rd5], 5; bar.sync 0; ld.global.u32 %r4, [%rd5]; setp.eq.u32 %p3, %r1, 63; @%p3 st.global.u32 [%rd5], 6;", PTX_RACE, PTX_RACE, NULL, 1, 64},
    {"@%p2 st.global.u32 [%rd5], 5; bar.sync 0; ld.global.u32 %r4, [%rd5]; bar.sync 0; setp.eq.u32 %p3, %r1, 63; @%p3 st.global.u32 [%rd5], 6;", PTX_CLEAN, PTX_CLEAN, NULL, 2, 64},
    /* blocks */
    {"add.u32 %r5, %r1, 1; st.global.u32 [%rd3], %r5; xor.b32 %r3, %r2, 1; mul.wide.u32 %rd6, %r3, 256; add.s64 %rd6, %rd4, %rd6; ld.global.u32 %r4, [%rd6];", PTX_RACE, PTX_RACE, NULL, 2, 32},
    {"@%p2 st.global.u32 [%rd4], 7;", PTX_CLEAN, PTX_CLEAN, NULL, 8, 32},                                     /* the same value */
    {"@%p2 st.global.u32 [%rd4], %r2;", PTX_RACE, PTX_RACE, "of y where block (0,0,0)", 8, 32},
    {"@%p2 red.global.add.u32 [%rd4], 1;", PTX_CLEAN, PTX_CLEAN, NULL, 8, 32},
    {"@%p2 red.global.add.u32 [%rd4], 1; @%p2 ld.global.u32 %r4, [%rd4];", PTX_RACE, PTX_RACE, NULL, 8, 32},
    {"mul.wide.u32 %rd6, %r2, 2; add.s64 %rd6, %rd4, %rd6; cvt.u16.u32 %h1, %r2; @%p2 st.global.u16 [%rd6], %h1; @%p2 ld.global.u16 %h2, [%rd6];", PTX_CLEAN, PTX_CLEAN, NULL, 8, 32},
    {"mul.wide.u32 %rd6, %r2, 1; add.s64 %rd6, %rd4, %rd6; @%p2 st.global.u8 [%rd6], %r2; @%p2 st.global.u8 [%rd6], 1;", PTX_CLEAN, PTX_CLEAN, NULL, 8, 32},
    /* a flag: who sees it may read what was before it, with a fence on both sides */
    {"@!%p2 bra E; setp.eq.u32 %p3, %r2, 0; @!%p3 bra R; st.global.u32 [%rd4+4], 9; membar.gl; st.volatile.global.u32 [%rd4], 1; bra E;\n"
     "R: ld.volatile.global.u32 %r4, [%rd4]; setp.eq.u32 %p4, %r4, 0; @%p4 bra R; membar.gl; ld.global.u32 %r5, [%rd4+4]; E:", PTX_CLEAN, PTX_CLEAN, NULL, 2, 32},
    {"@!%p2 bra E; setp.eq.u32 %p3, %r2, 0; @!%p3 bra R; st.global.u32 [%rd4+4], 9; st.volatile.global.u32 [%rd4], 1; bra E;\n"
     "R: ld.volatile.global.u32 %r4, [%rd4]; setp.eq.u32 %p4, %r4, 0; @%p4 bra R; membar.gl; ld.global.u32 %r5, [%rd4+4]; E:", PTX_RACE, PTX_RACE, "offset 4 of y where block (0,0,0) writes", 2, 32},
    {"@!%p2 bra E; setp.eq.u32 %p3, %r2, 0; @!%p3 bra R; st.global.u32 [%rd4+4], 9; membar.gl; st.volatile.global.u32 [%rd4], 1; bra E;\n"
     "R: ld.volatile.global.u32 %r4, [%rd4]; setp.eq.u32 %p4, %r4, 0; @%p4 bra R; ld.global.u32 %r5, [%rd4+4]; E:", PTX_RACE, PTX_RACE, "offset 4 of y where block (0,0,0) writes", 2, 32},
    {"@!%p2 bra E; setp.eq.u32 %p3, %r2, 0; @!%p3 bra R; st.global.u32 [%rd4+4], 9; st.release.gpu.global.u32 [%rd4], 1; bra E;\n"
     "R: ld.acquire.gpu.global.u32 %r4, [%rd4]; setp.eq.u32 %p4, %r4, 0; @%p4 bra R; ld.global.u32 %r5, [%rd4+4]; st.global.u32 [%rd4], 0; E:", PTX_CLEAN, PTX_CLEAN, NULL, 2, 32},
    /* every thread fences its own, one tells: as good */
    {"st.global.u32 [%rd3], %r1; membar.gl; bar.sync 0; @!%p2 bra N; atom.global.add.u32 %r4, [%rd4+1024], 1; st.shared.u32 [s], %r4;\n"
     "N: bar.sync 0; ld.shared.u32 %r4, [s]; setp.ne.u32 %p3, %r4, 1; @%p3 bra E; ld.global.u32 %r5, [%rd4+128]; ld.global.u32 %r5, [%rd4+384]; E:", PTX_CLEAN, PTX_CLEAN, NULL, 2, 64},
    /* shared memory: a volatile flag is no race; the same value is none; lanes */
    {"@%p2 st.shared.u32 [s], 0; bar.sync 0; @%p1 bra F; L: ld.volatile.shared.u32 %r3, [s]; setp.eq.u32 %p3, %r3, 0; @%p3 bra L; bra E; F: @%p2 st.volatile.shared.u32 [s], 1; E:", PTX_CLEAN, PTX_CLEAN, NULL, 1, 64},
    {"@%p2 st.shared.u32 [s], 0; bar.sync 0; st.shared.u32 [s], 1; bar.sync 0; ld.shared.u32 %r3, [s];", PTX_CLEAN, PTX_CLEAN, NULL, 1, 64},
    {"st.shared.u32 [%r10], %r1; xor.b32 %r3, %r9, 64; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; bar.warp.sync -1; ld.shared.u32 %r5, [%r4];", PTX_CLEAN, PTX_CLEAN, NULL, 1, 32},
    {"st.shared.u32 [%r10], %r1; xor.b32 %r3, %r9, 64; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];", PTX_CLEAN, PTX_RACE, "of its warp", 1, 32},
    {"st.global.u32 [%rd3], %r1; xor.b32 %r3, %r1, 3; mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd5, %rd6; ld.global.u32 %r4, [%rd6];", PTX_CLEAN, PTX_RACE, "of its warp", 1, 32},
    {"st.global.u32 [%rd3], %r1; xor.b32 %r3, %r1, 3; mul.wide.u32 %rd6, %r3, 4; add.s64 %rd6, %rd5, %rd6; shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1; ld.global.u32 %r4, [%rd6];", PTX_CLEAN, PTX_CLEAN, NULL, 1, 32},
    /* lanes meet at two places, with one mask */
    {"st.shared.u32 [%r10], %r1; setp.lt.u32 %p3, %r1, 16; @%p3 bra A; bar.warp.sync -1; bra B; A: bar.warp.sync -1; B: xor.b32 %r3, %r9, 64; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; ld.shared.u32 %r5, [%r4];",
     PTX_CLEAN, PTX_CLEAN, NULL, 1, 32},
    {"setp.lt.u32 %p3, %r1, 16; @%p3 bra A; bar.warp.sync -1; A: bar.sync 0;", PTX_BARRIER, PTX_BARRIER, NULL, 1, 32},
    {"setp.lt.u32 %p3, %r1, 16; @%p3 bra A; bar.sync 0; A:", PTX_CLEAN, PTX_CLEAN, NULL, 1, 32},   /* no other than `if (lane < 16) return;`: they have ended */
};

static void small(const struct small *c, uint64_t seed, int threads)
{
    cleanup(bench) struct bench b = {0};
    char text[4096];
    uint32_t fill[512] = {0};
    snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, c->body);
    check(bench_text(&b, text));
    bench_buffer(&b, "y", sizeof fill, true, fill);
    b.launch.grid[0] = (uint32_t)c->blocks;
    b.launch.block[0] = (uint32_t)c->threads;
    b.options.limits.threads = threads;
    b.options.schedule_seed = seed;
    b.options.schedule = seed ? PTX_EXPLORE : PTX_LOCKSTEP;
    b.options.limits.thread_instructions = 20000000;
    const enum ptx_finding_kind got = bench_run(&b), want = seed ? c->explored : c->want;
    const bool lanes = c->want != c->explored && seed;      /* under some seed; asked for below */
    if (!lanes)
        check_int(got, want);
    if (!lanes && got != want)
        fprintf(stderr, "  seed %d, %d threads: %s: %s\n", (int)seed, threads, c->body, b.finding.text);
    if (got == PTX_RACE) {
        check(b.finding.buffer[0] && b.finding.ptx_line > 0 && b.finding.access_bytes && b.finding.opcode[0]);
        if (c->text && (!seed || lanes) && threads == 1)
            check(strstr(b.finding.text, c->text));
        if (c->text && !strstr(b.finding.text, c->text) && !seed && threads == 1)
            fprintf(stderr, "  %s\n", b.finding.text);
    }
}

/* Where only parted lanes show it, one of a few seeds must. */
static void shown(const struct small *c)
{
    bool any = false;
    for (uint64_t seed = 1; seed <= 12 && !any; seed++) {
        cleanup(bench) struct bench b = {0};
        char text[4096];
        uint32_t fill[512] = {0};
        snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, c->body);
        check(bench_text(&b, text));
        bench_buffer(&b, "y", sizeof fill, true, fill);
        b.launch.block[0] = (uint32_t)c->threads;
        b.options.schedule_seed = seed;
        b.options.schedule = PTX_EXPLORE;
        any = bench_run(&b) == c->explored;
    }
    check(any);
}

/* Equal seeds, equal findings. */
static void repeats(void)
{
    char first[256] = "";
    for (int n = 0; n < 3; n++) {
        cleanup(bench) struct bench b = {0};
        char text[4096];
        uint32_t fill[512] = {0};
        snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, cases[0].body);
        check(bench_text(&b, text));
        bench_buffer(&b, "y", sizeof fill, true, fill);
        b.launch.block[0] = 64;
        b.options.schedule_seed = 77;
        b.options.schedule = PTX_EXPLORE;
        check_int(bench_run(&b), PTX_RACE);
        check_int((long long)b.finding.schedule_seed, 77);
        check(b.finding.explored);
        if (n)
            check_str(b.finding.text, first);
        snprintf(first, sizeof first, "%s", b.finding.text);
    }
}

static void frozen(void)
{
    static const struct { const char *body; enum ptx_finding_kind want; } list[] = {
        {"st.global.u32 [%rd3], %r1;", PTX_FROZEN},                                                     /* a whole row */
        {"setp.eq.u32 %p3, %r1, 3; @!%p3 st.global.u32 [%rd3], %r1;", PTX_CLEAN},
        {"setp.eq.u32 %p3, %r1, 3; @%p3 st.global.u32 [%rd3], 0;", PTX_CLEAN},                          /* what is there */
        {"setp.eq.u32 %p3, %r1, 3; @%p3 st.global.u32 [%rd3], 0x5000000;", PTX_CLEAN},                  /* another byte */
        {"setp.eq.u32 %p3, %r1, 3; @%p3 st.global.u8 [%rd3], 5;", PTX_FROZEN},
        {"setp.eq.u32 %p3, %r1, 3; @%p3 red.global.add.u32 [%rd3], 1;", PTX_FROZEN},
    };
    for (size_t n = 0; n < sizeof list / sizeof *list; n++)
        for (int races = 0; races < 2; races++) {
            cleanup(bench) struct bench b = {0};
            char text[4096];
            uint32_t fill[512] = {0};
            static uint8_t bits[256];
            bits[12 / 8] = 1 << 12 % 8;
            snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, list[n].body);
            check(bench_text(&b, text));
            bench_buffer(&b, "y", sizeof fill, true, fill);
            b.buffers[0].frozen = bits;
            b.options.check_races = races;
            check_int(bench_run(&b), list[n].want);
            if (list[n].want == PTX_FROZEN) {
                check_str(b.finding.buffer, "y");
                check_int(b.finding.offset_bytes, 12);
                check_int(b.finding.thread[0], 3);
                check_str(ptx_finding_verdict(b.finding.kind), "input_modified");
            }
        }
}

/* Each block writes every 64th half: nobody's sector is one block's, and the shadow stays within three times the buffer. */
static void shadow(void)
{
    enum { BLOCKS = 64, HALVES = 32 * 64 * 512 };
    cleanup(bench) struct bench b = {0};
    check(bench_text(&b, HEAD ".visible .entry k(.param .u64 y) { .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .b16 %h<2>; .reg .pred %p<2>;\n"
                              "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r1, 64, %r2; mul.wide.u32 %rd1, %r3, 2; ld.param.u64 %rd2, [y];\n"
                              "add.s64 %rd2, %rd2, %rd1; cvt.u16.u32 %h1, %r2; mov.u32 %r4, 0;\n"
                              "L: st.global.u16 [%rd2], %h1; add.s64 %rd2, %rd2, 4096; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 512; @%p1 bra L; ret; }"));
    bench_buffer(&b, "y", HALVES * 2, true, NULL);
    b.launch.grid[0] = BLOCKS;
    check_int(bench_run(&b), PTX_CLEAN);
    check_str(b.finding.text, "");
    check(all_written(&b, 0));
    check(b.counts.shadow_bytes > 0 && b.counts.shadow_bytes <= (6ull << 20) + HALVES * 2);
}

/* A later launch is in order unless it says otherwise; then it waits for what it uses. */
static void steps(void)
{
    static const struct { const char *body; bool dependent; enum ptx_finding_kind want; } list[] = {
        {"ld.global.u32 %r3, [%rd3];", false, PTX_CLEAN},
        {"ld.global.u32 %r3, [%rd3];", true, PTX_RACE},
        {"griddepcontrol.wait; ld.global.u32 %r3, [%rd3];", true, PTX_CLEAN},
        {"st.global.u32 [%rd3], 1;", true, PTX_RACE},
        {"ld.global.u32 %r3, [%rd3+1024];", true, PTX_CLEAN},                                            /* what nobody touched */
        {"@!%p1 bra N; griddepcontrol.wait; N: bar.sync 0; ld.global.u32 %r3, [%rd3];", true, PTX_CLEAN},
        {"@!%p1 bra N; griddepcontrol.wait; N: ld.global.u32 %r3, [%rd3];", true, PTX_RACE},
        {"griddepcontrol.wait; ld.global.nc.u32 %r3, [%rd3];", true, PTX_RACE},          /* an assembler may move it */
        {"griddepcontrol.wait; ld.global.nc.u32 %r3, [%rd3+1024];", true, PTX_CLEAN},
        {"ld.global.nc.u32 %r3, [%rd3];", false, PTX_CLEAN},
    };
    for (size_t n = 0; n < sizeof list / sizeof *list; n++) {
        cleanup(bench) struct bench first = {0}, second = {0};
        struct ptx_history *history = ptx_history_new();
        char text[4096];
        uint32_t fill[512] = {0};
        snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, "st.global.u32 [%rd3], %r1; griddepcontrol.launch_dependents;");
        check(bench_text(&first, text));
        snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, list[n].body);
        check(bench_text(&second, text));
        bench_buffer(&first, "y", sizeof fill, true, fill);
        bench_buffer(&second, "y", sizeof fill, true, fill);
        first.launch.block[0] = second.launch.block[0] = 64;
        first.options.history = second.options.history = history;
        second.launch.dependent = list[n].dependent;
        check_int(bench_run(&first), PTX_CLEAN);
        check_int(bench_run(&second), list[n].want);
        if (list[n].want == PTX_RACE)
            check(strstr(second.finding.text, "griddepcontrol.wait") && !strcmp(second.finding.buffer, "y") && second.finding.ptx_line > 0);
        ptx_history_free(history);
    }
}

/* The launch before last is over when the last one let the next begin after it had waited, and may run still when it did so before. */
static void three_steps(void)
{
    static const char *const early = "griddepcontrol.launch_dependents; griddepcontrol.wait;", *const late = "griddepcontrol.wait; griddepcontrol.launch_dependents;";
    static const struct { const char *middle, *last; enum ptx_finding_kind want; } list[] = {
        {early, "ld.global.u32 %r3, [%rd3];", PTX_RACE},
        {early, "st.global.u32 [%rd3], 1;", PTX_RACE},
        {early, "griddepcontrol.wait; ld.global.u32 %r3, [%rd3];", PTX_CLEAN},
        {early, "griddepcontrol.wait; ld.global.nc.u32 %r3, [%rd3];", PTX_RACE},
        {late, "ld.global.u32 %r3, [%rd3];", PTX_CLEAN},
        {late, "griddepcontrol.wait; ld.global.nc.u32 %r3, [%rd3];", PTX_CLEAN},
        {"griddepcontrol.wait;", "ld.global.u32 %r3, [%rd3];", PTX_CLEAN},                          /* its end lets the next begin */
        {"@!%p1 bra N; griddepcontrol.wait; N: griddepcontrol.launch_dependents;", "ld.global.u32 %r3, [%rd3];", PTX_RACE},   /* the first warp that comes */
        {"@!%p1 bra E; @!%p2 bra N; griddepcontrol.wait; N: griddepcontrol.launch_dependents; E:", "ld.global.u32 %r3, [%rd3];", PTX_RACE},   /* or lane */
    };
    for (size_t n = 0; n < sizeof list / sizeof *list; n++) {
        cleanup(bench) struct bench first = {0}, middle = {0}, last = {0};
        struct bench *const steps[] = {&first, &middle, &last};
        struct ptx_history *history = ptx_history_new();
        const char *const bodies[] = {"st.global.u32 [%rd3], %r1; griddepcontrol.launch_dependents;", list[n].middle, list[n].last};
        uint32_t fill[512] = {0};
        for (int i = 0; i < 3; i++) {
            char text[4096];
            snprintf(text, sizeof text, "%s%s%s\nret;\n}\n", HEAD, ENTRY, bodies[i]);
            check(bench_text(steps[i], text));
            bench_buffer(steps[i], "y", sizeof fill, true, fill);
            steps[i]->launch.block[0] = 64;
            steps[i]->launch.dependent = i > 0;
            steps[i]->options.history = history;
            check_int(bench_run(steps[i]), i == 2 ? list[n].want : PTX_CLEAN);
        }
        ptx_history_free(history);
    }
}

int main(void)
{
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (uint64_t seed = 0; seed < 6; seed++)
            for (int threads = 1; threads <= 2; threads++)
                small(&cases[n], seed, threads);
        if (cases[n].want == PTX_CLEAN && cases[n].explored != PTX_CLEAN)
            shown(&cases[n]);
    }
    repeats();
    frozen();
    shadow();
    steps();
    three_steps();
    return test_done();
}
