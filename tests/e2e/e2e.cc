#include "e2e.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "format/model_file.h"

namespace meadow::e2e {

TimePoint within(Duration d) { return SystemClock().now() + d; }

std::string program() { return MEADOW_PROGRAM; }

std::string model() {
  const std::string path = MEADOW_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  EXPECT_TRUE(std::filesystem::exists(path)) << "there is no " << path << ": run make setup";
  return path;
}

Arguments operator+(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TemporaryFolder::TemporaryFolder() {
  path_ = (std::filesystem::temp_directory_path() / "meadow-e2e-XXXXXX").string();
  EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Finished run(Arguments arguments, const std::string& input, Duration patience) {
  arguments.insert(arguments.begin(), program());
  TemporaryFolder state;
  auto child =
      apps::ChildProcess::start(arguments, {{"XDG_STATE_HOME", state.file("state")}}, input);
  if (!child) {
    ADD_FAILURE() << child.error().text();
    return {};
  }
  const auto exit = child->wait(within(patience));
  EXPECT_TRUE(exit) << arguments[1] << " did not end; it said: " << child->stdout_text()
                    << child->stderr_text();
  return {exit ? *exit : child->kill(), child->stdout_text(), child->stderr_text()};
}

std::vector<std::string> Answer::last_peers() const {
  std::vector<std::string> out;
  if (done.is_object())
    for (const Json& hop : done["route"]) out.push_back(hop.value("peer", ""));
  return out;
}

void expect_same(const Answer& answer, const Answer& local) {
  EXPECT_EQ(answer.exit.text(), "exit code 0") << answer.err;
  EXPECT_EQ(answer.text, local.text);
  EXPECT_EQ(answer.ids(), local.ids());
}

Answer follow(apps::ChildProcess client, const OnEvent& on_event) {
  Answer answer;
  int tokens = 0;
  const TimePoint until = within(kPatience);
  while (auto line = client.read_line(until)) {
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object()) {
      ADD_FAILURE() << "not an event: " << *line;
      break;
    }
    const std::string kind = event.value("event", "");
    if (kind == "text") answer.text += event.value("text", "");
    if (kind == "token") tokens++;
    if (kind == "route" && answer.first_route.is_null()) answer.first_route = event["route"];
    if (kind == "done") answer.done = event;
    if (on_event) on_event(answer, event, tokens);
  }
  const auto exit = client.wait(until);
  EXPECT_TRUE(exit) << "the client did not end; it said: " << client.stderr_text();
  answer.exit = exit ? *exit : client.kill();
  answer.err =
      client.stderr_text() + client.stdout_text().substr(0, answer.done.is_null() ? 4000 : 0);
  return answer;
}

const Answer& local_answer(const Arguments& arguments) {
  static std::map<Arguments, Answer> known;
  auto [at, is_new] = known.try_emplace(arguments);
  if (!is_new) return at->second;
  auto client = apps::ChildProcess::start(
      Arguments{program(), "generate", "--local", "--model", model(), "--events"} + arguments);
  EXPECT_TRUE(client);
  if (client) at->second = follow(std::move(*client));
  EXPECT_EQ(at->second.exit.text(), "exit code 0") << at->second.err;
  EXPECT_FALSE(at->second.text.empty());
  return at->second;
}

int32_t model_blocks() {
  static const int32_t n = [] {
    const auto file = format::ModelFile::open(model());
    EXPECT_TRUE(file);
    int32_t last = -1;
    if (file)
      for (const auto& tensor : (*file)->tensors())
        if (const auto block = format::block_of(tensor.name)) last = std::max(last, *block);
    return last + 1;
  }();
  return n;
}

BlockRange part(int i, int n) { return {model_blocks() * i / n, model_blocks() * (i + 1) / n}; }

TestSwarm::TestSwarm(int spans, int copies, const Arguments& server_arguments) {
  auto started = LocalSwarm::start(program(), "e2e:secret", within(20s));
  EXPECT_TRUE(started) << started.error().text();
  if (!started) return;
  auto swarm = std::make_unique<LocalSwarm>(std::move(*started));
  for (int copy = 0; copy < copies; copy++)
    for (int i = 0; i < spans; i++) {
      const auto added = swarm->add_server(model(), part(i, spans), server_arguments);
      EXPECT_TRUE(added) << added.error().text();
    }
  const auto ready = swarm->wait_ready(within(60s));
  EXPECT_TRUE(ready) << ready.error().text();
  if (ready) swarm_ = std::move(swarm);
}

apps::ChildProcess TestSwarm::client(const Arguments& arguments) {
  return swarm_
      ->run(Arguments{"generate", swarm_->invite(), "--model", model(), "--events"} + arguments)
      .value();
}

Answer TestSwarm::answer(const Arguments& arguments, const OnEvent& on_event) {
  return follow(client(arguments), on_event);
}

int processes_with(const std::string& name, const std::string& value) {
  int found = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    if (environment.find(name + "=" + value) != std::string::npos) found++;
  }
  return found;
}

}  // namespace meadow::e2e
