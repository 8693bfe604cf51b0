/* dlopen tables: all or nothing, so that no slot is ever NULL in use. */
#include "gpu/device/library.h"

#include <dlfcn.h>
#include <string.h>

bool library_open(struct library *l, const char *path, const struct library_entry *entries, struct err *err)
{
    if (l->handle)
        return true;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();
        return err_set(err, ERR_UNAVAILABLE, "cannot open %s: %s", path, why ? why : "no reason given");
    }
    for (const struct library_entry *e = entries; e->symbol; e++) {
        void *symbol = dlsym(handle, e->symbol);
        if (!symbol) {
            dlclose(handle);
            return err_set(err, ERR_UNAVAILABLE, "%s has no %s: a different version is needed", path, e->symbol);
        }
        memcpy(e->slot, &symbol, sizeof symbol);
    }
    l->handle = handle;
    return true;
}
