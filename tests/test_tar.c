/* The archive of a kernel: what we write, tar(1) reads; what we read may come from anyone. */
#include "core/tar.h"
#include "tests/test.h"

#include <sys/wait.h>

#define HEADER_CHECKSUM 148
#define HEADER_TYPE 156

static void fix_checksum(char *header)
{
    unsigned sum = 0;
    memset(header + HEADER_CHECKSUM, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)header[i];
    snprintf(header + HEADER_CHECKSUM, 7, "%06o", sum);
}

static void sample(struct buf *to)
{
    tar_add(to, "manifest.json", "{}\n", 3, 1796000000);
    tar_add(to, "op/reference.c", "int x;\n", 7, 1796000000);
    tar_add(to, "empty", "", 0, 0);
    tar_end(to);
}

static void refused(const struct buf *archive, const char *why)
{
    struct tar_entry entries[8];
    struct err err = {0};
    int count = -1;
    bool ok = tar_parse(archive->data, archive->size, entries, 8, &count, &err);
    if (ok || !strstr(err.text, why))
        fprintf(stderr, "wanted \"%s\", got \"%s\"\n", why, err.text);
    check(!ok && strstr(err.text, why));
    check_int(count, -1);
}

static void test_round_trip(void)
{
    cleanup(buf) struct buf b = {0};
    struct tar_entry entries[3];
    struct err err = {0};
    int count = 0;
    sample(&b);
    check_int(b.size, 512 * (2 + 2 + 1 + 2));
    check(tar_parse(b.data, b.size, entries, 3, &count, &err));
    check_int(count, 3);
    check_str(entries[1].name, "op/reference.c");
    check(entries[1].size == 7 && !memcmp(entries[1].data, "int x;\n", 7));
    check_int(entries[2].size, 0);
    count = -1;
    check(!tar_parse(b.data, b.size, entries, 2, &count, &err));
    check_int(err.code, ERR_TOO_LARGE);
}

static void test_hostile(void)
{
    static const struct { const char *name; const char *why; } names[] = {
        {"/etc/passwd", "plain"}, {"../up", "plain"}, {"a/../b", "plain"}, {"a//b", "plain"}, {"./a", "plain"}, {"a/", "plain"},
        {"..", "plain"}, {"a\x1b[2J", "plain"}, {"a\\b", "plain"}, {"a b", "plain"}, {"", "plain"}, {"op/reference.c", "twice"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup(buf) struct buf b = {0};
        sample(&b);
        memset(b.data, 0, 100);
        memcpy(b.data, names[i].name, strlen(names[i].name));
        fix_checksum(b.data);
        refused(&b, names[i].why);
    }
    for (const char *type = "123456LKxg"; *type; type++) {
        cleanup(buf) struct buf b = {0};
        sample(&b);
        b.data[HEADER_TYPE] = *type;
        fix_checksum(b.data);
        refused(&b, "not a regular file");
    }
    static const char *const sizes[] = {"77777777777", "\x80\0\0\0\0\0\0\0\1", "-0000000003", "", "00000000009"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cleanup(buf) struct buf b = {0};
        sample(&b);
        memset(b.data + 124, 0, 12);
        memcpy(b.data + 124, sizes[i], strlen(sizes[i]));
        fix_checksum(b.data);
        refused(&b, i == 0 ? "cut within" : "size");
    }
    cleanup(buf) struct buf damaged = {0}, behind = {0}, named = {0};
    sample(&damaged);
    damaged.data[3] ^= 1;
    refused(&damaged, "checksum");
    sample(&behind);
    behind.data[behind.size - 1] = 1;
    refused(&behind, "behind");
    sample(&named);
    memset(named.data, 'a', 100);
    fix_checksum(named.data);
    refused(&named, "99");
}

/* No cut of an archive is read as a whole one, and none is read beyond its end (run under ASan). */
static void test_cut(void)
{
    cleanup(buf) struct buf b = {0};
    sample(&b);
    for (size_t size = 0; size < b.size - 1023; size++) {
        cleanup(mem) void *exact = xalloc(size ? size : 1);
        struct tar_entry entries[8];
        int count;
        memcpy(exact, b.data, size);
        check(!tar_parse(exact, size, entries, 8, &count, NULL));
    }
}

static void test_tar_program(void)
{
    char dir[] = "/tmp/proteus-tar-XXXXXX";
    cleanup(buf) struct buf b = {0}, theirs = {0};
    struct err err = {0};
    struct tar_entry entries[4];
    int count = 0;
    sample(&b);
    check(mkdtemp(dir) != NULL);
    cleanup(str) char *path = xfmt("%s/b.tar", dir), *gnu = xfmt("%s/gnu.tar", dir);
    check(file_write(path, b.data, b.size, 0600, &err));
    cleanup(str) char *line = xfmt("cd %s && tar -xf b.tar && test \"$(cat op/reference.c)\" = 'int x;' && tar -cf gnu.tar manifest.json op/reference.c", dir);
    check_int(system(line), 0);
    check(file_read(gnu, 1 << 20, &theirs, &err));
    check(tar_parse(theirs.data, theirs.size, entries, 4, &count, &err));
    check_int(count, 2);
    check_str(entries[1].name, "op/reference.c");
    cleanup(str) char *remove = xfmt("rm -rf %s", dir);
    check_int(system(remove), 0);
}

int main(void)
{
    test_round_trip();
    test_hostile();
    test_cut();
    test_tar_program();
    return test_done();
}
