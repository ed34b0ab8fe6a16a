// Message queues with a deadline, which on Linux are descriptors that can be polled; and the waits
// with a timeout that stay the kernel's or libc's, which are counted.
#include <aio.h>
#include <mqueue.h>
#include <sys/sem.h>
#include <sys/socket.h>

#include <cerrno>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/wait.hpp"

using namespace warpserve;

namespace {

// A deadline that has passed: the kernel tries once.
constexpr timespec kPast = {0, 0};

// Calls `try_once` until it does not end with ETIMEDOUT, or `deadline` has passed.
template <class TryOnce>
auto retry_until(const timespec& deadline, mqd_t queue, short events, const char* label,
                 TryOnce try_once) {
  const VirtualTime target = virtual_clock().instant_of(ClockFamily::kRealtime, deadline);
  while (true) {
    const auto result = try_once();
    if (result >= 0 || errno != ETIMEDOUT || target <= virtual_now()) return result;
    pollfd polled = {queue, events, 0};
    if (wait_until_or_ready(target, &polled, 1, nullptr, label) < 0) return decltype(result){-1};
  }
}

bool is_virtual(const timespec* deadline) {
  return is_member() && deadline != nullptr && is_valid(*deadline);
}

void count_timeout(const timespec* timeout) {
  if (is_member() && timeout != nullptr) count(Warning::kUnvirtualisedWait);
}

}  // namespace

WARPSERVE_EXPORT ssize_t mq_timedreceive(mqd_t queue, char* __restrict message, size_t bytes,
                                         unsigned int* __restrict priority,
                                         const timespec* __restrict deadline) {
  if (!is_virtual(deadline)) {
    return real().mq_timedreceive(queue, message, bytes, priority, deadline);
  }
  return retry_until(*deadline, queue, POLLIN, "mq_timedreceive", [&] {
    return real().mq_timedreceive(queue, message, bytes, priority, &kPast);
  });
}

WARPSERVE_EXPORT int mq_timedsend(mqd_t queue, const char* message, size_t bytes,
                                  unsigned int priority, const timespec* deadline) {
  if (!is_virtual(deadline)) {
    return real().mq_timedsend(queue, message, bytes, priority, deadline);
  }
  return retry_until(*deadline, queue, POLLOUT, "mq_timedsend",
                     [&] { return real().mq_timedsend(queue, message, bytes, priority, &kPast); });
}

WARPSERVE_EXPORT int recvmmsg(int fd, mmsghdr* messages, unsigned int count_wanted, int flags,
                              timespec* timeout) {
  count_timeout(timeout);
  return real().recvmmsg(fd, messages, count_wanted, flags, timeout);
}

WARPSERVE_EXPORT int semtimedop(int set, sembuf* operations, size_t operation_count,
                                const timespec* timeout) noexcept {
  count_timeout(timeout);
  return real().semtimedop(set, operations, operation_count, timeout);
}

WARPSERVE_EXPORT int aio_suspend(const aiocb* const* requests, int request_count,
                                 const timespec* timeout) {
  count_timeout(timeout);
  return real().aio_suspend(requests, request_count, timeout);
}
