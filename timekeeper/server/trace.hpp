// The trace of a session for Perfetto (https://ui.perfetto.dev), in the JSON trace event format:
// one track a thread, one slice a wait, in virtual time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "timekeeper/core/types.hpp"
#include "timekeeper/server/fd.hpp"

namespace warpserve {

struct TracedWait {
  std::uint32_t pid;
  std::uint32_t tid;
  std::string_view label;
  VirtualTime begin;
  VirtualTime end;
  VirtualTime target;
  bool fired;  // false: something else woke it earlier
};

class Trace {
 public:
  // Throws UsageError where the file cannot be made.
  explicit Trace(const std::string& path);

  void name_process(std::uint32_t pid, std::string_view name);
  void add(const TracedWait& wait);

  // Writes what is left and ends the document. Nothing may be added afterwards.
  void finish();

  // Not empty once writing has failed (a full disk, say): nothing is written from then on, and
  // the file holds what came before.
  const std::string& failure() const { return failure_; }

 private:
  void append(std::string_view event);
  void flush();

  Fd fd_;
  std::string buffer_;
  std::string failure_;
  bool first_ = true;
};

}  // namespace warpserve
