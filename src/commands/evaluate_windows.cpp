// Windows and rows become sequences, which the scorer takes one by one; which ones is decided by
// what is evaluated: a run's checkpoint by the rows of its validation, anything else by windows.

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/evaluations.h"
#include "commands/scored_windows.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/complete/scorer.h"

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

/// Counts the bytes of the texts of tokens that are scored, characters across windows included.
class ByteCounter {
 public:
  explicit ByteCounter(const ModelText& text) : text_(text) {}
  void add(const ScoredWindow& window) {
    const auto& [ids, from] = window.request;
    if (!window.goes_on) {
      bytes_ = finish();
      stream_.emplace(text_, std::span(ids).first(from), no_stops());
    }
    for (std::size_t i = from; i < ids.size(); ++i) bytes_ += stream_.value().add(ids[i]).size();
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

/// Returns the windows that the options ask for, where the run or the model says nothing else.
OverlappingWindows::Cut cut_of(const EvaluateOptions& options, std::int64_t usual,
                               std::int64_t tokens) {
  const std::int64_t wanted = options.model.context.value_or(usual);
  if (wanted < 2) throw ConfigError("--context must be at least 2: a token and what follows it");
  if (options.stride.value_or(1) >= wanted) {
    throw ConfigError("--stride " + format_count(*options.stride) +
                      " must be less than the tokens of a window, " + format_count(wanted) +
                      ": the first of each has nothing that it follows");
  }
  const std::int64_t context = std::min(wanted, tokens);
  return {.context = context, .stride = std::min(options.stride.value_or(wanted - 1), context - 1)};
}

/// Prints what the tokens of all windows come to. `text_bytes` are those of what is scored; absent:
/// they are counted, or nobody knows them.
void print_result(const TokenSource& tokens, const WindowReader& reader,
                  std::vector<TextWindow> windows, std::size_t text_bytes) {
  std::erase_if(windows, [](const TextWindow& window) { return window.tokens == 0; });
  if (windows.empty()) throw ConfigError(tokens.name() + ": has no token whose loss counts");
  const Estimate loss = mean_loss(windows);
  double scored = 0;
  for (const TextWindow& window : windows) scored += window.tokens;
  nlohmann::ordered_json json{
      {"file", tokens.name()},     {"tokens", static_cast<std::int64_t>(scored)},
      {"windows", reader.count()}, {"context", reader.context()},
      {"loss", loss.value},        {"perplexity", std::exp(loss.value)}};
  if (loss.standard_error) {
    json["loss_error"] = *loss.standard_error;
    json["perplexity_error"] = std::exp(loss.value) * *loss.standard_error;
  }
  if (text_bytes > 0) {
    json["bytes"] = text_bytes;
    json["bits_per_byte"] =
        loss.value * scored / std::numbers::ln2 / static_cast<double>(text_bytes);
  }
  print_json_line(json);
}

/// Scores all windows of a source and prints what they come to. `text_bytes` are those of its text;
/// absent: they are counted.
void evaluate(const EvaluateOptions& options, const NamedModel& model, const TokenSource& tokens,
              WindowReader& reader, std::optional<std::size_t> text_bytes) {
  const auto session = model.load_to_score(reader.context(), reader.count());
  log::info("model    {}: {}", options.model.model.string(), session->setup().to_string());
  const StopSignals stop;
  WorkProgress work;
  work.begin("evaluate", {static_cast<std::uint64_t>(reader.count()), "windows"});
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  std::vector<TextWindow> windows(static_cast<std::size_t>(reader.count()));
  struct Scored {
    std::int64_t window = 0;
    std::vector<std::uint8_t> loss{};
  };
  std::map<std::size_t, Scored> under_way;  // sequences by their number
  std::size_t taken = 0;
  std::int64_t read = 0;  // windows
  ByteCounter counter(model.text());
  Scorer scorer(session->engine());
  scorer.run(
      [&]() -> std::optional<ScoreRequest> {
        if (const int signal = stop.received()) throw Interrupted(signal);
        std::optional<ScoredWindow> window = reader.next();
        const std::int64_t begun = window ? window->number + 1 : reader.count();
        work.add(static_cast<std::uint64_t>(begun - std::exchange(read, begun)));
        if (!window) return std::nullopt;
        if (!tokens.has_loss() && !text_bytes) counter.add(*window);
        under_way[taken++] = {.window = window->number, .loss = std::move(window->loss)};
        return std::move(window->request);
      },
      [&](std::size_t number, std::span<const double> logprobs) {
        const Scored scored = under_way.extract(number).mapped();
        TextWindow& window = windows.at(static_cast<std::size_t>(scored.window));
        for (std::size_t i = 0; i < logprobs.size(); ++i) {
          if (scored.loss.at(i) == 0) continue;
          window.nats -= logprobs[i];
          ++window.tokens;
        }
      });
  std::size_t bytes = counter.finish();
  if (text_bytes) {  // of what is not scored: nothing if the first token begins texts
    std::vector<std::int32_t> first(1);
    tokens.read(0, first);
    bytes = *text_bytes - std::min(*text_bytes, model.text().decode(first).size());
  }
  print_result(tokens, reader, std::move(windows), bytes);
}

}  // namespace

void evaluate_windows(const EvaluateOptions& options, const NamedModel& model,
                      const TokenSource& tokens, std::optional<std::size_t> text_bytes) {
  constexpr std::int64_t kContext = 2048;
  if (tokens.size() < 2) {
    throw ConfigError(tokens.name() + ": has less than two tokens, so none that follows another");
  }
  const std::optional<RunConfig> run = model.run();
  const std::int64_t usual = run ? run->data.sequence_length + 1
                                 : std::min(model.config().max_position_embeddings, kContext);
  OverlappingWindows reader(tokens, model.config().vocab_size,
                            cut_of(options, usual, tokens.size()));
  log::info("windows  {} of {} tokens, documents not kept apart (--context, --stride)",
            format_count(reader.count()), format_count(reader.context()));
  evaluate(options, model, tokens, reader, text_bytes);
}

void evaluate_rows(const EvaluateOptions& options, const NamedModel& model, const RunConfig& run,
                   const TokenSource& tokens) {
  ValidationRows reader(
      tokens, model.config().vocab_size,
      {.row_tokens = run.data.sequence_length, .document_mask = run.data.document_mask});
  log::info("windows  {} rows of {} tokens, as the run validates: {}{}",
            format_count(reader.count()), format_count(run.data.sequence_length),
            run.data.packing ? "documents packed whole, " : "",
            run.data.document_mask ? "each document by itself" : "documents not kept apart");
  evaluate(options, model, tokens, reader, {});
}

}  // namespace strata
