/*
 * Results of several runs, shards of one corpus, as one table in Markdown: a row a case, in the corpus's order, so that two runs can be
 * compared line by line; the totals; what no run has judged is named, and counts as neither caught nor accepted. Results of several builds
 * are no one verifier's: the table says of which build each case is that is not of the one that judged most.
 */
#include "gpu/selftest_result.h"

#include <string.h>

static void put_naive(struct buf *to, const struct selftest_case *c, const struct selftest_result *r)
{
    buf_str(to, !c->fools_naive ? "–" : r->naive_passed ? "fooled" : "NOT FOOLED");
}

static void put_case(struct buf *to, const struct selftest_case *c, const struct selftest_result *r)
{
    const char *word = c->attack ? r->passed ? "caught" : "**MISSED**" : r->passed ? "accepted" : "**REFUSED**";
    buf_fmt(to, "| `%s` | ", strchr(c->name, '/') + 1);
    if (!r->done) {
        buf_str(to, "**not judged** | | | | | |\n");
        return;
    }
    buf_fmt(to, "%s | %s | %s%s%s | %s | ", word, verdict_name(r->code), r->phase, strcmp(c->mode, "triage") ? ", mode " : "",
            strcmp(c->mode, "triage") ? c->mode : "", r->device);
    buf_fmt(to, "%.0f | ", (double)r->gpu_ns * 1e-6);
    put_naive(to, c, r);
    buf_str(to, " |\n");
}

static void put_table(struct buf *to, bool attacks, const struct selftest_corpus *corpus, const struct selftest_result *results)
{
    buf_fmt(to, "\n| %s | | verdict | phase | device | GPU ms | naive checker |\n|---|---|---|---|---|---|---|\n", attacks ? "attack" : "honest kernel");
    for (int i = 0; i < corpus->count; i++)
        if (corpus->list[i].attack == attacks && results[i].chosen)
            put_case(to, &corpus->list[i], &results[i]);
}

static void put_verdicts(struct buf *to, bool attacks, const struct selftest_corpus *corpus, const struct selftest_result *results)
{
    int counts[VERDICT_COUNT] = {0};
    bool any = false;
    for (int i = 0; i < corpus->count; i++)
        if (corpus->list[i].attack == attacks && results[i].chosen && results[i].done)
            counts[results[i].code]++;
    buf_fmt(to, "- %s: ", attacks ? "attacks, by verdict" : "honest kernels, by verdict");
    for (int v = 0; v < VERDICT_COUNT; v++)
        if (counts[v])
            buf_fmt(to, "%s%s %d", any ? ", " : "", verdict_name((enum verdict_code)v), counts[v]), any = true;
    buf_str(to, any ? "\n" : "none\n");
}

static void put_missing(struct buf *to, const struct selftest_corpus *corpus, const struct selftest_result *results, int stale)
{
    int missing = 0;
    for (int i = 0; i < corpus->count; i++)
        if (results[i].chosen && !results[i].done)
            buf_fmt(to, "%s`%s`", missing++ ? ", " : "- **not judged by any run**: ", corpus->list[i].name);
    buf_str(to, missing ? "\n" : "- every case was judged\n");
    if (stale)
        buf_fmt(to, "- %d results are left out: of cases or operators that have changed since, or of another kind of device\n", stale);
}

struct build { struct hash_hex program; int count; };

static int builds_of(const struct selftest_corpus *corpus, const struct selftest_result *results, struct build *ret, int most)
{
    int n = 0;
    for (int i = 0; i < corpus->count; i++) {
        int k = 0;
        if (!results[i].chosen || !results[i].done)
            continue;
        while (k < n && strcmp(ret[k].program.text, results[i].by.program.text) != 0)
            k++;
        if (k == n && n < most)
            ret[n++] = (struct build){results[i].by.program, 0};
        if (k < n)
            ret[k].count++;
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && ret[k].count > ret[k - 1].count; k--) {
            const struct build swap = ret[k];
            ret[k] = ret[k - 1], ret[k - 1] = swap;
        }
    return n;
}

#define SHORT 12                        /* characters of a digest that are shown */

static void put_build(struct buf *to, const struct hash_hex *program)
{
    if (program->text[0])
        buf_fmt(to, "`%.*s`", SHORT, program->text);
    else
        buf_str(to, "one that did not say which it is");
}

static void put_builds(struct buf *to, const struct selftest_corpus *corpus, const struct selftest_result *results)
{
    cleanup(mem) void *memory = xarray((size_t)corpus->count + 1, sizeof(struct build));
    struct build *builds = memory;
    const int n = builds_of(corpus, results, builds, corpus->count);
    if (!n)
        return;
    buf_fmt(to, n == 1 ? "- judged by one build: " : "- **judged by %d builds**: ", n);
    put_build(to, &builds[0].program);
    if (n > 1)
        buf_fmt(to, " %d of them", builds[0].count);
    for (int k = 1; k < n; k++) {
        buf_str(to, "; ");
        put_build(to, &builds[k].program);
        for (int i = 0, first = 1; i < corpus->count; i++)
            if (results[i].chosen && results[i].done && strcmp(results[i].by.program.text, builds[k].program.text) == 0)
                buf_fmt(to, "%s`%s`", first ? " " : ", ", corpus->list[i].name), first = 0;
    }
    buf_str(to, "\n");
}

static bool write_text(const char *path, const struct buf *text, struct err *err)
{
    if (strcmp(path, "-") != 0)
        return file_write(path, text->data, text->size, 0644, err);
    fputs(buf_cstr(text), stdout);
    return true;
}

bool selftest_merge(const struct selftest_options *o, const char *path, int count, char *const *files, struct selftest_totals *ret,
                    struct err *err)
{
    cleanup(selftest_corpus) struct selftest_corpus corpus = {0};
    cleanup(str) char *dir = o->corpus ? xstrdup(o->corpus) : selftest_default_corpus();
    cleanup(buf) struct buf text = {0};
    struct selftest_left left = {0};
    const bool card = strcmp(o->device, "sim") != 0;
    if (!count)
        return err_set(err, ERR_INVALID, "--merge needs files that --resume has written");
    if (!selftest_load(dir, o->ops, &corpus, err))
        return false;
    cleanup(mem) void *memory = xarray((size_t)corpus.count + 1, sizeof(struct selftest_result));
    struct selftest_result *results = memory;
    for (int i = 0; i < corpus.count; i++)
        results[i].chosen = card || !corpus.list[i].needs_card;
    for (int i = 0; i < count; i++)
        if (!selftest_results_read(files[i], &corpus, o->device, NULL, results, &left, err))
            return false;
    selftest_sum(&corpus, results, ret);
    buf_fmt(&text, "- **%d of %d attacks caught, %d of %d honest kernels accepted**\n", ret->caught, ret->attacks, ret->accepted, ret->honest);
    put_builds(&text, &corpus, results);
    put_missing(&text, &corpus, results, left.stale);
    put_verdicts(&text, true, &corpus, results);
    put_verdicts(&text, false, &corpus, results);
    if (card)
        buf_fmt(&text, "- the card was held for %.1f s by judgements and for %.1f s by the naive checker\n", (double)ret->gpu_ns * 1e-9,
                (double)ret->naive_gpu_ns * 1e-9);
    if (ret->not_fooled)
        buf_fmt(&text, "- **%d attacks do not fool the naive checker as they claim**\n", ret->not_fooled);
    put_table(&text, true, &corpus, results);
    put_table(&text, false, &corpus, results);
    return write_text(path, &text, err);
}
