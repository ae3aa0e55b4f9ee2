#include "lab/record.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

namespace meadow::lab {
namespace {

Record example() {
  Record record{"home", 0x1234abcd, getpid(), start_time(getpid()), {}};
  record.hosts.push_back({"client", "10.90.0.1", 4026532000, 5});
  record.hosts.push_back({"s1", "10.90.1.1", 4026532001, 7});
  return record;
}

class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path = (std::filesystem::temp_directory_path() / "lab-XXXXXX").string();
};

TEST(Record, ThereAndBack) {
  const Record record = example();
  const auto back = parse_record(to_text(record));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(to_text(*back), to_text(record));
  ASSERT_NE(back->find("s1"), nullptr);
  EXPECT_EQ(back->find("s2"), nullptr);
  EXPECT_EQ(back->path(*back->find("s1")), "/proc/" + std::to_string(getpid()) + "/fd/7");
}

TEST(Record, NothingElseIsOne) {
  const std::string good = to_text(example());
  for (const std::string& bad :
       {std::string(), std::string("x"), "y" + good, good + "more\n", good + "host a b c d\n",
        good + "process 0 1\n", std::string("meadow-lab 1\n"), good + "name ../../etc\n",
        std::string(100000, 'x')})
    EXPECT_FALSE(parse_record(bad)) << bad.substr(0, 200);
  for (size_t cut = 0; cut + 1 < good.size(); cut++) (void)parse_record(good.substr(0, cut));
}

TEST(Record, ReapForgetsTheDeadOnly) {
  Folder folder;
  Record dead = example();
  dead.name = "dead";
  dead.start++;  // another process with the same number
  ASSERT_TRUE(write_record(folder.path, dead));
  ASSERT_TRUE(write_record(folder.path, example()));
  EXPECT_EQ(read_record(folder.path, "dead").error().code, Code::kNotFound);
  const auto reaped = reap(folder.path);
  ASSERT_EQ(reaped.size(), 1u);
  EXPECT_EQ(reaped[0].name, "dead");
  EXPECT_EQ(reaped[0].processes, 0);
  EXPECT_TRUE(read_record(folder.path, "home"));
  EXPECT_EQ(read_records(folder.path).size(), 1u);
  remove_record(folder.path, "home");
  EXPECT_EQ(read_record(folder.path, "home").error().code, Code::kNotFound);
  EXPECT_EQ(read_record(folder.path, "../home").error().code, Code::kNotFound);
}

}  // namespace
}  // namespace meadow::lab
