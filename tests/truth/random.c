/*
 * Random kernels that end, have no race and one possible result, by construction:
 *
 *   lanes      Whoever makes code knows who executes it (struct place): the whole block, or those lanes of a warp that register
 *              %m<n> holds. Before a branch the mask of each side is voted; a loop votes before each round. Shuffles, votes, matches
 *              and bar.warp.sync name exactly that mask, and a shuffle only reads from lanes in it.
 *   ends       Loops count to at most 6, at most 2 deep (3 if the block goes together), and the statements have a budget.
 *   races      A thread writes only its own slots; others read them between two barriers, or between a barrier and the next write,
 *              since the slots of successive exchanges alternate. Cells that all change have one commutative operation each.
 *   barriers   Only where the whole block goes, in loops and branches on values that are the same everywhere.
 *   one result Everything is set before it is used; nothing that PTX leaves open is seen (random_ops.c); NaNs are made the same
 *              before their bits count.
 *
 * Scratch: TRUTH_ACC_BYTES of cells, then 64 bytes a thread.
 */
#include "tests/truth/random.h"

#define OWN_BYTES 64
#define IN_WORDS 4096
#define SHARED_CELLS 8

static void statement(struct maker *m, struct place at);
static void block(struct maker *m, struct place at, unsigned least)
{
    for (unsigned n = least + pick(m, 5); n; n--)
        statement(m, at);
}

static const char *mask_of(struct place at, char *text, size_t size)
{
    if (at.whole_block)
        snprintf(text, size, "0xffffffff");
    else
        snprintf(text, size, "%%m%u", at.mask);
    return text;
}
#define MASK(at) mask_of(at, (char[16]){0}, 16)

/* ---- control ---- */
/* %q<n> is a fresh predicate register that later code does not change. */
static void condition(struct maker *m, struct place at, unsigned q, bool uniform)
{
    if (uniform)
        code(m, "and.b32 %%t0, $u, $(3|4|5|6|7); setp.$(eq|ne|lt|le|gt|ge).s32 %%q%u, %%t0, $#5#;\n", q);
    else if (pick(m, 3))
        code(m, "and.b32 %%t0, $r, $#16#; setp.$(eq|ne|lt|le|gt|ge).s32 %%q%u, %%t0, $#8#;\n", q);
    else if (pick(m, 2))
        code(m, "setp.$(eq|ne|lt|le|gt|ge).s32 %%q%u, %%lane, $#32#;\n", q);
    else
        code(m, "and.pred %%q%u, $p, $p;\n", q);
    (void)at;
}

static struct place side(struct maker *m, struct place at, bool uniform)
{
    struct place s = at;
    s.depth++;
    if (uniform)
        return s;
    s.whole_block = false;
    s.mask = m->masks++;
    return s;
}

static void make_if(struct maker *m, struct place at)
{
    const bool uniform = at.whole_block && pick(m, 2), has_else = pick(m, 2);
    const unsigned label = m->labels++, q = m->labels++;
    condition(m, at, q, uniform);
    const struct place then = side(m, at, uniform), other = has_else ? side(m, at, uniform) : at;
    if (!uniform) {
        code(m, "vote.sync.ballot.b32 %%m%u, %%q%u, %s;\n", then.mask, q, MASK(at));
        if (has_else)
            code(m, "vote.sync.ballot.b32 %%m%u, !%%q%u, %s;\n", other.mask, q, MASK(at));
    }
    code(m, "@!%%q%u bra else%u;\n", q, label);
    block(m, then, 1);
    if (has_else)
        code(m, "bra end%u;\n", label);
    code(m, "else%u:\n", label);
    if (has_else) {
        block(m, other, 1);
        code(m, "end%u:\n", label);
    }
}

/* for (c = 0; c < trips; c++), the test at the top and voted, or at the bottom if all go together */
static void make_loop(struct maker *m, struct place at)
{
    const bool uniform = at.whole_block && pick(m, 2);
    const unsigned label = m->labels++, q = m->labels++, c = m->loops++;
    struct place body = side(m, at, uniform);
    body.loop_depth++;
    code(m, uniform ? "mov.u32 %%c%u, 0; and.b32 %%n%u, $u, $(3|5);\n" : "mov.u32 %%c%u, 0; and.b32 %%n%u, $r, $(3|5);\n", c, c);
    if (uniform) {
        code(m, "loop%u:\n", label);
        block(m, body, 1);
        code(m, "add.u32 %%c%u, %%c%u, 1; setp.le.u32 %%q%u, %%c%u, %%n%u; @%%q%u bra loop%u;\n", c, c, q, c, c, q, label);
        return;
    }
    code(m, "mov.b32 %%m%u, %s;\nloop%u:\n", body.mask, MASK(at), label);
    code(m, "setp.lt.u32 %%q%u, %%c%u, %%n%u; vote.sync.ballot.b32 %%m%u, %%q%u, %%m%u; @!%%q%u bra done%u;\n", q, c, c, body.mask, q, body.mask, q, label);
    block(m, body, 1);
    if (pick(m, 3) == 0) { /* some leave early: they vote themselves out at the top, with no trip left */
        code(m, "@$p mov.u32 %%c%u, %%n%u;\n", c, c);
    }
    code(m, "add.u32 %%c%u, %%c%u, 1; bra loop%u;\ndone%u:\n", c, c, label, label);
}

static void make_switch(struct maker *m, struct place at)
{
    const bool uniform = at.whole_block && pick(m, 2);
    const unsigned label = m->labels++, ways = 2 + pick(m, 3), q = m->labels++;
    code(m, uniform ? "rem.u32 %%n%u, $u, %u;\n" : "rem.u32 %%n%u, $r, %u;\n", m->loops, ways);
    const unsigned index = m->loops++;
    struct place sides[4];
    for (unsigned w = 0; w < ways; w++) {
        sides[w] = side(m, at, uniform);
        if (!uniform)
            code(m, "setp.eq.u32 %%q%u, %%n%u, %u; vote.sync.ballot.b32 %%m%u, %%q%u, %s;\n", q, index, w, sides[w].mask, q, MASK(at));
    }
    code(m, "to%u: .branchtargets ", label);
    for (unsigned w = 0; w < ways; w++)
        code(m, "%scase%u_%u", w ? ", " : "", label, w);
    code(m, ";\nbrx.idx%s %%n%u, to%u;\n", uniform && pick(m, 2) ? ".uni" : "", index, label);
    for (unsigned w = 0; w < ways; w++) {
        code(m, "case%u_%u:\n", label, w);
        block(m, sides[w], 1);
        code(m, "bra after%u;\n", label);
    }
    code(m, "after%u:\n", label);
}

/* ---- between lanes ---- */
/* %t1: a lane that is in the mask: the one that %r says, else one's own */
static void a_lane(struct maker *m, struct place at)
{
    code(m, "and.b32 %%t1, $r, 31; mov.b32 %%t2, %s; shr.u32 %%t2, %%t2, %%t1; and.b32 %%t2, %%t2, 1; setp.ne.u32 %%tp, %%t2, 0; selp.b32 %%t1, %%t1, %%lane, %%tp;\n", MASK(at));
}

static void make_shuffle(struct maker *m, struct place at)
{
    if (at.whole_block && pick(m, 2)) {
        code(m, pick(m, 2) ? "shfl.sync.up.b32 $r|$p, $r, $(0|1|2|5|8|16|31|%%u0|%%u1), $(0|0x1000|0x1800|0x1c00|0x1e00), 0xffffffff;\n"
                           : "shfl.sync.$(down|bfly).b32 $r|$p, $r, $(1|2|4|7|16|31|%%u2|%%u3), $(0x1f|0x101f|0x181f|0x1c1f|0x1e1f), 0xffffffff;\n");
        return;
    }
    a_lane(m, at);
    code(m, "shfl.sync.idx.b32 $r, $r, %%t1, 31, %s;\n", MASK(at));
}

static void make_vote(struct maker *m, struct place at)
{
    switch (pick(m, 6)) {
    case 0: code(m, "vote.sync.$(all|any|uni).pred $p, $(|!)$p, %s;\n", MASK(at)); break;
    case 1: code(m, "vote.sync.ballot.b32 $r, $p, %s;\n", MASK(at)); break;
    case 2: code(m, "and.b32 %%t0, $r, 3; match.any.sync.b32 $r, %%t0, %s;\n", MASK(at)); break;
    case 3: code(m, "and.b64 %%s0, $l, 1; match.all.sync.b64 $r|$p, %%s0, %s;\n", MASK(at)); break;
    default: code(m, "redux.sync.$(add.u32|add.s32|min.u32|max.u32|min.s32|max.s32|and.b32|or.b32|xor.b32) $r, $r, %s;\n", MASK(at)); break;
    }
}

/* Own slot, then a lane's of the mask, in the warps' area. */
static void make_warp_exchange(struct maker *m, struct place at)
{
    code(m, "st.shared.b64 [%%warpslot], $l; bar.warp.sync %s;\n", MASK(at));
    a_lane(m, at);
    code(m, "mad.lo.u32 %%t1, %%t1, 8, %%warpbase; ld.shared.b64 $l, [%%t1]; bar.warp.sync %s;\n", MASK(at));
}

/* ---- between warps; the whole block goes ---- */
/* %t1: the address of a slot of area + phase */
static void a_slot(struct maker *m)
{
    code(m, "rem.u32 %%t1, $r, %%team; mad.lo.u32 %%t1, %%t1, 8, %%phase;\n");
}
static void make_exchange(struct maker *m)
{
    switch (pick(m, 4)) {
    case 0: code(m, "add.u32 %%t1, %%phase, %%me8; st.shared.v2.b32 [%%t1], {$r, $r};\n"); break;
    case 1: code(m, "add.u32 %%t1, %%phase, %%me8; and.b32 %%t2, $r, %u; mul.wide.u32 %%s0, %%t2, 8; add.u64 %%s0, %%s0, %%in; cp.async.ca.shared.global [%%t1], [%%s0], 8; cp.async.wait_all;\n", IN_WORDS / 2 - 1); break;
    default: code(m, "add.u32 %%t1, %%phase, %%me8; st.shared.b64 [%%t1], $l;\n"); break;
    }
    code(m, "%s 0;\n", pick(m, 2) ? "bar.sync" : "barrier.sync");
    a_slot(m);
    switch (pick(m, 4)) {
    case 0: code(m, "ld.shared.b64 $l, [%%t1];\n"); break;
    case 1: code(m, "ld.shared.v2.u32 {$r, %%t0}, [%%t1]; ld.shared.s16 %%t0, [%%t1+6]; add.u32 $r, $r, %%t0;\n"); break;
    case 2: code(m, "ld.shared.u8 $r, [%%t1+$#8#];\n"); break;
    default: code(m, "ld.shared.u32 $r, [%%t1]; ld.shared.u32 %%t0, [%%t1+4]; mov.b64 $l, {$r, %%t0};\n"); break;
    }
    buf_str(m->to, "add.u32 %phase, %areasum, 0; sub.u32 %phase, %phase, %phaseold; mov.u32 %phaseold, %phase;\n");
}

static void make_barrier_vote(struct maker *m)
{
    if (pick(m, 2))
        code(m, "bar.red.popc.u32 $u, $(5|6|7), $p;\n");
    else
        code(m, "barrier.red.$(and|or).pred $p, 8, $(|!)$p;\n");
}

/* Pairs of warps with a barrier of their own: both ways, or one writes and goes on while the other waits. */
static void make_group(struct maker *m)
{
    const unsigned label = m->labels++;
    if (m->launch.block % 64)
        return;
    if (pick(m, 2)) {
        code(m, "st.shared.b32 [%%groupslot], $r; barrier.sync %%group, 64;\n");
        code(m, "and.b32 %%t1, $r, 63; mad.lo.u32 %%t1, %%t1, 4, %%groupbase; ld.shared.u32 $r, [%%t1]; barrier.sync %%group, 64;\n");
        return;
    }
    code(m, "and.b32 %%t0, %%me, 32; setp.ne.u32 %%tp, %%t0, 0; @%%tp bra take%u;\n", label);
    code(m, "st.shared.b32 [%%groupslot], $r; bar.warp.sync 0xffffffff; barrier.arrive %%group, 64; bra taken%u;\n", label);
    code(m, "take%u: barrier.sync %%group, 64; sub.u32 %%t1, %%groupslot, 128; ld.shared.u32 $r, [%%t1];\ntaken%u: bar.sync 0;\n", label, label);
}

/* ---- memory ---- */
static void make_local(struct maker *m)
{
    const unsigned r = pick(m, STATE_R), l = pick(m, STATE_L);
    const bool generic = pick(m, 3) == 0;
    code(m, "and.b32 %%t1, $r, 48; cvt.u64.u32 %%s0, %%t1; add.u64 %%s0, %%s0, %%own%s;\n", generic ? "generic" : "");
    const char *const space = generic ? "" : ".local";
    switch (pick(m, 5)) {
    case 0: code(m, "st%s.b32 [%%s0+%u], %%r%u;\n", space, pick(m, 4) * 4, r); break;
    case 1: code(m, "st%s.v2.b64 [%%s0], {%%l%u, $l};\n", space, l); break;
    case 2: code(m, "ld%s.$(s8|u8) %%r%u, [%%s0+$#16#];\n", space, r); break;
    case 3: code(m, "ld%s.v4.u32 {%%r%u, %%r%u, %%r%u, %%t0}, [%%s0];\n", space, r, (r + 1) % STATE_R, (r + 3) % STATE_R); break;
    default: code(m, "ld%s.b64 %%l%u, [%%s0+8]; st%s.u16 [%%s0+2], $h;\n", space, l, space); break;
    }
}

static void make_scratch(struct maker *m)
{
    const unsigned r = pick(m, STATE_R), l = pick(m, STATE_L);
    code(m, "and.b32 %%t1, $r, 48; cvt.u64.u32 %%s0, %%t1; add.u64 %%s0, %%s0, %%mine;\n");
    switch (pick(m, 7)) {
    case 0: code(m, "st.global.b32 [%%s0+%u], %%r%u;\n", pick(m, 4) * 4, r); break;
    case 1: code(m, "st.global.v4.b32 [%%s0], {%%r%u, $r, $r, %%u0};\n", r); break;
    case 2: code(m, "st.global.u8 [%%s0+%u], %%r%u;\n", pick(m, 16), r); break;
    case 3: code(m, "ld.global.v2.b64 {%%l%u, %%s1}, [%%s0];\n", l); break;
    case 4: code(m, "ld.global.$(s16|u16) %%r%u, [%%s0+$(0|2|6|14)];\n", r); break;
    case 5: code(m, "atom.global.exch.b32 %%r%u, [%%s0+4], $r;\n", r); break;
    default: code(m, "atom.global.cas.b64 %%l%u, [%%s0], $l, $l;\n", l); break;
    }
}

static void make_input(struct maker *m)
{
    static const char *const hints[] = {"", ".nc", ".ca", ".cg", ".L1::no_allocate", ".nc.L1::evict_last"};
    const unsigned r = pick(m, STATE_R);
    code(m, "and.b32 %%t1, $r, %u; mul.wide.u32 %%s0, %%t1, 16; add.u64 %%s0, %%s0, %%in;\n", IN_WORDS / 4 - 1);
    const char *const hint = hints[pick(m, 6)];
    switch (pick(m, 5)) {
    case 0: code(m, "ld.global%s.v4.u32 {%%r%u, %%r%u, %%r%u, %%t0}, [%%s0];\n", hint, r, (r + 1) % STATE_R, (r + 3) % STATE_R); break;
    case 1: code(m, "ld.global%s.v2.f32 {$f, %%tf}, [%%s0+8];\n", hint); break;
    case 2: code(m, "ld.global%s.f64 $d, [%%s0+$(0|8)];\n", hint); break;
    case 3: code(m, "ld.global%s.$(s8|u8) %%r%u, [%%s0+$#16#];\n", hint, r); break;
    default: code(m, "ld.global%s.u16 $h, [%%s0+$(0|2|8|10)];\n", hint); break;
    }
}

/* cell i of either space: operation i % 6 */
static const char *const cell_ops[] = {"add.u32", "min.u32", "max.s32", "xor.b32", "or.b32", "and.b32"};
static void make_atomic(struct maker *m)
{
    const unsigned i = pick(m, 32), wide = pick(m, 16), s = pick(m, SHARED_CELLS);
    switch (pick(m, 5)) {
    case 0: code(m, "red.global.%s [%%cells+%u], $r;\n", cell_ops[i % 6], i * 4); break;
    case 1: code(m, "atom.global.%s %%t0, [%%cells+%u], $r;\n", cell_ops[i % 6], i * 4); break;
    case 2: code(m, "red.global.%s [%%cells+%u], $l;\n", wide & 1 ? "max.u64" : "add.u64", 128 + wide * 8); break;
    case 3: code(m, "red.shared.%s [shcells+%u], $r;\n", cell_ops[s % 6], s * 4); break;
    default: code(m, "atom.shared.%s %%t0, [shcells+%u], $r;\n", cell_ops[s % 6], s * 4); break;
    }
}
static void make_cell_read(struct maker *m)
{
    code(m, "bar.sync 0; ld.shared.u32 $u, [shcells+%u]; bar.sync 0;\n", pick(m, SHARED_CELLS) * 4);
}

/* ---- statements ---- */
static void statement(struct maker *m, struct place at)
{
    if (m->budget-- <= 0 || pick(m, 100) < 45) {
        random_op(m);
        return;
    }
    const bool deeper = at.depth < 4;
    const unsigned most_loops = at.whole_block ? 3 : 2;
    switch (pick(m, 20)) {
    case 0: case 1: case 2: deeper ? make_if(m, at) : random_op(m); return;
    case 3: case 4: deeper && at.loop_depth < most_loops ? make_loop(m, at) : random_op(m); return;
    case 5: deeper ? make_switch(m, at) : random_op(m); return;
    case 6: case 7: make_shuffle(m, at); return;
    case 8: make_vote(m, at); return;
    case 9: make_warp_exchange(m, at); return;
    case 10: make_local(m); return;
    case 11: make_scratch(m); return;
    case 12: make_input(m); return;
    case 13: make_atomic(m); return;
    case 14: random_call(m); return;
    case 15: at.whole_block ? random_uniform_op(m) : random_op(m); return;
    case 16: case 17: at.whole_block ? make_exchange(m) : random_op(m); return;
    case 18: at.whole_block ? make_group(m) : random_op(m); return;
    default:
        if (!at.whole_block)
            random_op(m);
        else if (pick(m, 2))
            make_barrier_vote(m);
        else
            make_cell_read(m);
    }
}

static void start(struct maker *m, const char *entry)
{
    const unsigned n = m->launch.block;
    code(m, ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 area[%u];\n.shared .align 4 .b8 shcells[%d];\n", n * 8 * 3 + n * 4, SHARED_CELLS * 4);
    random_functions(m);
    code(m, ".visible .entry %s(.param .u64 pin, .param .u64 pout, .param .u64 pscratch)\n{\n", entry);
    code(m, ".reg .b32 %%r<%d>; .reg .b64 %%l<%d>; .reg .f32 %%f<%d>; .reg .f64 %%d<%d>; .reg .b16 %%h<%d>; .reg .b32 %%x<%d>; .reg .pred %%p<%d>; .reg .b32 %%u<%d>;\n", STATE_R, STATE_L, STATE_F, STATE_D, STATE_H, STATE_X, STATE_P, STATE_U);
    buf_str(m->to, ".reg .b32 %t<4>; .reg .b64 %s<4>; .reg .f32 %tf; .reg .pred %tp; .reg .b32 %m<400>; .reg .b32 %c<200>; .reg .b32 %n<200>; .reg .pred %q<600>;\n"
                   ".reg .b32 %me, %team, %lane, %me8, %phase, %phaseold, %areasum, %warpslot, %warpbase, %group, %groupslot, %groupbase;\n"
                   ".reg .b64 %in, %out, %mine, %cells, %own, %owngeneric, %key;\n.local .align 16 .b8 ownmem[64];\n");
    code(m, "mov.u32 %%me, %%tid.x; mov.u32 %%team, %%ntid.x; and.b32 %%lane, %%me, 31; shl.b32 %%me8, %%me, 3;\n"
                   "mov.u32 %%phase, area; mov.u32 %%phaseold, area; add.u32 %%areasum, %%phase, %%phase; add.u32 %%areasum, %%areasum, %u;\n"
                   "add.u32 %%warpslot, %%phase, %u; add.u32 %%warpslot, %%warpslot, %%me8; and.b32 %%t0, %%me8, %u; add.u32 %%warpbase, %%phase, %u; add.u32 %%warpbase, %%warpbase, %%t0;\n"
                   "shr.u32 %%group, %%me, 6; add.u32 %%group, %%group, 1; and.b32 %%t0, %%me, %u; mad.lo.u32 %%groupbase, %%t0, 4, %%phase; add.u32 %%groupbase, %%groupbase, %u;\n"
                   "mad.lo.u32 %%groupslot, %%me, 4, %%phase; add.u32 %%groupslot, %%groupslot, %u;\n", n * 8, n * 16, ~255u & 0xffff, n * 16, ~63u & 0xffff, n * 24, n * 24);
    code(m, "mov.u32 %%t0, %%ctaid.x; mad.lo.u32 %%t0, %%t0, %%team, %%me; cvt.u64.u32 %%key, %%t0;\n"
                   "ld.param.u64 %%in, [pin]; cvta.to.global.u64 %%in, %%in; ld.param.u64 %%out, [pout]; mad.lo.u64 %%out, %%key, 8, %%out; ld.param.u64 %%cells, [pscratch];\n"
                   "mad.lo.u64 %%mine, %%key, %d, %%cells; add.u64 %%mine, %%mine, %d; mov.u64 %%own, ownmem; cvta.local.u64 %%owngeneric, %%own;\n", OWN_BYTES, TRUTH_ACC_BYTES);
    for (int i = 0; i < SHARED_CELLS; i++)
        code(m, "setp.eq.u32 %%tp, %%me, %d; @%%tp st.shared.u32 [shcells+%d], %u;\n", i, i * 4, i % 6 == 1 || i % 6 == 5 ? 0xffffffffu : 0u);
    buf_str(m->to, "bar.sync 0;\n");
}

/* The state from the input: 16 words at 16 * thread, and numbers of the kernel's own. */
static void set_state(struct maker *m)
{
    code(m, "and.b64 %%s0, %%key, %d; mad.lo.u64 %%s0, %%s0, 64, %%in;\n", IN_WORDS / 16 - 1);
    for (int i = 0; i < STATE_R; i++)
        code(m, "ld.global.u32 %%r%d, [%%s0+%d];\n", i, i * 4);
    for (int i = 0; i < STATE_L; i++)
        code(m, "ld.global.u64 %%l%d, [%%s0+%d];\n", i, 32 + i * 8);
    for (int i = 0; i < STATE_F; i++)
        code(m, pick(m, 2) ? "cvt.rn.f32.s32 %%f%d, %%r%d;\n" : "mov.b32 %%f%d, %%r%d;\n", i, i);
    for (int i = 0; i < STATE_D; i++)
        code(m, pick(m, 2) ? "cvt.rn.f64.s64 %%d%d, %%l%d;\n" : "mov.b64 %%d%d, %%l%d;\n", i, i);
    for (int i = 0; i < STATE_H; i++)
        code(m, "cvt.u16.u32 %%h%d, %%r%d;\n", i, (i + 3) % STATE_R);
    for (int i = 0; i < STATE_X; i++)
        code(m, "mov.b32 %%x%d, %%r%d;\n", i, (i + 5) % STATE_R);
    for (int i = 0; i < STATE_P; i++)
        code(m, "setp.lt.s32 %%p%d, %%r%d, %%r%d;\n", i, i, i + 3);
    for (int i = 0; i < STATE_U; i++)
        code(m, "mov.u32 %%t0, %%ctaid.x; mad.lo.u32 %%u%d, %%t0, $#1000000#, $#1000000000#;\n", i);
    for (int i = 0; i < 4; i++)
        code(m, "st.local.v4.b32 [%%own+%d], {%%r%d, %%r%d, %%r%d, %%r%d};\n", i * 16, i, i + 1, i + 2, i + 3);
}

static void digest(struct maker *m)
{
    static const char mix[] = "mul.lo.u64 %s0, %s0, 0x5851f42d4c957f2d; shr.u64 %s2, %s0, 29; xor.b64 %s0, %s0, %s2; add.u64 %s0, %s0, %s1;\n";
    buf_str(m->to, "mov.b64 %s0, 1;\n");
    for (int i = 0; i < STATE_R; i++)
        code(m, "cvt.u64.u32 %%s1, %%r%d; %s", i, mix);
    for (int i = 0; i < STATE_L; i++)
        code(m, "mov.b64 %%s1, %%l%d; %s", i, mix);
    for (int i = 0; i < STATE_F; i++)
        code(m, "testp.notanumber.f32 %%tp, %%f%d; selp.f32 %%tf, 0f7FFFFFFF, %%f%d, %%tp; mov.b32 %%t0, %%tf; cvt.u64.u32 %%s1, %%t0; %s", i, i, mix);
    for (int i = 0; i < STATE_D; i++)
        code(m, "testp.notanumber.f64 %%tp, %%d%d; mov.b64 %%s1, %%d%d; selp.b64 %%s1, 0x7fffffffffffffff, %%s1, %%tp; %s", i, i, mix);
    for (int i = 0; i < STATE_H; i++)
        code(m, "cvt.u64.u16 %%s1, %%h%d; %s", i, mix);
    for (int i = 0; i < STATE_X; i++)
        code(m, "cvt.u64.u32 %%s1, %%x%d; %s", i, mix);
    for (int i = 0; i < STATE_P; i++)
        code(m, "selp.u64 %%s1, %d, %d, %%p%d; %s", i + 3, i + 11, i, mix);
    for (int i = 0; i < STATE_U; i++)
        code(m, "cvt.u64.u32 %%s1, %%u%d; %s", i, mix);
    for (int i = 0; i < 8; i++)
        code(m, "ld.local.b64 %%s1, [%%own+%d]; %s", i * 8, mix);
    buf_str(m->to, "st.global.b64 [%out], %s0;\n");
}

void truth_random_kernel(struct buf *to, uint64_t seed, const char *entry, struct truth_random *ret)
{
    static const uint16_t blocks[] = {32, 64, 64, 96, 128, 128, 192, 256};
    struct maker m = {.to = to, .rng = {truth_hash(TRUTH_HASH_START, &seed, sizeof seed)}};
    m.launch.block = blocks[pick(&m, 8)];
    m.launch.grid = 1 + pick(&m, m.launch.block > 128 ? 2 : 4);
    m.launch.in_bytes = IN_WORDS * 4;
    m.launch.out_bytes = m.launch.grid * m.launch.block * 8;
    m.launch.scratch_bytes = TRUTH_ACC_BYTES + m.launch.grid * m.launch.block * OWN_BYTES;
    m.budget = 20 + (int)pick(&m, 60);
    start(&m, entry);
    set_state(&m);
    struct place at = {.whole_block = true};
    while (m.budget > 0)
        statement(&m, at);
    /* from here on no barrier: some may leave */
    if (pick(&m, 2)) {
        const unsigned rest = m.masks++, q = m.labels++, label = m.labels++;
        condition(&m, at, q, false);
        buf_fmt(to, "vote.sync.ballot.b32 %%m%u, !%%q%u, 0xffffffff;\n@!%%q%u bra stay%u;\n", rest, q, q, label);
        digest(&m);
        buf_fmt(to, "%s;\nstay%u:\n", pick(&m, 2) ? "exit" : "ret", label);
        at = (struct place){.mask = rest, .depth = 1};
        m.budget = 6;
        block(&m, at, 3);
    }
    digest(&m);
    buf_str(to, "ret;\n}\n");
    *ret = m.launch;
}

void truth_random_input(uint64_t seed, uint32_t *in, uint32_t words)
{
    struct truth_rng r = {seed ^ 0xa5a5a5a5a5a5a5a5ull};
    for (uint32_t i = 0; i < words; i++)
        in[i] = (uint32_t)truth_value("rrrfffeb"[truth_below(&r, 8)], false, i, 1, 0, 3, &r);
}

void truth_random_scratch(uint64_t seed, uint32_t *scratch, uint32_t words)
{
    struct truth_rng r = {seed ^ 0x123456789abcdefull};
    for (uint32_t i = 0; i < words; i++)
        scratch[i] = (uint32_t)truth_next(&r);
}
