/*
 * Which line of a compiler's log is its first error. NVRTC writes `file(3): error: ...` or `file(3): error #20: ...`, ptxas and nvJitLink
 * `..., line 20; error   : ...` or `error: ...`; a warning can name a variable called error, quote a line with the word in it, and come
 * first. So the word counts where a message begins: at the start of a line or behind a separator, and not in a warning or remark.
 */
#include "gpu/judge/compile_log.h"

#include <stdio.h>
#include <string.h>

static bool starts(const char *at, size_t n, const char *word)
{
    const size_t k = strlen(word);
    return n >= k && memcmp(at, word, k) == 0;
}

/* A message's severity stands here: at the start of the line, or behind ": ", "; " or "fatal ". */
static bool begins_message(const char *line, const char *at)
{
    static const char *const before[] = {": ", "; ", "fatal ", "catastrophic ", "internal ", "ptxas ", "nvJitLink "};
    if (at == line)
        return true;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const size_t k = strlen(before[i]);
        if ((size_t)(at - line) >= k && memcmp(at - k, before[i], k) == 0)
            return true;
    }
    return false;
}

enum severity { NOTHING, MILD, ERROR_LINE };
static enum severity severity_of(const char *line, size_t n)
{
    static const struct { const char *word; enum severity is; } words[] = {{"error", ERROR_LINE}, {"ERROR", ERROR_LINE}, {"warning", MILD}, {"remark", MILD}, {"note", MILD}};
    for (size_t i = 0; i < n; i++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (starts(line + i, n - i, words[w].word) && begins_message(line, line + i)) {
                const char after = i + strlen(words[w].word) < n ? line[i + strlen(words[w].word)] : ':';
                if (after == ':' || after == ' ' || after == '#')
                    return words[w].is;
            }
    return NOTHING;
}

void compile_log_first_error(const char *log, char *to, size_t size)
{
    const char *found = NULL, *plain = NULL;
    for (const char *line = log; *line && !found;) {
        const size_t n = strcspn(line, "\n");
        const enum severity is = severity_of(line, n);
        if (is == ERROR_LINE)
            found = line;
        else if (is == NOTHING && n && !plain)
            plain = line;
        line += n + (line[n] == '\n');
    }
    const char *at = found ? found : plain ? plain : log;
    size_t n = strcspn(at, "\n");
    while (n > 0 && n >= size)
        n--;
    while (n > 0 && ((unsigned char)at[n] & 0xc0) == 0x80)
        n--;
    snprintf(to, size, "%.*s", (int)n, at);
}
