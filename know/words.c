/*
 * Text into what it is found by.
 *
 * A word is letters, digits, '_' and '.' side by side; an identifier of several parts counts as a whole and by its parts. Endings are
 * taken off (coalesced, coalescing and coalesce are one term). The thesaurus is data: groups of phrases that mean the same; a text that
 * holds one of them gets the group's own term, a concept, beside its words, lessons and queries alike. "near" names groups that are
 * often meant as well: for queries only, and for less.
 * Hashed n-grams: three characters of a word with its ends marked, and the word itself, by 64-bit hash: form, not meaning.
 */
#include "know/internal.h"

#include "core/rng.h"

#define WORD_BYTES 48
#define MOST_WORDS 2048                  /* of one text */
#define PHRASE_WORDS 5
#define MOST_GROUPS 4096
#define MOST_PHRASES 64
#define MOST_NEAR 16
#define THESAURUS_BYTES ((size_t)1 << 20)
#define PART_WEIGHT 0.5                  /* of an identifier's part; of a number */
#define CONCEPT_WEIGHT 1.0
#define NEAR_WEIGHT 0.35
#define SALT_CONCEPT 0x636f6e63657074u
#define SALT_NGRAM 0x6772616du

struct phrase { uint64_t hash; int group; };
struct thesaurus {
    int group_count, phrase_count, table_size;
    struct group { char *name; int near_count, near[MOST_NEAR]; } *groups;
    struct phrase *table;                /* open addressing; group -1: empty */
};
struct word { uint64_t stem; bool is_stop, is_number; char text[WORD_BYTES]; int size; };

static uint64_t hash_bytes(const char *text, size_t n, uint64_t salt)
{
    uint64_t h = 0xcbf29ce484222325u ^ salt;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return rng_mix(h);
}

void terms_done(struct terms *t)
{
    free(t->list);
    free(t->slots);
    *t = (struct terms){0};
}

static int *term_slot(const struct terms *t, uint64_t hash)
{
    int i = (int)(hash & (uint64_t)(t->slot_count - 1));
    while (t->slots[i] && t->list[t->slots[i] - 1].hash != hash)
        i = (i + 1) & (t->slot_count - 1);
    return &t->slots[i];
}

const struct term *terms_find(const struct terms *t, uint64_t hash)
{
    int at = t->count ? *term_slot(t, hash) : 0;
    return at ? &t->list[at - 1] : NULL;
}

static void terms_grow(struct terms *t)
{
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    t->list = xrealloc(t->list, (size_t)t->capacity * sizeof *t->list);
    free(t->slots);
    t->slot_count = 4 * t->capacity;
    t->slots = xarray((size_t)t->slot_count, sizeof *t->slots);
    for (int i = 0; i < t->count; i++)
        *term_slot(t, t->list[i].hash) = i + 1;
}

static void terms_add(struct terms *t, uint64_t hash, double weight, int flags)
{
    if (t->count == t->capacity)
        terms_grow(t);
    int *slot = term_slot(t, hash);
    if (*slot) {
        t->list[*slot - 1].weight += (float)weight;
        return;
    }
    t->list[t->count++] = (struct term){hash, (float)weight, flags};
    *slot = t->count;
}

/* ---- words ---- */

static bool is_stop(const char *w, int n)
{
    static const char *const list[] = {"a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "for", "from", "had",
        "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "should", "so", "some",
        "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "too", "us", "very", "was", "we", "what", "when",
        "where", "which", "while", "why", "will", "with", "would", "you", "your"};
    for (size_t i = 0; n <= 6 && i < sizeof list / sizeof *list; i++)
        if (list[i][0] == w[0] && !strncmp(list[i], w, (size_t)n) && !list[i][n])
            return true;
    return false;
}

static bool ends(const char *w, int n, const char *with)
{
    int m = (int)strlen(with);
    return n > m + 2 && !memcmp(w + n - m, with, (size_t)m);
}

static int undouble(const char *w, int n)
{
    return n > 3 && w[n - 1] == w[n - 2] && !strchr("lsz", w[n - 1]) ? n - 1 : n;
}

/* In place; the new length. */
static int stem(char *w, int n)
{
    if (ends(w, n, "ies")) {
        w[n - 3] = 'y';
        n -= 2;
    } else if (ends(w, n, "sses") || ends(w, n, "xes") || ends(w, n, "ches"))
        n -= 2;
    else if (ends(w, n, "s") && w[n - 2] != 's' && w[n - 2] != 'u' && w[n - 2] != 'i')
        n--;
    if (ends(w, n, "ing") && n > 5)
        n = undouble(w, n - 3);
    else if (ends(w, n, "ed") && n > 4)
        n = undouble(w, n - 2);
    else if (ends(w, n, "ation") && n > 7)
        n -= 3;
    else if (ends(w, n, "ly") && n > 5)
        n -= 2;
    if (n > 4 && w[n - 1] == 'e')
        n--;
    if (n > 4 && w[n - 1] == 'y')
        w[n - 1] = 'i';
    return n;
}

static bool is_letter(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

static void take_word(struct word *w, const char *text, size_t n)
{
    char copy[WORD_BYTES];
    int size = n < WORD_BYTES - 1 ? (int)n : WORD_BYTES - 1;
    bool plain = true;
    w->is_number = true;
    for (int i = 0; i < size; i++) {
        char c = text[i];
        w->text[i] = copy[i] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        w->is_number &= is_digit((unsigned char)c);
        plain &= is_letter((unsigned char)c) != 0;
    }
    w->size = size;
    w->is_stop = is_stop(w->text, size);
    int stemmed = plain ? stem(copy, size) : size;
    w->stem = hash_bytes(copy, (size_t)stemmed, 0);
}

/* The next word at or after *at; false at the end. */
static bool next_word(const char *text, size_t bytes, size_t *at, size_t *ret_start, size_t *ret_size)
{
    size_t i = *at;
    while (i < bytes && !is_letter((unsigned char)text[i]) && !is_digit((unsigned char)text[i]))
        i++;
    size_t start = i;
    while (i < bytes && (is_letter((unsigned char)text[i]) || is_digit((unsigned char)text[i]) ||
           ((text[i] == '_' || text[i] == '.') && i + 1 < bytes && (is_letter((unsigned char)text[i + 1]) || is_digit((unsigned char)text[i + 1])))))
        i++;
    *at = i;
    *ret_start = start;
    *ret_size = i - start;
    return i > start;
}

static int read_words(const char *text, size_t bytes, struct word *list, int most)
{
    size_t at = 0, start, size;
    int n = 0;
    while (n < most && next_word(text, bytes, &at, &start, &size))
        take_word(&list[n++], text + start, size);
    return n;
}

/* ---- the thesaurus ---- */

static uint64_t phrase_hash(const struct word *w, int count)
{
    uint64_t h = (uint64_t)count;
    for (int i = 0; i < count; i++)
        h = rng_mix(h ^ w[i].stem);
    return h;
}

static int phrase_group(const struct thesaurus *t, uint64_t hash)
{
    for (int i = (int)(hash & (uint64_t)(t->table_size - 1)); t->table[i].group >= 0; i = (i + 1) & (t->table_size - 1))
        if (t->table[i].hash == hash)
            return t->table[i].group;
    return -1;
}

static bool add_phrase(struct thesaurus *t, const char *text, int group, struct err *err)
{
    struct word words[PHRASE_WORDS + 1];
    int n = read_words(text, strlen(text), words, PHRASE_WORDS + 1);
    if (!n || n > PHRASE_WORDS)
        return err_set(err, ERR_INVALID, "the phrase \"%.60s\" has no word or more than %d", text, PHRASE_WORDS);
    uint64_t hash = phrase_hash(words, n);
    int other = phrase_group(t, hash);
    if (other >= 0 && other != group)
        return err_set(err, ERR_INVALID, "the phrase \"%.60s\" is in the groups %.40s and %.40s", text, t->groups[other].name, t->groups[group].name);
    if (other == group)
        return true;
    int i = (int)(hash & (uint64_t)(t->table_size - 1));
    while (t->table[i].group >= 0)
        i = (i + 1) & (t->table_size - 1);
    t->table[i] = (struct phrase){hash, group};
    t->phrase_count++;
    return true;
}

static int group_index(const struct thesaurus *t, const char *name)
{
    for (int i = 0; i < t->group_count; i++)
        if (!strcmp(t->groups[i].name, name))
            return i;
    return -1;
}

static bool take_group(struct thesaurus *t, const json_t *doc, int index, struct err *err)
{
    size_t i;
    json_t *item;
    const json_t *same = json_object_get(doc, "same"), *near = json_object_get(doc, "near");
    if (!json_array_size(same) || json_array_size(same) > MOST_PHRASES || json_array_size(near) > MOST_NEAR)
        return err_set(err, ERR_INVALID, "group %.40s: \"same\" must have 1 to %d phrases, \"near\" at most %d groups", t->groups[index].name, MOST_PHRASES, MOST_NEAR);
    json_array_foreach(same, i, item)
        if (!json_is_string(item) || !add_phrase(t, json_string_value(item), index, err))
            return json_is_string(item) ? false : err_set(err, ERR_INVALID, "group %.40s: a phrase is a text", t->groups[index].name);
    json_array_foreach(near, i, item) {
        int other = json_is_string(item) ? group_index(t, json_string_value(item)) : -1;
        if (other < 0)
            return err_set(err, ERR_INVALID, "group %.40s: \"near\" names a group that is not there: \"%.40s\"", t->groups[index].name,
                           json_is_string(item) ? json_string_value(item) : "");
        t->groups[index].near[t->groups[index].near_count++] = other;
    }
    return true;
}

bool thesaurus_parse(const json_t *doc, struct thesaurus **ret, struct err *err)
{
    const json_t *groups = json_object_get(doc, "groups");
    size_t count = json_array_size(groups), i;
    json_t *item;
    if (!json_is_array(groups) || count > MOST_GROUPS)
        return err_set(err, ERR_INVALID, "\"groups\" must be a list of at most %d", MOST_GROUPS);
    struct thesaurus *t = xalloc(sizeof *t);
    t->groups = xarray(count + 1, sizeof *t->groups);
    for (t->table_size = 64; t->table_size < (int)count * MOST_PHRASES * 2; t->table_size *= 2)
        continue;
    t->table = xarray((size_t)t->table_size, sizeof *t->table);
    for (int k = 0; k < t->table_size; k++)
        t->table[k].group = -1;
    bool ok = true;
    json_array_foreach(groups, i, item) {
        const char *name = json_str(item, "name", "");
        if (ok && (!*name || group_index(t, name) >= 0))
            ok = err_set(err, ERR_INVALID, "group %zu has no name, or another one's: \"%.40s\"", i, name);
        t->groups[t->group_count++].name = xstrdup(name);
    }
    for (i = 0; ok && i < count; i++)
        ok = take_group(t, json_array_get(groups, i), (int)i, err);
    if (ok)
        *ret = t;
    else
        thesaurus_free(t);
    return ok;
}

bool thesaurus_load(const char *path, struct thesaurus **ret, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    return json_parse_file(path, THESAURUS_BYTES, &doc, err) && (thesaurus_parse(doc, ret, err) || err_wrap(err, "%s", path));
}

void thesaurus_free(struct thesaurus *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->group_count; i++)
        free(t->groups[i].name);
    free(t->groups);
    free(t->table);
    free(t);
}

/* ---- text to terms ---- */

static uint64_t concept_hash(int group)
{
    return rng_mix(SALT_CONCEPT ^ (uint64_t)group);
}

static void add_concepts(const struct thesaurus *t, const struct word *words, int count, double weight, struct terms *to)
{
    for (int i = 0; t && i < count; i++)
        for (int n = count - i < PHRASE_WORDS ? count - i : PHRASE_WORDS; n > 0; n--) {
            int group = phrase_group(t, phrase_hash(words + i, n));
            if (group < 0)
                continue;
            terms_add(to, concept_hash(group), weight * CONCEPT_WEIGHT, TERM_CONCEPT);
            break;                       /* the longest phrase that begins here */
        }
}

static void add_parts(const struct word *w, double weight, struct terms *to)
{
    for (int from = 0, i = 0; i <= w->size; i++) {
        if (i < w->size && w->text[i] != '_' && w->text[i] != '.')
            continue;
        struct word part;
        if (i > from && i - from < w->size) {
            take_word(&part, w->text + from, (size_t)(i - from));
            if (!part.is_stop && part.size > 1)
                terms_add(to, part.stem, weight * PART_WEIGHT, 0);
        }
        from = i + 1;
    }
}

void words_terms(const struct thesaurus *t, const char *text, size_t bytes, double weight, struct terms *to)
{
    const size_t most = bytes / 2 + 1 < MOST_WORDS ? bytes / 2 + 1 : MOST_WORDS;
    cleanup(mem) void *memory = xarray(most, sizeof(struct word));
    struct word *words = memory;
    int n = read_words(text, bytes, words, (int)most);
    for (int i = 0; i < n; i++) {
        if (words[i].is_stop || words[i].size < 2)
            continue;
        terms_add(to, words[i].stem, words[i].is_number ? weight * PART_WEIGHT : weight, 0);
        add_parts(&words[i], weight, to);
    }
    add_concepts(t, words, n, weight, to);
}

void words_concepts(const struct thesaurus *t, const char *text, size_t bytes, double weight, struct terms *to)
{
    const size_t most = bytes / 2 + 1 < MOST_WORDS ? bytes / 2 + 1 : MOST_WORDS;
    cleanup(mem) void *memory = xarray(most, sizeof(struct word));
    add_concepts(t, memory, read_words(text, bytes, memory, (int)most), weight, to);
}

void words_near(const struct thesaurus *t, struct terms *to)
{
    cleanup(mem) void *memory = xarray((size_t)(t ? t->group_count : 0) + 1, sizeof(float));
    float *weights = memory;
    for (int g = 0; t && g < t->group_count; g++) {
        const struct term *it = terms_find(to, concept_hash(g));
        weights[g] = it ? it->weight : 0;
    }
    for (int g = 0; t && g < t->group_count; g++)    /* one step only: what is near to what is near is another matter */
        for (int k = 0; weights[g] > 0 && k < t->groups[g].near_count; k++)
            terms_add(to, concept_hash(t->groups[g].near[k]), NEAR_WEIGHT * weights[g], TERM_CONCEPT);
}

void words_ngrams(const char *text, size_t bytes, double weight, struct terms *to)
{
    size_t at = 0, start, size;
    int words = 0;
    while (words++ < MOST_WORDS && next_word(text, bytes, &at, &start, &size)) {
        struct word w;
        char marked[WORD_BYTES + 2];
        take_word(&w, text + start, size);
        if (w.is_stop || w.size < 2)
            continue;
        marked[0] = '^';
        memcpy(marked + 1, w.text, (size_t)w.size);
        marked[w.size + 1] = '$';
        for (int i = 0; i + 3 <= w.size + 2; i++)
            terms_add(to, hash_bytes(marked + i, 3, SALT_NGRAM), weight, 0);
        terms_add(to, hash_bytes(w.text, (size_t)w.size, SALT_NGRAM), weight, 0);
    }
}
