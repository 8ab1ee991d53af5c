// `doctor` prints findings and nothing else, so that what it says can be sent to somebody who
// helps, or be read by a script before each job.

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/checkpoint/files.h"
#include "strata/commands/commands.h"
#include "strata/doctor/examine_machine.h"
#include "strata/doctor/finding.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(std::span<const Finding> findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"verdict", name_of(finding.verdict)},
                    {"found", finding.found},
                    {"remedy", finding.remedy}});
  }
  return list;
}

/// Returns the object that --json prints. Bytes of names that are no UTF-8 are replaced.
std::string json_text(std::span<const Finding> findings) {
  Json json{{"program", "strata " + version_text(build_info())},
            {"verdict", name_of(worst(findings))},
            {"machine", json_of(findings)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  log::configure(0, 1, "");
  const std::unique_ptr<Files> files = make_system_files();
  MachineSources sources = this_machine(*files);
  sources.folder = options.folder;
  const std::vector<Finding> findings = examine_machine(sources);
  const std::string text = options.json ? json_text(findings) : printable(to_string(findings));
  std::fputs(text.c_str(), stdout);
  return worst(findings) == Verdict::kBad ? 1 : 0;
}

}  // namespace strata
