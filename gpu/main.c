/*
 * proteus-gpu: judges one candidate and exits; also lists devices and checks operators, golden files and itself. Flags and commands are
 * tables; what the commands do stands in files of their own (commands.h).
 */
#include "gpu/commands.h"
#include "gpu/emulate/emulate.h"
#include "gpu/selftest_result.h"

#include <malloc.h>
#include <signal.h>
#include <string.h>

#define FLAG(field) offsetof(struct command_options, field)
static const struct { const char *name, *value; size_t at; const char *text; } flags[] = {
    {"--ops-dir", "DIR", FLAG(ops_dir), "the operators' folders (default: $PROTEUS_OPS_DIR, else beside the program)"},
    {"--cuda-home", "DIR", FLAG(cuda_home), "the CUDA toolkit (default: $CUDA_HOME, else /usr/local/cuda)"},
    {"--python", "PROGRAM", FLAG(python), "the python whose Triton compiles candidates in Triton (default: $PROTEUS_PYTHON, else python3)"},
    {"--device", "NAME", FLAG(device), "auto, sim, cuda:N, or several cards, comma between: a retest goes to another than the first where one is free (default: auto; selftest: sim)"},
    {"--sandbox-minimum", "LEVEL", FLAG(sandbox_minimum),
     "none, limits, filtered or isolated: refuse to run below it (default: none)"},
    {"--need", "LIST", FLAG(need), "what a verdict on a card must rest on: audit, watch, private-memory, emulation, or none (default: " NEEDS_DEFAULT ")"},
    {"--threads", "N", FLAG(threads), "host threads of the emulator (default: one a CPU)"},
    {"--card-lock", "FILE", FLAG(card_lock), "judgements that share cards share this file, \".cuda:N\" behind it for each, and take turns (default: the cards are ours)"},
    {"--shape", "JSON|@FILE", FLAG(shape), "judge-file: {\"op\",\"axes\",\"dtypes\"?,\"target\"?}"},
    {"--candidate", "FILE", FLAG(candidate),
     "judge-file: a candidate as JSON, or a folder with baseline.json and baseline.cu"},
    {"--baseline", "FILE|none", FLAG(baseline), "judge-file: what to compare with (default: the operator's own)"},
    {"--op-digest", "HEX", FLAG(op_digest), "judge-file: refuse where the operator is another one than this"},
    {"--mode", "MODE", FLAG(mode), "judge-file: triage, full or retest (default: full)"},
    {"--target", "SM", FLAG(target), "golden, judge-file: for what cards to compile (default: sm_90a)"},
    {"--corpus", "DIR", FLAG(corpus), "selftest: folder with attacks/ and honest/ (default: beside the operators)"},
    {"--only", "NAME,...", FLAG(only), "selftest: these cases"},
    {"--part", "PART", FLAG(part), "selftest: all, or fast: a case for each kind of defence (default: all)"},
    {"--shard", "K/N", FLAG(shard), "selftest: every N-th case, from the K-th"},
    {"--jobs", "N", FLAG(jobs), "selftest: judges at the same time (default: one a CPU; beside a card, which one at a time has, three of four)"},
    {"--merge", "FILE", FLAG(merge),
     "selftest: runs nothing; writes the table of the results in the files given (each by --resume) to FILE, - for stdout"},
    {"--resume", "FILE", FLAG(resume), "selftest: keep results in FILE; cases whose results are there are not run again"},
    {"--json", "FILE", FLAG(json), "selftest: write results as JSON; judge-file: verdict, figures and certificate"},
};

static int command_devices(const struct command_options *o, const struct judge_config *c);
static int command_selftest(const struct command_options *o, const struct judge_config *c);

static const struct {
    const char *name, *arguments, *text;
    int (*run)(const struct command_options *, const struct judge_config *);
    bool needs_ops;
} commands[] = {
    {"devices", "", "prints the devices as a JSON array", command_devices, false},
    {"judge", "", "judges one task from stdin, in frames (gpu/wire.h)", command_judge, true},
    {"judge-file", "--shape .. --candidate ..", "the same for people: prints phases, verdict and figures",
     command_judge_file, true},
    {"profile-file", "--shape .. --candidate ..", "prints what the card's counters say of a candidate, as JSON", command_profile_file, true},
    {"golden", "FILE...", "checks operators' references and baselines against golden files", command_golden, true},
    {"canaries", "[OP|DIR]...", "checks that operators tell wrong results from right ones (default: all of them)", command_canaries, true},
    {"selftest", "", "runs the red-team corpus: attacks must be caught, honest kernels accepted", command_selftest, true},
    {"serve-devices", "", "devices, sandbox and toolkit as one frame", command_serve_devices, false},
    {"serve-estimates", "", "estimates of several candidates from stdin, in frames", command_serve_estimates, true},
    {"serve-profile", "", "a profile of one candidate from stdin, in frames", command_serve_profile, true},
    {"serve-op", "", "builds and checks an operator from stdin, in frames", command_serve_op, false},
};

static void print_help(FILE *to)
{
    fprintf(to, "usage: proteus-gpu COMMAND [FLAGS]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-15s %-26s %s\n", commands[i].name, commands[i].arguments, commands[i].text);
    fprintf(to, "  %-15s %-26s %s\n", "emulate", "FILE ..", "checks a kernel on the CPU, without a GPU; see proteus-gpu emulate --help");
    fprintf(to, "\n");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        fprintf(to, "  %-18s %-10s  %s\n", flags[i].name, flags[i].value, flags[i].text);
    fprintf(to, "  --version, --help\n");
}

int command_fail(const char *what, const struct err *err)
{
    fprintf(stderr, "proteus-gpu: %s%s%s\n", what, *what ? ": " : "", err->text);
    return 1;
}

static bool parse_flags(int argc, char **argv, struct command_options *o)
{
    for (int i = 2; i < argc; i++) {
        size_t f = 0;
        if (strncmp(argv[i], "--", 2) != 0) {
            o->arguments[o->argument_count++] = argv[i];
            continue;
        }
        while (f < sizeof flags / sizeof *flags && strcmp(flags[f].name, argv[i]) != 0)
            f++;
        if (f == sizeof flags / sizeof *flags || i + 1 == argc) {
            fprintf(stderr, "proteus-gpu: %s %s; see proteus-gpu --help\n", argv[i],
                    i + 1 == argc && f < sizeof flags / sizeof *flags ? "needs a value" : "is no flag");
            return false;
        }
        memcpy((char *)o + flags[f].at, &argv[++i], sizeof(char *));
    }
    return true;
}

/* ---- devices ---- */

static int command_devices(const struct command_options *o, const struct judge_config *c)
{
    (void)o, (void)c;
    cleanup(json) json_t *list = NULL;
    cleanup(buf) struct buf text = {0};
    struct err err = {0};
    if (!device_list(&list, &err))
        return command_fail("devices", &err);
    json_write_pretty(&text, list);
    fputs(buf_cstr(&text), stdout);
    return 0;
}

/* ---- selftest ---- */

static int command_selftest(const struct command_options *o, const struct judge_config *c)
{
    const struct selftest_options s = {.ops = c->ops, .ops_dir = o->ops_dir, .cuda_home = o->cuda_home, .sandbox_minimum = o->sandbox_minimum, .need = o->need,
                                       .device = o->device && *o->device ? o->device : "sim", .corpus = o->corpus, .only = o->only,
                                       .shard = o->shard, .part = o->part, .json = o->json, .resume = o->resume, .jobs = o->jobs,
                                       .threads = o->threads, .card_lock = o->card_lock};
    if (!o->merge)
        return selftest_run(&s);
    struct selftest_totals t = {0};
    struct err err = {0};
    if (!selftest_merge(&s, o->merge, o->argument_count, o->arguments, &t, &err))
        return command_fail("selftest", &err);
    printf("%d of %d attacks caught, %d of %d honest kernels accepted\n", t.caught, t.attacks, t.accepted, t.honest);
    return t.caught == t.attacks && t.accepted == t.honest && !t.not_fooled ? 0 : 1;
}

/* ---- main ---- */

static bool load_ops(const struct command_options *o, struct op_set *ret, struct err *err)
{
    const char *given = o->ops_dir && *o->ops_dir ? o->ops_dir : getenv("PROTEUS_OPS_DIR");
    cleanup(str) char *dir = given && *given ? xstrdup(given) : op_default_dir();
    return op_set_load(dir, ret, err);
}

static void print_help_command(size_t which)
{
    printf("usage: proteus-gpu %s %s\n%s\n\n", commands[which].name, commands[which].arguments, commands[which].text);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        printf("  %-18s %-10s  %s\n", flags[i].name, flags[i].value, flags[i].text);
}

static int run_command(size_t which, int argc, char **argv)
{
    cleanup(mem) void *arguments = xarray((size_t)argc, sizeof(char *));
    cleanup(op_set) struct op_set ops = {0};
    struct command_options o = {.arguments = arguments};
    struct err err = {0};
    if (argc > 2 && strcmp(argv[2], "--help") == 0) {
        print_help_command(which);
        return 0;
    }
    if (!parse_flags(argc, argv, &o))
        return 2;
    char *end = NULL;
    long threads = o.threads ? strtol(o.threads, &end, 10) : 0;
    if (o.threads && (*end || !*o.threads || threads < 1 || threads > 256)) {
        fprintf(stderr, "proteus-gpu: --threads must be 1 to 256\n");
        return 2;
    }
    const struct judge_config c = {.ops = &ops,
                                   .cuda_home = o.cuda_home,
                                   .python = o.python,
                                   .device = o.device,
                                   .sandbox_minimum = o.sandbox_minimum,
                                   .need = o.need,
                                   .threads = (int)threads,
                                   .card_lock = o.card_lock};
    if (commands[which].needs_ops && !load_ops(&o, &ops, &err)) {
        if (commands[which].run == command_judge)
            command_serve_error(1, &err);
        return command_fail("operators", &err);
    }
    return commands[which].run(&o, &c);
}

int main(int argc, char **argv)
{
    /* Tensors of megabytes come and go many times: keep their pages instead of asking the kernel for zeroed ones each time.
       32 MiB is the most that glibc takes; a larger value is refused. */
    int taken = mallopt(M_MMAP_THRESHOLD, 32 << 20) && mallopt(M_TRIM_THRESHOLD, 1 << 30);
    BUG_ON(!taken);
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return child_main(argc, argv, NULL);
    signal(SIGPIPE, SIG_IGN);
    hash_init();
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--help") == 0 || strcmp(command, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(command, "--version") == 0) {
        printf("proteus-gpu %s\n", PROTEUS_VERSION);
        return 0;
    }
    if (strcmp(command, "emulate") == 0)
        return emulate_tool_main(argc - 2, argv + 2);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, command) == 0)
            return run_command(i, argc, argv);
    print_help(stderr);
    return 2;
}
