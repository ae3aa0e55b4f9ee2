#include "meadow/bench_machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "kernels/stream_read.h"
#include "meadow/child_process.h"
#include "text/tokenizer.h"

namespace meadow::apps {
namespace {

// Memory with a page of its own behind every address.
class Buffer {
 public:
  static Result<Buffer> make(size_t bytes, ThreadPool& pool) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return fail(Code::kResourceExhausted, "no memory for {} bytes to read", bytes);
    auto* data = static_cast<uint8_t*>(memory);
    pool.run(bytes, size_t{1} << 22, [data](size_t begin, size_t end, int) {
      std::fill(data + begin, data + end, uint8_t{1});
    });
    return Buffer(data, bytes);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  ~Buffer() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  ByteView view() const { return {data_, bytes_}; }

 private:
  Buffer(uint8_t* data, size_t bytes) : data_(data), bytes_(bytes) {}
  uint8_t* data_;
  size_t bytes_;
};

size_t stream_bytes() {
  const long last_cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max<size_t>(size_t{1} << 30,
                          last_cache > 0 ? 4 * static_cast<size_t>(last_cache) : 0);
}

}  // namespace

Result<std::vector<StreamSpeed>> measure_stream(int threads, const Clock& clock) {
  constexpr std::array<size_t, 5> kAhead = {0, 1024, 2048, 4096, 8192};
  constexpr int kPasses = 3;
  std::vector<int> counts;
  for (int n = 1; n < threads; n *= 2) counts.push_back(n);
  counts.push_back(threads);
  ThreadPool all(threads);
  MEADOW_TRY(const Buffer buffer, Buffer::make(stream_bytes(), all));
  std::vector<StreamSpeed> speeds;
  for (int n : counts) {
    ThreadPool pool(n);
    StreamSpeed best{n};
    for (int pass = 0; pass < kPasses; pass++)
      for (size_t ahead : kAhead) {
        const TimePoint start = clock.now();
        kernels::stream_read(buffer.view(), ahead, pool);
        const double speed =
            static_cast<double>(buffer.view().size()) / seconds(clock.now() - start) / 1e9;
        if (ahead == 0) best.plain_gb_per_s = std::max(best.plain_gb_per_s, speed);
        if (speed > best.gb_per_s) best.gb_per_s = speed, best.prefetch_ahead = ahead;
      }
    speeds.push_back(best);
  }
  return speeds;
}

Result<StartTimes> measure_start_here(const std::string& path, int threads, DType cache,
                                      const Clock& clock) {
  StartTimes times;
  TimePoint last = clock.now();
  const auto lap = [&](double& to) {
    const TimePoint now = clock.now();
    to = milliseconds(now - last);
    last = now;
  };
  MEADOW_TRY(const auto file, format::ModelFile::open(path));
  MEADOW_TRY(const auto h, model::hyperparameters(*file));
  lap(times.map);
  MEADOW_TRY(const auto tokenizer, text::Tokenizer::from(file->metadata()));
  lap(times.tokenizer);
  MEADOW_TRY(const auto ends, engine::ModelEnds::load(file, threads));
  MEADOW_TRY(const auto executor, engine::SpanExecutor::load(file, {.blocks = {0, h.n_blocks},
                                                                    .cache_type = cache,
                                                                    .threads = threads,
                                                                    .cache_tokens = 64,
                                                                    .crew = ends->crew()}));
  MEADOW_TRY_VOID(executor->open({}, {0, h.n_blocks}, 1));
  lap(times.weights);
  const int32_t id = std::max(tokenizer->bos(), 0);
  MEADOW_TRY(const auto hidden, ends->embed({&id, 1}));
  MEADOW_TRY(const auto out, executor->forward({}, 0, hidden, nullptr));
  MEADOW_TRY_VOID(ends->logits(out));
  lap(times.decode);
  return times;
}

Json to_json(const StartTimes& times) {
  return {{"total_ms", times.total},
          {"map_ms", times.map},
          {"tokenizer_ms", times.tokenizer},
          {"weights_ms", times.weights},
          {"decode_ms", times.decode}};
}

Result<StartTimes> measure_start(const std::vector<std::string>& arguments, const Clock& clock) {
  std::vector<std::string> argv = {"/proc/self/exe", "bench"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const TimePoint start = clock.now();
  MEADOW_TRY(ChildProcess child, ChildProcess::start(argv));
  const TimePoint limit = start + std::chrono::minutes(10);
  const std::optional<std::string> line = child.read_line(limit);
  const Duration total = clock.now() - start;
  const std::optional<Exit> ended = child.wait(limit);
  const Json said = Json::parse(line.value_or(""), nullptr, false);
  if (!ended || !ended->ok() || !said.is_object() || !said.contains("decode_ms"))
    return fail(Code::kInternal, "the measured process failed ({}): {}",
                ended ? ended->text() : "it hangs", line.value_or(child.stderr_text()));
  return StartTimes{milliseconds(total), said["map_ms"], said["tokenizer_ms"], said["weights_ms"],
                    said["decode_ms"]};
}

}  // namespace meadow::apps
