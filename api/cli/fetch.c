/*
 * fetch and verify: a bundle is read into memory whole, checked, and written only when every check held.
 */
#include "api/cli/cli.h"
#include "api/cli/rerun.h"
#include "core/certificate.h"
#include "core/hash.h"
#include "core/tar.h"

#include <string.h>
#include <sys/stat.h>

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

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
const struct option_spec verify_options[] = {
    {"key", "FILE", "the minisign public key that you trust (never one that came with the bundle); may be given more than once, while keys rotate"},
    {"shape-hash", "HASH", "the shape that it must be for"},
    {"rerun", NULL, "judge it again on this machine, and compare (needs proteus-gpu, the toolkit and the same operator)"},
    {"ops-dir", "DIR", "with --rerun: the operators' folders (the judge's own otherwise)"},
    {"device", "NAME", "with --rerun: auto, sim or cuda:N (auto)"},
    {"cuda-home", "DIR", "with --rerun: the CUDA toolkit"},
    {"judge", "PROGRAM", "with --rerun: the judge (PROTEUS_JUDGE; proteus-gpu beside this program)"},
    {0}};

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
        speedup_text(&speedup, doc_speedup(certificate)), buf_fmt(&speedup, " over %s%s", baseline_words(certificate_baseline_of(certificate)), measured ? "" : ", estimated");
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
    bool ok = verify_bundle(b, key->data, key->size, wanted, on_check, &o, &certificate), again = ok && args_has(&cli->args, "rerun");
    int status = ok ? CLI_OK : CLI_NO;
    if (cli->json) {
        cleanup(json) json_t *more = NULL;
        if (again)
            status = rerun(cli, b, certificate, &more);
        cleanup(json) json_t *all = json_object();
        json_put_bool(all, "ok", ok);
        json_put_bool(all, "key_pinned", trusted);
        json_put(all, "checks", json_incref(checks));
        if (certificate)
            json_put(all, "certificate", json_incref(certificate));
        if (more)
            json_put(all, "rerun", json_incref(more));
        term_json(all);
        return status;
    }
    if (ok)
        print_certificate(certificate);
    printf("\n%s%s%s\n", style_on(ok ? STYLE_GOOD : STYLE_BAD),
           !ok ? "NOT verified: do not use this kernel" :
           trusted ? "verified" : "intact, but checked against a key from the service itself: keep a key of your own and give it with --key",
           style_off());
    cleanup(json) json_t *more = NULL;
    return again ? rerun(cli, b, certificate, &more) : status;
}

/* ---- reading bundles ---- */
/* A folder of files as `fetch` lays them: read into one archive in memory, so that there is one way through. A folder has no order. */
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

/* The archive that `fetch` laid beside the files, where it is there: whoever takes that one must get the same. */
static bool archive_beside(const char *dir, struct bundle *b, struct buf *store, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/bundle.tar", dir);
    b->archive = NULL;
    if (access(path, F_OK) != 0)
        return true;
    if (!file_read(path, CLIENT_MAX_FILE_BYTES, store, err))
        return false;
    b->archive = buf_cstr(store);
    b->archive_size = store->size;
    b->beside = true;
    return true;
}

/* All keys of --key, one behind the other; each file holds one or more. False: none was given. */
static bool keys_read(const struct cli *cli, struct buf *to, bool *ret_given, struct err *err)
{
    const char *path;
    for (int i = 0; (path = args_get(&cli->args, "key", i)); i++) {
        if (!file_read(path, 1 << 16, to, err))
            return false;
        buf_str(to, "\n");
    }
    *ret_given = path || args_has(&cli->args, "key");
    return true;
}

int cmd_verify(struct cli *cli)
{
    const char *path = cli->args.words[0];
    const char *wanted = args_or(&cli->args, "shape-hash", NULL, NULL);
    struct err err = {0};
    struct stat st;
    cleanup(buf) struct buf archive = {0}, key = {0}, beside = {0};
    cleanup(mem) void *entries = xarray(BUNDLE_MAX_FILES, sizeof(struct tar_entry));
    struct bundle bundle = {0};
    bool given = false;
    if (!keys_read(cli, &key, &given, &err))
        return cli_fail(cli, &err);
    if (!given)
        return cli_usage(cli, "--key FILE is missing: a bundle is checked against a public key that you already hold");
    if (wanted && !hash_hex_valid(wanted))
        return cli_usage(cli, "--shape-hash wants 64 lower-case hexadecimal digits");
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    bool read = is_dir ? archive_from_dir(path, &archive, &err) : file_read(path, CLIENT_MAX_FILE_BYTES, &archive, &err);
    if (!read)
        return cli_fail(cli, &err);
    if (!bundle_parse(buf_cstr(&archive), archive.size, entries, &bundle, &err)) {
        cleanup(json) json_t *checks = json_array();
        struct output o = {cli, checks};
        on_check(&o, false, "archive", err.text);
        if (cli->json)
            printf("{\"ok\":false,\"checks\":"), term_json(checks), printf("}\n");
        return CLI_NO;
    }
    if (is_dir && !archive_beside(path, &bundle, &beside, &err))
        return cli_fail(cli, &err);
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
    bool given = false;
    if (!keys_read(cli, &key, &given, &err))
        return cli_fail(cli, &err);
    int status = hash_for(cli, hash);
    if (status || (status = await_kernel(cli, hash)))
        return status;
    cleanup(str) char *path = xfmt("/v1/kernels/%s/bundle.tar", hash), *own = xfmt("%.16s", hash);
    const char *dir = args_or(&cli->args, "output", NULL, args_or(&cli->args, "o", NULL, own));
    if ((status = cli_file(cli, path, &archive)))
        return status;
    if (!given && (status = cli_file(cli, "/v1/signing-key", &served_key)))
        return status;
    if (!given)
        buf_add(&key, buf_cstr(&served_key.body), served_key.body.size);
    if (!bundle_parse(buf_cstr(&archive.body), archive.body.size, entries, &bundle, &err)) {
        err.code = ERR_UPSTREAM;
        return cli_fail(cli, &err);
    }
    if ((status = check_and_print(cli, &bundle, &key, hash, given)))
        return status;
    if (!write_all(dir, &archive.body, &bundle, &err))
        return cli_fail(cli, &err);
    if (!cli->json)
        printf("written to %s/\n", dir);
    return CLI_OK;
}
