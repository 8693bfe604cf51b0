/* What the API keeps in memory, made and released together. */
#include "server/api/api.h"

#include "core/clock.h"

static void devices_changed(void *ctx)
{
    const struct app *app = ctx;
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
    app->devices = devices_new(spawn, c->device_refresh_s * 1000000000, devices_changed, app);
}

void app_close(struct app *app)
{
    devices_free(app->devices);
    cache_free(app->cache);
    idempotency_free(app->idempotency);
    rate_free(app->rate);
    shape_memory_free(app->shapes);
    files_free(app->files);
    app->devices = NULL;
    app->cache = NULL;
    app->idempotency = NULL;
    app->rate = NULL;
    app->shapes = NULL;
    app->files = NULL;
}
