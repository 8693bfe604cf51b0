/*
 * A thread a job, each waiting for a judge of its own (gpu/spawn.h): what a case does to a judge it does to that one only. On a card the
 * judges share a lock (gpu/card_turn.h): compilers, emulator and references of many work side by side, and one at a time has the card, so
 * that what one does to it reaches no other. With several cards the threads are dealt out to them, and a retest goes to another one that is free.
 *
 * Results are lines of JSON: --resume reads those that are there, skips their cases, and adds the new ones, so that shards may share a file.
 * What another build of this program has judged is judged again: two builds' lines in one sum would say what neither of them does.
 */
#include "gpu/selftest.h"

#include "core/clock.h"
#include "gpu/selftest_ask.h"

#include <string.h>

#define MAX_JOBS 64
#define MAX_PLACES 8

struct selftest {
    const struct selftest_options *o;
    struct selftest_ask ask;
    struct selftest_corpus corpus;
    struct selftest_build build;
    struct selftest_result *results;
    int *order;                                 /* in which they are run */
    int place_count;
    struct selftest_place places[MAX_PLACES];
    char scratch[64];                           /* of the locks; "": none */
    pthread_mutex_t lock;                       /* of what follows, and of stdout */
    int next;
    FILE *resume;
};
struct selftest_job { struct selftest *s; const struct selftest_place *at; };

/* ---- a job ---- */

static void keep(struct selftest *s, const struct selftest_case *c, const struct selftest_result *r)
{
    if (!s->resume)
        return;
    cleanup(json) json_t *doc = selftest_result_encode(c, r);
    cleanup(str) char *text = json_text(doc);
    fprintf(s->resume, "%s\n", text);
    fflush(s->resume);
}

static void run_case(struct selftest *s, const struct selftest_place *at, int index)
{
    const struct selftest_case *c = &s->corpus.list[index];
    struct selftest_result *r = &s->results[index];
    struct err err = {0};
    bool ok = selftest_ask_case(&s->ask, at, c, r, &err);
    pthread_mutex_lock(&s->lock);
    if (ok) {
        r->done = true;
        r->by = s->build;
        selftest_decide(c, r);
        selftest_result_show(c, r);
        keep(s, c, r);
    } else {
        printf("FAILED   %-46s %s\n", c->name, err.text);
        fflush(stdout);
    }
    pthread_mutex_unlock(&s->lock);
}

static void *worker(void *arg)
{
    const struct selftest_job *job = arg;
    struct selftest *s = job->s;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->next < s->corpus.count && (!s->results[s->order[s->next]].chosen || s->results[s->order[s->next]].done))
            s->next++;
        int at = s->next++;
        pthread_mutex_unlock(&s->lock);
        if (at >= s->corpus.count)
            return NULL;
        run_case(s, job->at, s->order[at]);
    }
}

/* ---- what to run, and where ---- */

static bool is_named(const char *name, size_t size, const struct selftest_case *c)
{
    const char *slash = strchr(c->name, '/');
    return (strlen(c->name) == size && !strncmp(c->name, name, size)) || (strlen(slash + 1) == size && !strncmp(slash + 1, name, size));
}

static bool named(const char *only, const struct selftest_case *c)
{
    for (const char *at = only; at && *at;) {
        size_t n = strcspn(at, ",");
        if (is_named(at, n, c))
            return true;
        at += n + (at[n] == ',');
    }
    return !only;
}

/* A name that is no case's would look like a case that passed. One that needs a card may be named beside those that run here. */
static bool only_known(const struct selftest *s, struct err *err)
{
    for (const char *at = s->o->only; at && *at;) {
        size_t n = strcspn(at, ",");
        bool known = false;
        for (int i = 0; i < s->corpus.count && !known; i++)
            known = is_named(at, n, &s->corpus.list[i]);
        if (!known)
            return err_set(err, ERR_NOT_FOUND, "--only: no case is called \"%.*s\"", n < 100 ? (int)n : 100, at);
        at += n + (at[n] == ',');
    }
    return true;
}

/* Those that need a card for long come first: while it works for one of them, the others are compiled and emulated. */
static int rank(const struct selftest_case *c)
{
    return !strcmp(c->mode, "retest") ? 0 : !strcmp(c->mode, "full") ? 1 : c->attack ? 3 : 2;
}

static void put_in_order(struct selftest *s, bool card)
{
    int count = 0;
    s->order = xarray((size_t)s->corpus.count + 1, sizeof *s->order);
    for (int turn = 0; turn < 4; turn++)
        for (int i = 0; i < s->corpus.count; i++)
            if ((card ? rank(&s->corpus.list[i]) : 0) == turn)
                s->order[count++] = i;
}

static bool choose(struct selftest *s, struct err *err)
{
    int k = 1, n = 1, seen = 0, used = 0;
    char rest;
    const bool card = strcmp(s->o->device, "sim") != 0;
    const char *part = s->o->part ? s->o->part : "all";
    if (s->o->shard && (sscanf(s->o->shard, "%d/%d%c", &k, &n, &rest) != 2 || n < 1 || k < 1 || k > n))
        return err_set(err, ERR_INVALID, "--shard is K/N, K from 1 to N");
    if (strcmp(part, "all") != 0 && strcmp(part, "fast") != 0)
        return err_set(err, ERR_INVALID, "--part is all or fast");
    if (!only_known(s, err))
        return false;
    for (int i = 0; i < s->corpus.count; i++) {
        const struct selftest_case *c = &s->corpus.list[i];
        if ((c->needs_card && !card) || !named(s->o->only, c) || (!strcmp(part, "fast") && !c->fast))
            continue;
        s->results[i].chosen = seen++ % n == k - 1;
        used += s->results[i].chosen;
    }
    put_in_order(s, card);
    return used > 0 || err_set(err, ERR_NOT_FOUND, "no case of the corpus is chosen");
}

/* "sim", or cards with a comma between, each with a lock: beside the file that the caller names, or in a folder of ours. */
static bool take_places(struct selftest *s, struct err *err)
{
    const char *base = s->o->card_lock;
    for (const char *at = s->o->device; *at;) {
        size_t n = strcspn(at, ",");
        struct selftest_place *p = &s->places[s->place_count];
        if (s->place_count == MAX_PLACES || n >= sizeof p->device)
            return err_set(err, ERR_INVALID, "--device: at most %d, each sim or cuda:N", MAX_PLACES);
        snprintf(p->device, sizeof p->device, "%.*s", (int)n, at);
        s->place_count++;
        at += n + (at[n] == ',');
        if (strcmp(p->device, "sim") == 0) {
            if (strcmp(s->o->device, "sim") != 0)       /* a case would be judged by whoever is free: its result would say nothing */
                return err_set(err, ERR_INVALID, "--device: sim, or cards");
            continue;
        }
        if (!base && !s->scratch[0]) {
            snprintf(s->scratch, sizeof s->scratch, "/tmp/proteus-selftest.XXXXXX");
            if (!mkdtemp(s->scratch)) {
                s->scratch[0] = 0;
                return err_errno(err, ERR_INTERNAL, "a folder for the cards' locks");
            }
        }
        p->lock_base = base ? xstrdup(base) : xfmt("%s/card", s->scratch);
        p->card_lock = xfmt("%s.%s", p->lock_base, p->device);
    }
    for (int i = 0; i < s->place_count; i++)            /* its own first */
        for (int k = 0; k < s->place_count; k++) {
            struct selftest_place *p = &s->places[i];
            const size_t n = strlen(p->devices);
            snprintf(p->devices + n, sizeof p->devices - n, "%s%s", k ? "," : "", s->places[(i + k) % s->place_count].device);
        }
    return s->place_count > 0 || err_set(err, ERR_INVALID, "--device is empty");
}

static void places_done(struct selftest *s)
{
    for (int i = 0; i < s->place_count; i++) {
        if (s->scratch[0] && s->places[i].card_lock)
            unlink(s->places[i].card_lock);
        free(s->places[i].card_lock);
        free(s->places[i].lock_base);
    }
    if (s->scratch[0])
        rmdir(s->scratch);
}

static bool resume(struct selftest *s, struct err *err)
{
    if (!s->o->resume)
        return true;
    struct selftest_left left = {0};
    if (access(s->o->resume, F_OK) == 0
        && !selftest_results_read(s->o->resume, &s->corpus, s->places[0].device, &s->build, s->results, &left, err))
        return false;
    if (left.of_others)
        printf("%d results in %s are another build's: they do not count here\n", left.of_others, s->o->resume);
    s->resume = fopen(s->o->resume, "ae");
    return s->resume ? true : err_errno(err, ERR_INTERNAL, "%s", s->o->resume);
}

/* ---- the sum ---- */

static int finish(const struct selftest *s, struct err *err)
{
    struct selftest_totals t;
    selftest_sum(&s->corpus, s->results, &t);
    bool written = !s->o->json || selftest_write_json(s->o->json, s->o->device, s->o->shard, &s->build, &s->corpus, s->results, err);
    if (!written)
        printf("FAILED   %s: %s\n", s->o->json, err->text);
    for (int i = 0; i < s->corpus.count; i++)
        if (s->results[i].chosen && (!s->results[i].done || !s->results[i].passed))
            printf("not as it must be: %s\n", s->corpus.list[i].name);
    if (t.not_fooled)
        printf("%d attacks do not fool the naive checker as they claim\n", t.not_fooled);
    if (t.gpu_ns)
        printf("the card was held for %.1f s by judgements, for %.1f s by the naive checker\n", (double)t.gpu_ns * 1e-9, (double)t.naive_gpu_ns * 1e-9);
    printf("%d rows of the catalogue; %d attacks that need a card stand beside\n", t.rows, t.beside);
    printf("%d of %d attacks caught, %d of %d honest kernels accepted\n", t.caught, t.attacks, t.accepted, t.honest);
    return written && t.caught == t.attacks && t.accepted == t.honest && !t.not_fooled ? 0 : 1;
}

/*
 * How many judges, and how many threads their emulators get where nothing is said. Beside a card a quarter of the CPUs stays free for the
 * one that has it: its figures must not depend on how busy the host is with the others.
 */
static bool job_count(const struct selftest_options *o, bool card, int *ret, struct err *err)
{
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    char *end = NULL;
    long n = o->jobs ? strtol(o->jobs, &end, 10) : card ? cpus * 3 / 4 : cpus;
    if (o->jobs && (!*o->jobs || *end || n < 1))
        return err_set(err, ERR_INVALID, "--jobs is a number from 1");
    *ret = n < 1 ? 1 : n > MAX_JOBS ? MAX_JOBS : (int)n;
    return true;
}

char *selftest_default_corpus(void)
{
    cleanup(str) char *ops = op_default_dir();
    return xfmt("%s/../selftest", ops);
}

static void run_jobs(struct selftest *s, int jobs)
{
    struct selftest_job list[MAX_JOBS];
    pthread_t threads[MAX_JOBS];
    int started = 1;
    for (int i = 0; i < jobs; i++)
        list[i] = (struct selftest_job){s, &s->places[i % s->place_count]};
    for (; started < jobs; started++)
        if (pthread_create(&threads[started], NULL, worker, &list[started]))
            break;
    worker(&list[0]);
    for (int i = 1; i < started; i++)
        pthread_join(threads[i], NULL);
}

int selftest_run(const struct selftest_options *o)
{
    cleanup(str) char *dir = o->corpus ? xstrdup(o->corpus) : selftest_default_corpus();
    cleanup(str) char *self = self_dir(), *program = xfmt("%s/proteus-gpu", self);
    struct selftest s = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct err err = {0};
    const bool card = strcmp(o->device, "sim") != 0;
    int status = 1, jobs = 1;
    bool ok = job_count(o, card, &jobs, &err) && selftest_load(dir, o->ops, &s.corpus, &err) && selftest_build_of(program, &s.corpus, &s.build, &err);
    selftest_ask_init(&s.ask, o, program, o->threads ? o->threads : card && jobs > 1 ? "2" : NULL);
    s.results = xarray((size_t)s.corpus.count + 1, sizeof *s.results);
    ok = ok && choose(&s, &err) && take_places(&s, &err) && resume(&s, &err);
    if (ok) {
        run_jobs(&s, jobs);
        status = finish(&s, &err);
    } else {
        fprintf(stderr, "proteus-gpu: selftest: %s\n", err.text);
    }
    if (s.resume)
        fclose(s.resume);
    selftest_ask_done(&s.ask);
    places_done(&s);
    free(s.results);
    free(s.order);
    selftest_corpus_done(&s.corpus);
    return status;
}
