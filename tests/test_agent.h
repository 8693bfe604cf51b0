/* What the tests of the agent's jobs share: a world (test_jobs.h) with a scripted model in it. */
#pragma once
#include "server/generate/agent.h"
#include "tests/llm_server.h"
#include "tests/test_jobs.h"

#define LLM_KEY "sk-secret-key-of-the-tests-9f8e7d6c5b4a"

static const struct generator *find_any(const char *name)
{
    const struct generator *g = generator_find(name);
    return g && g->attempt ? g : find_generator(name);
}

static struct llm_config llm_settings(const struct llm_server *s, const char *protocol)
{
    return (struct llm_config){.url = s->address, .protocol = protocol, .model = "scripted", .key = LLM_KEY, .connect_ns = 2000000000,
                               .first_byte_ns = 2000000000, .stall_ns = 700000000, .whole_ns = 2500000000, .answer_bytes = 256 << 10,
                               .output_tokens = 4000, .retries = 1, .backoff_ns = 10000000, .retry_after_most_ns = 2000000000};
}

__attribute__((unused)) static void world_with(struct world *w, const struct llm *llm)
{
    world_open(w);
    w->config.find_generator = find_any;
    w->config.llm = llm;
    w->config.prompt_tokens = 12000;
    w->config.default_tokens = 400000;
    w->config.attempt_failures = 3;
    w->config.default_wall_seconds = 100;
    world_start(w);
}

__attribute__((unused)) static json_t *attempts_of(struct world *w, const char *job)
{
    struct store_page page = {STORE_ATTEMPT, job, NULL, 1000, false};
    struct err err = {0};
    json_t *all = json_array();
    check(store_list(w->store, &page, take_candidate, all, NULL, NULL, &err));
    return all;
}

__attribute__((unused)) static json_t *transcript_of(struct world *w, const json_t *attempt)
{
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    json_t *doc = NULL;
    check(store_get_blob(w->store, json_str(json_object_get(attempt, "transcript"), "digest", ""), &text, &err) && json_parse(text.data, text.size, &doc, &err));
    return doc ? doc : json_object();
}

__attribute__((unused)) static int64_t spent_tokens(const json_t *job)
{
    return json_int(json_object_get(job, "spent"), "tokens", -1);
}

__attribute__((unused)) static int64_t spent_on(const json_t *job, const char *purpose, const char *what)
{
    return json_int(json_object_get(json_object_get(json_object_get(job, "spent"), "llm"), purpose), what, 0);
}

/* Whether some file of the world's folder has these bytes. */
static const char *grep_text;
static int grep_hits;
__attribute__((unused)) static int grep_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    cleanup(buf) struct buf file = {0};
    struct err err = {0};
    (void)st, (void)at;
    if (type == FTW_F && file_read(path, (size_t)1 << 30, &file, &err) && file.size && memmem(file.data, file.size, grep_text, strlen(grep_text)))
        grep_hits++;
    return 0;
}
__attribute__((unused)) static int grep_world(struct world *w, const char *text)
{
    grep_text = text;
    grep_hits = 0;
    nftw(w->dir, grep_one, 16, FTW_PHYS);
    return grep_hits;
}
