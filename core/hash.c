#include "core/hash.h"

#include "core/clock.h"

#include <sodium.h>
#include <string.h>

void hash_init(void)
{
    int failed = sodium_init();
    BUG_ON(failed < 0);
}

struct hash_hex hash_of(const void *data, size_t size)
{
    unsigned char digest[HASH_BYTES];
    struct hash_hex hex;
    crypto_generichash(digest, sizeof digest, data, size, NULL, 0);
    sodium_bin2hex(hex.text, sizeof hex.text, digest, sizeof digest);
    return hex;
}

bool hash_hex_valid(const char *text)
{
    return strlen(text) == HASH_HEX_SIZE - 1 && strspn(text, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

void random_bytes(void *to, size_t size)
{
    randombytes_buf(to, size);
}

uint64_t random_u64(void)
{
    uint64_t v;
    random_bytes(&v, sizeof v);
    return v;
}

/* Crockford's base 32, lower case: sorts like the number. */
static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";

struct id id_new(const char *prefix)
{
    struct id id;
    unsigned char raw[16];   /* 48 bits of milliseconds, 80 random bits */
    uint64_t ms = (uint64_t)(clock_wall_ns() / 1000000);
    for (int i = 0; i < 6; i++)
        raw[i] = (unsigned char)(ms >> (40 - 8 * i));
    random_bytes(raw + 6, 10);
    char text[27];
    unsigned __int128 v = 0;
    for (int i = 0; i < 16; i++)
        v = v << 8 | raw[i];
    for (int i = 25; i >= 0; i--, v >>= 5)
        text[i] = digits[(int)(v & 31)];
    text[26] = 0;
    snprintf(id.text, sizeof id.text, "%s_%s", prefix, text);
    return id;
}

bool id_valid(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 && text[n] == '_' && strlen(text + n + 1) == 26 &&
           strspn(text + n + 1, digits) == 26;
}
