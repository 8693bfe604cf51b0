#!/bin/sh
# Finds the CUDA toolkit: prints its folder; or says on stderr how to get it and what works without, exit status 1.
for home in "${CUDA_HOME:-}" /usr/local/cuda; do
    [ -n "$home" ] || continue
    for include in "$home/include" "$home/targets/x86_64-linux/include"; do
        if [ -f "$include/cuda.h" ] && [ -f "$include/nvrtc.h" ]; then
            echo "$home"
            exit 0
        fi
    done
done
cat >&2 <<TEXT
The CUDA toolkit was not found (looked for cuda.h and nvrtc.h in ${CUDA_HOME:+$CUDA_HOME and }/usr/local/cuda).
  get it     https://developer.nvidia.com/cuda-downloads (13.0 or newer; "Linux, x86_64, Debian, 12"); no GPU and no driver are needed:
             the packages cuda-nvrtc-dev-13-0, libnvjitlink-dev-13-0, cuda-driver-dev-13-0, cuda-cudart-dev-13-0, cuda-crt-13-0,
             cuda-cccl-13-0 and cuda-cupti-dev-13-0 of that repository are enough, cuda-toolkit-13-0 is everything
  elsewhere  make demo CUDA_HOME=/path/to/cuda        (proteusd: --cuda-home /path/to/cuda)
  without    the service, its API, the command line and the dashboard run, jobs and tokens are kept, bundles are verified;
             no kernel can be compiled, so none can be found: /readyz and every job say so
TEXT
exit 1
