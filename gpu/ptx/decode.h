/*
 * Statements to instructions: what the decoders of one family each share. Private to decode*.c and flow.c.
 *
 * A decoder asks for sources and destinations as slots of the right width (`source`, `dest`), emits lane operations or one
 * special instruction, and returns false if it does not know the form: the statement then becomes K_UNSUPPORTED.
 */
#pragma once
#include "gpu/ptx/lanes.h"
#include "gpu/ptx/opcode.h"

/* Short names here, the library's prefix for the linker: other parts have an `emit` too. */
#define emit ptx_decode_emit
#define temp ptx_decode_temp
#define lasting ptx_decode_lasting
#define slot_width ptx_decode_slot_width
#define constant ptx_decode_constant
#define source ptx_decode_source
#define dest ptx_decode_dest
#define halves_of ptx_decode_halves_of
#define lane ptx_decode_lane
#define lane_k ptx_decode_lane_k
#define set_mode ptx_decode_set_mode
#define mode_of ptx_decode_mode_of
#define list_add ptx_decode_list_add
#define alias ptx_decode_alias
#define fixed_here ptx_decode_fixed_here
#define param_slot ptx_decode_param_slot
#define arg ptx_decode_arg
#define address ptx_decode_address
#define address_slot ptx_decode_address_slot
#define decode_async ptx_decode_async_copy
#define decode_async_store ptx_decode_async_store
#define space_of_op ptx_decode_space
#define decode_cluster_barrier ptx_decode_cluster_barrier
#define slots_share ptx_decode_slots_share
#define unwritten_find ptx_decode_unwritten_find
#define unwritten_before ptx_decode_unwritten_before
#define unwritten_after ptx_decode_unwritten_after
#define constant_value ptx_decode_constant_value
#define flow_paths ptx_decode_flow_paths
#define flow_finish ptx_decode_flow_finish
#define variable_address ptx_decode_variable_address

/* MXCSR: all exceptions masked, and the rounding mode; FTZ and DAZ */
enum { MODE_RN = 0x1f80, MODE_RM = 0x3f80, MODE_RP = 0x5f80, MODE_RZ = 0x7f80, MODE_FTZ = 0x8040 };

#define SCRATCH_BYTES 256   /* at the start of a register file: where masked lanes' results go first */

struct const_slot { uint64_t value; uint32_t slot; uint8_t kind, bytes; };
struct flow_block { uint32_t stmt_first, stmt_end, enter, branch; uint32_t succ[2], succ_count, list_first, list_count; bool falls; };

#define MOST_TEMPS 32
struct temp_pool { uint32_t slots[MOST_TEMPS], count, used; };

struct decoder {
    struct ptx_module *m;
    struct function *f;
    struct ptx_finding *finding;
    const struct lane_table *lanes;
    const struct stmt *stmt;
    struct opcode op;
    uint32_t stmt_index;
    uint32_t *slots;            /* by register, 0 not yet */
    uint32_t *preset;           /* by register: the slot it is to have; 0: one of its own */
    uint8_t *owns;              /* by register: its slot was made for it, it is no alias */
    uint32_t file_top;
    struct temp_pool temps[2];  /* of 4 and of 8 bytes */
    uint32_t pred;              /* slot of the statement's predicate */
    struct { uint32_t slot; uint8_t reg_bytes, bytes; bool sign; } pending[8];   /* results to be moved to registers after */
    uint32_t pending_from[8];
    int pending_count;
    uint8_t *defs;              /* by register: written 0, 1 or more times; a predicated write counts as more */
    uint32_t *tracked;          /* by register: 1 + its number if it may be read unwritten */
    uint8_t *refs;              /* by register: named 0, 1 or more times */
    uint32_t *def_stmt;         /* by register: the last statement that writes it */
    uint8_t *is_fixed;          /* by register: an alias of something that never changes */
    uint8_t *op_base;           /* by statement of the function */
    uint32_t block_start;       /* first statement of the current block */
    int mode, live_mode, home_mode;   /* asked for, set so far */
    uint8_t cls;
    bool failed, tracks;
    struct opcode *cache;       /* by interned name */
    uint8_t *cached;
    struct const_slot *consts;  /* hash by value, kind, bytes */
    uint32_t const_count, const_size;
    struct flow_block *blocks;
    uint32_t block_count, block_capacity;
    uint32_t *stmt_pc;          /* by statement of the function: where a branch to it goes */
};

typedef bool ptx_decode_fn(struct decoder *d);
#define X(name, decoder, cls) ptx_decode_fn ptx_decode_##decoder;
PTX_BASE_TABLE(X)
#undef X

const struct operand *arg(const struct decoder *d, unsigned i);   /* O_NONE past the end */
struct insn *emit(struct decoder *d, enum insn_kind kind);        /* valid until the next emit; never NULL */
uint32_t temp(struct decoder *d, unsigned bytes);                 /* for this statement */
void slot_width(struct decoder *d, uint32_t slot, bool wide);
uint32_t lasting(struct decoder *d, unsigned bytes);
uint32_t constant(struct decoder *d, uint64_t value, unsigned bytes);
bool constant_value(const struct decoder *d, uint32_t slot, uint64_t *ret);   /* false: not a constant's slot */
/* The operand as a slot of the type's width (4 bytes for 8 and 16 bit types and predicates, 8 for 64); 0 if it cannot be. */
uint32_t source(struct decoder *d, const struct operand *o, enum ptx_type type);
/* Where to put a result of that type; the move to a register of another width is emitted by decode_stmt afterwards. */
uint32_t dest(struct decoder *d, const struct operand *o, enum ptx_type type);
/* A .b128 register is two slots of 8 bytes: the lower and the upper half. False: the operand is no such register. */
bool halves_of(struct decoder *d, const struct operand *o, uint32_t *ret);
void lane(struct decoder *d, enum lane_op op, uint32_t dst, uint32_t a, uint32_t b, uint32_t c);
void lane_k(struct decoder *d, enum lane_op op, uint32_t dst, uint32_t a, uint32_t b, uint32_t c, int64_t k);
void set_mode(struct decoder *d, int mode);
int mode_of(const struct decoder *d);                              /* from .rz .ftz ... */
static inline bool is64(enum ptx_type t) { return ptx_types[t].bytes == 8; }
static inline bool is16(enum ptx_type t) { return ptx_types[t].bytes == 2; }
/* The slot of an address register, widened (0: absolute); *ret_offset what is to be added. False: not an address. */
bool address(struct decoder *d, const struct operand *o, uint32_t *ret_slot, int64_t *ret_offset);
uint32_t address_slot(struct decoder *d, const struct operand *o);   /* as one slot, offset included; 0: not an address */
bool decode_async(struct decoder *d);                 /* cp.async of bulks, or with an mbarrier */
bool decode_async_store(struct decoder *d);           /* st.async, red.async */
enum ptx_space space_of_op(const struct opcode *o);
bool decode_cluster_barrier(struct decoder *d);
uint32_t list_add(struct decoder *d, const uint32_t *items, unsigned count);
/* The address of a variable in its own space, and generically. */
uint64_t variable_address(const struct ptx_module *m, const struct function *f, const struct variable *v);

void unwritten_find(struct decoder *d, const uint8_t *leader);
void unwritten_before(struct decoder *d);   /* around the instructions of a statement */
void unwritten_after(struct decoder *d);

/* `to` is another name for this slot from now on, if it has no other value ever; false: a move is needed. */
bool alias(struct decoder *d, const struct operand *to, uint32_t slot, unsigned bytes, bool fixed);
bool fixed_here(const struct decoder *d, const struct operand *o);
uint32_t param_slot(struct decoder *d, uint32_t offset, unsigned bytes, bool sign);
bool slots_share(struct decoder *d, uint32_t base, uint32_t *ret_top);   /* after flow_finish; sets preset */
void flow_paths(struct decoder *d, uint32_t first);   /* of all code from there on, which is complete */
bool flow_finish(struct decoder *d, uint32_t first_block);   /* branch targets and reconvergence points; flow.c */
