/* Names of roles and levels, and what each role may do. */
#include "gpu/sandbox/inside.h"

#include <string.h>

const struct sandbox_profile sandbox_profiles[SANDBOX_ROLE_COUNT] = {
    [SANDBOX_COMPILE] = {.name = "compile", .address_space = true},
    [SANDBOX_REFERENCE] = {.name = "reference", .address_space = true},
    [SANDBOX_RUN_SIM] = {.name = "run_sim", .address_space = true},
    /* The driver reserves huge address ranges, makes memfds, names its threads through /proc and looks for its card in /sys. */
    [SANDBOX_RUN_CUDA] =
        {.name = "run_cuda", .devices = true, .proc_and_sys = true, .unix_sockets = true, .memfd = true, .libraries = true},
    /* The candidate itself is a program here: a filter of python's own, set before it runs, takes starting programs away again. */
    [SANDBOX_TRITON] = {.name = "triton", .address_space = true, .libraries = true, .programs = true},
    [SANDBOX_CC] = {.name = "cc", .address_space = true, .libraries = true, .programs = true},
};

const char *sandbox_role_name(enum sandbox_role role)
{
    BUG_ON((unsigned)role >= SANDBOX_ROLE_COUNT);
    return sandbox_profiles[role].name;
}

bool sandbox_role_parse(const char *name, enum sandbox_role *ret)
{
    for (int i = 0; i < SANDBOX_ROLE_COUNT; i++)
        if (strcmp(sandbox_profiles[i].name, name) == 0) {
            *ret = (enum sandbox_role)i;
            return true;
        }
    return false;
}

const char *sandbox_level(unsigned layers)
{
    static const struct { unsigned all; const char *level; } table[] = {
        {SANDBOX_LIMITS | SANDBOX_SECCOMP | SANDBOX_NAMESPACES, "isolated"},
        {SANDBOX_LIMITS | SANDBOX_SECCOMP | SANDBOX_LANDLOCK, "filtered"},
        {SANDBOX_LIMITS, "limits"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((layers & table[i].all) == table[i].all)
            return table[i].level;
    return "none";
}
