#include "text/pretokenizer.h"

#include <span>

#include "format/metadata.h"

namespace meadow::text {
namespace {

struct Known {
  std::string_view name;
  Pretokenizer value;
};

constexpr Pretokenizer kGpt2{Pattern::kGpt2};
constexpr Pretokenizer kSmollm{Pattern::kSmollm};
constexpr Pretokenizer kLlama3{Pattern::kLlama3, true, true};
constexpr Pretokenizer kLlama3Merging{Pattern::kLlama3};
constexpr Pretokenizer kQwen2{Pattern::kQwen2};

// Names that mean the same pattern and rules. Names of encoder models (jina-*, roberta-bpe,
// modern-bert) share the first pattern too, but add rules of their own and are not served here.
constexpr Known kKnown[] = {
    {"smollm", kSmollm},
    {"starcoder", kSmollm},
    {"refact", kSmollm},
    {"command-r", kSmollm},
    {"codeshell", kSmollm},
    {"exaone", kSmollm},
    {"minerva-7b", kSmollm},
    {"mellum2", kSmollm},
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"gigachat", kGpt2},
    {"mellum", kGpt2},
    {"a.x-4.0", kGpt2},
    {"exaone4", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"llama-bpe", kLlama3},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"falcon3", kLlama3},
    {"falcon-h1", kLlama3},
    {"pixtral", kLlama3},
    {"midm-2.0", kLlama3},
    {"lfm2", kLlama3},
    {"dbrx", kLlama3Merging},
    {"smaug-bpe", kLlama3Merging},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"kormo", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"grok-2", kQwen2},
};

constexpr CodePoint kEnd = 0xFFFFFFFF;  // what lies behind the last code point of a section

// Walks one section of the text and notes where words end.
class Scanner {
 public:
  Scanner(std::span<const CodePoint> code_points, std::span<const CharClass> classes,
          std::vector<uint32_t>& words)
      : code_points_(code_points), classes_(classes), words_(words) {}

  void gpt2();
  // At most `max_digits` numbers in one word.
  void llama3(size_t max_digits);

 private:
  size_t size() const { return code_points_.size(); }
  CodePoint at(size_t i) const { return i < size() ? code_points_[i] : kEnd; }
  bool is(size_t i, CharClass c) const { return i < size() && classes_[i] == c; }
  bool is_newline(size_t i) const { return at(i) == '\r' || at(i) == '\n'; }
  size_t run(size_t i, CharClass c) const {
    while (is(i, c)) i++;
    return i;
  }
  // The length of a contraction ('s, 're, …) that begins at `start`, or 0.
  size_t contraction(size_t start, bool any_case) const;
  // White space from the current position: \s+(?!\S)|\s+, that is, a run leaves its last
  // character to a word that follows.
  size_t space_end() const;
  void end_word(size_t end) {
    words_.push_back(static_cast<uint32_t>(end - position_));
    position_ = end;
  }

  std::span<const CodePoint> code_points_;
  std::span<const CharClass> classes_;
  std::vector<uint32_t>& words_;
  size_t position_ = 0;
};

size_t Scanner::contraction(size_t start, bool any_case) const {
  if (at(start) != '\'') return 0;
  const auto letter = [&](size_t i) {
    const CodePoint c = at(i);
    return any_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  };
  const CodePoint a = letter(start + 1), b = letter(start + 2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

size_t Scanner::space_end() const {
  const size_t end = run(position_, CharClass::kSpace);
  return end < size() && end - position_ > 1 ? end - 1 : end;
}

void Scanner::gpt2() {
  while (position_ < size()) {
    if (const size_t length = contraction(position_, false)) {
      end_word(position_ + length);
      continue;
    }
    // A word may have one space before it.
    const size_t start = position_ + (at(position_) == ' ' ? 1 : 0);
    if (start < size() && classes_[start] != CharClass::kSpace)
      end_word(run(start, classes_[start]));
    else
      end_word(space_end());
  }
}

void Scanner::llama3(size_t max_digits) {
  while (position_ < size()) {
    if (const size_t length = contraction(position_, true)) {
      end_word(position_ + length);
      continue;
    }
    const CharClass kind = classes_[position_];
    if (kind == CharClass::kNumber) {
      size_t end = position_ + 1;
      while (end - position_ < max_digits && is(end, CharClass::kNumber)) end++;
      end_word(end);
      continue;
    }
    if (!is_newline(position_) &&
        (kind == CharClass::kLetter || is(position_ + 1, CharClass::kLetter))) {
      end_word(run(position_ + 1, CharClass::kLetter));
      continue;
    }
    const size_t start = position_ + (at(position_) == ' ' ? 1 : 0);
    if (is(start, CharClass::kOther)) {
      size_t end = run(start, CharClass::kOther);
      while (is_newline(end)) end++;
      end_word(end);
      continue;
    }
    const size_t spaces = run(position_, CharClass::kSpace);
    size_t last_newline = spaces;
    while (last_newline > position_ && !is_newline(last_newline - 1)) last_newline--;
    end_word(last_newline > position_ ? last_newline : space_end());
  }
}

void scan(std::span<const CodePoint> code_points, std::span<const CharClass> classes,
          Pattern pattern, std::vector<uint32_t>& words) {
  Scanner scanner(code_points, classes, words);
  if (pattern == Pattern::kLlama3)
    scanner.llama3(3);
  else if (pattern == Pattern::kQwen2)
    scanner.llama3(1);
  else
    scanner.gpt2();
}

}  // namespace

Result<Pretokenizer> pretokenizer(std::string_view name) {
  std::string names;
  for (const Known& known : kKnown) {
    if (known.name == name) return known.value;
    names += names.empty() ? "" : ", ";
    names += known.name;
  }
  return fail(Code::kUnsupported,
              "tokenizer.ggml.pre: expected a pre-tokenizer that this version knows ({}), got {}",
              names, format::in_quotes(name));
}

CleanText clean(std::string_view text) {
  CleanText out;
  out.bytes.reserve(text.size());
  out.code_points.reserve(text.size());
  out.classes.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint c = next_code_point(text, offset);
    append_utf8(c, out.bytes);
    out.code_points.push_back(c);
    out.classes.push_back(char_class(c));
  }
  return out;
}

std::vector<uint32_t> split(const CleanText& text, Pattern pattern) {
  std::vector<uint32_t> words;
  const std::span code_points(text.code_points);
  const std::span classes(text.classes);
  if (pattern != Pattern::kSmollm) {
    scan(code_points, classes, pattern, words);
    return words;
  }
  size_t start = 0;
  for (size_t i = 0; i <= classes.size(); i++) {
    if (i < classes.size() && classes[i] != CharClass::kNumber) continue;
    scan(code_points.subspan(start, i - start), classes.subspan(start, i - start), pattern, words);
    if (i < classes.size()) words.push_back(1);
    start = i + 1;
  }
  return words;
}

}  // namespace meadow::text
