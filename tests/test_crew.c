/* Work in parts: every part once, whatever the number of threads; and inputs, references and comparisons of large tensors that are the same bits on one thread and on many. */
#include "tests/compare_scene.h"

#include "core/hash.h"
#include "gpu/judge/crew.h"
#include "gpu/judge/spare.h"
#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define STEP "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":8,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}"
#define PACKED "{\"op\":\"gdn_packed_decode\",\"axes\":{\"B\":12,\"H\":2,\"HV\":8,\"K\":128,\"V\":128}}"
#define SHORT_ROWS "{\"op\":\"rmsnorm\",\"axes\":{\"R\":40000,\"N\":17},\"dtypes\":{\"io\":\"f32\"}}"
#define CACHE "{\"op\":\"gqa_decode\",\"axes\":{\"B\":2,\"HQ\":4,\"HK\":4,\"d\":64,\"T\":1024}}"

/* ---- parts ---- */

#define PARTS 1000
struct counted { atomic_int times[PARTS]; atomic_int inner; };

static void count_inner(void *ctx, int64_t part)
{
    struct counted *c = ctx;
    atomic_fetch_add(&c->inner, (int)part);
}

static void count_part(void *ctx, int64_t part)
{
    struct counted *c = ctx;
    atomic_fetch_add(&c->times[part], 1);
    if (part % 100 == 0)
        crew_run(4, count_inner, c);
}

static void *count_all(void *ctx)
{
    crew_run(PARTS, count_part, ctx);
    return NULL;
}

static void test_each_once(void)
{
    cleanup(mem) void *memory = xalloc(4 * sizeof(struct counted));
    struct counted *c = memory;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        check(pthread_create(&threads[i], NULL, count_all, &c[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        for (int k = 0; k < PARTS; k++)
            check_int(atomic_load(&c[i].times[k]), 1);
        check_int(atomic_load(&c[i].inner), PARTS / 100 * (0 + 1 + 2 + 3));
    }
    crew_run(0, count_part, c);
    check_int(atomic_load(&c[0].times[0]), 1);
}

static void test_bytes(void)
{
    const size_t bytes = 3 * CREW_PART_BYTES + 4097;
    cleanup(mem) void *one = xalloc(bytes), *other = xalloc(bytes);
    char *a = one, *b = other;
    for (size_t i = 0; i < bytes; i++)
        a[i] = (char)(i * 7 + i / 251);
    crew_copy(b, a, bytes);
    check(memcmp(a, b, bytes) == 0);
    check_int(crew_difference(a, b, bytes), -1);
    b[bytes - 1] ^= 1;
    check_int(crew_difference(a, b, bytes), bytes - 1);
    b[2 * CREW_PART_BYTES] ^= 1;
    b[CREW_PART_BYTES + 5] ^= 1;
    check_int(crew_difference(a, b, bytes), CREW_PART_BYTES + 5);
    check_int(crew_difference(a, b, 0), -1);
}

/* What is given is there for who asks for as much, within what may be kept; never to two. */
static void test_spare(void)
{
    const size_t large = (size_t)9 << 20, other = (size_t)40 << 20;
    void *a = spare_take(large);
    spare_give(a);                                       /* nothing is kept yet: freed */
    spare_keep((int64_t)24 << 20);
    void *p[3] = {spare_take(large), spare_take(large), spare_take(other)};
    for (int i = 0; i < 3; i++)
        spare_give(p[i]);                                /* the last is too large */
    void *q[3] = {spare_take(large), spare_take(other), spare_take(large - 100)};
    check(q[0] == p[1] && q[2] == p[0]);
    memset(q[1], 1, other);
    for (int i = 0; i < 3; i++)
        spare_give(q[i]);
    void *small = spare_take(100);
    check(small != p[0] && small != p[1]);
    spare_give(small);
    spare_give(NULL);
    spare_keep(0);
}

/* ---- the same on one thread and on many ---- */

/* One name of all inputs. */
static struct hash_hex inputs_id(const struct scene *s)
{
    cleanup(buf) struct buf names = {0};
    for (int t = 0; t < s->shape.op->tensor_count; t++)
        if (s->inputs[t])
            buf_fmt(&names, "%s\n", hash_of(s->inputs[t], (size_t)s->tensors[t].bytes).text);
    return hash_of(names.data, names.size);
}

/* What they were before they were made in parts, by one loop over all elements. */
static const struct { const char *shape, *regime, *inputs; } made[] = {
    {PACKED, "typical", "45f687a421b63f3e01102aa55bd2add0d150653c936b6e86e850d0d5635e87ee"},
    {PACKED, "outliers", "f9f5ef53d12f0374eccb383c6154d2a30d7ac12669041f19d88a80988a5b8f22"},
    {PACKED, "mostly_padded", "02f2cfdc0e7f8440c0a78f3968ee8abeee04acacdc061ce6c5e65f77687e9637"},
    {SHORT_ROWS, "mixed_rows", "85870c76c9a8c713bd873a857d3119be4b88e04639f45b858189d9327392da9b"},
    {CACHE, "stale", "fd5ffea638a221ba38f1ed5ea8a7e492fa06e759bce510e1ef07a5aa9f0bfde2"},
    {CACHE, "cancelling", "f2b8f0228859d9cef2c701ece90d091e6ce92980e3f2748c0922f33112897e8b"},
    {CACHE, "rising", "8afc901f4847dc0440f5c99f453ea038b93daaac2ba6df4e666ce62665a1a3a0"},
};

static void test_inputs(void)
{
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        for (int threads = 1; threads <= 8; threads += 7) {
            cleanup(scene) struct scene s = {0};
            crew_limit(threads);
            scene_make(&s, made[i].shape, made[i].regime, 11);
            check_str(inputs_id(&s).text, made[i].inputs);
        }
}

static void check_same(const struct compare_result *a, const struct compare_result *b)
{
    check_int(a->code, b->code);
    check_int(a->rule, b->rule);
    check_str(a->text, b->text);
    check_int(a->has_element, b->has_element);
    check(memcmp(a->index, b->index, sizeof a->index) == 0);
    check(memcmp(&a->got, &b->got, 2 * sizeof a->got) == 0);
    check(memcmp(&a->elements, &b->elements, 3 * sizeof a->elements) == 0);
    check(memcmp(&a->worst, &b->worst, 7 * sizeof a->worst) == 0);       /* worst .. bias */
    check(a->small == b->small);
}

/* References and comparisons, of right results and of each kind of fault. */
static void test_threads(void)
{
    static const char *const shapes[] = {STEP, PACKED, SHORT_ROWS, CACHE};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cleanup(scene) struct scene one = {0}, many = {0};
        crew_limit(1);
        scene_make(&one, shapes[i], "typical", 5);
        crew_limit(8);
        scene_make(&many, shapes[i], "typical", 5);
        for (int t = 0; t < one.shape.op->tensor_count; t++) {
            const struct tensor *tensor = &one.tensors[t];
            if (!one.right[t])
                continue;
            check(memcmp(one.right[t], many.right[t], (size_t)(tensor->elements * op_results(one.shape.op)) * sizeof(double)) == 0);
            for (int fault = 0; fault < 5; fault++) {
                scene_put(&one, t, NULL);
                memcpy(one.baseline[t], one.got[t], (size_t)tensor->bytes);
                double bad[] = {0, one.right[t][tensor->elements / 2] + 10, NAN, -1000, 1e-3};
                if (fault)
                    dtype_store(tensor->dtype, one.got[t], (size_t)(tensor->elements / 2), bad[fault]);
                for (int with = 0; with < 2; with++) {
                    crew_limit(1);
                    const struct compare_result a = scene_compare(&one, t, with);
                    crew_limit(8);
                    const struct compare_result b = scene_compare(&one, t, with);
                    check_same(&a, &b);
                    check(fault == 0 ? a.code == VERDICT_OK : fault > 3 || a.code != VERDICT_OK);
                }
            }
        }
    }
}

static int64_t element_of(const struct tensor *t, const struct compare_result *r)
{
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++)
        at = at * t->dims[d] + r->index[d];
    return at;
}

/* As one walk over all would: the first of several faults of a kind, wherever parts begin; the bits that must stay before all others. */
static void test_order(void)
{
    cleanup(scene) struct scene s = {0};
    scene_make(&s, PACKED, "typical", 5);
    const int t = scene_tensor(&s, "state");
    const struct tensor *tensor = &s.tensors[t];
    const int64_t slot = tensor->elements / tensor->dims[0];     /* slot 0 is nobody's: it keeps its bits */
    float *got = s.got[t];
    scene_put(&s, t, NULL);
    check_int(scene_compare(&s, t, false).code, VERDICT_OK);
    check_int(scene_compare(&s, t, false).unchanged, slot);
    check_int(scene_compare(&s, t, false).elements, tensor->elements - slot);
    for (int64_t slots = 9; slots > 1; slots -= 2) {
        got[slots * slot + 77] = 1e6f;
        const struct compare_result r = scene_compare(&s, t, false);
        check_int(r.code, VERDICT_WRONG_RESULT);
    }
    got[6 * slot + 5] = 1e9f;
    struct compare_result r = scene_compare(&s, t, false);
    check_int(element_of(tensor, &r), 6 * slot + 5);
    got[11 * slot + 1] = NAN, got[8 * slot + 2] = INFINITY;
    r = scene_compare(&s, t, false);
    check_int(r.rule, COMPARE_CLASSES);
    check_int(r.wrong_class, 2);
    check_int(element_of(tensor, &r), 8 * slot + 2);
    got[3] = 4;
    r = scene_compare(&s, t, false);
    check_int(r.rule, COMPARE_UNCHANGED);
    check_int(element_of(tensor, &r), 3);
}

int main(void)
{
    static void (*const tests[])(void) = {test_each_once, test_bytes, test_spare, test_inputs, test_threads, test_order};
    crew_limit(8);
    return scene_main(tests, sizeof tests / sizeof *tests);
}
