/*
 * Straight code of random kernels. A pattern's alternatives in (a|b) are chosen at random, its letters become random registers of
 * that kind, 'i' is an r register or a number, 'j' one below 32; %t and %s are temporary. Left out: what PTX leaves open (division by zero, the bits
 * of a NaN of f32 or f64 seen as an integer, approximations, unsuffixed float arithmetic that may be fused).
 */
#include "tests/truth/random.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const ops[] = {
    "(add|sub|mul.lo|min|max).(u32|s32) r, r, i", "(add|sub).sat.s32 r, r, r", "mul.hi.(u32|s32) r, r, i", "mad.lo.(u32|s32) r, r, i, r", "mad.hi.(u32|s32) r, r, r, r",
    "or.b32 %t0, r, 1; (div|rem).u32 r, r, %t0", "and.b32 %t0, r, 1023; or.b32 %t0, %t0, 2; (div|rem).s32 r, r, %t0", "sad.(u32|s32) r, r, r, r",
    "(and|or|xor).b32 r, r, i", "(not|cnot).b32 r, r", "(neg|abs).s32 r, r", "(shl.b32|shr.u32|shr.s32) r, r, i", "shf.(l|r).(clamp|wrap).b32 r, r, r, r",
    "(popc|clz|brev).b32 r, r", "bfind(|.shiftamt).(u32|s32) r, r", "bfe.(u32|s32) r, r, j, j", "bfi.b32 r, r, r, j, j", "bmsk.(clamp|wrap).b32 r, r, i", "szext.(clamp|wrap).(u32|s32) r, r, i",
    "prmt.b32(|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16) r, r, r, i", "lop3.b32 r, r, r, r, (0x17|0x96|0xca|0xe8|0x1b)", "dp4a.(u32|s32).(u32|s32) r, r, r, r", "dp2a.(lo|hi).(u32|s32).(u32|s32) r, r, r, r",
    "mul24.lo.(u32|s32) r, r, r", "(min|max).(s16x2|u16x2) r, r, r", "add.(s16x2|u16x2) r, r, r", "selp.b32 r, r, i, p", "slct.b32.s32 r, r, r, r", "set.(lt|ge|eq).(u32|s32).s32 r, r, r",
    "add.cc.u32 %t0, r, r; addc.cc.u32 r, r, r; addc.u32 r, r, 0", "sub.cc.u32 %t0, r, r; subc.u32 r, r, r", "mad.lo.cc.u32 %t0, r, r, r; madc.hi.u32 r, r, r, %t0",
    "mov.b32 r, i", "mov.u32 r, (%tid.x|%ctaid.x|%ntid.x|%laneid|%nctaid.x)",
    "(add|sub|mul.lo|min|max).(u64|s64) l, l, l", "mul.wide.(u32|s32) l, r, i", "mad.wide.(u32|s32) l, r, r, l", "mul.hi.(u64|s64) l, l, l", "(and|or|xor).b64 l, l, l", "not.b64 l, l", "(neg|abs).s64 l, l",
    "(shl.b64|shr.u64|shr.s64) l, l, i", "(popc|clz).b64 r, l", "brev.b64 l, l", "bfind.(u64|s64) r, l", "bfe.(u64|s64) l, l, j, j", "bfi.b64 l, l, l, j, j", "or.b64 %s0, l, 3; (div|rem).u64 l, l, %s0",
    "add.cc.u64 %s0, l, l; addc.u64 l, l, l", "selp.b64 l, l, l, p", "mov.b64 l, {r, r}", "mov.b64 {r, %t0}, l; xor.b32 r, r, %t0", "cvt.(u64.u32|s64.s32|u64.u8|s64.s8) l, r", "cvt.(sat.|)(u32|s32).(u64|s64) r, l",
    "cvt.(sat.u8.s32|sat.s8.s32|u8.u32|s8.s32|sat.u16.s32|sat.s16.u32) r, r", "cvt.sat.u8.u32 r, r",
    "(add|sub|mul).(rn|rz|rm|rp)(|.ftz)(|.sat).f32 f, f, f", "fma.(rn|rz|rm|rp)(|.ftz)(|.sat).f32 f, f, f, f", "(add|mul).rn.f32 f, f, f", "fma.rn.f32 f, f, f, f", "(min|max)(|.ftz)(|.NaN).f32 f, f, f",
    "div.rn.f32 f, f, f", "(sqrt|rcp).(rn|rz)(|.ftz).f32 f, f", "selp.f32 f, f, f, p", "cvt.(rn|rz|rm|rp).f32.(u32|s32) f, r", "cvt.(rn|rz).f32.(u64|s64) f, l", "cvt.(rni|rzi|rmi|rpi)(|.ftz).(u32|s32|u8|s8).f32 r, f",
    "cvt.(rzi|rni).(u64|s64).f32 l, f", "cvt.(rni|rzi|rmi|rpi).f32.f32 f, f", "cvt.sat.f32.f32 f, f", "mov.b32 f, r", "and.b32 %t0, r, 0x807fffff; or.b32 %t0, %t0, 0x3f000000; mov.b32 f, %t0",
    "(add|sub|mul).(rn|rz|rm|rp).f64 d, d, d", "fma.(rn|rz|rm|rp).f64 d, d, d, d", "(min|max).f64 d, d, d", "cvt.(rn|rz|rm|rp).f32.f64 f, d", "cvt.f64.f32 d, f", "cvt.rn.f64.(s32|u32) d, r", "cvt.rn.f64.(s64|u64) d, l",
    "cvt.(rzi|rni|rmi).(s32|u32).f64 r, d", "cvt.(rzi|rpi).(s64|u64).f64 l, d", "and.b64 %s0, l, 0x800fffffffffffff; or.b64 %s0, %s0, 0x3fe0000000000000; mov.b64 d, %s0", "selp.f64 d, d, d, p",
    "(add|sub|mul.lo|min|max).(u16|s16) h, h, h", "(and|or|xor).b16 h, h, h", "(shl.b16|shr.u16|shr.s16) h, h, r", "mul.wide.(u16|s16) r, h, h", "cvt.u16.u32 h, r", "cvt.(u32.u16|s32.s16) r, h", "mov.b32 r, {h, h}", "mov.b32 {h, h}, r",
    "(add|sub|mul).rn(|.ftz)(|.sat).f16 h, h, h", "fma.rn(|.ftz)(|.sat|.relu).f16 h, h, h, h", "(add|sub|mul).rn(|.sat).f16x2 x, x, x", "fma.rn(|.relu).f16x2 x, x, x, x", "(min|max)(|.NaN).f16x2 x, x, x",
    "(add|sub|mul).rn.bf16 h, h, h", "fma.rn(|.relu).bf16 h, h, h, h", "(add|sub|mul).rn.bf16x2 x, x, x", "fma.rn.bf16x2 x, x, x, x", "(min|max)(|.NaN).bf16x2 x, x, x", "mov.b32 x, r", "mov.b32 r, x",
    "cvt.(rn|rz)(|.relu).(f16x2|bf16x2).f32 x, f, f", "cvt.rn.(f16|bf16).f32 h, f", "cvt.f32.(f16|bf16) f, h", "cvt.rn.satfinite.(e4m3x2|e5m2x2).f32 h, f, f", "cvt.rn.f16x2.(e4m3x2|e5m2x2) x, h", "cvt.(rzi|rni).(s32|u32).f16 r, h", "cvt.rn.f16.(s32|u32) h, r",
    "setp.(eq|ne|lt|le|gt|ge).(u32|s32) p, r, i", "setp.(lo|ls|hi|hs).u32 p, r, r", "setp.(lt|ge).(and|or|xor).s32 p, r, r, p", "setp.(lt|ne).(u64|s64) p, l, l", "setp.(eq|lt|geu|neu|num|nan)(|.ftz).f32 p, f, f", "setp.(lt|gtu|nan).f64 p, d, d", "setp.(lt|neu).f16 p, h, h",
    "(and|or|xor).pred p, p, p", "not.pred p, p", "testp.(finite|notanumber|normal).f32 p, f", "@p add.u32 r, r, i", "@!p fma.rn.f32 f, f, f, f", "@p mov.b64 l, l",
};
static const char *const uniform_ops[] = {
    "", /* any of the names below */
    "mad.lo.u32 u, u, u, u", "shr.u32 u, u, 3", "shf.l.wrap.b32 u, u, u, 7", "popc.b32 u, u", "mul.hi.u32 u, u, u",
};
#define COUNT(a) (uint32_t)(sizeof(a) / sizeof *(a))

static void operand(struct maker *m, char kind)
{
    static const struct { char kind; uint8_t count; } files[] = {{'r', STATE_R}, {'l', STATE_L}, {'f', STATE_F}, {'d', STATE_D},
                                                                {'h', STATE_H}, {'x', STATE_X}, {'p', STATE_P}, {'u', STATE_U}};
    static const char *const numbers[] = {"0", "1", "2", "3", "5", "8", "13", "16", "31", "32", "33", "100", "255", "0x7fff", "0x12345", "0x7fffffff", "-1", "-7"};
    enum { PLACES = 9 }; /* the first are places in a word */
    if (kind == 'i' || kind == 'j') {
        if (pick(m, 2)) {
            buf_str(m->to, numbers[pick(m, kind == 'i' ? COUNT(numbers) : PLACES)]);
            return;
        }
        kind = 'r';
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].kind == kind)
            buf_fmt(m->to, "%%%c%u", kind, pick(m, files[i].count));
}

/* "(a|b|)": one of them */
static const char *choose(struct maker *m, const char *p)
{
    const char *end = strchr(p, ')');
    uint32_t n = 1;
    for (const char *q = p; q < end; q++)
        n += *q == '|';
    const char *from = p + 1;
    for (uint32_t i = pick(m, n); i; i--)
        from = strchr(from, '|') + 1;
    buf_add(m->to, from, strcspn(from, "|)"));
    return end;
}

/* The format's $-parts from left to right, then its arguments: the order of random choices does not hang on the compiler. */
void code(struct maker *m, const char *fmt, ...)
{
    cleanup(buf) struct buf text = {0};
    struct buf *const to = m->to;
    m->to = &text;
    for (const char *p = fmt; *p; p++) {
        if (*p != '$') {
            buf_add(&text, p, 1);
        } else if (*++p == '(') {
            p = choose(m, p);
        } else if (*p == '#') {
            char *end;
            buf_fmt(&text, "%u", pick(m, (uint32_t)strtoul(p + 1, &end, 10)));
            p = end;
        } else {
            buf_str(&text, "%"); /* the format's %% */
            operand(m, *p);
        }
    }
    m->to = to;
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(to, buf_cstr(&text), ap);
    va_end(ap);
}

static void pattern(struct maker *m, const char *text)
{
    bool in_opcode = true;
    for (const char *p = text; *p; p++) {
        if (*p == '(') {
            p = choose(m, p);
        } else if (*p == '@') { /* a guard: "@p " or "@!p " */
            const bool negated = p[1] == '!';
            buf_str(m->to, negated ? "@!" : "@");
            operand(m, 'p');
            buf_str(m->to, " ");
            p += negated ? 3 : 2;
        } else if (in_opcode) {
            buf_add(m->to, p, 1);
            in_opcode = *p != ' ';
        } else if (*p == '%' || isdigit((unsigned char)*p)) {
            const size_t size = strspn(p, "%0123456789abcdefstx");
            buf_add(m->to, p, size);
            p += size - 1;
        } else if (isalpha((unsigned char)*p)) {
            operand(m, *p);
        } else {
            buf_add(m->to, p, 1);
            if (*p == ';')
                in_opcode = true, buf_str(m->to, " "), p++;
        }
    }
    buf_str(m->to, ";\n");
}

/* "{h, h}" may not name one register twice; the pattern's two are made different by hand. */
void random_op(struct maker *m)
{
    const char *text = ops[pick(m, COUNT(ops))];
    if (!strcmp(text, "mov.b32 {h, h}, r")) {
        const uint32_t h = pick(m, STATE_H);
        code(m, "mov.b32 {%%h%u, %%h%u}, $r;\n", h, (h + 1) % STATE_H);
        return;
    }
    pattern(m, text);
}

void random_uniform_op(struct maker *m)
{
    const uint32_t i = pick(m, COUNT(uniform_ops));
    if (i) {
        pattern(m, uniform_ops[i]);
        return;
    }
    static const char *const names[] = {"add.u32", "sub.u32", "mul.lo.u32", "min.s32", "max.s32", "xor.b32", "max.u32"};
    code(m, "%s ", names[pick(m, COUNT(names))]);
    for (int k = 0; k < 3; k++) {
        operand(m, 'u');
        buf_str(m->to, k < 2 ? ", " : ";\n");
    }
}

/* ---- device functions: fn<even> takes and returns 32 bits, fn<odd> 64; a later one may call the one before ---- */
static void function_body(struct maker *m, unsigned i)
{
    const bool wide = i & 1;
    const char *const t = wide ? "b64" : "b32", *const s = wide ? "u64" : "u32";
    code(m, ".func (.param .%s out) fn%u(.param .%s a, .param .%s b)\n{\n.reg .%s %%x<4>; .reg .pred %%q<2>; .reg .b32 %%n;\n"
                   "ld.param.%s %%x0, [a]; ld.param.%s %%x1, [b];\n", t, i, t, t, t, t, t);
    static const char *const lines[] = {"add.%s %%x0, %%x0, %%x1;\n", "mul.lo.%s %%x0, %%x0, %%x1;\n", "sub.%s %%x1, %%x1, %%x0;\n", "max.%s %%x1, %%x0, %%x1;\n",
                                        "mad.lo.%s %%x0, %%x1, 7, %%x0;\n", "min.%s %%x0, %%x1, %%x0;\n"};
    buf_str(m->to, "mov.u32 %n, 0;\n");
    for (uint32_t n = 1 + pick(m, 4); n; n--)
        buf_fmt(m->to, lines[pick(m, COUNT(lines))], s);
    if (pick(m, 2)) { /* a way out in the middle */
        code(m, "setp.lt.%s %%q0, %%x0, %%x1; @!%%q0 bra go%u; st.param.%s [out], %%x1; ret;\ngo%u:\n", s, i, t, i);
    }
    if (pick(m, 2)) { /* a loop */
        code(m, "again%u:\n", i);
        for (uint32_t n = 1 + pick(m, 2); n; n--)
            buf_fmt(m->to, lines[pick(m, COUNT(lines))], s);
        code(m, "add.u32 %%n, %%n, 1; setp.lt.u32 %%q0, %%n, %u; setp.ne.and.%s %%q0, %%x0, %%x1, %%q0; @%%q0 bra again%u;\n", 2 + pick(m, 4), s, i);
    }
    if (i >= 2 && pick(m, 2))
        code(m, "{ .param .%s p0; .param .%s p1; .param .%s r0; st.param.%s [p0], %%x1; st.param.%s [p1], %%x0; call (r0), fn%u, (p0, p1); ld.param.%s %%x0, [r0]; }\n", t, t, t, t, t, i - 2, t);
    code(m, "st.param.%s [out], %%x0; ret;\n}\n", t);
}

void random_functions(struct maker *m)
{
    m->functions = pick(m, 5);
    for (unsigned i = 0; i < m->functions; i++)
        function_body(m, i);
}

void random_call(struct maker *m)
{
    if (!m->functions) {
        random_op(m);
        return;
    }
    const unsigned i = pick(m, m->functions);
    if (i & 1)
        code(m, "{ .param .b64 p0; .param .b64 p1; .param .b64 r0; st.param.b64 [p0], $l; st.param.b64 [p1], $l; call (r0), fn%u, (p0, p1); ld.param.b64 $l, [r0]; }\n", i);
    else
        code(m, "{ .param .b32 p0; .param .b32 p1; .param .b32 r0; st.param.b32 [p0], $r; st.param.b32 [p1], $r; call (r0), fn%u, (p0, p1); ld.param.b32 $r, [r0]; }\n", i);
}
