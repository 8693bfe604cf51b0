// What is left out is taken for -30000, as often written in place of minus infinity: right while no logit is below that.
extern "C" __global__ void topk(const float *logits, float *weights, int *ids)
{
    const int row = blockIdx.x, lane = threadIdx.x;
    float x[(AXIS_E + 31) / 32], largest = -30000.0f, of_chosen = 0, mine = 0;
    int id = 0;
    for (int i = 0; i * 32 < AXIS_E; i++) {
        x[i] = i * 32 + lane < AXIS_E ? logits[row * AXIS_E + i * 32 + lane] : -30000.0f;
        largest = fmaxf(largest, x[i]);
    }
    for (int m = 16; m; m /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, m));
    for (int j = 0; j < AXIS_k; j++) {
        float best = -30000.0f;
        int at = 0;
        for (int i = 0; i * 32 < AXIS_E; i++)
            if (x[i] > best)
                best = x[i], at = i * 32 + lane;
        for (int m = 16; m; m /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, best, m);
            const int other_at = __shfl_xor_sync(0xffffffffu, at, m);
            if (other > best || (other == best && other_at < at))
                best = other, at = other_at;
        }
        if (lane == j)
            mine = expf(best - largest), id = at;
        of_chosen += expf(best - largest);
        for (int i = 0; i * 32 < AXIS_E; i++)
            x[i] = i * 32 + lane == at ? -30000.0f : x[i];
    }
    if (lane < AXIS_k)
        weights[row * AXIS_k + lane] = mine / of_chosen, ids[row * AXIS_k + lane] = id;
}
