// One thread an element, many math functions: what the compiler makes of them must run.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void math(const float *__restrict__ in, float *__restrict__ out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    float *o = out + (size_t)i * 40;
    int c = 0;
    o[c++] = expf(x);
    o[c++] = __expf(x);
    o[c++] = logf(fabsf(x));
    o[c++] = log1pf(fabsf(x));
    o[c++] = rsqrtf(fabsf(x));
    o[c++] = sqrtf(fabsf(x));
    o[c++] = tanhf(x);
    o[c++] = sinf(x);
    o[c++] = cosf(x);
    o[c++] = erff(x);
    o[c++] = powf(fabsf(x), 1.7f);
    o[c++] = exp2f(x);
    o[c++] = log2f(fabsf(x));
    o[c++] = fdividef(1.f, x);
    o[c++] = 1.f / x;
    o[c++] = x / 3.f;
    o[c++] = floorf(x);
    o[c++] = rintf(x);
    o[c++] = truncf(x);
    o[c++] = fmodf(x, 0.7f);
    o[c++] = (float)(int)x;
    o[c++] = (float)(unsigned long long)fabsf(x);
    o[c++] = __half2float(__float2half(x));
    o[c++] = __bfloat162float(__float2bfloat16(x));
    o[c++] = (float)((double)x * 1.1 + 0.25);
    o[c++] = (float)exp((double)x * 0.01);
    o[c++] = (float)sqrt(fabs((double)x));
    o[c++] = __half2float(hexp(__float2half(x * 0.1f)));
    o[c++] = __bfloat162float(__hmul(__float2bfloat16(x), __float2bfloat16(1.5f)));
    o[c++] = __half2float(__hfma(__float2half(x), __float2half(1.5f), __float2half(0.5f)));
    o[c++] = fminf(x, 1.f) + fmaxf(x, -1.f);
    o[c++] = copysignf(2.f, x);
    o[c++] = ldexpf(x, 3);
    o[c++] = cbrtf(x);
    o[c++] = sinhf(x * 0.1f);
    o[c++] = atanf(x);
    o[c++] = __fadd_rz(x, 0.1f);
    o[c++] = __fmul_ru(x, 0.1f);
    o[c++] = x / (1.f + __expf(-x));
    o[c++] = fmaf(x, x, 0.5f);
}
