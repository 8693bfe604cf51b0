/*
 * In the compile child: source to PTX, PTX to cubin. It has no GPU, no network, and sees the compiler and its headers; from before
 * the first source on the headers alone, so that an #include can reach nothing else, not even the libraries that do the work.
 */
#include "gpu/judge/child.h"
#include "gpu/judge/limits.h"
#include "gpu/sandbox/sandbox.h"

#include <string.h>

DEFINE_CLEANUP(compiled, struct toolkit_compiled, (free(it->ptx), free(it->log)))
DEFINE_CLEANUP(assembled, struct toolkit_assembled, (free(it->cubin), free(it->log)))

/* Found by the supervisor: in here nothing is left of the folders that a search would look through. */
static void read_paths(const json_t *job, struct toolkit_paths *ret)
{
    const json_t *t = json_object_get(job, "toolkit");
    const struct { const char *key; char *to; size_t size; } fields[] = {
        {"home", ret->home, sizeof ret->home},
        {"nvrtc", ret->nvrtc, sizeof ret->nvrtc},
        {"builtins", ret->builtins, sizeof ret->builtins},
        {"nvjitlink", ret->nvjitlink, sizeof ret->nvjitlink},
        {"include", ret->include, sizeof ret->include},
        {"version", ret->version, sizeof ret->version},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        snprintf(fields[i].to, fields[i].size, "%s", json_str(t, fields[i].key, ""));
}

/* A child compiles for one toolkit all its life. */
static bool take_paths(const json_t *job, const struct toolkit_paths **ret, struct err *err)
{
    static struct toolkit_paths paths;
    *ret = &paths;
    if (paths.home[0])
        return true;
    read_paths(job, &paths);
    return toolkit_settle(&paths, err) && sandbox_narrow(paths.include, err);
}

static void put_log(json_t *doc, const char *log)
{
    size_t size = log ? strlen(log) : 0, most = (size_t)LIMIT_LOG_BYTES;
    cleanup(buf) struct buf clean = {.limit = most + 64};
    if (log)
        utf8_clean(&clean, log, size < most ? size : most);
    if (size > most)
        buf_str(&clean, "\n(cut)");
    json_put_str(doc, "log", buf_cstr(&clean));
}

bool child_do_compile(struct child_state *s, const json_t *job, struct err *err)
{
    (void)s;
    const struct toolkit_paths *paths;
    cleanup(compiled) struct toolkit_compiled c = {0};
    if (!take_paths(job, &paths, err) ||
        !toolkit_compile(paths, json_str(job, "source", ""), json_str(job, "target", ""), json_str(job, "options", ""),
                         &c, err))
        return false;
    json_t *doc = json_object();
    json_put_bool(doc, "ok", c.ok);
    put_log(doc, c.log);
    return child_answer(doc, err) && (!c.ok || wire_send_blob(CHILD_FD, "kernel.ptx", c.ptx, c.ptx_bytes, err));
}

static json_t *kernel_encode(const struct toolkit_kernel *k)
{
    json_t *doc = json_object();
    json_put_str(doc, "kernel", k->name);
    json_put_int(doc, "registers", k->resources.registers_thread);
    json_put_int(doc, "shared_bytes", k->resources.static_shared_bytes);
    json_put_int(doc, "local_bytes", k->resources.local_bytes_thread);
    json_put_int(doc, "spill_bytes", k->spill_store_bytes + k->spill_load_bytes);
    return doc;
}

bool child_do_assemble(struct child_state *s, const json_t *job, struct err *err)
{
    const struct toolkit_paths *paths;
    cleanup(assembled) struct toolkit_assembled a = {0};
    if (!take_paths(job, &paths, err)
        || !wire_receive_blob_buf(CHILD_FD, 0, "kernel.ptx", (size_t)LIMIT_PTX_BYTES, &s->ptx, err)
        || !toolkit_assemble(paths, buf_cstr(&s->ptx), s->ptx.size, json_str(job, "target", ""),
                             (int)json_int(job, "maxrregcount", 0), &a, err))
        return false;
    json_t *doc = json_object(), *kernels = json_array();
    json_put_bool(doc, "ok", a.ok);
    put_log(doc, a.log);
    for (int i = 0; i < a.kernel_count; i++)
        json_array_append_new(kernels, kernel_encode(&a.kernels[i]));
    json_put(doc, "kernels", kernels);
    return child_answer(doc, err) && (!a.ok || wire_send_blob(CHILD_FD, "kernel.cubin", a.cubin, a.cubin_bytes, err));
}
