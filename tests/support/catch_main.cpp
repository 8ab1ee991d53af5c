// The main function of every test program. What the code under test logs is shown only if its test
// case fails: ctest's output then ends with what went wrong.

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Listener = Catch::EventListenerBase;
#else
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
using Listener = Catch::TestEventListenerBase;
#endif

namespace {

/// Keeps what is logged until it is taken.
class KeptLog final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, {});
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    text_.append(line.data(), line.size());
  }
  void flush_() override {}

  std::string text_;
};

const std::shared_ptr<KeptLog>& kept_log() {
  static const auto log = std::make_shared<KeptLog>();
  return log;
}

class LogOfFailedCases final : public Listener {
 public:
  using Listener::Listener;
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const std::string text = kept_log()->take();
    if (!stats.totals.assertions.allOk()) std::fputs(text.c_str(), stderr);
  }
};
CATCH_REGISTER_LISTENER(LogOfFailedCases)

}  // namespace

int main(int count, char** arguments) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("", kept_log()));
  return Catch::Session().run(count, arguments);
}
