/*
 * The server is killed at every state write of two jobs in turn (one of a generator, one with candidates from outside), before and
 * after the write is durable. Then it starts again and must finish both: nothing is lost, no event is repeated or changed, every
 * candidate has exactly one verdict, the kernels are served.
 */
#include "tests/test_jobs.h"

#include <signal.h>
#include <sys/wait.h>

static bool find_job(void *ctx, const char *id, const json_t *doc)
{
    char (*found)[40] = ctx;
    snprintf(found[strcmp(json_str(doc, "generator", ""), "external") == 0], 40, "%s", id);
    return true;
}

static void find_jobs(struct world *w, char found[2][40])
{
    struct store_page page = {STORE_JOB, NULL, NULL, 10, false};
    struct err err = {0};
    found[0][0] = found[1][0] = 0;
    must(store_list(w->store, &page, find_job, found, NULL, NULL, &err), &err);
}

/* What a client does that asks first what is there: submits what is missing, waits for the end. */
static int workload(const char *dir)
{
    struct world w = {.dir = xstrdup(dir)};
    char found[2][40];
    struct err err = {0};
    SET_SCRIPT("time=800 gpu=1500000000 ", "time=900 gpu=250000000 ", "verdict=race ");
    w.config.runners = 0;
    world_open(&w);
    w.config.runners = 1;
    world_start(&w);
    find_jobs(&w, found);
    if (!*found[0])
        snprintf(found[0], 40, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}"));
    if (!*found[1])
        snprintf(found[1], 40, "%s", submit(&w, "{'op':'scale','shapes':[{'R':8,'N':8}],'generator':'external','budget':{'candidates':2}}"));
    for (;;) {
        cleanup(json) json_t *all = candidates_of(&w, found[1]), *added = NULL, *doc = candidate_doc("time=700 gpu=40000000 ");
        struct faults f = {0};
        size_t i, sent = 0;
        json_t *c;
        json_array_foreach(all, i, c)
            sent += !json_bool(c, "is_baseline", true);
        if (sent == 2)
            break;
        must(jobs_add_candidate(w.jobs, found[1], doc, &added, &f, &err), &err);
    }
    for (int i = 0; i < 2; i++)
        json_decref(wait_job(&w, found[i]));
    world_stop(&w);
    free(w.dir);
    return 0;
}

/* True: it came to its end; false: killed at the fault point. */
static bool run_child(const char *dir, int fault)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        cleanup(str) char *text = xfmt("%d", fault);
        if (fault >= 0)
            setenv("PROTEUS_FAULT_POINT", text, 1);
        execl("/proc/self/exe", "test_jobs_faults", judge_program, dir, (char *)NULL);
        _exit(4);
    }
    int status;
    check(waitpid(pid, &status, 0) == pid);
    if (fault < 0 || WIFEXITED(status))
        check_int(status, 0);
    else
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return WIFEXITED(status);
}

static void check_job(struct world *w, const char *id, int candidates, const char *const *verdicts, double speedup)
{
    cleanup(json) json_t *job = get(w, STORE_JOB, id), *all = candidates_of(w, id), *events = events_of(w, id);
    cleanup(json) json_t *kernel = get(w, STORE_KERNEL, first_hash(job));
    check_str(json_str(job, "state", ""), "done");
    check_int(json_array_size(all), candidates);
    check_int(json_int(json_object_get(job, "spent"), "candidates", 0), candidates - 1);
    for (int i = 0; i < candidates; i++) {
        json_t *c = json_array_get(all, (size_t)i);
        check_str(code_of(c), verdicts[i]);
        check_int(count_events(events, "candidate.proposed", json_str(c, "id", "")), 1);
        check_int(count_events(events, "candidate.verdict", json_str(c, "id", "")), 1);
    }
    check_int(count_events(events, "job.done", NULL), 1);
    check_str(json_str(json_array_get(events, json_array_size(events) - 1), "type", ""), "job.done");
    double got = json_num(json_object_get(kernel, "speedup"), "median", 0);
    check(got > speedup - 1e-9 && got < speedup + 1e-9);
    cleanup(buf) struct buf cubin = {0};
    struct err err = {0};
    check(store_get_blob(w->store, json_str(json_object_get(kernel, "digests"), "kernel.cubin", ""), &cubin, &err));
}

/* All events there are; and that their ids rise by one. */
static void read_events(struct world *w, struct buf *text)
{
    struct err err = {0};
    int64_t last;
    int count;
    long long id = 0;
    check(store_events(w->store, NULL, 0, 100000, text, &last, &count, &err));
    for (char *p = text->data; p && (p = strstr(p, "id: ")); p++)
        check_int(strtoll(p + 4, NULL, 10), ++id);
    check_int(id, last);
    check_int(id, store_last_event(w->store));
}

/* Wherever it was killed: the sums by day are those of the jobs, no more and no less. */
static void check_spending(struct world *w, char found[2][40])
{
    double candidates = 0, seconds = 0;
    for (int i = 0; i < 2; i++) {
        cleanup(json) json_t *job = get(w, STORE_JOB, found[i]);
        candidates += json_num(json_object_get(job, "spent"), "candidates", 0);
        seconds += json_num(json_object_get(job, "spent"), "gpu_seconds", 0);
    }
    cleanup(json) json_t *spending = get(w, STORE_META, "spending");
    json_t *day;
    size_t i;
    json_array_foreach(json_object_get(spending, "days"), i, day) {
        candidates -= json_num(day, "candidates", 0);
        seconds -= json_num(day, "gpu_seconds", 0);
    }
    check(candidates == 0);
    check(seconds < 1e-5 && seconds > -1e-5);
}

static void check_world(const char *dir, bool complete, struct buf *events)
{
    static const char *const own[] = {"ok", "ok", "ok", "race"}, *const external[] = {"ok", "ok", "ok"};
    struct world w = {.dir = xstrdup(dir)};
    char found[2][40];
    world_open(&w);
    cleanup(buf) struct buf text = {0};
    read_events(&w, &text);
    /* What was told stays as it was. */
    check(text.size >= events->size && (!events->size || memcmp(text.data, events->data, events->size) == 0));
    buf_clear(events);
    buf_add(events, text.data, text.size);
    find_jobs(&w, found);
    check_spending(&w, found);
    if (complete) {
        check_job(&w, found[0], 4, own, 1000.0 / 800);
        check_job(&w, found[1], 3, external, 1000.0 / 700);
    }
    world_stop(&w);
    free(w.dir);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    if (argc == 3)
        return workload(argv[2]);
    /* What a kill leaves does not depend on the disk: memory will do, and spares it thousands of syncs. */
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    int fired = 0;
    for (int fault = 0;; fault++) {
        cleanup(temp) char *dir = temp_dir();
        cleanup(buf) struct buf events = {0};
        if (run_child(dir, fault)) {
            check_world(dir, true, &events);
            break;
        }
        fired++;
        check_world(dir, false, &events);
        if (fault % 3 == 0) {   /* killed once more on the way, at another place each time */
            run_child(dir, 3 + fault % 17);
            check_world(dir, false, &events);
        }
        check(run_child(dir, -1));
        check_world(dir, true, &events);
    }
    check(fired > 60);
    printf("killed at %d fault points\n", fired);
    return test_done();
}
