/*
 * The scan: what a module says it will do, judged by a table. It sorts, it never clears: the emulator and the card check too.
 *
 * Most rules look at one instruction. Stores to module variables need to know which registers hold their addresses: marks flow
 * from symbols through every instruction that is not a load, without regard to order, until nothing changes.
 */
#include "gpu/ptx/opcode.h"

#include <string.h>

enum action { REFUSE, FLAG, NEEDS_CACHE_HINTS, NEEDS_COOPERATIVE };
static const char *const actions[] = {"refuse", "flag", "declare cache_hints", "declare cooperative"};

/* X(code, name, what it looks for, action, why) */
#define RULES(X)                                                                                                              \
    X(R_MODULE_STORE, "module_store", "st, atom, red or cp.async to a module-scope .global variable", REFUSE,                 \
      "state would outlive the launch")                                                                                       \
    X(R_MODULE_ESCAPE, "module_escape", "the address of a module variable stored or passed on", FLAG,                         \
      "where it is used cannot be seen here")                                                                                 \
    X(R_MODULE_EXPORT, "module_export", ".visible .global variables", FLAG, "the host could reach it between launches")       \
    X(R_MANAGED, "managed", ".attribute(.managed) or .extern .global", REFUSE, "memory that the host shares")                 \
    X(R_PRINTF, "printf", "call vprintf, __assertfail", REFUSE, "a system call of the device runtime")                        \
    X(R_HEAP, "heap", "call malloc, free", REFUSE, "memory that no buffer accounts for, and that outlives the launch")        \
    X(R_DEVICE_LAUNCH, "device_launch", "call cudaLaunchDevice*, cudaGetParameterBuffer*, cudaGraph*, cudaStream*", REFUSE,   \
      "work outside the plan")                                                                                                \
    X(R_EXTERN_FUNCTION, "extern_function", ".extern .func, or a function without a body", REFUSE, "nothing to link it with") \
    X(R_INDIRECT_CALL, "indirect_call", "call through a register", FLAG, "its target cannot be seen here")                    \
    X(R_CLOCK, "clock", "%clock, %clock64, %globaltimer, %pm", FLAG, "a kernel that times itself may act on it")              \
    X(R_PLACEMENT, "placement", "%smid, %nsmid, %warpid, %nwarpid, %gridid, %current_graph_exec", FLAG,                                             \
      "what it does may depend on where or when it runs")                                                                     \
    X(R_NANOSLEEP, "nanosleep", "nanosleep", FLAG, "waits without working")                                                   \
    X(R_CREATEPOLICY, "createpolicy", "createpolicy, .L2::cache_hint", NEEDS_CACHE_HINTS, "keeps data in L2 across launches") \
    X(R_EVICT_LAST, "evict_last", ".L1::evict_last, .L2::evict_last", NEEDS_CACHE_HINTS, "keeps data in a cache across launches") \
    X(R_PREFETCH, "prefetch", "prefetch, prefetchu, cp.async.bulk.prefetch", NEEDS_CACHE_HINTS, "loads for the next launch")   \
    X(R_DISCARD, "discard", "discard, applypriority", NEEDS_CACHE_HINTS, "changes what a cache holds")                        \
    X(R_PREFETCH_SIZE, "prefetch_size", ".L2::64B, .L2::128B, .L2::256B", FLAG, "reads beside what is asked for")             \
    X(R_GRID_BARRIER, "grid_barrier", "%envreg", NEEDS_COOPERATIVE, "a barrier of the whole grid needs all blocks resident")  \
    X(R_GRID_DEPENDENCY, "grid_dependency", "griddepcontrol", FLAG, "overlaps with the launches before and after")            \
    X(R_ATOMICS, "atomics", "atom, red", FLAG, "the order of additions may differ from run to run")                           \
    X(R_BREAKPOINT, "breakpoint", "brkpt, pmevent", FLAG, "for debuggers and profilers")                                      \
    X(R_TRAP, "trap", "trap", FLAG, "ends the context when reached")                                                          \
    X(R_TEXTURE, "texture", "tex, suld, sust", REFUSE, "no plan can bind a texture or a surface")

enum rule {
#define X(code, name, pattern, action, why) code,
    RULES(X)
#undef X
        RULE_COUNT
};
static const struct { const char *name, *pattern, *why; enum action action; } rules[RULE_COUNT] = {
#define X(code, name, pattern, action, why) {name, pattern, why, action},
    RULES(X)
#undef X
};

struct scan {
    const struct ptx_module *m;
    const struct ptx_declares *declares;
    struct ptx_scan *ret;
    bool seen[RULE_COUNT];
};

static void hit(struct scan *s, enum rule rule, uint32_t stmt, uint32_t line, const char *what)
{
    struct ptx_finding at = {.source_line = -1, .ptx_line = (int)line};
    ptx_finding_at(s->m, stmt, &at);
    const enum action action = rules[rule].action;
    const bool allowed = action == FLAG || (action == NEEDS_CACHE_HINTS && s->declares && s->declares->cache_hints) ||
                         (action == NEEDS_COOPERATIVE && s->declares && s->declares->cooperative);
    if (!allowed && s->ret->refused.kind == PTX_CLEAN) {
        s->ret->refused = at;
        char where[48];
        snprintf(where, sizeof where, at.source_line > 0 ? " (line %d)" : " (PTX line %d)", at.source_line > 0 ? at.source_line : at.ptx_line);
        ptx_finding_set(&s->ret->refused, PTX_FORBIDDEN, "%s: %.100s is not allowed%s%s: %s", rules[rule].name, what,
                        action == NEEDS_CACHE_HINTS ? " unless cache_hints is declared"
                        : action == NEEDS_COOPERATIVE ? " unless cooperative is declared" : "", where, rules[rule].why);
    }
    if (s->seen[rule] || s->ret->flag_count == PTX_SCAN_MAX_FLAGS) /* one flag a rule */
        return;
    s->seen[rule] = true;
    const int n = s->ret->flag_count++;
    snprintf(s->ret->flags[n].rule, sizeof s->ret->flags[n].rule, "%s", rules[rule].name);
    s->ret->flags[n].ptx_line = at.ptx_line;
    s->ret->flags[n].source_line = at.source_line;
    snprintf(s->ret->flags[n].text, sizeof s->ret->flags[n].text, "%.60s: %s", what, rules[rule].why);
    while (!utf8_valid(s->ret->flags[n].text, strlen(s->ret->flags[n].text)))
        s->ret->flags[n].text[strlen(s->ret->flags[n].text) - 1] = 0;
}

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* ---- functions and variables ---- */
static const struct { const char *prefix; enum rule rule; } externs[] = {
    {"vprintf", R_PRINTF}, {"__assertfail", R_PRINTF}, {"__assert_fail", R_PRINTF}, {"malloc", R_HEAP}, {"free", R_HEAP},
    {"cudaLaunchDevice", R_DEVICE_LAUNCH}, {"cudaGetParameterBuffer", R_DEVICE_LAUNCH}, {"cudaGraph", R_DEVICE_LAUNCH},
    {"cudaStream", R_DEVICE_LAUNCH}, {"cudaEvent", R_DEVICE_LAUNCH}, {"__cudaCDP", R_DEVICE_LAUNCH}, {"cudaDevice", R_DEVICE_LAUNCH},
};

static enum rule extern_rule(const char *name)
{
    for (size_t i = 0; i < sizeof externs / sizeof *externs; i++)
        if (starts(name, externs[i].prefix))
            return externs[i].rule;
    return R_EXTERN_FUNCTION;
}

static void scan_declarations(struct scan *s)
{
    const struct ptx_module *m = s->m;
    for (uint32_t i = 0; i < m->function_count; i++) {
        const struct function *f = &m->functions[i];
        int kind;
        uint32_t index;
        if (!f->has_body && (!ptx_symbol_find(m, 0, f->name, &kind, &index) || kind != SYM_FUNCTION || !m->functions[index].has_body))
            hit(s, extern_rule(ptx_name(m, f->name)), UINT32_MAX, f->line, ptx_name(m, f->name));
    }
    for (uint32_t i = 0; i < m->var_count; i++) {
        const struct variable *v = &m->vars[i];
        if (v->space != SPACE_GLOBAL && v->space != SPACE_CONST)
            continue;
        if (v->is_managed || v->is_extern)
            hit(s, R_MANAGED, UINT32_MAX, v->line, ptx_name(m, v->name));
        if (v->is_visible && v->space == SPACE_GLOBAL)
            hit(s, R_MODULE_EXPORT, UINT32_MAX, v->line, ptx_name(m, v->name));
    }
}

/* ---- addresses of module variables ---- */
static bool is_module_variable(const struct ptx_module *m, uint32_t v) { return m->vars[v].space == SPACE_GLOBAL; }

static bool marked(const struct ptx_module *m, const struct operand *o, const uint8_t *marks, int depth)
{
    if (o->kind == O_REG || (o->kind == O_ADDRESS && o->base == O_REG))
        return marks[o->id];
    if (o->kind == O_SYMBOL || (o->kind == O_ADDRESS && o->base == O_SYMBOL))
        return is_module_variable(m, o->id);
    for (uint32_t i = 0; (o->kind == O_LIST || o->kind == O_PAIR) && i < o->count && depth < 8; i++)
        if (marked(m, &m->operands[o->id + i], marks, depth + 1))
            return true;
    return false;
}

static bool mark(const struct ptx_module *m, const struct operand *o, uint8_t *marks, int depth)
{
    bool changed = false;
    if (o->kind == O_REG) {
        changed = !marks[o->id];
        marks[o->id] = 1;
    }
    for (uint32_t i = 0; (o->kind == O_LIST || o->kind == O_PAIR) && i < o->count && depth < 8; i++)
        changed |= mark(m, &m->operands[o->id + i], marks, depth + 1);
    return changed;
}

static bool writes_memory(const struct opcode *o, unsigned *ret_address)
{
    *ret_address = o->base == B_atom ? 1 : 0;
    return o->base == B_st || o->base == B_red || o->base == B_atom || (o->base == B_cp && !has(o, M_COMMIT_GROUP) && !has(o, M_WAIT_GROUP));
}

static void scan_stores(struct scan *s, const struct function *f, const struct opcode *ops)
{
    const struct ptx_module *m = s->m;
    cleanup(mem) void *memory = xalloc(f->reg_count + 1);
    uint8_t *marks = memory;
    bool changed = true;
    int rounds = 0;
    for (; changed && rounds < 100; rounds++) {
        changed = false;
        for (uint32_t n = 0; n < f->stmt_count; n++) {
            const struct stmt *st = &m->stmts[f->stmt_first + n];
            const struct opcode *o = &ops[st->opcode];
            const bool values = o->base != B_ld && o->base != B_ldu && o->base != B_st && o->base != B_red && o->base != B_atom &&
                                o->base != B_setp && o->base != B_call && o->base != B_cp;
            for (uint32_t k = 1; values && k < st->count; k++)
                if (marked(m, &m->operands[st->first + k], marks, 0)) {
                    changed |= mark(m, &m->operands[st->first], marks, 0);
                    break;
                }
        }
    }
    for (uint32_t n = 0; n < f->stmt_count; n++) {
        const struct stmt *st = &m->stmts[f->stmt_first + n];
        unsigned address;
        if (!writes_memory(&ops[st->opcode], &address) || address >= st->count)
            continue;
        const struct operand *o = &m->operands[st->first];
        if (marked(m, &o[address], marks, 0) || changed)
            hit(s, R_MODULE_STORE, f->stmt_first + n, 0, ptx_name(m, st->opcode));
        for (uint32_t k = address + 1; k < st->count && ops[st->opcode].base == B_st; k++)
            if (marked(m, &o[k], marks, 0))
                hit(s, R_MODULE_ESCAPE, f->stmt_first + n, 0, ptx_name(m, st->opcode));
    }
}

/* ---- instructions ---- */
static void scan_operand(struct scan *s, uint32_t index, const struct operand *v, const char *name, int depth)
{
    for (uint32_t i = 0; (v->kind == O_LIST || v->kind == O_PAIR) && i < v->count && depth < 8; i++)
        scan_operand(s, index, &s->m->operands[v->id + i], name, depth + 1);
    if (v->kind != O_SPECIAL)
        return;
    if ((v->id >= SR_CLOCK && v->id <= SR_GLOBALTIMER_HI) || v->id == SR_PM) {
        hit(s, R_CLOCK, index, 0, name);
        s->ret->uses_clock = true;
    }
    if (v->id == SR_SMID || v->id == SR_NSMID || v->id == SR_WARPID || v->id == SR_NWARPID || v->id == SR_GRIDID || v->id == SR_GRAPH_EXEC)
        hit(s, R_PLACEMENT, index, 0, name);
    if (v->id == SR_ENVREG) {
        hit(s, R_GRID_BARRIER, index, 0, name);
        s->ret->uses_grid_barrier = true;
    }
}

static void scan_stmt(struct scan *s, uint32_t index, const struct opcode *o)
{
    const struct ptx_module *m = s->m;
    const struct stmt *st = &m->stmts[index];
    const char *name = ptx_name(m, st->opcode);
    switch ((int)o->base) {
    case B_createpolicy: hit(s, R_CREATEPOLICY, index, 0, name); s->ret->uses_cache_hints = true; break;
    case B_prefetch:
    case B_prefetchu: hit(s, R_PREFETCH, index, 0, name); s->ret->uses_cache_hints = true; break;
    case B_discard:
    case B_applypriority: hit(s, R_DISCARD, index, 0, name); s->ret->uses_cache_hints = true; break;
    case B_nanosleep: hit(s, R_NANOSLEEP, index, 0, name); break;
    case B_griddepcontrol: hit(s, R_GRID_DEPENDENCY, index, 0, name); break;
    case B_brkpt:
    case B_pmevent: hit(s, R_BREAKPOINT, index, 0, name); break;
    case B_trap: hit(s, R_TRAP, index, 0, name); break;
    case B_tex:
    case B_suld:
    case B_sust: hit(s, R_TEXTURE, index, 0, name); break;
    case B_atom:
    case B_red:
    case B_multimem: hit(s, R_ATOMICS, index, 0, name); s->ret->uses_atomics = true; break;
    case B_call: {
        const struct operand *target = &m->operands[st->first];
        for (uint32_t k = 0; k < st->count && target->kind == O_LIST; k++)
            target++;
        if (st->count && target->kind != O_NAME)
            hit(s, R_INDIRECT_CALL, index, 0, name);
        break;
    }
    default:
        if (!strncmp(name, "cp.reduce.", 10))
            s->ret->uses_atomics = true;
        break;
    }
    if (o->base == B_cp && strstr(name, ".prefetch")) {
        hit(s, R_PREFETCH, index, 0, name);
        s->ret->uses_cache_hints = true;
    }
    if (has(o, M_CACHE_HINT)) {
        hit(s, R_CREATEPOLICY, index, 0, name);
        s->ret->uses_cache_hints = true;
    }
    if (strstr(name, "evict_last")) {
        hit(s, R_EVICT_LAST, index, 0, name);
        s->ret->uses_cache_hints = true;
    }
    if (strstr(name, "L2::64B") || strstr(name, "L2::128B") || strstr(name, "L2::256B"))
        hit(s, R_PREFETCH_SIZE, index, 0, name);
    for (uint32_t k = 0; k < st->count; k++)
        scan_operand(s, index, &m->operands[st->first + k], name, 0);
}

bool ptx_scan(const struct ptx_module *m, const struct ptx_declares *declares, struct ptx_scan *ret, struct err *err)
{
    (void)err;
    struct ptx_scan result = {.refused = {.source_line = -1}};
    struct scan s = {.m = m, .declares = declares, .ret = &result};
    cleanup(mem) void *memory = xarray(m->name_count + 1, sizeof(struct opcode));
    struct opcode *ops = memory;
    for (uint32_t i = 0; i < m->stmt_count; i++)
        if (!ops[m->stmts[i].opcode].base && !ops[m->stmts[i].opcode].type_count)
            ptx_opcode_parse(ptx_name(m, m->stmts[i].opcode), &ops[m->stmts[i].opcode]);
    scan_declarations(&s);
    struct ptx_variable beyond;
    if (result.refused.kind == PTX_CLEAN && ptx_variable_get(m, PTX_MAX_VARIABLES, &beyond))
        ptx_finding_set(&result.refused, PTX_RESOURCE, "more than %d variables at module scope: their bytes could not all be looked at", PTX_MAX_VARIABLES);
    bool any = false;
    for (uint32_t i = 0; i < m->var_count; i++)
        any |= m->vars[i].space == SPACE_GLOBAL;
    for (uint32_t i = 0; i < m->function_count && any; i++)
        if (m->functions[i].has_body)
            scan_stores(&s, &m->functions[i], ops);
    for (uint32_t i = 0; i < m->stmt_count; i++)
        scan_stmt(&s, i, &ops[m->stmts[i].opcode]);
    *ret = result;
    return true;
}

void ptx_scan_rules(struct buf *to)
{
    buf_str(to, "[");
    for (int i = 0; i < RULE_COUNT; i++)
        buf_fmt(to, "%s{\"rule\":\"%s\",\"pattern\":\"%s\",\"action\":\"%s\",\"why\":\"%s\"}", i ? ",\n " : "", rules[i].name, rules[i].pattern,
                actions[rules[i].action], rules[i].why);
    buf_str(to, "]");
}
