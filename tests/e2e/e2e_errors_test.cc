// What bad input and a bad world get: one clear error, the right exit code, in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"
#include "e2e.h"
#include "format/model_file.h"

namespace meadow::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

Arguments generate(const Arguments& more) {
  return Arguments{"generate", "--model", model()} + more;
}

void expect_error(const Finished& finished, int code, const std::string& text) {
  EXPECT_EQ(finished.exit.code, code) << finished.exit.text() << finished.out << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(text));
}

TEST(Usage, MistakesAreNamed) {
  expect_error(run({}), 2, "meadow");
  expect_error(run({"no-such-command"}), 2, "no-such-command");
  expect_error(run(generate({"--no-such-option"})), 2, "--no-such-option");
  expect_error(run(generate({"--temperature", "-1", "--prompt", "x", "--local"})), 2,
               "temperature");
  expect_error(run({"generate", "--prompt", "x"}), 2, "--model");
  expect_error(run(generate({"--prompt", "x"})), 2, "nobody to join");
  expect_error(run(generate({"not-an-invite", "--prompt", "x"})), 2, "not-an-invite");
  expect_error(run(generate({"meadow-AAAA", "--prompt", "x"})), 2, "invite");
  expect_error(run({"serve", model(), "--blocks", "9:3"}), 2, "--blocks");
  expect_error(run({"serve", model(), "--blocks", "0:999", "--listen", "127.0.0.1:0"}), 2, "999");
}

TEST(Usage, JsonErrorsAreObjects) {
  const Finished finished = run(generate({"--local", "--json", "--prompt", ""}));
  EXPECT_EQ(finished.exit.code, 2);
  ASSERT_TRUE(finished.json().is_object()) << finished.out;
  EXPECT_EQ(finished.json()["error"]["code"], "invalid-argument");
}

TEST(Usage, JsonErrorsOfTheCommandLineAreObjects) {
  for (const Arguments& mistake :
       {Arguments{"no-such-command", "--json"}, generate({"--no-such-option", "--json"}),
        generate({"--json", "--temperature", "-1", "--prompt", "x"}),
        generate({"--events", "--no-such-option"}), Arguments{"inspect", "--json"}}) {
    const Finished finished = run(mistake);
    EXPECT_EQ(finished.exit.code, 2) << mistake[0];
    ASSERT_TRUE(finished.json().is_object()) << mistake[0] << ": " << finished.out;
    EXPECT_EQ(finished.json()["error"]["code"], "invalid-argument");
  }
}

TEST(Usage, ProcessorThatIsNotThereIsAnError) {
  auto child = apps::ChildProcess::start({program(), "version"}, {{"MEADOW_CPU", "abacus"}});
  ASSERT_TRUE(child);
  const auto exit = child->wait(within(20s));
  ASSERT_TRUE(exit);
  EXPECT_EQ(exit->code, 2);
  EXPECT_THAT(child->stderr_text(), testing::AllOf(HasSubstr("abacus"), HasSubstr("scalar")));
  EXPECT_EQ(child->stdout_text(), "");
  EXPECT_THAT(run({"help"}).out, HasSubstr("MEADOW_CPU"));
}

TEST(Usage, NoKeyIsMadeForAnAddressThatIsNone) {
  TemporaryFolder folder;
  for (const Arguments& command : {Arguments{"serve", model()}, Arguments{"bootstrap"}}) {
    const std::string key = folder.file("peer.key");
    expect_error(run(command + Arguments{"--listen", "999.1.1.1:33", "--identity", key}), 2,
                 "999.1.1.1");
    EXPECT_FALSE(std::filesystem::exists(key)) << command[0];
  }
}

// Runs a command line of the shell, `meadow` being the program.
Finished shell(const std::string& line) {
  TemporaryFolder state;
  auto child = apps::ChildProcess::start(
      {"/bin/sh", "-c", "meadow() { timeout 80 \"$MEADOW\" \"$@\"; }; " + line},
      {{"MEADOW", program()}, {"MODEL", model()}, {"XDG_STATE_HOME", state.file("state")}});
  EXPECT_TRUE(child);
  if (!child) return {};
  const auto exit = child->wait(within(kPatience));
  EXPECT_TRUE(exit) << line;
  return {exit ? *exit : child->kill(), child->stdout_text(), child->stderr_text()};
}

TEST(Output, ThatDoesNotArriveIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* line : {
           "meadow --help",
           "meadow version",
           "meadow help",
           "meadow inspect $MODEL",
           "meadow inspect $MODEL --json",
           "meadow generate --local --model $MODEL --prompt River --max-tokens 2",
           "meadow generate --local --model $MODEL --prompt River --max-tokens 2 --json",
           "echo River | meadow chat --local --model $MODEL --max-tokens 2",
           "meadow bootstrap --listen 127.0.0.1:0",
       })
    expect_error(shell(std::string("(") + line + ") >/dev/full"), 6, "standard output");
}

TEST(Output, ThatNobodyReadsIsNone) {
  const Finished finished = shell("{ meadow inspect $MODEL; echo $? >&2; } | true");
  EXPECT_EQ(finished.err, "0\n");
}

#ifdef __linux__
// A machine without any network, not even loopback.
TEST(Offline, LocalModelNeedsNoNetwork) {
  if (shell("unshare -n true").exit.code != 0)
    GTEST_SKIP() << "unshare -n needs root: not tried here";
  const Finished finished = shell(
      "exec unshare -n \"$MEADOW\" generate --local --model $MODEL --prompt River --max-tokens 4");
  EXPECT_TRUE(finished.exit.ok()) << finished.err;
  EXPECT_EQ(finished.out, local_answer({"--prompt", "River", "--max-tokens", "4"}).text + "\n");
}
#endif

TEST(Prompt, EmptyIsRefused) {
  expect_error(run(generate({"--local", "--prompt", ""})), 2, "empty");
  expect_error(run(generate({"--local"}), ""), 2, "empty");
  expect_error(run(generate({"--local", "-f", "/no/such/file"})), 3, "/no/such/file");
}

TEST(Prompt, LongerThanTheContextIsRefusedBeforeAnyWork) {
  std::string text;
  for (int i = 0; i < 100; i++) text += "one two three four five six seven ";
  // No server is there: with any work before the check it would be another error.
  const Finished finished =
      run(generate({"--join", "127.0.0.1:9", "--context", "64", "--prompt", text}), "", 10s);
  expect_error(finished, 2, "holds 64");
  EXPECT_THAT(finished.err, HasSubstr("the prompt has 7"));
  expect_error(run(generate({"--local", "--context", "9999999", "--prompt", "x"})), 2, "9999999");
}

TEST(Perplexity, TextThatCannotBeScored) {
  TemporaryFolder folder;
  const std::string text = folder.file("short.txt");
  std::ofstream(text) << "Three words only.";
  expect_error(run({"perplexity", model(), "--text", text}), 2, "one window takes 512");
  expect_error(run({"perplexity", model(), "--text", text, "--context", "999999"}), 2, "999999");
  expect_error(run({"perplexity", model(), "--text", "/no/such/text"}), 3, "/no/such/text");
}

TEST(File, MissingTruncatedAndGarbage) {
  TemporaryFolder folder;
  expect_error(run({"inspect", "/no/such/model.gguf"}), 3, "/no/such/model.gguf");
  const std::string cut = folder.file("cut.gguf"), noise = folder.file("noise.gguf");
  std::filesystem::copy_file(model(), cut);
  std::filesystem::resize_file(cut, 50'000'000);
  for (const Arguments& command :
       {Arguments{"inspect", cut}, Arguments{"serve", cut, "--listen", "127.0.0.1:0"},
        Arguments{"generate", "--local", "--model", cut, "--prompt", "x"}, Arguments{"bench", cut}})
    expect_error(run(command), 4, "cut.gguf");
  Rng rng(5);
  std::ofstream out(noise, std::ios::binary);
  out << "GGUF";
  for (int i = 0; i < 4096; i++) out.put(static_cast<char>(rng.next()));
  out.close();
  expect_error(run({"inspect", noise}), 4, "noise.gguf");
}

TEST(Network, BootstrapThatDoesNotAnswerIsSaidWithinFiveSeconds) {
  const auto port = apps::free_port();
  ASSERT_TRUE(port);
  const std::string nobody = fmt::format("127.0.0.1:{}", *port);
  const TimePoint start = SystemClock().now();
  expect_error(run(generate({"--join", nobody, "--prompt", "x"})), 5, nobody);
  // One second for the program's own start on a loaded machine.
  EXPECT_LT(SystemClock().now() - start, 6s);
}

TEST(Network, SilentBootstrapIsSaidWithinFiveSeconds) {
  auto swarm = LocalSwarm::start(program(), "quiet", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  swarm->bootstrap().process.send_signal(SIGSTOP);  // takes connections, says nothing
  const TimePoint start = SystemClock().now();
  const Finished finished = run(generate({swarm->invite(), "--prompt", "x"}));
  EXPECT_EQ(finished.exit.code, 5) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr(swarm->bootstrap().listen));
  EXPECT_LT(SystemClock().now() - start, 6s);
}

TEST(Network, PortInUse) {
  auto swarm = LocalSwarm::start(program(), "ports", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  expect_error(run({"bootstrap", "--listen", swarm->bootstrap().listen}, "", 20s), 5,
               swarm->bootstrap().listen);
}

TEST(Network, WrongSecretGetsNothing) {
  auto swarm = LocalSwarm::start(program(), "guarded:right", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  const Finished finished =
      run({"status", "--swarm", "guarded:wrong", "--join", swarm->bootstrap().listen, "--json"});
  EXPECT_EQ(finished.exit.code, 7) << finished.out << finished.err;
  const Finished open =
      run({"status", "--swarm", "guarded:right", "--join", swarm->bootstrap().listen, "--json"});
  EXPECT_EQ(open.exit.code, 0) << open.out << open.err;
}

// Whoever answers at a bootstrap's address must hold the key that the user was told of.
TEST(Network, AnotherKeyAtAToldAddressIsRefused) {
  auto swarm = LocalSwarm::start(program(), "pinned:secret", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  const std::string address = swarm->bootstrap().listen;
  const auto status = [&](const std::string& id) {
    return run({"status", "--swarm", "pinned:secret", "--join", id + "@" + address, "--json"});
  };
  const Finished wrong = status(std::string(63, '0') + "1");
  EXPECT_EQ(wrong.exit.code, 7) << wrong.out << wrong.err;
  const Finished right = status(swarm->bootstrap().peer);
  EXPECT_EQ(right.exit.code, 0) << right.out << right.err;
}

// One identity in two processes would make both come and go for ever.
TEST(Processes, OneIdentityOneProcess) {
  TemporaryFolder folder;
  const std::string key = folder.file("peer.key");
  auto swarm = LocalSwarm::start(program(), "single", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  ASSERT_TRUE(swarm->add_server(model(), BlockRange{0, 2}, {"--identity", key}));
  const auto ready = swarm->wait_ready(within(60s));
  ASSERT_TRUE(ready) << ready.error().text();
  expect_error(run({"serve", model(), "--join", swarm->bootstrap().listen, "--swarm", "single",
                    "--listen", "127.0.0.1:0", "--identity", key}),
               5, "in use by another process");
}

TEST(Network, BlocksThatNobodyHoldsAreNamed) {
  auto swarm = LocalSwarm::start(program(), "gap", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  ASSERT_TRUE(swarm->add_server(model(), part(0, 3)));
  ASSERT_TRUE(swarm->add_server(model(), part(2, 3)));
  const auto ready = swarm->wait_ready(within(60s));
  ASSERT_TRUE(ready) << ready.error().text();
  const Finished finished =
      run(generate({swarm->invite(), "--prompt", "x", "--timeout", "3"}), "", 20s);
  expect_error(finished, 5, "blocks 10 to");
  const Json status = run({"status", swarm->invite(), "--json"}).json();
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["gaps"], Json::parse("[[10, 20]]"));
  EXPECT_EQ(status["complete"], false);
}

TEST(Network, ServerOfAnotherModelIsNamedAndIgnored) {
  TemporaryFolder folder;
  const std::string other = folder.file("other.gguf");
  std::filesystem::copy_file(model(), other);
  {
    const auto file = format::ModelFile::open(model()).value();
    const auto* tensor = file->find("blk.0.attn_q.weight");
    ASSERT_NE(tensor, nullptr);
    std::fstream bytes(other, std::ios::binary | std::ios::in | std::ios::out);
    bytes.seekg(static_cast<std::streamoff>(tensor->offset + 8));  // a quantum of the first block
    const char byte = static_cast<char>(bytes.get() ^ 1);
    bytes.seekp(static_cast<std::streamoff>(tensor->offset + 8));
    bytes.put(byte);
  }
  TestSwarm swarm(1, 1);
  ASSERT_TRUE(swarm.ready());
  ASSERT_TRUE(swarm->add_server(other, {0, model_blocks()}));
  const auto ready = swarm->wait_ready(within(60s));
  ASSERT_TRUE(ready) << ready.error().text();
  const std::string stranger = swarm->server(1).peer;

  const Arguments prompt = {"--prompt", "A river is", "--max-tokens", "12"};
  const Answer answer = swarm.answer(prompt);
  expect_same(answer, local_answer(prompt));
  EXPECT_EQ(answer.last_peers(), Arguments{swarm->server(0).peer});
  const Finished status = run({"status", swarm->invite(), "--model", model(), "--json"});
  const Json json = status.json();
  ASSERT_TRUE(json.is_object()) << status.out << status.err;
  ASSERT_EQ(json["ignored"].size(), 1u) << status.out;
  EXPECT_EQ(json["ignored"][0]["peer"], stranger);
  EXPECT_THAT(json["ignored"][0]["reason"].get<std::string>(), HasSubstr("fingerprint"));
  // Alone it is no help, and the error says why.
  swarm->server(0).process.kill();
  const Finished finished =
      run(generate({swarm->invite(), "--prompt", "x", "--timeout", "3"}), "", 20s);
  EXPECT_EQ(finished.exit.code, 5) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("ignored " + stranger.substr(0, 8)));
}

TEST(Processes, LeaveOnSigterm) {
  auto swarm = LocalSwarm::start(program(), "leaving", within(20s));
  ASSERT_TRUE(swarm) << swarm.error().text();
  ASSERT_TRUE(swarm->add_server(model(), part(0, 3)));
  const auto ready = swarm->wait_ready(within(60s));
  ASSERT_TRUE(ready) << ready.error().text();
  for (apps::PeerProcess* peer : {&swarm->server(0), &swarm->bootstrap()}) {
    peer->process.send_signal(SIGTERM);
    const auto exit = peer->process.wait(within(15s));
    ASSERT_TRUE(exit) << peer->process.stderr_text();
    EXPECT_EQ(exit->text(), "exit code 0") << peer->process.stderr_text();
  }
}

}  // namespace
}  // namespace meadow::e2e
