#include "kernels/target.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>

#include "kernels/float_environment.h"
#include "kernels/simd.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

constexpr Target kAllTargets[] = {Target::kScalar, Target::kNeon, Target::kAvx2, Target::kAvx512,
                                  Target::kAvx512Vnni};
constexpr size_t kTargets = std::size(kAllTargets);

std::optional<Target> parse(std::string_view text) {
  for (Target t :
       {Target::kScalar, Target::kNeon, Target::kAvx2, Target::kAvx512, Target::kAvx512Vnni})
    if (name(t) == text) return t;
  return std::nullopt;
}

bool runnable(Target target) {
  const std::vector<Target> all = runnable_targets();
  return std::find(all.begin(), all.end(), target) != all.end();
}

Target initial_target() {
  const char* wanted = std::getenv("MEADOW_CPU");
  if (wanted != nullptr)
    if (const auto target = parse(wanted); target && runnable(*target)) return *target;
  return runnable_targets().back();
}

std::atomic<Target>& current() {
  static std::atomic<Target> target{initial_target()};
  return target;
}

std::string runnable_names() {
  std::string out;
  for (Target t : runnable_targets()) {
    if (!out.empty()) out += ", ";
    out += name(t);
  }
  return out;
}

}  // namespace

std::string_view name(Target target) {
  switch (target) {
    case Target::kScalar:
      return "scalar";
    case Target::kNeon:
      return "neon";
    case Target::kAvx2:
      return "avx2";
    case Target::kAvx512:
      return "avx512";
    case Target::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

std::vector<Target> runnable_targets() {
  std::vector<Target> out{Target::kScalar};
  for (Target t : kAllTargets)
    if (target_is_supported(t)) out.push_back(t);
  return out;
}

Target active_target() { return current().load(std::memory_order_relaxed); }

Result<void> check_target_choice() {
  const char* wanted = std::getenv("MEADOW_CPU");
  if (wanted == nullptr) return {};
  const auto target = parse(wanted);
  if (!target || !runnable(*target))
    return fail(Code::kInvalidArgument,
                "MEADOW_CPU: expected one of {}, which this build and processor can run, got '{}'",
                runnable_names(), wanted);
  return {};
}

Result<void> force_target(Target target) {
  if (!runnable(target))
    return fail(Code::kUnsupported, "this build and processor run {}, not {}", runnable_names(),
                name(target));
  current().store(target, std::memory_order_relaxed);
  return {};
}

const Table& active_table() {
  use_ieee_arithmetic();
  static const std::array<Table, kTargets> tables = [] {
    std::array<Table, kTargets> out;
    for (Target t : kAllTargets) {
      Table& table = out[static_cast<size_t>(t)];
      table = scalar_table();
      fill_matmul(t, table);
      fill_transposed(t, table);
      fill_elementwise(t, table);
    }
    return out;
  }();
  return tables[static_cast<size_t>(active_target())];
}

}  // namespace meadow::kernels
