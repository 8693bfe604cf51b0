/*
 * Text that one reader takes for a comment and another for code. The scan reads PTX with the emulator's parser, the card gets what
 * NVIDIA's assembler made of the same text: whatever the assembler takes, the scan must have seen.
 *
 * The hidden text is a forbidden instruction beside a barrier with the number 13: the assembler's log tells how many barriers a kernel
 * uses, so it is known whether it saw the text. Where it did, the scan must refuse. Entries are counted by both likewise.
 */
#include "gpu/device/device.h"
#include "gpu/ptx/ptx.h"
#include "tests/test.h"

#define HEAD ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define BEGIN ".visible .entry k(.param .u64 a)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [a];\n"
#define END "\nret;\n}\n"
#define HIDDEN "prefetch.global.L2 [%rd1]; bar.sync 13;"

static struct toolkit_paths toolkit;

/* @ is the hidden text. seen: 1 where the assembler is known to take it for code, 0 where not, -1 where it may do as it likes. */
static const struct trick { const char *text; int seen; } tricks[] = {
    {"@", 1},
    {"// @", 0},
    {"/* @ */", 0},
    {"// no\n@", 1},
    {"// no\r@\n", -1},
    {"// no\r\n@", 1},
    {"// no \\\n@\n", -1},
    {"// no \\\r\n@\n", -1},
    {"// no ?\?/\n@\n", -1},
    {"// no \v @\n", -1},
    {"// no \f @\n", -1},
    {"// no \xc2\x85 @\n", -1},
    {"// no \xe2\x80\xa8 @\n", -1},
    {"/* one /* two */ @ /* */", 1},
    {"/* one /* two */ @ */", -1},
    {"/* // */ @", 1},
    {"// /*\n@\n// */", 1},
    {"/* \" */ @ /* \" */", 1},
    {"/* \\*/ @ /* */", 1},
    {"/**/ @", 1},
    {"/*/ @ /*/", -1},
    {"/***/ @ /***/", 1},
    {"/* * / @ */", 0},
    {"/\\\n/ @\n", -1},
    {"/\\\n* @ *\\\n/", -1},
    {".pragma \"nounroll\"; @", 1},
    {".pragma \"a // b\"; @", -1},
    {".pragma \"a /* b\"; @ /* c */", -1},
    {".pragma \"a \\\" ; // b\"; @", -1},
    {".pragma \"a \\\\\"; @ //\"; ", -1},
    {".pragma \"a\\\n\"; @", -1},
    {".pragma \"a\n\"; @", -1},
    {".loc 1 1 1\n@", -1},
    {".file 1 \"/etc/passwd\"\n.loc 1 1 1\n@", -1},
    {".loc 1 1 1 @", -1},
    {"#line 1\n@", -1},
    {"# 1 \"x\"\n@", -1},
    {"# @", -1},
    {"#if 0\n@\n#endif", -1},
    {"#define X @\nX", -1},
    {"; @", -1},
    {"{ { @ } }", 1},
    {"L: @", 1},
    {"$L_1: @", 1},
    {"setp.eq.u32 %p1, 1, 1; @%p1 bra M; M: \x40", 1},
    {"@ exit;", 1},
    {"exit; @", -1},
    {"bra N; @ N:", -1},
    {"prefetch/**/.global/* */.L2 [%rd1]; bar.sync 13;", -1},
    {"prefetch .global .L2 [%rd1]; bar.sync 13;", -1},
    {"prefetch\n.global\n.L2\n[ %rd1 ] ; bar.sync 13;", -1},
    {"prefetch.global.L2[%rd1];bar.sync\t13\t;", 1},
    {"prefetch.global.L2 [ %rd1 + 0 ] ; bar . sync 13;", -1},
    {"prefetch.global.L2 [%rd1];\r\n bar.sync\r\n13;", 1},
    {"prefetch.global.L2 [%rd1];\v\fbar.sync 13;", -1},
    {"prefetch.global.L\\\n2 [%rd1]; bar.sync 13;", -1},
    {"pre\\\nfetch.global.L2 [%rd1]; bar.sync 13;", -1},
    {"prefetch.global.L2::evict_last [%rd1]; bar.sync 13;", -1},
    {"prefetchu.L1 [%rd1]; bar.sync 13;", -1},
    {"{ .reg .b64 prefetch; mov.u64 prefetch, %rd1; prefetch.global.L2 [prefetch]; bar.sync 13; }", -1},
    {"call F; bra E; \n.reg .b32 %q; E: @", -1},
    {"\xef\xbb\xbf@", -1},
    {"\xc2\xa0@", -1},
    {"\x01@", -1},
    {"\x1a@", -1},
    {"\xff@", -1},
};

/* In place of the whole module. Each may define entries that were not asked for. */
static const char *const modules[] = {
    HEAD BEGIN "ret; }\n.visible .entry evil() { ret; }\n.func tail() {" END,
    HEAD BEGIN END ".visible .entry\n/* c */ evil\n()\n{ ret; }\n",
    HEAD BEGIN END ".weak .entry evil() { ret; }\n",
    HEAD BEGIN END ".entry evil() { ret; }\n",
    HEAD ".visible .entry evil();\n" BEGIN END,
    HEAD ".visible .entry k(.param .u64 a);\n" BEGIN END,
    HEAD ".extern .entry evil();\n" BEGIN END,
    HEAD BEGIN END "// \r.visible .entry evil() { ret; }\n",
    HEAD BEGIN END "// \\\n.visible .entry evil() { ret; }\n",
    HEAD BEGIN END "/* /* */ .visible .entry evil() { ret; } /* */\n",
    HEAD BEGIN END ".pragma \"// \"; .visible .entry evil() { ret; }\n",
    HEAD BEGIN END "#\n.visible .entry evil() { ret; }\n",
    HEAD BEGIN END ".section .debug_x { .b8 1 }\n.visible .entry evil() { ret; }\n",
    HEAD BEGIN END ".section .debug_x { .b8 1 } .visible .entry evil() { ret; }\n",
    HEAD BEGIN END ".visible .entry evil() .maxntid 1 { ret; }\n",
    HEAD BEGIN END ".visible .entry $evil$() { ret; }\n",
    HEAD BEGIN END ".visible .entry %evil() { ret; }\n",
    HEAD BEGIN END ".visible .entry e\\\nvil() { ret; }\n",
    HEAD BEGIN END ".visible .func f() { ret; }\n.alias evil, f;\n",
    HEAD BEGIN END HEAD ".visible .entry evil() { ret; }\n",
    HEAD BEGIN END ".version 8.0\n.visible .entry evil() { ret; }\n",
    "// \r" HEAD BEGIN END,
    "/*\n*/" HEAD BEGIN END,
    "\xef\xbb\xbf" HEAD BEGIN END,
    HEAD ".visible .entry k(.param .u64 a) { ret; }\n.visible .entry k(.param .u64 a) { trap; }\n",
};

static char *with_hidden(const char *text)
{
    struct buf b = {0};
    buf_str(&b, HEAD BEGIN);
    for (; *text; text++) {
        bool guard = text[0] == '@' && text[1] == '%';
        if (*text == '@' && !guard)
            buf_str(&b, HIDDEN);
        else
            buf_add(&b, text, 1);
    }
    buf_str(&b, END);
    return buf_take(&b);
}

/* The scan's word on it: refused, by the parser or by a rule. */
static bool refused(const char *ptx, char *why, size_t size)
{
    struct ptx_finding f = {0};
    struct ptx_scan s = {0};
    struct err err = {0};
    const struct ptx_declares none = {.atomics = false};
    cleanup(ptx) struct ptx_module *m = NULL;
    bool ok = ptx_parse(ptx, strlen(ptx), &ptx_default_limits, &m, &f, &err) && (!m || ptx_scan(m, &none, &s, &err));
    check(ok);
    snprintf(why, size, "%s", !m ? f.text : s.refused.text);
    return !m || s.refused.kind != PTX_CLEAN;
}

static void test_tricks(void)
{
    int taken = 0;
    for (size_t i = 0; i < sizeof tricks / sizeof *tricks; i++) {
        cleanup(str) char *ptx = with_hidden(tricks[i].text);
        struct toolkit_assembled a = {0};
        struct err err = {0};
        char why[200];
        check(toolkit_assemble(&toolkit, ptx, strlen(ptx), "sm_90a", 0, &a, &err));
        bool seen = a.ok && strstr(a.log, "used 14 barriers"), held = refused(ptx, why, sizeof why);
        taken += seen;
        if ((seen && !held) || (tricks[i].seen >= 0 && seen != tricks[i].seen))
            fprintf(stderr, "%s\nassembled: %d, seen by the assembler: %d, refused by the scan: %d %s\n%.200s\n", tricks[i].text, a.ok, seen, held, why, a.ok ? "" : a.log);
        check(!seen || held);
        check(tricks[i].seen < 0 || seen == tricks[i].seen);
        check(tricks[i].seen != 0 || !held);            /* a comment is no crime */
        free(a.cubin), free(a.log);
    }
    printf("%d of %zu spellings are code to the assembler\n", taken, sizeof tricks / sizeof *tricks);
    check(taken > 15);
}

/* Entries: what the parser knows is what the assembler makes, or one of them refuses; never our failure. */
static void test_modules(void)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        struct toolkit_assembled a = {0};
        struct err err = {0};
        struct ptx_finding f = {0};
        cleanup(ptx) struct ptx_module *m = NULL;
        bool ours = !toolkit_assemble(&toolkit, modules[i], strlen(modules[i]), "sm_90a", 0, &a, &err);
        check(ptx_parse(modules[i], strlen(modules[i]), &ptx_default_limits, &m, &f, &err));
        bool equal = !a.ok || !m || a.kernel_count == ptx_kernel_count(m);
        if ((ours && m) || !equal)
            fprintf(stderr, "%s\nassembled: %d %s %d entries, parsed: %d %s %d entries\n", modules[i] + sizeof HEAD - 1, a.ok, err.text, a.kernel_count, m != NULL, f.text,
                    m ? ptx_kernel_count(m) : 0);
        check(!ours || !m);
        check(equal);
        free(a.cubin), free(a.log);
    }
}

/* Through the compiler: inline assembly is text that it copies, whatever macros, pasted strings and constants it is made of. */
static const char *const sources[] = {
    "extern \"C\" __global__ void k(float *p) { asm volatile(\"pre\" \"fetch.global.\" \"L2 [%0]; bar.sync 13;\" :: \"l\"(p)); }\n",
    "#define S2(x) #x\n#define S(x) S2(x)\n#define P prefetch.global.L2\nextern \"C\" __global__ void k(float *p) { asm volatile(S(P) \" [%0]; bar.sync 13;\" :: \"l\"(p)); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(R\"x(\n\t/* \" */ prefetch.global.L2 [%0]; // \n bar.sync 13; )x\" :: \"l\"(p)); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\"\\x70refetch.global.L2 [%0]; \\142ar.sync 13;\" :: \"l\"(p)); }\n",
    "#define A(x) asm volatile(\"{ .reg .pred q; setp.eq.u32 q, 0, 0;\\n@q \" x \" }\" :: \"l\"(p));\nextern \"C\" __global__ void k(float *p) { A(\"prefetch.global.L2 [%0]; bar.sync 13;\") }\n",
    "static __device__ constexpr char word[] = \"prefetch.global.L2\";\nextern \"C\" __global__ void k(float *p) { asm volatile(\"%1 [%0]; bar.sync 13;\" :: \"l\"(p), \"C\"(word)); }\n",
    "asm(\".visible .entry evil() { prefetch.global.L2 [0]; bar.sync 13; ret; }\");\nextern \"C\" __global__ void k(float *p) { *p = 1; }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\"ret; }\\n.visible .entry evil(.param .u64 a) { .reg .b64 %%x; ld.param.u64 %%x, [a]; prefetch.global.L2 [%%x]; bar.sync 13;\"); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\"}\\n.func evil(.param .b64 a) {\\n .reg .b64 %%x; ld.param.u64 %%x, [a]; prefetch.global.L2 [%%x]; bar.sync 13;\"); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\"// \\\\\\n prefetch.global.L2 [%0]; bar.sync 13;\" :: \"l\"(p)); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\".pragma \\\"x\\\"; prefetch.global.L2 [%0]; bar.sync 13;\" :: \"l\"(p)); }\n",
    "extern \"C\" __global__ void k(float *p) { asm volatile(\".section .debug_x\\n{\\n.b8 1\\n}\\n prefetch.global.L2 [%0]; bar.sync 13;\" :: \"l\"(p)); }\n",
};

static void test_sources(void)
{
    int reached = 0;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct toolkit_compiled c = {0};
        struct toolkit_assembled a = {0};
        struct err err = {0};
        char why[200] = "";
        check(toolkit_compile(&toolkit, sources[i], "sm_90a", "", &c, &err));
        bool ours = c.ok && !toolkit_assemble(&toolkit, c.ptx, c.ptx_bytes, "sm_90a", 0, &a, &err);
        bool seen = a.ok && strstr(a.log, "used 14 barriers"), held = c.ok && refused(c.ptx, why, sizeof why);
        reached += seen;
        if (ours || (seen && !held))
            fprintf(stderr, "%s\nassembled: %d %s, seen: %d, refused: %d %s\n", sources[i], a.ok, err.text, seen, held, why);
        check(!ours || held);
        check(!seen || held);
        free(c.ptx), free(c.log), free(a.cubin), free(a.log);
    }
    printf("%d of %zu sources reach the assembler with the hidden text\n", reached, sizeof sources / sizeof *sources);
    check(reached >= 4);
}

int main(void)
{
    struct err err = {0};
    if (!toolkit_find(NULL, &toolkit, &err))
        test_skip(err.text);
    test_tricks();
    test_modules();
    test_sources();
    return test_done();
}
