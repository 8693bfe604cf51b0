/*
 * proteus: the command line of the HTTP API. It holds no logic that the service lacks: it sends what it was told, shows what came
 * back, and checks signatures offline.
 */
#include "api/cli/cli.h"
#include "core/hash.h"

#include <curl/curl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>

static const struct option_spec global_options[] = {
    {"server", "URL", "the service (PROTEUS_SERVER; http://127.0.0.1:7070)"},
    {"token", "TOKEN", "a token (PROTEUS_TOKEN); others on this machine may see it in the list of processes: prefer a file"},
    {"token-file", "FILE", "a file that holds the token (PROTEUS_TOKEN_FILE)"},
    {"timeout", "SECONDS", "of a request (60)"},
    {"json", NULL, "the service's own JSON, one document a line"},
    {"help", NULL, "this text"},
    {"h", NULL, NULL},
    {0}};

const struct command commands[] = {
    {"submit", "--op NAME --axes B=4,H=2,...", "ask for kernels for one or more shapes", 0, 0, submit_options, cmd_submit},
    {"watch", "JOB", "follow a job until it has ended", 1, 1, watch_options, cmd_watch},
    {"jobs", "[JOB]", "list jobs, or show one", 0, 1, page_options, cmd_jobs},
    {"cancel", "JOB", "cancel a job", 1, 1, no_options, cmd_cancel},
    {"add", "JOB FILE.json|FILE.cu", "send a candidate of your own to a job of generator external", 2, 2, add_options, cmd_add},
    {"candidate", "CANDIDATE", "show a candidate and its verdict", 1, 1, no_options, cmd_candidate},
    {"kernels", "[SHAPE_HASH]", "list the kernels that there are, or show one's manifest", 0, 1, kernels_options, cmd_kernels},
    {"sets", "[PRESET --tp N --batch N]", "the kernels of a model's decode step and what is missing; the presets there are", 0, 1, sets_options, cmd_sets},
    {"observe", "[FILE]", "import shapes that an engine logged, with their counts; without a file: what a search would save most at", 0, 1, observe_options, cmd_observe},
    {"lessons", "[search WORDS | show LESSON | add FILE.json | retire LESSON | steps | undo STEP | notes SHAPE_HASH]", "what was learnt: look for it, propose it, end it", 0, 2, lessons_options, cmd_lessons},
    {"fetch", "SHAPE_HASH | --op NAME --axes ...", "fetch a kernel's bundle and verify it", 0, 1, fetch_options, cmd_fetch},
    {"verify", "BUNDLE.tar|DIR --key FILE", "check a bundle offline against a key that you hold; --rerun: judge it again here", 1, 1, verify_options, cmd_verify},
    {"quarantine", "SHAPE_HASH --reason TEXT", "withdraw a shape's kernel at once (admin scope)", 1, 1, standing_options, cmd_quarantine},
    {"restore", "SHAPE_HASH", "bring a withdrawn kernel back (admin scope)", 1, 1, standing_options, cmd_restore},
    {"revalidate", "SHAPE_HASH", "have a shape's kernel judged again (admin scope)", 1, 1, revalidate_options, cmd_revalidate},
    {"release", "CANDIDATE", "let a held candidate go on to its retest (admin scope)", 1, 1, release_options, cmd_release},
    {"refuse", "CANDIDATE --reason TEXT", "refuse a held candidate for good (admin scope)", 1, 1, reason_options, cmd_refuse},
    {"ops", "[NAME]", "list the operators, or print one's op.json", 0, 1, no_options, cmd_ops},
    {"devices", "", "list the devices that judge kernels", 0, 0, no_options, cmd_devices},
    {"hash", "--op NAME --axes ...", "the shape hash, and the text that it is of", 0, 0, shape_options, cmd_hash},
    {"key", "", "the service's public key, to be pinned: `key --output FILE`", 0, 0, key_options, cmd_key},
    {"token", "list | create | revoke ID", "manage tokens (admin scope)", 1, 2, token_options, cmd_token},
    {"version", "", "print the version", 0, 0, no_options, cmd_version},
    {0}};

static void print_options(const struct option_spec *options)
{
    for (; options->name; options++) {
        if (!options->help)
            continue;
        cleanup(str) char *left = xfmt("--%s%s%s", options->name, options->value ? " " : "", options->value ? options->value : "");
        printf("  %-26s %s\n", left, options->help);
    }
}

static void help_all(void)
{
    printf("proteus %s: kernels for exact shapes, found, judged and signed by a Proteus service\n\nusage: proteus COMMAND [OPTIONS]\n\n",
           PROTEUS_VERSION);
    for (const struct command *c = commands; c->name; c++)
        printf("  %-10s %s\n", c->name, c->what);
    printf("\nfor all commands:\n");
    print_options(global_options);
    printf("\nexit status:\n");
#define X(code, number, when) printf("  %-4d %s\n", number, when);
    EXIT_TABLE(X)
#undef X
    printf("\n`proteus COMMAND --help` says more.\n");
}

static void help_command(const struct command *c)
{
    printf("usage: proteus %s %s\n%s\n", c->name, c->usage, c->what);
    if (c->options->name)
        printf("\n");
    print_options(c->options);
    printf("\nfor all commands:\n");
    print_options(global_options);
}

int cmd_version(struct cli *cli)
{
    if (cli->json)
        printf("{\"version\":\"%s\"}\n", PROTEUS_VERSION);
    else
        printf("proteus %s\n", PROTEUS_VERSION);
    return CLI_OK;
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    client_interrupted = 1;
}

/* The token from its file: one line, in visible ASCII, so that it cannot add a header of its own. */
static bool token_take(struct cli *cli, struct buf *store, struct err *err)
{
    const char *path = args_or(&cli->args, "token-file", "PROTEUS_TOKEN_FILE", NULL);
    cli->client.token = args_or(&cli->args, "token", "PROTEUS_TOKEN", NULL);
    if (!cli->client.token && path) {
        if (!file_read(path, 4096, store, err))
            return false;
        buf_cstr(store);
        store->data[strcspn(store->data, "\r\n")] = 0;
        cli->client.token = store->data;
    }
    for (const char *c = cli->client.token; c && *c; c++)
        if (*c <= ' ' || *c >= 127)
            return err_set(err, ERR_INVALID, "the token holds a character that no token has");
    return true;
}

static int run(struct cli *cli, const struct command *c)
{
    cleanup(buf) struct buf token = {0};
    struct err err = {0};
    int64_t timeout_s = 60;
    cli->json = args_has(&cli->args, "json");
    cli->client.server = args_or(&cli->args, "server", "PROTEUS_SERVER", "http://127.0.0.1:7070");
    if (!args_int(&cli->args, "timeout", 1, &timeout_s, &err))
        return cli_usage(cli, "%s", err.text);
    cli->client.timeout_s = timeout_s > 86400 ? 86400 : (int)timeout_s;
    if (strncmp(cli->client.server, "http://", 7) != 0 && strncmp(cli->client.server, "https://", 8) != 0)
        return cli_usage(cli, "\"%s\" is not the address of a server: wanted http://HOST:PORT", cli->client.server);
    if (!token_take(cli, &token, &err))
        return cli_fail(cli, &err);
    if (cli->args.count < c->words_min || cli->args.count > c->words_max)
        return cli_usage(cli, "wanted: proteus %s %s", c->name, c->usage);
    return c->run(cli);
}

int main(int argc, char **argv)
{
    struct cli cli = {0};
    struct err err = {0};
    setlocale(LC_CTYPE, "C.UTF-8");
    term_init();
    hash_init();
    curl_global_init(CURL_GLOBAL_DEFAULT);
    signal(SIGPIPE, SIG_DFL);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, NULL);
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help_all();
        return argc < 2 ? CLI_USAGE : CLI_OK;
    }
    /* What holds for all commands may stand before the command. */
    const int first = !strcmp(argv[1], "--version") ? 0 : args_first_word(argc - 1, argv + 1, global_options), at = first < 0 ? 1 : first + 1;
    for (int i = 1; first == argc - 1 && i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            help_all();
            return CLI_OK;
        }
    if (first == argc - 1)
        return cli_usage(&cli, "there is no command; `proteus --help` lists them");
    const char *name = !strcmp(argv[at], "--version") ? "version" : argv[at];
    cleanup(mem) void *memory = xarray((size_t)argc, sizeof(char *));
    char **rest = memory;
    memcpy(rest, argv + 1, (size_t)(at - 1) * sizeof *rest);
    memcpy(rest + at - 1, argv + at + 1, (size_t)(argc - at - 1) * sizeof *rest);
    const struct command *c = commands;
    while (c->name && strcmp(c->name, name) != 0)
        c++;
    if (!c->name)
        return cli_usage(&cli, "there is no command %s", name);
    cli.command = c->name;
    const struct option_spec *const tables[] = {c->options, global_options, NULL};
    if (!args_parse(argc - 2, rest, tables, &cli.args, &err))
        return cli_usage(&cli, "%s", err.text);
    if (args_has(&cli.args, "help") || args_has(&cli.args, "h")) {
        help_command(c);
        return CLI_OK;
    }
    int status = run(&cli, c);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "proteus: the output could not be written\n");
        return CLI_LOCAL;
    }
    curl_global_cleanup();
    return status;
}
