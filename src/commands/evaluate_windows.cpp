// Windows become sequences, which the scorer takes one by one. All are equally long, and each
// begins with a token of the one before or more of them: a token counts in the first window that
// has it after others.

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/evaluations.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/run/scorer.h"

namespace strata {

namespace {

/// The sums of the tokens of a window whose loss counts.
struct TextWindow {
  double nats = 0;
  double tokens = 0;
};

/// Returns the mean loss of a token. The error takes windows as drawn: tokens of one have much in
/// common.
Estimate mean_loss(const std::vector<TextWindow>& windows) {
  double nats = 0;
  double tokens = 0;
  for (const TextWindow& window : windows) {
    nats += window.nats;
    tokens += window.tokens;
  }
  Estimate mean{.value = nats / tokens};
  if (windows.size() < 2) return mean;
  double squares = 0;
  for (const TextWindow& window : windows) {
    const double off = window.nats - mean.value * window.tokens;
    squares += off * off;
  }
  const auto count = static_cast<double>(windows.size());
  mean.standard_error = std::sqrt(squares * count / (count - 1)) / tokens;
  return mean;
}

/// Reads a source window by window, and knows which tokens of each are new.
class WindowReader {
 public:
  WindowReader(const TokenSource& tokens, std::int64_t vocabulary, std::int64_t context,
               std::int64_t stride)
      : tokens_(tokens),
        vocabulary_(vocabulary),
        context_(context),
        stride_(stride),
        count_(1 + (tokens.size() - context + stride - 1) / stride) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Returns the next window, or nothing. The last one ends with the last token.
  [[nodiscard]] std::optional<ScoreRequest> next() {
    if (taken_ == count_) return std::nullopt;
    const std::int64_t begin = std::min(taken_++ * stride_, tokens_.size() - context_);
    ScoreRequest window{.ids = std::vector<std::int32_t>(static_cast<std::size_t>(context_)),
                        .from = static_cast<std::size_t>(scored_to_ - begin)};
    tokens_.read(begin, window.ids);
    for (std::size_t i = 0; i < window.ids.size(); ++i) {
      if (window.ids[i] >= 0 && window.ids[i] < vocabulary_) continue;
      const TokenPlace place = tokens_.place_of(begin + static_cast<std::int64_t>(i));
      throw ConfigError(place.file + ": token " + format_count(place.token) + " is " +
                        std::to_string(window.ids[i]) + ", and the model's vocabulary is " +
                        format_count(vocabulary_));
    }
    scored_to_ = begin + context_;
    return window;
  }

 private:
  const TokenSource& tokens_;
  std::int64_t vocabulary_;
  std::int64_t context_;
  std::int64_t stride_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::int64_t scored_to_ = 1;  ///< tokens before this one are first, or scored in a window
};

/// Counts the bytes of the texts of tokens that come one after another.
class ByteCounter {
 public:
  explicit ByteCounter(const ModelText& text) : text_(text) {}
  void add(const ScoreRequest& window) {
    if (!stream_) stream_.emplace(text_, std::span(window.ids).first(window.from), no_stops());
    for (std::size_t i = window.from; i < window.ids.size(); ++i) {
      bytes_ += stream_->add(window.ids[i]).size();
    }
  }
  [[nodiscard]] std::size_t finish() {
    return bytes_ + (stream_ ? stream_->finish().size() : std::size_t{0});
  }

 private:
  static std::vector<std::string> no_stops() { return {}; }

  const ModelText& text_;
  std::optional<TextStream> stream_;
  std::size_t bytes_ = 0;
};

}  // namespace

void evaluate_windows(const EvaluateOptions& options, const NamedModel& model,
                      const TokenSource& tokens, std::optional<std::size_t> text_bytes) {
  constexpr std::int64_t kContext = 2048;
  const LlamaConfig& config = model.config();
  if (tokens.size() < 2) {
    throw ConfigError(tokens.name() + ": has less than two tokens, so none that follows another");
  }
  const std::int64_t wanted =
      options.model.context.value_or(std::min(config.max_position_embeddings, kContext));
  if (wanted < 2) throw ConfigError("--context must be at least 2: a token and what follows it");
  if (options.stride.value_or(1) >= wanted) {
    throw ConfigError("--stride " + format_count(*options.stride) +
                      " must be less than the tokens of a window, " + format_count(wanted) +
                      ": the first of each has nothing that it follows");
  }
  const std::int64_t context = std::min(wanted, tokens.size());
  const std::int64_t stride = std::min(options.stride.value_or(wanted - 1), context - 1);
  WindowReader reader(tokens, config.vocab_size, context, stride);
  const auto session = model.load_to_score(context, reader.count());
  log::info("model    {}: {}", options.model.model.string(), session->setup().to_string());
  const StopSignals stop;
  WorkProgress work;
  work.begin("evaluate", {static_cast<std::uint64_t>(reader.count()), "windows"});
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  std::vector<TextWindow> windows(static_cast<std::size_t>(reader.count()));
  std::map<std::size_t, std::vector<std::uint8_t>> losses;  // of windows that are being scored
  std::size_t taken = 0;
  std::int64_t new_to = 1;
  ByteCounter counter(model.text());
  Scorer scorer(session->assembly());
  scorer.run(
      [&]() -> std::optional<ScoreRequest> {
        if (const int signal = stop.received()) throw Interrupted(signal);
        std::optional<ScoreRequest> window = reader.next();
        if (!window) return window;
        std::vector<std::uint8_t> loss(window->ids.size() - window->from);
        tokens.read_loss(new_to, loss);
        new_to += std::ssize(loss);
        losses[taken++] = std::move(loss);
        if (!tokens.has_loss() && !text_bytes) counter.add(*window);
        return window;
      },
      [&](std::size_t number, std::span<const double> logprobs) {
        const std::vector<std::uint8_t> loss = losses.extract(number).mapped();
        TextWindow& window = windows.at(number);
        for (std::size_t i = 0; i < logprobs.size(); ++i) {
          if (loss.at(i) == 0) continue;
          window.nats -= logprobs[i];
          ++window.tokens;
        }
        work.add(1);
      });
  std::erase_if(windows, [](const TextWindow& window) { return window.tokens == 0; });
  if (windows.empty()) throw ConfigError(tokens.name() + ": has no token whose loss counts");
  const Estimate loss = mean_loss(windows);
  double scored = 0;
  for (const TextWindow& window : windows) scored += window.tokens;
  nlohmann::ordered_json json{
      {"file", tokens.name()},     {"tokens", static_cast<std::int64_t>(scored)},
      {"windows", reader.count()}, {"context", context},
      {"loss", loss.value},        {"perplexity", std::exp(loss.value)}};
  if (loss.standard_error) {
    json["loss_error"] = *loss.standard_error;
    json["perplexity_error"] = std::exp(loss.value) * *loss.standard_error;
  }
  std::size_t bytes = counter.finish();
  if (text_bytes) {  // of what is not scored: nothing if the first token begins texts
    std::vector<std::int32_t> first(1);
    tokens.read(0, first);
    bytes = *text_bytes - std::min(*text_bytes, model.text().decode(first).size());
  }
  if (bytes > 0) {
    json["bytes"] = bytes;
    json["bits_per_byte"] = loss.value * scored / std::numbers::ln2 / static_cast<double>(bytes);
  }
  print_json_line(json);
}

}  // namespace strata
