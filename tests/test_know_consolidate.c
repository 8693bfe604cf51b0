/* Consolidation: what is the same becomes one, what contradicts is decided by evidence, by measuring again, or not at all; every step is undone. */
#include "tests/test_know.h"

#include <math.h>

static struct { int calls; double ratio, low, high; bool fails, estimates; char a[40], b[40]; } bench;

static bool measure(void *ctx, const char *a, const char *b, struct lesson_comparison *ret, struct err *err)
{
    (void)ctx;
    bench.calls++;
    snprintf(bench.a, sizeof bench.a, "%s", a);
    snprintf(bench.b, sizeof bench.b, "%s", b);
    if (bench.fails)
        return err_set(err, ERR_UNAVAILABLE, "no card");
    *ret = (struct lesson_comparison){bench.ratio, bench.low, bench.high, !bench.estimates};
    return true;
}

static char *summary;
static bool summarise(void *ctx, const json_t *lessons, char **ret_situation, char **ret_action, struct err *err)
{
    (void)ctx;
    check_int(json_array_size(lessons), 2);
    if (!summary)
        return err_set(err, ERR_UPSTREAM, "no model");
    *ret_situation = xstrdup(summary);
    *ret_action = xstrdup("said by a model");
    return true;
}

static int consolidate(struct layer *l)
{
    struct err err = {0};
    int steps = -1;
    check(know_consolidate(l->know, &steps, &err));
    return steps;
}

static json_t *last_step(struct layer *l)
{
    json_t *doc = NULL;
    struct err err = {0};
    cleanup(buf) struct buf text = {0};
    int64_t last;
    int count;
    check(store_events(l->store, NULL, 0, 10000, &text, &last, &count, &err));
    const char *at = NULL, *next = buf_cstr(&text);
    while ((next = strstr(next, "\"step\":\"")))
        at = next++;
    char id[40] = "";
    if (at)
        snprintf(id, sizeof id, "%.31s", at + 8);
    check(store_get(l->store, STORE_STEP, id, &doc, &err));
    return doc;
}

static void state_is(struct layer *l, const json_t *lesson, const char *state)
{
    cleanup(json) json_t *now = lesson_now(l, json_str(lesson, "id", ""));
    check_str(json_str(now, "state", ""), state);
}

static void duplicates_become_one_and_are_parted_again(struct layer *l)
{
    cleanup(json) json_t *a = propose_signed(l, "op/one symptom/spill", "The assembler reports spill stores after the loop was unrolled by eight.", "Unroll the inner loop less than before."),
                         *b = propose_signed(l, "op/one symptom/spill", "The assembler reports spill stores after a loop was unrolled by sixteen.", "Unroll the inner loop less than before."),
                         *c = propose_signed(l, "op/two symptom/spill", "The assembler reports spill stores after the loop was unrolled by eight.", "Unroll the inner loop less than before.");
    struct err err = {0};
    put_judged(l, HASH_A, "ok", "", 1.3, NULL, json_str(b, "id", ""));      /* b has helped: it stays */
    check(know_work(l->know, &err));
    check_int(consolidate(l), 1);
    state_is(l, a, "superseded");
    state_is(l, b, "active");
    state_is(l, c, "active");            /* other tags: another lesson */
    cleanup(json) json_t *step = last_step(l), *kept = lesson_now(l, json_str(b, "id", "")), *gone = lesson_now(l, json_str(a, "id", ""));
    check_str(json_str(step, "kind", ""), "merge");
    check_str(json_str(gone, "superseded_by", ""), json_str(b, "id", "-"));
    check_int(json_int(kept, "uses", 0), 1);
    check_int(consolidate(l), 0);
    /* what is learnt after the step stays when it is taken back */
    put_judged(l, HASH_A, "ok", "", 1.3, NULL, json_str(b, "id", ""));
    cleanup(json) json_t *undone = NULL, *twice = NULL;
    check(know_work(l->know, &err) && know_undo(l->know, json_str(step, "id", ""), "pk_1", &undone, &err));
    check(json_bool(undone, "undone", false) && !strcmp(json_str(undone, "undone_by", ""), "pk_1"));
    state_is(l, a, "active");
    cleanup(json) json_t *back = lesson_now(l, json_str(b, "id", ""));
    check_int(json_int(back, "uses", 0), 2);
    check_str(json_str(back, "situation", ""), json_str(b, "situation", ""));
    check(json_array_size(json_object_get(back, "supersedes")) == 0);
    check(!know_undo(l->know, json_str(step, "id", ""), "pk_1", &twice, &err) && err.code == ERR_CONFLICT);
    check_int(consolidate(l), 0);        /* they stay apart */
    check_int(count_events(l, "lesson.step"), 1);
    check_int(count_events(l, "lesson.undone"), 1);
}

static bool never_used;

static json_t *paired(struct layer *l, const char *tag, const char *action, double with, double without, struct id *ret_with)
{
    struct id a = put_judged(l, HASH_A, "ok", "", with, NULL, NULL), b = put_judged(l, HASH_A, "ok", "", without, NULL, NULL);
    struct faults f = {0};
    struct err err = {0};
    json_t *made = NULL;
    cleanup(json) json_t *request = json_pack("{s:[s],s:s,s:s,s:{s:[{s:s,s:s}]}}", "tags", tag, "situation", "Sums of a row of some thousand elements by one block.", "action", action,
                                              "evidence", "pairs", "with", a.text, "without", b.text);
    check(lessons_propose(l->know, request, "external", "pk_2", NULL, &made, &f, &err));
    put_judged(l, HASH_A, "ok", "", 1.3, NULL, never_used ? NULL : json_str(made, "id", ""));
    check(know_work(l->know, &err));
    *ret_with = a;
    return made;
}

static void contradictions_go_by_evidence(struct layer *l)
{
    struct id x, y;
    struct err err = {0};
    /* intervals that do not touch */
    cleanup(json) json_t *strong = paired(l, "op/three", "Use more warps for it.", 2.0, 1.2, &x), *weak = paired(l, "op/three", "Use fewer warps for it.", 1.3, 1.2, &y);
    check_int(consolidate(l), 1);
    state_is(l, strong, "active");
    state_is(l, weak, "superseded");
    check_int(bench.calls, 0);
    cleanup(json) json_t *step = last_step(l);
    check(strstr(json_str(step, "reason", ""), "do not touch"));
    /* an operator's word against it later: the later step has to go first */
    cleanup(json) json_t *retired = NULL, *undone = NULL, *undone_too = NULL;
    check(lessons_retire(l->know, json_str(strong, "id", ""), "no", &retired, &err));
    check(!know_undo(l->know, json_str(step, "id", ""), "pk_1", &undone, &err) && err.code == ERR_CONFLICT && strstr(err.text, "came later"));
    /* equal evidence: the judge is asked */
    cleanup(json) json_t *more = paired(l, "op/four", "Use more warps for it.", 1.5, 1.2, &x), *fewer = paired(l, "op/four", "Use fewer warps for it.", 1.5, 1.2, &y);
    bench.fails = true;
    check_int(consolidate(l), 0);
    check_int(consolidate(l), 0);        /* a judge that fails is asked again in the next round */
    check_int(bench.calls, 2);
    bench.fails = false;
    bench.ratio = 1.2;
    bench.low = 1.1;
    bench.high = 1.3;
    check_int(consolidate(l), 1);
    bool more_is_first = !strcmp(bench.a, x.text);
    check(more_is_first ? !strcmp(bench.b, y.text) : !strcmp(bench.a, y.text) && !strcmp(bench.b, x.text));
    state_is(l, more_is_first ? more : fewer, "active");
    state_is(l, more_is_first ? fewer : more, "superseded");
    cleanup(json) json_t *measured = last_step(l);
    check(strstr(json_str(measured, "reason", ""), "measured again") && !strcmp(json_str(measured, "kind", ""), "resolve"));
    check(know_undo(l->know, json_str(measured, "id", ""), "pk_1", &undone_too, &err));
    state_is(l, more, "active");
    state_is(l, fewer, "active");
    check_int(consolidate(l), 0);
    /* it does not tell: both stay, and no card is asked the same again; an estimate is not called a measurement */
    cleanup(json) json_t *wide = paired(l, "op/five", "Use wider loads for it.", 1.5, 1.2, &x), *narrow = paired(l, "op/five", "Use narrower loads for it.", 1.5, 1.2, &y);
    bench.ratio = 1.01;
    bench.low = 0.99;
    bench.high = 1.03;
    bench.calls = 0;
    for (int round = 0; round < 4; round++)
        check_int(consolidate(l), 0);
    check_int(bench.calls, 1);
    state_is(l, wide, "active");
    state_is(l, narrow, "active");
    cleanup(json) json_t *deep = paired(l, "op/six", "Make it deeper.", 1.5, 1.2, &x), *flat = paired(l, "op/six", "Make it shallower.", 1.5, 1.2, &y), *guessed = NULL;
    bench.ratio = bench.low = bench.high = 1.5;
    bench.estimates = true;
    check_int(consolidate(l), 1);
    check(deep && flat && (guessed = last_step(l)) != NULL);
    check(strstr(json_str(guessed, "reason", ""), "estimated again") && !strstr(json_str(guessed, "reason", ""), "measured"));
    bench.estimates = false;
}

/* As a restart of the service: all that counts comes from the store. */
static void layer_reopen(struct layer *l, const struct know_config *config)
{
    l->config = *config;
    layer_down(l);
    layer_up(l);
}

/* Whoever sends lessons that contradict does not keep the judge busy. */
static void measurements_have_a_limit(struct layer *l)
{
    struct id x, y;
    bench.fails = true;
    bench.calls = 0;
    l->know->config.measure_round = 2;
    l->know->config.measure_day = l->know->day_measured + 5;
    never_used = true;
    cleanup(json) json_t *unused = paired(l, "op/ten", "Use more warps for it.", 1.5, 1.2, &x), *either = paired(l, "op/ten", "Use fewer warps for it.", 1.5, 1.2, &y);
    check_int(consolidate(l), 0);
    check_int(bench.calls, 0);
    never_used = false;
    static const char *const ops[] = {"op/eleven", "op/twelve", "op/thirteen", "op/fourteen"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        cleanup(json) json_t *more = paired(l, ops[i], "Use more warps for it.", 1.5, 1.2, &x), *fewer = paired(l, ops[i], "Use fewer warps for it.", 1.5, 1.2, &y);
        check(more && fewer);
    }
    static const int calls[] = {2, 4, 5, 5};
    for (size_t round = 0; round < sizeof calls / sizeof *calls; round++) {
        check_int(consolidate(l), 0);
        check_int(bench.calls, calls[round]);
    }
    /* a restart does not begin the day anew; one judgement more a day is one more */
    const struct know_config config = l->know->config;
    const int64_t measured = l->know->day_measured;
    layer_reopen(l, &config);
    check_int(l->know->day_measured, measured);
    check_int(consolidate(l), 0);
    check_int(bench.calls, 5);
    l->know->config.measure_day++;
    check_int(consolidate(l), 0);
    check_int(bench.calls, 6);
    layer_reopen(l, &l->know->config);
    check_int(consolidate(l), 0);
    check_int(bench.calls, 6);
    /* the next day is another; a day that has not come yet (the clock was set back) goes on */
    static const struct { const char *day; int calls; } days[] = {{"2020-02-29", 8}, {"9999-12-31", 8}};
    for (size_t i = 0; i < sizeof days / sizeof *days; i++) {
        struct err err = {0};
        struct store_batch *b = store_batch_new();
        cleanup(json) json_t *doc = json_pack("{s:s,s:I}", "day", days[i].day, "count", (json_int_t)l->know->config.measure_day);
        store_put(b, STORE_META, "lessons.measured", NULL, doc);
        check(store_commit(l->store, b, NULL, &err));
        layer_reopen(l, &l->know->config);
        check_int(consolidate(l), 0);
        check_int(bench.calls, days[i].calls);
    }
    l->know->config.measure_day = 0;     /* and none for what follows */
    bench.fails = false;
}

static void a_model_may_say_both_in_one(struct layer *l)
{
    cleanup(json) json_t *a = propose_signed(l, "op/five", "Loads of the tile wait for one another in the main loop.", "Issue them all before the first use."),
                         *b = propose_signed(l, "op/five", "Loads of each tile wait for one another in the main loop body.", "Issue them all before the first use.");
    summary = xstrdup("Both\nsaid in one line");
    check_int(consolidate(l), 1);
    cleanup(json) json_t *x = lesson_now(l, json_str(a, "id", "")), *y = lesson_now(l, json_str(b, "id", ""));
    const json_t *kept = strcmp(json_str(x, "state", ""), "active") ? y : x;
    check_str(json_str(kept, "situation", ""), "Both said in one line");
    check_str(json_str(kept, "action", ""), "said by a model");
    /* too long, or no answer: the old text stays */
    cleanup(json) json_t *c = propose_signed(l, "op/six", "Loads of the tile wait for one another in the main loop.", "Issue them all before the first use."),
                         *d = propose_signed(l, "op/six", "Loads of each tile wait for one another in the main loop body.", "Issue them all before the first use.");
    free(summary);
    summary = xalloc(5000);
    memset(summary, 'x', 4999);
    check_int(consolidate(l), 1);
    cleanup(json) json_t *u = lesson_now(l, json_str(c, "id", "")), *v = lesson_now(l, json_str(d, "id", ""));
    check(!strncmp(json_str(strcmp(json_str(u, "state", ""), "active") ? v : u, "situation", ""), "Loads of the tile", 17));
    free(summary);
    summary = NULL;
}

static void the_thread_works_by_itself(struct layer *l)
{
    struct err err = {0};
    cleanup(json) json_t *a = propose_signed(l, "op/seven", "Rows are short and the block has idle threads in the kernel.", "Several rows a block.");
    check(know_start(l->know, &err));
    put_judged(l, HASH_A, "ok", "", 1.3, NULL, json_str(a, "id", ""));
    know_wake(l->know);
    int64_t uses = 0;
    for (int i = 0; i < 400 && !uses; i++) {
        usleep(10000);
        cleanup(json) json_t *now = lesson_now(l, json_str(a, "id", ""));
        uses = json_int(now, "uses", 0);
    }
    check_int(uses, 1);
}

int main(int argc, char **argv)
{
    struct layer l = {.config = {.thesaurus = argc > 1 ? argv[1] : NULL}};
    hash_init();
    layer_up(&l);
    l.know->config.measure = measure;
    l.know->config.measure_round = 100;
    l.know->config.measure_day = 1000;
    l.know->config.summarise = summarise;
    duplicates_become_one_and_are_parted_again(&l);
    contradictions_go_by_evidence(&l);
    measurements_have_a_limit(&l);
    a_model_may_say_both_in_one(&l);
    the_thread_works_by_itself(&l);
    layer_remove(&l);
    return test_done();
}
