/*
 * What a certificate must hold, as one table: all that a stranger needs to repeat the judgement. The judge's tests, `proteus verify`
 * and whoever writes one check it by the same rows, so that an item which is promised and not there is found.
 *
 * Beyond presence: evidence, mode and device say the same; a retest's processes, seeds, poisons and buffers are others than the first
 * judgement's and than each other's; of a hidden regime it holds that it was passed, and no figure.
 */
#pragma once
#include "core/json.h"

#define CERTIFICATE_OCCASIONS 3     /* of a retest on a card */
#define CERTIFICATE_OPERATORS "operator"   /* baseline/of: whose the baseline is, the operator's own */
#define CERTIFICATE_OTHERS "other"         /* or one that somebody brought: the speed-up says nothing about the operator's */
#define CERTIFICATE_FORMAT "proteus-certificate-v1"

/* ERR_INVALID names the first item that is missing or does not fit, by its path. */
bool certificate_check(const json_t *certificate, struct err *err) MUST_CHECK;
/* How many rows of the table count for this one (others are for measured ones, for retested ones). */
int certificate_items(const json_t *certificate);
/* Only that the retest was fresh; true where there was none. */
bool certificate_fresh(const json_t *certificate, struct err *err) MUST_CHECK;
/* Whose baseline its speed-up is over; "" where it was compared with none. */
const char *certificate_baseline_of(const json_t *certificate);
/* The record of one phase, borrowed; NULL: it was not run. */
const json_t *certificate_phase(const json_t *certificate, const char *name);
