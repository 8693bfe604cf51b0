/*
 * Jobs and what they learn: a search leaves its shape's effects and its candidates' outcomes, the next search is told, what it names moves, a
 * restart loses nothing; and two candidates are measured against each other.
 */
#include "tests/test_jobs.h"
#include "know/internal.h"

#define JOB(rows) "{'op':'scale','reuse':'never','shapes':[{'R':" #rows ",'N':8}]}"
#define TRIES 6

static json_t *told_lessons;
static char used[LESSON_ID_SIZE];

/* Tries A = 0 to 5, whatever it knows; slower and slower. It names the lesson it was told of, if any. */
static bool know_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err)
{
    (void)err;
    if (in->past_count >= TRIES) {
        ret->done = true;
        snprintf(ret->reason, sizeof ret->reason, "enough");
        return true;
    }
    json_decref(told_lessons);
    told_lessons = json_incref((json_t *)(uintptr_t)in->lessons);
    cleanup(str) char *source = in->past_count == TRIES - 1 ? xstrdup("time=2000 verdict=wrong_result ") : xfmt("time=%d ", 500 + 100 * in->past_count);
    ret->candidate = candidate_doc(source);
    const json_t *first = json_array_get(in->lessons, 1);
    if (json_str(first, "id", NULL)) {
        const char *id = json_str(first, "id", "");
        snprintf(used, sizeof used, "%s", id);
        lessons_used(ret->candidate, &id, 1);
    }
    ret->origin = json_pack("{s:s,s:{s:i}}", "template", "t", "params", "A", in->past_count);
    return true;
}

static bool know_wants(const struct gen_input *in, int most, json_t **ret, struct err *err)
{
    (void)in, (void)most, (void)err;
    *ret = json_array();
    return true;
}

static const struct generator know_generator = {.name = "template", .propose = know_propose, .wants = know_wants};
static const struct generator *find_know(const char *name)
{
    return strcmp(name, "template") == 0 ? &know_generator : NULL;
}

static void know_up(struct world *w)
{
    struct err err = {0};
    must(know_open(&(struct know_config){.max_lessons = 100, .max_notes = 8, .text_bytes = 1200}, w->store, &w->config.know, &err), &err);
}

static bool see_any(void *ctx, const char *id, const json_t *doc)
{
    (void)id, (void)doc;
    ++*(int *)ctx;
    return true;
}

static int count_of(struct world *w, enum store_kind kind)
{
    struct store_page page = {kind, NULL, NULL, 1000, false};
    struct err err = {0};
    int count = 0;
    check(store_list(w->store, &page, see_any, &count, NULL, NULL, &err));
    return count;
}

static void run(struct world *w, const char *request)
{
    char id[40];
    snprintf(id, sizeof id, "%s", submit(w, request));
    cleanup(json) json_t *job = wait_job(w, id);
    check_str(json_str(job, "state", ""), "done");
}

static json_t *notes_of(struct world *w, const char *hash)
{
    json_t *notes = NULL;
    struct err err = {0};
    check(notes_retrieve(w->config.know, hash, NULL, 8, 0, &notes, &err));
    return notes;
}

static void jobs_teach_and_are_taught(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    world_open(&w);
    w.config.find_generator = find_know;
    know_up(&w);
    world_start(&w);
    run(&w, JOB(4));
    check(!json_array_size(told_lessons));
    check_int(count_of(&w, STORE_LEARN), TRIES + 1);         /* nothing has worked it off yet */
    /* a restart in between: it is still there */
    jobs_stop(w.jobs);
    know_close(w.config.know);
    store_close(w.store);
    op_set_done(&w.ops);
    signer_done(&w.signer);
    world_open(&w);
    know_up(&w);
    world_start(&w);
    check(know_work(w.config.know, &err));
    check_int(count_of(&w, STORE_LEARN), 0);
    check_int(count_of(&w, STORE_EFFECT), 1);
    check_int(count_of(&w, STORE_LESSON), 1);
    run(&w, JOB(8));
    check(json_array_size(told_lessons) == 2 && *used);      /* the template's own effect, and that of A */
    check(know_work(w.config.know, &err));
    cleanup(json) json_t *lesson = NULL;
    check(store_get(w.store, STORE_LESSON, used, &lesson, &err));
    check_int(json_int(lesson, "uses", 0), TRIES);
    check_int(json_int(lesson, "wins", 0), 1);               /* the first was the best; the others fall behind it, one is wrong */
    check(strstr(json_str(lesson, "action", ""), "A=0") && strstr(json_str(lesson, "situation", ""), "2 shapes"));
    check_int(count_of(&w, STORE_EFFECT), 2);
    const json_t *shapes = json_object_get(json_object_get(lesson, "evidence"), "shapes");
    cleanup(json) json_t *notes = notes_of(&w, json_string_value(json_array_get(shapes, 0)));
    check_int(json_array_size(notes), 1);                    /* the same failure at both shapes is told once */
    check_str(json_str(json_array_get(notes, 0), "verdict", ""), "wrong_result");
    json_decref(told_lessons);
    told_lessons = NULL;
    know_close(w.config.know);
}

/* What an external candidate names counts only where its job was told it: by a brief, or by a search for lessons. */
static void an_external_candidate_names_what_it_was_told(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    struct faults f = {0};
    world_open(&w);
    know_up(&w);
    world_start(&w);
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, "{'op':'scale','generator':'external','reuse':'never','budget':{'candidates':4},'shapes':[{'R':4,'N':8}]}"));
    cleanup(json) json_t *request = json_of("{'tags':['op/scale'],'situation':'Rows are short.','action':'One warp a row.'}"), *lesson = NULL, *other = NULL;
    must(lessons_propose(w.config.know, request, "operator", "pk_1", "An operator", &lesson, &f, &err), &err);
    cleanup(json) json_t *unlike = json_of("{'tags':['op/else'],'situation':'Loads wait for one another.','action':'Issue them all first.'}");
    must(lessons_propose(w.config.know, unlike, "operator", "pk_1", "An operator", &other, &f, &err), &err);
    const char *names[] = {json_str(lesson, "id", ""), json_str(other, "id", "")};
    for (int told = 0; told < 2; told++) {
        cleanup(json) json_t *doc = candidate_doc("time=500 "), *record = NULL, *brief = NULL, *kept = NULL;
        cleanup(str) char *text = xfmt("{'op':'scale','axes':{'R':4,'N':8},'job':'%s'}", id);
        cleanup(json) json_t *ask = json_of(text);
        lessons_used(doc, names, 2);
        if (told)
            must(jobs_brief(w.jobs, ask, &brief, &f, &err), &err);
        must(jobs_add_candidate(w.jobs, id, doc, &record, &f, &err), &err);
        check(store_get(w.store, STORE_CANDIDATE, json_str(record, "id", ""), &kept, &err));
        const json_t *named = json_object_get(json_object_get(kept, "candidate"), "lessons");
        check_int(json_array_size(named), told);
        check(!told || !strcmp(json_string_value(json_array_get(named, 0)), names[0]));
        check_int(json_array_size(json_object_get(doc, "lessons")), 2);    /* what was sent stays the sender's */
    }
    /* its parent is of the same search */
    cleanup(json) json_t *first = NULL, *of_other = NULL;
    cleanup(json) json_t *doc = candidate_doc("time=500 "), *all = candidates_of(&w, id);
    const char *mine = json_str(json_array_get(all, 1), "id", "");
    char other_job[40];
    snprintf(other_job, sizeof other_job, "%s", submit(&w, "{'op':'scale','generator':'external','reuse':'never','budget':{'candidates':4},'shapes':[{'R':8,'N':8}]}"));
    json_put_str(doc, "parent", mine);
    check(!jobs_add_candidate(w.jobs, other_job, doc, &of_other, &f, &err) && err.code == ERR_INVALID && f.count == 1 && !strcmp(f.list[0].pointer, "/parent"));
    json_put_str(doc, "parent", "cand_nothing");
    f = (struct faults){0};
    check(!jobs_add_candidate(w.jobs, id, doc, &of_other, &f, &err) && err.code == ERR_INVALID);
    json_put_str(doc, "parent", mine);
    f = (struct faults){0};
    must(jobs_add_candidate(w.jobs, id, doc, &first, &f, &err), &err);
    jobs_stop(w.jobs);
    w.jobs = NULL;
    know_close(w.config.know);
}

struct two { int count; char ids[2][LESSON_ID_SIZE]; char job[40]; };
static bool take_two(void *ctx, const char *id, const json_t *doc)
{
    struct two *t = ctx;
    if (!json_bool(doc, "is_baseline", false) && !strcmp(json_str(json_object_get(doc, "verdict"), "code", ""), "ok") && t->count < 2)
        snprintf(t->ids[t->count++], LESSON_ID_SIZE, "%s", id);
    return true;
}

static void two_candidates_are_measured_against_each_other(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    struct two t = {0};
    struct comparison c;
    world_open(&w);
    w.config.find_generator = find_know;
    world_start(&w);
    run(&w, JOB(4));
    struct store_page page = {STORE_CANDIDATE, NULL, NULL, 1000, false};
    check(store_list(w.store, &page, take_two, &t, NULL, NULL, &err) && t.count == 2);
    bool ok = jobs_measure(w.jobs, t.ids[0], t.ids[1], NULL, NULL, &c, &err);
    if (!ok)
        fprintf(stderr, "%s\n", err.text);
    check(ok);
    check(c.ratio > 0 && c.low <= c.ratio && c.high >= c.ratio && !c.measured);
    check(!jobs_measure(w.jobs, t.ids[0], "cand_nothing", NULL, NULL, &c, &err) && err.code == ERR_NOT_FOUND);
}

/* ---- a contradiction, on a device with a clock ---- */

static int asked_judge;
static bool measure_by_jobs(void *ctx, const char *a, const char *b, struct lesson_comparison *ret, struct err *err)
{
    struct comparison c;
    asked_judge++;
    if (!jobs_measure(((struct world *)ctx)->jobs, a, b, NULL, NULL, &c, err))
        return false;
    *ret = (struct lesson_comparison){c.ratio, c.low, c.high, c.measured};
    return true;
}

static double spent_today(struct world *w)
{
    cleanup(json) json_t *doc = jobs_spending(w->jobs, 1);
    return json_num(json_array_get(json_object_get(doc, "days"), 0), "gpu_seconds", 0);
}

static bool clock_propose(const struct gen_input *in, struct gen_proposal *ret, struct err *err)
{
    static const char *const sources[] = {"time=500 again=800 measured gpu=250000000 ", "time=505 measured gpu=250000000 ", "time=900 measured gpu=250000000 ", "time=910 measured gpu=250000000 "};
    (void)err;
    ret->done = in->past_count == 4;
    snprintf(ret->reason, sizeof ret->reason, "enough");
    ret->candidate = ret->done ? NULL : candidate_doc(sources[in->past_count]);
    ret->origin = ret->done ? NULL : json_object();
    return true;
}
static const struct generator clock_generator = {.name = "template", .propose = clock_propose};
static const struct generator *find_clock(const char *name)
{
    return strcmp(name, "template") == 0 ? &clock_generator : NULL;
}

static json_t *propose(struct world *w, const char *action, const char *with, const char *without)
{
    cleanup(str) char *text = xfmt("{'tags':['op/scale'],'situation':'Rows of eight numbers.','action':'%s','evidence':{'pairs':[{'with':'%s','without':'%s'}]}}", action, with, without);
    cleanup(json) json_t *request = json_of(text);
    struct faults f = {0};
    struct err err = {0};
    json_t *lesson = NULL;
    must(lessons_propose(w->config.know, request, "external", "pk_1", NULL, &lesson, &f, &err), &err);
    return lesson;
}

/* Both say the opposite with measured evidence of much the same strength; side by side the second's candidate is faster now. */
static void a_contradiction_is_measured_again(void)
{
    cleanup(world) struct world w = {0};
    struct err err = {0};
    int steps = 0;
    world_open(&w);
    set_baseline(&w, "time=1000 measured ");
    w.config.find_generator = find_clock;
    must(know_open(&(struct know_config){.max_lessons = 100, .max_notes = 8, .text_bytes = 1200, .measure = measure_by_jobs, .measure_round = 4, .measure_day = 4, .ctx = &w}, w.store, &w.config.know, &err), &err);
    world_start(&w);
    char id[40];
    snprintf(id, sizeof id, "%s", submit(&w, JOB(4)));
    cleanup(json) json_t *job = wait_job(&w, id), *all = candidates_of(&w, id);
    check_str(json_str(job, "state", ""), "done");
    const char *ids[4];
    for (size_t i = 0; i < 4; i++)
        ids[i] = json_str(json_array_get(all, i + 1), "id", "?");
    cleanup(json) json_t *more = propose(&w, "Use more warps.", ids[0], ids[2]), *fewer = propose(&w, "Use fewer warps.", ids[1], ids[3]);
    check(json_bool(json_object_get(more, "evidence"), "measured", false) && json_bool(json_object_get(fewer, "evidence"), "measured", false));
    check(know_consolidate(w.config.know, &steps, &err) && steps == 0);
    check_int(asked_judge, 0);           /* nobody has used either */
    json_t *docs[] = {get(&w, STORE_LESSON, json_str(more, "id", "")), get(&w, STORE_LESSON, json_str(fewer, "id", ""))};
    for (size_t i = 0; i < 2; i++) {
        json_put_int(docs[i], "uses", 1);
        must(know_commit(w.config.know, store_batch_new(), (const json_t *const *)&docs[i], 1, &err), &err);
        json_decref(docs[i]);
    }
    const double before = spent_today(&w);
    check(know_consolidate(w.config.know, &steps, &err) && steps == 1);
    check_int(asked_judge, 1);
    check(spent_today(&w) > before + 0.2);
    cleanup(json) json_t *kept = get(&w, STORE_LESSON, json_str(fewer, "id", "")), *ended = get(&w, STORE_LESSON, json_str(more, "id", ""));
    check_str(json_str(kept, "state", ""), "active");
    check_str(json_str(ended, "state", ""), "superseded");
    check(strstr(json_str(ended, "why_ended", ""), "measured again") && strstr(json_str(ended, "why_ended", ""), ids[1]));
    know_close(w.config.know);
}

int main(int argc, char **argv)
{
    judge_program = argc > 1 ? argv[1] : NULL;
    hash_init();
    log_threshold(LOG_ERROR + 1);
    jobs_teach_and_are_taught();
    an_external_candidate_names_what_it_was_told();
    two_candidates_are_measured_against_each_other();
    a_contradiction_is_measured_again();
    return test_done();
}
