// Tests `report` by the program: that the page of a real run holds what its files say, and what is
// refused. Event files are tested here too, since they are made by the same runs.

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "e2e/lines.h"
#include "report/page_data_of.h"
#include "support/event_records.h"
#include "support/places.h"

namespace strata::test {

namespace {

const std::string kMore =
    " --set run.trace_step=2 --set run.eval_every=2 --set checkpoint.every_steps=2"
    R"( --set run.sample_every=2 --set run.sample_tokens=4 --set 'run.sample_prompts=["line "]')"
    " --set run.tensorboard=true ";

std::vector<std::string> event_files(const std::string& run_folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(run_folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("events.out.tfevents.")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Checks the losses of an event file against those of steps in metrics.jsonl.
void check_events(const std::vector<ReadEvent>& events, const std::vector<nlohmann::json>& steps) {
  std::size_t at = 0;
  for (const ReadEvent& event : events) {
    if (!event.scalars.contains("loss")) continue;
    REQUIRE(at < steps.size());
    CHECK(event.step == steps[at]["step"]);
    CHECK(event.scalars.at("loss") == steps[at]["loss"].get<float>());
    CHECK(event.scalars.at("lr") == steps[at]["lr"].get<float>());
    ++at;
  }
  CHECK(at == steps.size());
}

bool close(const nlohmann::json& shown, const nlohmann::json& written) {
  return std::abs(shown.get<double>() - written.get<double>()) <=
         1e-6 * std::abs(written.get<double>());
}

}  // namespace

TEST_CASE("the report of a run that was resumed holds what its files say") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + kMore;
  for (const std::string more : {"", " --set run.steps=6 --resume 2"}) {
    const Outcome trained = strata(folder, train_tiny(folder, "run", data + more));
    INFO(trained.text);
    REQUIRE(trained.code == 0);
  }
  const Outcome reported = strata(folder, "report " + (folder / "run"));
  INFO(reported.text);
  REQUIRE(reported.code == 0);
  CHECK_THAT(reported.text, ContainsSubstring("report in " + (folder / "run/report.html")) &&
                                ContainsSubstring("open it in a browser"));
  const nlohmann::json run = page_data_of(read_file(folder / "run/report.html"))["runs"][0];

  std::vector<nlohmann::json> steps;
  std::vector<nlohmann::json> again;  // of the second start
  bool resumed = false;
  for (const nlohmann::json& line : metrics(folder / "run")) {
    resumed = resumed || line["event"] == "resume";
    if (line["event"] != "step") continue;
    const auto at = static_cast<std::size_t>(line["step"].get<int>() - 1);
    steps.resize(std::max(steps.size(), at + 1));
    steps[at] = line;
    if (resumed) again.push_back(line);
  }
  REQUIRE(steps.size() == 6);
  REQUIRE(again.size() == 4);
  for (const char* const key : {"loss", "grad_norm", "lr", "tokens_per_s"}) {
    const nlohmann::json& series = run["series"][key];
    REQUIRE(series["x"] == std::vector<int>{1, 2, 3, 4, 5, 6});
    for (std::size_t i = 0; i < steps.size(); ++i) CHECK(close(series["y"][i], steps[i][key]));
  }
  CHECK(run["validation"]["x"] == std::vector<int>{2, 4, 6});
  CHECK(run["resumes"]["list"][0]["step"] == 2);
  CHECK(run["saves"]["count"] == 3);
  CHECK(run["end"] == "done");
  CHECK(run["memory"]["host_peak"].get<double>() > 0);
  CHECK(run["lanes"][0]["lanes"][0]["lane"] == "compute");
  CHECK(run["timeline"]["lanes"][0]["name"] == "compute");
  CHECK(run["timeline"]["events"].get<int>() > 50);
  REQUIRE(run["samples"]["count"] == 3);
  const std::vector<nlohmann::json> samples = lines_of(folder / "run/samples.jsonl");
  CHECK(run["samples"]["list"][2]["text"] == samples.back()["text"]);
  CHECK(run["notes"].empty());

  const std::vector<std::string> files = event_files(folder / "run");
  REQUIRE(files.size() == 2);
  CHECK(read_events(read_file(files[0])).size() == 1 + 4 + 2);  // the version, steps, validations
  check_events(read_events(read_file(files[1])), again);

  // Another run in the folder takes away what this one left there.
  const Outcome replaced = strata(folder, train_tiny(folder, "run", "--overwrite"));
  INFO(replaced.text);
  REQUIRE(replaced.code == 0);
  CHECK(event_files(folder / "run").empty());
  CHECK_FALSE(fs::exists(folder / "run/report.html"));
}

TEST_CASE(
    "a report of several runs names what is different, and figures are written if asked for") {
  const Folder folder;
  for (const std::string name : {"a", "b"}) {
    const Outcome trained =
        strata(folder, train_tiny(folder, name, name == "a" ? "" : "--set optimizer.lr=0.5"));
    INFO(trained.text);
    REQUIRE(trained.code == 0);
  }
  const Outcome reported =
      strata(folder, "report " + (folder / "a") + " " + (folder / "b") + " --output " +
                         (folder / "new/both.html") + " --svg " + (folder / "figures"));
  INFO(reported.text);
  REQUIRE(reported.code == 0);
  const nlohmann::json data = page_data_of(read_file(folder / "new/both.html"));
  CHECK(data["runs"][0]["name"] == "a");
  REQUIRE(data["differences"].size() == 1);
  CHECK(data["differences"][0]["path"] == "optimizer.lr");
  CHECK(data["differences"][0]["values"] == std::vector<std::string>{"0.001", "0.5"});
  CHECK_THAT(read_file(folder / "figures/loss.svg"), ContainsSubstring("</svg>"));
  // A run that was killed while it wrote a line.
  std::ofstream(folder / "a/metrics.jsonl", std::ios::app) << R"({"event":"step","st)";
  const Outcome torn = strata(folder, "report " + (folder / "a"));
  CHECK(torn.code == 0);
  CHECK_THAT(torn.text, ContainsSubstring("the last line is written in part"));
}

TEST_CASE("folders without a run and places that cannot be written are refused by name") {
  const Folder folder;
  fs::create_directories(folder / "empty");
  check_refused(folder, "report", "runs is required");
  check_refused(folder, "report " + (folder / "empty"), "is not the folder of a run");
  check_refused(folder, "report " + (folder / "nowhere"), "there is no such folder");
  const Outcome trained = strata(folder, train_tiny(folder, "run", ""));
  REQUIRE(trained.code == 0);
  check_refused(folder, "report " + (folder / "run") + " --output " + (folder / "empty"),
                "is not replaced, since it is a folder; name a file in it");
  check_refused(folder, "report " + (folder / "run") + " --svg " + (folder / "run/config.json"),
                "--svg: ");
}

TEST_CASE("a report replaces earlier reports and nothing else") {
  const Folder folder;
  fs::create_directories(folder / "run");
  fs::create_directories(folder / "figures");
  const std::string lines = R"({"event":"start"})"
                            "\n"
                            R"({"event":"step","step":1,"loss":2,"lr":1})"
                            "\n";
  write_file(folder / "run/metrics.jsonl", lines);
  write_file(folder / "run/config.json", "{}");
  const std::string report = "report " + (folder / "run") + " ";
  const auto check_kept = [&](const std::string& file, const std::string& text) {
    check_refused(folder, report + "--output " + (folder / file),
                  file + " is there and is no page of strata report; name another place");
    CHECK(read_file(folder / file) == text);
  };
  check_kept("run/metrics.jsonl", lines);
  check_kept("run/config.json", "{}");
  const std::string page = "<!doctype html>\n<title>a page of somebody</title>\n";
  write_file(folder / "run/report.html", page);
  check_kept("run/report.html", page);
  check_refused(folder, report, "run/report.html is there");  // without being named, too

  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  fs::create_symlink(folder / "run/metrics.jsonl", folder / "link");
  for (const char* const name : {"pipe", "link"}) {
    check_refused(folder, report + "--output " + (folder / name), "is not replaced, since it is a");
  }
  CHECK(fs::is_fifo(folder / "pipe"));
  CHECK(fs::is_symlink(folder / "link"));

  // No figure is written where one of them may not be, and no page either.
  write_file(folder / "figures/lr.svg", "a note");
  check_refused(folder,
                report + "--output " + (folder / "new.html") + " --svg " + (folder / "figures"),
                "figures/lr.svg is there and is no figure of strata report; name another place");
  CHECK(read_file(folder / "figures/lr.svg") == "a note");
  CHECK_FALSE(fs::exists(folder / "figures/loss.svg"));
  CHECK_FALSE(fs::exists(folder / "new.html"));
  fs::remove(folder / "figures/lr.svg");

  // What once was a name of halves is anybody's.
  fs::create_symlink(folder / "run/metrics.jsonl", folder / "new.html.tmp");
  write_file(folder / "new.html", "");
  for (int i = 0; i < 2; ++i) {
    const Outcome written = strata(
        folder, report + "--output " + (folder / "new.html") + " --svg " + (folder / "figures"));
    INFO(written.text);
    CHECK(written.code == 0);
  }
  CHECK(page_data_of(read_file(folder / "new.html"))["runs"][0]["name"] == "run");
  CHECK(read_file(folder / "run/metrics.jsonl") == lines);
  CHECK(fs::is_symlink(folder / "new.html.tmp"));
  CHECK(std::distance(fs::directory_iterator(folder / "figures"), {}) == 2);
}

namespace {

/// The beginning of a PNG file, up to its width in pixels.
std::string png_of_width(std::uint32_t width) {
  std::string png = "\x89PNG\r\n\x1a\n";
  png.append(3, '\0');
  png += "\rIHDR";
  for (const int shift : {24, 16, 8, 0}) png += static_cast<char>(width >> shift & 0xff);
  return png;
}

/// Puts a program of this name into `folder`, which is all that a run finds there.
void make_program(const std::string& folder, const std::string& name, const std::string& script) {
  write_file(folder + "/" + name, "#!/bin/sh\n" + script + "\n");
  fs::permissions(folder + "/" + name, fs::perms::owner_all);
}

/// A run folder of one step.
void make_run(const std::string& run) {
  fs::create_directories(run);
  write_file(run + "/metrics.jsonl", R"({"event":"step","step":1,"loss":2,"lr":1})"
                                     "\n");
  write_file(run + "/config.json", "{}");
}

}  // namespace

TEST_CASE("figures become PNG files by the first program that draws them") {
  const Folder folder;
  make_run(folder / "run");
  fs::create_directories(folder / "bin");
  fs::create_directories(folder / "temporary");
  write_file(folder / "drawn.png", png_of_width(640));
  // The first one says that all is well and draws nothing; the second one notes how it was asked.
  make_program(folder / "bin", "rsvg-convert", "exit 0");
  make_program(folder / "bin", "inkscape",
               "echo \"$@\" >> " + (folder / "asked") + "; for word; do case $word in " +
                   "--export-filename=*) /bin/cp " + (folder / "drawn.png") +
                   " \"${word#*=}\";; esac; done");
  const std::string report = "report " + (folder / "run") + " --output " + (folder / "page.html") +
                             " --png " + (folder / "figures");
  const std::string environment =
      "env PATH=" + (folder / "bin") + " TMPDIR=" + (folder / "temporary") + " ";
  const Outcome made =
      run(folder, environment + strata_program() + " " + report + " --png-width 640");
  INFO(made.text);
  REQUIRE(made.code == 0);
  CHECK_THAT(made.text, ContainsSubstring("figures: loss.png"));
  CHECK(read_file(folder / "figures/loss.png") == png_of_width(640));
  CHECK_FALSE(fs::exists(folder / "figures/loss.svg"));
  CHECK_THAT(read_file(folder / "asked"), ContainsSubstring("--export-width=640"));
  CHECK(fs::is_empty(folder / "temporary"));

  // What it draws has another width than the one that is asked for now.
  const Outcome none = run(folder, environment + strata_program() + " " + report);
  CHECK(none.code == 2);
  CHECK_THAT(none.text, ContainsSubstring("rsvg-convert (drew nothing), inkscape (drew nothing)"));
  CHECK_THAT(none.text, ContainsSubstring("cairosvg (No such file or directory)"));
  CHECK_THAT(none.text, ContainsSubstring("apt-get install librsvg2-bin"));
  CHECK(read_file(folder / "figures/loss.png") == png_of_width(640));

  write_file(folder / "figures/loss.png", "a note");
  check_refused(folder, report, "figures/loss.png is there and is no figure of strata report");
  check_refused(folder, report + " --png-width 99", "--png-width");
}

TEST_CASE("the program of librsvg draws figures") {
  const Folder folder;
  if (run(folder, "rsvg-convert --version").code != 0) {
    WARN("skipped: rsvg-convert is not installed");
    return;
  }
  make_run(folder / "run");
  const Outcome made =
      strata(folder, "report " + (folder / "run") + " --output " + (folder / "page.html") +
                         " --png " + (folder / "png") + " --png-width 1234");
  INFO(made.text);
  REQUIRE(made.code == 0);
  const std::string png = read_file(folder / "png/loss.png");
  CHECK(png.starts_with(png_of_width(1234)));
  CHECK(png.size() > 1000);
}

}  // namespace strata::test
