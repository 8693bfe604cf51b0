#include "gpu/ptx/opcode.h"

#include "gpu/ptx/isa.h"

#include <string.h>

static const char *const bases[] = {
#define X(name, decoder, cls) #name,
    PTX_BASE_TABLE(X)
#undef X
};
static const char *const mods[] = {
#define X(code, text) text,
    PTX_MOD_TABLE(X)
#undef X
};

static enum ptx_base base_find(const char *text, size_t size)
{
    int low = 0, high = B_UNKNOWN - 1; /* the table is sorted; a test says so */
    while (low <= high) {
        const int mid = (low + high) / 2;
        const size_t have = strlen(bases[mid]);
        int order = strncmp(text, bases[mid], size < have ? size : have);
        if (!order)
            order = size < have ? -1 : size > have;
        if (!order)
            return (enum ptx_base)mid;
        if (order < 0)
            high = mid - 1;
        else
            low = mid + 1;
    }
    return B_UNKNOWN;
}

void ptx_opcode_parse(const char *text, struct opcode *ret)
{
    const char *whole = text;
    *ret = (struct opcode){.base = B_UNKNOWN, .row = -1};
    size_t n = strcspn(text, ".");
    ret->base = base_find(text, n);
    for (text += n; *text == '.'; text += n) {
        text++;
        n = strcspn(text, ".");
        int m = 0;
        while (m < M_COUNT && !(strlen(mods[m]) == n && !memcmp(mods[m], text, n)))
            m++;
        const enum ptx_type type = m < M_COUNT ? T_NONE : ptx_type_find(text, n);
        if (m < M_COUNT)
            ret->mods[m >> 6] |= 1ull << (m & 63);
        else if (type && ret->type_count < 4)
            ret->types[ret->type_count++] = type;
        else if (n > 4 && text[0] == 'L' && (text[1] == '1' || text[1] == '2') && text[2] == ':' && text[3] == ':')
            ret->eviction = true;
        else
            ret->unknown_mod = true;
    }
    if (ret->base != B_UNKNOWN)
        ret->row = ptx_isa_find(whole);
    if (ret->base != B_UNKNOWN && ret->row < 0 && !ptx_isa_has_family(whole))
        ret->row = -2;
}
