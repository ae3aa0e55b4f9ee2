// Runs a test body once per runnable target and leaves the choice as it was.
// Thread rule: one thread.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "kernels/target.h"

namespace meadow::kernels::test {

template <class Body>
void on_each_target(Body body) {
  const Target before = active_target();
  for (Target target : runnable_targets()) {
    SCOPED_TRACE(std::string(name(target)));
    ASSERT_TRUE(force_target(target));
    body();
  }
  ASSERT_TRUE(force_target(before));
}

}  // namespace meadow::kernels::test
