#include "cuda_shim/torch_ops/operators.hpp"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace warpserve::torch_ops {
namespace {

enum class Listed : std::uint8_t { kUntouched, kFaithful, kNotComputed, kComputed };

struct Entry {
  std::string_view pattern;
  Listed listed;
};

constexpr auto kEntries = std::to_array<Entry>({
#define UNTOUCHED(pattern, reason) {pattern, Listed::kUntouched},
#define FAITHFUL(pattern, reason) {pattern, Listed::kFaithful},
#define NOT_COMPUTED(pattern, reason) {pattern, Listed::kNotComputed},
#define COMPUTED(pattern, reason) {pattern, Listed::kComputed},
#include "cuda_shim/torch_ops/operators.inc"
#undef UNTOUCHED
#undef FAITHFUL
#undef NOT_COMPUTED
#undef COMPUTED
});

// By name, without the overload. From the functions of those names in ATen/native/cuda, which call
// a blocking copy, item() or nonzero() themselves.
constexpr auto kWaiting = std::to_array<std::string_view>(
    {"aten::nonzero", "aten::masked_select", "aten::_unique", "aten::_unique2", "aten::unique_dim",
     "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount", "aten::equal"});

bool fits(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= name.size(); ++at) {
    if (fits(rest, name.substr(at))) return true;
  }
  return false;
}

const Entry* entry_of(const c10::OperatorName& name) {
  const std::string full =
      name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  const auto* const found = std::ranges::find_if(kEntries, [&](const Entry& entry) {
    return fits(entry.pattern, full) || fits(entry.pattern, name.name);
  });
  return found == kEntries.end() ? nullptr : found;
}

bool is_view(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return op.hasTag(at::Tag::inplace_view) ||
         std::ranges::any_of(returns, [](const c10::Argument& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

bool contains(const auto& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::optional<std::size_t> generator_argument(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const auto found = std::ranges::find_if(arguments, [](const c10::Argument& argument) {
    return argument.type()->str().find("Generator") != std::string::npos;
  });
  if (found == arguments.end()) return std::nullopt;
  return static_cast<std::size_t>(found - arguments.begin());
}

Execution execution_of(const c10::OperatorHandle& op, const Entry* entry) {
  if (entry != nullptr && entry->listed == Listed::kFaithful) return Execution::kFaithful;
  const bool listed_out = entry != nullptr && entry->listed == Listed::kNotComputed;
  return listed_out || !op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)
             ? Execution::kNotComputed
             : Execution::kComputed;
}

}  // namespace

std::optional<Treatment> treatment_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  const Entry* const entry = entry_of(name);
  const bool listed = entry != nullptr && entry->listed == Listed::kComputed;
  if (!listed && !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA)) return std::nullopt;
  if (entry != nullptr && entry->listed == Listed::kUntouched) return std::nullopt;
  if (is_view(op)) return std::nullopt;

  Treatment treatment{.execution = execution_of(op, entry),
                      .is_copy = name.name == "aten::copy_",
                      .generator = generator_argument(op.schema())};
  if (contains(kWaiting, name.name)) treatment.waits = Waits::kAlways;
  if (name.name == "aten::repeat_interleave") treatment.waits = Waits::kUnlessSized;
  if (name.name == "aten::index") treatment.waits = Waits::kForMask;
  if (name.name == "aten::_index_put_impl_") treatment.waits = Waits::kForMaskedPut;
  return treatment;
}

}  // namespace warpserve::torch_ops
