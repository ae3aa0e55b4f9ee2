#include "text/sampler.h"

#include <algorithm>
#include <cmath>

#include "text/exp.h"

namespace meadow::text {

Result<void> check(const SamplingOptions& o) {
  const auto refuse = [](std::string_view option, std::string_view range, auto got) {
    return fail(Code::kInvalidArgument, "{}: expected {}, got {}", option, range, got);
  };
  if (!(o.temperature >= 0) || !std::isfinite(o.temperature))
    return refuse("temperature", "0 or more", o.temperature);
  if (o.top_k < 0) return refuse("top-k", "0 (all) or more", o.top_k);
  if (!(o.top_p > 0 && o.top_p <= 1)) return refuse("top-p", "above 0, at most 1", o.top_p);
  if (!(o.min_p >= 0 && o.min_p <= 1)) return refuse("min-p", "0 to 1", o.min_p);
  if (!(o.repetition_penalty > 0) || !std::isfinite(o.repetition_penalty))
    return refuse("repetition-penalty", "above 0", o.repetition_penalty);
  return {};
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), rng_(options.seed) {}

Result<TokenId> Sampler::sample(std::span<const float> logits, std::span<const TokenId> history) {
  MEADOW_TRY_VOID(check(options_));
  if (logits.empty() || logits.size() > kMaxTokens)
    return fail(Code::kInvalidArgument, "expected 1 to {} logits, got {}", kMaxTokens,
                logits.size());
  candidates_.clear();
  candidates_.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); i++) {
    if (!std::isfinite(logits[i]))
      return fail(Code::kInvalidArgument, "logit of token {}: expected a finite number, got {}", i,
                  logits[i]);
    candidates_.push_back({logits[i], 0, static_cast<TokenId>(i)});
  }
  penalise(history);
  const auto worse = [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; };
  // max_element yields the first of equals, which has the lowest id.
  const Candidate best = *std::max_element(candidates_.begin(), candidates_.end(), worse);
  if (options_.temperature == 0) return best.id;
  for (Candidate& c : candidates_)
    c.weight = exp_of((c.logit - best.logit) / static_cast<double>(options_.temperature));
  keep_top_k();
  keep_top_p();
  std::erase_if(candidates_, [&](const Candidate& c) {  // the best weighs 1
    return c.weight < static_cast<double>(options_.min_p);
  });
  return draw();
}

void Sampler::penalise(std::span<const TokenId> history) {
  if (options_.repetition_penalty == 1) return;
  const double penalty = options_.repetition_penalty;
  seen_.assign(candidates_.size(), false);
  for (const TokenId id : history) {
    if (id < 0 || static_cast<size_t>(id) >= candidates_.size()) continue;
    if (seen_[static_cast<size_t>(id)]) continue;
    seen_[static_cast<size_t>(id)] = true;
    double& logit = candidates_[static_cast<size_t>(id)].logit;
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

namespace {
// A total order: the best first, of equals the lowest id.
constexpr auto kBetter = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};
}  // namespace

void Sampler::keep_top_k() {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(k) - 1,
                   candidates_.end(), kBetter);
  candidates_.resize(k);
  std::sort(candidates_.begin(), candidates_.end(), kBetter);
}

void Sampler::keep_top_p() {
  if (options_.top_p == 1) return;
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  const double wanted = static_cast<double>(options_.top_p) * total;
  // A heap of the best in front costs less than sorting a whole vocabulary for a few tokens.
  const auto worse = [](const Candidate& a, const Candidate& b) { return kBetter(b, a); };
  std::make_heap(candidates_.begin(), candidates_.end(), worse);
  auto end = candidates_.end();
  double sum = 0;
  while (end != candidates_.begin() && sum < wanted) {
    std::pop_heap(candidates_.begin(), end, worse);
    --end;
    sum += end->weight;
  }
  if (end == candidates_.end()) --end;
  candidates_.erase(candidates_.begin(), end);
  std::reverse(candidates_.begin(), candidates_.end());
}

TokenId Sampler::draw() {
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  const double target = rng_.uniform() * total;
  double sum = 0;
  const Candidate* last = &candidates_.front();
  for (const Candidate& c : candidates_) {
    if (c.weight == 0) continue;
    last = &c;
    sum += c.weight;
    if (target < sum) break;
  }
  return last->id;
}

}  // namespace meadow::text
