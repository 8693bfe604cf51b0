/*
 * Rows of the emulator's own table of instructions (gpu/ptx/isa.def): each variant of a row that takes its result from operands by
 * lane becomes a row here, unless the list of rows has its opcode already, with better operands.
 */
#include "gpu/ptx/isa.h"
#include "tests/truth/truth.h"

#include <stdlib.h>
#include <string.h>

/* The kind of operand (values.c) that suits a type; 0: none. */
static char kind_of(enum ptx_type t)
{
    static const char kinds[T_COUNT] = {
        [T_PRED] = 'p', [T_B8] = 'y', [T_U8] = 'r', [T_S8] = 'r', [T_B16] = 'h', [T_U16] = 'h', [T_S16] = 'h', [T_B32] = 'r', [T_U32] = 'r',
        [T_S32] = 'r', [T_B64] = 'l', [T_U64] = 'l', [T_S64] = 'l', [T_F16] = 'e', [T_F16X2] = 'E', [T_BF16] = 'b', [T_BF16X2] = 'B', [T_F32] = 'f',
        [T_F64] = 'd', [T_TF32] = 'r', [T_E4M3X2] = 'q', [T_E5M2X2] = 'q', [T_U16X2] = 'r', [T_S16X2] = 'r'};
    return kinds[t];
}

/* "u32" spelled out in a row's operands is a count or a place, T is a value */
static bool spelled_out(const char *operands, int source)
{
    const char *at = strchr(operands, '=');
    for (at = at ? at + 1 : ""; source; source--)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : "";
    return !strncmp(at, "u32", 3);
}

static bool row_text(const struct ptx_isa_row *row, const struct ptx_isa_variant *v, char *text, size_t size)
{
    cleanup(buf) struct buf b = {0};
    buf_fmt(&b, "%s ", v->opcode);
    for (int i = 0; i < v->result_count; i++) {
        if (!kind_of(v->results[i].type))
            return false;
        buf_fmt(&b, "%s=%c", i ? "|" : "", kind_of(v->results[i].type));
    }
    for (int i = 0; i < v->source_count; i++) {
        const char kind = kind_of(v->sources[i].type);
        if (!kind)
            return false;
        if (v->sources[i].immediate)
            buf_fmt(&b, ", %u", 0xcau & (unsigned)v->sources[i].most);
        else
            buf_fmt(&b, ", %c", spelled_out(row->operands, i) ? 'n' : kind);
    }
    snprintf(text, size, "%s", buf_cstr(&b));
    return true;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

size_t truth_rows(struct truth_row **ret)
{
    struct truth_row *listed;
    size_t count = truth_listed_rows(&listed), capacity = count;
    char **opcodes = xarray(count + 1, sizeof *opcodes);
    const size_t listed_count = count;
    for (size_t i = 0; i < count; i++)
        opcodes[i] = xstrndup(listed[i].text, strchr(listed[i].text, ';') ? 0 : strcspn(listed[i].text, " "));
    qsort(opcodes, count, sizeof *opcodes, by_text);
    for (int r = 0; r < ptx_isa_row_count; r++) {
        const struct ptx_isa_row *row = ptx_isa_row(r);
        if (row->group != ISA_LANE || row->sm > 90)
            continue;
        struct ptx_isa_variant v;
        for (int n = 0; ptx_isa_expand(row, n, &v); n++) {
            char text[TRUTH_ROW_TEXT], *key = v.opcode;
            if (bsearch(&key, opcodes, listed_count, sizeof *opcodes, by_text) || !row_text(row, &v, text, sizeof text))
                continue;
            if (count == capacity) {
                capacity = capacity * 2 + 64;
                listed = xrealloc(listed, capacity * sizeof *listed);
            }
            snprintf(listed[count++].text, sizeof listed->text, "%s", text);
        }
    }
    for (size_t i = 0; i < listed_count; i++)
        free(opcodes[i]);
    free(opcodes);
    *ret = listed;
    return count;
}
