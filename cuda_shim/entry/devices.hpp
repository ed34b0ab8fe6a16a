// What both libraries say of devices.
#pragma once

#include <cstdint>
#include <string>

#include "cuda_shim/entry/call.hpp"

namespace warpserve::gpu {

// Copies with the closing null; throws Failure(kInvalidValue) where there is no room for it.
void copy_text(char* out, std::int64_t capacity, const std::string& text);

std::int32_t can_access_peer(int from, int to);
// cudaDeviceP2PAttr and CUdevice_P2PAttribute.
std::int32_t peer_attribute(std::uint32_t attribute, int from, int to);
void enable_peer_access(Device& from, int to);
void disable_peer_access(Device& from, int to);

// By "0000:1B:00.0" or without the domain or the function, in either case.
int device_by_pci_bus_id(const char* id);

// The 16 bytes of "GPU-…".
void copy_uuid(void* out, const std::string& uuid);

// Of a primary context: cudaSetDeviceFlags and cuDevicePrimaryCtxSetFlags. Throws
// Failure(kInvalidValue) for what is none of their flags.
void set_primary_flags(Device& device, std::uint32_t flags);

// cudaLimit and CUlimit. A set value is told again, and else without effect.
std::uint64_t limit(Device& device, std::uint32_t number);
void set_limit(Device& device, std::uint32_t number, std::uint64_t value);

// All that the process has on the device is gone.
void reset_device(Device& device);

}  // namespace warpserve::gpu
