/*
 * What stands behind a shape's kernel: withdrawn at once and the next best served, brought back, judged again; candidates that are held
 * until an admin has decided; all of it over a restart, and while jobs promote new kernels for the same shape.
 */
#include "tests/test_jobs.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHAPE "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never'}"

static char hash[HASH_HEX_SIZE];

/* A job with the script as it is; the shape's hash is in `hash` then. */
static void search(struct world *w)
{
    char id[40];
    snprintf(id, sizeof id, "%s", submit(w, SHAPE));
    cleanup(json) json_t *job = wait_job(w, id);
    check_str(json_str(job, "state", ""), "done");
    snprintf(hash, sizeof hash, "%s", first_hash(job));
}

/* The candidate whose kernel is served; "" none. In a static place. */
static const char *served(struct world *w)
{
    static char id[40];
    cleanup(json) json_t *kernel = get(w, STORE_KERNEL, hash), *shelf = get(w, STORE_SHELF, hash);
    snprintf(id, sizeof id, "%s", json_str(kernel, "candidate", ""));
    check_str(json_str(shelf, "serves", ""), id);       /* the two never disagree */
    return id;
}

static double served_speedup(struct world *w)
{
    cleanup(json) json_t *kernel = get(w, STORE_KERNEL, hash);
    return json_num(json_object_get(kernel, "speedup"), "median", 0);
}

static bool about(double is, double wanted)
{
    return is > wanted - 1e-6 && is < wanted + 1e-6;
}

typedef bool change(struct store *store, const char *shape_hash, const struct shelf_order *order, json_t **ret, struct err *err);

static enum err_code tell(struct world *w, change *how, const char *candidate, const char *reason)
{
    const struct shelf_order order = {.candidate = candidate, .reason = reason, .by = "tester"};
    cleanup(json) json_t *view = NULL;
    struct err err = {0};
    if (!how(w->store, hash, &order, &view, &err))
        return err.code;
    check(json_is_array(json_object_get(view, "kernels")) && !strstr(json_str(view, "shape_hash", ""), "x"));
    return ERR_OK;
}

static int64_t last_event(struct world *w)
{
    return store_last_event(w->store);
}

static void restart(struct world *w)
{
    world_stop(w);
    world_open(w);
    world_start(w);
}

/* From now on the judge sees it as the sources say for later. */
static void later(struct world *w, bool is)
{
    cleanup(str) char *runs = xfmt("%s/runs", w->dir), *path = xfmt("%s/later", runs);
    if (is)
        write_text(runs, "later", "x");
    else
        unlink(path);
}

static void withdrawn_and_back(void)
{
    cleanup(world) struct world w = {0};
    char best[40], baseline[40];
    world_new(&w);
    memset(hash, 'a', 64);
    check_int(tell(&w, kernel_quarantine, NULL, "none there"), ERR_NOT_FOUND);
    check_int(tell(&w, kernel_restore, NULL, "none there"), ERR_NOT_FOUND);
    SET_SCRIPT("time=800 latertime=790 ", "time=500 latertime=400 ");
    search(&w);
    snprintf(best, sizeof best, "%s", served(&w));
    check(about(served_speedup(&w), 2));
    check_int(tell(&w, kernel_quarantine, "cand_nobody", "x"), ERR_NOT_FOUND);
    check_str(served(&w), best);

    /* the next best at once: the candidate before, then the baseline, then nothing */
    check_int(tell(&w, kernel_quarantine, best, "wrong for long rows"), ERR_OK);
    check(about(served_speedup(&w), 1.25) && strcmp(served(&w), best) != 0);
    int64_t before = last_event(&w);
    check_int(tell(&w, kernel_quarantine, best, "again"), ERR_OK);             /* so already: nothing is written */
    check_int(last_event(&w), before);
    check_int(tell(&w, kernel_quarantine, NULL, "and this"), ERR_OK);
    check(about(served_speedup(&w), 1));
    snprintf(baseline, sizeof baseline, "%s", served(&w));
    cleanup(json) json_t *kernel = get(&w, STORE_KERNEL, hash);
    check(json_bool(kernel, "is_baseline", false));
    check_int(json_array_size(json_object_get(kernel, "history")), 3);         /* 800, 500, 800 */
    check_int(tell(&w, kernel_quarantine, NULL, "all of them"), ERR_OK);
    check_str(served(&w), "");
    before = last_event(&w);
    check_int(tell(&w, kernel_quarantine, NULL, "nothing left"), ERR_OK);
    check_int(last_event(&w), before);

    /* it is so after a restart too, and the reason is kept */
    restart(&w);
    check_str(served(&w), "");
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    check(shelf_open(w.store, hash, &shelf, &err));
    check_str(json_str(shelf_withdrawn(&shelf, NULL), "reason", ""), "all of them");
    check_str(json_str(shelf_entry(&shelf, best), "reason", ""), "wrong for long rows");
    check_str(json_str(shelf_entry(&shelf, best), "by", ""), "tester");
    check(shelf_withdrawn(&shelf, "emulated") && !shelf_withdrawn(&shelf, "measured"));

    /* found again by a search, with better figures even, it stays withdrawn: it is known by what it is, not by its id */
    later(&w, true);
    search(&w);
    check_str(served(&w), "");
    later(&w, false);

    check_int(tell(&w, kernel_restore, NULL, "the last one"), ERR_OK);
    check_str(served(&w), baseline);
    check_int(tell(&w, kernel_restore, best, "a mistake of ours"), ERR_OK);
    check_str(served(&w), best);
    cleanup(json) json_t *back = get(&w, STORE_KERNEL, hash);
    check_int(json_array_size(json_object_get(back, "history")), 5);
    check(json_str(back, "served_since", NULL) && json_object_get(back, "digests") && json_object_get(back, "plan"));
    before = last_event(&w);
    check_int(tell(&w, kernel_restore, best, "once more"), ERR_OK);
    check_int(last_event(&w), before);
    SET_SCRIPT("time=400 ");                                                  /* a better one displaces it as ever */
    search(&w);
    check(about(served_speedup(&w), 2.5));
}

/* ---- judged again ---- */

/* The job that judges again, once it has ended; new reference. */
static json_t *again(struct world *w, const char *candidate, enum err_code wanted)
{
    const struct shelf_order order = {.candidate = candidate, .reason = "a doubt", .by = "tester"};
    cleanup(json) json_t *job = NULL;
    struct err err = {0};
    bool ok = jobs_revalidate(w->jobs, hash, &order, &job, &err);
    check_int(ok ? ERR_OK : err.code, wanted);
    return ok ? wait_job(w, json_str(job, "id", "")) : json_object();
}

static void judged_again(void)
{
    cleanup(world) struct world w = {0};
    char first[40], second[40];
    world_new(&w);
    SET_SCRIPT("time=800 ", "time=500 latertime=400 later=ok ");
    memset(hash, 'b', 64);
    json_decref(again(&w, NULL, ERR_NOT_FOUND));
    search(&w);
    snprintf(first, sizeof first, "%s", served(&w));
    cleanup(json) json_t *old = get(&w, STORE_KERNEL, hash);

    /* it holds: certificate and figures are the new ones */
    later(&w, true);
    cleanup(json) json_t *job = again(&w, NULL, ERR_OK);
    check_str(json_str(job, "state", ""), "done");
    check_str(json_str(job, "generator", ""), "revalidate");
    check_str(json_str(json_object_get(job, "revalidates"), "candidate", ""), first);
    snprintf(second, sizeof second, "%s", served(&w));
    check(strcmp(first, second) != 0 && about(served_speedup(&w), 2.5));
    cleanup(json) json_t *renewed = get(&w, STORE_KERNEL, hash), *record = get(&w, STORE_CANDIDATE, second);
    check(strcmp(json_str(json_object_get(old, "digests"), "certificate.json", ""), json_str(json_object_get(renewed, "digests"), "certificate.json", "")) != 0);
    check_str(json_str(json_object_get(record, "origin"), "revalidates", ""), first);
    cleanup(json) json_t *events = events_of(&w, json_str(job, "id", ""));
    check_int(count_events(events, "kernel.state", first), 1);
    check_int(count_events(events, "job.done", NULL), 1);
    check_str(json_str(json_array_get(events, json_array_size(events) - 1), "type", ""), "job.done");
    json_decref(again(&w, first, ERR_NOT_FOUND));      /* its place was taken */

    /* withdrawn by an admin it stays withdrawn, though it holds */
    check_int(tell(&w, kernel_quarantine, second, "by hand"), ERR_OK);
    cleanup(json) json_t *kept = again(&w, second, ERR_OK);
    check_str(json_str(kept, "state", ""), "done");
    check(about(served_speedup(&w), 1.25));
    check_int(tell(&w, kernel_restore, NULL, "back"), ERR_OK);
    check(about(served_speedup(&w), 2.5));
}

/* What does not hold is withdrawn with its verdict; what noise leaves open is not. */
static void does_not_hold(void)
{
    static const struct { const char *source, *code; bool withdrawn; } cases[] = {
        {"time=500 later=wrong_result ", "wrong_result", true}, {"time=500 latertime=1500 ", "not_confirmed", true},
        {"time=500 later=unclear ", "unclear", false}, {"time=500 later=race ", "race", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(world) struct world w = {0};
        char best[40];
        const char *const one[] = {cases[i].source};
        world_new(&w);
        script = one, script_count = 1;
        search(&w);
        snprintf(best, sizeof best, "%s", served(&w));
        check(about(served_speedup(&w), 2));
        later(&w, true);
        cleanup(json) json_t *job = again(&w, best, ERR_OK);
        check_str(json_str(job, "state", ""), "done");
        check(about(served_speedup(&w), cases[i].withdrawn ? 1 : 2));          /* the baseline in its place */
        cleanup(shelf) struct shelf shelf = {.changed = false};
        struct err err = {0};
        check(shelf_open(w.store, hash, &shelf, &err));
        const json_t *entry = shelf_entry(&shelf, best);
        check_str(json_str(entry, "state", ""), cases[i].withdrawn ? "quarantined" : "verified");
        if (!cases[i].withdrawn)
            continue;
        check_str(json_str(entry, "by", ""), "revalidation");
        check(strstr(json_str(entry, "reason", ""), i == 1 ? "not" : cases[i].code) != NULL);
        /* judged again once more and right: what a revalidation withdrew, one brings back */
        later(&w, false);
        json_decref(again(&w, best, ERR_OK));
        check(about(served_speedup(&w), 2));
    }
}

/* A baseline that is served: its own judgement is all there is to do again. */
static void baseline_again(void)
{
    cleanup(world) struct world w = {0};
    world_open(&w);
    set_baseline(&w, "time=1000 later=wrong_result ");
    op_set_done(&w.ops);
    cleanup(str) char *ops = xfmt("%s/ops", w.dir);
    struct err err = {0};
    must(op_set_load(ops, &w.ops, &err), &err);
    world_start(&w);
    SET_SCRIPT("time=1500 ");
    search(&w);
    check(about(served_speedup(&w), 1));
    json_decref(again(&w, NULL, ERR_OK));
    check(about(served_speedup(&w), 1));
    later(&w, true);
    json_decref(again(&w, NULL, ERR_OK));
    check_str(served(&w), "");
}

/* An open job that judges it again is the answer to the same wish; a measured kernel is not replaced by an estimate. */
static void asked_twice(void)
{
    cleanup(world) struct world w = {0};
    const struct shelf_order order = {.reason = "a doubt", .by = "tester"};
    cleanup(json) json_t *one = NULL, *two = NULL, *three = NULL;
    struct err err = {0};
    world_new(&w);
    SET_SCRIPT("time=500 slow=300 ");
    search(&w);
    check(jobs_revalidate(w.jobs, hash, &order, &one, &err) && jobs_revalidate(w.jobs, hash, &order, &two, &err));
    check_str(json_str(one, "id", "1"), json_str(two, "id", "2"));
    json_decref(wait_job(&w, json_str(one, "id", "")));
    check(jobs_revalidate(w.jobs, hash, &order, &three, &err));
    check(strcmp(json_str(one, "id", ""), json_str(three, "id", "")) != 0);
    /* over a restart in its middle */
    restart(&w);
    cleanup(json) json_t *done = wait_job(&w, json_str(three, "id", ""));
    check_str(json_str(done, "state", ""), "done");
    check(about(served_speedup(&w), 2));
}

/* ---- held ---- */

static void held(void)
{
    cleanup(world) struct world w = {0};
    const struct shelf_order order = {.reason = "looked at it", .by = "tester"};
    cleanup(json) json_t *job = NULL, *same = NULL, *refused = NULL, *twice = NULL, *view = NULL;
    char ids[2][40] = {"", ""};
    struct err err = {0};
    world_new(&w);
    SET_SCRIPT("held time=5 ", "held time=4 ", "time=800 ");
    search(&w);
    check(about(served_speedup(&w), 1.25));
    cleanup(shelf) struct shelf shelf = {.changed = false};
    check(shelf_open(w.store, hash, &shelf, &err));
    view = shelf_view(&shelf);
    const json_t *list = json_object_get(view, "held");
    check_int(json_array_size(list), 2);
    for (size_t i = 0; i < 2; i++)
        snprintf(ids[i], sizeof ids[i], "%s", json_str(json_array_get(list, i), "candidate", ""));
    check(!jobs_release(w.jobs, served(&w), &order, &job, &err) && err.code == ERR_CONFLICT);
    check(!jobs_release(w.jobs, "cand_nobody", &order, &job, &err) && err.code == ERR_NOT_FOUND);
    /* refused for good */
    check(candidate_refuse(w.store, ids[1], &order, &refused, &err));
    check_str(json_str(json_object_get(refused, "decision"), "decision", ""), "refused");
    check(candidate_refuse(w.store, ids[1], &order, &twice, &err));
    check(!jobs_release(w.jobs, ids[1], &order, &job, &err) && err.code == ERR_CONFLICT);
    check(about(served_speedup(&w), 1.25));
    /* released: through baseline and retest, and served */
    check(jobs_release(w.jobs, ids[0], &order, &job, &err) && jobs_release(w.jobs, ids[0], &order, &same, &err));
    check_str(json_str(job, "id", "1"), json_str(same, "id", "2"));
    cleanup(json) json_t *done = wait_job(&w, json_str(job, "id", ""));
    check_str(json_str(done, "state", ""), "done");
    check(about(served_speedup(&w), 200));
    check(!candidate_refuse(w.store, ids[0], &order, &twice, &err) && err.code == ERR_CONFLICT);
    restart(&w);
    check(about(served_speedup(&w), 200));
    shelf_done(&shelf);
    check(shelf_open(w.store, hash, &shelf, &err) && json_array_size(json_object_get(shelf.doc, "held")) == 0);
}

/* ---- at the same time ---- */

struct meddler { struct world *w; atomic_bool *stop; int done; };

static void *meddle(void *arg)
{
    struct meddler *m = arg;
    while (!*m->stop) {
        const struct shelf_order order = {.reason = "race", .by = "meddler"};
        cleanup(json) json_t *view = NULL, *back = NULL;
        struct err err = {0};
        if (kernel_quarantine(m->w->store, hash, &order, &view, &err))
            m->done++;
        clock_sleep_ns(500000);
        (void)!kernel_restore(m->w->store, hash, &order, &back, &err);
    }
    return NULL;
}

static void *promote(void *arg)
{
    struct world *w = arg;
    for (int i = 0; i < 3; i++) {
        cleanup(json) json_t *request = json_of(SHAPE), *job = NULL, *ended = NULL;
        struct faults f = {0};
        struct err err = {0};
        int64_t as_of;
        if (jobs_submit(w->jobs, request, NULL, &job, &as_of, &f, &err))
            ended = wait_job(w, json_str(job, "id", ""));
        check_str(json_str(ended, "state", ""), "done");
    }
    return NULL;
}

/* Kernels withdrawn and brought back while jobs promote others: no job fails, and what is served is the best that is not withdrawn. */
static void while_promoting(void)
{
    cleanup(world) struct world w = {0};
    atomic_bool stop = false;
    struct meddler m = {.w = &w, .stop = &stop};
    pthread_t meddler, promoters[2];
    world_new(&w);
    SET_SCRIPT("time=900 ", "time=800 ", "time=700 ", "time=640 ", "time=500 ");
    search(&w);
    pthread_create(&meddler, NULL, meddle, &m);
    for (int i = 0; i < 2; i++)
        pthread_create(&promoters[i], NULL, promote, &w);
    for (int i = 0; i < 2; i++)
        pthread_join(promoters[i], NULL);
    stop = true;
    pthread_join(meddler, NULL);
    check(m.done > 20);
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    check(shelf_open(w.store, hash, &shelf, &err));
    double best = 0;
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(shelf.doc, "entries"), i, entry)
        if (strcmp(json_str(entry, "state", ""), "verified") == 0 && result_speedup(entry) > best)
            best = result_speedup(entry);
    check_int(json_array_size(json_object_get(shelf.doc, "entries")), 6);      /* five programs and the baseline, each once */
    check(about(served_speedup(&w), best));
    check(strlen(served(&w)) > 0);
}

/* Two who read the same shelf: the second to write is told, whatever is served. */
static void lost_update(void)
{
    cleanup(world) struct world w = {0};
    cleanup(shelf) struct shelf one = {.changed = false}, two = {.changed = false};
    struct err err = {0};
    world_new(&w);
    SET_SCRIPT("time=500 ");
    search(&w);
    check(shelf_open(w.store, hash, &one, &err) && shelf_open(w.store, hash, &two, &err));
    struct store_batch *first = store_batch_new(), *second = store_batch_new();
    shelf_hold(&one, "cand_one", "x");
    shelf_hold(&two, "cand_two", "x");
    shelf_write(&one, first);
    shelf_write(&two, second);
    check(store_commit(w.store, first, NULL, &err));
    check(!store_commit(w.store, second, NULL, &err) && err.code == ERR_CONFLICT);
}

/* However many there are: the best are kept, and the one that is served. */
static void bounded(void)
{
    cleanup(world) struct world w = {0};
    char sources[20][24];
    const char *list[20];
    world_new(&w);
    for (int i = 0; i < 20; i++) {
        snprintf(sources[i], sizeof sources[i], "time=%d ", 900 - i);
        list[i] = sources[i];
    }
    w.config.default_candidates = 50;
    restart(&w);
    script = list, script_count = 20;
    search(&w);
    cleanup(shelf) struct shelf shelf = {.changed = false};
    struct err err = {0};
    check(shelf_open(w.store, hash, &shelf, &err));
    check_int(json_array_size(json_object_get(shelf.doc, "entries")), SHELF_VERIFIED_MAX);
    check(about(served_speedup(&w), 1000.0 / 881));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    withdrawn_and_back();
    judged_again();
    does_not_hold();
    baseline_again();
    asked_twice();
    held();
    while_promoting();
    lost_update();
    bounded();
    return test_done();
}
