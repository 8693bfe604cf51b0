/*
 * Where the emulator ran a sample of the blocks (gpu/ptx/sample.c), outputs are there in part. What was stored the emulator says, by
 * element, whatever the value; only that is compared, and it must be as much as so many blocks have to store: what they do not store
 * themselves must not pass for left out.
 *
 * How much that is: blocks that run in any case (the first, the corners) are known. What they have not stored of the elements that the
 * reference changes is the others' work, of which n of N were drawn: they must have stored n / N of it. Blocks do not all store alike, so
 * what was drawn spreads; how far, the drawn ones themselves say (the sum of their squares), and it is allowed up to a limit. A kernel that
 * leaves out a part of its rows, or of each row, lacks that part here. Nor may a place in the rows be one that no block writes.
 */
#include "gpu/judge/internal.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define LEAST_PART 0.98         /* of what must be there */
#define SPREADS 3.0             /* standard deviations less are chance */
#define MOST_SPREAD 0.15        /* and never more than this */
#define FEW_DRAWN 64            /* so few draws have no spread to speak of: alike they must be */
#define LEAST_ROWS 8            /* of clusters, that are then drawn as one: gpu/ptx/sample.c */
#define CHANCES 16              /* that any place of a row had to be written: e^-16 that an honest plan misses it */
#define LEAST_DRAWN 40          /* draws, where no smaller shape was run whole */

void sampled_forget(struct judge_side *s)
{
    for (int t = 0; t < OP_MAX_TENSORS; t++) {
        free(s->written[t]);
        s->written[t] = NULL;
    }
}

bool sampled_take(struct judge *j, struct judge_side *s, const json_t *answer, struct err *err)
{
    sampled_forget(s);
    s->sampled = s->run.role == SANDBOX_RUN_SIM && json_bool(answer, "sampled", false);
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        if (j->op->tensors[t].role == OP_INPUT)
            continue;
        s->written[t] = xalloc_large((size_t)j->tensors[t].elements + 1);
        if (!child_take_blob(&j->watch, &s->run, s->run_deadline_ns, "tags", s->written[t], (size_t)j->tensors[t].elements, err))
            return false;
    }
    if (!s->exploring || !s->stores) {
        json_decref(s->stores);
        s->stores = json_incref(json_object_get(answer, "stores"));
    }
    return true;
}

void sampled_clear(struct judge *j, struct judge_side *s)
{
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        const struct tensor *tensor = &j->tensors[t];
        const size_t size = (size_t)dtype_bytes(tensor->dtype);
        for (int64_t i = 0; i < tensor->elements && tensor->spec->role == OP_OUTPUT; i++)
            if (!s->written[t][i])
                memset((char *)s->outputs[t] + (size_t)tensor_offset(tensor, i) * size, 0, size);
    }
}

/* ---- how much was stored ---- */

static bool changes(const struct tensor *t, const char *before, const double *reference, int64_t i)
{
    const size_t size = (size_t)dtype_bytes(t->dtype);
    char now[8];
    if (!before)
        return true;
    dtype_store(t->dtype, now, 0, reference[i]);
    return memcmp(now, before + (size_t)tensor_offset(t, i) * size, size) != 0;
}

void sampled_count(const struct judge *j, int t, int regime, const uint8_t *written, struct sampled_cover *ret)
{
    const struct tensor *tensor = &j->tensors[t];
    const struct judge_regime *g = &j->regimes[regime];
    const char *before = tensor->spec->role == OP_INOUT ? g->inputs[t] : NULL;
    *ret = (struct sampled_cover){.changed = 0};
    for (int64_t i = 0; i < tensor->elements; i++) {
        ret->stored += written[i] != 0;
        if (written[i] < DEVICE_TAGS)
            ret->stored_by[written[i]]++;
        if (!changes(tensor, before, g->reference[t], i))
            continue;
        ret->changed++;
        if (written[i] < DEVICE_TAGS)
            ret->by_tag[written[i]]++;
    }
}

static int64_t count_of(const struct judge_side *s, int step, const char *what)
{
    return json_int(json_array_get(s->counts, (size_t)step), what, 0);
}

static int64_t blocks_of(const struct plan_step *p)
{
    return (int64_t)p->grid[0] * p->grid[1] * p->grid[2];
}

/* Of a step: blocks that were drawn and ran, of how many; drawn_of 0: it was not sampled. */
struct share { int64_t drawn, drawn_of; double part; };
static struct share share_of(const struct judge_side *s, int step)
{
    struct share r = {count_of(s, step, "drawn_blocks"), count_of(s, step, "drawn_of"), 0};
    if (r.drawn_of > 0)
        r.part = r.drawn < r.drawn_of ? (double)r.drawn / (double)r.drawn_of : 1;
    else if (blocks_of(&s->plan.steps[step]) > 0)       /* all that had what they read */
        r.part = (double)count_of(s, step, "blocks") / (double)blocks_of(&s->plan.steps[step]);
    return r;
}

/* Standard deviation of what the drawn blocks stored, in parts of it; a sample without replacement, of whole rows where it is one of rows. */
static double spread_of(const struct judge_side *s, int step, int t, const struct share *share)
{
    const json_t *pair = json_array_get(json_array_get(s->stores, (size_t)step), (size_t)t);
    const struct plan_step *p = &s->plan.steps[step];
    const double cluster = (p->cluster[0] ? p->cluster[0] : 1) * (double)(p->cluster[1] ? p->cluster[1] : 1) * (p->cluster[2] ? p->cluster[2] : 1);
    const double bytes = json_number_value(json_array_get(pair, 0)), squares = json_number_value(json_array_get(pair, 1));
    const double n = (double)share->drawn / cluster, mean = n > 0 ? bytes / n : 0;
    const bool by_rows = step + 1 < s->plan.step_count && (int64_t)p->grid[1] * p->grid[2] >= LEAST_ROWS;
    const double wide = by_rows ? (double)p->grid[0] / (p->cluster[0] ? p->cluster[0] : 1) : 1;
    if (!(mean > 0) || !(n > 1))
        return 0;
    const double variance = squares / n - mean * mean;
    return variance > 0 ? sqrt(variance * wide / n * (1 - share->part)) / mean : 0;
}

/* What all blocks that are not known store, by what those that were drawn did; *ret_known: what is known. *ret_spread: how far it may be off. */
static double expected(const struct judge_side *s, int t, const int64_t by_tag[DEVICE_TAGS], double *ret_known, double *ret_spread, double *ret_draws)
{
    double sum = 0, squares = 0;
    *ret_known = 0, *ret_draws = INFINITY;
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct share share = share_of(s, i);
        const double sure = (double)by_tag[DEVICE_TAG(i, 0)], drawn = (double)by_tag[DEVICE_TAG(i, 1)];
        if (s->plan.steps[i].is_memset)
            continue;
        if (!share.drawn_of && share.part < 1 && share.part > 0) {
            sum += sure / share.part;
            continue;
        }
        *ret_known += sure;
        if (!(drawn > 0) || !(share.part > 0))
            continue;
        const double all = drawn / share.part, spread = all * spread_of(s, i, t, &share);
        sum += all;
        squares += spread * spread;
        *ret_draws = fmin(*ret_draws, (double)share.drawn);
    }
    *ret_spread = sum > 0 ? sqrt(squares) / sum : 0;
    return sum;
}

/*
 * Which elements change is a matter of data: of one row all, of another few (of small integers turned by right angles many stay), and the rows
 * of some blocks say little of those of others. Where what all blocks would store lacks fewer elements of the whole tensor than may be lacking
 * of those that change, none of that matters.
 */
static bool stores_all(const struct judge_side *s, int t, const struct tensor *tensor, const struct sampled_cover *c)
{
    double known, spread, draws;
    const double found = expected(s, t, c->stored_by, &known, &spread, &draws);
    return (double)tensor->elements - known - found <= (1 - LEAST_PART) * (double)c->changed;
}

static bool refuse(struct judge *j, struct judge_side *s, const char *phase, struct verdict *v, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));
static bool refuse(struct judge *j, struct judge_side *s, const char *phase, struct verdict *v, struct err *err, const char *fmt, ...)
{
    char why[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    verdict_set(v, VERDICT_UNSUPPORTED_ON_SIM, phase, "too large to be emulated whole, and a sample of the blocks %s: too few to judge by", why);
    return side_verdict(j, s, v, err);
}

/* ---- what a sample rests on ---- */

/* Blocks that ended because what they read nobody had written. */
static int64_t left_out(const struct judge_side *s)
{
    int64_t sum = 0;
    for (int i = 0; i < s->plan.step_count; i++)
        sum += count_of(s, i, "left_out_blocks");
    return sum;
}

static int64_t least_drawn(const struct judge_side *s)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct share share = share_of(s, i);
        if (share.drawn_of && share.drawn < share.drawn_of && share.drawn < least)
            least = share.drawn;
    }
    return least;
}

/* A sample stands alone where no smaller shape of the same plan ran whole: then it must be large, and none of it wanting. */
static bool sampled_stands(struct judge *j, struct judge_side *s, const char *phase, struct verdict *v, struct err *err)
{
    if (!s->sampled || smaller_shown(j))
        return true;
    const char *why = json_str(j->smaller, "why", "none was tried");
    if (left_out(s) > 0)
        return refuse(j, s, phase, v, err, "does without %lld blocks that read what others write, and at no smaller shape all could run (%.80s)", (long long)left_out(s), why);
    if (least_drawn(s) < LEAST_DRAWN)
        return refuse(j, s, phase, v, err, "draws %lld, where at no smaller shape all could run (%.80s)", (long long)least_drawn(s), why);
    return true;
}

/* A place of the rows that none of the blocks writes. */
static bool all_places(struct judge *j, struct judge_side *s, int t, const struct compare_result *r, const char *phase, struct verdict *v, struct err *err)
{
    int64_t blocks = INT64_MAX;
    for (int i = 0; i < s->plan.step_count; i++)
        if (!s->plan.steps[i].is_memset && count_of(s, i, "blocks") < blocks)
            blocks = count_of(s, i, "blocks");
    if (j->op->tensors[t].role != OP_OUTPUT || r->unmet_place < 0 || (double)blocks * r->shortest_piece < CHANCES)
        return true;
    return refuse(j, s, phase, v, err, "of %lld stores element %lld of no row of %s", (long long)blocks, (long long)r->unmet_place, j->op->tensors[t].name);
}

bool sampled_enough(struct judge *j, struct judge_side *s, const struct compare_result *results, const struct sampled_cover *covers, const char *phase,
                    struct verdict *v, struct err *err)
{
    for (int t = 0; t < j->op->tensor_count && s->sampled; t++) {
        const struct tensor *tensor = &j->tensors[t];
        const struct sampled_cover *c = &covers[t];
        double known, spread, draws;
        if (tensor->spec->role != OP_INPUT)
            STEP(all_places(j, s, t, &results[t], phase, v, err));
        if (tensor->spec->role == OP_INPUT || !tensor->elements || (!c->changed && tensor->spec->role == OP_INOUT))
            continue;
        const double found = expected(s, t, c->by_tag, &known, &spread, &draws), rest = (double)c->changed - known;
        const double chance = draws < FEW_DRAWN ? 0 : fmin(SPREADS * spread, MOST_SPREAD);
        if (c->stored && stores_all(s, t, tensor, c))
            continue;
        if (!c->stored || (rest > (1 - LEAST_PART) * (double)c->changed && found < (LEAST_PART - chance) * rest))
            return refuse(j, s, phase, v, err, "stored %lld elements of %s, by which all would store %.0f of the %lld that change", (long long)c->stored, tensor->spec->name,
                          known + found, (long long)c->changed);
    }
    return sampled_stands(j, s, phase, v, err);
}

json_t *sampled_encode(const struct judge *j, const struct judge_side *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->plan.step_count; i++) {
        const struct plan_step *p = &s->plan.steps[i];
        if (!p->is_memset)
            json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:I,s:I}", "kernel", p->kernel, "blocks", (json_int_t)count_of(s, i, "blocks"), "of", (json_int_t)blocks_of(p),
                                                  "drawn", (json_int_t)count_of(s, i, "drawn_blocks"), "drawn_of", (json_int_t)count_of(s, i, "drawn_of")));
    }
    json_t *doc = json_object();
    json_put(doc, "steps", list);
    json_put(doc, "seed", judge_u64(j->sample_seed));
    json_put_str(doc, "why", "all blocks would take more thread instructions than the emulator's budget");
    json_put(doc, "smaller", j->smaller ? json_incref(j->smaller) : json_null());
    return doc;
}
