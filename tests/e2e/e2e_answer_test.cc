// A swarm of real processes answers as the model in one process does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "e2e.h"
#include "format/model_file.h"

namespace meadow::e2e {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

const Arguments kGreedy = {"--prompt", "The river begins in the mountains and", "--max-tokens",
                           "40"};
const Arguments kSampled = {"--prompt", "What is a river?", "--chat", "--max-tokens",
                            "40",       "--temperature",    "0.9",    "--top-p",
                            "0.95",     "--seed",           "7"};

class AnswerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { swarm_ = new TestSwarm(3, 1); }
  static void TearDownTestSuite() {
    delete swarm_;
    swarm_ = nullptr;
  }
  void SetUp() override { ASSERT_TRUE(swarm_->ready()); }
  TestSwarm& swarm() { return *swarm_; }

 private:
  static TestSwarm* swarm_;
};
TestSwarm* AnswerTest::swarm_ = nullptr;

TEST_F(AnswerTest, GreedyTextIsThatOfOneProcess) {
  const Answer answer = swarm().answer(kGreedy);
  expect_same(answer, local_answer(kGreedy));
  EXPECT_EQ(answer.last_peers().size(), 3u);
}

TEST_F(AnswerTest, SampledTextIsThatOfOneProcess) {
  expect_same(swarm().answer(kSampled), local_answer(kSampled));
}

TEST_F(AnswerTest, WithoutPushTheTextIsTheSame) {
  expect_same(swarm().answer(kGreedy + Arguments{"--no-push"}), local_answer(kGreedy));
}

TEST_F(AnswerTest, HalfPrecisionLinksTakeHalfTheBytes) {
  const Answer half = swarm().answer(kGreedy + Arguments{"--codec", "f16"});
  const Answer full = swarm().answer(kGreedy);
  ASSERT_TRUE(half.done.is_object()) << half.err;
  ASSERT_TRUE(full.done.is_object()) << full.err;
  ASSERT_EQ(half.done["tokens"], full.done["tokens"]);
  EXPECT_EQ(2 * half.done["swarm"]["hidden_bytes_sent"].get<uint64_t>(),
            full.done["swarm"]["hidden_bytes_sent"].get<uint64_t>());
}

TEST_F(AnswerTest, TwoClientsAtOnce) {
  auto first = swarm().client(kGreedy);
  auto second = swarm().client(kSampled);
  expect_same(follow(std::move(first)), local_answer(kGreedy));
  expect_same(follow(std::move(second)), local_answer(kSampled));
}

TEST_F(AnswerTest, ClientTouchesOnlyItsPartOfTheModel) {
  const Answer answer = swarm().answer(kGreedy);
  ASSERT_TRUE(answer.done.is_object()) << answer.err;
  const auto file = format::ModelFile::open(model()).value();
  uint64_t ends = 0;
  for (const auto& tensor : file->tensors())
    if (!format::block_of(tensor.name)) ends += tensor.bytes;
  EXPECT_LE(answer.done["weight_bytes_touched"].get<uint64_t>(), ends + ends / 20);
  // Memory of its own: vocabulary, scratch, journal, libraries; weights stay in the mapped file.
  EXPECT_LT(answer.done["private_bytes"].get<uint64_t>(), 96u << 20);
  EXPECT_LT(answer.done["peak_resident_bytes"].get<uint64_t>(), ends + (160u << 20));
}

TEST_F(AnswerTest, StatusNamesBlocksAndHolders) {
  const Finished status = run({"status", swarm()->invite(), "--json"});
  ASSERT_TRUE(status.exit.ok()) << status.err;
  const Json json = status.json();
  ASSERT_TRUE(json.is_object()) << status.out;
  EXPECT_EQ(json["servers"].size(), 3u);
  EXPECT_EQ(json["n_blocks"], model_blocks());
  EXPECT_EQ(json["blocks"].size(), static_cast<size_t>(model_blocks()));
  EXPECT_TRUE(json["gaps"].empty());
  EXPECT_EQ(json["complete"], true);
  std::vector<std::string> seen;
  for (const Json& server : json["servers"]) {
    EXPECT_EQ(server["state"], "online");
    EXPECT_GT(server["decode_tokens_per_s"].get<double>(), 0);
    seen.push_back(server["peer"]);
  }
  EXPECT_THAT(seen, UnorderedElementsAre(swarm()->server(0).peer, swarm()->server(1).peer,
                                         swarm()->server(2).peer));
  const Finished table = run({"status", swarm()->invite()});
  EXPECT_TRUE(table.exit.ok());
  EXPECT_THAT(table.out, HasSubstr("every block has a server online"));
}

TEST_F(AnswerTest, PeopleAreToldThatServersCanRead) {
  const Finished answer =
      run(Arguments{"generate", swarm()->invite(), "--model", model(), "--stats", "--show-route"} +
          kGreedy);
  EXPECT_TRUE(answer.exit.ok()) << answer.err;
  EXPECT_EQ(answer.out, local_answer(kGreedy).text + "\n");
  EXPECT_THAT(answer.err, HasSubstr("can read"));
  EXPECT_THAT(answer.err, HasSubstr("route: 0:10 via "));
  EXPECT_THAT(answer.err, HasSubstr("per second"));
}

TEST_F(AnswerTest, ChatKeepsItsContext) {
  const Finished chat = run(
      {"chat", swarm()->invite(), "--model", model(), "--json", "--max-tokens", "24"},
      "Name one \\\nriver.\n/stats\nAnd another one.\n/reset\nName one \\\nriver.\n/quit\nno\n");
  ASSERT_TRUE(chat.exit.ok()) << chat.err;
  std::vector<Json> answers;
  std::istringstream lines(chat.out);
  for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
  ASSERT_EQ(answers.size(), 3u) << chat.out;
  EXPECT_EQ(answers[0]["reused_tokens"], 0);
  EXPECT_GE(answers[1]["reused_tokens"].get<int>(), answers[0]["prompt_tokens"].get<int>());
  EXPECT_EQ(answers[2]["text"], answers[0]["text"]);
  EXPECT_THAT(chat.err, HasSubstr("per second"));  // of /stats
}

// Interrupts a long first answer of a chat; the second must be as if the first had not been.
void interrupt_first_answer(const Arguments& where) {
  const std::string question = "Name one river.\n/quit\n";
  const Arguments chat = Arguments{"chat"} + where + Arguments{"--model", model()};
  const Finished alone = run(chat + Arguments{"--max-tokens", "200"}, question);
  ASSERT_TRUE(alone.exit.ok()) << alone.err;
  ASSERT_GT(alone.out.size(), 4u);
  auto child =
      apps::ChildProcess::start(Arguments{program()} + chat + Arguments{"--max-tokens", "200"}, {},
                                "Count to one thousand.\n/reset\n" + question);
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->wait_for_stdout(" ", within(kPatience))) << child->stderr_text();
  child->send_signal(SIGINT);
  const auto exit = child->wait(within(kPatience));
  ASSERT_TRUE(exit) << child->stdout_text();
  EXPECT_TRUE(exit->ok()) << exit->text() << child->stderr_text();
  EXPECT_THAT(child->stderr_text(), HasSubstr("[stopped]"));
  EXPECT_TRUE(child->stdout_text().ends_with("\n" + alone.out)) << child->stdout_text();
}

TEST_F(AnswerTest, CtrlCLeavesTheSessionUsable) { interrupt_first_answer({swarm()->invite()}); }

TEST(Ipv6, SwarmAnswers) {
  auto swarm = LocalSwarm::start(program(), "six:secret", within(20s), "[::1]");
  ASSERT_TRUE(swarm) << swarm.error().text();
  for (int i = 0; i < 2; i++) ASSERT_TRUE(swarm->add_server(model(), part(i, 2)));
  const auto ready = swarm->wait_ready(within(60s));
  ASSERT_TRUE(ready) << ready.error().text();
  EXPECT_THAT(swarm->server(0).listen, HasSubstr("[::1]:"));
  auto client =
      swarm->run(Arguments{"generate", swarm->invite(), "--model", model(), "--events"} + kGreedy);
  ASSERT_TRUE(client);
  expect_same(follow(std::move(*client)), local_answer(kGreedy));
}

TEST(Placement, ServersWithoutBlocksTakeThoseServedWorst) {
  auto swarm = LocalSwarm::start(program(), "placed", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  ASSERT_TRUE(swarm->add_server(model(), part(0, 3)));
  ASSERT_TRUE(swarm->wait_ready(within(60s)));
  const auto port = apps::free_port();
  ASSERT_TRUE(port);
  auto second = swarm->run({"serve", model(), swarm->invite(), "--json", "--num-blocks", "20",
                            "--listen", fmt::format("127.0.0.1:{}", *port), "--threads", "1"});
  ASSERT_TRUE(second);
  const auto line = second->read_line(within(60s));
  ASSERT_TRUE(line) << second->stderr_text();
  const Json json = Json::parse(*line, nullptr, false);
  ASSERT_TRUE(json.is_object()) << *line;
  EXPECT_EQ(json["blocks"], Json::parse("[10, 30]"));
  // It read its own blocks and no others.
  const auto file = format::ModelFile::open(model()).value();
  uint64_t own = 0;
  for (const auto& tensor : file->tensors())
    if (const auto block = format::block_of(tensor.name); block && *block >= 10)
      own += tensor.bytes;
  EXPECT_EQ(json["weight_bytes_touched"].get<uint64_t>(), own);
  second->send_signal(SIGTERM);
  const auto exit = second->wait(within(20s));
  ASSERT_TRUE(exit);
  EXPECT_TRUE(exit->ok());
}

TEST(LocalAnswer, PromptFromFileStdinAndOption) {
  auto with = [&](const Arguments& more, const std::string& input = "") {
    const Finished finished = run(
        Arguments{"generate", "--local", "--model", model(), "--max-tokens", "8"} + more, input);
    EXPECT_TRUE(finished.exit.ok()) << finished.err;
    return finished.out;
  };
  const std::string text = with({"--prompt", "One two three"});
  EXPECT_GT(text.size(), 1u);
  EXPECT_EQ(with({}, "One two three"), text);
  EXPECT_EQ(with({"-f", "-"}, "One two three"), text);
}

TEST(LocalAnswer, CtrlCStopsTheAnswerAndNotTheProgram) {
  auto chat = apps::ChildProcess::start(
      {program(), "chat", "--local", "--model", model(), "--max-tokens", "1500"}, {},
      "Tell a very long story about a river.\nSay yes.\n/quit\n");
  ASSERT_TRUE(chat);
  ASSERT_TRUE(chat->wait_for_stdout(" ", within(kPatience))) << chat->stderr_text();
  chat->send_signal(SIGINT);
  ASSERT_TRUE(chat->wait_for_stderr("[stopped]", within(20s))) << chat->stderr_text();
  const auto exit = chat->wait(within(kPatience));
  ASSERT_TRUE(exit) << chat->stdout_text();
  EXPECT_TRUE(exit->ok()) << exit->text() << chat->stderr_text();
}

TEST(LocalAnswer, EndsWhenNobodyReadsIt) {
  auto shell =
      apps::ChildProcess::start({"/bin/sh", "-c",
                                 program() + " generate --local --model " + model() +
                                     " --prompt 'Once upon a time' --max-tokens 8000 | head -c 5"});
  ASSERT_TRUE(shell);
  const auto exit = shell->wait(within(30s));
  ASSERT_TRUE(exit) << "it goes on";
  EXPECT_TRUE(exit->ok());
}

TEST(LocalAnswer, ThreadsDoNotChangeTheText) {
  EXPECT_EQ(local_answer(kGreedy + Arguments{"--threads", "1"}).ids(),
            local_answer(kGreedy + Arguments{"--threads", "3"}).ids());
}

TEST(LocalAnswer, StopStringAndMaxTokens) {
  const Answer& whole = local_answer(kGreedy);
  const std::string stop = whole.text.substr(whole.text.size() / 2, 4);
  const Answer& cut = local_answer(kGreedy + Arguments{"--stop", stop});
  EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(cut.done["reason"], "stop");
  const Answer& three = local_answer({kGreedy[0], kGreedy[1], "--max-tokens", "3"});
  EXPECT_EQ(three.done["reason"], "max-tokens");
  EXPECT_EQ(three.done["tokens"], 3);
  EXPECT_TRUE(whole.text.starts_with(three.text));
}

TEST(LocalAnswer, PerplexityOfATextDoesNotDependOnThreads) {
  const auto perplexity = [](const char* threads) {
    return run({"perplexity", model(), "--text", MEADOW_SOURCE_DIR "/docs/glossary.md", "--context",
                "64", "--windows", "2", "--threads", threads, "--json"})
        .json();
  };
  const Json one = perplexity("1");
  ASSERT_TRUE(one.is_object());
  EXPECT_EQ(one["windows"], 2);
  EXPECT_EQ(one["tokens_scored"], 62);
  EXPECT_GT(one["perplexity"].get<double>(), 1);
  EXPECT_LT(one["perplexity"].get<double>(), 1000);  // a model that knows nothing: the vocabulary
  EXPECT_GT(one["standard_error"].get<double>(), 0);
  EXPECT_EQ(perplexity("3")["perplexity"], one["perplexity"]);
}

TEST(LocalAnswer, BenchInspectAndVersionTellScripts) {
  const Json bench = run({"bench", model(), "--prompt", "32", "--gen", "4", "--json"}).json();
  ASSERT_TRUE(bench.is_object());
  EXPECT_GT(bench["prefill_tokens_per_s"].get<double>(), 0);
  EXPECT_GT(bench["decode_tokens_per_s"].get<double>(), 0);
  EXPECT_GT(bench["decode_gb_per_s"].get<double>(), 0);
  EXPECT_GT(bench["threads"].get<int>(), 0);
  EXPECT_FALSE(bench["cpu_target"].get<std::string>().empty());
  const Json inspect = run({"inspect", model(), "--json"}).json();
  ASSERT_TRUE(inspect.is_object());
  EXPECT_EQ(inspect["architecture"], "llama");
  EXPECT_EQ(inspect["model"]["n_blocks"], model_blocks());
  EXPECT_EQ(inspect["supported"], true);
  EXPECT_TRUE(run({"inspect", model()}).exit.ok());
  EXPECT_TRUE(run({"version", "--json"}).json().contains("numerics"));
  EXPECT_TRUE(run({"help"}).exit.ok());
  EXPECT_TRUE(run({"generate", "--help"}).exit.ok());
}

}  // namespace
}  // namespace meadow::e2e
