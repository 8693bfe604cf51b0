/* What the tests of endpoints share beside the service: the last answer, and short words for a request. */
#pragma once
#include "tests/test_api.h"

__attribute__((unused)) static char *no_flags[] = {(char *)"proteusd", NULL};
__attribute__((unused)) static const char submit[] = "{\"op\":\"scale\",\"shapes\":[{\"N\":64}]}";

static struct answer answer;      /* of the last request */

__attribute__((unused)) static int get(const char *path)
{
    return ask(service.address, "GET", path, NULL, NULL, &answer);
}

__attribute__((unused)) static int post(const char *path, const char *body)
{
    return ask(service.address, "POST", path, JSON_TYPE, body, &answer);
}

__attribute__((unused)) static const char *field(const char *name)
{
    static char text[400];
    cleanup(json) json_t *doc = NULL;
    struct err err;
    text[0] = 0;
    if (json_parse(buf_cstr(&answer.body), answer.body.size, &doc, &err))
        snprintf(text, sizeof text, "%s", json_str(doc, name, ""));
    return text;
}

__attribute__((unused)) static int post_key(const char *key, const char *path, const char *body)
{
    char extra[400];
    snprintf(extra, sizeof extra, JSON_TYPE "Idempotency-Key: %s\r\n", key);
    return ask(service.address, "POST", path, extra, body, &answer);
}
