/*
 * What a verdict on a card must rest on, by the host's configuration (--need). What is asked for and was not done never makes a kernel
 * wrong: it is held, for somebody to look at, and the certificate says what is missing. Private memory is the exception: where a
 * kernel can reach the memory of the process that launches it, what that process reports is worth nothing, and nothing is judged.
 */
#include "gpu/judge/internal.h"

#include <string.h>

static const char *const names[NEEDS] = {[NEED_AUDIT] = "audit", [NEED_WATCH] = "watch", [NEED_MEMORY] = "private-memory", [NEED_EMULATION] = "emulation"};

bool needs_parse(const char *list, unsigned *ret, struct err *err)
{
    unsigned bits = 0;
    const char *text = list && *list ? list : NEEDS_DEFAULT;
    for (const char *at = text; *at; at += strspn(at, ",")) {
        size_t n = strcspn(at, ",");
        bool known = n == 4 && memcmp(at, "none", 4) == 0;
        for (int i = 0; i < NEEDS; i++)
            if (strlen(names[i]) == n && memcmp(names[i], at, n) == 0)
                known = true, bits |= 1u << i;
        if (!known)
            return err_set(err, ERR_INVALID, "need \"%.40s\": a list of audit, watch, private-memory, emulation, or none", text);
        at += n;
    }
    *ret = bits;
    return true;
}

bool needs_memory(const struct judge *j, const json_t *info, struct err *err)
{
    if (!json_bool(info, "pageable_memory_access", false) || !(j->needs & 1u << NEED_MEMORY))
        return true;
    return err_set(err, ERR_UNAVAILABLE, "kernels on this host can reach the memory of the process that launches them (pageable_memory_access), so what "
                   "it reports is not to be trusted: nothing is judged here unless private-memory is left out of --need");
}

/* Why it was not done; NULL: it was, or this is not the mode that does it. New string. */
static char *lacks(const struct judge *j, enum need need)
{
    const json_t *audit = json_object_get(j->figures, "audit"), *card = json_object_get(j->timing.record, "card");
    const char *note = json_str(j->figures, "emulate_note", NULL);
    static const char *const whens[] = {"before", "after"};
    switch (need) {
    case NEED_AUDIT:
        return json_str(audit, "not_done", NULL) ? xfmt("no audit of the launches: %s", json_str(audit, "not_done", NULL)) : NULL;
    case NEED_WATCH:
        for (int i = 0; i < 2; i++)
            if (!json_object_get(card, whens[i]) || json_object_get(json_object_get(card, whens[i]), "not_known"))
                return xfmt("nobody could say who else was on the card: %s", json_str(json_object_get(card, whens[i]), "not_known", "it was not asked"));
        return NULL;
    case NEED_EMULATION:
        if (note)
            return xfmt("the emulator did not run it: %s", note);
        return j->emulated ? NULL : xfmt("the emulator ran a sample of its blocks, and could not run all of them at a smaller shape: %.200s", json_str(j->smaller, "why", "none was tried"));
    case NEED_MEMORY:
        return json_bool(j->sides[CANDIDATE].info, "pageable_memory_access", false) ? xstrdup("kernels can reach the memory of the process that launches them") : NULL;
    case NEEDS:
        break;
    }
    return NULL;
}

char *needs_missing(const struct judge *j)
{
    for (int i = 0; i < NEEDS && j->on_card && j->mode != MODE_TRIAGE; i++) {
        char *why = j->needs & 1u << i ? lacks(j, (enum need)i) : NULL;
        if (why)
            return why;
    }
    return NULL;
}

json_t *needs_encode(const struct judge *j)
{
    json_t *doc = json_object(), *asked = json_array(), *missing = json_array();
    for (int i = 0; i < NEEDS; i++) {
        cleanup(str) char *why = j->on_card && j->mode != MODE_TRIAGE ? lacks(j, (enum need)i) : NULL;
        if (j->needs & 1u << i)
            json_array_append_new(asked, json_string(names[i]));
        if (why)
            json_array_append_new(missing, json_pack("{s:s,s:s}", "need", names[i], "why", why));
    }
    json_put(doc, "asked", asked);
    json_put(doc, "missing", missing);
    return doc;
}
