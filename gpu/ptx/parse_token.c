/*
 * The parser's ground: what is wrong is said once, names are interned, symbols are kept by scope, tokens are taken one by one.
 *
 * A symbol is (scope, name) in one hash table; scopes nest by `{ }` and are kept, since a label may be used before it is set.
 */
#include "gpu/ptx/parse.h"

#include <string.h>

bool fail(struct parser *p, enum ptx_finding_kind kind, const char *what)
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

uint32_t intern(struct parser *p, const char *text, size_t size)
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

bool symbol_add(struct parser *p, uint32_t scope, uint32_t name, int kind, uint32_t value)
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

bool scope_push(struct parser *p)
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
bool accept(struct parser *p, char c)
{
    if (!is(p, c))
        return false;
    next(p);
    return true;
}
bool expect(struct parser *p, char c)
{
    if (accept(p, c))
        return true;
    char what[24];
    snprintf(what, sizeof what, "expected '%c'", c);
    return syntax(p, what);
}
bool directive_is(struct parser *p, const char *text)
{
    return p->lex.now.kind == TOK_DIRECTIVE && ptx_lex_word_is(&p->lex.now, text);
}
bool accept_directive(struct parser *p, const char *text)
{
    if (!directive_is(p, text))
        return false;
    next(p);
    return true;
}
bool take_name(struct parser *p, uint32_t *ret)
{
    if (p->lex.now.kind != TOK_WORD)
        return syntax(p, "expected a name");
    *ret = intern(p, p->lex.now.text, p->lex.now.size);
    next(p);
    return !p->failed;
}
bool take_int(struct parser *p, int64_t *ret)
{
    const bool minus = accept(p, '-');
    if (p->lex.now.kind != TOK_INT)
        return syntax(p, "expected a number");
    *ret = minus ? (int64_t)(0 - p->lex.now.value) : (int64_t)p->lex.now.value;
    next(p);
    return true;
}
/* What nobody here knows is refused, never passed over: what follows it could be an instruction. */
bool unknown_directive(struct parser *p, const char *where)
{
    char what[80];
    snprintf(what, sizeof what, "an unknown directive %s", where);
    return syntax(p, what);
}
/* After an opening bracket: to just after the one that closes it. Statements do not end in there. */
bool skip_brackets(struct parser *p, char open, char close)
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
bool take_pragma(struct parser *p)
{
    do {
        if (p->lex.now.kind != TOK_STRING)
            return syntax(p, "expected a string after .pragma");
        next(p);
    } while (accept(p, ','));
    return expect(p, ';');
}

bool take_names(struct parser *p)
{
    uint32_t ignored;
    do {
        if (!take_name(p, &ignored))
            return false;
    } while (accept(p, ','));
    return expect(p, ';');
}

/* .callprototype (returns) _ (parameters) .noreturn .abi_preserve 1; */
bool take_prototype(struct parser *p)
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
