/*
 * What the parser keeps of a module, and what the decoder makes of it. Private to gpu/ptx.
 *
 * Three forms: text -> statements (parse.c; names resolved, nothing judged) -> instructions (decode*.c; registers are byte
 * offsets into a warp's register file, an unknown opcode is a K_UNSUPPORTED instruction). The scan reads statements, the
 * interpreter reads instructions, findings go back from an instruction to its statement's line and opcode.
 */
#pragma once
#include "gpu/ptx/ptx.h"

#define WARP_LANES 32
#define FULL_MASK 0xffffffffu

/* X(code, name, bytes, is_float, is_signed) */
#define PTX_TYPE_TABLE(X)            \
    X(T_NONE, "", 0, 0, 0)           \
    X(T_PRED, "pred", 4, 0, 0)       \
    X(T_B8, "b8", 1, 0, 0)           \
    X(T_B16, "b16", 2, 0, 0)         \
    X(T_B32, "b32", 4, 0, 0)         \
    X(T_B64, "b64", 8, 0, 0)         \
    X(T_B128, "b128", 16, 0, 0)      \
    X(T_U8, "u8", 1, 0, 0)           \
    X(T_U16, "u16", 2, 0, 0)         \
    X(T_U32, "u32", 4, 0, 0)         \
    X(T_U64, "u64", 8, 0, 0)         \
    X(T_S8, "s8", 1, 0, 1)           \
    X(T_S16, "s16", 2, 0, 1)         \
    X(T_S32, "s32", 4, 0, 1)         \
    X(T_S64, "s64", 8, 0, 1)         \
    X(T_F16, "f16", 2, 1, 1)         \
    X(T_F16X2, "f16x2", 4, 1, 1)     \
    X(T_BF16, "bf16", 2, 1, 1)       \
    X(T_BF16X2, "bf16x2", 4, 1, 1)   \
    X(T_F32, "f32", 4, 1, 1)         \
    X(T_F64, "f64", 8, 1, 1)         \
    X(T_TF32, "tf32", 4, 1, 1)       \
    X(T_E4M3X2, "e4m3x2", 2, 1, 1)   \
    X(T_E5M2X2, "e5m2x2", 2, 1, 1)   \
    X(T_U16X2, "u16x2", 4, 0, 0)     \
    X(T_S16X2, "s16x2", 4, 0, 1)     \
    X(T_F32X2, "f32x2", 8, 1, 1)     \
    X(T_E2M1X2, "e2m1x2", 1, 1, 1)   \
    X(T_E2M3X2, "e2m3x2", 2, 1, 1)   \
    X(T_E3M2X2, "e3m2x2", 2, 1, 1)   \
    X(T_UE8M0X2, "ue8m0x2", 2, 1, 0) \
    X(T_U4, "u4", 1, 0, 0)           \
    X(T_S4, "s4", 1, 0, 1)           \
    X(T_U2, "u2", 1, 0, 0)           \
    X(T_S2, "s2", 1, 0, 1)
enum ptx_type {
#define X(code, name, bytes, is_float, is_signed) code,
    PTX_TYPE_TABLE(X)
#undef X
        T_COUNT
};
struct type_info { const char *name; uint8_t bytes; bool is_float, is_signed; };
extern const struct type_info ptx_types[T_COUNT];
enum ptx_type ptx_type_find(const char *name, size_t size); /* T_NONE if unknown */

enum ptx_space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_CONST, SPACE_PARAM, SPACE_REG,
    SPACE_CLUSTER /* shared memory of any block of the cluster */ };

/* ---- statements ---- */
enum operand_kind {
    O_NONE, O_REG, O_IMM, O_FLOAT, O_SPECIAL, O_SYMBOL, O_NAME, O_ADDRESS, O_LIST, O_PAIR, O_SINK, O_OTHER
};
struct operand {
    uint8_t kind;
    bool negated;          /* !%p, -%f */
    uint8_t base;          /* O_ADDRESS: O_REG, O_SYMBOL or O_IMM; O_FLOAT: T_F32 or T_F64 */
    uint8_t component;     /* O_SPECIAL: 0..3 for .x .y .z .w */
    uint32_t id;           /* register, variable, special, interned name (O_NAME), first item (O_LIST, O_PAIR) */
    uint32_t count;        /* items of a list */
    int64_t imm;           /* O_IMM value, O_FLOAT bits, offset of O_ADDRESS and O_SYMBOL */
};
struct stmt {
    uint32_t opcode;       /* interned "ld.global.v4.f32" */
    uint32_t first, count; /* operands */
    int32_t pred;          /* register, -1 none */
    bool pred_negated;
    uint32_t line;
    uint32_t loc;          /* index into module->locs, 0 = none */
    uint32_t scope;        /* for labels named by operands */
};
struct loc { uint32_t file, line; };

struct variable {
    uint32_t name;
    uint8_t space, type;
    bool is_extern, is_visible, initialised, is_entry_param, is_managed;
    uint32_t align;
    uint64_t bytes;        /* 0 for .extern .shared x[] */
    uint64_t offset;       /* in its space: module data, a function's shared or local frame, the parameters */
    uint32_t line;
    int32_t function;      /* -1: module scope */
    uint8_t *data;         /* initial bytes, owned; NULL: zeros */
};
struct label { uint32_t stmt; };
struct branch_table { uint32_t first, count; uint32_t scope; };   /* names in module->table_names */

struct function {
    uint32_t name;
    bool is_entry, is_extern, is_visible, has_body, uses_grid_barrier;
    uint32_t line;
    uint32_t stmt_first, stmt_count;
    uint32_t params[PTX_MAX_PARAMS], returns[4]; /* variables */
    bool param_is_pointer[PTX_MAX_PARAMS];
    int param_count, return_count;
    uint32_t param_bytes;
    uint32_t reqntid[3], maxntid[3], cluster[3];
    uint32_t static_shared_bytes, local_bytes;   /* its own */
    uint8_t *reg_types;    /* owned; by register number */
    uint32_t reg_count, reg_capacity;
    /* decoded */
    uint32_t code_first, code_end;
    uint32_t file_base, file_bytes;              /* its part of a warp's register file */
    uint32_t frame_base, shared_base;            /* where its .local and call parameters, and its .shared, begin */
    uint32_t fill_first, fill_count;             /* constants, parameters, specials to fill in */
    uint32_t carry_slot;
    bool decoded, may_read_unwritten;
};

/* ---- instructions ---- */
enum insn_kind {
    K_LANE,         /* fn over 32 lanes, no predicate */
    K_LANE_PREDICATED,
    K_ENTER,        /* start of a basic block: counts, limits, reconvergence */
    K_BRA, K_BRX, K_CALL, K_CALL_REG, K_RET, K_EXIT, K_TRAP,
    K_LD, K_ST, K_ATOM, K_CP_ASYNC, K_CP_COMMIT, K_CP_WAIT, K_PREFETCH,
    K_BAR, K_WARP_BAR, K_SHFL, K_VOTE, K_MATCH, K_REDUX, K_ACTIVEMASK,
    K_BULK, K_BULK_COMMIT, K_BULK_WAIT, K_ASYNC_STORE, K_CP_ARRIVE, K_MATRIX, K_MBARRIER, K_CLUSTER_ARRIVE, K_CLUSTER_WAIT, K_MAPA,
    K_FENCE, K_CLOCK, K_NOP, K_MODE, K_ISSPACE, K_MARK, K_CHECK, K_UNSUPPORTED, K_END
};
struct insn;
struct warp;
typedef void lane_fn(char *file, const struct insn *i);
typedef bool access_fn(struct warp *w, const struct insn *i);
struct insn {
    union {
        lane_fn *fn;
        access_fn *access;   /* K_LD, K_ST: what does it for a whole warp; NULL: nothing does */
    };
    uint32_t dst, a, b, c;   /* byte offsets into the warp's register file */
    int64_t imm;
    uint32_t pred;           /* offset of the predicate's lanes, 0 none */
    uint32_t aux, aux2;      /* target, list, sub-operation; reconvergence point */
    uint32_t stmt;
    uint8_t kind, size, vec, space;
    uint8_t type, op, flags, class_;
    uint32_t d;
    uint8_t path;            /* how a warp that is all together does it: enum insn_path */
    uint8_t base;            /* PATH_ACCESS: 1 + which of the block's addresses; BASE_SEEN: looked at before in this block */
};
/* of K_FENCE: orders nothing here; orders for all blocks; waits for the launch before; orders for the threads of its own block; shows copies what was stored: bits, where */
enum warp_bar_op { WARP_MEETS, WARP_COMES /* all to this very instruction; orders nothing */ };
enum fence_op { FENCE_PROXY, FENCE_MEMORY, FENCE_GRID, FENCE_BLOCK, FENCE_TRIGGER, FENCE_ASYNC = 8 };   /* TRIGGER: griddepcontrol.launch_dependents */
#define ASYNC_SHARED 1
#define ASYNC_GLOBAL 2
/* of an access that releases or acquires, for whom */
enum order_scope { ORDER_NONE, ORDER_ALL, ORDER_BLOCK };
#define SCOPE_BLOCK 4u       /* in aux2 of K_ATOM, K_LD, K_ST: the access is strong for its own block alone (.cta) */
enum insn_flags {
    F_PRED_NOT = 1, F_DST64 = 2, F_WAITS = 4 /* its address comes from a load */, F_NC = 8, F_USES_LOADED = 16, F_VOLATILE = 64,
    F_WHOLE = 32,            /* K_SHFL, K_LD, K_ST: `fn` or `access` does it where all 32 lanes are together */
    F_SHORT = 32,            /* K_BRA: over one block of plain code; lanes that do not jump run it at once */
    F_MICRO = 128            /* made by the decoder, not an instruction of the text */
};

#define DISCARD_BYTES 128u   /* the one size there is */
#define BASES 8              /* addresses of a block that are told apart */
#define BASE_SEEN 128
/* flow.c sets these when a function's code is complete. */
enum insn_path { PATH_SWITCH, PATH_LANE, PATH_LANE_USES /* F_USES_LOADED */, PATH_SHUFFLE, PATH_ACCESS, PATH_ENTER, PATH_BRANCH };
_Static_assert(sizeof(struct insn) == 64, "a cache line an instruction");

/* A slot of the register file that is filled in before a warp starts. */
enum fill_kind { FILL_CONST, FILL_PARAM, FILL_SPECIAL };
struct fill { uint8_t kind, bytes, sign, component; uint32_t slot, id; uint64_t value; };

struct block_info { uint32_t first, stmt_first; uint16_t total; uint16_t by_class[16]; };

struct symbol_slot { uint64_t key; uint32_t value; };   /* key: scope << 32 | name + 1; value: kind in the top 3 bits */

struct ptx_module {
    char *text;                       /* interned strings, one after the other */
    size_t text_bytes, text_capacity;
    uint32_t *names; uint32_t name_count, name_capacity;      /* offsets into text */
    uint32_t *name_hash; uint32_t name_hash_size;
    struct symbol_slot *symbols; uint32_t symbol_count, symbol_size;
    uint32_t *scope_parent; uint32_t scope_count, scope_capacity;
    struct stmt *stmts; uint32_t stmt_count, stmt_capacity;
    struct operand *operands; uint32_t operand_count, operand_capacity;
    struct variable *vars; uint32_t var_count, var_capacity;
    struct function *functions; uint32_t function_count, function_capacity;
    struct loc *locs; uint32_t loc_count, loc_capacity;
    struct { uint32_t number; char name[64]; } *files; uint32_t file_count, file_capacity;
    struct branch_table *tables; uint32_t table_count, table_capacity;
    uint32_t *table_names; uint32_t table_name_count, table_name_capacity;
    char target[32];
    uint8_t *data; uint64_t data_bytes;                       /* .global and .const of the module */
    /* decoded */
    struct insn *code; uint32_t code_count, code_capacity;
    uint32_t *lists; uint32_t list_count, list_capacity;      /* register offsets of vectors, branch targets */
    struct fill *fills; uint32_t fill_count, fill_capacity;
    struct block_info *blocks; uint32_t block_count, block_capacity;
    uint32_t func_file_bytes, func_frame_bytes;               /* taken by all .func together */
    uint32_t func_shared_bytes;                               /* of module-scope variables, later of all .func too */
    uint32_t dynamic_shared;                                  /* where .extern .shared begins */
    bool copies_from_shared, copies_from_global, copies_to_global;   /* in bulk: proxy.c */
    bool loads_strong;                                        /* volatile, relaxed or acquire: stale.c */
    bool home_ftz;
    uint8_t *wides; uint32_t wide_capacity;                   /* by slot / 128, of functions: it is of 8 bytes a lane */
    uint32_t tracked_count;                                   /* registers that may be read unwritten */
    size_t memory_bytes, memory_limit;
};

/* Makes room for one more item; false when the module's memory limit is reached. */
bool ptx_grow(struct ptx_module *m, void **items, uint32_t *capacity, uint32_t count, size_t item_bytes);
#define GROW(m, array, count) ptx_grow(m, (void **)&(m)->array##s, &(m)->array##_capacity, (count), sizeof *(m)->array##s)

const char *ptx_name(const struct ptx_module *m, uint32_t name);
/* kinds of symbols */
enum { SYM_REG, SYM_VAR, SYM_LABEL, SYM_FUNCTION, SYM_TABLE, SYM_PROTO };
/* Looks in the scope and its parents. False: unknown. */
bool ptx_symbol_find(const struct ptx_module *m, uint32_t scope, uint32_t name, int *ret_kind, uint32_t *ret_value);

/* %tid, %ctaid, ...: specials.c */
struct special_info { const char *name; uint8_t id, bytes; bool is_vector, is_dynamic; };
enum special {
    SR_TID, SR_NTID, SR_CTAID, SR_NCTAID, SR_LANEID, SR_WARPID, SR_NWARPID, SR_SMID, SR_NSMID, SR_GRIDID, SR_LM_EQ, SR_LM_LT,
    SR_LM_LE, SR_LM_GT, SR_LM_GE, SR_CLOCK, SR_CLOCK_HI, SR_CLOCK64, SR_GLOBALTIMER, SR_GLOBALTIMER_LO, SR_GLOBALTIMER_HI,
    SR_DYN_SMEM, SR_TOTAL_SMEM, SR_AGGR_SMEM, SR_ENVREG, SR_CLUSTERID, SR_NCLUSTERID, SR_CLUSTER_CTAID, SR_CLUSTER_NCTAID,
    SR_CLUSTER_CTARANK, SR_CLUSTER_NCTARANK, SR_IS_EXPLICIT_CLUSTER, SR_PM, SR_RESERVED_SMEM, SR_GRAPH_EXEC, SR_COUNT
};
const struct special_info *ptx_special_find(const char *name, size_t size);   /* without components */

bool ptx_decode(struct ptx_module *m, struct ptx_finding *ret_finding);
/* Fills in where a finding is: lines, file, opcode. */
void ptx_finding_at(const struct ptx_module *m, uint32_t stmt, struct ptx_finding *f);
void ptx_finding_set(struct ptx_finding *f, enum ptx_finding_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Addresses of the generic space; buffers lie below. */
#define WINDOW_SIZE 0x100000000ull
#define GRID_WINDOW 0x7fef000000000000ull    /* what cooperative_groups' grid sync counts in */
#define GRID_WORKSPACE_BYTES 4096
#define MODULE_WINDOW 0x7ff0000000000000ull
#define PARAM_WINDOW 0x7ff1000000000000ull
#define SHARED_WINDOW 0x7ff2000000000000ull
#define LOCAL_WINDOW 0x7ff3000000000000ull
#define FUNCTION_WINDOW 0x7ff4000000000000ull   /* no memory: what functions are known by */
#define FUNCTION_STEP 16
