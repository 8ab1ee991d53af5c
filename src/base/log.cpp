// Builds the logger that all ranks use: standard error, an optional file, and a pattern that names
// ranks other than 0. Every line from info on is flushed, so a run that dies keeps its last words.
// On a terminal the sink of standard error also keeps one line that is drawn again and again.

#include "strata/base/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/text.h"

namespace {

/// A format string with what it is about, itself a value of one: spdlog formats it where it catches
/// what formatting throws.
struct Message {
  fmt::string_view format;
  fmt::format_args values;
};

}  // namespace

template <>
struct fmt::formatter<Message> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const Message& message, fmt::format_context& context) const {
    return fmt::vformat_to(context.out(), message.format, message.values);
  }
};

namespace strata::log {

namespace {

/// spdlog's names, by Level.
constexpr std::array kLevels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                             spdlog::level::err};

/// Standard error, with a live line below what was logged if that is a terminal.
class ConsoleSink final : public spdlog::sinks::stderr_color_sink_mt {
 public:
  /// Only rank 0 shows a live line: several would take turns in one place.
  explicit ConsoleSink(int rank) : terminal_(rank == 0 && isatty(STDERR_FILENO) != 0) {}

  [[nodiscard]] bool shows_live() const { return terminal_; }
  void log(const spdlog::details::log_msg& message) override {
    const std::lock_guard lock(mutex_);
    if (!live_.empty()) draw("");
    spdlog::sinks::stderr_color_sink_mt::log(message);
    if (!live_.empty()) draw(live_);
  }
  void show(std::string_view text) {
    if (!terminal_) return;
    const std::lock_guard lock(mutex_);
    std::string shown = printable_name(text);
    if (shown == live_) return;
    live_ = std::move(shown);
    draw(live_);
  }
  void print_above(FunctionRef<void()> print) {
    const std::lock_guard lock(mutex_);
    if (!live_.empty()) draw("");
    print();
    if (!live_.empty()) draw(live_);
  }

 private:
  static void draw(std::string_view text) {
    const std::size_t columns = terminal_columns(STDERR_FILENO);
    // A line that is as wide as the terminal would leave the cursor on the next one.
    const std::string shown(text.substr(0, (columns == 0 ? 80 : columns) - 1));
    std::fprintf(stderr, "\r\033[K%s", shown.c_str());
    std::fflush(stderr);
  }

  const bool terminal_;
  std::mutex mutex_;
  std::string live_;
};

/// A file to whose end lines are written, each as it comes.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const std::string& file)
      : file_(file), descriptor_(open_to_write(file, O_WRONLY | O_APPEND)) {}
  ~FileSink() override { ::close(descriptor_); }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t written = ::write(descriptor_, line.data() + done, line.size() - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw spdlog::spdlog_ex(file_ + " cannot be written", errno);
      done += static_cast<std::size_t>(written);
    }
  }
  void flush_() override {}

  std::string file_;
  int descriptor_;
};

/// What a line says, without what a terminal would obey in names and damaged files. Further lines
/// of it are indented, so that only the log's own begin with a time.
class PrintableText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& line) override {
    const std::string text =
        printable_message(std::string_view(message.payload.data(), message.payload.size()));
    line.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableText>();
  }
};

/// Returns the sink that configure() made, or null before it was called.
std::shared_ptr<ConsoleSink> console_sink() {
  return std::dynamic_pointer_cast<ConsoleSink>(spdlog::default_logger()->sinks().front());
}

}  // namespace

void configure(int rank, int ranks, const std::string& file) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<ConsoleSink>(rank)};
  sinks.front()->set_level(spdlog::level::info);
  if (!file.empty()) sinks.push_back(std::make_shared<FileSink>(file));
  auto logger = std::make_shared<spdlog::logger>("strata", sinks.begin(), sinks.end());
  const std::string who =
      rank == 0 ? "" : "[rank " + std::to_string(rank) + " of " + std::to_string(ranks) + "] ";
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableText>('*');
  formatter->set_pattern("[%Y-%m-%d %H:%M:%S] [%^%l%$] " + who + "%*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(rank == 0 ? spdlog::level::debug : spdlog::level::warn);
  // One line a step is rare enough to flush each.
  logger->flush_on(spdlog::level::info);
  logger->set_error_handler(
      [reported = std::make_shared<std::once_flag>()](const std::string& why) {
        std::call_once(*reported, [&] {
          std::fprintf(stderr, "strata: lines of the log are lost: %s; the program goes on\n",
                       printable_message(why).c_str());
        });
      });
  spdlog::set_default_logger(std::move(logger));
}

void write(Level level, fmt::string_view format, fmt::format_args values) {
  spdlog::default_logger_raw()->log(kLevels.at(static_cast<std::size_t>(level)), "{}",
                                    Message{format, values});
}

void live(std::string_view text) {
  if (const auto console = console_sink()) console->show(text);
}

bool shows_live() {
  const auto console = console_sink();
  return console && console->shows_live();
}

void print_above(FunctionRef<void()> print) {
  const auto console = console_sink();
  return console ? console->print_above(print) : print();
}

}  // namespace strata::log
