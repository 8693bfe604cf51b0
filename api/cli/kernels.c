/* kernels, fetch, verify. */
#include "api/cli/cli.h"
#include "api/cli/verify.h"
#include "core/hash.h"
#include "core/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

const struct option_spec kernels_options[] = {
    {"op", "NAME", "of this operator only"},
    {"target", "SM", "for this target only"},
    {"evidence", "measured|emulated", "with this evidence only"},
    {"limit", "N", "entries a page (20)"},
    {"cursor", "CURSOR", "go on where the page before ended"},
    {0}};
const struct option_spec fetch_options[] = {
    {"op", "NAME", "the shape by its parts instead of its hash"},
    {"axes", "B=4,H=2,...", "its axes"},
    {"dtype", "LETTER=TYPE,...", "its dtypes"},
    {"target", "SM", "its target"},
    {"shape", "FILE", "the shape as JSON"},
    {"output", "DIR", "where to put the files (-o; the first 16 digits of the hash otherwise)"},
    {"o", "DIR", NULL},
    {"key", "FILE", "the public key that you trust; otherwise the service's own, which proves little"},
    {"wait", "SECONDS", "wait so long for a kernel"},
    {0}};
const struct option_spec key_options[] = {{"output", "FILE", "write it there"}, {0}};
const struct option_spec verify_options[] = {
    {"key", "FILE", "the minisign public key that you trust (never one that came with the bundle)"},
    {"shape-hash", "HASH", "the shape that it must be for"},
    {0}};

/* ---- kernels ---- */
static void print_kernels(const json_t *list)
{
    const json_t *k;
    size_t i;
    cleanup(buf) struct buf heads = {0};
    cleanup(table) struct table t = {0};
    table_start(&t, "SHAPE HASH|OPERATOR|TARGET|>SPEED-UP|>TIME|EVIDENCE|AXES", &heads);
    json_array_foreach(list, i, k) {
        const json_t *shape = json_object_get(k, "shape");
        cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
        axes_text(&axes, json_object_get(shape, "axes"));
        speedup_text(&speedup, doc_speedup(k));
        time_text(&time, k);
        table_cell(&t, STYLE_PLAIN, "%s", json_str(k, "shape_hash", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "op", "?"));
        table_cell(&t, STYLE_PLAIN, "%s", json_str(shape, "target", "?"));
        table_cell(&t, STYLE_GOOD, "%s", buf_cstr(&speedup));
        table_cell(&t, STYLE_PLAIN, "%s", time.size ? buf_cstr(&time) : "-");
        table_cell(&t, STYLE_PLAIN, "%s", evidence_word(k));
        table_cell(&t, STYLE_DIM, "%s", buf_cstr(&axes));
    }
    table_print(&t);
}

static void print_pair(const char *name, const char *text)
{
    if (!text || !*text)
        return;
    printf("  %s%-24s%s ", style_on(STYLE_DIM), name, style_off());
    term_put(text);
    puts("");
}

static int kernel_show(struct cli *cli)
{
    cleanup(str) char *hash = client_escape(cli->args.words[0]), *path = xfmt("/v1/kernels/%s", hash);
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, path, &r);
    if (status)
        return r.status == 404 || r.status == 410 ? CLI_NO : status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    const json_t *shape = json_object_get(r.doc, "shape"), *digests = json_object_get(r.doc, "digests"), *digest;
    cleanup(buf) struct buf axes = {0}, speedup = {0}, time = {0};
    const char *name;
    axes_text(&axes, json_object_get(shape, "axes"));
    speedup_text(&speedup, doc_speedup(r.doc));
    time_text(&time, r.doc);
    print_pair("operator", json_str(shape, "op", NULL));
    print_pair("axes", buf_cstr(&axes));
    print_pair("target", json_str(shape, "target", NULL));
    print_pair("evidence", evidence_word(r.doc));
    print_pair("speed-up", buf_cstr(&speedup));
    print_pair("time", buf_cstr(&time));
    json_object_foreach((json_t *)digests, name, digest)
        print_pair(name, json_string_value(digest));
    return CLI_OK;
}

int cmd_kernels(struct cli *cli)
{
    if (cli->args.count)
        return kernel_show(cli);
    static const char *const filters[] = {"op", "target", "evidence", "cursor"};
    int64_t limit = 20;
    struct err err = {0};
    cleanup(buf) struct buf path = {0};
    if (!args_int(&cli->args, "limit", 1, &limit, &err))
        return cli_usage(cli, "%s", err.text);
    buf_fmt(&path, "/v1/kernels?limit=%lld", (long long)limit);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        const char *value = args_or(&cli->args, filters[i], NULL, NULL);
        cleanup(str) char *escaped = value ? client_escape(value) : NULL;
        if (value)
            buf_fmt(&path, "&%s=%s", filters[i], escaped);
    }
    cleanup(reply) struct reply r = {0};
    int status = cli_get(cli, buf_cstr(&path), &r);
    if (status)
        return status;
    if (cli->json) {
        term_json(r.doc);
        return CLI_OK;
    }
    print_kernels(json_object_get(r.doc, "kernels"));
    if (json_str(r.doc, "next", NULL)) {
        fputs("\nmore: proteus kernels --cursor ", stdout);
        term_put(json_str(r.doc, "next", NULL));
        puts("");
    }
    return CLI_OK;
}

/* ---- checks as output ---- */
struct output { const struct cli *cli; json_t *checks; };

static void on_check(void *ctx, bool ok, const char *check, const char *text)
{
    struct output *o = ctx;
    cleanup(buf) struct buf clean = {0};
    if (o->cli->json) {
        json_t *line = json_object();
        json_put_str(line, "check", check);
        json_put_bool(line, "ok", ok);
        json_put_str(line, "text", text);
        json_array_append_new(o->checks, line);
        return;
    }
    term_clean(&clean, text, 400);
    printf("%s%-4s%s %-13s %s\n", style_on(ok ? STYLE_GOOD : STYLE_BAD), ok ? "ok" : "FAIL", style_off(), check, buf_cstr(&clean));
}

static void print_line(const char *name, const struct buf *text)
{
    if (text->size)
        printf("  %-9s %s\n", name, buf_cstr(text));
}

/* The signed figures, in words. */
static void print_certificate(const json_t *certificate)
{
    const json_t *shape = json_object_get(certificate, "shape"), *device = json_object_get(certificate, "device");
    bool measured = !strcmp(json_str(certificate, "evidence", ""), "measured");
    cleanup(buf) struct buf op = {0}, speedup = {0}, time = {0}, on = {0}, evidence = {0}, axes = {0};
    axes_text(&axes, json_object_get(shape, "axes"));
    term_clean(&op, json_str(shape, "op", "?"), 64);
    buf_str(&op, "  ");
    term_clean(&op, buf_cstr(&axes), 400);
    buf_str(&op, "  ");
    term_clean(&op, json_str(shape, "target", ""), 16);
    if (doc_speedup(certificate).median > 0)
        speedup_text(&speedup, doc_speedup(certificate)), buf_str(&speedup, measured ? " over the baseline" : " over the baseline, estimated");
    time_text(&time, certificate);
    term_clean(&on, json_is_string(device) ? json_string_value(device) : json_str(device, "name", ""), 100);
    term_clean(&evidence, evidence_word(certificate), 40);
    puts("");
    print_line("kernel", &op);
    print_line("evidence", &evidence);
    print_line("speed-up", &speedup);
    print_line("time", &time);
    print_line("device", &on);
}

/* Checks, prints, and gives the exit status. */
static int check_and_print(const struct cli *cli, const struct bundle *b, const struct buf *key, const char *wanted, bool trusted)
{
    cleanup(json) json_t *checks = json_array(), *certificate = NULL;
    struct output o = {cli, checks};
    bool ok = verify_bundle(b, key->data, key->size, wanted, on_check, &o, &certificate);
    if (cli->json) {
        cleanup(json) json_t *all = json_object();
        json_put_bool(all, "ok", ok);
        json_put_bool(all, "key_pinned", trusted);
        json_put(all, "checks", json_incref(checks));
        if (certificate)
            json_put(all, "certificate", json_incref(certificate));
        term_json(all);
        return ok ? CLI_OK : CLI_NO;
    }
    if (ok)
        print_certificate(certificate);
    printf("\n%s%s%s\n", style_on(ok ? STYLE_GOOD : STYLE_BAD),
           !ok ? "NOT verified: do not use this kernel" :
           trusted ? "verified" : "intact, but checked against a key from the service itself: keep a key of your own and give it with --key",
           style_off());
    return ok ? CLI_OK : CLI_NO;
}

/* ---- reading bundles ---- */
static bool bundle_from_tar(const struct buf *archive, struct bundle *ret, struct tar_entry *entries, struct err *err)
{
    int count = 0;
    if (!tar_parse(buf_cstr(archive), archive->size, entries, BUNDLE_MAX_FILES, &count, err))
        return false;
    ret->count = count;
    for (int i = 0; i < count; i++)
        ret->files[i] = (struct bundle_file){entries[i].name, entries[i].data, entries[i].size};
    return true;
}

/* A folder of files as `fetch` lays them: read into one archive in memory, so that there is one way through. */
static bool archive_from_dir(const char *path, struct buf *ret, struct err *err)
{
    cleanup(dir) DIR *dir = opendir(path);
    if (!dir)
        return err_errno(err, ERR_NOT_FOUND, "cannot open %s", path);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' || !strcmp(e->d_name, "bundle.tar"))
            continue;
        cleanup(str) char *file = xfmt("%s/%s", path, e->d_name);
        cleanup(buf) struct buf content = {0};
        if (strlen(e->d_name) > 99 || strspn(e->d_name, NAME_CHARACTERS) != strlen(e->d_name))
            return err_set(err, ERR_INVALID, "%s does not belong into a bundle", file);
        if (!file_read(file, CLIENT_MAX_FILE_BYTES, &content, err))
            return false;
        tar_add(ret, e->d_name, buf_cstr(&content), content.size, 0);
    }
    tar_end(ret);
    return true;
}

int cmd_verify(struct cli *cli)
{
    const char *path = cli->args.words[0], *key_path = args_or(&cli->args, "key", NULL, NULL);
    const char *wanted = args_or(&cli->args, "shape-hash", NULL, NULL);
    struct err err = {0};
    struct stat st;
    cleanup(buf) struct buf archive = {0}, key = {0};
    cleanup(mem) void *entries = xarray(BUNDLE_MAX_FILES, sizeof(struct tar_entry));
    struct bundle bundle = {0};
    if (!key_path)
        return cli_usage(cli, "--key FILE is missing: a bundle is checked against a public key that you already hold");
    if (wanted && !hash_hex_valid(wanted))
        return cli_usage(cli, "--shape-hash wants 64 lower-case hexadecimal digits");
    if (!file_read(key_path, 1 << 16, &key, &err))
        return cli_fail(cli, &err);
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    bool read = is_dir ? archive_from_dir(path, &archive, &err) : file_read(path, CLIENT_MAX_FILE_BYTES, &archive, &err);
    if (!read)
        return cli_fail(cli, &err);
    if (!bundle_from_tar(&archive, &bundle, entries, &err)) {
        cleanup(json) json_t *checks = json_array();
        struct output o = {cli, checks};
        on_check(&o, false, "archive", err.text);
        if (cli->json)
            printf("{\"ok\":false,\"checks\":"), term_json(checks), printf("}\n");
        return CLI_NO;
    }
    return check_and_print(cli, &bundle, &key, wanted, true);
}

/* ---- fetch ---- */
static int hash_for(struct cli *cli, char ret[HASH_HEX_SIZE])
{
    int status = CLI_OK;
    if (cli->args.count) {
        const char *word = cli->args.words[0];
        if (!hash_hex_valid(word))
            return cli_usage(cli, "a shape hash is 64 lower-case hexadecimal digits");
        memcpy(ret, word, HASH_HEX_SIZE);
        return CLI_OK;
    }
    cleanup(json) json_t *shape = shape_from_args(cli, 0, &status);
    cleanup(reply) struct reply r = {0};
    if (!shape || (status = cli_send(cli, "POST", "/v1/shape-hash", shape, NULL, &r)))
        return status;
    const char *hash = json_str(r.doc, "shape_hash", "");
    if (!hash_hex_valid(hash))
        return cli_fail(cli, &(struct err){ERR_UPSTREAM, "the service answered without a shape hash"});
    memcpy(ret, hash, HASH_HEX_SIZE);
    return CLI_OK;
}

static void print_nearest(const json_t *problem)
{
    const json_t *list = json_object_get(problem, "nearest"), *near;
    size_t i;
    json_array_foreach(list, i, near) {
        const json_t *shape = json_is_object(json_object_get(near, "shape")) ? json_object_get(near, "shape") : near;
        cleanup(buf) struct buf axes = {0}, clean = {0};
        axes_text(&axes, json_object_get(shape, "axes"));
        term_clean(&clean, json_str(near, "shape_hash", ""), 64);
        buf_str(&clean, "  ");
        term_clean(&clean, buf_cstr(&axes), 300);
        fprintf(stderr, "%s  %s\n", i ? "" : "the nearest shapes that have a kernel:\n", buf_cstr(&clean));
    }
}

static int get_file(const struct cli *cli, const char *path, struct reply *ret)
{
    struct err err = {0};
    if (!client_call(&cli->client, "GET", path, NULL, NULL, CLIENT_MAX_FILE_BYTES, ret, &err))
        return cli_fail(cli, &err);
    return ret->status == 200 ? CLI_OK : cli_problem(cli, ret);
}

int cmd_key(struct cli *cli)
{
    cleanup(reply) struct reply r = {0};
    struct err err = {0};
    const char *output = args_or(&cli->args, "output", NULL, NULL);
    int status = get_file(cli, "/v1/signing-key", &r);
    if (status)
        return status;
    if (output && !file_write(output, buf_cstr(&r.body), r.body.size, 0644, &err))
        return cli_fail(cli, &err);
    cleanup(buf) struct buf clean = {0};
    term_clean_block(&clean, buf_cstr(&r.body), 1000, "");
    fputs(buf_cstr(&clean), stdout);
    return CLI_OK;
}

/* Waits for the kernel; CLI_NO when there is none. */
static int await_kernel(struct cli *cli, const char *hash)
{
    int64_t wait_s = 0;
    struct err err = {0};
    cleanup(reply) struct reply r = {0};
    if (!args_int(&cli->args, "wait", 0, &wait_s, &err))
        return cli_usage(cli, "%s", err.text);
    cleanup(str) char *path = xfmt(wait_s ? "/v1/kernels/%s?wait=%lld" : "/v1/kernels/%s", hash, (long long)wait_s);
    struct client patient = cli->client;
    patient.timeout_s += wait_s > 3600 ? 3600 : (int)wait_s;
    if (!client_call(&patient, "GET", path, NULL, NULL, CLIENT_MAX_JSON_BYTES, &r, &err))
        return cli_fail(cli, &err);
    if (r.status == 200)
        return CLI_OK;
    int status = cli_problem(cli, &r);
    if (r.status != 404 && r.status != 410)
        return status;
    if (!cli->json)
        print_nearest(r.doc);
    return CLI_NO;
}

static bool write_all(const char *dir, const struct buf *archive, const struct bundle *b, struct err *err)
{
    cleanup(str) char *whole = xfmt("%s/bundle.tar", dir);
    if (!dir_make(dir, 0755, err) || !file_write(whole, archive->data, archive->size, 0644, err))
        return false;
    for (int i = 0; i < b->count; i++) {   /* all names have been checked: known files of a bundle, no folders */
        cleanup(str) char *path = xfmt("%s/%s", dir, b->files[i].name);
        if (!file_write(path, b->files[i].data, b->files[i].size, 0644, err))
            return false;
    }
    return true;
}

int cmd_fetch(struct cli *cli)
{
    char hash[HASH_HEX_SIZE] = "";
    struct err err = {0};
    struct bundle bundle = {0};
    cleanup(reply) struct reply archive = {0}, served_key = {0};
    cleanup(buf) struct buf key = {0};
    cleanup(mem) void *entries = xarray(BUNDLE_MAX_FILES, sizeof(struct tar_entry));
    const char *key_path = args_or(&cli->args, "key", NULL, NULL);
    if (key_path && !file_read(key_path, 1 << 16, &key, &err))
        return cli_fail(cli, &err);
    int status = hash_for(cli, hash);
    if (status || (status = await_kernel(cli, hash)))
        return status;
    cleanup(str) char *path = xfmt("/v1/kernels/%s/bundle.tar", hash), *own = xfmt("%.16s", hash);
    const char *dir = args_or(&cli->args, "output", NULL, args_or(&cli->args, "o", NULL, own));
    if ((status = get_file(cli, path, &archive)))
        return status;
    if (!key_path && (status = get_file(cli, "/v1/signing-key", &served_key)))
        return status;
    if (!key_path)
        buf_add(&key, buf_cstr(&served_key.body), served_key.body.size);
    if (!bundle_from_tar(&archive.body, &bundle, entries, &err)) {
        err.code = ERR_UPSTREAM;
        return cli_fail(cli, &err);
    }
    if ((status = check_and_print(cli, &bundle, &key, hash, key_path != NULL)))
        return status;
    if (!write_all(dir, &archive.body, &bundle, &err))
        return cli_fail(cli, &err);
    if (!cli->json)
        printf("written to %s/\n", dir);
    return CLI_OK;
}
