// Programs and libraries that bring a CUDA runtime of their own: nvcc links the static one by
// default, and so do many Python packages.
//
// That runtime works with NVIDIA's driver only, of which it asks undocumented tables. So none of
// its code runs: each of its functions that this library has, too, begins with a jump to it. They
// are found by the symbols of the file, which neither nvcc nor wheels strip. Where they are
// stripped, cuGetExportTable says what to do.
//
// An object has to be changed after it was mapped and before its constructors run, which register
// its kernels. For the program itself that is while this library is initialised. For what is opened
// later there is the function that the loader calls for debuggers then (r_brk in <link.h>), which
// is empty. Libraries that the program was linked with are initialised before this one: their
// registration is repeated.
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_shim/loader/elf_symbols.hpp"
#include "cuda_shim/loader/jump.hpp"

namespace warpserve::gpu {
namespace {

// How the static runtime's own functions begin, in all its versions.
constexpr std::string_view kStaticRuntime = "libcudart_static_";
// What nvcc calls the constructor that registers the kernels of a source file, in C++ names.
constexpr std::string_view kRegistration = "__sti____cudaRegisterAll";

enum class Constructors { kHaveRun, kWillRun };

struct LoadedObject {
  std::uintptr_t base;
  std::string path;

  bool operator==(const LoadedObject&) const = default;
};

void say(const std::string& path, const char* what) {
  const std::string message = "warpserve: " + path + ": " + what + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
}

std::vector<LoadedObject> loaded_objects() {
  std::vector<LoadedObject> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        // The program comes first, without a name.
        auto& known = *static_cast<std::vector<LoadedObject>*>(list);
        known.push_back({info->dlpi_addr, known.empty() ? "/proc/self/exe" : info->dlpi_name});
        return 0;
      },
      &objects);
  return objects;
}

void* own_handle() {
  static void* const handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&own_handle), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

// False where the system forbids it.
bool redirect(const LoadedObject& object, const std::vector<FunctionSymbol>& functions) {
  for (const FunctionSymbol& function : functions) {
    const bool of_runtime =
        function.name.starts_with("cuda") || function.name.starts_with("__cuda");
    // What is shorter calls one of the others.
    if (!of_runtime || function.bytes < kJumpBytes) continue;
    const void* const ours = dlsym(own_handle(), std::string(function.name).c_str());
    if (ours == nullptr) continue;
    if (!write_jump(reinterpret_cast<void*>(object.base + function.offset), ours)) return false;
  }
  return true;
}

void repeat_registrations(const LoadedObject& object,
                          const std::vector<FunctionSymbol>& functions) {
  for (const FunctionSymbol& function : functions) {
    if (function.name.find(kRegistration) == std::string_view::npos) continue;
    reinterpret_cast<void (*)()>(object.base + function.offset)();
  }
}

void redirect(const LoadedObject& object, Constructors constructors) {
  const ElfFile file(object.path.c_str());
  if (!file.has_name_beginning(kStaticRuntime)) return;
  const std::vector<FunctionSymbol> functions = file.functions();
  if (!redirect(object, functions)) {
    say(object.path,
        "the system lets nobody change its code, so its static CUDA runtime can't be led to the "
        "virtual GPU; link it with -cudart shared");
  } else if (constructors == Constructors::kHaveRun) {
    repeat_registrations(object, functions);
  }
}

// Of the last look.
std::vector<LoadedObject>& known_objects() {
  static auto& objects = *new std::vector<LoadedObject>();
  return objects;
}

// Before there are threads.
void redirect_objects_of_start() {
  known_objects() = loaded_objects();
  for (const LoadedObject& object : known_objects()) {
    const bool is_program = &object == &known_objects().front();
    redirect(object, is_program ? Constructors::kWillRun : Constructors::kHaveRun);
  }
}

// Under the loader's lock.
void loader_has_changed_its_list() {
  if (_r_debug.r_state != r_debug::RT_CONSISTENT) return;
  std::vector<LoadedObject> objects = loaded_objects();
  for (const LoadedObject& object : objects) {
    const bool is_new = std::ranges::find(known_objects(), object) == known_objects().end();
    if (is_new) redirect(object, Constructors::kWillRun);
  }
  known_objects() = std::move(objects);
}

[[gnu::constructor]] void lead_static_runtimes_here() {
  redirect_objects_of_start();
  void* const notification = reinterpret_cast<void*>(_r_debug.r_brk);
  const void* const handler = reinterpret_cast<const void*>(&loader_has_changed_its_list);
  if (!is_empty_function(notification) || !write_jump(notification, handler)) {
    say("the dynamic loader",
        "it can't be watched, so libraries that are opened with a static CUDA runtime do not see "
        "the virtual GPU");
  }
}

}  // namespace
}  // namespace warpserve::gpu
