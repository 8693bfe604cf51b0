/* Vectors of texts, from an endpoint that may answer anything. */
#include "server/llm/embed.h"
#include "tests/test_agent_ask.h"

static void vectors_are_read_figure_by_figure(void)
{
    static const struct { const char *script; bool ok; enum err_code code; int requests; } rows[] = {
        {"as raw\n---\n{\"data\":[{\"index\":1,\"embedding\":[0.5,-1,2]},{\"index\":0,\"embedding\":[1,2,3.5]}]}\n", true, ERR_OK, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":0,\"embedding\":[1,2]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":7,\"embedding\":[1,2]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":1,\"embedding\":[1,2,3]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":1,\"embedding\":[1,\"2\"]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":1,\"embedding\":[1e300,2]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":[{\"index\":0,\"embedding\":[]},{\"index\":1,\"embedding\":[]}]}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\n{\"data\":7}\n", false, ERR_UPSTREAM, 1},
        {"as raw\n---\nnot JSON\n", false, ERR_UPSTREAM, 1},
        {"as raw\nfill 20000000\n---\n{\"data\":[[1,2,3,4,5,6,7,8,9],\n", false, ERR_TIMEOUT, 1},
        {"as raw\nstall 0\n---\nnothing\n", false, ERR_TIMEOUT, 1},
        {"as raw\ndrip 100\n---\n{\"data\":[{\"index\":0,\"embedding\":[1,2]},{\"index\":1,\"embedding\":[1,2]}]}\n", false, ERR_TIMEOUT, 1},
        {"status 401\nas raw\n---\n{\"error\":{\"message\":\"no such key: " KEY "\"}}\n", false, ERR_UPSTREAM, 1},
        {"status 302\nheader Location: http://127.0.0.1:1/\nas raw\n---\n\n\n", false, ERR_UPSTREAM, 1},
        {"status 429\nheader Retry-After: 1\nas raw\n---\n{}\n", false, ERR_UPSTREAM, 1}};
    const char *const texts[] = {"first", "second \"text\""};
    const struct embed_config c = {.url = server.address, .model = "vectors", .key = KEY, .whole_ns = 20000000000, .query_ns = 700000000};
    cleanup(embedder) struct embedder *e = NULL;
    struct err err = {0};
    check(embed_open(&c, &e, &err));
    for (size_t i = 0; e && i < sizeof rows / sizeof *rows; i++) {
        float *v = NULL;
        int dim = 0;
        err = (struct err){0};
        llm_server_play(&server, dir, (const char *const[]){rows[i].script, NULL});
        const int64_t began = clock_mono_ns();
        check_int(embed_ask(e, texts, 2, true, &v, &dim, &err), rows[i].ok);
        check(clock_mono_ns() - began < 3000000000 && !strstr(err.text, KEY) && (rows[i].ok || !v));
        check_int(err.code, rows[i].code);
        check_int(llm_server_requests(&server), rows[i].requests);
        if (rows[i].ok)
            check(dim == 3 && v[0] == 1 && v[2] == 3.5f && v[3] == 0.5f && v[4] == -1);
        free(v);
    }
    check(llm_server_has_header(&server, 0, "Authorization: Bearer " KEY) && llm_server_has_header(&server, 0, "POST /v1/embeddings"));
    cleanup(json) json_t *body = llm_server_body(&server, 0);
    check(json_array_size(json_object_get(body, "input")) == 2 && !strcmp(json_str(body, "model", ""), "vectors") && !strcmp(json_str(body, "encoding_format", ""), "float"));
    struct embed_config wrong = c;
    struct embedder *none = NULL;
    wrong.url = "ftp://x";
    check(!embed_open(&wrong, &none, &err) && strstr(err.text, "--embed-url"));
    wrong = c, wrong.model = "";
    check(!embed_open(&wrong, &none, &err) && strstr(err.text, "--embed-model"));
}

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {vectors_are_read_figure_by_figure};
    return client_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
