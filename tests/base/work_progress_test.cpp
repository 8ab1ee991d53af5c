// Tests the texts about work with a clock of the test's own, and what a terminal and a pipe get of
// work that is under way.

#include "strata/base/work_progress.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "support/catch.h"
#include "support/terminal.h"

namespace strata {

namespace {

/// A clock that a test sets, and any thread reads.
class TestClock {
 public:
  void pass(double seconds) { now_s_ = now_s_ + seconds; }
  [[nodiscard]] std::function<double()> clock() {
    return [this] { return now_s_.load(); };
  }

 private:
  std::atomic<double> now_s_ = 1000;
};

/// A meter that looks so often that a test need not wait for it, or never looks.
constexpr WorkMeter::Pauses kOften{.draw_s = 0.001, .log_s = 0.001};
constexpr WorkMeter::Pauses kNever{.draw_s = 1e6, .log_s = 1e6};

/// Does work of two seconds with a meter, after work that takes no time. The first is told of in
/// the log once `seen()` has returned.
void work_with_meters(WorkMeter::Elsewhere elsewhere, const WorkMeter::Pauses& pauses,
                      const std::function<void()>& seen) {
  log::configure(0, 1, "");
  TestClock time;
  {
    WorkProgress work(time.clock());
    work.begin("short work");
    const WorkMeter meter(work, elsewhere, pauses);
    time.pass(1.4);
  }
  WorkProgress work(time.clock());
  work.begin("long work", {.total = 4 * kMiB});
  const WorkMeter meter(work, elsewhere, pauses);
  work.add(kMiB);
  time.pass(2);
  seen();
  log::info("news");
}

/// A pipe to write to, and a thread that reads it, so that nobody who writes is held up.
class ErrorPipe {
 public:
  ErrorPipe() {
    REQUIRE(pipe(ends_.data()) == 0);
    reader_ = std::jthread([this] {
      for (char c = 0; read(ends_[0], &c, 1) == 1;) {
        const std::lock_guard lock(mutex_);
        text_ += c;
        changed_.notify_all();
      }
    });
  }
  ~ErrorPipe() {
    close_in();
    if (reader_.joinable()) reader_.join();
    close(ends_[0]);
  }
  ErrorPipe(const ErrorPipe&) = delete;
  ErrorPipe& operator=(const ErrorPipe&) = delete;

  [[nodiscard]] int in() const { return ends_[1]; }
  /// Blocks until this was written.
  void wait_for(const std::string& part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return text_.find(part) != text_.npos; });
  }
  /// Returns what was written, when nobody else writes any more.
  [[nodiscard]] std::string all() {
    close_in();
    reader_.join();
    return text_;
  }

 private:
  void close_in() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_{-1, -1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;  ///< guarded by mutex_
  std::jthread reader_;
};

}  // namespace

TEST_CASE("work is shown with its amount, its rate and the time that is left") {
  TestClock time;
  WorkProgress work(time.clock());
  CHECK(work.text().empty());
  work.begin("reading weights", {.total = 12 * kGiB});
  time.pass(2);
  CHECK(work.text() == "reading weights: 0 B/12 GiB, 2s");
  work.add(2 * kGiB);
  work.add(kGiB);
  time.pass(1);
  CHECK(work.text() == "reading weights: 3 GiB/12 GiB, 1 GiB/s, 9s left");
  work.add(20 * kGiB);  // no estimate makes a line that says nonsense
  CHECK(work.text() == "reading weights: 12 GiB/12 GiB, 4 GiB/s, 0s left");
  work.end();
  CHECK(work.text().empty());
  CHECK(work.seconds() == 3);
}

TEST_CASE("work of which nobody knows how long it takes is shown with the time that it took") {
  TestClock time;
  WorkProgress work(time.clock());
  work.begin("taking 64 GiB of pinned memory");
  time.pass(75);
  CHECK(work.text() == "taking 64 GiB of pinned memory, 1m15s");
}

TEST_CASE("work may count other things than bytes, and more than one") {
  TestClock time;
  WorkProgress work(time.clock());
  work.begin("evaluate", {4000, "windows"});
  time.pass(10);
  work.add(5);
  CHECK(work.text() == "evaluate: 5/4,000 windows, 0.5/s, 2h13m left");
  work.set(2000);
  CHECK(work.text() == "evaluate: 2,000/4,000 windows, 200/s, 10s left");
  work.begin("tokenize");
  time.pass(4);
  work.set(kMiB, 2 * kMiB, "7/9 files");
  CHECK(work.text() == "tokenize: 7/9 files, 1 MiB/2 MiB, 256 KiB/s, 4s left");
}

TEST_CASE("nothing is said in the first second and a half, but then of each part at once") {
  TestClock time;
  WorkProgress work(time.clock());
  work.begin("one part");
  time.pass(1.4);
  CHECK(work.text().empty());
  work.begin("another part");
  time.pass(0.2);
  CHECK(work.text() == "another part, 0s");
  work.end();
  time.pass(10);
  work.begin("later work");
  time.pass(1.4);
  CHECK(work.text().empty());
  time.pass(0.2);
  CHECK(work.text() == "later work, 2s");
}

TEST_CASE("all threads count") {
  TestClock time;
  WorkProgress work(time.clock());
  work.begin("counting", {80'000, "steps"});
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 10'000; ++j) count_work(&work, 1);
      });
    }
  }
  count_work(nullptr, 1);
  time.pass(4);
  CHECK(work.text() == "counting: 40,000/80,000 steps, 10,000/s, 4s left");
}

TEST_CASE("a terminal shows long work in a line that is gone before the log goes on") {
  const test::Terminal terminal(30);
  std::string shown;
  {
    const test::StandardError replaced(terminal.side());
    work_with_meters(WorkMeter::Elsewhere::kSilent, kOften,
                     [&] { shown = terminal.read_until(", 512 K"); });
  }
  terminal.end();
  shown += terminal.read_shown();
  INFO(printable(shown));
  CHECK_THAT(shown, !ContainsSubstring("short work"));
  CHECK(shown.starts_with("\r\033[Klong work: 1 MiB/4 MiB, "));
  CHECK_THAT(shown, ContainsSubstring("\r\033[K[") && ContainsSubstring("news\r\n"));
  CHECK(shown.ends_with("\r\033[K"));
  for (std::size_t at = shown.find("long"); at != shown.npos; at = shown.find("long", at + 1)) {
    CHECK(shown.find('\r', at) - at < 30);  // no line is as wide as the terminal
  }
}

TEST_CASE("an error takes the line of its work away") {
  const test::Terminal terminal(80);
  std::string shown;
  {
    const test::StandardError replaced(terminal.side());
    log::configure(0, 1, "");
    const auto fails = [&] {
      TestClock time;
      WorkProgress work(time.clock());
      work.begin("work");
      const WorkMeter meter(work, WorkMeter::Elsewhere::kSilent, kOften);
      time.pass(2);
      shown = terminal.read_until("work, 2s");
      throw std::runtime_error("it fails");
    };
    CHECK_THROWS(fails());
  }
  terminal.end();
  shown += terminal.read_shown();
  CHECK(shown.ends_with("\r\033[K"));
}

TEST_CASE("a pipe gets no word of work that is under way") {
  struct Case {
    WorkMeter::Elsewhere elsewhere;
    WorkMeter::Pauses pauses;
  };
  for (const Case& c :
       {Case{WorkMeter::Elsewhere::kSilent, kOften}, Case{WorkMeter::Elsewhere::kLogged, kNever}}) {
    ErrorPipe pipe;
    {
      const test::StandardError replaced(pipe.in());
      work_with_meters(c.elsewhere, c.pauses, [] {});
    }
    const std::string shown = pipe.all();
    CHECK_THAT(shown, ContainsSubstring("news"));
    CHECK_THAT(shown, !ContainsSubstring("work") && !ContainsSubstring("\r"));
  }
}

TEST_CASE("long work that a job may have hours of is logged now and then where no terminal is") {
  ErrorPipe pipe;
  {
    const test::StandardError replaced(pipe.in());
    work_with_meters(WorkMeter::Elsewhere::kLogged, kOften,
                     [&] { pipe.wait_for("long work: 1 MiB/4 MiB, 512 KiB/s, 6s left\n"); });
  }
  const std::string shown = pipe.all();
  CHECK_THAT(shown, ContainsSubstring("[info]") && ContainsSubstring("news"));
  CHECK_THAT(shown, !ContainsSubstring("short work") && !ContainsSubstring("\r"));
}

}  // namespace strata
