/*
 * Compiles one .cu file to PTX with NVRTC, as production does: make_ptx FILE.cu compute_90a [one more option] > FILE.ptx
 * Not part of the build: cc make_ptx.c -I$CUDA_HOME/include -L$CUDA_HOME/lib64 -lnvrtc -o make_ptx
 */
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    static char source[1 << 20];
    FILE *f = fopen(argv[1], "r");
    if (!f || !fread(source, 1, sizeof source - 1, f))
        return 2;
    const char *home = getenv("CUDA_HOME") ? getenv("CUDA_HOME") : "/usr/local/cuda";
    char arch[64], include[512];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", argv[2]);
    snprintf(include, sizeof include, "--include-path=%s/include", home);
    char cccl[512];
    snprintf(cccl, sizeof cccl, "--include-path=%s/include/cccl", home);
    const char *options[] = {arch, "-std=c++17", "-lineinfo", include, cccl, argc > 3 ? argv[3] : "-std=c++17"};
    const char *name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
    nvrtcProgram program;
    nvrtcCreateProgram(&program, source, name, 0, NULL, NULL);
    nvrtcResult failed = nvrtcCompileProgram(program, 6, options);
    size_t size;
    nvrtcGetProgramLogSize(program, &size);
    char *log = malloc(size);
    nvrtcGetProgramLog(program, log);
    fputs(log, stderr);
    if (failed)
        return 1;
    nvrtcGetPTXSize(program, &size);
    char *ptx = malloc(size);
    nvrtcGetPTX(program, ptx);
    fwrite(ptx, 1, size - 1, stdout);
    return 0;
}
