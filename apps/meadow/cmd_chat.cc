// meadow chat: a conversation. The context is kept between turns; Ctrl-C stops an answer, not the
// program.
#include <memory>

#include "meadow/answering.h"
#include "meadow/chat_input.h"
#include "meadow/chat_prompt.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"

namespace meadow::apps {
namespace {

constexpr int64_t kDefaultContext = 4096;
constexpr char kHelp[] =
    R"(/help   this text
/reset  forget the conversation
/stats  figures of the last answer
/quit   leave (so does Ctrl-D)
A line that ends in \ goes on in the next one; """ begins and ends a text of many lines.
Ctrl-C stops an answer.)";

struct ChatCommand {
  AnswerOptions answer;
  JoinOptions join;
  ComputeOptions compute;
  std::string invite, system;
  bool json = false;
};

class Chat {
 public:
  Chat(const ChatCommand& command, Answering& answering)
      : command_(command), answering_(answering), talk_(is_terminal(0) && !command.json) {
    reset();
  }

  Result<ExitCode> run();

 private:
  void reset();
  // False to leave.
  bool obey(const std::string& line);
  Result<void> turn(const std::string& text);

  const ChatCommand& command_;
  Answering& answering_;
  const bool talk_;  // somebody types
  std::vector<text::Message> messages_;
  std::string stats_ = "no answer yet";
};

void Chat::reset() {
  messages_.clear();
  if (!command_.system.empty()) messages_.push_back({"system", command_.system});
}

bool Chat::obey(const std::string& line) {
  if (line == "/quit" || line == "/exit") return false;
  if (line == "/reset") {
    reset();
    answering_.forget();
    say("The conversation is forgotten.");
  } else if (line == "/stats") {
    say(stats_);
  } else if (line == "/help") {
    say(kHelp);
  } else {
    say("There is no command " + printable(line) + "; /help lists them.");
  }
  return true;
}

Result<void> Chat::turn(const std::string& text) {
  messages_.push_back({"user", text});
  const auto answer = [&]() -> Result<client::GenerateResult> {
    MEADOW_TRY(const auto prompt,
               chat_prompt(answering_.file(), answering_.tokenizer(), messages_));
    return answering_.answer(prompt, &Interrupt::token());
  }();
  if (!answer) {
    messages_.pop_back();  // as if it had not been asked
    return fail(answer.error());
  }
  messages_.push_back({"assistant", answer->text});
  stats_ = answering_.stats_text(*answer);
  stats_.pop_back();
  if (command_.json) {
    put(to_line(answering_.report(*answer)));
  } else {
    put("\n");
    if (answer->reason == client::StopReason::kCancelled) say("[stopped]");
    if (answer->reason == client::StopReason::kContextFull)
      say("[the context is full; /reset begins anew]");
    if (command_.answer.stats) say(stats_);
  }
  return {};
}

Result<ExitCode> Chat::run() {
  if (talk_) say("/help lists the commands.");
  LineReader reader;
  MessageAssembler assembler;
  while (true) {
    if (talk_) {
      std::fputs(assembler.pending() ? ". " : "> ", stderr);
      std::fflush(stderr);
    }
    const LineReader::Line line = reader.next();
    if (line.kind == LineReader::Kind::kInterrupted) {
      if (Interrupt::terminated() || !talk_) return kExitCancelled;
      Interrupt::token().reset();
      assembler.clear();
      say("\n(/quit or Ctrl-D leaves)");
      continue;
    }
    if (line.kind == LineReader::Kind::kEnd) break;
    if (!assembler.pending() && line.text.starts_with('/')) {
      if (!obey(line.text)) break;
      continue;
    }
    const auto message = assembler.add(line.text);
    if (!message || message->find_first_not_of(" \t\n") == std::string::npos) continue;
    if (auto done = turn(*message); !done) {
      report(done.error(), command_.json);
      // People may ask something else; a script must know.
      if (!talk_) return exit_code(done.error().code);
    }
    MEADOW_TRY_VOID(output_written());  // before another answer that nobody gets
    if (Interrupt::terminated()) return kExitCancelled;
    Interrupt::token().reset();
  }
  return kExitOk;
}

Result<ExitCode> run(ChatCommand& command) {
  if (!command.invite.empty()) command.join.join.push_back(command.invite);
  const Telling telling = command.json ? Telling::kJson : Telling::kText;
  MEADOW_TRY(auto answering,
             Answering::open({command.answer, command.join, command.compute, telling}));
  MEADOW_TRY(const int64_t context, answering->context_for(kDefaultContext));
  MEADOW_TRY_VOID(answering->start(context, &Interrupt::token()));
  return Chat(command, *answering).run();
}

}  // namespace

void add_chat(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<ChatCommand>();
  options->answer.generate.max_tokens = 1024;
  CLI::App* command = program.add_subcommand("chat", "Talk with a model");
  command->add_option("invite", options->invite, "The invite of a swarm");
  add_answer_options(*command, options->answer);
  command->add_option("--system", options->system, "What the model is told first")
      ->type_name("TEXT");
  add_compute_options(*command, options->compute);
  add_join_options(*command, options->join, "");
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
