// Configs with one to five mutations on a valid one. Most are planned, which takes no memory; a
// share trains or benches a step or two of a tiny model within a pinned limit of memory.

#include <algorithm>
#include <array>
#include <string_view>

#include "fuzz/cases.h"
#include "fuzz/nasty.h"

namespace strata::fuzz {
namespace {

/// Valid configs differ in these ways from the tiny one.
const std::vector<Config>& flavours() {
  static const std::vector<Config> all{
      {{"optimizer.timing", "\"speculative\""}},
      {{"optimizer.timing", "\"on_arrival\""}, {"optimizer.grad_clip", "null"}},
      {{"optimizer.timing", "\"on_arrival\""},
       {"optimizer.grad_clip", "null"},
       {"optimizer.deferred_units", "1"},
       {"optimizer.gradient_ring", "3"}},
      {{"run.dtype", "\"bf16\""}, {"optimizer.gradient_dtype", "\"bf16\""}},
      {{"run.dtype", "\"bf16\""}, {"optimizer.moment_dtype", "\"bf16\""}},
      {{"run.dtype", "\"bf16\""}, {"optimizer.moment_dtype", "\"8bit\""}},
      {{"run.dtype", "\"f64\""}},
      {{"schedule.passes", "3"}},
      {{"schedule.passes", "2"}, {"schedule.gradient_sums", "\"device\""}},
      {{"schedule.spill_dtype", "\"int8\""}, {"schedule.activations", "\"recompute\""}},
      {{"schedule.spill", "\"selective\""}, {"schedule.activations", "\"selective\""}},
      {{"schedule.activations", "\"full\""}},
      {{"schedule.resident_units", "1"}, {"optimizer.interleave", "0.5"}},
      {{"schedule.head_chunk_tokens", "5"}},
      {{"optimizer.lr_schedule", "\"wsd\""}, {"optimizer.wsd_decay_steps", "1"}},
      {{"optimizer.lr_schedule", "\"cosine\""}, {"optimizer.min_lr_ratio", "0.1"}},
      {{"run.steps", "4"}, {"run.trace_step", "1"}},
      {{"debug.execution", "\"shuffled\""}, {"debug.poison_slots", "true"}},
      {{"debug.execution", "\"eager\""}, {"debug.synchronize_each", "true"}},
      {{"data.synthetic", "false"}, {"data.train", "\"train.bin\""}},
      {{"data.synthetic", "false"},
       {"data.train", "\"train.bin\""},
       {"data.validation", "\"validation.bin\""},
       {"data.document_mask", "true"},
       {"run.eval_every", "1"}},
      {{"model.rope_scaling.rope_type", "\"llama3\""},
       {"model.rope_scaling.original_max_position_embeddings", "16"}},
      {{"model.rope_scaling.rope_type", "\"yarn\""}, {"model.rope_scaling.mscale", "2"}},
      {{"model.tie_word_embeddings", "true"}, {"model.head_dim", "6"}},
      {{"model.model_type", "\"smollm3\""}},
      {{"model.model_type", "\"phi3\""}, {"model.partial_rotary_factor", "0.5"}},
      {{"model.model_type", "\"qwen3\""}, {"model.sliding_window", "3"}},
      {{"model.model_type", "\"glm4\""}, {"model.attention_bias", "true"}},
      {{"model.model_type", "\"ministral3\""},
       {"model.rope_scaling.rope_type", "\"yarn\""},
       {"model.llama_4_scaling_beta", "0.1"}},
      {{"memory.device_limit", "\"24GiB\""}, {"memory.host_limit", "\"128GiB\""}},
      {{"memory.spill_limit", "\"1MiB\""}, {"hardware.peak_tflops", "100"}},
      {{"hardware.product_tflops", "1"},
       {"hardware.attention_forward_tflops", "1"},
       {"hardware.attention_backward_tflops", "1"},
       {"hardware.device_gbs", "10"},
       {"hardware.host_gbs", "10"}}};
  return all;
}

/// Keys that bound what a run takes: cases that train leave them as they are.
bool is_bound(std::string_view path) {
  constexpr std::array<std::string_view, 5> kBounds{"run.steps", "memory", "memory.host_limit",
                                                    "memory.device_limit", "run"};
  return std::find(kBounds.begin(), kBounds.end(), path) != kBounds.end();
}

/// A config, a command line, and what becomes of them.
class Mutator {
 public:
  Mutator(Dice& dice, const Material& material) : dice_(dice), material_(material) {
    runs_ = dice_.chance(0.2);
    if (!runs_ && dice_.chance(0.005)) {
      config_ = dice_.pick(material_.large);
    } else {
      config_ = material_.tiny;
      for (std::size_t count = dice_.below(3); count > 0; --count) {
        for (const Entry& entry : dice_.pick(flavours())) set(config_, entry.path, entry.json);
      }
      if (dice_.chance(0.1)) take_model();
    }
    if (runs_) {
      set(config_, "memory.host_limit", "\"256MiB\"");
      set(config_, "memory.device_limit", "\"64MiB\"");
    }
  }

  Case make() {
    for (std::size_t count = 1 + dice_.below(1 + dice_.below(5)); count > 0; --count) mutate();
    std::string text = write(config_);
    // Where a text cannot be read the file is named, and where an argument cannot, its number.
    for (const char* name : {"case.json: not valid JSON", "case.json: objects and lists nest",
                             "case.json: has more than", "/config.json: ", "argument "}) {
      case_.subjects.emplace_back(name);
    }
    if (dice_.chance(0.08)) damage_text(text);
    case_.files.push_back({"case.json", text});
    case_.files.push_back({"train.bin", material_.train_tokens});
    case_.files.push_back({"validation.bin", material_.validation_tokens});
    case_.files.push_back({"folder", "", CaseFile::Kind::kFolder});
    case_.files.push_back({"fifo", "", CaseFile::Kind::kFifo});
    case_.files.push_back({"loop", "loop", CaseFile::Kind::kLink});
    case_.files.push_back({"link", "train.bin", CaseFile::Kind::kLink});
    command_line();
    return std::move(case_);
  }

 private:
  void take_model() {
    case_.files = dice_.pick(material_.models);
    std::erase_if(config_, [](const Entry& entry) { return entry.path.starts_with("model."); });
    set(config_, "model.path", "\"model\"");
  }

  const Key& pick_key() {
    while (true) {
      const Key& key = dice_.pick(material_.keys);
      if (!runs_ || !is_bound(key.path)) return key;
    }
  }
  std::string present(const std::string& path) const {
    for (const Entry& entry : config_) {
      if (entry.path == path) return entry.json;
    }
    return "";
  }

  void mutate() {
    const Key& key = pick_key();
    const std::string value = nasty_json(dice_, key, present(key.path));
    const bool names = key.type == FieldType::kString || key.type == FieldType::kFiles;
    if (names && value.size() > 2) {
      case_.subjects.push_back(value.substr(1, std::min<std::size_t>(value.size() - 2, 60)));
    }
    switch (dice_.below(20)) {
      case 0:
        std::erase_if(config_, [&](const Entry& entry) { return entry.path == key.path; });
        break;
      case 1:
        config_.push_back({key.path, value});  // beside the first
        break;
      case 2: unknown_key(key.path, value); break;
      case 3: section(key.path, value); break;
      case 4:
      case 5:
      case 6: sets_.push_back(key.path + '=' + value); break;
      case 7: bad_set(key.path, value); break;
      default: set(config_, key.path, value);
    }
  }
  void unknown_key(std::string path, const std::string& value) {
    constexpr std::array<const char*, 8> kKeys{"$schema", "//",  "_comment",     "\xff",
                                               "\\u0000", "a b", "\xe6\x97\xa5", "model.path"};
    const std::size_t name = path.rfind('.') + 1;
    if (dice_.chance(0.5)) {
      path.insert(name + dice_.below(path.size() - name), 1, 'x');
    } else {
      path = path.substr(0, name) + (dice_.chance(0.9) ? dice_.pick(kKeys) : long_key());
    }
    case_.subjects.push_back(path.substr(name, 60));
    config_.push_back({path, value});
  }
  static const char* long_key() {
    static const std::string long_value(3000, 'k');
    return long_value.c_str();
  }
  /// Puts a value where a section is expected, or beside it.
  void section(const std::string& path, const std::string& value) {
    const std::string name = path.substr(0, path.find('.'));
    if (runs_ && is_bound(name)) return;
    if (dice_.chance(0.7)) {
      std::erase_if(config_, [&](const Entry& e) { return e.path.starts_with(name + '.'); });
    }
    config_.push_back({name, value});
    case_.subjects.push_back(name);
  }
  void bad_set(const std::string& path, const std::string& value) {
    const std::array<std::string, 10> set_forms{
        path,        path + '=', '=' + value,       '.' + path + '=' + value, path + ".x=" + value,
        path + ".=", "=",        nasty_text(dice_), path + "==" + value,      path + "x=" + value};
    sets_.push_back(dice_.pick(set_forms));
    case_.subjects.push_back(sets_.back().substr(0, 60));
    case_.subjects.emplace_back("--set");
  }

  void damage_text(std::string& text) {
    constexpr std::array<const char*, 6> kFronts{"\xef\xbb\xbf", "\xff\xfe", "// a\n",
                                                 "/* a */",      "[",        "\n\n\t"};
    case_.subjects.emplace_back("case.json");
    if (dice_.chance(0.2)) {
      text.insert(0, dice_.pick(kFronts));
    } else if (dice_.chance(0.3)) {
      damage_json(dice_, text);
    } else {
      for (std::size_t count = 1 + dice_.below(3); count > 0; --count) damage(dice_, text);
    }
  }

  void command_line() {
    constexpr std::array<const char*, 4> kOptional{"train", "bench", "bench", "train"};
    std::vector<std::string>& a = case_.arguments;
    a = {runs_ ? dice_.pick(kOptional) : "plan", "case.json"};
    for (const std::string& assignment : sets_) {
      a.insert(a.end(), {"--set", assignment});
    }
    if (runs_ && a[0] == std::string("bench") && dice_.chance(0.3)) {
      a.insert(a.end(), {"--json", "bench.json"});
    }
    if (!runs_ && dice_.chance(0.06)) {
      a.insert(a.end(), {"--device-memory", nasty_size(dice_), "--host-memory", "100GiB"});
      case_.subjects.emplace_back("--device-memory");
    }
    if (!runs_ && dice_.chance(0.02)) case_.full_output = true;
    if (dice_.chance(0.06)) bad_arguments();
    for (std::string& argument : a) {
      // NUL ends an argument; the system takes 128 KiB of each.
      argument = argument.substr(0, std::min<std::size_t>(argument.find('\0'), 130000));
    }
    // A word may have taken the place of "--set": "plan CONFIG --json run.steps=1" writes that
    // file.
    for (std::size_t i = 1; i < a.size(); ++i) {
      if (a[i - 1] == "--json") case_.outputs.push_back(a[i]);
    }
  }
  void bad_arguments() {
    constexpr std::array<const char*, 21> kWords{
        "--output",    "--json",     "--set",    "--help",  "--version", "-h",
        "train",       "plan",       "tokenize", "inspect", "export",    "import",
        "config-help", "--markdown", "--steps",  "--gpu",   "--nothing", "--set=a=b",
        "--overwrite", "--verify",   "--dtype"};
    std::vector<std::string>& a = case_.arguments;
    if (runs_) a[0] = "plan";
    const std::size_t at = dice_.below(a.size() + 1);
    std::string word = dice_.chance(0.5) ? dice_.pick(kWords) : nasty_text(dice_);
    if (at == 0 && word == "train") word = "trian";  // training has bounds
    case_.subjects.push_back(word.substr(0, 60));
    for (const char* name : {"--", "config", "case.json", "train", "plan", "Usage", "argument"}) {
      case_.subjects.emplace_back(name);
    }
    if (dice_.chance(0.3) && at < a.size()) {
      a[at] = word;
    } else if (dice_.chance(0.2) && at < a.size()) {
      a.erase(a.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      a.insert(a.begin() + static_cast<std::ptrdiff_t>(at), word);
    }
  }

  Dice& dice_;
  const Material& material_;
  bool runs_ = false;  ///< train or bench
  Config config_;
  std::vector<std::string> sets_;
  Case case_;
};

}  // namespace

Case make_config_case(Dice& dice, const Material& material) {
  return Mutator(dice, material).make();
}

}  // namespace strata::fuzz
