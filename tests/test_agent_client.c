/* The client against a server that plays a model from scripts: every way an endpoint can behave ends in a defined state, the account is
 * right, and nothing hangs. */
#include "tests/test_agent_ask.h"

#include <arpa/inet.h>
#include <sys/socket.h>

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

int main(int argc, char **argv)
{
    static void (*const tests[])(void) = {answers_arrive_whole, requests_are_of_the_protocol, refusals_and_lengths_are_told, a_wrong_key_is_final_and_not_repeated, busy_endpoints_are_asked_again, the_pause_asked_for_is_kept, pauses_without_end_are_refused_at_once, the_key_goes_nowhere_else, an_endless_head_is_cut_off, slow_endpoints_end_in_time, endless_text_is_cut, errors_within_a_stream, calls_can_be_stopped, settings_are_checked, a_promise_of_an_answer_is_none};
    return client_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
