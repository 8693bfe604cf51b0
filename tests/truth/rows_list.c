/* The rows: every form of every instruction whose answer depends on its operands alone. What the letters mean: values.c. */
#include <stddef.h>

extern const char *const truth_row_patterns[];
extern const size_t truth_row_pattern_count;

#define CMP_INT "(eq|ne|lt|le|gt|ge)"
#define CMP_ORDER "(lo|ls|hi|hs)"
#define CMP_FLOAT "(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)"
#define INT_RND "(rni|rzi|rmi|rpi)"
#define RND "(rn|rz|rm|rp)"

const char *const truth_row_patterns[] = {
    /* integers */
    "(add|sub).(u16|s16) =h, h, h", "(add|sub).(u32|s32) =r, r, r", "(add|sub).(u64|s64) =l, l, l", "(add|sub).sat.s32 =r, r, r",
    "add.(u16x2|s16x2) =r, r, r", "(div|rem|min|max).(u16|s16) =h, h, h", "(div|rem|min|max).(u32|s32) =r, r, r",
    "(div|rem|min|max).(u64|s64) =l, l, l", "(min|max).(u16x2|s16x2) =r, r, r", "(min|max).relu.(s16x2|s32) =r, r, r",
    "mul.(lo|hi).(u16|s16) =h, h, h", "mul.(lo|hi).(u32|s32) =r, r, r", "mul.(lo|hi).(u64|s64) =l, l, l",
    "mul.wide.(u16|s16) =r, h, h", "mul.wide.(u32|s32) =l, r, r",
    "mad.(lo|hi).(u16|s16) =h, h, h, h", "mad.(lo|hi).(u32|s32) =r, r, r, r", "mad.(lo|hi).(u64|s64) =l, l, l, l", "mad.hi.sat.s32 =r, r, r, r",
    "mad.wide.(u16|s16) =r, h, h, r", "mad.wide.(u32|s32) =l, r, r, l",
    "mul24.(lo|hi).(u32|s32) =r, r, r", "mad24.(lo|hi).(u32|s32) =r, r, r, r", "mad24.hi.sat.s32 =r, r, r, r",
    "sad.(u16|s16) =h, h, h, h", "sad.(u32|s32) =r, r, r, r", "sad.(u64|s64) =l, l, l, l",
    "(abs|neg).s16 =h, h", "(abs|neg).s32 =r, r", "(abs|neg).s64 =l, l",
    "add.cc.(u32|s32) =r, r, r; addc.cc.u32 =r, r, r; addc.s32 =r, r, r", "add.cc.(u64|s64) =l, l, l; addc.cc.u64 =l, l, l; addc.s64 =l, l, l",
    "sub.cc.(u32|s32) =r, r, r; subc.cc.u32 =r, r, r; subc.s32 =r, r, r", "sub.cc.(u64|s64) =l, l, l; subc.cc.u64 =l, l, l; subc.s64 =l, l, l",
    "mad.(lo|hi).cc.(u32|s32) =r, r, r, r; madc.(lo|hi).cc.u32 =r, r, r, r; addc.u32 =r, 0, 0",
    "mad.(lo|hi).cc.u64 =l, l, l, l; madc.(lo|hi).u64 =l, l, l, l", "add.cc.u32 =r, r, r; madc.(lo|hi).s32 =r, r, r, r",

    /* bits */
    "(and|or|xor).b16 =h, h, h", "(and|or|xor).b32 =r, r, r", "(and|or|xor).b64 =l, l, l", "(and|or|xor).pred =p, p, p", "not.pred =p, p",
    "(not|cnot).b16 =h, h", "(not|cnot).b32 =r, r", "(not|cnot).b64 =l, l",
    "shl.b16 =h, h, n", "shl.b32 =r, r, n", "shl.b64 =l, l, n", "shr.(b16|u16|s16) =h, h, n", "shr.(b32|u32|s32) =r, r, n",
    "shr.(b64|u64|s64) =l, l, n", "shf.(l|r).(clamp|wrap).b32 =r, r, r, n",
    "(popc|clz).b32 =r, r", "(popc|clz).b64 =r, l", "brev.b32 =r, r", "brev.b64 =l, l",
    "bfind(|.shiftamt).(u32|s32) =r, r", "bfind(|.shiftamt).(u64|s64) =r, l", "bfe.(u32|s32) =r, r, n, n", "bfe.(u64|s64) =l, l, n, n",
    "bfi.b32 =r, r, r, n, n", "bfi.b64 =l, l, l, n, n", "bmsk.(clamp|wrap).b32 =r, n, n", "szext.(clamp|wrap).(u32|s32) =r, r, n",
    "prmt.b32(|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16) =r, r, r, r", "fns.b32 =r, r, k, o",
    "lop3.b32 =r, r, r, r, (0x00|0x17|0x2d|0x80|0x96|0xca|0xe8|0xfe|0xff)", "lop3.(and|or).b32 =r|=p, r, r, r, 0x2c, p",
    "dp4a.(u32|s32).(u32|s32) =r, r, r, r", "dp2a.(lo|hi).(u32|s32).(u32|s32) =r, r, r, r",

    /* comparison and selection */
    "setp." CMP_INT ".(u16|s16) =p, h, h", "setp." CMP_INT ".(u32|s32) =p, r, r", "setp." CMP_INT ".(u64|s64) =p, l, l",
    "setp." CMP_ORDER ".u16 =p, h, h", "setp." CMP_ORDER ".u32 =p, r, r", "setp." CMP_ORDER ".u64 =p, l, l",
    "setp.(eq|ne).b16 =p, h, h", "setp.(eq|ne).b32 =p, r, r", "setp.(eq|ne).b64 =p, l, l",
    "setp.(lt|ge).(and|or|xor).s32 =p|=p, r, r, p", "setp.(eq|nan).(and|or|xor)(|.ftz).f32 =p|=p, f, f, !p",
    "setp." CMP_FLOAT "(|.ftz).f32 =p, f, f", "setp." CMP_FLOAT ".f64 =p, d, d",
    "setp." CMP_FLOAT "(|.ftz).f16 =p, e, e", "setp." CMP_FLOAT "(|.ftz).f16x2 =p|=p, E, E",
    "setp." CMP_FLOAT ".bf16 =p, b, b", "setp." CMP_FLOAT ".bf16x2 =p|=p, B, B", "setp.lt.and.f16x2 =p|=p, E, E, p",
    "set.(eq|lt|ge).(u32|s32|f32).(u16|s16) =r, h, h", "set.(ne|le|gt).(u32|s32|f32).(u32|s32) =r, r, r", "set.(eq|lt|ge).(u32|s32|f32).s64 =r, l, l",
    "set.(eq|ltu|nan|gt)(|.ftz).(u32|s32|f32).f32 =r, f, f", "set.(eq|ltu|nan|gt).(u32|s32|f32).f64 =r, d, d", "set.lt.xor.u32.s32 =r, r, r, p",
    "set.(eq|ltu|nan|gt)(|.ftz).f16.f16 =e, e, e", "set.(eq|ltu|nan|gt)(|.ftz).f16x2.f16x2 =E, E, E",
    "set.(eq|ltu|nan|gt).(u16|s16|bf16).bf16 =h, b, b", "set.(eq|ltu|nan|gt).bf16x2.bf16x2 =r, B, B", "set.(eq|ltu|gt).(u32|s32).f16 =r, e, e",
    "selp.(b16|u16|s16) =h, h, h, p", "selp.(b32|u32|s32|f32) =r, r, r, p", "selp.(b64|u64|s64|f64) =l, l, l, p",
    "slct.(b16|u16|s16).s32 =h, h, h, r", "slct.(b32|u32|s32|f32).s32 =r, r, r, r", "slct.(b64|u64|s64|f64).s32 =l, l, l, r",
    "slct(|.ftz).(b32|u32|s32|f32).f32 =r, r, r, f", "slct(|.ftz).(b64|f64).f32 =l, l, l, f", "slct.b16.f32 =h, h, h, f",
    "testp.(finite|infinite|number|notanumber|normal|subnormal).f32 =p, f", "testp.(finite|infinite|number|notanumber|normal|subnormal).f64 =p, d",

    /* f32, f64 */
    "(add|sub|mul)." RND "(|.ftz)(|.sat).f32 =f, f, f", "fma." RND "(|.ftz)(|.sat).f32 =f, f, f, f", "mad." RND "(|.ftz)(|.sat).f32 =f, f, f, f",
    "(add|sub|mul)(|.ftz)(|.sat).f32 =f, f, f", "(add|sub|mul).f64 =d, d, d", "(add|sub|mul)." RND ".f64 =d, d, d", "(fma|mad)." RND ".f64 =d, d, d, d",
    "div." RND "(|.ftz).f32 =f, f, f", "div." RND ".f64 =d, d, d", "(rcp|sqrt)." RND "(|.ftz).f32 =f, f", "(rcp|sqrt)." RND ".f64 =d, d",
    "div.(approx|full)(|.ftz).f32 =f, f, f", "(rcp|sqrt|rsqrt|ex2|lg2).approx(|.ftz).f32 =f, f", "(sin|cos).approx(|.ftz).f32 =f, x",
    "tanh.approx.f32 =f, f", "rcp.approx.ftz.f64 =d, d", "rsqrt.approx(|.ftz).f64 =d, d",
    "(abs|neg)(|.ftz).f32 =f, f", "(abs|neg).f64 =d, d", "copysign.f32 =f, f, f", "copysign.f64 =d, d, d",
    "(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).f32 =f, f, f", "(min|max).f64 =d, d, d",

    /* 16-bit floats */
    "(add|sub|mul)(|.rn)(|.ftz)(|.sat).f16 =e, e, e", "(add|sub|mul)(|.rn)(|.ftz)(|.sat).f16x2 =E, E, E",
    "(add|sub|mul)(|.rn).bf16 =b, b, b", "(add|sub|mul)(|.rn).bf16x2 =B, B, B",
    "fma.rn(|.ftz)(|.sat|.relu).f16 =e, e, e, e", "fma.rn(|.ftz)(|.sat|.relu).f16x2 =E, E, E, E",
    "fma.rn(|.relu).bf16 =b, b, b, b", "fma.rn(|.relu).bf16x2 =B, B, B, B", "fma.rn.oob(|.relu).f16 =e, e, e, e",
    "fma.rn.oob(|.relu).f16x2 =E, E, E, E", "fma.rn.oob(|.relu).bf16 =b, b, b, b", "fma.rn.oob(|.relu).bf16x2 =B, B, B, B",
    "(abs|neg)(|.ftz).f16 =e, e", "(abs|neg)(|.ftz).f16x2 =E, E", "(abs|neg).bf16 =b, b", "(abs|neg).bf16x2 =B, B",
    "(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).f16 =e, e, e", "(min|max)(|.ftz)(|.NaN)(|.xorsign.abs).f16x2 =E, E, E",
    "(min|max)(|.NaN)(|.xorsign.abs).bf16 =b, b, b", "(min|max)(|.NaN)(|.xorsign.abs).bf16x2 =B, B, B",
    "(ex2|tanh).approx.f16 =e, e", "(ex2|tanh).approx.f16x2 =E, E", "ex2.approx.ftz.bf16 =b, b", "ex2.approx.ftz.bf16x2 =B, B",
    "tanh.approx.bf16 =b, b", "tanh.approx.bf16x2 =B, B",

    /* conversions: integers */
    "cvt.(u8|s8|u16|s16|u32|s32).(u8|s8|u32|s32) =r, r", "cvt.(u8|s8|u32|s32).(u16|s16) =r, h", "cvt.(u8|s8|u16|s16|u32|s32).(u64|s64) =r, l",
    "cvt.(u16|s16).(u8|s8|u32|s32) =h, r", "cvt.(u16|s16).(u16|s16) =h, h", "cvt.(u16|s16).(u64|s64) =h, l",
    "cvt.(u64|s64).(u8|s8|u32|s32) =l, r", "cvt.(u64|s64).(u16|s16) =l, h", "cvt.(u64|s64).(u64|s64) =l, l",
    /* .sat only where a value may not fit */
    "cvt.sat.u8.(s8|u32|s32) =r, r", "cvt.sat.u8.(u16|s16) =r, h", "cvt.sat.s8.(u8|u32|s32) =r, r", "cvt.sat.s8.(u16|s16) =r, h", "cvt.sat.(u8|s8).(u64|s64) =r, l",
    "cvt.sat.u16.(s8|u32|s32) =h, r", "cvt.sat.u16.s16 =h, h", "cvt.sat.s16.(u32|s32) =h, r", "cvt.sat.s16.u16 =h, h", "cvt.sat.(u16|s16).(u64|s64) =h, l",
    "cvt.sat.u32.(s8|s32) =r, r", "cvt.sat.u32.s16 =r, h", "cvt.sat.s32.u32 =r, r", "cvt.sat.(u32|s32).(u64|s64) =r, l", "cvt.sat.(u16|s16).s32 =r, r",
    "cvt.sat.u64.(s8|s32) =l, r", "cvt.sat.u64.s16 =l, h", "cvt.sat.u64.s64 =l, l", "cvt.sat.s64.u64 =l, l",
    "cvt.pack.sat.(u16|s16).s32 =r, r, r", "cvt.pack.sat.(u8|s8|u4|s4|u2|s2).s32.b32 =r, r, r, r",
    /* floats to integers and back */
    "cvt." INT_RND "(|.ftz)(|.sat).(u8|s8|u32|s32).f32 =r, f", "cvt." INT_RND "(|.ftz)(|.sat).(u16|s16).f32 =h, f", "cvt." INT_RND "(|.ftz)(|.sat).(u64|s64).f32 =l, f",
    "cvt." INT_RND ".(u8|s8|u32|s32).f64 =r, d", "cvt." INT_RND ".(u16|s16).f64 =h, d", "cvt." INT_RND ".(u64|s64).f64 =l, d",
    "cvt." INT_RND ".(u8|s8|u32|s32).f16 =r, e", "cvt." INT_RND ".(u16|s16).f16 =h, e", "cvt." INT_RND ".(u64|s64).f16 =l, e",
    "cvt." INT_RND ".(u32|s32).bf16 =r, b", "cvt." INT_RND ".(u16|s16).bf16 =h, b", "cvt." INT_RND ".(u64|s64).bf16 =l, b",
    "cvt." RND "(|.sat).f32.(u8|s8|u32|s32) =f, r", "cvt." RND ".f32.(u16|s16) =f, h", "cvt." RND "(|.sat).f32.(u64|s64) =f, l",
    "cvt." RND ".f64.(u8|s8|u32|s32) =d, r", "cvt." RND ".f64.(u16|s16) =d, h", "cvt." RND "(|.sat).f64.(u64|s64) =d, l",
    "cvt." RND "(|.sat).f16.(u8|s8|u32|s32) =e, r", "cvt." RND ".f16.(u16|s16) =e, h", "cvt." RND ".f16.(u64|s64) =e, l",
    "cvt." RND ".bf16.(u32|s32) =b, r", "cvt." RND ".bf16.(u16|s16) =b, h", "cvt." RND ".bf16.(u64|s64) =b, l",
    /* floats to floats */
    "cvt(|.ftz)(|.sat).f32.f16 =f, e", "cvt(|.sat).f64.f16 =d, e", "cvt(|.ftz)(|.sat).f64.f32 =d, f", "cvt(|.ftz)(|.sat).f32.f32 =f, f", "cvt(|.sat).f64.f64 =d, d",
    "cvt(|.sat).f16.f16 =e, e", "cvt.f32.bf16 =f, b", "cvt.f64.bf16 =d, b", "cvt." RND "(|.ftz)(|.sat).f32.f64 =f, d", "cvt." RND "(|.ftz)(|.sat).f16.f32 =e, t",
    "cvt." RND "(|.sat).f16.f64 =e, d", "cvt." RND ".bf16.(f32) =b, f", "cvt." RND ".bf16.f64 =b, d", "cvt." RND ".bf16.f16 =b, e", "cvt." RND ".f16.bf16 =e, b",
    "cvt." INT_RND "(|.ftz)(|.sat).f32.f32 =f, f", "cvt." INT_RND "(|.sat).f64.f64 =d, d", "cvt." INT_RND "(|.sat).f16.f16 =e, e", "cvt." INT_RND ".bf16.bf16 =b, b",
    "cvt.(rn|rz)(.relu|.satfinite|.relu.satfinite).f16.f32 =e, t", "cvt.(rn|rz)(.relu|.satfinite|.relu.satfinite).bf16.f32 =b, f",
    "cvt.(rn|rz)(|.relu|.satfinite|.relu.satfinite).f16x2.f32 =E, t, t", "cvt.(rn|rz)(|.relu|.satfinite|.relu.satfinite).bf16x2.f32 =B, f, f",
    "cvt.rna(|.satfinite).tf32.f32 =r, f", "cvt.(rn|rz)(|.relu).tf32.f32 =r, f",
    "cvt.rn.satfinite(|.relu).(e4m3x2|e5m2x2).f32 =h, t, t", "cvt.rn.satfinite(|.relu).(e4m3x2|e5m2x2).f16x2 =h, E", "cvt.rn(|.relu).f16x2.(e4m3x2|e5m2x2) =E, q",

    /* moves */
    "mov.b32 {=h, =h}, r", "mov.b32 =r, {h, h}", "mov.b64 {=r, =r}, l", "mov.b64 =l, {r, r}", "mov.b64 {=h, =h, =h, =h}, l", "mov.b64 =l, {h, h, h, h}",
    "mov.(b16|u16|s16) =h, h", "mov.(b32|u32|s32|f32) =r, r", "mov.(b64|u64|s64|f64) =l, l", "mov.pred =p, p",

    /* memory: the thread's own 16 bytes */
    "ld.(global|volatile.global|relaxed.gpu.global|acquire.gpu.global|global.nc|global.ca|global.cg|global.cs|global.lu|global.cv).u32 =r, [g]",
    "ld.(u8|s8|u16|s16|u32|s32|f32|b8|b16|b32) =r, [g]", "ld.global.(u8|s8|u16|s16|u32|s32|f32|b8|b16|b32) =r, [g]", "ld.global.(u16|s16|b16|u8|s8) =h, [g]",
    "ld.shared.(u8|s8|u16|s16|u32|s32|f32) =r, [s]", "ld.local.(u8|s8|u16|s16|u32|s32|f32) =r, [l]", "ld.global.(u64|s64|b64|f64|u8|s8|s16|s32|u32) =l, [g]",
    "ld.shared.(u64|f64|s8|s16|s32) =l, [s]", "ld.global.(s8|u16|u32) =r, [g+4]; ld.global.s8 =r, [g+1]",
    "ld.global.v2.(u8|s8|u16|s16|u32|f32) {=r, =r}, [g]", "ld.global.v4.(u8|s8|u16|s16|u32|f32) {=r, =r, =r, =r}, [g]", "ld.global.v2.(u64|f64) {=l, =l}, [g]",
    "ld.shared.v2.(u8|s16|u32) {=r, =r}, [s]", "ld.shared.v4.(u8|s16|u32) {=r, =r, =r, =r}, [s]", "ld.local.v4.u32 {=r, =r, =r, =r}, [l]",
    "ld.global.L1::no_allocate(|.L2::128B).v4.u32 {=r, =r, =r, =r}, [g]",
    "st(|.volatile|.relaxed.gpu|.release.gpu|.wb|.cg|.cs|.wt).global.u32 [g], r", "st.global.(u8|s8|u16|s16|b32) [g+8], r", "st.shared.(u8|u16|u32) [s+4], r",
    "st.local.(u8|u16|u32) [l+8], r", "st.global.(u8|u16) [g], h", "st.global.(u8|u16|u32|u64) [g+8], l",
    "st.global.v2.(u8|u16|u32|f32) [g], {r, r}", "st.global.v4.(u8|u16|u32) [g], {r, r, r, r}", "st.shared.v2.(u8|u16|u32) [s], {r, r}", "st.shared.v4.u32 [s], {r, r, r, r}",
    "st.global.v2.u64 [g], {l, l}", "st.shared.v2.f64 [s], {l, l}", "st.local.v2.u32 [l], {r, r}", "st.u32 [g], r",

    /* atomics on the thread's own cell */
    "atom(|.relaxed.gpu|.acq_rel.sys|.acquire.cta|.release.cluster).global.add.u32 =r, [g], r",
    "atom.global.(add|min|max).(u32|s32) =r, [g], r", "atom.global.(add|min|max).u64 =l, [gl], l", "atom.global.(min|max).s64 =l, [gl], l",
    "atom.global.(and|or|xor|exch).b32 =r, [g], r", "atom.global.(and|or|xor|exch).b64 =l, [gl], l", "atom.global.(inc|dec).u32 =r, [gn], n",
    "atom.global.cas.b32 =r, [gv], v, r", "atom.global.cas.b64 =l, [gw], w, l", "atom.global.cas.b16 =h, [gv], h, h",
    "atom.shared.(add|min|max).(u32|s32) =r, [s], r", "atom.shared.(add|min|max).u64 =l, [sl], l", "atom.shared.(min|max).s64 =l, [sl], l",
    "atom.shared.(and|or|xor|exch).b32 =r, [s], r", "atom.shared.(and|or|xor|exch).b64 =l, [sl], l", "atom.shared.(inc|dec).u32 =r, [sn], n", "atom.shared.cas.b32 =r, [sv], v, r",
    "atom.shared.cas.b64 =l, [sw], w, l", "atom.shared.cas.b16 =h, [sv], h, h", "atom.add.u32 =r, [g], r",
    "atom.global.add.f32 =f, [gf], f", "atom.shared.add.f32 =f, [sf], f", "atom.global.add.f64 =d, [gd], d", "atom.shared.add.f64 =d, [sd], d",
    "atom.global.add.noftz.f16x2 =E, [gE], E", "atom.global.add.noftz.bf16x2 =B, [gB], B", "atom.global.add.noftz.f16 =e, [gE], e", "atom.global.add.noftz.bf16 =b, [gB], b",
    "atom.shared.add.noftz.f16x2 =E, [sE], E", "atom.shared.add.noftz.bf16 =b, [sB], b",
    "atom.global.v2.f32.add {=f, =f}, [gf], {f, f}", "atom.global.v4.f32.add {=f, =f, =f, =f}, [gf], {f, f, f, f}",
    "atom.global.v2.(f16x2).(add|min|max).noftz {=E, =E}, [gE], {E, E}", "atom.global.v2.bf16x2.(add|min|max).noftz {=B, =B}, [gB], {B, B}",
    "red.global.(add|min|max).(u32|s32) [g], r", "red.global.add.u64 [gl], l", "red.global.(min|max).(u64|s64) [gl], l", "red.global.(and|or|xor).b32 [g], r", "red.global.(and|or|xor).b64 [gl], l",
    "red.global.(inc|dec).u32 [gn], n", "red.shared.(add|min|max).(u32|s32) [s], r", "red.shared.(and|or|xor).b32 [s], r", "red.global.add.f32 [gf], f", "red.global.add.f64 [gd], d",
    "red.global.add.noftz.f16x2 [gE], E", "red.global.add.noftz.bf16x2 [gB], B", "red.global.add.noftz.f16 [gE], e", "red.shared.add.f32 [sf], f",
    "red.relaxed.gpu.global.add.u32 [g], r", "red.release.gpu.global.add.u32 [g], r", "red.global.v2.f32.add [gf], {f, f}", "red.global.v4.f32.add [gf], {f, f, f, f}",
    "red.global.v4.bf16x2.add.noftz [gB], {B, B, B, B}",

    /* a warp */
    "shfl.sync.(up|down|bfly|idx).b32 =r|=p, r, n, c, 0xffffffff", "shfl.sync.(down|bfly|idx).b32 =r, r, k, 31, 0xffffffff", "shfl.sync.up.b32 =r, r, k, 0, 0xffffffff",
    "shfl.sync.(up|down|bfly|idx).b32 =r, r, 3, 0x181f, 0xffffffff",
    "vote.sync.(all|any|uni).pred =p, p, 0xffffffff", "vote.sync.ballot.b32 =r, p, 0xffffffff", "vote.sync.ballot.b32 =r, !p, 0xffffffff",
    "match.any.sync.b32 =r, v, 0xffffffff", "match.any.sync.b64 =r, w, 0xffffffff", "match.all.sync.b32 =r|=p, v, 0xffffffff", "match.all.sync.b64 =r|=p, w, 0xffffffff",
    "redux.sync.(add|min|max).(u32|s32) =r, r, 0xffffffff", "redux.sync.(and|or|xor).b32 =r, r, 0xffffffff", "elect.sync =r|=p, 0xffffffff", "activemask.b32 =r",
    "bar.red.popc.u32 =r, 0, p", "bar.red.(and|or).pred =p, 0, p", "barrier.red.popc.u32 =r, 1, p", "barrier.red.(and|or).aligned.pred =p, 2, 128, !p",

    /* matrices: a thread's words of the fragments */
    "movmatrix.sync.aligned.m8n8.trans.b16 =r, r",
    "ldmatrix.sync.aligned.m8n8.x1(|.trans).shared.b16 {=r}, [s]", "ldmatrix.sync.aligned.m8n8.x2(|.trans).shared.b16 {=r, =r}, [s]", "ldmatrix.sync.aligned.m8n8.x4(|.trans).shared.b16 {=r, =r, =r, =r}, [s]",
    "stmatrix.sync.aligned.m8n8.x1(|.trans).shared.b16 [s], {r}", "stmatrix.sync.aligned.m8n8.x2(|.trans).shared.b16 [s], {r, r}", "stmatrix.sync.aligned.m8n8.x4(|.trans).shared.b16 [s], {r, r, r, r}",
    "mma.sync.aligned.m8n8k16.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32 {=m, =m}, {~m}, {~m}, {~m, ~m}",
    "mma.sync.aligned.m16n8k16.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32 {=m, =m, =m, =m}, {~m, ~m}, {~m}, {~m, ~m, ~m, ~m}",
    "mma.sync.aligned.m16n8k32.row.col(|.satfinite).s32.(u8|s8).(u8|s8).s32 {=m, =m, =m, =m}, {~m, ~m, ~m, ~m}, {~m, ~m}, {~m, ~m, ~m, ~m}",
    "mma.sync.aligned.m8n8k32.row.col(|.satfinite).s32.(u4|s4).(u4|s4).s32 {=m, =m}, {~m}, {~m}, {~m, ~m}",
    "mma.sync.aligned.m16n8k32.row.col.s32.(u4|s4).(u4|s4).s32 {=m, =m, =m, =m}, {~m, ~m}, {~m}, {~m, ~m, ~m, ~m}",
    "mma.sync.aligned.m16n8k64.row.col.s32.(u4|s4).(u4|s4).s32 {=m, =m, =m, =m}, {~m, ~m, ~m, ~m}, {~m, ~m}, {~m, ~m, ~m, ~m}",
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.(xor|and).popc {=m, =m}, {~m}, {~m}, {~m, ~m}",
    "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.(xor|and).popc {=m, =m, =m, =m}, {~m, ~m, ~m, ~m}, {~m, ~m}, {~m, ~m, ~m, ~m}",
    "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {=E, =E}, {~E, ~E}, {~E}, {~E, ~E}",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {=E, =E}, {~E, ~E, ~E, ~E}, {~E, ~E}, {~E, ~E}",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {=f, =f, =f, =f}, {~E, ~E}, {~E}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {=f, =f, =f, =f}, {~E, ~E, ~E, ~E}, {~E, ~E}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {=f, =f, =f, =f}, {~B, ~B}, {~B}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {=f, =f, =f, =f}, {~B, ~B, ~B, ~B}, {~B, ~B}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {=f, =f, =f, =f}, {~T, ~T}, {~T}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {=f, =f, =f, =f}, {~T, ~T, ~T, ~T}, {~T, ~T}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k32.row.col.f32.(e4m3|e5m2).(e4m3|e5m2).f32 {=f, =f, =f, =f}, {~Q, ~Q, ~Q, ~Q}, {~Q, ~Q}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k16.row.col.f32.(e4m3|e5m2).(e4m3|e5m2).f32 {=f, =f, =f, =f}, {~Q, ~Q}, {~Q}, {~f, ~f, ~f, ~f}",
    "mma.sync.aligned.m16n8k32.row.col.f16.(e4m3|e5m2).(e4m3|e5m2).f16 {=E, =E}, {~Q, ~Q, ~Q, ~Q}, {~Q, ~Q}, {~E, ~E}",
    "mma.sync.aligned.m8n8k4.row.col(|.rz).f64.f64.f64.f64 {=d, =d}, {~d}, {~d}, {~d, ~d}",
    "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {=d, =d, =d, =d}, {~d, ~d}, {~d}, {~d, ~d, ~d, ~d}",
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {=d, =d, =d, =d}, {~d, ~d, ~d, ~d}, {~d, ~d}, {~d, ~d, ~d, ~d}",
};
const size_t truth_row_pattern_count = sizeof truth_row_patterns / sizeof *truth_row_patterns;
