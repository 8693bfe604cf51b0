/* Tags are paths, the first step of which says what they speak of. */
#include "know/internal.h"

#include "core/json.h"

#include <math.h>
#include <stdarg.h>

static const struct { const char *name; double weight; bool excludes; } facets[] = {
#define X(name, weight, excludes) {name, weight, excludes},
    TAG_FACETS(X)
#undef X
};
#define FACET_COUNT ((int)(sizeof facets / sizeof *facets))

int tag_facet(const char *tag)
{
    size_t n = strcspn(tag, "/");
    for (int i = 0; i < FACET_COUNT; i++)
        if (strlen(facets[i].name) == n && !strncmp(facets[i].name, tag, n))
            return i;
    return -1;
}

double tag_facet_weight(int facet) { return facets[facet].weight; }
bool tag_facet_excludes(int facet) { return facets[facet].excludes; }

bool tag_valid(const char *tag)
{
    size_t n = strlen(tag);
    if (!n || n >= LESSON_TAG_BYTES || tag_facet(tag) < 0 || !strchr(tag, '/') || tag[n - 1] == '/' || strstr(tag, "//"))
        return false;
    return strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789-_./") == n;
}

static bool is_above(const char *a, const char *b)
{
    size_t n = strlen(a);
    return !strncmp(a, b, n) && b[n] == '/';
}

double tag_match(const char *a, const char *b)
{
    return !strcmp(a, b) ? 1 : is_above(a, b) || is_above(b, a) ? 0.6 : 0;
}

bool lesson_tags_add(struct lesson_tags *to, const char *fmt, ...)
{
    char text[LESSON_TAG_BYTES + 1];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= LESSON_TAG_BYTES || !tag_valid(text))
        return false;
    for (int i = 0; i < to->count; i++)
        if (!strcmp(to->list[i], text))
            return true;
    if (to->count == LESSON_MAX_TAGS)
        return false;
    memcpy(to->list[to->count++], text, (size_t)n + 1);
    return true;
}

/*
 * A launch of a few microseconds is bound by latency whatever it moves; from some tens of megabytes on only bytes count. In between
 * both do. Boundaries by what the shape must move at least, for a card of some 4 TB/s.
 */
#define LATENCY_BYTES ((int64_t)8 << 20)
#define BANDWIDTH_BYTES ((int64_t)64 << 20)
#define COMPUTE_FLOPS_PER_BYTE 100.0

void lesson_tags_of_shape(const struct shape *s, struct lesson_tags *to)
{
    int64_t bytes = 0, flops = 0;
    struct err err;
    (void)lesson_tags_add(to, "op/%s", s->op->name);
    (void)lesson_tags_add(to, "target/%s", s->target);
    for (int i = 0; i < s->op->letter_count; i++)
        (void)lesson_tags_add(to, "dtype/%s", dtype_name(s->dtypes[i]));
    if (!shape_work(s, &bytes, &flops, &err) || bytes <= 0)
        return;
    const char *regime = bytes < LATENCY_BYTES ? "latency" : (double)flops > COMPUTE_FLOPS_PER_BYTE * (double)bytes ? "compute" :
                         bytes < BANDWIDTH_BYTES ? "between" : "bandwidth";
    (void)lesson_tags_add(to, "regime/%s", regime);
}

void lesson_tags_of_figures(const json_t *figures, struct lesson_tags *to)
{
    static const struct { const char *key, *tag; } rows[] = {{"spill_bytes", "symptom/spill"}, {"local_bytes", "symptom/local-memory"}};
    const char *bound = json_str(figures, "bound", NULL);
    size_t i;
    json_t *kernel;
    if (bound)
        (void)lesson_tags_add(to, "symptom/bound-by-%s", bound);
    json_array_foreach(json_object_get(figures, "resources"), i, kernel)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (json_int(kernel, rows[k].key, 0) > 0)
                (void)lesson_tags_add(to, "%s", rows[k].tag);
}
