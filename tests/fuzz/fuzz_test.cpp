// Tests the fuzzers' own judgement: whatever a case may do wrong is noticed, and cases are the same
// each time.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "fuzz/cases.h"
#include "fuzz/child.h"
#include "fuzz/verdict.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::fuzz {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("strata_fuzz_test_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The limits of a child that reaches none, or the one of memory alone.
Limits no_hang() {
  Limits limits;
  limits.resident_bytes = 64ul << 20;
  return limits;
}

/// Judges a child that has an input file and may make "out.bin".
std::string judge_child(const std::function<int()>& body, const Limits& limits = no_hang()) {
  const Folder folder;
  std::ofstream(folder.path() / "input.bin") << "an input";
  const Case c{
      .files = {}, .arguments = {"tokenize"}, .subjects = {"input.bin"}, .outputs = {"out.bin"}};
  const Listing before = list(folder.path());
  const Ending ending =
      run_child({.folder = folder.path(), .limits = limits, .training = {}, .body = body});
  return judge(c, {}, ending, before, list(folder.path()));
}

int say(const char* text, int code) {
  std::fputs(text, stderr);
  return code;
}

}  // namespace

TEST_CASE("a case that ends as it may is no finding") {
  CHECK(judge_child([] { return say("done", 0); }).empty());
  CHECK(judge_child([] { return say("input.bin: is damaged", 2); }).empty());
  CHECK(judge_child([] {
          std::ofstream("out.bin") << "tokens";
          return 0;
        }).empty());
}

TEST_CASE("a crash, a wait for ever, endless work and endless memory are findings") {
  CHECK_THAT(judge_child([] { return std::raise(SIGKILL); }), ContainsSubstring("crashed"));
  // These never end by themselves, so their limits may be as short as one likes.
  Limits idle = no_hang();
  idle.idle_s = 0.3;
  CHECK_THAT(judge_child([] { return pause(); }, idle), ContainsSubstring("too long"));
  Limits work = no_hang();
  work.processor_s = 0.3;
  const auto work_for_ever = [] {
    while (std::clock() >= 0) {
    }
    return 0;
  };
  CHECK_THAT(judge_child(work_for_ever, work), ContainsSubstring("too long"));
  CHECK_THAT(judge_child([] {
               std::string all;
               while (true) all.append(1 << 20, 'x');
               return 0;
             }),
             ContainsSubstring("memory"));
}

TEST_CASE("a code or a text that helps nobody is a finding") {
  CHECK_THAT(judge_child([] { return say("input.bin", 6); }), ContainsSubstring("exit code"));
  CHECK_THAT(judge_child([] { return say("something is wrong", 2); }),
             ContainsSubstring("neither key nor file"));
  CHECK_THAT(judge_child([] { return say("input.bin: [json.exception.parse_error.101]", 2); }),
             ContainsSubstring("json.exception"));
  CHECK_THAT(judge_child([] { return say("input.bin: \x1b[31m", 2); }),
             ContainsSubstring("control character"));
  CHECK_THAT(judge_child([] { return say(("input.bin: " + std::string(300, 'x')).c_str(), 2); }),
             ContainsSubstring("full length"));
}

TEST_CASE("files that are left behind, changed or removed are findings") {
  CHECK_THAT(judge_child([] {
               std::ofstream("out.bin.tmp") << "tokens";
               return 0;
             }),
             ContainsSubstring("left behind"));
  CHECK_THAT(judge_child([] {
               std::ofstream("out.bin") << "half of the tokens";
               return say("input.bin: is damaged", 2);
             }),
             ContainsSubstring("left behind"));
  CHECK_THAT(judge_child([] {
               std::ofstream("input.bin") << "other words";
               return 0;
             }),
             ContainsSubstring("was changed"));
  CHECK_THAT(judge_child([] { return std::remove("input.bin"); }), ContainsSubstring("gone"));
}

TEST_CASE("a case is the same each time it is made, and differs from the next") {
  const Folder folder;
  const Material material = load_material(test::source_folder(), folder.path());
  const auto text = [&](Case (*make)(Dice&, const Material&), std::uint64_t number) {
    Dice dice(7, number);
    const Case c = make(dice, material);
    std::string all;
    for (const CaseFile& file : c.files) all += file.name + file.content;
    for (const std::string& argument : c.arguments) all += argument;
    return all;
  };
  for (const auto make : {make_config_case, make_file_case, make_template_case, make_tokenizer_case,
                          make_record_case, make_token_case}) {
    for (std::uint64_t number = 0; number < 20; ++number) {
      CHECK(text(make, number) == text(make, number));
      CHECK(text(make, number) != text(make, number + 1));
    }
  }
}

}  // namespace strata::fuzz
