/*
 * Cubins are ELF files (EM_CUDA): their kernels are global functions marked as entries, and a kernel's static shared memory is the size of
 * its section ".nv.shared.NAME" (CUDA Binary Utilities, "cuobjdump -elf"). The linker drops variables that no kernel names, so the
 * assembler's own figure may be larger than what a launch takes; the file's is what is run. Everything is read with bounds.
 */
#include "gpu/device/toolkit_text.h"

#include <elf.h>
#include <string.h>

#define STO_CUDA_ENTRY 0x10
#define SHARED_SECTION ".nv.shared."

static bool inside(uint64_t offset, uint64_t bytes, size_t size)
{
    return offset <= size && bytes <= size - offset;
}

static bool header(const char *base, size_t size, Elf64_Ehdr *ret)
{
    if (size < sizeof *ret)
        return false;
    memcpy(ret, base, sizeof *ret);
    return memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 && ret->e_ident[EI_CLASS] == ELFCLASS64 && ret->e_machine == EM_CUDA &&
           ret->e_shentsize == sizeof(Elf64_Shdr) && inside(ret->e_shoff, (uint64_t)ret->e_shnum * sizeof(Elf64_Shdr), size);
}

static Elf64_Shdr section(const char *base, const Elf64_Ehdr *head, unsigned at)
{
    Elf64_Shdr s;
    memcpy(&s, base + head->e_shoff + at * sizeof s, sizeof s);
    return s;
}

int64_t toolkit_cubin_shared_bytes(const void *cubin, size_t size, const char *kernel)
{
    const char *base = cubin;
    const size_t kernel_length = strlen(kernel);
    Elf64_Ehdr head;
    if (!header(base, size, &head) || head.e_shstrndx >= head.e_shnum)
        return -1;
    const Elf64_Shdr names = section(base, &head, head.e_shstrndx);
    if (!inside(names.sh_offset, names.sh_size, size))
        return -1;
    for (unsigned s = 0; s < head.e_shnum; s++) {
        const Elf64_Shdr it = section(base, &head, s);
        if (it.sh_name >= names.sh_size)
            return -1;
        const char *name = base + names.sh_offset + it.sh_name;
        const size_t length = strnlen(name, names.sh_size - it.sh_name);
        if (length == sizeof SHARED_SECTION - 1 + kernel_length && memcmp(name, SHARED_SECTION, sizeof SHARED_SECTION - 1) == 0 &&
            memcmp(name + sizeof SHARED_SECTION - 1, kernel, kernel_length) == 0)
            return it.sh_size > INT32_MAX ? -1 : (int64_t)it.sh_size;
    }
    return 0;
}

bool toolkit_cubin_entries(const void *cubin, size_t size, toolkit_name_callback *each, void *ctx)
{
    const char *base = cubin;
    Elf64_Ehdr head;
    if (!header(base, size, &head))
        return false;
    for (unsigned s = 0; s < head.e_shnum; s++) {
        const Elf64_Shdr table = section(base, &head, s);
        if (table.sh_type != SHT_SYMTAB)
            continue;
        if (table.sh_link >= head.e_shnum || !inside(table.sh_offset, table.sh_size, size))
            return false;
        const Elf64_Shdr strings = section(base, &head, table.sh_link);
        if (!inside(strings.sh_offset, strings.sh_size, size))
            return false;
        for (uint64_t i = 0; i + sizeof(Elf64_Sym) <= table.sh_size; i += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, base + table.sh_offset + i, sizeof symbol);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !(symbol.st_other & STO_CUDA_ENTRY) ||
                symbol.st_shndx == SHN_UNDEF)
                continue;
            if (symbol.st_name >= strings.sh_size)
                return false;
            const char *name = base + strings.sh_offset + symbol.st_name;
            size_t most = strings.sh_size - symbol.st_name;
            size_t n = strnlen(name, most);
            if (n == most || !each(ctx, name, n))
                return false;
        }
    }
    return true;
}
