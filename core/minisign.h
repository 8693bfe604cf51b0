/*
 * Signatures in minisign's format (prehashed, "ED"): Ed25519 over the BLAKE2b-512 of the exact bytes, with a signed trusted comment.
 * Debian's `minisign -Vm FILE -p KEY` verifies them. Stateless; safe in all threads.
 */
#pragma once
#include "core/buf.h"

struct signer {
    unsigned char key_number[8];
    unsigned char public_key[32];
    unsigned char secret_key[64];
};
/* Reads DIR/signing.key (0600), makes it on first use. */
bool signer_open(const char *dir, struct signer *ret, struct err *err) MUST_CHECK;
void signer_done(struct signer *s);                      /* wipes */
void signer_public_file(const struct signer *s, struct buf *to);   /* two lines, minisign's .pub */
/* Appends the .minisig text. trusted_comment: printable, no newline, at most 8192 characters. */
void signer_sign(const struct signer *s, const void *data, size_t size, const char *trusted_comment, struct buf *to);

/* ERR_INVALID says what is wrong (format, other key, signature, trusted comment). ret_comment may be NULL. */
bool minisign_verify(const char *public_file, size_t public_size, const char *signature, size_t signature_size,
                     const void *data, size_t size, struct buf *ret_comment, struct err *err) MUST_CHECK;
