/* Tokens from the first to the last: whom they let in, what each scope may, that they outlive a restart. */
#include "tests/test_api_ask.h"

static void tokens_from_the_first_to_the_last(void)
{
    char admin[200], reader[200], path[120], admin_id[40], reader_id[40];
    check_int(post("/v1/tokens", "{\"name\":\"root\",\"scopes\":[\"admin\"]}"), 201);
    check(!strstr(buf_cstr(&answer.body), "secret_hash"));
    snprintf(admin_id, sizeof admin_id, "%s", field("id"));
    snprintf(admin, sizeof admin, "Authorization: Bearer %s\r\n" JSON_TYPE, field("token"));
    check_int(get("/v1/jobs"), 401);
    check_int(get("/healthz"), 200);
    check_int(get("/"), 200);
    check_int(ask(service.address, "GET", "/v1/jobs", admin, NULL, &answer), 200);
    check_int(ask(service.address, "POST", "/v1/tokens", admin, "{\"scopes\":[\"read\"]}", &answer), 201);
    snprintf(reader_id, sizeof reader_id, "%s", field("id"));
    snprintf(reader, sizeof reader, "Authorization: Bearer %s\r\n" JSON_TYPE, field("token"));
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 200);
    check_int(ask(service.address, "POST", "/v1/jobs", reader, submit, &answer), 403);
    check_int(ask(service.address, "GET", "/v1/tokens", reader, NULL, &answer), 403);
    check_int(ask(service.address, "GET", "/v1/tokens", admin, NULL, &answer), 200);
    check(strstr(buf_cstr(&answer.body), reader_id) && !strstr(buf_cstr(&answer.body), "secret_hash"));
    /* another name may be used now that strangers need a token */
    char named[300];
    snprintf(named, sizeof named, "%sOrigin: http://proteus.example\r\n", reader);
    check_int(ask(service.address, "GET", "/v1/jobs", named, NULL, &answer), 200);
    service_down();
    service_up(1, no_flags);
    check_int(get("/v1/jobs"), 401);
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 200);
    snprintf(path, sizeof path, "/v1/tokens/%s", admin_id);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 409);
    snprintf(path, sizeof path, "/v1/tokens/%s", reader_id);
    check_int(ask(service.address, "DELETE", path, reader, NULL, &answer), 403);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 204);
    check_int(ask(service.address, "GET", "/v1/jobs", reader, NULL, &answer), 401);
    snprintf(path, sizeof path, "/v1/tokens/%s", admin_id);
    check_int(ask(service.address, "DELETE", path, admin, NULL, &answer), 204);
    check_int(get("/v1/jobs"), 200);
}

int main(void)
{
    service_make();
    service_up(1, no_flags);
    put_file("index.html", "<p>one");
    tokens_from_the_first_to_the_last();
    service_down();
    service_remove();
    answer_done(&answer);
    return test_done();
}
