/*
 * Loads and stores of a whole warp, all 32 lanes together, by way of the shortest path there is: compiled for three kinds of CPU.
 *
 * The decoder asks for the function of an instruction's form; it does the access with every check and count, or nothing at all:
 * false means that memory.c must do it lane by lane (or, where the worker's finding is set, that it is over).
 */
#pragma once
#include "gpu/ptx/module.h"

struct warp;
struct access_table { access_fn *load[2][3][3], *store[2][3][3]; };   /* [global, shared][2, 4, 8 bytes][1, 2, 4 items] */
