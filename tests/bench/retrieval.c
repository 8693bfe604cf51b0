/*
 * How well and how fast lessons are found.
 *
 *   bench_retrieval recall FOLDER THESAURUS [-v]     recall among the first five on the labelled set, and what each part adds
 *   bench_retrieval speed THESAURUS [LESSONS]        latency over a generated store (100000): median, 99th percentile, worst
 */
#include "tests/know_set.h"

#include "core/clock.h"
#include "core/rng.h"

#include <time.h>
#include <unistd.h>

#define SPEED_QUERIES 2000
#define PUT_AT_ONCE 500

static const struct { const char *name; unsigned without; } rows[] = {
    {"all parts", 0},
    {"without trust", LESSON_PART_TRUST},
    {"without tags", LESSON_PART_TAGS},
    {"without BM25", LESSON_PART_BM25},
    {"without vectors", LESSON_PART_VECTORS},
    {"without the thesaurus", LESSON_PART_THESAURUS},
    {"BM25 alone, no thesaurus", LESSON_PART_TAGS | LESSON_PART_VECTORS | LESSON_PART_THESAURUS | LESSON_PART_TRUST},
    {"BM25 and thesaurus", LESSON_PART_TAGS | LESSON_PART_VECTORS | LESSON_PART_TRUST},
    {"vectors alone", LESSON_PART_TAGS | LESSON_PART_BM25 | LESSON_PART_THESAURUS | LESSON_PART_TRUST},
    {"tags alone", LESSON_PART_BM25 | LESSON_PART_VECTORS | LESSON_PART_THESAURUS | LESSON_PART_TRUST},
};

static int run_recall(const char *folder, const char *thesaurus, bool verbose)
{
    struct set s;
    int seen, unseen;
    set_open(&s, folder, thesaurus);
    printf("| recall@%d | seen queries | unseen queries |\n|---|---|---|\n", SET_TOP);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double a = set_recall(&s, folder, "queries.json", rows[i].without, verbose && !i, &seen);
        double b = set_recall(&s, folder, "queries_unseen.json", rows[i].without, verbose && !i, &unseen);
        printf("| %s | %.3f | ", rows[i].name, a);
        printf(unseen ? "%.3f |\n" : "- |\n", b);
    }
    printf("%d queries seen while tuning, %d written afterwards by someone who had not seen the thesaurus\n", seen, unseen);
    set_close(&s);
    return 0;
}

/* ---- speed ---- */

static const char *const words[] = {"register", "spill", "shared", "memory", "bank", "conflict", "coalesced", "vector", "load", "store", "warp", "block",
    "grid", "tile", "stage", "pipeline", "barrier", "latency", "bandwidth", "occupancy", "unroll", "loop", "index", "row", "column", "reduce", "shuffle",
    "atomic", "split", "launch", "kernel", "cache", "evict", "prefetch", "swizzle", "tensor", "cluster", "async", "copy", "fp8", "bf16", "softmax", "norm"};

/* A vocabulary as texts have it: a few words everywhere, many that are rare. */
static void add_words(struct buf *to, uint64_t seed, uint64_t stream, int count)
{
    const int common = (int)(sizeof words / sizeof *words);
    for (int i = 0; i < count; i++) {
        double u = rng_unit(seed, stream, (uint64_t)i);
        int word = (int)(exp(u * log(20000.0))) - 1;          /* Zipf over 20000 words */
        if (word < common)
            buf_fmt(to, "%s ", words[word]);
        else
            buf_fmt(to, "w%dx%s ", word * 7919 % 20011, words[word % common]);
    }
}

static json_t *make_lesson(uint64_t n)
{
    cleanup(buf) struct buf situation = {0}, action = {0};
    json_t *doc = json_object(), *tags = json_array();
    char text[LESSON_TAG_BYTES];
    add_words(&situation, 1, n, 24);
    add_words(&action, 2, n, 16);
    snprintf(text, sizeof text, "op/op%d", (int)rng_below(3, n, 0, 40));
    json_array_append_new(tags, json_string(text));
    json_array_append_new(tags, json_string(rng_below(3, n, 1, 3) ? "target/sm_90a" : "target/sm_80"));
    json_array_append_new(tags, json_string(rng_below(3, n, 2, 2) ? "regime/latency" : "regime/bandwidth"));
    snprintf(text, sizeof text, "technique/t%d", (int)rng_below(3, n, 3, 200));
    json_array_append_new(tags, json_string(text));
    json_put_str(doc, "id", id_new("les").text);
    json_put_str(doc, "state", "active");
    json_put(doc, "tags", tags);
    json_put_str(doc, "situation", buf_cstr(&situation));
    json_put_str(doc, "action", buf_cstr(&action));
    json_put(doc, "trust", json_pack("{s:f,s:f,s:f,s:f}", "alpha", 2.0, "beta", 1.0, "mean", 0.67, "lower", 0.2 + 0.6 * rng_unit(3, n, 4)));
    return doc;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print_times(const char *what, int64_t *ns)
{
    qsort(ns, SPEED_QUERIES, sizeof *ns, by_value);
    printf("%d queries, %s: median %.3f ms, 99th percentile %.3f ms, worst %.3f ms\n", SPEED_QUERIES, what, (double)ns[SPEED_QUERIES / 2] / 1e6,
           (double)ns[SPEED_QUERIES * 99 / 100] / 1e6, (double)ns[SPEED_QUERIES - 1] / 1e6);
}

static int run_speed(const char *thesaurus, int count)
{
    char dir[] = "/tmp/proteus-know-XXXXXX";
    struct store *store = NULL;
    struct know *know = NULL;
    struct err err = {0};
    static int64_t ns[SPEED_QUERIES], cpu_ns[SPEED_QUERIES];
    if (!mkdtemp(dir) || !store_open(&(struct store_config){.dir = dir, .map_bytes = (int64_t)8 << 30}, &store, &err))
        set_die("store", &err);
    for (int n = 0; n < count;) {
        struct store_batch *b = store_batch_new();
        for (int i = 0; i < PUT_AT_ONCE && n < count; i++, n++) {
            cleanup(json) json_t *doc = make_lesson((uint64_t)n);
            store_put(b, STORE_LESSON, json_str(doc, "id", ""), NULL, doc);
        }
        if (!store_commit(store, b, NULL, &err))
            set_die("store", &err);
    }
    int64_t start = clock_mono_ns();
    if (!know_open(&(struct know_config){.max_lessons = 200000, .text_bytes = 2048, .thesaurus = thesaurus}, store, &know, &err))
        set_die("know", &err);
    printf("%d lessons indexed in %.2f s\n", count, (double)(clock_mono_ns() - start) / 1e9);
    for (int i = 0; i < SPEED_QUERIES; i++) {
        cleanup(buf) struct buf text = {0};
        char op[LESSON_TAG_BYTES], technique[LESSON_TAG_BYTES];
        add_words(&text, 9, (uint64_t)i, 6 + (int)rng_below(9, 77, (uint64_t)i, 25));
        snprintf(op, sizeof op, "op/op%d", (int)rng_below(9, 78, (uint64_t)i, 40));
        snprintf(technique, sizeof technique, "technique/t%d", (int)rng_below(9, 79, (uint64_t)i, 200));
        const char *tags[] = {op, "target/sm_90a", "regime/latency", technique};
        struct lesson_query q = {.tags = tags, .tag_count = (int)rng_below(9, 80, (uint64_t)i, 5), .text = buf_cstr(&text), .limit = 8, .token_budget = 1500};
        cleanup(lesson_list) struct lesson_list list = {.count = 0};
        int64_t from = clock_mono_ns(), cpu_from = thread_cpu_ns();
        if (!lessons_retrieve(know, &q, &list, &err))
            set_die("retrieve", &err);
        ns[i] = clock_mono_ns() - from;
        cpu_ns[i] = thread_cpu_ns() - cpu_from;
        if (!list.count)
            set_die("retrieve", &(struct err){.text = "nothing was found"});
    }
    print_times("wall clock", ns);
    print_times("processor", cpu_ns);
    know_close(know);
    store_close(store);
    cleanup(str) char *command = xfmt("rm -rf '%s'", dir);
    return system(command) || ns[SPEED_QUERIES * 99 / 100] > 5000000;
}

int main(int argc, char **argv)
{
    hash_init();
    if (argc >= 4 && !strcmp(argv[1], "recall"))
        return run_recall(argv[2], argv[3], argc > 4 && !strcmp(argv[4], "-v"));
    if (argc >= 3 && !strcmp(argv[1], "speed"))
        return run_speed(argv[2], argc > 3 ? atoi(argv[3]) : 100000);
    fprintf(stderr, "usage: bench_retrieval recall FOLDER THESAURUS [-v] | speed THESAURUS [LESSONS]\n");
    return 2;
}
