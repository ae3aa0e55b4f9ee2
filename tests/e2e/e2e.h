// What the end-to-end tests share: the program, the small model, a swarm, a client whose events are
// followed.
// Thread rule: one thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meadow/local_swarm.h"

namespace meadow::e2e {

using apps::Json;
using apps::LocalSwarm;
using Arguments = std::vector<std::string>;

// Longer than anything here takes on a slow machine; a hang ends here with a message.
inline constexpr Duration kPatience = 90s;
TimePoint within(Duration d);

std::string program();
// Path of the small model; a failure of the test that says what to do if it is not there.
std::string model();
// `arguments` with `more` after them.
Arguments operator+(Arguments arguments, const Arguments& more);

// A folder of its own for one test, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A command that ran to its end.
struct Finished {
  apps::Exit exit;
  std::string out, err;
  // stdout as one JSON value; discarded (is_discarded()) if it is none.
  Json json() const { return Json::parse(out, nullptr, false); }
};
Finished run(Arguments arguments, const std::string& input = "", Duration patience = kPatience);

// An answer told in events.
struct Answer {
  apps::Exit exit;
  std::string text, err;
  Json done;         // the last event; null if it did not come
  Json first_route;  // of the first route event
  Json ids() const { return done.is_object() ? done["token_ids"] : Json(); }
  Json failovers() const { return done.is_object() ? done["failovers"] : Json::array(); }
  // The peers of the last route.
  std::vector<std::string> last_peers() const;
};
// Expects a good end and the text and tokens of `local`.
void expect_same(const Answer& answer, const Answer& local);

// Sees each event as it comes, with the number of tokens so far.
using OnEvent = std::function<void(const Answer& so_far, const Json& event, int tokens)>;
// Follows a client's events to their end.
Answer follow(apps::ChildProcess client, const OnEvent& on_event = {});
// The answer of the whole model in one process, computed once per list of arguments.
const Answer& local_answer(const Arguments& arguments);

// A bootstrap peer and servers that hold the model in `spans` parts, each `copies` times, online.
class TestSwarm {
 public:
  TestSwarm(int spans, int copies, const Arguments& server_arguments = {});

  LocalSwarm* operator->() { return swarm_.get(); }
  // False if it did not start; the test has failed then.
  bool ready() const { return swarm_ != nullptr; }

  // Starts generate --events with these further arguments.
  apps::ChildProcess client(const Arguments& arguments);
  Answer answer(const Arguments& arguments, const OnEvent& on_event = {});

 private:
  std::unique_ptr<LocalSwarm> swarm_;
};

// The small model's block count, and the range of part `i` of `n`.
int32_t model_blocks();
BlockRange part(int i, int n);

// How many processes carry NAME=VALUE in their environment.
int processes_with(const std::string& name, const std::string& value);

}  // namespace meadow::e2e
