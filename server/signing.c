#include "server/signing.h"

#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define RECORD "signing-key"
#define WAY_OUT "restore the file from a backup, or start once with --new-signing-key yes to sign with a new key from now on (clients " \
                "then need the new public key, and the old one for what was signed before)"

/* The public key as clients have it: the second line of minisign's .pub. The caller frees. */
static char *public_text(const struct signer *s)
{
    cleanup(buf) struct buf file = {0};
    signer_public_file(s, &file);
    const char *line = strchr(buf_cstr(&file), '\n');
    BUG_ON(!line);
    char *text = xstrdup(line + 1);
    text[strcspn(text, "\n")] = 0;
    return text;
}

static bool see_kernel(void *ctx, const char *id, const json_t *doc)
{
    (void)id, (void)doc;
    *(bool *)ctx = true;
    return false;
}

/* Whether the store holds what a key has signed; *ret_record: the key it has seen, NULL: none. */
static bool look(struct store *store, json_t **ret_record, bool *ret_kernels, struct err *err)
{
    struct err why = {0};
    struct store_page page = {.kind = STORE_KERNEL, .limit = 1};
    if (!store_get(store, STORE_META, RECORD, ret_record, &why) && why.code != ERR_NOT_FOUND)
        return err_set(err, why.code, "%s", why.text);
    return store_list(store, &page, see_kernel, ret_kernels, NULL, NULL, err);
}

static bool remember(struct store *store, const json_t *was, const char *key, struct err *err)
{
    cleanup(json) json_t *record = json_object(), *before = json_deep_copy(json_object_get(was, "before"));
    struct store_batch *b = store_batch_new();
    json_put_str(record, "public_key", key);
    json_put_str(record, "since", clock_text(clock_wall_ns()).text);
    if (was) {
        json_put(record, "before", before ? json_incref(before) : json_array());
        json_array_append_new(json_object_get(record, "before"), json_string(json_str(was, "public_key", "")));
    }
    store_expect(b, STORE_META, RECORD, was);
    store_put(b, STORE_META, RECORD, NULL, record);
    return store_commit(store, b, NULL, err) || err_wrap(err, "the public key cannot be recorded in the store");
}

bool signing_open(const char *dir, struct store *store, bool accept_new, struct signer *ret, struct err *err)
{
    cleanup(json) json_t *record = NULL;
    cleanup(str) char *path = xfmt("%s/signing.key", dir), *key = NULL;
    bool kernels = false;
    struct stat st;
    if (!look(store, &record, &kernels, err))
        return false;
    const char *known = json_str(record, "public_key", NULL);
    bool missing = stat(path, &st) != 0 && errno == ENOENT;
    if (missing && (known || kernels) && !accept_new)
        return err_set(err, ERR_UNAVAILABLE, "%s is missing, but the store beside it was in use with a key already%s%.60s: " WAY_OUT, path,
                       known ? ", public key " : "", known ? known : "");
    if (!signer_open(dir, ret, err))
        return false;
    key = public_text(ret);
    if (known && !strcmp(known, key))
        return true;
    if (known && !accept_new) {
        signer_done(ret);
        return err_set(err, ERR_UNAVAILABLE, "%s is another key (public key %.60s) than the one the store was in use with (%.60s): " WAY_OUT,
                       path, key, known);
    }
    if (known || (missing && kernels))
        log_line(LOG_WARN, "another signing key is used from now on; clients need the new public key", "public_key", key, "before",
                 known ? known : "unknown", NULL);
    if (remember(store, record, key, err))
        return true;
    signer_done(ret);
    return false;
}
