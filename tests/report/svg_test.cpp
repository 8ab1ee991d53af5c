// Tests figures: that they are well-formed, hold the curves, and name nothing outside of them.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/run_files.h"
#include "report/svg_plot.h"
#include "strata/report/svg_figures.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Returns what is wrong with the tags of an XML text, or nothing.
std::string wrong_tags(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "a tag in a tag: " + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.ends_with('/')) continue;
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "not open: " + tag;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

/// Returns where the pen goes for the first curve.
std::string path_of(const std::string& figure) {
  const std::size_t begin = figure.find("<path d=\"") + 9;
  return figure.substr(begin, figure.find('"', begin) - begin);
}

std::vector<std::string> tick_texts(const std::vector<Tick>& ticks) {
  std::vector<std::string> texts;
  for (const Tick& tick : ticks) texts.push_back(tick.text);
  return texts;
}

TEST_CASE("ticks are at round numbers") {
  using Texts = std::vector<std::string>;
  CHECK(tick_texts(linear_ticks(0, 10, 5)) == Texts{"0", "2", "4", "6", "8", "10"});
  CHECK(tick_texts(linear_ticks(-0.25, 0.35, 3)) == Texts{"-0.2", "0", "0.2"});
  CHECK(tick_texts(linear_ticks(0, 30000, 3)) == Texts{"0", "10k", "20k", "30k"});
  CHECK(tick_texts(linear_ticks(0, 3e-4, 3)) == Texts{"0", "0.0001", "0.0002", "0.0003"});
  CHECK(tick_texts(linear_ticks(0, 3e-5, 3)) == Texts{"0", "1e-5", "2e-5", "3e-5"});
  CHECK(tick_texts(log_ticks(0.5, 2000)) == Texts{"1", "10", "100", "1000"});
  CHECK(tick_texts(log_ticks(0.9, 6)) == Texts{"1", "2", "5"});
}

TEST_CASE("each chart that has data is a figure of its own, well-formed and complete in itself") {
  std::vector<RunHistory> runs(2);
  runs[0].name = "a <run> & \"more\"";
  runs[1].name = "b";
  for (RunHistory& run : runs) {
    for (int i = 1; i <= 900; ++i) {
      run.steps.step.push_back(i);
      run.steps.loss.push_back(5.0 / i);
      run.steps.grad_norm.push_back(1.0 / i);
      run.steps.lr.push_back(1e-3);
      run.steps.tokens_per_s.push_back(1000);
      run.steps.mfu.push_back(std::numeric_limits<double>::quiet_NaN());
    }
    run.validations = {{.step = 450, .loss = 3}, {.step = 900, .loss = 2}};
  }
  runs[0].traced.push_back({.step = 5,
                            .lanes = {{.lane = "compute", .busy_s = 2}},
                            .updates = {.lane = "updates", .busy_s = 1, .exposed_s = 0.5}});
  runs[1].fp8 = {{.step = 100, .linears = {{.flushed = 0.25}, {.flushed = 0.5}}}};
  std::vector<std::string> names;
  for (const SvgFigure& figure : svg_figures(runs)) {
    INFO(figure.name);
    names.push_back(figure.name);
    CHECK(wrong_tags(figure.text) == "");
    CHECK_THAT(figure.text, !ContainsSubstring("nan") && !ContainsSubstring("inf"));
    CHECK_THAT(figure.text, !ContainsSubstring("href") && !ContainsSubstring("url("));
    if (figure.name.starts_with("lanes")) continue;
    CHECK_THAT(figure.text, ContainsSubstring("a &lt;run&gt; &amp; &quot;more&quot;"));
  }
  CHECK(names == std::vector<std::string>{"loss.svg", "lr.svg", "grad_norm.svg", "tokens_per_s.svg",
                                          "validation_loss.svg", "fp8_flushed.svg", "lanes_1.svg"});
}

TEST_CASE("a figure shows what would turn its text around or end its line") {
  CHECK(xml_text("a\u202Eb\n<\x1b>") == "a\\u202eb\\n&lt;\\x1b&gt;");
}

TEST_CASE("a norm of next to nothing beside others does not make ticks without end") {
  RunHistory run;
  run.steps.step = {1, 2, 3};
  run.steps.grad_norm = {1e-20, 1e-320, 1e-25};
  const std::vector<SvgFigure> figures = svg_figures({run});
  REQUIRE(figures.size() == 1);
  CHECK_THAT(figures[0].text, ContainsSubstring(">1e-20<") && ContainsSubstring(">1e-25<"));
}

TEST_CASE("values that no run has are gaps, and figures of them have numbers for places") {
  RunHistory run;
  const double most = std::numeric_limits<double>::max();
  const double least = std::numeric_limits<double>::denorm_min();
  for (const double norm : {1e-20, 1e-320, 1.0, 1e-30, most}) {
    run.steps.step.push_back(static_cast<std::int64_t>(run.steps.size()) + 1);
    run.steps.grad_norm.push_back(norm);
    run.steps.loss.push_back(norm > 1 ? most : -most);
    run.steps.lr.push_back(least);
    run.steps.tokens_per_s.push_back(least);
    run.steps.mfu.push_back(norm);
  }
  run.traced.push_back({.step = 1,
                        .lanes = {{.lane = "compute", .busy_s = least}},
                        .updates = {.lane = "updates", .busy_s = least, .exposed_s = least}});
  const std::vector<SvgFigure> figures = svg_figures({run});
  REQUIRE(figures.size() == 6);
  for (const SvgFigure& figure : figures) {
    INFO(figure.name);
    CHECK(wrong_tags(figure.text) == "");
    CHECK_THAT(figure.text, !ContainsSubstring("nan") && !ContainsSubstring("inf"));
    if (figure.name != "grad_norm.svg") continue;
    // The first point, a gap, and the two before the next gap.
    CHECK(occurrences(figure.text, "<path") == 1);
    CHECK(occurrences(path_of(figure.text), "M") == 2);
    CHECK(occurrences(path_of(figure.text), "L") == 1);
  }
  CHECK(log_ticks(1e-140, 1e140).size() <= 9);
  CHECK(linear_ticks(0, least, 5).empty());
}

TEST_CASE("runs without steps have no figures") {
  CHECK(svg_figures(std::vector<RunHistory>(1)).empty());
}

}  // namespace
}  // namespace strata::test
