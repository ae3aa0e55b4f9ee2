// Inverse frequencies of rotary positions.
// Thread rule: pure functions.
#pragma once
#include <vector>

#include "base/result.h"
#include "model/hyperparameters.h"
#include "model/loader.h"

namespace meadow::model {

// f32 [n_rot / 2]: value i is rope_base^(-2i / n_rot) / rope_scale / factor[i], computed in f64
// from additions, multiplications and divisions only (so alike everywhere) and rounded once.
//   factors: f32 [n_rot / 2] (the file's rope_freqs.weight), or empty for 1
// kCorrupt if a factor is not above 0 or an angle within the context exceeds 2^20 radians.
Result<std::vector<float>> inverse_frequencies(const Hyperparameters& h,
                                               std::span<const float> factors);

// The same with the factors of the loader's file, as a weight.
Result<compute::Weight> load_inverse_frequencies(Loader& loader, compute::Ops& ops,
                                                 const Hyperparameters& h);

}  // namespace meadow::model
