/* The client against a server that plays a model from scripts: every way an endpoint can behave ends in a defined state, the account is
 * right, and nothing hangs. */
#include "server/llm/embed.h"
#include "server/llm/internal.h"
#include "tests/llm_server.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <sys/socket.h>

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

static struct llm_config config_for(const char *protocol)
{
    return (struct llm_config){.url = server.address, .protocol = protocol, .model = "scripted", .key = KEY, .connect_ns = 3000000000,
                               .first_byte_ns = 6000000000, .stall_ns = 5000000000, .whole_ns = 7000000000, .answer_bytes = 64 << 10,
                               .output_tokens = 4000, .retries = 2, .backoff_ns = 10000000, .retry_after_most_ns = 3000000000};
}

static struct outcome ask_with(const struct llm_config *c, struct llm_call call)
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

static struct outcome ask_scripts(const char *protocol, const char *const *scripts)
{
    llm_server_play(&server, dir, scripts);
    struct llm_config c = config_for(protocol);
    return ask_with(&c, (struct llm_call){0});
}

#define ASK(protocol, ...) ask_scripts(protocol, (const char *const[]){__VA_ARGS__, NULL})

static const char *last_outcome(const struct outcome *o)
{
    return json_str(json_array_get(o->account.log, json_array_size(o->account.log) - 1), "outcome", "?");
}

static void answers_arrive_whole(void)
{
    static const struct { const char *protocol, *as; } forms[] = {
        {"openai", "openai"}, {"openai", "openai-whole"}, {"anthropic", "anthropic"}, {"anthropic", "anthropic-whole"}};
    for (size_t i = 0; i < 4; i++) {
        cleanup(str) char *script = xfmt("as %s\nusage 31 7\npiece 3\n---\nDie Größe ist \"8\" \\ {}\nund  zwei Zeilen: \360\237\230\200\n", forms[i].as);
        cleanup(outcome) struct outcome o = ASK(forms[i].protocol, script);
        check(o.ok);
        check_str(o.reply.text, "Die Größe ist \"8\" \\ {}\nund  zwei Zeilen: \360\237\230\200");
        check_int(o.reply.stop, LLM_STOP_END);
        check_int(o.account.usage.input, 31);
        check_int(o.account.usage.output, 7);
        check(!o.account.usage.estimated);
        check_int(o.account.tries, 1);
    }
}

static void requests_are_of_the_protocol(void)
{
    cleanup(outcome) struct outcome o = ASK("openai", "usage 9 9\n---\nhello\n");
    cleanup(json) json_t *body = llm_server_body(&server, 0);
    check(o.ok && llm_server_has_header(&server, 0, "POST /v1/chat/completions HTTP/1.1") && llm_server_has_header(&server, 0, "authorization: Bearer " KEY));
    check_str(json_str(body, "model", ""), "scripted");
    check(json_bool(body, "stream", false) && json_int(body, "max_tokens", 0) == 4000 && !json_object_get(body, "tools"));
    check_str(json_str(json_array_get(json_object_get(body, "messages"), 0), "role", ""), "system");
    llm_server_play(&server, dir, (const char *const[]){"---\nhello\n", NULL});
    struct llm_config newer = config_for("openai");
    newer.limit_name = "max_completion_tokens";
    cleanup(outcome) struct outcome n = ask_with(&newer, (struct llm_call){0});
    cleanup(json) json_t *newer_body = llm_server_body(&server, 0);
    check(n.ok && json_int(newer_body, "max_completion_tokens", 0) == 4000 && !json_object_get(newer_body, "max_tokens"));
    cleanup(outcome) struct outcome p = ASK("anthropic", "as anthropic\n---\nhello\n");
    cleanup(json) json_t *second = llm_server_body(&server, 0);
    check(p.ok && llm_server_has_header(&server, 0, "POST /v1/messages HTTP/1.1") && llm_server_has_header(&server, 0, "x-api-key: " KEY));
    check(llm_server_has_header(&server, 0, "anthropic-version: 2023-06-01"));
    check_str(json_str(second, "system", ""), "You write kernels.");
    check_int(json_int(second, "max_tokens", 0), 4000);
}

static void refusals_and_lengths_are_told(void)
{
    cleanup(outcome) struct outcome a = ASK("openai", "stop content_filter\n---\nI cannot.\n"), b = ASK("anthropic", "as anthropic\nstop refusal\n---\nNo.\n");
    check(a.ok && a.reply.stop == LLM_STOP_REFUSAL && b.ok && b.reply.stop == LLM_STOP_REFUSAL);
    cleanup(outcome) struct outcome c = ASK("openai", "stop length\n---\nhalf of\n"), d = ASK("anthropic", "as anthropic\nstop max_tokens\n---\nhalf\n");
    check(c.ok && c.reply.stop == LLM_STOP_LENGTH && d.ok && d.reply.stop == LLM_STOP_LENGTH);
    cleanup(outcome) struct outcome e = ASK("openai", "as raw\nheader Content-Type: text/event-stream\n---\ndata: {\"choices\":[{\"delta\":{\"refusal\":\"I will not\"}}]}\n\n"
                                                      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n\n");
    check(e.ok && e.reply.stop == LLM_STOP_REFUSAL);
}

static void a_wrong_key_is_final_and_not_repeated(void)
{
    cleanup(outcome) struct outcome o = ASK("openai", "status 401\nas raw\n---\n{\"error\":{\"message\":\"Incorrect API key provided: " KEY "\"}}\n", "---\nnever\n");
    check(!o.ok && o.err.code == ERR_UNPROCESSABLE && strstr(o.err.text, "401"));
    check_int(llm_server_requests(&server), 1);
    check_int(llm_usage_total(&o.account.usage), 0);
    cleanup(outcome) struct outcome p = ASK("openai", "---\nyour key is " KEY " and a part is sk-test-0123456789-abc\n");
    check(p.ok && strstr(p.reply.text, "your key is ***") && !strstr(p.reply.text, "sk-test-0123456789-abc"));
    cleanup(outcome) struct outcome q = ASK("openai", "status 404\nas raw\n---\n<html>not here</html>\n");
    check(!q.ok && q.err.code == ERR_UNPROCESSABLE && llm_server_requests(&server) == 1);
    cleanup(outcome) struct outcome r = ASK("openai", "status 302\nheader Location: http://127.0.0.1:1/\nas raw\n---\n\n\n");
    check(!r.ok && r.err.code == ERR_UNPROCESSABLE && llm_server_requests(&server) == 1);
}

static void busy_endpoints_are_asked_again(void)
{
    static const int statuses[] = {408, 409, 429, 500, 502, 503, 529};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        cleanup(str) char *busy = xfmt("status %d\nas raw\n---\n{\"error\":{\"message\":\"later\"}}\n", statuses[i]);
        cleanup(outcome) struct outcome o = ASK("anthropic", busy, "as anthropic\nusage 40 5\n---\nnow\n");
        check(o.ok && o.account.tries == 2);
        check_int(llm_usage_total(&o.account.usage), 45);      /* what was refused costs nothing */
    }
    cleanup(outcome) struct outcome all = ASK("openai", "status 529\nas raw\n---\n{}\n");
    check(!all.ok && all.err.code == ERR_UPSTREAM && all.account.tries == 3 && llm_server_requests(&server) == 3);
}

static void the_pause_asked_for_is_kept(void)
{
    cleanup(outcome) struct outcome o = ASK("openai", "status 429\nheader Retry-After: 1\nas raw\n---\n{}\n", "---\nnow\n");
    check(o.ok && o.ns >= 1000000000 && o.ns < 5000000000);
    check(json_int(json_array_get(o.account.log, 1), "waited_ms", 0) == 1000);
    cleanup(outcome) struct outcome long_one = ASK("openai", "status 429\nheader retry-after: 3600\nas raw\n---\n{}\n", "---\nnow\n");
    check(!long_one.ok && long_one.ns < 3000000000 && llm_server_requests(&server) == 1 && strstr(long_one.err.text, "longer pause"));
    cleanup(outcome) struct outcome dated = ASK("openai", "status 503\nheader Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\nas raw\n---\n{}\n", "---\nnow\n");
    check(dated.ok && dated.ns < 3000000000);
    cleanup(outcome) struct outcome odd = ASK("openai", "status 503\nheader Retry-After: 99999999999999999999\nas raw\n---\n{}\n", "---\nnow\n");
    check(odd.ok);           /* no number of seconds, no date: as if not said */
}

/* As far away as a number or a date can say: too long a pause, and at once. */
static void pauses_without_end_are_refused_at_once(void)
{
    static const char *const values[] = {"1000000000", "9999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "Sat, 01 Jan 2050 00:00:00 GMT"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        cleanup(str) char *script = xfmt("status 429\nheader Retry-After: %s\nas raw\n---\n{}\n", values[i]);
        cleanup(outcome) struct outcome o = ASK("openai", script, "---\nnow\n");
        check(!o.ok && o.ns < 3000000000 && llm_server_requests(&server) == 1 && strstr(o.err.text, "longer pause"));
    }
    static const char *const odd[] = {"-5", "", "soon", "1e9", "1 2", "Thu, 01 Jan 1970 00:00:00 GMT"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        cleanup(str) char *script = xfmt("status 429\nheader Retry-After: %s\nas raw\n---\n{}\n", odd[i]);
        cleanup(outcome) struct outcome o = ASK("openai", script, "---\nnow\n");
        check(o.ok && o.ns < 3000000000);
    }
}

/* The key goes to the endpoint and nowhere else: not where it redirects to, not to a proxy that the environment names for other hosts. */
static void the_key_goes_nowhere_else(void)
{
    static const int statuses[] = {301, 302, 303, 307, 308};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        cleanup(str) char *script = xfmt("status %d\nheader Location: %s/v1/chat/completions\nas raw\n---\n{}\n", statuses[i], server.address);
        cleanup(outcome) struct outcome o = ASK("openai", script, "---\nnever\n");
        check(!o.ok && o.err.code == ERR_UNPROCESSABLE && llm_server_requests(&server) == 1);
    }
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
    cleanup(outcome) struct outcome direct = ASK("openai", "---\nhello\n");
    check(direct.ok);
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    /* Nothing that is packed is asked for, and nothing is unpacked. */
    check(!llm_server_has_header(&server, 0, "accept-encoding:") && !llm_server_has_header(&server, 0, "te:"));
    cleanup(outcome) struct outcome packed = ASK("openai", "header Content-Encoding: gzip\nas raw\n---\n\x1f\x8b\x08not a document\n");
    check(!packed.ok && packed.err.code == ERR_UPSTREAM);
    check_str(last_outcome(&packed), "garbage");
}

static void *send_headers_for_ever(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    char line[4100];
    memset(line, 'a', sizeof line);
    memcpy(line, "X-A: ", 5);
    memcpy(line + 4098, "\r\n", 2);
    for (bool ok = send(fd, "HTTP/1.1 200 OK\r\n", 17, MSG_NOSIGNAL) == 17; ok;)
        ok = send(fd, line, sizeof line, MSG_NOSIGNAL) > 0;
    close(fd);
    return NULL;
}

static void an_endless_head_is_cut_off(void)
{
    struct llm_config c = config_for("openai");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    pthread_t thread;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(!bind(fd, (struct sockaddr *)&to, sizeof to) && !listen(fd, 4) && !getsockname(fd, (struct sockaddr *)&to, &size));
    check(!pthread_create(&thread, NULL, send_headers_for_ever, &fd));
    cleanup(str) char *address = xfmt("http://127.0.0.1:%d/v1", ntohs(to.sin_port));
    c.url = address;
    c.retries = 0;
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){0});
    check(!o.ok && o.err.code == ERR_UPSTREAM && o.ns < 2000000000);
    check_str(last_outcome(&o), "truncated");
    pthread_join(thread, NULL);
    close(fd);
}

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

static void slow_endpoints_end_in_time(void)
{
    struct llm_config c = config_for("openai");
    c.retries = 0;
    c.first_byte_ns = 400000000;
    c.stall_ns = 300000000;
    c.whole_ns = 1200000000;
    static const struct { const char *script, *outcome; int64_t most_ns; } cases[] = {
        {"stall 0\n---\nnothing of this comes\n", "stalled", 3000000000},
        {"stall 200\n---\nThe beginning of this comes, and then nothing more does, for a time that nobody would wait.\n", "stalled", 3000000000},
        {"drip 30\n---\nslow\n", "too_long", 4000000000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        llm_server_play(&server, dir, (const char *const[]){cases[i].script, NULL});
        cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){0});
        check(!o.ok && o.err.code == ERR_TIMEOUT && o.ns < cases[i].most_ns);
        check_str(last_outcome(&o), cases[i].outcome);
        check(llm_usage_total(&o.account.usage) > 0 && o.account.usage.estimated);
    }
    int silent = socket(AF_INET, SOCK_STREAM, 0);      /* takes connections and says nothing, not even a status */
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof to;
    check(!bind(silent, (struct sockaddr *)&to, sizeof to) && !listen(silent, 4) && !getsockname(silent, (struct sockaddr *)&to, &size));
    cleanup(str) char *address = xfmt("http://127.0.0.1:%d/v1/", ntohs(to.sin_port));
    c.url = address;
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){0});
    check(!o.ok && o.err.code == ERR_TIMEOUT && o.ns < 3000000000);
    check_str(last_outcome(&o), "no_first_byte");
    close(silent);
    c.retries = 1;
    cleanup(outcome) struct outcome gone = ask_with(&c, (struct llm_call){0});
    check(!gone.ok && gone.err.code == ERR_UPSTREAM && gone.account.tries == 2 && !llm_usage_total(&gone.account.usage));
    check_str(last_outcome(&gone), "no_connection");
}

static void endless_text_is_cut(void)
{
    static const char *const scripts[] = {
        "fill 104857600\npiece 4000\n---\nfifty bytes of text, again and again and again...\n",
        "as openai-whole\nfill 4000000\n---\nfifty bytes of text, again and again and again...\n",
        "as raw\nheader Content-Type: text/event-stream\nfill 104857600\n---\n: a comment, and nothing but comments, one after the other\n\n",
        "as raw\nheader Content-Type: text/event-stream\nfill 20000000\n---\ndata: one line that does not end "};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        cleanup(outcome) struct outcome o = ASK("openai", scripts[i]);
        check(o.ok && o.reply.stop == LLM_STOP_TOO_LARGE && o.reply.text_bytes <= 64 << 10);
        check(__atomic_load_n(&server.sent_bytes, __ATOMIC_RELAXED) < 60 << 20);
        check_int(o.account.tries, 1);
        check(llm_usage_total(&o.account.usage) < 100000);
    }
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

static void errors_within_a_stream(void)
{
    cleanup(outcome) struct outcome o = ASK("anthropic", "as raw\nheader Content-Type: text/event-stream\n---\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n\n",
                                            "as anthropic\n---\nnow\n");
    check(o.ok && o.account.tries == 2);
    cleanup(outcome) struct outcome p = ASK("anthropic", "as raw\nheader Content-Type: text/event-stream\n---\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n\n");
    check(!p.ok && p.err.code == ERR_UNPROCESSABLE && p.account.tries == 1);
    cleanup(outcome) struct outcome q = ASK("openai", "as raw\nheader Content-Type: text/event-stream\n---\ndata: {not json}\n\n\n", "---\nnow\n");
    check(q.ok && q.account.tries == 2);
}

static int looks;
static bool stop_soon(void *ctx)
{
    (void)ctx;
    return ++looks > 3;
}

static void calls_can_be_stopped(void)
{
    struct llm_config c = config_for("openai");
    c.stall_ns = c.whole_ns = c.first_byte_ns = 20000000000;
    llm_server_play(&server, dir, (const char *const[]){"stall 100\n---\nThe beginning of this comes, and then nothing more does, for a time that nobody would wait.\n", NULL});
    looks = 0;
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){.stopped = stop_soon});
    check(!o.ok && o.err.code == ERR_CONFLICT && o.ns < 2000000000);
    llm_server_play(&server, dir, (const char *const[]){"status 503\nheader Retry-After: 3\nas raw\n---\n{}\n", NULL});
    looks = 0;
    cleanup(outcome) struct outcome p = ask_with(&c, (struct llm_call){.stopped = stop_soon});
    check(!p.ok && p.err.code == ERR_CONFLICT && p.ns < 2000000000);
    cleanup(outcome) struct outcome q = ask_with(&c, (struct llm_call){.deadline_ns = clock_mono_ns() + 300000000});
    check(!q.ok && q.err.code == ERR_TIMEOUT && q.ns < 2500000000);
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

/* ---- vectors ---- */

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

/* 100 Continue again and again is no answer: it ends as slow ones do, is charged, and is tried again. */
static void a_promise_of_an_answer_is_none(void)
{
    struct llm_config c = config_for("openai");
    c.first_byte_ns = c.stall_ns = 300000000;
    c.retries = 1;
    llm_server_play(&server, dir, (const char *const[]){"status 100\nstall 0\nas raw\n---\n\n\n", NULL});
    cleanup(outcome) struct outcome o = ask_with(&c, (struct llm_call){0});
    check(!o.ok && o.err.code == ERR_TIMEOUT && llm_server_requests(&server) == 2);
}

static void settings_are_checked(void)
{
    static const struct { const char *url, *protocol, *model, *key, *names; } bad[] = {
        {"ftp://x", "openai", "m", "", "--llm-url"}, {"http://user:pw@x", "openai", "m", "", "--llm-url"}, {"http://x/v1?key=abc", "openai", "m", "", "--llm-url"}, {"http://x", "soap", "m", "", "--llm-protocol"},
        {"http://x", "openai", "", "", "--llm-model"}, {"http://x", "openai", "m", "two words", "--llm-key"}, {"http://x", "openai", "m", "a\r\nX: y-12345", "--llm-key"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct llm_config c = {.url = bad[i].url, .protocol = bad[i].protocol, .model = bad[i].model, .key = bad[i].key};
        struct llm *l = NULL;
        struct err err = {0};
        check(!llm_open(&c, &l, &err) && strstr(err.text, bad[i].names));
    }
}

struct seen { int count; char last[64]; };
static bool see(void *ctx, const char *name, const char *data, size_t size)
{
    struct seen *s = ctx;
    s->count++;
    snprintf(s->last, sizeof s->last, "%s|%s|%zu", name, data, size);
    return strcmp(data, "stop") != 0;
}

static void events_come_in_any_portions(void)
{
    static const char text[] = "\xef\xbb\xbf: hello\r\ndata: a\rdata:b\n\nevent: x\r\nid: 7\r\ndata\r\n\r\n\n\ndata: {\"y\":1}\n\ndata: unfinished";
    for (size_t step = 1; step < sizeof text; step++) {
        struct seen s = {0};
        cleanup(sse) struct sse sse;
        sse_init(&sse, 1000, see, &s);
        for (size_t at = 0; at < sizeof text - 1; at += step)
            check(sse_feed(&sse, text + at, sizeof text - 1 - at < step ? sizeof text - 1 - at : step));
        check_int(s.count, 3);
        check_str(s.last, "|{\"y\":1}|7");
    }
    struct seen s = {0};
    cleanup(sse) struct sse sse;
    sse_init(&sse, 64, see, &s);
    check(!sse_feed(&sse, "data: stop\n\ndata: x\n\n\n", 21) && s.count == 1);
    cleanup(sse) struct sse small;
    sse_init(&small, 64, see, &s);
    char line[100];
    memset(line, 'x', sizeof line);
    check(!sse_feed(&small, line, sizeof line) && small.line.overflow);
    cleanup(sse) struct sse many;
    sse_init(&many, 64, see, &s);
    bool go_on = true;
    for (int i = 0; i < 40 && go_on; i++)
        go_on = sse_feed(&many, "data: 12345\n", 12);
    check(!go_on && many.data.overflow);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    dir = argv[1];
    hash_init();
    llm_server_start(&server, dir, (const char *const[]){"---\nhello\n", NULL});
    answers_arrive_whole();
    requests_are_of_the_protocol();
    refusals_and_lengths_are_told();
    a_wrong_key_is_final_and_not_repeated();
    busy_endpoints_are_asked_again();
    the_pause_asked_for_is_kept();
    pauses_without_end_are_refused_at_once();
    the_key_goes_nowhere_else();
    an_endless_head_is_cut_off();
    truncated_streams_are_tried_again_and_charged();
    slow_endpoints_end_in_time();
    endless_text_is_cut();
    figures_that_cannot_be_true_are_not_believed();
    errors_within_a_stream();
    calls_can_be_stopped();
    no_call_is_made_that_cannot_be_paid();
    a_limit_holds_for_other_tokenisers();
    settings_are_checked();
    thoughts_of_a_broken_stream_are_charged();
    vectors_are_read_figure_by_figure();
    a_promise_of_an_answer_is_none();
    events_come_in_any_portions();
    llm_server_stop(&server);
    return test_done();
}
