/* What an admin orders: each reads, changes and writes a shelf, and does it again where someone else was faster. */
#include "server/jobs/shelf.h"

#include "core/clock.h"

#include <string.h>

#define TRIES 1000                       /* of a write that others got in the way of */

static json_t *target_of(const struct shelf *s, const char *candidate, bool withdraw)
{
    if (candidate)
        return shelf_entry(s, candidate);
    if (!withdraw)
        return (json_t *)(uintptr_t)shelf_withdrawn(s, NULL);
    return shelf_serves(s) ? shelf_entry(s, shelf_serves(s)) : NULL;
}

/* One try. ERR_BUSY: someone else changed it meanwhile. */
static bool order_once(struct store *store, const char *hash, const struct shelf_order *o, bool withdraw, json_t **ret, struct err *err)
{
    cleanup(shelf) struct shelf s = {.changed = false};
    struct err why = {0};
    if (!shelf_open(store, hash, &s, err))
        return false;
    json_t *entry = target_of(&s, o->candidate, withdraw);
    if (o->candidate && !entry)
        return err_set(err, ERR_NOT_FOUND, "%.60s is no kernel that was verified for shape %.64s", o->candidate, hash);
    if (!json_array_size(json_object_get(s.doc, "entries")))
        return err_set(err, ERR_NOT_FOUND, "there is no kernel for shape %.64s", hash);
    if (!entry || strcmp(json_str(entry, "state", ""), withdraw ? SHELF_QUARANTINED : SHELF_VERIFIED) == 0) {   /* it is so already */
        *ret = shelf_view(&s);
        return true;
    }
    cleanup(str) char *id = xstrdup(json_str(entry, "candidate", ""));
    if (withdraw)
        shelf_withdraw(&s, entry, o->reason, o->by);
    else
        shelf_restore(&s, entry);
    struct store_batch *b = store_batch_new();
    shelf_write(&s, b);
    event_kernel(b, NULL, hash, id, withdraw ? SHELF_QUARANTINED : "restored", o->reason, shelf_serves(&s));
    if (!store_commit(store, b, NULL, &why))
        return err_set(err, why.code == ERR_CONFLICT ? ERR_BUSY : why.code, "%s", why.text);
    *ret = shelf_view(&s);
    return true;
}

static bool order(struct store *store, const char *hash, const struct shelf_order *o, bool withdraw, json_t **ret, struct err *err)
{
    struct err why = {0};
    for (int tries = 0; tries < TRIES; tries++) {
        if (order_once(store, hash, o, withdraw, ret, &why))
            return true;
        if (why.code != ERR_BUSY)
            break;
    }
    return err_set(err, why.code, "%s", why.text);
}

bool kernel_quarantine(struct store *store, const char *hash, const struct shelf_order *o, json_t **ret, struct err *err)
{
    return order(store, hash, o, true, ret, err);
}

bool kernel_restore(struct store *store, const char *hash, const struct shelf_order *o, json_t **ret, struct err *err)
{
    return order(store, hash, o, false, ret, err);
}

bool candidate_is_held(const json_t *record)
{
    const json_t *verdict = json_object_get(record, "verdict");
    return strcmp(json_str(verdict, "code", ""), "implausible") == 0 && json_bool(json_object_get(verdict, "detail"), "held", false);
}

static bool refuse_once(struct store *store, const char *id, const struct shelf_order *o, json_t **ret, struct err *err)
{
    cleanup(json) json_t *was = NULL, *now = NULL;
    cleanup(shelf) struct shelf s = {.changed = false};
    struct err why = {0};
    if (!store_get(store, STORE_CANDIDATE, id, &was, err))
        return false;
    const json_t *decision = json_object_get(was, "decision");
    bool refused = strcmp(json_str(decision, "decision", ""), "refused") == 0;
    if (!candidate_is_held(was))
        return err_set(err, ERR_CONFLICT, "%s is not held: there is nothing to decide", id);
    if (decision && !refused)
        return err_set(err, ERR_CONFLICT, "%s was released already (job %s)", id, json_str(decision, "job", "?"));
    now = json_copy(was);
    if (!refused) {
        const char *hash = json_str(was, "shape_hash", "");
        if (!shelf_open(store, hash, &s, err))
            return false;
        json_put(now, "decision", json_pack("{s:s,s:s,s:s,s:s}", "decision", "refused", "reason", o->reason, "by", o->by, "time",
                                            clock_text(clock_wall_ns()).text));
        struct store_batch *b = store_batch_new();
        store_expect(b, STORE_CANDIDATE, id, was);
        store_put(b, STORE_CANDIDATE, id, NULL, now);
        shelf_unhold(&s, id);
        shelf_write(&s, b);
        event_kernel(b, NULL, hash, id, "refused", o->reason, shelf_serves(&s));
        if (!store_commit(store, b, NULL, &why))
            return err_set(err, why.code == ERR_CONFLICT ? ERR_BUSY : why.code, "%s", why.text);
    }
    *ret = steal(&now);
    return true;
}

bool candidate_refuse(struct store *store, const char *id, const struct shelf_order *o, json_t **ret, struct err *err)
{
    struct err why = {0};
    for (int tries = 0; tries < TRIES; tries++) {
        if (refuse_once(store, id, o, ret, &why))
            return true;
        if (why.code != ERR_BUSY)
            break;
    }
    return err_set(err, why.code, "%s", why.text);
}
