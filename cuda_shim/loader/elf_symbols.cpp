#include "cuda_shim/loader/elf_symbols.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace warpserve::gpu {

ElfFile::ElfFile(const char* path) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  struct stat status{};
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped != MAP_FAILED) {
      begin_ = static_cast<const std::byte*>(mapped);
      bytes_ = bytes;
    }
  }
  close(descriptor);
  find_tables();
}

ElfFile::~ElfFile() {
  if (begin_ != nullptr) munmap(const_cast<std::byte*>(begin_), bytes_);
}

bool ElfFile::has_name_beginning(std::string_view prefix) const {
  std::string text(1, '\0');  // the names follow one another, each closed by a null
  text += prefix;
  return names_.find(text) != std::string_view::npos;
}

std::vector<FunctionSymbol> ElfFile::functions() const {
  std::vector<FunctionSymbol> found;
  for (const Elf64_Sym& symbol : items<Elf64_Sym>(symbols_offset_, symbols_bytes_)) {
    const bool defined = symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0;
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !defined) continue;
    if (symbol.st_name >= names_.size()) continue;
    const std::string_view rest = names_.substr(symbol.st_name);
    found.push_back({rest.substr(0, rest.find('\0')), symbol.st_value, symbol.st_size});
  }
  return found;
}

void ElfFile::find_tables() {
  const auto headers = items<Elf64_Ehdr>(0, sizeof(Elf64_Ehdr));
  if (headers.empty()) return;
  const Elf64_Ehdr& header = headers.front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return;
  const auto sections =
      items<Elf64_Shdr>(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& text = sections[section.sh_link];
    const auto names = items<char>(text.sh_offset, text.sh_size);
    names_ = {names.data(), names.size()};
    symbols_offset_ = section.sh_offset;
    symbols_bytes_ = section.sh_size;
  }
}

// Empty where the file ends before.
template <class Item>
std::span<const Item> ElfFile::items(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > bytes_ || bytes > bytes_ - offset || offset % alignof(Item) != 0) return {};
  return {reinterpret_cast<const Item*>(begin_ + offset), bytes / sizeof(Item)};
}

}  // namespace warpserve::gpu
