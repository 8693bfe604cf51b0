/* Instructions with their operands, and what stands between them: .loc, .file, labels, tables of branch targets. */
#include "gpu/ptx/parse.h"

#include <string.h>

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
        if (!is(p, '|')) /* _|p: no first result */
            return true;
    } else if (*t.text == '%') { /* a register, else a special register with a component */
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
        return take_constant_after(p, ret->imm, 0, &ret->imm); /* [8+4], 1<<4 */
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
        if (accept(p, '(')) {
            *ret = (struct operand){.kind = O_IMM};
            return !p->is_call && at_constant(p) ? take_constant_in_brackets(p, &ret->imm) : take_list(p, ')', ret, depth);
        }
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
bool take_instruction(struct parser *p)
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
    p->is_call = p->lex.now.size >= 4 && !memcmp(p->lex.now.text, "call", 4);
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
bool take_loc(struct parser *p)
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
bool take_file(struct parser *p)
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

bool at_label(struct parser *p)
{
    const char *c = p->lex.at;
    while (c < p->lex.end && (*c == ' ' || *c == '\t'))
        c++;
    return p->lex.now.kind == TOK_WORD && c < p->lex.end && *c == ':' && !(c + 1 < p->lex.end && c[1] == ':');
}

bool take_label(struct parser *p)
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
