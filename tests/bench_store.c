/*
 * Figures of the store: commits a second from 1 and 16 threads, and the median of one commit beside two fdatasync of the same disk.
 * bench_store [DIR] [SECONDS]
 */
#include "tests/test_store.h"

#include "core/clock.h"

#include <fcntl.h>
#include <pthread.h>

#define SAMPLES 400

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(int64_t *samples, int count)
{
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    return (double)samples[count / 2] / 1e6;
}

/* What a commit is at least: data pages, then the meta page, each forced to the disk. */
static double two_syncs_ms(const char *dir)
{
    cleanup(str) char *path = xfmt("%s/syncs", dir);
    cleanup(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    static char page[16384];
    static int64_t samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        memset(page, i, sizeof page);
        int64_t from = clock_mono_ns();
        if (pwrite(fd, page, sizeof page, 4096 * (1 + i % 64)) < 0 || fdatasync(fd) != 0 || pwrite(fd, page, 4096, 0) < 0 || fdatasync(fd) != 0)
            perror(path);
        samples[i] = clock_mono_ns() - from;
    }
    return median_ms(samples, SAMPLES);
}

struct worker { struct store *s; int number; int64_t until_ns; int commits; pthread_t thread; };

static bool commit_one(struct store *s, int thread, int i)
{
    cleanup(json) json_t *doc = json_pack("{s:i, s:s}", "n", i, "text", "a job of about the usual size, give or take");
    cleanup(str) char *id = xfmt("job_%d_%d", thread, i);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_JOB, id, "open", doc);
    store_event(b, "job.state", id, doc);
    struct err err = {0};
    return store_commit(s, b, NULL, &err);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (clock_mono_ns() < w->until_ns && commit_one(w->s, w->number, w->commits))
        w->commits++;
    return NULL;
}

static double commits_per_second(struct store *s, int threads, int seconds)
{
    static struct worker w[64];
    static int base;
    int64_t from = clock_mono_ns();
    int total = 0;
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){.s = s, .number = base++, .until_ns = from + (int64_t)seconds * 1000000000};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        total += w[i].commits;
    }
    return total / ((double)(clock_mono_ns() - from) / 1e9);
}

int main(int argc, char **argv)
{
    cleanup(temp) char *own = temp_dir();
    const char *dir = argc > 1 ? argv[1] : own;
    int seconds = argc > 2 ? atoi(argv[2]) : 3;
    cleanup(store) struct store *s = open_or_die(dir, 0, 0);
    static int64_t samples[SAMPLES];
    double syncs_ms = two_syncs_ms(dir);
    for (int i = 0; i < SAMPLES; i++) {
        int64_t from = clock_mono_ns();
        if (!commit_one(s, -1, i))
            return 1;
        samples[i] = clock_mono_ns() - from;
    }
    double commit_ms = median_ms(samples, SAMPLES), after_ms = two_syncs_ms(dir);
    printf("{\"two_syncs_ms\":%.3f,\"two_syncs_after_ms\":%.3f,\"commit_median_ms\":%.3f,\"commit_p99_ms\":%.3f,\n", syncs_ms, after_ms,
           commit_ms, (double)samples[SAMPLES * 99 / 100] / 1e6);
    printf(" \"commits_per_s_1_thread\":%.0f,\"commits_per_s_16_threads\":%.0f}\n", commits_per_second(s, 1, seconds),
           commits_per_second(s, 16, seconds));
    return 0;
}
