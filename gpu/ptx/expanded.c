/*
 * Instructions of PTX that the assembler makes a stretch of code of: how long each holds its warp up, which no chain of registers shows.
 *
 * Rounded division, reciprocal and root of f32 are an approximation, a few fused steps and a branch to a slow way for operands of unusual
 * size. The warp waits for the branch: eight that do not need one another take as long as eight in a chain, within 5 %. Integer division
 * has no such branch and overlaps: what it takes beside others is counted here, the rest is waited for by what needs its result and
 * belongs to the chain (expanded_latency). By a constant it is a multiplication and not one of these.
 *
 * Cycles of a warp on one H200: tests/bench/results/2026-11-30-h200-expanded.json (tests/bench/card/expanded.cu), operands of usual size.
 * `held` is its "..._beside_cycles", one of eight that do not need one another; `after` what "..._cycles", one in a chain, is above it,
 * less the class' own latency. One warp was measured: what these take of other warps' issue slots is not known and not counted.
 * Of integers div.s32 and rem.u32 were measured: quotient and remainder are taken to cost the same.
 */
#include "gpu/ptx/depth.h"

#include <string.h>

enum kind { ROUNDED_F32, SIGNED, UNSIGNED };
static const struct row { const char *base; enum kind kind; uint32_t held, after; } expanded[] = {
    {"div", ROUNDED_F32, 45, 0}, {"rcp", ROUNDED_F32, 64, 0}, {"sqrt", ROUNDED_F32, 43, 0},
    {"div", SIGNED, 27, 47},     {"rem", SIGNED, 27, 47},     {"div", UNSIGNED, 18, 43}, {"rem", UNSIGNED, 18, 43}};

static bool ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), least = strlen(end);
    return size >= least && !strcmp(text + size - least, end);
}

static bool is_kind(const char *modifiers, enum kind kind)
{
    static const char *const modes[] = {".rn", ".rz", ".rm", ".rp"};
    if (kind != ROUNDED_F32)
        return !strcmp(modifiers, kind == SIGNED ? ".s32" : ".u32");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strstr(modifiers, modes[i]))
            return ends_with(modifiers, ".f32");
    return false;
}

/* NULL: one instruction, or one of those that nobody measured. */
static const struct row *row_of(const struct ptx_module *m, const struct stmt *st)
{
    const char *opcode = st->count ? ptx_name(m, st->opcode) : "";
    const size_t size = strcspn(opcode, ".");
    for (size_t i = 0; i < sizeof expanded / sizeof *expanded; i++) {
        const struct row *r = &expanded[i];
        if (strlen(r->base) == size && !memcmp(r->base, opcode, size) && is_kind(opcode + size, r->kind))
            return r->kind != ROUNDED_F32 && m->operands[st->first + st->count - 1].kind == O_IMM ? NULL : r;
    }
    return NULL;
}

uint32_t expanded_latency(const struct ptx_module *m, const struct stmt *st)
{
    const struct row *r = row_of(m, st);
    return r ? r->after : 0;
}

uint64_t expanded_sum(const struct ptx_module *m, const uint64_t *warps)
{
    uint64_t sum = 0;
    for (uint32_t b = 0; b < m->block_count; b++) {
        const struct block_info *info = &m->blocks[b];
        for (uint32_t s = info->stmt_first; warps[b] && s < info->stmt_first + info->total && s < m->stmt_count; s++) {
            const struct row *r = row_of(m, &m->stmts[s]);
            sum += r ? warps[b] * r->held : 0;
        }
    }
    return sum;
}
