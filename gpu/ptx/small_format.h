/* How decoders tell small.h a format and a rounding: bits of fraction, bits of exponent << 4, mode << 8, and flags. */
#pragma once
enum { SMALL_RN, SMALL_RZ, SMALL_RM, SMALL_RP, SMALL_RNA, SMALL_RS };
enum {
    SMALL_FINITE = 1 << 11,     /* too large and infinite: the largest number */
    SMALL_ONE_NAN = 1 << 12,    /* no infinity; the last code alone is NaN: e4m3 */
    SMALL_NO_NAN = 1 << 13      /* every code is a number */
};
#define SMALL_FORMAT(fraction, exponent) ((fraction) | (exponent) << 4)
#define SMALL_F16 SMALL_FORMAT(10, 5)
#define SMALL_BF16 SMALL_FORMAT(7, 8)
#define SMALL_E4M3 (SMALL_FORMAT(3, 4) | SMALL_ONE_NAN)
#define SMALL_E5M2 SMALL_FORMAT(2, 5)
#define SMALL_E2M1 (SMALL_FORMAT(1, 2) | SMALL_NO_NAN)
#define SMALL_E2M3 (SMALL_FORMAT(3, 2) | SMALL_NO_NAN)
#define SMALL_E3M2 (SMALL_FORMAT(2, 3) | SMALL_NO_NAN)
