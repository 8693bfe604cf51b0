/*
 * Asks a card: makes the kernels that the tests make, lets the driver assemble them, runs them, writes down the answers.
 *
 *     truth_card rows FILE             all rows; FILE keeps up to 2048 threads' answers of each
 *     truth_card random FIRST COUNT FILE [RAW]   random kernels of seeds FIRST.. as lines "seed digest"; RAW: every thread's result.
 *                                      Each is assembled with and without optimisation: where the results differ, the assembler is
 *                                      wrong one way, and the card says nothing about PTX: left out, and named
 *     truth_card thin FULL FILE        what goes into the repository; needs no card
 *
 * Needs libcuda.so.1 and the C library, nothing else. Assembling takes most of the time, so as many processes as there are cores
 * share the modules, each with a context of its own; one that hangs is ended by its alarm. Answers come back through shared memory.
 */
#include "tests/truth/truth.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKER_SECONDS 240
#define FULL_KEPT 2048
#define THIN_KEPT 32
#define ROWS_A_MODULE 16
#define JIT_LOG_BYTES 4096
#define MOST_OPTIMISED 4

typedef unsigned long long device_ptr;
static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*device_name)(char *, int, int);
    int (*driver_version)(int *);
    int (*context_create)(void **, unsigned, int);
    int (*module_load)(void **, const void *, unsigned, int *, void **);
    int (*module_unload)(void *);
    int (*module_function)(void **, void *, const char *);
    int (*alloc)(device_ptr *, size_t);
    int (*to_device)(device_ptr, const void *, size_t);
    int (*to_host)(void *, device_ptr, size_t);
    int (*fill)(device_ptr, unsigned char, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*synchronize)(void);
} cu;

static void die(const char *what, int code)
{
    fprintf(stderr, "%s: %d\n", what, code);
    exit(1);
}
static void need(int code, const char *what)
{
    if (code)
        die(what, code);
}

static void driver_open(void)
{
    static const struct { const char *name; void *to; } symbols[] = {
        {"cuInit", &cu.init}, {"cuDeviceGet", &cu.device_get}, {"cuDeviceGetName", &cu.device_name}, {"cuDriverGetVersion", &cu.driver_version},
        {"cuCtxCreate_v2", &cu.context_create}, {"cuModuleLoadDataEx", &cu.module_load}, {"cuModuleUnload", &cu.module_unload},
        {"cuModuleGetFunction", &cu.module_function}, {"cuMemAlloc_v2", &cu.alloc}, {"cuMemcpyHtoD_v2", &cu.to_device},
        {"cuMemcpyDtoH_v2", &cu.to_host}, {"cuMemsetD8_v2", &cu.fill}, {"cuLaunchKernel", &cu.launch}, {"cuCtxSynchronize", &cu.synchronize}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        die(dlerror(), 0);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *f = dlsym(library, symbols[i].name);
        if (!f)
            die(symbols[i].name, 0);
        memcpy(symbols[i].to, &f, sizeof f);
    }
    int device, version;
    void *context;
    char name[128];
    need(cu.init(0), "cuInit");
    need(cu.device_get(&device, 0), "cuDeviceGet");
    need(cu.device_name(name, sizeof name, device), "cuDeviceGetName");
    need(cu.driver_version(&version), "cuDriverGetVersion");
    need(cu.context_create(&context, 0, device), "cuCtxCreate");
    if (getenv("TRUTH_SAY"))
        fprintf(stderr, "%s, driver API %d\n", name, version);
}

/* NULL if the driver does not take it; its reason is printed. `level`: of optimisation, 0 to 4; the product assembles with the most. */
static void *load(const char *text, unsigned level)
{
    static char log[JIT_LOG_BYTES];
    enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6, JIT_LEVEL = 7 };
    int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_LEVEL};
    void *values[] = {log, (void *)(uintptr_t)sizeof log, (void *)(uintptr_t)level}, *module = NULL;
    log[0] = 0;
    const int code = cu.module_load(&module, text, 3, options, values);
    if (code) {
        fprintf(stderr, "cuModuleLoadDataEx: %d\n%s\n", code, log);
        return NULL;
    }
    return module;
}

/* ---- rows ---- */
struct slot { bool answered; struct truth_answer answer; size_t at; };   /* `at` in the shared words */
struct board { struct slot *slots; uint32_t *words; };

static bool ask_row(void *module, const char *text, unsigned number, struct slot *slot, uint32_t *words)
{
    static device_ptr in, out, cells;
    static const size_t room = (size_t)16 << 20;
    struct truth_shape s;
    struct err err;
    if (!truth_row_shape(text, &s, &err))
        die(err.text, 0);
    if (!in) {
        need(cu.alloc(&in, room), "cuMemAlloc");
        need(cu.alloc(&out, room), "cuMemAlloc");
        need(cu.alloc(&cells, room), "cuMemAlloc");
    }
    const size_t in_bytes = (size_t)s.threads * s.in_words * 4, out_bytes = (size_t)s.threads * s.out_words * 4;
    if (in_bytes > room || out_bytes > room)
        die("room", 0);
    char name[32];
    snprintf(name, sizeof name, "row%u", number);
    void *function, *args[] = {&in, &out, &cells};
    uint32_t *host_in = truth_row_inputs(text, &s), *host_out = xalloc(out_bytes);
    need(cu.module_function(&function, module, name), "cuModuleGetFunction");
    need(cu.to_device(in, host_in, in_bytes + 4 * (in_bytes == 0)), "cuMemcpyHtoD");
    need(cu.fill(out, 0xee, out_bytes), "cuMemsetD8");
    need(cu.fill(cells, 0, (size_t)s.threads * TRUTH_CELL_WORDS * 4), "cuMemsetD8");
    need(cu.launch(function, s.threads / TRUTH_BLOCK, 1, 1, TRUTH_BLOCK, 1, 1, 0, NULL, args, NULL), "cuLaunchKernel");
    const int code = cu.synchronize();
    if (code)
        die(text, code);
    need(cu.to_host(host_out, out, out_bytes), "cuMemcpyDtoH");
    const uint32_t stride = s.threads > FULL_KEPT ? s.threads / FULL_KEPT : 1, kept = s.threads / stride;
    slot->answer = (struct truth_answer){.row = truth_hash(TRUTH_HASH_START, text, strlen(text)), .threads = s.threads, .words = s.out_words,
                                         .kept = kept, .stride = stride, .digest = truth_hash(TRUTH_HASH_START, host_out, out_bytes)};
    for (uint32_t k = 0; k < kept; k++)
        memcpy(words + (size_t)k * s.out_words, host_out + (size_t)k * stride * s.out_words, s.out_words * 4);
    slot->answered = true;
    free(host_in);
    free(host_out);
    return true;
}

static void *rows_module(const struct truth_row *rows, size_t first, size_t count)
{
    cleanup(buf) struct buf text = {0};
    struct err err;
    truth_module_head(&text);
    for (size_t i = first; i < first + count; i++)
        if (!truth_row_kernel(&text, rows[i].text, (unsigned)i, &err))
            die(err.text, 0);
    return load(buf_cstr(&text), MOST_OPTIMISED);
}

static void ask_rows(const struct truth_row *rows, size_t count, size_t worker, size_t workers, struct board board)
{
    for (size_t first = worker * ROWS_A_MODULE; first < count; first += workers * ROWS_A_MODULE) {
        const size_t n = count - first < ROWS_A_MODULE ? count - first : ROWS_A_MODULE;
        void *all = rows_module(rows, first, n);
        for (size_t i = first; i < first + n; i++) {
            void *module = all ? all : rows_module(rows, i, 1);
            if (module)
                ask_row(module, rows[i].text, (unsigned)i, &board.slots[i], board.words + board.slots[i].at);
            else
                fprintf(stderr, "the driver refuses: %s\n", rows[i].text);
            if (!all && module)
                cu.module_unload(module);
        }
        if (all)
            cu.module_unload(all);
    }
}

/* ---- random kernels ---- */
#define RANDOM_A_MODULE 10
#define RANDOM_MOST_THREADS 1024
struct random_slot { bool answered, ambiguous; uint32_t threads; uint64_t digest, results[RANDOM_MOST_THREADS]; };

static void ask_random(void *module, const char *entry, uint64_t seed, const struct truth_random *k, struct random_slot *slot)
{
    static device_ptr in, out, scratch;
    static const size_t room = (size_t)4 << 20;
    if (!in) {
        need(cu.alloc(&in, room), "cuMemAlloc");
        need(cu.alloc(&out, room), "cuMemAlloc");
        need(cu.alloc(&scratch, room), "cuMemAlloc");
    }
    if (k->in_bytes > room || k->out_bytes > room || k->scratch_bytes > room || k->grid * k->block > RANDOM_MOST_THREADS)
        die("room", 0);
    uint32_t *host_in = xalloc(k->in_bytes), *host_scratch = xalloc(k->scratch_bytes);
    uint64_t *host_out = xalloc(k->out_bytes);
    truth_random_input(seed, host_in, k->in_bytes / 4);
    truth_random_scratch(seed, host_scratch, k->scratch_bytes / 4);
    void *function, *args[] = {&in, &out, &scratch};
    need(cu.module_function(&function, module, entry), "cuModuleGetFunction");
    need(cu.to_device(in, host_in, k->in_bytes), "cuMemcpyHtoD");
    need(cu.to_device(scratch, host_scratch, k->scratch_bytes), "cuMemcpyHtoD");
    need(cu.fill(out, 0xee, k->out_bytes), "cuMemsetD8");
    need(cu.launch(function, k->grid, 1, 1, k->block, 1, 1, 0, NULL, args, NULL), "cuLaunchKernel");
    const int code = cu.synchronize();
    if (code) {
        fprintf(stderr, "seed %llx: ", (unsigned long long)seed);
        die("cuCtxSynchronize", code);
    }
    need(cu.to_host(host_out, out, k->out_bytes), "cuMemcpyDtoH");
    need(cu.to_host(host_scratch, scratch, k->scratch_bytes), "cuMemcpyDtoH");
    slot->threads = k->out_bytes / 8;
    memcpy(slot->results, host_out, k->out_bytes);
    slot->digest = truth_hash(truth_hash(TRUTH_HASH_START, host_out, k->out_bytes), host_scratch, k->scratch_bytes);
    slot->answered = true;
    free(host_in);
    free(host_out);
    free(host_scratch);
}

static void ask_randoms(uint64_t first_seed, size_t count, size_t worker, size_t workers, struct random_slot *slots)
{
    for (size_t first = worker * RANDOM_A_MODULE; first < count; first += workers * RANDOM_A_MODULE) {
        const size_t n = count - first < RANDOM_A_MODULE ? count - first : RANDOM_A_MODULE;
        for (size_t i = first; i < first + n; i++) {
            /* a module each: device functions and shared variables have names of their own */
            cleanup(buf) struct buf text = {0};
            struct truth_random k;
            truth_random_kernel(&text, first_seed + i, "k", &k);
            for (unsigned level = 0; level <= MOST_OPTIMISED; level += MOST_OPTIMISED) {
                void *module = load(buf_cstr(&text), level);
                if (!module) {
                    fprintf(stderr, "the driver refuses seed %llx\n", (unsigned long long)(first_seed + i));
                    continue;
                }
                const uint64_t before = slots[i].digest;
                ask_random(module, "k", first_seed + i, &k, &slots[i]);
                slots[i].ambiguous = level && slots[i].digest != before;
                cu.module_unload(module);
            }
        }
    }
}

/* ---- processes ---- */
struct job { const struct truth_row *rows; struct board board; uint64_t first_seed; struct random_slot *random; size_t count; };

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap", 0);
    return p;
}

static void work(const struct job *job)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t workers = cores < 1 ? 1 : cores > 16 ? 16 : (size_t)cores;
    for (size_t w = 0; w < workers; w++) {
        const pid_t pid = fork();
        if (pid < 0)
            die("fork", 0);
        if (pid)
            continue;
        alarm(WORKER_SECONDS);
        driver_open();
        if (job->rows)
            ask_rows(job->rows, job->count, w, workers, job->board);
        else
            ask_randoms(job->first_seed, job->count, w, workers, job->random);
        _exit(0);
    }
    int status;
    while (wait(&status) > 0)
        if (status)
            fprintf(stderr, "a worker ended with status %#x\n", status);
}

static void save(const char *path, const struct buf *b)
{
    struct err err;
    if (!file_write(path, b->data, b->size, 0644, &err))
        die(err.text, 0);
}

static int rows_main(const char *path)
{
    struct truth_row *rows;
    struct job job = {.count = truth_rows(&rows)};
    job.rows = rows;
    job.board.slots = shared(job.count * sizeof *job.board.slots);
    size_t words = 0, answered = 0;
    for (size_t i = 0; i < job.count; i++) {
        struct truth_shape s;
        struct err err;
        if (!truth_row_shape(rows[i].text, &s, &err))
            die(err.text, 0);
        job.board.slots[i].at = words;
        words += (size_t)(s.threads > FULL_KEPT ? 2 * FULL_KEPT : s.threads) * s.out_words;
    }
    job.board.words = shared(words * 4);
    work(&job);
    cleanup(buf) struct buf out = {0};
    for (size_t i = 0; i < job.count; i++)
        answered += job.board.slots[i].answered;
    truth_data_start(&out, (uint32_t)answered);
    for (size_t i = 0; i < job.count; i++) {
        struct truth_answer a = job.board.slots[i].answer;
        a.values = job.board.words + job.board.slots[i].at;
        if (job.board.slots[i].answered)
            truth_data_add(&out, &a);
    }
    save(path, &out);
    printf("%zu rows, %zu answered\n", job.count, answered);
    free(rows);
    return answered != job.count;
}

static int random_main(const char *first, const char *count, const char *path, const char *raw)
{
    struct job job = {.first_seed = strtoull(first, NULL, 0), .count = strtoul(count, NULL, 0)};
    job.random = shared(job.count * sizeof *job.random);
    work(&job);
    cleanup(buf) struct buf out = {0}, all = {0};
    size_t answered = 0, ambiguous = 0;
    for (size_t i = 0; i < job.count; i++) {
        const struct random_slot *s = &job.random[i];
        if (!s->answered)
            continue;
        answered++;
        ambiguous += s->ambiguous;
        if (s->ambiguous)
            fprintf(stderr, "seed %llx: another result without optimisation\n", (unsigned long long)(job.first_seed + i));
        if (s->ambiguous)
            continue;
        buf_fmt(&out, "%llx %016llx\n", (unsigned long long)(job.first_seed + i), (unsigned long long)s->digest);
        const uint64_t head[2] = {job.first_seed + i, s->threads};
        buf_add(&all, head, sizeof head);
        buf_add(&all, s->results, s->threads * 8);
    }
    save(path, &out);
    if (raw)
        save(raw, &all);
    printf("%zu random kernels, %zu answered, %zu of them ambiguous\n", job.count, answered, ambiguous);
    return answered != job.count;
}

/* Few values of rows whose digest says it all; every value of those that are compared within a bound. */
static int thin_main(const char *from, const char *to)
{
    cleanup(truth_data) struct truth_data d = {0};
    struct err err;
    if (!truth_data_read(from, &d, &err))
        die(err.text, 0);
    struct truth_row *rows;
    const size_t count = truth_rows(&rows);
    cleanup(buf) struct buf out = {0};
    truth_data_start(&out, (uint32_t)d.count);
    for (size_t i = 0; i < count; i++) {
        const struct truth_answer *a = truth_data_find(&d, rows[i].text);
        if (!a)
            continue;
        const bool all = truth_row_close(rows[i].text);
        const uint32_t step = all || a->stride == 1 || a->kept <= THIN_KEPT ? 1 : a->kept / THIN_KEPT;
        struct truth_answer thin = *a;
        thin.kept = all || a->kept < THIN_KEPT ? a->kept : THIN_KEPT;
        thin.stride = a->stride * step;
        uint32_t *values = xarray(thin.kept + 1, a->words * 4);
        for (uint32_t k = 0; k < thin.kept; k++)
            memcpy(values + k * a->words, a->values + (size_t)k * step * a->words, a->words * 4);
        thin.values = values;
        truth_data_add(&out, &thin);
        free(values);
    }
    free(rows);
    save(to, &out);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "rows"))
        return rows_main(argv[2]);
    if ((argc == 5 || argc == 6) && !strcmp(argv[1], "random"))
        return random_main(argv[2], argv[3], argv[4], argc == 6 ? argv[5] : NULL);
    if (argc == 4 && !strcmp(argv[1], "thin"))
        return thin_main(argv[2], argv[3]);
    fprintf(stderr, "usage: %s rows FILE | random FIRST COUNT FILE [RAW] | thin FULL FILE\n", argv[0]);
    return 2;
}
