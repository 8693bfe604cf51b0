#include "server/config.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

struct setting {
    const char *flag;
    bool is_text, secret;
    size_t offset;
    const char *text_default;
    int64_t number_default, least, most;
    const char *unit, *what;
};

static const struct setting settings[] = {
#define T(field, flag, fallback, secret, what) {flag, true, secret, offsetof(struct config, field), fallback, 0, 0, 0, "", what},
#define N(field, flag, fallback, least, most, unit, what) \
    {flag, false, false, offsetof(struct config, field), NULL, fallback, least, most, unit, what},
    CONFIG_TABLE(T, N)
#undef T
#undef N
};
#define SETTING_COUNT (sizeof settings / sizeof *settings)

/* Variables of our other programs and of the tests: no setting of this one, and no mistake either. */
static const char *const others[] = {"PROTEUS_SERVER", "PROTEUS_TOKEN", "PROTEUS_TOKEN_FILE", "PROTEUS_FAULT_POINT"};

static char **text_at(struct config *c, const struct setting *s)
{
    return (char **)(void *)((char *)c + s->offset);
}

static int64_t *number_at(struct config *c, const struct setting *s)
{
    return (int64_t *)(void *)((char *)c + s->offset);
}

/* "listen" is PROTEUS_LISTEN, "static-dir" is PROTEUS_STATIC_DIR. */
static bool is_variable_of(const char *name, size_t bytes, const char *flag)
{
    if (bytes != strlen(flag) + 8 || strncmp(name, "PROTEUS_", 8))
        return false;
    for (size_t i = 8; i < bytes; i++) {
        char want = flag[i - 8] == '-' ? '_' : (char)toupper((unsigned char)flag[i - 8]);
        if (name[i] != want)
            return false;
    }
    return true;
}

static bool suffix_parse(const char *text, const char *unit, int64_t *ret_factor)
{
    static const struct { const char *name; int64_t factor; } table[] = {
        {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", (int64_t)1 << 40},
        {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", (int64_t)1 << 40}};
    *ret_factor = 1;
    if (!*text)
        return true;
    if (strcmp(unit, "bytes"))
        return false;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcasecmp(text, table[i].name)) {
            *ret_factor = table[i].factor;
            return true;
        }
    return false;
}

static bool number_parse(const struct setting *s, const char *text, int64_t *ret)
{
    size_t digits = strspn(text, "0123456789");
    int64_t factor, value;
    if (!digits || digits > 18 || !suffix_parse(text + digits, s->unit, &factor))
        return false;
    if (__builtin_mul_overflow(strtoll(text, NULL, 10), factor, &value) || value < s->least || value > s->most)
        return false;
    *ret = value;
    return true;
}

static bool setting_set(struct config *c, const struct setting *s, const char *value, const char *from, struct err *err)
{
    if (s->is_text) {
        char **at = text_at(c, s);
        free(*at);
        *at = xstrdup(value);
        return true;
    }
    if (number_parse(s, value, number_at(c, s)))
        return true;
    return err_set(err, ERR_INVALID, "%s: \"%.80s\" is not right; it must be a number of %s from %lld to %lld", from, value, s->unit,
                   (long long)s->least, (long long)s->most);
}

static void read_defaults(struct config *c)
{
    *c = (struct config){0};
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (!settings[i].is_text)
            *number_at(c, &settings[i]) = settings[i].number_default;
        else if (settings[i].text_default)
            *text_at(c, &settings[i]) = xstrdup(settings[i].text_default);
    }
}

static bool read_variable(struct config *c, const char *variable, struct buf *warnings, struct err *err)
{
    size_t bytes = strcspn(variable, "=");
    const char *value = variable + bytes + (variable[bytes] == '=');
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)bytes, variable);
    if (!strcmp(name, "CUDA_HOME") && *value && !c->cuda_home)
        c->cuda_home = xstrdup(value);
    if (strncmp(name, "PROTEUS_", 8))
        return true;
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (is_variable_of(variable, bytes, settings[i].flag))
            return setting_set(c, &settings[i], value, name, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i]))
            return true;
    buf_fmt(warnings, "the environment variable %s is none of this program's settings and is ignored; --help lists them\n", name);
    return true;
}

static const struct setting *find_flag(const char *text, size_t bytes)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (strlen(settings[i].flag) == bytes && !strncmp(settings[i].flag, text, bytes))
            return &settings[i];
    return NULL;
}

static bool read_flags(int argc, char **argv, struct config *c, enum config_action *action, struct err *err)
{
    static const struct { const char *name; enum config_action action; } actions[] = {
        {"--help", CONFIG_HELP}, {"-h", CONFIG_HELP}, {"--print-config", CONFIG_PRINT}, {"--version", CONFIG_VERSION}};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        bool taken = false;
        for (size_t k = 0; k < sizeof actions / sizeof *actions && !taken; k++)
            if ((taken = !strcmp(word, actions[k].name)))
                *action = actions[k].action;
        if (taken)
            continue;
        size_t bytes = strcspn(word, "=");
        const struct setting *s = !strncmp(word, "--", 2) && bytes > 2 ? find_flag(word + 2, bytes - 2) : NULL;
        if (!s)
            return err_set(err, ERR_INVALID, "there is no flag \"%.80s\"; --help lists all", word);
        const char *value = word[bytes] ? word + bytes + 1 : i + 1 < argc ? argv[++i] : NULL;
        char from[80];
        snprintf(from, sizeof from, "--%s", s->flag);
        if (!value)
            return err_set(err, ERR_INVALID, "%s needs a value: %s", from, s->what);
        if (!setting_set(c, s, value, from, err))
            return false;
    }
    return true;
}

static bool one_of(const char *value, const char *words, const char *name, struct err *err)
{
    size_t bytes = strlen(value);
    for (const char *at = words; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == bytes && !strncmp(at, value, bytes))
            return true;
        at += word;
    }
    return err_set(err, ERR_INVALID, "--%s: \"%.80s\" is none of: %s", name, value, words);
}

static bool check(const struct config *c, struct err *err)
{
    if (!*c->data)
        return err_set(err, ERR_INVALID, "--data is empty; it must name a folder");
    return one_of(c->sandbox_minimum, "none limits filtered isolated", "sandbox-minimum", err) &&
           one_of(c->llm_protocol, "openai anthropic", "llm-protocol", err) &&
           one_of(c->llm_limit_name, "max_tokens max_completion_tokens", "llm-limit-name", err) &&
           one_of(c->new_signing_key, "no yes", "new-signing-key", err) &&
           one_of(c->log_level, "debug info warn error", "log-level", err);
}

bool config_read(int argc, char **argv, char **environment, struct config *ret, enum config_action *ret_action,
                 struct buf *warnings, struct err *err)
{
    struct config c;
    enum config_action action = CONFIG_RUN;
    read_defaults(&c);
    bool ok = true;
    for (char **v = environment; ok && v && *v; v++)
        ok = read_variable(&c, *v, warnings, err);
    ok = ok && read_flags(argc, argv, &c, &action, err) && (action == CONFIG_HELP || check(&c, err));
    if (!ok) {
        config_done(&c);
        return false;
    }
    *ret = c;
    *ret_action = action;
    return true;
}

void config_done(struct config *c)
{
    for (size_t i = 0; i < SETTING_COUNT; i++)
        if (settings[i].is_text)
            free(*text_at(c, &settings[i]));
    *c = (struct config){0};
}

void config_help(struct buf *to)
{
    buf_str(to, "proteusd: finds CUDA kernels specialised to exact shapes, proves them right, and serves them over HTTP.\n\n"
                "Usage: proteusd [--NAME VALUE]...\n\nEvery setting is also an environment variable: --static-dir is "
                "PROTEUS_STATIC_DIR. A flag wins.\n\n");
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        buf_fmt(to, "  --%-22s %s\n", s->flag, s->what);
        if (!s->is_text)
            buf_fmt(to, "  %-24s %lld %s; from %lld to %lld\n", "", (long long)s->number_default, s->unit, (long long)s->least,
                    (long long)s->most);
        else if (s->text_default)
            buf_fmt(to, "  %-24s %s\n", "", s->text_default);
    }
    buf_fmt(to, "  --%-22s %s\n  --%-22s %s\n  --%-22s %s\n", "print-config", "print the settings as they are and exit", "version",
            "print the version and exit", "help", "this text");
}

void config_print(const struct config *c, struct buf *to)
{
    struct config *from = (struct config *)(uintptr_t)c;
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        if (!s->is_text)
            buf_fmt(to, "%s=%lld\n", s->flag, (long long)*number_at(from, s));
        else
            buf_fmt(to, "%s=%s\n", s->flag, !*text_at(from, s) ? "" : s->secret ? "***" : *text_at(from, s));
    }
}
