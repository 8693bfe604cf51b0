/*
 * How long a submission takes, beside what the disk alone takes for the two syncs of a transaction: submit ADDRESS FOLDER COUNT
 * BODY. The two are measured in turn, so that whatever else the machine does falls on both. Prints one JSON object.
 */
#include "tests/test_http.h"

#include <fcntl.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double two_syncs_ms(int fd)
{
    static char page[8192];
    int64_t from = clock_mono_ns();
    for (int i = 0; i < 2; i++)
        if (pwrite(fd, page, sizeof page, 0) != sizeof page || fdatasync(fd) != 0)
            exit(1);
    return (double)(clock_mono_ns() - from) / 1e6;
}

static double submit_ms(struct client *c, const struct buf *request, struct answer *a)
{
    int64_t from = clock_mono_ns();
    if (!client_send(c, request->data, request->size) || !client_answer(c, false, a) || a->status != 202) {
        fprintf(stderr, "a submission was answered with %d: %s\n", a->status, buf_cstr(&a->body));
        exit(1);
    }
    return (double)(clock_mono_ns() - from) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    int count = atoi(argv[3]);
    cleanup(str) char *path = xfmt("%s/sync", argv[2]);
    cleanup(fd) int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    struct client c = client_open(argv[1]);
    struct answer a = {0};
    double *submits = xarray((size_t)count, sizeof *submits), *syncs = xarray((size_t)count, sizeof *syncs);
    for (int i = 0; i < count; i++) {
        cleanup(buf) struct buf request = {0};
        buf_fmt(&request, "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nIdempotency-Key: \"bench-%d-%lld\"\r\n"
                "Content-Length: %zu\r\n\r\n%s", argv[1], i, (long long)clock_mono_ns(), strlen(argv[4]), argv[4]);
        syncs[i] = two_syncs_ms(fd);
        submits[i] = submit_ms(&c, &request, &a);
    }
    qsort(submits, (size_t)count, sizeof *submits, by_value);
    qsort(syncs, (size_t)count, sizeof *syncs, by_value);
    printf("{\"count\":%d,\"submit_ms\":{\"median\":%.3f,\"p90\":%.3f},\"two_syncs_ms\":{\"median\":%.3f,\"p90\":%.3f},\"over_ms\":%.3f}\n", count,
           submits[count / 2], submits[count * 9 / 10], syncs[count / 2], syncs[count * 9 / 10], submits[count / 2] - syncs[count / 2]);
    client_close(&c);
    answer_done(&a);
    free(submits);
    free(syncs);
    return 0;
}
