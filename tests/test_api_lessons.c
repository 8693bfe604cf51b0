/* Lessons over HTTP: proposing, signing, looking for, ending, taking back; who may, and what hostile texts do (nothing). */
#include "tests/test_api.h"

#include "know/lessons.h"

static char *flags[] = {(char *)"proteusd", (char *)"--max-lessons", (char *)"4", (char *)"--lesson-bytes", (char *)"200"};
static struct answer answer;
static struct know *know;

static void layer_up(void)
{
    struct err err = {0};
    struct know_config c = {.max_lessons = service.config.max_lessons, .max_notes = 4, .text_bytes = service.config.lesson_bytes};
    check(know_open(&c, service.app.store, &know, &err));
    service.app.know = know;
}

static void what_is_refused(void)
{
    static const struct { const char *method, *path, *body; int status; const char *says; } rows[] = {
        {"POST", "/v1/lessons", "{}", 400, "/tags"},
        {"POST", "/v1/lessons", "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\"}", 400, "/evidence"},
        {"POST", "/v1/lessons", "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\",\"evidence\":{\"pairs\":[{\"with\":\"cand_x\",\"without\":\"cand_y\"}]}}", 400, "/evidence/pairs/0/with"},
        {"POST", "/v1/lessons", "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\",\"signed_by\":\"\"}", 400, "/signed_by"},
        {"POST", "/v1/lessons", "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\",\"signed_by\":7}", 400, "/signed_by"},
        {"POST", "/v1/lessons", "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\",\"trust\":1,\"signed_by\":\"N\"}", 400, "/trust"},
        {"POST", "/v1/lessons", "[]", 400, "object"},
        {"GET", "/v1/lessons?tag=nothing", NULL, 400, "FACET/NAME"},
        {"GET", "/v1/lessons?op=A%20B", NULL, 400, "op"},
        {"GET", "/v1/lessons?limit=0", NULL, 400, "limit"},
        {"GET", "/v1/lessons?state=dead", NULL, 400, "state"},
        {"GET", "/v1/lessons/les_nothing", NULL, 404, "les_"},
        {"GET", "/v1/lessons/les_01m8p932hbgt9a0q27tnqt9ccv", NULL, 404, "not_found"},
        {"POST", "/v1/lessons/les_01m8p932hbgt9a0q27tnqt9ccv/retire", NULL, 404, "not_found"},
        {"POST", "/v1/lessons/steps/step_01m8p932hbgt9a0q27tnqt9ccv/undo", NULL, 404, "not_found"},
        {"GET", "/v1/notes/zz", NULL, 404, "shape hash"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = ask(service.address, rows[i].method, rows[i].path, rows[i].body ? JSON_TYPE : "", rows[i].body, &answer);
        if (status != rows[i].status || !strstr(buf_cstr(&answer.body), rows[i].says))
            fprintf(stderr, "row %zu: %d %s\n", i, status, buf_cstr(&answer.body));
        check_int(status, rows[i].status);
        check(strstr(buf_cstr(&answer.body), rows[i].says));
    }
}

static void a_lesson_lives_and_ends(void)
{
    int status;
    cleanup(json) json_t *made = ask_json("POST", "/v1/lessons", JSON_TYPE,
        "{\"tags\":[\"op/scale\",\"symptom/spill\"],\"situation\":\"It spills <script>alert(1)</script>\\n\\u202e\",\"action\":\"Unroll less.\",\"signed_by\":\"A. Operator\"}", &status);
    check_int(status, 201);
    const char *id = json_str(made, "id", "");
    check(!strchr(json_str(made, "situation", "\n"), '\n') && strstr(json_str(made, "situation", ""), "<script>"));    /* text stays text */
    cleanup(json) json_t *other = ask_json("POST", "/v1/lessons", JSON_TYPE, "{\"tags\":[\"op/other\"],\"situation\":\"It spills.\",\"action\":\"More threads.\",\"signed_by\":\"A\"}", &status);
    check_int(status, 201);
    check_int(ask(service.address, "POST", "/v1/lessons", JSON_TYPE,
                  "{\"tags\":[\"op/other\"],\"situation\":\"It spills.\",\"action\":\"More threads.\",\"signed_by\":\"A\"}", &answer), 409);
    check(strstr(buf_cstr(&answer.body), json_str(other, "id", "-")));
    cleanup(json) json_t *found = ask_json("GET", "/v1/lessons?q=spill+stores&op=scale&limit=1&token_budget=200", NULL, NULL, &status);
    const json_t *first = json_array_get(json_object_get(found, "lessons"), 0);
    check_str(json_str(first, "id", ""), id);
    check_str(json_str(found, "semantic_backend", ""), "hashed-ngrams");
    check(json_num(json_object_get(first, "score"), "score", 0) > 0 && json_int(first, "tokens", 0) > 0 && json_int(found, "tokens", 1000) <= 200);
    cleanup(json) json_t *all = ask_json("GET", "/v1/lessons", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(all, "lessons")), 2);
    cleanup(str) char *path = xfmt("/v1/lessons/%s", id), *retire = xfmt("/v1/lessons/%s/retire", id);
    cleanup(json) json_t *one = ask_json("GET", path, NULL, NULL, &status), *ended = ask_json("POST", retire, JSON_TYPE, "{\"reason\":\"wrong\"}", &status);
    check(status == 200 && !strcmp(json_str(one, "state", ""), "active") && !strcmp(json_str(ended, "state", ""), "retired"));
    check_str(json_str(ended, "why_ended", ""), "wrong");
    check_int(ask(service.address, "POST", retire, "", NULL, &answer), 409);
    cleanup(json) json_t *left = ask_json("GET", "/v1/lessons", NULL, NULL, &status), *with = ask_json("GET", "/v1/lessons?state=all", NULL, NULL, &status);
    check_int(json_array_size(json_object_get(left, "lessons")), 1);
    check_int(json_array_size(json_object_get(with, "lessons")), 2);
    /* its end is a step, and can be taken back, once */
    cleanup(json) json_t *steps = ask_json("GET", "/v1/lessons/steps", NULL, NULL, &status);
    const json_t *step = json_array_get(json_object_get(steps, "steps"), 0);
    check_str(json_str(step, "kind", ""), "retire");
    cleanup(str) char *undo = xfmt("/v1/lessons/steps/%s/undo", json_str(step, "id", ""));
    check_int(ask(service.address, "POST", undo, "", NULL, &answer), 200);
    check_int(ask(service.address, "POST", undo, "", NULL, &answer), 409);
    cleanup(json) json_t *back = ask_json("GET", path, NULL, NULL, &status);
    check_str(json_str(back, "state", ""), "active");
    check(!json_object_get(back, "why_ended"));
}

static void there_is_a_limit(void)
{
    static const char *const names[] = {"alpha", "beta", "gamma"};
    int last = 0;
    for (int i = 0; i < 3; i++) {
        cleanup(str) char *body = xfmt("{\"tags\":[\"op/%s\"],\"situation\":\"%s happens\",\"action\":\"do %s\",\"signed_by\":\"A\"}", names[i], names[i], names[i]);
        last = ask(service.address, "POST", "/v1/lessons", JSON_TYPE, body, &answer);
    }
    check_int(last, 429);
    cleanup(buf) struct buf body = {0};
    buf_str(&body, "{\"tags\":[\"op/a\"],\"signed_by\":\"A\",\"action\":\"a\",\"situation\":\"");
    for (int i = 0; i < 300; i++)
        buf_str(&body, "x");
    buf_str(&body, "\"}");
    check_int(ask(service.address, "POST", "/v1/lessons", JSON_TYPE, buf_cstr(&body), &answer), 400);
    check(strstr(buf_cstr(&answer.body), "/situation"));
}

static void only_an_admin_signs_and_ends(void)
{
    struct token_new admin = token_make(), submit = token_make(), read = token_make();
    struct err err = {0};
    check(auth_add(service.auth, admin.id, admin.secret_hash.text, SCOPE_ADMIN, &err) && auth_add(service.auth, submit.id, submit.secret_hash.text, SCOPE_SUBMIT, &err) &&
          auth_add(service.auth, read.id, read.secret_hash.text, SCOPE_READ, &err));
    static const char signed_body[] = "{\"tags\":[\"op/a\"],\"situation\":\"s\",\"action\":\"a\",\"signed_by\":\"Mallory\"}";
    const struct { const char *token, *method, *path, *body; int status; } rows[] = {
        {submit.text, "POST", "/v1/lessons", signed_body, 403}, {read.text, "POST", "/v1/lessons", signed_body, 403}, {submit.text, "GET", "/v1/lessons", NULL, 200},
        {admin.text, "POST", "/v1/lessons", signed_body, 429 /* the limit of above */}, {submit.text, "POST", "/v1/lessons/les_01m8p932hbgt9a0q27tnqt9ccv/retire", NULL, 403},
        {submit.text, "POST", "/v1/lessons/steps/step_01m8p932hbgt9a0q27tnqt9ccv/undo", NULL, 403}, {read.text, "GET", "/v1/lessons/steps", NULL, 200}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(str) char *head = xfmt("Authorization: Bearer %s\r\n%s", rows[i].token, rows[i].body ? JSON_TYPE : "");
        int status = ask(service.address, rows[i].method, rows[i].path, head, rows[i].body, &answer);
        if (status != rows[i].status)
            fprintf(stderr, "row %zu: %s\n", i, buf_cstr(&answer.body));
        check_int(status, rows[i].status);
    }
}

int main(void)
{
    service_make();
    service_up(5, flags);
    check_int(ask(service.address, "POST", "/v1/lessons", JSON_TYPE, "{}", &answer), 503);      /* without the layer */
    layer_up();
    what_is_refused();
    a_lesson_lives_and_ends();
    there_is_a_limit();
    check(ask(service.address, "GET", "/metrics", "", NULL, &answer) == 200 && strstr(buf_cstr(&answer.body), "proteus_lessons_active 4\n"));
    only_an_admin_signs_and_ends();
    know_close(know);
    service_down();
    answer_done(&answer);
    service_remove();
    return test_done();
}
