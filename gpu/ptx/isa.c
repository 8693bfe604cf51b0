/*
 * Patterns of the instruction table: taken apart into groups of alternatives, counted through, matched.
 *
 * Matching takes an opcode's parts out of a set, group by group: modifiers wherever they stand, types in their order. It goes back
 * when a choice leads nowhere; patterns have few groups that share an alternative, so that this is rare.
 */
#include "gpu/ptx/isa.h"

#include "core/err.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(pattern, operands, group, cls, exact, bound, sm, means) \
    {pattern, operands, ISA_##group, PTX_CLASS_##cls, EXACT_##exact, sm, bound, means},
const struct ptx_isa_row ptx_isa_rows[] = {
#include "gpu/ptx/isa.def"
};
#undef ROW
const int ptx_isa_row_count = (int)(sizeof ptx_isa_rows / sizeof *ptx_isa_rows);

const struct ptx_isa_row *ptx_isa_row(int index)
{
    return index >= 0 && index < ptx_isa_row_count ? &ptx_isa_rows[index] : NULL;
}

#define MOST_GROUPS 24
#define MOST_PARTS 16
struct span { const char *at; size_t size; };
/* `text`: "a|b|c" without brackets; each alternative begins with a dot but for the first word's group and plain parentheses. */
struct part_group { struct span text; bool optional, is_type; };
struct pattern_parts { struct part_group groups[MOST_GROUPS]; int count, least_words, most_words; };

static struct span alternative(struct span text, int index)
{
    const char *at = text.at, *end = text.at + text.size;
    for (; index; index--) {
        const char *bar = memchr(at, '|', (size_t)(end - at));
        if (!bar)
            return (struct span){NULL, 0};
        at = bar + 1;
    }
    const char *bar = memchr(at, '|', (size_t)(end - at));
    return (struct span){at, (size_t)((bar ? bar : end) - at)};
}
static int alternative_count(struct span text)
{
    int n = 1;
    for (size_t i = 0; i < text.size; i++)
        n += text.at[i] == '|';
    return n;
}

/* "add.(rn|rz){.ftz}.f32": groups add; rn|rz; .ftz, optional; f32. The pattern is ours: what is wrong in it is a bug. */
static void take_apart(const char *pattern, struct pattern_parts *ret)
{
    *ret = (struct pattern_parts){0};
    for (const char *at = pattern; *at;) {
        BUG_ON(ret->count == MOST_GROUPS);
        struct part_group *g = &ret->groups[ret->count++];
        *g = (struct part_group){.optional = *at == '{'};
        at += *at == '.';
        const char close = *at == '{' ? '}' : *at == '(' ? ')' : 0;
        at += close != 0;
        g->text.at = at;
        at += close ? strcspn(at, close == '}' ? "}" : ")") : strcspn(at, ".{(");
        BUG_ON(close && *at != close);
        g->text.size = (size_t)(at - g->text.at);
        at += close != 0;
        struct span first = alternative(g->text, 0);
        first.size -= *first.at == '.';
        first.at += *first.at == '.';
        g->is_type = ret->count > 1 && ptx_type_find(first.at, first.size) != T_NONE;
        int most = 0;
        for (int k = 0; alternative(g->text, k).at; k++) {
            const struct span one = alternative(g->text, k);
            int words = 1;
            for (size_t n = 1; n < one.size; n++)
                words += one.at[n] == '.';
            most = words > most ? words : most;
        }
        ret->most_words += most;
        ret->least_words += !g->optional;
    }
}

static struct pattern_parts parsed[sizeof ptx_isa_rows / sizeof *ptx_isa_rows];
static pthread_once_t parsed_once = PTHREAD_ONCE_INIT;
static void parse_all(void)
{
    for (int i = 0; i < ptx_isa_row_count; i++)
        take_apart(ptx_isa_rows[i].pattern, &parsed[i]);
}
static const struct pattern_parts *parts_of(const struct ptx_isa_row *row)
{
    pthread_once(&parsed_once, parse_all);
    return &parsed[row - ptx_isa_rows];
}

bool ptx_isa_expand(const struct ptx_isa_row *row, int variant, struct ptx_isa_variant *ret)
{
    const struct pattern_parts *parts = parts_of(row);
    int choice[MOST_GROUPS];
    for (int i = parts->count - 1; i >= 0; i--) { /* the last group counts fastest */
        const int n = alternative_count(parts->groups[i].text) + parts->groups[i].optional;
        choice[i] = variant % n;
        variant /= n;
    }
    if (variant)
        return false;
    *ret = (struct ptx_isa_variant){0};
    size_t size = 0;
    for (int i = 0; i < parts->count; i++) {
        const struct part_group *g = &parts->groups[i];
        if (g->optional && !choice[i])
            continue;
        const struct span text = alternative(g->text, choice[i] - g->optional);
        size += (size_t)snprintf(ret->opcode + size, sizeof ret->opcode - size, "%s%.*s", i && *text.at != '.' ? "." : "", (int)text.size,
                                 text.at);
        BUG_ON(size >= sizeof ret->opcode);
        if (g->is_type && ret->type_count < 4)
            ret->types[ret->type_count++] = ptx_type_find(text.at, text.size);
    }
    if (row->group != ISA_LANE && row->group != ISA_CARRY)
        return true;
    bool result = true;
    for (const char *at = row->operands; *at;) {
        const size_t n = strcspn(at, ",=|!");
        struct ptx_isa_operand o = {0};
        if (n == 1 && strchr("TUV", *at)) {
            o.type = ret->types[*at - 'T'];
        } else if (n == 1 && *at == 'W') {
            static const enum ptx_type wide[T_COUNT] = {[T_U16] = T_U32, [T_S16] = T_S32, [T_U32] = T_U64, [T_S32] = T_S64};
            o.type = wide[ret->types[0]];
        } else if (*at == 'i') {
            o = (struct ptx_isa_operand){.type = T_U32, .immediate = true, .most = atoi(at + 1)};
        } else {
            o.type = ptx_type_find(at, n);
        }
        BUG_ON(o.type == T_NONE);
        at += n;
        o.not_zero = *at == '!';
        at += *at == '!';
        BUG_ON(result ? ret->result_count == 2 : ret->source_count == ISA_MAX_OPERANDS);
        if (result)
            ret->results[ret->result_count++] = o;
        else
            ret->sources[ret->source_count++] = o;
        result = result && *at != '=';
        at += *at != 0;
    }
    return true;
}

const char *ptx_isa_register(enum ptx_type type)
{
    if (type == T_PRED)
        return "pred";
    switch (ptx_types[type].bytes) {
    case 1: return ptx_types[type].is_float || type == T_B8 ? "b8" : "b16"; /* .u8 lies in wider registers; .b8 here means one of its own */
    case 2: return "b16";
    case 4: return "b32";
    case 8: return "b64";
    case 16: return "b128";
    default: return "";
    }
}

/* ---- matching ---- */
struct match {
    const struct pattern_parts *parts;
    struct span words[MOST_PARTS];
    bool is_type[MOST_PARTS];
    int count;
    uint32_t left;       /* words not yet used */
    int steps;           /* a bound for odd opcodes against odd patterns */
};

static bool same(struct span a, struct span b) { return a.size == b.size && !memcmp(a.at, b.at, a.size); }

/* Uses up the words of ".xorsign.abs" or "f32". */
static bool take(struct match *m, struct span text, bool is_type)
{
    const uint32_t before = m->left;
    while (text.size) {
        text.size -= *text.at == '.';
        text.at += *text.at == '.';
        const char *dot = memchr(text.at, '.', text.size);
        const struct span word = {text.at, dot ? (size_t)(dot - text.at) : text.size};
        int found = -1;
        for (int i = 0; i < m->count && found < 0; i++)
            if (m->left >> i & 1) {
                if (same(m->words[i], word))
                    found = i;
                else if (is_type && m->is_type[i])
                    break; /* types in order */
            }
        if (found < 0) {
            m->left = before;
            return false;
        }
        m->left &= ~(1u << found);
        text.at += word.size;
        text.size -= word.size;
    }
    return true;
}

static bool match_from(struct match *m, int group)
{
    if (group == m->parts->count)
        return !m->left;
    if (m->steps++ > 2000)
        return false;
    const struct part_group *g = &m->parts->groups[group];
    const uint32_t before = m->left;
    for (int k = 0;; k++) {
        const struct span text = alternative(g->text, k);
        if (!text.at)
            break;
        if (take(m, text, g->is_type)) {
            if (match_from(m, group + 1))
                return true;
            m->left = before;
        }
    }
    return g->optional && match_from(m, group + 1);
}

static bool first_word_is(struct span text, struct span word)
{
    for (int k = 0;; k++) {
        const struct span one = alternative(text, k);
        if (!one.at)
            return false;
        if (same(one, word))
            return true;
    }
}

static bool words_of(const char *opcode, struct match *ret)
{
    ret->count = 0;
    for (const char *at = opcode;;) {
        const size_t n = strcspn(at, ".");
        if (ret->count == MOST_PARTS || !n)
            return false;
        ret->is_type[ret->count] = ret->count && ptx_type_find(at, n) != T_NONE;
        ret->words[ret->count++] = (struct span){at, n};
        if (!at[n])
            return true;
        at += n + 1;
    }
}

static bool matches(const struct ptx_isa_row *row, struct match *m)
{
    m->parts = parts_of(row);
    if (m->count < m->parts->least_words || m->count > m->parts->most_words)
        return false;
    m->left = ((1u << m->count) - 1) & ~1u;
    m->steps = 0;
    return match_from(m, 1);
}

bool ptx_isa_matches(const struct ptx_isa_row *row, const char *opcode)
{
    struct match m;
    return words_of(opcode, &m) && first_word_is(parts_of(row)->groups[0].text, m.words[0]) && matches(row, &m);
}

int ptx_isa_find(const char *opcode)
{
    struct match m;
    if (!words_of(opcode, &m))
        return -1;
    for (int i = 0; i < ptx_isa_row_count; i++)
        if (first_word_is(parts_of(&ptx_isa_rows[i])->groups[0].text, m.words[0]) && matches(&ptx_isa_rows[i], &m))
            return i;
    return -1;
}

bool ptx_isa_has_family(const char *opcode)
{
    const struct span word = {opcode, strcspn(opcode, ".")};
    for (int i = 0; i < ptx_isa_row_count; i++)
        if (ptx_isa_rows[i].group != ISA_MEMORY && ptx_isa_rows[i].group != ISA_SYNC && ptx_isa_rows[i].group != ISA_MATRIX &&
            ptx_isa_rows[i].group != ISA_NOTHING && first_word_is(parts_of(&ptx_isa_rows[i])->groups[0].text, word))
            return true;
    return false;
}
