/*
 * Which card. All that comes before a retest runs on the first that is named (for "auto": the first that fits). A retest goes to another
 * one of the same model and driver where one is free: what holds on one card alone, of its memory, its clock or its wear, is not published.
 * Free means that nobody has its lock and nobody's memory is on it; whether it is the same, its own driver says when it is opened, by the
 * child of the side that is trusted more. No other card is ever waited for: then the retest is where everything was, and says so.
 */
#include "gpu/judge/internal.h"

#include <string.h>

static bool same(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"name", "target", "driver", "memory_bytes", "sm_count", "l2_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

static bool add(struct judge *j, const char *id, size_t size, struct err *err)
{
    if (j->card_count == JUDGE_MAX_CARDS || size >= sizeof j->cards[0])
        return err_set(err, ERR_INVALID, "at most %d devices, each sim or cuda:N", JUDGE_MAX_CARDS);
    snprintf(j->cards[j->card_count++], sizeof j->cards[0], "%.*s", (int)size, id);
    return true;
}

/* All healthy cards that the shape is for, of the first one's model and driver; else the emulator. */
static bool find_all(struct judge *j, struct err *err)
{
    cleanup(json) json_t *list = NULL;
    size_t i;
    json_t *item;
    const json_t *first = NULL;
    if (!device_list(&list, err))
        return false;
    json_array_foreach(list, i, item) {
        const char *id = json_str(item, "id", "cuda:0");
        const bool fits = strcmp(json_str(item, "kind", ""), "cuda") == 0 && json_bool(item, "healthy", false)
                          && strcmp(json_str(item, "target", ""), j->shape.target) == 0;
        if (!fits || (first && !same(item, first)) || j->card_count == JUDGE_MAX_CARDS)
            continue;
        first = first ? first : item;
        if (!add(j, id, strlen(id), err))
            return false;
    }
    return j->card_count > 0 || add(j, "sim", 3, err);
}

bool cards_find(struct judge *j, struct err *err)
{
    const char *wish = j->config->device && *j->config->device ? j->config->device : "auto";
    if (strcmp(wish, "auto") == 0 && !find_all(j, err))
        return false;
    for (const char *at = wish; *at && strcmp(wish, "auto") != 0;) {
        const size_t n = strcspn(at, ",");
        if (!add(j, at, n, err))
            return false;
        const char *id = j->cards[j->card_count - 1];
        if (!device_find(id))
            return err_set(err, ERR_INVALID, "there is no device \"%.40s\": sim, cuda:0, ...", id);
        if (strcmp(id, "sim") == 0 && strcmp(wish, "sim") != 0)
            return err_set(err, ERR_INVALID, "the emulator is no card among others: sim, or cards");
        at += n + (at[n] == ',');
    }
    if (!j->card_count)
        return err_set(err, ERR_INVALID, "no device is named");
    snprintf(j->device, sizeof j->device, "%s", j->cards[0]);
    j->on_card = strcmp(j->device, "sim") != 0;
    return true;
}

/* Holds it, and opens it in the child that the occasion then goes on with. False: why says why not, and nothing is held. */
static bool try_other(struct judge *j, const char *id, const json_t *home, bool *ret_unfit, struct err *why)
{
    struct judge_side *s = &j->sides[j->sides[BASELINE].present ? BASELINE : CANDIDATE];
    cleanup(verdict) struct verdict v = {.code = VERDICT_OK};
    snprintf(j->device, sizeof j->device, "%s", id);
    *ret_unfit = false;
    if (!card_take_free(j, why))
        return false;
    bool ok = run_start(j, s, SANDBOX_RUN_CUDA, why) && run_shape(j, s, &v, why) && v.code == VERDICT_OK && run_open(j, s, j->device, &v, why)
              && v.code == VERDICT_OK;
    *ret_unfit = !ok;
    if (ok && !same(s->info, home)) {
        *ret_unfit = true;
        ok = err_set(why, ERR_UNPROCESSABLE, "%s is another model, or has another driver", id);
    } else if (ok && json_int(s->info, "memory_used_bytes", -1) > LIMIT_OTHERS_BYTES) {
        ok = err_set(why, ERR_UNAVAILABLE, "somebody else's memory is on %s", id);
    }
    if (!ok)
        card_release(j);
    return ok;
}

void cards_choose(struct judge *j, const json_t *home)
{
    char before[sizeof j->device];
    snprintf(before, sizeof before, "%s", j->device);
    j->why_this_card[0] = 0;
    for (int k = 1; k < j->card_count && j->on_card; k++) {
        struct err why = {0};
        bool unfit = false;
        if (j->cards_unfit & 1u << k)
            continue;
        if (try_other(j, j->cards[k], home, &unfit, &why)) {
            j->why_this_card[0] = 0;
            break;
        }
        j->cards_unfit |= (unsigned)unfit << k;
        snprintf(j->why_this_card, sizeof j->why_this_card, "%s", why.text);
        snprintf(j->device, sizeof j->device, "%s", j->cards[0]);
    }
    if (strcmp(before, j->device) != 0) {       /* what the harness costs there is another figure */
        json_decref(j->calibration);
        j->calibration = NULL;
    }
}

json_t *card_identity(const json_t *info)
{
    static const char *const keys[] = {"kind", "id", "name", "uuid", "target", "driver"};
    json_t *doc = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_str(info, keys[i], "")[0])
            json_put_str(doc, keys[i], json_str(info, keys[i], ""));
    return doc;
}
