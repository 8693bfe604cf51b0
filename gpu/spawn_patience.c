/*
 * How long a judge is waited for. The configured limit is that of a small shape; what grows with the tensors, inputs, references, copies
 * and comparisons of all regimes, the judge knows when it has read the shape, and says it once: {"phase","state":"size","more_ns"}. Time in
 * which it stands in line for a card that others have is not its own: {"state":"line"} begins it and {"state":"card"} ends it, and in between
 * the clock stands, by our own measure. Both have a limit: a judge that says anything is still killed some time.
 */
#include "gpu/spawn_internal.h"
#include "core/clock.h"

#include <string.h>

#define MOST_TIMES 30           /* the configured limit, for the size */
#define LINE_TIMES 20           /* the same in line, all times together */

static int64_t at_most(int64_t ns, int64_t most_ns) { return ns < 0 ? 0 : ns > most_ns ? most_ns : ns; }

static void line_ends(struct spawn_patience *p)
{
    if (p->line_ns)
        p->waited_ns += clock_mono_ns() - p->line_ns;
    p->line_ns = 0;
}

bool spawn_patience_take(struct spawn_talk *t, const json_t *phase)
{
    struct spawn_patience *p = &t->patience;
    const char *state = json_str(phase, "state", "");
    if (strcmp(state, "size") == 0) {
        p->more_ns = at_most(json_int(phase, "more_ns", 0), MOST_TIMES * t->limit_ns);
        return false;
    }
    line_ends(p);
    if (strcmp(state, "line") == 0)
        p->line_ns = clock_mono_ns();
    if (strcmp(state, "line") == 0 || strcmp(state, "card") == 0)
        return false;
    snprintf(p->phase, sizeof p->phase, "%s", json_str(phase, "phase", ""));
    p->phase_ns = clock_mono_ns();
    return true;
}

/* In line, before and now. */
static int64_t waited_ns(const struct spawn_talk *t)
{
    const struct spawn_patience *p = &t->patience;
    return at_most(p->waited_ns + (p->line_ns ? clock_mono_ns() - p->line_ns : 0), LINE_TIMES * t->limit_ns);
}

int64_t spawn_patience_deadline(const struct spawn_talk *t) { return t->deadline_ns + t->patience.more_ns + waited_ns(t); }

bool spawn_patience_ends(const struct spawn_talk *t, struct err *err)
{
    const struct spawn_patience *p = &t->patience;
    char at[64] = "", line[64] = "";
    if (p->phase[0])
        snprintf(at, sizeof at, ", for %.1f s at %.20s", (double)(clock_mono_ns() - p->phase_ns) * 1e-9, p->phase);
    if (waited_ns(t))
        snprintf(line, sizeof line, " and %.1f s in line for a card", (double)waited_ns(t) * 1e-9);
    return err_set(err, ERR_TIMEOUT, "no answer within %.1f s%s%s", (double)(t->limit_ns + p->more_ns) * 1e-9, line, at);
}
