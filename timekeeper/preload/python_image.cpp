#include "timekeeper/preload/python_image.hpp"

#include <elf.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace warpserve {

namespace {

// A function that only the interpreter defines.
constexpr char kInterpreterSymbol[] = "PyEval_RestoreThread";

struct Image {
  std::uintptr_t first = 0;
  std::uintptr_t last = 0;
  bool is_python = false;
};

// What was found before. A process has few images that wait on condition variables; beyond these
// each is looked at again.
constexpr std::size_t kKnownImages = 32;
struct KnownImage {
  std::atomic<std::uintptr_t> first{0};
  std::atomic<std::uintptr_t> last{0};
  std::atomic<int> is_python{0};
  std::atomic<bool> is_complete{false};
};
constinit KnownImage known[kKnownImages];
constinit std::atomic<std::size_t> known_count{0};

std::uint32_t gnu_hash(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

// The dynamic symbol table of a loaded image.
struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const std::uint32_t* gnu_hash_table = nullptr;
};

SymbolTable symbol_table_of(const dl_phdr_info& image) {
  SymbolTable table;
  for (int i = 0; i < image.dlpi_phnum; ++i) {
    if (image.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry =
        reinterpret_cast<const ElfW(Dyn)*>(image.dlpi_addr + image.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const auto pointer = entry->d_un.d_ptr;  // relocated by glibc
      if (entry->d_tag == DT_SYMTAB) table.symbols = reinterpret_cast<const ElfW(Sym)*>(pointer);
      if (entry->d_tag == DT_STRTAB) table.names = reinterpret_cast<const char*>(pointer);
      if (entry->d_tag == DT_GNU_HASH) {
        table.gnu_hash_table = reinterpret_cast<const std::uint32_t*>(pointer);
      }
    }
  }
  return table;
}

bool defines(const SymbolTable& table, const char* name) {
  if (table.symbols == nullptr || table.names == nullptr || table.gnu_hash_table == nullptr) {
    return false;
  }
  // Layout: bucket count, first hashed symbol, bloom words (of 8 bytes), bloom shift; bloom,
  // buckets, hash chains (the lowest bit ends a chain).
  const std::uint32_t buckets = table.gnu_hash_table[0];
  const std::uint32_t first_symbol = table.gnu_hash_table[1];
  const std::uint32_t bloom_words = table.gnu_hash_table[2];
  const std::uint32_t* bucket = table.gnu_hash_table + 4 + 2 * bloom_words;
  const std::uint32_t* chain = bucket + buckets;
  const std::uint32_t hash = gnu_hash(name);
  if (buckets == 0) return false;
  std::uint32_t index = bucket[hash % buckets];
  if (index < first_symbol) return false;
  for (;; ++index) {
    const std::uint32_t candidate = chain[index - first_symbol];
    const ElfW(Sym) & symbol = table.symbols[index];
    if ((candidate | 1) == (hash | 1) && symbol.st_shndx != SHN_UNDEF &&
        strcmp(table.names + symbol.st_name, name) == 0) {
      return true;
    }
    if ((candidate & 1) != 0) return false;
  }
}

struct Search {
  std::uintptr_t address;
  Image image;
};

int look_at_image(dl_phdr_info* info, std::size_t /*bytes*/, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const std::uintptr_t first = info->dlpi_addr + header.p_vaddr;
    if (search.address < first || search.address >= first + header.p_memsz) continue;
    search.image = {first, first + header.p_memsz,
                    defines(symbol_table_of(*info), kInterpreterSymbol)};
    return 1;
  }
  return 0;
}

void remember(const Image& image) {
  const std::size_t index = known_count.fetch_add(1);
  if (index >= kKnownImages) {
    known_count.store(kKnownImages);
    return;
  }
  known[index].first.store(image.first);
  known[index].last.store(image.last);
  known[index].is_python.store(image.is_python ? 1 : 0);
  known[index].is_complete.store(true);
}

}  // namespace

bool is_in_python_image(const void* address) {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  if (word == 0) return false;
  for (const KnownImage& image : known) {
    if (!image.is_complete.load()) break;
    if (word >= image.first.load() && word < image.last.load()) return image.is_python.load() != 0;
  }
  Search search = {word, {}};
  dl_iterate_phdr(look_at_image, &search);
  if (search.image.last != 0) remember(search.image);
  return search.image.is_python;
}

}  // namespace warpserve
