#include "server/config.h"
#include "tests/test.h"

static bool read_words(char **environment, struct config *c, enum config_action *action, struct buf *warnings, struct err *err, const char *a,
                       const char *b)
{
    char *argv[] = {(char *)"proteusd", (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    return config_read(1 + (a != NULL) + (b != NULL), argv, environment, c, action, warnings, err);
}

static char *no_environment[] = {NULL};

static void flags_win_over_the_environment(void)
{
    char *environment[] = {(char *)"PROTEUS_LISTEN=127.0.0.1:1", (char *)"PROTEUS_RUNNERS=3", (char *)"PROTEUS_STATIC_DIR=/s", (char *)"HOME=/x",
                           (char *)"CUDA_HOME=/cuda", NULL};
    cleanup(config) struct config c = {0};
    cleanup(buf) struct buf warnings = {0};
    enum config_action action;
    struct err err;
    check(read_words(environment, &c, &action, &warnings, &err, "--listen", "127.0.0.1:2"));
    check_str(c.listen, "127.0.0.1:2");
    check_int(c.runners, 3);
    check_str(c.static_dir, "/s");
    check_str(c.cuda_home, "/cuda");
    check_int(action, CONFIG_RUN);
    check_int(warnings.size, 0);
}

static void unknown_names(void)
{
    char *environment[] = {(char *)"PROTEUS_LISTN=1", (char *)"PROTEUS_SERVICE_HOST=10.0.0.1", (char *)"PROTEUS_TOKEN=pk_x", NULL};
    cleanup(config) struct config c = {0};
    cleanup(buf) struct buf warnings = {0};
    enum config_action action;
    struct err err;
    check(read_words(environment, &c, &action, &warnings, &err, NULL, NULL));
    check(strstr(buf_cstr(&warnings), "PROTEUS_LISTN") && strstr(buf_cstr(&warnings), "PROTEUS_SERVICE_HOST"));
    check(!strstr(buf_cstr(&warnings), "PROTEUS_TOKEN"));
    check(!read_words(no_environment, &c, &action, &warnings, &err, "--listn", "x") && err.code == ERR_INVALID && strstr(err.text, "--listn"));
    check(!read_words(no_environment, &c, &action, &warnings, &err, "listen", "x"));
    check(!read_words(no_environment, &c, &action, &warnings, &err, "--listen", NULL) && strstr(err.text, "--listen"));
}

static void numbers_have_limits(void)
{
    static const struct { const char *word; bool ok; int64_t want; } rows[] = {
        {"--body-bytes=4096", true, 4096}, {"--body-bytes=1MiB", true, 1 << 20}, {"--body-bytes=2m", true, 2 << 20},
        {"--body-bytes=1023", false, 0}, {"--body-bytes=1TiB", false, 0}, {"--body-bytes=-1", false, 0}, {"--body-bytes=", false, 0},
        {"--body-bytes=9999999999999999999999", false, 0}, {"--body-bytes=1e6", false, 0}, {"--body-bytes=17179869184G", false, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cleanup(config) struct config c = {0};
        cleanup(buf) struct buf warnings = {0};
        enum config_action action;
        struct err err;
        bool ok = read_words(no_environment, &c, &action, &warnings, &err, rows[i].word, NULL);
        check_int(ok, rows[i].ok);
        if (ok)
            check_int(c.body_bytes, rows[i].want);
        else
            check(strstr(err.text, "body-bytes") && strstr(err.text, "1024"));
    }
    struct config c;
    struct buf warnings = {0};
    enum config_action action;
    struct err err;
    check(!read_words(no_environment, &c, &action, &warnings, &err, "--runners=1KiB", NULL));
    check(!read_words(no_environment, &c, &action, &warnings, &err, "--sandbox-minimum", "some") && strstr(err.text, "isolated"));
}

static void every_setting_is_told_and_secrets_are_not(void)
{
    cleanup(config) struct config c = {0};
    cleanup(buf) struct buf warnings = {0}, help = {0}, text = {0};
    enum config_action action;
    struct err err;
    check(read_words(no_environment, &c, &action, &warnings, &err, "--admin-token=pk_a_verysecretverysecretverysecret1", "--print-config"));
    check_int(action, CONFIG_PRINT);
    config_help(&help);
    config_print(&c, &text);
#define T(field, flag, ...) check(strstr(buf_cstr(&help), "--" flag " ") && strstr(buf_cstr(&text), flag "="));
#define N(field, flag, ...) T(field, flag)
    CONFIG_TABLE(T, N)
#undef T
#undef N
    check(strstr(buf_cstr(&text), "admin-token=***"));
    check(!strstr(buf_cstr(&text), "verysecret"));
}

int main(void)
{
    flags_win_over_the_environment();
    unknown_names();
    numbers_have_limits();
    every_setting_is_told_and_secrets_are_not();
    return test_done();
}
