/* Built where CUDA's headers were not found: no card can be opened, so there is none to read. */
#include "gpu/device/card.h"

void card_read(const char *uuid, struct card_reading *ret)
{
    (void)uuid;
    *ret = (struct card_reading){.why = "this proteus-gpu was built without the CUDA toolkit's headers", .process_count = -1};
}

void card_prepare(void) {}
