/* The table of generators. */
#include "server/generate/agent.h"

#include <string.h>

static const struct generator generators[] = {
    {"template", template_propose, template_wants, NULL},
    {"llm", NULL, NULL, agent_attempt},
    {"external", NULL, NULL, NULL},
};

const struct generator *generator_find(const char *name)
{
    for (size_t i = 0; i < sizeof generators / sizeof *generators; i++)
        if (!strcmp(generators[i].name, name))
            return &generators[i];
    return NULL;
}

void gen_proposal_done(struct gen_proposal *p)
{
    json_decref(p->candidate);
    json_decref(p->origin);
    *p = (struct gen_proposal){0};
}
