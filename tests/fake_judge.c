/*
 * A judge that misbehaves on demand, for the tests of gpu/spawn.c: the mode is $FAKE_JUDGE. It speaks the real frames (or breaks
 * them), takes the task from stdin, and never looks at what it is asked to judge.
 */
#include "core/clock.h"
#include "gpu/wire.h"

#include <signal.h>
#include <string.h>

extern char **environ;

static void give(enum wire_type type, const char *text)
{
    cleanup(json) json_t *doc = json_loads(text, 0, NULL);
    struct err err = {0};
    if (!doc || !wire_send_json(1, type, doc, &err))
        exit(9);
}

static void raw(const void *data, size_t size)
{
    struct err err = {0};
    if (!fd_write_all(1, data, size, &err))
        exit(9);
}

#define OK_VERDICT "\"verdict\":{\"code\":\"ok\",\"phase\":\"retest\",\"text\":\"fine\"}"
#define OK_FIGURES "\"figures\":{\"evidence\":\"emulated\",\"mode\":\"estimate\",\"time_ns\":1000,\"baseline_ns\":2000,\"speedup\":{\"median\":2,\"low\":2,\"high\":2}}"
#define OK_ANSWER "{" OK_VERDICT "," OK_FIGURES ",\"certificate\":{\"a\":1},\"gpu_ns\":5}"

static void blob(const char *name, size_t size)
{
    cleanup(mem) void *data = xalloc(size);
    memset(data, 'x', size);
    struct err err = {0};
    if (!wire_send_blob(1, name, data, size, &err))
        exit(9);
}

static void head(uint32_t length, unsigned type, unsigned version)
{
    unsigned char h[8] = {(unsigned char)length, (unsigned char)(length >> 8), (unsigned char)(length >> 16), (unsigned char)(length >> 24),
                          (unsigned char)type, (unsigned char)(type >> 8), (unsigned char)version, 0};
    raw(h, sizeof h);
}

static void ok(void)
{
    give(WIRE_HELLO, "{\"version\":\"fake\"}");
    give(WIRE_PHASE, "{\"phase\":\"compile\",\"state\":\"start\"}");
    give(WIRE_PHASE, "{\"phase\":\"compile\",\"state\":\"end\",\"ms\":1.5}");
    blob("kernel.ptx", 100000);
    blob("kernel.cubin", 3);
    give(WIRE_VERDICT, OK_ANSWER);
}

static void drip(void)
{
    char text[] = "\x40\0\0\0\x03\0\x01\0{";
    for (size_t i = 0; i < sizeof text - 1; i++, clock_sleep_ns(30000000))
        raw(text + i, 1);
    for (;; clock_sleep_ns(30000000))
        raw(" ", 1);
}

static void hang(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        clock_sleep_ns(1000000000);
}

/* What a judge says of time, and then takes: in line for a card, or for the size of its tensors. */
static void takes(const char *said, int64_t ms, const char *after)
{
    give(WIRE_PHASE, "{\"phase\":\"correct\",\"state\":\"start\"}");
    give(WIRE_PHASE, said);
    clock_sleep_ns(ms * 1000000);
    if (after)
        give(WIRE_PHASE, after);
}

static void chatter(void)
{
    for (int i = 0; i < 20000; i++)
        fprintf(stderr, "line %d of many\n", i);
    ok();
}

int main(int argc, char **argv)
{
    const char *mode = getenv("FAKE_JUDGE") ? getenv("FAKE_JUDGE") : "ok";
    bool devices = argc > 1 && strcmp(argv[1], "serve-devices") == 0;
    if (strcmp(mode, "deaf") == 0) {       /* refuses at once, reads nothing */
        give(WIRE_ERROR, "{\"code\":\"unavailable\",\"text\":\"no toolkit\"}");
        return 1;
    }
    if (strcmp(mode, "never_reads") == 0)
        hang();
    struct err err = {0};
    cleanup(wire_frame) struct wire_frame task = {0};
    if (!devices && !wire_receive(0, 0, &task, &err)) {
        fprintf(stderr, "fake judge: %s\n", err.text);
        return 8;
    }
    if (strcmp(mode, "ok") == 0 && devices)
        give(WIRE_DEVICES, "{\"devices\":[{\"kind\":\"sim\"}],\"sandbox\":{\"level\":\"limits\"},\"toolkit\":{\"version\":null},\"version\":\"fake\"}");
    else if (strcmp(mode, "ok") == 0)
        ok();
    else if (strcmp(mode, "echo_arguments") == 0) {
        for (int i = 1; i < argc; i++)
            fprintf(stderr, "[%s]", argv[i]);
        return 7;
    } else if (strcmp(mode, "echo_environment") == 0) {
        for (char **at = environ; *at; at++)
            if (!strncmp(*at, "PROTEUS_", 8))
                fprintf(stderr, "[%s]", *at);
        return 7;
    } else if (strcmp(mode, "crash") == 0)
        fprintf(stderr, "about to die: \x01\xff bad bytes\n"), abort();
    else if (strcmp(mode, "exit3") == 0)
        return 3;
    else if (strcmp(mode, "early_end") == 0)
        give(WIRE_HELLO, "{}");
    else if (strcmp(mode, "half_frame") == 0)
        head(100, WIRE_VERDICT, 1), raw("{", 1);
    else if (strcmp(mode, "garbage") == 0)
        raw("Segmentation fault (core dumped)\n", 33);
    else if (strcmp(mode, "version") == 0)
        head(2, WIRE_VERDICT, 2), raw("{}", 2);
    else if (strcmp(mode, "type") == 0)
        head(2, 77, 1), raw("{}", 2);
    else if (strcmp(mode, "huge") == 0)
        head(0xfffffff0u, WIRE_VERDICT, 1), hang();
    else if (strcmp(mode, "huge_blob") == 0)
        give(WIRE_BLOB_NAME, "{\"name\":\"kernel.ptx\"}"), head(0x7fffffffu, WIRE_BLOB, 1), hang();
    else if (strcmp(mode, "not_json") == 0)
        head(4, WIRE_VERDICT, 1), raw("nope", 4);
    else if (strcmp(mode, "drip") == 0)
        drip();
    else if (strcmp(mode, "hang") == 0)
        hang();
    else if (strcmp(mode, "in_line") == 0)
        takes("{\"phase\":\"correct\",\"state\":\"line\"}", 1200, "{\"phase\":\"correct\",\"state\":\"card\"}"), ok();
    else if (strcmp(mode, "in_line_for_ever") == 0)
        takes("{\"phase\":\"correct\",\"state\":\"line\"}", 0, NULL), hang();
    else if (strcmp(mode, "hangs_with_card") == 0)
        takes("{\"phase\":\"correct\",\"state\":\"line\"}", 200, "{\"phase\":\"correct\",\"state\":\"card\"}"), hang();
    else if (strcmp(mode, "large") == 0)
        takes("{\"phase\":\"admit\",\"state\":\"size\",\"more_ns\":5000000000}", 1200, NULL), ok();
    else if (strcmp(mode, "says_anything") == 0)
        takes("{\"phase\":\"admit\",\"state\":\"size\",\"more_ns\":4000000000000000000}", 0, NULL), hang();
    else if (strcmp(mode, "chatter") == 0)
        chatter();
    else if (strcmp(mode, "flood") == 0)
        for (;;)
            give(WIRE_PHASE, "{\"phase\":\"compile\",\"state\":\"start\"}");
    else if (strcmp(mode, "hello_flood") == 0)
        for (;;)
            give(WIRE_HELLO, "{}");
    else if (strcmp(mode, "error") == 0)
        give(WIRE_ERROR, "{\"code\":\"unavailable\",\"text\":\"no toolkit at /usr/local/cuda\"}");
    else if (strcmp(mode, "ok_then_crash") == 0)
        ok(), fflush(NULL), abort();
    else if (strcmp(mode, "ok_then_exit5") == 0)
        ok(), exit(5);
    else if (strcmp(mode, "blob_unnamed") == 0)
        head(1, WIRE_BLOB, 1), raw("x", 1), give(WIRE_VERDICT, OK_ANSWER);
    else if (strcmp(mode, "blob_twice") == 0)
        blob("a", 1), blob("a", 1), give(WIRE_VERDICT, OK_ANSWER);
    else if (strcmp(mode, "blob_path") == 0)
        give(WIRE_BLOB_NAME, "{\"name\":\"../../etc/passwd\"}"), head(1, WIRE_BLOB, 1), raw("x", 1), give(WIRE_VERDICT, OK_ANSWER);
    else if (strcmp(mode, "blob_many") == 0)
        for (char name[] = "a"; name[0] <= 'z'; name[0]++)
            blob(name, 1);
    else if (strncmp(mode, "answer:", 7) == 0)
        give(WIRE_VERDICT, mode + 7);
    else
        return 6;
    return 0;
}
