// Tests that a run which does not fit is refused before it has taken memory: what is taken in
// proportion to keys of the config comes after the plan.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/comm/ranks.h"
#include "strata/train/session.h"
#include "support/allocations.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_config.h"

namespace strata::test {
namespace {

constexpr std::int64_t kRow = std::int64_t{1} << 24;  ///< tokens, of which any buffer shows
constexpr std::int64_t kMostHeapBytes = 8 * std::int64_t{kMiB};

/// Makes a file of zeros that takes no room on the disk.
std::string sparse_file(const ScratchFolder& folder, const std::string& name, std::int64_t tokens) {
  const std::string file = folder.write(name, {});
  std::filesystem::resize_file(file, static_cast<std::uintmax_t>(tokens) * sizeof(std::uint16_t));
  return file;
}

/// Returns what `start` refuses, after it has taken next to no memory.
std::string refusal_of(const std::function<void()>& start) {
  std::string text;
  (void)heap_peak();
  const std::int64_t before = heap_bytes();
  try {
    start();
  } catch (const OutOfMemory& refused) {
    text = refused.what();
  }
  CHECK(heap_peak() - before < kMostHeapBytes);
  return text;
}

}  // namespace

TEST_CASE("a run whose rows do not fit is refused before it takes memory for them") {
  const ScratchFolder folder;
  RunConfig config = tiny_config();
  config.model.llama.max_position_embeddings = kRow;
  config.data.sequence_length = kRow;
  config.schedule.sub_batches = 2;
  config.memory.host_limit = ByteSize{64 * kMiB};
  const auto start = [&] {
    const auto self = make_self_ranks();
    const Session session(config, *self);
  };
  CHECK_THAT(refusal_of(start), ContainsSubstring("the run needs"));
  config.data.synthetic = false;
  config.data.dtype = TokenFormat::kU16;
  config.data.eos_token = 3;
  config.data.document_mask = true;
  for (FileSources* const sources : {&config.data.train, &config.data.validation}) {
    *sources = sparse_file(folder, "tokens.bin", 2 * kRow + 1);
  }
  CHECK_THAT(refusal_of(start), ContainsSubstring("the run needs"));
}

}  // namespace strata::test
