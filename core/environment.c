/* Which variables a child is not given. */
#include "core/environment.h"
#include "core/buf.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

bool environment_is_secret(const char *variable)
{
    static const char *const ends[] = {"_KEY", "_TOKEN", "_KEY_FILE", "_TOKEN_FILE"};
    const size_t size = strcspn(variable, "=");
    if (strncmp(variable, "PROTEUS_", 8))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t bytes = strlen(ends[i]);
        if (size >= bytes && !memcmp(variable + size - bytes, ends[i], bytes))
            return true;
    }
    return false;
}

char **environment_for_child(char *const *from)
{
    size_t count = 0, kept = 0;
    while (from && from[count])
        count++;
    char **list = xarray(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++)
        if (!environment_is_secret(from[i]))
            list[kept++] = from[i];
    list[kept] = NULL;
    return list;
}

void environment_forget_secrets(void)
{
    for (char **at = environ; at && *at;) {
        if (!environment_is_secret(*at)) {
            at++;
            continue;
        }
        const size_t name_bytes = strcspn(*at, "=");
        char *name = xstrndup(*at, name_bytes), *value = *at + name_bytes;
        if (*value)
            explicit_bzero(value + 1, strlen(value + 1));       /* /proc/PID/environ shows what lies here */
        if (unsetenv(name) != 0)
            at++;
        else
            at = environ;
        free(name);
    }
}
