// Where the files that are compiled once per target hand out their kernels. Internal to this
// folder. Thread rule: any thread.
#pragma once
#include "kernels/table.h"
#include "kernels/target.h"

namespace meadow::kernels {

// Whether the processor has `target` and this build its kernels. Defined beside fill_elementwise().
bool target_is_supported(Target target);
// Put the kernels of `target` into `table`; leave it alone for kScalar or a target not built.
void fill_matmul(Target target, Table& table);
void fill_transposed(Target target, Table& table);
void fill_elementwise(Target target, Table& table);

}  // namespace meadow::kernels
