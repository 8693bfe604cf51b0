/* Frames: whole, split at every byte, oversized, unknown, cut, slow; both ends in one process over a socket pair. */
#include "gpu/wire.h"
#include "core/clock.h"
#include "tests/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define MS ((int64_t)1000000)

static void pair(int fd[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
        abort();
}

static void put(int fd, const void *data, size_t size)
{
    struct err err = {0};
    check(fd_write_all(fd, data, size, &err));
}

static void put_head(int fd, uint32_t length, unsigned type, unsigned version)
{
    unsigned char h[8] = {(unsigned char)length, (unsigned char)(length >> 8), (unsigned char)(length >> 16), (unsigned char)(length >> 24),
                          (unsigned char)type, (unsigned char)(type >> 8), (unsigned char)version, (unsigned char)(version >> 8)};
    put(fd, h, sizeof h);
}

static void test_json_and_blob(void)
{
    int fd[2];
    pair(fd);
    struct err err = {0};
    cleanup(json) json_t *doc = json_pack("{s:i,s:s}", "n", 42, "t", "caf\xc3\xa9");
    check(wire_send_json(fd[0], WIRE_JOB, doc, &err));
    check(wire_send_blob(fd[0], "kernel.ptx", "abc", 3, &err));
    check(wire_send_blob(fd[0], "empty", "", 0, &err));
    cleanup(wire_frame) struct wire_frame f = {0};
    check(wire_receive(fd[1], clock_mono_ns() + 1000 * MS, &f, &err));
    check_int(f.type, WIRE_JOB);
    check(json_equal(f.json, doc));
    cleanup(buf) struct buf b = {0};
    check(wire_receive_blob_buf(fd[1], clock_mono_ns() + 1000 * MS, "kernel.ptx", 10, &b, &err));
    check_str(buf_cstr(&b), "abc");
    char none;
    check(wire_receive_blob(fd[1], clock_mono_ns() + 1000 * MS, "empty", &none, 0, &err));
    close(fd[0]);
    check(!wire_receive(fd[1], clock_mono_ns() + 1000 * MS, &f, &err));
    check_int(err.code, ERR_UPSTREAM);
    close(fd[1]);
}

/* Whatever the split, the same frames come out. */
static void test_every_split(void)
{
    int fd[2];
    pair(fd);
    struct err err = {0};
    check(wire_send_blob(fd[0], "x", "0123456789", 10, &err));
    char bytes[256];
    ssize_t n = read(fd[1], bytes, sizeof bytes);
    check(n > 26);
    for (ssize_t cut = 1; cut < n; cut++) {
        cleanup(wire_reader) struct wire_reader r = {0};
        struct wire_frame f[3] = {{0}};
        int count = 0;
        fcntl(fd[1], F_SETFL, O_NONBLOCK);
        for (int half = 0; half < 2; half++) {
            put(fd[0], half ? bytes + cut : bytes, (size_t)(half ? n - cut : cut));
            for (int step = 0; step < 20 && count < 3; step++) {
                enum wire_step s = wire_reader_step(&r, fd[1], &f[count], &err);
                check(s == WIRE_MORE || s == WIRE_FRAME);
                count += s == WIRE_FRAME;
            }
        }
        check_int(count, 2);
        check_int(f[1].type, WIRE_BLOB);
        check(f[1].blob.size == 10 && memcmp(f[1].blob.data, "0123456789", 10) == 0);
        wire_frame_done(&f[0]);
        wire_frame_done(&f[1]);
    }
    close(fd[0]), close(fd[1]);
}

/* A frame that must be refused, and at once: nothing is allocated for it and no deadline runs out. */
static void refused(uint32_t length, unsigned type, unsigned version, const char *body, const char *says)
{
    int fd[2];
    pair(fd);
    put_head(fd[0], length, type, version);
    if (body)
        put(fd[0], body, strlen(body));
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame f = {0};
    int64_t from = clock_mono_ns();
    check(!wire_receive(fd[1], from + 2000 * MS, &f, &err));
    check(clock_mono_ns() - from < 1500 * MS);
    check_int(err.code, ERR_UPSTREAM);
    if (!strstr(err.text, says))
        fprintf(stderr, "%s\n", err.text);
    check(strstr(err.text, says) != NULL);
    close(fd[0]), close(fd[1]);
}

static void test_refused(void)
{
    refused(0xffffffffu, WIRE_JOB, 1, NULL, "the limit is");
    refused(WIRE_MAX_JSON_BYTES + 1, WIRE_JOB, 1, NULL, "the limit is");
    refused(0xffffffffu, WIRE_BLOB, 1, NULL, "the limit is");
    refused(2, 0, 1, "{}", "type 0");
    refused(2, 99, 1, "{}", "type 99");
    refused(2, WIRE_JOB | 0x100, 1, "{}", "type 265");
    refused(2, WIRE_JOB, 2, "{}", "version 2");
    refused(2, WIRE_JOB, 0, "{}", "version 0");
    refused(4, WIRE_JOB, 1, "nope", "not JSON");
    refused(0, WIRE_JOB, 1, NULL, "not JSON");
    refused(13, WIRE_JOB, 1, "{\"a\":1,\"a\":2}", "not JSON");
}

static void test_deadline_and_cut(void)
{
    int fd[2];
    pair(fd);
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame f = {0};
    int64_t from = clock_mono_ns();
    check(!wire_receive(fd[1], from + 50 * MS, &f, &err));
    check_int(err.code, ERR_TIMEOUT);
    check(clock_mono_ns() - from >= 50 * MS);
    put_head(fd[0], 100, WIRE_JOB, 1);
    put(fd[0], "{", 1);
    check(!wire_receive(fd[1], clock_mono_ns() + 50 * MS, &f, &err));
    check_int(err.code, ERR_TIMEOUT);
    put_head(fd[0], 100, WIRE_JOB, 1);
    close(fd[0]);
    check(!wire_receive(fd[1], clock_mono_ns() + 1000 * MS, &f, &err));
    check_int(err.code, ERR_UPSTREAM);
    close(fd[1]);
}

/* A promise of 3 GiB costs no memory until it is kept. */
static void test_promise_is_cheap(void)
{
    int fd[2];
    pair(fd);
    put_head(fd[0], WIRE_MAX_BLOB_BYTES, WIRE_BLOB, 1);
    put(fd[0], "abc", 3);
    cleanup(wire_reader) struct wire_reader r = {0};
    struct wire_frame f = {0};
    struct err err = {0};
    check_int(wire_reader_step(&r, fd[1], &f, &err), WIRE_MORE);
    check_int(wire_reader_step(&r, fd[1], &f, &err), WIRE_MORE);
    check(r.body.capacity < (1 << 20));
    close(fd[0]), close(fd[1]);
}

static void test_blob_name_and_size(void)
{
    struct { const char *name; size_t size; } cases[] = {{"other", 4}, {"x", 3}, {"x", 5}};
    for (size_t i = 0; i < 3; i++) {
        int fd[2];
        pair(fd);
        struct err err = {0};
        char got[4] = "....";
        check(wire_send_blob(fd[0], cases[i].name, "abcdefgh", cases[i].size, &err));
        check(!wire_receive_blob(fd[1], clock_mono_ns() + 1000 * MS, "x", got, 4, &err));
        check_int(err.code, ERR_UPSTREAM);
        check(memcmp(got, "....", 4) == 0);
        close(fd[0]), close(fd[1]);
    }
    static const char *const bad[] = {"", ".hidden", "a/b", "..", "a b", "a\n", "caf\xc3\xa9",
                                      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check(!wire_blob_name_valid(bad[i]));
    check(wire_blob_name_valid("kernel.cubin"));
}

static void test_error_frames(void)
{
    int fd[2];
    pair(fd);
    struct err sent = {0}, got = {0};
    err_set(&sent, ERR_NO_SPACE, "disk full");
    cleanup(json) json_t *doc = wire_error_encode(&sent);
    struct err err = {0};
    check(wire_send_json(fd[0], WIRE_ERROR, doc, &err));
    char x;
    check(!wire_receive_blob(fd[1], clock_mono_ns() + 1000 * MS, "x", &x, 1, &got));
    check_int(got.code, ERR_NO_SPACE);
    check_str(got.text, "disk full");
    /* "ok" and unknown codes never pass as success. */
    cleanup(json) json_t *lie = json_pack("{s:s}", "code", "ok");
    wire_error_decode(lie, &got);
    check_int(got.code, ERR_INTERNAL);
    close(fd[0]), close(fd[1]);
}

static void *read_later(void *arg)
{
    clock_sleep_ns(100 * MS);
    struct err err = {0};
    cleanup(buf) struct buf b = {0};
    check(wire_receive_blob_buf(*(int *)arg, clock_mono_ns() + 5000 * MS, "big", (size_t)64 << 20, &b, &err));
    check_int(b.size, 20 << 20);
    size_t wrong = 0;
    for (size_t i = 0; i < b.size; i++)
        wrong += (unsigned char)b.data[i] != (unsigned char)(i * 7);
    check_int(wrong, 0);
    return NULL;
}

static void test_big_and_slow_reader(void)
{
    int fd[2];
    pair(fd);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    size_t size = (size_t)20 << 20;
    cleanup(str) char *data = xalloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)(i * 7);
    pthread_t thread;
    pthread_create(&thread, NULL, read_later, &fd[1]);
    struct err err = {0};
    check(wire_send_blob_by(fd[0], "big", data, size, clock_mono_ns() + 5000 * MS, &err));
    pthread_join(thread, NULL);
    /* Nobody reads: the writer's deadline holds. */
    check(!wire_send_blob_by(fd[0], "big", data, size, clock_mono_ns() + 50 * MS, &err));
    check_int(err.code, ERR_TIMEOUT);
    close(fd[1]);
    err = (struct err){0};
    check(!wire_send_blob_by(fd[0], "big", data, size, clock_mono_ns() + 50 * MS, &err));
    check_int(err.code, ERR_UPSTREAM);
    close(fd[0]);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    test_json_and_blob();
    test_every_split();
    test_refused();
    test_deadline_and_cut();
    test_promise_is_cheap();
    test_blob_name_and_size();
    test_error_frames();
    test_big_and_slow_reader();
    return test_done();
}
