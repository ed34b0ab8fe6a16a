// Looking up hosts, users and groups. libc asks servers outside of the session (DNS, sssd) and
// waits for them with calls of its own, on host time: virtual time stands still until they have
// answered.
#include <grp.h>
#include <netdb.h>
#include <pwd.h>

#include <optional>

#include "timekeeper/preload/export.hpp"
#include "timekeeper/preload/member.hpp"
#include "timekeeper/preload/real.hpp"
#include "timekeeper/preload/thread_state.hpp"

using namespace warpserve;

namespace {

// In other modes than `exact` host time passes during the lookup, as it should.
class TimeStandsStill {
 public:
  explicit TimeStandsStill(const char* label) {
    if (!is_member() || !virtual_clock().stands_still()) return;
    notice_fork();
    slot_ = claim_slot(SlotKind::kAsks);
    set_label(*slot_, label);
    slot_->arm(VirtualTime());
  }
  // A thread that is cancelled meanwhile does not come here: the Timekeeper frees its slot.
  ~TimeStandsStill() {
    if (slot_) slot_->release();
  }
  TimeStandsStill(const TimeStandsStill&) = delete;
  TimeStandsStill& operator=(const TimeStandsStill&) = delete;

 private:
  std::optional<SlotOwner> slot_;
};

}  // namespace

#define WARPSERVE_LOOKUP(result, name, parameters, arguments) \
  WARPSERVE_EXPORT result name parameters {                   \
    TimeStandsStill during(#name);                            \
    return real().name arguments;                             \
  }

// Hosts

WARPSERVE_LOOKUP(int, getaddrinfo,
                 (const char* host, const char* service, const addrinfo* hints, addrinfo** found),
                 (host, service, hints, found))
WARPSERVE_LOOKUP(int, getnameinfo,
                 (const sockaddr* address, socklen_t address_bytes, char* host,
                  socklen_t host_bytes, char* service, socklen_t service_bytes, int flags),
                 (address, address_bytes, host, host_bytes, service, service_bytes, flags))
WARPSERVE_LOOKUP(hostent*, gethostbyname, (const char* name), (name))
WARPSERVE_LOOKUP(hostent*, gethostbyname2, (const char* name, int family), (name, family))
WARPSERVE_LOOKUP(hostent*, gethostbyaddr, (const void* address, socklen_t bytes, int family),
                 (address, bytes, family))
WARPSERVE_LOOKUP(int, gethostbyname_r,
                 (const char* name, hostent* entry, char* buffer, size_t bytes, hostent** found,
                  int* error),
                 (name, entry, buffer, bytes, found, error))
WARPSERVE_LOOKUP(int, gethostbyname2_r,
                 (const char* name, int family, hostent* entry, char* buffer, size_t bytes,
                  hostent** found, int* error),
                 (name, family, entry, buffer, bytes, found, error))
WARPSERVE_LOOKUP(int, gethostbyaddr_r,
                 (const void* address, socklen_t address_bytes, int family, hostent* entry,
                  char* buffer, size_t bytes, hostent** found, int* error),
                 (address, address_bytes, family, entry, buffer, bytes, found, error))

// Users and groups

WARPSERVE_LOOKUP(passwd*, getpwnam, (const char* name), (name))
WARPSERVE_LOOKUP(passwd*, getpwuid, (uid_t user), (user))
WARPSERVE_LOOKUP(int, getpwnam_r,
                 (const char* name, passwd* entry, char* buffer, size_t bytes, passwd** found),
                 (name, entry, buffer, bytes, found))
WARPSERVE_LOOKUP(int, getpwuid_r,
                 (uid_t user, passwd* entry, char* buffer, size_t bytes, passwd** found),
                 (user, entry, buffer, bytes, found))
WARPSERVE_LOOKUP(group*, getgrnam, (const char* name), (name))
WARPSERVE_LOOKUP(group*, getgrgid, (gid_t number), (number))
WARPSERVE_LOOKUP(int, getgrnam_r,
                 (const char* name, group* entry, char* buffer, size_t bytes, group** found),
                 (name, entry, buffer, bytes, found))
WARPSERVE_LOOKUP(int, getgrgid_r,
                 (gid_t number, group* entry, char* buffer, size_t bytes, group** found),
                 (number, entry, buffer, bytes, found))
WARPSERVE_LOOKUP(int, getgrouplist, (const char* user, gid_t base, gid_t* groups, int* count),
                 (user, base, groups, count))
WARPSERVE_LOOKUP(int, initgroups, (const char* user, gid_t base), (user, base))
