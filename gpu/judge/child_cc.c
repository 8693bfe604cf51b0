/*
 * In the cc child: reference.c of a registered operator by the host's C compiler. The child sees /usr, can write in one folder, and
 * has no network; what it makes is bytes, which it sends. The compiler and the text it is given are both untrusted here.
 */
#include "gpu/judge/child.h"
#include "gpu/judge/limits.h"
#include "gpu/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

__asm__(".section .rodata\n"
        "reference_h:\n"
        ".incbin \"" REFERENCE_H "\"\n"
        "reference_h_end:\n"
        ".previous\n");
extern const char reference_h[], reference_h_end[];

static bool put(const char *dir, const char *name, const char *data, size_t size, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    cleanup(fd) int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 ? err_errno(err, ERR_INTERNAL, "%s", name) : fd_write_all(fd, data, size, err);
}

/* The flags of the operators that come with the program (gpu/ops/CMakeLists.txt). Its output goes to `log`. */
static bool run_compiler(const char *cc, const char *dir, int *ret_status, struct err *err)
{
    cleanup(str) char *temp = xfmt("TMPDIR=%s", dir), *log = xfmt("%s/log", dir);
    char *const argv[] = {(char *)(uintptr_t)cc, "-std=c17", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=default", "-I.",
                          "-fdiagnostics-color=never", "-fmax-errors=20", "reference.c", "-o", "reference.so", "-lm", NULL};
    char *const env[] = {temp, "PATH=/usr/bin", "LC_ALL=C", NULL};
    posix_spawn_file_actions_t files;
    pid_t pid;
    if (chdir(dir) != 0)
        return err_errno(err, ERR_INTERNAL, "the scratch folder");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_addclose(&files, CHILD_FD);
    int failed = posix_spawn(&pid, cc, &files, NULL, argv, env);
    posix_spawn_file_actions_destroy(&files);
    errno = failed;
    if (failed)
        return err_errno(err, ERR_UNAVAILABLE, "the C compiler %s cannot be started", cc);
    while (waitpid(pid, ret_status, 0) < 0)
        if (errno != EINTR)
            return err_errno(err, ERR_INTERNAL, "waiting for the compiler");
    return true;
}

/* Files of the scratch folder by their names alone: where that is, is nobody's business. */
static void put_relative(struct buf *to, const char *text, size_t size, const char *dir)
{
    const size_t n = strlen(dir);
    const char *at, *end = text + size;
    while ((at = memmem(text, (size_t)(end - text), dir, n)) != NULL) {
        buf_add(to, text, (size_t)(at - text));
        text = at + n;
        text += text < end && *text == '/';
    }
    buf_add(to, text, (size_t)(end - text));
}

static void put_log(json_t *doc, const char *dir, int status)
{
    cleanup(str) char *path = xfmt("%s/log", dir);
    cleanup(buf) struct buf whole = {0}, raw = {0}, clean = {.limit = (size_t)LIMIT_LOG_BYTES + 64};
    struct err ignored = {0};
    (void)!file_read(path, (size_t)LIMIT_CC_FILE_BYTES, &whole, &ignored);
    put_relative(&raw, buf_cstr(&whole), whole.size, dir);
    size_t most = (size_t)LIMIT_LOG_BYTES;
    utf8_clean(&clean, raw.data ? raw.data : "", raw.size < most ? raw.size : most);
    if (!raw.size && WIFSIGNALED(status))
        buf_fmt(&clean, "the compiler ended by signal %d", WTERMSIG(status));
    json_put_str(doc, "log", buf_cstr(&clean));
}

bool child_do_cc(struct child_state *unused, const json_t *job, struct err *err)
{
    (void)unused;
    const char *dir = sandbox_scratch(), *source = json_str(job, "source", "");
    cleanup(str) char *path = xfmt("%s/reference.so", dir);
    cleanup(buf) struct buf library = {0};
    int status = 0;
    if (!put(dir, "reference.h", reference_h, (size_t)(reference_h_end - reference_h), err) || !put(dir, "reference.c", source, strlen(source), err)
        || !run_compiler(json_str(job, "cc", ""), dir, &status, err))
        return false;
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ok && !file_read(path, (size_t)LIMIT_REFERENCE_SO_BYTES, &library, err))
        return false;
    json_t *doc = json_object();
    json_put_bool(doc, "ok", ok);
    put_log(doc, dir, status);
    return child_answer(doc, err) && (!ok || wire_send_blob(CHILD_FD, "reference.so", library.data, library.size, err));
}
