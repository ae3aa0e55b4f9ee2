// The definition of the numerics: scalar code, written to be read. Every kernel of every target
// gives these bits. docs/numerics.md says the same in words. Thread rule: pure functions; any
// thread. Owns nothing. Shapes are those of the public headers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "kernels/matmul.h"

namespace meadow::kernels {
struct PageLayout;
}

namespace meadow::kernels::reference {

// Largest magnitude of a quantised activation that meets weights of `type`: 127 for weights of at
// most 6 bits, 32767 for Q8_0. `type` is a quantised type.
int32_t activation_limit(DType type);

// 32 consecutive activations of one token: x[i] is about q[i] · d.
struct ActivationBlock {
  int16_t q[32];
  float d;
};
// x: f32 [32]
ActivationBlock quantise_activations(const float* x, int32_t limit);

// The float rule: 8 chains over k mod 8, padded with zeros to whole eights.    a, b: f32 [k]
float dot(const float* a, const float* b, int64_t k);

// Rows [first_row, last_row) of matmul(); y as there.
void matmul_rows(const Matrix& w, const float* x, int64_t n, float* y, int64_t first_row,
                 int64_t last_row);
void matmul(const Matrix& w, const float* x, int64_t n, float* y);

// Columns [first, last), whole blocks, of matmul_transposed(); x as there.
void transposed_columns(const Matrix& w, const float* y, int64_t n, float* x, int64_t first,
                        int64_t last);
void matmul_transposed(const Matrix& w, const float* y, int64_t n, float* x);

void matmul_experts(const Experts& w, std::span<const int32_t> ids, int64_t n_used, const float* x,
                    int64_t x_per_token, float* y);
void sum_experts(const float* y, const float* weights, int64_t m, int64_t n_used, int64_t n,
                 float* out);

void dequantise_row(DType type, const uint8_t* row, int64_t k, float* out);

void rms_norm(const float* x, const float* weight, float eps, int64_t d, int64_t n, float* y);
void silu_mul(const float* gate, const float* up, int64_t count, float* out);
void add(const float* a, const float* b, int64_t count, float* out);
void add_rows(float* x, const float* bias, int64_t d, int64_t n);
void rope(float* x, int64_t head_dim, int64_t n_head, const RopeTable& table, RopeStyle style);

// Rounds n positions of one cache head into a page, from `slot` on. False if something is not
// finite once rounded.    k, v: f32 [head_dim, n], positions `step` apart
bool store_head(const PageLayout& layout, uint8_t* page, int64_t head, int64_t slot, int64_t n,
                const float* k, const float* v, int64_t step);
// One query of one head.    q, out: f32 [head_dim]    head: cache head
void attend(const PageShape& shape, std::span<const uint8_t* const> pages, int64_t position,
            const float* q, int64_t head, float scale, float* out);
void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out);

}  // namespace meadow::kernels::reference
