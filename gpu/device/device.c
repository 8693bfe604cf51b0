/* What both devices share: finding one by name, the record about one, the list of all. */
#include "gpu/device/device.h"

#include <string.h>

void device_fault_done(struct device_fault *f)
{
    json_decref(f->detail);
    *f = (struct device_fault){0};
}

json_t *device_info_encode(const struct device_info *i)
{
    json_t *doc = json_object();
    json_put_str(doc, "kind", i->kind);
    json_put_str(doc, "id", i->id);
    json_put_str(doc, "name", i->name);
    if (i->uuid[0])
        json_put_str(doc, "uuid", i->uuid);
    json_put_str(doc, "target", i->target);
    if (i->driver[0])
        json_put_str(doc, "driver", i->driver);
    if (i->toolkit[0])
        json_put_str(doc, "toolkit", i->toolkit);
    json_put_int(doc, "sm_count", i->sm_count);
    json_put_int(doc, "memory_bytes", i->memory_bytes);
    json_put_int(doc, "l2_bytes", i->l2_bytes);
    json_put_bool(doc, "pageable_memory_access", i->pageable_memory_access);
    json_put_bool(doc, "healthy", i->healthy);
    if (i->health[0])
        json_put_str(doc, "health", i->health);
    return doc;
}
