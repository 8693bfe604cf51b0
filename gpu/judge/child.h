/*
 * Inside a child: one job after another from fd 3, each answered by a RESULT frame and the blobs that it announces. What is asked
 * comes from the supervisor and is trusted; what is in it (source, PTX, tensors) is not.
 *
 *   compile     {"do":"compile","source","target","options"} -> {"ok","log"} + "kernel.ptx" if ok
 *               {"do":"assemble","target","maxrregcount"} + "kernel.ptx" -> {"ok","log","kernels":[..]} + "kernel.cubin" if ok
 *   cc          {"do":"cc","cc":"/usr/bin/...","source"} -> {"ok","log"} + "reference.so" if ok
 *   triton      {"do":"triton","python","request":{...candidate_triton},"source"} -> {"began","end":"exit"|"signal"|"wall","code","cpu_ns",
 *               "ok","made":{...plan_take_triton}|null,"log"} + "kernel.ptx" if ok. began: the source ran, so that what failed is its own
 *               "held_axis" and "held_count" of "shape": of tensors that have this axis so many rows travel (gpu/judge/held.h), and a blob
 *               "rows" after the inputs' memory says which; -1: all
 *   reference   {"do":"canaries","op_dir","shape","all","baseline"} (+ a blob "R.T" for each regime R and output T if baseline)
 *                   -> {"passed","baseline_right","text","caught","skipped","report"}
 *               {"do":"inputs"} + memory, {"do":"reference"} -> {}; the results are in the outputs' memory, as doubles
 *   run_*       {"do":"prepare","device"} -> {}; {"do":"open","device"} -> {"info"}
 *               {"do":"scan","declares"} + "kernel.ptx" -> {"refused":finding|null,"flags","uses","unsupported","kernels"}
 *               {"do":"load","plan","resources"|null,"cubin":bool} + "kernel.ptx" (+ "kernel.cubin") -> {"fault"|null}
 *               {"do":"inputs"} + memory -> {}
 *               {"do":"run",..,"far":{"axis","rows","held":[tensors],"points":[tensors]}|null} -> {"fault"|null,"guards_intact","inputs_intact","counts","lines","ns"}; outputs in their memory
 *               {"do":"probe","launches","again",...} -> {"fault"|null,"launches","differs",...}; outputs in their memory; without
 *               "launches" in the answer the device has no such thing
 *               {"do":"estimate"} -> {"ns","terms"}
 *               {"do":"calibrate"} -> {"calibration"}
 *               {"do":"time_setup","further":N,"further_tensors":[..],...} + a blob "content.C.T" for each of these -> {"fault"|null,"sets"}; {"do":"time_block",...} -> {"fault"|null,"event_ns",...}
 *               {"do":"time_warm","launches","order_seed","busy_ns","cap_ns"} -> {"fault"|null,"event_ns","launches","sm_clock_mhz"}
 *               {"do":"time_eager","launches","order_seed"} -> {"fault"|null,"wall_ns":[..]|null}
 *               {"do":"alone","watch_ns"} -> {"alone":{"watched_ns","longest_gap_ns","gaps_ns","gaps"}|null}
 *               {"do":"audit","launches","cold_launches","order_seed"} -> {"fault"|null,"event_ns",..,"graph":trace,"cold":trace,
 *               "cold_event_ns":[..],"flush_bytes"}; its
 *               "open" named an "audit_library"; a trace is {"names","records":[[numbers]],"dropped","unknown"}
 *               {"do":"profile","poison"} -> {"fault"|null,"passes","flush_bytes","steps":[[number|null]]} by gpu/device/profile.h's table; its
 *               "open" named a "profile_library"
 *               {"do":"time_output","set"} -> {"windows":[[cut,first,second,content],..]}; outputs in their memory
 * All but compile, cc, triton and canaries begin with {"do":"shape","op_dir","shape"} + memory for outputs -> {}.
 */
#pragma once
#include "core/shape.h"
#include "gpu/device/device.h"
#include "gpu/judge/held.h"
#include "gpu/judge/shared.h"
#include "gpu/wire.h"

#define CHILD_FD 3

struct child_state {
    const struct device_ops *ops;       /* a test's, or NULL */
    struct op *op;
    struct shape shape;
    struct tensor tensors[OP_MAX_TENSORS];      /* as they travel: compact where `held` has an axis */
    struct tensor full[OP_MAX_TENSORS];         /* as a kernel sees them */
    struct held held;
    int64_t *rows;                      /* of the inputs, held.count of them; NULL: all are there */
    struct shared in, out;              /* inputs to read, outputs to write: the supervisor's memory */
    void *inputs[OP_MAX_TENSORS];       /* into `in`; NULL for outputs */
    struct device *device;
    struct device_program *program;
    struct buf ptx, cubin;
    struct plan plan;
    struct ptx_resources resources[PLAN_MAX_STEPS];
    void *outputs[OP_MAX_TENSORS];      /* content after the last run: into `out`, but for inputs, which are ours to compare */
    struct device_run_result last;
    bool ran;
};

/* Answers one job. False: our failure, sent as an error frame; the child then ends. */
typedef bool child_job(struct child_state *s, const json_t *job, struct err *err);
child_job child_do_compile, child_do_assemble, child_do_reference, child_do_canaries, child_do_cc, child_do_triton, child_do_prepare, child_do_open, child_do_scan, child_do_load, child_do_run,
    child_do_probe, child_do_estimate, child_do_calibrate, child_do_time_setup, child_do_time_block, child_do_time_output,
    child_do_time_warm, child_do_time_eager, child_do_alone, child_do_audit, child_do_profile;

bool child_answer(json_t *doc, struct err *err) MUST_CHECK;          /* takes the reference */
/* 64-bit numbers travel as "0x..." because JSON integers are signed. */
uint64_t child_u64(const json_t *job, const char *key);
json_t *child_u64_json(uint64_t value);
json_t *child_finding_encode(const struct ptx_finding *f);           /* NULL-safe: json null for PTX_CLEAN */
json_t *child_counts_encode(const struct ptx_counts *c);
json_t *child_line_encode(const struct device_line *l);
json_t *child_fault_encode(const struct device_fault *f);            /* json null for none */
bool child_loaded(const struct child_state *s, struct err *err) MUST_CHECK;
