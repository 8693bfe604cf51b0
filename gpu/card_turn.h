/*
 * Processes of one host that share a card take turns: who has locked the card's file has the card, until it lets go of it or dies. The
 * file is any that all of them name; nothing is written to it.
 */
#pragma once
#include "core/err.h"

typedef bool card_turn_cancelled(void *ctx);
/*
 * Waits for the turn. *ret_fd: close it to end the turn, or -1 where path is NULL or empty and there is nobody to wait for. ERR_CONFLICT
 * where cancelled (may be NULL) says so, ERR_UNAVAILABLE where the file cannot be opened.
 */
bool card_turn_wait(const char *path, card_turn_cancelled *cancelled, void *ctx, int *ret_fd, struct err *err) MUST_CHECK;
/* The same without waiting: ERR_CONFLICT where somebody else has it. */
bool card_turn_try(const char *path, int *ret_fd, struct err *err) MUST_CHECK;
