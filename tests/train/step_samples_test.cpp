// Feeds a run the rows that are listed for its steps, read from the token file by hand: if they are
// those that a session reads itself, every loss has the same bits.

#include "strata/train/step_samples.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/memory_files.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {

namespace {

constexpr int kSampleRanks = 2;
constexpr std::int64_t kSampleSteps = 5;

std::vector<std::uint16_t> tokens_of_rows(std::int64_t rows, std::int64_t length) {
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(rows * length + 1));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>((i * i + i / 3) % 61);
  }
  return tokens;
}

/// Fills row `index` of a pass with the tokens from `first` on.
void fill_row(const std::vector<std::uint16_t>& tokens, std::int64_t first, std::int64_t index,
              const BatchShape& shape, const PassBuffers& out) {
  for (std::int64_t t = 0; t < shape.tokens; ++t) {
    const auto at = static_cast<std::size_t>(index * shape.tokens + t);
    const auto token = static_cast<std::size_t>(first + t);
    out.ids[at] = tokens.at(token);
    out.targets[at] = tokens.at(token + 1);
    out.positions[at] = static_cast<std::int32_t>(t);
  }
  const auto begin = static_cast<std::int32_t>(index % shape.rows * shape.tokens);
  const auto length = static_cast<std::int32_t>(shape.tokens);
  const std::array<std::int32_t, kSegmentColumns> entry{begin, begin, length, length, 0};
  std::ranges::copy(entry, out.segments.begin() + index * kSegmentColumns);
}

void sort_each_sub_batch(const BatchShape& shape, const PassBuffers& out) {
  const auto count = static_cast<std::size_t>(shape.sub_batch_tokens());
  for (std::size_t begin = 0; begin < out.ids.size(); begin += count) {
    const auto ids = out.ids.subspan(begin, count);
    const auto order = out.order.subspan(begin, count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
    });
  }
}

RunConfig file_config(const ScratchFolder& folder, const std::vector<std::uint16_t>& tokens) {
  RunConfig config = save_config({.passes = 2, .ranks = kSampleRanks});
  std::string bytes(tokens.size() * sizeof(std::uint16_t), '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  config.data.synthetic = false;
  config.data.dtype = TokenFormat::kU16;
  config.data.train = folder.write("train.bin", bytes);
  return config;
}

Manifest manifest_after(const Files& files, std::int64_t step) {
  return read_manifest(files, kCheckpoints / checkpoint_name(step));
}

Manifest consumed(std::int64_t steps, std::int64_t samples) {
  Manifest manifest;
  manifest.step = steps;
  manifest.samples = samples;
  return manifest;
}

RunConfig saved_config(const Manifest& manifest) {
  return parse_run_config(manifest.config, "manifest");
}

}  // namespace

TEST_CASE("a run that is fed the samples listed for its steps has the losses of the one listed") {
  const ScratchFolder folder;
  // Fewer rows than two steps take: epochs end within steps.
  const auto tokens = tokens_of_rows(11, save_config({}).data.sequence_length);
  const RunConfig config = file_config(folder, tokens);
  MemoryFiles files(kRunFolder);
  const SavedRun own =
      train_and_save(config, kSampleRanks, files, {.after = {2}, .steps = kSampleSteps});
  const Manifest manifest = manifest_after(files, 2);

  SessionHooks hooks;
  hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                   const PassBuffers& out) {
    const StepSamples listed = samples_of_step(manifest, saved_config(manifest), step + 1);
    const BatchShape& shape = options.shape;
    for (const StepRow& row : listed.rows) {
      if (row.pass != pass || row.rank != options.rank) continue;
      fill_row(tokens, row.first_token, row.sub_batch * shape.rows + row.row, shape, out);
    }
    sort_each_sub_batch(shape, out);
    return shape.pass_tokens();
  };
  MemoryFiles others(kRunFolder);
  const SavedRun fed = train_and_save(config, kSampleRanks, others, {.steps = kSampleSteps}, hooks);
  CHECK(fed.run.losses == own.run.losses);
}

TEST_CASE("samples of a step say where documents end, and count through epochs") {
  const ScratchFolder folder;
  const std::int64_t length = save_config({}).data.sequence_length;
  const auto tokens = tokens_of_rows(11, length);
  RunConfig config = file_config(folder, tokens);
  config.data.eos_token = tokens[0];
  const std::int64_t each = config.step_tokens(1) / length * kSampleRanks;
  const Manifest manifest = consumed(2, 2 * each);
  const StepSamples listed = samples_of_step(manifest, config, 4);
  CHECK(listed.ranks == kSampleRanks);
  CHECK(listed.sources.at(0).samples == 11);
  REQUIRE(std::ssize(listed.rows) == each);
  for (std::int64_t i = 0; i < each; ++i) {
    const StepRow& row = listed.rows[static_cast<std::size_t>(i)];
    CHECK(row.sample == 3 * each + i);
    CHECK(row.epoch == row.sample / 11);
    std::vector<std::int64_t> ends;
    for (std::int64_t at = row.first_token; at < row.first_token + length; ++at) {
      if (tokens.at(static_cast<std::size_t>(at)) == tokens[0]) ends.push_back(at + 1);
    }
    CHECK(row.document_ends == ends);
  }
}

TEST_CASE(
    "a step whose samples cannot be counted, or listed, is refused with the option to change") {
  const ScratchFolder folder;
  const RunConfig config =
      file_config(folder, tokens_of_rows(11, save_config({}).data.sequence_length));
  const Manifest manifest = consumed(2, 2 * config.step_rows(1));
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_WITH(samples_of_step(manifest, config, kMost),
                    ContainsSubstring("--step: samples of step 9,223,372,036,854,775,807"));
  CHECK_THROWS_WITH(samples_of_step(manifest, config, 3, std::numeric_limits<int>::max()),
                    ContainsSubstring("--ranks: a step of 2,147,483,647 ranks") &&
                        ContainsSubstring("name fewer"));
}

TEST_CASE("samples of a mixture name their source, file and place there") {
  const ScratchFolder folder;
  const std::int64_t length = save_config({}).data.sequence_length;
  RunConfig config = file_config(folder, tokens_of_rows(11, length));
  const std::string first = config.data.train.files()[0];
  const std::string shard = folder.write("shard.bin", std::string(10 * 2 * 16, '\1'));
  const std::string other =
      folder.write("other.bin", std::string(static_cast<std::size_t>(2 * (5 * length + 1)), '\1'));
  config.data.train.list = {{.files = {first, shard}, .weight = 1},
                            {.files = {other}, .weight = 1}};
  config.data.shuffle = false;
  const std::int64_t each = config.step_tokens(1) / length * kSampleRanks;
  const StepSamples listed = samples_of_step(consumed(2, 2 * each), config, 3);
  REQUIRE(listed.sources.size() == 2);
  CHECK(listed.sources[1].samples == 5);
  REQUIRE(std::ssize(listed.rows) == each);
  for (const StepRow& row : listed.rows) {
    CHECK(row.source == static_cast<std::size_t>(row.sample % 2));
    const std::int64_t number = row.sample / 2;
    const std::int64_t samples = listed.sources[row.source].samples;
    CHECK(row.epoch == number / samples);
    CHECK(row.first_token == number % samples * length);
    const bool in_shard = row.source == 0 && row.first_token >= 11 * length + 1;
    CHECK(row.place.file == (row.source == 1 ? other : in_shard ? shard : first));
    CHECK(row.place.token == row.first_token - (in_shard ? 11 * length + 1 : 0));
  }
}

TEST_CASE("samples of a step are refused where the manifest cannot tell them") {
  const ScratchFolder folder;
  RunConfig config = file_config(folder, tokens_of_rows(11, save_config({}).data.sequence_length));
  const std::int64_t of_rank = config.step_tokens(1) / config.data.sequence_length;
  const Manifest mixed = consumed(4, 4 * of_rank + 1);
  REQUIRE_THROWS_WITH(samples_of_step(mixed, config, 5), ContainsSubstring("--ranks"));
  CHECK(samples_of_step(mixed, config, 5, 2).rows.front().sample == mixed.samples);
  CHECK(samples_of_step(mixed, config, 6, 2).rows.front().sample == mixed.samples + 2 * of_rank);
  REQUIRE_THROWS_WITH(samples_of_step(mixed, config, 4, 2),
                      ContainsSubstring("with another batch shape"));
  REQUIRE_THROWS_WITH(samples_of_step(mixed, config, 0), ContainsSubstring("counted from 1"));
  config.schedule.step_rows = 3;
  REQUIRE_THROWS_WITH(samples_of_step(consumed(2, 6), config, 1), ContainsSubstring("--ranks"));
  const StepSamples few = samples_of_step(consumed(2, 6), config, 2, 2);
  REQUIRE(few.rows.size() == 3);
  CHECK(few.rows.front().sample == 3);
  CHECK(few.rows.back().sample == 5);
  config.data.train.list[0].files[0] += ".gone";
  REQUIRE_THROWS_AS(samples_of_step(mixed, config, 5, 2), IoError);
}

TEST_CASE("steps behind data that were left out are found behind them") {
  const ScratchFolder folder;
  const auto tokens = tokens_of_rows(200, save_config({}).data.sequence_length);
  const RunConfig config = file_config(folder, tokens);
  const BatchShape shape{.rows = config.schedule.rows,
                         .tokens = config.data.sequence_length,
                         .sub_batches = config.schedule.sub_batches};
  const std::int64_t each = config.schedule.passes * shape.sub_batches * shape.rows * kSampleRanks;
  Manifest manifest = consumed(6, 9 * each);
  manifest.skipped = {{2 * each, 3 * each}, {5 * each, 7 * each}};
  const auto first = [&](std::int64_t step) {
    const StepSamples samples = samples_of_step(manifest, config, step);
    CHECK(samples.ranks == kSampleRanks);
    return samples.rows.at(0).sample / each;
  };
  CHECK(first(2) == 1);
  CHECK(first(3) == 3);
  CHECK(first(4) == 4);
  CHECK(first(5) == 7);
  CHECK(first(7) == 9);
}

}  // namespace strata::test
