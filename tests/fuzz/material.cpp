// Reads what cases are made from. Token files are made by the program's own tokenizer, models are
// the ones that the goldens use.

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "fuzz/cases.h"
#include "strata/base/json.h"
#include "strata/config/config.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"

namespace strata::fuzz {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("fuzz: cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void collect_keys(const FieldList& fields, const std::string& prefix, std::vector<Key>& keys) {
  for (const Field& field : fields.all()) {
    keys.push_back({prefix + field.key, field.type, field.optional, field.choices});
    if (!field.section) continue;
    const FieldList inner = field.section();
    collect_keys(inner, prefix + field.key + '.', keys);
  }
  for (const RetiredKey& key : fields.retired()) {
    keys.push_back({prefix + key.key, FieldType::kInteger, false, {}});
  }
}

void flatten(const Json& json, const std::string& prefix, Config& config) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + '.', config);
    } else {
      config.push_back({prefix + key, json_text(value)});
    }
  }
}

Config read_config(const fs::path& file) {
  Config config;
  flatten(parse_json<Json>(read(file)), "", config);
  return config;
}

/// Token files of a few documents, made of a text with a fixed pattern.
std::string make_tokens(const fs::path& scratch, int documents) {
  fs::remove_all(scratch / "text");
  fs::create_directories(scratch / "text");
  for (int i = 0; i < documents; ++i) {
    std::ofstream out(scratch / "text" / (std::to_string(i) + ".txt"));
    for (int line = 0; line <= i; ++line) out << "line " << line << " of document " << i << "\n";
  }
  const fs::path file = scratch / "tokens.bin";
  (void)tokenize({.inputs = {(scratch / "text").string()}, .output = file.string()});
  return read(file);
}

/// A token file with loss bits.
std::string make_loss_tokens(const fs::path& scratch) {
  const fs::path file = scratch / "loss.bin";
  TokenFileWriter writer(file.string(), {.type = TokenType::kU16, .vocabulary = 257});
  for (std::size_t length = 1; length < 20; ++length) {
    const std::vector<std::int32_t> ids(length, static_cast<std::int32_t>(length));
    std::vector<std::uint8_t> loss(length, 1);
    loss[0] = 0;
    writer.append(ids, loss);
    writer.end_document();
  }
  writer.close();
  writer.publish();
  return read(file);
}

std::vector<CaseFile> read_model(const fs::path& folder) {
  return {{"model/config.json", read(folder / "config.json")},
          {"model/model.safetensors", read(folder / "model.safetensors")}};
}

/// A safetensors file of some tensors of another one.
std::string write_shard(const Json& header, const std::string& data,
                        const std::vector<std::string>& names) {
  Json own = Json::object();
  std::string bytes;
  for (const std::string& name : names) {
    Json tensor = header[name];
    const std::size_t begin = tensor["data_offsets"][0];
    const std::size_t end = tensor["data_offsets"][1];
    tensor["data_offsets"] = {bytes.size(), bytes.size() + end - begin};
    bytes += data.substr(begin, end - begin);
    own[name] = tensor;
  }
  std::string text = json_text(own);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + text + bytes;
}

/// The same model in two shards and an index.
std::vector<CaseFile> split(const std::vector<CaseFile>& model) {
  const std::string& file = model[1].content;
  std::uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof(length));
  const Json header = parse_json<Json>(file.substr(sizeof(length), length));
  std::vector<std::string> names[2];
  Json weight_map = Json::object();
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const int shard = names[0].size() <= names[1].size() ? 0 : 1;
    names[shard].push_back(name);
    weight_map[name] = "model-" + std::to_string(shard) + ".safetensors";
  }
  const std::string data = file.substr(sizeof(length) + length);
  const Json index{{"metadata", {{"total_size", data.size()}}}, {"weight_map", weight_map}};
  return {model[0],
          {"model/model.safetensors.index.json", json_text(index, 2)},
          {"model/model-0.safetensors", write_shard(header, data, names[0])},
          {"model/model-1.safetensors", write_shard(header, data, names[1])}};
}

}  // namespace

Material load_material(const fs::path& repository, const fs::path& scratch) {
  Material material;
  RunConfig config;
  const FieldList fields = fields_of(config);
  collect_keys(fields, "", material.keys);
  material.tiny = read_config(repository / "configs/tiny-cpu.json");
  for (const auto& [path, json] :
       std::map<std::string, std::string>{{"model.hidden_size", "16"},
                                          {"model.intermediate_size", "24"},
                                          {"model.num_hidden_layers", "2"},
                                          {"model.max_position_embeddings", "32"},
                                          {"data.sequence_length", "16"},
                                          {"run.steps", "2"},
                                          {"run.threads", "1"},
                                          {"run.output", "\"run\""},
                                          {"checkpoint.at_end", "false"},
                                          {"optimizer.warmup_steps", "0"}}) {
    set(material.tiny, path, json);
  }
  for (const char* name : {"llama-1.3b", "llama-7b", "llama3-8b", "llama-70b"}) {
    material.large.push_back(read_config(repository / "configs" / (std::string(name) + ".json")));
  }
  material.train_tokens = make_tokens(scratch, 12);
  material.validation_tokens = make_tokens(scratch, 5);
  const fs::path models = repository / "tests/golden/data";
  material.models = {read_model(models / "odd"), read_model(models / "gqa_tied_llama3")};
  material.models.push_back(split(material.models[0]));
  material.models.push_back(read_model(models / "bnb_phi3"));  // in 4 bits
  const Json chat = parse_json<Json>(read(repository / "tests/chat/goldens.json"));
  material.conversation = json_text(chat["chat"]);
  for (const Json& golden : chat["cases"]) material.chat_templates.push_back(golden["template"]);
  material.loss_tokens = make_loss_tokens(scratch);
  for (const char* name : {"llama3", "gpt2", "llama2", "digits", "metaspace", "metaspace_first"}) {
    const fs::path folder = repository / "tests/golden/data/tokenizer";
    material.tokenizers.push_back(read(folder / (std::string(name) + ".json")));
  }
  return material;
}

void set(Config& config, const std::string& path, const std::string& json) {
  for (Entry& entry : config) {
    if (entry.path == path) {
      entry.json = json;
      return;
    }
  }
  config.push_back({path, json});
}

std::string write(const Config& config) {
  std::string text = "{";
  std::vector<std::string> written;  // sections
  const auto begin_value = [&text](const std::string& key) {
    if (text.size() > 1) text += ',';
    text += "\n\"" + key + "\": ";
  };
  for (const Entry& entry : config) {
    const std::size_t dot = entry.path.find('.');
    const std::string section = entry.path.substr(0, dot);
    if (dot == std::string::npos) {
      begin_value(section);
      text += entry.json;
      continue;
    }
    if (std::find(written.begin(), written.end(), section) != written.end()) continue;
    written.push_back(section);
    Config inner;
    for (const Entry& other : config) {
      if (other.path.starts_with(section + '.')) {
        inner.push_back({other.path.substr(dot + 1), other.json});
      }
    }
    begin_value(section);
    text += write(inner);
  }
  return text + "}";
}

}  // namespace strata::fuzz
