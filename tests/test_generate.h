/* What the tests of the template search share: costs that are made up, and a history that is played with them. */
#pragma once
#include "server/generate/generate.h"

#include "core/rng.h"
#include "tests/test.h"

#include <math.h>

static struct op_set ops;

#define HISTORY 400
struct play {
    struct gen_past past[HISTORY];
    char ids[HISTORY][16];
    int count;
    double best;
    json_t *keep[HISTORY][3];
};

static void play_done(struct play *p)
{
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < 3; k++)
            json_decref(p->keep[i][k]);
    memset(p, 0, sizeof *p);
}
DEFINE_CLEANUP(play, struct play, play_done(it))

static void shape_of(const char *text, struct shape *s)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    struct faults f = {0};
    check(json_parse(text, strlen(text), &doc, &err));
    check(shape_parse(&ops, doc, "sm_90a", "", s, &f));
}

/* What a setting costs: its time in ns, 0 with a verdict where it fails. */
typedef double cost_fn(const json_t *params, enum verdict_code *ret_verdict);

static double log_param(const json_t *params, const char *name)
{
    return log2(fmax((double)json_int(params, name, 1), 0.5));
}

/* A bowl with a preferred place, an interaction and a ripple of 1 %. */
static double bowl(const json_t *params, enum verdict_code *ret_verdict)
{
    (void)ret_verdict;
    double rows = log_param(params, "ROWS"), lanes = log_param(params, "LANES"), warps = log_param(params, "WARPS"), vec = log_param(params, "VEC");
    double cache = (double)json_int(params, "CACHE", 0);
    double z = 0.06 * pow(rows - 2, 2) + 0.05 * pow(lanes - 3, 2) + 0.03 * pow(warps - 1, 2) + 0.12 * (2 - vec) + 0.04 * pow(cache - 1, 2) + 0.05 * (rows + lanes - 5) * (rows + lanes - 5);
    double ripple = rng_unit(9, 0, (uint64_t)(rows * 1000 + lanes * 100 + warps * 10 + vec * 3 + cache)) * 0.01;
    return 3000 * exp(z + ripple);
}

/* A roofline with walls: too few loads in flight is latency, too many registers spill and are slow, some fail. */
static double walls(const json_t *params, enum verdict_code *ret_verdict)
{
    double rows = (double)json_int(params, "ROWS", 1), lanes = (double)json_int(params, "LANES", 1), warps = (double)json_int(params, "WARPS", 1);
    double vec = (double)json_int(params, "VEC", 1), held = rows * 128 / lanes;
    if (json_int(params, "CACHE", 0) == 2) {
        *ret_verdict = VERDICT_COMPILE_ERROR;
        return 0;
    }
    double latency = 2000 + 6000 / (held + vec), issue = 40 * held / vec + 150 * log2(lanes), blocks = 100 * fabs(log2(warps) - 2);
    double spill = held > 64 ? 3000 : 0;
    return fmax(latency, 1500 + issue) + blocks + spill + (json_int(params, "CACHE", 0) ? 0 : 60);
}

static struct gen_input input_of(const struct shape *s, const struct play *p, int left)
{
    return (struct gen_input){.op = s->op, .shape = s, .past = p->past, .past_count = p->count, .baseline_ns = 6000, .candidates_left = left, .seed = 11};
}

/* Judges a proposal by the cost function and appends it to the history. */
static void judge(struct play *p, struct gen_proposal *g, cost_fn *cost)
{
    int i = p->count++;
    enum verdict_code verdict = VERDICT_OK;
    double ns = cost(json_object_get(g->origin, "params"), &verdict);
    snprintf(p->ids[i], sizeof p->ids[i], "cand_%d", i);
    p->keep[i][0] = json_incref(g->candidate);
    p->keep[i][1] = json_incref(g->origin);
    p->keep[i][2] = json_pack("{s:s,s:[{s:s,s:i,s:i}]}", "bound", "latency", "resources", "kernel", "k", "registers", 48, "spill_bytes", 0);
    p->past[i] = (struct gen_past){p->ids[i], p->keep[i][0], p->keep[i][1], verdict, ns, ns > 0 ? 6000 / ns : 0, p->keep[i][2], NULL, NULL};
    if (ns > 0 && (!p->best || ns < p->best))
        p->best = ns;
}

/* Plays up to `tries` rounds; true while the generator goes on. */
static bool play(struct play *p, const struct shape *s, cost_fn *cost, int tries)
{
    for (int i = 0; i < tries; i++) {
        cleanup(gen_proposal) struct gen_proposal g = {0};
        struct err err = {0};
        struct gen_input in = input_of(s, p, tries - i);
        check(template_propose(&in, &g, &err));
        if (g.done) {
            check(*g.reason);
            return false;
        }
        struct faults f = {0};
        cleanup(candidate) struct candidate c = {0};
        check(candidate_parse(g.candidate, "", &c, &f));
        struct plan plan;
        char why[256];
        check(plan_resolve(&c, s, &plan, why, sizeof why));
        for (int k = 0; k < p->count; k++)
            check(!json_equal(json_object_get(p->past[k].origin, "params"), json_object_get(g.origin, "params")));
        check(strlen(json_str(g.candidate, "notes", "")) > 20);
        check(json_str(g.origin, "move", NULL) && json_str(g.origin, "template", NULL));
        if (getenv("VERBOSE"))
            fprintf(stderr, "%3d %-8s %s\n", p->count, json_str(g.origin, "move", ""), json_str(g.candidate, "notes", ""));
        judge(p, &g, cost);
        if (getenv("VERBOSE"))
            fprintf(stderr, "             %.0f\n", p->past[p->count - 1].time_ns);
    }
    return true;
}

#define GDN "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":4,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}"

static void ops_open(void)
{
    struct err err = {0};
    hash_init();
    if (!op_set_load(OPS_DIR, &ops, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}
