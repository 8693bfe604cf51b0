/*
 * One small operator for tests of devices: y = 2 x + s, s += 1, over N floats, with a workspace of N floats; and a candidate for
 * it from CUDA source, compiled and assembled here. x input, s inout, y output.
 */
#pragma once
#include "gpu/device/device.h"
#include "tests/test.h"

struct device_case {
    struct op op;
    struct shape shape;
    struct tensor tensors[3];
    struct plan plan;
    struct toolkit_compiled compiled;
    struct toolkit_assembled assembled;
    struct ptx_resources resources[PLAN_MAX_STEPS];
    struct device_load load;
};

enum { CASE_X, CASE_S, CASE_Y };

static const char *const case_good =
    "extern \"C\" __global__ void k(const float *x, float *s, float *y, float *w, int n)\n"
    "{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        w[i] = 2.f * x[i];\n"
    "        y[i] = w[i] + s[i];\n"
    "        s[i] += 1.f;\n"
    "    }\n"
    "}\n";

__attribute__((unused)) static void case_done(struct device_case *c)
{
    free(c->compiled.ptx);
    free(c->compiled.log);
    free(c->assembled.cubin);
    free(c->assembled.log);
    *c = (struct device_case){.plan = {0}};
}
DEFINE_CLEANUP(device_case, struct device_case, case_done(it))

/* The plan's one launch takes x, s, y, w, n; blocks of 128. */
__attribute__((unused)) static void case_shape(struct device_case *c, int64_t n)
{
    static const char *const names[] = {"x", "s", "y"};
    static const enum op_role roles[] = {OP_INPUT, OP_INOUT, OP_OUTPUT};
    snprintf(c->op.name, sizeof c->op.name, "case");
    c->op.version = 1;
    c->op.axis_count = 1;
    snprintf(c->op.axes[0].name, sizeof c->op.axes[0].name, "N");
    c->op.tensor_count = 3;
    c->shape.op = &c->op;
    c->shape.axes[0] = n;
    snprintf(c->shape.target, sizeof c->shape.target, "sm_90a");
    for (int t = 0; t < 3; t++) {
        struct op_tensor *spec = &c->op.tensors[t];
        snprintf(spec->name, sizeof spec->name, "%s", names[t]);
        spec->role = roles[t];
        spec->rank = 1;
        spec->letter = -1;
        spec->fixed = DTYPE_F32;
        spec->alignment_bytes = 16;
        c->tensors[t] = (struct tensor){.spec = spec,
                                        .dtype = DTYPE_F32,
                                        .rank = 1,
                                        .dims = {n},
                                        .strides = {1},
                                        .elements = n,
                                        .span_elements = n,
                                        .bytes = n * 4};
    }
    c->plan.workspace_count = 1;
    snprintf(c->plan.workspaces[0].name, sizeof c->plan.workspaces[0].name, "w");
    c->plan.workspaces[0].bytes = n * 4;
    c->plan.step_count = 1;
    struct plan_step *s = &c->plan.steps[0];
    snprintf(s->kernel, sizeof s->kernel, "k");
    s->grid[0] = (uint32_t)((n + 127) / 128);
    s->grid[1] = s->grid[2] = s->block[1] = s->block[2] = s->cluster[0] = s->cluster[1] = s->cluster[2] = 1;
    s->block[0] = 128;
    s->arg_count = 5;
    for (int t = 0; t < 3; t++)
        s->args[t] = (struct plan_arg){PLAN_TENSOR, t, 8, 0};
    s->args[3] = (struct plan_arg){PLAN_WORKSPACE, 0, 8, 0};
    s->args[4] = (struct plan_arg){PLAN_AXIS, 0, 4, (uint64_t)n};
}

/* Compiles and assembles; the case must stay where it is from here on. */
__attribute__((unused)) static bool case_code(struct device_case *c, const struct toolkit_paths *t, const char *source,
                                              const char *target, struct err *err)
{
    if (!toolkit_compile(t, source, target, "", &c->compiled, err))
        return false;
    if (!c->compiled.ok)
        return err_set(err, ERR_INVALID, "does not compile: %.400s", c->compiled.log);
    if (!toolkit_assemble(t, c->compiled.ptx, c->compiled.ptx_bytes, target, 0, &c->assembled, err))
        return false;
    if (!c->assembled.ok)
        return err_set(err, ERR_INVALID, "does not assemble: %.400s", c->assembled.log);
    for (int i = 0; i < PLAN_MAX_STEPS; i++)
        c->resources[i] = c->assembled.kernels[0].resources;
    c->load = (struct device_load){.shape = &c->shape,
                                   .tensors = c->tensors,
                                   .plan = &c->plan,
                                   .ptx = c->compiled.ptx,
                                   .ptx_bytes = c->compiled.ptx_bytes,
                                   .cubin = c->assembled.cubin,
                                   .cubin_bytes = c->assembled.cubin_bytes,
                                   .resources = c->resources};
    return true;
}

/* Inputs by a fixed rule, so that the right result is known: x[i] = i % 1000 - 500, s[i] = i % 7. */
__attribute__((unused)) static void case_fill(float *x, float *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i % 1000 - 500);
        s[i] = (float)(i % 7);
    }
}
