/*
 * Compiler logs made of everything that could be in one: paths of this host whole, cut and folded into each other, bytes that are no
 * text, lines without end, reasons for files that cannot be opened. Cleaned, they are short UTF-8 without any of it. And PTX, of which
 * nothing but its .file lines may change.
 * Usage: test_toolkit_fuzz [COUNT [SEED]]
 */
#include "core/rng.h"
#include "gpu/device/toolkit_text.h"
#include "tests/test.h"

static const struct toolkit_paths t = {.home = "/opt/a-secret/cuda", .include = "/opt/a-secret/cuda/targets/x/include"};
static uint64_t seed, drawn;

static unsigned below(unsigned n)
{
    return (unsigned)rng_below(seed, 7, drawn++, n);
}

static const char *const pieces[] = {
    "/opt/a-secret/cuda", "/opt/a-secret/cuda/targets/x/include", "/opt/a-secret/cuda/targets/x/include/cuda_bf16.h(3): error: ", "candidate.cu(1): ",
    "/opt/a-secret/", "cuda", "/opt/a-sec", "ret/cuda", "\n", "\n", "\r\n", "\t", " ", "error: cannot open source file \"/etc/shadow\": Permission denied\n",
    "cannot open source file \"/x\": not a regular file", "cannot open source file \"", "\": Permission denied", "\":", ":", "\"", "\xff", "\xc3", "\xa9", "\xe2\x82",
    "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80", "\x01\x02", "\x1b[31m", "\x7f", "\t.file\t1 \"", "\t.file\t2 \"/opt/a-secret/cuda/targets/x/include/a.h\"\n",
    "\t.file\t1 \"/candidate.cu\"\n", "ld.param.u64 %rd1, [k_param_0];\n", "// /opt/a-secret/cuda\n",
};

static void make(struct buf *to)
{
    unsigned count = 1 + below(below(8) ? 60 : 6000);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = below(20);
        if (kind == 0) {
            char byte = (char)below(256);
            buf_add(to, &byte, 1);
        } else if (kind == 1) {
            char run[300];
            unsigned n = below(sizeof run);
            memset(run, 'a' + (int)below(26), n);
            buf_add(to, run, n);
        } else {
            buf_str(to, pieces[below(sizeof pieces / sizeof *pieces)]);
        }
    }
}

/* Every line of it that names a file which could not be opened ends with the name. */
static bool tells_no_reason(const char *log)
{
    for (const char *at = log; (at = strstr(at, "cannot open source file \"")); at++) {
        const char *end = strchrnul(at, '\n'), *name = memchr(at + 25, '"', (size_t)(end - at) > 25 ? (size_t)(end - at) - 25 : 0);
        if (name && name - at < 8000 && name + 1 < end && name[1] == ':')
            return fprintf(stderr, "a reason is told: %.*s\n", (int)(name - at < 300 ? name - at + 20 : 300), at), false;
    }
    return true;
}

static void test_log(const struct buf *raw)
{
    cleanup(str) char *clean = toolkit_log_clean(&t, raw->data ? raw->data : "", raw->size);
    cleanup(str) char *again = toolkit_log_clean(&t, clean, strlen(clean));
    bool fine = utf8_valid(clean, strlen(clean)) && strlen(clean) <= TOOLKIT_LOG_LIMIT_BYTES + 64 && !strstr(clean, t.home) && !strstr(clean, "/opt/a-secret/cuda") &&
                tells_no_reason(clean) && strlen(again) <= TOOLKIT_LOG_LIMIT_BYTES + 64;
    if (!fine)
        fprintf(stderr, "seed %llu: text %d, %zu bytes, again %zu, home %d, reason %d\n", (unsigned long long)seed, utf8_valid(clean, strlen(clean)), strlen(clean), strlen(again),
                strstr(clean, t.home) != NULL, !tells_no_reason(clean));
    check(fine);
}

static size_t lines_but_files(struct buf *to, const char *text, size_t size)
{
    size_t files = 0;
    for (size_t i = 0; i < size;) {
        const char *end = memchr(text + i, '\n', size - i);
        size_t n = end ? (size_t)(end - (text + i)) + 1 : size - i;
        bool is_file = n > 7 && memcmp(text + i, "\t.file\t", 7) == 0;
        files += is_file;
        if (!is_file)
            buf_add(to, text + i, n);
        i += n;
    }
    return files;
}

static void test_ptx(const struct buf *raw)
{
    size_t size = 0, given = raw->size;
    cleanup(str) char *clean = toolkit_ptx_clean(&t, raw->data ? raw->data : "", raw->size, &size);
    cleanup(buf) struct buf before = {0}, after = {0};
    while (given && !raw->data[given - 1])
        given--;
    size_t files = lines_but_files(&before, raw->data ? raw->data : "", given), kept = lines_but_files(&after, clean, size);
    bool equal = before.size == after.size && files == kept && (!before.size || memcmp(before.data, after.data, before.size) == 0);
    if (!equal)
        fprintf(stderr, "seed %llu: PTX changed outside its .file lines\n", (unsigned long long)seed);
    check(equal);
}

/* What does not grow with a hostile log: the time for a line of many megabytes in which each piece looks like a reason. */
static void test_long_line(void)
{
    cleanup(buf) struct buf raw = {0};
    for (int i = 0; i < 4000000; i++)
        buf_add(&raw, "\":x", 3);
    test_log(&raw);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 3000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
    for (int i = 0; i < count; i++) {
        cleanup(buf) struct buf raw = {0};
        seed = first + (uint64_t)i, drawn = 0;
        make(&raw);
        test_log(&raw);
        test_ptx(&raw);
    }
    test_long_line();
    return test_done();
}
