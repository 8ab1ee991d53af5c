// Writes results and comparisons as tables. Tables are lists of cells that become columns as wide
// as their widest cell. Cells hold texts of the program and of JSON files, so what would end a cell
// is escaped.

#include "strata/benchmark/tables.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

using Cells = std::vector<std::string>;

/// What stands where a figure is not known.
constexpr const char* kNothing = "-";

std::string escaped(const std::string& text) {
  std::string cell;
  for (const char c : printable(text)) {
    if (c == '|') cell += '\\';
    cell += c == '\n' || c == '\t' ? ' ' : c;
  }
  return cell;
}

/// Returns how many characters a text of UTF-8 has.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Returns a table of which the first line has the names of the columns. The first column begins on
/// the left, figures end on the right.
std::string table(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 3);
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(escaped(line[i])));
    }
  }
  std::string text;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    text += '|';
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = escaped(lines[at][i]);
      const std::string space(widths[i] - width_of(cell), ' ');
      text += ' ' + (i == 0 ? cell + space : space + cell) + " |";
    }
    text += '\n';
    if (at > 0) continue;
    text += '|';
    for (std::size_t i = 0; i < widths.size(); ++i) {
      text += i == 0 ? std::string(widths[i] + 2, '-') : std::string(widths[i] + 1, '-') + ':';
      text += '|';
    }
    text += '\n';
  }
  return text;
}

std::string tokens_text(double tokens_per_s) {
  return tokens_per_s < 100 ? fmt::format("{:.2f}", tokens_per_s)
                            : format_count(std::llround(tokens_per_s));
}

/// Returns a figure in a format, or a dash.
std::string known(const std::optional<double>& value, const char* format, double scale = 1) {
  return value ? fmt::format(fmt::runtime(format), *value * scale) : kNothing;
}

std::string memory_text(std::size_t measured, std::size_t planned) {
  const auto gib = [](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kGiB);
  };
  return fmt::format("{:.2f} / {:.2f}", gib(measured), gib(planned));
}

Cells cells_of(const RowRecord& row) {
  const std::optional<RowFigures> figures = row.figures();
  if (!figures) {
    const RunRecord* const failure = row.failure();
    const bool unfit = failure != nullptr && failure->exit_code == OutOfMemory("").exit_code();
    const char* const why = failure == nullptr ? "not yet" : unfit ? "does not fit" : "failed";
    return {row.name, why, kNothing, kNothing, kNothing, kNothing, kNothing, kNothing, kNothing};
  }
  const BenchFigures& middle = figures->middle;
  return {row.name,
          tokens_text(middle.tokens_per_s),
          fmt::format("{} of {}", figures->tokens_per_s.size(), row.repeats),
          known(figures->spread, "{:.1f} %", 100),
          known(middle.mfu, "{:.1f} %", 100),
          known(middle.step_s, "{:.4f}"),
          known(middle.predicted_of_measured, "{:.3f}"),
          memory_text(middle.device_bytes, middle.device_planned_bytes),
          memory_text(middle.host_bytes, middle.host_planned_bytes)};
}

/// Returns the devices that rows ran on, each once.
std::vector<std::string> devices_of(const SuiteResults& results) {
  std::vector<std::string> devices;
  for (const RowRecord& row : results.rows) {
    const std::optional<RowFigures> figures = row.figures();
    if (!figures || figures->middle.device.empty()) continue;
    const BenchFigures& f = figures->middle;
    const std::string device = (f.ranks > 1 ? std::to_string(f.ranks) + " x " : "") + f.device;
    if (std::ranges::find(devices, device) == devices.end()) devices.push_back(device);
  }
  return devices;
}

std::string joined(const std::vector<std::string>& texts, const char* between = ", ") {
  std::string all;
  for (const std::string& text : texts) {
    all += (all.empty() ? "" : between) + printable_name(text);
  }
  return all;
}

/// Returns "strata 0.1.0 (0123456789ab), 2026-11-25T10:00:00Z".
std::string program_text(const Provenance& p) {
  return "strata " + p.version + " (" + p.commit + ")" + (p.date.empty() ? "" : ", " + p.date);
}

/// Returns the paragraph that says where the figures come from.
std::string provenance_text(const SuiteResults& results) {
  const Provenance& p = results.provenance;
  const std::vector<std::string> devices = devices_of(results);
  std::string text = "Suite `" + results.suite + "` by " + program_text(p);
  if (!devices.empty()) text += ", on " + joined(devices);
  if (p.gpus) text += "; the machine has " + joined(*p.gpus, "; ");
  if (p.driver) text += ", driver " + *p.driver;
  if (p.cpu) text += "; " + *p.cpu;
  if (p.cores) text += fmt::format(", {} core{}", *p.cores, *p.cores == 1 ? "" : "s");
  if (p.host_memory_bytes) {
    text += ", " + format_bytes(static_cast<std::size_t>(*p.host_memory_bytes)) + " of host memory";
  }
  if (p.host) text += "; host " + *p.host;
  if (p.system) text += ", " + *p.system;
  text +=
      ". Tokens/s, MFU and times are medians of the runs; the spread is the range of their "
      "tokens/s over the median. Memory is measured / planned, in GiB, the most of the runs.";
  return wrapped(printable_name(text), 0, 120);
}

/// Returns why rows lack figures, or some of their runs do.
std::string failures_text(const SuiteResults& results) {
  std::string text;
  for (const RowRecord& row : results.rows) {
    if (const RunRecord* const failure = row.failure()) {
      text += wrapped(fmt::format("- `{}`: {} (exit code {})", printable_name(row.name),
                                  escaped(failure->error), failure->exit_code),
                      0, 120);
    }
    const std::optional<RowFigures> figures = row.figures();
    if (figures && figures->middle.races > 0) {
      text += fmt::format("- `{}`: {} races in the traced steps\n", printable_name(row.name),
                          figures->middle.races);
    }
  }
  return text.empty() ? "" : "\n" + text;
}

std::string commands_text(const SuiteResults& results) {
  std::string text = "\n```sh\n" + printable_name(results.provenance.command) + "\n";
  for (const RowRecord& row : results.rows) {
    text += printable_name(row.command) + "  # " + printable_name(row.name) + "\n";
  }
  return text + "```\n";
}

const char* text_of(Change change) {
  switch (change) {
    case Change::kSame: return "within noise";
    case Change::kFaster: return "faster";
    case Change::kSlower: return "slower";
    case Change::kUnknown: return "noise unknown";
  }
  return "";
}

std::string difference_text(const Difference& d) {
  return "- " + escaped(d.key) + ": " + escaped(shortened(d.before)) + " -> " +
         escaped(shortened(d.after));
}

/// Returns a line for each difference of rows, with the rows that have it.
std::string differences_of(const std::vector<ComparedRow>& rows) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;
  for (const ComparedRow& row : rows) {
    for (const Difference& d : row.differences) {
      const std::string line = difference_text(d);
      auto found = std::ranges::find(lines, line, &decltype(lines)::value_type::first);
      if (found == lines.end()) found = lines.insert(lines.end(), {line, {}});
      found->second.push_back(row.name);
    }
  }
  std::string text;
  for (const auto& [line, names] : lines) {
    const bool every = names.size() == rows.size();
    text += line + " (" + (every ? "every row" : joined(names)) + ")\n";
  }
  return text;
}

/// Returns a line that lists names, or nothing if there are none.
std::string listed(const std::string& what, const std::vector<std::string>& names) {
  return names.empty() ? "" : what + ": " + joined(names) + "\n";
}

}  // namespace

std::string to_markdown(const SuiteResults& results) {
  std::vector<Cells> lines{{"row", "tokens/s", "runs", "spread", "MFU", "step s",
                            "predicted / measured", "device GiB", "host GiB"}};
  for (const RowRecord& row : results.rows) lines.push_back(cells_of(row));
  return provenance_text(results) + "\n" + table(lines) + failures_text(results) +
         commands_text(results);
}

std::string to_markdown(const Comparison& comparison, const ComparedNames& names) {
  std::string text =
      "before: " + printable_name(names.before) + "\nafter: " + printable_name(names.after) + "\n";
  std::string differences;
  for (const Difference& d : comparison.provenance) differences += difference_text(d) + "\n";
  differences += differences_of(comparison.rows);
  std::vector<Cells> lines{
      {"row", "tokens/s before", "tokens/s after", "ratio", "noise", "change"}};
  for (const ComparedRow& row : comparison.rows) {
    lines.push_back({row.name, tokens_text(row.before), tokens_text(row.after),
                     fmt::format("{:.3f}", row.ratio),
                     row.noise ? fmt::format("+-{:.3f}", *row.noise) : kNothing,
                     text_of(row.change())});
  }
  text += "\n" + table(lines);
  if (!differences.empty()) text += "\ndifferent, before -> after:\n" + differences;
  const std::string others = listed("failed after", comparison.lost) +
                             listed("not measured before", comparison.unmeasured) +
                             listed("only before", comparison.only_before) +
                             listed("only after", comparison.only_after);
  if (!others.empty()) text += "\n" + others;
  return text;
}

}  // namespace strata
