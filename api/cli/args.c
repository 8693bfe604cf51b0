#include "api/cli/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option_spec *find(const struct option_spec *const *tables, const char *name, size_t size)
{
    for (; *tables; tables++)
        for (const struct option_spec *s = *tables; s->name; s++)
            if (strlen(s->name) == size && !memcmp(s->name, name, size))
                return s;
    return NULL;
}

int args_first_word(int argc, char **argv, const struct option_spec *table)
{
    const struct option_spec *const tables[] = {table, NULL};
    int i = 0;
    for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *name = argv[i] + (argv[i][1] == '-' ? 2 : 1), *equals = strchr(name, '=');
        const struct option_spec *spec = find(tables, name, equals ? (size_t)(equals - name) : strlen(name));
        if (!spec)
            return -1;
        i += spec->value && !equals;
    }
    return i < argc ? i : argc;
}

bool args_parse(int argc, char **argv, const struct option_spec *const *tables, struct args *ret, struct err *err)
{
    struct args a = {0};
    bool options_over = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (a.count == ARGS_MAX || a.option_count == ARGS_MAX)
            return err_set(err, ERR_INVALID, "more than %d words", ARGS_MAX);
        if (options_over || word[0] != '-' || !word[1]) {
            a.words[a.count++] = word;
            continue;
        }
        if (!strcmp(word, "--")) {
            options_over = true;
            continue;
        }
        const char *name = word + (word[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
        size_t size = equals ? (size_t)(equals - name) : strlen(name);
        const struct option_spec *spec = find(tables, name, size);
        if (!spec || (word[1] != '-' && size != 1))
            return err_set(err, ERR_INVALID, "there is no option %s here", word);
        const char *value = "";
        if (!spec->value && equals)
            return err_set(err, ERR_INVALID, "--%s takes no value", spec->name);
        if (spec->value) {
            if (!equals && i + 1 == argc)
                return err_set(err, ERR_INVALID, "--%s needs a value (%s)", spec->name, spec->value);
            value = equals ? equals + 1 : argv[++i];
        }
        a.options[a.option_count].spec = spec;
        a.options[a.option_count++].value = value;
    }
    *ret = a;
    return true;
}

const char *args_get(const struct args *a, const char *name, int n)
{
    for (int i = 0; i < a->option_count; i++)
        if (!strcmp(a->options[i].spec->name, name) && n-- == 0)
            return a->options[i].value;
    return NULL;
}

bool args_has(const struct args *a, const char *name)
{
    return args_get(a, name, 0) != NULL;
}

const char *args_or(const struct args *a, const char *name, const char *env, const char *fallback)
{
    for (int i = a->option_count - 1; i >= 0; i--)
        if (!strcmp(a->options[i].spec->name, name))
            return a->options[i].value;
    const char *value = env ? getenv(env) : NULL;
    return value && *value ? value : fallback;
}

bool args_int(const struct args *a, const char *name, int64_t least, int64_t *ret, struct err *err)
{
    const char *text = args_or(a, name, NULL, NULL);
    char *end = NULL;
    if (!text)
        return true;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < least)
        return err_set(err, ERR_INVALID, "--%s wants a whole number of at least %lld, not \"%s\"", name, (long long)least, text);
    *ret = v;
    return true;
}
