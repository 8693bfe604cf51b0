/* A tensor in several parts: what each part counts is added up, and the whole is judged by the sums, just as a tensor of one part is. */
#include "tests/compare_scene.h"

#include "tests/test.h"

#include <math.h>

/* Of each thousand rows one may be as far off as the one that rounding between the steps moves furthest, and no more of them. */
static void rare_rows(int batch, int allowed)
{
    cleanup(scene) struct scene s = {0};
    char shape[128];
    snprintf(shape, sizeof shape, "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":%d,\"H\":2,\"HV\":4,\"K\":32,\"V\":32}}", batch);
    scene_make(&s, shape, "typical", 12);
    const int t = scene_tensor(&s, "state");
    const struct tensor *tensor = &s.tensors[t];
    double *right = s.right[t], *between = right + tensor->elements, noise = 0, values = 0;
    cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double)), *list = xarray((size_t)tensor->elements / 32, sizeof(int64_t));
    double *got = memory;
    int64_t *rows = list;
    int found = 0;
    for (int64_t i = 0; i < tensor->elements; i++)
        if (between[i] != right[i]) {
            if (!found || i / 32 != rows[found - 1])
                rows[found++] = i / 32;
            noise += (between[i] - right[i]) * (between[i] - right[i]);
            values += right[i] * right[i];
        }
    check_int(found / 1000, allowed);
    const double far = 8 * sqrt(noise / values);
    for (int i = 0; i < 32; i++)
        between[rows[0] * 32 + i] = right[rows[0] * 32 + i] * (1 + (i % 2 ? far : -far));
    memcpy(got, between, (size_t)tensor->elements * sizeof *got);
    for (int n = 1; n <= allowed + 1; n++) {
        const int64_t at = rows[(int64_t)n * (found - 1) / (allowed + 1)] * 32;      /* all over the tensor */
        memcpy(between + at, right + at, 32 * sizeof *right);
        for (int i = 0; i < 32; i++)
            got[at + i] = right[at + i] * (1 + (i % 2 ? far : -far));
    }
    scene_put(&s, t, got);
    const struct compare_result many = scene_compare(&s, t, false);
    check_int(many.rule, COMPARE_TILE);
    const int64_t last = rows[found - 1] * 32;
    memcpy(got + last, right + last, 32 * sizeof *right);
    scene_put(&s, t, got);
    check_int(scene_compare(&s, t, false).rule, COMPARE_NONE);
}

/* In one part, and in several that are added up. */
static void test_rare_rows(void)
{
    rare_rows(11, 1);
    rare_rows(80, 10);
}

/* Of a row: its RMS, and which of its elements is the largest. */
static double rms_of_row(const double *row, int *ret_largest)
{
    *ret_largest = 0;
    for (int i = 1; i < 32; i++)
        *ret_largest = fabs(row[i]) > fabs(row[*ret_largest]) ? i : *ret_largest;
    return scene_rms(row, 32);
}

/* So does of each thousand elements: no part has one too many of them, all together do. */
static void rare_elements(int batch)
{
    cleanup(scene) struct scene s = {0};
    char shape[128];
    snprintf(shape, sizeof shape, "{\"op\":\"gdn_decode_step\",\"axes\":{\"B\":%d,\"H\":2,\"HV\":4,\"K\":32,\"V\":32}}", batch);
    scene_make(&s, shape, "typical", 12);
    const int t = scene_tensor(&s, "state");
    const struct tensor *tensor = &s.tensors[t];
    double *right = s.right[t], *between = right + tensor->elements, noise = 0, values = 0;
    cleanup(mem) void *memory = xarray((size_t)tensor->elements, sizeof(double)), *list = xarray((size_t)tensor->elements / 32, sizeof(int64_t));
    double *got = memory;
    int64_t *rows = list;
    int found = 0, largest;
    for (int64_t at = 0; at < tensor->elements; at += 32)
        if (memcmp(between + at, right + at, 32 * sizeof *right))
            rows[found++] = at;
    const int most = (int)(found * 32LL / 1000), each = (found - 1) / (most + 1);
    for (int n = 0; n <= most; n++)                         /* rows in which nothing excuses an error but what is usual */
        memcpy(between + rows[1 + n * each], right + rows[1 + n * each], 32 * sizeof *right);
    for (int64_t i = 0; i < tensor->elements; i++) {
        noise += (between[i] - right[i]) * (between[i] - right[i]);
        values += between[i] == right[i] ? 0 : right[i] * right[i];
    }
    const double usual = sqrt(noise / values), least = 3 * compare_tolerance(s.shape.op, tensor).factor + 0.5, of_first = rms_of_row(right + rows[0], &largest);
    between[rows[0] + largest] = right[rows[0] + largest] + 1.5 * least * usual * fmax(of_first, fabs(right[rows[0] + largest]));
    memcpy(got, between, (size_t)tensor->elements * sizeof *got);
    int64_t last = 0;
    for (int n = 0; n <= most; n++) {
        const double rms = rms_of_row(right + rows[1 + n * each], &largest);
        last = rows[1 + n * each] + largest;
        got[last] = right[last] + (n % 2 ? 1 : -1) * (least * usual * rms + 2e-4 * fabs(right[last]));
    }
    scene_put(&s, t, got);
    const struct compare_result many = scene_compare(&s, t, false);
    cleanup(str) char *says = xfmt("%d are further off", most + 1);
    check_int(many.rule, COMPARE_WORST);
    check(strstr(many.text, says));
    got[last] = right[last];
    scene_put(&s, t, got);
    const struct compare_result few = scene_compare(&s, t, false);
    check_int(few.rule, COMPARE_NONE);
    if (few.rule != COMPARE_NONE || many.rule != COMPARE_WORST)
        fprintf(stderr, "%d: %s; %s\n", batch, many.text, few.text);
}

static void test_rare_elements(void)
{
    rare_elements(11);
    rare_elements(80);
}

/* Where each element must be the right one, or its neighbour near a tie alone: those of all parts are counted, and the first of them is told. */
static void counted_in_parts(const char *tolerance, enum compare_rule rule, const char *words)
{
    static const int64_t places[] = {1024 * 2 + 7, 1024 * 170 + 1, 1024 * 299 + 1023};      /* the first in one part, the others in the next ones */
    cleanup(scene) struct scene s = {0};
    scene_make(&s, "{\"op\":\"rmsnorm\",\"axes\":{\"R\":300,\"N\":1024}}", "typical", 2);
    const int y = scene_tensor(&s, "y");
    struct op op = *s.shape.op;
    cleanup(json) json_t *doc = json_copy(op.doc);
    json_object_set_new(doc, "tolerance", json_loads(tolerance, 0, NULL));
    op.doc = doc;
    scene_put(&s, y, NULL);
    uint16_t *got = s.got[y];
    for (int i = 0; i < 3; i++)                             /* numbers of the type, far from any tie */
        s.right[y][places[i]] = dtype_load(DTYPE_BF16, got, places[i]);
    const struct compare_case c = {.op = &op, .tensor = &s.tensors[y], .reference = s.right[y], .got = s.got[y]};
    for (int set = 0; set < 8; set++) {
        struct compare_result r;
        int count = 0, first = -1;
        for (int i = 0; i < 3; i++)
            if (set >> i & 1) {
                got[places[i]] ^= 1;
                first = count++ ? first : i;
            }
        compare_tensor(&c, &r);
        cleanup(str) char *says = xfmt(" %d of 307200 elements %s", count, words);
        check_int(r.rule, count ? rule : COMPARE_NONE);
        check(!count || (strstr(r.text, says) && r.has_element && r.index[0] == places[first] / 1024 && r.index[1] == places[first] % 1024));
        for (int i = 0; i < 3; i++)
            got[places[i]] ^= set >> i & 1;
    }
}

static void test_counted_in_parts(void)
{
    counted_in_parts("{\"y\":{\"exact\":true}}", COMPARE_EXACT, "differ");
    counted_in_parts("{\"y\":{\"steps\":1}}", COMPARE_STEPS, "are the neighbour");
}

int main(void)
{
    static void (*const tests[])(void) = {test_rare_rows, test_rare_elements, test_counted_in_parts};
    return scene_main(tests, sizeof tests / sizeof *tests);
}
