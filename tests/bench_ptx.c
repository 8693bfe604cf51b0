/* Thread-instructions a second of the emulator on the gated-delta kernel: bench_ptx [batch heads] */
#include "tests/ptx_gdn.h"

#include <time.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const int batch = argc > 1 ? atoi(argv[1]) : 4, hv = argc > 2 ? atoi(argv[2]) : 8, threads = argc > 3 ? atoi(argv[3]) : 1;
    cleanup(bench) struct bench b = {0};
    struct gdn g;
    if (!gdn_setup(&b, &g, batch, hv > 1 ? hv / 2 : 1, hv))
        return 1;
    b.options.limits.threads = threads;
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        const double start = seconds();
        if (bench_run(&b) != PTX_CLEAN) {
            fprintf(stderr, "%s\n", b.finding.text);
            return 1;
        }
        const double took = seconds() - start;
        best = took < best ? took : best;
        if (!i) {
            double state, out;
            gdn_compare(&b, &g, &state, &out);
            printf("error: state %.3g, out %.3g bf16 steps\n", state, out);
        }
    }
    printf("%llu thread instructions, %.3f ms, %.2f G/s\n", (unsigned long long)b.counts.thread_instructions, best * 1e3,
           (double)b.counts.thread_instructions / best * 1e-9);
    free(g.before);
    return 0;
}
