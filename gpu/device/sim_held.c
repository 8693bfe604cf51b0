/*
 * The emulator's memory of tensors of which some rows are held: mapped whole, and there only where something is. Nothing walks over all
 * of it: what is put in and taken out are the rows. That the others still hold zeros the emulator itself sees to, store by store.
 */
#include "gpu/device/sim.h"

#include <string.h>
#include <sys/mman.h>

const struct device_held *sim_held(const struct device_run *how, const struct device_program *p, int buffer)
{
    return how->held && buffer < p->tensor_count && how->held[buffer].rows ? &how->held[buffer] : NULL;
}

uint8_t *sim_map(size_t bytes, struct err *err)
{
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return err_errno(err, ERR_NO_SPACE, "%zu bytes of address space for a tensor", bytes), NULL;
    (void)madvise(at, bytes ? bytes : 1, MADV_NOHUGEPAGE);      /* a row may be smaller than a page */
    return at;
}

void sim_unmap(uint8_t *at, size_t bytes)
{
    if (at)
        munmap(at, bytes ? bytes : 1);
}

void sim_rows_put(const struct ptx_held *h, uint8_t *to, const void *rows)
{
    for (int64_t i = 0; i < h->count; i++)
        memcpy(to + (uint64_t)h->rows[i] * h->row_bytes, (const char *)rows + (uint64_t)i * h->row_bytes, h->row_bytes);
}

void sim_rows_take(const struct ptx_held *h, const uint8_t *from, void *rows)
{
    for (int64_t i = 0; i < h->count; i++)
        memcpy((char *)rows + (uint64_t)i * h->row_bytes, from + (uint64_t)h->rows[i] * h->row_bytes, h->row_bytes);
}
