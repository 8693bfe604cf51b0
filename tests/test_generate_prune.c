/* What the template search does not try, by what compilers and judgements said of registers, spills and room, and what failed before. */
#include "tests/test_generate.h"

/* After two compile errors with a value, that value is not proposed again while there is anything else. */
static void test_avoids(void)
{
    struct shape s;
    cleanup(play) struct play p = {0};
    shape_of(GDN, &s);
    play(&p, &s, walls, 60);
    const char *const names[] = {"rows", "tile"};
    for (int t = 0; t < 2; t++) {                   /* each template has its own values to learn about */
        int failed = 0, tried = 0;
        for (int i = 0; i < p.count; i++)
            if (!strcmp(json_str(p.past[i].origin, "template", ""), names[t]))
                failed += p.past[i].verdict == VERDICT_COMPILE_ERROR, tried++;
        check(failed <= 2 && tried > 2);
    }
}

/* What spills is not followed by what needs yet more registers. */
static void test_spills(void)
{
    struct shape s;
    cleanup(play) struct play p = {0};
    shape_of(GDN, &s);
    for (int i = 0; i < 60; i++) {
        cleanup(gen_proposal) struct gen_proposal g = {0};
        struct err err = {0};
        struct gen_input in = input_of(&s, &p, 60);
        check(template_propose(&in, &g, &err));
        if (g.done)
            break;
        const json_t *params = json_object_get(g.origin, "params");
        for (int k = 0; k < p.count; k++) {
            const json_t *old = json_object_get(p.past[k].origin, "params");
            bool spilled = json_int(json_array_get(json_object_get(p.past[k].figures, "resources"), 0), "spill_bytes", 0) > 0;
            bool more = json_int(params, "ROWS", 0) >= json_int(old, "ROWS", 0) && json_int(params, "LANES", 0) <= json_int(old, "LANES", 0) &&
                        json_int(params, "WARPS", 0) == json_int(old, "WARPS", 0) && json_int(params, "VEC", 0) == json_int(old, "VEC", 0) &&
                        json_int(params, "CACHE", 0) == json_int(old, "CACHE", 0);
            check(!(spilled && more));
        }
        judge(&p, &g, bowl);
        double held = (double)json_int(params, "ROWS", 0) / (double)json_int(params, "LANES", 1);
        json_t *kernel = json_array_get(json_object_get(p.keep[p.count - 1][2], "resources"), 0);
        json_put_int(kernel, "spill_bytes", held > 0.25 ? 64 : 0);
    }
    check(p.count > 5);
}

/*
 * The compiler's figures come with the estimates, before any time of a card: a setting that spills is not tried, nor what costs more
 * registers, though the estimate likes it best.
 */
static void test_static_resources(void)
{
    struct shape s;
    cleanup(play) struct play p = {0};
    shape_of(GDN, &s);
    struct gen_input in = input_of(&s, &p, 20);
    struct err err = {0};
    cleanup(json) json_t *every = NULL, *estimates = json_array();
    json_t *item;
    size_t i;
    int spilling = 0, tried = 0;
    bool first = true;
    check(template_every(&in, &every, &err));
    json_array_foreach(every, i, item) {
        const json_t *params = json_object_get(item, "params");
        const bool rows = strcmp(json_str(item, "template", ""), "rows") == 0;
        /* one line of the space is estimated, and the best of it spills */
        if (!rows || json_int(params, "LANES", 0) != 16 || json_int(params, "WARPS", 0) != 4 || json_int(params, "VEC", 0) != 4 || json_int(params, "CACHE", 0) != 0)
            continue;
        const int64_t held = json_int(params, "ROWS", 0);
        json_t *one = json_deep_copy(item);
        json_put_num(one, "ns", (double)(9000 - 1000 * held));
        json_put(one, "resources", json_pack("[{s:s,s:i,s:I}]", "kernel", "gdn_rows", "registers", 200, "spill_bytes", (json_int_t)(held >= 4 ? 64 : 0)));
        json_array_append_new(estimates, one);
        spilling += held >= 4;
    }
    check(spilling >= 1 && json_array_size(estimates) > (size_t)spilling);
    in.estimates = estimates;
    for (; tried < 20; tried++) {
        cleanup(gen_proposal) struct gen_proposal g = {0};
        in.past = p.past, in.past_count = p.count;
        check(template_propose(&in, &g, &err));
        if (g.done)
            break;
        const json_t *params = json_object_get(g.origin, "params");
        const bool rows = strcmp(json_str(g.origin, "template", ""), "rows") == 0;
        check(!(rows && json_int(params, "ROWS", 0) >= 4 && json_int(params, "LANES", 0) <= 16 && json_int(params, "WARPS", 0) == 4 &&
                json_int(params, "VEC", 0) == 4 && json_int(params, "CACHE", 0) == 0));
        check(!rows || !first || json_int(params, "ROWS", 0) == 2);      /* the best that does not spill comes first */
        first = first && !rows;
        judge(&p, &g, bowl);
    }
    check(tried > 3);
}

/* Nor what costs more registers than a setting a block of which fits no multiprocessor, whoever says so: the compiler or a judgement. */
static void test_no_room(void)
{
    struct shape s;
    shape_of(GDN, &s);
    for (int by_judgement = 0; by_judgement < 2; by_judgement++) {
        cleanup(play) struct play p = {0};
        cleanup(json) json_t *estimates = json_array(), *full = json_pack("{s:i,s:i,s:i,s:i,s:i}", "ROWS", 2, "LANES", 16, "WARPS", 2, "VEC", 4, "CACHE", 1);
        struct gen_past failed = {"cand_full", NULL, NULL, VERDICT_RESOURCE_LIMIT, 0, 0, NULL, NULL, NULL};
        cleanup(json) json_t *document = json_object(), *origin = json_pack("{s:s,s:O}", "template", "rows", "params", full), *figures = json_object();
        failed.candidate = document, failed.origin = origin, failed.figures = figures;
        if (!by_judgement)
            json_array_append_new(estimates, json_pack("{s:s,s:O,s:n,s:s}", "template", "rows", "params", full, "ns", "why", "resource_limit in assemble"));
        int rows = 0;
        for (int tries = 0; tries < 60; tries++) {
            cleanup(gen_proposal) struct gen_proposal g = {0};
            struct err err = {0};
            struct gen_past past[HISTORY];
            past[0] = failed;
            memcpy(past + by_judgement, p.past, (size_t)p.count * sizeof *past);
            struct gen_input in = input_of(&s, &p, 60);
            in.estimates = estimates;
            in.past = past, in.past_count = p.count + by_judgement;
            check(template_propose(&in, &g, &err));
            if (g.done)
                break;
            const json_t *params = json_object_get(g.origin, "params");
            const bool of_rows = strcmp(json_str(g.origin, "template", ""), "rows") == 0;
            rows += of_rows;
            check(!(of_rows && json_int(params, "ROWS", 0) >= 2 && json_int(params, "LANES", 0) <= 16 && json_int(params, "WARPS", 0) == 2 &&
                    json_int(params, "VEC", 0) == 4 && json_int(params, "CACHE", 0) == 1));
            judge(&p, &g, bowl);
        }
        check(rows > 3);
    }
}

int main(void)
{
    ops_open();
    test_avoids();
    test_spills();
    test_static_resources();
    test_no_room();
    op_set_done(&ops);
    return test_done();
}
