/* Lanes that part and meet, what they tell each other, barriers, calls, grids. Each kernel under several warp orders. */
#include "tests/test_ptx.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY HEAD ".visible .entry k(.param .u64 y) {\n.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<8>;\n" \
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %laneid; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r1; mul.wide.u32 %rd1, %r5, 4; ld.param.u64 %rd2, [y]; add.s64 %rd1, %rd2, %rd1;\n"

struct shape { int grid, block; uint64_t seed; int threads; bool cooperative, explore; };

/* Runs body, which leaves its result in %r9; fills `out`, one word a thread. */
static enum ptx_finding_kind run_on(const char *before, const char *body, struct shape s, uint32_t *out, struct ptx_finding *ret)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%s%s\nst.global.u32 [%%rd1], %%r9;\nret;\n}\n", HEAD, before, ENTRY + sizeof HEAD - 1);
    snprintf(text + strlen(text) - strlen("\nst.global.u32 [%rd1], %r9;\nret;\n}\n"), 6000, "%s\nst.global.u32 [%%rd1], %%r9;\nret;\n}\n", body);
    cleanup(bench) struct bench b = {0};
    check(bench_text(&b, text));
    if (!b.m)
        return PTX_SYNTAX;
    const size_t bytes = (size_t)s.grid * (size_t)s.block * 4;
    void *zero = xalloc(bytes);
    void *y = bench_buffer(&b, "y", bytes, true, zero);
    free(zero);
    b.launch.grid[0] = (uint32_t)s.grid;
    b.launch.block[0] = (uint32_t)s.block;
    b.launch.cooperative = s.cooperative;
    b.options.schedule_seed = s.seed;
    b.options.schedule = s.explore ? PTX_EXPLORE : PTX_LOCKSTEP;
    b.options.limits.threads = s.threads;
    b.options.limits.thread_instructions = 20000000;
    const enum ptx_finding_kind kind = bench_run(&b);
    if (out)
        memcpy(out, y, bytes);
    if (ret)
        *ret = b.finding;
    else if (kind != PTX_CLEAN)
        fprintf(stderr, "%s\n", b.finding.text);
    return kind;
}

static uint32_t out[4096];
static void expect(const char *body, int block, uint32_t (*want)(int thread))
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        check_int(run_on("", body, (struct shape){1, block, seed, 1, false, false}, out, NULL), PTX_CLEAN);
        int wrong = 0;
        for (int t = 0; t < block; t++)
            wrong += out[t] != want(t);
        if (wrong)
            fprintf(stderr, "%s: %d wrong, out[1] %u, wanted %u\n", body, wrong, out[1], want(1));
        check_int(wrong, 0);
    }
}
static void refuse(const char *body, int block, enum ptx_finding_kind kind, const char *text)
{
    struct ptx_finding f;
    check_int(run_on("", body, (struct shape){1, block, 1, 1, false, false}, NULL, &f), kind);
    check(strstr(f.text, text) != NULL);
    if (f.kind != kind || !strstr(f.text, text))
        fprintf(stderr, "%s: %s\n", body, f.text);
}

static uint32_t trips(int t) { return (uint32_t)(t * (t + 1) / 2); }
static uint32_t nested(int t)
{
    uint32_t r = 0;
    for (int i = 0; i < t % 5; i++)
        for (int j = i; j < t % 7; j++)
            r += (uint32_t)(j & 1 ? 3 : t);
    return r;
}
static uint32_t table(int t) { return (uint32_t)((int[]){10, 20, 30, 20}[t % 4] + t); }
static uint32_t after(int t) { return t < 20 ? 0 : t < 64 ? (t ^ 1) < 20 ? 0 : (uint32_t)(t ^ 1) : (uint32_t)(t ^ 1); }
static uint32_t together(int t) { return (uint32_t)__builtin_popcount(0xffffffffu) + (uint32_t)(t & 1); }
static uint32_t called(int t) { return (uint32_t)(t & 1 ? t * t + 7 : t); }

static void divergence(void)
{
    expect("mov.u32 %r9, 0; mov.u32 %r6, 0; L: setp.ge.u32 %p1, %r6, %r1; @%p1 bra E; add.u32 %r6, %r6, 1; add.u32 %r9, %r9, %r6; bra L; E:", 96, trips);
    expect("mov.u32 %r9, 0; rem.u32 %r6, %r1, 5; rem.u32 %r7, %r1, 7; mov.u32 %r10, 0;"
           "I: setp.ge.u32 %p1, %r10, %r6; @%p1 bra E; mov.u32 %r11, %r10;"
           "J: setp.ge.u32 %p2, %r11, %r7; @%p2 bra N; and.b32 %r12, %r11, 1; setp.eq.u32 %p3, %r12, 0; @%p3 bra A; add.u32 %r9, %r9, 3; bra.uni B;"
           "A: add.u32 %r9, %r9, %r1; B: add.u32 %r11, %r11, 1; bra J; N: add.u32 %r10, %r10, 1; bra I; E:", 70, nested);
    expect("rem.u32 %r6, %r1, 4; T: .branchtargets A, B, C, B; brx.idx %r6, T; A: mov.u32 %r9, 10; bra E; B: mov.u32 %r9, 20; bra E; C: mov.u32 %r9, 30; E: add.u32 %r9, %r9, %r1;", 64, table);
    /* some leave before a barrier: the others are enough */
    expect(".shared .b32 s[128]; mov.u32 %r9, 0; shl.b32 %r6, %r1, 2; mov.u32 %r7, s; add.u32 %r6, %r6, %r7; mov.u32 %r10, 0; st.shared.u32 [%r6], %r10; setp.lt.u32 %p1, %r1, 20; @%p1 bra E;"
           "st.shared.u32 [%r6], %r1; bar.sync 0; xor.b32 %r6, %r6, 4; ld.shared.u32 %r9, [%r6]; bra S; E: ret; S:", 128, after);
    /* lanes that come to one ballot from two branches of the same code meet there */
    expect("and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra A; add.u32 %r7, %r1, 0; bra B; A: add.u32 %r7, %r1, 5; B: vote.sync.ballot.b32 %r8, 1, -1; popc.b32 %r9, %r8; add.u32 %r9, %r9, %r6;", 64, together);
    refuse("L: bra L;", 32, PTX_TIMEOUT, "thread instructions");
}

static void calls(void)
{
    static const char f[] = ".func (.param .b32 r) square(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p<2>; ld.param.u32 %r1, [a]; setp.gt.u32 %p1, %r1, 40; @%p1 bra L; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; "
                            "L: mul.lo.u32 %r2, %r1, %r1; add.u32 %r2, %r2, 0; st.param.b32 [r+0], %r2; ret; }\n"
                            ".func (.param .b32 r2) plus(.param .b32 a2) { .reg .b32 %r<4>; ld.param.u32 %r1, [a2]; { .param .b32 x; st.param.b32 [x], %r1; .param .b32 y; call.uni (y), square, (x); ld.param.b32 %r2, [y]; } add.u32 %r2, %r2, 7; st.param.b32 [r2], %r2; ret; }\n";
    for (uint64_t seed = 0; seed < 2; seed++) {
        check_int(run_on(f, "and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r6, 0; mov.u32 %r9, %r1; @%p1 bra E; { .param .b32 x; .param .b32 y; st.param.b32 [x+0], %r1; call (y), plus, (x); ld.param.b32 %r9, [y+0]; } E:",
                         (struct shape){1, 64, seed, 1, false, false}, out, NULL), PTX_CLEAN);
        int wrong = 0;
        for (int t = 0; t < 64; t++)
            wrong += out[t] != called(t);
        check_int(wrong, 0);
    }
    struct ptx_finding finding;
    /* a parameter before the first one, or behind the last */
    check_int(run_on("", "ld.param.u64 %rd3, [y+-8]; mov.u32 %r9, 0;", (struct shape){1, 32, 0, 1, false, false}, NULL, &finding), PTX_UNSUPPORTED);
    check_int(run_on("", "ld.param.u64 %rd3, [y+4096]; mov.u32 %r9, 0;", (struct shape){1, 32, 0, 1, false, false}, NULL, &finding), PTX_UNSUPPORTED);
    /* no way back */
    check_int(run_on(".func a(); .func b() { call a; ret; } .func a() { call b; ret; }\n", "call a; mov.u32 %r9, 0;", (struct shape){1, 32, 0, 1, false, false}, NULL, &finding), PTX_UNSUPPORTED);
    /* exit inside a function ends the thread */
    check_int(run_on(".func leave() { exit; }\n", "mov.u32 %r9, 3; setp.lt.u32 %p1, %r1, 5; @%p1 call leave;", (struct shape){1, 32, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[4], 0);
    check_int(out[5], 3);
}

static uint32_t up(int t) { return (uint32_t)(t % 32 >= 3 ? t - 3 : t + 1000); }
static uint32_t down(int t) { return (uint32_t)(t % 8 < 6 ? t + 2 : t); }
static uint32_t bfly(int t) { return (uint32_t)(t ^ 21); }
static uint32_t idx(int t) { return (uint32_t)(t / 8 * 8 + 5); }
static uint32_t ballot(int t) { return t < 32 ? 0x11111111u : 0x11111111u + 1; }
static uint32_t any(int t) { return t / 32 == 1 ? 7 : 5; }
static uint32_t matched(int t) { return 0x49249249u << t % 3 & 0xffffffffu; }
static uint32_t reduced(int t) { return (uint32_t)(t / 32 * 32 * 32 + 496); }
static uint32_t smallest(int t) { (void)t; return (uint32_t)-5; }
static uint32_t masks(int t) { const uint32_t bit = 1u << t % 32; return bit ^ (bit - 1) ^ ~(bit | (bit - 1)); }

static void lanes(void)
{
    expect("shfl.sync.up.b32 %r9|%p1, %r1, 3, 0, -1; @!%p1 add.u32 %r9, %r9, 1000;", 64, up);
    expect("shfl.sync.down.b32 %r9, %r1, 2, 0x181f, -1;", 64, down);
    expect("shfl.sync.bfly.b32 %r9, %r1, 21, 31, -1;", 64, bfly);
    expect("shfl.sync.idx.b32 %r9, %r1, 5, 0x181f, -1;", 64, idx);
    expect("and.b32 %r6, %r1, 3; setp.eq.u32 %p1, %r6, 0; vote.sync.ballot.b32 %r9, %p1, -1; setp.ge.u32 %p2, %r1, 32; @%p2 add.u32 %r9, %r9, 1;", 64, ballot);
    expect("setp.eq.u32 %p1, %r1, 40; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r9, 7, 5, %p2;", 64, any);
    expect("rem.u32 %r6, %r2, 3; match.any.sync.b32 %r9, %r6, -1;", 32, matched);
    expect("redux.sync.add.u32 %r9, %r1, -1;", 64, reduced);
    expect("sub.s32 %r6, %r2, 5; redux.sync.min.s32 %r9, %r6, -1;", 32, smallest);
    expect("mov.u32 %r6, %lanemask_eq; mov.u32 %r7, %lanemask_lt; xor.b32 %r9, %r6, %r7; mov.u32 %r6, %lanemask_gt; xor.b32 %r9, %r9, %r6;", 64, masks);
    refuse("setp.lt.u32 %p1, %r1, 16; mov.u32 %r9, 0; @%p1 shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", 32, PTX_BARRIER, "never get");
    refuse("shfl.sync.bfly.b32 %r9, %r1, 1, 31, 1;", 32, PTX_BARRIER, "does not name");
    /* half a warp with its own mask is fine; and lanes that have left are not waited for */
    check_int(run_on("", "setp.lt.u32 %p1, %r1, 16; mov.u32 %r9, 0; @%p1 shfl.sync.bfly.b32 %r9, %r1, 1, 31, 0xffff;", (struct shape){1, 32, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[3], 2);
    check_int(run_on("", "setp.lt.u32 %p1, %r1, 16; @%p1 exit; shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;", (struct shape){1, 32, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[17], 16);
    /* what an absent lane tells is nobody's value */
    check_int(run_on("", "setp.lt.u32 %p1, %r1, 16; @%p1 exit; shfl.sync.idx.b32 %r9, %r1, 3, 31, -1;", (struct shape){1, 32, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[17], 0xffffdead);
    /* the two halves at two different shuffles do not meet */
    refuse("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; bra E; A: shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1; E:", 32, PTX_BARRIER, "never get");
}

static uint32_t counted(int t) { (void)t; return 50; }
static void barriers(void)
{
    expect("setp.lt.u32 %p1, %r1, 50; bar.red.popc.u32 %r9, 0, %p1;", 96, counted);
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 16; @%p1 bar.sync 0;", 32, PTX_BARRIER, "skip");
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bra E; A: bar.sync 0; E:", 32, PTX_BARRIER, "do not reach");
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 0; bra E; A: bar.sync 0; E:", 32, PTX_BARRIER, "at the same place");
    /* a whole warp may skip one that the other waits at only if it leaves */
    check_int(run_on("", "mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 32; @%p1 ret; bar.sync 0;", (struct shape){1, 64, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    /* lanes that only have to end have left, also by a branch to the end; not so if something is left to do there */
    static const char left[] = "setp.gt.u32 %p1, %r1, 40; @%p1 bra E; bar.sync 0; bar.sync 0; ld.param.u64 %rd3, [y]; st.global.u32 [%rd3+4], 5; E: bra F; F: ret;";
    static const char stays[] = "setp.gt.u32 %p1, %r1, 40; @%p1 bra E; bar.sync 0; E: ld.param.u64 %rd3, [y]; st.global.u32 [%rd3+4], 5; ret;";
    check_int(run_on("", left, (struct shape){1, 64, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[1], 5);
    check_int(run_on("", stays, (struct shape){1, 64, 0, 1, false, false}, NULL, NULL), PTX_BARRIER);
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1; bra E; A: bar.sync 2; E:", 64, PTX_BARRIER, "never complete");
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra E; bar.sync 1, 96; E:", 64, PTX_BARRIER, "never complete");
    refuse("mov.u32 %r9, 0; bar.sync 0, 33;", 64, PTX_BARRIER, "whole warps");
    refuse("mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 96; bra E; A: bar.sync 1, 64; E:", 96, PTX_BARRIER, "others for");
    refuse("mov.u32 %r9, 0; bar.sync 16;", 64, PTX_BARRIER, "there are 16");
}

/* Blocks that wait for each other: only a cooperative launch has them all there. */
static void grids(void)
{
    static const char body[] = "ld.param.u64 %rd3, [y]; mov.u32 %r9, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra S; membar.gl; atom.global.add.u32 %r6, [%rd3], 1;"
                               "L: ld.volatile.global.u32 %r7, [%rd3]; setp.lt.u32 %p2, %r7, 6; @%p2 bra L; S: bar.sync 0; setp.eq.u32 %p3, %r5, 0; @%p3 mov.u32 %r9, 99;";
    check_int(run_on("", body, (struct shape){6, 64, 0, 1, true, false}, out, NULL), PTX_CLEAN);
    check_int(out[0], 99);
    check_int(out[70], 1);
    struct ptx_finding f;
    check_int(run_on("", body, (struct shape){6, 64, 0, 1, false, false}, NULL, &f), PTX_TIMEOUT);
    for (int threads = 1; threads <= 3; threads++) {
        check_int(run_on("", "mov.u32 %r9, %r5; ", (struct shape){37, 40, 3, threads, false, false}, out, NULL), PTX_CLEAN);
        int wrong = 0;
        for (uint32_t i = 0; i < 37 * 40; i++)
            wrong += out[i] != i;
        check_int(wrong, 0);
    }
}

/* Lanes of a warp that wait for another lane of it: the slices let both go on. */
static void spinning(void)
{
    check_int(run_on("", "ld.param.u64 %rd3, [y]; mov.u32 %r9, 4; setp.eq.u32 %p1, %r1, 7; @%p1 bra SET; L: ld.volatile.global.u32 %r7, [%rd3+28]; setp.eq.u32 %p2, %r7, 0; @%p2 bra L; bra E; SET: st.volatile.global.u32 [%rd3+28], 1; E:",
                     (struct shape){1, 32, 0, 1, false, false}, out, NULL), PTX_CLEAN);
    check_int(out[7], 4);
}

/* Who asks which lanes are there gets other answers in an exploring run, nearly always; each a part of the warp that agrees. In lockstep all are there. */
static void who_is_there(void)
{
    const int blocks = 1;
    int parted = 0, wrong = 0;
    for (uint64_t seed = 0; seed <= 200; seed++) {
        bool apart = false;
        check_int(run_on("", "activemask.b32 %r9;", (struct shape){blocks, 32, seed, 1, false, seed > 0}, out, NULL), PTX_CLEAN);
        for (int t = 0; t < 32 * blocks; t++) {
            const uint32_t mask = out[t];
            apart |= mask != 0xffffffffu;
            wrong += !(mask >> t % 32 & 1);
            for (int other = 0; other < 32; other++)
                wrong += (mask >> other & 1) && out[t / 32 * 32 + other] != mask;
        }
        check(seed || !apart);
        parted += apart;
    }
    check_int(wrong, 0);
    check(parted >= 190);
    if (parted < 190)
        fprintf(stderr, "parted in %d of 200 runs\n", parted);
}

int main(void)
{
    divergence();
    who_is_there();
    calls();
    lanes();
    barriers();
    grids();
    spinning();
    return test_done();
}
