/*
 * Opening and closing: the lock file, the version, the tables; LMDB's errors; key and value layouts.
 */
#include "store/internal.h"

#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A process that was killed while it started a child leaves the lock with that child until it has exec'd. */
#define LOCK_PATIENCE_NS ((int64_t)1000 * 1000000)

static const char *const kind_names[] = {
#define X(code, name, what) [code] = name,
    STORE_KINDS(X)
#undef X
};

static const struct { const char *name; unsigned flags; } tables[] = {
#define X(code, name, layout, flags) [code] = {name, flags},
    STORE_TABLES(X)
#undef X
};

const char *store_kind_name(enum store_kind kind)
{
    BUG_ON((unsigned)kind >= STORE_KIND_COUNT);
    return kind_names[kind];
}

static const struct { int rc; enum err_code code; const char *what; } mdb_errors[] = {
    {MDB_NOTFOUND, ERR_NOT_FOUND, "there is no such record"},
    {MDB_MAP_FULL, ERR_NO_SPACE, 
     "the store has reached the size that it may grow to: raise --store-map-bytes, or use another --data folder"},
    {ENOSPC, ERR_NO_SPACE, "the disk is full: free some space, nothing was lost"},
    {EDQUOT, ERR_NO_SPACE, "the disk quota is used up: raise it or free some space, nothing was lost"},
    {EFBIG, ERR_NO_SPACE, "the file may not grow further (ulimit -f, or the file system's limit), nothing was lost"},
    {EROFS, ERR_UNAVAILABLE, "the file system is read-only: use a folder that this user may write"},
    {EACCES, ERR_UNAVAILABLE, "permission denied: use a folder that this user may write"},
    {EPERM, ERR_UNAVAILABLE, "not permitted: use a folder that this user may write"},
    {ENOMEM, ERR_UNAVAILABLE, "no memory, or no address space, to map it (ulimit -v): lower --store-map-bytes"},
    {EIO, ERR_UNAVAILABLE, "the disk failed: look at the kernel's log"},
    {MDB_INVALID, ERR_UNAVAILABLE, "the file is not a store of Proteus: move it away, or use another folder"},
    {MDB_VERSION_MISMATCH, ERR_UNAVAILABLE, "the file was written by another version of LMDB"},
    {MDB_CORRUPTED, ERR_UNAVAILABLE, "the file is damaged: restore a copy"},
    {MDB_PAGE_NOTFOUND, ERR_UNAVAILABLE, "the file is damaged: restore a copy"},
    {MDB_PANIC, ERR_UNAVAILABLE, "an earlier write failed for good: restart"},
    {MDB_READERS_FULL, ERR_BUSY, "too many readers at once"},
    {MDB_TXN_FULL, ERR_TOO_LARGE, "too much in one change"},
};

/* LMDB tells a write that was cut short as EIO: mostly there was no room for the rest. */
static int why_short(const struct store *s)
{
    const int64_t near_bytes = 4 << 20;
    struct statvfs v;
    struct stat st;
    struct rlimit limit;
    if (statvfs(s->dir, &v) == 0 && v.f_bavail < near_bytes / v.f_frsize)
        return ENOSPC;
    cleanup(str) char *path = xfmt("%s/store.mdb", s->dir);
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && stat(path, &st) == 0 &&
        st.st_size + near_bytes > (int64_t)limit.rlim_cur)
        return EFBIG;
    return EIO;
}

bool err_from_mdb(struct err *err, const struct store *s, int rc, const char *doing)
{
    if (rc == EIO)
        rc = why_short(s);
    for (size_t i = 0; i < sizeof mdb_errors / sizeof *mdb_errors; i++)
        if (mdb_errors[i].rc == rc)
            return err_set(err, mdb_errors[i].code, "store %s: %s: %s", s->dir, doing, mdb_errors[i].what);
    return err_set(err, ERR_INTERNAL, "store %s: %s: %s", s->dir, doing, mdb_strerror(rc));
}

MDB_val store_val(const void *data, size_t size)
{
    return (MDB_val){.mv_size = size, .mv_data = (void *)data};
}

void store_u64_put(unsigned char to[8], uint64_t v)
{
    for (int i = 7; i >= 0; i--, v >>= 8)
        to[i] = (unsigned char)v;
}

uint64_t store_u64_get(const unsigned char from[8])
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | from[i];
    return v;
}

int store_counter_get(const struct store *s, MDB_txn *txn, const char *name, uint64_t *ret)
{
    MDB_val key = store_val(name, strlen(name)), value;
    int rc = mdb_get(txn, s->tables[TABLE_COUNTER], &key, &value);
    if (rc == MDB_NOTFOUND)
        *ret = 0;
    else if (rc == 0 && value.mv_size != 8)
        rc = MDB_CORRUPTED;
    else if (rc == 0)
        *ret = store_u64_get(value.mv_data);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_counter_put(const struct store *s, MDB_txn *txn, const char *name, uint64_t value)
{
    unsigned char bytes[8];
    store_u64_put(bytes, value);
    MDB_val key = store_val(name, strlen(name)), val = store_val(bytes, sizeof bytes);
    return mdb_put(txn, s->tables[TABLE_COUNTER], &key, &val, 0);
}

bool store_record_split(MDB_val value, struct store_record *ret)
{
    const unsigned char *p = value.mv_data;
    if (value.mv_size < 10)
        return false;
    size_t owner_size = p[8] | (size_t)p[9] << 8;
    if (value.mv_size - 10 < owner_size)
        return false;
    *ret = (struct store_record){.place = store_u64_get(p), .owner = (const char *)p + 10, .owner_size = owner_size,
                                 .text = (const char *)p + 10 + owner_size, .text_size = value.mv_size - 10 - owner_size};
    return true;
}

size_t store_owner_prefix(unsigned char *to, enum store_kind kind, const char *owner, size_t owner_size)
{
    BUG_ON(owner_size + 10 > STORE_KEY_BYTES);
    to[0] = (unsigned char)kind;
    memcpy(to + 1, owner, owner_size);
    to[1 + owner_size] = 0;
    return owner_size + 2;
}

size_t store_owner_key(unsigned char *to, enum store_kind kind, const char *owner, size_t owner_size, uint64_t place)
{
    size_t n = store_owner_prefix(to, kind, owner, owner_size);
    store_u64_put(to + n, place);
    return n + 8;
}

/* An flock, which the kernel drops with the process; the file's text only tells whose it is. */
static bool take_lock(struct store *s, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/lock", s->dir);
    cleanup(fd) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_from_mdb(err, s, errno, "cannot open its lock file");
    int64_t until_ns = clock_mono_ns() + LOCK_PATIENCE_NS;
    int locked = flock(fd, LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EWOULDBLOCK && clock_mono_ns() < until_ns) {
        clock_sleep_ns(20000000);
        locked = flock(fd, LOCK_EX | LOCK_NB);
    }
    if (locked != 0) {
        if (errno != EWOULDBLOCK)
            return err_errno(err, ERR_UNAVAILABLE, "store %s: cannot lock %s", s->dir, path);
        char text[32] = {0};
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        long pid = n > 0 ? strtol(text, NULL, 10) : 0;
        if (pid > 0)
            return err_set(err, ERR_UNAVAILABLE, "store %s: in use by process %ld: stop it, or use another folder", s->dir, pid);
        return err_set(err, ERR_UNAVAILABLE, "store %s: in use by another process: stop it, or use another folder", s->dir);
    }
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return err_errno(err, ERR_UNAVAILABLE, "store %s: cannot write its lock file (full, or read-only)", s->dir);
    s->lock_fd = steal_fd(&fd);
    return true;
}

static int open_tables(struct store *s, MDB_txn *txn)
{
    for (int i = 0; i < TABLE_COUNT; i++) {
        int rc = mdb_dbi_open(txn, tables[i].name, MDB_CREATE | tables[i].flags, &s->tables[i]);
        if (rc != 0)
            return rc;
    }
    for (int i = 0; i < STORE_KIND_COUNT; i++) {
        cleanup(str) char *name = xfmt("kind.%s", kind_names[i]);
        int rc = mdb_dbi_open(txn, name, MDB_CREATE, &s->kinds[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Makes the tables of a new store, reads version and counter of an old one. Writes nothing when there is nothing new. */
static bool open_content(struct store *s, struct err *err)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot begin");
    uint64_t format = 0, last = 0;
    MDB_dbi counters;
    rc = mdb_dbi_open(txn, tables[TABLE_COUNTER].name, 0, &counters);
    if (rc == 0) {
        s->tables[TABLE_COUNTER] = counters;
        rc = store_counter_get(s, txn, "format", &format);
    } else if (rc == MDB_NOTFOUND) {
        rc = 0;
    }
    if (rc == 0 && format > STORE_FORMAT) {
        mdb_txn_abort(txn);
        return err_set(err, ERR_UNAVAILABLE,
                       "store %s: written by a newer version of Proteus (format %llu, this one knows up to %d): "
                       "use that version, or another folder",
                       s->dir, (unsigned long long)format, STORE_FORMAT);
    }
    if (rc == 0)
        rc = open_tables(s, txn);
    if (rc == 0)
        rc = store_counter_get(s, txn, "event", &last);
    if (rc == 0 && format != STORE_FORMAT)
        rc = store_counter_put(s, txn, "format", STORE_FORMAT);
    if (rc == 0)
        rc = store_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc != 0)
        return err_from_mdb(err, s, rc, "cannot open its tables");
    s->last_event = (int64_t)last;
    return true;
}

/* LMDB would fill a folder on a full disk half-way; ask before. */
static bool room_for_new_store(const struct store *s, struct err *err)
{
    struct statvfs v;
    if (statvfs(s->dir, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < 256 * 1024)
        return err_set(err, ERR_UNAVAILABLE, "store %s: the disk is full: free some space, or use another folder", s->dir);
    return true;
}

static bool open_env(struct store *s, int64_t map_bytes, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/store.mdb", s->dir);
    struct stat st;
    if ((stat(path, &st) != 0 || st.st_size == 0) && !room_for_new_store(s, err))
        return false;
    int rc = mdb_env_create(&s->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(s->env, (size_t)map_bytes);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(s->env, STORE_MAX_READERS);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(s->env, TABLE_COUNT + STORE_KIND_COUNT);
    if (rc == 0)
        rc = mdb_env_open(s->env, path, MDB_NOSUBDIR | MDB_NOTLS, 0600);
    return rc == 0 || err_from_mdb(err, s, rc, "cannot open store.mdb");
}

static void free_store(struct store *s)
{
    if (s->env)
        mdb_env_close(s->env);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->finished);
    free(s->dir);
    free(s);
}

bool store_open(const struct store_config *config, struct store **ret, struct err *err)
{
    hash_init();
    struct store *s = xalloc(sizeof *s);
    s->dir = xstrdup(config->dir);
    s->lock_fd = -1;
    s->job_events_kept = config->job_events_kept;
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->finished, NULL);
    struct err why = {0};
    bool ok = dir_make(s->dir, 0700, &why) && take_lock(s, &why) &&
              open_env(s, config->map_bytes > 0 ? config->map_bytes : STORE_DEFAULT_MAP_BYTES, &why) && open_content(s, &why);
    if (ok && pthread_create(&s->writer, NULL, store_writer_main, s) != 0)
        ok = err_set(&why, ERR_UNAVAILABLE, "store %s: cannot start its writer thread", s->dir);
    if (!ok) {
        free_store(s);
        /* At the start, no space is one more reason why the store cannot be used. */
        return err_set(err, why.code == ERR_NO_SPACE ? ERR_UNAVAILABLE : why.code, "%s", why.text);
    }
    s->writer_runs = true;
    *ret = s;
    return true;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    if (s->writer_runs)
        pthread_join(s->writer, NULL);
    free_store(s);
}
