#include "timekeeper/server/trace.hpp"

#include <fcntl.h>

#include <cstdio>
#include <cstring>

#include "timekeeper/server/errors.hpp"
#include "timekeeper/server/json.hpp"

namespace warpserve {

namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

// Trace events count in microseconds; three decimals keep the nanosecond.
std::string as_us(std::int64_t ns) {
  char text[32];
  snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1'000),
           static_cast<long long>(ns % 1'000));
  return text;
}

}  // namespace

Trace::Trace(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
  if (!fd_.valid()) throw UsageError("cannot write the trace " + path + ": " + strerror(errno));
  buffer_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
}

void Trace::finish() {
  buffer_ += "\n]}\n";
  flush();
}

void Trace::name_process(std::uint32_t pid, std::string_view name) {
  JsonWriter json;
  json.begin_object().field("ph", "M").field("name", "process_name").field("pid", pid);
  json.key("args").begin_object().field("name", name).end_object().end_object();
  append(json.text());
}

void Trace::add(const TracedWait& wait) {
  JsonWriter json;
  json.begin_object().field("ph", "X").field("name", wait.label);
  json.field("pid", wait.pid).field("tid", wait.tid);
  json.key("args").begin_object();
  json.field("target_ns", wait.target.ns()).field("reached", wait.fired).end_object();
  std::string event = json.text();
  event += ",\"ts\":" + as_us(wait.begin.ns()) + ",\"dur\":" + as_us((wait.end - wait.begin).ns());
  append(event + "}");
}

void Trace::append(std::string_view event) {
  if (!failure_.empty()) return;
  buffer_ += first_ ? "\n" : ",\n";
  buffer_ += event;
  first_ = false;
  if (buffer_.size() >= kFlushBytes) flush();
}

void Trace::flush() {
  for (std::size_t done = 0; failure_.empty() && done < buffer_.size();) {
    const ssize_t bytes = write(fd_.get(), buffer_.data() + done, buffer_.size() - done);
    if (bytes >= 0) {
      done += static_cast<std::size_t>(bytes);
    } else if (errno != EINTR) {
      failure_ = std::string("the trace is incomplete: ") + strerror(errno);
    }
  }
  buffer_.clear();
}

}  // namespace warpserve
