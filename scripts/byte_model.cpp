// The yardstick of quickstart.sh: how well does a model predict a text that knows nothing but how
// often each token follows each other token? Prints its cross-entropy in nats per token.
//
//   strata_byte_model TRAIN.bin VALIDATION.bin

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/token_file.h"

namespace {

using strata::TokenFile;

std::vector<std::int32_t> read_all(const TokenFile& file) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

/// P(next | token) = (pairs + kPrior) / (occurrences + V kPrior), counted over a training set.
class PairCounts {
 public:
  PairCounts(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary)
      : vocabulary_(static_cast<std::size_t>(vocabulary)),
        pairs_(vocabulary_ * vocabulary_),
        occurrences_(vocabulary_) {
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      pairs_[at(tokens[i], tokens[i + 1])] += 1;
      occurrences_[static_cast<std::size_t>(tokens[i])] += 1;
    }
  }

  /// Mean of -log P over all tokens but the first.
  [[nodiscard]] double cross_entropy(const std::vector<std::int32_t>& tokens) const {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const double all = occurrences_[static_cast<std::size_t>(tokens[i])] +
                         kPrior * static_cast<double>(vocabulary_);
      sum -= std::log((pairs_[at(tokens[i], tokens[i + 1])] + kPrior) / all);
    }
    return sum / static_cast<double>(tokens.size() - 1);
  }

 private:
  static constexpr double kPrior = 0.1;  // small: the counts speak, unseen pairs stay possible
  [[nodiscard]] std::size_t at(std::int32_t token, std::int32_t next) const {
    return static_cast<std::size_t>(token) * vocabulary_ + static_cast<std::size_t>(next);
  }

  std::size_t vocabulary_;
  std::vector<double> pairs_;
  std::vector<double> occurrences_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: strata_byte_model TRAIN.bin VALIDATION.bin\n", stderr);
    return 2;
  }
  try {
    const std::unique_ptr<TokenFile> train = TokenFile::open(argv[1]);
    const std::unique_ptr<TokenFile> validation = TokenFile::open(argv[2]);
    if (train->tokenizer_hash() != validation->tokenizer_hash() || validation->size() < 2) {
      throw strata::IoError(validation->name() + ": is not a validation set for " + train->name());
    }
    const PairCounts model(read_all(*train), train->vocabulary());
    std::printf("%.4f\n", model.cross_entropy(read_all(*validation)));
    return 0;
  } catch (const strata::Error& error) {
    std::fprintf(stderr, "strata_byte_model: %s\n", error.what());
    return error.exit_code();
  }
}
