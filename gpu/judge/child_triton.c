/*
 * In the triton child: the host's python, the judge's driver script, and a source that is a program of its own. The child waits for it
 * and reads two files that it left, with bounds, as one reads what an enemy wrote: a plain file or nothing, so many bytes and no more.
 *
 * Whether the source has begun is told by a byte on a pipe, which what runs later cannot take back: what fails before it is ours.
 */
#include "core/clock.h"
#include "gpu/judge/child.h"
#include "gpu/judge/limits.h"
#include "gpu/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LOOK_MS 5

__asm__(".section .rodata\n"
        "triton_driver:\n"
        ".incbin \"" TRITON_DRIVER "\"\n"
        "triton_driver_end:\n"
        ".previous\n");
extern const char triton_driver[], triton_driver_end[];

static bool put(const char *dir, const char *name, const char *data, size_t size, struct err *err)
{
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    cleanup(fd) int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 ? err_errno(err, ERR_INTERNAL, "%s", name) : fd_write_all(fd, data, size, err);
}

/* The last bytes of a plain file; what is longer than `most` is told by *ret_cut. False: it is none. */
static bool take_file(const char *dir, const char *name, size_t most, struct buf *to, bool *ret_cut)
{
    cleanup(str) char *path = xfmt("%s/%s", dir, name);
    cleanup(fd) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    *ret_cut = st.st_size > (off_t)most;
    size_t size = *ret_cut ? most : (size_t)st.st_size;
    struct err ignored = {0};
    if (lseek(fd, st.st_size - (off_t)size, SEEK_SET) < 0)
        return false;
    if (!size)
        return true;
    if (!fd_read_all(fd, buf_room(to, size), size, &ignored))
        return false;
    buf_grew(to, size);
    return true;
}

static bool start(const char *python, const char *dir, int began, pid_t *ret, struct err *err)
{
    cleanup(str) char *home = xfmt("HOME=%s", dir), *temp = xfmt("TMPDIR=%s", dir), *cache = xfmt("TRITON_CACHE_DIR=%s", dir);
    cleanup(str) char *triton_home = xfmt("TRITON_HOME=%s", dir), *log = xfmt("%s/log", dir);
    char *const argv[] = {(char *)(uintptr_t)python, "-B", "-s", "driver.py", NULL};
    /* The seed of hashes is fixed: the same source gives the same PTX. Naming versions keeps Triton from running ptxas for its own. */
    char *const env[] = {home, temp, cache, triton_home, "PATH=/nonexistent", "LC_ALL=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONNOUSERSITE=1",
                         "TRITON_MOCK_PTX_VERSION=8.6", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", NULL};
    posix_spawn_file_actions_t files;
    if (chdir(dir) != 0)
        return err_errno(err, ERR_INTERNAL, "the scratch folder");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawn_file_actions_adddup2(&files, began, CHILD_FD);
    int failed = posix_spawn(ret, python, &files, NULL, argv, env);
    posix_spawn_file_actions_destroy(&files);
    errno = failed;
    return !failed || err_errno(err, ERR_UNAVAILABLE, "no Triton on this host: python %s cannot be started in the sandbox", python);
}

/* Waits for its end, or for the limit: it cannot be killed from here, the supervisor ends all of us. False: the limit. */
static bool wait_for(pid_t pid, int64_t wall_ns, int *ret_status)
{
    int64_t deadline_ns = clock_mono_ns() + wall_ns;
    for (;;) {
        pid_t ended = waitpid(pid, ret_status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return true;
        if (clock_mono_ns() >= deadline_ns)
            return false;
        poll(NULL, 0, LOOK_MS);
    }
}

static void put_log(json_t *doc, const char *dir)
{
    cleanup(buf) struct buf raw = {0}, clean = {.limit = (size_t)LIMIT_LOG_BYTES + 64};
    bool cut = false;
    if (take_file(dir, "log", (size_t)LIMIT_LOG_BYTES, &raw, &cut) && raw.size) {
        if (cut)
            buf_str(&clean, "(cut)\n");
        utf8_clean(&clean, raw.data, raw.size);
    }
    json_put_str(doc, "log", buf_cstr(&clean));
}

/* Of made.json only what is known, as numbers and one short text. */
static json_t *take_made(const char *dir)
{
    static const char *const numbers[] = {"num_warps", "shared", "hidden", "global_scratch_size", "profile_scratch_size", "tmem_size", "clusters"};
    cleanup(buf) struct buf text = {0};
    cleanup(json) json_t *doc = NULL;
    struct err ignored = {0};
    bool cut = false;
    if (!take_file(dir, "made.json", (size_t)LIMIT_TRITON_ANSWER_BYTES, &text, &cut) || cut || !text.size
        || !json_parse(text.data, text.size, &doc, &ignored) || !json_is_object(doc))
        return json_null();
    json_t *made = json_object();
    char name[PLAN_KERNEL_SIZE];
    snprintf(name, sizeof name, "%s", json_str(doc, "name", ""));
    json_put_str(made, "name", strlen(json_str(doc, "name", "")) < sizeof name && utf8_valid(name, strlen(name)) ? name : "");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_put_int(made, numbers[i], json_int(doc, numbers[i], -1));
    return made;
}

static bool answer(const char *dir, bool began, bool ended, int status, struct err *err)
{
    cleanup(buf) struct buf ptx = {0};
    struct rusage used = {0};
    bool cut = false;
    json_t *doc = json_object();
    bool ok = began && ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool has_ptx = ok && take_file(dir, "kernel.ptx", (size_t)LIMIT_PTX_BYTES + 1, &ptx, &cut);
    getrusage(RUSAGE_CHILDREN, &used);
    json_put_bool(doc, "began", began);
    json_put_str(doc, "end", !ended ? "wall" : WIFSIGNALED(status) ? "signal" : "exit");
    json_put_int(doc, "code", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    json_put_int(doc, "cpu_ns", (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * LIMIT_SECOND + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000);
    json_put(doc, "made", ok ? take_made(dir) : json_null());
    json_put_bool(doc, "too_large", cut || (int64_t)ptx.size > LIMIT_PTX_BYTES);
    ok = has_ptx && ptx.size && !cut && (int64_t)ptx.size <= LIMIT_PTX_BYTES;
    json_put_bool(doc, "ok", ok);
    put_log(doc, dir);
    return child_answer(doc, err) && (!ok || wire_send_blob(CHILD_FD, "kernel.ptx", ptx.data, ptx.size, err));
}

bool child_do_triton(struct child_state *unused, const json_t *job, struct err *err)
{
    (void)unused;
    const char *dir = sandbox_scratch(), *source = json_str(job, "source", "");
    cleanup(str) char *request = json_text(json_object_get(job, "request"));
    int began[2], status = 0;
    pid_t pid;
    char byte = 0;
    if (pipe2(began, O_CLOEXEC | O_NONBLOCK) != 0)
        return err_errno(err, ERR_INTERNAL, "a pipe");
    cleanup(fd) int told = began[0];
    cleanup(fd) int tells = began[1];
    if (!put(dir, "driver.py", triton_driver, (size_t)(triton_driver_end - triton_driver), err)
        || !put(dir, "candidate.py", source, strlen(source), err) || !put(dir, "request.json", request, strlen(request), err)
        || !start(json_str(job, "python", ""), dir, tells, &pid, err))
        return false;
    bool ended = wait_for(pid, json_int(job, "wall_ns", LIMIT_TRITON_WALL_NS), &status);
    return answer(dir, read(told, &byte, 1) == 1, ended, status, err);
}
