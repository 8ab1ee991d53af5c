// `doctor` prints findings and nothing else, so that what it says can be sent to somebody who
// helps, or be read by a script before each job.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/doctor_config.h"
#include "commands/doctor_self_test.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/base/work_meter.h"
#include "strata/checkpoint/files.h"
#include "strata/comm/launcher.h"
#include "strata/commands/commands.h"
#include "strata/doctor/examine_machine.h"
#include "strata/doctor/finding.h"
#include "strata/launch/command_ranks.h"
#include "strata/launch/run_ranks.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

Json findings_json(std::span<const Finding> findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"verdict", name_of(finding.verdict)},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
  }
  return list;
}

/// What is printed.
struct Findings {
  std::vector<Finding> machine;
  std::vector<Finding> run;                       ///< empty: nobody asked about one
  std::optional<std::vector<Finding>> self_test;  ///< absent: there was none

  [[nodiscard]] Verdict verdict() const {
    return std::max({worst(machine), worst(run), self_test ? worst(*self_test) : Verdict::kOk});
  }
};

/// Returns the object that --json prints. Bytes of names that are no UTF-8 are replaced.
std::string json_text(const Findings& findings) {
  Json json{{"program", "strata " + version_text(build_info())},
            {"verdict", name_of(findings.verdict())},
            {"machine", findings_json(findings.machine)}};
  if (!findings.run.empty()) json["run"] = findings_json(findings.run);
  if (findings.self_test) json["self_test"] = findings_json(*findings.self_test);
  return json_text(json, 2, NotUtf8::kReplace) + '\n';
}

/// Returns a text whose lines say which of several ranks they are from: those of all stand among
/// each other on one terminal.
std::string labelled(const std::string& text, const std::string& rank) {
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    result += "[rank " + rank + "] " + text.substr(begin, end - begin);
    begin = end;
  }
  return result;
}

std::string lines_of(const Findings& findings) {
  std::string text = to_string(findings.machine);
  if (!findings.run.empty()) text += "\nthe run\n" + to_string(findings.run);
  if (findings.self_test) text += "\nself-test\n" + to_string(*findings.self_test);
  text = printable(text);
  const std::optional<std::string> rank = launched_rank(environment_of_process);
  return rank && !findings.self_test ? labelled(text, printable_name(*rank)) : text;
}

/// The folder of checkpoints, if neither options nor a run name one.
constexpr const char* kWorkingFolder = ".";

/// Returns what is found of the machine, and of the run if there is one.
Findings examine(const DoctorOptions& options) {
  Findings findings;
  const std::unique_ptr<Files> files = make_system_files();
  MachineSources sources = this_machine(*files);
  sources.folder = kWorkingFolder;
  if (options.run.load) {
    ExaminedRun run = examine_run(options.run);
    findings.run = std::move(run.findings);
    sources.folder = run.folder;
    sources.saves = run.saves;
  }
  if (!options.folder.empty()) sources.folder = options.folder;
  WorkProgress work;
  work.begin("measuring this machine");
  const WorkMeter meter(work);
  findings.machine = examine_machine(sources);
  return findings;
}

int print(const DoctorOptions& options, const Findings& findings) {
  const std::string text = options.json ? json_text(findings) : lines_of(findings);
  std::fputs(text.c_str(), stdout);
  return findings.verdict() == Verdict::kBad ? 1 : 0;
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  if (!options.self_test) return print(options, examine(options));
  const std::unique_ptr<Ranks> ranks = make_command_ranks("doctor --self-test");
  log::configure(ranks->rank(), ranks->size(), "");
  return end_together(*ranks, [&] {
    std::vector<Finding> self_test =
        run_self_test(options.folder.empty() ? kWorkingFolder : options.folder, *ranks);
    if (ranks->rank() != 0) return 0;
    Findings findings = examine(options);  // later: it takes the GPU for this process
    findings.self_test = std::move(self_test);
    return print(options, findings);
  });
}

}  // namespace strata
