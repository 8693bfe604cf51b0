/* What follows from a reading of a card, whoever read it. */
#include "gpu/device/card.h"

#include <string.h>

static const struct { uint64_t bit; const char *name; bool hinders; } reasons_table[] = {
#define X(bit, name, hinders) {bit, name, hinders},
    CARD_REASON_TABLE(X)
#undef X
};
#define REASONS (sizeof reasons_table / sizeof *reasons_table)

uint64_t card_reasons_hindering(uint64_t reasons)
{
    uint64_t known = 0, hindering = 0;
    for (size_t i = 0; i < REASONS; i++) {
        known |= reasons_table[i].bit;
        hindering |= reasons_table[i].hinders ? reasons_table[i].bit : 0;
    }
    return reasons & (hindering | ~known);      /* one that is not in the table is no reason to trust a clock */
}

json_t *card_reasons_encode(uint64_t reasons)
{
    json_t *list = json_array();
    for (size_t i = 0; i < REASONS; i++) {
        if (reasons & reasons_table[i].bit)
            json_array_append_new(list, json_string(reasons_table[i].name));
        reasons &= ~reasons_table[i].bit;
    }
    if (reasons)
        json_array_append_new(list, json_string("other"));
    return list;
}

/* Faults that are the card's own: memory, the bus, its firmware. A kernel's illegal access has a number too, and is none of these. */
static bool xid_of_the_card(int64_t xid)
{
    static const int64_t numbers[] = {46, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] == xid)
            return true;
    return false;
}

bool card_well(const struct card_reading *r, char *why, size_t size)
{
    static const uint64_t slowed = 0x008 | 0x020 | 0x040 | 0x080;
    if (!r->known)
        return true;
    if (r->ecc_uncorrected > 0)
        snprintf(why, size, "%lld uncorrectable memory errors since its driver started", (long long)r->ecc_uncorrected);
    else if (r->rows_pending || r->rows_failed)
        snprintf(why, size, "memory rows are %s remapping", r->rows_failed ? "beyond" : "waiting for");
    else if (xid_of_the_card(r->xid))
        snprintf(why, size, "its driver logged fault %lld (Xid)", (long long)r->xid);
    else if (r->reasons_known && r->reasons & slowed)
        snprintf(why, size, "its clock is held down (%s)", r->reasons & 0x060 ? "heat" : r->reasons & 0x080 ? "power supply" : "hardware");
    else
        return true;
    return false;
}

int card_others(const struct card_reading *r, const int64_t *own, int own_count, bool *ret_mine_visible)
{
    int seen = 0, others = 0;
    for (int i = 0; i < r->process_count && i < CARD_MAX_PROCESSES; i++) {
        bool mine = false;
        for (int k = 0; k < own_count; k++)
            mine = mine || own[k] == r->processes[i].pid;
        seen += mine;
        others += !mine;
    }
    /*
     * The numbers may be another namespace's, where ours are not ours: then the list is as long as it should be, or longer. Shorter,
     * or not there at all: it hides something.
     */
    *ret_mine_visible = r->known && r->process_count >= own_count;
    if (!*ret_mine_visible)
        return 0;
    return seen == own_count ? others : r->process_count - own_count;
}

static void put_known(json_t *doc, const char *key, int64_t value)
{
    json_put(doc, key, value >= 0 ? json_integer(value) : json_null());
}

json_t *card_encode(const struct card_reading *r)
{
    json_t *doc = json_object(), *list = json_array();
    if (!r->known) {
        json_put_str(doc, "not_known", r->why);
        json_decref(list);
        return doc;
    }
    for (int i = 0; i < r->process_count && i < CARD_MAX_PROCESSES; i++)
        json_array_append_new(list, json_pack("{s:I,s:I}", "pid", (json_int_t)r->processes[i].pid, "bytes", (json_int_t)r->processes[i].bytes));
    json_put(doc, "processes", r->process_count >= 0 ? json_incref(list) : json_null());
    json_decref(list);
    put_known(doc, "memory_used_bytes", r->used_bytes);
    put_known(doc, "memory_free_bytes", r->free_bytes);
    put_known(doc, "utilisation_percent", r->utilisation_percent);
    json_put(doc, "clock_reasons", r->reasons_known ? card_reasons_encode(r->reasons) : json_null());
    json_put_num(doc, "sm_clock_mhz", r->sm_mhz);
    json_put_num(doc, "sm_clock_most_mhz", r->sm_most_mhz);
    put_known(doc, "ecc_corrected", r->ecc_corrected);
    put_known(doc, "ecc_uncorrected", r->ecc_uncorrected);
    json_put_bool(doc, "rows_pending", r->rows_pending);
    json_put_bool(doc, "rows_failed", r->rows_failed);
    put_known(doc, "xid", r->xid);
    put_known(doc, "temperature_c", r->temperature_c);
    put_known(doc, "power_mw", r->power_mw);
    return doc;
}
