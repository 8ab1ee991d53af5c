// How fast texts are cut into pieces: MB of text per second of processor time, on one thread, for
// each pattern; and the check whether a text is its own normal form C.
//   splitter_bench [--only TEXT] [--json FILE]            (TEXT: part of a case's name)
// "english" is the ASCII part of this repository's documents, "mixed" are random words of several
// scripts. A figure is the median of several runs over all of a text.

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/program.h"
#include "bench/times.h"
#include "strata/base/random.h"
#include "support/places.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unicode.h"

namespace {

using namespace strata;

constexpr std::size_t kTextBytes = 16'000'000;
constexpr int kRuns = 5;

struct NamedPattern {
  const char* name;
  SplitPattern pattern;
};
constexpr std::array kPatterns = {
    NamedPattern{"gpt2", SplitPattern::kGpt2},
    NamedPattern{"cl100k", SplitPattern::kCl100k},
    NamedPattern{"llama3", SplitPattern::kLlama3},
    NamedPattern{"qwen2", SplitPattern::kQwen2},
    NamedPattern{"qwen35", SplitPattern::kQwen35},
    NamedPattern{"o200k", SplitPattern::kO200k},
    NamedPattern{"tekken", SplitPattern::kTekken},
    NamedPattern{"deepseek numbers", SplitPattern::kDeepSeekNumbers},
    NamedPattern{"deepseek cjk", SplitPattern::kDeepSeekCjk},
    NamedPattern{"deepseek words", SplitPattern::kDeepSeekWords},
};

std::string english_text() {
  std::string documents;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(strata::test::documents_folder())) {
    if (entry.path().extension() != ".md") continue;
    std::ifstream file(entry.path());
    documents.append(std::istreambuf_iterator<char>(file), {});
  }
  std::erase_if(documents, [](char byte) { return static_cast<unsigned char>(byte) >= 0x80; });
  if (documents.empty())
    throw std::runtime_error("no documents in " + strata::test::documents_folder());
  std::string text;
  while (text.size() < kTextBytes) text += documents;
  return text;
}

std::string mixed_text() {
  // First letters of runs of 16: Latin, Greek, Cyrillic, Hebrew, Devanagari, Hiragana, Han, Hangul.
  constexpr std::array<char32_t, 8> kScripts{U'a',  0x3b1,  0x430,  0x5d0,
                                             0x915, 0x3042, 0x4e00, 0xac00};
  std::string text;
  for (std::uint64_t word = 0; text.size() < kTextBytes; ++word) {
    const std::uint64_t random = mix64(word);
    const char32_t script = kScripts[random % kScripts.size()];
    for (std::uint64_t i = 0; i < 2 + random / 8 % 8; ++i) {
      append_utf8(script + static_cast<char32_t>(random >> (8 + 4 * i) & 15), text);
    }
    text += random >> 60 == 0 ? ".\n" : " ";
  }
  return text;
}

/// Returns MB/s of processor time. `run(text)` returns a number, which is used so that the work is.
template <class Run>
double rate_mb_per_s(const std::string& text, const Run& run) {
  std::vector<double> rates;
  std::size_t sum = 0;
  for (int i = 0; i < kRuns; ++i) {
    const std::clock_t begin = std::clock();
    sum += run(text);
    const double elapsed_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    rates.push_back(static_cast<double>(text.size()) * 1e-6 / elapsed_s);
  }
  if (sum == 0) throw std::runtime_error("nothing was done");
  return bench::median(std::move(rates));
}

void run(const bench::Options& options) {
  nlohmann::json results = nlohmann::json::array();
  const auto report = [&](const std::string& name, const std::string& text, const auto& work) {
    if (name.find(options.only) == std::string::npos) return;
    const double rate = rate_mb_per_s(text, work);
    std::printf("%-32s %8.0f MB/s\n", name.c_str(), rate);
    results.push_back({{"name", name}, {"mb_per_s", rate}});
  };
  const std::array<std::pair<std::string, std::string>, 2> texts{
      {{"english", english_text()}, {"mixed", mixed_text()}}};
  for (const auto& [kind, text] : texts) {
    for (const NamedPattern& named : kPatterns) {
      report(kind + " " + named.name, text, [&](std::string_view all) {
        std::size_t pieces = 0;
        split(named.pattern, all, [&](std::string_view) { ++pieces; });
        return pieces;
      });
    }
    report(kind + " nfc check", text,
           [](std::string_view all) { return is_nfc_quick(all) ? all.size() : 0; });
  }
  bench::write_json(options.json, {{"results", results}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("splitter_bench",
                            [&] { run(bench::parse_options("splitter_bench", argc, argv)); });
}
