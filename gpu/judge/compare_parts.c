/*
 * The walk over a large tensor in parts. What they are is said by the tensor alone, and what they give is put together in their order, as
 * one walk would have given it: the first rule that was broken, the first of the worst elements. So the result does not depend on
 * how many threads there are. Sums of parts are added up part by part, of a tensor of one part element by element as ever.
 *
 * A tile does not end with a part: one that has too few elements at its end goes on with what is left at the end of the next.
 */
#include "gpu/judge/compare_walk.h"
#include "gpu/judge/crew.h"

#include <string.h>

#define PART_ELEMENTS ((int64_t)1 << 18)
#define PARTS_MOST 256

struct part { struct compare_result result; struct walk walk; };
struct parts { const struct walk *whole; int64_t elements; struct part *list; };

static void walk_part(void *ctx, int64_t at)
{
    const struct parts *x = ctx;
    struct part *p = &x->list[at];
    const int64_t from = at * x->elements;
    p->walk = *x->whole;
    p->result = *x->whole->ret;
    p->walk.ret = &p->result;
    compare_walk(&p->walk, from, from + crew_part_count(x->whole->c->tensor->elements, x->elements, at));
    if (p->walk.count >= TILE_LEAST)
        compare_tile(&p->walk);
}

static void add_sums(struct sums *to, const struct sums *s)
{
    to->n += s->n;
    to->reference += s->reference;
    to->error += s->error;
    to->baseline += s->baseline;
    to->rounding += s->rounding;
    to->between += s->between;
    to->drift += s->drift;
    to->bias += s->bias;
    to->inward += s->inward;
}

/* Which element is told: that of the first rule broken, else the first of the wrong class, else the first that is inexact or no tie's where none may be, else the worst. */
static void take_element(struct compare_result *to, const struct compare_result *r)
{
    to->has_element = r->has_element;
    memcpy(to->index, r->index, sizeof to->index);
    to->got = r->got;
    to->wanted = r->wanted;
}

static void add_result(struct walk *w, const struct walk *p)
{
    struct compare_result *to = w->ret;
    const struct compare_result *r = p->ret;
    const bool worse = p->worst_at >= 0 && (w->worst_at < 0 || r->worst > to->worst);
    const bool named = w->inexact || w->clear_of_ties, names = p->inexact || p->clear_of_ties;
    if (to->rule == COMPARE_NONE && (r->rule != COMPARE_NONE || (!to->wrong_class && (r->wrong_class || (!named && (names || worse))))))
        take_element(to, r);
    if (to->rule == COMPARE_NONE && r->rule != COMPARE_NONE) {
        to->rule = r->rule;
        to->code = r->code;
        memcpy(to->text, r->text, sizeof to->text);
    }
    if (worse) {
        to->worst = r->worst;
        w->worst_at = p->worst_at;
    }
    to->elements += r->elements;
    to->unchanged += r->unchanged;
    to->wrong_class += r->wrong_class;
    to->baseline_worst = larger(to->baseline_worst, r->baseline_worst);
    to->worst_tile = larger(to->worst_tile, r->worst_tile);
}

/* Whoever gathers more says here how it is added: what is forgotten would be a rule that large tensors need not keep. */
_Static_assert(offsetof(struct walk, count) - offsetof(struct walk, all) == sizeof(struct sums) + MAGNITUDES * sizeof(struct magnitude) + 11 * 8, "add_walk");
_Static_assert(sizeof(struct sums) == 9 * 8 && sizeof(struct magnitude) == 4 * 8, "add_sums, add_walk");

static void add_walk(struct walk *w, const struct walk *p)
{
    add_result(w, p);
    add_sums(&w->all, &p->all);
    for (int k = 0; k < MAGNITUDES; k++) {
        w->magnitudes[k].n += p->magnitudes[k].n;
        w->magnitudes[k].error += p->magnitudes[k].error;
        w->magnitudes[k].trusted += p->magnitudes[k].trusted;
        w->magnitudes[k].scale += p->magnitudes[k].scale;
    }
    w->max_error = larger(w->max_error, p->max_error);
    w->max_baseline = larger(w->max_baseline, p->max_baseline);
    w->max_reference = larger(w->max_reference, p->max_reference);
    w->max_between = larger(w->max_between, p->max_between);
    w->beyond += p->beyond;
    w->clear_of_ties += p->clear_of_ties;
    w->inexact += p->inexact;
    w->rare += p->rare;
    w->tiles += p->tiles;
    w->rare_tiles += p->rare_tiles;
    w->most_steps = p->most_steps > w->most_steps ? p->most_steps : w->most_steps;
}

/* What was left at the end of a part. */
static void add_rest(struct walk *w, const struct walk *p)
{
    const size_t bytes = (size_t)p->count * sizeof(double);
    memcpy(w->at + w->count, p->at, (size_t)p->count * sizeof *p->at);
    memcpy(w->reference + w->count, p->reference, bytes);
    memcpy(w->rounded + w->count, p->rounded, bytes);
    memcpy(w->got + w->count, p->got, bytes);
    memcpy(w->baseline + w->count, p->baseline, bytes);
    memcpy(w->between + w->count, p->between, bytes);
    w->count += p->count;
    if (w->count >= TILE_LEAST)
        compare_tile(w);
}

void compare_parts(struct walk *w)
{
    const struct tensor *t = w->c->tensor;
    /* whole tiles, where short rows are joined to tiles */
    const int64_t row = t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1, tile = crew_parts(TILE_LEAST, row) * row;
    const int64_t least = crew_parts(PART_ELEMENTS, tile), share = crew_parts(crew_parts(t->elements, tile), PARTS_MOST);
    struct parts x = {.whole = w, .elements = (least > share ? least : share) * tile};
    const int64_t count = crew_parts(t->elements, x.elements);
    const bool runs_on = w->c->written && row < TILE_LEAST;      /* where a tile ends is said by what was written before */
    if (count <= 1 || runs_on) {
        compare_walk(w, 0, t->elements);
    } else {
        cleanup(mem) void *memory = xarray((size_t)count, sizeof(struct part));
        x.list = memory;
        crew_run(count, walk_part, &x);
        for (int64_t i = 0; i < count; i++) {
            add_walk(w, &x.list[i].walk);
            add_rest(w, &x.list[i].walk);
        }
    }
    compare_tile(w);
}
