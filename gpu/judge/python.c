/* Runs python once and reads one line of JSON from it. */
#include "gpu/judge/python.h"
#include "core/clock.h"
#include "core/environment.h"
#include "gpu/judge/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#define ANSWER_BYTES ((size_t)64 * 1024)
#define ADVICE "install Triton 3.3 or newer for it, or name another python (--python, PROTEUS_PYTHON)"
extern char **environ;

/*
 * Folders of modules and libraries; what lies below another of the list is left out. The interpreter's own link is kept as it is, since
 * a virtual environment is found by it.
 */
static const char question[] =
    "import importlib.metadata as m, importlib.util as u, json, os, platform, site, sys, sysconfig\n"
    "own = sys.prefix != sys.base_prefix\n"
    "program = sys.executable if own else os.path.realpath(sys.executable)\n"
    "found = u.find_spec('triton')\n"
    "folders = [sysconfig.get_path(n) for n in ('stdlib', 'platstdlib', 'purelib', 'platlib')] + site.getsitepackages()\n"
    "folders += ['/usr/lib64', '/usr/lib/x86_64-linux-gnu', '/lib64', '/lib/x86_64-linux-gnu']\n"
    "folders += [sysconfig.get_config_var('LIBDIR') if sys.base_prefix not in ('/', '/usr') else None]\n"
    "if found and found.origin: folders += [os.path.dirname(os.path.dirname(found.origin))]\n"
    "if own: folders += [os.path.join(sys.prefix, 'pyvenv.cfg')]\n"
    "folders = sorted({os.path.realpath(f) for f in folders if f and os.path.exists(f)})\n"
    "kept = []\n"
    "for f in folders:\n"
    "    if f not in ('/', '/usr', '/usr/local') and not any(f.startswith(k + '/') for k in kept): kept.append(f)\n"
    "try: version = m.version('triton') if found else None\n"
    "except m.PackageNotFoundError: version = 'unknown'\n"
    "print(json.dumps({'program': program, 'version': platform.python_version(), 'triton': version, 'paths': kept}))\n";

void python_done(struct python_paths *p)
{
    free(p->program);
    for (int i = 0; i < p->count; i++)
        free(p->paths[i]);
    *p = (struct python_paths){0};
}

static bool start(const char *python, int *ret_fd, pid_t *ret, struct err *err)
{
    char *const argv[] = {(char *)(uintptr_t)python, "-I", "-B", "-c", (char *)(uintptr_t)question, NULL};
    posix_spawn_file_actions_t files;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_errno(err, ERR_INTERNAL, "a pipe for python");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    cleanup(mem) void *variables = environment_for_child(environ);
    int failed = posix_spawnp(ret, python, &files, NULL, argv, variables);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    *ret_fd = ends[0];
    if (!failed)
        return true;
    close(ends[0]);
    return err_set(err, ERR_UNAVAILABLE, "no Triton on this host: python \"%.200s\" cannot be started: %s; " ADVICE, python, strerror(failed));
}

/* All that it writes; false where it is too much or takes too long. */
static bool listen_to(int fd, struct buf *to)
{
    int64_t deadline_ns = clock_mono_ns() + LIMIT_PYTHON_WALL_NS;
    for (;;) {
        char chunk[4096];
        int64_t left_ns = deadline_ns - clock_mono_ns();
        if (left_ns <= 0 || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)(left_ns / 1000000) + 1) < 0)
            return false;
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            buf_add(to, chunk, (size_t)n);
        if (to->size > ANSWER_BYTES)
            return false;
    }
}

static bool take(const json_t *doc, const char *python, struct python_paths *p, struct err *err)
{
    size_t i;
    json_t *item;
    const char *triton = json_str(doc, "triton", NULL);
    p->program = xstrdup(json_str(doc, "program", ""));
    snprintf(p->version, sizeof p->version, "%s", json_str(doc, "version", ""));
    snprintf(p->triton, sizeof p->triton, "%s", triton ? triton : "");
    json_array_foreach(json_object_get(doc, "paths"), i, item) {
        if (p->count == PYTHON_MAX_PATHS || !json_is_string(item))
            return err_set(err, ERR_UNAVAILABLE, "no Triton on this host: python \"%.200s\" has more than %d folders", python, PYTHON_MAX_PATHS);
        p->paths[p->count++] = xstrdup(json_string_value(item));
    }
    if (!triton)
        return err_set(err, ERR_UNAVAILABLE, "no Triton on this host: python \"%.200s\" (%s) has no module triton; " ADVICE, python, p->version);
    return true;
}

bool python_find(const char *python, struct python_paths *ret, struct err *err)
{
    cleanup(buf) struct buf text = {0};
    cleanup(json) json_t *doc = NULL;
    cleanup(python) struct python_paths p = {0};
    struct err why = {0};
    const char *variable = getenv("PROTEUS_PYTHON");
    const char *name = python && *python ? python : variable && *variable ? variable : "python3";
    pid_t pid;
    int fd = -1, status = 0;
    if (!start(name, &fd, &pid, err))
        return false;
    bool told = listen_to(fd, &text);
    close(fd);
    if (!told)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!told || !WIFEXITED(status) || WEXITSTATUS(status) != 0 || !json_parse(text.data ? text.data : "", text.size, &doc, &why)
        || *json_str(doc, "program", "") != '/')
        return err_set(err, ERR_UNAVAILABLE, "no Triton on this host: python \"%.200s\" does not say where its files are (%s %d); " ADVICE, name,
                       WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (!take(doc, name, &p, err))
        return false;
    *ret = p;
    p = (struct python_paths){0};
    return true;
}
