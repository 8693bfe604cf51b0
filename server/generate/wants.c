/* Which settings are worth an estimate: see prior.c. In batches, so that the later ones go where the earlier promise most. */
#include "server/generate/search.h"

#include <math.h>
#include <string.h>

#define WANTS_AT_ONCE 8
#define SPREAD_PART 0.6                  /* of all estimates: far from each other; the rest where they promise most */

struct wish { int space, index; };

static bool open_for(const struct space *sp, int p, const bool *taken)
{
    return isnan(sp->estimate[p]) && sp->fate[p] == UNTRIED && !taken[p];
}

/* The setting that is farthest from all that are estimated or asked for; spaces take turns by how little is known of them. */
static bool farthest(const struct search *s, bool *const *taken, struct wish *ret)
{
    double most = -1;
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        for (int p = 0; p < sp->count; p++) {
            double nearest = 1e6;
            if (!open_for(sp, p, taken[i]))
                continue;
            for (int q = 0; q < sp->count; q++)
                if (!isnan(sp->estimate[q]) || taken[i][q] || sp->fate[q] == AVOIDED)
                    nearest = fmin(nearest, distance(&sp->list[p], &sp->list[q], sp->t->param_count));
            nearest += rng_unit(s->in->seed, (uint64_t)i, (uint64_t)p) / 2;
            if (nearest > most) {
                most = nearest;
                *ret = (struct wish){i, p};
            }
        }
    }
    return most >= 0;
}

/* The setting that may turn out the fastest, taking what is unknown of it as a chance. */
static bool most_promising(const struct search *s, bool *const *taken, struct wish *ret)
{
    double least = INFINITY;
    for (int i = 0; i < s->space_count; i++) {
        const struct space *sp = &s->spaces[i];
        for (int p = 0; sp->prior && p < sp->count; p++)
            if (open_for(sp, p, taken[i]) && sp->prior[p] - sp->prior_deviation[p] < least) {
                least = sp->prior[p] - sp->prior_deviation[p];
                *ret = (struct wish){i, p};
            }
    }
    return isfinite(least);
}

/* The neighbours' best, and the defaults. */
static bool first_ones(const struct search *s, bool *const *taken, struct wish *ret)
{
    size_t k;
    json_t *item;
    json_array_foreach(s->in->neighbours, k, item)
        for (int i = 0; i < s->space_count; i++) {
            struct setting p;
            if (strcmp(s->spaces[i].t->name, json_str(item, "template", "")) || !template_find(s->spaces[i].t, json_object_get(item, "params"), &p))
                continue;
            int at = setting_nearest(&s->spaces[i], &p);
            if (at >= 0 && open_for(&s->spaces[i], at, taken[i])) {
                *ret = (struct wish){i, at};
                return true;
            }
        }
    for (int i = 0; i < s->space_count; i++)
        if (s->spaces[i].first >= 0 && open_for(&s->spaces[i], s->spaces[i].first, taken[i])) {
            *ret = (struct wish){i, s->spaces[i].first};
            return true;
        }
    return false;
}

void wants_list(const struct search *s, int most, json_t *to)
{
    bool *taken[TEMPLATE_MAX];
    int known = (int)json_array_size(s->in->estimates);
    for (int i = 0; i < s->space_count; i++)
        taken[i] = xarray((size_t)s->spaces[i].count + 1, sizeof *taken[i]);
    for (int n = 0; n < WANTS_AT_ONCE && known + n < most; n++) {
        struct wish w;
        bool spread = known + n < SPREAD_PART * most || !s->has_prior;
        if (!first_ones(s, taken, &w) && !(spread ? farthest(s, taken, &w) : most_promising(s, taken, &w)) && !farthest(s, taken, &w))
            break;
        const struct space *sp = &s->spaces[w.space];
        json_t *item = json_object();
        taken[w.space][w.index] = true;
        json_put_str(item, "template", sp->t->name);
        json_put(item, "params", template_params(sp->t, &sp->list[w.index]));
        json_put(item, "candidate", template_candidate(sp->t, &sp->list[w.index]));
        json_array_append_new(to, item);
    }
    for (int i = 0; i < s->space_count; i++)
        free(taken[i]);
}
