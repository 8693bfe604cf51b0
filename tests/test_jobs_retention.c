/*
 * What goes of jobs that ended, and that nothing which is served loses anything by it: every manifest's files, candidate and job are
 * there, and its kernel can be judged again. And how many bytes callers may post.
 */
#include "tests/test_jobs.h"

static bool has(struct world *w, enum store_kind kind, const char *id)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    return store_get(w->store, kind, id, &doc, &err);
}

static bool has_blob(struct world *w, const char *digest)
{
    cleanup(buf) struct buf bytes = {0};
    struct err err = {0};
    return store_get_blob(w->store, digest, &bytes, &err);
}

static int check_manifest(struct world *w, const json_t *manifest)
{
    const char *name;
    json_t *digest;
    int count = 0;
    json_object_foreach(json_object_get(manifest, "digests"), name, digest) {
        check(has_blob(w, json_string_value(digest)));
        count++;
    }
    check(has(w, STORE_CANDIDATE, json_str(manifest, "candidate", "?")) && has(w, STORE_JOB, json_str(manifest, "job", "?")));
    return count;
}

/* Of all shapes, served or only on a shelf; how many files there were. */
static int check_manifests(struct world *w)
{
    static const enum store_kind kinds[] = {STORE_KERNEL, STORE_SHELF};
    int count = 0;
    for (size_t k = 0; k < 2; k++) {
        cleanup(json) json_t *all = json_array();
        struct store_page page = {kinds[k], NULL, NULL, 1000, false};
        struct err err = {0};
        size_t i, n;
        json_t *one, *entry;
        check(store_list(w->store, &page, take_candidate, all, NULL, NULL, &err));
        json_array_foreach(all, i, one) {
            count += k == 0 ? check_manifest(w, one) : 0;
            json_array_foreach(json_object_get(one, "entries"), n, entry)
                count += check_manifest(w, json_object_get(entry, "manifest"));
        }
    }
    return count;
}

static void until_gone(struct world *w, enum store_kind kind, const char *id)
{
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until && has(w, kind, id);)
        clock_sleep_ns(5000000);
    check(!has(w, kind, id));
}

static void restart(struct world *w, int64_t retain_jobs, int64_t retain_ns)
{
    jobs_stop(w->jobs);
    w->config.retain_jobs = retain_jobs;
    w->config.retain_ns = retain_ns;
    world_start(w);
}

static bool add(struct world *w, const char *job, const char *source, struct err *err)
{
    cleanup(json) json_t *doc = candidate_doc(source), *record = NULL;
    struct faults f = {0};
    return jobs_add_candidate(w->jobs, job, doc, &record, &f, err);
}

static const char *digest_of(const json_t *record, const char *name)
{
    return json_str(json_object_get(json_object_get(record, "artifacts"), name), "digest", "");
}

static void old_jobs_go(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    char first[40], same[40], external[40], last[40];
    world_open(&w);
    w.config.retain_pass_ns = 10000000;
    world_start(&w);
    SET_SCRIPT("time=900 ", "time=800 verdict=not_faster ", "time=500 ");
    snprintf(first, sizeof first, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}"));
    cleanup(json) json_t *job = wait_job(&w, first), *mine = candidates_of(&w, first);
    check_int(json_array_size(mine), 4);
    /* The same programs once more: nothing of it goes on the shelf, where they are already; one source is its own. */
    SET_SCRIPT("time=900 ", "time=850 verdict=not_faster ", "time=500 ");
    snprintf(same, sizeof same, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never'}"));
    cleanup(json) json_t *again = wait_job(&w, same), *theirs = candidates_of(&w, same);
    check_int(json_array_size(theirs), 4);
    snprintf(external, sizeof external, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never','generator':'external'}"));
    check(add(&w, external, "time=950 ", &err) && add(&w, external, "verdict=race hang=1 ", &err));
    cleanup(json) json_t *cancelled = NULL;
    check(jobs_cancel(w.jobs, external, &cancelled, &err));
    wait_tidied(&w);
    check(has(&w, STORE_META, "posted/-"));
    snprintf(last, sizeof last, "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}]}"));
    const json_t *loser = json_array_get(mine, 2), *own = json_array_get(theirs, 2), *served = json_array_get(theirs, 3);
    const char *shared = digest_of(served, "source"), *unshared = digest_of(own, "source"), *binary = digest_of(served, "kernel.cubin");
    check_str(shared, digest_of(json_array_get(mine, 3), "source"));
    check(has_blob(&w, shared) && has_blob(&w, unshared) && has_blob(&w, binary));
    const int files = check_manifests(&w);
    check(files > 10);

    clock_sleep_ns(50000000);            /* several looks: nothing goes while nothing is said to */
    check(has(&w, STORE_JOB, same) && has(&w, STORE_JOB, external));
    restart(&w, 1, 0);
    until_gone(&w, STORE_JOB, same);
    until_gone(&w, STORE_JOB, external);
    until_gone(&w, STORE_META, "posted/-");
    for (int64_t until = clock_mono_ns() + 30000000000; clock_mono_ns() < until && has_blob(&w, unshared);)
        clock_sleep_ns(5000000);
    until_gone(&w, STORE_META, "sweep");
    check(!has_blob(&w, unshared) && !has_blob(&w, binary) && has_blob(&w, shared));
    check(!has(&w, STORE_CANDIDATE, json_str(loser, "id", "")) && !has(&w, STORE_CANDIDATE, json_str(own, "id", "")));
    cleanup(json) json_t *no_events = events_of(&w, same), *first_events = events_of(&w, first), *last_events = events_of(&w, last);
    check(!json_array_size(no_events) && !json_array_size(first_events) && json_array_size(last_events) > 0);
    cleanup(json) json_t *kept = get(&w, STORE_JOB, first);
    check(json_bool(kept, "retained", false) && json_array_size(json_object_get(kept, "shapes")) == 1);
    check_int(check_manifests(&w), files);

    /* A kernel whose job has gone but for its record can be judged again, as before. */
    cleanup(json) json_t *asked = NULL;
    check(jobs_revalidate(w.jobs, first_hash(job), &(struct shelf_order){NULL, "a test", "admin"}, &asked, &err));
    cleanup(json) json_t *judged = wait_job(&w, json_str(asked, "id", ""));
    check_str(json_str(judged, "state", ""), "done");
    clock_sleep_ns(50000000);
    check(check_manifests(&w) > 0);

    /* By age: what ended a moment ago stays for an hour, and not for a nanosecond. */
    restart(&w, 0, 3600000000000);
    clock_sleep_ns(50000000);
    check(has(&w, STORE_JOB, json_str(asked, "id", "")));
    restart(&w, 0, 1);
    until_gone(&w, STORE_JOB, last);
    check(check_manifests(&w) > 0);
}

/* A record that comes while blobs are looked through keeps its own, though nothing named it before. */
static void watched_blobs(void)
{
    cleanup(world) struct world w = {0};
    struct hash_hex old, other, fresh;
    struct err err = {0};
    world_open(&w);
    struct store_batch *b = store_batch_new();
    store_put_blob(b, "old", 3, &old);
    store_put_blob(b, "other", 5, &other);
    check(store_commit(w.store, b, NULL, &err));
    store_watch_blobs(w.store, true);
    b = store_batch_new();
    store_put_blob(b, "old", 3, &old);       /* again, by someone else */
    store_put_blob(b, "fresh", 5, &fresh);
    check(store_commit(w.store, b, NULL, &err));
    b = store_batch_new();
    store_delete_blob(b, old.text), store_delete_blob(b, other.text), store_delete_blob(b, fresh.text), store_delete_blob(b, "none");
    check(store_commit(w.store, b, NULL, &err));
    check(has_blob(&w, old.text) && !has_blob(&w, other.text) && has_blob(&w, fresh.text));
    store_watch_blobs(w.store, false);
    b = store_batch_new();
    store_delete_blob(b, old.text);          /* nobody watches: nothing is deleted */
    check(store_commit(w.store, b, NULL, &err) && has_blob(&w, old.text));
    world_start(&w);
}

static void bytes_of_callers(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    char job[2][40], source[1001];
    int taken[2] = {0};
    memset(source, '/', sizeof source - 1);
    memcpy(source, "verdict=race ", 13);
    source[sizeof source - 1] = 0;
    world_open(&w);
    w.config.job_posted_bytes = 10000;
    w.config.caller_posted_bytes = 16000;
    world_start(&w);
    for (int i = 0; i < 2; i++) {
        snprintf(job[i], sizeof job[i], "%s", submit(&w, "{'op':'scale','shapes':[{'R':4,'N':8}],'reuse':'never','generator':'external','budget':{'candidates':50}}"));
        while (taken[i] < 20 && add(&w, job[i], source, &err))
            taken[i]++;
        check_int(err.code, ERR_CONFLICT);
        check(strstr(err.text, i ? "of all jobs of this caller" : "may have 10000 bytes together") != NULL);
    }
    check(taken[0] >= 4 && taken[0] <= 9 && taken[1] > 0 && taken[1] < taken[0]);
    cleanup(json) json_t *list = get(&w, STORE_META, "posted/-");
    check(json_int(list, "bytes", 0) > 10000 && json_int(list, "bytes", 0) <= 16000);
    for (int i = 0; i < 2; i++) {
        cleanup(json) json_t *cancelled = NULL;
        check(jobs_cancel(w.jobs, job[i], &cancelled, &err));
        check(json_int(cancelled, "posted_bytes", 0) > 0);
    }
    w.config.retain_pass_ns = 10000000;
    restart(&w, 1, 0);
    until_gone(&w, STORE_JOB, job[0]);       /* it is room for more */
    cleanup(json) json_t *left = get(&w, STORE_META, "posted/-"), *second = get(&w, STORE_JOB, job[1]);
    check_int(json_int(left, "bytes", 0), json_int(second, "posted_bytes", -1));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    judge_program = argv[1];
    log_threshold(LOG_ERROR);
    hash_init();
    watched_blobs();
    old_jobs_go();
    bytes_of_callers();
    return test_done();
}
