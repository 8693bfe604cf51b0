/*
 * A candidate: device code and a launch plan, as data. And the plan with its numbers filled in for one shape.
 *
 * candidate_parse refuses what is not of the documented form (unknown keys, wrong types, limits): the sender's mistake, told as
 * faults. plan_resolve does the arithmetic for a shape and says what is wrong as one sentence: the verdict rejected.plan.
 */
#pragma once
#include "core/shape.h"

#define CANDIDATE_MAX_SOURCE_BYTES (256 * 1024)
#define CANDIDATE_MAX_NOTES_BYTES 4096
#define CANDIDATE_MAX_DEFINES 64
#define PLAN_MAX_STEPS 16
#define PLAN_MAX_ARGS 64
#define PLAN_MAX_WORKSPACES 16
#define PLAN_KERNEL_SIZE 256
#define PLAN_SHARED_MAX_BYTES 232448   /* 227 KiB: the most a block can opt in to on sm_90 */
#define TRITON_MAX_HIDDEN 2            /* arguments that Triton adds: pointers to global and to profile scratch memory */
#define PLAN_MAX_WORKSPACE_BYTES ((int64_t)4 << 30)
#define PLAN_WORKSPACE_ALIGNMENT_BYTES 256      /* of each: what a driver's allocator gives; part of the contract with a kernel, as tensors' are */

enum language { LANGUAGE_CUDA, LANGUAGE_PTX, LANGUAGE_TRITON, LANGUAGE_COUNT };
const char *language_name(enum language l);

struct candidate {
    enum language language;
    char *source;
    size_t source_bytes;
    json_t *doc;                         /* the whole document, source included; owned */
    int define_count;
    struct { char name[64]; char value[64]; } defines[CANDIDATE_MAX_DEFINES];
    int maxrregcount;                    /* 0: not given */
    bool fast_math;
    bool atomics, cooperative, cache_hints;   /* declares */
};
/* True if there was no fault; then the caller owns *ret (candidate_done). Keeps a reference to doc. */
bool candidate_parse(const json_t *doc, const char *pointer, struct candidate *ret, struct faults *f) MUST_CHECK;
/* Reads DIR/STEM.json, fills in source from DIR/STEM.cu (a baseline); new reference. */
bool candidate_load(const char *dir, const char *stem, json_t **ret, struct err *err) MUST_CHECK;
void candidate_done(struct candidate *c);
/* Over the compact JSON of the document without parent, lessons and notes: two equal digests are the same work. */
struct hash_hex candidate_digest(const json_t *doc);
DEFINE_CLEANUP(candidate, struct candidate, candidate_done(it))

enum plan_arg_kind { PLAN_TENSOR, PLAN_WORKSPACE, PLAN_SCALAR, PLAN_AXIS, PLAN_NULL /* "$null": a pointer to nothing */ };
struct plan_arg {
    enum plan_arg_kind kind;
    int index;                           /* of the tensor, workspace, scalar or axis */
    int bytes;                           /* size of the argument: 8 for a pointer, 4 for an axis, the dtype's for a scalar */
    uint64_t value;                      /* axis: its value; scalar: its bits; else 0 */
};
struct plan_step {
    bool is_memset;
    int memset_workspace;
    uint8_t memset_value;
    char kernel[PLAN_KERNEL_SIZE];
    uint32_t grid[3], block[3], cluster[3];
    uint32_t shared_bytes;               /* dynamic */
    bool dependent;                      /* may begin before the launch before it has ended, whose results it waits for by itself */
    int arg_count;
    struct plan_arg args[PLAN_MAX_ARGS];
};
struct plan {
    bool cooperative;
    int workspace_count;
    struct { char name[64]; int64_t bytes; } workspaces[PLAN_MAX_WORKSPACES];
    int step_count;
    struct plan_step steps[PLAN_MAX_STEPS];
};
/* False: `why` says what is wrong with the plan (the candidate's fault: rejected.plan). */
bool plan_resolve(const struct candidate *c, const struct shape *s, struct plan *ret, char *why, size_t why_size) MUST_CHECK;
/* A number or an expression over axes and defines, as everywhere in a plan. */
bool candidate_number(const struct candidate *c, const struct shape *s, const char *text, int64_t *ret, struct err *err) MUST_CHECK;
/* With all numbers filled in, arguments by name; new reference. */
json_t *plan_encode(const struct plan *p, const struct shape *s);
/* The inverse: a plan as plan_encode wrote it, for the same shape (a child of the judge gets it so). */
bool plan_parse(const json_t *doc, const struct shape *s, struct plan *ret, struct err *err) MUST_CHECK;
/* What a caller must provide, and the kernel was proved for nothing else: least driver for the toolkit ("13.0"; may be NULL),
 * workspace, tensors and scalars. The same in manifest and signed certificate; new reference in *ret. */
bool plan_preconditions(const struct plan *p, const struct shape *s, const char *toolkit, json_t **ret, struct err *err) MUST_CHECK;
/* The -D options of candidate and shape, one a line ("-DROWS=2\n-DAXIS_B=4\n-DDTYPE_io=__nv_bfloat16\n"). False: rejected.plan. */
bool candidate_options(const struct candidate *c, const struct shape *s, struct buf *to, char *why, size_t why_size) MUST_CHECK;

/* ---- Triton (triton.c) ---- */
/* The form of a document's "triton". */
void candidate_check_triton(const json_t *doc, const char *pointer, struct faults *f);
/*
 * What the compiler is told, for a shape: {"function","signature":{name:{"type","divisible"}},"constexprs":{name: value|{"dtype"}},
 * "constants":{...},"num_warps","num_stages"}. False: rejected.plan. New reference.
 */
bool candidate_triton(const struct candidate *c, const struct shape *s, const struct plan *p, json_t **ret, char *why, size_t why_size) MUST_CHECK;
/*
 * Fills in what Triton says of its kernel, which is as untrusted as the source: {"name","num_warps","shared","hidden": arguments that it
 * adds,"global_scratch_size","profile_scratch_size","tmem_size","clusters"}. Those arguments become "$null". False: rejected.plan.
 */
bool plan_take_triton(struct plan *p, const json_t *made, char *why, size_t why_size) MUST_CHECK;
