/* Growing, interning, symbols, release: the containers under the parser. All memory of a module is counted against its limit. */
#include "gpu/ptx/module.h"

#include <stdarg.h>
#include <string.h>

const struct type_info ptx_types[T_COUNT] = {
#define X(code, name, bytes, is_float, is_signed) {name, bytes, is_float, is_signed},
    PTX_TYPE_TABLE(X)
#undef X
};

const struct ptx_limits ptx_default_limits = {
    .text_bytes = (size_t)16 << 20,
    .memory_bytes = (size_t)512 << 20,
    .thread_instructions = 20000000000ull,
    .wall_ns = 20000000000ll,
    .threads = 1,
};

const char *ptx_finding_name(enum ptx_finding_kind kind)
{
    static const char *const names[] = {
#define X(code, name, verdict) name,
        PTX_FINDING_TABLE(X)
#undef X
    };
    BUG_ON((unsigned)kind >= sizeof names / sizeof *names);
    return names[kind];
}

const char *ptx_finding_verdict(enum ptx_finding_kind kind)
{
    static const char *const names[] = {
#define X(code, name, verdict) verdict,
        PTX_FINDING_TABLE(X)
#undef X
    };
    BUG_ON((unsigned)kind >= sizeof names / sizeof *names);
    return names[kind];
}

enum ptx_type ptx_type_find(const char *name, size_t size)
{
    for (int t = 1; t < T_COUNT; t++)
        if (strlen(ptx_types[t].name) == size && !memcmp(ptx_types[t].name, name, size))
            return (enum ptx_type)t;
    return T_NONE;
}

#define V(name, id, bytes) {name, id, bytes, true, false}
#define S(name, id, bytes) {name, id, bytes, false, false}
#define D(name, id, bytes) {name, id, bytes, false, true}
static const struct special_info specials[] = {
    V("%tid", SR_TID, 4), V("%ntid", SR_NTID, 4), V("%ctaid", SR_CTAID, 4), V("%nctaid", SR_NCTAID, 4),
    S("%laneid", SR_LANEID, 4), S("%warpid", SR_WARPID, 4), S("%nwarpid", SR_NWARPID, 4), S("%smid", SR_SMID, 4),
    S("%nsmid", SR_NSMID, 4), S("%gridid", SR_GRIDID, 8), S("%lanemask_eq", SR_LM_EQ, 4), S("%lanemask_lt", SR_LM_LT, 4),
    S("%lanemask_le", SR_LM_LE, 4), S("%lanemask_gt", SR_LM_GT, 4), S("%lanemask_ge", SR_LM_GE, 4), D("%clock", SR_CLOCK, 4),
    D("%clock_hi", SR_CLOCK_HI, 4), D("%clock64", SR_CLOCK64, 8), D("%globaltimer", SR_GLOBALTIMER, 8),
    D("%globaltimer_lo", SR_GLOBALTIMER_LO, 4), D("%globaltimer_hi", SR_GLOBALTIMER_HI, 4),
    S("%dynamic_smem_size", SR_DYN_SMEM, 4), S("%total_smem_size", SR_TOTAL_SMEM, 4), S("%aggr_smem_size", SR_AGGR_SMEM, 4),
    V("%clusterid", SR_CLUSTERID, 4), V("%nclusterid", SR_NCLUSTERID, 4), V("%cluster_ctaid", SR_CLUSTER_CTAID, 4),
    V("%cluster_nctaid", SR_CLUSTER_NCTAID, 4), S("%cluster_ctarank", SR_CLUSTER_CTARANK, 4),
    S("%cluster_nctarank", SR_CLUSTER_NCTARANK, 4), S("%is_explicit_cluster", SR_IS_EXPLICIT_CLUSTER, 4),
    S("%current_graph_exec", SR_GRAPH_EXEC, 8),
};
#undef V
#undef S
#undef D

const struct special_info *ptx_special_find(const char *name, size_t size)
{
    static const struct special_info envreg = {"%envreg", SR_ENVREG, 4, false, false}, pm = {"%pm", SR_PM, 4, false, true},
                                     reserved = {"%reserved_smem_offset", SR_RESERVED_SMEM, 4, false, false};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (strlen(specials[i].name) == size && !memcmp(specials[i].name, name, size))
            return &specials[i];
    if (size > 7 && size < 10 && !memcmp(name, "%envreg", 7))
        return &envreg;
    if (size > 3 && size < 12 && !memcmp(name, "%pm", 3) && name[3] >= '0' && name[3] <= '9')
        return &pm;
    if (size > 20 && size < 30 && !memcmp(name, "%reserved_smem_offset", 20))
        return &reserved;
    return NULL;
}

bool ptx_grow(struct ptx_module *m, void **items, uint32_t *capacity, uint32_t count, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    const uint64_t wanted = *capacity ? (uint64_t)*capacity * 2 : 64;
    const size_t more = (size_t)(wanted - *capacity) * item_bytes;
    if (wanted > UINT32_MAX / 2 || more > m->memory_limit - m->memory_bytes)
        return false;
    m->memory_bytes += more;
    *items = xrealloc(*items, (size_t)wanted * item_bytes);
    memset((char *)*items + *capacity * item_bytes, 0, more);
    *capacity = (uint32_t)wanted;
    return true;
}

const char *ptx_name(const struct ptx_module *m, uint32_t name)
{
    BUG_ON(name >= m->name_count);
    return m->text + m->names[name];
}

bool ptx_symbol_find(const struct ptx_module *m, uint32_t scope, uint32_t name, int *ret_kind, uint32_t *ret_value)
{
    if (!m->symbol_size)
        return false;
    for (;; scope = m->scope_parent[scope]) {
        const uint64_t key = ((uint64_t)scope << 32 | name) + 1;
        for (uint64_t h = key * 0x9e3779b97f4a7c15ull >> 20;; h++) {
            const struct symbol_slot *s = &m->symbols[h & (m->symbol_size - 1)];
            if (!s->key)
                break;
            if (s->key == key) {
                *ret_kind = (int)(s->value >> 28);
                *ret_value = s->value & 0xfffffff;
                return true;
            }
        }
        if (!scope)
            return false;
    }
}

void ptx_finding_set(struct ptx_finding *f, enum ptx_finding_kind kind, const char *fmt, ...)
{
    f->kind = kind;
    cleanup(buf) struct buf raw = {0};
    cleanup(buf) struct buf clean = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&raw, fmt, ap);
    va_end(ap);
    utf8_clean(&clean, raw.data, raw.size);
    snprintf(f->text, sizeof f->text, "%s", buf_cstr(&clean));
    while (!utf8_valid(f->text, strlen(f->text)))
        f->text[strlen(f->text) - 1] = 0;
}

void ptx_finding_at(const struct ptx_module *m, uint32_t stmt, struct ptx_finding *f)
{
    if (stmt >= m->stmt_count)
        return;
    const struct stmt *s = &m->stmts[stmt];
    f->ptx_line = (int)s->line;
    snprintf(f->opcode, sizeof f->opcode, "%s", ptx_name(m, s->opcode));
    if (!s->loc)
        return;
    f->source_line = (int)m->locs[s->loc].line;
    for (uint32_t i = 0; i < m->file_count; i++)
        if (m->files[i].number == m->locs[s->loc].file)
            memcpy(f->source_file, m->files[i].name, sizeof f->source_file);
}

void ptx_free(struct ptx_module *m)
{
    if (!m)
        return;
    for (uint32_t i = 0; i < m->function_count; i++)
        free(m->functions[i].reg_types);
    for (uint32_t i = 0; i < m->var_count; i++)
        free(m->vars[i].data);
    void *parts[] = {m->text, m->names, m->name_hash, m->symbols, m->scope_parent, m->stmts, m->operands, m->vars, m->functions,
                     m->locs, m->files, m->tables, m->table_names, m->data, m->code, m->lists, m->fills, m->blocks, m->wides};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        free(parts[i]);
    free(m);
}

int ptx_kernel_count(const struct ptx_module *m)
{
    int n = 0;
    for (uint32_t i = 0; i < m->function_count; i++)
        n += m->functions[i].is_entry && m->functions[i].has_body;
    return n;
}

static void kernel_fill(const struct ptx_module *m, const struct function *f, struct ptx_kernel *ret)
{
    *ret = (struct ptx_kernel){.name = ptx_name(m, f->name), .param_count = f->param_count,
                               .static_shared_bytes = f->static_shared_bytes, .uses_grid_barrier = f->uses_grid_barrier};
    for (int i = 0; i < f->param_count; i++) {
        const struct variable *v = &m->vars[f->params[i]];
        ret->params[i].bytes = (uint32_t)v->bytes;
        ret->params[i].align = v->align;
        ret->params[i].is_pointer = f->param_is_pointer[i];
    }
    memcpy(ret->reqntid, f->reqntid, sizeof ret->reqntid);
    memcpy(ret->maxntid, f->maxntid, sizeof ret->maxntid);
    memcpy(ret->cluster, f->cluster, sizeof ret->cluster);
}

bool ptx_kernel_get(const struct ptx_module *m, int index, struct ptx_kernel *ret)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry && m->functions[i].has_body && index-- == 0) {
            kernel_fill(m, &m->functions[i], ret);
            return true;
        }
    return false;
}

bool ptx_kernel_find(const struct ptx_module *m, const char *name, struct ptx_kernel *ret)
{
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry && m->functions[i].has_body && !strcmp(ptx_name(m, m->functions[i].name), name)) {
            kernel_fill(m, &m->functions[i], ret);
            return true;
        }
    return false;
}

bool ptx_variable_get(const struct ptx_module *m, int index, struct ptx_variable *ret)
{
    for (uint32_t i = 0; i < m->var_count; i++) {
        const struct variable *v = &m->vars[i];
        if ((v->space != SPACE_GLOBAL && v->space != SPACE_CONST) || index-- > 0)
            continue;
        *ret = (struct ptx_variable){ptx_name(m, v->name), v->bytes, v->space == SPACE_CONST};
        return true;
    }
    return false;
}

const char *ptx_target(const struct ptx_module *m)
{
    return m->target;
}
