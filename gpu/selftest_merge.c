/*
 * Results of several runs, shards of one corpus, as one table in Markdown: a row a case, in the corpus's order, so that two runs can be
 * compared line by line; the totals; what no run has judged is named, and counts as neither caught nor accepted.
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
    int stale = 0;
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
        if (!selftest_results_read(files[i], &corpus, o->device, results, &stale, err))
            return false;
    selftest_sum(&corpus, results, ret);
    buf_fmt(&text, "- **%d of %d attacks caught, %d of %d honest kernels accepted**\n", ret->caught, ret->attacks, ret->accepted, ret->honest);
    put_missing(&text, &corpus, results, stale);
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
