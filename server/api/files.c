/*
 * The dashboard's files, straight from their folder, kept ready in memory until they change. Names are plain: no segment starts
 * with a dot, so there is no way up and nothing hidden is served.
 */
#include "server/api/api.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILES 256
#define FILE_LIMIT_BYTES ((size_t)8 << 20)
#define POLICY                                                                                                          \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

static const struct { const char *suffix, *type; } types[] = {
    {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"}, {".mjs", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"}, {".json", "application/json"}, {".svg", "image/svg+xml"}, {".png", "image/png"},
    {".ico", "image/x-icon"}, {".woff2", "font/woff2"}, {".txt", "text/plain; charset=utf-8"}, {".map", "application/json"},
};

struct entry {
    char path[200];
    struct timespec changed;
    off_t size;
    struct http_blob *blob;
};
struct files {
    pthread_mutex_t lock;
    int count;
    struct entry list[MAX_FILES];
};

struct files *files_new(void)
{
    struct files *f = xalloc(sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void files_free(struct files *f)
{
    if (!f)
        return;
    for (int i = 0; i < f->count; i++)
        http_blob_free(f->list[i].blob);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static const char *type_of(const char *path)
{
    size_t bytes = strlen(path);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t suffix = strlen(types[i].suffix);
        if (bytes > suffix && !strcmp(path + bytes - suffix, types[i].suffix))
            return types[i].type;
    }
    return "application/octet-stream";
}

static bool plain_path(const char *path)
{
    if (!*path || strlen(path) >= sizeof ((struct entry *)0)->path)
        return false;
    for (const char *at = path; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
        if (*at == '.' || *at == '/' || !*at)
            return false;
    return true;
}

static struct http_blob *load(const char *full, const char *path, struct err *err)
{
    cleanup(buf) struct buf bytes = {0};
    if (!file_read(full, FILE_LIMIT_BYTES, &bytes, err))
        return NULL;
    char etag[80];
    snprintf(etag, sizeof etag, "\"%s\"", hash_of(buf_cstr(&bytes), bytes.size).text);
    return http_blob_new(&bytes, type_of(path), etag, "no-cache", "Content-Security-Policy", POLICY);
}

static struct http_blob *find(struct files *f, const char *path, const struct stat *st)
{
    for (int i = 0; i < f->count; i++) {
        struct entry *e = &f->list[i];
        if (strcmp(e->path, path))
            continue;
        bool same = e->size == st->st_size && e->changed.tv_sec == st->st_mtim.tv_sec && e->changed.tv_nsec == st->st_mtim.tv_nsec;
        return same ? http_blob_ref(e->blob) : NULL;
    }
    return NULL;
}

static void keep(struct files *f, const char *path, const struct stat *st, struct http_blob *b)
{
    struct entry *e = NULL;
    for (int i = 0; i < f->count && !e; i++)
        if (!strcmp(f->list[i].path, path))
            e = &f->list[i];
    if (!e && f->count < MAX_FILES)
        e = &f->list[f->count++];
    if (!e)
        return;
    http_blob_free(e->blob);
    snprintf(e->path, sizeof e->path, "%s", path);
    e->changed = st->st_mtim;
    e->size = st->st_size;
    e->blob = http_blob_ref(b);
}

void files_get(const struct request *req, struct response *res)
{
    struct app *app = app_of(req);
    const char *path = req->params[0] && *req->params[0] ? req->params[0] : "index.html";
    struct stat st;
    struct err err;
    cleanup(str) char *full = app->static_dir && plain_path(path) ? xfmt("%s/%s", app->static_dir, path) : NULL;
    if (!full || stat(full, &st) != 0 || !S_ISREG(st.st_mode)) {
        err_set(&err, ERR_NOT_FOUND, "there is no such path; GET /openapi.yaml lists all");
        respond_err(req, res, &err);
        return;
    }
    struct files *f = app->files;
    pthread_mutex_lock(&f->lock);
    struct http_blob *b = find(f, path, &st);
    if (!b && (b = load(full, path, &err)))
        keep(f, path, &st, b);
    pthread_mutex_unlock(&f->lock);
    if (b)
        respond_blob(res, b);
    else
        respond_err(req, res, &err);
}
