/* Processes that share a card take turns: never two at once, a holder that is killed lets go, and one that waits can be told to stop. */
#include "core/clock.h"
#include "gpu/card_turn.h"
#include "tests/test.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 6
#define TURNS 8

struct seen { atomic_int holders, most, turns; };

static void take_turns(const char *path, struct seen *seen)
{
    struct err err;
    for (int i = 0; i < TURNS; i++) {
        int fd = -1;
        if (!card_turn_wait(path, NULL, NULL, &fd, &err))
            _exit(1);
        int holders = atomic_fetch_add(&seen->holders, 1) + 1;
        if (holders > atomic_load(&seen->most))
            atomic_store(&seen->most, holders);
        clock_sleep_ns(1000000);
        atomic_fetch_add(&seen->turns, 1);
        atomic_fetch_sub(&seen->holders, 1);
        close(fd);
    }
    _exit(0);
}

static void test_one_at_a_time(const char *path)
{
    struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if ((pids[i] = fork()) == 0)
            take_turns(path, seen);
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        check_int(status, 0);
    }
    check_int(atomic_load(&seen->most), 1);
    check_int(atomic_load(&seen->turns), PROCESSES * TURNS);
    munmap(seen, sizeof *seen);
}

static int looks;
static bool third_look(void *ctx)
{
    (void)ctx;
    return ++looks == 3;
}

static void test_a_holder_that_dies(const char *path)
{
    int ready[2], fd = -1;
    struct err err = {0};
    check(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool took = card_turn_wait(path, NULL, NULL, &fd, &err);
        (void)!write(ready[1], "", took);
        for (;;)
            pause();
    }
    char byte;
    check(read(ready[0], &byte, 1) == 1);
    check(!card_turn_wait(path, third_look, NULL, &fd, &err));
    check(err.code == ERR_CONFLICT && fd == -1 && looks == 3);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    check(card_turn_wait(path, NULL, NULL, &fd, &err) && fd >= 0);
    close(fd);
    close(ready[0]), close(ready[1]);
}

static void test_nobody_to_wait_for(void)
{
    int fd = 7;
    struct err err = {0};
    check(card_turn_wait(NULL, NULL, NULL, &fd, &err) && fd == -1);
    check(card_turn_wait("", NULL, NULL, &fd, &err) && fd == -1);
    check(!card_turn_wait("/nowhere/at/all", NULL, NULL, &fd, &err) && err.code == ERR_UNAVAILABLE && fd == -1);
}

static void test_without_waiting(const char *path)
{
    int fd = -1, other = -1;
    struct err err = {0};
    check(card_turn_try(path, &fd, &err) && fd >= 0);
    check(!card_turn_try(path, &other, &err) && other == -1);
    check_int(err.code, ERR_CONFLICT);
    close(fd);
    check(card_turn_try(path, &fd, &err) && fd >= 0);
    close(fd);
    check(card_turn_try(NULL, &fd, &err) && fd == -1);
    check(!card_turn_try("/no/such/folder/lock", &fd, &err) && fd == -1);
    check_int(err.code, ERR_UNAVAILABLE);
}

int main(void)
{
    char path[] = "/tmp/card-turn.XXXXXX";
    int made = mkstemp(path);
    check(made >= 0);
    test_one_at_a_time(path);
    test_a_holder_that_dies(path);
    test_nobody_to_wait_for();
    test_without_waiting(path);
    close(made);
    unlink(path);
    return test_done();
}
