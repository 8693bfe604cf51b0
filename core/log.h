/*
 * One line of JSON an event on stderr: {"time":...,"level":"info","msg":...,"key":"value"}. Only programs, the job runner and
 * the HTTP edge log; library code returns errors. Thread-safe.
 */
#pragma once

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
void log_threshold(enum log_level least);
/* Pairs of key and value (both text), ended by NULL: log_line(LOG_INFO, "started", "address", text, NULL). */
void log_line(enum log_level level, const char *msg, ...) __attribute__((sentinel));
