/*
 * Launches as others do them: one allocation, no guards, no scrubbing, nothing restored between launches. No verdict rests on it; it
 * shows what a checker without our defences sees on the same card.
 */
#include "gpu/device/cuda_api.h"

#include <string.h>

struct plain { struct device *device; struct device_program *program; CUdeviceptr pool; };

static void plain_done(struct plain *x)
{
    if (x->device && !x->device->dead) {
        if (x->program && x->program->module)
            cu.cuModuleUnload(x->program->module);
        cu.cuMemFree(x->pool);
    }
    free(x->program);
    if (x->device)
        device_cuda.close(x->device);
}
DEFINE_CLEANUP(plain, struct plain, plain_done(it))

static bool make(struct plain *x, const struct device_plain *what, struct device_fault *fault, struct err *err)
{
    struct device_program *p = x->program = xalloc(sizeof *p);
    p->device = x->device;
    p->plan = *what->plan;
    p->tensor_count = what->tensor_count;
    p->buffer_count = what->tensor_count + what->plan->workspace_count;
    for (int w = 0; w < what->plan->workspace_count; w++)
        p->buffers[what->tensor_count + w].bytes = what->plan->workspaces[w].bytes;
    CUresult r = cu.cuModuleLoadData(&p->module, what->ptx);
    if (r != CUDA_SUCCESS)
        return fault_from_cu(fault, r, &p->plan, -1, err);
    for (int i = 0; i < p->plan.step_count && fault->code == VERDICT_OK; i++)
        if (!p->plan.steps[i].is_memset && !cuda_prepare_step(p, i, fault, err))
            return false;
    return CU(err, cuMemAlloc, &x->pool, what->pool_bytes) && helper_upload(x->device, x->pool, what->pool, what->pool_bytes, err) &&
           CU(err, cuStreamSynchronize, x->device->stream);
}

static bool launch(struct plain *x, const CUdeviceptr *addresses, struct device_fault *fault, struct err *err)
{
    for (int i = 0; i < x->program->plan.step_count; i++) {
        CUresult r = step_launch(x->program, i, addresses);
        if (r == CUDA_SUCCESS) {
            r = cu.cuStreamSynchronize(x->device->stream);
            x->device->dead = r != CUDA_SUCCESS;
        }
        if (r != CUDA_SUCCESS)
            return fault_from_cu(fault, r, &x->program->plan, i, err);
    }
    return true;
}

bool device_cuda_plain(const char *id, const struct device_plain *what, int launches, device_plain_step *after, void *ctx,
                       struct device_fault *fault, struct err *err)
{
    cleanup(plain) struct plain x = {.pool = 0};
    CUdeviceptr addresses[PROGRAM_MAX_BUFFERS] = {0};
    if (!device_cuda.open(id, &x.device, err) || !make(&x, what, fault, err))
        return false;
    for (int i = 0; i < x.program->buffer_count; i++)
        addresses[i] = x.pool + (i < what->tensor_count ? what->tensor_at[i] : what->workspace_at[i - what->tensor_count]);
    for (int n = 0; n < launches && fault->code == VERDICT_OK; n++) {
        if (!launch(&x, addresses, fault, err))
            return false;
        if (fault->code == VERDICT_OK && !CU(err, cuMemcpyDtoH, what->pool, x.pool, what->pool_bytes))
            return false;
        if (fault->code == VERDICT_OK && !after(ctx, n))
            return true;
    }
    return true;
}
