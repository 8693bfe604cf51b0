/*
 * Shapes from the field: counts add up and survive a restart; what they would save is told with what it is based on; jobs and the shapes
 * of a job are taken in that order; what nobody knows is estimated on the emulator, and stays an estimate.
 */
#include "tests/test_jobs.h"

#include "server/jobs/observed.h"

#include <math.h>

static const struct observed_limits limits = {.lines = 100, .shapes = 8};

static bool add_lines(struct world *w, const char *text, json_t **ret, struct faults *f, struct err *err)
{
    cleanup(str) char *copy = xstrdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    return observed_add(w->store, &w->ops, "sm_90a", copy, strlen(copy), &limits, ret, f, err);
}

static json_t *add(struct world *w, const char *text)
{
    json_t *doc = NULL;
    struct faults f = {0};
    struct err err = {0};
    must(add_lines(w, text, &doc, &f, &err), &err);
    return doc;
}

static json_t *rank(struct world *w)
{
    json_t *list = NULL;
    struct err err = {0};
    must(observed_rank(w->store, &w->ops, NULL, 100, &list, &err), &err);
    return list;
}

static const json_t *order_at(const json_t *list, size_t i)
{
    return json_object_get(json_array_get(list, i), "order");
}

static int64_t rows_at(const json_t *list, size_t i)
{
    return json_int(json_object_get(json_object_get(json_array_get(list, i), "shape"), "axes"), "R", 0);
}

static void counts_add_up(struct world *w)
{
    cleanup(json) json_t *first = add(w, "{'op':'scale','axes':{'R':2,'N':1000},'count':10}\n\n{'op':'scale','axes':{'R':2,'N':1000}}\r\n"
                                         "{'op':'nowhere','axes':{}}\n{'op':'scale','axes':{'R':2,'N':6}}\n{'op':'scale','axes':{'R':4,'N':1000},'count':3}");
    check_int(json_int(first, "lines", 0), 6);
    check_int(json_int(first, "taken", 0), 3);
    check_int(json_int(first, "shapes", 0), 2);
    check_int(json_int(first, "new", 0), 2);
    check_int(json_int(first, "skipped", 0), 2);
    const json_t *why = json_array_get(json_object_get(first, "skipped_because"), 0);
    check_int(json_int(why, "line", 0), 4);
    check(strstr(json_str(why, "detail", ""), "nowhere") || strstr(json_str(why, "detail", ""), "operator"));
    cleanup(json) json_t *second = add(w, "{'op':'scale','axes':{'R':4,'N':1000},'count':100}");
    check_int(json_int(second, "new", 9), 0);
    cleanup(json) json_t *list = rank(w);
    check_int(json_array_size(list), 2);
    check_int(rows_at(list, 0), 4);
    check_int(json_int(json_array_get(list, 0), "count", 0), 103);
    check_int(json_int(json_array_get(list, 1), "count", 0), 11);
    /* nothing is known but the bytes: 2 x 4 x 1000 x 2 of them */
    check_str(json_str(order_at(list, 0), "based_on", ""), "byte_floor");
    check(json_num(order_at(list, 0), "each_ns", 0) == 16000 / OBSERVED_NOMINAL_BYTES_PER_NS);
    check(json_num(order_at(list, 0), "saving_ns", 0) == 103 * 16000 / OBSERVED_NOMINAL_BYTES_PER_NS);
}

/* A log that was cut off in its last line, or with a line of something else in it, is one all the same. */
static void bad_lines_are_left_out(struct world *w)
{
    cleanup(json) json_t *doc = add(w, "\xef\xbb\xbf{'op':'scale','axes':{'R':4,'N':1000}}\nnot json\n{'op':'scale','axes':{'R':4,'N':1000},'more':1}\n{'op':'sca");
    check_int(json_int(doc, "lines", 0), 4);
    check_int(json_int(doc, "taken", 0), 1);
    check_int(json_int(doc, "skipped", 0), 3);
    const json_t *why = json_array_get(json_object_get(doc, "skipped_because"), 2);
    check_int(json_int(why, "line", 0), 4);
    check(strstr(json_str(why, "detail", ""), "is no JSON"));
    for (int bad = 50; bad <= 51; bad++) {
        cleanup(buf) struct buf many = {0};
        cleanup(json) json_t *told = NULL;
        struct faults f = {0};
        struct err err = {0};
        buf_str(&many, "{'op':'scale','axes':{'R':4,'N':1000}}\n");
        for (int i = 0; i < bad; i++)
            buf_str(&many, "{\n");
        check(add_lines(w, buf_cstr(&many), &told, &f, &err) == (bad == 50));
        check_str(bad == 50 ? "/1" : f.list[0].pointer, "/1");
    }
}

static void bad_lines_take_nothing(struct world *w)
{
    static const struct { const char *text, *pointer; enum err_code code; } rows[] = {
        {"{'op':'nowhere','axes':{}}\nnot json\n", "/1", ERR_INVALID},
        {"[]", "/0", ERR_INVALID},
        {"3", "/0", ERR_INVALID},
        {"{'op':'scale'}", "/0", ERR_INVALID},
        {"{'axes':{}}", "/0", ERR_INVALID},
        {"{'op':'scale','axes':{'R':8,'N':8},'more':1}", "/0/more", ERR_INVALID},
        {"{'op':'scale','axes':{'R':8,'N':8},'count':0}", "/0/count", ERR_INVALID},
        {"{'op':'scale','axes':{'R':8,'N':8},'count':-1}", "/0/count", ERR_INVALID},
        {"{'op':'scale','axes':{'R':8,'N':8},'count':1.5}", "/0/count", ERR_INVALID},
        {"{'op':'scale','axes':{'R':8,'N':8},'count':2000000000000000000}", "/0/count", ERR_INVALID},
    };
    cleanup(buf) struct buf many = {0}, wide = {0};
    json_t *doc = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct faults f = {0};
        struct err err = {0};
        check(!add_lines(w, rows[i].text, &doc, &f, &err));
        check_int(err.code, rows[i].code);
        check_str(f.list[0].pointer, rows[i].pointer);
    }
    struct faults f = {0};
    struct err err = {0};
    for (int i = 0; i < 101; i++)
        buf_str(&many, "\n");
    check(!add_lines(w, buf_cstr(&many), &doc, &f, &err) && err.code == ERR_TOO_LARGE);
    for (int i = 1; i < 8; i++)
        buf_fmt(&wide, "{'op':'scale','axes':{'R':%d,'N':16}}\n", i);
    check(!add_lines(w, buf_cstr(&wide), &doc, &f, &err) && err.code == ERR_BUSY);          /* 2 are kept, 8 may be */
    cleanup(json) json_t *list = rank(w);
    check_int(json_array_size(list), 2);
    cleanup(json) json_t *most = add(w, "{'op':'scale','axes':{'R':2,'N':1000},'count':1125899906842624}\n{'op':'scale','axes':{'R':2,'N':1000},'count':1125899906842624}");
    cleanup(json) json_t *full = rank(w);
    check(json_int(json_array_get(full, 0), "count", 0) == OBSERVED_COUNT_MAX);             /* it stops there, and does not wrap */
}

/* Which jobs began in which order, out of their events. */
static void began(struct world *w, const char *const *ids, int count, int *order)
{
    for (int i = 0; i < count; i++) {
        cleanup(json) json_t *events = events_of(w, ids[i]);
        order[i] = 0;
        json_t *e;
        size_t k;
        json_array_foreach(events, k, e)
            if (strcmp(json_str(e, "type", ""), "candidate.proposed") == 0 && !order[i])
                order[i] = (int)json_int(e, "id", 0);
    }
}

static void jobs_go_by_what_they_save(struct world *w)
{
    struct err err = {0};
    int64_t gone;
    must(observed_clear(w->store, &gone, &err), &err);
    check_int(gone, 2);
    SET_SCRIPT("time=900 ");
    world_stop(w);
    world_open(w);
    w->config.runners = 1;
    w->config.order_wait_ns = 60000000000;
    set_baseline(w, "slow=700 time=1000 ");
    world_start(w);
    cleanup(json) json_t *some = add(w, "{'op':'scale','axes':{'R':3,'N':8},'count':5}\n{'op':'scale','axes':{'R':5,'N':8},'count':50}");
    jobs_observed(w->jobs);
    static const char *const requests[] = {"{'op':'scale','shapes':[{'R':1,'N':8}],'budget':{'candidates':1}}",
                                           "{'op':'scale','shapes':[{'R':2,'N':8}],'budget':{'candidates':1}}",
                                           "{'op':'scale','shapes':[{'R':3,'N':8}],'budget':{'candidates':1}}",
                                           "{'op':'scale','shapes':[{'R':4,'N':8},{'R':5,'N':8}],'budget':{'candidates':2}}"};
    char ids[4][40];
    const char *at[4];
    int order[4];
    for (int i = 0; i < 4; i++) {
        snprintf(ids[i], sizeof ids[i], "%s", submit(w, requests[i]));
        at[i] = ids[i];
        if (i == 0)
            clock_sleep_ns(200000000);        /* the runner has it */
    }
    for (int i = 0; i < 4; i++) {
        cleanup(json) json_t *job = wait_job(w, ids[i]);
        check_str(json_str(job, "state", ""), "done");
    }
    began(w, at, 4, order);
    check(order[0] < order[3] && order[3] < order[2] && order[2] < order[1]);
    /* and within the job the observed shape before the other */
    cleanup(json) json_t *candidates = candidates_of(w, ids[3]), *last = get(w, STORE_JOB, ids[3]);
    const char *observed = json_str(json_array_get(json_object_get(last, "shapes"), 1), "shape_hash", "");
    check_str(json_str(json_array_get(candidates, 0), "shape_hash", ""), observed);
    /* what is served now says what it was based on: these judges emulate */
    cleanup(json) json_t *list = rank(w);
    check_str(json_str(order_at(list, 0), "based_on", ""), "estimate");
    check(json_num(order_at(list, 0), "each_ns", 0) == 100);
    check_str(json_str(json_object_get(json_array_get(list, 0), "kernel"), "evidence", ""), "emulated");
}

static void news_weigh_waiting_jobs_anew(struct world *w, const char *known)
{
    char ids[4][40];
    const char *at[4] = {ids[0], ids[1], ids[2], ids[3]};
    int order[4];
    struct shelf_order by = {.reason = "to be sure", .by = "test"};
    struct err err = {0};
    json_t *again = NULL;
    static const char *const requests[] = {"{'op':'scale','shapes':[{'R':11,'N':8}],'budget':{'candidates':1}}",
                                           "{'op':'scale','shapes':[{'R':12,'N':8}],'budget':{'candidates':1}}",
                                           "{'op':'scale','shapes':[{'R':13,'N':8}],'budget':{'candidates':1}}"};
    for (int i = 0; i < 3; i++) {
        snprintf(ids[i], sizeof ids[i], "%s", submit(w, requests[i]));
        if (i == 0)
            clock_sleep_ns(200000000);
    }
    cleanup(json) json_t *some = add(w, "{'op':'scale','axes':{'R':13,'N':8},'count':5}");     /* they wait already */
    must(jobs_revalidate(w->jobs, known, &by, &again, &err), &err);
    snprintf(ids[3], sizeof ids[3], "%s", json_str(again, "id", ""));
    json_decref(again);
    jobs_observed(w->jobs);
    for (int i = 0; i < 4; i++) {
        cleanup(json) json_t *job = wait_job(w, ids[i]);
        check_str(json_str(job, "state", ""), "done");
    }
    began(w, at, 4, order);
    check(order[0] < order[3] && order[3] < order[2] && order[2] < order[1]);   /* whether a served kernel holds comes first */
}

/* As the template search: it says what it would like to know of. */
static const char *const wanted[] = {"estimate=700 ", "broken estimate=100 ", "estimate=600 ", "estimate=100 "};

static bool script_wants(const struct gen_input *in, int most, json_t **ret, struct err *err)
{
    (void)in, (void)err;
    *ret = json_array();
    for (int i = 0; i < most && i < (int)(sizeof wanted / sizeof *wanted); i++)
        json_array_append_new(*ret, json_pack("{s:s,s:{},s:o}", "template", "t", "params", "candidate", candidate_doc(wanted[i])));
    return true;
}

static const struct generator wanting_generator = {.name = "template", .propose = script_propose, .wants = script_wants};
static const struct generator *find_wanting(const char *name)
{
    return strcmp(name, "template") == 0 ? &wanting_generator : find_generator(name);
}

static void the_unknown_is_estimated(struct world *w)
{
    struct err err = {0};
    int64_t gone;
    must(observed_clear(w->store, &gone, &err), &err);
    set_baseline(w, "refuse_r=21 estimate=1000 time=1000 ");
    world_stop(w);
    w->config.find_generator = find_wanting;
    w->config.estimate_candidates = 3;
    w->config.estimate_shapes = 2;
    w->config.estimate_wall_ns = 60000000000;
    world_open(w);
    world_start(w);
    cleanup(json) json_t *some = add(w, "{'op':'scale','axes':{'R':20,'N':8},'count':2}\n{'op':'scale','axes':{'R':21,'N':8},'count':9}");
    jobs_observed(w->jobs);
    cleanup(json) json_t *list = NULL;
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until; clock_sleep_ns(20000000)) {
        json_decref(list);
        list = rank(w);
        if (json_object_get(json_array_get(list, 0), "estimate") && json_object_get(json_array_get(list, 1), "estimate"))
            break;
    }
    /* the one that cannot be estimated is guessed from the other, one row away: its bytes are 32 more, its baseline takes 1000 ns */
    check_int(rows_at(list, 0), 21);
    check(strstr(json_str(json_object_get(json_array_get(list, 0), "estimate"), "error", ""), "no figures"));
    check_str(json_str(order_at(list, 0), "based_on", ""), "nearby_estimate");
    const json_t *nearby = json_object_get(order_at(list, 0), "nearby"), *estimate = json_object_get(json_array_get(list, 1), "estimate");
    check_str(json_str(nearby, "shape_hash", ""), json_str(json_array_get(list, 1), "shape_hash", "-"));
    check(fabs(json_num(nearby, "factor", 0) - (1 + 32 / OBSERVED_NOMINAL_BYTES_PER_NS / 1000)) < 1e-9);
    check(json_num(estimate, "baseline_ns", 0) == 1000 && json_num(estimate, "best_ns", 0) == 600);   /* what does not run does not count */
    check_int(json_int(estimate, "tried", 0), 3);
    check_str(json_str(estimate, "evidence", ""), "emulated");
    check_str(json_str(order_at(list, 1), "based_on", ""), "estimate");
    check(json_num(order_at(list, 1), "saving_ns", 0) == 800);
    /* nothing of it is served */
    cleanup(json) json_t *kernel = get(w, STORE_KERNEL, json_str(json_array_get(list, 1), "shape_hash", ""));
    check_int(json_object_size(kernel), 0);

    /* a job of the shapes that would save most; the restart has forgotten nothing */
    set_baseline(w, "time=1000 measured ");
    world_stop(w);
    w->config.estimate_candidates = 0;
    w->config.find_generator = find_generator;
    world_open(w);
    world_start(w);
    SET_SCRIPT("time=700 measured ");
    cleanup(json) json_t *job = wait_job(w, submit(w, "{'observed':{'most':1},'budget':{'candidates':1}}"));
    check_int(json_array_size(json_object_get(job, "shapes")), 1);
    check(json_bool(job, "observed", false));
    check_int(json_int(json_array_get(json_object_get(job, "shapes"), 0), "count", 0), 2);
    cleanup(json) json_t *now = rank(w);
    check_str(json_str(order_at(now, 0), "based_on", ""), "measured");
    check(json_num(order_at(now, 0), "saving_ns", 0) == 600);
    cleanup(json) json_t *rest = wait_job(w, submit(w, "{'observed':{'most':4,'op':'scale'}}"));
    check_int(json_array_size(json_object_get(rest, "shapes")), 1);                         /* the other one; this has its kernel */
    static const char *const bad[] = {"{'observed':3}", "{'observed':{'most':0}}", "{'observed':{'most':9}}", "{'observed':{'most':1},'op':'scale'}",
                                      "{'observed':{'most':1},'model':{'preset':'x'}}", "{'observed':{'most':1,'op':'nowhere'}}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cleanup(json) json_t *request = json_of(bad[i]), *none = NULL;
        struct faults f = {0};
        struct err why = {0};
        int64_t as_of;
        check(!jobs_submit(w->jobs, request, NULL, &none, &as_of, &f, &why) && why.code == ERR_INVALID && f.count);
    }
}

int main(int argc, char **argv)
{
    check_int(argc, 2);
    judge_program = argv[1];
    hash_init();
    log_threshold(LOG_ERROR + 1);
    struct world w = {0};
    world_new(&w);
    counts_add_up(&w);
    bad_lines_take_nothing(&w);
    jobs_go_by_what_they_save(&w);
    cleanup(json) json_t *known = rank(&w);
    news_weigh_waiting_jobs_anew(&w, json_str(json_array_get(known, 0), "shape_hash", ""));
    the_unknown_is_estimated(&w);
    bad_lines_are_left_out(&w);
    world_done(&w);
    return test_done();
}
