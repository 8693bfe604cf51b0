/* Declarations: registers, variables with their initial bytes, and where each lies in its space. */
#include "gpu/ptx/parse.h"

#include <string.h>

/* ---- variables ---- */
static const struct { const char *text; enum ptx_space space; } spaces[] = {
    {".global", SPACE_GLOBAL}, {".shared", SPACE_SHARED}, {".local", SPACE_LOCAL}, {".const", SPACE_CONST},
    {".param", SPACE_PARAM}, {".reg", SPACE_REG},
};
bool space_of(const struct token *t, enum ptx_space *ret)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (t->kind == TOK_DIRECTIVE && ptx_lex_word_is(t, spaces[i].text))
            return *ret = spaces[i].space, true;
    return false;
}

/* name, generic(name), with an offset; behind a mask in brackets. */
static bool take_address(struct parser *p, uint32_t variable, uint64_t at, unsigned size, uint64_t mask)
{
    struct relocation r = {.variable = variable, .at = at, .mask = mask, .size = (uint8_t)size, .line = p->lex.now.line};
    r.is_generic = ptx_lex_word_is(&p->lex.now, "generic");
    if (!take_name(p, &r.name))
        return false;
    if (r.is_generic && (!expect(p, '(') || !take_name(p, &r.name)))
        return false;
    const bool minus = is(p, '-');
    if ((accept(p, '+') || accept(p, '-')) && !take_int(p, &r.offset))
        return false;
    r.offset = minus ? -r.offset : r.offset;
    if (r.is_generic && !expect(p, ')'))
        return false;
    if (accept(p, '+')) {
        int64_t more;
        if (!take_int(p, &more))
            return false;
        r.offset += more;
    }
    if (!ptx_grow(p->m, (void **)&p->relocations, &p->relocation_capacity, p->relocation_count, sizeof r))
        return too_much(p);
    p->relocations[p->relocation_count++] = r;
    return true;
}

static bool address_of(const struct parser *p, const struct relocation *r, uint64_t *ret)
{
    const struct ptx_module *m = p->m;
    int kind;
    uint32_t index;
    if (!ptx_symbol_find(m, 0, r->name, &kind, &index))
        return false;
    if (kind == SYM_FUNCTION && !m->functions[index].is_entry) {
        *ret = FUNCTION_WINDOW + (uint64_t)index * FUNCTION_STEP;
        return true;
    }
    if (kind != SYM_VAR || m->vars[index].offset == UINT64_MAX)
        return false;
    const struct variable *v = &m->vars[index];
    const uint64_t at = v->offset + (uint64_t)r->offset;
    *ret = v->space == SPACE_SHARED ? (r->is_generic ? SHARED_WINDOW + at : at) : MODULE_WINDOW + at;
    return v->space == SPACE_SHARED || v->space == SPACE_GLOBAL || v->space == SPACE_CONST;
}

bool relocate(struct parser *p)
{
    for (uint32_t i = 0; i < p->relocation_count; i++) {
        const struct relocation *r = &p->relocations[i];
        uint64_t value;
        if (!address_of(p, r, &value)) {
            p->lex.now.line = r->line;
            return syntax(p, "an initialiser names what has no address");
        }
        if (r->mask)
            value = (value & r->mask) >> __builtin_ctzll(r->mask);
        memcpy(p->m->vars[r->variable].data + r->at, &value, r->size);
    }
    return true;
}

static bool put_bytes(struct parser *p, struct variable *v, uint64_t at, unsigned size, uint64_t value)
{
    if (at + size > v->bytes)
        return syntax(p, "an initialiser is larger than its variable");
    memcpy(v->data + at, &value, size);
    return true;
}

/* `= value`, `= {v, v, {v}}`: filled in order, inner braces are flattened (PTX pads them, compilers do not use that). */
static bool take_initialiser(struct parser *p, uint32_t index)
{
    struct variable *v = &p->m->vars[index];
    const unsigned size = ptx_types[v->type].bytes;
    if (!v->bytes || v->bytes > p->m->memory_limit - p->m->memory_bytes)
        return too_much(p);
    p->m->memory_bytes += v->bytes;
    v->data = xalloc(v->bytes);
    v->initialised = true;
    uint64_t at = 0;
    int depth = 0;
    do {
        while (accept(p, '{'))
            depth++;
        const bool minus = accept(p, '-');
        const struct token t = p->lex.now;
        if (is(p, '}')) {                 /* an empty list */
        } else if (t.kind == TOK_INT || t.kind == TOK_FLOAT32 || t.kind == TOK_FLOAT64) {
            uint64_t bits = t.value;
            if (t.kind == TOK_INT && minus)
                bits = 0 - bits;
            if (t.kind == TOK_FLOAT64 && v->type == T_F32) {
                double wide;
                memcpy(&wide, &bits, 8);
                const float narrow = (float)wide;
                bits = 0;
                memcpy(&bits, &narrow, 4);
            }
            if (t.kind != TOK_INT && minus)
                bits ^= size == 4 ? 0x80000000ull : 1ull << 63;
            if (!put_bytes(p, v, at, size, bits))
                return false;
            next(p);
            if (t.kind == TOK_INT && bits && accept(p, '(') && (!take_address(p, index, at, size, bits) || !expect(p, ')')))
                return false;
            at += size;
        } else if (t.kind == TOK_WORD) {
            if (!put_bytes(p, v, at, size, 0) || !take_address(p, index, at, size, 0))
                return false;
            at += size;
        } else {
            return syntax(p, "expected a value");
        }
        while (depth && accept(p, '}'))
            depth--;
    } while (depth && accept(p, ','));
    return depth ? syntax(p, "expected '}'") : true;
}

bool register_add(struct parser *p, enum ptx_type type, uint32_t count, uint32_t *ret_first)
{
    struct function *f = p->f;
    struct ptx_module *m = p->m;
    if (count > MAX_REGISTERS || f->reg_count + count > MAX_REGISTERS)
        return fail(p, PTX_RESOURCE, "too many registers");
    while (f->reg_count + count > f->reg_capacity) {
        uint32_t more = f->reg_capacity ? f->reg_capacity : 256;
        while (f->reg_capacity + more < f->reg_count + count)
            more *= 2;
        if (more > m->memory_limit - m->memory_bytes)
            return too_much(p);
        m->memory_bytes += more;
        f->reg_types = xrealloc(f->reg_types, f->reg_capacity + more);
        f->reg_capacity += more;
    }
    memset(f->reg_types + f->reg_count, (int)type, count);
    *ret_first = f->reg_count;
    f->reg_count += count;
    return true;
}

/* `%r<10>` becomes the name "%r<" (looked up by prefix); a plain name stands for itself. */
static bool take_register_names(struct parser *p, enum ptx_type type)
{
    do {
        if (p->lex.now.kind != TOK_WORD)
            return syntax(p, "expected a register name");
        const char *text = p->lex.now.text;
        const size_t size = p->lex.now.size;
        next(p);
        uint32_t first;
        int64_t count = 1;
        if (size > 200)
            return syntax(p, "a name is too long");
        char name[208];
        memcpy(name, text, size);
        size_t n = size;
        if (accept(p, '<')) {
            if (!take_int(p, &count) || !expect(p, '>'))
                return false;
            if (count < 0 || count > MAX_REGISTERS)
                return fail(p, PTX_RESOURCE, "too many registers");
            name[n++] = '<';
        }
        if (!register_add(p, type, (uint32_t)count, &first) ||
            !symbol_add(p, p->scope, intern(p, name, n), SYM_REG, first) || p->failed)
            return false;
    } while (accept(p, ','));
    return true;
}

static bool take_alignment(struct parser *p, uint32_t *ret)
{
    int64_t align = 0;
    if (!take_int(p, &align))
        return false;
    if (align < 1 || align > 4096 || align & (align - 1))
        return syntax(p, "a bad alignment");
    *ret = (uint32_t)align;
    return true;
}

/* After the space: qualifiers, type, one name, dimensions. Adds the variable without placing it. */
bool take_variable(struct parser *p, struct decl *d, uint32_t *ret)
{
    struct ptx_module *m = p->m;
    uint32_t align = d->align, lanes = d->lanes ? d->lanes : 1;
    enum ptx_type type = d->type;
    for (; p->lex.now.kind == TOK_DIRECTIVE; ) {
        const struct token t = p->lex.now;
        enum ptx_space ignored;
        next(p);
        const enum ptx_type found = ptx_type_find(t.text + 1, t.size - 1);
        if (found)
            type = found;
        else if (ptx_lex_word_is(&t, ".align")) {
            uint32_t given = 0;
            if (!take_alignment(p, &given))
                return false;
            if (!d->is_pointer)
                align = given;
        } else if (ptx_lex_word_is(&t, ".ptr"))
            d->is_pointer = true;
        else if (ptx_lex_word_is(&t, ".v2"))
            lanes = 2;
        else if (ptx_lex_word_is(&t, ".v4"))
            lanes = 4;
        else if (ptx_lex_word_is(&t, ".attribute")) {
            if (!expect(p, '('))
                return false;
            while (!is(p, ')') && p->lex.now.kind != TOK_END) {
                d->is_managed |= directive_is(p, ".managed");
                next(p);
            }
            if (!expect(p, ')'))
                return false;
        } else if (!space_of(&t, &ignored))
            return syntax(p, "an unknown qualifier of a variable");
    }
    if (!type || type == T_PRED)
        return syntax(p, "a variable needs a type");
    d->type = type;
    d->align = align;
    d->lanes = lanes;
    uint32_t name, size = ptx_types[type].bytes * lanes;
    if (p->lex.now.kind == TOK_PUNCT && is(p, '_'))
        return syntax(p, "expected a name");
    if (!take_name(p, &name))
        return false;
    uint64_t count = 1;
    bool open = false;
    if (accept(p, '<')) { /* .param .b32 p<4>: rare */
        return syntax(p, "a range of variables is not supported");
    }
    while (accept(p, '[')) {
        if (is(p, ']')) {
            open = true;
        } else {
            int64_t n;
            if (!take_int(p, &n))
                return false;
            if (n < 0 || (uint64_t)n > MAX_ARRAY_BYTES || (count *= (uint64_t)n) > MAX_ARRAY_BYTES)
                return fail(p, PTX_RESOURCE, "an array is too large");
        }
        if (!expect(p, ']'))
            return false;
    }
    if (open && !is(p, '='))
        count = 0;
    if (open && is(p, '='))
        return syntax(p, "an array without a size");
    if (!GROW(m, var, m->var_count))
        return too_much(p);
    m->vars[m->var_count] = (struct variable){
        .name = name, .space = (uint8_t)d->space, .type = (uint8_t)type, .is_extern = d->is_extern,
        .is_visible = d->is_visible, .is_managed = d->is_managed, .align = align ? align : size, .bytes = count * size,
        .line = p->lex.now.line, .function = p->f ? (int32_t)(p->f - m->functions) : -1};
    *ret = m->var_count++;
    return true;
}

/* Gives a variable its offset in its space's frame. */
bool place_variable(struct parser *p, uint32_t index)
{
    struct variable *v = &p->m->vars[index];
    struct function *f = p->f;
    uint64_t end;
    switch ((int)v->space) {
    case SPACE_SHARED:
        if (v->is_extern && !v->bytes) { /* dynamic: after all static ones, known at the launch */
            v->offset = UINT64_MAX;
            return true;
        }
        if (f) {
            v->offset = align_up(f->static_shared_bytes, v->align);
            end = v->offset + v->bytes;
            if (end > 1u << 20)
                return fail(p, PTX_RESOURCE, "too much shared memory");
            f->static_shared_bytes = (uint32_t)end;
        } else { /* module scope: every kernel of the module has it */
            v->offset = align_up(p->m->func_shared_bytes, v->align);
            end = v->offset + v->bytes;
            if (end > 1u << 20)
                return fail(p, PTX_RESOURCE, "too much shared memory");
            p->m->func_shared_bytes = (uint32_t)end;
        }
        return true;
    case SPACE_LOCAL:
    case SPACE_PARAM:
        if (!f)
            return syntax(p, "not allowed at module scope");
        v->offset = align_up(f->local_bytes, v->align);
        end = v->offset + v->bytes;
        if (end > 1u << 20)
            return fail(p, PTX_RESOURCE, "too much local memory");
        f->local_bytes = (uint32_t)end;
        return true;
    default:
        v->offset = align_up(p->m->data_bytes, v->align < 16 ? 16 : v->align);
        end = v->offset + v->bytes;
        if (end > MAX_ARRAY_BYTES)
            return fail(p, PTX_RESOURCE, "too many bytes of global variables");
        p->m->data_bytes = end;
        return true;
    }
}

bool take_declaration(struct parser *p, struct decl *d)
{
    if (d->space == SPACE_REG) {
        const struct token t = p->lex.now;
        const enum ptx_type type = t.kind == TOK_DIRECTIVE ? ptx_type_find(t.text + 1, t.size - 1) : T_NONE;
        if (!type || !p->f)
            return syntax(p, "a register needs a type");
        next(p);
        return take_register_names(p, type) && expect(p, ';');
    }
    do {
        uint32_t v;
        if (!take_variable(p, d, &v) || !place_variable(p, v) || !symbol_add(p, p->scope, p->m->vars[v].name, SYM_VAR, v))
            return false;
        if (accept(p, '=') && !take_initialiser(p, v))
            return false;
    } while (accept(p, ','));
    return expect(p, ';');
}
