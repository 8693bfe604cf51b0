/*
 * What the commands of `proteus` share: the table of commands, the session, how an answer becomes output and an exit status.
 * A command returns its exit status and has said everything there is to say.
 */
#pragma once
#include "api/cli/args.h"
#include "api/cli/client.h"
#include "api/cli/term.h"

/* X(code, number, when) */
#define EXIT_TABLE(X)                                                                                   \
    X(CLI_OK, 0, "it worked, or the answer is yes")                                                     \
    X(CLI_NO, 1, "the answer is no: a check failed, a job failed or was cancelled, there is no kernel") \
    X(CLI_USAGE, 2, "the command line is wrong")                                                        \
    X(CLI_REFUSED, 3, "the server refused the request (4xx)")                                           \
    X(CLI_UNREACHED, 4, "the server could not be reached, or its answer made no sense")                 \
    X(CLI_SERVER, 5, "the server failed (5xx)")                                                         \
    X(CLI_LOCAL, 6, "a file could not be read or written here")                                         \
    X(CLI_PARTLY, 7, "verify --rerun: right here too, but its speed could not be measured here")                \
    X(CLI_INTERRUPTED, 130, "interrupted; a job goes on without us")
enum cli_exit {
#define X(code, number, when) code = number,
    EXIT_TABLE(X)
#undef X
};

struct cli {
    struct client client;
    struct args args;
    bool json;
    const char *command;
};

struct command {
    const char *name, *usage, *what;
    int words_min, words_max;
    const struct option_spec *options;
    int (*run)(struct cli *cli);
};
extern const struct command commands[];

int cmd_submit(struct cli *cli);
int cmd_watch(struct cli *cli);
int cmd_jobs(struct cli *cli);
int cmd_cancel(struct cli *cli);
int cmd_add(struct cli *cli);
int cmd_candidate(struct cli *cli);
int cmd_kernels(struct cli *cli);
int cmd_fetch(struct cli *cli);
int cmd_quarantine(struct cli *cli);
int cmd_restore(struct cli *cli);
int cmd_revalidate(struct cli *cli);
int cmd_release(struct cli *cli);
int cmd_refuse(struct cli *cli);
int cmd_verify(struct cli *cli);
int cmd_sets(struct cli *cli);
int cmd_observe(struct cli *cli);
int cmd_lessons(struct cli *cli);
int cmd_ops(struct cli *cli);
int cmd_devices(struct cli *cli);
int cmd_hash(struct cli *cli);
int cmd_key(struct cli *cli);
int cmd_token(struct cli *cli);
int cmd_version(struct cli *cli);
extern const struct option_spec lessons_options[], sets_options[], observe_options[], standing_options[], reason_options[], revalidate_options[], release_options[], submit_options[], watch_options[], page_options[], add_options[], kernels_options[], fetch_options[],
    verify_options[], key_options[], shape_options[], token_options[], no_options[];

/* Prints "proteus COMMAND: text" on stderr; the exit status that fits the error. */
int cli_fail(const struct cli *cli, const struct err *err);
int cli_usage(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints an answer that is not 2xx: title, detail, each of errors[] with its pointer. Its exit status. */
int cli_problem(const struct cli *cli, const struct reply *r);
/* A call whose answer must be 2xx and JSON; else the exit status, everything said. */
int cli_get(const struct cli *cli, const char *path, struct reply *ret);
int cli_send(const struct cli *cli, const char *method, const char *path, const json_t *body, const char *header, struct reply *ret);

/* The bytes of a file, of whatever type; else the exit status, everything said. */
int cli_file(const struct cli *cli, const char *path, struct reply *ret);

/* Follows a job's events until it has ended (watch.c). */
int watch_job(struct cli *cli, const char *id);

/*
 * The shape that --op, --axes, --dtype and --target name, or FILE of --shape: {"op","axes",...}; new reference, NULL with *ret_exit.
 * The n-th --axes is used. Names and numbers are checked by the service alone; here only their form.
 */
json_t *shape_from_args(const struct cli *cli, int n, int *ret_exit);
/* {"preset","tp"?,"batch"?} that --model (or the word), --tp and --batch name; new reference, NULL with *ret_exit. */
json_t *model_from_args(const struct cli *cli, const char *preset, int *ret_exit);
/* A file, or stdin for "-", up to 64 MiB. */
bool text_read(const char *path, struct buf *ret, struct err *err) MUST_CHECK;
/* Adds "NAME=VALUE,NAME=VALUE" to the object, as integers or as strings. */
bool pairs_add(json_t *to, const char *text, bool integers, struct err *err) MUST_CHECK;

/* ---- reading answers; each takes what is not there for absent ---- */
struct speedup { double median, low, high; };               /* 0: none; low and high may be 0 */
struct speedup doc_speedup(const json_t *doc);
const char *doc_verdict(const json_t *doc);                 /* "ok", "wrong_result", ...; NULL */
void speedup_text(struct buf *to, struct speedup s);        /* "1.83x [1.79, 1.87]" */
/* "measured" as it is; anything else as an estimate: an emulated figure is never shown as a measurement. */
const char *evidence_word(const json_t *doc);
const char *baseline_words(const char *of);              /* whose baseline a speed-up is over; of: "operator", "other", "" */
/* Of a job with its own baseline: that the speed-up is over that, and what the shape's best came to beside the operator's. Else nothing. */
void serving_text(struct buf *to, const json_t *shape);
/* "3.21 us", with "~" before it unless it was measured; nothing where there is no time. */
void time_text(struct buf *to, const json_t *doc);
/* "B=4 H=2 HV=8 ..." */
void axes_text(struct buf *to, const json_t *axes);
