/* Counters of requests by route and status, and a histogram of times; relaxed atomics, read while they run. */
#include "server/http/edge.h"

#include <string.h>

static const int codes[] = {200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 409, 410, 413, 414, 415, 422, 429, 431, 500, 502, 503, 504, 507};
#define CODE_COUNT (sizeof codes / sizeof *codes)
static const int64_t bounds_ns[] = {100000, 500000, 1000000, 5000000, 10000000, 50000000, 100000000, 500000000, 1000000000, 10000000000};
#define BOUND_COUNT (sizeof bounds_ns / sizeof *bounds_ns)

struct row {
    _Atomic uint64_t by_code[CODE_COUNT], below[BOUND_COUNT], count, sum_ns;
};
struct metrics {
    const struct route *routes;
    int count;
    struct row rows[];              /* one more: requests without a route */
};

struct metrics *metrics_new(const struct route *routes, int count)
{
    struct metrics *m = xalloc(sizeof *m + (size_t)(count + 1) * sizeof m->rows[0]);
    m->routes = routes;
    m->count = count;
    return m;
}

void metrics_free(struct metrics *m)
{
    free(m);
}

static void add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

void metrics_count(struct metrics *m, const struct route *route, int status, int64_t ns)
{
    struct row *row = &m->rows[route ? route - m->routes : m->count];
    for (size_t i = 0; i < CODE_COUNT; i++)
        if (codes[i] == status) {
            add(&row->by_code[i], 1);
            break;
        }
    for (size_t i = 0; i < BOUND_COUNT; i++)
        if (ns <= bounds_ns[i]) {
            add(&row->below[i], 1);
            break;
        }
    add(&row->count, 1);
    add(&row->sum_ns, (uint64_t)ns);
}

static void write_counts(const struct row *row, const char *method, const char *pattern, struct buf *to)
{
    for (size_t i = 0; i < CODE_COUNT; i++) {
        unsigned long long n = atomic_load_explicit(&row->by_code[i], memory_order_relaxed);
        if (n)
            buf_fmt(to, "proteus_http_requests_total{method=\"%s\",route=\"%s\",code=\"%d\"} %llu\n", method, pattern, codes[i], n);
    }
}

static void write_times(const struct row *row, const char *method, const char *pattern, struct buf *to)
{
    unsigned long long count = atomic_load_explicit(&row->count, memory_order_relaxed), below = 0;
    if (!count)
        return;
    static const char name[] = "proteus_http_request_duration_seconds";
    for (size_t i = 0; i < BOUND_COUNT; i++) {
        below += atomic_load_explicit(&row->below[i], memory_order_relaxed);
        buf_fmt(to, "%s_bucket{method=\"%s\",route=\"%s\",le=\"%g\"} %llu\n", name, method, pattern, (double)bounds_ns[i] / 1e9, below);
    }
    buf_fmt(to, "%s_bucket{method=\"%s\",route=\"%s\",le=\"+Inf\"} %llu\n", name, method, pattern, count);
    buf_fmt(to, "%s_sum{method=\"%s\",route=\"%s\"} %.9g\n", name, method, pattern,
            (double)atomic_load_explicit(&row->sum_ns, memory_order_relaxed) / 1e9);
    buf_fmt(to, "%s_count{method=\"%s\",route=\"%s\"} %llu\n", name, method, pattern, count);
}

void metrics_write(struct metrics *m, struct buf *to)
{
    buf_str(to, "# HELP proteus_http_requests_total Requests answered.\n# TYPE proteus_http_requests_total counter\n");
    for (int i = 0; i <= m->count; i++)
        write_counts(&m->rows[i], i < m->count ? http_method_name(m->routes[i].method) : "", i < m->count ? m->routes[i].pattern : "", to);
    buf_str(to, "# HELP proteus_http_request_duration_seconds Time from head to answer; waits included, streams' lengths not.\n"
                "# TYPE proteus_http_request_duration_seconds histogram\n");
    for (int i = 0; i < m->count; i++)
        write_times(&m->rows[i], http_method_name(m->routes[i].method), m->routes[i].pattern, to);
}

void http_metrics(struct http_server *s, struct buf *to)
{
    metrics_write(s->metrics, to);
    buf_fmt(to, "# HELP proteus_http_streams Open event streams.\n# TYPE proteus_http_streams gauge\nproteus_http_streams %d\n",
            atomic_load(&s->streams));
    buf_fmt(to, "# HELP proteus_http_waiting_requests Long polls that wait.\n# TYPE proteus_http_waiting_requests gauge\n"
            "proteus_http_waiting_requests %d\n", atomic_load(&s->waiters));
}
