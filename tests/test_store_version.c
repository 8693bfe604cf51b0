/* A store whose format number is higher than ours is refused and left as it was; a key of it is read with LMDB itself. */
#include "tests/test_store.h"

#include <lmdb.h>

/* Opens the environment beside the store's own code and sets or reads the format number. */
static unsigned format(const char *path, unsigned set)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_val key = {6, (void *)"format"}, value;
    unsigned char bytes[8] = {0, 0, 0, 0, 0, 0, 0, (unsigned char)set};
    check_int(mdb_env_create(&env), 0);
    check_int(mdb_env_set_maxdbs(env, 4), 0);
    check_int(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    check_int(mdb_txn_begin(env, NULL, 0, &txn), 0);
    check_int(mdb_dbi_open(txn, "counter", 0, &dbi), 0);
    check_int(mdb_get(txn, dbi, &key, &value), 0);
    unsigned was = ((unsigned char *)value.mv_data)[7];
    if (set) {
        value = (MDB_val){sizeof bytes, bytes};
        check_int(mdb_put(txn, dbi, &key, &value, 0), 0);
    }
    check_int(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    return was;
}

int main(void)
{
    cleanup(temp) char *dir = temp_dir();
    cleanup(str) char *path = xfmt("%s/store.mdb", dir);
    struct store *s = open_or_die(dir, 0, 0);
    check(put_number(s, STORE_JOB, "a", NULL, 1));
    store_close(s);
    check_int(format(path, 9), 1);
    struct err err = {0};
    struct store_config config = {.dir = dir};
    check(!store_open(&config, &s, &err));
    check_int(err.code, ERR_UNAVAILABLE);
    check(strstr(err.text, "newer version") && strstr(err.text, "format 9") && strstr(err.text, dir));
    check_int(format(path, 1), 9);
    s = open_or_die(dir, 0, 0);
    check_int(number_of(s, STORE_JOB, "a"), 1);
    store_close(s);
    return test_done();
}
