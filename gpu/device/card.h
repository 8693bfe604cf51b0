/*
 * What the driver's management library (NVML) says of a card: who is on it, how its memory and clocks are. It is asked in the
 * supervisor, where no candidate can answer for it; a host without it, or a container that hides things, is no error: each thing
 * is known or not known, and what is not known is told as such.
 *
 * A process of another container may be invisible. So nothing rests on the list of processes alone: a run child also watches the
 * card itself (device_ops.alone).
 */
#pragma once
#include "core/json.h"

#define CARD_MAX_PROCESSES 32

/* X(bit, name, hinders): reasons why a clock is not the highest, as NVML numbers them. hinders: no sample counts while it holds. */
#define CARD_REASON_TABLE(X)                                              \
    X(0x001, "idle", false)                                               \
    X(0x002, "application_clocks", false)                                 \
    X(0x004, "software_power_cap", true)                                  \
    X(0x008, "hardware_slowdown", true)                                   \
    X(0x010, "sync_boost", true)                                          \
    X(0x020, "software_thermal_slowdown", true)                           \
    X(0x040, "hardware_thermal_slowdown", true)                           \
    X(0x080, "hardware_power_brake", true)                                \
    X(0x100, "display_clocks", false)
uint64_t card_reasons_hindering(uint64_t reasons);
json_t *card_reasons_encode(uint64_t reasons);          /* array of names */

struct card_process { int64_t pid, bytes; };            /* bytes -1: not known */
struct card_reading {
    bool known;                         /* false: `why`; all else is as good as absent */
    char why[160];
    int process_count;                  /* that compute on the card, and are visible; -1 not known */
    struct card_process processes[CARD_MAX_PROCESSES];
    int64_t total_bytes, used_bytes, free_bytes;        /* -1 not known; used: without what the driver keeps */
    int utilisation_percent;            /* over the last moments; -1 not known */
    bool reasons_known;
    uint64_t reasons;
    int64_t ecc_corrected, ecc_uncorrected;             /* since the driver started; -1 not known */
    bool rows_pending, rows_failed;     /* remapping of memory rows */
    int64_t xid;                        /* last fault that the driver logged since the card was first read here; 0 none, -1 not known */
    double sm_mhz, sm_most_mhz;         /* 0 not known */
    int temperature_c, power_mw;        /* -1 not known */
};
/* uuid: as device_info has it. Cheap (about 1 ms; 10 ms the first time). One thread at a time. */
void card_read(const char *uuid, struct card_reading *ret);
/* The first time's part of it, which needs no card's name. */
void card_prepare(void);
/* Whether the card itself is fit to measure on: memory, logged faults, slowed down. False: `why`. Unknown is fit. */
bool card_well(const struct card_reading *r, char *why, size_t size);
/*
 * Processes on the card that are not among the caller's `own` pids. With mine_visible false (the list shows none of ours, though we
 * are on the card) nothing can be said, and 0 comes back.
 */
int card_others(const struct card_reading *r, const int64_t *own, int own_count, bool *ret_mine_visible);
json_t *card_encode(const struct card_reading *r);
