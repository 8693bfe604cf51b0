/* Lessons: looked for in words and tags, shown, proposed, ended; what consolidation did, and taking it back. */
#include "api/cli/cli.h"

#include <string.h>

const struct option_spec lessons_options[] = {
    {"tag", "FACET/NAME", "of this situation, e.g. symptom/spill; several times"},
    {"op", "NAME", "of this operator, or of none"},
    {"target", "TARGET", "for this target, or for none"},
    {"limit", "N", "at most so many (8; 50 without a search)"},
    {"token-budget", "N", "as many as fit into so many tokens"},
    {"all", NULL, "superseded and retired ones as well"},
    {"signed-by", "NAME", "add: sign for it by name, without evidence (admin scope)"},
    {"reason", "TEXT", "retire: why"},
    {0}};

static void text_line(const char *label, const char *text)
{
    printf("  %-10s ", label);
    term_put(text);
    puts("");
}

static void show_lesson(const json_t *lesson)
{
    const json_t *evidence = json_object_get(lesson, "evidence"), *effect = json_object_get(evidence, "effect"), *trust = json_object_get(lesson, "trust");
    const json_t *score = json_object_get(lesson, "score");
    cleanup(buf) struct buf tags = {0};
    size_t i;
    json_t *tag;
    json_array_foreach(json_object_get(lesson, "tags"), i, tag)
        if (json_is_string(tag))
            buf_fmt(&tags, "%s%.80s", i ? " " : "", json_string_value(tag));
    term_put(json_str(lesson, "id", "?"));
    printf("  ");
    term_put(json_str(lesson, "state", "?"));
    printf("  trust %.2f  used %lld times, helped %lld", json_num(trust, "lower", 0), (long long)json_int(lesson, "uses", 0), (long long)json_int(lesson, "wins", 0));
    if (json_is_object(score))
        printf("  score %.4f (tags %lld, words %lld, form %lld)", json_num(score, "score", 0), (long long)json_int(score, "tag_rank", 0),
               (long long)json_int(score, "bm25_rank", 0), (long long)json_int(score, "vector_rank", 0));
    puts("");
    text_line("situation", json_str(lesson, "situation", ""));
    text_line("action", json_str(lesson, "action", ""));
    text_line("tags", buf_cstr(&tags));
    if (json_num(effect, "ratio", 0) > 0 && json_num(effect, "low", 0) <= 0)
        printf("  %-10s ~%.3gx, %lld results\n", "effect", json_num(effect, "ratio", 0), (long long)json_int(effect, "pairs", 0));
    else if (json_num(effect, "ratio", 0) > 0)
        printf("  %-10s %s%.3gx [%.3g, %.3g], %lld results\n", "effect", json_bool(evidence, "measured", false) ? "" : "~", json_num(effect, "ratio", 0),
               json_num(effect, "low", 0), json_num(effect, "high", 0), (long long)json_int(effect, "pairs", 0));
    if (json_str(evidence, "signed_by", NULL))
        text_line("signed by", json_str(evidence, "signed_by", ""));
    if (json_str(lesson, "why_ended", NULL))
        text_line("ended", json_str(lesson, "why_ended", ""));
}

static void add_parameter(struct buf *path, const char *name, const char *value)
{
    cleanup(str) char *escaped = client_escape(value);
    buf_fmt(path, "%s%s=%s", strchr(buf_cstr(path), '?') ? "&" : "?", name, escaped);
}

static int search(struct cli *cli, const char *words)
{
    static const struct { const char *option, *name; } passed[] = {{"op", "op"}, {"target", "target"}, {"limit", "limit"}, {"token-budget", "token_budget"}};
    cleanup(buf) struct buf path = {0}, tags = {0};
    const json_t *lesson;
    size_t i;
    buf_str(&path, "/v1/lessons");
    if (words && *words)
        add_parameter(&path, "q", words);
    for (int n = 0; args_get(&cli->args, "tag", n); n++)
        buf_fmt(&tags, "%s%s", n ? "," : "", args_get(&cli->args, "tag", n));
    if (tags.size)
        add_parameter(&path, "tag", buf_cstr(&tags));
    for (size_t n = 0; n < sizeof passed / sizeof *passed; n++)
        if (args_has(&cli->args, passed[n].option))
            add_parameter(&path, passed[n].name, args_or(&cli->args, passed[n].option, NULL, ""));
    if (args_has(&cli->args, "all"))
        add_parameter(&path, "state", "all");
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, buf_cstr(&path), &r);
    if (status)
        return status;
    if (cli->json)
        term_json(r.doc);
    else
        json_array_foreach(json_object_get(r.doc, "lessons"), i, lesson)
            show_lesson(lesson);
    if (!cli->json && !json_array_size(json_object_get(r.doc, "lessons")))
        puts("no lessons");
    return CLI_OK;
}

static int show_answer(struct cli *cli, int status, const struct reply *r)
{
    if (!status && cli->json)
        term_json(r->doc);
    else if (!status)
        show_lesson(r->doc);
    return status;
}

static int show(struct cli *cli, const char *id)
{
    cleanup(str) char *escaped = client_escape(id), *path = xfmt("/v1/lessons/%s", escaped);
    cleanup(reply) struct reply r = {0};
    return show_answer(cli, cli_get(cli, path, &r), &r);
}

static int add(struct cli *cli, const char *file)
{
    cleanup(buf) struct buf text = {0};
    cleanup(json) json_t *doc = NULL;
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    const char *name = args_or(&cli->args, "signed-by", NULL, NULL);
    if (!text_read(file, &text, &err) || !json_parse(text.data, text.size, &doc, &err))
        return cli_fail(cli, &err);
    if (name && json_is_object(doc))
        json_put_str(doc, "signed_by", name);
    return show_answer(cli, cli_send(cli, "POST", "/v1/lessons", doc, NULL, &r), &r);
}

static int retire(struct cli *cli, const char *id)
{
    cleanup(str) char *escaped = client_escape(id), *path = xfmt("/v1/lessons/%s/retire", escaped);
    cleanup(json) json_t *doc = json_object();
    cleanup(reply) struct reply r = {0};
    const char *reason = args_or(&cli->args, "reason", NULL, NULL);
    if (reason)
        json_put_str(doc, "reason", reason);
    return show_answer(cli, cli_send(cli, "POST", path, doc, NULL, &r), &r);
}

static void show_step(const json_t *step)
{
    const json_t *change;
    size_t i;
    term_put(json_str(step, "id", "?"));
    printf("  ");
    term_put(json_str(step, "kind", "?"));
    printf("  ");
    term_put(json_str(step, "time", ""));
    puts(json_bool(step, "undone", false) ? "  taken back" : "");
    text_line("reason", json_str(step, "reason", ""));
    json_array_foreach(json_object_get(step, "changes"), i, change) {
        printf("  ");
        term_put(json_str(change, "lesson", "?"));
        printf(": ");
        term_put(json_str(json_object_get(change, "before"), "state", "?"));
        printf(" to ");
        term_put(json_str(json_object_get(change, "after"), "state", "?"));
        puts("");
    }
}

static int steps(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, "/v1/lessons/steps", &r);
    const json_t *step;
    size_t i;
    if (!status && cli->json)
        term_json(r.doc);
    else if (!status)
        json_array_foreach(json_object_get(r.doc, "steps"), i, step)
            show_step(step);
    return status;
}

static int undo(struct cli *cli, const char *id)
{
    cleanup(str) char *escaped = client_escape(id), *path = xfmt("/v1/lessons/steps/%s/undo", escaped);
    cleanup(reply) struct reply r = {0};
    int status = cli_send(cli, "POST", path, NULL, NULL, &r);
    if (!status && cli->json)
        term_json(r.doc);
    else if (!status)
        show_step(r.doc);
    return status;
}

static int notes(struct cli *cli, const char *hash)
{
    cleanup(str) char *escaped = client_escape(hash), *path = xfmt("/v1/notes/%s", escaped);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    const json_t *note;
    size_t i;
    if (!status && cli->json)
        term_json(r.doc);
    else if (!status)
        json_array_foreach(json_object_get(r.doc, "notes"), i, note) {
            term_put(json_str(note, "verdict", "?"));
            printf("  %lld times  ", (long long)json_int(note, "count", 0));
            term_put(json_str(note, "text", ""));
            puts("");
        }
    return status;
}

int cmd_lessons(struct cli *cli)
{
    static const struct { const char *word; int (*run)(struct cli *cli, const char *what); } table[] = {
        {"search", search}, {"show", show}, {"add", add}, {"retire", retire}, {"undo", undo}, {"notes", notes}};
    const struct args *a = &cli->args;
    if (!a->count)
        return search(cli, NULL);
    if (a->count == 1 && !strcmp(a->words[0], "steps"))
        return steps(cli);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (a->count == 2 && !strcmp(a->words[0], table[i].word))
            return table[i].run(cli, a->words[1]);
    return cli_usage(cli, "lessons [search WORDS | show LESSON | add FILE.json | retire LESSON | steps | undo STEP | notes SHAPE_HASH]");
}
