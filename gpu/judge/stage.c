#include "gpu/judge/stage.h"

#include "core/buf.h"

#include <string.h>
#include <sys/stat.h>

/* What children open: op_load reads the four that make up the operator's digest, the reference child the library. */
static const char *const files[] = {"op.json", "reference.c", "baseline.cu", "baseline.json", "reference.so"};
#define FILE_LIMIT_BYTES ((size_t)16 << 20)

static bool open_to_all(const char *path, mode_t wanted)
{
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & wanted) == wanted;
}

/* Every folder on the way may be passed, every file read. */
static bool reachable(const char *dir)
{
    cleanup(str) char *way = xstrdup(dir);
    for (char *p = way + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char saved = *p;
        *p = 0;
        if (!open_to_all(way, S_IXOTH))
            return false;
        *p = saved;
        if (!saved)
            break;
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", dir, files[i]);
        if (!open_to_all(path, S_IROTH))
            return false;
    }
    return true;
}

static bool copy(const char *from_dir, const char *to_dir, struct err *err)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *from = xfmt("%s/%s", from_dir, files[i]), *to = xfmt("%s/%s", to_dir, files[i]);
        cleanup(buf) struct buf content = {0};
        if (!file_read(from, FILE_LIMIT_BYTES, &content, err))
            return false;
        cleanup(file) FILE *f = fopen(to, "we");
        if (!f || fwrite(content.data, 1, content.size, f) != content.size || fflush(f) != 0 || chmod(to, 0644) != 0)
            return err_errno(err, ERR_INTERNAL, "%s", to);
    }
    return true;
}

bool stage_operator(const char *op_dir, struct stage *ret, struct err *err)
{
    if (!realpath(op_dir, ret->dir))
        return err_errno(err, ERR_INTERNAL, "the operator's folder %s", op_dir);
    if (geteuid() != 0 || reachable(ret->dir))
        return true;
    char temp[] = "/tmp/proteus-operator-XXXXXX";
    if (!mkdtemp(temp))
        return err_errno(err, ERR_INTERNAL, "%s", temp);
    cleanup(str) char *from = xstrdup(ret->dir);
    snprintf(ret->dir, sizeof ret->dir, "%s", temp);
    ret->copied = true;
    if (chmod(temp, 0755) != 0)
        return err_errno(err, ERR_INTERNAL, "%s", temp);
    return copy(from, temp, err);
}

void stage_done(struct stage *s)
{
    if (!s->copied)
        return;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cleanup(str) char *path = xfmt("%s/%s", s->dir, files[i]);
        unlink(path);
    }
    rmdir(s->dir);
    s->copied = false;
}
