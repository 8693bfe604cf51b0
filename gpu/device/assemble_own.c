/*
 * When the program is built: our own PTX to a cubin, by the toolkit and the code that assemble candidates. A host without the toolkit, or
 * one whose toolkit does not know the target, gets an empty file, and the driver assembles the PTX at run time.
 * Usage: assemble_own CUDA_HOME FILE.ptx TARGET OUT
 */
#include "gpu/device/device.h"

static bool assemble(char **argv, struct toolkit_assembled *a, struct err *err)
{
    struct toolkit_paths t;
    cleanup(buf) struct buf ptx = {0};
    return toolkit_find(argv[1], &t, err) && file_read(argv[2], (size_t)1 << 20, &ptx, err)
           && toolkit_assemble(&t, buf_cstr(&ptx), ptx.size, argv[3], 0, a, err) && (a->ok || err_set(err, ERR_UNPROCESSABLE, "%s", a->log));
}

int main(int argc, char **argv)
{
    struct toolkit_assembled a = {.ok = false};
    struct err err = {0};
    if (argc != 5)
        return 2;
    if (!assemble(argv, &a, &err))
        fprintf(stderr, "%s for %s stays PTX: %s\n", argv[2], argv[3], err.text);
    bool written = file_write(argv[4], a.ok ? a.cubin : "", a.ok ? a.cubin_bytes : 0, 0644, &err);
    free(a.cubin);
    free(a.log);
    return written ? 0 : 1;
}
