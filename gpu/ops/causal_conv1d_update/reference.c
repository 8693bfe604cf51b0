/*
 * For every token t with state slot s = slot[t] > 0 and every channel c, past = conv_state[s][.][c] (W-1 values, oldest first):
 *
 *   sum = past[0] weight[c][0] + ... + past[W-2] weight[c][W-2] + x[t][c] weight[c][W-1]       y[t][c] = sum / (1 + exp(-sum))
 *   past <- past[1], ..., past[W-2], x[t][c]
 *
 * Padding (slot <= 0) gives zeros and touches no state.
 */
#include "reference.h"

void proteus_reference(const struct reference_call *call)
{
    int64_t tokens = reference_axis(call, "B"), channels = reference_axis(call, "C"), width = reference_axis(call, "W");
    int64_t slots = reference_axis(call, "slots");
    const double *x = reference_data(call, "x"), *weight = reference_data(call, "weight"), *slot = reference_data(call, "slot");
    double *state = reference_data(call, "conv_state"), *y = reference_data(call, "y");

    for (int64_t t = 0; t < tokens; t++) {
        int64_t s = (int64_t)slot[t];
        if (s >= slots)
            abort();
        for (int64_t c = 0; c < channels; c++) {
            double *past = state + s * (width - 1) * channels + c, sum = x[t * channels + c] * weight[c * width + width - 1];
            if (s <= 0) {
                y[t * channels + c] = 0;
                continue;
            }
            for (int64_t w = 0; w < width - 1; w++) {
                sum += past[w * channels] * weight[c * width + w];
                past[w * channels] = w < width - 2 ? past[(w + 1) * channels] : x[t * channels + c];
            }
            y[t * channels + c] = sum / (1 + exp(-sum));
        }
    }
}
