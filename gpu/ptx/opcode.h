/*
 * An opcode such as "ld.global.nc.L1::no_allocate.v4.f32" taken apart: the instruction, a set of modifiers, the types in order.
 */
#pragma once
#include "gpu/ptx/module.h"

/* X(name): instructions by their first word, with the decoder that takes it and the class it is counted in */
#define PTX_BASE_TABLE(X)                                                                                             \
    X(abs, unary, INT) X(activemask, activemask, CONTROL) X(add, arith, INT) X(addc, carry, INT) X(alloca, none, OTHER) \
    X(and, logic, INT) X(applypriority, nop, OTHER) X(atom, atom, ATOMIC) X(bar, bar, BARRIER) X(barrier, bar, BARRIER)  \
    X(bfe, bits, INT) X(bfi, bits, INT) X(bfind, bits, INT) X(bmsk, bits, INT) X(bra, bra, CONTROL)                     \
    X(brev, bits, INT) X(brkpt, trap, CONTROL) X(brx, brx, CONTROL) X(call, call, CONTROL) X(clz, bits, INT)            \
    X(cnot, logic, INT) X(copysign, arith, F32) X(cos, sfu, SFU) X(cp, cp, GLOBAL) X(createpolicy, policy, OTHER)       \
    X(cvt, cvt, CONVERT) X(cvta, cvta, CONVERT) X(discard, prefetch, OTHER) X(div, arith, INT) X(dp2a, bits, INT)           \
    X(dp4a, bits, INT) X(elect, elect, SHUFFLE) X(ex2, sfu, SFU) X(exit, exit, CONTROL) X(fence, fence, BARRIER)        \
    X(fma, arith, F32) X(fns, bits, INT) X(getctarank, mapa, CONTROL) X(griddepcontrol, griddepcontrol, CONTROL)                   \
    X(isspacep, isspacep, CONTROL) X(istypep, none, CONTROL) X(ld, ld, GLOBAL) X(ldmatrix, ldmatrix, MATRIX)                \
    X(ldu, ld, GLOBAL) X(lg2, sfu, SFU) X(lop3, bits, INT) X(mad, arith, INT) X(mad24, arith, INT) X(madc, carry, INT)   \
    X(mapa, mapa, CONTROL) X(match, match, SHUFFLE) X(max, arith, INT) X(mbarrier, mbarrier, BARRIER)                       \
    X(membar, fence, BARRIER) X(min, arith, INT) X(mma, mma, MATRIX) X(mov, mov, MOVE) X(movmatrix, movmatrix, MATRIX)      \
    X(mul, arith, INT) X(mul24, arith, INT) X(multimem, none, ATOMIC) X(nanosleep, nop, CONTROL) X(neg, unary, INT)     \
    X(not, logic, INT) X(or, logic, INT) X(pmevent, nop, OTHER) X(popc, bits, INT) X(prefetch, prefetch, OTHER)              \
    X(prefetchu, prefetch, OTHER) X(prmt, bits, INT) X(rcp, sfu, SFU) X(red, atom, ATOMIC) X(redux, redux, SHUFFLE)          \
    X(rem, arith, INT) X(ret, ret, CONTROL) X(rsqrt, sfu, SFU) X(sad, arith, INT) X(selp, selp, INT)                    \
    X(set, setp, INT) X(setmaxnreg, nop, CONTROL) X(setp, setp, INT) X(shf, bits, INT) X(shfl, shfl, SHUFFLE)           \
    X(shl, logic, INT) X(shr, logic, INT) X(sin, sfu, SFU) X(slct, selp, INT) X(sqrt, sfu, SFU) X(st, st, GLOBAL)       \
    X(stackrestore, none, OTHER) X(stacksave, none, OTHER) X(stmatrix, stmatrix, MATRIX) X(sub, arith, INT)                 \
    X(subc, carry, INT) X(suld, none, GLOBAL) X(sust, none, GLOBAL) X(szext, bits, INT) X(tanh, sfu, SFU)               \
    X(tcgen05, none, MATRIX) X(tensormap, none, OTHER) X(testp, testp, F32) X(tex, none, GLOBAL) X(trap, trap, CONTROL) \
    X(vabsdiff2, bits, INT) X(vabsdiff4, bits, INT) X(vote, vote, SHUFFLE) X(wgmma, wgmma, MATRIX) X(wmma, wmma, MATRIX) X(xor, logic, INT)

enum ptx_base {
#define X(name, decoder, cls) B_##name,
    PTX_BASE_TABLE(X)
#undef X
        B_UNKNOWN
};

/* of asynchronous copies, mbarriers, clusters */
#define PTX_ASYNC_MOD_TABLE(X)                                                                                           \
    X(INIT, "init") X(INVAL, "inval") X(EXPECT_TX, "expect_tx") X(COMPLETE_TX, "complete_tx") X(ARRIVE_DROP, "arrive_drop") \
    X(NO_COMPLETE, "noComplete") X(TEST_WAIT, "test_wait") X(TRY_WAIT, "try_wait") X(PARITY, "parity")                   \
    X(PENDING_COUNT, "pending_count") X(NOINC, "noinc") X(MBARRIER_BYTES, "mbarrier::complete_tx::bytes")                \
    X(MULTICAST, "multicast::cluster") X(BULK_GROUP, "bulk_group") X(READ, "read") X(REDUCE, "reduce") X(CP_MASK, "cp_mask") \
    X(PREFETCH, "prefetch") X(MBARRIER_INIT, "mbarrier_init") X(LAUNCH_DEPENDENTS, "launch_dependents")                    \
    X(ROW, "row") X(COL, "col") X(X1, "x1") X(X2, "x2") X(X4, "x4") X(TRANS, "trans") X(LOAD, "load") X(STORE, "store") X(MMA, "mma")

/* X(code, text) */
#define PTX_MOD_TABLE(X)                                                                                                 \
    X(RN, "rn") X(RZ, "rz") X(RM, "rm") X(RP, "rp") X(RNA, "rna") X(RS, "rs") X(RNI, "rni") X(RZI, "rzi") X(RMI, "rmi")   \
    X(RPI, "rpi") X(FTZ, "ftz") X(SAT, "sat") X(SATFINITE, "satfinite") X(RELU, "relu") X(APPROX, "approx")              \
    X(FULL, "full") X(LO, "lo") X(HI, "hi") X(WIDE, "wide") X(CC, "cc") X(NAN_, "NaN") X(XORSIGN, "xorsign") X(ABS, "abs") \
    X(EQ, "eq") X(NE, "ne") X(LT, "lt") X(LE, "le") X(GT, "gt") X(GE, "ge") X(LS, "ls") X(HS, "hs") X(EQU, "equ")         \
    X(NEU, "neu") X(LTU, "ltu") X(LEU, "leu") X(GTU, "gtu") X(GEU, "geu") X(NUM, "num") X(NAN, "nan")                     \
    X(AND, "and") X(OR, "or") X(XOR, "xor") X(POPC, "popc") X(ADD, "add") X(MIN, "min") X(MAX, "max") X(INC, "inc")       \
    X(DEC, "dec") X(CAS, "cas") X(EXCH, "exch")                                                                           \
    X(GLOBAL, "global") X(SHARED, "shared") X(SHARED_CTA, "shared::cta") X(SHARED_CLUSTER, "shared::cluster")             \
    X(LOCAL, "local") X(CONST, "const") X(PARAM, "param") X(PARAM_ENTRY, "param::entry") X(PARAM_FUNC, "param::func")     \
    X(CA, "ca") X(CG, "cg") X(CS, "cs") X(LU, "lu") X(CV, "cv") X(WB, "wb") X(WT, "wt") X(NC, "nc")                       \
    X(VOLATILE, "volatile") X(RELAXED, "relaxed") X(ACQUIRE, "acquire") X(RELEASE, "release") X(ACQ_REL, "acq_rel")       \
    X(SC, "sc") X(WEAK, "weak") X(MMIO, "mmio") X(SYS, "sys") X(GPU, "gpu") X(CTA, "cta") X(CLUSTER, "cluster") X(GL, "gl") \
    X(SYNC, "sync") X(ALIGNED, "aligned") X(UP, "up") X(DOWN, "down") X(BFLY, "bfly") X(IDX, "idx") X(ALL, "all")         \
    X(ANY, "any") X(BALLOT, "ballot") X(UNI, "uni") X(ARRIVE, "arrive") X(RED, "red") X(WARP, "warp") X(WAIT, "wait")     \
    X(V2, "v2") X(V4, "v4") X(V8, "v8") X(CLAMP, "clamp") X(WRAP, "wrap") X(L, "l") X(R, "r") X(SHIFTAMT, "shiftamt")     \
    X(F4E, "f4e") X(B4E, "b4e") X(RC8, "rc8") X(ECL, "ecl") X(ECR, "ecr") X(RC16, "rc16") X(TO, "to") X(NOFTZ, "noftz")   \
    X(ASYNC, "async") X(COMMIT_GROUP, "commit_group") X(WAIT_GROUP, "wait_group") X(WAIT_ALL, "wait_all") X(BULK, "bulk") \
    X(TENSOR, "tensor") X(MBARRIER, "mbarrier") X(FINITE, "finite") X(INFINITE, "infinite") X(NUMBER, "number")           \
    X(NOTANUMBER, "notanumber") X(NORMAL, "normal") X(SUBNORMAL, "subnormal") X(U, "u") X(PROXY, "proxy")                 \
    X(ALIAS, "alias") X(PACK, "pack") X(L1, "L1") X(L2, "L2") X(CACHE_HINT, "L2::cache_hint") X(ZFILL, "zfill") \
    PTX_ASYNC_MOD_TABLE(X)
enum ptx_mod {
#define X(code, text) M_##code,
    PTX_MOD_TABLE(X)
#undef X
        M_COUNT
};

struct opcode {
    enum ptx_base base;
    uint64_t mods[5];
    enum ptx_type types[4];
    int type_count;
    int row;               /* of the instruction table; -1: none allows it, -2: its family has no rows */
    bool unknown_mod;      /* something that no table has */
    bool eviction;         /* a cache hint of some kind: L1::.., L2::.. */
};
_Static_assert(M_COUNT <= 320, "five words of modifiers");

static inline bool has(const struct opcode *o, enum ptx_mod m) { return o->mods[m >> 6] >> (m & 63) & 1; }
void ptx_opcode_parse(const char *text, struct opcode *ret);
