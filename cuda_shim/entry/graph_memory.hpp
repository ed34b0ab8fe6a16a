// What a stream allocates and frees while it captures: nodes of the graph, which keeps the memory
// as long as it, a copy of it or an executable of it lives. (A real GPU may give it to others
// between launches.) What a launch allocates and does not free belongs to the program until that
// frees it, and outlives the graph then.
#pragma once

#include "cuda_shim/entry/memory.hpp"

namespace warpserve::gpu {

// `address` was just allocated; freed again where this throws.
void submit_allocation(Stream& stream, Address address);
// Throws Failure(kInvalidValue) for what was not allocated in a capture.
void submit_free(Stream& stream, Address address);

// A free outside of graphs. False for what no graph keeps; throws Failure(kInvalidValue) where no
// launch has allocated it.
bool free_graph_memory(Address address);

// cudaGraphMemAttributeType and CUgraphMem_attribute: the bytes that graphs keep on the device, and
// their high-water marks. Throw Failure(kInvalidValue) for what is none; only the marks can be set,
// and only to 0.
std::uint64_t graph_memory_attribute(const Device& device, std::uint32_t attribute);
void reset_graph_memory_high_water(const Device& device, std::uint32_t attribute,
                                   std::uint64_t value);
// What graphs kept lies in the device's pools again, which give back what they hold beyond their
// threshold.
void trim_graph_memory(const Device& device);

}  // namespace warpserve::gpu
