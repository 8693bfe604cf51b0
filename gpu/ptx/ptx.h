/*
 * PTX on the CPU: parse, scan, emulate, estimate. Knows no device, no plan, no operator: modules, launches, buffers.
 *
 * A candidate's fault (malformed PTX, a forbidden construct, a stray access) is a `struct ptx_finding`, never a `struct err`.
 * PTX text is hostile: parsing and running are bounded by `struct ptx_limits` in memory, nesting, instructions and time.
 * A parsed module is immutable and may be run from several threads at once; a run uses `limits.threads` threads of its own.
 */
#pragma once
#include "core/buf.h"
#include "core/err.h"

#include <stddef.h>
#include <stdint.h>

struct ptx_module;

/* X(code, name, the verdict's wire name) : what can be wrong with a candidate, in the verdict's own words */
#define PTX_FINDING_TABLE(X)                                   \
    X(PTX_CLEAN, "clean", "ok")                                \
    X(PTX_SYNTAX, "syntax", "compile_error")                   \
    X(PTX_FORBIDDEN, "forbidden", "rejected.forbidden")        \
    X(PTX_BAD_LAUNCH, "bad_launch", "rejected.plan")           \
    X(PTX_UNSUPPORTED, "unsupported", "unsupported_on_sim")    \
    X(PTX_OUT_OF_BOUNDS, "out_of_bounds", "out_of_bounds")     \
    X(PTX_READ_ONLY, "read_only", "input_modified")            \
    X(PTX_FROZEN, "frozen", "input_modified")                  \
    X(PTX_UNINITIALISED, "uninitialised", "uninitialised_read") \
    X(PTX_MISALIGNED, "misaligned", "misaligned")              \
    X(PTX_RACE, "race", "race")                                \
    X(PTX_BARRIER, "barrier", "barrier_divergence")            \
    X(PTX_TRAP, "trap", "fault")                               \
    X(PTX_TIMEOUT, "timeout", "timeout")                       \
    X(PTX_RESOURCE, "resource", "resource_limit")              \
    X(PTX_LEFT_OUT, "left_out", "unsupported_on_sim")

enum ptx_finding_kind {
#define X(code, name, verdict) code,
    PTX_FINDING_TABLE(X)
#undef X
};
const char *ptx_finding_name(enum ptx_finding_kind kind);
const char *ptx_finding_verdict(enum ptx_finding_kind kind);

/* The first (worst) thing found. Fields that do not apply are 0, -1 for line numbers. */
struct ptx_finding {
    enum ptx_finding_kind kind;
    int ptx_line;                 /* 1-based line of the PTX text */
    int source_line;              /* by .loc, 1-based line of the candidate's source; -1 unknown */
    char source_file[64];         /* by .file, without folders; "" unknown. Code inlined from a header counts as the line that called it */
    uint32_t block[3], thread[3]; /* where it happened */
    char buffer[64];              /* nearest buffer's name, "shared", "local", "param"; "" if none */
    int64_t offset_bytes;         /* from the buffer's start; may be negative or past its end */
    uint32_t access_bytes;
    char opcode[48];              /* "ld.global.v4.f32" */
    uint64_t schedule_seed;       /* under which it was found */
    bool explored;                /* the schedule was PTX_EXPLORE */
    bool out_of_time;             /* PTX_TIMEOUT by the wall clock; else by the number of instructions */
    uint64_t executed;            /* PTX_TIMEOUT: thread instructions until then */
    char text[256];               /* one sentence for a person; UTF-8, printable */
};

struct ptx_limits {
    size_t text_bytes;            /* largest PTX accepted */
    size_t memory_bytes;          /* arena for one module, and per running block for shared + local + registers */
    uint64_t thread_instructions; /* of one launch, over all threads */
    int64_t wall_ns;              /* of one launch */
    int threads;                  /* host threads that share the blocks; 0 = 1 */
};
extern const struct ptx_limits ptx_default_limits;

/*
 * Parses and decodes a module. True: *ret is owned by the caller (ptx_free), or NULL with ret_finding->kind != PTX_CLEAN
 * (PTX_SYNTAX, PTX_RESOURCE). An instruction that the emulator does not know is not an error here: it is found when run.
 * False only for failures of ours.
 */
bool ptx_parse(const char *text, size_t size, const struct ptx_limits *limits, struct ptx_module **ret,
               struct ptx_finding *ret_finding, struct err *err) MUST_CHECK;
void ptx_free(struct ptx_module *m);
DEFINE_CLEANUP(ptx, struct ptx_module *, ptx_free(*it))

/* ---- what a module declares ---- */
#define PTX_MAX_PARAMS 64
struct ptx_kernel {
    const char *name;             /* borrowed from the module */
    int param_count;
    struct { uint32_t bytes, align; bool is_pointer; } params[PTX_MAX_PARAMS]; /* is_pointer: .ptr or 64-bit integer */
    uint32_t static_shared_bytes;
    uint32_t reqntid[3], maxntid[3];      /* 0 = not given */
    uint32_t cluster[3];                  /* .reqnctapercluster, 0 = not given */
    bool uses_grid_barrier;               /* reads what cooperative_groups' grid sync reads (%envreg) */
};
int ptx_kernel_count(const struct ptx_module *m);
bool ptx_kernel_get(const struct ptx_module *m, int index, struct ptx_kernel *ret);
bool ptx_kernel_find(const struct ptx_module *m, const char *name, struct ptx_kernel *ret);
#define PTX_MAX_VARIABLES 4096        /* more of them the scan refuses */
/* Variables at module scope that a launch could reach: .global and .const. False: no more. */
struct ptx_variable { const char *name; uint64_t bytes; bool is_constant; };
bool ptx_variable_get(const struct ptx_module *m, int index, struct ptx_variable *ret);
const char *ptx_target(const struct ptx_module *m);   /* "sm_90a" */
/* Opcodes used (with suffixes), space separated, that the emulator cannot run; "" if none. Appends to `to`. */
void ptx_unsupported(const struct ptx_module *m, struct buf *to);

/* ---- scan: refuse or flag by a table (verification.md phase 3). It sorts, it never clears. ---- */
#define PTX_SCAN_MAX_FLAGS 32
struct ptx_declares { bool atomics, cooperative, cache_hints; };
struct ptx_scan {
    struct ptx_finding refused;           /* kind PTX_CLEAN if nothing is refused */
    int flag_count;
    struct { char rule[32]; int ptx_line, source_line; char text[128]; } flags[PTX_SCAN_MAX_FLAGS];
    bool uses_atomics, uses_grid_barrier, uses_cache_hints, uses_clock;
};
bool ptx_scan(const struct ptx_module *m, const struct ptx_declares *declares, struct ptx_scan *ret,
              struct err *err) MUST_CHECK;
/* The rules as JSON text [{"rule","pattern","action","why"}], for documentation and tests. Appends to `to`. */
void ptx_scan_rules(struct buf *to);

/* ---- emulate ---- */
/* Rows of a buffer that hold something, ascending; all else is zeros that must stay so, in pages of which none is there. */
struct ptx_held { const int64_t *rows; int64_t count; uint64_t row_bytes; };
struct ptx_buffer {
    char name[64];
    uint64_t address;             /* device address; buffers do not touch each other (at least 4 KiB between them) */
    size_t bytes;
    uint8_t *data;                /* the caller's; `bytes` long */
    uint8_t *initialised;         /* one bit a byte (bit i%8 of byte i/8), the caller's; NULL: all initialised */
    bool writable;                /* false: a store is PTX_READ_ONLY */
    const uint8_t *frozen;        /* one bit a byte, the caller's: a store that changes such a byte is PTX_FROZEN; NULL: none */
    const struct ptx_held *held;  /* the caller's: a store that changes a byte of another row is PTX_FROZEN too; NULL: there are all */
    bool partial;                 /* an earlier launch of which only a part ran writes it: who reads bytes that are not initialised is left out */
    bool loaded, stored;          /* answer: a block of this launch did so */
    /* By byte, the caller's: a store of any kind leaves options.tag there, that of a cluster which was drawn for a sample the next number;
     * whatever the value. NULL: nobody asks. */
    uint8_t *tags;
    double drawn_bytes, drawn_squares;    /* answer, where there are tags: what each drawn cluster stored, summed; and squared */
};
struct ptx_arg { uint8_t bytes; uint64_t value; };    /* little-endian in value; pointer 8, int 4, ...; at most 8 */
struct ptx_launch {
    const char *kernel;
    uint32_t grid[3], block[3], cluster[3];           /* cluster 0 or 1: none */
    uint32_t dynamic_shared_bytes;
    bool dependent;               /* may start before the launch before it has ended (programmatic dependent launch) */
    bool cooperative;             /* all blocks take turns on one host thread, and grid barriers work */
    int arg_count;
    struct ptx_arg args[PTX_MAX_PARAMS];
};

/* What a launch did, summed over threads; the estimate's input. A "sector" is 32 bytes. */
struct ptx_counts {
    uint64_t thread_instructions, warp_instructions;
    uint64_t blocks, warps;
    uint64_t by_class[16];                /* thread instructions by enum ptx_class */
    uint64_t warp_by_class[16];
    uint64_t global_load_bytes, global_store_bytes;         /* asked for by threads */
    uint64_t global_load_requests, global_store_requests;   /* warp-level */
    uint64_t global_load_sectors, global_store_sectors;     /* after coalescing in a warp */
    uint64_t unique_load_sectors, unique_store_sectors;     /* touched at least once in this launch: compulsory DRAM */
    uint64_t shared_requests, shared_wavefronts;            /* wavefronts - requests = bank conflicts */
    uint64_t barriers, atomics, shuffles;
    uint64_t cluster_releases;            /* arrivals of warps at a cluster's barrier that release what went before (not .relaxed) */
    uint64_t cluster_drains;              /* of them, those with stores to global memory since the warp's last */
    uint64_t longest_warp_instructions;                     /* of the warp that issued most */
    uint64_t waited_grid;                 /* 1: a thread waited for the launch before this one (griddepcontrol.wait) */
    uint64_t drawn_blocks, drawn_of;      /* of a sample: blocks that were drawn and ran to their end; of how many they were drawn */
    uint64_t sample_cpu_ns;               /* of a sample: CPU time of the process while its blocks ran; the only count that differs from run to run */
    uint64_t left_out_blocks;             /* that ended because nobody had written what they read: ptx_buffer.partial */
    uint64_t reads_later;                 /* 1: a block may have read what one that begins after it had stored; see ptx_run */
    uint64_t shadow_bytes;                /* held beside the buffers for checks and counts: bits, marks, who wrote last */
    /* Counted in depth only (options.depth), by a model of the device's caches, cold at the start; scaled up from modelled_blocks: */
    uint64_t l1_hit_sectors, l2_load_sectors, l2_hit_sectors, l2_store_sectors;
    uint64_t dram_load_sectors, dram_store_sectors;   /* stored: written back, and what L2 still holds changed at the end */
    uint64_t modelled_blocks;
    uint64_t chain_cycles;                /* of dependent instructions, loads aside, summed over warps; an upper bound */
    uint64_t expanded_cycles;             /* that instructions which ptxas makes more of than one hold their warps up, summed over warps */
    uint64_t dependent_loads;             /* longest chain of global loads that wait for one another, in one warp; a load waits for
                                             what its address needs, and for what was used before the loop or the long branch it is in */
};
enum ptx_class {
    PTX_CLASS_INT, PTX_CLASS_F32, PTX_CLASS_F16, PTX_CLASS_F64, PTX_CLASS_SFU, PTX_CLASS_CONVERT, PTX_CLASS_MOVE,
    PTX_CLASS_CONTROL, PTX_CLASS_GLOBAL, PTX_CLASS_SHARED, PTX_CLASS_LOCAL, PTX_CLASS_SHUFFLE, PTX_CLASS_ATOMIC,
    PTX_CLASS_BARRIER, PTX_CLASS_MATRIX, PTX_CLASS_OTHER
};

/*
 * Runs one launch to its end or to the first finding. Buffers' data and initialised bits change in place. Every access is
 * checked: bounds, read-only, bytes that must keep their bits, initialised bytes (global, shared, local, registers that were never
 * written), alignment; where `check_races`, races by what happened before what: on shared memory and on buffers that may be written,
 * between warps, blocks, launches that overlap, and, exploring, lanes of a warp. A store of what is there already is no race.
 * Initialised bits are the caller's to reset before each sequence of launches: leftovers of another one are found by them.
 * `schedule_seed` orders warps, and says how lanes part; equal seeds, equal runs (on one host thread).
 * On several host threads blocks run side by side and one may get what only a block that begins later can give: where races are looked
 * at, counts.reads_later says that this may have been so, and only a run on one thread shows whether the launch ends without it.
 */
#define PTX_SEED_DESCENDING (UINT64_C(1) << 63)   /* in a schedule seed: blocks begin in descending order */
struct ptx_device_row;
/* What one line of the source did (of the PTX, where it names no source lines). Freed by ptx_depth_done. */
struct ptx_line {
    char source_file[64];
    int source_line, ptx_line;    /* source_line -1: none */
    uint64_t thread_instructions, warp_instructions;      /* 32 * warp - thread: lanes that stood by, by divergence or exit */
    uint64_t global_accesses, global_sectors, asked_sectors;  /* by warps; asked: bytes that lanes asked for / 32 */
    uint64_t shared_requests, shared_wavefronts;
};
struct ptx_depth {                /* wish and answer */
    const struct ptx_device_row *device;                  /* whose caches are modelled */
    bool by_line;
    int line_count;
    struct ptx_line *lines;       /* by place; the caller's after a run: ptx_depth_done */
};
void ptx_depth_done(struct ptx_depth *d);
DEFINE_CLEANUP(ptx_depth, struct ptx_depth, ptx_depth_done(it))

/*
 * Lockstep: lanes go together as long as the code does. Explore: lanes are parted and take turns at random, as a card may let
 * them, in some of the blocks; races between lanes of a warp are looked at too. It costs more, and its counts mean little.
 */
enum ptx_schedule { PTX_LOCKSTEP, PTX_EXPLORE };
const char *ptx_schedule_name(enum ptx_schedule schedule);
/* What launches leave for those that may overlap with them. The caller's, for the launches of one sequence, one after the other. */
struct ptx_history;
struct ptx_history *ptx_history_new(void);
void ptx_history_free(struct ptx_history *h);
/*
 * A sample of the clusters where all would take more thread instructions than the budget, or more time, and no block can hand another one anything
 * (ptx_talks). The caller's, for all runs of one launch: what the first takes, the others take. Then counts.blocks says how many ran;
 * blocks that read what is not there because of that (ptx_buffer.partial) end, and do not count.
 */
struct ptx_sample {
    uint64_t budget, seed;
    int64_t cpu_ns;               /* or more of the process's CPU time than this; 0: that does not matter */
    bool rows;                    /* clusters with equal y and z together */
    bool taken;                   /* below `first`, from `last` on, and the list between */
    uint64_t first, last, count, *list;
    uint64_t low, high;           /* answer: drawn from these clusters, but for `corners` of them, which are always among them, */
    uint64_t corners, wide;       /* so many in a row at once */
    uint64_t wanted, size[3];     /* how many were to be drawn, and the grid in clusters */
};
void ptx_sample_done(struct ptx_sample *s);
/* As many others, by another seed; those that are always there stay. */
void ptx_sample_redraw(struct ptx_sample *s, uint64_t seed);
/* The instruction by which blocks could pass something on to one another in global memory; NULL: there is none. Borrowed. */
const char *ptx_talks(const struct ptx_module *m, const char *kernel);
/* From counts of some of the blocks, what all would come to; for an estimate. most_sectors: of all buffers. */
void ptx_counts_scale(struct ptx_counts *c, uint64_t blocks, uint64_t most_sectors);
struct ptx_run_options {
    uint8_t tag;                  /* ptx_buffer.tags */
    struct ptx_sample *sample;    /* NULL: all blocks */
    struct ptx_history *history;  /* NULL: each launch is in order */
    enum ptx_schedule schedule;
    struct ptx_limits limits;
    uint64_t schedule_seed;
    bool check_races;
    bool shared_races_only;       /* of races those on shared memory only, not between blocks */
    /* What tells a kernel where and when it runs (%smid, %nsmid, %gridid, the clocks) is drawn from the seed, so that a result which
     * depends on it differs from run to run. Otherwise it is the same in each. */
    bool wander;
    /* As a card does it: a block's memory counts as written, and what is stored to the module's variables stays there until
     * ptx_free (so one run at a time). For showing what a checker without these checks would see, never for a verdict. */
    bool lenient;
    struct ptx_depth *depth;      /* NULL: not counted in depth, which takes a run three to five times as long */
};
bool ptx_run(const struct ptx_module *m, const struct ptx_launch *launch, struct ptx_buffer *buffers, int buffer_count,
             const struct ptx_run_options *options, struct ptx_finding *ret_finding, struct ptx_counts *ret_counts,
             struct err *err) MUST_CHECK;

/* ---- estimate: never a measurement ---- */
struct ptx_device_row {           /* figures and where they come from: gpu/ptx/devices.c */
    const char *name, *target;
    int sm_count, max_threads_sm, max_blocks_sm, max_warps_sm, registers_sm;
    uint32_t shared_bytes_sm, shared_bytes_block, l1_bytes_sm;   /* l1: with the shared memory that is cut from it */
    double sm_clock_ghz, dram_bytes_per_ns, l2_bytes_per_ns, l2_bytes;
    double datasheet_dram_bytes_per_ns, f32_flops_per_ns, bf16_matrix_flops_per_ns;
    double launch_ns, dram_latency_ns, l2_latency_ns, barrier_ns, barrier_warp_ns, shared_latency_ns;
    const char *sources;
};
const struct ptx_device_row *ptx_device_find(const char *name_or_target);   /* "H200", "sm_90a"; NULL if unknown */
void ptx_device_targets(struct buf *to);      /* "sm_90a, sm_80": each once */

struct ptx_resources { int registers_thread; uint32_t static_shared_bytes, local_bytes_thread; };  /* of the assembled cubin */
struct ptx_estimate {
    double ns;                    /* of one launch, cold inputs */
    /* of all blocks: what each part of the device is busy, and further rounds of blocks; they overlap. latency_ns: of one block */
    double dram_ns, l2_ns, issue_ns, shared_ns, load_store_ns, blocks_ns, rounds_ns, latency_ns, launch_ns;
    double occupancy;             /* warps resident / most possible */
    int blocks_per_sm;
    char bound[16];               /* "dram", "latency", ... */
};
void ptx_estimate_time(const struct ptx_counts *counts, const struct ptx_launch *launch, const struct ptx_resources *resources,
                       const struct ptx_device_row *device, struct ptx_estimate *ret);
