/*
 * Width is counted in code points: good enough for identifiers and sentences. Nothing here asks the terminal anything.
 */
#include "api/cli/term.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

static struct { bool tty, colour; int width; bool drawn; } term = {.width = 100};

void term_init(void)
{
    struct winsize size;
    const char *name = getenv("TERM"), *none = getenv("NO_COLOR");
    term.tty = isatty(STDOUT_FILENO) && name && strcmp(name, "dumb") != 0;
    term.colour = term.tty && !(none && *none);
    if (term.tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        term.width = size.ws_col;
    setvbuf(stdout, NULL, _IOLBF, 0);
}

bool term_is_tty(void)
{
    return term.tty;
}

int term_width(void)
{
    return term.width;
}

/* ---- hostile text ---- */
/* One code point of valid UTF-8. */
static size_t code_point(const unsigned char *p, unsigned *ret)
{
    if (p[0] < 0x80)
        return *ret = p[0], 1;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    unsigned v = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        v = v << 6 | (p[i] & 0x3f);
    return *ret = v, n;
}

/* What a terminal obeys or what turns the direction of the text around it, or shows nothing. */
static bool unsafe(unsigned c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

static void clean(struct buf *to, const char *text, int limit, const char *indent)
{
    cleanup(buf) struct buf valid = {0};
    utf8_clean(&valid, text ? text : "", text ? strlen(text) : 0);
    const unsigned char *p = (const unsigned char *)buf_cstr(&valid);
    unsigned c;
    int done = 0;
    if (indent)
        buf_str(to, indent);
    for (size_t n; *p; p += n, done++) {
        n = code_point(p, &c);
        if (done == limit) {
            buf_str(to, "...");
            return;
        }
        if (c == '\n' && indent)
            buf_fmt(to, "\n%s", indent);
        else if (c == '\n' || c == '\t')
            buf_str(to, " ");
        else if (unsafe(c))
            buf_str(to, "\xef\xbf\xbd");
        else
            buf_add(to, p, n);
    }
}

void term_clean(struct buf *to, const char *text, int limit)
{
    clean(to, text, limit, NULL);
}

void term_clean_block(struct buf *to, const char *text, int limit, const char *indent)
{
    clean(to, text, limit, indent);
}

void term_put(const char *text)
{
    cleanup(buf) struct buf b = {0};
    term_clean(&b, text, 4000);
    fputs(buf_cstr(&b), stdout);
}

void term_json(const json_t *value)
{
    cleanup(str) char *text = json_text(value);
    cleanup(buf) struct buf safe = {0};
    unsigned c;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = code_point(p, &c);
        if (!unsafe(c))
            buf_add(&safe, p, n);
        else if (c < 0x10000)
            buf_fmt(&safe, "\\u%04x", c);
        else
            buf_fmt(&safe, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        p += n;
    }
    puts(buf_cstr(&safe));
}

/* ---- colours ---- */
static const char *const escapes[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[33m", "\033[36m"};

const char *style_on(enum style s)
{
    return term.colour ? escapes[s] : "";
}

const char *style_off(void)
{
    return term.colour ? "\033[0m" : "";
}

/* ---- tables ---- */
static int text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void table_start(struct table *t, const char *headings, struct buf *store)
{
    *t = (struct table){0};
    buf_str(store, headings);
    for (char *rest = store->data, *word; (word = strsep(&rest, "|"));) {     /* a heading may be empty */
        BUG_ON(t->columns == TABLE_MAX_COLUMNS);
        t->column[t->columns].right = *word == '>';
        t->column[t->columns++].heading = word + (*word == '>');
    }
}

void table_cell(struct table *t, enum style style, const char *fmt, ...)
{
    cleanup(buf) struct buf raw = {0}, cleaned = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&raw, fmt, ap);
    va_end(ap);
    term_clean(&cleaned, buf_cstr(&raw), 400);
    if (t->cell_count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 64;
        t->cells = xrealloc(t->cells, (size_t)t->capacity * sizeof *t->cells);
    }
    t->cells[t->cell_count].text = buf_take(&cleaned);
    t->cells[t->cell_count++].style = style;
}

static void print_cell(const char *text, int width, bool right, bool last, enum style style)
{
    int gap = width - text_width(text);
    if (right)
        printf("%*s", gap, "");
    printf("%s%s%s", style_on(style), text, style == STYLE_PLAIN ? "" : style_off());
    if (!last)
        printf("%*s", 2 + (right ? 0 : gap), "");
}

/* Cuts to `room` code points, the last three of them dots. */
static void cut(char *text, int room)
{
    if (text_width(text) <= room || room < 4)
        return;
    char *c = text;
    for (int seen = 0; *c; c++)
        if (((unsigned char)*c & 0xc0) != 0x80 && seen++ == room - 3)
            break;
    if (strlen(c) >= 3)
        memcpy(c, "...", 4);
}

void table_print(const struct table *t)
{
    int width[TABLE_MAX_COLUMNS], used = 0;
    for (int c = 0; c < t->columns; c++) {
        width[c] = text_width(t->column[c].heading);
        for (int i = c; i < t->cell_count; i += t->columns)
            width[c] = text_width(t->cells[i].text) > width[c] ? text_width(t->cells[i].text) : width[c];
        used += c + 1 < t->columns ? width[c] + 2 : 0;
    }
    for (int c = 0; c < t->columns; c++)
        print_cell(t->column[c].heading, width[c], t->column[c].right, c + 1 == t->columns, STYLE_DIM);
    puts("");
    for (int i = 0; i < t->cell_count; i++) {
        int c = i % t->columns;
        bool last = c + 1 == t->columns;
        if (last && term.tty)
            cut(t->cells[i].text, term.width - used);
        print_cell(t->cells[i].text, width[c], t->column[c].right, last, t->cells[i].style);
        if (last)
            puts("");
    }
}

void table_done(struct table *t)
{
    for (int i = 0; i < t->cell_count; i++)
        free(t->cells[i].text);
    free(t->cells);
}

/* ---- the line at the bottom ---- */
void bottom_draw(const char *line)
{
    if (!term.tty)
        return;
    if (term.drawn)
        fputs("\r\033[K", stdout);
    term.drawn = line && *line;
    if (term.drawn) {
        cleanup(str) char *copy = xstrdup(line);
        cut(copy, term.width - 1);
        fputs(copy, stdout);
    }
    fflush(stdout);
}

void bottom_say(const char *line)
{
    bottom_draw(NULL);
    puts(line);
}

void bar(struct buf *to, double part, int width)
{
    int full = (int)(fmin(fmax(part, 0), 1) * width + 0.5);
    buf_str(to, "[");
    for (int i = 0; i < width; i++)
        buf_str(to, i < full ? "#" : ".");
    buf_str(to, "]");
}

void duration_text(struct buf *to, double ns)
{
    static const struct { double below, unit; const char *name; } units[] = {
        {1e3, 1, "ns"}, {1e6, 1e3, "us"}, {1e9, 1e6, "ms"}, {INFINITY, 1e9, "s"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (fabs(ns) < units[i].below) {
            double v = ns / units[i].unit;
            buf_fmt(to, "%.*f %s", i == 0 || v >= 100 ? 0 : v >= 10 ? 1 : 2, v, units[i].name);
            return;
        }
}
