// meadow generate: one prompt, one answer.
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "meadow/answering.h"
#include "meadow/chat_prompt.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"

namespace meadow::apps {
namespace {

struct GenerateCommand {
  AnswerOptions answer;
  JoinOptions join;
  ComputeOptions compute;
  std::string invite;
  std::string prompt, file, system;
  bool has_prompt = false;
  bool chat = false, json = false, events = false;
};

constexpr size_t kMaxPromptBytes = size_t{64} << 20;

Result<std::string> read_all(std::istream& in, const std::string& what) {
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxPromptBytes)
      return fail(Code::kResourceExhausted, "{}: more than {} bytes of prompt", what,
                  kMaxPromptBytes);
  }
  return text;
}

Result<std::string> prompt_text(const GenerateCommand& command) {
  if (command.has_prompt) return command.prompt;
  if (command.file.empty() || command.file == "-") return read_all(std::cin, "stdin");
  std::ifstream in(command.file, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read the prompt from {}", command.file);
  return read_all(in, command.file);
}

Result<std::vector<text::TokenId>> encode_prompt(const GenerateCommand& command,
                                                 const Answering& answering) {
  MEADOW_TRY(const std::string prompt, prompt_text(command));
  if (prompt.empty())
    return fail(Code::kInvalidArgument,
                "the prompt is empty: give --prompt TEXT, -f FILE or text on stdin");
  if (!command.chat) return answering.tokenizer().encode(prompt);
  std::vector<text::Message> messages;
  if (!command.system.empty()) messages.push_back({"system", command.system});
  messages.push_back({"user", prompt});
  return chat_prompt(answering.file(), answering.tokenizer(), messages);
}

Result<ExitCode> run(GenerateCommand& command) {
  if (!command.invite.empty()) command.join.join.push_back(command.invite);
  const Telling telling = command.events ? Telling::kEvents
                          : command.json ? Telling::kJson
                                         : Telling::kText;
  MEADOW_TRY(auto answering,
             Answering::open({command.answer, command.join, command.compute, telling}));
  MEADOW_TRY(const auto prompt, encode_prompt(command, *answering));
  const int64_t wanted = static_cast<int64_t>(prompt.size()) + command.answer.generate.max_tokens;
  MEADOW_TRY(const int64_t context, answering->context_for(wanted));
  MEADOW_TRY_VOID(client::check_request(prompt, command.answer.generate, context,
                                        answering->tokenizer().vocab_size()));
  CancelToken& cancel = Interrupt::token();
  MEADOW_TRY_VOID(answering->start(context, &cancel));
  MEADOW_TRY(const auto result, answering->answer(prompt, &cancel));

  Json report = answering->report(result);
  if (telling == Telling::kEvents) report["event"] = "done";
  put(telling == Telling::kText ? "\n" : to_line(report));
  if (command.answer.stats) {
    const std::string stats = answering->stats_text(result);
    say(std::string_view(stats).substr(0, stats.size() - 1));
  }
  return result.reason == client::StopReason::kCancelled ? kExitCancelled : kExitOk;
}

}  // namespace

void add_generate(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<GenerateCommand>();
  options->answer.generate.max_tokens = 128;
  CLI::App* command = program.add_subcommand("generate", "Continue a prompt");
  command->add_option("invite", options->invite, "The invite of a swarm");
  add_answer_options(*command, options->answer);
  CLI::Option* prompt = command->add_option("-p,--prompt", options->prompt, "The text to continue")
                            ->type_name("TEXT");
  command->add_option("-f,--file", options->file, "Read the prompt from a file; - is stdin")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_flag("--chat", options->chat, "The prompt is a question: use the chat template");
  command->add_option("--system", options->system, "With --chat: what the model is told first")
      ->type_name("TEXT");
  command->add_flag("--events", options->events,
                    "JSON lines as things happen (route, token, text, failover, done)");
  add_compute_options(*command, options->compute);
  add_join_options(*command, options->join, "");
  add_json_option(*command, options->json);
  command->callback([&selection, options, prompt] {
    options->has_prompt = prompt->count() > 0;
    if (options->events) options->json = true;
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
