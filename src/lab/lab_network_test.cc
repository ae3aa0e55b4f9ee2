// Real namespaces and a real relay. Bounds of time here only tell a delay that is there from one
// that is not; tools/lab check measures how exact they are.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "lab/lab.h"
#include "lab/probe.h"

namespace meadow::lab {
namespace {

class LabNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto possible = check_requirements();
    if (possible) return;
    const char* required = std::getenv("MEADOW_REQUIRE_LAB");
    ASSERT_FALSE(required && *required) << possible.error().text();
    std::cout << "NO LAB HERE: " << possible.error().text() << std::endl;
    GTEST_SKIP();
  }
  std::unique_ptr<Lab> start(std::string_view text) {
    auto lab = Lab::start(parse_lab(text).value());
    EXPECT_TRUE(lab) << lab.error().text();
    return lab ? std::move(*lab) : nullptr;
  }
  Duration median(const Lab& lab, size_t a, size_t b) {
    const auto trips = measure_round_trips(lab, a, b, 11);
    EXPECT_TRUE(trips) << trips.error().text();
    return trips ? trips->at(0.5) : Duration{};
  }
};

TEST_F(LabNetworkTest, DelaysAreThoseOfTheLinks) {
  auto lab = start(
      "host a region=x\nhost b region=x\nhost c region=y\nlink x y rtt=60ms\nlink x x rtt=20ms\n");
  ASSERT_TRUE(lab);
  EXPECT_EQ(lab->address_of(0), "10.90.0.1");
  EXPECT_EQ(lab->address_of(2), "10.90.1.1");
  EXPECT_EQ(lab->with_addresses("{c}:80 {d}"), "10.90.1.1:80 {d}");
  EXPECT_GE(median(*lab, 0, 1), 20ms);
  EXPECT_LT(median(*lab, 0, 1), 50ms);
  EXPECT_GE(median(*lab, 2, 1), 60ms);
  ASSERT_TRUE(lab->set_link(1, 2, {}));
  EXPECT_LT(median(*lab, 2, 1), 20ms);
  EXPECT_GE(median(*lab, 2, 0), 60ms);
  EXPECT_EQ(lab->stats().failed, 0u);
}

TEST_F(LabNetworkTest, JitterAndLoss) {
  auto lab = start("host a\nhost b\ndefault loss=30%\n");
  ASSERT_TRUE(lab);
  const auto trips = measure_round_trips(*lab, 0, 1, 60, 100);
  ASSERT_TRUE(trips) << trips.error().text();
  EXPECT_EQ(trips->sent, 60);
  // 49 % come back: 29 expected, five standard deviations are 19.
  EXPECT_GT(trips->sorted.size(), 10u);
  EXPECT_LT(trips->sorted.size(), 49u);
  EXPECT_GT(lab->stats().lost, 0u);
  ASSERT_TRUE(lab->set_links({.jitter = 20ms}));
  EXPECT_GT(measure_round_trips(*lab, 0, 1, 30)->at(0.9), 15ms);
}

TEST_F(LabNetworkTest, RatesHoldBothWays) {
  auto lab = start("host a\nhost b up=20mbit\nhost c down=20mbit\n");
  ASSERT_TRUE(lab);
  for (const auto& [from, to] : {std::pair<size_t, size_t>{1, 0}, {0, 2}}) {
    const auto rate = measure_rate(*lab, from, to, 300ms);
    ASSERT_TRUE(rate) << rate.error().text();
    EXPECT_LT(*rate, 100e6) << from << " to " << to;
  }
  ASSERT_TRUE(lab->set_rate(1, 0, 0));
  ASSERT_TRUE(lab->set_rate(2, 0, 0));
  EXPECT_GT(measure_rate(*lab, 1, 2, 300ms).value_or(0), 100e6);
}

// Streams survive what the links do to them: every byte, in order, is TCP's own promise; that large
// packets (offload) and small ones both get through is the lab's.
TEST_F(LabNetworkTest, LargePacketsAndSmallOnes) {
  for (const char* offload : {"on", "off"}) {
    auto lab = start(fmt::format("hosts h 2\ndefault rtt=4ms\noption offload={}\n", offload));
    ASSERT_TRUE(lab);
    EXPECT_GT(measure_rate(*lab, 0, 1, 200ms).value_or(0), 20e6) << offload;
    EXPECT_EQ(lab->stats().failed, 0u);
  }
}

TEST_F(LabNetworkTest, ManyHostsAndNothingLeft) {
  const auto open_descriptors = [] {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
  };
  const int before = open_descriptors();
  auto lab = start("hosts h 20\n");
  ASSERT_TRUE(lab);
  EXPECT_LT(median(*lab, 3, 17), 20ms);
  lab.reset();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace meadow::lab
