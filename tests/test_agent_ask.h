/* What the tests of the agent's client share: a server that plays a model from scripts, and a call whose end is checked. */
#pragma once
#include "server/llm/internal.h"
#include "tests/llm_server.h"
#include "tests/test.h"

#define KEY "sk-test-0123456789-abcdefghij-KLMNOP"

static struct llm_server server;
static const char *dir;

struct outcome { bool ok; struct llm_reply reply; struct llm_account account; struct err err; int64_t ns; };
static void outcome_done(struct outcome *o)
{
    llm_reply_done(&o->reply);
    llm_account_done(&o->account);
}
DEFINE_CLEANUP(outcome, struct outcome, outcome_done(it))

__attribute__((unused)) static struct llm_config config_for(const char *protocol)
{
    return (struct llm_config){.url = server.address, .protocol = protocol, .model = "scripted", .key = KEY, .connect_ns = 3000000000,
                               .first_byte_ns = 6000000000, .stall_ns = 5000000000, .whole_ns = 7000000000, .answer_bytes = 64 << 10,
                               .output_tokens = 4000, .retries = 2, .backoff_ns = 10000000, .retry_after_most_ns = 3000000000};
}

__attribute__((unused)) static struct outcome ask_with(const struct llm_config *c, struct llm_call call)
{
    struct outcome o = {0};
    cleanup(llm) struct llm *l = NULL;
    if (!llm_open(c, &l, &o.err))
        return o;
    call.system = call.system ? call.system : "You write kernels.";
    if (!call.message_count) {
        call.message_count = 1;
        call.messages[0].text = "Write one. It has about as many words as this, which are not very many, so it is short.";
    }
    if (!call.tokens_most)
        call.tokens_most = 100000;
    int64_t began = clock_mono_ns();
    o.ok = llm_ask(l, &call, &o.reply, &o.account, &o.err);
    o.ns = clock_mono_ns() - began;
    cleanup(str) char *log = o.account.log ? json_text(o.account.log) : NULL;
    check(!strstr(log ? log : "", KEY) && !strstr(o.err.text, KEY) && !(o.reply.text && strstr(o.reply.text, KEY)));
    check(o.ns < 8000000000);
    return o;
}

__attribute__((unused)) static struct outcome ask_scripts(const char *protocol, const char *const *scripts)
{
    llm_server_play(&server, dir, scripts);
    struct llm_config c = config_for(protocol);
    return ask_with(&c, (struct llm_call){0});
}

#define ASK(protocol, ...) ask_scripts(protocol, (const char *const[]){__VA_ARGS__, NULL})

__attribute__((unused)) static const char *last_outcome(const struct outcome *o)
{
    return json_str(json_array_get(o->account.log, json_array_size(o->account.log) - 1), "outcome", "?");
}

/* Starts the server, runs the tests; what main returns. */
static int client_main(int argc, char **argv, void (*const *tests)(void), size_t count)
{
    if (argc != 2)
        return 2;
    dir = argv[1];
    hash_init();
    llm_server_start(&server, dir, (const char *const[]){"---\nhello\n", NULL});
    for (size_t i = 0; i < count; i++)
        tests[i]();
    llm_server_stop(&server);
    return test_done();
}
