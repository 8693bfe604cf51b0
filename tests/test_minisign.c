/* Signing and verifying, alone and against Debian's minisign in both directions. */
#include "core/minisign.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <sys/wait.h>

static char dir[] = "/tmp/proteus-minisign-XXXXXX";

static char *at(const char *name)
{
    return xfmt("%s/%s", dir, name);
}

static void put(const char *name, const struct buf *content)
{
    cleanup(str) char *path = at(name);
    struct err err = {0};
    check(file_write(path, content->data ? content->data : "", content->size, 0600, &err));
}

static void test_round_trip(const struct signer *s)
{
    cleanup(buf) struct buf pub = {0};
    signer_public_file(s, &pub);
    static const size_t sizes[] = {0, 1, 63, 64, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cleanup(buf) struct buf sig = {0}, comment = {0};
        cleanup(mem) void *data = xalloc(sizes[i] + 1);
        struct err err = {0};
        memset(data, (int)i + 1, sizes[i]);
        signer_sign(s, data, sizes[i], "timestamp:1 shape:abc", &sig);
        check(minisign_verify(pub.data, pub.size, sig.data, sig.size, data, sizes[i], &comment, &err));
        check_str(buf_cstr(&comment), "timestamp:1 shape:abc");
        ((char *)data)[sizes[i] / 2] ^= 1;   /* in an empty file: one byte more */
        check(!minisign_verify(pub.data, pub.size, sig.data, sig.size, data, sizes[i] ? sizes[i] : 1, NULL, &err));
        check_int(err.code, ERR_INVALID);
    }
}

/* Every single byte of a signature file counts, apart from the untrusted comment. */
static void test_every_byte(const struct signer *s)
{
    cleanup(buf) struct buf pub = {0}, sig = {0};
    signer_public_file(s, &pub);
    signer_sign(s, "data", 4, "file:x", &sig);
    size_t comment_end = (size_t)(strchr(sig.data, '\n') - sig.data), passed = 0;
    for (size_t i = 0; i < sig.size; i++) {
        sig.data[i] ^= 4;
        bool ok = minisign_verify(pub.data, pub.size, sig.data, sig.size, "data", 4, NULL, NULL);
        check(!ok || (i >= strlen("untrusted comment: ") && i < comment_end));
        passed += ok;
        sig.data[i] ^= 4;
    }
    check(passed > 0);
    for (size_t size = 0; size + 1 < sig.size; size++)   /* without the last newline it is still whole */
        check(!minisign_verify(pub.data, pub.size, sig.data, size, "data", 4, NULL, NULL));
    for (size_t size = 0; size + 1 < pub.size; size++)
        check(!minisign_verify(pub.data, size, sig.data, sig.size, "data", 4, NULL, NULL));
}

static void test_says_why(const struct signer *s)
{
    cleanup(buf) struct buf pub = {0}, sig = {0}, legacy = {0}, tail = {0}, huge = {0};
    struct err err = {0};
    signer_public_file(s, &pub);
    signer_sign(s, "data", 4, "file:x", &sig);
    check(!minisign_verify(pub.data, pub.size, "nonsense", 8, "data", 4, NULL, &err));
    check(strstr(err.text, "does not start") != NULL);
    check(!minisign_verify("nonsense", 8, sig.data, sig.size, "data", 4, NULL, &err));
    check(strstr(err.text, "not a minisign public key") != NULL);

    /* "RUR" is "ED" in base64 with the first bits of what follows, "RWR" is "Ed": the legacy kind. */
    buf_add(&legacy, sig.data, sig.size);
    char *second = strchr(legacy.data, '\n') + 1;
    check(!strncmp(second, "RU", 2));
    second[1] = 'W';
    check(!minisign_verify(pub.data, pub.size, legacy.data, legacy.size, "data", 4, NULL, &err));
    check(strstr(err.text, "legacy") != NULL);

    buf_add(&tail, sig.data, sig.size);
    buf_str(&tail, "more\n");
    check(!minisign_verify(pub.data, pub.size, tail.data, tail.size, "data", 4, NULL, &err));
    check(strstr(err.text, "behind") != NULL);

    memset(buf_room(&huge, 1 << 20), 'x', 1 << 20);
    buf_grew(&huge, 1 << 20);
    check(!minisign_verify(pub.data, pub.size, huge.data, huge.size, "data", 4, NULL, &err));
    check(!minisign_verify(huge.data, huge.size, sig.data, sig.size, "data", 4, NULL, &err));
}

static void test_key_file(const struct signer *first)
{
    struct signer again = {0}, other = {0};
    struct err err = {0};
    struct stat st = {0};
    cleanup(str) char *path = at("signing.key"), *second_dir = at("second");
    check(stat(path, &st) == 0);
    check_int(st.st_mode & 0777, 0600);
    check(signer_open(dir, &again, &err));
    check(!memcmp(&again, first, sizeof again));

    check(dir_make(second_dir, 0700, &err));
    check(signer_open(second_dir, &other, &err));
    check(memcmp(other.public_key, first->public_key, sizeof other.public_key) != 0);
    cleanup(buf) struct buf pub = {0}, sig = {0};
    signer_public_file(&other, &pub);
    signer_sign(first, "data", 4, "file:x", &sig);
    check(!minisign_verify(pub.data, pub.size, sig.data, sig.size, "data", 4, NULL, &err));
    check(strstr(err.text, "another key") != NULL);

    check(chmod(path, 0644) == 0);
    check(!signer_open(dir, &again, &err));
    check(strstr(err.text, "chmod 600") != NULL);
    check(chmod(path, 0600) == 0);

    cleanup(str) char *damaged = xfmt("%s/signing.key", second_dir);
    cleanup(buf) struct buf key = {0};
    check(file_read(damaged, 4096, &key, &err));
    char *c = strchr(key.data, '\n') + 40;
    *c = *c == 'A' ? 'B' : 'A';
    check(file_write(damaged, key.data, key.size, 0600, &err));
    check(!signer_open(second_dir, &again, &err));
    check(strstr(err.text, "not a signing key") != NULL);
    check(!signer_open("/nonexistent", &again, &err));
    signer_done(&other);
    static const unsigned char zeros[sizeof other.secret_key];
    check(!memcmp(other.secret_key, zeros, sizeof zeros));
}

static int shell(const char *command)
{
    cleanup(str) char *line = xfmt("cd %s && { %s; } >/dev/null 2>&1", dir, command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool test_debian(const struct signer *s)
{
    if (shell("command -v minisign") != 0)
        return false;
    cleanup(buf) struct buf data = {0}, pub = {0}, sig = {0}, theirs = {0}, their_pub = {0}, comment = {0};
    struct err err = {0};
    for (int i = 0; i < 5000; i++)
        buf_fmt(&data, "%d\n", i);
    signer_public_file(s, &pub);
    signer_sign(s, data.data, data.size, "timestamp:1796000000\tfile:certificate.json\thashed", &sig);
    put("data", &data);
    put("ours.pub", &pub);
    put("data.minisig", &sig);
    check_int(shell("minisign -Vm data -p ours.pub"), 0);
    check_int(shell("minisign -Vm data -p ours.pub -H"), 0);
    check_int(shell("echo more >>data; minisign -Vm data -p ours.pub"), 1);

    put("data", &data);
    check_int(shell("minisign -G -W -p theirs.pub -s theirs.key"), 0);
    check_int(shell("minisign -S -W -s theirs.key -m data -x theirs.minisig -t 'from the other side'"), 0);
    cleanup(str) char *sig_path = at("theirs.minisig"), *pub_path = at("theirs.pub");
    check(file_read(sig_path, 1 << 14, &theirs, &err));
    check(file_read(pub_path, 1 << 14, &their_pub, &err));
    check(minisign_verify(their_pub.data, their_pub.size, theirs.data, theirs.size, data.data, data.size, &comment, &err));
    check_str(buf_cstr(&comment), "from the other side");
    check(!minisign_verify(their_pub.data, their_pub.size, theirs.data, theirs.size, data.data, data.size - 1, NULL, &err));
    check(!minisign_verify(pub.data, pub.size, theirs.data, theirs.size, data.data, data.size, NULL, &err));
    /* The one line that people paste, without its comment, is a key too. */
    char *line = strchr(their_pub.data, '\n') + 1;
    check(minisign_verify(line, strlen(line), theirs.data, theirs.size, data.data, data.size, NULL, &err));
    return true;
}

int main(void)
{
    struct signer s = {0};
    struct err err = {0};
    if (!mkdtemp(dir) || !signer_open(dir, &s, &err)) {
        fprintf(stderr, "cannot start in %s: %s\n", dir, err.text);
        return 1;
    }
    test_round_trip(&s);
    test_every_byte(&s);
    test_says_why(&s);
    test_key_file(&s);
    bool crossed = test_debian(&s);
    cleanup(str) char *line = xfmt("rm -rf %s", dir);
    check(system(line) == 0);
    int result = test_done();
    if (!result && !crossed)
        test_skip("minisign is not installed (apt-get install minisign): not cross-checked; the other checks passed");
    return result;
}
