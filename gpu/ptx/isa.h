/*
 * The table of instructions: one row a form, in isa.def. What no row allows is PTX_UNSUPPORTED, by name.
 *
 * A pattern is an opcode whose parts may be choices: "(.a|.b)" exactly one, "{.a|.b}" one or none: "add{.rn|.rz}{.ftz}.f32".
 * An alternative may be several parts (".xorsign.abs"). Modifiers may come in any order in a program, as the assembler allows;
 * types in the pattern's order. A variant of a row is one choice of each group; ptx_isa_expand gives them one after the other.
 *
 * Operands are written "results=sources", each a type: T, U, V are the opcode's first, second, third type, W is twice as wide as T,
 * others are names of types. Suffixes: ! never zero; "iN" is an immediate of 0..N. "d|p" are two results. Rows that are not
 * ISA_LANE or ISA_CARRY describe their operands in words: they are not for a generator of operands.
 */
#pragma once
#include "gpu/ptx/module.h"

enum ptx_isa_group {
    ISA_LANE,      /* a result by lane from operands by lane: the operands' generator may run it */
    ISA_CARRY,     /* the same with the carry flag; alone it means nothing */
    ISA_WARP,      /* between the lanes of a warp */
    ISA_MEMORY,
    ISA_SYNC,
    ISA_CONTROL,
    ISA_MATRIX,
    ISA_NOTHING    /* changes no value: a no-op or a counter here */
};

/* How close a card's answer is to ours. */
enum ptx_isa_exact {
    EXACT_BITS,      /* PTX fixes every bit, NaN results included */
    EXACT_FUSED,     /* the same alone; with a neighbour it may be contracted to fma by the assembler */
    EXACT_NUMBER,    /* PTX fixes every bit, but not which NaN */
    EXACT_ULP,       /* within `bound` units in the last place */
    EXACT_RELATIVE,  /* |error| <= bound * |exact|, subnormals aside */
    EXACT_ABSOLUTE,  /* |error| <= bound */
    EXACT_EITHER,    /* within either: bound absolutely or relatively */
    EXACT_NOT        /* not comparable: depends on machine, time or place */
};

struct ptx_isa_row {
    const char *pattern, *operands;
    uint8_t group, class_, exact;
    uint16_t sm;           /* least target: 80 everywhere we run, 90, 100 (then of sm_100a) */
    double bound;          /* of the exactness */
    const char *means;     /* semantics in a line; where a bound comes from */
};
extern const struct ptx_isa_row ptx_isa_rows[];
extern const int ptx_isa_row_count;
const struct ptx_isa_row *ptx_isa_row(int index);   /* NULL past the end */

#define ISA_MAX_OPERANDS 8
struct ptx_isa_operand {
    enum ptx_type type;
    bool not_zero, immediate;
    int64_t most;          /* an immediate's largest value */
};
struct ptx_isa_variant {
    char opcode[160];
    enum ptx_type types[4];
    int type_count, result_count, source_count;
    struct ptx_isa_operand results[2], sources[ISA_MAX_OPERANDS];
};
/*
 * Variant number `variant`, from 0. False: past the last one. Operands are filled in for ISA_LANE and ISA_CARRY rows only.
 * A variant's number is stable as long as its row is not changed.
 */
bool ptx_isa_expand(const struct ptx_isa_row *row, int variant, struct ptx_isa_variant *ret);
/*
 * The declaration of a register that can hold an operand of the type: "pred", "b8", "b16", "b32", "b64", "b128". Values narrower than
 * their register (.u8 in .b16) lie in the low bits.
 */
const char *ptx_isa_register(enum ptx_type type);
/* The first row that allows the whole opcode "add.rn.f32"; -1: none. */
int ptx_isa_find(const char *opcode);
/*
 * Some row of lanes or control is of the family, "add": what no row of it allows is refused. Other families' rows are not yet all
 * there is: what none of them allows is left to the decoder.
 */
bool ptx_isa_has_family(const char *opcode);
bool ptx_isa_matches(const struct ptx_isa_row *row, const char *opcode);
