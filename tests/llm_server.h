/*
 * A server that plays a language model from scripts: a real HTTP server on raw sockets, a thread a connection, loopback only.
 * Script number i answers request number i, the last all that follow. A script is a head of lines and, after a line "---", the text of the
 * answer, which is cut into a stream's events (or not) as the head says:
 *
 *   status 200              header NAME: VALUE        as openai|anthropic|openai-whole|anthropic-whole|raw
 *   piece N                 bytes of text an event    stop WORD          the reason that ends it ("none": none is said)
 *   usage IN OUT            figures; usage none|JSON  fill N             the text again and again, up to N bytes
 *   cut N                   close after N bytes       stall N            say nothing more after N bytes
 *   drip MS                 a byte each MS            end none           no [DONE] or message_stop
 *
 * In the text, @FILE@ at the beginning of a line is the content of that file beside the script.
 */
#pragma once
#include "core/json.h"

#include <pthread.h>

#define LLM_SCRIPTS_MAX 64
#define LLM_REQUESTS_MAX 512

struct llm_request { char *head, *body; int64_t at_ns; };
struct llm_server {
    int fd;
    char address[64];              /* "http://127.0.0.1:40123" */
    pthread_t thread;
    bool stopping;
    pthread_mutex_t lock;          /* guards what follows */
    int script_count;
    char *scripts[LLM_SCRIPTS_MAX];
    int request_count;             /* all there were; the first LLM_REQUESTS_MAX are kept */
    struct llm_request requests[LLM_REQUESTS_MAX];
    int open;                      /* connections */
    int64_t sent_bytes;
};
/* Scripts are texts, or names of files (of DIR) where they have no line break. NULL-ended list. */
void llm_server_start(struct llm_server *s, const char *dir, const char *const *scripts);
/* Other scripts from here on; requests are counted anew. */
void llm_server_play(struct llm_server *s, const char *dir, const char *const *scripts);
int llm_server_requests(struct llm_server *s);
/* The body of a request as JSON; new reference. */
json_t *llm_server_body(struct llm_server *s, int i);
/* Whether any of a request's header lines begins so, whatever the case. */
bool llm_server_has_header(struct llm_server *s, int i, const char *begin);
void llm_server_stop(struct llm_server *s);
