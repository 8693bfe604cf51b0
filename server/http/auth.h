/*
 * Who may do what. Tokens are "pk_ID_SECRET"; only the BLAKE2b of the secret is kept. Without any token everything is open to
 * whoever reaches a loopback address, and to nobody else.
 *
 * The list lives in memory and is filled by whoever stores tokens. Safe in all threads.
 */
#pragma once
#include "core/hash.h"

enum scope { SCOPE_NONE, SCOPE_READ, SCOPE_SUBMIT, SCOPE_ADMIN };   /* each includes those before it */
const char *scope_name(enum scope s);
bool scope_parse(const char *text, enum scope *ret);

struct caller {
    char id[44];            /* of the token; "anonymous" */
    enum scope scope;
};

struct auth;
struct auth *auth_new(int max_tokens);
void auth_free(struct auth *a);
/* ERR_BUSY past the limit. A token of that id is replaced. */
bool auth_add(struct auth *a, const char *id, const char *secret_hash, enum scope scope, struct err *err) MUST_CHECK;
void auth_remove(struct auth *a, const char *id);
int auth_count(struct auth *a);
int auth_admins(struct auth *a);
void auth_set_loopback(struct auth *a, bool loopback);
/* No token yet, and loopback: everything is allowed. */
bool auth_is_open(struct auth *a);
/* authorization: the header's value, may be NULL. ERR_UNAUTHENTICATED says what is wrong, ERR_FORBIDDEN which scope is missing. */
bool auth_check(struct auth *a, const char *authorization, enum scope need, struct caller *ret, struct err *err) MUST_CHECK;

/* A new token: its id, the whole text to hand out once, and the hash to keep. */
struct token_new { char id[44]; char text[128]; struct hash_hex secret_hash; };
struct token_new token_make(void);
/* Splits "pk_ID_SECRET". ERR_INVALID. */
bool token_split(const char *text, char id[44], struct hash_hex *ret_secret_hash, struct err *err) MUST_CHECK;
