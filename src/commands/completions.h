// What sequences become: text as their tokens come, and a line of JSON when they end. `generate`
// feeds it with drawn tokens; the file of lines can be gone on with after the process was killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "commands/prompts.h"

namespace strata {

/// A sequence, and what was drawn for it so far.
class Completion {
 public:
  Completion(const ModelText& text, const Prompt& prompt, std::int64_t sample);

  /// Adds a token; `ends` says that it is one that ends texts, of which it gives none. Returns
  /// whether the sequence goes on as far as its text decides. `added` gets the text that is
  /// certain.
  bool add(const DrawnToken& token, bool ends, std::string& added);
  /// Takes what was held back once no token follows; to be called when the sequence is over.
  [[nodiscard]] std::string finish();
  /// Returns {"id", "sample", "text", "finish_reason", "prompt_tokens", "tokens"} as a line, with
  /// "ids" and "logprobs" on request. The reason is "stop" for an end token or a stop, or "length".
  [[nodiscard]] std::string line(bool logprobs) const;
  /// Returns whether as many tokens were drawn as the prompt asks for.
  [[nodiscard]] bool full() const { return std::ssize(ids_) >= prompt_.settings.most_tokens; }
  /// Returns whether it answers a conversation.
  [[nodiscard]] bool is_of_conversation() const { return prompt_.is_conversation; }
  /// Returns the text so far.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  Prompt prompt_;
  std::int64_t sample_;
  TextStream stream_;
  std::string text_;
  bool stopped_ = false;
  std::vector<std::int32_t> ids_;
  std::vector<double> logprobs_;
};

/// What becomes of a file that is there already.
enum class OldOutput : std::uint8_t { kRefuse, kReplace, kResume };

/// Lines of JSON, each written whole. One thread uses it.
class CompletionFile {
 public:
  /// Looks at what is there. With kResume it reads which (id, sample) are in the file, and cuts off
  /// a last line that was not written to its end. Throws ConfigError if there is a file and
  /// kRefuse, or if a line of it is none of these; IoError if it cannot be read.
  CompletionFile(std::filesystem::path path, OldOutput old);
  ~CompletionFile();
  CompletionFile(const CompletionFile&) = delete;
  CompletionFile& operator=(const CompletionFile&) = delete;

  [[nodiscard]] bool has(const std::string& id, std::int64_t sample) const {
    return there_.contains({id, sample});
  }
  [[nodiscard]] std::size_t found() const { return there_.size(); }
  /// Makes the file, or opens it: with kReplace what was in it is gone from now on. Throws IoError.
  void open();
  /// Appends a line in one call, so that whoever kills the process leaves at most one torn line.
  void write(const std::string& line);

 private:
  void read_lines();

  std::filesystem::path path_;
  OldOutput old_;
  int descriptor_ = -1;
  std::set<std::pair<std::string, std::int64_t>> there_;
};

}  // namespace strata
