#include "server/http/auth.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

static const char *const scopes[] = {"none", "read", "submit", "admin"};

struct token {
    char id[44];
    struct hash_hex hash;
    enum scope scope;
};
struct auth {
    pthread_rwlock_t lock;
    struct token *tokens;
    int count, limit;
    _Atomic bool open, loopback;
};

const char *scope_name(enum scope s)
{
    return scopes[s];
}

bool scope_parse(const char *text, enum scope *ret)
{
    for (int i = SCOPE_READ; i <= SCOPE_ADMIN; i++)
        if (!strcmp(text, scopes[i])) {
            *ret = (enum scope)i;
            return true;
        }
    return false;
}

struct auth *auth_new(int max_tokens)
{
    hash_init();
    struct auth *a = xalloc(sizeof *a);
    pthread_rwlock_init(&a->lock, NULL);
    a->limit = max_tokens;
    a->tokens = xarray((size_t)max_tokens, sizeof *a->tokens);
    atomic_store(&a->loopback, true);
    atomic_store(&a->open, true);
    return a;
}

void auth_free(struct auth *a)
{
    if (!a)
        return;
    pthread_rwlock_destroy(&a->lock);
    free(a->tokens);
    free(a);
}

static struct token *find(struct auth *a, const char *id)
{
    for (int i = 0; i < a->count; i++)
        if (!strcmp(a->tokens[i].id, id))
            return &a->tokens[i];
    return NULL;
}

static void settle(struct auth *a)
{
    atomic_store(&a->open, a->count == 0 && atomic_load(&a->loopback));
}

bool auth_add(struct auth *a, const char *id, const char *secret_hash, enum scope scope, struct err *err)
{
    pthread_rwlock_wrlock(&a->lock);
    struct token *t = find(a, id);
    if (!t && a->count < a->limit)
        t = &a->tokens[a->count++];
    if (t) {
        snprintf(t->id, sizeof t->id, "%s", id);
        snprintf(t->hash.text, sizeof t->hash.text, "%s", secret_hash);
        t->scope = scope;
    }
    settle(a);
    pthread_rwlock_unlock(&a->lock);
    return t || err_set(err, ERR_BUSY, "there are %d tokens, the most that are allowed; delete one", a->limit);
}

void auth_remove(struct auth *a, const char *id)
{
    pthread_rwlock_wrlock(&a->lock);
    struct token *t = find(a, id);
    if (t)
        *t = a->tokens[--a->count];
    settle(a);
    pthread_rwlock_unlock(&a->lock);
}

int auth_count(struct auth *a)
{
    pthread_rwlock_rdlock(&a->lock);
    int count = a->count;
    pthread_rwlock_unlock(&a->lock);
    return count;
}

int auth_admins(struct auth *a)
{
    pthread_rwlock_rdlock(&a->lock);
    int count = 0;
    for (int i = 0; i < a->count; i++)
        count += a->tokens[i].scope == SCOPE_ADMIN;
    pthread_rwlock_unlock(&a->lock);
    return count;
}

void auth_set_loopback(struct auth *a, bool loopback)
{
    pthread_rwlock_wrlock(&a->lock);
    atomic_store(&a->loopback, loopback);
    settle(a);
    pthread_rwlock_unlock(&a->lock);
}

bool auth_is_open(struct auth *a)
{
    return atomic_load_explicit(&a->open, memory_order_acquire);
}

/* Takes as long for a wrong hash as for a right one. */
static bool same_hash(const struct hash_hex *a, const struct hash_hex *b)
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < HASH_HEX_SIZE; i++)
        differs |= (unsigned char)(a->text[i] ^ b->text[i]);
    return !differs;
}

/* The scope of a token, SCOPE_NONE if there is no such one. */
static enum scope scope_of(struct auth *a, const char *id, const struct hash_hex *hash)
{
    pthread_rwlock_rdlock(&a->lock);
    const struct token *t = find(a, id);
    enum scope scope = t && same_hash(&t->hash, hash) ? t->scope : SCOPE_NONE;
    pthread_rwlock_unlock(&a->lock);
    return scope;
}

bool auth_check(struct auth *a, const char *authorization, enum scope need, struct caller *ret, struct err *err)
{
    if (auth_is_open(a)) {
        *ret = (struct caller){"anonymous", SCOPE_ADMIN};
        return true;
    }
    if (need == SCOPE_NONE) {
        *ret = (struct caller){"anonymous", SCOPE_NONE};
        return true;
    }
    if (!authorization)
        return err_set(err, ERR_UNAUTHENTICATED, "this needs a token with the scope \"%s\": send "
                       "\"Authorization: Bearer pk_...\"", scope_name(need));
    if (strncasecmp(authorization, "Bearer ", 7))
        return err_set(err, ERR_UNAUTHENTICATED, "the Authorization header must be \"Bearer pk_ID_SECRET\"");
    const char *text = authorization + 7;
    while (*text == ' ')
        text++;
    struct caller caller = {0};
    struct hash_hex hash;
    struct err why;
    if (!token_split(text, caller.id, &hash, &why))
        return err_set(err, ERR_UNAUTHENTICATED, "%s", why.text);
    caller.scope = scope_of(a, caller.id, &hash);
    if (caller.scope == SCOPE_NONE)
        return err_set(err, ERR_UNAUTHENTICATED, "the token is not known; it may have been deleted");
    if (caller.scope < need)
        return err_set(err, ERR_FORBIDDEN, "this needs the scope \"%s\"; the token has \"%s\"", scope_name(need),
                       scope_name(caller.scope));
    *ret = caller;
    return true;
}

struct token_new token_make(void)
{
    unsigned char raw[32];
    random_bytes(raw, sizeof raw);
    struct hash_hex id = hash_of(raw, sizeof raw), secret;
    random_bytes(raw, sizeof raw);
    secret = hash_of(raw, sizeof raw);
    struct token_new t = {0};
    snprintf(t.id, sizeof t.id, "%.16s", id.text);
    snprintf(t.text, sizeof t.text, "pk_%s_%s", t.id, secret.text);
    t.secret_hash = hash_of(secret.text, strlen(secret.text));
    explicit_bzero(&secret, sizeof secret);
    explicit_bzero(raw, sizeof raw);
    return t;
}

bool token_split(const char *text, char id[44], struct hash_hex *ret_secret_hash, struct err *err)
{
    const char *from = text + 3, *end = !strncmp(text, "pk_", 3) ? strchr(from, '_') : NULL;
    size_t id_bytes = end ? (size_t)(end - from) : 0, secret_bytes = end ? strlen(end + 1) : 0;
    if (id_bytes < 1 || id_bytes > 40 || secret_bytes < 32 || secret_bytes > 256)
        return err_set(err, ERR_INVALID, "a token is \"pk_ID_SECRET\" with a secret of at least 32 characters");
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return err_set(err, ERR_INVALID, "a token has printable characters only");
    memcpy(id, from, id_bytes);
    id[id_bytes] = 0;
    *ret_secret_hash = hash_of(end + 1, secret_bytes);
    return true;
}
