/* Rows: the list's alternatives expanded, a row's shape read from its text, its kernel and its operands. */
#include "tests/truth/truth.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

extern const char *const truth_row_patterns[];
extern const size_t truth_row_pattern_count;

uint64_t truth_hash(uint64_t start, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++)
        start = (start ^ p[i]) * 0x100000001b3ull;
    return start ^ start >> 29;
}

bool truth_row_close(const char *text)
{
    return strstr(text, ".approx") || strstr(text, ".full");
}

/* ---- expansion ---- */
struct rows { struct truth_row *items; size_t count, capacity; };

/* No alternative inside another. */
static void expand(struct rows *to, const char *text)
{
    const char *open = strchr(text, '(');
    if (!open) {
        if (to->count == to->capacity) {
            to->capacity = to->capacity * 2 + 256;
            to->items = xrealloc(to->items, to->capacity * sizeof *to->items);
        }
        struct truth_row *row = &to->items[to->count++];
        snprintf(row->text, sizeof row->text, "%s", text);
        return;
    }
    const char *end = strchr(open, ')'), *from = open + 1;
    while (from <= end) {
        const size_t size = strcspn(from, "|)");
        cleanup(buf) struct buf one = {0};
        buf_add(&one, text, (size_t)(open - text));
        buf_add(&one, from, size);
        buf_str(&one, end + 1);
        expand(to, buf_cstr(&one));
        from += size + 1;
    }
}

size_t truth_listed_rows(struct truth_row **ret)
{
    struct rows rows = {0};
    for (size_t i = 0; i < truth_row_pattern_count; i++)
        expand(&rows, truth_row_patterns[i]);
    *ret = rows.items;
    return rows.count;
}

/* ---- the shape ---- */
static char letter_of(const struct truth_operand *o) /* of the register class */
{
    return o->kind == 'p' || o->kind == 'y' ? o->kind : truth_kind_halves(o->kind) ? 'h' : o->words == 2 ? 'l' : 'r';
}

/* Walks over the text; writes the instruction with registers in place of kinds to `to`, if given. */
static bool walk(const char *text, struct truth_shape *shape, struct buf *to, struct err *err)
{
    static const char *const cells[] = {"g%gcell", "s%scell", "l%lcell"};
    bool in_opcode = true, result = false, matrix = false;
    unsigned n = 0;
    for (const char *p = text; *p; p++) {
        if (in_opcode || *p == ' ' || isdigit((unsigned char)*p)) {
            const size_t size = in_opcode ? strcspn(p, " ") : isdigit((unsigned char)*p) ? strspn(p, "0123456789abcdefx") : 1;
            buf_add(to, p, size);
            p += size - 1;
            in_opcode = in_opcode && size == 0;
            continue;
        }
        if (*p == '=' || *p == '~') {
            result |= *p == '=';
            matrix |= *p == '~';
            continue;
        }
        if (*p == '[') {
            for (int i = 0; i < 3; i++)
                if (cells[i][0] == p[1])
                    buf_fmt(to, "[%s", cells[i] + 1);
            shape->cell = p[1];
            if (n == 16)
                return err_set(err, ERR_INVALID, "%s: too many operands", text);
            shape->operands[n++] = (struct truth_operand){.kind = '[', .first_word = (unsigned char)(p[2] == ']' || p[2] == '+' ? 'r' : p[2])};
            p += p[2] == ']' || p[2] == '+' ? 1 : 2;
            continue;
        }
        if (islower((unsigned char)*p) || isupper((unsigned char)*p)) {
            const unsigned words = truth_kind_words(*p);
            if (!words || n == 16)
                return err_set(err, ERR_INVALID, "%s: no kind '%c', or too many", text, *p);
            const struct truth_operand o = {.kind = *p, .result = result, .matrix = matrix, .words = words};
            buf_fmt(to, "%%%c%u", letter_of(&o), n);
            shape->operands[n++] = o;
            result = matrix = false;
            continue;
        }
        buf_add(to, p, 1);
        if (*p == ';') {
            buf_str(to, " ");
            in_opcode = true;
            p += strspn(p + 1, " ");
        }
    }
    shape->operand_count = n;
    return true;
}

bool truth_row_shape(const char *text, struct truth_shape *ret, struct err *err)
{
    struct truth_shape s = {0};
    cleanup(buf) struct buf ignored = {0};
    if (!walk(text, &s, &ignored, err))
        return false;
    unsigned sources = 0;
    bool matrix = false, half = false;
    for (unsigned i = 0; i < s.operand_count; i++) {
        struct truth_operand *o = &s.operands[i];
        if (o->kind == '[')
            continue;
        unsigned *at = o->result ? &s.out_words : &s.in_words;
        o->first_word = *at;
        *at += o->words;
        sources += !o->result;
        matrix |= o->matrix;
        half |= !o->result && truth_kind_halves(o->kind);
    }
    if (s.cell) {
        s.in_words += TRUTH_CELL_WORDS;
        s.out_words += TRUTH_CELL_WORDS;
        sources++;
    }
    if (s.in_words > TRUTH_MOST_WORDS || s.out_words > TRUTH_MOST_WORDS)
        return err_set(err, ERR_INVALID, "%s: too many words", text);
    s.threads = matrix || s.cell ? 2048 : truth_row_close(text) ? 1024 : sources == 1 ? half ? 65536 : 2048 : 6144;
    *ret = s;
    return true;
}

/* ---- the kernel ---- */
void truth_module_head(struct buf *to)
{
    buf_fmt(to, ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 16 .b8 cells[%d];\n", TRUTH_BLOCK * TRUTH_CELL_WORDS * 4);
}

static void declare(struct buf *to, const struct truth_shape *s)
{
    buf_fmt(to, ".reg .b32 %%t<8>; .reg .b64 %%a<4>; .reg .b64 %%gcell; .reg .b32 %%scell; .reg .b64 %%lcell;\n"
                ".local .align 16 .b8 own[%d];\n", TRUTH_CELL_WORDS * 4);
    for (unsigned i = 0; i < s->operand_count; i++) {
        const struct truth_operand *o = &s->operands[i];
        if (o->kind == '[')
            continue;
        const char c = letter_of(o);
        buf_fmt(to, ".reg .%s %%%c%u; ", c == 'p' ? "pred" : c == 'h' ? "b16" : c == 'y' ? "b8" : c == 'l' ? "b64" : "b32", c, i);
    }
    buf_str(to, "\n");
}

static void load_sources(struct buf *to, const struct truth_shape *s)
{
    for (unsigned i = 0; i < s->operand_count; i++) {
        const struct truth_operand *o = &s->operands[i];
        if (o->result || o->kind == '[')
            continue;
        const char c = letter_of(o);
        const unsigned at = o->first_word * 4;
        if (c == 'r')
            buf_fmt(to, "ld.global.u32 %%r%u, [%%a1+%u];\n", i, at);
        else if (c == 'l')
            buf_fmt(to, "ld.global.u32 %%t1, [%%a1+%u]; ld.global.u32 %%t2, [%%a1+%u]; mov.b64 %%l%u, {%%t1, %%t2};\n", at, at + 4, i);
        else if (c == 'y')
            buf_fmt(to, "ld.global.u8 %%y%u, [%%a1+%u];\n", i, at);
        else if (c == 'h')
            buf_fmt(to, "ld.global.u32 %%t1, [%%a1+%u]; cvt.u16.u32 %%h%u, %%t1;\n", at, i);
        else
            buf_fmt(to, "ld.global.u32 %%t1, [%%a1+%u]; setp.ne.u32 %%p%u, %%t1, 0;\n", at, i);
    }
}

static void cell_set(struct buf *to, const struct truth_shape *s, bool load)
{
    const char *const name = s->cell == 'g' ? "%gcell" : s->cell == 's' ? "%scell" : "%lcell";
    const char *const space = s->cell == 'g' ? "global" : s->cell == 's' ? "shared" : "local";
    if (s->cell == 's' && load)
        buf_str(to, "bar.sync 0;\n");
    for (unsigned w = 0; w < TRUTH_CELL_WORDS; w++) {
        if (load)
            buf_fmt(to, "ld.%s.u32 %%t1, [%s+%u]; st.global.u32 [%%a2+%u], %%t1;\n", space, name, w * 4,
                    (s->out_words - TRUTH_CELL_WORDS + w) * 4);
        else
            buf_fmt(to, "ld.global.u32 %%t1, [%%a1+%u]; st.%s.u32 [%s+%u], %%t1;\n", (s->in_words - TRUTH_CELL_WORDS + w) * 4, space,
                    name, w * 4);
    }
    if (s->cell == 's' && !load)
        buf_str(to, "bar.sync 0;\n");
}

static void store_results(struct buf *to, const struct truth_shape *s)
{
    for (unsigned i = 0; i < s->operand_count; i++) {
        const struct truth_operand *o = &s->operands[i];
        if (!o->result)
            continue;
        const char c = letter_of(o);
        const unsigned at = o->first_word * 4;
        if (c == 'r')
            buf_fmt(to, "st.global.u32 [%%a2+%u], %%r%u;\n", at, i);
        else if (c == 'l')
            buf_fmt(to, "mov.b64 {%%t1, %%t2}, %%l%u; st.global.u32 [%%a2+%u], %%t1; st.global.u32 [%%a2+%u], %%t2;\n", i, at, at + 4);
        else if (c == 'y')
            buf_fmt(to, "cvt.u32.u8 %%t1, %%y%u; st.global.u32 [%%a2+%u], %%t1;\n", i, at);
        else if (c == 'h')
            buf_fmt(to, "cvt.u32.u16 %%t1, %%h%u; st.global.u32 [%%a2+%u], %%t1;\n", i, at);
        else
            buf_fmt(to, "selp.u32 %%t1, 1, 0, %%p%u; st.global.u32 [%%a2+%u], %%t1;\n", i, at);
    }
}

bool truth_row_kernel(struct buf *to, const char *text, unsigned number, struct err *err)
{
    struct truth_shape s;
    if (!truth_row_shape(text, &s, err))
        return false;
    buf_fmt(to, ".visible .entry row%u(.param .u64 in, .param .u64 out, .param .u64 gcells)\n{\n", number);
    declare(to, &s);
    buf_fmt(to,
            "mov.u32 %%t0, %%tid.x; mov.u32 %%t1, %%ctaid.x; mad.lo.u32 %%t0, %%t1, %d, %%t0;\n"
            "ld.param.u64 %%a0, [in]; mad.wide.u32 %%a1, %%t0, %u, %%a0; ld.param.u64 %%a0, [out]; mad.wide.u32 %%a2, %%t0, %u, %%a0;\n"
            "ld.param.u64 %%a0, [gcells]; mad.wide.u32 %%gcell, %%t0, 16, %%a0;\n"
            "mov.u32 %%t1, %%tid.x; mov.u32 %%scell, cells; mad.lo.u32 %%scell, %%t1, 16, %%scell; mov.u64 %%lcell, own;\n",
            TRUTH_BLOCK, s.in_words * 4, s.out_words * 4);
    load_sources(to, &s);
    if (s.cell)
        cell_set(to, &s, false);
    struct truth_shape unused = {0};
    if (!walk(text, &unused, to, err))
        return false;
    buf_str(to, ";\n");
    if (s.cell)
        cell_set(to, &s, true);
    store_results(to, &s);
    buf_str(to, "ret;\n}\n");
    return true;
}

uint32_t *truth_row_inputs(const char *text, const struct truth_shape *s)
{
    uint32_t *in = xarray((size_t)s->threads * (s->in_words + 1), sizeof *in);
    struct truth_rng rng = {truth_hash(TRUTH_HASH_START, text, strlen(text))};
    unsigned sources = s->cell ? 1 : 0;
    for (unsigned i = 0; i < s->operand_count; i++)
        sources += !s->operands[i].result && s->operands[i].kind != '[';
    if (truth_row_close(text) && sources == 2)
        sources = 3; /* few threads: a sample of the pairs */
    for (uint32_t t = 0; t < s->threads; t++) {
        uint32_t *mine = in + (size_t)t * s->in_words;
        unsigned position = 0;
        for (unsigned i = 0; i < s->operand_count; i++) {
            const struct truth_operand *o = &s->operands[i];
            if (o->result)
                continue;
            const bool cell = o->kind == '[';
            const char kind = cell ? (char)o->first_word : o->kind;
            const unsigned words = truth_kind_words(kind), total = cell ? TRUTH_CELL_WORDS : words;
            const unsigned at = cell ? s->in_words - TRUTH_CELL_WORDS : o->first_word;
            for (unsigned w = 0; w < total; w += words) {
                const uint64_t v = truth_value(kind, o->matrix, t, s->threads, position, sources, &rng);
                mine[at + w] = (uint32_t)v;
                if (words == 2)
                    mine[at + w + 1] = (uint32_t)(v >> 32);
            }
            position++;
        }
    }
    return in;
}
