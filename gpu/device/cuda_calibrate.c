/*
 * What the harness itself costs on this card, now: stored beside every measurement, never subtracted from it. Medians, because
 * a first launch after a pause is slower and a neighbour on the bus makes single ones slow.
 */
#include "gpu/device/cuda_sets.h"

#include <string.h>

#define REPEATS 15
#define BANDWIDTH_REPEATS 5             /* each of half a millisecond and more: they hardly scatter */
#define COPY_BYTES ((size_t)512 << 20)
#define READ_BLOCKS_SM 8
#define IN_A_SPAN 4

struct events { CUevent begin, end; };

static void events_done(struct events *e)
{
    if (e->begin)
        cu.cuEventDestroy(e->begin);
    if (e->end)
        cu.cuEventDestroy(e->end);
}
DEFINE_CLEANUP(events, struct events, events_done(it))

static double median(double *v, int n)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k] < v[k - 1]; k--) {
            double swap = v[k];
            v[k] = v[k - 1];
            v[k - 1] = swap;
        }
    return v[n / 2];
}

typedef bool timed_work(struct device *d, void *ctx, struct err *err);

/* Median of event and wall time around the work, and the least event time, of so many repeats (REPEATS at most). */
static bool time_work(struct device *d, const struct events *e, timed_work *work, void *ctx, int repeats, double *ret_event_ns,
                      double *ret_best_ns, double *ret_wall_ns, struct err *err)
{
    double event[REPEATS], wall[REPEATS];
    for (int i = -2; i < repeats; i++) {
        float ms = 0;
        if (!CU(err, cuStreamSynchronize, d->stream))
            return false;
        int64_t from = raw_ns();
        if (!CU(err, cuEventRecord, e->begin, d->stream) || !work(d, ctx, err) ||
            !CU(err, cuEventRecord, e->end, d->stream) || !CU(err, cuCtxSynchronize))
            return false;
        int64_t spent = raw_ns() - from;
        if (!CU(err, cuEventElapsedTime, &ms, e->begin, e->end))
            return false;
        if (i >= 0) {
            event[i] = (double)ms * 1e6;
            wall[i] = (double)spent;
        }
    }
    *ret_event_ns = median(event, repeats);
    *ret_best_ns = event[0];        /* sorted now */
    *ret_wall_ns = median(wall, repeats);
    return true;
}

static bool nothing(struct device *d, void *ctx, struct err *err)
{
    (void)d, (void)ctx, (void)err;
    return true;
}

static bool one_launch(struct device *d, void *ctx, struct err *err)
{
    (void)ctx;
    return helper_launch(d, d->empty, 1, 32, 0, NULL, err);
}

static bool one_graph(struct device *d, void *ctx, struct err *err)
{
    return CU(err, cuGraphLaunch, *(CUgraphExec *)ctx, d->stream);
}

struct copy { CUdeviceptr from, to; };

/* Several in a span, so that the span's own beginning and end are no part of it. */
static bool some_copies(struct device *d, void *ctx, struct err *err)
{
    const struct copy *c = ctx;
    bool ok = true;
    for (int i = 0; i < IN_A_SPAN && ok; i++)
        ok = CU(err, cuMemcpyDtoDAsync, i % 2 ? c->from : c->to, i % 2 ? c->to : c->from, COPY_BYTES, d->stream);
    return ok;
}

static bool some_reads(struct device *d, void *ctx, struct err *err)
{
    const struct copy *c = ctx;
    uint64_t words = COPY_BYTES / 16;
    bool ok = true;
    for (int i = 0; i < IN_A_SPAN && ok; i++) {
        CUdeviceptr from = i % 2 ? c->to : c->from;
        void *args[] = {&from, &words, &d->found};
        ok = helper_launch(d, d->read, READ_BLOCKS_SM * (unsigned)d->info.sm_count, 512, 0, args, err);
    }
    return ok;
}

static bool empty_graph(struct device *d, int nodes, CUgraphExec *ret, struct err *err)
{
    CUgraph graph = NULL;
    bool ok = CU(err, cuStreamBeginCapture, d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (!ok)
        return false;
    for (int i = 0; i < nodes && ok; i++)
        ok = helper_launch(d, d->empty, 1, 32, 0, NULL, err);
    CUresult r = cu.cuStreamEndCapture(d->stream, &graph);
    if (!ok || r != CUDA_SUCCESS)
        return ok ? err_from_cu(err, r, "cuStreamEndCapture") : false;
    ok = CU(err, cuGraphInstantiate, ret, graph, 0);
    cu.cuGraphDestroy(graph);
    return ok && CU(err, cuGraphUpload, *ret, d->stream);
}

/* A chain of N empty kernels for several N: the slope is what a node costs, the intercept what a graph does. */
static bool calibrate_graphs(struct device *d, const struct events *e, json_t *to, struct err *err)
{
    static const int sizes[] = {1, 10, 50, 100, 200, 400};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    double sum_n = 0, sum_t = 0, sum_nn = 0, sum_nt = 0;
    json_t *list = json_array();
    json_put(to, "empty_graphs", list);
    for (int i = 0; i < COUNT; i++) {
        CUgraphExec graph = NULL;
        double event = 0, best = 0, wall = 0, n = sizes[i];
        bool ok = empty_graph(d, sizes[i], &graph, err) && time_work(d, e, one_graph, &graph, REPEATS, &event, &best, &wall, err);
        if (graph)
            cu.cuGraphExecDestroy(graph);
        if (!ok)
            return false;
        json_array_append_new(list, json_pack("{s:i,s:f,s:f}", "nodes", sizes[i], "event_ns", event, "wall_ns", wall));
        sum_n += n, sum_t += event, sum_nn += n * n, sum_nt += n * event;
    }
    double slope = (COUNT * sum_nt - sum_n * sum_t) / (COUNT * sum_nn - sum_n * sum_n);
    json_put_num(to, "node_ns", slope);
    json_put_num(to, "graph_ns", (sum_t - slope * sum_n) / COUNT);
    return true;
}

/* Best of the repeats, not their median: these are lines that nothing is believed to cross. */
static bool calibrate_bandwidth(struct device *d, const struct events *e, json_t *to, struct err *err)
{
    struct copy c = {0};
    double copy_ns = 0, read_ns = 0, wall = 0, copy_best = 0, read_best = 0;
    bool ok = CU(err, cuMemAlloc, &c.from, COPY_BYTES) && CU(err, cuMemAlloc, &c.to, COPY_BYTES) &&
              time_work(d, e, some_copies, &c, BANDWIDTH_REPEATS, &copy_ns, &copy_best, &wall, err) && time_work(d, e, some_reads, &c, BANDWIDTH_REPEATS, &read_ns, &read_best, &wall, err);
    cu.cuMemFree(c.from);
    cu.cuMemFree(c.to);
    if (!ok)
        return false;
    if (copy_best > 0)
        json_put_num(to, "copy_bytes_per_ns", 2.0 * IN_A_SPAN * (double)COPY_BYTES / copy_best);
    if (read_best > 0)
        json_put_num(to, "read_bytes_per_ns", IN_A_SPAN * (double)COPY_BYTES / read_best);
    return true;
}

bool cuda_calibrate(struct device *d, json_t **ret, struct err *err)
{
    cleanup(json) json_t *doc = json_object();
    cleanup(events) struct events e = {0};
    double event = 0, best = 0, wall = 0;
    if (!cuda_alive(d, err) || !CU(err, cuEventCreate, &e.begin, CU_EVENT_DEFAULT) ||
        !CU(err, cuEventCreate, &e.end, CU_EVENT_DEFAULT) || !time_work(d, &e, nothing, NULL, REPEATS, &event, &best, &wall, err))
        return false;
    json_put_num(doc, "event_pair_ns", event);
    json_put_num(doc, "event_pair_wall_ns", wall);
    if (!time_work(d, &e, one_launch, NULL, REPEATS, &event, &best, &wall, err))
        return false;
    json_put_num(doc, "single_launch_event_ns", event);
    json_put_num(doc, "single_launch_wall_ns", wall);
    if (!calibrate_graphs(d, &e, doc, err) || !calibrate_bandwidth(d, &e, doc, err))
        return false;
    json_put_num(doc, "sm_clock_mhz", nvml_sm_clock_mhz(d->bus_id));
    json_put_int(doc, "repeats", REPEATS);
    *ret = steal(&doc);
    return true;
}
