/*
 * The one way in which jobs ask for the emulator's estimates: of candidates of a shape, without judging them. For the search before the
 * first measurement (prior.c), and for what observed shapes would save (estimate.c).
 */
#include "server/jobs/internal.h"

bool estimates_ask(struct jobs *j, const struct shape *s, json_t *candidates, bool here, judge_cancelled *cancelled, void *ctx, json_t **ret, struct err *err)
{
    struct spawn_config spawn = j->config.spawn;
    cleanup(str) char *ops_dir = op_folder(s->op);
    cleanup(json) json_t *request = json_object();
    spawn.device = "sim";
    if (here)
        spawn.runner = NULL;
    if (spawn.ops_dir)
        spawn.ops_dir = ops_dir;
    json_put(request, "shape", shape_encode(s));
    json_put_str(request, "op_digest", s->op->digest.text);
    json_put(request, "candidates", json_incref(candidates));
    return spawn_estimates(&spawn, request, cancelled, ctx, ret, err);
}
