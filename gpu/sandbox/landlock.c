/*
 * Landlock: the same paths as the empty root, by a mechanism that needs no namespace. Everything that the running kernel's
 * Landlock can deny is denied, then the order's paths are let in: files to read, device nodes to read, write and control.
 *
 * The constants are the kernel's interface (uapi/linux/landlock.h); they stand here because a host's headers may be older than
 * its kernel. Each version of the interface adds rights, so a table says what exists since when.
 */
#include "gpu/sandbox/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_REG (UINT64_C(1) << 8)
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_IOCTL_DEV (UINT64_C(1) << 15)

/* Rights over files, connections and scopes that exist from this version of the interface on. */
static const struct { int abi; uint64_t files, net, scopes; } versions[] = {
    {1, (UINT64_C(1) << 13) - 1, 0, 0},   /* execute, write, read, and making or removing anything */
    {2, UINT64_C(1) << 13, 0, 0},         /* moving between folders */
    {3, FS_TRUNCATE, 0, 0},
    {4, 0, 3, 0},                         /* bind and connect TCP */
    {5, FS_IOCTL_DEV, 0, 0},
    {6, 0, 0, 3},                         /* abstract sockets and signals outside the sandbox */
};

struct ruleset_attr { uint64_t files, net, scopes; };
struct path_attr { uint64_t allowed; int32_t fd; } __attribute__((packed));
enum { RULE_PATH_BENEATH = 1, CREATE_VERSION = 1 };

static bool allow(int ruleset, const char *path, uint64_t rights, uint64_t handled, struct err *err)
{
    cleanup(fd) int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_errno(err, ERR_INTERNAL, "%s", path);
    /* Rights over folders mean nothing for a file, and the kernel refuses them. */
    uint64_t for_files = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
    struct path_attr a = {.allowed = rights & handled & (S_ISDIR(st.st_mode) ? ~UINT64_C(0) : for_files), .fd = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &a, 0) != 0)
        return err_errno(err, ERR_INTERNAL, "landlock rule for %s", path);
    return true;
}

static bool allow_order(int ruleset, const struct sandbox_order *o, uint64_t handled, struct err *err)
{
    const uint64_t look = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR, use = FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE;
    static const char *const least[] = {"/dev/null", "/dev/zero", "/dev/urandom", NULL};
    const struct sandbox_profile *p = &sandbox_profiles[o->role];
    for (int i = 0; i < o->read_only_count; i++)
        if (!allow(ruleset, o->read_only[i], look, handled, err))
            return false;
    for (const char *const *d = least; *d; d++)
        if (!allow(ruleset, *d, use, handled, err))
            return false;
    for (int i = 0; p->devices && i < o->device_count; i++)
        if (!allow(ruleset, o->devices[i], use | FS_IOCTL_DEV, handled, err))
            return false;
    if (p->proc_and_sys && (!allow(ruleset, "/proc", use | FS_READ_DIR, handled, err) ||
                            !allow(ruleset, "/sys", FS_READ_FILE | FS_READ_DIR, handled, err)))
        return false;
    /* Plain files in one folder: what the supervisor finds there it can remove. */
    const uint64_t plain = use | FS_READ_DIR | FS_MAKE_REG | FS_REMOVE_FILE;
    if (p->programs)
        return allow(ruleset, sandbox_scratch_dir, plain, handled, err);
    return o->limits.file_bytes <= 0 || allow(ruleset, "/tmp", plain, handled, err);
}

static bool new_ruleset(int *ret, uint64_t *ret_files, struct err *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    if (abi < 1)
        return err_errno(err, ERR_UNAVAILABLE, "this kernel has no Landlock");
    struct ruleset_attr attr = {0};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (abi >= versions[i].abi) {
            attr.files |= versions[i].files;
            attr.net |= versions[i].net;
            attr.scopes |= versions[i].scopes;
        }
    /* An older kernel takes the longer struct as long as what it does not know is zero. */
    *ret = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    *ret_files = attr.files;
    return *ret >= 0 || err_errno(err, ERR_UNAVAILABLE, "landlock ruleset");
}

static bool restrict_to(int ruleset, struct err *err)
{
    return syscall(SYS_landlock_restrict_self, ruleset, 0) == 0 || err_errno(err, ERR_UNAVAILABLE, "landlock");
}

bool sandbox_landlock(const struct sandbox_order *o, struct err *err)
{
    cleanup(fd) int ruleset = -1;
    uint64_t files = 0;
    return new_ruleset(&ruleset, &files, err) && allow_order(ruleset, o, files, err) && restrict_to(ruleset, err);
}

bool sandbox_narrow(const char *folder, struct err *err)
{
    cleanup(fd) int ruleset = -1;
    uint64_t files = 0;
    struct err none = {0};
    if (sandbox_left_out & SANDBOX_LANDLOCK || !new_ruleset(&ruleset, &files, &none))
        return true;
    return allow(ruleset, folder, FS_READ_FILE | FS_READ_DIR, files, err) && restrict_to(ruleset, err);
}
