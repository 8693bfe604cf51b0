/* A row is a path, a kind and when it counts. In a path "*" is every element of a list that is not empty, "#name" the phase of that name. */
#include "core/certificate.h"

#include "core/hash.h"

#include <string.h>

enum kind { TEXT, NUMBER, POSITIVE, BOOLEAN, OBJECT, LIST, DIGEST, SEED, TIME, PRESENT };
static const char *const kind_names[] = {[TEXT] = "a text", [NUMBER] = "a number", [POSITIVE] = "a number above 0", [BOOLEAN] = "true or false",
                                         [OBJECT] = "an object", [LIST] = "a list that is not empty", [DIGEST] = "a digest of 64 hex digits",
                                         [SEED] = "a number of 64 bits in hex", [TIME] = "a time of RFC 3339", [PRESENT] = "there"};

/* When a row counts; all of its bits must hold. */
enum { ALWAYS = 0, MEASURED = 1, EMULATED = 2, RETESTED = 4, COMPARED = 8 /* with a baseline */, RAN_ON_SIM = 16 /* the emulator knew it */,
       AUDITED = 32, SAMPLED = 64 /* not all blocks were emulated */, RANGED = 128 /* at a large value of an axis that is not keyed */,
       HELD = 256 /* of whose rows some were there */ };

/* Of one of the three timers: what it says of both sides. */
#define TIMER_SIDE(X, path, when)                                                                                                \
    X(path "/median_ns", POSITIVE, when) X(path "/q1_ns", POSITIVE, when) X(path "/q3_ns", POSITIVE, when)                       \
    X(path "/low_ns", POSITIVE, when) X(path "/high_ns", POSITIVE, when) X(path "/samples", POSITIVE, when)
#define TIMER(X, name, when)                                                                                                     \
    TIMER_SIDE(X, "timers/" name "/candidate", when) TIMER_SIDE(X, "timers/" name "/baseline", (when) | COMPARED)                \
    X("timers/" name "/gain/median", POSITIVE, (when) | COMPARED) X("timers/" name "/gain/low", POSITIVE, (when) | COMPARED)     \
    X("timers/" name "/gain/high", POSITIVE, (when) | COMPARED)

/* X(path, kind, when) */
#define CERTIFICATE_ROWS(X)                                                                                                      \
    X("format", TEXT, ALWAYS)                                                                                                    \
    X("shape/op", TEXT, ALWAYS) X("shape/axes", OBJECT, ALWAYS) X("shape/dtypes", OBJECT, ALWAYS) X("shape/target", TEXT, ALWAYS) \
    X("shape_hash", DIGEST, ALWAYS) X("op_version", POSITIVE, ALWAYS)                                                            \
    X("digests/source", DIGEST, ALWAYS) X("digests/ptx", DIGEST, ALWAYS) X("digests/cubin", DIGEST, ALWAYS)                      \
    X("digests/plan", DIGEST, ALWAYS) X("digests/op", DIGEST, ALWAYS) X("digests/candidate", DIGEST, ALWAYS)                     \
    X("digests/baseline", DIGEST, COMPARED) X("digests/baseline_ptx", DIGEST, COMPARED) X("digests/baseline_cubin", DIGEST, COMPARED) \
    X("digests/baseline_source", DIGEST, COMPARED) X("baseline/of", TEXT, COMPARED) X("baseline/program/plan/steps", LIST, COMPARED) \
    X("plan/steps", LIST, ALWAYS) X("program/language", TEXT, ALWAYS) X("program/plan/steps", LIST, ALWAYS)                      \
    X("preconditions/target", TEXT, ALWAYS) X("options", TEXT, ALWAYS) X("resources", LIST, ALWAYS)                              \
    X("evidence", TEXT, ALWAYS) X("mode", TEXT, ALWAYS) X("verdict", TEXT, ALWAYS)                                               \
    X("time_ns", POSITIVE, ALWAYS) X("baseline_ns", POSITIVE, ALWAYS)                                                            \
    X("speedup/median", POSITIVE, ALWAYS) X("speedup/low", POSITIVE, ALWAYS) X("speedup/high", POSITIVE, ALWAYS)                 \
    X("timing/mode", TEXT, ALWAYS) X("timing/candidate/terms", PRESENT, EMULATED)                                                \
    X("roofline/bytes", NUMBER, ALWAYS) X("roofline/flops", NUMBER, ALWAYS) X("roofline/floor_ns", POSITIVE, ALWAYS)             \
    X("roofline/limit", TEXT, ALWAYS) X("roofline/fraction", POSITIVE, ALWAYS)                                                   \
    X("sandbox/level", TEXT, ALWAYS) X("device/kind", TEXT, ALWAYS) X("device/name", TEXT, ALWAYS) X("device/target", TEXT, ALWAYS) \
    X("device/uuid", TEXT, MEASURED) X("device/driver", TEXT, MEASURED) X("toolkit/version", TEXT, ALWAYS)                       \
    X("proteus_version", TEXT, ALWAYS) X("times/started", TIME, ALWAYS) X("times/ended", TIME, ALWAYS)                           \
    X("phases/*/phase", TEXT, ALWAYS) X("phases/*/ms", NUMBER, ALWAYS)                                                           \
    X("phases/#admit", OBJECT, ALWAYS) X("phases/#compile", OBJECT, ALWAYS) X("phases/#scan", OBJECT, ALWAYS)                    \
    X("phases/#emulate", OBJECT, ALWAYS) X("phases/#assemble", OBJECT, ALWAYS) X("phases/#probe", OBJECT, ALWAYS)                \
    X("phases/#time", OBJECT, ALWAYS) X("phases/#plausible/roofline", OBJECT, ALWAYS) X("phases/#audit", OBJECT, RETESTED)       \
    X("phases/#emulate/blocks_emulated", POSITIVE, RAN_ON_SIM) X("phases/#emulate/blocks_of_all", POSITIVE, RAN_ON_SIM)          \
    X("phases/#emulate/checks", LIST, RAN_ON_SIM) X("phases/#emulate/schedules/*/seed", SEED, RAN_ON_SIM)                        \
    X("phases/#emulate/sampled/seed", SEED, RAN_ON_SIM | SAMPLED) X("phases/#emulate/sampled/steps/*/of", POSITIVE, RAN_ON_SIM | SAMPLED)    \
    X("phases/#correct/sampled/steps/*/of", POSITIVE, EMULATED | SAMPLED)                                                        \
    X("phases/#emulate/sampled/smaller/shown", BOOLEAN, RAN_ON_SIM | SAMPLED)                                                    \
    X("phases/#correct/regimes/*/tensors/*/elements", NUMBER, ALWAYS)                                                            \
    X("phases/#correct/regimes/*/hidden", BOOLEAN, ALWAYS) X("phases/#correct/regimes/*/seed", SEED, ALWAYS)                     \
    X("phases/#correct/regimes/*/tensors/*/tensor", TEXT, ALWAYS) X("phases/#correct/poisons/*", SEED, ALWAYS)                   \
    X("phases/#correct/yardstick", TEXT, ALWAYS)                                                                                 \
    X("phases/#correct/processes/candidate/pid", POSITIVE, ALWAYS) X("phases/#correct/processes/candidate/nonce", SEED, ALWAYS)  \
    X("phases/#correct/processes/baseline/nonce", SEED, COMPARED) X("phases/#correct/processes/reference/nonce", SEED, ALWAYS)   \
    X("timing/launches_in_a_graph", POSITIVE, MEASURED) X("timing/buffer_sets", POSITIVE, MEASURED)                              \
    X("timing/buffer_seed", SEED, MEASURED) X("timing/order_seed", SEED, MEASURED)                                               \
    X("timing/pairs_discarded", NUMBER, MEASURED) X("timing/outputs_checked_a_side", POSITIVE, MEASURED)                         \
    X("timing/statistics/pairs", POSITIVE, MEASURED) X("timing/statistics/confidence", POSITIVE, MEASURED)                       \
    X("timing/statistics/ratio/median", POSITIVE, MEASURED) X("timing/statistics/ratio_in_cycles", PRESENT, MEASURED)            \
    X("timing/statistics/candidate/median_ns", POSITIVE, MEASURED) X("timing/statistics/baseline/median_ns", POSITIVE, MEASURED) \
    X("timing/control/*/ratio/median", POSITIVE, MEASURED)                                                                       \
    X("samples/candidate/*", POSITIVE, MEASURED) X("samples/baseline/*", POSITIVE, MEASURED) X("calibration", OBJECT, MEASURED)  \
    X("samples/candidate_wall/*", POSITIVE, MEASURED) X("samples/baseline_wall/*", POSITIVE, MEASURED)                           \
    X("timers/confidence", POSITIVE, MEASURED)                                                                                   \
    TIMER(X, "events", MEASURED) TIMER(X, "wall_clock", MEASURED) TIMER(X, "records", MEASURED | RETESTED | AUDITED)             \
    X("timing/pairs_throttled", NUMBER, MEASURED) X("timing/clocks/reasons", PRESENT, MEASURED)                                  \
    X("timing/card/before", OBJECT, MEASURED) X("timing/card/after", OBJECT, MEASURED) X("timing/attempts", POSITIVE, MEASURED)  \
    X("timing/clocks/candidate_mhz", PRESENT, MEASURED) X("timing/clocks/baseline_mhz", PRESENT, MEASURED)                       \
    X("phases/#audit/candidate/records", POSITIVE, MEASURED | RETESTED | AUDITED)                                                \
    X("rules/*/rule", POSITIVE, ALWAYS) X("rules/*/what", TEXT, ALWAYS) X("rules/*/outcome", TEXT, ALWAYS)                       \
    X("modes/graph-rotated/candidate/median_ns", POSITIVE, MEASURED)                                                             \
    X("modes/cold-isolated/candidate/median_ns", POSITIVE, MEASURED | RETESTED | AUDITED)                                        \
    X("phases/#audit/candidate/graph_launch_ns", POSITIVE, MEASURED | RETESTED | AUDITED)                                        \
    X("phases/#range/default", PRESENT, RETESTED) X("phases/#range/axes", OBJECT, RANGED) X("phases/#range/bytes", POSITIVE, RANGED)    \
    X("phases/#range/regimes/*/seed", SEED, RANGED) X("phases/#range/regimes/*/tensors/*/tensor", TEXT, RANGED)                  \
    X("phases/#range/held/axis", TEXT, HELD) X("phases/#range/held/rows", POSITIVE, HELD) X("phases/#range/reached/row", POSITIVE, HELD)  \
    X("phases/#range/poisons/*", SEED, RANGED) X("phases/#range/ran_in/candidate/nonce", SEED, RANGED)                           \
    X("phases/#retest/ratio", POSITIVE, RETESTED) X("phases/#retest/ratio_before", POSITIVE, RETESTED)                           \
    X("phases/#retest/published", PRESENT, RETESTED)                                                                              \
    X("phases/#retest/occasions/*/candidate_ns", POSITIVE, RETESTED) X("phases/#retest/occasions/*/baseline_ns", POSITIVE, RETESTED) \
    X("phases/#retest/occasions/*/ratio/median", POSITIVE, RETESTED) X("phases/#retest/occasions/*/decision", TEXT, RETESTED)    \
    X("phases/#retest/occasions/*/device/name", TEXT, RETESTED | MEASURED)                                                        \
    X("phases/#retest/occasions/*/device/uuid", TEXT, RETESTED | MEASURED)                                                        \
    X("phases/#retest/occasions/*/regimes/*/seed", SEED, RETESTED) X("phases/#retest/occasions/*/poisons/*", SEED, RETESTED)     \
    X("phases/#retest/occasions/*/regimes/*/tensors/*/tensor", TEXT, RETESTED)                                                   \
    X("phases/#retest/occasions/*/processes/candidate/pid", POSITIVE, RETESTED)                                                  \
    X("phases/#retest/occasions/*/processes/candidate/nonce", SEED, RETESTED)                                                    \
    X("phases/#retest/occasions/*/processes/baseline/nonce", SEED, RETESTED | COMPARED)                                          \
    X("phases/#retest/occasions/*/processes/reference/nonce", SEED, RETESTED)                                                    \
    X("phases/#retest/occasions/*/figures/buffer_seed", SEED, RETESTED | MEASURED)                                               \
    X("phases/#retest/occasions/*/figures/order_seed", SEED, RETESTED | MEASURED)

static const struct { const char *path; enum kind kind; int when; } rows[] = {
#define X(path, kind, when) {path, kind, when},
    CERTIFICATE_ROWS(X)
#undef X
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

/* ---- one item ---- */

static bool is_seed(const char *text)
{
    return text && strlen(text) == 18 && !strncmp(text, "0x", 2) && strspn(text + 2, "0123456789abcdef") == 16;
}

static bool fits(const json_t *v, enum kind kind)
{
    const char *text = json_string_value(v);
    switch (kind) {
    case TEXT: return text && *text;
    case NUMBER: return json_is_number(v);
    case POSITIVE: return json_is_number(v) && json_number_value(v) > 0;
    case BOOLEAN: return json_is_boolean(v);
    case OBJECT: return json_is_object(v);
    case LIST: return json_array_size(v) > 0;
    case DIGEST: return text && hash_hex_valid(text);
    case SEED: return is_seed(text);
    case TIME: return text && strlen(text) >= 20 && text[4] == '-' && text[10] == 'T' && text[strlen(text) - 1] == 'Z';
    case PRESENT: return v != NULL;
    }
    return false;
}

static const json_t *phase_in(const json_t *phases, const char *name, size_t size)
{
    size_t i;
    json_t *one;
    json_array_foreach(phases, i, one) {
        const char *own = json_str(one, "phase", "");
        if (strlen(own) == size && !memcmp(own, name, size))
            return one;
    }
    return NULL;
}

const json_t *certificate_phase(const json_t *certificate, const char *name)
{
    return phase_in(json_object_get(certificate, "phases"), name, strlen(name));
}

const char *certificate_baseline_of(const json_t *certificate)
{
    return json_str(json_object_get(certificate, "baseline"), "of", "");
}

/* Whether every element that the path names is of the kind. Recursion is as deep as the path is long. */
static bool item_holds(const json_t *at, const char *path, enum kind kind)
{
    size_t size = strcspn(path, "/"), i;
    json_t *one;
    char name[40];
    if (!*path)
        return fits(at, kind);
    const char *rest = path + size + (path[size] == '/');
    if (*path == '#')
        return item_holds(phase_in(at, path + 1, size - 1), rest, kind);
    if (*path == '*') {
        json_array_foreach(at, i, one)
            if (!item_holds(one, rest, kind))
                return false;
        return json_array_size(at) > 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)size, path);
    return item_holds(json_object_get(at, name), rest, kind);
}

static int holds_of(const json_t *c)
{
    bool measured = !strcmp(json_str(c, "evidence", ""), "measured");
    const json_t *audit = certificate_phase(c, "audit");
    int bits = measured ? MEASURED : EMULATED;
    bits |= certificate_phase(c, "retest") ? RETESTED : 0;
    bits |= !strcmp(json_str(certificate_phase(c, "correct"), "yardstick", ""), "baseline") ? COMPARED : 0;
    bits |= !measured || !json_object_get(certificate_phase(c, "emulate"), "note") ? RAN_ON_SIM : 0;
    bits |= json_int(certificate_phase(c, "emulate"), "blocks_emulated", 0) < json_int(certificate_phase(c, "emulate"), "blocks_of_all", 0) ? SAMPLED : 0;
    bits |= json_object_get(certificate_phase(c, "range"), "axes") ? RANGED : 0;
    bits |= json_object_get(certificate_phase(c, "range"), "held") ? HELD : 0;
    bits |= audit && !json_object_get(audit, "not_done") ? AUDITED : 0;
    return bits;
}

int certificate_items(const json_t *certificate)
{
    int bits = holds_of(certificate), count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++)
        count += (rows[i].when & ~bits) == 0;
    return count;
}

/* ---- what must agree ---- */

static bool check_evidence(const json_t *c, struct err *err)
{
    static const struct { const char *evidence, *kind, *mode; } fit[] = {{"measured", "cuda", "graph-rotated"}, {"emulated", "sim", "estimate"}};
    const char *evidence = json_str(c, "evidence", ""), *kind = json_str(json_object_get(c, "device"), "kind", ""), *mode = json_str(c, "mode", "");
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++)
        if (!strcmp(fit[i].evidence, evidence))
            return (!strcmp(fit[i].kind, kind) && !strcmp(fit[i].mode, mode)) ||
                   err_set(err, ERR_INVALID, "evidence \"%s\" does not fit device \"%.20s\" and mode \"%.20s\"", evidence, kind, mode);
    return err_set(err, ERR_INVALID, "evidence \"%.20s\" is neither measured nor emulated", evidence);
}

/* What may be told of a tensor in a regime that is held out: nothing that depends on its values. */
static bool check_withheld(const json_t *tensor, struct err *err)
{
    static const char *const may[] = {"tensor", "elements", "passed"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)tensor, key, value) {
        bool known = false;
        for (size_t i = 0; i < sizeof may / sizeof *may; i++)
            known = known || !strcmp(key, may[i]);
        if (!known)
            return err_set(err, ERR_INVALID, "a figure of a hidden regime is told (%.40s)", key);
    }
    return json_is_true(json_object_get(tensor, "passed")) || err_set(err, ERR_INVALID, "of a hidden regime it is not told that it was passed");
}

/* Of a regime: its name and the worst element where it is open. */
static bool check_regime(const json_t *regime, struct err *err)
{
    bool hidden = json_bool(regime, "hidden", false);
    size_t i;
    json_t *tensor;
    bool named = hidden ? json_object_get(regime, "name") != NULL : json_is_string(json_object_get(regime, "name"));
    if (hidden == named)
        return err_set(err, ERR_INVALID, hidden ? "a hidden regime is named" : "a regime has no name");
    json_array_foreach(json_object_get(regime, "tensors"), i, tensor) {
        if (hidden && !check_withheld(tensor, err))
            return false;
        if (!hidden && json_object_get(tensor, "worst_error") && json_num(tensor, "worst_error", 0) > 0 && !json_is_array(json_object_get(tensor, "index")))
            return err_set(err, ERR_INVALID, "tensor %.40s has an error and no worst element", json_str(tensor, "tensor", "?"));
    }
    return true;
}

/* Of a tensor in one regime everything may have been there to be left alone; not in all of them, and never was nothing looked at. */
static bool check_elements(const json_t *regimes, struct err *err)
{
    cleanup(json) json_t *compared = json_object();
    const char *name;
    size_t i, k;
    json_t *regime, *tensor, *count;
    json_array_foreach(regimes, i, regime)
        json_array_foreach(json_object_get(regime, "tensors"), k, tensor) {
            const char *of = json_str(tensor, "tensor", "?");
            const json_int_t elements = json_int(tensor, "elements", 0);
            if (elements <= 0 && json_int(tensor, "unchanged_elements", 0) <= 0)
                return err_set(err, ERR_INVALID, "regime %zu: no element of %.40s was compared", i, of);
            json_put_bool(compared, of, elements > 0 || json_bool(compared, of, false));
        }
    json_object_foreach(compared, name, count)
        if (!json_is_true(count))
            return err_set(err, ERR_INVALID, "no element of %.40s was compared with what the operator changes, in any regime", name);
    return true;
}

static bool check_regimes(const json_t *regimes, struct err *err)
{
    size_t i;
    json_t *regime;
    json_array_foreach(regimes, i, regime)
        if (!check_regime(regime, err))
            return err_wrap(err, "regime %zu", i);
    return check_elements(regimes, err);
}

/* Every occasion was on a card of one model and driver: pairs of several are not pooled. Which card of them it was may differ. */
static bool check_cards(const json_t *c, const json_t *retest, struct err *err)
{
    static const char *const keys[] = {"name", "target", "driver"};
    const json_t *device = json_object_get(c, "device");
    size_t i;
    json_t *occasion;
    json_array_foreach(json_object_get(retest, "occasions"), i, occasion)
        for (size_t k = 0; json_object_get(occasion, "device") && k < sizeof keys / sizeof *keys; k++) {
            const char *here = json_str(json_object_get(occasion, "device"), keys[k], ""), *there = json_str(device, keys[k], "");
            if (strcmp(here, there) != 0)
                return err_set(err, ERR_INVALID, "occasion %zu: the %s of its device is \"%.60s\", of the certificate's \"%.60s\"", i + 1, keys[k], here, there);
        }
    return true;
}

/* A measured retest has three occasions, and what is published is what came of all of them. */
static bool check_retest(const json_t *c, struct err *err)
{
    const json_t *retest = certificate_phase(c, "retest");
    const size_t count = json_array_size(json_object_get(retest, "occasions"));
    const bool measured = !strcmp(json_str(c, "evidence", ""), "measured");
    const double ratio = json_num(retest, "ratio", 0), published = json_num(json_object_get(c, "speedup"), "median", 0);
    if (!retest)
        return true;
    if (measured && (count < CERTIFICATE_OCCASIONS || json_int(json_object_get(c, "timing"), "occasions_pooled", 0) != (json_int_t)count))
        return err_set(err, ERR_INVALID, "its retest has %zu occasions, not all of them in the published figure: there must be %d", count, CERTIFICATE_OCCASIONS);
    if (!check_cards(c, retest, err))
        return false;
    return (ratio <= published * 1.000001 && ratio >= published * 0.999999) ||
           err_set(err, ERR_INVALID, "the published speed-up (%.6g) is not the retest's (%.6g)", published, ratio);
}

/* A timer's figures lie in order, and the gain by events is the published one. */
static bool check_timers(const json_t *c, struct err *err)
{
    static const char *const order[] = {"low_ns", "median_ns", "high_ns"}, *const quartiles[] = {"q1_ns", "median_ns", "q3_ns"}, *const sides[] = {"candidate", "baseline"};
    const json_t *timers = json_object_get(c, "timers"), *gain = json_object_get(json_object_get(timers, "events"), "gain");
    const char *name;
    json_t *timer;
    json_object_foreach((json_t *)(uintptr_t)timers, name, timer)
        for (size_t s = 0; s < 2; s++) {
            const json_t *side = json_object_get(timer, sides[s]);
            for (size_t i = 0; i < 2; i++)
                if (json_num(side, order[i], 0) > json_num(side, order[i + 1], 0) || json_num(side, quartiles[i], 0) > json_num(side, quartiles[i + 1], 0))
                    return err_set(err, ERR_INVALID, "timers/%.20s/%s: its figures are not in order", name, sides[s]);
        }
    return !gain || json_equal(gain, json_object_get(c, "speedup")) ||
           err_set(err, ERR_INVALID, "timers/events/gain is not the published speed-up");
}

/* ---- fresh ---- */

/* What must not come twice: seeds, poisons, process nonces. As keys of an object. */
static bool spend(json_t *spent, const char *what, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);
    cleanup(str) char *key = xfmt("%s %s", what, text ? text : "");
    if (!text)
        return true;        /* whether it must be there, the table says */
    if (json_object_get(spent, key))
        return err_set(err, ERR_INVALID, "the retest used a %s once more (%.40s)", what, text);
    json_put_bool(spent, key, true);
    return true;
}

static bool spend_round(json_t *spent, const json_t *round, const json_t *processes, const json_t *figures, struct err *err)
{
    static const char *const sides[] = {"candidate", "baseline", "reference"};
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(round, "regimes"), i, one)
        if (!spend(spent, "seed", json_object_get(one, "seed"), err))
            return false;
    json_array_foreach(json_object_get(round, "poisons"), i, one)
        if (!spend(spent, "poison", one, err))
            return false;
    for (i = 0; i < sizeof sides / sizeof *sides; i++)
        if (!spend(spent, "process", json_object_get(json_object_get(processes, sides[i]), "nonce"), err))
            return false;
    return spend(spent, "buffer seed", json_object_get(figures, "buffer_seed"), err) &&
           spend(spent, "order seed", json_object_get(figures, "order_seed"), err);
}

bool certificate_fresh(const json_t *certificate, struct err *err)
{
    const json_t *retest = certificate_phase(certificate, "retest");
    cleanup(json) json_t *spent = json_object();
    size_t i;
    json_t *occasion;
    if (!retest)
        return true;
    const json_t *first = certificate_phase(certificate, "correct"), *range = certificate_phase(certificate, "range");
    if (!spend_round(spent, first, json_object_get(first, "processes"), json_object_get(certificate_phase(certificate, "time"), "figures"), err))
        return err_wrap(err, "the first judgement");
    if (!spend_round(spent, range, json_object_get(range, "ran_in"), NULL, err))
        return err_wrap(err, "the large axes");
    json_array_foreach(json_object_get(retest, "occasions"), i, occasion)
        if (!spend_round(spent, occasion, json_object_get(occasion, "processes"), json_object_get(occasion, "figures"), err))
            return err_wrap(err, "occasion %zu", i + 1);
    return true;
}

bool certificate_check(const json_t *certificate, struct err *err)
{
    int bits = holds_of(certificate);
    size_t i;
    json_t *occasion;
    if (strcmp(json_str(certificate, "format", ""), CERTIFICATE_FORMAT) != 0)
        return err_set(err, ERR_INVALID, "its format is not %s", CERTIFICATE_FORMAT);
    for (i = 0; i < ROW_COUNT; i++)
        if ((rows[i].when & ~bits) == 0 && !item_holds(certificate, rows[i].path, rows[i].kind))
            return err_set(err, ERR_INVALID, "%s must be %s", rows[i].path, kind_names[rows[i].kind]);
    if (!check_evidence(certificate, err) || !check_regimes(json_object_get(certificate_phase(certificate, "correct"), "regimes"), err) ||
        !check_regimes(json_object_get(certificate_phase(certificate, "range"), "regimes"), err))
        return false;
    json_array_foreach(json_object_get(certificate_phase(certificate, "retest"), "occasions"), i, occasion)
        if (!check_regimes(json_object_get(occasion, "regimes"), err))
            return err_wrap(err, "occasion %zu", i + 1);
    return check_retest(certificate, err) && check_timers(certificate, err) && certificate_fresh(certificate, err);
}
