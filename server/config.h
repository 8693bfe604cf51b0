/*
 * All settings of proteusd in one table: a field, its flag and environment variable (--listen, PROTEUS_LISTEN), its limits and
 * what it is for. Read once in main, constant afterwards; each part gets the fields it needs.
 */
#pragma once
#include "core/json.h"

/*
 * T(field, flag, default, secret, what)                       text; a NULL default means "not set"
 * N(field, flag, default, least, most, unit, what)            a number; a unit of "bytes" takes suffixes: 64KiB, 1MiB, 2GiB
 */
#define CONFIG_TABLE(T, N)                                                                                                        \
    T(listen, "listen", "127.0.0.1:7070", false, "address and port to serve on; port 0 picks a free one")                         \
    T(data, "data", "proteus-data", false, "folder of the store and the signing key; made if it is missing")                      \
    T(static_dir, "static-dir", NULL, false, "folder of the dashboard; default: share/proteus/static beside bin/, else static/ of the build") \
    T(openapi, "openapi", NULL, false, "openapi.yaml to serve; default: share/proteus/openapi.yaml beside bin/, else the build's") \
    T(ops_dir, "ops-dir", NULL, false, "folder of the operators; default: share/proteus/ops beside bin/, else the build's")       \
    T(models_dir, "models-dir", NULL, false, "folder of the model presets; default: share/proteus/models beside bin/, else the build's")  \
    T(thesaurus, "thesaurus", NULL, false, "the thesaurus that lessons are found by; default: share/proteus/thesaurus.json beside bin/, else the build's") \
    T(judge, "judge", NULL, false, "the program proteus-gpu; default: beside this program")                                       \
    T(runner, "runner", NULL, false, "words put in front of the judge, e.g. \"srun -p gpu --gres=gpu:1 -n1\"; no shell")          \
    T(cuda_home, "cuda-home", NULL, false, "the CUDA toolkit; default: $CUDA_HOME, then /usr/local/cuda")                         \
    T(python, "python", NULL, false, "the python whose Triton compiles candidates in Triton; default: python3")                \
    T(need, "need", "audit,watch,private-memory,emulation", false, "what a verdict on a card must rest on, else it is held: audit, watch, private-memory, emulation; or none") \
    T(sandbox_minimum, "sandbox-minimum", "none", false, "refuse to judge below this level: none, limits, filtered, isolated")    \
    T(device, "device", "auto", false, "what to judge on: auto, sim, cuda:N; several cards, comma between, for retests")         \
    T(default_target, "default-target", NULL, false, "target of a shape that names none; default: the first device's")            \
    T(admin_token, "admin-token", NULL, true, "an admin's token, pk_ID_SECRET, valid as long as it is set; better in a file")     \
    T(admin_token_file, "admin-token-file", NULL, false, "a file that holds such a token")                                        \
    T(new_signing_key, "new-signing-key", "no", false, "yes: start with a lost or another signing.key, once; clients need the new one") \
    T(llm_url, "llm-url", NULL, false, "a language model's endpoint for jobs of generator llm, such as https://host/v1; default: none")   \
    T(llm_protocol, "llm-protocol", "openai", false, "what it speaks: openai (chat completions) or anthropic (messages)")              \
    T(llm_model, "llm-model", NULL, false, "the name of the model to ask for")                                                        \
    T(llm_limit_name, "llm-limit-name", "max_tokens", false, "what openai's protocol calls an answer's limit: max_tokens, or max_completion_tokens") \
    T(llm_key, "llm-key", NULL, true, "the endpoint's key; better in the environment (PROTEUS_LLM_KEY) or a file")                    \
    T(llm_key_file, "llm-key-file", NULL, false, "a file that holds the key")                                                         \
    T(embed_url, "embed-url", NULL, false, "an endpoint for vectors of lessons (OpenAI-compatible /v1/embeddings); default: none, hashed n-grams alone") \
    T(embed_model, "embed-model", NULL, false, "the name of its model")                                                               \
    T(embed_key, "embed-key", NULL, true, "its key; better in the environment (PROTEUS_EMBED_KEY) or a file")                         \
    T(embed_key_file, "embed-key-file", NULL, false, "a file that holds its key")                                                     \
    T(log_level, "log-level", "info", false, "debug, info, warn or error")                                                        \
    N(runners, "runners", 1, 1, 64, "jobs", "jobs judged at once")                                                                \
    N(http_threads, "http-threads", 2, 1, 64, "threads", "threads that serve connections")                                        \
    N(write_threads, "write-threads", 16, 1, 256, "threads", "threads for requests that write; those at work share one sync")     \
    N(connections, "connections", 8192, 16, 100000, "connections", "the most at once")                                            \
    N(connection_timeout_s, "connection-timeout", 60, 1, 3600, "seconds", "a connection that stands still is closed after this")  \
    N(header_bytes, "header-bytes", 8192, 1024, 1048576, "bytes", "the most that a request's headers may have together")         \
    N(body_bytes, "body-bytes", 2097152, 1024, 67108864, "bytes", "the most that a request's body may have")                      \
    N(pending_body_bytes, "pending-body-bytes", 268435456, 1048576, 17179869184, "bytes", "the most that all bodies in progress may have") \
    N(streams, "streams", 4096, 1, 50000, "streams", "event streams open at once")                                                \
    N(waiters, "waiters", 1024, 1, 50000, "requests", "requests that wait for a kernel at once")                                  \
    N(max_wait_s, "max-wait", 60, 1, 600, "seconds", "the longest ?wait=")                                                        \
    N(heartbeat_ms, "heartbeat-ms", 15000, 20, 600000, "milliseconds", "a silent event stream gets a comment this often")         \
    N(max_page, "max-page", 200, 1, 1000, "entries", "the most that one page of a list shows")                                    \
    N(cache_bytes, "cache-bytes", 67108864, 0, 17179869184, "bytes", "memory for artifacts that are served often")                \
    N(max_queued, "max-queued", 256, 1, 100000, "jobs", "jobs waiting; more are answered 429")                                    \
    N(max_shapes, "max-shapes", 256, 1, 1000, "shapes", "shapes of one job")                                                       \
    N(max_tensor_mib, "max-tensor-mib", 2048, 1, 2048, "MiB", "the largest tensor of a shape that is searched for")               \
    N(max_shape_mib, "max-shape-mib", 6144, 1, 6144, "MiB", "the most that all tensors of a shape may have together")             \
    N(submits_per_minute, "submits-per-minute", 6000, 1, 1000000, "requests", "writes of one caller; more are answered 429")      \
    N(max_observed, "max-observed", 4096, 1, 100000, "shapes", "observed shapes that are kept")                                   \
    N(observation_lines, "observation-lines", 10000, 1, 1000000, "lines", "of one import of observed shapes")                     \
    N(estimate_candidates, "estimate-candidates", 3, 0, 64, "candidates", "tried on the emulator for an observed shape's estimate; 0: none") \
    N(estimate_shapes, "estimate-shapes", 1024, 0, 100000, "shapes", "observed shapes that are estimated; the others go by those close by") \
    N(estimate_seconds, "estimate-seconds", 120, 1, 3600, "seconds", "for one observed shape's estimate; then it has none")        \
    N(order_wait_s, "order-wait", 600, 0, 604800, "seconds", "a job that has waited so long goes before those that would save more") \
    N(max_lessons, "max-lessons", 20000, 1, 1000000, "lessons", "active lessons there may be; proposing more is answered 429")           \
    N(lesson_bytes, "lesson-bytes", 1200, 100, 16384, "bytes", "situation and action of a lesson together")                        \
    N(max_notes, "max-notes", 64, 1, 1000, "notes", "kinds of failure that are kept of a shape")                                   \
    N(consolidate_s, "consolidate", 300, 0, 86400, "seconds", "between two rounds of consolidating lessons; 0: none")              \
    N(lesson_measurements, "lesson-measurements", 24, 0, 10000, "judgements", "a day, to decide between lessons that contradict; 0: none")  \
    N(lesson_measurements_round, "lesson-measurements-round", 2, 0, 1000, "judgements", "of these at most in one round of consolidating")   \
    N(default_candidates, "default-candidates", 24, 1, 10000, "candidates", "budget of a job that names none")                    \
    N(max_candidates, "max-candidates", 10000, 1, 1000000, "candidates", "the largest budget")                                    \
    N(default_wall_seconds, "default-wall-seconds", 600, 1, 604800, "seconds", "budget of a job that names none")                 \
    N(max_wall_seconds, "max-wall-seconds", 86400, 1, 2592000, "seconds", "the largest budget")                                   \
    N(judge_wall_seconds, "judge-wall-seconds", 120, 1, 86400, "seconds", "a judgement of small tensors that takes longer is killed and repeated; the line for a card is not counted") \
    N(estimates, "estimates", 48, 0, 256, "settings", "estimated by the emulator before the first of a shape is measured; 0: none")  \
    N(estimate_processes, "estimate-processes", 0, 0, 16, "processes", "that make them at once; 0: one for every two processors")   \
    T(card_lock, "card-lock", NULL, false, "a file that judges of one host share, so that one has a card at a time (.cuda:N behind it); default: card.lock in --data, with --runner none") \
    N(llm_connect_ms, "llm-connect-ms", 10000, 1, 600000, "milliseconds", "to reach the model's endpoint")                           \
    N(llm_first_byte_ms, "llm-first-byte-ms", 120000, 1, 3600000, "milliseconds", "until the first byte of an answer")                \
    N(llm_stall_ms, "llm-stall-ms", 60000, 1, 3600000, "milliseconds", "between two bytes of an answer")                              \
    N(llm_whole_ms, "llm-whole-ms", 900000, 1, 7200000, "milliseconds", "for one answer in all")                                       \
    N(llm_retries, "llm-retries", 4, 0, 100, "times", "a question is asked again where that may help")                                \
    N(llm_backoff_ms, "llm-backoff-ms", 1000, 1, 60000, "milliseconds", "the first pause before asking again; it doubles")             \
    N(llm_retry_after_s, "llm-retry-after", 120, 0, 86400, "seconds", "the longest pause that an endpoint may ask for (retry-after)")  \
    N(llm_answer_bytes, "llm-answer-bytes", 1048576, 1024, 16777216, "bytes", "of an answer's text")                                   \
    N(llm_output_tokens, "llm-output-tokens", 16000, 256, 1000000, "tokens", "the most asked for in one answer")                       \
    N(llm_prompt_tokens, "llm-prompt-tokens", 24000, 4096, 1000000, "tokens", "the most in one prompt, as estimated from its bytes")   \
    N(llm_job_tokens, "llm-job-tokens", 1000000, 1024, 1000000000, "tokens", "budget of a job of generator llm that names none")       \
    N(llm_consolidation_tokens, "llm-consolidation-tokens", 100000, 0, 1000000000, "tokens", "for summaries of lessons by the model, since the start; 0: none") \
    N(embed_ms, "embed-ms", 30000, 1, 600000, "milliseconds", "for the vectors of some lessons")                                       \
    N(embed_query_ms, "embed-query-ms", 250, 1, 10000, "milliseconds", "for the vector of a query; one that takes longer is answered without") \
    N(profiles, "profiles", 1, 0, 1, "no or yes", "1: what a card's counters say of the best candidate goes into prompts and briefs, where the host permits it") \
    N(llm_failures, "llm-failures", 3, 1, 100, "times", "answers in a row without a candidate, which end the search for a shape")      \
    T(seeds, "seeds", NULL, false, "a file of settings to try first, [{shape,template,params}], such as those that were fast elsewhere") \
    N(baseline_triage, "baseline-triage", 0, 0, 1, "no or yes", "1: a baseline is judged in full only where nothing beats it")        \
    N(judge_retries, "judge-retries", 2, 0, 100, "times", "a candidate is judged again after a failure of the judge")             \
    N(device_refresh_s, "device-refresh", 60, 1, 86400, "seconds", "devices are asked for their health this often")               \
    N(store_map_bytes, "store-map-bytes", 17179869184, 1048576, 17592186044416, "bytes", "the most that the store may grow to")   \
    N(job_posted_bytes, "job-posted-bytes", 268435456, 0, 17592186044416, "bytes", "of the candidates posted to one job together; 0: no limit") \
    N(caller_posted_bytes, "caller-posted-bytes", 2147483648, 0, 17592186044416, "bytes", "of those posted to all jobs of a caller that are kept; 0: no limit") \
    N(retain_days, "retain-days", 0, 0, 36500, "days", "a job that ended longer ago goes, but for what is on a shelf; 0: none does for its age") \
    N(retain_jobs, "retain-jobs", 10000, 0, 1000000000, "jobs", "jobs that ended and are kept; of more the oldest go, but for what is on a shelf; 0: all are kept") \
    N(job_events_kept, "job-events-kept", 0, 0, 1000000000, "events", "events that a job keeps; 0: all")                          \
    N(idempotency_hours, "idempotency-hours", 24, 1, 720, "hours", "an Idempotency-Key is remembered this long")                  \
    N(max_ops, "max-ops", 64, 0, 1000, "operators", "operators registered over HTTP (PUT /v1/ops/{name}); 0: none is taken")        \
    N(max_tokens, "max-tokens", 1000, 1, 10000, "tokens", "tokens there may be")

struct config {
#define T(field, ...) char *field;
#define N(field, ...) int64_t field;
    CONFIG_TABLE(T, N)
#undef T
#undef N
};

enum config_action { CONFIG_RUN, CONFIG_HELP, CONFIG_PRINT, CONFIG_VERSION };

/*
 * Defaults, then the environment, then flags (--name VALUE or --name=VALUE). ERR_INVALID names the setting, what was wrong and
 * what would be right. Unknown PROTEUS_* variables are added to `warnings`, a line each. The caller owns *ret (config_done).
 */
bool config_read(int argc, char **argv, char **environment, struct config *ret, enum config_action *ret_action,
                 struct buf *warnings, struct err *err) MUST_CHECK;
void config_done(struct config *c);
void config_help(struct buf *to);
void config_print(const struct config *c, struct buf *to);    /* name=value lines; secrets as *** */
DEFINE_CLEANUP(config, struct config, config_done(it))
