/*
 * Where the emulator ran a sample of the blocks (gpu/ptx/sample.c), outputs are there in part. What was written shows by the poison: an
 * element that still holds it was left out, and so was one of an inout tensor that holds its old bits. Only the others are compared, and
 * there must be as many of them as so many blocks have to write: what they do not write themselves must not pass for left out. Nor may a
 * place in the rows be one that no block writes.
 */
#include "gpu/judge/internal.h"

#include <string.h>

#define LEAST_OF_SHARE 0.5      /* of one output: its blocks may be the fewer ones among those that are emulated */
#define LEAST_OF_ALL 0.9        /* of all outputs together, but for what blocks at the edges need not write */
#define CHANCES 16              /* that any place of a row had to be written: e^-16 that an honest plan misses it */

void sampled_forget(struct judge_side *s)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(s->written[t]);
        s->written[t] = NULL;
    }
}

static bool holds(const char *at, size_t size, size_t from, uint64_t poison)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != (char)(poison >> 8 * ((from + i) % 8)))
            return false;
    return true;
}

void sampled_mark(struct judge *j, struct judge_side *s)
{
    sampled_forget(s);
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        const struct tensor *tensor = &j->tensors[t];
        const size_t size = (size_t)dtype_bytes(tensor->dtype);
        const bool inout = tensor->spec->role == OP_INOUT;
        const char *before = j->regimes[s->run_regime].inputs[t];
        if (tensor->spec->role == OP_INPUT)
            continue;
        s->written[t] = xalloc_large((size_t)tensor->elements + 1);
        for (int64_t i = 0; i < tensor->elements; i++) {
            const size_t from = (size_t)tensor_offset(tensor, i) * size;
            char *at = (char *)s->outputs[t] + from;
            s->written[t][i] = inout ? memcmp(at, before + from, size) != 0 : !holds(at, size, from, s->run_poison);
            if (!inout && !s->written[t][i])
                memset(at, 0, size);
        }
    }
}

static double share_of(const struct judge_side *s, int step)
{
    const struct plan_step *p = &s->plan.steps[step];
    const double all = (double)p->grid[0] * p->grid[1] * p->grid[2];
    return all > 0 ? (double)json_int(json_array_get(s->counts, (size_t)step), "blocks", 0) / all : 0;
}

double sampled_share(const struct judge_side *s)
{
    double least = 1;
    for (int i = 0; i < s->plan.step_count; i++)
        if (!s->plan.steps[i].is_memset && share_of(s, i) < least)
            least = share_of(s, i);
    return least;
}

json_t *sampled_encode(const struct judge *j, const struct judge_side *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct plan_step *p = &s->plan.steps[i];
        if (!p->is_memset)
            json_array_append_new(list, json_pack("{s:s,s:I,s:I}", "kernel", p->kernel, "blocks", (json_int_t)json_int(json_array_get(s->counts, (size_t)i), "blocks", 0),
                                                  "of", (json_int_t)p->grid[0] * p->grid[1] * p->grid[2]));
    }
    json_t *doc = json_object();
    json_put(doc, "steps", list);
    json_put(doc, "seed", judge_u64(j->sample_seed));
    json_put_str(doc, "why", "all blocks would take more thread instructions than the emulator's budget");
    return doc;
}

/* Of the elements that so many blocks have to write, the least part that counts as all. Blocks at the edges of the grid are always among them. */
static double least_of_all(const struct judge_side *s)
{
    double least = 1;
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct plan_step *p = &s->plan.steps[i];
        const int64_t blocks = p->is_memset ? 0 : json_int(json_array_get(s->counts, (size_t)i), "blocks", 0);
        const int edges = 1 + (p->grid[0] > 1 ? 2 : 1) * (p->grid[1] > 1 ? 2 : 1) * (p->grid[2] > 1 ? 2 : 1);
        if (blocks && LEAST_OF_ALL - (double)edges / (double)blocks < least)
            least = LEAST_OF_ALL - (double)edges / (double)blocks;
    }
    return least > LEAST_OF_SHARE ? least : LEAST_OF_SHARE;
}

static int64_t blocks_least(const struct judge_side *s)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->plan.step_count; i++) {
        const int64_t blocks = s->plan.steps[i].is_memset ? INT64_MAX : json_int(json_array_get(s->counts, (size_t)i), "blocks", 0);
        least = blocks < least ? blocks : least;
    }
    return least;
}

static bool too_few(struct judge *j, struct judge_side *s, const char *phase, const char *why, int64_t a, int64_t b, const char *of, struct verdict *v, struct err *err)
{
    verdict_set(v, VERDICT_UNSUPPORTED_ON_SIM, phase, why, (long long)a, (long long)b, of);
    return side_verdict(j, s, v, err);
}

bool sampled_enough(struct judge *j, struct judge_side *s, const struct compare_result *results, const char *phase, struct verdict *v, struct err *err)
{
    const double share = sampled_share(s) * LEAST_OF_SHARE;
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role != OP_OUTPUT || (double)results[t].elements >= share * (double)tensor->elements)
            continue;
        return too_few(j, s, phase, "too large to be emulated whole, and a sample of the blocks wrote %lld of %lld elements of %s: too few to judge by",
                       results[t].elements, tensor->elements, tensor->spec->name, v, err);
    }
    int64_t all = 0, some = 0;
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        const struct tensor *tensor = &j->tensors[t];
        if (tensor->spec->role != OP_OUTPUT || !tensor->elements)
            continue;
        all += tensor->elements;
        some += results[t].elements;
        const int64_t place = results[t].unmet_place;
        if (place >= 0 && (double)blocks_least(s) * results[t].shortest_piece >= CHANCES)
            return too_few(j, s, phase, "too large to be emulated whole, and none of %2$lld blocks wrote element %1$lld of any row of %3$s", place, blocks_least(s),
                           tensor->spec->name, v, err);
    }
    if (s->sampled && (double)some < sampled_share(s) * least_of_all(s) * (double)all)
        return too_few(j, s, phase, "too large to be emulated whole, and a sample of the blocks wrote %lld of %lld elements of %s: too few to judge by", some, all,
                       "all outputs", v, err);
    return true;
}
