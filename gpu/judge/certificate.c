/*
 * What the judgement leaves behind: figures for the search and the dashboard, and the certificate: all that a stranger needs to
 * repeat it, seeds included (they are of no more use once spent). A figure never goes without its evidence and its mode.
 */
#include "core/certificate.h"
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

static const char *evidence(const struct judge *j)
{
    return j->timing.measured ? "measured" : "emulated";
}

static json_t *resources_encode(const struct judge_side *s)
{
    json_t *list = json_array();
    for (int i = 0; i < s->kernel_count; i++) {
        const struct judge_kernel *k = &s->kernels[i];
        json_t *doc = json_object();
        json_put_str(doc, "kernel", k->name);
        json_put_int(doc, "registers", k->registers);
        json_put_int(doc, "shared_bytes", k->shared_bytes);
        json_put_int(doc, "local_bytes", k->local_bytes);
        json_put_int(doc, "spill_bytes", k->spill_bytes);
        json_array_append_new(list, doc);
    }
    return list;
}

/* The longest step's bound and occupancy, out of the estimate's terms. */
static void put_bound(json_t *figures, const json_t *terms)
{
    const json_t *steps = json_is_array(terms) ? terms : json_object_get(terms, "steps"), *longest = NULL;
    size_t i;
    json_t *step;
    json_array_foreach(steps, i, step)
        if (!longest || json_num(step, "ns", 0) > json_num(longest, "ns", 0))
            longest = step;
    const char *bound = json_str(longest, "bound", NULL);
    const json_t *occupancy = json_object_get(longest, "occupancy");
    json_put(figures, "bound", bound ? json_string(bound) : json_null());
    json_put(figures, "occupancy", json_is_number(occupancy) ? json_incref((json_t *)(uintptr_t)occupancy) : json_null());
}

static json_t *or_null(json_t *borrowed)
{
    return borrowed ? json_incref(borrowed) : json_null();
}

void figures_fill(struct judge *j)
{
    const struct judge_side *s = &j->sides[CANDIDATE];
    const struct judge_timing *t = &j->timing;
    json_t *f = j->figures;
    if (s->triton_made)
        json_put(f, "triton", json_incref(s->triton_made));
    if (s->kernel_count)
        json_put(f, "resources", resources_encode(s));
    if (s->counts)
        json_put(f, "counts", json_array_size(s->counts) ? json_incref(s->counts) : json_null());
    if (json_array_size(s->lines))
        json_put(f, "lines", json_incref(s->lines));
    if (!(t->candidate_ns > 0))
        return;
    json_put_str(f, "evidence", evidence(j));
    json_put_str(f, "mode", t->measured ? "graph-rotated" : "estimate");
    json_put_num(f, "time_ns", t->candidate_ns);
    json_put_num(f, "baseline_ns", t->baseline_ns);
    json_put(f, "speedup",
             json_pack("{s:f,s:f,s:f}", "median", t->speedup.median, "low", t->speedup.low, "high", t->speedup.high));
    json_put_str(f, "decision", j->sides[BASELINE].present ? stats_decision_name(t->decision) : "baseline");
    json_put_str(f, "decided_by", t->measured ? "measurement" : "estimate");
    json_put(f, "terms", or_null(s->estimate_terms));
    put_bound(f, s->estimate_terms);
    modes_put_graph(j);
    json_put(f, "modes", t->measured ? json_incref(j->modes) : json_null());
    json_put(f, "rules", rules_of_judgement(j));
    json_put(f, "samples", or_null(t->samples));
    json_put(f, "statistics", t->measured ? or_null(json_object_get(t->record, "statistics")) : json_null());
}

static void put_digest(json_t *doc, const char *key, const void *data, size_t size)
{
    if (data && size)
        json_put_str(doc, key, hash_of(data, size).text);
}

static json_t *digests(const struct judge *j)
{
    const struct judge_side *s = &j->sides[CANDIDATE], *base = &j->sides[BASELINE];
    cleanup(str) char *plan = json_text(s->plan_doc);
    json_t *doc = json_object();
    put_digest(doc, "source", s->candidate.source, s->candidate.source_bytes);
    put_digest(doc, "plan", plan, strlen(plan));
    put_digest(doc, "ptx", s->ptx.data, s->ptx.size);
    put_digest(doc, "cubin", s->cubin.data, s->cubin.size);
    json_put_str(doc, "candidate", candidate_digest(s->candidate.doc).text);
    json_put_str(doc, "op", j->op->digest.text);
    if (base->present) {
        json_put_str(doc, "baseline", candidate_digest(base->candidate.doc).text);
        put_digest(doc, "baseline_source", base->candidate.source, base->candidate.source_bytes);
        put_digest(doc, "baseline_ptx", base->ptx.data, base->ptx.size);
        put_digest(doc, "baseline_cubin", base->cubin.data, base->cubin.size);
    }
    return doc;
}

static json_t *sandbox_record(const struct judge *j)
{
    json_t *doc = json_object();
    json_put_str(doc, "level", sandbox_level(j->watch.layers));
    json_put_bool(doc, "limits", j->watch.layers & SANDBOX_LIMITS);
    json_put_bool(doc, "seccomp", j->watch.layers & SANDBOX_SECCOMP);
    json_put_bool(doc, "landlock", j->watch.layers & SANDBOX_LANDLOCK);
    json_put_bool(doc, "namespaces", j->watch.layers & SANDBOX_NAMESPACES);
    json_put_bool(doc, "cgroup", j->watch.layers & SANDBOX_CGROUP);
    return doc;
}

static void put_process(json_t *doc, const char *name, const struct child *c)
{
    char nonce[24];
    if (!c->alive)
        return;
    snprintf(nonce, sizeof nonce, "0x%016llx", (unsigned long long)c->nonce);
    json_put(doc, name, json_pack("{s:I,s:s}", "pid", (json_int_t)c->process.pid, "nonce", nonce));
}

json_t *processes_encode(const struct judge *j)
{
    json_t *doc = json_object();
    put_process(doc, "candidate", &j->sides[CANDIDATE].run);
    put_process(doc, "baseline", &j->sides[BASELINE].run);
    put_process(doc, "reference", &j->reference);
    return doc;
}

/* All of the candidate but what lies beside the certificate (its source) or is talk: with the source, what digests.candidate is of. */
static json_t *program_encode(const struct judge_side *s)
{
    static const char *const elsewhere[] = {"source", "parent", "lessons", "notes"};
    json_t *doc = json_copy(s->candidate.doc);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        json_object_del(doc, elsewhere[i]);
    return doc;
}

/* What it was compared with, and whose that is: the operator's own baseline, or another one that somebody chose. */
static json_t *baseline_encode(const struct judge *j)
{
    cleanup(json) json_t *own = NULL;
    struct err none = {0};
    const json_t *doc = j->sides[BASELINE].candidate.doc;
    bool is_own = candidate_load(j->op->dir, "baseline", &own, &none) && !strcmp(candidate_digest(own).text, candidate_digest(doc).text);
    json_t *ret = json_object();
    json_put_str(ret, "of", is_own ? CERTIFICATE_OPERATORS : CERTIFICATE_OTHERS);
    json_put(ret, "program", program_encode(&j->sides[BASELINE]));
    return ret;
}

json_t *certificate_make(struct judge *j, const struct verdict *v)
{
    const struct judge_side *s = &j->sides[CANDIDATE];
    json_t *doc = json_object(), *toolkit = json_object(), *speedup = json_object(), *times = json_object(), *before = NULL;
    struct err err = {0};
    /* The shape's tensors were laid out when the judgement began: what fails now is a bug. */
    BUG_ON(!plan_preconditions(&s->plan, &j->shape, j->toolkit.version, &before, &err));
    json_put_str(doc, "format", CERTIFICATE_FORMAT);
    json_put(doc, "shape", shape_encode(&j->shape));
    json_put_str(doc, "shape_hash", shape_hash(&j->shape).text);
    json_put_int(doc, "op_version", j->op->version);
    json_put_str(doc, "evidence", evidence(j));
    json_put_str(doc, "mode", j->timing.measured ? "graph-rotated" : "estimate");
    json_put_str(doc, "verdict", verdict_name(v->code));
    json_put(doc, "digests", digests(j));
    json_put(doc, "program", program_encode(s));
    if (j->sides[BASELINE].present)
        json_put(doc, "baseline", baseline_encode(j));
    json_put(doc, "plan", json_incref(s->plan_doc));
    if (s->triton_made)
        json_put(doc, "triton", json_incref(s->triton_made));
    json_put(doc, "preconditions", before);
    json_put_str(doc, "options", buf_cstr(&s->options));
    json_put_num(doc, "time_ns", j->timing.candidate_ns);
    json_put_num(doc, "baseline_ns", j->timing.baseline_ns);
    json_put_num(speedup, "median", j->timing.speedup.median);
    json_put_num(speedup, "low", j->timing.speedup.low);
    json_put_num(speedup, "high", j->timing.speedup.high);
    json_put(doc, "speedup", speedup);
    json_put(doc, "timing", or_null(j->timing.record));
    json_put(doc, "samples", or_null(j->timing.samples));
    json_put(doc, "timers", timers_encode(j));
    json_put(doc, "modes", or_null(json_object_get(j->figures, "modes")));
    json_put(doc, "rules", or_null(json_object_get(j->figures, "rules")));
    json_put(doc, "resources", resources_encode(s));
    json_put(doc, "roofline", or_null(json_object_get(j->figures, "roofline")));
    json_put(doc, "phases", json_deep_copy(j->phases));
    json_put(doc, "calibration", or_null(j->calibration));
    json_put(doc, "sandbox", sandbox_record(j));
    json_put(doc, "needs", needs_encode(j));
    json_put(doc, "device", or_null(s->info));
    json_put_str(toolkit, "version", j->toolkit.version);
    json_put(doc, "toolkit", toolkit);
    json_put_str(doc, "proteus_version", PROTEUS_VERSION);
    json_put_str(times, "started", clock_text(j->started_ns).text);
    json_put_str(times, "ended", clock_text(clock_wall_ns()).text);
    json_put(doc, "times", times);
    return doc;
}
