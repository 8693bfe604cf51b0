/*
 * A card is held from before the first process of a judgement opens it until the last of them is gone: what runs there is stopped by then
 * and its memory given back. Between the two nobody else may be on it, so several judgements of one host share a file a card (--card-lock, ".cuda:N" behind it) that
 * the holder locks; what needs no card, compilers, the emulator, references and reading a task, goes on beside it. The kernel lets go
 * of the lock of a judge that dies.
 *
 * All of that time is what the judgement costs the card, also where the card waits for this process.
 */
#include "core/clock.h"
#include "gpu/card_turn.h"
#include "gpu/judge/internal.h"

#include <pthread.h>

static char *lock_of(const struct judge *j)
{
    return j->config->card_lock && *j->config->card_lock ? xfmt("%s.%s", j->config->card_lock, j->device) : NULL;
}

bool card_take_free(struct judge *j, struct err *err)
{
    cleanup(str) char *path = lock_of(j);
    BUG_ON(j->card_held);
    if (!card_turn_try(path, &j->card_fd, err))
        return false;
    j->card_held = true;
    j->card_counted_ns = clock_mono_ns();
    return true;
}

bool card_take(struct judge *j, struct err *err)
{
    if (j->card_held)
        return true;
    cleanup(str) char *path = lock_of(j);
    const int64_t from_ns = clock_mono_ns();
    judge_tell_state(j, "line");
    if (!card_turn_wait(path, j->watch.cancelled, j->watch.ctx, &j->card_fd, err))
        return false;
    judge_tell_state(j, "card");
    j->card_held = true;
    j->card_counted_ns = clock_mono_ns();
    j->card_waited_ns += j->card_counted_ns - from_ns;
    return true;
}

void card_count(struct judge *j)
{
    const int64_t now_ns = clock_mono_ns();
    if (!j->card_held)
        return;
    j->gpu_ns += now_ns - j->card_counted_ns;
    j->card_counted_ns = now_ns;
}

static void *end_child(void *ctx)
{
    child_stop(ctx);
    return NULL;
}

/* A context takes a tenth of a second to go; two go side by side. */
static void end_children(struct judge *j)
{
    struct child *list[SIDES];
    pthread_t thread;
    int count = 0;
    for (int i = 0; i < SIDES; i++)
        if (j->sides[i].run.role == SANDBOX_RUN_CUDA)
            list[count++] = &j->sides[i].run;
    bool beside = count > 1 && pthread_create(&thread, NULL, end_child, list[1]) == 0;
    for (int i = 0; i < count - beside; i++)
        child_stop(list[i]);
    if (beside)
        pthread_join(thread, NULL);
    for (int i = 0; i < count; i++)
        child_done(list[i]);
}

void card_release(struct judge *j)
{
    end_children(j);
    card_count(j);
    if (j->card_fd >= 0)
        close(j->card_fd);
    j->card_fd = -1;
    j->card_held = false;
}
