/* verify --rerun: a verified bundle judged again on this machine (rerun.c). */
#pragma once
#include "api/cli/cli.h"
#include "api/cli/verify.h"

/*
 * Prints old and new figures side by side (nothing with --json). CLI_OK: confirmed; CLI_PARTLY: right, its speed could not be measured
 * here; CLI_NO: not confirmed; CLI_LOCAL: it could not be judged here, everything said. *ret_doc: new reference, set unless CLI_LOCAL.
 */
int rerun(const struct cli *cli, const struct bundle *b, const json_t *certificate, json_t **ret_doc);
