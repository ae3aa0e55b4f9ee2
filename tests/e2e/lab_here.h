// Whether this machine can have a lab; tests that need one ask first.
// Thread rule: one thread.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "lab/host_network.h"

namespace meadow::e2e {

// True if a lab can be had. Otherwise the test is to skip: it is told why, and it has failed if
// MEADOW_REQUIRE_LAB is set.
inline bool lab_here() {
  const auto possible = lab::check_requirements();
  if (possible) return true;
  std::cout << "NO LAB HERE: " << possible.error().text() << std::endl;
  const char* required = std::getenv("MEADOW_REQUIRE_LAB");
  EXPECT_FALSE(required && *required) << possible.error().text();
  return false;
}

}  // namespace meadow::e2e
