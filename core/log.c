#include "core/log.h"

#include "core/clock.h"
#include "core/json.h"

#include <stdarg.h>
#include <unistd.h>

static enum log_level threshold = LOG_INFO;

void log_threshold(enum log_level least)
{
    threshold = least;
}

void log_line(enum log_level level, const char *msg, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if (level < threshold)
        return;
    cleanup(json) json_t *line = json_object();
    json_put_str(line, "time", clock_text(clock_wall_ns()).text);
    json_put_str(line, "level", names[level]);
    json_put_str(line, "msg", msg);
    va_list ap;
    va_start(ap, msg);
    for (const char *key; (key = va_arg(ap, const char *));)
        json_put_str(line, key, va_arg(ap, const char *));
    va_end(ap);
    cleanup(buf) struct buf text = {0};
    json_write(&text, line);
    buf_str(&text, "\n");
    /* one write, so that lines of several threads never mix */
    if (write(STDERR_FILENO, text.data, text.size) < 0)
        return;
}
