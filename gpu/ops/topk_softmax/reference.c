/*
 * The k largest logits of each row, largest first, of equal ones the lower index first; their weights are
 * exp(logit) / (sum of exp(logit) of those chosen), which is softmax scaled to add up to one. Minus infinity is masked: weight 0, the
 * last to be chosen; where the first chosen is masked, so are all, and all weights are 0.
 */
#include "reference.h"

void proteus_reference(const struct reference_call *call)
{
    int64_t rows = reference_axis(call, "R"), experts = reference_axis(call, "E"), k = reference_axis(call, "k");
    const double *logits = reference_data(call, "logits");
    double *weights = reference_data(call, "weights"), *ids = reference_data(call, "ids");
    char *taken = malloc((size_t)experts);
    if (!taken)
        abort();

    for (int64_t r = 0; r < rows; r++) {
        const double *row = logits + r * experts;
        double sum = 0;
        memset(taken, 0, (size_t)experts);
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;
            for (int64_t e = 0; e < experts; e++)
                if (!taken[e] && (best < 0 || row[e] > row[best]))
                    best = e;
            if (best < 0)
                abort();
            taken[best] = 1;
            ids[r * k + j] = (double)best;
            weights[r * k + j] = row[best] == -INFINITY ? 0 : exp(row[best] - row[(int64_t)ids[r * k]]);
            sum += weights[r * k + j];
        }
        for (int64_t j = 0; sum > 0 && j < k; j++)
            weights[r * k + j] /= sum;
    }
    free(taken);
}
