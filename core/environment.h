/*
 * The environment without what only this process is to know: keys and tokens of the service, and the names of files that hold them
 * (PROTEUS_..._KEY, PROTEUS_..._TOKEN, with or without _FILE). A judge handles code of strangers, and a runner may write its environment
 * into a log or send it to another host: neither is told.
 */
#pragma once
#include <stdbool.h>

bool environment_is_secret(const char *variable);       /* "NAME" or "NAME=value" */
/* The variables of `from` that a child may have: a list to free, its strings are those of `from`. */
char **environment_for_child(char *const *from);
/* Takes the secret ones out of this process's own environment, and overwrites their values where they lie. Before any thread is started. */
void environment_forget_secrets(void);
