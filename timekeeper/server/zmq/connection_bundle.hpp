// What a client needs to reach a session: a small TOML file, 0600.
//
// `connection.toml` in the session's folder names local sockets. `remote.toml` names network
// addresses and holds keys; the user copies it to the other hosts by a private road.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace warpserve {

inline constexpr char kLocalBundleFile[] = "connection.toml";
inline constexpr char kRemoteBundleFile[] = "remote.toml";

class BundleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ConnectionBundle {
  std::string requests_endpoint;  // ROUTER
  std::string updates_endpoint;   // PUB
  std::string token;              // hexadecimal
  // CURVE keys in Z85; all empty for local sockets.
  std::string server_public_key;
  std::string client_public_key;
  std::string client_secret_key;

  bool encrypted() const { return !server_public_key.empty(); }
};

// Replaces the file in one step. Throws BundleError.
void write_bundle(const std::filesystem::path& file, const ConnectionBundle& bundle);

// `path`: a bundle, or a session's folder. Throws BundleError that names the file and the remedy.
ConnectionBundle read_bundle(const std::filesystem::path& path);

std::string to_hex(const unsigned char* bytes, std::size_t size);
// Throws BundleError where `hex` is not exactly `size` bytes.
void from_hex(const std::string& hex, unsigned char* bytes, std::size_t size);

}  // namespace warpserve
