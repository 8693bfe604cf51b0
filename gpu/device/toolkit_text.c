/*
 * Reading what NVRTC and nvJitLink wrote. Three small readers, each bounded by its input: a path scrubber, a line parser of
 * ptxas figures, and two walkers over names (PTX tokens, ELF symbols). None trusts a length or offset that it reads.
 */
#include "gpu/device/toolkit_text.h"

#include <limits.h>
#include <string.h>

/* ---- paths ---- */

struct scrub { const char *from, *to; };
#define TOOLKIT_LOG_HEAD_BYTES (4 * TOOLKIT_LOG_LIMIT_BYTES)
#define SCRUB_PASSES 8
#define REASON_REACH ((size_t)8192)      /* a path is shorter; a line may be as long as it likes */

/*
 * Whether a file that the compiler may not open is there at all, or what it is, would be told by the reason that follows its name:
 * 'cannot open source file "/x": Permission denied'. True: the text at `i` is such a reason; *ret_bytes are to be left out.
 */
static bool is_reason(const char *text, size_t size, size_t i, size_t *ret_bytes)
{
    static const char lead[] = "cannot open source file \"";
    size_t n = sizeof lead - 1, start = i;
    if (text[i] != ':' || text[i - 1] != '"')
        return false;
    while (start > 0 && i - start < REASON_REACH && text[start - 1] != '\n')
        start--;
    if (!memmem(text + start, i - start, lead, n))
        return false;
    const char *end = memchr(text + i, '\n', size - i);
    *ret_bytes = end ? (size_t)(end - text) - i : size - i;
    return true;
}

/* Copies text, with each occurrence of a row's `from` replaced. Rows are tried in order: longer ones first. */
static void replace_all(struct buf *to, const char *text, size_t size, const struct scrub *rows, int count)
{
    for (size_t i = 0; i < size && !to->overflow;) {
        const struct scrub *hit = NULL;
        size_t reason = 0;
        if (i && text[i] == ':' && is_reason(text, size, i, &reason)) {
            i += reason;
            continue;
        }
        for (int r = 0; r < count && !hit; r++) {
            size_t n = strlen(rows[r].from);
            if (n > 1 && size - i >= n && memcmp(text + i, rows[r].from, n) == 0)
                hit = &rows[r];
        }
        if (hit) {
            buf_str(to, hit->to);
            i += strlen(hit->from);
        } else {
            buf_add(to, text + i++, 1);
        }
    }
}

static int scrub_rows(const struct toolkit_paths *t, char *folder, size_t folder_size, struct scrub *rows)
{
    int count = 0;
    /* NVRTC makes names absolute with the current folder; in the sandbox that is the toolkit's. */
    if (getcwd(folder, folder_size) && folder[1]) {
        size_t n = strlen(folder);
        if (n + 1 < folder_size) {
            folder[n] = '/';
            folder[n + 1] = 0;
            rows[count++] = (struct scrub){folder, ""};
        }
    }
    if (t->include[0] == '/')               /* else its name says nothing of the host */
        rows[count++] = (struct scrub){t->include, "cuda/include"};
    rows[count++] = (struct scrub){t->home, "cuda"};
    return count;
}

/* What is taken out may leave a path behind that was folded into another: "/opt/" before "/opt/cuda" is "/opt/cuda" again. */
static bool names_host(const struct buf *text, const struct scrub *rows, int count)
{
    for (int r = 0; r < count; r++)
        if (strlen(rows[r].from) > 1 && text->size && memmem(text->data, text->size, rows[r].from, strlen(rows[r].from)))
            return true;
    return false;
}

char *toolkit_log_clean(const struct toolkit_paths *t, const char *log, size_t size)
{
    char folder[PATH_MAX];
    struct scrub rows[3];
    int count = scrub_rows(t, folder, sizeof folder, rows);
    struct buf text = {0};
    while (size && !log[size - 1])
        size--;
    /* Made text first, so that no byte that goes away later stands between the parts of a path. A log may be gigabytes: its head will do. */
    bool cut = size > TOOLKIT_LOG_HEAD_BYTES;
    utf8_clean(&text, log, cut ? TOOLKIT_LOG_HEAD_BYTES : size);
    for (int pass = 0; pass < SCRUB_PASSES && (pass == 0 || names_host(&text, rows, count)); pass++) {
        struct buf scrubbed = {0};
        replace_all(&scrubbed, buf_cstr(&text), text.size, rows, count);
        buf_done(&text);
        text = scrubbed;
    }
    if (names_host(&text, rows, count)) {
        buf_done(&text);
        return xstrdup("(the log is not shown: it is made of folders of this host)\n");
    }
    if (text.size > TOOLKIT_LOG_LIMIT_BYTES) {
        cut = true;
        text.size = TOOLKIT_LOG_LIMIT_BYTES;
        while (text.size && ((unsigned char)text.data[text.size] & 0xc0) == 0x80)
            text.size--;
        text.data[text.size] = 0;
    }
    if (cut)
        buf_str(&text, "\n(the log goes on; it is cut here)\n");
    return buf_take(&text);
}

char *toolkit_ptx_clean(const struct toolkit_paths *t, const char *ptx, size_t size, size_t *ret_size)
{
    char folder[PATH_MAX];
    struct scrub rows[3];
    int count = scrub_rows(t, folder, sizeof folder, rows);
    struct buf out = {0};
    while (size && !ptx[size - 1])
        size--;
    for (size_t i = 0; i < size;) {
        const char *end = memchr(ptx + i, '\n', size - i);
        size_t n = end ? (size_t)(end - (ptx + i)) + 1 : size - i;
        bool is_file = n > 7 && memcmp(ptx + i, "\t.file\t", 7) == 0;
        if (!is_file)
            buf_add(&out, ptx + i, n);
        else if (memmem(ptx + i, n, "\"/candidate.cu\"", 15))
            replace_all(&out, ptx + i, n, &(struct scrub){"\"/", "\""}, 1);
        else
            replace_all(&out, ptx + i, n, rows, count);
        i += n;
    }
    *ret_size = out.size;
    return buf_take(&out);
}

/* ---- figures ---- */

/* The number in front of `word` in the line, or 0: "512 bytes smem". */
static int number_before(const char *line, const char *end, const char *word)
{
    const char *at = memmem(line, (size_t)(end - line), word, strlen(word));
    if (!at)
        return 0;
    while (at > line && at[-1] == ' ')
        at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return (int)strtol(at, NULL, 10);
}

static struct toolkit_kernel *named(struct toolkit_kernel *kernels, int count, const char *name, size_t size)
{
    for (int i = 0; i < count; i++)
        if (strlen(kernels[i].name) == size && memcmp(kernels[i].name, name, size) == 0)
            return &kernels[i];
    return NULL;
}

/* The name that follows `lead` in the line, bare or in single quotes; NULL if the line does not start so. */
static const char *name_after(const char *line, const char *end, const char *lead, size_t *ret_size)
{
    size_t n = strlen(lead);
    if ((size_t)(end - line) <= n || memcmp(line, lead, n) != 0)
        return NULL;
    const char *name = line + n;
    bool quoted = *name == '\'';
    name += quoted;
    const char *stop = name;
    while (stop < end && (quoted ? *stop != '\'' : *stop != ' '))
        stop++;
    if (!quoted && stop > name && stop[-1] == ':')
        stop--;
    *ret_size = (size_t)(stop - name);
    return name;
}

bool toolkit_log_figures(const char *log, struct toolkit_kernel *kernels, int count)
{
    /* The assembler speaks first ("ptxas info    : ..."), the linker after it ("info    : ..."), whose stack counts callees. */
    struct toolkit_kernel *assembled = NULL, *linked = NULL;
    int seen = 0;
    size_t size;
    const char *name;
    for (const char *line = log; *line;) {
        const char *end = strchrnul(line, '\n');
        if ((name = name_after(line, end, "ptxas info    : Function properties for ", &size))) {
            assembled = named(kernels, count, name, size);
        } else if ((name = name_after(line, end, "info    : Function properties for ", &size))) {
            linked = named(kernels, count, name, size);
        } else if (assembled && memmem(line, (size_t)(end - line), "bytes stack frame", 17)) {
            assembled->resources.local_bytes_thread = (uint32_t)number_before(line, end, "bytes stack frame");
            assembled->spill_store_bytes = number_before(line, end, "bytes spill stores");
            assembled->spill_load_bytes = number_before(line, end, "bytes spill loads");
        } else if (assembled && name_after(line, end, "ptxas info    : Used ", &size)) {
            assembled->resources.registers_thread = number_before(line, end, "registers");
            assembled->resources.static_shared_bytes = (uint32_t)number_before(line, end, "bytes smem");
            assembled = NULL;
            seen++;
        } else if (linked && name_after(line, end, "info    : used ", &size)) {
            int registers = number_before(line, end, "registers"), stack = number_before(line, end, "stack");
            if (registers > linked->resources.registers_thread)
                linked->resources.registers_thread = registers;
            if ((uint32_t)stack > linked->resources.local_bytes_thread)
                linked->resources.local_bytes_thread = (uint32_t)stack;
            linked = NULL;
        }
        line = *end ? end + 1 : end;
    }
    return seen >= count;
}

/* ---- names ---- */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%';
}

/* Skips blanks and comments. */
static size_t skip_blank(const char *text, size_t size, size_t i)
{
    while (i < size) {
        if (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r')) {
            i++;
        } else if (text[i] == '/' && i + 1 < size && text[i + 1] == '/') {
            while (i < size && text[i] != '\n')
                i++;
        } else if (text[i] == '/' && i + 1 < size && text[i + 1] == '*') {
            const char *end = memmem(text + i + 2, size - i - 2, "*/", 2);
            i = end ? (size_t)(end - text) + 2 : size;
        } else {
            break;
        }
    }
    return i;
}

bool toolkit_ptx_entries(const char *ptx, size_t size, toolkit_name_callback *each, void *ctx)
{
    for (size_t i = 0; (i = skip_blank(ptx, size, i)) < size;) {
        if (ptx[i] == '"') {
            for (i++; i < size && ptx[i] != '"'; i++)
                i += ptx[i] == '\\';
            i++;
            continue;
        }
        size_t start = i++;
        while (i < size && name_char(ptx[i]))
            i++;
        if (i - start != 6 || memcmp(ptx + start, ".entry", 6) != 0)
            continue;
        size_t name = skip_blank(ptx, size, i);
        for (i = name; i < size && name_char(ptx[i]);)
            i++;
        if (i == name || !each(ctx, ptx + name, i - name))
            return false;
    }
    return true;
}
