#include "gpu/selftest_result.h"

#include <string.h>

#define RESULTS_LIMIT_BYTES ((size_t)64 << 20)

void selftest_decide(const struct selftest_case *c, struct selftest_result *r)
{
    /* An honest kernel that is to meet the retest has not until it did, however right it is. */
    r->passed = !c->attack && verdict_is_correct(r->code) && (strcmp(c->mode, "retest") != 0 || r->fresh);
    for (int i = 0; i < c->expected_count; i++)
        r->passed |= c->expected[i] == r->code;
}

/* ---- who judged ---- */

#define PROGRAM_LIMIT_BYTES ((size_t)512 << 20)

bool selftest_build_of(const char *program, const struct selftest_corpus *corpus, struct selftest_build *ret, struct err *err)
{
    cleanup(buf) struct buf bytes = {0}, cases = {0};
    if (!file_read(program, PROGRAM_LIMIT_BYTES, &bytes, err))
        return err_wrap(err, "the program that judges");
    for (int i = 0; i < corpus->count; i++)
        buf_fmt(&cases, "%s %s\n", corpus->list[i].name, corpus->list[i].digest.text);
    *ret = (struct selftest_build){hash_of(bytes.data, bytes.size), hash_of(cases.data, cases.size)};
    return true;
}

/* ---- lines ---- */

json_t *selftest_result_encode(const struct selftest_case *c, const struct selftest_result *r)
{
    json_t *doc = json_object(), *rows = json_array();
    json_put_str(doc, "name", c->name);
    json_put_str(doc, "mode", c->mode);
    json_put_str(doc, "device", r->device);
    json_put_str(doc, "digest", c->digest.text);
    json_put_str(doc, "program", r->by.program.text);
    json_put_str(doc, "corpus", r->by.corpus.text);
    json_put_str(doc, "verdict", verdict_name(r->code));
    json_put_str(doc, "phase", r->phase);
    json_put_str(doc, "text", r->text);
    json_put_bool(doc, "passed", r->passed);
    if (strcmp(c->mode, "retest") == 0)
        json_put_bool(doc, "fresh", r->fresh);
    json_put_str(doc, "naive", r->naive);
    json_put_bool(doc, "naive_passed", r->naive_passed);
    json_put_int(doc, "wall_ns", r->wall_ns);
    json_put_num(doc, "gpu_ms", (double)(r->gpu_ns / 1000) / 1000);
    json_put_int(doc, "gpu_ns", r->gpu_ns);
    json_put_int(doc, "naive_gpu_ns", r->naive_gpu_ns);
    for (int i = 0; i < c->row_count; i++)
        json_array_append_new(rows, json_integer(c->rows[i]));
    json_put(doc, "rows", rows);
    return doc;
}

static bool same_kind(const char *device, const char *other)
{
    size_t kind = strcspn(device, ":");
    return strncmp(device, other, kind) == 0 && (other[kind] == 0 || other[kind] == ':');
}

static void take_digest(const json_t *doc, const char *key, struct hash_hex *ret)
{
    const char *text = json_str(doc, key, "");
    if (hash_hex_valid(text))
        snprintf(ret->text, sizeof ret->text, "%s", text);
}

bool selftest_result_take(const json_t *doc, const struct selftest_case *c, const char *device, struct selftest_result *ret)
{
    struct selftest_result r = {.chosen = ret->chosen, .done = true};
    /* what another kind of device said is no result here */
    if (strcmp(json_str(doc, "name", ""), c->name) != 0 || !same_kind(device, json_str(doc, "device", ""))
        || strcmp(json_str(doc, "digest", ""), c->digest.text) != 0 || !verdict_code_parse(json_str(doc, "verdict", ""), &r.code))
        return false;
    take_digest(doc, "program", &r.by.program);
    take_digest(doc, "corpus", &r.by.corpus);
    snprintf(r.device, sizeof r.device, "%s", json_str(doc, "device", ""));
    snprintf(r.phase, sizeof r.phase, "%s", json_str(doc, "phase", ""));
    snprintf(r.text, sizeof r.text, "%s", json_str(doc, "text", ""));
    snprintf(r.naive, sizeof r.naive, "%s", json_str(doc, "naive", ""));
    r.fresh = json_bool(doc, "fresh", false);
    r.naive_passed = json_bool(doc, "naive_passed", false);
    r.wall_ns = json_int(doc, "wall_ns", 0);
    r.gpu_ns = json_int(doc, "gpu_ns", 0);
    r.naive_gpu_ns = json_int(doc, "naive_gpu_ns", 0);
    selftest_decide(c, &r);
    *ret = r;
    return true;
}

static void take_line(const char *text, size_t size, const struct selftest_corpus *corpus, const char *device, const struct selftest_build *by,
                      struct selftest_result *results, struct selftest_left *left)
{
    cleanup(json) json_t *doc = NULL;
    struct err err = {0};
    if (!json_parse(text, size, &doc, &err))        /* cut short when it was stopped */
        return;
    if (by && strcmp(json_str(doc, "program", ""), by->program.text) != 0) {
        left->of_others++;
        return;
    }
    for (int i = 0; i < corpus->count; i++)
        if (selftest_result_take(doc, &corpus->list[i], device, &results[i]))
            return;
    left->stale++;
}

bool selftest_results_read(const char *path, const struct selftest_corpus *corpus, const char *device, const struct selftest_build *by,
                           struct selftest_result *results, struct selftest_left *left, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    struct selftest_left ignored = {0};
    if (!file_read(path, RESULTS_LIMIT_BYTES, &text, err))
        return false;
    for (const char *at = buf_cstr(&text); *at;) {
        size_t n = strcspn(at, "\n");
        if (n)
            take_line(at, n, corpus, device, by, results, left ? left : &ignored);
        at += n + (at[n] == '\n');
    }
    return true;
}

void selftest_result_show(const struct selftest_case *c, const struct selftest_result *r)
{
    const char *word = c->attack ? r->passed ? "caught" : "MISSED" : r->passed ? "accepted" : "REFUSED";
    printf("%-8s %-46s %-20s %s%s%s\n", word, c->name, verdict_name(r->code), r->text, r->naive[0] ? " | " : "", r->naive);
    fflush(stdout);
}

/* ---- all of them ---- */

void selftest_sum(const struct selftest_corpus *corpus, const struct selftest_result *results, struct selftest_totals *t)
{
    bool rows[121] = {false};
    *t = (struct selftest_totals){0};
    for (int i = 0; i < corpus->count; i++) {
        const struct selftest_case *c = &corpus->list[i];
        const struct selftest_result *r = &results[i];
        t->beside += c->attack && c->needs_card && !r->chosen;
        if (!r->chosen)
            continue;
        if (c->attack)
            t->attacks++, t->caught += r->done && r->passed;
        else
            t->honest++, t->accepted += r->done && r->passed;
        t->not_fooled += r->done && c->fools_naive && !r->naive_passed;
        t->gpu_ns += r->gpu_ns, t->naive_gpu_ns += r->naive_gpu_ns;
        for (int k = 0; k < c->row_count; k++)
            t->rows += !rows[c->rows[k]], rows[c->rows[k]] = true;
    }
}

bool selftest_write_json(const char *path, const char *device, const char *shard, const struct selftest_build *by, const struct selftest_corpus *corpus,
                         const struct selftest_result *results, struct err *err)
{
    cleanup(json) json_t *doc = json_object(), *cases = json_array();
    cleanup(buf) struct buf text = {0};
    struct selftest_totals t;
    selftest_sum(corpus, results, &t);
    for (int i = 0; i < corpus->count; i++)
        if (results[i].chosen && results[i].done)
            json_array_append_new(cases, selftest_result_encode(&corpus->list[i], &results[i]));
    json_put_str(doc, "device", device);
    json_put_str(doc, "shard", shard ? shard : "1/1");
    json_put_str(doc, "program", by->program.text);
    json_put_str(doc, "corpus", by->corpus.text);
    json_put_int(doc, "attacks", t.attacks);
    json_put_int(doc, "caught", t.caught);
    json_put_int(doc, "honest", t.honest);
    json_put_int(doc, "accepted", t.accepted);
    json_put_int(doc, "rows", t.rows);
    json_put_int(doc, "needing_a_card", t.beside);
    json_put_int(doc, "gpu_ns", t.gpu_ns);
    json_put(doc, "cases", json_incref(cases));
    json_write_pretty(&text, doc);
    return file_write(path, text.data, text.size, 0644, err);
}
