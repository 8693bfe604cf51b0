/* What a call costs: figures of the endpoint that can be true, estimates where there are none, and no call that cannot be paid. */
#include "tests/test_agent_ask.h"

static void truncated_streams_are_tried_again_and_charged(void)
{
    cleanup(outcome) struct outcome o = ASK("openai", "cut 400\n---\nThis answer is cut in its middle, and then nothing comes, not even its end. It is long enough for that, I hope, since it must be.\n",
                                            "usage 50 6\n---\nwhole\n");
    check(o.ok && o.account.tries == 2 && o.account.usage.estimated);
    check_str(json_str(json_array_get(o.account.log, 0), "outcome", ""), "truncated");
    check(llm_usage_total(&o.account.usage) > 56);
    cleanup(outcome) struct outcome p = ASK("anthropic", "as anthropic\nstop none\nend none\n---\nno end\n");
    check(!p.ok && p.err.code == ERR_UPSTREAM && p.account.tries == 3);
    check_str(last_outcome(&p), "truncated");
    cleanup(outcome) struct outcome q = ASK("openai", "end none\nusage none\n---\nit said why it stopped\n");
    check(q.ok && q.account.usage.estimated);      /* and so it is whole, whatever was to follow */
    cleanup(outcome) struct outcome r = ASK("openai", "as raw\n---\n{\"choices\":[{\"message\":{\"content\":\"half a docu");
    check(!r.ok && r.err.code == ERR_UPSTREAM);
    check_str(last_outcome(&r), "garbage");
}

static void figures_that_cannot_be_true_are_not_believed(void)
{
    static const char *const wrong[] = {
        "usage {\"prompt_tokens\":-5,\"completion_tokens\":-1}", "usage {\"prompt_tokens\":999999999999999,\"completion_tokens\":88888888888}",
        "usage {\"prompt_tokens\":\"many\",\"completion_tokens\":{}}", "usage {\"prompt_tokens\":0,\"completion_tokens\":0}",
        "usage {\"prompt_tokens\":40,\"completion_tokens\":60,\"prompt_tokens_details\":{\"cached_tokens\":41}}", "usage none"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cleanup(str) char *script = xfmt("%s\n---\nAn answer of some sixty bytes, so that its tokens can be estimated.\n", wrong[i]);
        cleanup(outcome) struct outcome o = ASK("openai", script);
        int64_t total = llm_usage_total(&o.account.usage);
        check(o.ok && o.account.usage.estimated && total > 20 && total < 200);
        if (total <= 20 || total >= 200)
            fprintf(stderr, "%s: %lld\n", wrong[i], (long long)total);
    }
    cleanup(outcome) struct outcome o = ASK("openai", "usage {\"prompt_tokens\":40,\"completion_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":30}}\n---\ncached\n");
    check(!o.account.usage.estimated);
    check_int(o.account.usage.input, 10);
    check_int(o.account.usage.cache_read, 30);
    cleanup(outcome) struct outcome p = ASK("anthropic", "as anthropic\nusage {\"input_tokens\":10,\"output_tokens\":8,\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":15}\n---\ncached\n");
    check(!p.account.usage.estimated);
    check_int(p.account.usage.input, 10);
    check_int(p.account.usage.cache_write, 15);
    check_int(llm_usage_total(&p.account.usage), 53);
}

static void no_call_is_made_that_cannot_be_paid(void)
{
    struct llm_config c = config_for("openai");
    llm_server_play(&server, dir, (const char *const[]){"---\nnever\n", NULL});
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){.tokens_most = 50});
    check(!o.ok && o.err.code == ERR_TOO_LARGE && !llm_server_requests(&server));
    cleanup(outcome) struct outcome p = ask_with(&c, (struct llm_call){.tokens_most = 200});
    cleanup(json) json_t *body = llm_server_body(&server, 0);
    check(p.ok && json_int(body, "max_tokens", 0) < 160);
    llm_server_play(&server, dir, (const char *const[]){"usage none\nstop none\nend none\n---\nAll of the budget goes into tries that end before their end, and each is charged what it sent.\n", NULL});
    cleanup(outcome) struct outcome q = ask_with(&c, (struct llm_call){.tokens_most = 200});
    check(!q.ok && q.err.code == ERR_TOO_LARGE && llm_usage_total(&q.account.usage) <= 200 && q.account.tries >= 1);
}

/* Digits and what is not ASCII are a token a byte for some: a call is refused by that, and nothing that is said carries it past its limit. */
static void a_limit_holds_for_other_tokenisers(void)
{
    struct llm_config c = config_for("openai");
    char digits[401], bytes[401];
    memset(digits, '7', 400), digits[400] = 0;
    for (int i = 0; i < 400; i += 2)
        memcpy(bytes + i, "\xce\xb1", 2);
    bytes[400] = 0;
    const char *const texts[] = {digits, bytes};
    for (size_t i = 0; i < 2; i++) {
        struct llm_call call = {.message_count = 1, .tokens_most = 400};
        call.messages[0].text = texts[i];
        llm_server_play(&server, dir, (const char *const[]){"---\nnever\n", NULL});
        cleanup(outcome) struct outcome o = ask_with(&c, call);
        check(!o.ok && o.err.code == ERR_TOO_LARGE && !llm_server_requests(&server));
        call.tokens_most = 500;
        llm_server_play(&server, dir, (const char *const[]){"usage {\"prompt_tokens\":430,\"completion_tokens\":4}\n---\nfine\n", NULL});
        cleanup(outcome) struct outcome p = ask_with(&c, call);
        check(p.ok && !p.account.usage.estimated);
        check_int(llm_usage_total(&p.account.usage), 434);
    }
    static const char *const claims[] = {"usage {\"prompt_tokens\":1000,\"completion_tokens\":4}", "usage {\"prompt_tokens\":50,\"completion_tokens\":190}",
                                         "usage {\"prompt_tokens\":1000,\"completion_tokens\":190}", "usage none"};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        cleanup(str) char *script = xfmt("fill 400\n%s\n---\nAn answer that is longer than was asked for, again. \n", claims[i]);
        llm_server_play(&server, dir, (const char *const[]){script, NULL});
        cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){.tokens_most = 180});
        if (!o.ok || llm_usage_total(&o.account.usage) > 180)
            fprintf(stderr, "%s: %lld %s\n", claims[i], (long long)llm_usage_total(&o.account.usage), o.err.text);
        check(o.ok && o.account.usage.estimated && llm_usage_total(&o.account.usage) <= 180);
    }
}

/* Thoughts are spent too, also where the stream breaks before it says how many. */
static void thoughts_of_a_broken_stream_are_charged(void)
{
    struct llm_config c = config_for("openai");
    c.retries = 0;
#define THOUGHT "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"so\"}}]}\n\n"
    llm_server_play(&server, dir, (const char *const[]){"as raw\nheader Content-Type: text/event-stream\nfill 64000\n---\n" THOUGHT THOUGHT ":\n", NULL});
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){0});
    check(!o.ok && o.account.usage.estimated && o.account.usage.output > 500 && o.account.usage.output <= 4000);
}

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {truncated_streams_are_tried_again_and_charged, figures_that_cannot_be_true_are_not_believed, no_call_is_made_that_cannot_be_paid, a_limit_holds_for_other_tokenisers, thoughts_of_a_broken_stream_are_charged};
    return client_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
