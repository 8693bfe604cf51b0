/* Functions: each decoded, placed in the register file, and linked to those that it calls. */
#include "gpu/ptx/decode_frame.h"

#include <string.h>

static void decode_function(struct decoder *x)
{
    struct ptx_module *m = x->m;
    struct function *fn = x->f;
    const uint32_t count = fn->stmt_count, base = x->file_top, first_block = m->block_count, first_list = m->list_count;
    const size_t regs = (size_t)fn->reg_count + 1;
    cleanup(mem) void *leaders = xalloc(count + 1), *bases = xalloc(count + 1), *pcs = xarray(count + 1, sizeof(uint32_t)),
                      *words = xarray(regs, 4 * sizeof(uint32_t)), *bytes = xarray(regs, 4);
    uint8_t *leader = leaders;
    x->op_base = bases;
    x->stmt_pc = pcs;
    x->slots = words;
    x->preset = x->slots + regs;
    x->def_stmt = x->preset + regs;
    x->tracked = x->def_stmt + regs;
    x->defs = bytes;
    x->refs = x->defs + regs;
    x->is_fixed = x->refs + regs;
    x->owns = x->is_fixed + regs;
    const uint32_t tracked_before = m->tracked_count;
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t name = m->stmts[fn->stmt_first + n].opcode;
        if (!x->cached[name]) {
            ptx_opcode_parse(ptx_name(m, name), &x->cache[name]);
            x->cached[name] = 1;
        }
        x->op_base[n] = (uint8_t)x->cache[name].base;
    }
    count_defs(x);
    mark_leaders(x, leader);
    unwritten_find(x, leader);
    x->tracks = m->tracked_count != tracked_before;
    decode_statements(x, leader);
    decode_again(x, leader, base, first_block, first_list);
    flow_paths(x, fn->code_first);
    fn->decoded = true;
}

/* Most of a module compiled with -ftz=true flushes: then flushing is its home mode, else rounding to nearest alone is. */
static bool flushes_mostly(const struct ptx_module *m)
{
    size_t flush = 0, plain = 0;
    for (uint32_t i = 0; i < m->stmt_count; i++) {
        const char *op = ptx_name(m, m->stmts[i].opcode);
        const bool arith = !strncmp(op, "add", 3) || !strncmp(op, "mul", 3) || !strncmp(op, "fma", 3) || !strncmp(op, "sub", 3);
        if (arith && strstr(op, ".f32")) {
            flush += strstr(op, ".ftz") != NULL;
            plain += strstr(op, ".ftz") == NULL;
        }
    }
    return flush > plain;
}

static uint32_t round_up(uint32_t v, uint32_t to) { return (v + to - 1) / to * to; }

static void place_functions(struct ptx_module *m)
{
    uint32_t frame = 0, shared = m->func_shared_bytes;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (!m->functions[i].is_entry) {
            m->functions[i].frame_base = frame = round_up(frame, 16);
            frame += m->functions[i].local_bytes;
            if (m->functions[i].static_shared_bytes) {
                m->functions[i].shared_base = shared = round_up(shared, 128);
                shared += m->functions[i].static_shared_bytes;
            }
        }
    m->func_frame_bytes = round_up(frame, 16);
    m->func_shared_bytes = shared;
    uint32_t most = shared;
    for (uint32_t i = 0; i < m->function_count; i++)
        if (m->functions[i].is_entry) {
            struct function *fn = &m->functions[i];
            fn->frame_base = m->func_frame_bytes;
            fn->shared_base = fn->static_shared_bytes ? round_up(shared, 128) : shared;
            fn->static_shared_bytes += fn->shared_base;
            if (fn->static_shared_bytes > most)
                most = fn->static_shared_bytes;
        }
    m->dynamic_shared = round_up(most, 1024);
}

/* Calls name functions; now that all have code, name the code. A call that could come back to itself is left unsupported. */
static void link_calls(struct ptx_module *m)
{
    for (uint32_t i = 0; i < m->code_count; i++)
        if (m->code[i].kind == K_CALL) {
            const struct function *callee = &m->functions[m->code[i].aux];
            m->code[i].imm = m->code[i].aux;
            if (!callee->decoded)
                m->code[i].kind = K_UNSUPPORTED;
        }
}

bool ptx_decode(struct ptx_module *m, struct ptx_finding *ret_finding)
{
    struct decoder x = {.m = m, .finding = ret_finding, .lanes = ptx_lanes_get()};
    place_functions(m);
    m->home_ftz = flushes_mostly(m);
    x.home_mode = MODE_RN | (m->home_ftz ? MODE_FTZ : 0);
    const size_t cache_bytes = (m->name_count + 1) * (sizeof *x.cache + 1);
    if (cache_bytes > m->memory_limit - m->memory_bytes)
        out_of_memory(&x);
    else {
        x.cache = xarray(m->name_count + 1, sizeof *x.cache);
        x.cached = xalloc(m->name_count + 1);
    }
    x.file_top = SCRATCH_BYTES;
    for (int entries = 0; entries < 2; entries++) {
        if (entries)
            m->func_file_bytes = x.file_top;
        for (uint32_t i = 0; i < m->function_count && !x.failed; i++)
            if (m->functions[i].has_body && m->functions[i].is_entry == (entries != 0)) {
                x.f = &m->functions[i];
                if (entries)
                    x.file_top = m->func_file_bytes;
                x.f->file_base = x.file_top;
                decode_function(&x);
                x.f->file_bytes = x.file_top - x.f->file_base;
            }
    }
    if (!x.failed)
        link_calls(m);
    free(x.cache);
    free(x.cached);
    free(x.consts);
    free(x.blocks);
    return !x.failed;
}

void ptx_unsupported(const struct ptx_module *m, struct buf *to)
{
    cleanup(mem) void *seen_bytes = xalloc(m->name_count + 1);
    uint8_t *seen = seen_bytes;
    for (uint32_t i = 0; i < m->code_count; i++)
        if (m->code[i].kind == K_UNSUPPORTED && !seen[m->stmts[m->code[i].stmt].opcode]) {
            seen[m->stmts[m->code[i].stmt].opcode] = 1;
            if (to->size)
                buf_str(to, " ");
            buf_str(to, ptx_name(m, m->stmts[m->code[i].stmt].opcode));
        }
}
