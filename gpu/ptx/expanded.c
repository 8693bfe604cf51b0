/*
 * Instructions of PTX that the assembler makes code with a branch of its own of: rounded division, reciprocal and root of f32 take an
 * approximation and a few fused steps, and a branch to a slow way for operands of unusual size. The warp waits for the branch, so that
 * two of them do not overlap though neither needs the other, which no chain of registers shows.
 *
 * Cycles of one, of one warp: the approximation of 19 cycles, the steps after it of 4.5 each (tests/bench/results/2026-11-30-h200-micro.json),
 * and some 20, a guess, for the test, the branch and where its ways meet; tests/bench/card/expanded.cu measures all of it on a card.
 */
#include "gpu/ptx/depth.h"

#include <string.h>

static const struct { const char *base; uint32_t cycles; } expanded[] = {{"div", 60}, {"rcp", 48}, {"sqrt", 60}};

static bool is_rounded_f32(const char *opcode)
{
    static const char *const modes[] = {".rn", ".rz", ".rm", ".rp"};
    const size_t size = strlen(opcode);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strstr(opcode, modes[i]))
            return size > 4 && !strcmp(opcode + size - 4, ".f32");
    return false;
}

static uint32_t cycles_of(const char *opcode)
{
    const size_t size = strcspn(opcode, ".");
    for (size_t i = 0; i < sizeof expanded / sizeof *expanded; i++)
        if (strlen(expanded[i].base) == size && !memcmp(expanded[i].base, opcode, size))
            return is_rounded_f32(opcode + size) ? expanded[i].cycles : 0;
    return 0;
}

uint64_t expanded_sum(const struct ptx_module *m, const uint64_t *warps)
{
    uint64_t sum = 0;
    for (uint32_t b = 0; b < m->block_count; b++) {
        const struct block_info *info = &m->blocks[b];
        for (uint32_t s = info->stmt_first; warps[b] && s < info->stmt_first + info->total && s < m->stmt_count; s++)
            sum += m->stmts[s].count ? warps[b] * cycles_of(ptx_name(m, m->stmts[s].opcode)) : 0;
    }
    return sum;
}
