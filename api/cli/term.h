/*
 * Output for people: text made harmless, tables, colours on terminals only, one line that is redrawn.
 * What comes from a server is hostile until it has gone through term_clean. Not thread-safe.
 */
#pragma once
#include "core/json.h"

/* Looks at stdout once: terminal, width, NO_COLOR, TERM=dumb. */
void term_init(void);
bool term_is_tty(void);
int term_width(void);

/*
 * Appends the text as one harmless line: control characters (C0, DEL, C1), line breaks and the characters that turn the direction
 * of writing become U+FFFD or a blank; at most `limit` characters, then "...". NULL is "".
 */
void term_clean(struct buf *to, const char *text, int limit);
/* The same, but line breaks and tabs stay (compiler logs); each line is indented. */
void term_clean_block(struct buf *to, const char *text, int limit, const char *indent);
/* Prints cleaned text: term_say("%s", ...) is not needed for our own words. */
void term_put(const char *text);

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GOOD, STYLE_BAD, STYLE_WARN, STYLE_ACCENT };
/* Escape sequences, or "" where there are no colours. */
const char *style_on(enum style s);
const char *style_off(void);

/* JSON for programs: compact, one line, nothing in it that a terminal obeys. */
void term_json(const json_t *value);

/* ---- tables ---- */
#define TABLE_MAX_COLUMNS 12
struct table {
    int columns;
    struct { const char *heading; bool right; } column[TABLE_MAX_COLUMNS];
    int cell_count, capacity;
    struct { char *text; enum style style; } *cells;
};
/* Headings separated by '|'; one that starts with '>' is aligned right. Borrowed. */
void table_start(struct table *t, const char *headings, struct buf *store);
void table_cell(struct table *t, enum style style, const char *fmt, ...) __attribute__((format(printf, 3, 4)));   /* cleans */
/* Prints; the last column is cut at the terminal's width. */
void table_print(const struct table *t);
void table_done(struct table *t);
DEFINE_CLEANUP(table, struct table, table_done(it))

/* ---- the line at the bottom ---- */
/* Draws (terminals only); NULL or "" takes it away. */
void bottom_draw(const char *line);
/* Prints a line above it. */
void bottom_say(const char *line);
/* "[####....]" of `width` characters inside. */
void bar(struct buf *to, double part, int width);

/* Times as people read them: "840 ns", "3.21 us", "1.4 ms", "2.0 s". */
void duration_text(struct buf *to, double ns);
