/*
 * The device seam: a struct of functions with two fillings, `cuda` (a card, through tables of pointers) and `sim` (the PTX
 * emulator). A device lives in a run child and holds one candidate; tests fill the struct with one that lies.
 *
 * Buffers are described by the shape's tensors and the plan's workspaces. The caller gives and gets raw bytes; seeds, expected
 * results and comparison stay with the supervisor. A candidate's fault comes back as `struct device_fault`, ours as `struct err`.
 * One thread uses a device at a time.
 */
#pragma once
#include "core/candidate.h"
#include "core/verdict.h"
#include "gpu/device/card.h"
#include "gpu/device/profile.h"
#include "gpu/ptx/ptx.h"

struct device;
struct device_program;

struct device_fault {
    enum verdict_code code;         /* VERDICT_OK: none */
    char text[512];
    json_t *detail;                 /* owned; may be NULL */
};
void device_fault_done(struct device_fault *f);
DEFINE_CLEANUP(device_fault, struct device_fault, device_fault_done(it))

struct device_info {
    char kind[8];                   /* "cuda" or "sim" */
    char id[16];                    /* "cuda:0", "sim" */
    char name[64];                  /* "NVIDIA H200"; sim: the modelled card's name */
    char uuid[64];                  /* cuda only */
    char target[TARGET_SIZE];
    char driver[32], toolkit[32];   /* "580.159.04", "13.0"; "" unknown */
    int sm_count;
    int64_t memory_bytes, l2_bytes;
    bool pageable_memory_access;    /* CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS */
    bool healthy;
    char health[160];               /* why not */
    int64_t memory_used_bytes;      /* of the whole card when this was asked, before this process had a context on it; -1 not known */
};
json_t *device_info_encode(const struct device_info *i);

struct device_load {
    const struct shape *shape;
    const struct tensor *tensors;   /* op->tensor_count of them */
    const struct plan *plan;
    const char *ptx; size_t ptx_bytes;
    const void *cubin; size_t cubin_bytes;       /* sim: only its resource figures matter */
    const struct ptx_resources *resources;       /* per plan step that is a launch, in order; may be NULL */
};

/*
 * Where in its mapping a buffer lies. AT_END: flush against what is unmapped. AT_START: at a multiple of 2 MiB. ODD: at an odd
 * multiple of the contract's alignment (on sim AT_END is that too).
 */
enum device_place { DEVICE_AT_END, DEVICE_AT_START, DEVICE_ODD };
/* Of a tensor of many rows those that hold something, ascending; all else is zeros and must stay so. What the caller gives and gets are these rows. */
struct device_held { const int64_t *rows; int64_t count, row_bytes; };      /* rows NULL: all are there */
/*
 * sim: what an axis of so many more rows would look like to a kernel, without the memory. Rows behind the first of the tensors that are
 * `held` lie that many rows further on, with nothing between; the indices above zero of those that are `points` are that much larger,
 * and so is the axis where a plan hands it over. Results come back as they would without.
 */
struct device_far { int axis; int64_t rows; bool held[OP_MAX_TENSORS], points[OP_MAX_TENSORS]; };
struct device_run {
    const void *const *tensors;     /* initial bytes by tensor; NULL for an output (it holds poison) */
    const struct device_held *held; /* by tensor; NULL: all rows of all */
    uint64_t poison;                /* pattern of outputs, workspaces and the space around */
    enum device_place place;
    bool scrub;                     /* cuda: before it shared memory, registers and frames get a pattern that the poison decides */
    uint64_t schedule_seed;         /* sim: order of warps */
    bool explore;                   /* sim: lanes of a warp part at random; what it counts means little */
    bool check_races;               /* sim */
    int64_t wall_limit_ns;
    uint64_t thread_instruction_limit;           /* sim */
    int threads;                    /* sim: host threads */
    /*
     * sim: thread instructions of a launch beyond which a sample of its blocks must do (ptx_sample); 0: all run. What the first run of a
     * program takes, all later ones take, others of them where the seed is another one.
     */
    uint64_t sample_budget, sample_seed;
    int64_t sample_cpu_ns;          /* the same of CPU time: an instruction of a matrix unit takes long */
    const struct device_far *far;   /* sim, where all blocks run; NULL: no */
};
/* What a line of the source did in one step, as the emulator counted it: of all steps those with the most instructions, those first. */
#define DEVICE_MAX_LINES 12
#define DEVICE_LINE_COUNTS(X) X(thread_instructions) X(warp_instructions) X(global_sectors) X(asked_sectors) X(shared_requests) X(shared_wavefronts)
struct device_line {
    int step, source_line, ptx_line;             /* source_line 0: the PTX names none */
#define X(field) uint64_t field;
    DEVICE_LINE_COUNTS(X)
#undef X
};
struct device_run_result {
    void **tensors;                 /* the caller's arrays, by tensor, `bytes` long each (of the rows that are held): content after the run (inputs too) */
    int step_count;
    struct ptx_counts counts[PLAN_MAX_STEPS];    /* sim only, by step */
    int line_count;                              /* sim only: of the first run that counted in depth */
    struct device_line lines[DEVICE_MAX_LINES];
    bool guards_intact;             /* nothing outside a buffer changed (cuda; on sim a stray access is a fault already) */
    bool sampled;                   /* sim: not all blocks ran (counts[].blocks did): outputs are as far written as these wrote them. Then: */
    uint8_t *tags[OP_MAX_TENSORS];  /* by element of what is not an input (of the rows that are held): who stored it, DEVICE_TAG; 0 nobody. The caller's */
    double drawn_bytes[PLAN_MAX_STEPS][OP_MAX_TENSORS], drawn_squares[PLAN_MAX_STEPS][OP_MAX_TENSORS];   /* ptx_buffer's */
};
#define DEVICE_TAG(step, drawn) ((uint8_t)(1 + 2 * (step) + (drawn)))   /* of a step's blocks: those that run in any case, those that were drawn */
#define DEVICE_TAGS (1 + 2 * PLAN_MAX_STEPS)
void device_tags_done(struct device_run_result *r);

/*
 * Probe: launch after launch of the plan in one set of guarded buffers, so at equal addresses, nothing unloaded between. Before each,
 * inouts are restored and outputs and workspaces poisoned; before one of three shared memory, registers and frames hold what the launch
 * before left there, as in the first of a call with other content, before the others one of two patterns. Of all launches of a call the
 * results must have equal bits.
 */
#define DEVICE_PROBE_LAUNCHES 1024
#define DEVICE_PROBE_AT_ONCE 16       /* launches between two looks at the clock */
struct device_probe {
    const void *const *tensors;     /* as of a run */
    uint64_t poison;
    enum device_place place;        /* of the first call */
    bool again;                     /* in the buffers of the call before, with this content */
    int launches;                   /* at most DEVICE_PROBE_LAUNCHES; 0: gives the buffers back */
    uint64_t salt;                  /* of patterns and sums */
    int64_t wall_ns;                /* after it no further launch begins, but for the first `least`, and those up to least_wall_ns */
    int least;                      /* 0: DEVICE_PROBE_AT_ONCE */
    int64_t least_wall_ns;          /* 0: they take what they take */
};
struct device_probe_result {
    void **tensors;                 /* the caller's arrays: content after the last launch */
    int launches;                   /* that were made */
    int differs;                    /* the first whose results are not the first launch's, counted from 1; 0: none */
    bool guards_intact;
};

/*
 * Timing on a card: N copies of the plan in one graph, each on a buffer set of its own ("graph-rotated"). Launches that change what
 * they must leave alone, or leave other bits while they are timed than on their own, are a fault.
 */
/*
 * What a set holds of a tensor in a block: two windows, drawn at random, of one of the contents that were given, one behind the other.
 * Turning one content would not do: whatever all its elements come to, a norm say, would be the same in every launch, and a launch could
 * leave it where the next finds it (shared memory, registers) and passes for work. What may not be mixed, indices say, is one content
 * whole: of the same set all tensors are of the same one.
 */
#define DEVICE_MAX_CONTENTS 4
struct device_windows { int64_t cut, first, second; int content; };
/* Of which element of the content element k is, both counted in memory order over the span. */
static inline int64_t device_windows_element(const struct device_windows *w, int64_t k) { return k < w->cut ? w->first + k : w->second + k - w->cut; }
struct device_time_setup {
    const void *const *tensors;     /* base content */
    const void *const *more[DEVICE_MAX_CONTENTS - 1];   /* further contents, by tensor; NULL for a tensor that has but one */
    int contents;                   /* base and further ones */
    const bool *mix;                /* by tensor: may be put together of windows (floats without structure) */
    int64_t rotate_bytes_least;     /* all sets together at least this; five times L2 and more */
    int max_sets;                   /* two at least */
    uint64_t seed;                  /* of what sets hold, with each block's own */
    bool exact;                     /* equal inputs must give equal bits: no atomics are declared */
};
struct device_sample { int64_t event_ns, wall_ns; int launches; double sm_clock_mhz; uint64_t clock_reasons; /* card.h */ };   /* of the whole graph */
struct device_time_block { int launches; uint64_t order_seed; };
/* Warm-up: one graph again and again, restored each time, until the card was busy with it for busy_ns and its clock stands still. */
struct device_time_warm { int launches; uint64_t order_seed; int64_t busy_ns, cap_ns; };
/*
 * Who else computes on the card, whatever namespace hides it: a kernel of one thread reads the card's clock without a pause. Alone it
 * never misses it for more than 64 ns (seen on an H200); another process's time slice shows as a gap of a third to several milliseconds.
 * Kernels that run beside ours (MPS) do not show.
 */
struct device_alone { int64_t watched_ns, longest_gap_ns, gaps_ns; int gaps; };

/*
 * Audit: what a tracing library saw of one timed graph (as time_block) and of single launches after a sweep of L2 ("cold, isolated"),
 * each record in order of its start. Times are the card's, in ns.
 */
enum device_record_kind { DEVICE_RECORD_KERNEL, DEVICE_RECORD_MEMCPY, DEVICE_RECORD_MEMSET, DEVICE_RECORD_JIT, DEVICE_RECORD_KINDS };
struct device_record {
    enum device_record_kind kind;
    char name[PLAN_KERNEL_SIZE];
    int64_t start_ns, end_ns, completed_ns;      /* completed: with all that it launched itself; 0 not known */
    uint32_t grid[3], block[3], cluster[3];      /* cluster 0: none */
    int32_t registers, static_shared_bytes, dynamic_shared_bytes;
    uint32_t local_bytes_thread;
    int64_t bytes;                               /* of a copy or memset */
    uint32_t value, stream, graph, context;      /* graph 0: not launched from one */
    bool device_launched, access_policy;
};
#define DEVICE_MAX_RECORDS 8192
struct device_trace { int count; struct device_record *list; uint64_t dropped, unknown; };
struct device_audit { int launches, cold_launches; uint64_t order_seed; };
#define DEVICE_MAX_COLD 64
struct device_audit_result {
    struct device_sample sample;
    struct device_trace graph, cold;
    int cold_count;
    double cold_event_ns[DEVICE_MAX_COLD];       /* events around each cold launch: more than the launch takes, and a check on the records */
    int64_t flush_bytes;                         /* written, then read, before each */
};
void device_audit_done(struct device_audit_result *r);
DEFINE_CLEANUP(device_audit, struct device_audit_result, device_audit_done(it))

struct device_ops {
    const char *kind;
    /* What takes time in a process and touches no memory of the device: libraries, the driver's start, what card it is. NULL: nothing. open does it where it was not done. */
    bool (*prepare)(const char *id, struct err *err);
    bool (*open)(const char *id, struct device **ret, struct err *err);
    void (*close)(struct device *d);
    bool (*info)(struct device *d, struct device_info *ret, struct err *err);
    /* False: our failure. True with fault->code != VERDICT_OK: the candidate's, and *ret is NULL. */
    bool (*load)(struct device *d, const struct device_load *what, struct device_program **ret, struct device_fault *fault, struct err *err);
    void (*unload)(struct device_program *p);
    /* One guarded run of the plan: upload, poison, launch each step, download. */
    bool (*run)(struct device_program *p, const struct device_run *how, struct device_run_result *ret, struct device_fault *fault, struct err *err);
    /* NULL on sim, where nothing but tensors outlives a launch. */
    bool (*probe)(struct device_program *p, const struct device_probe *how, struct device_probe_result *ret, struct device_fault *fault, struct err *err);
    /* NULL on sim. Makes the buffer sets; *ret_sets is how many. */
    bool (*time_setup)(struct device_program *p, const struct device_time_setup *how, int *ret_sets, struct device_fault *fault, struct err *err);
    /*
     * One sample: order shuffled, graph built anew, inputs and inouts put together anew, outputs and workspaces poisoned, L2 swept
     * by reads, then the timed launch, then a look at what it left. Each launch has a set of its own, and some sets stay as they
     * are: device_most_launches(sets) of them at most; ret->launches says how many there were.
     */
    bool (*time_block)(struct device_program *p, const struct device_time_block *how, struct device_sample *ret, struct device_fault *fault, struct err *err);
    /* NULL: warm up with samples. ret: of the last graph. */
    bool (*time_warm)(struct device_program *p, const struct device_time_warm *how, struct device_sample *ret, struct device_fault *fault, struct err *err);
    /* NULL: not done. One launch after another from the host, each waited for: how->launches wall times. No graph, nothing flushed between. */
    bool (*time_eager)(struct device_program *p, const struct device_time_block *how, int64_t *ret_wall_ns, struct device_fault *fault, struct err *err);
    /* NULL: cannot tell. */
    bool (*alone)(struct device *d, int64_t watch_ns, struct device_alone *ret, struct err *err);
    /*
     * Output bytes of tensor t of set `set` after the last block, and what its inputs were, by tensor. A set that the last block did not
     * launch (device_set_order) is ERR_INVALID.
     */
    bool (*time_output)(struct device_program *p, int set, int t, void *ret_bytes, struct err *err);
    bool (*time_windows)(struct device_program *p, int set, struct device_windows *ret, struct err *err);
    /* Cost of what the harness itself adds: an empty kernel as a graph node, event pair without work; bandwidth of a copy and of reads. */
    bool (*calibrate)(struct device *d, json_t **ret, struct err *err);
    /* NULL on sim. Before open, in a process that is used for an audit alone: opens the tracing library. ERR_UNAVAILABLE: it does not work here. */
    bool (*audit_prepare)(const char *library, struct err *err);
    /* After time_setup. */
    bool (*audit)(struct device_program *p, const struct device_audit *how, struct device_audit_result *ret, struct device_fault *fault, struct err *err);
    /* NULL on sim. As audit_prepare, for a process that is used for a profile alone; opens the library's helpers beside it too. */
    bool (*profile_prepare)(const char *library, struct err *err);
    /* The card's counters of one run of the plan; it runs once a pass. ERR_UNAVAILABLE: not on this host, card or driver, and why. ERR_BUSY: another program counts just now. */
    bool (*profile)(struct device_program *p, const struct device_profile *how, struct device_profile_result *ret, struct device_fault *fault, struct err *err);
    /* sim: time of the plan from the counts of a run; NULL on cuda. */
    bool (*estimate)(struct device_program *p, const struct device_run_result *run, double *ret_ns, json_t **ret_terms, struct err *err);
};
/* The order in which a block launches its sets: the first `launches` of ret_order. Pure; equal on both sides of the pipe. */
void device_set_order(uint64_t order_seed, int sets, int *ret_order);
/* How many of so many sets one block launches at most: a ninth, and one at least, must stay as it was. */
static inline int device_most_launches(int sets) { return sets - (sets + 8) / 9; }
/* How many sets are wanted for so many launches. */
static inline int64_t device_sets_for(int64_t launches) { return launches + (launches + 7) / 8; }
extern const struct device_ops device_sim, device_cuda;
/*
 * For showing what a naive checker sees, never for a verdict: one pool of memory, the plan launched in it, the pool copied back after
 * each launch and looked at by `after`, which says whether there shall be another. Opens the card itself; a fault ends the process's use of it.
 */
struct device_plain {
    const char *ptx;
    const struct plan *plan;
    int tensor_count;
    void *pool; size_t pool_bytes;
    const size_t *tensor_at, *workspace_at;     /* in the pool */
};
typedef bool device_plain_step(void *ctx, int launch);
bool device_cuda_plain(const char *id, const struct device_plain *what, int launches, device_plain_step *after, void *ctx,
                       struct device_fault *fault, struct err *err) MUST_CHECK;
/* "sim" or "cuda:N"; NULL: unknown kind. */
const struct device_ops *device_find(const char *id);
/* Probes what this machine has (cuda devices first, sim always last); array of device_info_encode. Opens no context for long. */
bool device_list(json_t **ret, struct err *err) MUST_CHECK;

/*
 * What a run child must see of the host to use this device: NULL-ended lists for the sandbox, and its environment. sim: nothing.
 * Opens the driver's library without starting it. ERR_UNAVAILABLE where there is none.
 */
#define DEVICE_MAX_NEEDS 40
struct device_needs { char *read_only[DEVICE_MAX_NEEDS], *devices[DEVICE_MAX_NEEDS], *env[8]; };
bool device_needs_find(const char *id, struct device_needs *ret, struct err *err) MUST_CHECK;
void device_needs_done(struct device_needs *n);
DEFINE_CLEANUP(device_needs, struct device_needs, device_needs_done(it))

/* ---- the toolkit: compile and assemble; needs no GPU ---- */
struct toolkit_paths { char home[512]; char nvrtc[640], builtins[640], nvjitlink[640], include[640]; char version[32]; char cupti[640]; /* "": none */ };
/* --cuda-home, CUDA_HOME, /usr/local/cuda, in that order. ERR_UNAVAILABLE says what is missing and how to get it. */
bool toolkit_find(const char *cuda_home, struct toolkit_paths *ret, struct err *err) MUST_CHECK;
/*
 * For a process that compiles and does nothing else, before it sees a source: opens the compilers, so that no file but a header is
 * needed any more, and goes to stand beside the headers, which have relative names from then on: no macro can spell the place where
 * they lie on this host. t->include becomes relative.
 */
bool toolkit_settle(struct toolkit_paths *t, struct err *err) MUST_CHECK;
struct toolkit_compiled { char *ptx; size_t ptx_bytes; char *log; bool ok; };   /* owned (free); log is clean UTF-8, cut, without host paths */
/* NVRTC, to PTX. options: one a line, ours only. ok=false: the source does not compile (the candidate's fault, see log). */
bool toolkit_compile(const struct toolkit_paths *t, const char *source, const char *target, const char *options, struct toolkit_compiled *ret, struct err *err) MUST_CHECK;
struct toolkit_kernel { char name[PLAN_KERNEL_SIZE]; struct ptx_resources resources; int spill_store_bytes, spill_load_bytes; };
struct toolkit_assembled { void *cubin; size_t cubin_bytes; char *log; bool ok; int kernel_count; struct toolkit_kernel kernels[32]; };
/* nvJitLink, PTX to the cubin of exactly that target, without line information. */
bool toolkit_assemble(const struct toolkit_paths *t, const char *ptx, size_t ptx_bytes, const char *target, int maxrregcount, struct toolkit_assembled *ret, struct err *err) MUST_CHECK;
