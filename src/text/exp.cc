#include "text/exp.h"

#include <bit>
#include <cstdint>

namespace meadow::text {

double exp_of(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  // ln 2 in two parts; the product of the first with any exponent here is exact.
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  if (x != x) return x;
  if (x < -708.0) return 0.0;
  // x = k ln 2 + r with |r| <= ln 2 / 2.
  const double shifted = x * kLog2E - 0.5;
  const auto k = static_cast<int64_t>(shifted);  // towards zero, and shifted is negative: nearest
  const double kd = static_cast<double>(k);
  const double r = (x - kd * kLn2High) - kd * kLn2Low;
  // Taylor's series to r^13 / 13!; the rest is below 2^-58.
  constexpr double kInverseFactorial[] = {
      1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
      1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2};
  double sum = 0.0;
  for (const double c : kInverseFactorial) sum = sum * r + c;
  sum = 1.0 + (r + r * r * sum);
  return sum * std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

}  // namespace meadow::text
