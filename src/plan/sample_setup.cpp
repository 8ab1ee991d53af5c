// Makes the layout of samples: tries fewer sequences at once, and smaller cells, until the sweeps
// fit into idle memory. What is drawn does not depend on it.

#include "strata/plan/sample_setup.h"

#include <algorithm>
#include <iterator>

#include "strata/base/bytes.h"
#include "strata/base/sample_prompt.h"
#include "strata/base/text.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"

namespace strata {

namespace {

SampleLayout with(const RunConfig& config, std::int64_t sequences, std::int64_t cell_tokens) {
  SampleLayout s;
  const std::int64_t context = sample_context(config);
  const std::int64_t cell = std::min(cell_tokens, sequences * context);
  s.spec = spec_of(config.model.llama);
  if (config.adapter) add_adapters(s.spec, *config.adapter);
  s.describe_sweeps({.compute = config.run.dtype,
                     .sequences = sequences,
                     .context = context,
                     .cell_tokens = cell,
                     .sweep_tokens = cell},
                    false, 0);
  s.list_memory(s.plan);
  return s;
}

}  // namespace

std::int64_t sample_context(const RunConfig& config) {
  constexpr std::size_t kAround = 8;  // tokens around a text
  // A template may begin with instructions of its own; what it writes around messages is mostly
  // shorter than JSON's keys and quotes.
  constexpr std::size_t kAroundConversation = 256;
  std::size_t longest = kAround;
  for (const std::string& prompt : config.run.sample_prompts) {
    const std::size_t around = is_conversation(prompt) ? kAroundConversation : kAround;
    longest = std::max(longest, prompt.size() + around);
  }
  return std::min(static_cast<std::int64_t>(longest) + config.run.sample_tokens,
                  config.model.llama.context_limit());
}

std::int64_t samples_at_once(const RunSection& run) {
  return std::max<std::int64_t>(1, std::ssize(run.sample_prompts));
}

SampleLayout make_sample_setup(const RunConfig& config, std::size_t idle_bytes) {
  constexpr std::int64_t kMostCellTokens = 256;
  const std::int64_t most = samples_at_once(config.run);
  SampleLayout s = with(config, most, kMostCellTokens);
  const std::size_t pinned_bytes = s.plan.total(Space::kPinned);
  s.idle_bytes = idle_bytes;
  for (std::int64_t sequences = most; sequences > 0 && !s.fits(); sequences /= 2) {
    for (std::int64_t cell = kMostCellTokens; cell > 0 && !s.fits(); cell /= 4) {
      s = with(config, sequences, cell);
      s.idle_bytes = idle_bytes;
    }
  }
  s.pinned_bytes = pinned_bytes;
  return s;
}

std::string samples_text(const SampleLayout& s) {
  return format_count(s.sequences) + " at once of up to " + format_count(s.sizes.positions) +
         " tokens, in " + format_bytes(s.plan.total(Space::kDevice)) + " of " +
         format_bytes(s.idle_bytes) + " that are idle on the device between steps";
}

std::string sample_shortage(const SampleLayout& s) {
  if (s.fits()) return {};
  return "run.sample_every: a sample of " + format_count(s.sizes.positions) + " tokens takes " +
         format_bytes(s.plan.total(Space::kDevice)) + " on the device, and " +
         format_bytes(s.idle_bytes) +
         " are idle there between steps; lower run.sample_tokens, shorten run.sample_prompts, "
         "raise schedule.rows or schedule.sub_batches, or set run.sample_every to 0";
}

}  // namespace strata
