/* The gated-delta decode step of ptx/gdn_decode.cu: inputs, and the same in double precision. */
#pragma once
#include "tests/test_ptx.h"

enum { GDN_K = 128, GDN_V = 128 };
struct gdn { int batch, h, hv, slot_count; uint16_t *mixed, *out; float *state, *before; };

__attribute__((unused)) static bool gdn_setup_file(const char *file, struct bench *b, struct gdn *g, int batch, int h, int hv)
{
    *g = (struct gdn){.batch = batch, .h = h, .hv = hv, .slot_count = batch + 1};
    if (!bench_file(b, file, "gdn_decode"))
        return false;
    uint64_t seed = 7;
    const size_t row = (size_t)(2 * h * GDN_K + hv * GDN_V), mixed_n = row * (size_t)batch, heads = (size_t)batch * (size_t)hv;
    const size_t state_n = (size_t)g->slot_count * (size_t)hv * GDN_V * GDN_K;
    uint16_t *mixed = xarray(mixed_n, 2), *a = xarray(heads, 2), *bb = xarray(heads, 2);
    float *a_log = xarray((size_t)hv, 4), *dt = xarray((size_t)hv, 4), *state = xarray(state_n, 4);
    int *slots = xarray((size_t)batch, 4);
    for (size_t i = 0; i < mixed_n; i++)
        mixed[i] = float_to_bf16(uniform(&seed));
    for (size_t i = 0; i < heads; i++)
        a[i] = float_to_bf16(uniform(&seed) * 3), bb[i] = float_to_bf16(uniform(&seed) * 2);
    for (int i = 0; i < hv; i++)
        a_log[i] = uniform(&seed), dt[i] = uniform(&seed);
    for (size_t i = 0; i < state_n; i++)
        state[i] = uniform(&seed);
    for (int i = 0; i < batch; i++)
        slots[i] = i == 2 ? 0 : g->slot_count - 1 - i;
    g->mixed = bench_buffer(b, "mixed", mixed_n * 2, false, mixed);
    bench_buffer(b, "a", heads * 2, false, a);
    bench_buffer(b, "b", heads * 2, false, bb);
    bench_buffer(b, "a_log", (size_t)hv * 4, false, a_log);
    bench_buffer(b, "dt_bias", (size_t)hv * 4, false, dt);
    bench_buffer(b, "slots", (size_t)batch * 4, false, slots);
    g->state = bench_buffer(b, "state", state_n * 4, true, state);
    g->out = bench_buffer(b, "out", heads * GDN_V * 2, true, NULL);
    bench_int(b, (uint32_t)h);
    bench_int(b, (uint32_t)hv);
    g->before = state;
    b->launch.grid[0] = GDN_V / 16;
    b->launch.grid[1] = (uint32_t)hv;
    b->launch.grid[2] = (uint32_t)batch;
    b->launch.block[0] = 128;
    free(mixed), free(a), free(bb), free(a_log), free(dt), free(slots);
    return true;
}

__attribute__((unused)) static bool gdn_setup(struct bench *b, struct gdn *g, int batch, int h, int hv)
{
    return gdn_setup_file("gdn_decode.ptx", b, g, batch, h, hv);
}

/* The largest error of the new state, relative to the largest of the row; of out in bf16 steps. */
__attribute__((unused)) static void gdn_compare(const struct bench *b, const struct gdn *g, double *ret_state, double *ret_out)
{
    const uint16_t *a = (const uint16_t *)b->buffers[1].data, *bb = (const uint16_t *)b->buffers[2].data;
    const float *a_log = (const float *)b->buffers[3].data, *dt = (const float *)b->buffers[4].data;
    const int *slots = (const int *)b->buffers[5].data;
    *ret_state = *ret_out = 0;
    for (int n = 0; n < g->batch; n++)
        for (int head = 0; head < g->hv; head++) {
            const uint16_t *line = g->mixed + (size_t)n * (size_t)(2 * g->h * GDN_K + g->hv * GDN_V);
            const int qk = head / (g->hv / g->h);
            const size_t one = (size_t)n * (size_t)g->hv + (size_t)head;
            double q[GDN_K], k[GDN_K], qs = 1e-6, ks = 1e-6;
            for (int i = 0; i < GDN_K; i++) {
                q[i] = bf16_to_float(line[qk * GDN_K + i]), k[i] = bf16_to_float(line[g->h * GDN_K + qk * GDN_K + i]);
                qs += q[i] * q[i], ks += k[i] * k[i];
            }
            for (int i = 0; i < GDN_K; i++)
                q[i] /= sqrt(qs) * sqrt((double)GDN_K), k[i] /= sqrt(ks);
            const double x = (double)bf16_to_float(a[one]) + dt[head], softplus = x > 20 ? x : log1p(exp(x));
            const double decay = exp(-exp((double)a_log[head]) * softplus), beta = 1 / (1 + exp(-(double)bf16_to_float(bb[one])));
            for (int v = 0; v < GDN_V; v++) {
                const double got = bf16_to_float(g->out[one * GDN_V + (size_t)v]);
                if (slots[n] <= 0) {
                    *ret_out = got != 0 ? 1e9 : *ret_out;
                    continue;
                }
                const size_t at = (((size_t)slots[n] * (size_t)g->hv + (size_t)head) * GDN_V + (size_t)v) * GDN_K;
                double s[GDN_K], dot = 0, o = 0;
                for (int i = 0; i < GDN_K; i++)
                    s[i] = g->before[at + (size_t)i] * decay, dot += s[i] * k[i];
                const double u = ((double)bf16_to_float(line[2 * g->h * GDN_K + head * GDN_V + v]) - dot) * beta;
                for (int i = 0; i < GDN_K; i++) {
                    s[i] += u * k[i], o += s[i] * q[i];
                    const double e = fabs(s[i] - g->state[at + (size_t)i]);
                    *ret_state = e > *ret_state ? e : *ret_state;
                }
                const double e = fabs(o - got) / (fabs(o) / 256 + 1e-4);
                *ret_out = e > *ret_out ? e : *ret_out;
            }
        }
}
