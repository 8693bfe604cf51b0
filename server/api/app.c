/* What the API keeps in memory, made and released together. */
#include "server/api/api.h"

#include "core/clock.h"
#include "core/log.h"

#include <string.h>

static bool was_healthy(const json_t *before, const char *id)
{
    const json_t *device;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)before, i, device)
        if (!strcmp(json_str(device, "id", json_str(device, "name", "")), id))
            return json_bool(device, "healthy", true);
    return true;       /* a new one that is well is no news */
}

/* An event for each device whose health is another than before. */
static void tell_health(struct app *app, const json_t *before, const json_t *now)
{
    struct store_batch *b = store_batch_new();
    const json_t *device;
    struct err err;
    size_t i;
    bool any = false;
    json_array_foreach((json_t *)(uintptr_t)now, i, device) {
        const char *id = json_str(device, "id", json_str(device, "name", ""));
        if (was_healthy(before, id) == json_bool(device, "healthy", true))
            continue;
        cleanup(json) json_t *event = json_object();
        json_put_str(event, "device", id);
        json_put_str(event, "kind", json_str(device, "kind", ""));
        json_put_bool(event, "healthy", json_bool(device, "healthy", true));
        json_put_str(event, "health", json_str(device, "health", json_bool(device, "healthy", true) ? "ok" : "not fit"));
        store_event(b, "device.health", NULL, event);
        any = true;
    }
    if (!any)
        store_batch_free(b);
    else if (!store_commit(app->store, b, NULL, &err))
        log_line(LOG_WARN, "a device's health could not be told", "error", err.text, NULL);
}

/* On the devices' thread. */
static void devices_changed(void *ctx, const json_t *before, const json_t *now)
{
    struct app *app = ctx;
    tell_health(app, json_object_get(before, "devices"), json_object_get(now, "devices"));
    if (app->http)
        http_notify(app->http);
}

void app_open(struct app *app, const struct spawn_config *spawn)
{
    const struct config *c = app->config;
    app->started_ns = clock_wall_ns();
    app->cache = cache_new(c->cache_bytes);
    app->idempotency = idempotency_new(app->store, c->idempotency_hours * 3600 * 1000000000);
    app->rate = rate_new(c->submits_per_minute);
    app->shapes = shape_memory_new();
    app->files = files_new();
    app->registry = registry_new(app, spawn);
    app->devices = devices_new(spawn, c->device_refresh_s * 1000000000, devices_changed, app);
}

void app_close(struct app *app)
{
    registry_free(app->registry);
    devices_free(app->devices);
    cache_free(app->cache);
    idempotency_free(app->idempotency);
    rate_free(app->rate);
    shape_memory_free(app->shapes);
    files_free(app->files);
    app->registry = NULL;
    app->devices = NULL;
    app->cache = NULL;
    app->idempotency = NULL;
    app->rate = NULL;
    app->shapes = NULL;
    app->files = NULL;
}
