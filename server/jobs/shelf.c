#include "server/jobs/shelf.h"

#include "core/clock.h"

#include <string.h>

#define VERIFIED SHELF_VERIFIED
#define QUARANTINED SHELF_QUARANTINED

bool result_beats(const json_t *now, const json_t *old)
{
    if (!json_is_object(old))
        return true;
    bool now_measured = strcmp(json_str(now, "evidence", ""), "measured") == 0;
    bool old_measured = strcmp(json_str(old, "evidence", ""), "measured") == 0;
    if (now_measured != old_measured)
        return now_measured;
    /* A speed-up over a job's own baseline, which may be as slow as its owner likes, says nothing beside one over the operator's. None such
     * is offered any more (serve.c); what an earlier version left on a shelf gives way. */
    bool now_own = json_str(now, "own_baseline", NULL), old_own = json_str(old, "own_baseline", NULL);
    if (now_own != old_own)
        return old_own;
    return result_speedup(now) > result_speedup(old);
}

double result_speedup(const json_t *result)
{
    return json_num(json_object_get(result, "speedup"), "median", 0);
}

static json_t *entries(const struct shelf *s)
{
    return json_object_get(s->doc, "entries");
}

static bool is_in(const json_t *entry, const char *state)
{
    return strcmp(json_str(entry, "state", ""), state) == 0;
}

/* ---- reading ---- */

static json_t *entry_new(const json_t *manifest, const char *digest)
{
    static const char *const keys[] = {"candidate", "is_baseline", "time_ns", "speedup", "evidence", "own_baseline"};
    json_t *entry = json_object(), *own = json_copy((json_t *)(uintptr_t)manifest);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(manifest, keys[i]))
            json_object_set(entry, keys[i], json_object_get(manifest, keys[i]));
    if (digest)
        json_put_str(entry, "digest", digest);
    json_put_str(entry, "state", VERIFIED);
    json_put_str(entry, "since", clock_text(clock_wall_ns()).text);
    json_object_del(own, "history");
    json_object_del(own, "served_since");
    json_put(entry, "manifest", own);
    return entry;
}

static json_t *shelf_new(const char *hash, const json_t *kernel)
{
    json_t *doc = json_object(), *list = json_array();
    json_put_str(doc, "shape_hash", hash);
    json_put(doc, "serves", kernel ? json_string(json_str(kernel, "candidate", "")) : json_null());
    json_put(doc, "entries", list);
    json_put(doc, "held", json_array());
    if (kernel)
        json_array_append_new(list, entry_new(kernel, NULL));
    return doc;
}

static bool read_or_none(struct store *store, enum store_kind kind, const char *id, json_t **ret, struct err *err)
{
    struct err why = {0};
    return store_get(store, kind, id, ret, &why) || why.code == ERR_NOT_FOUND || err_set(err, why.code, "%s", why.text);
}

bool shelf_open(struct store *store, const char *hash, struct shelf *ret, struct err *err)
{
    cleanup(shelf) struct shelf s = {.changed = false};
    snprintf(s.hash, sizeof s.hash, "%s", hash);
    if (!read_or_none(store, STORE_SHELF, hash, &s.was, err) || !read_or_none(store, STORE_KERNEL, hash, &s.kernel_was, err))
        return false;
    s.doc = s.was ? json_deep_copy(s.was) : shelf_new(hash, s.kernel_was);
    if (s.was && s.kernel_was && !shelf_entry(&s, json_str(s.kernel_was, "candidate", ""))) {   /* another version wrote it meanwhile */
        json_array_append_new(entries(&s), entry_new(s.kernel_was, NULL));
        json_put_str(s.doc, "serves", json_str(s.kernel_was, "candidate", ""));
    }
    *ret = s;
    s = (struct shelf){.changed = false};
    return true;
}

void shelf_done(struct shelf *s)
{
    json_decref(s->was);
    json_decref(s->kernel_was);
    json_decref(s->doc);
    *s = (struct shelf){.changed = false};
}

json_t *shelf_entry(const struct shelf *s, const char *candidate)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries(s), i, entry)
        if (strcmp(json_str(entry, "candidate", ""), candidate) == 0)
            return entry;
    return NULL;
}

static json_t *entry_by_digest(const struct shelf *s, const char *digest)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries(s), i, entry)
        if (digest && strcmp(json_str(entry, "digest", ""), digest) == 0)
            return entry;
    return NULL;
}

const char *shelf_serves(const struct shelf *s)
{
    return json_str(s->doc, "serves", NULL);
}

const json_t *shelf_withdrawn(const struct shelf *s, const char *evidence)
{
    const json_t *latest = NULL;
    size_t i;
    json_t *entry;
    json_array_foreach(entries(s), i, entry)
        if (is_in(entry, QUARANTINED) && (!evidence || strcmp(json_str(entry, "evidence", ""), evidence) == 0) &&
            (!latest || strcmp(json_str(entry, "since", ""), json_str(latest, "since", "")) >= 0))
            latest = entry;
    return latest;
}

json_t *shelf_view(const struct shelf *s)
{
    json_t *view = json_object(), *kernels = json_array(), *entry;
    size_t i;
    json_array_foreach(entries(s), i, entry) {
        json_t *brief = json_copy(entry);
        json_object_del(brief, "manifest");
        json_array_append_new(kernels, brief);
    }
    json_put_str(view, "shape_hash", s->hash);
    json_put(view, "serves", json_incref(json_object_get(s->doc, "serves")));
    json_put(view, "kernels", kernels);
    json_put(view, "held", json_incref(json_object_get(s->doc, "held")));
    return view;
}

/* ---- changing ---- */

static void remove_entry(struct shelf *s, const json_t *which)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries(s), i, entry)
        if (entry == which) {
            json_array_remove(entries(s), i);
            return;
        }
}

/* Those that must go: of the verified the worst (never the one that is served), of the withdrawn the oldest. */
static void bound(struct shelf *s, const char *state, int most)
{
    for (;;) {
        const json_t *out = NULL;
        size_t i;
        json_t *entry;
        int count = 0;
        json_array_foreach(entries(s), i, entry) {
            const char *serves = shelf_serves(s);
            if (!is_in(entry, state))
                continue;
            count++;
            if (serves && strcmp(serves, json_str(entry, "candidate", "")) == 0)
                continue;
            bool older = strcmp(json_str(entry, "since", ""), json_str(out, "since", "")) < 0;
            if (!out || (is_in(entry, VERIFIED) ? result_beats(out, entry) : older))
                out = entry;
        }
        if (count <= most || !out)
            return;
        remove_entry(s, out);
    }
}

void shelf_offer(struct shelf *s, const json_t *manifest, const char *digest, const char *instead_of)
{
    json_t *known = entry_by_digest(s, digest), *place = instead_of ? shelf_entry(s, instead_of) : NULL;
    if (!place && known && (is_in(known, QUARANTINED) || !result_beats(manifest, known)))
        return;
    json_t *entry = entry_new(manifest, digest);
    s->changed = true;
    if (place && is_in(place, QUARANTINED)) {      /* renewed, and still withdrawn */
        static const char *const kept[] = {"state", "since", "reason", "by"};
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            if (json_object_get(place, kept[i]))
                json_object_set(entry, kept[i], json_object_get(place, kept[i]));
    }
    if (place)
        remove_entry(s, place);
    if (known && known != place)
        remove_entry(s, known);
    json_array_append_new(entries(s), entry);
}

static void set_state(struct shelf *s, json_t *entry, const char *state)
{
    json_put_str(entry, "state", state);
    json_put_str(entry, "since", clock_text(clock_wall_ns()).text);
    s->changed = true;
}

void shelf_withdraw(struct shelf *s, json_t *entry, const char *reason, const char *by)
{
    cleanup(buf) struct buf clean = {.limit = SHELF_REASON_BYTES};
    utf8_clean(&clean, reason, strlen(reason));
    set_state(s, entry, QUARANTINED);
    json_put_str(entry, "reason", buf_cstr(&clean));
    json_put_str(entry, "by", by);
}

void shelf_restore(struct shelf *s, json_t *entry)
{
    set_state(s, entry, VERIFIED);
    json_object_del(entry, "reason");
    json_object_del(entry, "by");
}

void shelf_hold(struct shelf *s, const char *candidate, const char *reason)
{
    json_t *held = json_object_get(s->doc, "held"), *one = json_object();
    json_put_str(one, "candidate", candidate);
    json_put_str(one, "reason", reason);
    json_put_str(one, "since", clock_text(clock_wall_ns()).text);
    json_array_append_new(held, one);
    while (json_array_size(held) > SHELF_HELD_MAX)
        json_array_remove(held, 0);
    s->changed = true;
}

void shelf_unhold(struct shelf *s, const char *candidate)
{
    json_t *held = json_object_get(s->doc, "held"), *one;
    size_t i;
    json_array_foreach(held, i, one)
        if (strcmp(json_str(one, "candidate", ""), candidate) == 0) {
            json_array_remove(held, i);
            s->changed = true;
            return;
        }
}

/* ---- what is served ---- */

static void put_history(json_t *manifest, const json_t *old, const char *now)
{
    static const char *const keys[] = {"candidate", "speedup", "time_ns", "evidence", "served_since"};
    json_t *history = json_array(), *item;
    size_t i;
    json_put(manifest, "history", history);
    if (!old)
        return;
    json_t *brief = json_object();
    for (i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(old, keys[i]))
            json_object_set(brief, keys[i], json_object_get(old, keys[i]));
    json_put_str(brief, "until", json_str(old, "until", now));
    json_array_append_new(history, brief);
    json_array_foreach(json_object_get(old, "history"), i, item)
        if (json_array_size(history) < SHELF_HISTORY)
            json_array_append(history, item);
}

/* The best of the verified; where two are equal, the one that is served stays. */
static const json_t *choose(const struct shelf *s)
{
    const json_t *best = shelf_serves(s) ? shelf_entry(s, shelf_serves(s)) : NULL;
    size_t i;
    json_t *entry;
    if (best && !is_in(best, VERIFIED))
        best = NULL;
    json_array_foreach(entries(s), i, entry)
        if (is_in(entry, VERIFIED) && result_beats(entry, best))
            best = entry;
    return best;
}

/* The manifest to serve from now on; new reference, NULL: none. What was served becomes history, over a time without any, too. */
static json_t *manifest_of(struct shelf *s, const json_t *best)
{
    const json_t *old = s->kernel_was ? s->kernel_was : json_object_get(s->doc, "last");
    struct rfc3339 now = clock_text(clock_wall_ns());
    if (!best)
        return NULL;
    if (s->kernel_was && strcmp(json_str(s->kernel_was, "candidate", ""), json_str(best, "candidate", "")) == 0)
        return json_incref(s->kernel_was);
    json_t *manifest = json_copy(json_object_get(best, "manifest"));
    json_put_str(manifest, "served_since", now.text);
    put_history(manifest, old, now.text);
    return manifest;
}

void shelf_write(struct shelf *s, struct store_batch *b)
{
    const json_t *best = choose(s);
    cleanup(json) json_t *manifest = manifest_of(s, best);
    store_expect(b, STORE_SHELF, s->hash, s->was);
    store_expect(b, STORE_KERNEL, s->hash, s->kernel_was);
    if (best) {
        json_put_str(s->doc, "serves", json_str(best, "candidate", ""));
        json_object_del(s->doc, "last");
    } else {
        json_put(s->doc, "serves", json_null());
        if (s->kernel_was) {
            json_t *last = json_copy(s->kernel_was);
            json_put_str(last, "until", clock_text(clock_wall_ns()).text);
            json_put(s->doc, "last", last);
        }
    }
    bound(s, VERIFIED, SHELF_VERIFIED_MAX);
    bound(s, QUARANTINED, SHELF_QUARANTINED_MAX);
    store_put(b, STORE_SHELF, s->hash, NULL, s->doc);
    if (manifest && manifest != s->kernel_was)
        store_put(b, STORE_KERNEL, s->hash, NULL, manifest);
    else if (!manifest && s->kernel_was)
        store_delete(b, STORE_KERNEL, s->hash);
}

void event_kernel(struct store_batch *b, const char *job, const char *hash, const char *candidate, const char *state, const char *reason,
                  const char *serves)
{
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "shape_hash", hash);
    json_put_str(doc, "candidate", candidate);
    json_put_str(doc, "state", state);
    if (reason)
        json_put_str(doc, "reason", reason);
    json_put(doc, "serves", serves ? json_string(serves) : json_null());
    store_event(b, "kernel.state", job, doc);
}
