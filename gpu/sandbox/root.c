/*
 * An empty root: a small tmpfs in which nothing exists but mount points for the paths of the order, each bound at the same place
 * as outside and read-only, and at the end the tmpfs read-only as well.
 *
 * Two pivots, so that the host's tree stays reachable as /old while the new one is built, wherever the sources lie. Sources are
 * resolved before the first pivot (symbolic links would lead astray after it). Attributes are set by mount_setattr, which adds
 * to what is there and so is allowed in a user namespace too.
 */
#include "gpu/sandbox/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct bind { char source[PATH_MAX], place[PATH_MAX]; bool is_device; };

static const char *const device_least[] = {"/dev/null", "/dev/zero", "/dev/urandom", NULL};

/* `place` is the path as it will be asked for: its folder resolved, its own name kept (a library's soname is a link). */
static bool resolve(const char *path, struct bind *ret)
{
    char folder[PATH_MAX], full[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!realpath(path, ret->source))
        return false;
    if (slash == path) {
        snprintf(ret->place, sizeof ret->place, "%s", path);
        return true;
    }
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    if (!realpath(folder, full) || strlen(full) + strlen(slash) >= sizeof ret->place)
        return false;
    snprintf(ret->place, sizeof ret->place, "%s%s", full, slash);
    return true;
}

/* mkdir -p of the folders above `path`, whose last part is left alone. */
static bool make_folders(char *path)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        bool ok = mkdir(path, 0755) == 0 || errno == EEXIST;
        *p = '/';
        if (!ok)
            return false;
    }
    return true;
}

static bool set_attributes(const char *path, uint64_t attributes, unsigned flags)
{
    struct mount_attr a = {.attr_set = attributes};
    return mount_setattr(AT_FDCWD, path, flags, &a, sizeof a) == 0;
}

static bool bind_one(const struct bind *b, struct err *err)
{
    char from[PATH_MAX + 8], to[PATH_MAX + 8];
    struct stat st;
    snprintf(from, sizeof from, "/old%s", b->source);
    snprintf(to, sizeof to, "/new%s", b->place);
    if (stat(from, &st) != 0)
        return err_errno(err, ERR_INTERNAL, "%s", b->source);
    if (!make_folders(to))
        return err_errno(err, ERR_INTERNAL, "folders of %s", b->place);
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) != 0 && errno != EEXIST)
            return err_errno(err, ERR_INTERNAL, "mount point %s", b->place);
    } else {
        cleanup(fd) int fd = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
        /* There already, in a folder that was bound before: read-only, another's, or a program that runs. */
        if (fd < 0 && errno != EEXIST && errno != EROFS && errno != EACCES && errno != ETXTBSY)
            return err_errno(err, ERR_INTERNAL, "mount point %s", b->place);
    }
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0)
        return err_errno(err, ERR_INTERNAL, "bind %s", b->source);
    uint64_t attributes =
        b->is_device ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (!set_attributes(to, attributes, AT_RECURSIVE))
        return err_errno(err, ERR_INTERNAL, "make %s read-only", b->source);
    return true;
}

/* /lib and the like are links on a merged-/usr host; the dynamic loader asks by the old names. */
static void copy_links(void)
{
    static const char *const links[] = {"lib", "lib64", "lib32", "bin", NULL};
    for (const char *const *l = links; *l; l++) {
        char from[32], to[32], target[64];
        snprintf(from, sizeof from, "/old/%s", *l);
        snprintf(to, sizeof to, "/new/%s", *l);
        ssize_t n = readlink(from, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            (void)!symlink(target, to);
        }
    }
}

static bool collect(const struct sandbox_order *o, struct bind *binds, int *ret_count, struct err *err)
{
    int count = 0;
    for (int i = 0; i < o->read_only_count; i++)
        if (!resolve(o->read_only[i], &binds[count++]))
            return err_errno(err, ERR_INTERNAL, "%s", o->read_only[i]);
    bool devices = sandbox_profiles[o->role].devices;
    for (const char *const *d = device_least; *d; d++) {
        binds[count].is_device = true;
        count += resolve(*d, &binds[count]);
    }
    for (int i = 0; devices && i < o->device_count; i++) {
        binds[count].is_device = true;
        if (!resolve(o->devices[i], &binds[count++]))
            return err_errno(err, ERR_INTERNAL, "%s", o->devices[i]);
    }
    *ret_count = count;
    return true;
}

/* The first folder to stand on: it is covered only while the tree is built. */
static const char *foothold(void)
{
    static const char *const places[] = {"/tmp", "/mnt", "/run", "/var", NULL};
    struct stat st;
    for (const char *const *p = places; *p; p++)
        if (stat(*p, &st) == 0 && S_ISDIR(st.st_mode))
            return *p;
    return "/";
}

static bool first_pivot(struct err *err)
{
    const char *base = foothold();
    char path[32];
    if (unshare(CLONE_NEWNS) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "a mount namespace");
    if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "make mounts private");
    if (mount("tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m,nr_inodes=4096") != 0)
        return err_errno(err, ERR_UNAVAILABLE, "mount a tmpfs");
    snprintf(path, sizeof path, "%s/new", base);
    if (mkdir(path, 0755) != 0 || mount(path, path, NULL, MS_BIND, NULL) != 0)
        return err_errno(err, ERR_UNAVAILABLE, "the new root");
    snprintf(path, sizeof path, "%s/old", base);
    if (mkdir(path, 0700) != 0 || syscall(SYS_pivot_root, base, path) != 0 || chdir("/") != 0)
        return err_errno(err, ERR_UNAVAILABLE, "pivot_root");
    return true;
}

static bool second_pivot(struct err *err)
{
    if (umount2("/old", MNT_DETACH) != 0 || chdir("/new") != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
        umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return err_errno(err, ERR_UNAVAILABLE, "leave the old root");
    if (!set_attributes("/", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0))
        return err_errno(err, ERR_UNAVAILABLE, "make the new root read-only");
    return true;
}

/* What in /proc acts on the machine and not on a process. Owners may write there without any capability. */
static bool mask_proc(struct err *err)
{
    static const char *const names[] = {"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", NULL};
    for (const char *const *n = names; *n; n++) {
        char path[64];
        snprintf(path, sizeof path, "/new/proc/%s", *n);
        if (access(path, F_OK) == 0 && (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
                                        !set_attributes(path, MOUNT_ATTR_RDONLY, AT_RECURSIVE)))
            return err_errno(err, ERR_UNAVAILABLE, "make /proc/%s read-only", *n);
    }
    return true;
}

static bool mount_special(const struct sandbox_order *o, struct err *err)
{
    char options[96];
    if (sandbox_profiles[o->role].proc_and_sys) {
        const struct bind sys = {.source = "/sys", .place = "/sys"};
        if (mkdir("/new/proc", 0555) != 0 ||
            mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
            return err_errno(err, ERR_UNAVAILABLE, "mount /proc");
        if (!mask_proc(err) || !bind_one(&sys, err))
            return false;
    }
    if (o->limits.file_bytes > 0) {
        snprintf(options, sizeof options, "mode=1777,size=%lld,nr_inodes=1024", (long long)o->limits.file_bytes);
        if (mkdir("/new/tmp", 0755) != 0 ||
            mount("tmpfs", "/new/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
            return err_errno(err, ERR_UNAVAILABLE, "mount /tmp");
    }
    return true;
}

bool sandbox_root(const struct sandbox_order *o, struct err *err)
{
    static struct bind binds[2 * SANDBOX_MAX_PATHS + 8];
    int count = 0;
    if (!collect(o, binds, &count, err) || !first_pivot(err))
        return false;
    copy_links();
    if (!mount_special(o, err))          /* first: a path of the order may lie below /tmp */
        return false;
    for (int i = 0; i < count; i++)
        if (!bind_one(&binds[i], err))
            return false;
    return second_pivot(err);
}
