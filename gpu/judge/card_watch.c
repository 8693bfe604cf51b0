/*
 * Is the card ours alone, and is it well? Asked before and after each timing. What is wrong with a card is never a verdict on a
 * candidate: it is a failure of ours, with what was seen, and the caller judges again.
 *
 * Three witnesses, because each can be blind. NVML's list of processes does not show other containers everywhere. The card's memory in
 * use before our first process was on it shows whoever holds a context, wherever. And a kernel of ours that watches the card's own clock
 * shows whoever computes meanwhile, whatever hides him. NVML is asked in this process; the other two come from the baseline's child,
 * which runs no stranger's code unless the baseline is the one that is judged.
 */
#include "core/clock.h"
#include "gpu/judge/internal.h"

#include <string.h>

static int own_processes(const struct judge *j, int64_t *ret)
{
    int count = 0;
    for (int i = 0; i < SIDES; i++) {
        const struct judge_side *s = &j->sides[i];
        if (s->run.alive && s->opened && s->run.role == SANDBOX_RUN_CUDA)
            ret[count++] = s->run.process.pid;
    }
    return count;
}

static const char *uuid_of(const struct judge *j)
{
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].info && json_str(j->sides[i].info, "uuid", NULL))
            return json_str(j->sides[i].info, "uuid", NULL);
    return NULL;
}

/* In use before any of ours was there: the least of what our processes found when they came. -1: not known. */
static int64_t used_before(const struct judge *j)
{
    int64_t least = -1;
    for (int i = 0; i < SIDES; i++) {
        int64_t used = json_int(j->sides[i].info, "memory_used_bytes", -1);
        if (used >= 0 && (least < 0 || used < least))
            least = used;
    }
    return least;
}

static bool by_list(const struct judge *j, const struct card_reading *r, char *why, size_t size)
{
    int64_t own[SIDES];
    bool visible = false;
    int others = card_others(r, own, own_processes(j, own), &visible);
    if (others)
        snprintf(why, size, "%d other process%s on it", others, others == 1 ? "" : "es");
    return others > 0;
}

static bool read_card(const struct judge *j, struct card_reading *r)
{
    const char *uuid = uuid_of(j);
    *r = (struct card_reading){.process_count = -1};
    if (j->config->own_device || !uuid)
        snprintf(r->why, sizeof r->why, "no driver stands behind this device");
    else
        card_read(uuid, r);
    return r->known;
}

bool card_excuses(struct judge *j, struct err *err)
{
    struct card_reading r;
    char why[160] = "";
    if (!j->on_card || !read_card(j, &r))
        return false;
    if (!card_well(&r, why, sizeof why))
        return !err_set(err, ERR_UNAVAILABLE, "the card is not well: %s", why);
    return by_list(j, &r, why, sizeof why) && !err_set(err, ERR_UNAVAILABLE, "the card is not ours alone: %s", why);
}

/* The run child's kernel. */
static bool ask_alone(struct judge *j, struct judge_side *s, int64_t watch_ns, json_t *to, char *why, size_t size, struct verdict *v,
                      struct err *err)
{
    cleanup(json) json_t *job = judge_job("alone"), *answer = NULL;
    json_put_int(job, "watch_ns", watch_ns);
    STEP(judge_ask_run(j, s, job, "time", LIMIT_TIME_SETUP_WALL_NS, &answer, v, err));
    const json_t *seen = json_object_get(answer, "alone");
    int64_t longest = json_int(seen, "longest_gap_ns", 0), gaps_ns = json_int(seen, "gaps_ns", 0);
    json_put(to, "watch", seen ? json_incref((json_t *)(uintptr_t)seen) : json_null());
    if (longest >= LIMIT_ALONE_GAP_NS)
        snprintf(why, size, "our kernel was put aside for %.1f of %.0f ms, for %.1f ms at a time", (double)gaps_ns * 1e-6,
                 (double)(watch_ns + gaps_ns) * 1e-6, (double)longest * 1e-6);
    return true;
}

bool card_watch(struct judge *j, struct judge_side *s, bool briefly, const char *when, json_t *to, struct verdict *v, struct err *err)
{
    struct card_reading r;
    char why[160] = "";
    (void)read_card(j, &r);
    json_t *doc = card_encode(&r);
    json_put(to, when, doc);
    if (!card_well(&r, why, sizeof why))
        return err_set(err, ERR_UNAVAILABLE, "the card is not well: %s", why);
    int64_t used = used_before(j);
    json_put(doc, "memory_used_before_us_bytes", used >= 0 ? json_integer(used) : json_null());
    if (!by_list(j, &r, why, sizeof why) && used > LIMIT_OTHERS_BYTES)
        snprintf(why, sizeof why, "%lld MiB of its memory were in use before we came", (long long)(used / LIMIT_MIB));
    if (!why[0])
        STEP(ask_alone(j, s, briefly ? LIMIT_ALONE_WATCH_NS / 2 : LIMIT_ALONE_WATCH_NS, doc, why, sizeof why, v, err));
    return !why[0] || err_set(err, ERR_UNAVAILABLE, "the card is not ours alone: %s", why);
}
