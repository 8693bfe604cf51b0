/*
 * A bundle checked offline against a key that the caller already holds. Nothing in the bundle is believed before the signature over
 * certificate.json has been checked with that key; every other file counts only through its digest in the certificate.
 */
#pragma once
#include "core/json.h"

#define BUNDLE_MAX_FILES 64

struct bundle_file { const char *name; const char *data; size_t size; };   /* borrowed */
struct bundle { int count; struct bundle_file files[BUNDLE_MAX_FILES]; };

/* One check and how it went; `text` says what was looked at. All of them are reported, in order; any may hold hostile text. */
typedef void verify_report(void *ctx, bool ok, const char *check, const char *text);
/*
 * wanted_hash: the shape hash that was asked for, or NULL. True if every check held; then *ret_certificate (new reference, may be
 * NULL) is the signed certificate.
 */
bool verify_bundle(const struct bundle *b, const char *key, size_t key_size, const char *wanted_hash, verify_report *report, void *ctx,
                   json_t **ret_certificate) MUST_CHECK;
