// A tiny model in which every matrix has another weight type, as llama.cpp quantises it, against
// llama.cpp: with the weights dequantised the logits are the same but for the order of sums, and
// our logits of the quantised file are no further from those than llama.cpp's are.
// Data: tools/golden/weight_types.py.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "dequantised_model.h"
#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "golden_file.h"

namespace meadow::golden {
namespace {

struct Golden {
  Golden() : file(data_path("weight_types.golden"), "MEADOWT1") {
    const auto head = file.read<uint32_t>(2);
    ids = file.read<int32_t>(head[1]);
    truth = file.read<float>(ids.size() * head[0]);
    steps = file.read<float>(ids.size() * head[0]);
    MEADOW_CHECK(file.at_end());
  }

  GoldenFile file;
  std::vector<int32_t> ids;
  std::vector<float> truth, steps;  // [n_vocab, ids]
};

struct Error {
  double rms, largest;
};

Error error(const std::vector<float>& values, const std::vector<float>& truth) {
  EXPECT_EQ(values.size(), truth.size());
  Error e{0, 0};
  for (size_t i = 0; i < truth.size(); i++) {
    const double d = std::abs(double{values[i]} - truth[i]);
    e.rms += d * d;
    if (!(d <= e.largest)) e.largest = d;
  }
  e.rms = std::sqrt(e.rms / static_cast<double>(truth.size()));
  return e;
}

// f32 [n_vocab, ids], with an f32 cache.
std::vector<float> logits(std::shared_ptr<format::ModelFile> file, const Golden& golden) {
  auto ends = engine::ModelEnds::load(file, 2);
  MEADOW_CHECK(ends.has_value());
  const BlockRange blocks{0, (*ends)->hyperparameters().n_blocks};
  auto executor = engine::SpanExecutor::load(file, {blocks, DType::kF32, 2, 64, 16});
  MEADOW_CHECK(executor.has_value() && (*executor)->open({}, blocks, 64).has_value());
  const auto embedded = (*ends)->embed(golden.ids);
  MEADOW_CHECK(embedded.has_value());
  const auto hidden = (*executor)->forward({}, 0, *embedded, nullptr);
  MEADOW_CHECK(hidden.has_value());
  auto out = (*ends)->logits(*hidden);
  MEADOW_CHECK(out.has_value());
  return std::move(*out);
}

class WeightTypes : public ::testing::Test {
 protected:
  const Golden golden_;
  const std::shared_ptr<format::ModelFile> file_ =
      *format::ModelFile::open(data_path("weight_types.gguf"));
};

TEST_F(WeightTypes, AllAreThere) {
  std::set<DType> types;
  for (const format::TensorInfo& t : file_->tensors()) types.insert(*file_->dtype_of(t));
  EXPECT_EQ(types.size(), std::size(kDTypes));
}

TEST_F(WeightTypes, DequantisedEqualsLlamaCppOnIt) {
  const Error ours = error(logits(dequantised(*file_), golden_), golden_.truth);
  std::printf("dequantised: rms %.2e max %.2e\n", ours.rms, ours.largest);
  EXPECT_LE(ours.largest, 3e-5);  // of a range of 7
}

TEST_F(WeightTypes, QuantisedErrorIsThatOfLlamaCppOrLess) {
  const Error ours = error(logits(file_, golden_), golden_.truth);
  const Error theirs = error(golden_.steps, golden_.truth);
  std::printf("ours: rms %.4f max %.4f; llama.cpp: rms %.4f max %.4f\n", ours.rms, ours.largest,
              theirs.rms, theirs.largest);
  EXPECT_LE(ours.rms, theirs.rms);
  EXPECT_LE(ours.largest, theirs.largest);
}

}  // namespace
}  // namespace meadow::golden
