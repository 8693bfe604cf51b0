/*
 * Text to statements. One pass, one token of look-ahead, no recursion but for bracketed operand lists (bounded depth).
 * Here functions and the module; parse_statement.c has what is in a body, parse_variable.c what is declared.
 */
#include "gpu/ptx/parse.h"

#include <string.h>

static bool take_body(struct parser *p)
{
    const uint32_t outer = p->scope, outer_depth = p->depth;
    for (;;) {
        if (p->failed)
            return false;
        const struct token t = p->lex.now;
        enum ptx_space space;
        if (t.kind == TOK_END || t.kind == TOK_BAD)
            return syntax(p, "unexpected end of a function");
        if (accept(p, '{')) {
            if (!scope_push(p))
                return false;
        } else if (accept(p, '}')) {
            if (p->depth == outer_depth)
                return true;
            p->scope = p->m->scope_parent[p->scope];
            p->depth--;
            if (p->depth == outer_depth && p->scope != outer)
                return syntax(p, "unbalanced braces");
        } else if (accept(p, ';')) {
        } else if (accept_directive(p, ".loc")) {
            if (!take_loc(p))
                return false;
        } else if (space_of(&t, &space)) {
            next(p);
            struct decl d = {.space = space};
            if (!take_declaration(p, &d))
                return false;
        } else if (accept_directive(p, ".extern")) {
            struct decl d = {.is_extern = true};
            if (!space_of(&p->lex.now, &d.space))
                return syntax(p, "expected a state space");
            next(p);
            if (!take_declaration(p, &d))
                return false;
        } else if (accept_directive(p, ".pragma")) {
            if (!take_pragma(p))
                return false;
        } else if (accept_directive(p, ".file")) {
            if (!take_file(p))
                return false;
        } else if (t.kind == TOK_DIRECTIVE) {
            return unknown_directive(p, "in a function");
        } else if (at_label(p)) {
            if (!take_label(p))
                return false;
        } else if (!take_instruction(p)) {
            return false;
        }
    }
}

static bool take_params(struct parser *p, uint32_t *params, bool *is_pointer, int limit, int *ret_count, bool entry)
{
    struct function *f = p->f;
    if (accept(p, ')'))
        return true;
    do {
        if (is(p, '.')) /* ... of a variadic prototype lexes as dots */
            return syntax(p, "variadic functions are not supported");
        struct decl d = {0};
        if (!space_of(&p->lex.now, &d.space) || (d.space != SPACE_PARAM && d.space != SPACE_REG))
            return syntax(p, "expected a parameter");
        next(p);
        uint32_t v;
        if (!take_variable(p, &d, &v))
            return false;
        if (*ret_count == limit)
            return fail(p, PTX_RESOURCE, "too many parameters");
        struct variable *var = &p->m->vars[v];
        if (entry) {
            var->is_entry_param = true;
            var->offset = align_up(f->param_bytes, var->align);
            if (var->offset + var->bytes > 32764)
                return fail(p, PTX_RESOURCE, "too many bytes of parameters");
            f->param_bytes = (uint32_t)(var->offset + var->bytes);
        } else if (!place_variable(p, v)) {
            return false;
        }
        if (is_pointer)
            is_pointer[*ret_count] = d.is_pointer || (var->bytes == 8 && !ptx_types[var->type].is_float);
        params[(*ret_count)++] = v;
        if (d.space == SPACE_REG) { /* old style: the name is a register, filled from the parameter's bytes by the call */
            uint32_t reg;
            if (!register_add(p, (enum ptx_type)var->type, 1, &reg) || !symbol_add(p, p->scope, var->name, SYM_REG, reg))
                return false;
        } else if (!symbol_add(p, p->scope, var->name, SYM_VAR, v)) {
            return false;
        }
    } while (accept(p, ','));
    return expect(p, ')');
}

static bool take_dims(struct parser *p, uint32_t *dims)
{
    int n = 0;
    dims[0] = dims[1] = dims[2] = 1;
    do {
        int64_t x;
        if (!take_int(p, &x))
            return false;
        if (n == 3 || x < 0 || x > INT32_MAX)
            return syntax(p, "a bad size");
        dims[n++] = (uint32_t)x;
    } while (accept(p, ','));
    return true;
}

/* What may stand between a function's parameters and its body, and how many numbers it takes: 3 is a size of 1 to 3 dimensions. */
static const struct { const char *text; int numbers; } head_directives[] = {
    {".maxntid", 3}, {".reqntid", 3}, {".reqnctapercluster", 3}, {".maxnreg", 1}, {".minnctapersm", 1}, {".maxnctapersm", 1},
    {".maxclusterrank", 1}, {".explicitcluster", 0}, {".blocksareclusters", 0}, {".noreturn", 0}, {".abi_preserve", 1},
    {".abi_preserve_control", 1},
};

static bool take_head_directive(struct parser *p, struct function *f)
{
    const struct token t = p->lex.now;
    uint32_t ignored[3];
    int64_t number;
    uint32_t *dims = ptx_lex_word_is(&t, ".reqntid")             ? f->reqntid
                     : ptx_lex_word_is(&t, ".maxntid")           ? f->maxntid
                     : ptx_lex_word_is(&t, ".reqnctapercluster") ? f->cluster
                                                                 : ignored;
    if (accept_directive(p, ".pragma"))
        return take_pragma(p);
    for (size_t i = 0; i < sizeof head_directives / sizeof *head_directives; i++)
        if (accept_directive(p, head_directives[i].text))
            return head_directives[i].numbers == 3 ? take_dims(p, dims) : !head_directives[i].numbers || take_int(p, &number);
    return unknown_directive(p, "of a function");
}

static bool take_function(struct parser *p, bool entry, bool is_extern, bool visible)
{
    struct ptx_module *m = p->m;
    if (!GROW(m, function, m->function_count))
        return too_much(p);
    const uint32_t index = m->function_count++, outer = p->scope;
    struct function *f = p->f = &m->functions[index];
    *f = (struct function){.is_entry = entry, .is_extern = is_extern, .is_visible = visible, .line = p->lex.now.line};
    if (!scope_push(p))
        return false;
    if (accept(p, '(') && !take_params(p, f->returns, NULL, 4, &f->return_count, false))
        return false;
    if (!take_name(p, &f->name))
        return false;
    if (accept(p, '(') && !take_params(p, f->params, f->param_is_pointer, PTX_MAX_PARAMS, &f->param_count, entry))
        return false;
    int kind;
    uint32_t before;
    const bool known = ptx_symbol_find(m, 0, f->name, &kind, &before) && kind == SYM_FUNCTION;
    while (p->lex.now.kind == TOK_DIRECTIVE)
        if (!take_head_directive(p, f))
            return false;
    if (accept(p, ';')) {
        if (!known && !symbol_add(p, 0, f->name, SYM_FUNCTION, index))
            return false;
    } else {
        if (!expect(p, '{'))
            return false;
        if (known && m->functions[before].has_body)
            return syntax(p, "a function is defined twice");
        f->has_body = true;
        f->is_extern = false;
        f->stmt_first = m->stmt_count;
        p->loc = 0;
        if (!symbol_add(p, 0, f->name, SYM_FUNCTION, index) || !take_body(p))
            return false;
        f->stmt_count = m->stmt_count - f->stmt_first;
    }
    p->f = NULL;
    p->scope = outer;
    p->depth--;
    return true;
}

static bool take_top(struct parser *p)
{
    struct ptx_module *m = p->m;
    const struct token t = p->lex.now;
    if (accept(p, ';'))
        return true;
    if (accept(p, '@')) { /* @@DWARF lines of old */
        if (!accept(p, '@') || !ptx_lex_word_is(&p->lex.now, "DWARF"))
            return syntax(p, "expected @@DWARF");
        while (p->lex.now.kind != TOK_END && p->lex.now.line == t.line)
            next(p);
        return true;
    }
    if (t.kind == TOK_WORD) /* labels and .b8 lines of debug sections that the compiler left open */
        return syntax(p, "expected a directive");
    if (t.kind != TOK_DIRECTIVE)
        return syntax(p, "expected a directive");
    if (accept_directive(p, ".version")) {
        if (p->lex.now.kind != TOK_FLOAT64 && p->lex.now.kind != TOK_INT)
            return syntax(p, "expected a version");
        return next(p), true;
    }
    if (accept_directive(p, ".target")) {
        if (p->lex.now.kind != TOK_WORD)
            return syntax(p, "expected a target");
        snprintf(m->target, sizeof m->target, "%.*s", (int)(p->lex.now.size > 30 ? 30 : p->lex.now.size), p->lex.now.text);
        next(p);
        while (accept(p, ','))
            next(p);
        return true;
    }
    if (accept_directive(p, ".address_size")) {
        int64_t bits;
        return take_int(p, &bits) && (bits == 64 || syntax(p, "only 64-bit addresses"));
    }
    if (accept_directive(p, ".file"))
        return take_file(p);
    if (accept_directive(p, ".loc"))
        return take_loc(p);
    if (accept_directive(p, ".section")) {
        if (p->lex.now.kind != TOK_DIRECTIVE || p->lex.now.size < 6 || memcmp(p->lex.now.text, ".debug", 6) != 0)
            return syntax(p, "a .section that is not .debug_*");
        next(p);
        return expect(p, '{') && skip_brackets(p, '{', '}');
    }
    bool is_extern = false, visible = false;
    for (;; next(p)) {
        if (directive_is(p, ".extern"))
            is_extern = true;
        else if (directive_is(p, ".visible") || directive_is(p, ".weak") || directive_is(p, ".common"))
            visible = true;
        else
            break;
    }
    if (accept_directive(p, ".entry"))
        return take_function(p, true, is_extern, visible);
    if (accept_directive(p, ".func")) {
        while (p->lex.now.kind == TOK_DIRECTIVE) {
            if (accept_directive(p, ".noreturn"))
                continue;
            if (!accept_directive(p, ".attribute"))
                return unknown_directive(p, "of a function");
            if (!expect(p, '(') || !skip_brackets(p, '(', ')'))
                return false;
        }
        return take_function(p, false, is_extern, visible);
    }
    struct decl d = {.is_extern = is_extern, .is_visible = visible};
    if (space_of(&p->lex.now, &d.space)) {
        next(p);
        return take_declaration(p, &d);
    }
    if (accept_directive(p, ".pragma"))
        return take_pragma(p);
    if (accept_directive(p, ".alias"))
        return take_names(p);
    return unknown_directive(p, "of a module");
}

/* One block of bytes for all module variables, with their initial values. */
static bool build_data(struct parser *p)
{
    struct ptx_module *m = p->m;
    if (m->data_bytes > m->memory_limit - m->memory_bytes)
        return too_much(p);
    m->memory_bytes += m->data_bytes;
    m->data = xalloc(m->data_bytes + 1);
    for (uint32_t i = 0; i < m->var_count; i++)
        if (m->vars[i].data && (m->vars[i].space == SPACE_GLOBAL || m->vars[i].space == SPACE_CONST))
            memcpy(m->data + m->vars[i].offset, m->vars[i].data, m->vars[i].bytes);
    return true;
}

bool ptx_parse(const char *text, size_t size, const struct ptx_limits *limits, struct ptx_module **ret,
               struct ptx_finding *ret_finding, struct err *err)
{
    (void)err;
    if (!limits)
        limits = &ptx_default_limits;
    struct ptx_finding finding = {.source_line = -1};
    cleanup(ptx) struct ptx_module *m = xalloc(sizeof *m);
    m->memory_limit = limits->memory_bytes;
    struct parser p = {.m = m, .finding = &finding};
    while (size && !text[size - 1]) /* compilers count the NUL */
        size--;
    ptx_lex_start(&p.lex, text, size);
    *ret = NULL;
    if (size > limits->text_bytes) {
        ptx_finding_set(&finding, PTX_RESOURCE, "%zu bytes of PTX, at most %zu are accepted", size, limits->text_bytes);
        p.failed = true;
    } else if (!ptx_grow(m, (void **)&m->scope_parent, &m->scope_capacity, 0, sizeof *m->scope_parent) ||
               !GROW(m, loc, 0)) {
        too_much(&p);
    } else {
        m->scope_count = m->loc_count = 1; /* scope 0 is the module, loc 0 is "unknown" */
        while (!p.failed && p.lex.now.kind != TOK_END)
            if (!take_top(&p))
                break;
        if (!p.failed && relocate(&p) && build_data(&p))
            p.failed = !ptx_decode(m, &finding);
    }
    free(p.relocations);
    BUG_ON(p.failed != (finding.kind != PTX_CLEAN));
    if (!p.failed)
        *ret = steal(&m);
    *ret_finding = finding;
    return true;
}
