/*
 * How often the judge was asked on this day (UTC) to decide between lessons. The count is in the store before the judge is asked, so neither
 * a restart nor a crash begins the day anew, and where it cannot be written nobody is asked. A clock that was set back goes on with the day
 * it had reached. In memory it is the thread of consolidation's, as read when the layer was opened.
 */
#include "know/internal.h"

#include "core/clock.h"

#include <string.h>

#define KEY "lessons.measured"           /* STORE_META: {"day":"2026-11-30","count"} */

bool measured_load(struct know *k, struct err *err)
{
    cleanup(json) json_t *doc = NULL;
    if (!get_or_null(k, STORE_META, KEY, &doc, err))
        return false;
    snprintf(k->measured_day, sizeof k->measured_day, "%s", json_str(doc, "day", ""));
    k->day_measured = json_int(doc, "count", 0);
    return true;
}

int64_t measured_today(struct know *k)
{
    struct rfc3339 now = clock_text(clock_wall_ns());
    now.text[sizeof k->measured_day - 1] = 0;
    if (strcmp(now.text, k->measured_day) > 0) {
        snprintf(k->measured_day, sizeof k->measured_day, "%s", now.text);
        k->day_measured = 0;
    }
    return k->day_measured;
}

bool measured_another(struct know *k, struct err *err)
{
    const int64_t count = measured_today(k) + 1;
    cleanup(json) json_t *doc = json_object();
    json_put_str(doc, "day", k->measured_day);
    json_put_int(doc, "count", count);
    struct store_batch *b = store_batch_new();
    store_put(b, STORE_META, KEY, NULL, doc);
    if (!store_commit(k->store, b, NULL, err))
        return false;
    k->day_measured = count;
    return true;
}
