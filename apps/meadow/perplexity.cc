#include "meadow/perplexity.h"

#include <algorithm>
#include <cmath>

namespace meadow::apps {

Result<std::vector<std::vector<text::TokenId>>> windows_of(std::span<const text::TokenId> ids,
                                                           int64_t context, text::TokenId bos,
                                                           int64_t most) {
  const auto size = static_cast<size_t>(context);
  size_t count = ids.size() / size;
  if (count == 0)
    return fail(Code::kInvalidArgument,
                "the text has {} tokens, one window takes {}: give a longer text or a smaller "
                "--context",
                ids.size(), context);
  if (most > 0) count = std::min(count, static_cast<size_t>(most));
  std::vector<std::vector<text::TokenId>> windows;
  for (size_t i = 0; i < count; i++) {
    const auto part = ids.subspan(i * size, size);
    windows.emplace_back(part.begin(), part.end());
    if (bos != text::kNoToken) windows.back().front() = bos;
  }
  return windows;
}

double surprise(std::span<const float> logits, text::TokenId id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) - (logits[static_cast<size_t>(id)] - largest);
}

void Perplexity::add(double surprise) {
  count_++;
  sum_ += surprise;
  squares_ += surprise * surprise;
}

double Perplexity::mean() const { return count_ > 0 ? sum_ / static_cast<double>(count_) : 0; }

double Perplexity::perplexity() const { return std::exp(mean()); }

double Perplexity::error() const {
  if (count_ < 2) return 0;
  const double variance = squares_ / static_cast<double>(count_) - mean() * mean();
  return std::sqrt(std::max(variance, 0.0) / static_cast<double>(count_ - 1)) * perplexity();
}

}  // namespace meadow::apps
