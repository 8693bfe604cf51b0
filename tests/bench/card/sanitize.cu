// Runs one kernel of planted.cu, or the gated-delta baseline, three times; prints the host's time of each launch with its wait.
//   nvcc -O3 -lineinfo -arch=native -DAXIS_... -o sanitize sanitize.cu && compute-sanitizer --tool memcheck ./sanitize out_of_bounds
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <cuda_runtime.h>

#include "../planted/planted.cu"
#include "baseline.cu"

#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); return 1; } } while (0)

static const struct { const char *name; void (*fn)(const float *, float *, float *, int); } kernels[] = {
#define K(name) {#name, name}
    K(no_bug), K(out_of_bounds), K(stray_store), K(uninitialised_global), K(uninitialised_shared), K(shared_race), K(missing_barrier),
    K(global_race), K(divergent_barrier), K(misaligned)};

template <class F> static int timed(const char *name, F &&launch)
{
    for (int i = 0; i < 3; i++) {
        auto from = std::chrono::steady_clock::now();
        launch();
        cudaError_t e = cudaDeviceSynchronize();
        double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from).count();
        printf("%s launch %d: %.1f us, %s\n", name, i, us, cudaGetErrorString(e));
        if (e != cudaSuccess)
            return 1;
    }
    return 0;
}

static float noise(uint32_t i) { return (float)((i * 2654435761u >> 8) % 1000) * 0.002f - 1.0f; }

template <class T> static T *upload(size_t count, float (*value)(uint32_t))
{
    std::vector<T> host(count);
    for (size_t i = 0; i < count; i++)
        host[i] = (T)value((uint32_t)i);
    T *d = NULL;
    cudaMalloc(&d, count * sizeof(T));
    cudaMemcpy(d, host.data(), count * sizeof(T), cudaMemcpyHostToDevice);
    return d;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "no_bug";
    CHECK(cudaFree(0));
    if (!strcmp(name, "baseline")) {
        const int batch = argc > 2 ? atoi(argv[2]) : 4;
        __nv_bfloat16 *mixed = upload<__nv_bfloat16>((size_t)batch * (2 * H * ::K + HV * V), noise), *a = upload<__nv_bfloat16>(batch * HV, noise),
                      *b = upload<__nv_bfloat16>(batch * HV, noise), *bias = upload<__nv_bfloat16>(HV, noise), *out;
        float *rate = upload<float>(HV, noise), *state = upload<float>((size_t)(batch + 1) * HV * V * ::K, noise);
        int *slot = upload<int>(batch, [](uint32_t i) { return (float)(i + 1); });
        CHECK(cudaMalloc(&out, (size_t)batch * HV * V * 2));
        return timed(name, [&] { gdn_decode<<<dim3((V + 15) / 16, HV, batch), 128>>>(mixed, a, b, rate, bias, slot, state, out, 1e-6f); });
    }
    const int n = 64 * 128;
    float *x = upload<float>(n, noise), *work, *y;
    CHECK(cudaMalloc(&work, n * 4));
    CHECK(cudaMalloc(&y, n * 4));
    CHECK(cudaMemset(y, 0, n * 4));
    for (auto &k : kernels)
        if (!strcmp(k.name, name))
            return timed(name, [&] { k.fn<<<n / 128, 128>>>(x, work, y, n); });
    fprintf(stderr, "there is no kernel %s\n", name);
    return 2;
}
