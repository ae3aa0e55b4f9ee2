#include "server/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/stream_read.h"
#include "kernels/target.h"

namespace meadow::server {
namespace {

constexpr Duration kEnough = 150ms;  // of one kind of measurement
constexpr int kMaxRepetitions = 15;
constexpr size_t kReadBytes = size_t{256} << 20;  // beyond the caches of most processors
constexpr size_t kMaxCacheFile = 1 << 20;

SessionId session_number(int64_t number) {
  SessionId id;
  id.bytes[0] = static_cast<uint8_t>(number);
  return id;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Measurement {
 public:
  Measurement(engine::SpanExecutor& executor, const Clock& clock, const CancelToken* cancel)
      : executor_(executor),
        clock_(clock),
        cancel_(cancel),
        width_(executor.hyperparameters().n_embd) {
    Rng rng(1);
    hidden_.resize(static_cast<size_t>(width_ * std::max(kPromptTokens, kForwardTokens)));
    for (float& x : hidden_) x = static_cast<float>(rng.uniform() - 0.5);
  }

  Result<void> sequence(swarm::ServedSpeed& speed) {
    const int64_t context = executor_.hyperparameters().n_ctx;
    const int64_t total = std::min({free_tokens(), context, kPromptTokens + kDecodeTokens});
    if (total < 2) return {};
    const int64_t prompt = std::min(kPromptTokens, total / 2 + 1);
    MEADOW_TRY_VOID(executor_.open(session_number(1), executor_.blocks(), total));
    const Result<void> done = [&]() -> Result<void> {
      MEADOW_TRY_VOID(forward(0, 1));  // touches the weights
      MEADOW_TRY(const double whole, repeat([&] { return forward(0, prompt); }));
      speed.prefill = blocks() * static_cast<double>(prompt) / whole;
      std::vector<double> steps;
      for (int64_t at = prompt; at < total; at++) {
        MEADOW_TRY(const double one, timed([&] { return forward(at, 1); }));
        steps.push_back(one);
      }
      speed.decode = blocks() / median(std::move(steps));
      return {};
    }();
    executor_.close(session_number(1));
    return done;
  }

  Result<void> batch(swarm::ServedSpeed& speed) {
    const int64_t length = std::min<int64_t>(kForwardTokens, executor_.hyperparameters().n_ctx);
    const int64_t count = std::min(kForwardSequences, free_tokens() / kForwardTokens);
    Result<void> done;
    std::vector<engine::Step> steps;
    for (int64_t i = 1; i <= count && done; i++) {
      done = executor_.open(session_number(i), executor_.blocks(), length);
      steps.push_back({session_number(i), 0,
                       std::span(hidden_).first(static_cast<size_t>(width_ * length)), cancel_});
    }
    if (done && count > 0) {
      const auto whole = repeat([&]() -> Result<void> {
        for (const auto& result : executor_.forward(steps))
          if (!result) return fail(result.error());
        return {};
      });
      if (whole) speed.forward = blocks() * static_cast<double>(count * length) / *whole;
      if (!whole) done = fail(whole.error());
    }
    for (int64_t i = 1; i <= count; i++) executor_.close(session_number(i));
    return done;
  }

 private:
  double blocks() const { return executor_.blocks().size(); }
  int64_t free_tokens() const {
    const engine::CacheStats stats = executor_.stats();
    return stats.tokens_total - stats.tokens_reserved;
  }
  Result<void> forward(int64_t first, int64_t n) {
    MEADOW_TRY_VOID(executor_.forward(session_number(1), first,
                                      std::span(hidden_).first(static_cast<size_t>(width_ * n)),
                                      cancel_));
    return {};
  }
  template <class Work>
  Result<double> timed(Work work) {
    const TimePoint start = clock_.now();
    MEADOW_TRY_VOID(work());
    return std::max(seconds(clock_.now() - start), 1e-9);
  }
  template <class Work>
  Result<double> repeat(Work work) {
    std::vector<double> times;
    const TimePoint start = clock_.now();
    do {
      MEADOW_TRY(const double one, timed(work));
      times.push_back(one);
    } while (clock_.now() - start < kEnough && times.size() < kMaxRepetitions);
    return median(std::move(times));
  }

  engine::SpanExecutor& executor_;
  const Clock& clock_;
  const CancelToken* cancel_;
  const int64_t width_;
  std::vector<float> hidden_;
};

double memory_speed(int threads, const Clock& clock) {
  const std::unique_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[kReadBytes]);
  if (memory == nullptr) return 0;
  std::fill_n(memory.get(), kReadBytes, uint8_t{1});
  ThreadPool pool(threads);
  double best = 0;
  for (const size_t ahead : {size_t{0}, size_t{2048}, size_t{4096}}) {
    const TimePoint start = clock.now();
    kernels::stream_read({memory.get(), kReadBytes}, ahead, pool);
    best = std::max(best, kReadBytes / std::max(seconds(clock.now() - start), 1e-9));
  }
  return best;
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (const size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

nlohmann::json read_cache(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxCacheFile, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  nlohmann::json file = nlohmann::json::parse(text, nullptr, false);
  return file.is_array() ? file : nlohmann::json::array();
}

}  // namespace

Result<Speeds> measure_speeds(engine::SpanExecutor& executor, int threads, const Clock& clock,
                              const CancelToken* cancel) {
  Speeds out;
  Measurement measurement(executor, clock, cancel);
  MEADOW_TRY_VOID(measurement.sequence(out.speed));
  MEADOW_TRY_VOID(measurement.batch(out.speed));
  out.memory_bytes_per_s = memory_speed(threads, clock);
  return out;
}

Result<std::string> speed_key(const format::ModelFile& file, int threads, bool pin,
                              DType cache_type, const std::string& version) {
  MEADOW_TRY(const Digest fingerprint, file.fingerprint());
  std::set<std::string> types;
  for (const format::TensorInfo& tensor : file.tensors()) {
    const auto type = dtype_of_ggml(tensor.ggml_type);
    types.insert(type ? std::string(info(*type).name) : std::to_string(tensor.ggml_type));
  }
  std::string weights;
  for (const std::string& type : types) weights += (weights.empty() ? "" : "+") + type;
  return fmt::format("{}; {}, {}; {}; {} threads{}; cache {}; meadow {}, numerics {}",
                     hex(fingerprint), processor(), kernels::name(kernels::active_target()),
                     weights, threads, pin ? ", pinned" : "", info(cache_type).name, version,
                     kernels::numerics_id(cache_type));
}

std::optional<Speeds> cached_speeds(const std::string& path, const std::string& key) {
  const auto number = [](const nlohmann::json& entry, const char* field) {
    const auto it = entry.find(field);
    const double value = it != entry.end() && it->is_number() ? it->get<double>() : -1;
    return std::isfinite(value) ? value : -1;
  };
  for (const auto& entry : read_cache(path)) {
    if (!entry.is_object() || entry.value("key", nlohmann::json()) != key) continue;
    Speeds out;
    out.speed.decode = number(entry, "decode");
    out.speed.prefill = number(entry, "prefill");
    out.speed.forward = number(entry, "forward");
    out.memory_bytes_per_s = number(entry, "memory_bytes_per_s");
    const bool sound = out.speed.decode > 0 && out.speed.prefill > 0 && out.speed.forward >= 0 &&
                       out.memory_bytes_per_s >= 0;
    if (sound) return out;
  }
  return std::nullopt;
}

Result<void> cache_speeds(const std::string& path, const std::string& key, const Speeds& speeds) {
  nlohmann::json kept = nlohmann::json::array();
  kept.push_back({{"key", key},
                  {"decode", speeds.speed.decode},
                  {"prefill", speeds.speed.prefill},
                  {"forward", speeds.speed.forward},
                  {"memory_bytes_per_s", speeds.memory_bytes_per_s}});
  for (const auto& entry : read_cache(path))
    if (kept.size() < kMaxCachedSpeeds && entry.is_object() &&
        entry.value("key", nlohmann::json()) != key)
      kept.push_back(entry);
  std::error_code error;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, error);
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  {
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << kept.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    if (!out.flush())
      return fail(Code::kUnavailable, "cannot write the measured speeds to {}", fresh);
  }
  std::filesystem::rename(fresh, path, error);
  if (error) return fail(Code::kUnavailable, "cannot replace {}: {}", path, error.message());
  return {};
}

}  // namespace meadow::server
