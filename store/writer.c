/*
 * The writer thread: takes all batches that wait, applies them in one transaction, syncs once, tells each its outcome.
 *
 * A batch whose expectations do not hold is left out before any of it is applied, so it cannot spoil its neighbours. A batch that
 * fails while it is applied (map full) spoils the whole transaction: then that is thrown away and each batch gets one of its own.
 * Nobody is told anything before the sync; readers cannot see it before either (LMDB publishes after the meta page is written).
 */
#include "store/internal.h"

#include "core/clock.h"

#include <signal.h>
#include <string.h>

/* State of one transaction: counters are read once and written back once. */
struct txn {
    struct store *s;
    MDB_txn *mdb;
    uint64_t event, place;
    bool event_changed, place_changed;
    int64_t wall_ns;
};

static _Atomic int64_t fault_points;

/* Point 2w comes before write w (from 0) is durable, point 2w+1 after. */
static void pass_fault_point(void)
{
    static _Atomic int64_t wanted = -2;
    if (wanted == -2) {
        const char *text = getenv("PROTEUS_FAULT_POINT");
        wanted = text && *text ? strtoll(text, NULL, 10) : -1;
    }
    if (atomic_fetch_add(&fault_points, 1) == wanted)
        kill(getpid(), SIGKILL);
}

int64_t store_fault_points(void)
{
    return fault_points;
}

int store_txn_commit(MDB_txn *txn)
{
    pass_fault_point();
    int rc = mdb_txn_commit(txn);
    pass_fault_point();
    return rc;
}

/* MDB code; *ret_found says whether there is one. */
static int find(struct txn *t, enum store_kind kind, const char *id, bool *ret_found, struct store_record *ret)
{
    MDB_val key = store_val(id, strlen(id)), value;
    int rc = mdb_get(t->mdb, t->s->kinds[kind], &key, &value);
    *ret_found = rc == 0;
    if (rc == 0 && !store_record_split(value, ret))
        return MDB_CORRUPTED;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int owner_remove(struct txn *t, enum store_kind kind, const struct store_record *r)
{
    unsigned char bytes[STORE_OWNER_KEY_SIZE];
    MDB_val key = store_val(bytes, store_owner_key(bytes, kind, r->owner, r->owner_size, r->place));
    int rc = mdb_del(t->mdb, t->s->tables[TABLE_OWNER], &key, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int apply_put(struct txn *t, const struct store_batch_op *op)
{
    bool found;
    struct store_record old = {0};
    int rc = find(t, op->kind, op->id, &found, &old);
    if (rc != 0)
        return rc;
    const char *owner = op->owner ? op->owner : old.owner;   /* none given: it stays where it is listed */
    size_t owner_size = op->owner ? strlen(op->owner) : old.owner_size;
    bool same_owner = found && old.owner_size == owner_size && (!owner_size || memcmp(old.owner, owner, owner_size) == 0);
    uint64_t place = old.place;
    if (!same_owner) {
        place = ++t->place;
        t->place_changed = true;
    }
    /* Built whole first: `old` points into a page that the next write may move. */
    cleanup(buf) struct buf value = {0};
    unsigned char head[10];
    store_u64_put(head, place);
    head[8] = (unsigned char)owner_size;
    head[9] = (unsigned char)(owner_size >> 8);
    buf_add(&value, head, sizeof head);
    buf_add(&value, owner, owner_size);
    buf_add(&value, op->data, op->size);
    if (found && !same_owner && old.owner_size)
        rc = owner_remove(t, op->kind, &old);
    if (rc == 0 && !same_owner && owner_size) {
        unsigned char bytes[STORE_OWNER_KEY_SIZE];
        MDB_val key = store_val(bytes, store_owner_key(bytes, op->kind, value.data + sizeof head, owner_size, place));
        MDB_val id = store_val(op->id, strlen(op->id));
        rc = mdb_put(t->mdb, t->s->tables[TABLE_OWNER], &key, &id, 0);
    }
    if (rc != 0)
        return rc;
    MDB_val key = store_val(op->id, strlen(op->id)), val = store_val(value.data, value.size);
    return mdb_put(t->mdb, t->s->kinds[op->kind], &key, &val, 0);
}

/* A job takes its events along. */
static int delete_events(struct txn *t, const char *job)
{
    MDB_cursor *c;
    int rc = mdb_cursor_open(t->mdb, t->s->tables[TABLE_JOB_EVENT], &c);
    if (rc != 0)
        return rc;
    MDB_val key = store_val(job, strlen(job)), id, at;
    rc = mdb_cursor_get(c, &key, &id, MDB_SET);
    bool any = rc == 0;
    for (; rc == 0; rc = mdb_cursor_get(c, &at, &id, MDB_NEXT_DUP)) {
        rc = mdb_del(t->mdb, t->s->tables[TABLE_EVENT], &id, NULL);
        if (rc != 0 && rc != MDB_NOTFOUND)
            break;
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0 && any && (rc = mdb_cursor_get(c, &key, &id, MDB_SET)) == 0)
        rc = mdb_cursor_del(c, MDB_NODUPDATA);
    mdb_cursor_close(c);
    return rc;
}

static int apply_delete(struct txn *t, const struct store_batch_op *op)
{
    bool found;
    struct store_record old;
    int rc = find(t, op->kind, op->id, &found, &old);
    if (rc != 0 || !found)
        return rc;
    if (old.owner_size)
        rc = owner_remove(t, op->kind, &old);
    MDB_val key = store_val(op->id, strlen(op->id));
    if (rc == 0)
        rc = mdb_del(t->mdb, t->s->kinds[op->kind], &key, NULL);
    if (rc == 0 && op->kind == STORE_JOB)
        rc = delete_events(t, op->id);
    return rc;
}

static int apply_delete_blob(struct txn *t, const struct store_batch_op *op)
{
    MDB_val key = store_val(op->id, strlen(op->id));
    pthread_mutex_lock(&t->s->lock);
    const bool goes = t->s->watched && !json_object_get(t->s->watched, op->id);
    pthread_mutex_unlock(&t->s->lock);
    int rc = goes ? mdb_del(t->mdb, t->s->tables[TABLE_BLOB], &key, NULL) : 0;
    return rc == MDB_NOTFOUND ? 0 : rc;
}

static int apply_blob(struct txn *t, const struct store_batch_op *op)
{
    MDB_val key = store_val(op->id, strlen(op->id)), value = store_val(op->data, op->size);
    pthread_mutex_lock(&t->s->lock);
    if (t->s->watched)
        json_put_bool(t->s->watched, op->id, true);
    pthread_mutex_unlock(&t->s->lock);
    int rc = mdb_put(t->mdb, t->s->tables[TABLE_BLOB], &key, &value, MDB_NOOVERWRITE);
    return rc == MDB_KEYEXIST ? 0 : rc;
}

void store_watch_blobs(struct store *s, bool on)
{
    pthread_mutex_lock(&s->lock);
    json_decref(s->watched);
    s->watched = on ? json_object() : NULL;
    pthread_mutex_unlock(&s->lock);
}

/* The oldest events of a job go once it has more than it may keep. */
static int prune_events(struct txn *t, MDB_cursor *c, MDB_val key)
{
    MDB_val id;
    size_t count;
    int rc = mdb_cursor_get(c, &key, &id, MDB_SET);   /* MDB_SET leaves `key` with the caller's bytes: pages move under deletes */
    while (rc == 0 && (rc = mdb_cursor_count(c, &count)) == 0 && (int64_t)count > t->s->job_events_kept) {
        unsigned char bytes[8];
        memcpy(bytes, id.mv_data, sizeof bytes);
        MDB_val event = store_val(bytes, sizeof bytes);
        rc = mdb_cursor_del(c, 0);
        if (rc == 0)
            rc = mdb_del(t->mdb, t->s->tables[TABLE_EVENT], &event, NULL);
        if (rc == 0 || rc == MDB_NOTFOUND)
            rc = mdb_cursor_get(c, &key, &id, MDB_SET);
    }
    return rc;
}

static int apply_event(struct txn *t, const struct store_batch_op *op)
{
    uint64_t id = ++t->event;
    t->event_changed = true;
    cleanup(buf) struct buf text = {0};
    buf_fmt(&text, "id: %llu\nevent: %s\ndata: {\"id\":%llu,\"time\":\"%s\"%s", (unsigned long long)id, op->id,
            (unsigned long long)id, clock_text(t->wall_ns).text, op->size ? "," : "");
    buf_add(&text, op->data, op->size);
    buf_str(&text, "}\n\n");
    unsigned char bytes[8];
    store_u64_put(bytes, id);
    MDB_val key = store_val(bytes, sizeof bytes), value = store_val(text.data, text.size);
    int rc = mdb_put(t->mdb, t->s->tables[TABLE_EVENT], &key, &value, MDB_APPEND);
    if (rc != 0)
        return rc;
    MDB_cursor *c;
    rc = mdb_cursor_open(t->mdb, t->s->tables[TABLE_JOB_EVENT], &c);
    if (rc != 0)
        return rc;
    const char *job = op->owner ? op->owner : NO_JOB;
    MDB_val job_key = store_val(job, strlen(job)), dup = store_val(bytes, sizeof bytes);
    rc = mdb_cursor_put(c, &job_key, &dup, 0);
    if (rc == 0 && t->s->job_events_kept > 0)
        rc = prune_events(t, c, job_key);
    mdb_cursor_close(c);
    return rc;
}

/* True if all expectations of the batch hold in the transaction so far. *ret_rc: an MDB code of its own. */
static bool expectations_hold(struct txn *t, struct store_batch *b, int *ret_rc)
{
    *ret_rc = 0;
    for (int i = 0; i < b->count; i++) {
        const struct store_batch_op *op = &b->ops[i];
        if (op->what != OP_EXPECT)
            continue;
        bool found;
        struct store_record r;
        *ret_rc = find(t, op->kind, op->id, &found, &r);
        if (*ret_rc != 0)
            return false;
        bool same = op->data ? found && r.text_size == op->size && memcmp(r.text, op->data, op->size) == 0 : !found;
        if (!same)
            return err_set(&b->why, ERR_CONFLICT, "%s %s %s: read it again", store_kind_name(op->kind), op->id,
                           !op->data ? "exists already" : found ? "was changed meanwhile" : "is gone");
    }
    return true;
}

static int apply(struct txn *t, struct store_batch *b)
{
    int64_t before = (int64_t)t->event;
    for (int i = 0; i < b->count; i++) {
        const struct store_batch_op *op = &b->ops[i];
        int rc = 0;
        switch (op->what) {
        case OP_EXPECT: break;
        case OP_PUT: rc = apply_put(t, op); break;
        case OP_DELETE: rc = apply_delete(t, op); break;
        case OP_BLOB: rc = apply_blob(t, op); break;
        case OP_DELETE_BLOB: rc = apply_delete_blob(t, op); break;
        case OP_EVENT: rc = apply_event(t, op); break;
        }
        if (rc != 0)
            return rc;
    }
    b->last_event = (int64_t)t->event > before ? (int64_t)t->event : 0;
    return 0;
}

/* Applies the batches of [first, end) in one transaction. False: nothing was written, *ret_rc says why. */
static bool write_group(struct store *s, struct store_batch *first, const struct store_batch *end, int *ret_rc)
{
    struct txn t = {.s = s, .wall_ns = clock_wall_ns()};
    int rc = mdb_txn_begin(s->env, NULL, 0, &t.mdb);
    if (rc == 0 && (rc = store_counter_get(s, t.mdb, "event", &t.event)) == 0)
        rc = store_counter_get(s, t.mdb, "place", &t.place);
    bool any = false;
    for (struct store_batch *b = first; rc == 0 && b != end; b = b->next) {
        b->ok = b->why.code == ERR_OK && expectations_hold(&t, b, &rc);
        if (b->ok && rc == 0) {
            rc = apply(&t, b);
            any = any || b->count;
        }
    }
    if (rc == 0 && t.event_changed)
        rc = store_counter_put(s, t.mdb, "event", t.event);
    if (rc == 0 && t.place_changed)
        rc = store_counter_put(s, t.mdb, "place", t.place);
    if (rc == 0 && any) {
        rc = store_txn_commit(t.mdb);
    } else if (t.mdb) {
        mdb_txn_abort(t.mdb);
    }
    *ret_rc = rc;
    if (rc == 0 && t.event_changed)
        s->last_event = (int64_t)t.event;
    return rc == 0;
}

static void write_batches(struct store *s, struct store_batch *first)
{
    int rc;
    if (write_group(s, first, NULL, &rc))
        return;
    for (struct store_batch *b = first; b; b = b->next) {
        b->ok = false;
        if (b->why.code == ERR_CONFLICT)
            b->why = (struct err){0};   /* against a state that was thrown away: looked at again */
        if (!write_group(s, b, b->next, &rc)) {
            b->ok = false;
            err_from_mdb(&b->why, s, rc, "cannot write");
        }
    }
}

/* Waits for work; NULL at the end. The group's length is bounded, so that the first does not wait for ever. */
static struct store_batch *take_group(struct store *s)
{
    while (!s->head && !s->closing)
        pthread_cond_wait(&s->work, &s->lock);
    struct store_batch *first = s->head, *last = first;
    if (!first)
        return NULL;
    for (int n = 1; n < STORE_GROUP_BATCHES && last->next; n++)
        last = last->next;
    s->head = last->next;
    if (!s->head)
        s->tail = &s->head;
    last->next = NULL;
    return first;
}

void *store_writer_main(void *store)
{
    struct store *s = store;
    pthread_mutex_lock(&s->lock);
    struct store_batch *group;
    while ((group = take_group(s))) {
        pthread_mutex_unlock(&s->lock);
        int64_t last = s->last_event;
        write_batches(s, group);
        pthread_mutex_lock(&s->lock);
        s->commits++;
        for (struct store_batch *b = group, *next; b; b = next) {
            next = b->next;
            s->batches++;
            b->done = true;   /* its owner may free it once the lock is given up */
        }
        pthread_cond_broadcast(&s->finished);
        if (s->last_event > last && s->notify) {
            void (*notify)(void *, int64_t) = s->notify;
            void *ctx = s->notify_ctx;
            pthread_mutex_unlock(&s->lock);
            notify(ctx, s->last_event);
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

bool store_commit(struct store *s, struct store_batch *b, int64_t *ret_last_event, struct err *err)
{
    bool ok = false;
    if (b->fault.code != ERR_OK) {
        err_set(err, b->fault.code, "%s", b->fault.text);
        store_batch_free(b);
        return false;
    }
    pthread_mutex_lock(&s->lock);
    if (s->closing) {
        err_set(err, ERR_UNAVAILABLE, "store %s: closing", s->dir);
    } else {
        b->next = NULL;
        *s->tail = b;
        s->tail = &b->next;
        pthread_cond_signal(&s->work);
        while (!b->done)
            pthread_cond_wait(&s->finished, &s->lock);
        ok = b->ok;
        if (!ok)
            err_set(err, b->why.code, "%s", b->why.text);
        else if (b->last_event && ret_last_event)
            *ret_last_event = b->last_event;
    }
    pthread_mutex_unlock(&s->lock);
    store_batch_free(b);
    return ok;
}

void store_on_events(struct store *s, void (*notify)(void *ctx, int64_t last), void *ctx)
{
    pthread_mutex_lock(&s->lock);
    s->notify = notify;
    s->notify_ctx = ctx;
    pthread_mutex_unlock(&s->lock);
}
