"""The virtual GPU: what stands in for CUDA, NVML and NCCL, and the catalogue that describes it."""
