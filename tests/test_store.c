/* The store from one thread: records, expectations, pages, blobs, events, limits, and everything a folder can have against us. */
#include "tests/test_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void records_and_expectations(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    struct err err = {0};
    check_int(number_of(s, STORE_JOB, "a"), -1);
    check(put_number(s, STORE_JOB, "a", NULL, 1));
    check_int(number_of(s, STORE_JOB, "a"), 1);
    check_int(number_of(s, STORE_KERNEL, "a"), -1);

    cleanup(json) json_t *one = doc_of(1), *two = doc_of(2);
    struct store_batch *b = store_batch_new();
    store_expect(b, STORE_JOB, "a", one);
    store_expect(b, STORE_JOB, "b", NULL);
    store_put(b, STORE_JOB, "a", NULL, two);
    store_put(b, STORE_JOB, "b", NULL, one);
    check(store_commit(s, b, NULL, &err));
    check_int(number_of(s, STORE_JOB, "a"), 2);
    check_int(number_of(s, STORE_JOB, "b"), 1);

    static const struct { const char *id; int was; const char *says; } lost[] = {
        {"a", 1, "changed meanwhile"}, {"b", 0, "exists already"}, {"c", 1, "is gone"},
    };
    for (size_t i = 0; i < 3; i++) {
        b = store_batch_new();
        store_put(b, STORE_JOB, "never", NULL, one);
        store_expect(b, STORE_JOB, lost[i].id, lost[i].was ? one : NULL);
        err = (struct err){0};
        int64_t last = 77;
        store_event(b, "x", NULL, one);
        check(!store_commit(s, b, &last, &err));
        check_int(err.code, ERR_CONFLICT);
        check(strstr(err.text, lost[i].says) && strstr(err.text, lost[i].id));
        check_int(number_of(s, STORE_JOB, "never"), -1);
        check_int(last, 77);
        check_int(store_last_event(s), 0);
    }

    b = store_batch_new();
    store_delete(b, STORE_JOB, "a");
    store_delete(b, STORE_JOB, "nobody");
    check(store_commit(s, b, NULL, &err));
    check_int(number_of(s, STORE_JOB, "a"), -1);
    /* An empty batch is fine; real numbers compare equal to what was read back. */
    check(store_commit(s, store_batch_new(), NULL, &err));
    cleanup(json) json_t *real = json_pack("{s:f, s:[f,n,s]}", "x", 0.1, "y", 1.0, "\n\"\\");
    b = store_batch_new();
    store_put(b, STORE_META, "real", NULL, real);
    check(store_commit(s, b, NULL, &err));
    cleanup(json) json_t *back = NULL;
    check(store_get(s, STORE_META, "real", &back, &err));
    b = store_batch_new();
    store_expect(b, STORE_META, "real", back);
    check(store_commit(s, b, NULL, &err));
    check(json_equal(real, back));
}

static void keys_and_limits(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    char id[600], owner[600];
    memset(id, 'k', sizeof id);
    memset(owner, 'o', sizeof owner);
    static const struct { int id, owner; bool ok; } cases[] = {
        {511, 0, true}, {512, 0, false}, {1, 501, true}, {1, 502, false}, {0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleanup(json) json_t *doc = doc_of(1);
        struct err err = {0};
        struct store_batch *b = store_batch_new();
        id[cases[i].id] = owner[cases[i].owner] = 0;
        store_put(b, STORE_CANDIDATE, id, cases[i].owner ? owner : NULL, doc);
        check_int(store_commit(s, b, NULL, &err), cases[i].ok);
        check_int(err.code, cases[i].ok ? ERR_OK : ERR_INVALID);
        id[cases[i].id] = 'k';
        owner[cases[i].owner] = 'o';
    }
    id[599] = 0;
    check_int(number_of(s, STORE_JOB, id), -1);
    check_int(number_of(s, STORE_JOB, ""), -1);
}

struct seen { int count; char ids[64][64]; int stop_after; struct store *s; };

static bool see(void *ctx, const char *id, const json_t *doc)
{
    struct seen *seen = ctx;
    check(json_is_object(doc));
    if (seen->count < 64)
        snprintf(seen->ids[seen->count], 64, "%s", id);
    seen->count++;
    return seen->count != seen->stop_after;
}

static void pages(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    struct err err = {0};
    /* 10,000 records under two owners in many batches; ids in an order that is not that of writing. */
    const int total = 10000;
    for (int i = 0; i < total;) {
        struct store_batch *b = store_batch_new();
        for (int n = 0; n < 500; n++, i++) {
            cleanup(json) json_t *doc = doc_of(i);
            cleanup(str) char *id = xfmt("cand_%05d", (i * 7919) % total);
            store_put(b, STORE_CANDIDATE, id, i % 2 ? "odd" : "even", doc);
        }
        check(store_commit(s, b, NULL, &err));
    }
    for (int round = 0; round < 6; round++) {
        bool backwards = round % 2;
        const char *owner = round < 2 ? NULL : round < 4 ? "odd" : "even";
        cleanup(str) char *cursor = NULL;
        int count = 0;
        long previous = backwards ? total : -1;
        do {
            struct seen seen = {0};
            struct store_page page = {STORE_CANDIDATE, owner, cursor, 37, backwards};
            char *next = NULL;
            check(store_list(s, &page, see, &seen, &next, NULL, &err));
            for (int i = 0; i < seen.count; i++) {
                long now = owner ? number_of(s, STORE_CANDIDATE, seen.ids[i]) : strtol(seen.ids[i] + 5, NULL, 10);
                check(backwards ? now < previous : now > previous);
                if (owner)
                    check_int(now % 2, owner[0] == 'o');
                previous = now;
            }
            count += seen.count;
            free(cursor);
            cursor = next;
        } while (cursor);
        check_int(count, owner ? total / 2 : total);
    }
}

static void cursors_hold(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    struct err err = {0};
    for (int i = 0; i < 6; i++) {
        cleanup(str) char *id = xfmt("c%d", i);
        check(put_number(s, STORE_CANDIDATE, id, "job", i));
    }
    struct seen seen = {0};
    cleanup(str) char *next = NULL;
    struct store_page page = {STORE_CANDIDATE, "job", NULL, 2, false};
    check(store_list(s, &page, see, &seen, &next, NULL, &err));
    check_str(seen.ids[1], "c1");
    /* The record under the cursor goes, one is rewritten in place, one is added at the end. */
    struct store_batch *b = store_batch_new();
    store_delete(b, STORE_CANDIDATE, "c1");
    check(store_commit(s, b, NULL, &err));
    check(put_number(s, STORE_CANDIDATE, "c2", "job", 22));
    check(put_number(s, STORE_CANDIDATE, "c3", NULL, 33));
    check(put_number(s, STORE_CANDIDATE, "c9", "job", 9));
    check(put_number(s, STORE_CANDIDATE, "c4", "elsewhere", 4));
    page.after = next;
    page.limit = 100;
    char *end = (char *)"";
    seen.count = 0;
    check(store_list(s, &page, see, &seen, &end, NULL, &err));
    check_int(seen.count, 4);
    static const char *const want[] = {"c2", "c3", "c5", "c9"};
    for (int i = 0; i < 4; i++)
        check_str(seen.ids[i], want[i]);
    check(!end);
    /* A key that is a prefix of another owner's does not mix in. */
    seen.count = 0;
    struct store_page other = {STORE_CANDIDATE, "jo", NULL, 10, true};
    check(store_list(s, &other, see, &seen, NULL, NULL, &err));
    check_int(seen.count, 0);
    /* Stopping early; the cursor is that of the last taken. */
    seen = (struct seen){.stop_after = 1};
    free(next);
    page.after = NULL;
    check(store_list(s, &page, see, &seen, &next, NULL, &err));
    check_int(seen.count, 1);
    page.after = next;
    check(store_list(s, &page, see, &seen, &end, NULL, &err));
    check_str(seen.ids[1], "c2");

    static const char *const bad[] = {"", "zz", "00000000000000001", "000000000000000G", "c1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        page.after = bad[i];
        err = (struct err){0};
        check(!store_list(s, &page, see, &seen, &end, NULL, &err));
        check_int(err.code, ERR_INVALID);
    }
    struct store_page plain = {STORE_JOB, NULL, "", 5, false};
    err = (struct err){0};
    check(!store_list(s, &plain, see, &seen, &end, NULL, &err));
    check_int(err.code, ERR_INVALID);
}

static void blobs(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    struct err err = {0};
    char *big = xalloc(300000);
    memset(big, 7, 300000);
    struct hash_hex digest, again, empty;
    for (int i = 0; i < 3; i++) {
        struct store_batch *b = store_batch_new();
        store_put_blob(b, big, 300000, &digest);
        store_put_blob(b, big, 300000, &again);
        store_put_blob(b, "", 0, &empty);
        check(store_commit(s, b, NULL, &err));
        check_str(digest.text, again.text);
    }
    cleanup(json) json_t *stats = NULL;
    check(store_stats(s, &stats, &err));
    check_int(json_int(json_object_get(json_object_get(stats, "kinds"), "blob"), "count", -1), 2);
    cleanup(buf) struct buf got = {0}, none = {0};
    check(store_get_blob(s, digest.text, &got, &err));
    check(got.size == 300000 && memcmp(got.data, big, got.size) == 0);
    check(store_get_blob(s, empty.text, &none, &err));
    check_int(none.size, 0);
    digest.text[0] = digest.text[0] == '0' ? '1' : '0';
    static const char *const missing[] = {"", "xyz", "../../etc/passwd"};
    for (size_t i = 0; i < 4; i++) {
        err = (struct err){0};
        check(!store_get_blob(s, i < 3 ? missing[i] : digest.text, &none, &err));
        check_int(err.code, ERR_NOT_FOUND);
    }
    free(big);
}

static int64_t add_event(struct store *s, const char *type, const char *job, int64_t n)
{
    cleanup(json) json_t *doc = doc_of(n);
    struct store_batch *b = store_batch_new();
    store_event(b, type, job, doc);
    int64_t last = -1;
    struct err err = {0};
    check(store_commit(s, b, &last, &err));
    return last;
}

static _Atomic int64_t notified;
static void on_events(void *ctx, int64_t last)
{
    check(ctx == &notified);
    notified = last;
}

static void events(void)
{
    cleanup(temp) char *dir = temp_dir();
    struct store *s = open_or_die(dir, 0, 3);
    struct err err = {0};
    store_on_events(s, on_events, (void *)&notified);
    check_int(add_event(s, "job.state", "job_a", 10), 1);
    check_int(add_event(s, "job.state", "job_b", 20), 2);
    check_int(add_event(s, "device.health", NULL, 30), 3);
    check_int(add_event(s, "job.done", "job_a", 40), 4);
    check_int(store_last_event(s), 4);

    cleanup(buf) struct buf text = {0};
    int64_t last = 0;
    int count = 0;
    check(store_events(s, "job_a", 0, 100, &text, &last, &count, &err));
    check_int(count, 2);
    check_int(last, 4);
    check(strstr(text.data, "id: 1\nevent: job.state\ndata: {\"id\":1,\"time\":\"2") == text.data);
    check(strstr(text.data, "Z\",\"job\":\"job_a\",\"n\":10}\n\nid: 4\nevent: job.done\ndata: {\"id\":4,"));
    check_str(text.data + text.size - 9, "\"n\":40}\n\n");
    buf_clear(&text);
    check(store_events(s, NULL, 1, 2, &text, &last, &count, &err));
    check_int(count, 2);
    check_int(last, 3);
    check(strstr(text.data, "Z\",\"n\":30}\n\n"));   /* no job, no member of that name */
    static const struct { const char *job; int64_t after; } nothing[] = {
        {"job_a", 4}, {NULL, 4}, {NULL, INT64_MAX}, {"job_c", 0}, {"job_", 0}, {"", 0}, {"job_a", 99},
    };
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        buf_clear(&text);
        check(store_events(s, nothing[i].job, nothing[i].after, 10, &text, &last, &count, &err));
        check_int(count, 0);
        check_int(text.size, 0);
        check_int(last, nothing[i].after);
    }
    /* Only the newest three of a job stay, in its list and in that of all; ids go on. */
    for (int i = 0; i < 5; i++)
        add_event(s, "job.state", "job_a", 100 + i);
    buf_clear(&text);
    check(store_events(s, "job_a", 0, 100, &text, &last, &count, &err));
    check_int(count, 3);
    check(strstr(text.data, "\"n\":102") && !strstr(text.data, "\"n\":101"));
    buf_clear(&text);
    check(store_events(s, NULL, 0, 100, &text, &last, &count, &err));
    check_int(count, 5);
    check_int(last, 9);
    for (int i = 0; i < 200 && notified != 9; i++)
        usleep(10000);   /* the callback comes after the commit is told */
    check_int(notified, 9);
    /* A deleted job takes its events along; the counter never goes back, not even over a restart. */
    struct store_batch *b = store_batch_new();
    cleanup(json) json_t *doc = json_pack("{s:s, s:i, s:s}", "job", "job_x", "id", 5, "time", "never");
    store_put(b, STORE_JOB, "job_a", NULL, doc);
    check(store_commit(s, b, NULL, &err));
    b = store_batch_new();
    store_delete(b, STORE_JOB, "job_a");
    check(store_commit(s, b, NULL, &err));
    buf_clear(&text);
    check(store_events(s, NULL, 0, 100, &text, &last, &count, &err));
    check_int(count, 2);
    store_close(s);
    s = open_or_die(dir, 0, 3);
    check_int(store_last_event(s), 9);
    check_int(add_event(s, "x", NULL, 1), 10);
    /* What a document says of id and time does not count. */
    b = store_batch_new();
    store_event(b, "x", NULL, doc);
    check(store_commit(s, b, &last, &err));
    check_int(last, 11);
    buf_clear(&text);
    check(store_events(s, NULL, 10, 1, &text, &last, &count, &err));
    check(strstr(text.data, "Z\",\"job\":\"job_x\"}\n\n"));
    store_close(s);
}

static void map_full(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(store) struct store *s = open_or_die(dir, 1 << 20, 0);
    char *data = xalloc(200000);
    int stored = 0;
    struct err err = {0};
    for (int i = 0; i < 20; i++) {
        struct store_batch *b = store_batch_new();
        struct hash_hex digest;
        cleanup(json) json_t *doc = doc_of(i);
        cleanup(str) char *id = xfmt("r%02d", i);
        data[0] = (char)i;
        store_put(b, STORE_JOB, id, NULL, doc);
        store_put_blob(b, data, 200000, &digest);
        store_event(b, "x", NULL, doc);
        if (!store_commit(s, b, NULL, &err))
            break;
        stored++;
    }
    check(stored > 1 && stored < 6);
    check_int(err.code, ERR_NO_SPACE);
    check(strstr(err.text, "raise --store-map-bytes"));
    cleanup(str) char *lost = xfmt("r%02d", stored);
    check_int(number_of(s, STORE_JOB, lost), -1);   /* whole or not at all */
    check_int(store_last_event(s), stored);
    check(put_number(s, STORE_JOB, "small", NULL, 5));
    check_int(number_of(s, STORE_JOB, "small"), 5);
    free(data);
}

static bool open_fails(const char *dir, const char *says)
{
    struct store *s = NULL;
    struct err err = {0};
    struct store_config config = {.dir = dir};
    if (store_open(&config, &s, &err)) {
        store_close(s);
        return false;
    }
    if (err.code == ERR_UNAVAILABLE && strstr(err.text, says) && strstr(err.text, dir))
        return true;
    fprintf(stderr, "%s: %s (wanted: %s)\n", err_name(err.code), err.text, says);
    return false;
}

/* Runs `body` in a child; its checks count as one. */
static bool in_child(bool (*body)(const char *dir), const char *dir)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body(dir) ? 0 : 1);
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool second_process(const char *dir)
{
    cleanup(str) char *says = xfmt("in use by process %ld:", (long)getppid());
    return open_fails(dir, says);
}

/* As an ordinary user in a folder that is another's. */
static bool not_ours(const char *dir)
{
    return (getuid() != 0 || setuid(65534) == 0) && open_fails(dir, "permission denied");
}

static bool file_limit(const char *dir)
{
    struct store *s = open_or_die(dir, 0, 0);
    struct stat st;
    cleanup(str) char *path = xfmt("%s/store.mdb", dir);
    signal(SIGXFSZ, SIG_IGN);
    if (stat(path, &st) != 0)
        return false;
    struct rlimit limit = {(rlim_t)st.st_size + 100000, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return false;
    char *data = xalloc(300000);
    struct err err = {0};
    struct hash_hex digest;
    struct store_batch *b = store_batch_new();
    store_put_blob(b, data, 300000, &digest);
    bool refused = !store_commit(s, b, NULL, &err) && err.code == ERR_NO_SPACE && strstr(err.text, "nothing was lost");
    /* Once there is space again, it goes on without a restart. */
    setrlimit(RLIMIT_FSIZE, &all);
    b = store_batch_new();
    store_put_blob(b, data, 300000, &digest);
    return refused && store_commit(s, b, NULL, &err);
}

/* A file system of 1 MiB of our own; 2: this machine does not allow one. */
static int small_disk(const char *dir)
{
    if (unshare(CLONE_NEWNS | (getuid() ? CLONE_NEWUSER : 0)) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=1m") != 0)
        return 2;
    struct store *s = open_or_die(dir, 0, 0);
    char *data = xalloc(2000000);
    struct err err = {0};
    struct hash_hex digest;
    struct store_batch *b = store_batch_new();
    store_put_blob(b, data, 2000000, &digest);
    if (store_commit(s, b, NULL, &err) || err.code != ERR_NO_SPACE || !strstr(err.text, "disk is full"))
        return 1;
    if (!put_number(s, STORE_JOB, "small", NULL, 1) || number_of(s, STORE_JOB, "small") != 1)
        return 1;
    store_close(s);
    if (mount("none", dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0 || !open_fails(dir, "read-only"))
        return 1;
    if (umount(dir) != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=64k") != 0)
        return 1;
    return open_fails(dir, "full") ? 0 : 1;
}

static void folders_that_will_not_do(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(str) char *file = xfmt("%s/store.mdb", dir), *below = xfmt("%s/a/b", dir), *under_file = xfmt("%s/store.mdb/x", dir);
    struct store *s = open_or_die(dir, 0, 0);
    check(open_fails(dir, "in use by process"));   /* twice in one process is no better */
    check(in_child(second_process, dir));
    store_close(s);
    check(in_child(not_ours, dir));
    s = open_or_die(below, 0, 0);                  /* makes what is missing */
    store_close(s);
    struct err err = {0};
    struct store_config config = {.dir = under_file};
    check(!store_open(&config, &s, &err));         /* a file where a folder should be */
    /* Garbage in place of the file. */
    char junk[8192];
    memset(junk, 'x', sizeof junk);
    check(file_write(file, junk, sizeof junk, 0600, &err));
    check(open_fails(dir, "not a store"));
    cleanup(temp) char *fsize = temp_dir(), *disk = temp_dir();
    check(in_child(file_limit, fsize));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(small_disk(disk));
    int status = 0;
    check(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        printf("not tried: a full and a read-only disk (no mount namespace here)\n");
    else
        check_int(WEXITSTATUS(status), 0);
}

int main(void)
{
    hash_init();
    records_and_expectations();
    keys_and_limits();
    pages();
    cursors_hold();
    blobs();
    events();
    map_full();
    folders_that_will_not_do();
    return test_done();
}
