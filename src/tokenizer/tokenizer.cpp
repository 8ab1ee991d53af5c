// Reads tokenizer.json, and takes a text through its parts: added tokens, normalizer, added tokens
// that are normalized, pre-tokenizer, byte pair encoding, post-processor.

#include "strata/tokenizer/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "strata/base/file.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/decoder.h"
#include "tokenizer/json_section.h"
#include "tokenizer/marked_encoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer_json.h"

namespace strata {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{512} << 20;
constexpr std::int32_t kMostIds = 1 << 24;

struct Words {
  TokenTable table{};           ///< as the file writes them
  std::vector<bool> special{};  ///< by id
};

/// What the post-processor puts around a text.
struct Template {
  std::vector<std::int32_t> before{};
  std::vector<std::int32_t> after{};
};

void set_token(Words& words, const JsonSection& place, std::string_view text, std::int32_t id) {
  if (id >= kMostIds) place.fail("the id " + std::to_string(id) + " is too large for a vocabulary");
  words.table.set(id, text);
}

Words read_vocabulary(const JsonSection& section, const TokenizerJson& json) {
  if (!section.value().is_object()) section.fail("an object of tokens and ids is expected");
  Words words;
  words.table.reserve(json.ids.size());
  for (std::size_t i = 0; i < json.ids.size(); ++i) {
    if (words.table.find(json.tokens[i])) {
      section.fail("has twice the token " + shortened(printable(json.tokens[i])));
    }
    set_token(words, section, json.tokens[i], json.ids[i]);
  }
  return words;
}

std::vector<BpeMerge> read_merges(const JsonSection& section, const TokenizerJson& json,
                                  const TokenTable& table) {
  if (!section.value().is_array()) section.fail("a list of merges is expected");
  const auto id = [&](std::size_t merge, std::string_view token) {
    const std::optional<std::int32_t> found = table.find(token);
    if (found) return *found;
    section.fail("the vocabulary does not have " + shortened(printable(token)) + " of merge " +
                 std::to_string(merge));
  };
  std::vector<BpeMerge> merges;
  merges.reserve(json.merged.size() / 2);
  for (std::size_t i = 0; 2 * i < json.merged.size(); ++i) {
    merges.push_back({.left = id(i, json.merged[2 * i]),
                      .right = id(i, json.merged[2 * i + 1]),
                      .merged = id(i, json.merged.join(2 * i, 2 * i + 2))});
  }
  return merges;
}

void refuse_affixes(const JsonSection& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.at(key).text_or("").empty()) model.at(key).refuse("a text here");
  }
  const JsonSection dropout = model.at("dropout");
  if (!dropout.is_null() && dropout.value() != 0.0) dropout.refuse("dropout");
}

/// Tells whether a merge takes a byte's token, which is text to byte fallback and to nobody else.
bool merges_byte_tokens(const std::vector<BpeMerge>& merges, const Words& words) {
  const auto is_byte = [&](std::int32_t id) {
    const std::string& token = words.table.text(id);
    return token.size() == 6 && token.starts_with("<0x");
  };
  return std::any_of(merges.begin(), merges.end(), [&](const BpeMerge& merge) {
    return is_byte(merge.left) || is_byte(merge.right);
  });
}

BpeOptions read_bpe_options(const JsonSection& model, const PreTokenizer& pre_tokenizer,
                            const Words& words) {
  BpeOptions options{
      .symbols = pre_tokenizer.is_byte_level() ? BpeSymbols::kBytes : BpeSymbols::kCodePoints,
      .ignore_merges = model.at("ignore_merges").flag_or(false),
      .byte_fallback = model.at("byte_fallback").flag_or(false),
      .fuse_unk = model.at("fuse_unk").flag_or(false)};
  const JsonSection unk = model.at("unk_token");
  if (!unk.is_null()) {
    options.unk = words.table.find(unk.text());
    if (!options.unk) unk.fail("the vocabulary does not have this token");
  }
  if (options.symbols == BpeSymbols::kBytes && options.byte_fallback) {
    model.at("byte_fallback").refuse("byte fallback with ByteLevel");
  }
  return options;
}

void read_template(const JsonSection& section, Template& result) {
  if (section.is_null()) return;
  const std::string type = section.type();
  if (type == "ByteLevel") return;
  if (type == "Sequence") {
    for (const JsonSection& step : section.at("processors").items()) read_template(step, result);
    return;
  }
  if (type != "TemplateProcessing") section.refuse("the post-processor " + type);
  bool text_seen = false;
  for (const JsonSection& item : section.at("single").items()) {
    if (!item.at("Sequence").is_null()) {
      if (text_seen) item.refuse("a template with two texts");
      text_seen = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").at("id").text();
    const JsonSection ids = section.at("special_tokens").at(name.c_str()).at("ids");
    for (const JsonSection& id : ids.items()) {
      (text_seen ? result.after : result.before).push_back(id.count());
    }
  }
  if (!text_seen) section.at("single").refuse("a template without the text");
}

/// FNV-1a of 64 bits, over texts with their lengths.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : std::to_string(text.size()) + ':') add_byte(c);
    for (const char c : text) add_byte(c);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  void add_byte(char c) { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U; }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

std::uint64_t hash_of(const JsonSection& root, const Words& words,
                      const std::vector<BpeMerge>& merges) {
  Hash hash;
  for (const std::string& token : words.table.tokens()) hash.add(token);
  for (const BpeMerge& m : merges) hash.add(std::to_string(m.left) + ' ' + std::to_string(m.right));
  for (const char* key : {"normalizer", "pre_tokenizer", "added_tokens", "post_processor"}) {
    hash.add(root.at(key).value().dump());
  }
  for (const char* key : {"ignore_merges", "byte_fallback", "fuse_unk", "unk_token"}) {
    hash.add(root.at("model").at(key).value().dump());
  }
  return hash.value();
}

/// Returns the tokens as the model sees texts: bytes where ByteLevel writes them.
std::vector<std::string> model_texts(const Words& words, BpeSymbols symbols) {
  std::vector<std::string> texts = words.table.tokens();
  if (symbols == BpeSymbols::kCodePoints) return texts;
  for (std::string& text : texts) text = bytes_of_byte_level(text).value_or("");
  return texts;
}

/// Returns what `parse` makes of a file's text; its ConfigError gets the file's name.
template <class Parse>
auto parse_file(const std::string& file, const Parse& parse) {
  try {
    return parse(read_text_file(file, kMostFileBytes));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(file + ": is not JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw ConfigError(file + ": " + error.what());
  }
}

/// Returns the id of a token that tokenizer_config.json names as a text or as an added token.
std::optional<std::int32_t> read_special(const JsonSection& section, const TokenTable& table) {
  if (section.is_null()) return std::nullopt;
  const std::string text =
      section.value().is_object() ? section.at("content").text() : section.text();
  const std::optional<std::int32_t> found = table.find(text);
  if (!found) section.fail("the vocabulary does not have " + shown(section.value()));
  return found;
}

/// Reads the config beside a tokenizer's file, if there is one.
SpecialTokens read_special_tokens(const std::filesystem::path& file, const TokenTable& table,
                                  const Template& around) {
  SpecialTokens special;
  const std::string config = (file.parent_path() / "tokenizer_config.json").string();
  if (!std::filesystem::exists(config)) return special;
  const nlohmann::json json =
      parse_file(config, [](std::string_view text) { return parse_json<nlohmann::json>(text); });
  const JsonSection root(json, config + ": $");
  special.bos = read_special(root.at("bos_token"), table);
  special.eos = read_special(root.at("eos_token"), table);
  const bool puts =
      special.bos && std::ranges::find(around.before, *special.bos) != around.before.end();
  special.begins_texts = special.bos && root.at("add_bos_token").flag_or(puts);
  return special;
}

}  // namespace

struct Tokenizer::Parts {
  static std::unique_ptr<Parts> read(const JsonSection& root, const TokenizerJson& json);
  void encode_text(std::string_view text, PreTokenizer::Place place, EncodeCache& cache,
                   std::vector<std::int32_t>& ids) const;

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  AddedTokens added;
  Template around;
  Words words;
  Bpe bpe;
  std::uint64_t hash;
  SpecialTokens special{};
};

std::unique_ptr<Tokenizer::Parts> Tokenizer::Parts::read(const JsonSection& root,
                                                         const TokenizerJson& json) {
  const JsonSection model = root.at("model");
  const std::string type = model.at("type").text_or("BPE");
  if (type != "BPE") model.refuse("the model " + type);
  refuse_affixes(model);
  Normalizer normalizer = Normalizer::read(root.at("normalizer"));
  PreTokenizer pre_tokenizer = PreTokenizer::read(root.at("pre_tokenizer"));
  Decoder decoder = Decoder::read(root.at("decoder"));
  AddedTokens added = AddedTokens::read(root.at("added_tokens"), normalizer);
  Template around;
  read_template(root.at("post_processor"), around);

  Words words = read_vocabulary(model.at("vocab"), json);
  const std::vector<BpeMerge> merges = read_merges(model.at("merges"), json, words.table);
  BpeOptions options = read_bpe_options(model, pre_tokenizer, words);
  const bool may_cut = pre_tokenizer.keeps_texts_whole() && !options.ignore_merges &&
                       !merges_byte_tokens(merges, words);
  options.cuts = may_cut ? SafeCuts::kAllowed : SafeCuts::kNever;
  Bpe bpe(model_texts(words, options.symbols), merges, options);

  for (const AddedToken& token : added.tokens()) {
    if (words.table.find(token.text).value_or(token.id) != token.id) {
      root.at("added_tokens").fail("the vocabulary has another id for " + shortened(token.text));
    }
    set_token(words, root.at("added_tokens"), token.text, token.id);
  }
  words.special.resize(words.table.tokens().size());
  for (const AddedToken& token : added.tokens()) {
    if (token.special) words.special[static_cast<std::size_t>(token.id)] = true;
  }
  const std::uint64_t hash = hash_of(root, words, merges);
  return std::make_unique<Parts>(Parts{std::move(normalizer), std::move(pre_tokenizer),
                                       std::move(decoder), std::move(added), std::move(around),
                                       std::move(words), std::move(bpe), hash});
}

void Tokenizer::Parts::encode_text(std::string_view text, PreTokenizer::Place place,
                                   EncodeCache& cache, std::vector<std::int32_t>& ids) const {
  pre_tokenizer.apply(text, place, [&](std::string_view piece) { bpe.encode(piece, cache, ids); });
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::unique_ptr<const Tokenizer> Tokenizer::load(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const std::string file =
      is_folder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
  const TokenizerJson json =
      parse_file(file, [](std::string_view text) { return parse_tokenizer_json(text); });
  std::unique_ptr<Parts> parts = Parts::read(JsonSection(json.tree, file + ": $"), json);
  parts->special = read_special_tokens(file, parts->words.table, parts->around);
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

std::int64_t Tokenizer::vocabulary() const { return parts_->words.table.size(); }
std::uint64_t Tokenizer::hash() const { return parts_->hash; }
const SpecialTokens& Tokenizer::special_tokens() const { return parts_->special; }

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  return parts_->words.table.find(token);
}

std::string_view Tokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocabulary()) return {};
  return parts_->words.table.text(id);
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                       std::vector<std::int32_t>& ids) const {
  const Parts& p = *parts_;
  cache.use_for(p.hash);
  const auto special = options.parse_special ? SpecialTexts::kParsed : SpecialTexts::kOrdinary;
  if (options.add_special) ids.insert(ids.end(), p.around.before.begin(), p.around.before.end());
  std::vector<TextPart> parts;
  p.added.split(text, false, special, parts);
  for (const TextPart& part : parts) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    std::string buffer;
    std::vector<TextPart> inner;
    p.added.split(p.normalizer.apply(part.text, buffer), true, special, inner);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const bool is_begin = i == 0 && part.text.data() == text.data();
      if (inner[i].token != nullptr) {
        ids.push_back(inner[i].token->id);
      } else {
        p.encode_text(inner[i].text,
                      is_begin ? PreTokenizer::Place::kBegin : PreTokenizer::Place::kLater, cache,
                      ids);
      }
    }
  }
  if (options.add_special) ids.insert(ids.end(), p.around.after.begin(), p.around.after.end());
}

void Tokenizer::encode_marked(const MarkedText& text, EncodeCache& cache,
                              std::vector<std::int32_t>& ids,
                              std::vector<std::uint8_t>& marks) const {
  const Parts& p = *parts_;
  cache.use_for(p.hash);
  MarkedEncoder({p.added, p.normalizer, p.pre_tokenizer, p.bpe, p.words.table.tokens()}, cache, ids,
                marks)
      .encode(text);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string_view text = token(id);
    if (text.empty()) continue;
    if (options.skip_special && parts_->words.special[static_cast<std::size_t>(id)]) continue;
    tokens.emplace_back(text);
  }
  return parts_->decoder.decode(std::move(tokens));
}

}  // namespace strata
