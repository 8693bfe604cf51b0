/*
 * minisign's formats, written from their description: base64 of fixed layouts between comment lines.
 *
 *   key file        comment \n base64( "Ed" | key number 8 | public key 32 )
 *   signature file  comment \n base64( "ED" | key number 8 | signature 64 ) \n trusted comment \n base64( signature 64 )
 *
 * The first signature covers the BLAKE2b-512 of the data, the second one the first signature and the trusted comment's text.
 * Nothing of a signature file is believed before both have been checked. The secret key lies in a format of our own, without a
 * password: whoever can read the data folder could sign through the service anyway.
 */
#include "core/minisign.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define COMMENT "untrusted comment: "
#define TRUSTED "trusted comment: "
#define COMMENT_MAX_BYTES 8192
#define FILE_MAX_BYTES (16 * 1024)
#define PREHASH_BYTES 64

struct public_key {
    unsigned char algorithm[2];
    unsigned char key_number[8];
    unsigned char key[crypto_sign_PUBLICKEYBYTES];
};
struct secret_key {
    unsigned char algorithm[2];
    unsigned char key_number[8];
    unsigned char key[crypto_sign_SECRETKEYBYTES];
};
struct signature {
    unsigned char algorithm[2];
    unsigned char key_number[8];
    unsigned char bytes[crypto_sign_BYTES];
};
_Static_assert(sizeof(struct public_key) == 42 && sizeof(struct secret_key) == 74 && sizeof(struct signature) == 74, "no padding");

static void add_base64(struct buf *to, const void *data, size_t size)
{
    char text[160];
    BUG_ON(sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL) > sizeof text);
    sodium_bin2base64(text, sizeof text, data, size, sodium_base64_VARIANT_ORIGINAL);
    buf_str(to, text);
    buf_str(to, "\n");
    sodium_memzero(text, sizeof text);
}

/* The key number as minisign shows it: a little-endian number in hex. */
static void key_text(const unsigned char number[8], char ret[17])
{
    for (int i = 0; i < 8; i++)
        snprintf(ret + 2 * i, 3, "%02X", number[7 - i]);
}

/* ---- lines of a hostile text ---- */
struct line { const char *text; size_t size; };

/* Cuts the next line off; false at the end of the text. A carriage return before the newline is not part of the line. */
static bool next_line(struct line *rest, struct line *ret)
{
    if (!rest->size)
        return false;
    const char *end = memchr(rest->text, '\n', rest->size);
    size_t size = end ? (size_t)(end - rest->text) : rest->size, taken = end ? size + 1 : size;
    ret->text = rest->text;
    ret->size = size && rest->text[size - 1] == '\r' ? size - 1 : size;
    rest->text += taken;
    rest->size -= taken;
    return true;
}

static bool starts(struct line l, const char *prefix)
{
    return l.size >= strlen(prefix) && !memcmp(l.text, prefix, strlen(prefix));
}

/* Exactly `size` bytes in base64, nothing else on the line. */
static bool decode(struct line l, void *to, size_t size)
{
    unsigned char raw[128];
    size_t got = 0;
    const char *end = NULL;
    BUG_ON(size > sizeof raw);
    /* libsodium 1.0.18 takes some bytes above 127 for '/' */
    for (size_t i = 0; i < l.size; i++)
        if ((unsigned char)l.text[i] > 127)
            return false;
    if (sodium_base642bin(raw, sizeof raw, l.text, l.size, NULL, &got, &end, sodium_base64_VARIANT_ORIGINAL) != 0 || got != size ||
        end != l.text + l.size)
        return false;
    memcpy(to, raw, size);
    sodium_memzero(raw, sizeof raw);
    return true;
}

/* ---- the service's key ---- */
static bool signer_load(const char *path, const struct buf *text, struct signer *ret, struct err *err)
{
    struct line rest = {text->data, text->size}, line;
    struct secret_key secret;
    struct stat st;
    if (stat(path, &st) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "cannot look at %s", path);
    if (st.st_mode & 077)
        return err_set(err, ERR_UNAVAILABLE, "%s may be read by others: `chmod 600` it", path);
    bool ok = next_line(&rest, &line) && starts(line, COMMENT) && next_line(&rest, &line) && decode(line, &secret, sizeof secret) &&
              !memcmp(secret.algorithm, "Ed", 2);
    unsigned char seed[crypto_sign_SEEDBYTES], pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    if (ok) {   /* a damaged key would make signatures that nobody can verify */
        crypto_sign_ed25519_sk_to_seed(seed, secret.key);
        crypto_sign_seed_keypair(pk, sk, seed);
        ok = !sodium_memcmp(sk, secret.key, sizeof sk);
    }
    if (ok) {
        memcpy(ret->key_number, secret.key_number, sizeof ret->key_number);
        memcpy(ret->public_key, pk, sizeof ret->public_key);
        memcpy(ret->secret_key, sk, sizeof ret->secret_key);
    }
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(sk, sizeof sk);
    sodium_memzero(&secret, sizeof secret);
    return ok || err_set(err, ERR_UNAVAILABLE, "%s is not a signing key: restore it from a backup; or move it away and start once with --new-signing-key yes, and pin the new key wherever the old one was",
                         path);
}

static bool signer_make(const char *path, struct signer *ret, struct err *err)
{
    struct signer made;
    struct secret_key secret = {.algorithm = {'E', 'd'}};
    cleanup(buf) struct buf text = {0};
    char number[17];
    randombytes_buf(made.key_number, sizeof made.key_number);
    crypto_sign_keypair(made.public_key, made.secret_key);
    memcpy(secret.key_number, made.key_number, sizeof secret.key_number);
    memcpy(secret.key, made.secret_key, sizeof secret.key);
    key_text(made.key_number, number);
    buf_fmt(&text, COMMENT "proteus signing key %s, keep it secret\n", number);
    add_base64(&text, &secret, sizeof secret);
    bool ok = file_write(path, text.data, text.size, 0600, err);
    if (ok)
        *ret = made;
    sodium_memzero(text.data, text.size);
    sodium_memzero(&made, sizeof made);
    sodium_memzero(&secret, sizeof secret);
    return ok;
}

bool signer_open(const char *dir, struct signer *ret, struct err *err)
{
    BUG_ON(sodium_init() < 0);
    cleanup(str) char *path = xfmt("%s/signing.key", dir);
    cleanup(buf) struct buf text = {0};
    struct err failed = {0};
    if (!file_read(path, FILE_MAX_BYTES, &text, &failed)) {
        if (failed.code == ERR_NOT_FOUND)
            return signer_make(path, ret, err);
        if (err)
            *err = failed;
        return false;
    }
    bool ok = signer_load(path, &text, ret, err);
    if (text.size)
        sodium_memzero(text.data, text.size);
    return ok;
}

void signer_done(struct signer *s)
{
    sodium_memzero(s, sizeof *s);
}

void signer_public_file(const struct signer *s, struct buf *to)
{
    struct public_key key = {.algorithm = {'E', 'd'}};
    char number[17];
    memcpy(key.key_number, s->key_number, sizeof key.key_number);
    memcpy(key.key, s->public_key, sizeof key.key);
    key_text(s->key_number, number);
    buf_fmt(to, COMMENT "minisign public key %s\n", number);
    add_base64(to, &key, sizeof key);
}

/* ---- signing ---- */
void signer_sign(const struct signer *s, const void *data, size_t size, const char *trusted_comment, struct buf *to)
{
    size_t comment_bytes = strlen(trusted_comment);
    BUG_ON(comment_bytes > COMMENT_MAX_BYTES || strpbrk(trusted_comment, "\r\n"));
    unsigned char prehash[PREHASH_BYTES], both[crypto_sign_BYTES + COMMENT_MAX_BYTES], global[crypto_sign_BYTES];
    struct signature sig = {.algorithm = {'E', 'D'}};
    memcpy(sig.key_number, s->key_number, sizeof sig.key_number);
    crypto_generichash(prehash, sizeof prehash, data, size, NULL, 0);
    crypto_sign_detached(sig.bytes, NULL, prehash, sizeof prehash, s->secret_key);
    memcpy(both, sig.bytes, sizeof sig.bytes);
    memcpy(both + sizeof sig.bytes, trusted_comment, comment_bytes);
    crypto_sign_detached(global, NULL, both, sizeof sig.bytes + comment_bytes, s->secret_key);
    buf_str(to, COMMENT "signature from proteus\n");
    add_base64(to, &sig, sizeof sig);
    buf_fmt(to, TRUSTED "%s\n", trusted_comment);
    add_base64(to, global, sizeof global);
}

/* ---- verifying ---- */
static bool public_parse(const char *text, size_t size, struct public_key *ret, struct err *err)
{
    struct line rest = {text, size}, line = {0};
    if (size > FILE_MAX_BYTES || !next_line(&rest, &line))
        return err_set(err, ERR_INVALID, "the public key is empty or too large");
    if (starts(line, COMMENT) && !next_line(&rest, &line))
        return err_set(err, ERR_INVALID, "the public key's second line is missing");
    if (!decode(line, ret, sizeof *ret) || memcmp(ret->algorithm, "Ed", 2) != 0)
        return err_set(err, ERR_INVALID, "this is not a minisign public key: wanted a comment line, then 56 characters of base64");
    return true;
}

struct signature_file {
    struct signature sig;
    struct line comment;
    unsigned char global[crypto_sign_BYTES];
};
static bool signature_parse(const char *text, size_t size, struct signature_file *ret, struct err *err)
{
    struct line rest = {text, size}, line, tail;
    if (size > FILE_MAX_BYTES)
        return err_set(err, ERR_INVALID, "the signature is longer than %d bytes", FILE_MAX_BYTES);
    if (!next_line(&rest, &line) || !starts(line, COMMENT))
        return err_set(err, ERR_INVALID, "the signature does not start with \"" COMMENT "\"");
    if (!next_line(&rest, &line) || !decode(line, &ret->sig, sizeof ret->sig))
        return err_set(err, ERR_INVALID, "the signature's second line is not the base64 of a signature");
    if (!memcmp(ret->sig.algorithm, "Ed", 2))
        return err_set(err, ERR_INVALID, "the signature is of minisign's legacy kind (not prehashed), which is not accepted");
    if (memcmp(ret->sig.algorithm, "ED", 2) != 0)
        return err_set(err, ERR_INVALID, "the signature's algorithm is unknown");
    if (!next_line(&rest, &line) || !starts(line, TRUSTED) || line.size - strlen(TRUSTED) > COMMENT_MAX_BYTES)
        return err_set(err, ERR_INVALID, "the signature's third line is not a trusted comment of at most %d characters", COMMENT_MAX_BYTES);
    ret->comment = (struct line){line.text + strlen(TRUSTED), line.size - strlen(TRUSTED)};
    if (!next_line(&rest, &line) || !decode(line, ret->global, sizeof ret->global))
        return err_set(err, ERR_INVALID, "the signature's fourth line is not the base64 of a signature");
    while (next_line(&rest, &tail))
        if (tail.size)
            return err_set(err, ERR_INVALID, "there is text behind the signature's four lines");
    return true;
}

bool minisign_verify(const char *public_file, size_t public_size, const char *signature, size_t signature_size,
                     const void *data, size_t size, struct buf *ret_comment, struct err *err)
{
    BUG_ON(sodium_init() < 0);
    struct public_key key;
    struct signature_file file;
    if (!public_parse(public_file, public_size, &key, err) || !signature_parse(signature, signature_size, &file, err))
        return false;
    if (sodium_memcmp(key.key_number, file.sig.key_number, sizeof key.key_number) != 0) {
        char wanted[17], got[17];
        key_text(key.key_number, wanted);
        key_text(file.sig.key_number, got);
        return err_set(err, ERR_INVALID, "signed with another key: the signature names %s, the key given is %s", got, wanted);
    }
    unsigned char prehash[PREHASH_BYTES], both[crypto_sign_BYTES + COMMENT_MAX_BYTES];
    crypto_generichash(prehash, sizeof prehash, data, size, NULL, 0);
    if (crypto_sign_verify_detached(file.sig.bytes, prehash, sizeof prehash, key.key) != 0)
        return err_set(err, ERR_INVALID, "the signature does not fit the data: one of them was changed");
    memcpy(both, file.sig.bytes, crypto_sign_BYTES);
    memcpy(both + crypto_sign_BYTES, file.comment.text, file.comment.size);
    if (crypto_sign_verify_detached(file.global, both, crypto_sign_BYTES + file.comment.size, key.key) != 0)
        return err_set(err, ERR_INVALID, "the trusted comment was changed");
    if (ret_comment)
        buf_add(ret_comment, file.comment.text, file.comment.size);
    return true;
}
