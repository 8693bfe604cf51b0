/* Whether another process computes on the card: what device.h says of struct device_alone. */
#include "gpu/device/cuda_api.h"

#define GAP_NS 20000            /* between a read's own step (32 ns) and the shortest time slice seen (300 us) */

bool cuda_alone(struct device *d, int64_t watch_ns, struct device_alone *ret, struct err *err)
{
    uint64_t ns = (uint64_t)watch_ns, least = GAP_NS, found[3] = {0};
    void *args[] = {&ns, &least, &d->found};
    if (!cuda_alive(d, err) || !helper_launch(d, d->gaps, 1, 1, 0, args, err) || !CU(err, cuStreamSynchronize, d->stream) ||
        !CU(err, cuMemcpyDtoH, found, d->found, sizeof found))
        return false;
    *ret = (struct device_alone){.watched_ns = watch_ns, .longest_gap_ns = (int64_t)found[2], .gaps_ns = (int64_t)found[1], .gaps = (int)found[0]};
    return true;
}
