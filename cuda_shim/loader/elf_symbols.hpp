// The functions that an ELF file defines, by its full symbol table (.symtab): also those that the
// loader does not know, because they are hidden or the file's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace warpserve::gpu {

struct FunctionSymbol {
  std::string_view name;
  std::uint64_t offset;  // from where the object begins in memory
  std::uint64_t bytes;
};

// A file mapped into memory. What is not a 64-bit ELF file with symbols has none.
class ElfFile {
 public:
  explicit ElfFile(const char* path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // Whether a name in the table begins so. A search of the text, not of the symbols: cheap.
  bool has_name_beginning(std::string_view prefix) const;
  // The names live as long as this.
  std::vector<FunctionSymbol> functions() const;

 private:
  void find_tables();
  template <class Item>
  std::span<const Item> items(std::uint64_t offset, std::uint64_t bytes) const;

  const std::byte* begin_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::string_view names_;
  std::uint64_t symbols_offset_ = 0;
  std::uint64_t symbols_bytes_ = 0;
};

}  // namespace warpserve::gpu
