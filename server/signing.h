/*
 * The signing key and the store belong together: what the store holds was signed with it. The store remembers the public key (record
 * "signing-key" of STORE_META), so that a lost or another key is an error at the start and not a surprise to those who verify.
 */
#pragma once
#include "core/minisign.h"
#include "store/store.h"

/*
 * signer_open for the store of the same folder. ERR_UNAVAILABLE when the store has seen another key or has kernels and there is no
 * key file, unless accept_new: then the key (a new one where there is none) is taken from now on, and the log says so.
 */
bool signing_open(const char *dir, struct store *store, bool accept_new, struct signer *ret, struct err *err) MUST_CHECK;
