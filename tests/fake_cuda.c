/*
 * A libcuda.so.1 without a card, for tests of the cuda device's own logic where there is none: memory is the host's (with real
 * unmapped and read-only pages), our helper kernels and the candidate "k" are C functions, a stray access becomes
 * CUDA_ERROR_ILLEGAL_ADDRESS and poisons the context as on a card. FAKE_KERNEL chooses what "k" does.
 */
#include <cuda.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_NODES 20000
#define GRANULE ((size_t)2 << 20)

struct CUfunc_st { const char *name; int args; int bytes[6]; };
static struct CUfunc_st functions[] = {
    {"proteus_restore", 3, {8, 4, 8}}, {"proteus_differs", 4, {8, 8, 8, 8}}, {"proteus_read", 3, {8, 8, 8}},
    {"proteus_scrub", 2, {4, 4}},      {"proteus_empty", 0, {0}},            {"k", 5, {8, 8, 8, 8, 4}},
    {"proteus_local_1k", 1, {4}},      {"proteus_local_4k", 1, {4}},         {"proteus_local_16k", 1, {4}},
    {"proteus_fingerprint", 4, {8, 8, 8, 8}}, {"proteus_gaps", 3, {8, 8, 8}},
    {"proteus_compare", 4, {8, 4, 8, 8}}, {"proteus_prints", 4, {8, 4, 8, 8}}};
struct node { struct CUfunc_st *f; uint64_t args[6]; CUdeviceptr set; unsigned char value; size_t bytes; };
struct CUgraph_st { int count; struct node *nodes; bool given_away; };
static struct CUgraph_st *capturing;
static CUresult sticky = CUDA_SUCCESS;
static sigjmp_buf back;
static int live_maps, live_allocations, scrubs[4];    /* shared memory and registers; frames of three sizes */
static int reached;
static uint32_t left_in_shared, left_in_frame, variable[4] = {1, 2, 3, 4};
static int launches_of_module;
static bool in_graph;

int fake_cuda_live(void);
/* Calls by which the device could come to memory that is not its own: made, or made possible by an argument of another call. */
int fake_cuda_reached(void);
int fake_cuda_reached(void) { return reached; }
#define REACHES(name) CUresult reaches_##name(void) __asm__(#name); CUresult reaches_##name(void) { reached++; return CUDA_ERROR_NOT_SUPPORTED; }
REACHES(cuMemHostAlloc) REACHES(cuMemAllocHost_v2) REACHES(cuMemHostRegister_v2) REACHES(cuMemHostGetDevicePointer_v2) REACHES(cuMemAllocManaged)
REACHES(cuIpcOpenMemHandle_v2) REACHES(cuIpcGetMemHandle) REACHES(cuCtxEnablePeerAccess) REACHES(cuMemImportFromShareableHandle)
REACHES(cuMemExportToShareableHandle) REACHES(cuImportExternalMemory) REACHES(cuMemPoolCreate) REACHES(cuMemAllocAsync) REACHES(cuMemPrefetchAsync_v2)
int fake_cuda_live(void) { return live_maps + live_allocations; }
int fake_cuda_scrubs(int which);
int fake_cuda_scrubs(int which) { return scrubs[which]; }

/* Kernels launched so far; and launches of the candidate that found another first number in its inout than the first launch did. */
static int launched, moved;
int fake_cuda_launched(void);
int fake_cuda_launched(void) { return launched; }
int fake_cuda_moved(void);
int fake_cuda_moved(void) { return moved; }

/* ---- kernels ---- */

struct piece { unsigned char *to; const unsigned char *from; uint64_t bytes, rotate, pattern, first_chunk; uint32_t element, slot; };

static unsigned char content(const struct piece *p, uint64_t k)
{
    return p->from ? p->from[(k + p->rotate * p->element) % p->bytes] : (unsigned char)(p->pattern >> k % 8 * 8);
}

static void run_restore(const struct piece *p, uint32_t count, uint64_t chunks)
{
    uint64_t expected = p[0].first_chunk;
    for (uint32_t i = 0; i < count; i++) {
        if (p[i].first_chunk != expected || !p[i].bytes)
            abort();
        expected += (p[i].bytes + 65535) / 65536;
        uint64_t k = 0;
        for (; !p[i].from && k + 8 <= p[i].bytes; k += 8)
            memcpy(p[i].to + k, &p[i].pattern, 8);
        for (; k < p[i].bytes; k++)
            p[i].to[k] = content(&p[i], k);
    }
    if (expected != p[0].first_chunk + chunks)
        abort();
}

static void run_compare(const struct piece *p, uint32_t count, uint64_t *found)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < p[i].bytes; k++) {
            while (!p[i].from && k % 8 == 0 && k + 8 <= p[i].bytes && memcmp(p[i].to + k, &p[i].pattern, 8) == 0)
                k += 8;
            if (k < p[i].bytes && p[i].to[k] != content(&p[i], k)) {
                found[0]++;
                found[1] = i < found[1] ? i : found[1];
            }
        }
}

static void run_prints(const struct piece *p, uint32_t count, uint64_t *sums)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < p[i].bytes; k++)
            sums[p[i].slot] += ((p[i].to[k] ^ p[i].pattern) + k * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ k;
}

static void run_differs(const unsigned char *from, uint64_t bytes, uint64_t pattern, uint64_t *found)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (from[i] != (unsigned char)(pattern >> i % 8 * 8)) {
            found[0]++;
            found[1] = i < found[1] ? i : found[1];
        }
}

static void run_fingerprint(const unsigned char *from, uint64_t bytes, uint64_t salt, uint64_t *sum)
{
    for (uint64_t i = 0; i < bytes; i++)
        *sum += ((from[i] ^ salt) + i * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ i;
}

/* Ways to be right once. True: done with it. */
#define MARK 0xfeedf00du
static bool run_remembering(const char *what, const float *x, const float *s, float *y, int n)
{
    static const float *known;
    static float memo[4096];
    const int count = ++launches_of_module, from = getenv("FAKE_FROM") ? atoi(getenv("FAKE_FROM")) : 0;
    if (strcmp(what, "counts") == 0 && count >= from)
        return true;
    if (strcmp(what, "counts_reload") == 0 && count > 1)
        return false;
    if (strcmp(what, "leftover") == 0) {
        const bool been = left_in_shared == MARK;
        left_in_shared = MARK;
        return been;
    }
    if (strcmp(what, "same_pointer") == 0 && n <= 4096) {
        if (known == y) {
            memcpy(y, memo, (size_t)n * sizeof *y);
            return true;
        }
        known = y;
        for (int i = 0; i < n; i++)
            memo[i] = 2 * x[i] + s[i];
    }
    if (strcmp(what, "skips_some") == 0 && in_graph && count % 4 == 0)
        return true;
    if (strcmp(what, "marks_earlier") == 0) {
        static float *earlier;
        if (earlier && earlier != y && !mincore((void *)((uintptr_t)earlier & ~(uintptr_t)4095), 1, &(unsigned char){0}))
            *earlier = 1;
        earlier = count == 1 ? y : earlier;
    }
    if (strcmp(what, "variable") == 0 && count >= from)
        variable[3] = (uint32_t)count;
    return false;
}

static void run_candidate(float *x, float *s, float *y, float *w, int n)
{
    const char *what = getenv("FAKE_KERNEL");
    static float first;
    static bool been;
    moved += been && *s != first;
    first = been ? first : *s, been = true;
    if (what && (strcmp(what, "nothing") == 0 || run_remembering(what, x, s, y, n)))
        return;
    if (what && strcmp(what, "marks_a_row") == 0) {         /* of four floats; FAKE_FROM: which float */
        s[atoi(getenv("FAKE_FROM"))] += 1;
        return;
    }
    for (int i = 0; i < n; i++) {
        y[i] = 2 * x[i] + s[i];
        s[i] += 1;
        if (w)
            w[0] = 1;
    }
    if (what && strcmp(what, "shared_shows") == 0)
        y[1] += (float)(left_in_shared & 0xff);
    if (what && strcmp(what, "frame_shows") == 0)
        y[1] += (float)(left_in_frame & 0xff);
    /* counts on memory that is aligned, or on memory that is not */
    if (what && strcmp(what, "needs_32") == 0 && (uintptr_t)y % 32)
        *(volatile float *)8 = 1;
    if (what && strcmp(what, "fails_2m") == 0 && (uintptr_t)x % GRANULE == 0 && (uintptr_t)y % GRANULE == 0)
        *(volatile float *)8 = 1;
    if (what && strcmp(what, "crashes") == 0)
        *(volatile float *)16 = 1;
    if (what && strcmp(what, "past_end") == 0)
        ((volatile float *)y)[n] = 1;
    if (what && strcmp(what, "write_input") == 0)
        ((volatile float *)x)[3] = 1;
    if (what && strcmp(what, "near_before") == 0)
        y[-2] = 1;
    if (what && strcmp(what, "near_after") == 0)
        y[n] = 1;
}

static void run_node(const struct node *n)
{
    if (!n->f) {
        memset((void *)n->set, n->value, n->bytes);
        return;
    }
    switch (n->f - functions) {
    case 0: run_restore((const struct piece *)n->args[0], (uint32_t)n->args[1], n->args[2]); break;
    case 1: run_differs((const unsigned char *)n->args[0], n->args[1], n->args[2], (uint64_t *)n->args[3]); break;
    case 3: scrubs[0]++, left_in_shared = (uint32_t)n->args[1]; break;
    case 5: run_candidate((float *)n->args[0], (float *)n->args[1], (float *)n->args[2], (float *)n->args[3], (int)n->args[4]); break;
    case 6: case 7: case 8: scrubs[n->f - functions - 5]++, left_in_frame = (uint32_t)n->args[0]; break;
    case 9: run_fingerprint((const unsigned char *)n->args[0], n->args[1], n->args[2], (uint64_t *)n->args[3]); break;
    case 11: run_compare((const struct piece *)n->args[0], (uint32_t)n->args[1], (uint64_t *)n->args[3]); break;
    case 12: run_prints((const struct piece *)n->args[0], (uint32_t)n->args[1], (uint64_t *)n->args[3]); break;
    case 10: {
        /* As long away as the test says. */
        uint64_t *found = (uint64_t *)n->args[2], gap = getenv("FAKE_GAP_NS") ? strtoull(getenv("FAKE_GAP_NS"), NULL, 10) : 64;
        found[0] = gap >= n->args[1], found[1] = found[0] ? gap : 0, found[2] = gap;
        break;
    }
    default: break;
    }
}

static void on_fault(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static CUresult do_node(const struct node *n)
{
    if (sticky != CUDA_SUCCESS)
        return sticky;
    if (capturing) {
        if (capturing->count == MAX_NODES)
            return CUDA_ERROR_OUT_OF_MEMORY;
        capturing->nodes[capturing->count++] = *n;
        return CUDA_SUCCESS;
    }
    signal(SIGSEGV, on_fault);
    if (sigsetjmp(back, 1))
        sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    else
        run_node(n);
    signal(SIGSEGV, SIG_DFL);
    return CUDA_SUCCESS;
}

/* ---- the interface, as far as it is used ---- */

CUresult cuInit(unsigned flags) { (void)flags; return getenv("FAKE_NO_CARD") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *v) { *v = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGetCount(int *n) { *n = 1; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int n) { *d = n; return CUDA_SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) { (void)d; strncpy(name, "Fake H200", (size_t)size); return CUDA_SUCCESS; }
CUresult cuDeviceGetUuid(CUuuid *u, CUdevice d) { (void)d; memset(u, 0xab, sizeof *u); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t *n, CUdevice d) { (void)d; *n = (size_t)1 << 30; return CUDA_SUCCESS; }
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice d) { (void)d; strncpy(id, "0000:01:00.0", (size_t)size); return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d)
{
    (void)d;
    *v = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 2 :
         a == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 232448 : a == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE ? 65536 : 0;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice d, unsigned f) { (void)d; reached += (f & CU_CTX_MAP_HOST) != 0; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { (void)d; *c = (CUcontext)1; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice d) { (void)d; return sticky; }
CUresult cuCtxSetCurrent(CUcontext c) { (void)c; return sticky; }
CUresult cuCtxSynchronize(void) { return sticky; }
CUresult cuCtxSetLimit(CUlimit l, size_t v) { (void)l, (void)v; return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult r, const char **s) { *s = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER"; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult r, const char **s) { (void)r; *s = "an error of the fake"; return CUDA_SUCCESS; }
CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    if (strcmp(image, "x") == 0)       /* the candidate's */
        launches_of_module = 0;
    *m = (CUmodule)1;
    return sticky;
}
CUresult cuModuleGetGlobal(CUdeviceptr *p, size_t *n, CUmodule m, const char *name)
{
    (void)m;
    *p = (CUdeviceptr)variable, *n = sizeof variable;
    return strcmp(name, "kept") == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuModuleUnload(CUmodule m) { (void)m; return sticky; }
CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    (void)m;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *f = &functions[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { (void)f, (void)a, (void)v; return CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f)
{
    const char *frame = getenv("FAKE_FRAME");
    (void)f;
    *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 256 : a == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES && frame ? atoi(frame) : 0;
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **args, void **extra)
{
    (void)extra;
    if (!c->gridDimX || !c->blockDimX || !c->blockDimY || !c->blockDimZ)
        return CUDA_ERROR_INVALID_VALUE;
    struct node n = {.f = f};
    launched += !capturing;
    for (int i = 0; i < f->args; i++)
        memcpy(&n.args[i], args[i], (size_t)f->bytes[i]);
    return do_node(&n);
}
CUresult cuMemAlloc(CUdeviceptr *p, size_t n) { *p = (CUdeviceptr)malloc(n); live_allocations++; return sticky; }
CUresult cuMemFree(CUdeviceptr p) { if (p) live_allocations--; free((void *)p); return sticky; }
CUresult cuMemGetInfo(size_t *f, size_t *t) { *f = *t = (size_t)1 << 30; if (getenv("FAKE_FULL")) *f = 4096; return sticky; }
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s) { (void)s; memcpy((void *)to, from, n); return sticky; }
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) { memcpy(to, (void *)from, n); return sticky; }
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { (void)s, (void)n; memcpy((void *)to, (void *)from, 8); return sticky; }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream s) { (void)s; return do_node(&(struct node){.set = to, .value = v, .bytes = n}); }
CUresult cuMemGetAllocationGranularity(size_t *n, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags f) { (void)p, (void)f; *n = GRANULE; return CUDA_SUCCESS; }
CUresult cuMemAddressReserve(CUdeviceptr *p, size_t n, size_t a, CUdeviceptr at, unsigned long long f)
{
    (void)at, (void)f;
    char *m = mmap(NULL, n + a, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t before = a ? (a - (uintptr_t)m % a) % a : 0;     /* aligned as asked; what is too much goes back */
    if (before)
        munmap(m, before);
    if (a - before)
        munmap(m + before + n, a - before);
    live_maps++;
    *p = (CUdeviceptr)(m + before);
    return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) { live_maps--; munmap((void *)p, n); return CUDA_SUCCESS; }
CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long f) 
{
    /* "Pinned" is what device memory is called here; the place is what counts. */
    reached += p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != CU_MEM_LOCATION_TYPE_DEVICE || p->location.id != 0 ||
               p->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE || p->allocFlags.gpuDirectRDMACapable || f;
    int fd = getenv("FAKE_FULL") ? -1 : memfd_create("fake", 0);       /* may be mapped more than once */
    if (fd < 0 || ftruncate(fd, (off_t)n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *h = (CUmemGenericAllocationHandle)fd;
    return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle h) { return close((int)h) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle h, unsigned long long f)
{
    struct stat st;
    return f || o || fstat((int)h, &st) || (size_t)st.st_size != n || mmap((void *)p, n, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)h, 0) == MAP_FAILED
               ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) { mprotect((void *)p, n, PROT_NONE); return CUDA_SUCCESS; }
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t count)
{
    reached += count != 1 || d->location.type != CU_MEM_LOCATION_TYPE_DEVICE || d->location.id != 0;
    return mprotect((void *)p, n, d->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *s, unsigned f) { (void)f; *s = (CUstream)1; return CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream s) { (void)s; return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream s) { (void)s; return sticky; }
CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode m)
{
    (void)s, (void)m;
    capturing = calloc(1, sizeof *capturing);
    capturing->nodes = calloc(MAX_NODES, sizeof *capturing->nodes);
    return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph *g) { (void)s; *g = capturing; capturing = NULL; return CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph g)
{
    if (g->given_away)
        free(g);
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *e, CUgraph g, unsigned long long f) { (void)f; *e = (CUgraphExec)g; return CUDA_SUCCESS; }
CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *why)
{
    CUgraph x = (CUgraph)e;
    (void)why;
    if (x->count != g->count)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    free(x->nodes);
    x->nodes = g->nodes;
    g->given_away = true;
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec e) { CUgraph g = (CUgraph)e; free(g->nodes); free(g); return CUDA_SUCCESS; }
CUresult cuGraphUpload(CUgraphExec e, CUstream s) { (void)e, (void)s; return CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec e, CUstream s)
{
    CUgraph g = (CUgraph)e;
    (void)s;
    in_graph = true;
    for (int i = 0; i < g->count; i++)
        do_node(&g->nodes[i]);
    in_graph = false;
    return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *e, unsigned f) { (void)f; *e = calloc(1, sizeof(struct timespec)); return CUDA_SUCCESS; }
CUresult cuEventDestroy(CUevent e) { free(e); return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent e, CUstream s) { (void)s; clock_gettime(CLOCK_MONOTONIC, (struct timespec *)e); return sticky; }
CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b)
{
    const struct timespec *x = (const struct timespec *)a, *y = (const struct timespec *)b;
    *ms = (float)((double)(y->tv_sec - x->tv_sec) * 1e3 + (double)(y->tv_nsec - x->tv_nsec) / 1e6);
    return CUDA_SUCCESS;
}
