// Environments as exec takes them. Nothing here uses the heap: it runs between vfork and exec.
#pragma once

#include <cstddef>
#include <cstring>

#include "timekeeper/preload/member.hpp"
#include "timekeeper/shared/contract.hpp"

namespace warpserve {

inline constexpr char kEnvPreload[] = "LD_PRELOAD";

// The value of a variable, or null.
inline const char* variable_of(char* const* environment, const char* name) {
  const std::size_t bytes = strlen(name);
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (strncmp(*environment, name, bytes) == 0 && (*environment)[bytes] == '=') {
      return *environment + bytes + 1;
    }
  }
  return nullptr;
}

inline std::size_t size_of(char* const* environment) {
  std::size_t count = 0;
  while (environment != nullptr && environment[count] != nullptr) ++count;
  return count;
}

// Calls `use` with an environment that makes its program a member: where the caller's does so
// already, with that. A session that the caller names itself stays; an empty one means none.
template <class Use>
int with_member_environment(char* const* environment, Use use) {
  const char* preload = variable_of(environment, kEnvPreload);
  const char* session = variable_of(environment, kEnvSession);
  const bool has_session = session != nullptr;
  if (has_session && *session == '\0') return use(environment);
  const bool has_preload = preload != nullptr && strstr(preload, member.library) != nullptr;
  if (has_session && has_preload) return use(environment);

  // On this frame, as `use` may not return.
  auto** entries =
      static_cast<char**>(__builtin_alloca((size_of(environment) + 3) * sizeof(char*)));
  std::size_t count = 0;
  for (std::size_t i = 0; i < size_of(environment); ++i) {
    const bool replaced = !has_preload && strncmp(environment[i], "LD_PRELOAD=", 11) == 0;
    if (!replaced) entries[count++] = environment[i];
  }
  if (!has_preload) {
    const std::size_t old_bytes = preload == nullptr ? 0 : strlen(preload);
    char* entry = static_cast<char*>(
        __builtin_alloca(sizeof kEnvPreload + old_bytes + strlen(member.library) + 2));
    strcpy(stpcpy(entry, kEnvPreload), "=");
    if (old_bytes != 0) strcat(strcat(entry, preload), ":");
    entries[count++] = strcat(entry, member.library);
  }
  char own_session[sizeof kEnvSession + sizeof member.folder];
  strcpy(stpcpy(stpcpy(own_session, kEnvSession), "="), member.folder);
  if (!has_session) entries[count++] = own_session;
  entries[count] = nullptr;
  return use(entries);
}

}  // namespace warpserve
