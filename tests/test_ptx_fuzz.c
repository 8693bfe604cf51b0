/*
 * Damaged PTX must be refused or run within its limits, never crash: deterministic mutations of the kernels here, under
 * the sanitizers where they are built in. Arguments: [first seed] [count].
 */
#include "tests/test_ptx.h"

static uint64_t state;
static uint32_t next(uint32_t below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state >> 33) % (below ? below : 1));
}

static const char *const words[] = {"{", "}", "[", "]", "(", ")", ";", ",", ":", "@%p1 ", "!", "-", "|", "_", "%r1", "%rd1", "%f1", "%p1", "%tid.x", "%envreg1", "0", "1", "-1",
    "4294967295", "9223372036854775807", "99999999999999999999", "0f3F800000", "0d3FF0000000000000", "0x", "1.5e400", ".reg .b32 %r<2000000>;", ".reg .b64 %q<7>;", ".shared .align 16 .b8 z[99999999];",
    ".local .b8 w[1000];", ".param .b32 pp;", "$L__BB0_2:", "bra $L__BB0_2;", "bra.uni $L__BB0_1;", "ret;", "exit;", "bar.sync 0;", "bar.sync %r1, %r2;", "call f, (a);", ".v4", ".v8", ".u8", ".f64", ".b128", ".global",
    ".shared", ".local", ".param", ".visible .entry e(", ".func g(", ".loc 1 2 3", ".file 1 \"", "\"", "/*", "//", ".section .x {", ".pragma \"a\";", "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
    "atom.global.add.u32 %r1, [%rd1], 1;", "cp.async.cg.shared.global [%r1], [%rd1], 16;", "mov.b64 {%r1, %r2}, %rd1;", "prmt.b32 %r1, %r1, %r1, 9;", "st.local.u32 [%rd1], %r1;", "brx.idx %r1, T;", "T: .branchtargets $L__BB0_1, $L__BB0_2;"};

static size_t mutate(char *text, size_t size, size_t room)
{
    for (uint32_t n = 1 + (next(3) ? 0 : next(5)); n; n--) {
        const size_t at = next((uint32_t)size);
        const char *word = words[next(sizeof words / sizeof *words)];
        size_t length = strlen(word), cut;
        switch (next(7)) {
        case 0: text[at] = (char)next(256); break;
        case 1: text[at] = "0123456789{}[]();,.%@$_-+<>\n "[next(29)]; break;
        case 2: /* a stretch away */
            cut = next(60) < size - at ? next(60) : 1;
            cut = cut > size - at ? size - at : cut;
            memmove(text + at, text + at + cut, size - at - cut);
            size -= cut;
            break;
        case 3: /* a line again, elsewhere */
            length = strcspn(text + at, "\n") + 1;
            length = length > 200 ? 200 : length;
            if (size + length < room && at + length < size) {
                const size_t to = next((uint32_t)size);
                char line[201];
                memcpy(line, text + at, length);
                memmove(text + to + length, text + to, size - to);
                memcpy(text + to, line, length);
                size += length;
            }
            break;
        case 4: size = next(40) ? size : at + 1; break;
        default:
            if (size + length < room) {
                memmove(text + at + length, text + at, size - at);
                memcpy(text + at, word, length);
                size += length;
            }
            break;
        }
        text[size] = 0;
    }
    return size;
}

static int parsed, ran;
static void try(const char *text, size_t size)
{
    struct ptx_limits limits = ptx_default_limits;
    struct ptx_finding finding;
    struct err err = {0};
    cleanup(ptx) struct ptx_module *m = NULL;
    limits.memory_bytes = 64 << 20;
    limits.thread_instructions = 200000;
    limits.wall_ns = 50000000;
    check(ptx_parse(text, size, &limits, &m, &finding, &err));
    check((m == NULL) == (finding.kind != PTX_CLEAN));
    check(utf8_valid(finding.text, strlen(finding.text)));
    if (!m)
        return;
    parsed++;
    struct ptx_scan scan;
    check(ptx_scan(m, NULL, &scan, &err));
    cleanup(buf) struct buf unsupported = {0};
    ptx_unsupported(m, &unsupported);
    struct ptx_kernel kernel;
    for (int i = 0; ptx_kernel_get(m, i, &kernel) && i < 2; i++) {
        struct ptx_launch launch = {.kernel = kernel.name, .grid = {2, 1, 1}, .block = {64, 1, 1}, .dynamic_shared_bytes = 1024, .arg_count = kernel.param_count};
        static uint8_t data[4][4096], written[4][512];
        struct ptx_buffer buffers[4];
        for (int b = 0; b < 4; b++) {
            buffers[b] = (struct ptx_buffer){.name = "b", .address = 0x10000000ull + (uint64_t)b * 0x100000, .bytes = 4096, .data = data[b], .initialised = written[b], .writable = b != 1};
            memset(written[b], 255, 512);
        }
        bool runnable = true;
        for (int p = 0; p < kernel.param_count; p++) {
            runnable &= kernel.params[p].bytes <= 8;
            launch.args[p] = (struct ptx_arg){(uint8_t)kernel.params[p].bytes, kernel.params[p].bytes == 8 ? buffers[p % 4].address : (uint64_t)(p + 1)};
        }
        if (!runnable)
            continue;
        struct ptx_run_options options = {.limits = limits, .schedule_seed = (uint64_t)i, .check_races = true};
        struct ptx_counts counts;
        check(ptx_run(m, &launch, buffers, 4, &options, &finding, &counts, &err));
        ran++;
        struct ptx_estimate estimate;
        ptx_estimate_time(&counts, &launch, NULL, ptx_device_find("H200"), &estimate);
    }
}

int main(int argc, char **argv)
{
    static const char *const files[] = {"divergent.ptx", "histogram.ptx", "cp_async.ptx", "rmsnorm.ptx", "gdn_decode.ptx", "math.ptx"};
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 6000;
    for (uint64_t seed = first; seed < first + count; seed++) {
        state = seed * 0x9e3779b97f4a7c15ull;
        char *text = test_file(files[next(20) < 12 ? next(3) : next(6)]);
        const size_t size = strlen(text), room = size + 4096;
        text = xrealloc(text, room + 1);
        if (getenv("PTX_FUZZ_VERBOSE"))
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        try(text, mutate(text, size, room));
        free(text);
    }
    printf("%d of %llu parse, %d launches\n", parsed, (unsigned long long)count, ran);
    return test_done();
}
