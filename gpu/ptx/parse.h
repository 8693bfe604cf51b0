/* What the parser's files share. Each step that takes something returns false when there is a finding, and from then on at once. */
#pragma once
#include "gpu/ptx/lex.h"
#include "gpu/ptx/module.h"

#define MAX_NESTING 64
#define MAX_OPERANDS 64
#define MAX_REGISTERS (1u << 20)
#define MAX_ARRAY_BYTES ((uint64_t)1 << 28)

/* Short names here, the library's prefix for the linker. */
#define fail ptx_parse_fail
#define intern ptx_parse_intern
#define symbol_add ptx_parse_symbol_add
#define scope_push ptx_parse_scope_push
#define accept ptx_parse_accept
#define expect ptx_parse_expect
#define directive_is ptx_parse_directive_is
#define accept_directive ptx_parse_accept_directive
#define take_name ptx_parse_take_name
#define take_int ptx_parse_take_int
#define unknown_directive ptx_parse_unknown_directive
#define skip_brackets ptx_parse_skip_brackets
#define take_pragma ptx_parse_take_pragma
#define take_names ptx_parse_take_names
#define take_prototype ptx_parse_take_prototype
#define space_of ptx_parse_space_of
#define register_add ptx_parse_register_add
#define take_variable ptx_parse_take_variable
#define place_variable ptx_parse_place_variable
#define take_declaration ptx_parse_take_declaration
#define relocate ptx_parse_relocate
#define take_instruction ptx_parse_take_instruction
#define take_loc ptx_parse_take_loc
#define take_file ptx_parse_take_file
#define at_label ptx_parse_at_label
#define take_label ptx_parse_take_label
#define take_constant_after ptx_parse_take_constant_after
#define take_constant_in_brackets ptx_parse_take_constant_in_brackets
#define at_constant ptx_parse_at_constant

/* An address in a variable's initial bytes: its value is known when the module is complete. */
struct relocation {
    uint32_t variable, name, line;
    uint64_t at, mask;              /* mask: of its bits these, shifted down */
    int64_t offset;
    uint8_t size;
    bool is_generic;
};

struct parser {
    struct lexer lex;
    struct ptx_module *m;
    struct ptx_finding *finding;
    struct function *f;             /* being parsed, NULL at module scope; not kept across a growth of functions */
    uint32_t scope, depth, loc;
    bool is_call;                   /* the instruction being parsed: what stands in brackets is a list */
    bool failed;
    struct relocation *relocations;
    uint32_t relocation_count, relocation_capacity;
};
/* What stands before the name of a variable or parameter. */
struct decl {
    enum ptx_space space;
    bool is_extern, is_visible, is_managed, is_pointer;
    enum ptx_type type; /* of the name before, in a list of names */
    uint32_t align, lanes;
};

/* parse_token.c */
bool fail(struct parser *p, enum ptx_finding_kind kind, const char *what);
uint32_t intern(struct parser *p, const char *text, size_t size);
bool symbol_add(struct parser *p, uint32_t scope, uint32_t name, int kind, uint32_t value);
bool scope_push(struct parser *p);
bool accept(struct parser *p, char c);
bool expect(struct parser *p, char c);
bool directive_is(struct parser *p, const char *text);
bool accept_directive(struct parser *p, const char *text);
bool take_name(struct parser *p, uint32_t *ret);
bool take_int(struct parser *p, int64_t *ret);
bool unknown_directive(struct parser *p, const char *where);
bool skip_brackets(struct parser *p, char open, char close);
bool take_pragma(struct parser *p);
bool take_names(struct parser *p);
bool take_prototype(struct parser *p);
/* parse_variable.c */
bool space_of(const struct token *t, enum ptx_space *ret);
bool register_add(struct parser *p, enum ptx_type type, uint32_t count, uint32_t *ret_first);
bool take_variable(struct parser *p, struct decl *d, uint32_t *ret);
bool place_variable(struct parser *p, uint32_t index);
bool take_declaration(struct parser *p, struct decl *d);
bool relocate(struct parser *p);
/* parse_constant.c */
bool take_constant_after(struct parser *p, int64_t left, int depth, int64_t *ret);   /* what follows a number */
bool at_constant(struct parser *p);
bool take_constant_in_brackets(struct parser *p, int64_t *ret);                      /* after the opening one, and what follows */
/* parse_statement.c */
bool take_instruction(struct parser *p);
bool take_loc(struct parser *p);
bool take_file(struct parser *p);
bool at_label(struct parser *p);
bool take_label(struct parser *p);

static inline bool syntax(struct parser *p, const char *what) { return fail(p, PTX_SYNTAX, what); }
static inline bool too_much(struct parser *p) { return fail(p, PTX_RESOURCE, "the module needs more memory than is allowed"); }
static inline void next(struct parser *p) { ptx_lex_next(&p->lex); }
static inline bool is(struct parser *p, char c) { return ptx_lex_is(&p->lex, c); }
static inline uint64_t align_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }
