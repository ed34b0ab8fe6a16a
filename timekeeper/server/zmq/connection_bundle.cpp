#include "timekeeper/server/zmq/connection_bundle.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

namespace warpserve {
namespace {

constexpr char kBundleVersion[] = "1";

using Fields = std::map<std::string, std::string>;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// One `key = 'value'`: a literal string of TOML, which knows no escapes.
std::pair<std::string, std::string> parse_line(const std::string& line, const std::string& where) {
  const auto equals = line.find('=');
  const std::string value = equals == std::string::npos ? "" : trimmed(line.substr(equals + 1));
  if (value.size() < 2 || value.front() != '\'' || value.back() != '\'') {
    throw BundleError(where + ": expected key = 'value'");
  }
  return {trimmed(line.substr(0, equals)), value.substr(1, value.size() - 2)};
}

Fields parse_fields(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) {
    throw BundleError("cannot read " + file.string() + " (" + std::strerror(errno) +
                      "); is the session running, and is it yours?");
  }
  Fields fields;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') continue;
    fields.insert(parse_line(line, file.string() + ":" + std::to_string(number)));
  }
  return fields;
}

std::string take(Fields& fields, const std::string& key, const std::filesystem::path& file) {
  auto node = fields.extract(key);
  if (node.empty()) throw BundleError(file.string() + " lacks `" + key + "`; copy it again");
  return std::move(node.mapped());
}

[[noreturn]] void fail(const std::filesystem::path& file) {
  throw BundleError("cannot write " + file.string() + ": " + std::strerror(errno));
}

}  // namespace

void write_bundle(const std::filesystem::path& file, const ConnectionBundle& bundle) {
  std::string text = "# How to reach a warpserve session. Keep it private: it admits its holder.\n";
  const auto line = [&](const char* key, const std::string& value) {
    text += std::string(key) + " = '" + value + "'\n";
  };
  line("version", kBundleVersion);
  line("requests", bundle.requests_endpoint);
  line("updates", bundle.updates_endpoint);
  line("token", bundle.token);
  line("server_public_key", bundle.server_public_key);
  line("client_public_key", bundle.client_public_key);
  line("client_secret_key", bundle.client_secret_key);

  std::filesystem::path draft = file;
  draft += ".new";
  unlink(draft.c_str());
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) fail(draft);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !written || rename(draft.c_str(), file.c_str()) != 0) fail(file);
}

ConnectionBundle read_bundle(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / kLocalBundleFile : path;
  Fields fields = parse_fields(file);
  const std::string version = take(fields, "version", file);
  if (version != kBundleVersion) {
    throw BundleError(file.string() + " has version " + version + ", this client reads version " +
                      kBundleVersion + "; use the same warpserve on both hosts");
  }
  ConnectionBundle bundle;
  bundle.requests_endpoint = take(fields, "requests", file);
  bundle.updates_endpoint = take(fields, "updates", file);
  bundle.token = take(fields, "token", file);
  bundle.server_public_key = take(fields, "server_public_key", file);
  bundle.client_public_key = take(fields, "client_public_key", file);
  bundle.client_secret_key = take(fields, "client_secret_key", file);
  if (!fields.empty()) {
    throw BundleError(file.string() + " has the unknown key `" + fields.begin()->first + "`");
  }
  return bundle;
}

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

void from_hex(const std::string& hex, unsigned char* bytes, std::size_t size) {
  if (hex.size() != 2 * size) throw BundleError("the token has a wrong length; copy it again");
  for (std::size_t i = 0; i < size; ++i) {
    const char* digits = hex.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, bytes[i], 16).ptr != digits + 2) {
      throw BundleError("the token is not hexadecimal; copy it again");
    }
  }
}

}  // namespace warpserve
