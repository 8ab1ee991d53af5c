// `tokenize` calls the tokenizer of the data layer and prints what it made. While that runs, a
// meter shows progress on standard error, apart from the results.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "commands/token_printer.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/commands/commands.h"

namespace strata {
namespace {

/// Shows on standard error how far tokenizing is: one line that is drawn again on a terminal, else
/// a line now and then.
class TokenizeMeter {
 public:
  void show(const TokenizeProgress& p) {
    const double now_s = seconds();
    if (now_s - shown_s_ < (terminal_ ? 0.2 : 10.0)) return;
    shown_s_ = now_s;
    std::string line = "tokenize " + format_count(p.files_done) + '/' + format_count(p.files) +
                       " files " + format_bytes(p.bytes_done) + '/' + format_bytes(p.bytes);
    if (p.bytes_done > 0) {
      const auto done = static_cast<double>(p.bytes_done);
      line += " eta " + format_duration(now_s * (static_cast<double>(p.bytes) - done) / done);
    }
    std::cerr << (terminal_ ? "\r\033[K" : "") << line << (terminal_ ? "" : "\n") << std::flush;
  }
  void clear() const {
    if (terminal_) std::cerr << "\r\033[K" << std::flush;
  }

 private:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  double shown_s_ = 0;
};

void print_set(const std::string& file, std::int64_t documents, std::int64_t tokens,
               std::int64_t learnt) {
  std::cout << file << ": " << format_count(documents) << " documents, " << format_count(tokens)
            << " tokens";
  if (learnt != tokens) std::cout << ", " << format_count(learnt) << " with loss";
  std::cout << '\n';
}

/// Prints documents instead of making files of them.
int show_documents(TokenizeOptions options, std::int64_t count) {
  const bool colours = shows_colours();
  options.threads = 1;
  options.show = [&](const EncodedDocument& document, const Tokenizer* tokenizer) {
    print_tokens(
        std::cout,
        {.name = document.name, .ids = document.ids, .loss = document.loss, .tokenizer = tokenizer},
        colours);
    return --count > 0;
  };
  (void)tokenize(options);
  return 0;
}

}  // namespace

int tokenize_command(TokenizeOptions options, std::int64_t show) {
  log::configure(0, 1, "");
  if (show > 0) return show_documents(std::move(options), show);
  const StopSignals stop;
  TokenizeMeter meter;
  options.progress = [&](const TokenizeProgress& progress) {
    if (const int signal = stop.received()) throw Interrupted(signal);
    meter.show(progress);
  };
  const TokenizeStatistics made = tokenize(options);
  meter.clear();
  print_set(options.output, made.documents, made.tokens, made.learnt_tokens);
  if (!options.validation_output.empty()) {
    print_set(options.validation_output, made.validation_documents, made.validation_tokens,
              made.validation_learnt_tokens);
  }
  return 0;
}

}  // namespace strata
