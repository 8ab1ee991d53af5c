// Translates keys of the config into what the data layer takes.

#include "strata/run/training_data.h"

#include <cstdint>
#include <optional>

#include "strata/base/narrow.h"
#include "strata/data/token_file.h"

namespace strata {

std::unique_ptr<TokenSource> open_tokens(const RunConfig& config, const std::string& file) {
  const std::int64_t vocabulary = config.model.llama.vocab_size;
  if (config.data.synthetic) {
    // Long enough that no benchmark sees a row twice.
    constexpr std::int64_t kTokens = std::int64_t{1} << 40;
    return std::make_unique<SyntheticTokens>(kTokens, vocabulary,
                                             static_cast<std::uint64_t>(config.run.seed));
  }
  std::optional<RawTokenFormat> raw;
  if (config.data.dtype != TokenFormat::kAuto) {
    raw = RawTokenFormat{
        .type = config.data.dtype == TokenFormat::kU16 ? TokenType::kU16 : TokenType::kU32,
        .end_of_document = std::nullopt};
    if (config.data.eos_token) raw->end_of_document = narrow<std::int32_t>(*config.data.eos_token);
  }
  return TokenFile::open(file, raw);
}

BatchOptions training_batches(const RunConfig& config, int rank, int ranks) {
  BatchOptions options;
  options.shape = {.rows = config.schedule.rows,
                   .tokens = config.data.sequence_length,
                   .sub_batches = config.schedule.sub_batches};
  options.passes = narrow<int>(config.schedule.passes);
  options.rank = rank;
  options.ranks = ranks;
  if (config.schedule.step_rows) options.step_rows = config.step_rows(ranks);
  options.mask = config.data.document_mask ? DocumentMask::kOn : DocumentMask::kOff;
  options.seed = static_cast<std::uint64_t>(config.run.seed);
  options.vocabulary = config.model.llama.vocab_size;
  return options;
}

}  // namespace strata
