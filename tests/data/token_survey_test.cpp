// Tests the counts over a source and the places of its documents against counts made here.

#include "strata/data/token_survey.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/listed_tokens.h"
#include "support/scratch_folder.h"

namespace strata {

TEST_CASE("a survey counts documents, ids and loss of a source") {
  const std::vector<std::int32_t> ids{7, 0, 3, 9, 9, 0, 5, 0, 4, 4, 4};
  const std::vector<std::uint8_t> loss{0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0};
  const TokenSurvey survey = survey_tokens(ListedTokens(ids, 0, loss));
  CHECK(survey.tokens == 11);
  CHECK(survey.loss_tokens == 5);
  CHECK(survey.smallest_id == 0);
  CHECK(survey.largest_id == 9);
  CHECK(survey.documents == 4);  // of 2, 4, 2 and 3 tokens
  CHECK(survey.shortest == 2);
  CHECK(survey.median == 2);
  CHECK(survey.longest == 4);
}

TEST_CASE("a survey of an empty source has no ids and no documents") {
  const TokenSurvey survey = survey_tokens(ListedTokens({}));
  CHECK(survey.tokens == 0);
  CHECK(survey.documents == 0);
  CHECK(survey.smallest_id == -1);
  CHECK(survey.largest_id == -1);
}

TEST_CASE("an id above 2^31 - 1 is told as the file has it") {
  CHECK(survey_tokens(ListedTokens({5, -2})).largest_id == 0xfffffffe);
}

TEST_CASE("survey and documents are right across the pieces that a source is read in") {
  std::mt19937_64 random(1);
  const ScratchFolder folder;
  const std::string file = folder.file("many.bin");
  std::vector<std::int64_t> ends;
  std::int64_t counted = 0;
  {
    TokenFileWriter writer(file, {.type = TokenType::kU16, .vocabulary = 1000});
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> loss;
    for (int document = 0; document < 30; ++document) {
      ids.resize(1 + random() % 60'000);
      loss.resize(ids.size());
      for (std::int32_t& id : ids) id = static_cast<std::int32_t>(1 + random() % 990);
      for (std::uint8_t& one : loss) one = random() % 3 == 0;
      counted += std::accumulate(loss.begin(), loss.end(), std::int64_t{0});
      writer.append(ids, loss);
      writer.end_document();
      ends.push_back(writer.tokens());
    }
    writer.close();
    writer.publish();
  }
  const auto source = TokenFile::open(file);
  const TokenSurvey survey = survey_tokens(*source);
  std::vector<std::int64_t> lengths(ends.size());
  std::adjacent_difference(ends.begin(), ends.end(), lengths.begin());
  std::sort(lengths.begin(), lengths.end());
  CHECK(survey.tokens == ends.back());
  CHECK(survey.loss_tokens == counted);
  CHECK(survey.smallest_id == 1);
  CHECK(survey.largest_id == 990);
  CHECK(survey.documents == 30);
  CHECK(survey.shortest == lengths[0]);
  CHECK(survey.median == lengths[14]);
  CHECK(survey.longest == lengths[29]);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const TokenRange range = find_document(*source, static_cast<std::int64_t>(i) + 1);
    CHECK(range.begin == (i == 0 ? 0 : ends[i - 1]));
    CHECK(range.end == ends[i]);
  }
}

TEST_CASE("what stands behind the last end is a document, and a number beyond it is refused") {
  const ListedTokens source({1, 0, 2, 3}, 0);
  CHECK(find_document(source, 2).begin == 2);
  CHECK(find_document(source, 2).end == 4);
  for (const std::int64_t number : {0, 3, -1}) {
    CHECK_THROWS_WITH(find_document(source, number),
                      ContainsSubstring(source.name()) && ContainsSubstring("documents 1 to 2"));
  }
  CHECK_THROWS_WITH(find_document(ListedTokens({}), 1), ContainsSubstring("has no documents"));
}

}  // namespace strata
