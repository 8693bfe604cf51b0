/*
 * The commands of proteus-gpu, between its files: main.c (flags, table, devices, self-test), command_serve.c (what speaks frames),
 * command_file.c (a candidate, for people), command_ops.c (operators). Each returns the exit status.
 */
#pragma once
#include "gpu/judge/judge.h"

struct command_options {
    const char *ops_dir, *cuda_home, *python, *device, *sandbox_minimum, *need, *threads, *card_lock;
    const char *shape, *candidate, *baseline, *mode, *target, *op_digest;
    const char *corpus, *only, *shard, *part, *json, *resume, *jobs, *merge;
    int argument_count;
    char **arguments;               /* what is left: files */
};

/* Says it on stderr. 1. */
int command_fail(const char *what, const struct err *err);
/* Says it as a frame. 1. */
int command_serve_error(int fd, const struct err *err);

int command_serve_devices(const struct command_options *o, const struct judge_config *c);
int command_serve_op(const struct command_options *o, const struct judge_config *c);
int command_serve_estimates(const struct command_options *o, const struct judge_config *c);
int command_serve_profile(const struct command_options *o, const struct judge_config *c);
int command_judge(const struct command_options *o, const struct judge_config *c);
int command_judge_file(const struct command_options *o, const struct judge_config *c);
int command_profile_file(const struct command_options *o, const struct judge_config *c);
int command_golden(const struct command_options *o, const struct judge_config *c);
int command_canaries(const struct command_options *o, const struct judge_config *c);
