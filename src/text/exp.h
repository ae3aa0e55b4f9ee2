// e to the power of x in double, the same bits on every processor: sums and products of IEEE
// doubles in a fixed order, no libm. Error below 2 units in the last place. Thread rule: a pure
// function; any thread.
#pragma once

namespace meadow::text {

// x <= 0 or NaN; 0 below about -708 (no subnormal results).
double exp_of(double x);

}  // namespace meadow::text
