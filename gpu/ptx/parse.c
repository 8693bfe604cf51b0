/*
 * Text to statements. One pass, one token of look-ahead, no recursion but for bracketed operand lists (bounded depth).
 *
 * Names are interned; a symbol is (scope, name) in one hash table; scopes nest by `{ }` and are kept, since a label may be
 * used before it is set. What is wrong is reported once, by `fail`; after that every step returns at once.
 */
#include "gpu/ptx/lex.h"
#include "gpu/ptx/module.h"

#include <string.h>

#define MAX_NESTING 64
#define MAX_OPERANDS 64
#define MAX_REGISTERS (1u << 20)
#define MAX_ARRAY_BYTES ((uint64_t)1 << 28)

struct parser {
    struct lexer lex;
    struct ptx_module *m;
    struct ptx_finding *finding;
    struct function *f;             /* being parsed, NULL at module scope; not kept across a growth of functions */
    uint32_t scope, depth, loc;
    bool failed;
};

static bool fail(struct parser *p, enum ptx_finding_kind kind, const char *what)
{
    if (!p->failed) {
        p->failed = true;
        p->finding->ptx_line = (int)p->lex.now.line;
        const int n = p->lex.now.size > 40 ? 40 : (int)p->lex.now.size;
        ptx_finding_set(p->finding, kind, "PTX line %u: %s%s%.*s%s", p->lex.now.line, what, n ? " near \"" : "", n,
                        p->lex.now.text, n ? "\"" : "");
    }
    return false;
}
static bool syntax(struct parser *p, const char *what) { return fail(p, PTX_SYNTAX, what); }
static bool too_much(struct parser *p) { return fail(p, PTX_RESOURCE, "the module needs more memory than is allowed"); }

static uint32_t intern(struct parser *p, const char *text, size_t size)
{
    struct ptx_module *m = p->m;
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
    h ^= h >> 29;
    if (m->name_hash_size)
        for (uint64_t i = h;; i++) {
            const uint32_t at = m->name_hash[i & (m->name_hash_size - 1)];
            if (!at)
                break;
            const char *have = m->text + m->names[at - 1];
            if (!strncmp(have, text, size) && !have[size])
                return at - 1;
        }
    if (!GROW(m, name, m->name_count) || size > 4096 || m->text_bytes + size + 1 > UINT32_MAX)
        return too_much(p), 0;
    if (m->text_bytes + size + 1 > m->text_capacity) {
        m->text_capacity = (m->text_capacity + size + 1) * 2;
        m->text = xrealloc(m->text, m->text_capacity);
    }
    m->names[m->name_count] = (uint32_t)m->text_bytes;
    memcpy(m->text + m->text_bytes, text, size);
    m->text[m->text_bytes + size] = 0;
    m->text_bytes += size + 1;
    m->name_count++;
    if (m->name_count * 2 > m->name_hash_size) { /* again, twice as large */
        free(m->name_hash);
        m->name_hash_size = m->name_hash_size ? m->name_hash_size * 2 : 256;
        m->name_hash = xarray(m->name_hash_size, sizeof *m->name_hash);
        for (uint32_t n = 0; n < m->name_count; n++) {
            uint64_t g = 14695981039346656037ull;
            for (const char *c = m->text + m->names[n]; *c; c++)
                g = (g ^ (unsigned char)*c) * 1099511628211ull;
            g ^= g >> 29;
            while (m->name_hash[g & (m->name_hash_size - 1)])
                g++;
            m->name_hash[g & (m->name_hash_size - 1)] = n + 1;
        }
    } else {
        while (m->name_hash[h & (m->name_hash_size - 1)])
            h++;
        m->name_hash[h & (m->name_hash_size - 1)] = m->name_count;
    }
    return m->name_count - 1;
}

static void symbol_put(struct ptx_module *m, uint64_t key, uint32_t value)
{
    uint64_t h = key * 0x9e3779b97f4a7c15ull >> 20;
    while (m->symbols[h & (m->symbol_size - 1)].key && m->symbols[h & (m->symbol_size - 1)].key != key)
        h++;
    struct symbol_slot *s = &m->symbols[h & (m->symbol_size - 1)];
    m->symbol_count += !s->key;
    *s = (struct symbol_slot){key, value};
}

static bool symbol_add(struct parser *p, uint32_t scope, uint32_t name, int kind, uint32_t value)
{
    struct ptx_module *m = p->m;
    if (value > 0xfffffff)
        return too_much(p);
    if (m->symbol_count * 2 >= m->symbol_size) {
        struct symbol_slot *old = m->symbols;
        const uint32_t old_size = m->symbol_size;
        m->symbol_size = old_size ? old_size * 2 : 256;
        if (m->symbol_size * sizeof *old > m->memory_limit - m->memory_bytes)
            return m->symbol_size = old_size, too_much(p);
        m->memory_bytes += m->symbol_size * sizeof *old;
        m->symbols = xarray(m->symbol_size, sizeof *old);
        m->symbol_count = 0;
        for (uint32_t i = 0; i < old_size; i++)
            if (old[i].key)
                symbol_put(m, old[i].key, old[i].value);
        free(old);
    }
    symbol_put(m, ((uint64_t)scope << 32 | name) + 1, (uint32_t)kind << 28 | value);
    return true;
}

static bool scope_push(struct parser *p)
{
    struct ptx_module *m = p->m;
    if (++p->depth > MAX_NESTING)
        return fail(p, PTX_RESOURCE, "blocks nest too deeply");
    if (!ptx_grow(m, (void **)&m->scope_parent, &m->scope_capacity, m->scope_count, sizeof *m->scope_parent))
        return too_much(p);
    m->scope_parent[m->scope_count] = p->scope;
    p->scope = m->scope_count++;
    return true;
}

/* ---- small steps ---- */
static void next(struct parser *p) { ptx_lex_next(&p->lex); }
static bool is(struct parser *p, char c) { return ptx_lex_is(&p->lex, c); }
static bool accept(struct parser *p, char c)
{
    if (!is(p, c))
        return false;
    next(p);
    return true;
}
static bool expect(struct parser *p, char c)
{
    if (accept(p, c))
        return true;
    char what[24];
    snprintf(what, sizeof what, "expected '%c'", c);
    return syntax(p, what);
}
static bool directive_is(struct parser *p, const char *text)
{
    return p->lex.now.kind == TOK_DIRECTIVE && ptx_lex_word_is(&p->lex.now, text);
}
static bool accept_directive(struct parser *p, const char *text)
{
    if (!directive_is(p, text))
        return false;
    next(p);
    return true;
}
static bool take_name(struct parser *p, uint32_t *ret)
{
    if (p->lex.now.kind != TOK_WORD)
        return syntax(p, "expected a name");
    *ret = intern(p, p->lex.now.text, p->lex.now.size);
    next(p);
    return !p->failed;
}
static bool take_int(struct parser *p, int64_t *ret)
{
    const bool minus = accept(p, '-');
    if (p->lex.now.kind != TOK_INT)
        return syntax(p, "expected a number");
    *ret = minus ? (int64_t)(0 - p->lex.now.value) : (int64_t)p->lex.now.value;
    next(p);
    return true;
}
/* What nobody here knows is refused, never passed over: what follows it could be an instruction. */
static bool unknown_directive(struct parser *p, const char *where)
{
    char what[80];
    snprintf(what, sizeof what, "an unknown directive %s", where);
    return syntax(p, what);
}
/* After an opening bracket: to just after the one that closes it. Statements do not end in there. */
static bool skip_brackets(struct parser *p, char open, char close)
{
    for (int depth = 1; p->lex.now.kind != TOK_END && p->lex.now.kind != TOK_BAD; next(p)) {
        if (is(p, open))
            depth++;
        else if (is(p, close) && --depth == 0)
            return next(p), true;
        else if (open != '{' && (is(p, ';') || is(p, '{') || is(p, '}')))
            break;
    }
    return syntax(p, "unbalanced brackets");
}
/* .pragma "nounroll", "...";  */
static bool take_pragma(struct parser *p)
{
    do {
        if (p->lex.now.kind != TOK_STRING)
            return syntax(p, "expected a string after .pragma");
        next(p);
    } while (accept(p, ','));
    return expect(p, ';');
}
static bool take_names(struct parser *p)
{
    uint32_t ignored;
    do {
        if (!take_name(p, &ignored))
            return false;
    } while (accept(p, ','));
    return expect(p, ';');
}
/* .callprototype (returns) _ (parameters) .noreturn .abi_preserve 1; */
static bool take_prototype(struct parser *p)
{
    uint32_t ignored;
    int64_t count;
    if ((accept(p, '(') && !skip_brackets(p, '(', ')')) || !take_name(p, &ignored) || (accept(p, '(') && !skip_brackets(p, '(', ')')))
        return false;
    while (p->lex.now.kind == TOK_DIRECTIVE) {
        if (accept_directive(p, ".noreturn"))
            continue;
        if (!accept_directive(p, ".abi_preserve") && !accept_directive(p, ".abi_preserve_control"))
            return unknown_directive(p, "of a prototype");
        if (!take_int(p, &count))
            return false;
    }
    return expect(p, ';');
}

/* ---- variables ---- */
static const struct { const char *text; enum ptx_space space; } spaces[] = {
    {".global", SPACE_GLOBAL}, {".shared", SPACE_SHARED}, {".local", SPACE_LOCAL}, {".const", SPACE_CONST},
    {".param", SPACE_PARAM}, {".reg", SPACE_REG},
};

static bool space_of(const struct token *t, enum ptx_space *ret)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (t->kind == TOK_DIRECTIVE && ptx_lex_word_is(t, spaces[i].text))
            return *ret = spaces[i].space, true;
    return false;
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
            at += size;
            next(p);
        } else if (t.kind == TOK_WORD) {  /* an address: generic(x)+4, mask(x): kept as zero, found by the scan as a relocation */
            next(p);
            if (accept(p, '(')) {
                while (!is(p, ')') && p->lex.now.kind != TOK_END)
                    next(p);
                if (!expect(p, ')'))
                    return false;
            }
            int64_t ignored;
            if (accept(p, '+') && !take_int(p, &ignored))
                return false;
            if (!put_bytes(p, v, at, size, 0))
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

static bool register_add(struct parser *p, enum ptx_type type, uint32_t count, uint32_t *ret_first)
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
    int64_t align;
    if (!take_int(p, &align))
        return false;
    if (align < 1 || align > 4096 || align & (align - 1))
        return syntax(p, "a bad alignment");
    *ret = (uint32_t)align;
    return true;
}

struct decl {
    enum ptx_space space;
    bool is_extern, is_visible, is_managed, is_pointer;
    enum ptx_type type; /* of the name before, in a list of names */
    uint32_t align, lanes;
};

/* After the space: qualifiers, type, one name, dimensions. Adds the variable without placing it. */
static bool take_variable(struct parser *p, struct decl *d, uint32_t *ret)
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
            uint32_t given;
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

static uint64_t align_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

/* Gives a variable its offset in its space's frame. */
static bool place_variable(struct parser *p, uint32_t index)
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

static bool take_declaration(struct parser *p, struct decl *d)
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

/* ---- operands ---- */
static bool find_register(struct parser *p, const char *text, size_t size, uint32_t *ret)
{
    struct ptx_module *m = p->m;
    int kind;
    if (size > 200)
        return false;
    if (ptx_symbol_find(m, p->scope, intern(p, text, size), &kind, ret) && kind == SYM_REG)
        return true;
    size_t digits = size;
    while (digits > 1 && text[digits - 1] >= '0' && text[digits - 1] <= '9')
        digits--;
    for (size_t cut = digits; cut < size && cut < digits + 1; cut++) { /* %r12 is number 12 of %r<...> */
        char name[208];
        memcpy(name, text, cut);
        name[cut] = '<';
        uint64_t number = 0;
        for (size_t i = cut; i < size && number < MAX_REGISTERS; i++)
            number = number * 10 + (uint64_t)(text[i] - '0');
        uint32_t first;
        if (ptx_symbol_find(m, p->scope, intern(p, name, cut + 1), &kind, &first) && kind == SYM_REG &&
            first + number < p->f->reg_count) {
            *ret = (uint32_t)(first + number);
            return true;
        }
    }
    return false;
}

static bool operand_add(struct parser *p, struct operand o, uint32_t *ret)
{
    struct ptx_module *m = p->m;
    if (!GROW(m, operand, m->operand_count))
        return too_much(p);
    m->operands[m->operand_count] = o;
    *ret = m->operand_count++;
    return true;
}

static bool take_operand(struct parser *p, struct operand *ret, int depth);

/* Items up to `close`; they end up next to each other. */
static bool take_list(struct parser *p, char close, struct operand *ret, int depth)
{
    struct operand items[MAX_OPERANDS];
    uint32_t n = 0;
    if (depth > 4)
        return syntax(p, "operands nest too deeply");
    if (!is(p, close))
        do {
            if (n == MAX_OPERANDS)
                return syntax(p, "too many operands");
            if (!take_operand(p, &items[n++], depth + 1))
                return false;
        } while (accept(p, ','));
    if (!expect(p, close))
        return false;
    *ret = (struct operand){.kind = O_LIST, .id = p->m->operand_count, .count = n};
    uint32_t ignored;
    for (uint32_t i = 0; i < n; i++)
        if (!operand_add(p, items[i], &ignored))
            return false;
    return true;
}

static bool take_address(struct parser *p, struct operand *ret, int depth)
{
    struct operand o;
    if (!take_operand(p, &o, depth + 1))
        return false;
    if (is(p, ',')) { /* tensor coordinates and the like */
        next(p);
        struct operand rest;
        *ret = (struct operand){.kind = O_OTHER};
        return take_list(p, ']', &rest, depth);
    }
    if (!expect(p, ']'))
        return false;
    *ret = (struct operand){.kind = O_ADDRESS, .base = o.kind, .id = o.id, .imm = o.imm};
    if (o.kind != O_REG && o.kind != O_SYMBOL && o.kind != O_IMM && o.kind != O_NAME)
        ret->kind = O_OTHER;
    return true;
}

static bool take_word_operand(struct parser *p, struct operand *ret)
{
    const struct token t = p->lex.now;
    next(p);
    uint32_t id;
    int kind;
    if (t.size == 1 && *t.text == '_') {
        *ret = (struct operand){.kind = O_SINK};
        return true;
    }
    if (*t.text == '%') { /* a register, else a special register with a component */
        size_t dot = 0;
        while (dot < t.size && t.text[dot] != '.')
            dot++;
        if (find_register(p, t.text, dot, &id) && dot == t.size) {
            *ret = (struct operand){.kind = O_REG, .id = id};
        } else {
            const struct special_info *s = ptx_special_find(t.text, dot);
            const char *axis = dot + 2 == t.size ? strchr("xyzw", t.text[dot + 1]) : NULL;
            if (!s || (dot != t.size && (!s->is_vector || !axis)))
                return syntax(p, "an unknown register");
            if (s->id == SR_ENVREG)
                p->f->uses_grid_barrier = true;
            *ret = (struct operand){.kind = O_SPECIAL, .id = s->id,
                                    .component = (uint8_t)(axis ? axis - "xyzw" : 0)};
            for (size_t i = 7; s->id == SR_ENVREG && i < t.size; i++)
                ret->component = (uint8_t)(ret->component * 10 + (t.text[i] - '0'));
            if (axis)
                ret->component = t.text[dot + 1] == 'w' ? 3 : (uint8_t)(t.text[dot + 1] - 'x');
        }
    } else if (find_register(p, t.text, t.size, &id)) {
        *ret = (struct operand){.kind = O_REG, .id = id};
    } else if (ptx_lex_word_is(&t, "WARP_SZ")) {
        *ret = (struct operand){.kind = O_IMM, .imm = WARP_LANES};
    } else {
        const uint32_t name = intern(p, t.text, t.size);
        if (p->failed)
            return false;
        *ret = ptx_symbol_find(p->m, p->scope, name, &kind, &id) && kind == SYM_VAR
                   ? (struct operand){.kind = O_SYMBOL, .id = id}
                   : (struct operand){.kind = O_NAME, .id = name};
    }
    if (is(p, '+') || is(p, '-')) { /* [reg+8], sym+8 */
        const bool plus = is(p, '+');
        next(p);
        int64_t offset;
        if (!take_int(p, &offset))
            return false;
        ret->imm = plus ? offset : (int64_t)(0 - (uint64_t)offset);
    } else if (is(p, '|')) { /* p|q */
        next(p);
        struct operand second;
        uint32_t first;
        if (p->lex.now.kind != TOK_WORD || !take_word_operand(p, &second))
            return syntax(p, "expected a register");
        uint32_t ignored;
        if (!operand_add(p, *ret, &first) || !operand_add(p, second, &ignored))
            return false;
        *ret = (struct operand){.kind = O_PAIR, .id = first, .count = 2};
    }
    return true;
}

static bool take_operand(struct parser *p, struct operand *ret, int depth)
{
    if (depth > 6)
        return syntax(p, "operands nest too deeply");
    const struct token t = p->lex.now;
    bool negated = false;
    if (is(p, '!') || is(p, '-') || is(p, '~')) {
        negated = true;
        next(p);
    }
    if (negated && is(p, '-')) /* !-1, --1 */
        return syntax(p, "expected an operand");
    switch (p->lex.now.kind) {
    case TOK_INT:
        *ret = (struct operand){.kind = O_IMM, .imm = (int64_t)p->lex.now.value};
        if (negated)
            ret->imm = *t.text == '-' ? (int64_t)(0 - p->lex.now.value) : *t.text == '~' ? ~ret->imm : !ret->imm;
        next(p);
        if (is(p, '+') && depth) { /* [8+4] */
            next(p);
            int64_t more;
            if (!take_int(p, &more))
                return false;
            ret->imm = (int64_t)((uint64_t)ret->imm + (uint64_t)more);
        }
        return true;
    case TOK_FLOAT32:
    case TOK_FLOAT64: {
        const bool wide = p->lex.now.kind == TOK_FLOAT64;
        *ret = (struct operand){.kind = O_FLOAT, .base = wide ? T_F64 : T_F32,
                                .imm = (int64_t)(p->lex.now.value ^ (negated ? wide ? 1ull << 63 : 1ull << 31 : 0))};
        next(p);
        return true;
    }
    case TOK_WORD:
        if (!take_word_operand(p, ret))
            return false;
        ret->negated = negated;
        return true;
    case TOK_PUNCT:
        if (accept(p, '['))
            return take_address(p, ret, depth);
        if (accept(p, '{'))
            return take_list(p, '}', ret, depth);
        if (accept(p, '('))
            return take_list(p, ')', ret, depth);
        return syntax(p, "expected an operand");
    case TOK_END:
    case TOK_DIRECTIVE:
    case TOK_STRING:
    case TOK_BAD:
        break;
    }
    return syntax(p, "expected an operand");
}

/* ---- statements ---- */
static bool take_instruction(struct parser *p)
{
    struct ptx_module *m = p->m;
    struct stmt s = {.pred = -1, .line = p->lex.now.line, .loc = p->loc, .scope = p->scope};
    if (accept(p, '@')) {
        s.pred_negated = accept(p, '!');
        uint32_t id;
        if (p->lex.now.kind != TOK_WORD || !find_register(p, p->lex.now.text, p->lex.now.size, &id) ||
            p->f->reg_types[id] != T_PRED)
            return syntax(p, "expected a predicate");
        s.pred = (int32_t)id;
        next(p);
    }
    if (p->lex.now.kind != TOK_WORD)
        return syntax(p, "expected an instruction");
    ptx_lex_opcode(&p->lex);
    s.opcode = intern(p, p->lex.now.text, p->lex.now.size);
    next(p);
    struct operand items[MAX_OPERANDS];
    if (!is(p, ';'))
        do {
            if (s.count == MAX_OPERANDS)
                return syntax(p, "too many operands");
            if (!take_operand(p, &items[s.count++], 0))
                return false;
        } while (accept(p, ','));
    if (!expect(p, ';'))
        return false;
    s.first = m->operand_count;
    uint32_t ignored;
    for (uint32_t i = 0; i < s.count; i++)
        if (!operand_add(p, items[i], &ignored))
            return false;
    if (!GROW(m, stmt, m->stmt_count))
        return too_much(p);
    m->stmts[m->stmt_count++] = s;
    return !p->failed;
}

/* .loc file line column [, function_name label[+n], inlined_at file line column] */
static bool take_loc(struct parser *p)
{
    struct ptx_module *m = p->m;
    int64_t at[3], outer[3];
    for (int i = 0; i < 3; i++)
        if (!take_int(p, &at[i]))
            return false;
    while (accept(p, ',')) {
        const bool inlined = ptx_lex_word_is(&p->lex.now, "inlined_at");
        uint32_t ignored;
        if (!take_name(p, &ignored))
            return false;
        if (inlined) {
            for (int i = 0; i < 3; i++)
                if (!take_int(p, &outer[i]))
                    return false;
            if (at[0] != 1) /* a header's line says little: where the candidate's own source called it */
                memcpy(at, outer, sizeof at);
        } else {
            if (!take_name(p, &ignored))
                return false;
            int64_t offset;
            if (accept(p, '+') && !take_int(p, &offset))
                return false;
        }
    }
    if (at[1] <= 0 || at[1] > INT32_MAX || at[0] < 0 || at[0] > INT32_MAX)
        return true; /* line 0: the compiler's own; the line before stays */
    if (!GROW(m, loc, m->loc_count))
        return too_much(p);
    if (m->loc_count && m->locs[m->loc_count - 1].file == at[0] && m->locs[m->loc_count - 1].line == at[1])
        m->loc_count--;
    m->locs[m->loc_count] = (struct loc){(uint32_t)at[0], (uint32_t)at[1]};
    p->loc = m->loc_count++;
    return true;
}

/* .file number "name" [, time, size]: only the last part of the name is kept, paths of the host are nobody's business. */
static bool take_file(struct parser *p)
{
    struct ptx_module *m = p->m;
    int64_t number;
    if (!take_int(p, &number))
        return false;
    if (p->lex.now.kind != TOK_STRING)
        return syntax(p, "expected a file name");
    const char *text = p->lex.now.text;
    size_t size = p->lex.now.size;
    for (size_t i = size; i-- > 0;)
        if (text[i] == '/' || text[i] == '\\') {
            text += i + 1;
            size -= i + 1;
            break;
        }
    if (!GROW(m, file, m->file_count))
        return too_much(p);
    m->files[m->file_count].number = (uint32_t)number;
    cleanup(buf) struct buf clean = {0};
    utf8_clean(&clean, text, size);
    snprintf(m->files[m->file_count++].name, 64, "%s", buf_cstr(&clean));
    next(p);
    while (accept(p, ',')) {
        int64_t ignored;
        if (!take_int(p, &ignored))
            return false;
    }
    return true;
}

static bool take_branch_targets(struct parser *p, uint32_t label)
{
    struct ptx_module *m = p->m;
    if (!GROW(m, table, m->table_count))
        return too_much(p);
    struct branch_table table = {.first = m->table_name_count, .scope = p->scope};
    do {
        uint32_t name;
        if (!take_name(p, &name))
            return false;
        if (!GROW(m, table_name, m->table_name_count))
            return too_much(p);
        m->table_names[m->table_name_count++] = name;
        table.count++;
    } while (accept(p, ','));
    m->tables[m->table_count] = table;
    return symbol_add(p, p->scope, label, SYM_TABLE, m->table_count++) && expect(p, ';');
}

static bool at_label(struct parser *p)
{
    const char *c = p->lex.at;
    while (c < p->lex.end && (*c == ' ' || *c == '\t'))
        c++;
    return p->lex.now.kind == TOK_WORD && c < p->lex.end && *c == ':' && !(c + 1 < p->lex.end && c[1] == ':');
}

static bool take_label(struct parser *p)
{
    uint32_t name;
    if (!take_name(p, &name) || !expect(p, ':'))
        return false;
    if (accept_directive(p, ".branchtargets"))
        return take_branch_targets(p, name);
    if (accept_directive(p, ".callprototype"))
        return symbol_add(p, p->scope, name, SYM_PROTO, 0) && take_prototype(p);
    if (accept_directive(p, ".calltargets"))
        return symbol_add(p, p->scope, name, SYM_PROTO, 0) && take_names(p);
    int kind;
    uint32_t value;
    const uint32_t here = p->m->stmt_count;
    if (ptx_symbol_find(p->m, p->scope, name, &kind, &value) && kind == SYM_LABEL && value == here)
        return true;
    return symbol_add(p, p->scope, name, SYM_LABEL, here);
}

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
        if (!p.failed && build_data(&p))
            p.failed = !ptx_decode(m, &finding);
    }
    BUG_ON(p.failed != (finding.kind != PTX_CLEAN));
    if (!p.failed)
        *ret = steal(&m);
    *ret_finding = finding;
    return true;
}
