/*
 * What the files of this folder share: tables, layouts, the open store. The only header with LMDB in it.
 *
 * Record value: u64 place in the order of first writing (big-endian), u16 length of the owner (little-endian), owner, compact JSON.
 * Event value: the text of the stream as it is sent. Integers inside keys are big-endian, so that keys sort like numbers.
 */
#pragma once
#include "store/store.h"

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#define STORE_FORMAT 1                   /* raised when an older program could not read what this one writes */
#define STORE_KEY_BYTES 511              /* LMDB's limit */
#define STORE_DEFAULT_MAP_BYTES ((int64_t)16 << 30)
#define STORE_MAX_READERS 2048
#define STORE_MAX_BLOB_BYTES ((size_t)256 << 20)
#define STORE_GROUP_BATCHES 256          /* the most that share one sync */
#define STORE_PAGE_MAX 10000
#define NO_JOB "-"                       /* where events of no job are listed */

/* X(code, name, key layout, flags): what there is beside one table a kind */
#define STORE_TABLES(X)                                                                                    \
    X(TABLE_COUNTER, "counter", "name: format, event, place", 0)                                           \
    X(TABLE_OWNER, "owner", "u8 kind, owner, 0, u64 place: id of the record", 0)                           \
    X(TABLE_BLOB, "blob", "BLAKE2b-256 in hex: the bytes", 0)                                              \
    X(TABLE_EVENT, "event", "u64 id: text of the stream", 0)                                               \
    X(TABLE_JOB_EVENT, "job_event", "job: u64 ids of its events, sorted", MDB_DUPSORT | MDB_DUPFIXED)
enum store_table {
#define X(code, ...) code,
    STORE_TABLES(X)
#undef X
    TABLE_COUNT
};

struct store_batch_op {
    enum { OP_EXPECT, OP_PUT, OP_DELETE, OP_BLOB, OP_DELETE_BLOB, OP_EVENT } what;
    enum store_kind kind;
    char *id;            /* record id; event: its type */
    char *owner;         /* owner; event: its job; NULL: none */
    char *data;          /* JSON text, bytes; expect: NULL for "there is none" */
    size_t size;
};

struct store_batch {
    int count, capacity;
    struct store_batch_op *ops;
    struct err fault;    /* the first thing that can never be written (a key too long); ERR_OK: none */
    /* in the queue: */
    struct store_batch *next;
    bool done, ok;
    int64_t last_event;
    struct err why;
};

struct store {
    MDB_env *env;
    int lock_fd;
    char *dir;
    int64_t job_events_kept;
    MDB_dbi kinds[STORE_KIND_COUNT], tables[TABLE_COUNT];
    _Atomic int64_t last_event;

    pthread_t writer;
    bool writer_runs;
    pthread_mutex_t lock;            /* guards what follows */
    pthread_cond_t work, finished;
    struct store_batch *head, **tail;
    bool closing;
    json_t *watched;                 /* digests put since the watch began; NULL: there is none */
    void (*notify)(void *ctx, int64_t last);
    void *notify_ctx;
    int64_t commits, batches;        /* since the start */
};

/* The one place where LMDB's codes become ours. Always false. */
bool err_from_mdb(struct err *err, const struct store *s, int rc, const char *doing);

void *store_writer_main(void *store);
/* Passes the fault points on both sides of the commit; the transaction is gone afterwards in any case. An MDB code. */
int store_txn_commit(MDB_txn *txn);

const char *store_kind_name(enum store_kind kind);
MDB_val store_val(const void *data, size_t size);
void store_u64_put(unsigned char to[8], uint64_t v);      /* big-endian */
uint64_t store_u64_get(const unsigned char from[8]);
/* 0 when there is none; an MDB code. */
int store_counter_get(const struct store *s, MDB_txn *txn, const char *name, uint64_t *ret);
int store_counter_put(const struct store *s, MDB_txn *txn, const char *name, uint64_t value);

struct store_record { uint64_t place; const char *owner; size_t owner_size; const char *text; size_t text_size; };
/* False: the value is not of this layout. */
bool store_record_split(MDB_val value, struct store_record *ret);
/* The key of a record in the owner table, and the part of it that all records of the owner share. */
#define STORE_OWNER_KEY_SIZE 512
size_t store_owner_prefix(unsigned char *to, enum store_kind kind, const char *owner, size_t owner_size);
size_t store_owner_key(unsigned char *to, enum store_kind kind, const char *owner, size_t owner_size, uint64_t place);
