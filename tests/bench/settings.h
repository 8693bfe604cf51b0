/* What the two files of bench_settings share: settings.c packs kernels, settings_run.c times them on a card or counts in the emulator. */
#pragma once
#include "core/shape.h"

#define SETTINGS_SEED 20261130

extern struct op_set ops;
void die(const char *what, const char *why);
void write_file(const char *path, const void *data, size_t bytes);
void read_file(const char *path, struct buf *to);
void write_json(const char *path, const json_t *doc);
void read_json(const char *path, json_t **ret);
void take_shape(const json_t *doc, struct shape *s, struct tensor *tensors);

int run_time(const char *dir, const char *out, const char *card, int64_t seconds);
int run_count(const char *dir, const char *out);
