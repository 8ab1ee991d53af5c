// Windows and rows become sequences, which the scorer takes one by one; a window's sums collect
// what its sequences come to.

#include "strata/complete/score_windows.h"

#include <algorithm>
#include <map>
#include <numbers>

#include "strata/base/error.h"
#include "strata/complete/scorer.h"

namespace strata {

namespace {

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

/// A sequence that is being scored.
struct OpenSequence {
  std::int64_t window = 0;
  std::vector<std::uint8_t> loss{};
};

/// Returns the bytes of a text without its first token, which is not scored. They are all of them
/// if that token is one that begins texts.
std::size_t bytes_after_first(const WindowScoring& what, std::size_t text_bytes) {
  std::vector<std::int32_t> first(1);
  what.tokens.read(0, first);
  return text_bytes - std::min(text_bytes, what.text.decode(first).size());
}

WindowScores sum_up(const TokenSource& source, std::vector<WindowLoss> windows,
                    std::size_t text_bytes) {
  std::erase_if(windows, [](const WindowLoss& window) { return window.tokens == 0; });
  if (windows.empty()) throw ConfigError(source.name() + ": has no token whose loss counts");
  double tokens = 0;
  for (const WindowLoss& window : windows) tokens += window.tokens;
  WindowScores scores{
      .tokens = static_cast<std::int64_t>(tokens), .loss = mean_loss(windows), .bytes = text_bytes};
  if (text_bytes > 0) {
    scores.bits_per_byte =
        scores.loss.value * tokens / std::numbers::ln2 / static_cast<double>(text_bytes);
  }
  return scores;
}

}  // namespace

void TextTokens::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, std::ssize(out));
  std::copy_n(ids_.begin() + begin, out.size(), out.begin());
}

WindowScores score_windows(SweepEngine& engine, const WindowScoring& what,
                           const WindowsBegun& begun) {
  WindowReader& reader = what.reader;
  std::vector<WindowLoss> windows(static_cast<std::size_t>(reader.count()));
  std::map<std::size_t, OpenSequence> open;  // sequences by their number
  std::size_t taken = 0;
  std::int64_t read = 0;  // windows
  ByteCounter counter(what.text);
  const auto next = [&]() -> std::optional<ScoreRequest> {
    std::optional<ScoredWindow> window = reader.next();
    const std::int64_t now = window ? window->number + 1 : reader.count();
    begun(now - std::exchange(read, now));
    if (!window) return std::nullopt;
    if (!what.tokens.has_loss() && !what.text_bytes) counter.add(*window);
    open[taken++] = {.window = window->number, .loss = std::move(window->loss)};
    return std::move(window->request);
  };
  const auto scored = [&](std::size_t number, std::span<const double> logprobs) {
    const OpenSequence sequence = open.extract(number).mapped();
    WindowLoss& window = windows.at(static_cast<std::size_t>(sequence.window));
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      if (sequence.loss.at(i) == 0) continue;
      window.nats -= logprobs[i];
      ++window.tokens;
    }
  };
  Scorer(engine).run(next, scored);
  const std::size_t bytes =
      what.text_bytes ? bytes_after_first(what, *what.text_bytes) : counter.finish();
  return sum_up(what.tokens, std::move(windows), bytes);
}

}  // namespace strata
