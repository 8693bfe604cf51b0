/*
 * Thread-instructions a second of the emulator, a JSON object a line: kernels x lanes x checks x threads, and the scattered kernel.
 * bench_ptx [--short]. One thread is timed by its own CPU time, several by the wall's (cpu_ms: of all together); the best of several
 * runs counts.
 */
#include "tests/ptx_gdn.h"

#include <time.h>

/* Each thread reads 64 words whose places nobody can foresee. */
static const char scattered[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry k(.param .u64 table, .param .u64 out, .param .u32 mask)\n{\n"
    ".reg .pred %p<3>;\n.reg .b32 %r<20>;\n.reg .f32 %f<10>;\n.reg .b64 %rd<20>;\n"
    "ld.param.u64 %rd1, [table];\nld.param.u64 %rd2, [out];\nld.param.u32 %r1, [mask];\n"
    "cvta.to.global.u64 %rd3, %rd1;\ncvta.to.global.u64 %rd4, %rd2;\n"
    "mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.s32 %r5, %r3, %r4, %r2;\n"
    "mov.u32 %r6, 0;\nmov.f32 %f1, 0f00000000;\nmov.u32 %r7, %r5;\n"
    "L1:\n"
    "mad.lo.s32 %r7, %r7, 1664525, 1013904223;\nshr.u32 %r8, %r7, 9;\nand.b32 %r9, %r8, %r1;\nmul.wide.u32 %rd5, %r9, 4;\n"
    "add.s64 %rd6, %rd3, %rd5;\nld.global.f32 %f2, [%rd6];\nadd.f32 %f1, %f1, %f2;\n"
    "add.s32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 64;\n@%p1 bra L1;\n"
    "mul.wide.u32 %rd7, %r5, 4;\nadd.s64 %rd8, %rd4, %rd7;\nst.global.f32 [%rd8], %f1;\nret;\n}\n";
enum { SCATTER_WORDS = 1 << 18, SCATTER_THREADS = 1 << 15, SCATTER_READS = 64 };

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum checks { CHECKS_NONE, CHECKS_SHARED, CHECKS_ALL };
static const char *const check_names[] = {"none", "bounds+initialised+shared races", "all"};

struct figure { double best_s, cpu_s; uint64_t instructions, shadow_bytes, buffer_bytes; };

static bool measure(struct bench *b, enum checks checks, int threads, int runs, struct figure *ret)
{
    struct figure f = {.best_s = 1e9, .cpu_s = 1e9};
    b->options.limits.threads = threads;
    b->options.check_races = checks != CHECKS_NONE;
    b->options.shared_races_only = checks != CHECKS_ALL;
    uint8_t *bits[TEST_BUFFERS];
    for (int n = 0; n < b->buffer_count; n++) {
        f.buffer_bytes += b->buffers[n].bytes;
        bits[n] = b->buffers[n].initialised;
        if (checks == CHECKS_NONE)
            b->buffers[n].initialised = NULL;
    }
    bool ok = true;
    for (int i = 0; i < runs && ok; i++) {
        const clockid_t clock = threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID;
        const double start = seconds(clock), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        ok = bench_run(b) == PTX_CLEAN;
        const double took = seconds(clock) - start, spent = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        f.best_s = took < f.best_s ? took : f.best_s;
        f.cpu_s = spent < f.cpu_s ? spent : f.cpu_s;
    }
    for (int n = 0; n < b->buffer_count; n++)
        b->buffers[n].initialised = bits[n];
    f.instructions = b->counts.thread_instructions;
    f.shadow_bytes = b->counts.shadow_bytes;
    *ret = f;
    if (!ok)
        fprintf(stderr, "bench_ptx: %s\n", b->finding.text);
    return ok;
}

static void print(const char *kernel, const char *shape, const char *lanes, enum checks checks, int threads, const struct figure *f)
{
    printf("{\"bench\":\"emulator\",\"kernel\":\"%s\",\"shape\":\"%s\",\"lanes\":\"%s\",\"checks\":\"%s\",\"threads\":%d,"
           "\"thread_instructions\":%llu,\"best_ms\":%.3f,\"cpu_ms\":%.3f,\"billion_per_s\":%.2f,\"shadow_over_buffers\":%.2f}\n",
           kernel, shape, lanes, check_names[checks], threads, (unsigned long long)f->instructions, f->best_s * 1e3, f->cpu_s * 1e3,
           (double)f->instructions / f->best_s * 1e-9, (double)f->shadow_bytes / (double)f->buffer_bytes);
    fflush(stdout);
}

struct kernel { const char *file; bool is_baseline; int batch, runs; };

/* The operator's baseline takes dt_bias in bf16, and epsilon instead of the two sizes that it was compiled for. All slots are in use. */
static bool gdn(const struct kernel *k, const char *lanes, enum checks checks, int threads)
{
    cleanup(bench) struct bench b = {0};
    struct gdn g;
    struct figure f;
    char shape[32];
    uint64_t seed = 3;
    if (!gdn_setup_file(k->file, &b, &g, k->batch, 4, 8))
        return false;
    if (k->is_baseline) {
        for (int i = 0; i < 8; i++)
            ((uint16_t *)b.buffers[4].data)[i] = float_to_bf16(uniform(&seed));
        b.launch.arg_count -= 2;
        bench_float(&b, 1e-6f);
    }
    ((int *)b.buffers[5].data)[2] = k->batch - 2;
    snprintf(shape, sizeof shape, "B=%d,HV=8", k->batch);
    const bool ok = measure(&b, checks, threads, k->runs, &f);
    if (ok)
        print(k->file, shape, lanes, checks, threads, &f);
    free(g.before);
    return ok;
}

static bool scatter(const char *lanes, enum checks checks, int runs)
{
    cleanup(bench) struct bench b = {0};
    struct figure f;
    if (!bench_text(&b, scattered))
        return false;
    float *table = xarray(SCATTER_WORDS, 4);
    for (int i = 0; i < SCATTER_WORDS; i++)
        table[i] = (float)(i & 255);
    bench_buffer(&b, "table", SCATTER_WORDS * 4ul, false, table);
    bench_buffer(&b, "out", SCATTER_THREADS * 4ul, true, NULL);
    bench_int(&b, SCATTER_WORDS - 1);
    free(table);
    b.launch.block[0] = 256;
    b.launch.grid[0] = SCATTER_THREADS / 256;
    if (!measure(&b, checks, 1, runs, &f))
        return false;
    print("scattered", "2^15 threads, 64 reads each", lanes, checks, 1, &f);
    printf("{\"bench\":\"emulator\",\"kernel\":\"scattered\",\"lanes\":\"%s\",\"checks\":\"%s\",\"million_accesses_per_s\":%.0f}\n", lanes,
           check_names[checks], (double)SCATTER_THREADS * SCATTER_READS / f.best_s * 1e-6);
    return true;
}

int main(int argc, char **argv)
{
    const bool brief = argc > 1 && !strcmp(argv[1], "--short");
    static const char *const lanes[] = {"avx512", "avx2", "baseline"};
    const struct kernel kernels[] = {{"gdn_baseline.ptx", true, 4, brief ? 10 : 300},
                                     {"gdn_baseline.ptx", true, 64, brief ? 2 : 20},
                                     {"gdn_decode.ptx", false, 4, brief ? 10 : 300}};
    bool ok = true;
    for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
        setenv("PROTEUS_PTX_LANES", lanes[l], 1);
        if (l == 2 && brief)
            break;
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            for (int c = CHECKS_ALL; c >= CHECKS_NONE; c--)
                for (int threads = 1; threads <= (l || c != CHECKS_SHARED ? 1 : 2); threads++)
                    ok &= gdn(&kernels[k], lanes[l], (enum checks)c, threads);
        ok &= scatter(lanes[l], CHECKS_SHARED, brief ? 2 : 100);
    }
    return ok ? 0 : 1;
}
