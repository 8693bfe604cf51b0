/*
 * Event streams of the real store: nothing lost, nothing doubled, whatever the client does. A writer adds numbered events while
 * clients are cut off at random places and come back with the last id they saw whole.
 */
#include "tests/test_api.h"

#include <pthread.h>
#include <stdatomic.h>

#define EVENTS 400
#define CLIENTS 6

static char *flags[] = {(char *)"proteusd", (char *)"--heartbeat-ms=200", NULL};
static char job[80], noise_job[80];
static int64_t first_id;

static void make_job(char to[80])
{
    int status;
    cleanup(json) json_t *doc = ask_json("POST", "/v1/jobs", JSON_TYPE, "{\"op\":\"scale\",\"shapes\":[{\"N\":64}]}", &status);
    check_int(status, 202);
    snprintf(to, 80, "%s", json_str(doc, "id", ""));
    first_id = json_int(doc, "as_of", 0);
}

static struct client connect_events(const char *path, int64_t last, struct answer *a)
{
    struct client c = client_open(service.address);
    char request[400], resume[60] = "";
    if (last >= 0)
        snprintf(resume, sizeof resume, "Last-Event-ID: %lld\r\n", (long long)last);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, resume);
    client_send(&c, request, strlen(request));
    check(client_answer(&c, false, a));
    return c;
}

/* ---- a client that is cut off ---- */
struct follower {
    unsigned seed;
    bool global;
    int64_t ids[EVENTS * 4];
    int count, connections, doubled;
    bool done;
};

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Takes whole events off the text, chunk framing and all; the framing is no part of a line "id: ". */
static void take_events(struct follower *f, struct client *c)
{
    for (;;) {
        const char *from = c->in.data + c->at, *end = memmem(from, c->in.size - c->at, "\n\n", 2);
        if (!end)
            return;
        const char *id = memmem(from, (size_t)(end - from), "id: ", 4);
        if (id && f->count < EVENTS * 4) {
            int64_t n = strtoll(id + 4, NULL, 10);
            f->doubled += f->count && n <= f->ids[f->count - 1];
            f->ids[f->count++] = n;
            f->done |= memmem(from, (size_t)(end - from), "event: job.done", 15) && memmem(from, (size_t)(end - from), job, strlen(job));
        }
        c->at = (size_t)(end - c->in.data) + 2;
    }
}

static void *follow(void *arg)
{
    struct follower *f = arg;
    char path[200];
    snprintf(path, sizeof path, f->global ? "/v1/events" : "/v1/jobs/%s/events", job);
    int64_t last = f->global ? first_id : -1;
    for (; !f->done && f->connections < 5000; f->connections++) {
        struct answer a = {0};
        struct client c = connect_events(path, last, &a);
        bool ended = a.status == 204;
        int64_t until = clock_mono_ns() + (int64_t)(next_random(&f->seed) % 40) * 1000000;
        size_t most = 200 + next_random(&f->seed) % 20000;
        while (!f->done && c.in.size < most && client_more(&c, until))
            take_events(f, &c);
        if (f->count)
            last = f->ids[f->count - 1];
        if (next_random(&f->seed) & 1)
            client_reset(&c);
        client_close(&c);
        answer_done(&a);
        if (ended)
            break;
    }
    return NULL;
}

static void *write_events(void *arg)
{
    (void)arg;
    for (int i = 0; i < EVENTS; i++) {
        check(fake_event(service.app.store, i % 3 ? job : noise_job, "candidate.phase", i));
        if (i % 16 == 0)
            clock_sleep_ns(3000000);
    }
    struct err err;
    check(fake_end(service.app.store, job, "done", NULL, &err));
    return NULL;
}

static void nothing_is_lost_and_nothing_doubled(void)
{
    static struct follower followers[CLIENTS];
    pthread_t threads[CLIENTS], writer;
    make_job(noise_job);
    make_job(job);
    for (int i = 0; i < CLIENTS; i++) {
        followers[i].seed = (unsigned)random_u64();
        followers[i].global = i % 2;
        printf("seed of follower %d: %u\n", i, followers[i].seed);
        pthread_create(&threads[i], NULL, follow, &followers[i]);
    }
    pthread_create(&writer, NULL, write_events, NULL);
    pthread_join(writer, NULL);
    int64_t last = store_last_event(service.app.store);
    int of_job = 1 + EVENTS - (EVENTS + 2) / 3 + 1;          /* job.state, its phases, job.done */
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        struct follower *f = &followers[i];
        check(f->done);
        check_int(f->doubled, 0);
        check(f->connections > 3);
        if (f->global) {
            check_int(f->count, last - first_id);
            check_int(f->ids[f->count - 1], last);
        } else {
            check_int(f->count, of_job);
        }
    }
}

static void a_finished_stream_ends_and_then_stays_away(void)
{
    struct answer a = {0};
    char path[200], query[240];
    snprintf(path, sizeof path, "/v1/jobs/%s/events", job);
    struct client c = connect_events(path, -1, &a);
    check_int(a.status, 200);
    check(client_until(&c, "event: job.done", CLIENT_WAIT_NS));
    check(client_until(&c, "\r\n0\r\n\r\n", CLIENT_WAIT_NS));
    client_close(&c);
    int64_t last = store_last_event(service.app.store);
    c = connect_events(path, last, &a);
    check_int(a.status, 204);
    client_close(&c);
    c = connect_events(path, last - 1, &a);
    check_int(a.status, 200);
    check(client_until(&c, "event: job.done", CLIENT_WAIT_NS));
    client_close(&c);
    snprintf(query, sizeof query, "%s?after=%lld", path, (long long)last);
    c = connect_events(query, -1, &a);
    check_int(a.status, 204);
    client_close(&c);
    /* the header wins over the parameter */
    c = connect_events(query, 0, &a);
    check_int(a.status, 200);
    client_close(&c);
    c = connect_events(path, last + 1, &a);
    check_int(a.status, 400);
    client_close(&c);
    answer_done(&a);
}

static void a_live_stream_ends_with_its_job(void)
{
    struct answer a = {0};
    struct err err;
    char other[80], path[200];
    make_job(other);
    snprintf(path, sizeof path, "/v1/jobs/%s/events", other);
    struct client c = connect_events(path, -1, &a);
    check(client_until(&c, "event: job.state", CLIENT_WAIT_NS));
    clock_sleep_ns(300000000);                        /* asleep by now */
    check(fake_end(service.app.store, other, "cancelled", NULL, &err));
    check(client_until(&c, "event: job.done", CLIENT_WAIT_NS));
    check(client_until(&c, "\r\n0\r\n\r\n", 3000000000));
    client_close(&c);
    answer_done(&a);
}

static void the_global_stream_starts_now(void)
{
    struct answer a = {0};
    struct client c = connect_events("/v1/events", -1, &a);
    check(client_until(&c, "retry:", CLIENT_WAIT_NS));
    check(client_until(&c, ":\n\n", 1000000000));
    check(!memmem(c.in.data, c.in.size, "id: ", 4));
    check(fake_event(service.app.store, NULL, "device.health", 7));
    check(client_until(&c, "\"number\":7", CLIENT_WAIT_NS));
    char want[60];
    snprintf(want, sizeof want, "id: %lld\n", (long long)store_last_event(service.app.store));
    check(memmem(c.in.data, c.in.size, want, strlen(want)));
    client_close(&c);
    answer_done(&a);
}

static void a_restart_does_not_break_the_chain(void)
{
    struct answer a = {0};
    char other[80], path[200];
    make_job(other);
    snprintf(path, sizeof path, "/v1/jobs/%s/events", other);
    check(fake_event(service.app.store, other, "candidate.phase", 1));
    int64_t seen = store_last_event(service.app.store);
    struct client c = connect_events(path, -1, &a);
    check(client_until(&c, "\"number\":1", CLIENT_WAIT_NS));
    service_down();
    check(client_until(&c, "0\r\n\r\n", CLIENT_WAIT_NS));
    client_close(&c);
    service_up(2, flags);
    check(fake_event(service.app.store, other, "candidate.phase", 2));
    check_int(store_last_event(service.app.store), seen + 1);
    c = connect_events(path, seen, &a);
    check(client_until(&c, "\"number\":2", CLIENT_WAIT_NS));
    check(!memmem(c.in.data, c.in.size, "\"number\":1", 10));
    client_close(&c);
    answer_done(&a);
}

int main(void)
{
    service_make();
    service_up(2, flags);
    nothing_is_lost_and_nothing_doubled();
    a_finished_stream_ends_and_then_stays_away();
    a_live_stream_ends_with_its_job();
    the_global_stream_starts_now();
    a_restart_does_not_break_the_chain();
    service_down();
    service_remove();
    return test_done();
}
