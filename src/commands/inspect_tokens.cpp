// All ids are read, since no header tells the smallest and the largest one. A document is shown by
// its ids alone where no tokenizer is known to turn them into text.

#include "commands/inspect_tokens.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "commands/token_printer.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/joined_tokens.h"
#include "strata/data/open_source.h"
#include "strata/data/token_survey.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

struct Shard {
  std::string file;
  TokenStorage storage;
  std::int64_t tokens = 0;
};

/// Files of tokens as one source.
struct TokenFiles {
  std::vector<Shard> shards;
  std::unique_ptr<TokenSource> tokens;
  bool tell_documents = true;
};

/// Throws ConfigError for options that say what all files tell themselves.
void refuse_told(const std::vector<Shard>& shards, const InspectOptions& options) {
  const auto needs = [&](auto is_open) { return std::ranges::any_of(shards, is_open); };
  const auto is_bare = [](const Shard& s) { return s.storage.kind == "bare ids"; };
  const auto lists_none = [&](const Shard& s) { return is_bare(s) || s.storage.kind == "llm.c"; };
  if (!options.dtype.empty() && !needs(is_bare)) {
    throw ConfigError("--dtype: " + shards[0].file +
                      " says itself which type its ids have; leave it out");
  }
  if (options.eos_token && !needs(lists_none)) {
    throw ConfigError("--eos-token: " + shards[0].file +
                      " says itself where its documents end; leave it out");
  }
}

TokenFiles open_files(const std::vector<std::string>& files, const InspectOptions& options) {
  ForeignFormat foreign;
  if (!options.dtype.empty()) foreign.type = parse_token_type(options.dtype);
  foreign.end_of_document = options.eos_token;
  TokenFiles result;
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& file : files) {
    parts.push_back(open_token_source(file, foreign));
    const TokenStorage storage = parts.back()->storage();
    result.shards.push_back({.file = file, .storage = storage, .tokens = parts.back()->size()});
    result.tell_documents = result.tell_documents && storage.tells_documents;
  }
  refuse_told(result.shards, options);
  result.tokens =
      parts.size() == 1 ? std::move(parts[0]) : std::make_unique<JoinedTokens>(std::move(parts));
  return result;
}

// ---- all of it ----------------------------------------------------------------------------------

std::string storage_kind(const TokenStorage& storage) {
  std::string text(storage.kind);
  if (storage.version > 0) text += ", version " + std::to_string(storage.version);
  return text + ", " + std::to_string(storage.id_bytes) + " bytes an id";
}

std::string tokenizer_text(std::uint64_t hash) {
  if (hash == 0) return "not told";
  return fmt::format("{:x}", hash) + (hash == ByteTokenizer::hash() ? ", the byte tokenizer" : "");
}

std::string tokens_text(const TokenFiles& files, const TokenSurvey& survey) {
  const TokenSource& tokens = *files.tokens;
  std::string text = "tokens " + printable_name(tokens.name()) + "\n  kind       " +
                     storage_kind(files.shards[0].storage) + "\n  tokens     " +
                     format_count(survey.tokens);
  text += "\n  documents  ";
  text += files.tell_documents
              ? fmt::format("{}; of {} to {} tokens, median {}", format_count(survey.documents),
                            format_count(survey.shortest), format_count(survey.longest),
                            format_count(survey.median))
              : "not told; --eos-token names the id that ends them";
  text += "\n  loss       ";
  text +=
      tokens.has_loss() ? "of " + format_count(survey.loss_tokens) + " tokens" : "of all tokens";
  text += survey.tokens > 0
              ? fmt::format("\n  ids        {} to {}", survey.smallest_id, survey.largest_id)
              : "\n  ids        none";
  text += "\n  vocabulary " +
          (tokens.vocabulary() > 0 ? format_count(tokens.vocabulary()) : "not told");
  if (tokens.vocabulary() > 0 && survey.largest_id >= tokens.vocabulary()) {
    text += ", which the largest id is outside of: damaged, or not what its header says";
  }
  text += "\n  tokenizer  " + tokenizer_text(tokens.tokenizer_hash()) + "\n";
  if (files.shards.size() == 1) return text;
  text += "\nshards\n";
  for (const Shard& shard : files.shards) {
    text += fmt::format("  {}: {} tokens, {}\n", printable_name(shard.file),
                        format_count(shard.tokens), storage_kind(shard.storage));
  }
  return text;
}

Json tokens_json(const TokenFiles& files, const TokenSurvey& survey) {
  const TokenSource& tokens = *files.tokens;
  const TokenStorage& storage = files.shards[0].storage;
  Json json{{"kind", "tokens"},           {"path", files.shards[0].file}, {"format", storage.kind},
            {"version", storage.version}, {"id_bytes", storage.id_bytes}, {"tokens", survey.tokens},
            {"documents", nullptr}};
  if (files.tell_documents) {
    json["documents"] = {{"count", survey.documents},
                         {"shortest", survey.shortest},
                         {"median", survey.median},
                         {"longest", survey.longest}};
  }
  json["has_loss"] = tokens.has_loss();
  json["loss_tokens"] = survey.loss_tokens;
  json["smallest_id"] = survey.smallest_id < 0 ? Json() : Json(survey.smallest_id);
  json["largest_id"] = survey.largest_id < 0 ? Json() : Json(survey.largest_id);
  json["vocabulary"] = tokens.vocabulary() > 0 ? Json(tokens.vocabulary()) : Json();
  const std::uint64_t hash = tokens.tokenizer_hash();
  json["tokenizer"] = hash == 0 ? Json() : Json(fmt::format("{:x}", hash));
  json["shards"] = Json::array();
  for (const Shard& shard : files.shards) {
    json["shards"].push_back({{"path", shard.file},
                              {"format", shard.storage.kind},
                              {"version", shard.storage.version},
                              {"id_bytes", shard.storage.id_bytes},
                              {"tokens", shard.tokens}});
  }
  return json;
}

// ---- one document -------------------------------------------------------------------------------

struct Document {
  std::string name;
  TokenRange range;
  TokenPlace place;
  std::vector<std::int32_t> ids{};
  std::vector<std::uint8_t> loss{};
};

Document read_document(const TokenFiles& files, std::int64_t number) {
  const TokenSource& tokens = *files.tokens;
  if (!files.tell_documents) {
    throw ConfigError("--document: " + tokens.name() +
                      " does not tell its documents; name the id that ends them by --eos-token");
  }
  const TokenRange range = find_document(tokens, number);
  Document document{.name = {}, .range = range, .place = tokens.place_of(range.begin)};
  document.name = document.place.file + ", document " + format_count(number);
  document.ids.resize(static_cast<std::size_t>(range.end - range.begin));
  document.loss.resize(document.ids.size());
  tokens.read(range.begin, document.ids);
  tokens.read_loss(range.begin, document.loss);
  return document;
}

std::unique_ptr<const Tokenizer> load_tokenizer(const TokenSource& tokens,
                                                const std::string& path) {
  if (path.empty()) return nullptr;
  auto tokenizer = Tokenizer::load(path);
  const std::uint64_t hash = tokens.tokenizer_hash();
  if (hash == 0 || hash == tokenizer->hash()) return tokenizer;
  throw ConfigError(fmt::format(
      "--tokenizer: {} has the hash {:x}, but {} was made by the tokenizer of {}; name that one",
      path, tokenizer->hash(), tokens.name(), tokenizer_text(hash)));
}

/// Prints ids on one line; those whose loss does not count are in brackets.
void print_ids(const Document& document) {
  std::cout << printable_name(document.name) << ", from token "
            << format_count(document.place.token)
            << " on: " << format_count(std::ssize(document.ids)) << " tokens\n";
  for (std::size_t i = 0; i < document.ids.size(); ++i) {
    const std::string id = std::to_string(static_cast<std::uint32_t>(document.ids[i]));
    std::cout << (i > 0 ? " " : "") << (document.loss[i] != 0 ? id : "[" + id + "]");
  }
  std::cout << '\n';
}

void show_document(const TokenFiles& files, const InspectOptions& options) {
  const auto tokenizer = load_tokenizer(*files.tokens, options.tokenizer);
  const Document document = read_document(files, *options.document);
  const bool bytes = files.tokens->tokenizer_hash() == ByteTokenizer::hash() &&
                     std::all_of(document.ids.begin(), document.ids.end(), [](std::int32_t id) {
                       return id >= 0 && id < ByteTokenizer::kVocabulary;
                     });
  if (options.json) {
    Json json{{"kind", "document"},          {"document", *options.document},
              {"file", document.place.file}, {"first_token", document.place.token},
              {"ids", document.ids},         {"loss", document.loss}};
    if (tokenizer) json["text"] = tokenizer->decode(document.ids);
    if (bytes) json["text"] = ByteTokenizer::decode(document.ids);
    std::cout << json_text(json, 2, NotUtf8::kReplace) << '\n';
  } else if (tokenizer || bytes) {
    print_tokens(std::cout,
                 {.name = document.name,
                  .first = document.place.token,
                  .ids = document.ids,
                  .loss = document.loss,
                  .tokenizer = tokenizer.get()},
                 shows_colours());
  } else {
    print_ids(document);
  }
}

}  // namespace

void inspect_tokens(const std::vector<std::string>& files, const InspectOptions& options) {
  if (!options.tokenizer.empty() && !options.document) {
    throw ConfigError("--tokenizer: is for the text of a document; name one by --document N");
  }
  const TokenFiles opened = open_files(files, options);
  if (options.document) return show_document(opened, options);
  const TokenSurvey survey = survey_tokens(*opened.tokens);
  if (!options.json) {
    std::cout << tokens_text(opened, survey);
  } else {
    std::cout << json_text(tokens_json(opened, survey), 2, NotUtf8::kReplace) << '\n';
  }
}

}  // namespace strata
