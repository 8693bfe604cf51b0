/* A module's initial data with addresses in it, tables of functions, and bytes that a kernel gives up. */
#include "tests/test_ptx.h"

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n"

/* Each lane below 8 writes what it finds through its entry of a table. */
static const char pointers[] = HEAD
    ".global .align 4 .u32 values[4] = {10, 20, 30, 40};\n"
    ".const .align 4 .u32 fixed[2] = {7, 8};\n"
    ".global .align 8 .u64 inner[2] = {values+4, generic(values)+12};\n"
    ".const .align 8 .u64 table[6] = {values, generic(values+4), generic(values)+8, generic(fixed), inner, generic(fixed)+4};\n"
    ".global .align 8 .u8 bytes[16] = {0xFF(generic(values)), 0xFF00(generic(values)), 0xFF0000(generic(values)), 0xFF000000(generic(values)), "
    "0xFF00000000(generic(values)), 0xFF0000000000(generic(values)), 0xFF000000000000(generic(values)), 0xFF00000000000000(generic(values)), 1, 2};\n"
    ".visible .entry k(.param .u64 to)\n{\n"
    "  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<12>;\n"
    "  ld.param.u64 %d1, [to];\n  mov.u32 %r1, %tid.x;\n"
    "  setp.ge.u32 %p, %r1, 8;\n  @%p ret;\n"
    "  mul.wide.u32 %d2, %r1, 8;\n  mov.u64 %d3, table;\n  add.s64 %d3, %d3, %d2;\n"
    "  setp.ge.u32 %p, %r1, 6;\n  @%p bra more;\n"
    "  ld.const.u64 %d4, [%d3];\n  bra both;\n"
    "more:\n  mov.u64 %d4, inner;\n  setp.eq.u32 %p, %r1, 7;\n  @%p mov.u64 %d4, bytes;\n  ld.global.u64 %d4, [%d4];\n"
    "both:\n  ld.u32 %r2, [%d4];\n"
    "  mul.wide.u32 %d5, %r1, 4;\n  add.s64 %d5, %d1, %d5;\n  st.global.u32 [%d5], %r2;\n  ret;\n}\n";

static void test_pointers(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_text(&b, pointers));
    if (!b.m)
        return;
    const uint32_t *to = bench_buffer(&b, "to", 32, true, NULL);
    check_int(bench_run(&b), PTX_CLEAN);
    if (b.finding.kind)
        fprintf(stderr, "%s\n", b.finding.text);
    static const uint32_t wanted[8] = {10, 20, 30, 7, 0, 8, 20, 10};
    for (int i = 0; i < 8; i++)
        if (i != 4)        /* that one is an address itself */
            check_int(to[i], wanted[i]);
    check(to[4] != 0);
}

/* What a table points to is the module's all the same: nothing may be stored there. */
static void test_stores(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_text(&b, HEAD ".global .u32 kept;\n.const .u64 table[1] = {generic(kept)};\n.visible .entry k()\n{\n  .reg .b64 %d<2>;\n"
                              "  ld.const.u64 %d1, [table];\n  st.u32 [%d1], 1;\n  ret;\n}\n"));
    if (!b.m)
        return;
    check_int(bench_run(&b), PTX_READ_ONLY);
    check(strstr(b.finding.text, "module's variables") != NULL);
}

static const char functions[] = HEAD
    ".func (.param .b32 r) twice(.param .b32 x);\n"
    ".func (.param .b32 r) plus(.param .b32 x);\n"
    ".const .align 8 .u64 table[2] = {twice, plus};\n"
    ".func (.param .b32 r) twice(.param .b32 x)\n{\n  .reg .b32 %r<2>;\n  ld.param.b32 %r1, [x];\n  add.s32 %r1, %r1, %r1;\n  st.param.b32 [r], %r1;\n  ret;\n}\n"
    ".func (.param .b32 r) plus(.param .b32 x)\n{\n  .reg .b32 %r<2>;\n  ld.param.b32 %r1, [x];\n  add.s32 %r1, %r1, 100;\n  st.param.b32 [r], %r1;\n  ret;\n}\n"
    ".visible .entry k(.param .u64 to)\n{\n  .reg .b32 %r<6>; .reg .b64 %d<8>;\n"
    "  ld.param.u64 %d1, [to];\n  mov.u32 %r1, %tid.x;\n  and.b32 %r2, %r1, 1;\n"
    "  mul.wide.u32 %d2, %r2, 8;\n  mov.u64 %d3, table;\n  add.s64 %d3, %d3, %d2;\n  ld.const.u64 %d4, [%d3];\n"
    "  {\n  .param .b32 a; .param .b32 v;\n  st.param.b32 [a], %r1;\n"
    "  proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
    "  call (v), %d4, (a), proto;\n  ld.param.b32 %r3, [v];\n  }\n"
    "  mul.wide.u32 %d5, %r1, 4;\n  add.s64 %d5, %d1, %d5;\n  st.global.u32 [%d5], %r3;\n  ret;\n}\n";

static void test_functions(void)
{
    cleanup(bench) struct bench b = {0};
    check(bench_text(&b, functions));
    if (!b.m)
        return;
    const uint32_t *to = bench_buffer(&b, "to", 128, true, NULL);
    check_int(bench_run(&b), PTX_CLEAN);
    if (b.finding.kind)
        fprintf(stderr, "%s\n", b.finding.text);
    int wrong = 0;
    for (uint32_t i = 0; i < 32; i++)
        wrong += to[i] != (i & 1 ? i + 100 : 2 * i);
    check_int(wrong, 0);
}

static void test_refused(void)
{
    static const char *const texts[] = {
        HEAD ".const .u64 table[1] = {nothing};\n",
        HEAD ".const .u64 table[1] = {generic(nothing)+4};\n",
        HEAD ".extern .shared .b8 dynamic[];\n.const .u64 table[1] = {dynamic};\n",
        HEAD ".const .u64 table[1] = {generic(};\n",
        HEAD ".global .u32 x;\n.const .u64 table[1] = {x, x};\n",
        HEAD ".global .u32 x;\n.const .u8 table[1] = {0xFF(x};\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ptx_finding f = {0};
        struct ptx_module *m = NULL;
        struct err err = {0};
        check(ptx_parse(texts[i], strlen(texts[i]), NULL, &m, &f, &err));
        check(!m && f.kind == PTX_SYNTAX);
        ptx_free(m);
    }
}

/* ---- discard ---- */

#define DISCARDS(what) HEAD                                                                                                          \
    ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n  .reg .b32 %r<4>; .reg .b64 %d<6>;\n"                                       \
    "  ld.param.u64 %d1, [x];\n  ld.param.u64 %d2, [y];\n  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %d3, %r1, 4;\n"                        \
    "  add.s64 %d4, %d1, %d3;\n  add.s64 %d5, %d2, %d3;\n  ld.global.u32 %r2, [%d4];\n  st.global.u32 [%d5], %r2;\n"                   \
    what "  ret;\n}\n"
static const struct { const char *what, *text; bool x_writable; enum ptx_finding_kind kind; bool written; } discards[] = {
    {"gives up what it wrote", DISCARDS("  discard.global.L2 [%d2], 128;\n"), false, PTX_CLEAN, false},
    {"reads it again", DISCARDS("  discard.global.L2 [%d2], 128;\n  ld.global.u32 %r3, [%d5];\n  st.global.u32 [%d5+128], %r3;\n"), false, PTX_UNINITIALISED, false},
    {"writes it again", DISCARDS("  discard.global.L2 [%d2], 128;\n  st.global.u32 [%d5], %r2;\n"), false, PTX_CLEAN, true},
    {"gives up an input", DISCARDS("  discard.global.L2 [%d1], 128;\n"), false, PTX_READ_ONLY, true},
    {"beyond the end", DISCARDS("  discard.global.L2 [%d2+256], 128;\n"), false, PTX_OUT_OF_BOUNDS, true},
    {"not at a multiple", DISCARDS("  discard.global.L2 [%d2+64], 128;\n"), false, PTX_MISALIGNED, true},
    {"another size", DISCARDS("  discard.global.L2 [%d2], 64;\n"), false, PTX_UNSUPPORTED, true},
};

static void test_discards(void)
{
    uint32_t fill[32];
    for (uint32_t i = 0; i < 32; i++)
        fill[i] = i;
    for (size_t i = 0; i < sizeof discards / sizeof *discards; i++) {
        cleanup(bench) struct bench b = {0};
        check(bench_text(&b, discards[i].text));
        if (!b.m)
            continue;
        bench_buffer(&b, "x", 128, discards[i].x_writable, fill);
        const uint32_t *y = bench_buffer(&b, "y", 256, true, NULL);
        enum ptx_finding_kind found = bench_run(&b);
        if (found != discards[i].kind)
            fprintf(stderr, "%s: %s\n", discards[i].what, b.finding.text);
        check_int(found, discards[i].kind);
        if (found == PTX_CLEAN) {
            check_int(b.buffers[1].initialised[0] == 255 && b.buffers[1].initialised[15] == 255, discards[i].written);
            check_int(memcmp(y, fill, sizeof fill) == 0, discards[i].written);
        }
    }
}

int main(void)
{
    test_pointers();
    test_stores();
    test_functions();
    test_refused();
    test_discards();
    return test_done();
}
