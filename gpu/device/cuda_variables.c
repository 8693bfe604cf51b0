/*
 * A module's variables must be what they were when it was loaded: kernels keep nothing in them from launch to launch. The scan refuses
 * what says so openly; this sees the bytes, whoever changed them and however. Names are those of the PTX; one that the assembler has
 * left out is not there to be changed.
 */
#include "core/hash.h"
#include "gpu/device/cuda_api.h"

#include <string.h>

static int slot_of(int variable)
{
    return variable < VARIABLES_TOLD - 1 ? variable : VARIABLES_TOLD - 1;
}

static bool sums(struct device_program *p, uint64_t *ret, struct err *err)
{
    uint64_t all[SCRUB_PRINTS];
    if (!prints_clear(p->device, err))
        return false;
    for (int i = 0; i < p->variable_count; i++)
        if (!prints_add(p->device, slot_of(i), p->variables[i].at, p->variables[i].bytes, p->variable_salt + (uint64_t)i, err))
            return false;
    if (!prints_take(p->device, all, err))
        return false;
    memcpy(ret, all, VARIABLES_TOLD * sizeof *ret);
    return true;
}

bool variables_find(struct device_program *p, const struct ptx_module *m, struct err *err)
{
    struct ptx_variable v;
    for (int i = 0; i < PTX_MAX_VARIABLES && ptx_variable_get(m, i, &v); i++) {
        struct module_variable one = {.bytes = 0};
        CUresult r = cu.cuModuleGetGlobal(&one.at, &one.bytes, p->module, v.name);
        if (r == CUDA_ERROR_NOT_FOUND || (r == CUDA_SUCCESS && !one.bytes))
            continue;
        if (r != CUDA_SUCCESS)
            return err_from_cu(err, r, "cuModuleGetGlobal");
        snprintf(one.name, sizeof one.name, "%s", v.name);
        p->variables = xrealloc(p->variables, (size_t)(p->variable_count + 1) * sizeof *p->variables);
        p->variables[p->variable_count++] = one;
    }
    p->variable_salt = random_u64();
    return !p->variable_count || sums(p, p->variable_prints, err);
}

bool variables_check(struct device_program *p, struct device_fault *fault, struct err *err)
{
    uint64_t now[VARIABLES_TOLD];
    if (!p->variable_count)
        return true;
    if (!sums(p, now, err))
        return false;
    for (int i = 0; i < p->variable_count && i < VARIABLES_TOLD; i++)
        if (now[i] != p->variable_prints[i])
            return fault_set(fault, VERDICT_STATE_CARRIED, json_pack("{s:s}", "variable", p->variables[i].name),
                             "a launch changed the module's variable %.60s%s", p->variables[i].name,
                             i == VARIABLES_TOLD - 1 ? " or one after it" : "");
    return true;
}
