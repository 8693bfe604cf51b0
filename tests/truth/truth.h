/*
 * True to a card: what the same PTX answers on an H200 and on the emulator.
 *
 * Two sources of kernels, both made from seeds so that only the card's answers are kept as data:
 *   rows     one instruction (or a short sequence that belongs together) a kernel, on special and random operands (rows.c, values.c)
 *   random   terminating, race-free kernels with control flow, shuffles, barriers, atomics (random.c, random_ops.c)
 *
 * Shared by the program that asks the card (card.c: only libcuda and the C library) and by the tests that ask the emulator. What
 * they make must not depend on the machine: integers only, own random numbers.
 *
 * Data, little-endian. data/rows.bin: "PTXROWS1", u32 count; a row: u64 hash of its text, u32 threads, u32 words a thread, u32 kept,
 * u32 stride, u64 digest of all answers, kept * words u32: the answers of threads 0, stride, 2 * stride ...
 * data/random.txt: a line "seed digest" each, in hex.
 */
#pragma once
#include "core/buf.h"

#include <stdint.h>

/* ---- random numbers: splitmix64 ---- */
struct truth_rng { uint64_t state; };
static inline uint64_t truth_next(struct truth_rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
static inline uint32_t truth_below(struct truth_rng *r, uint32_t n) { return (uint32_t)(truth_next(r) >> 33) % n; }

#define TRUTH_HASH_START 0xcbf29ce484222325ull
uint64_t truth_hash(uint64_t start, const void *data, size_t bytes);   /* FNV-1a by bytes, then mixed */

/* ---- rows ---- */
#define TRUTH_ROW_TEXT 256
#define TRUTH_MOST_WORDS 24
#define TRUTH_BLOCK 128               /* threads a block */
#define TRUTH_CELL_WORDS 4            /* a thread's own 16 bytes of memory, of rows that have an address */

/*
 * A row's text is its name and all there is to know: the instruction with operands as letters, '=' before what it writes.
 * Letters give width and what values suit (values.c); [g] [s] [l] are the thread's own cell in global, shared and local memory.
 *     "fma.rn.f32 =f, f, f, f"      "atom.global.add.u32 =r, [g], r"
 */
struct truth_row { char text[TRUTH_ROW_TEXT]; };
/* All rows: those of the list (rows_list.c), alternatives in (a|b) expanded, then those of the emulator's table. The caller frees *ret. */
size_t truth_rows(struct truth_row **ret);
size_t truth_listed_rows(struct truth_row **ret);
/* Its answers are compared within a bound, so all that are kept matter. */
bool truth_row_close(const char *text);

struct truth_operand { char kind; bool result, matrix; unsigned words, first_word; };
struct truth_shape {                  /* of a row's kernel */
    struct truth_operand operands[16];
    unsigned operand_count, in_words, out_words;
    char cell;                        /* 'g', 's', 'l' or 0 */
    uint32_t threads;
};
bool truth_row_shape(const char *text, struct truth_shape *ret, struct err *err) MUST_CHECK;
/* A module's head, then any number of rows as entries "row0", "row1" ... with parameters in, out, cells (pointers). */
void truth_module_head(struct buf *to);
bool truth_row_kernel(struct buf *to, const char *text, unsigned number, struct err *err) MUST_CHECK;
/* The operands of all threads, threads * in_words; the caller frees. */
uint32_t *truth_row_inputs(const char *text, const struct truth_shape *shape);
/* One operand's value, of `words` words: value number `index` of `count`, `position` among the sources, of `sources`. */
uint64_t truth_value(char kind, bool matrix, uint32_t index, uint32_t count, unsigned position, unsigned sources, struct truth_rng *r);
unsigned truth_kind_words(char kind);
bool truth_kind_halves(char kind);    /* 16 bits in a .b16 register */

/* ---- a card's answers ---- */
struct truth_answer {
    uint64_t row, digest;
    uint32_t threads, words, kept, stride;
    const uint32_t *values;           /* kept * words; borrowed from the data */
};
struct truth_data { struct truth_answer *answers; size_t count; char *bytes; };
/* ERR_INVALID for a file that is cut short or says more than it has. */
bool truth_data_read(const char *path, struct truth_data *ret, struct err *err) MUST_CHECK;
void truth_data_done(struct truth_data *d);
DEFINE_CLEANUP(truth_data, struct truth_data, truth_data_done(it))
const struct truth_answer *truth_data_find(const struct truth_data *d, const char *text);  /* NULL: none */
void truth_data_start(struct buf *to, uint32_t count);
/* `values` are kept * words; `skip` of them, in threads, lie between two that are written. */
void truth_data_add(struct buf *to, const struct truth_answer *answer);

/* ---- random kernels ---- */
struct truth_random {                 /* how a random kernel is launched */
    uint32_t grid, block;
    uint32_t in_bytes, out_bytes, scratch_bytes, shared_cells;
};
#define TRUTH_ACC_BYTES 256           /* start of scratch: cells that all threads update in an order-independent way */
/* Appends the PTX of the kernel of this seed, entry "k": parameters in (read only), out (8 bytes a thread), scratch. */
void truth_random_kernel(struct buf *to, uint64_t seed, const char *entry, struct truth_random *ret);
void truth_random_input(uint64_t seed, uint32_t *in, uint32_t words);
void truth_random_scratch(uint64_t seed, uint32_t *scratch, uint32_t words);
