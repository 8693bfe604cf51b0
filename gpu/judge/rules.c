#include "gpu/judge/rules.h"

#include <stdarg.h>
#include <string.h>

static const struct { int number; enum rule_outcome worst; const char *what; } table[RULES] = {
#define X(number, name, worst, what) [RULE_##name] = {number, worst, what},
    RULES_TABLE(X)
#undef X
};

int rule_number(enum rule r) { return table[r].number; }
const char *rule_text(enum rule r) { return table[r].what; }

const char *rule_outcome_name(enum rule_outcome o)
{
    static const char *const names[] = {[RULE_NOT_DONE] = "not_done", [RULE_OK] = "ok", [RULE_FLAG] = "flag", [RULE_REJECT] = "reject"};
    return names[o];
}

void rules_done(struct rules *r, enum rule rule)
{
    if (r->list[rule].outcome == RULE_NOT_DONE)
        r->list[rule].outcome = RULE_OK, r->list[rule].text[0] = 0;
}

void rules_find(struct rules *r, enum rule rule, enum rule_outcome outcome, const char *fmt, ...)
{
    struct rule_finding *f = &r->list[rule];
    va_list ap;
    BUG_ON(outcome > table[rule].worst);
    if (outcome <= f->outcome)
        return;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    f->outcome = outcome;
}

void rules_skip(struct rules *r, enum rule rule, const char *why)
{
    struct rule_finding *f = &r->list[rule];
    if (f->outcome == RULE_NOT_DONE && !f->text[0])
        snprintf(f->text, sizeof f->text, "%s", why);
}

void rules_skip_rest(struct rules *r, const char *why)
{
    for (int i = 0; i < RULES; i++)
        rules_skip(r, (enum rule)i, why);
}

void rules_figure(struct rules *r, enum rule rule, const char *name, double value)
{
    struct rule_finding *f = &r->list[rule];
    for (int i = 0; i < f->figure_count; i++)
        if (strcmp(f->figures[i].name, name) == 0) {
            f->figures[i].value = value;
            return;
        }
    BUG_ON(f->figure_count == RULE_FIGURES);
    f->figures[f->figure_count].name = name;
    f->figures[f->figure_count++].value = value;
}

void rules_merge(struct rules *to, const struct rules *from)
{
    for (int i = 0; i < RULES; i++) {
        const struct rule_finding *f = &from->list[i];
        struct rule_finding *t = &to->list[i];
        if (f->outcome > t->outcome || (f->outcome == t->outcome && !t->text[0])) {
            t->outcome = f->outcome;
            snprintf(t->text, sizeof t->text, "%s", f->text);
        }
        for (int k = 0; k < f->figure_count; k++)
            rules_figure(to, (enum rule)i, f->figures[k].name, f->figures[k].value);
    }
}

enum rule_outcome rules_worst(const struct rules *r)
{
    enum rule_outcome worst = RULE_NOT_DONE;
    for (int i = 0; i < RULES; i++)
        worst = r->list[i].outcome > worst ? r->list[i].outcome : worst;
    return worst;
}

const struct rule_finding *rules_rejection(const struct rules *r, enum rule *ret_rule)
{
    for (int i = 0; i < RULES; i++)
        if (r->list[i].outcome == RULE_REJECT) {
            *ret_rule = (enum rule)i;
            return &r->list[i];
        }
    return NULL;
}

json_t *rules_encode(const struct rules *r)
{
    json_t *list = json_array();
    for (int i = 0; i < RULES; i++) {
        const struct rule_finding *f = &r->list[i];
        json_t *one = json_object();
        json_put_int(one, "rule", table[i].number);
        json_put_str(one, "what", table[i].what);
        json_put_str(one, "outcome", rule_outcome_name(f->outcome));
        if (f->text[0])
            json_put_str(one, f->outcome == RULE_NOT_DONE ? "why" : "found", f->text);
        if (f->figure_count) {
            json_t *figures = json_object();
            for (int k = 0; k < f->figure_count; k++)
                json_put_num(figures, f->figures[k].name, f->figures[k].value);
            json_put(one, "figures", figures);
        }
        json_array_append_new(list, one);
    }
    return list;
}
