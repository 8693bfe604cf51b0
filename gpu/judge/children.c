#include "gpu/judge/children.h"
#include "core/clock.h"
#include "gpu/judge/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define LOOK_NS (LIMIT_SECOND / 10)
#define QUOTE_BYTES 200

static struct sandbox_limits limits_of(enum sandbox_role role)
{
    /* Threads count as processes: the emulator's. Files: libraries, headers, the driver's device nodes. */
    switch (role) {
    case SANDBOX_COMPILE:
        return (struct sandbox_limits){LIMIT_COMPILE_CPU_SECONDS, LIMIT_COMPILE_MEMORY_BYTES, 0, 64, 32, 0};
    case SANDBOX_REFERENCE:
        return (struct sandbox_limits){LIMIT_REFERENCE_CPU_SECONDS, LIMIT_REFERENCE_MEMORY_BYTES, 0, 32, 8 + LIMIT_HOST_THREADS, 0};
    case SANDBOX_RUN_CUDA:
        return (struct sandbox_limits){LIMIT_RUN_CUDA_CPU_SECONDS, LIMIT_RUN_CUDA_MEMORY_BYTES, 0, 128, 64, 0};
    case SANDBOX_CC:
        return (struct sandbox_limits){LIMIT_CC_CPU_SECONDS, LIMIT_CC_MEMORY_BYTES, LIMIT_CC_FILE_BYTES, 64, 32, 0};
    case SANDBOX_TRITON:
        return (struct sandbox_limits){LIMIT_TRITON_CPU_SECONDS, LIMIT_TRITON_MEMORY_BYTES, LIMIT_TRITON_FILE_BYTES, 256, 64, 0};
    case SANDBOX_RUN_SIM:
    case SANDBOX_ROLE_COUNT:
        break;
    }
    return (struct sandbox_limits){LIMIT_RUN_SIM_CPU_SECONDS, LIMIT_RUN_SIM_MEMORY_BYTES, 0, 32, 256, 0};
}

int level_rank(const char *level)
{
    static const char *const levels[] = {"none", "limits", "filtered", "isolated"};
    for (int i = 0; i < 4; i++)
        if (strcmp(levels[i], level) == 0)
            return i;
    return -1;
}

bool child_start(struct child_watch *w, enum sandbox_role role, const char *whose, const struct sandbox_paths *paths,
                 const char *const *env, struct child *ret, struct err *err)
{
    struct child c = {.role = role, .whose = whose, .limits = limits_of(role), .nonce = random_u64()};
    if ((role == SANDBOX_COMPILE || role == SANDBOX_TRITON) && w->compile_cpu_seconds)
        c.limits.cpu_seconds = w->compile_cpu_seconds;
    if (role == SANDBOX_RUN_SIM || role == SANDBOX_REFERENCE)
        c.limits.holes_bytes = w->holes_bytes;
    if (!sandbox_spawn(role, &c.limits, paths, env, &c.process, err))
        return err_wrap(err, "starting the %s child of the %s", sandbox_role_name(role), whose);
    fcntl(c.process.fd, F_SETFL, fcntl(c.process.fd, F_GETFL) | O_NONBLOCK);
    c.alive = true;
    *ret = c;
    return true;
}

static void count_asked(struct child *c, int change)
{
    struct child_watch *w = c->watch;
    int64_t now_ns = clock_mono_ns();
    if (w->asked == 0)
        w->idle_ns += now_ns - w->idle_since_ns;
    w->asked += change;
    c->asked += change;
    if (w->asked == 0)
        w->idle_since_ns = now_ns;
    BUG_ON(w->asked < 0 || c->asked < 0);
}

int64_t child_idle_ns(const struct child_watch *w)
{
    return w->idle_ns + (w->asked == 0 ? clock_mono_ns() - w->idle_since_ns : 0);
}

void child_stop(struct child *c)
{
    if (c->alive)
        sandbox_stop(&c->process, 0, &c->status);
    c->alive = false;
}

bool child_answered(const struct child *c)
{
    struct pollfd p = {.fd = c->process.fd, .events = POLLIN};
    return !c->alive || poll(&p, 1, 0) != 0;
}

void child_done(struct child *c)
{
    if (c->asked)
        count_asked(c, -c->asked);
    child_stop(c);
    wire_reader_done(&c->reader);
    buf_done(&c->process.stderr_tail);
    *c = (struct child){0};
}

static int64_t cpu_of(pid_t pid, int depth);

/* One frame, watching the child's stderr, our clock and the caller's wish. */
static bool next(struct child_watch *w, struct child *c, int64_t deadline_ns, struct wire_frame *ret, struct err *err)
{
    c->looked_ns = c->looked_cpu_ns = 0;
    for (;;) {
        switch (wire_reader_step(&c->reader, c->process.fd, ret, err)) {
        case WIRE_FRAME:
            return true;
        case WIRE_BAD:
            return false;
        case WIRE_END:
            return err_set(err, ERR_UPSTREAM, "the %s child of the %s ended without an answer",
                           sandbox_role_name(c->role), c->whose);
        case WIRE_MORE:
            break;
        }
        if (w->cancelled && w->cancelled(w->ctx))
            return err_set(err, ERR_CONFLICT, "cancelled");
        int64_t left = deadline_ns - clock_mono_ns();
        if (left <= 0) {
            c->silent = true;
            return err_set(err, ERR_TIMEOUT, "the %s child of the %s did not answer \"%s\" within %.1f s", sandbox_role_name(c->role), c->whose,
                           c->greeted ? c->job : "hello", (double)(clock_mono_ns() - c->job_ns) * 1e-9);
        }
        struct pollfd p[2] = {{.fd = c->process.fd, .events = POLLIN}, {.fd = c->process.stderr_fd, .events = POLLIN}};
        int events = poll(p, 2, (int)((left < LOOK_NS ? left : LOOK_NS) / 1000000) + 1);
        if (events < 0 && errno != EINTR)
            return err_errno(err, ERR_INTERNAL, "poll");
        if (events == 0 && !c->looked_ns)
            c->looked_ns = clock_mono_ns(), c->looked_cpu_ns = cpu_of(c->process.pid, 3);
        if (p[1].revents & POLLIN)
            sandbox_stderr(&c->process);
    }
}

static bool greet(struct child_watch *w, struct child *c, struct err *err)
{
    if (c->greeted)
        return true;
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!next(w, c, clock_mono_ns() + LIMIT_START_WALL_NS, &f, err) || !wire_expect(&f, WIRE_HELLO, err))
        return false;
    unsigned layers = ((unsigned)json_int(f.json, "layers", 0) & ~(unsigned)SANDBOX_CGROUP) | (c->process.cgroup[0] ? SANDBOX_CGROUP : 0);
    if (level_rank(sandbox_level(layers)) < level_rank(w->level_needed))
        return err_set(err, ERR_UNAVAILABLE,
                       "the sandbox of the %s child reaches \"%s\" on this host, less than --sandbox-minimum %s",
                       sandbox_role_name(c->role), sandbox_level(layers), w->level_needed);
    w->layers = w->any ? w->layers & layers : layers;
    w->any = true;
    c->greeted = true;
    return true;
}

bool child_ask(struct child_watch *w, struct child *c, const json_t *job, struct err *err)
{
    if (!c->alive)
        return err_set(err, ERR_INTERNAL, "the %s child of the %s is gone", sandbox_role_name(c->role), c->whose);
    c->job_ns = clock_mono_ns();
    if (!greet(w, c, err)
        || !wire_send_json_by(c->process.fd, WIRE_JOB, job, clock_mono_ns() + LIMIT_ANSWER_GRACE_NS, err))
        return false;
    snprintf(c->job, sizeof c->job, "%s", json_str(job, "do", "?"));
    c->job_ns = clock_mono_ns();
    c->watch = w;
    count_asked(c, 1);
    return true;
}

bool child_send_blob(struct child *c, const char *name, const void *data, size_t size, struct err *err)
{
    return wire_send_blob_by(c->process.fd, name, data, size, clock_mono_ns() + LIMIT_ANSWER_GRACE_NS, err);
}

#define MOST_SPENT 48           /* names: of jobs and of kinds of work (gpu/device/spent.h) */

static bool name_fits(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n < 32 && strspn(name, "abcdefghijklmnopqrstuvwxyz_.") == n;
}

/* Its word for it: shown, and nothing else rests on it. */
static void add_spent(struct child_watch *w, const struct child *c, const json_t *spent)
{
    const char *name;
    json_t *ns;
    if (c->role != SANDBOX_RUN_CUDA)
        return;
    if (!w->card_spent)
        w->card_spent = json_object();
    json_object_foreach((json_t *)(uintptr_t)spent, name, ns) {
        int64_t before = json_int(w->card_spent, name, -1), more = json_is_integer(ns) ? json_integer_value(ns) : -1;
        if (more < 0 || more > 3600 * LIMIT_SECOND || !name_fits(name) || (before < 0 && json_object_size(w->card_spent) == MOST_SPENT))
            continue;
        json_put_int(w->card_spent, name, (before < 0 ? 0 : before) + more);
    }
}

bool child_take(struct child_watch *w, struct child *c, int64_t deadline_ns, json_t **ret, struct err *err)
{
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!c->alive)
        return err_set(err, ERR_INTERNAL, "the %s child of the %s is gone", sandbox_role_name(c->role), c->whose);
    if (!next(w, c, deadline_ns, &f, err) || !wire_expect(&f, WIRE_RESULT, err))
        return false;
    if (!json_is_object(f.json))
        return err_set(err, ERR_UPSTREAM, "the %s child of the %s answered without an object",
                       sandbox_role_name(c->role), c->whose);
    if (c->asked)
        count_asked(c, -1);
    add_spent(w, c, json_object_get(f.json, "spent"));
    *ret = steal(&f.json);
    return true;
}

static bool take_name(struct child_watch *w, struct child *c, int64_t deadline_ns, const char *name, struct err *err)
{
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!next(w, c, deadline_ns, &f, err) || !wire_expect(&f, WIRE_BLOB_NAME, err))
        return false;
    if (strcmp(json_str(f.json, "name", ""), name) != 0)
        return err_set(err, ERR_UPSTREAM, "the %s child of the %s sent another blob than %s",
                       sandbox_role_name(c->role), c->whose, name);
    return true;
}

bool child_take_blob(struct child_watch *w, struct child *c, int64_t deadline_ns, const char *name, void *to,
                     size_t size, struct err *err)
{
    char none;
    struct wire_frame f = {0};
    if (!take_name(w, c, deadline_ns, name, err))
        return false;
    c->reader.into = size ? to : &none, c->reader.into_bytes = size;
    bool ok = next(w, c, deadline_ns, &f, err) && wire_expect(&f, WIRE_BLOB, err);
    c->reader.into = NULL;
    wire_frame_done(&f);
    return ok;
}

bool child_take_blob_buf(struct child_watch *w, struct child *c, int64_t deadline_ns, const char *name, size_t limit,
                         struct buf *to, struct err *err)
{
    cleanup(wire_frame) struct wire_frame f = {0};
    if (!take_name(w, c, deadline_ns, name, err))
        return false;
    c->reader.max_blob_bytes = (uint32_t)limit;
    bool ok = next(w, c, deadline_ns, &f, err) && wire_expect(&f, WIRE_BLOB, err);
    c->reader.max_blob_bytes = 0;
    if (!ok)
        return false;
    buf_done(to);
    *to = f.blob;
    f.blob = (struct buf){0};
    return true;
}

/* ---- how it ended ---- */

/* CPU time of a process and what it started, while they live: a killed child takes what its own children used with it. */
static int64_t cpu_of(pid_t pid, int depth)
{
    char path[64], text[1024];
    unsigned long long user = 0, system = 0;
    int64_t sum = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    cleanup(file) FILE *stat = fopen(path, "re");
    if (stat && fgets(text, sizeof text, stat)) {
        const char *after_name = strrchr(text, ')');
        if (after_name
            && sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) == 2)
            sum = (int64_t)(user + system) * (LIMIT_SECOND / sysconf(_SC_CLK_TCK));
    }
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    cleanup(file) FILE *children = fopen(path, "re");
    int child;
    while (depth > 0 && children && fscanf(children, "%d", &child) == 1)
        sum += cpu_of(child, depth - 1);
    return sum;
}

static bool used_up_cpu(const struct child *c)
{
    return (c->status.end == SANDBOX_SIGNALLED && c->status.code == SIGXCPU)
           || c->status.cpu_ns >= c->limits.cpu_seconds * LIMIT_SECOND * 9 / 10;
}

/*
 * It computed all along, as far as a busy machine let it: it did not wait for us or hang in a driver. Of the time that it was waited for:
 * before that it may have stood by for as long as others had the card.
 */
static bool was_busy(const struct child *c, int64_t used_ns, int64_t now_ns)
{
    return c->silent && c->looked_ns && used_ns - c->looked_cpu_ns >= (now_ns - c->looked_ns) / 12;
}

static bool used_up_memory(const struct child *c, const char *said)
{
    bool died = c->status.end == SANDBOX_SIGNALLED
                && (c->status.code == SIGABRT || c->status.code == SIGSEGV || c->status.code == SIGKILL);
    return died
           && (c->status.out_of_memory || c->status.peak_rss_bytes >= c->limits.memory_bytes * 7 / 10 || strstr(said, "out of memory")
               || strstr(said, "bad_alloc"));
}

bool child_end_cause(struct child *c, const char *phase, struct verdict *ret, struct err *err)
{
    if (!c->alive)
        return false;
    /* One that was cut off by its own end needs a moment to become a corpse. */
    const int64_t used_ns = c->silent ? cpu_of(c->process.pid, 3) : 0, now_ns = clock_mono_ns();
    if (c->silent)
        sandbox_stop(&c->process, 0, &c->status);
    else
        sandbox_wait(&c->process, clock_mono_ns() + LIMIT_GRACE_NS, &c->status);
    c->alive = false;
    if (used_ns > c->status.cpu_ns)
        c->status.cpu_ns = used_ns;
    const char *said = sandbox_stderr(&c->process);
    const char *what = c->role == SANDBOX_COMPILE || c->role == SANDBOX_TRITON ? "compiling" : "running";
    bool candidate_ran = c->role == SANDBOX_COMPILE || c->role == SANDBOX_TRITON || c->role == SANDBOX_RUN_SIM || c->role == SANDBOX_RUN_CUDA;
    if (candidate_ran && err->code != ERR_CONFLICT) {
        if (used_up_cpu(c) || was_busy(c, used_ns, now_ns)) {
            verdict_set(ret, VERDICT_TIMEOUT, phase, "%s it took %.1f s of CPU time and did not end", what,
                        (double)c->status.cpu_ns * 1e-9);
            return true;
        }
        if (used_up_memory(c, said)) {
            verdict_set(ret, VERDICT_RESOURCE_LIMIT, phase, "%s it needed more than %lld MiB of memory", what,
                        (long long)(c->limits.memory_bytes / LIMIT_MIB));
            return true;
        }
    }
    if (err->code == ERR_CONFLICT)
        return false;
    static const char *const ends[] = {
        [SANDBOX_EXITED] = "exit", [SANDBOX_KILLED_BY_US] = "killed by us, signal", [SANDBOX_SIGNALLED] = "signal"};
    struct err cause = *err;
    size_t n = strlen(said);
    while (n && (said[n - 1] == '\n' || said[n - 1] == ' '))
        n--;
    size_t from = n > QUOTE_BYTES ? n - QUOTE_BYTES : 0;
    while (from < n && ((unsigned char)said[from] & 0xc0) == 0x80)
        from++;
    err_set(err, cause.code, "%s: %.200s (%s %d)%s%.*s", phase, cause.text, ends[c->status.end], c->status.code,
            n ? "; it wrote: " : "", (int)(n - from), said + from);
    return false;
}
