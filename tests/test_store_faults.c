/*
 * The process is killed at every state write in turn. A child (this program with an argument) commits from three threads and tells
 * on stdout what was acknowledged; the parent opens what is left and checks: nothing acknowledged is missing, batches are whole,
 * event ids have no gap and no repeat. Then the child runs on to its end on the same store, and all of it is checked again.
 */
#include "tests/test_store.h"

#include <pthread.h>
#include <sys/wait.h>

#define THREADS 3
#define ROUNDS 8

struct worker { struct store *s; int number; pthread_t thread; };

/* One batch: progress, two records that must agree, a blob, two events. */
static bool one_round(struct worker *w, int round)
{
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *doc = doc_of(round), *event = json_pack("{s:i, s:i}", "thread", w->number, "round", round);
    cleanup(str) char *left = xfmt("left%d", w->number), *right = xfmt("right%d", w->number);
    cleanup(str) char *id = xfmt("c%d-%d", w->number, round), *job = xfmt("job%d", w->number);
    cleanup(str) char *bytes = xfmt("blob of %d %d", w->number, round);
    struct hash_hex digest;
    store_put(b, STORE_META, left, NULL, doc);
    store_put_blob(b, bytes, strlen(bytes), &digest);
    store_event(b, "first", job, event);
    store_put(b, STORE_CANDIDATE, id, job, doc);
    store_event(b, "second", job, event);
    store_put(b, STORE_META, right, NULL, doc);
    int64_t last = 0;
    struct err err = {0};
    if (!store_commit(w->s, b, &last, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    char line[64];
    int n = snprintf(line, sizeof line, "%d %d %lld\n", w->number, round, (long long)last);
    return write(1, line, (size_t)n) == n;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    cleanup(str) char *left = xfmt("left%d", w->number);
    for (int round = (int)number_of(w->s, STORE_META, left) + 1; round < ROUNDS; round++)
        if (!one_round(w, round))
            exit(3);
    return NULL;
}

static int workload(const char *dir)
{
    struct worker w[THREADS];
    struct store *s = open_or_die(dir, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.s = s, .number = i};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    store_close(s);
    return 0;
}

/* acked[thread]: the last acknowledged round; event_of[thread][round]: its last event's id. */
struct told { int acked[THREADS]; int64_t event_of[THREADS][ROUNDS]; };

/* True: it ran to its end. False: it was killed by the fault point. */
static bool run_child(const char *self, const char *dir, int fault, struct told *told)
{
    int out[2];
    if (pipe(out) != 0)
        exit(1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        cleanup(str) char *text = xfmt("%d", fault);
        dup2(out[1], 1);
        close(out[0]);
        close(out[1]);
        if (fault >= 0)
            setenv("PROTEUS_FAULT_POINT", text, 1);
        execl(self, self, "workload", dir, (char *)NULL);
        _exit(4);
    }
    close(out[1]);
    FILE *f = fdopen(out[0], "r");
    int thread, round;
    long long event;
    while (fscanf(f, "%d %d %lld\n", &thread, &round, &event) == 3) {
        check_int(round, told->acked[thread] + 1);
        told->acked[thread] = round;
        told->event_of[thread][round] = event;
    }
    fclose(f);
    int status;
    check(waitpid(pid, &status, 0) == pid);
    if (fault < 0 || WIFEXITED(status))
        check_int(status, 0);
    else
        check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return WIFEXITED(status);
}

static void check_events(struct store *s, const struct told *told, const int *done)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    int64_t last;
    int count, want = 0, seen[THREADS][ROUNDS] = {{0}};
    for (int t = 0; t < THREADS; t++)
        want += 2 * (done[t] + 1);
    check(store_events(s, NULL, 0, 100000, &text, &last, &count, &err));
    check_int(count, want);
    check_int(last, want);                      /* ids from 1, no gap */
    check_int(store_last_event(s), want);
    long long id = 0;
    for (char *p = text.data; p && (p = strstr(p, "id: ")); p++) {
        check_int(strtoll(p + 4, NULL, 10), ++id);
        const char *thread = strstr(p, "\"thread\":"), *round = strstr(p, "\"round\":");
        int t = atoi(thread + 9), r = atoi(round + 8);
        check_int(strncmp(strstr(p, "event: ") + 7, seen[t][r] ? "second" : "first", 5), 0);
        if (seen[t][r]++ && told->event_of[t][r])
            check_int(id, told->event_of[t][r]);
    }
    for (int t = 0; t < THREADS; t++)
        for (int r = 0; r < ROUNDS; r++)
            check_int(seen[t][r], r <= done[t] ? 2 : 0);
}

static bool count_one(void *ctx, const char *id, const json_t *doc)
{
    (void)id;
    check_int(json_int(doc, "n", -1), (*(int *)ctx)++);
    return true;
}

static void check_store(const char *dir, const struct told *told, bool complete)
{
    struct store *s = open_or_die(dir, 0, 0);
    struct err err = {0};
    int done[THREADS];
    for (int t = 0; t < THREADS; t++) {
        cleanup(str) char *left = xfmt("left%d", t), *right = xfmt("right%d", t), *job = xfmt("job%d", t);
        done[t] = (int)number_of(s, STORE_META, left);
        check_int(number_of(s, STORE_META, right), done[t]);
        check(done[t] >= told->acked[t] && done[t] <= told->acked[t] + 1);   /* one may be durable and not told */
        if (complete)
            check_int(done[t], ROUNDS - 1);
        int listed = 0;
        struct store_page page = {STORE_CANDIDATE, job, NULL, 1000, false};
        check(store_list(s, &page, count_one, &listed, NULL, NULL, &err));
        check_int(listed, done[t] + 1);
        for (int r = 0; r < ROUNDS; r++) {
            cleanup(str) char *bytes = xfmt("blob of %d %d", t, r);
            cleanup(buf) struct buf got = {0};
            check_int(store_get_blob(s, hash_of(bytes, strlen(bytes)).text, &got, &err), r <= done[t]);
        }
    }
    check_events(s, told, done);
    store_close(s);
}

int main(int argc, char **argv)
{
    hash_init();
    if (argc == 3 && strcmp(argv[1], "workload") == 0)
        return workload(argv[2]);
    /* What a kill leaves does not depend on the disk: memory will do, and spares it thousands of syncs. */
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    int fired = 0;
    for (int fault = 0;; fault++) {
        cleanup(temp) char *dir = temp_dir();
        struct told told = {.acked = {-1, -1, -1}};
        bool ended = run_child("/proc/self/exe", dir, fault, &told);
        check_store(dir, &told, ended);
        if (ended)
            break;
        fired++;
        for (int t = 0; t < THREADS; t++) {   /* what was durable but not told stays; the next run starts after it */
            cleanup(str) char *left = xfmt("left%d", t);
            struct store *s = open_or_die(dir, 0, 0);
            told.acked[t] = (int)number_of(s, STORE_META, left);
            store_close(s);
        }
        check(run_child("/proc/self/exe", dir, -1, &told));
        check_store(dir, &told, true);
    }
    check(fired >= 2 * ROUNDS);
    printf("killed at %d fault points\n", fired);
    return test_done();
}
