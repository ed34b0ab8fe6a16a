// Variables of device code (`__device__ int x;`): control memory on each device that asks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "cuda_shim/memory/allocation.hpp"
#include "cuda_shim/memory/status.hpp"

namespace warpserve::gpu {

class Memory;
struct State;

class Symbols {
 public:
  Symbols(State& state, Memory& memory) : state_(state), memory_(memory) {}
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // `key` is the address of the host's variable of that name (__cudaRegisterVar).
  void add(Address key, std::string name, std::uint64_t bytes);
  void remove(Address key);
  // kInvalidPointer (cudaErrorInvalidSymbol) where there is no such variable.
  Result<Address> address(Address key, int device);
  Result<std::uint64_t> size(Address key) const;
  Result<Address> key_of(const std::string& name) const;

 private:
  friend class Memory;
  struct Symbol {
    std::string name;
    std::uint64_t bytes = 0;
    std::map<int, Address> addresses;  // by device
  };
  // With the state's mutex held.
  void reset(int device);

  State& state_;
  Memory& memory_;
  std::map<Address, Symbol> symbols_;
};

}  // namespace warpserve::gpu
