/* Findings as SARIF 2.1.0 (OASIS): what code scanning of CI systems reads. Rules are the verdicts, whether found or not. */
#include "gpu/emulate/emulate.h"

#include <ctype.h>
#include <string.h>

static const enum verdict_code rules[] = {VERDICT_OUT_OF_BOUNDS,  VERDICT_UNINITIALISED_READ, VERDICT_RACE,         VERDICT_BARRIER_DIVERGENCE,
                                          VERDICT_MISALIGNED,     VERDICT_INPUT_MODIFIED,     VERDICT_WRONG_RESULT, VERDICT_NON_FINITE,
                                          VERDICT_FAULT,          VERDICT_TIMEOUT,            VERDICT_RESOURCE_LIMIT, VERDICT_COMPILE_ERROR,
                                          VERDICT_REJECTED_PLAN,  VERDICT_REJECTED_FORBIDDEN, VERDICT_NON_DETERMINISTIC,
                                          VERDICT_UNSUPPORTED_ON_SIM};
#define RULES (sizeof rules / sizeof *rules)

static const char *level_of(enum verdict_code code)
{
    return code == VERDICT_UNSUPPORTED_ON_SIM || code == VERDICT_NON_DETERMINISTIC ? "warning" : "error";
}

static json_t *message(const char *text) { return json_pack("{s:s}", "text", text); }

static json_t *rules_encode(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < RULES; i++) {
        json_t *rule = json_object();
        json_put_str(rule, "id", verdict_name(rules[i]));
        json_put(rule, "shortDescription", message(verdict_person(rules[i])));
        json_put(rule, "help", message(verdict_generator(rules[i])));
        json_put(rule, "defaultConfiguration", json_pack("{s:s}", "level", level_of(rules[i])));
        json_array_append_new(list, rule);
    }
    return list;
}

/* A relative reference or file URI: what a URI may not hold is written as %XX. */
static json_t *uri_encode(const char *path)
{
    struct buf to = {0};
    buf_str(&to, *path == '/' ? "file://" : "");
    for (const char *c = path; *c; c++)
        if (isalnum((unsigned char)*c) || strchr("/._-~", *c))
            buf_add(&to, c, 1);
        else
            buf_fmt(&to, "%%%02X", (unsigned char)*c);
    json_t *text = json_string(buf_cstr(&to));
    buf_done(&to);
    return text;
}

static json_t *triple(const uint32_t v[3]) { return json_pack("[i,i,i]", (int)v[0], (int)v[1], (int)v[2]); }

static json_t *location_encode(const struct emulate_problem *p, const struct emulate_finding *f)
{
    char line[200];
    json_t *place = json_object(), *physical = json_object(), *artifact = json_object();
    const int at = emulate_user_line(p, &f->at);
    json_put(artifact, "uri", uri_encode(p->path));
    json_put_int(artifact, "index", 0);
    json_put(physical, "artifactLocation", artifact);
    json_t *region = json_pack("{s:i}", "startLine", at ? at : 1);      /* without a line: the file as a whole */
    emulate_line(&p->source, at, line, sizeof line);
    if (*line)
        json_put(region, "snippet", message(line));
    json_put(physical, "region", region);
    json_put(place, "physicalLocation", physical);
    if (*f->kernel)
        json_put(place, "logicalLocations", json_pack("[{s:s,s:s}]", "name", f->kernel, "kind", "function"));
    return place;
}

static json_t *properties_encode(const struct emulate_finding *f)
{
    json_t *d = json_object();
    if (*f->kernel) {
        json_put(d, "block", triple(f->at.block));
        json_put(d, "thread", triple(f->at.thread));
    }
    if (f->at.buffer[0]) {
        json_put_str(d, "buffer", f->at.buffer);
        json_put_int(d, "offset_bytes", f->at.offset_bytes);
    }
    if (f->at.access_bytes)
        json_put_int(d, "access_bytes", f->at.access_bytes);
    if (f->at.opcode[0])
        json_put_str(d, "opcode", f->at.opcode);
    if (f->at.ptx_line > 0)
        json_put_int(d, "ptx_line", f->at.ptx_line);
    if (f->schedule_seed) {
        json_put_int(d, "schedule_seed", (int64_t)f->schedule_seed);
        json_put_int(d, "schedules_found_in", f->schedules);
    }
    return d;
}

static json_t *result_encode(const struct emulate_problem *p, const struct emulate_finding *f)
{
    json_t *r = json_object();
    size_t rule = 0;
    while (rule < RULES && rules[rule] != f->code)
        rule++;
    json_put_str(r, "ruleId", verdict_name(f->code));
    if (rule < RULES)
        json_put_int(r, "ruleIndex", (int64_t)rule);
    json_put_str(r, "level", level_of(f->code));
    json_put(r, "message", message(f->text));
    json_t *places = json_array();
    json_array_append_new(places, location_encode(p, f));
    json_put(r, "locations", places);
    /* stable over edits elsewhere in the file: verdict, kernel, instruction */
    cleanup(str) char *print = xfmt("%s:%s:%s", verdict_name(f->code), f->kernel, f->at.opcode);
    json_put(r, "partialFingerprints", json_pack("{s:s}", "verdictKernelOpcode/v1", print));
    json_put(r, "properties", properties_encode(f));
    return r;
}

json_t *emulate_sarif(const struct emulate_problem *p, const struct emulate_findings *f, int schedules, uint64_t first_seed)
{
    json_t *driver = json_object(), *run = json_object(), *results = json_array(), *artifact = json_object(), *where = json_object();
    json_put_str(driver, "name", "proteus-gpu emulate");
    json_put_str(driver, "version", PROTEUS_VERSION);
    json_put_str(driver, "semanticVersion", PROTEUS_VERSION);
    json_put(driver, "rules", rules_encode());
    bool ran = true;
    for (int i = 0; i < f->count; i++) {
        json_array_append_new(results, result_encode(p, &f->list[i]));
        ran = ran && f->list[i].code != VERDICT_UNSUPPORTED_ON_SIM;
    }
    json_put(where, "uri", uri_encode(p->path));
    json_put(artifact, "location", where);
    json_put(run, "tool", json_pack("{s:o}", "driver", driver));
    json_t *artifacts = json_array(), *invocations = json_array(), *runs = json_array(), *doc = json_object();
    json_array_append_new(artifacts, artifact);
    json_put(run, "artifacts", artifacts);
    json_array_append_new(invocations, json_pack("{s:b}", "executionSuccessful", ran));
    json_put(run, "invocations", invocations);
    json_put(run, "results", results);
    json_put_str(run, "columnKind", "utf16CodeUnits");
    json_put(run, "properties", json_pack("{s:i,s:I}", "schedules", schedules, "first_schedule_seed", (json_int_t)first_seed));
    json_put_str(doc, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    json_put_str(doc, "version", "2.1.0");
    json_array_append_new(runs, run);
    json_put(doc, "runs", runs);
    return doc;
}
