/*
 * Counter-based random numbers: the n-th number of a seed and stream can be had alone, so inputs are repeated from a seed by
 * anyone. splitmix64's finaliser over (seed, stream, counter); not for secrets (those come from random_bytes).
 * Source of the mixing constants: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
 */
#pragma once
#include <math.h>
#include <stdint.h>

static inline uint64_t rng_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t rng_at(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return rng_mix(rng_mix(seed ^ rng_mix(stream)) + counter * 0x9e3779b97f4a7c15u);
}

/* In [0, 1), 53 bits. */
static inline double rng_unit(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return (double)(rng_at(seed, stream, counter) >> 11) * 0x1p-53;
}

/* In [0, n), n > 0; bias below 2^-32 for n < 2^32. */
static inline uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)rng_at(seed, stream, counter) * n) >> 64);
}

/* Standard normal (Box-Muller, one of the pair). */
static inline double rng_normal(uint64_t seed, uint64_t stream, uint64_t counter)
{
    double u = 1.0 - rng_unit(seed, stream, 2 * counter), v = rng_unit(seed, stream, 2 * counter + 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
