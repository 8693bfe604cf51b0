/* The command line of `proteus-gpu emulate`: one table for parsing and for --help. */
#include "gpu/emulate/emulate.h"

#include <stddef.h>
#include <string.h>

enum flag_kind { FLAG_VALUE, FLAG_REPEATED, FLAG_SWITCH };
#define AT(field) offsetof(struct emulate_options, field)
static const struct { const char *name, *value; enum flag_kind kind; size_t at; const char *text; } flags[] = {
    {"--plan", "FILE|JSON", FLAG_VALUE, AT(plan), "a launch plan: a candidate without its source, {\"plan\":..}, or {\"steps\":[..]} alone"},
    {"--shape", "FILE|JSON", FLAG_VALUE, AT(shape), "{\"op\",\"axes\",\"dtypes\"?,\"target\"?}: inputs and reference are the operator's"},
    {"--regime", "NAME", FLAG_VALUE, AT(regime), "of the operator's inputs (default: its first)"},
    {"--ops-dir", "DIR", FLAG_VALUE, AT(ops_dir), "the operators' folders (default: $PROTEUS_OPS_DIR, else beside the program)"},
    {"--kernel", "NAME", FLAG_VALUE, AT(kernel), "without a plan: what to launch"},
    {"--grid", "X[,Y[,Z]]", FLAG_VALUE, AT(grid), "blocks (default: 1)"},
    {"--block", "X[,Y[,Z]]", FLAG_VALUE, AT(block), "threads of a block (default: what the kernel requires, else 32)"},
    {"--cluster", "X[,Y[,Z]]", FLAG_VALUE, AT(cluster), "blocks of a cluster"},
    {"--shared", "BYTES", FLAG_VALUE, AT(shared), "dynamic shared memory"},
    {"--cooperative", NULL, FLAG_SWITCH, AT(cooperative), "a cooperative launch: grid barriers work"},
    {"--buffer", "NAME=BYTES[:WHAT[:ro]]", FLAG_REPEATED, AT(buffers),
     "memory; WHAT: random (f32 in [-1,1)), bytes, zeros, index (i32 0,1,2..), uninit (the default: nobody wrote it); ro: read-only"},
    {"--arg", "VALUE", FLAG_REPEATED, AT(args), "the kernel's arguments in order: a buffer's name, NAME+BYTES, 42, -1, 0xff, 1.5"},
    {"--define", "NAME=VALUE", FLAG_REPEATED, AT(defines), "for compiling (also over the plan's own)"},
    {"--target", "SM", FLAG_VALUE, AT(target), "for what cards to compile (default: the shape's, else sm_90a)"},
    {"--cuda-home", "DIR", FLAG_VALUE, AT(cuda_home), "the CUDA toolkit, for .cu files (default: $CUDA_HOME, else /usr/local/cuda)"},
    {"--schedules", "N", FLAG_VALUE, AT(schedules), "in how many orders warps take turns, one run each; in half of them the lanes of a warp go apart (default: 4)"},
    {"--seed", "N", FLAG_VALUE, AT(seed), "of inputs, memory and schedules: equal seeds, equal runs (default: 1)"},
    {"--instructions", "N", FLAG_VALUE, AT(instructions), "thread instructions of one launch after which it is an endless loop (default: 20000000000)"},
    {"--threads", "N", FLAG_VALUE, AT(threads), "host threads (default: one a CPU)"},
    {"--device", "NAME", FLAG_VALUE, AT(device), "H100, H200, B200 or A100: estimates the time of each launch there (an estimate, no measurement)"},
    {"--lines", NULL, FLAG_SWITCH, AT(by_line), "what each source line did, most instructions first"},
    {"--sarif", "FILE", FLAG_VALUE, AT(sarif), "the findings as SARIF 2.1.0, for CI systems; - for stdout"},
    {"--help", NULL, FLAG_SWITCH, AT(help), "this text"},
};
#define FLAGS (sizeof flags / sizeof *flags)

void emulate_help(FILE *to)
{
    fprintf(to, "usage: proteus-gpu emulate FILE.cu|FILE.ptx --plan PLAN --shape SHAPE [FLAGS]\n"
                "       proteus-gpu emulate FILE.cu|FILE.ptx --kernel NAME [--grid ..] [--block ..] [--buffer ..] [--arg ..] [FLAGS]\n\n"
                "Runs the kernel on the CPU and checks every access: bounds, unwritten memory and registers, alignment, read-only buffers,\n"
                "races in shared and global memory, barriers. With a shape its results are compared with the operator's reference.\n"
                "Needs no GPU. Exit status: 0 clean, 1 findings, 2 wrong use, an instruction that is not emulated, or a failure of ours.\n\n");
    for (size_t i = 0; i < FLAGS; i++)
        fprintf(to, "  %-14s %-22s %s\n", flags[i].name, flags[i].value ? flags[i].value : "", flags[i].text);
}

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "proteus-gpu emulate: %s %s; see proteus-gpu emulate --help\n", what, why);
    return false;
}

static bool take_flag(struct emulate_options *o, size_t f, const char *value)
{
    void *to = (char *)o + flags[f].at;
    if (flags[f].kind == FLAG_SWITCH) {
        *(bool *)to = true;
    } else if (flags[f].kind == FLAG_VALUE) {
        if (*(const char **)to)
            return complain(flags[f].name, "is given twice");
        *(const char **)to = value;
    } else {
        struct repeated *list = to;
        if (list->count == EMULATE_MAX_REPEATS)
            return complain(flags[f].name, "is given too often");
        list->values[list->count++] = value;
    }
    return true;
}

bool emulate_options_parse(int argc, char **argv, struct emulate_options *ret)
{
    *ret = (struct emulate_options){.file = NULL};
    for (int i = 0; i < argc; i++) {
        size_t f = 0;
        if (strncmp(argv[i], "--", 2) != 0) {
            if (ret->file)
                return complain(argv[i], "is a second file");
            ret->file = argv[i];
            continue;
        }
        while (f < FLAGS && strcmp(flags[f].name, argv[i]) != 0)
            f++;
        if (f == FLAGS)
            return complain(argv[i], "is no flag");
        const bool takes = flags[f].kind != FLAG_SWITCH;
        if (takes && i + 1 == argc)
            return complain(argv[i], "needs a value");
        if (!take_flag(ret, f, takes ? argv[i + 1] : NULL))
            return false;
        i += takes;
    }
    if (ret->help)
        return true;
    if (!ret->file)
        return complain("a FILE", "is needed");
    if (!ret->plan != !ret->shape)
        return complain("--plan and --shape", "go together");
    if (ret->plan && ret->kernel)
        return complain("--plan and --kernel", "exclude each other");
    if (!ret->plan && !ret->kernel)
        return complain("--plan with --shape, or --kernel", "is needed");
    if (ret->plan && (ret->grid || ret->block || ret->cluster || ret->shared || ret->cooperative || ret->buffers.count || ret->args.count))
        return complain("--grid, --block, --cluster, --shared, --cooperative, --buffer and --arg", "are for --kernel: a plan says that itself");
    if (ret->kernel && ret->regime)
        return complain("--regime", "needs a shape");
    return true;
}
