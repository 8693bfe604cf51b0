/*
 * A bundle checked offline against a key that the caller already holds. Nothing in it is believed before the signatures over
 * certificate.json and manifest.json have been checked with that key. The certificate has the digests of what was judged, the
 * manifest those of all files beside it; what neither signature covers (tar headers, order, padding, a signature's own comment) must
 * be, byte by byte, as the service lays it. So there is no byte in a bundle that can be changed and not be found.
 */
#pragma once
#include "core/json.h"
#include "core/tar.h"

#define BUNDLE_MAX_FILES 64
#define VERIFY_MAX_KEYS 16

struct bundle_file { const char *name; const char *data; size_t size; };   /* borrowed */
struct bundle {
    int count;
    struct bundle_file files[BUNDLE_MAX_FILES];
    const char *archive;            /* the bytes it came in, borrowed; NULL: from files, there are none to compare */
    bool beside;                    /* the archive lay beside the files: it must hold them */
    size_t archive_size;
};
/* entries: room for BUNDLE_MAX_FILES; the bundle borrows from them and from the archive. */
bool bundle_parse(const char *archive, size_t size, struct tar_entry *entries, struct bundle *ret, struct err *err) MUST_CHECK;
/* Its files as a service lays them. */
void bundle_archive(const struct bundle *b, struct buf *to);

/* One check and how it went; `text` says what was looked at. All of them are reported, in order; any may hold hostile text. */
typedef void verify_report(void *ctx, bool ok, const char *check, const char *text);
/*
 * key: one or more public key files, one behind the other; each signature must be by one of them. wanted_hash: the shape hash that was asked for, or NULL. True if every check held; then *ret_certificate (new reference, may be
 * NULL) is the signed certificate.
 */
bool verify_bundle(const struct bundle *b, const char *key, size_t key_size, const char *wanted_hash, verify_report *report, void *ctx,
                   json_t **ret_certificate) MUST_CHECK;
