// Files that commands read, damaged or replaced by what is no file at all: token files with and
// without header, of other programs, in sources with weights, texts, models of Hugging Face,
// configs. Outputs are aimed at what must not be replaced.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/cases.h"
#include "fuzz/nasty.h"

namespace strata::fuzz {
namespace {

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// One case: a command with its files, some of which are then mutated.
class Scene {
 public:
  Scene(Dice& dice, const Material& material) : dice_(dice), material_(material) {
    config_ = material.tiny;
    set(config_, "run.steps", dice_.chance(0.5) ? "1" : "2");
    set(config_, "memory.host_limit", "\"256MiB\"");
  }

  Case make() {
    switch (dice_.below(10)) {
      case 0:
      case 1:
      case 2: tokens(); break;
      case 3: headerless(); break;
      case 4: foreign(); break;
      case 5: sources(); break;
      case 6: text(); break;
      case 7:
        case_.arguments = {"plan", "case.json"};
        add("case.json", write(dice_.chance(0.03) ? dice_.pick(material_.large) : config_));
        break;
      default: model();
    }
    mutate();
    case_.subjects.emplace_back("argument ");
    return std::move(case_);
  }

 private:
  void add(const std::string& name, const std::string& content) {
    case_.files.push_back({name, content});
    mutable_.push_back(case_.files.size() - 1);
  }
  void add_config() { case_.files.push_back({"case.json", write(config_)}); }
  void choose(const std::string& path, const std::string& json) {
    if (dice_.chance(0.4)) set(config_, path, json);
  }

  void tokens() {
    add("train.bin", material_.train_tokens);
    set(config_, "data.synthetic", "false");
    set(config_, "data.train", "\"train.bin\"");
    if (dice_.chance(0.5)) {
      add("validation.bin", material_.validation_tokens);
      set(config_, "data.validation", "\"validation.bin\"");
      set(config_, "run.eval_every", "1");
    }
    choose("data.document_mask", "true");
    choose("data.sequence_length", "31");
    add_config();
    case_.arguments = {"train", "case.json"};
  }

  /// Token files as other programs write them: nothing but numbers.
  void headerless() {
    const std::size_t width = dice_.chance(0.5) ? 2 : 4;
    std::string bytes;
    for (std::size_t i = 0; i < 300 + dice_.below(9); ++i) {
      std::string number(width, '\0');
      number[0] = static_cast<char>(dice_.below(256));
      bytes += number;
    }
    add("train.bin", bytes);
    set(config_, "data.synthetic", "false");
    set(config_, "data.train", "\"train.bin\"");
    constexpr std::array<const char*, 4> kFormats{"\"auto\"", "\"u16\"", "\"u32\"", "\"u16\""};
    set(config_, "data.dtype",
        dice_.chance(0.7) ? (width == 2 ? "\"u16\"" : "\"u32\"") : dice_.pick(kFormats));
    choose("data.eos_token", "0");
    if (dice_.chance(0.2)) set(config_, "data.document_mask", "true");
    add_config();
    case_.arguments = {"train", "case.json"};
  }

  /// Files of llm.c and Megatron, whose ids are u16.
  void foreign() {
    std::vector<std::uint16_t> ids(300 + dice_.below(9));
    for (std::uint16_t& id : ids) id = static_cast<std::uint16_t>(dice_.below(256));
    set(config_, "data.synthetic", "false");
    if (dice_.chance(0.5)) {
      std::vector<std::int32_t> header(256);
      header[0] = 20240520;
      header[1] = 1;
      header[2] = static_cast<std::int32_t>(ids.size());
      add("train.bin", raw_bytes(header) + raw_bytes(ids));
      set(config_, "data.train", "\"train.bin\"");
      choose("data.eos_token", "0");
    } else {
      const auto half = static_cast<std::int32_t>(ids.size() / 2);
      const std::vector<std::int32_t> lengths{half, static_cast<std::int32_t>(ids.size()) - half};
      using Numbers = std::vector<std::uint64_t>;
      add("train.idx", std::string("MMIDIDX\0\0", 9) + raw_bytes(Numbers{1}) + '\x08' +
                           raw_bytes(Numbers{2, 3}) + raw_bytes(lengths) +
                           raw_bytes(Numbers{0, 2 * static_cast<std::uint64_t>(half), 0, 1, 2}));
      add("train.bin", raw_bytes(ids));
      set(config_, "data.train", "\"train.idx\"");
    }
    choose("data.document_mask", "true");
    add_config();
    case_.arguments = {"train", "case.json"};
  }

  /// Several files, joined or mixed.
  void sources() {
    add("train.bin", material_.train_tokens);
    add("validation.bin", material_.validation_tokens);
    set(config_, "data.synthetic", "false");
    constexpr std::array<const char*, 4> kSources{
        R"(["train.bin", "validation.bin"])", R"("[tv]*.bin")",
        R"([{"path": "train.bin", "weight": 0.7}, {"path": "validation.bin", "weight": 0.3}])",
        R"([{"path": "tr*.bin", "weight": 1}, {"path": ["validation.bin"], "weight": 2e-5}])"};
    set(config_, "data.train", dice_.pick(kSources));
    choose("data.document_mask", "true");
    choose("data.shuffle", "false");
    add_config();
    case_.arguments = {"train", "case.json"};
  }

  void text() {
    add("text/a.txt", "one text\nof two lines\n");
    add("text/b.txt", std::string(3000, 'b') + "\xc3\xa9");
    add("text/c/d.md", "# a heading\n");
    constexpr std::array<const char*, 13> kOutputs{
        "text/a.txt",   "text/../text/a.txt", "link", "folder",   "fifo",    "loop",
        "none/out.bin", "train.bin",          "full", "dangling", "out.bin", "text",
        "case.json"};
    case_.files.push_back({"link", "text/a.txt", CaseFile::Kind::kLink});
    case_.files.push_back({"full", "/dev/full", CaseFile::Kind::kLink});
    case_.files.push_back({"dangling", "nowhere", CaseFile::Kind::kLink});
    case_.files.push_back({"folder", "", CaseFile::Kind::kFolder});
    case_.files.push_back({"fifo", "", CaseFile::Kind::kFifo});
    case_.files.push_back({"loop", "loop", CaseFile::Kind::kLink});
    const auto output = [&] {
      return dice_.chance(0.7) ? "out.bin" : dice_.chance(0.8) ? dice_.pick(kOutputs) : name();
    };
    case_.outputs = {output()};
    case_.arguments = {"tokenize", "text", "--output", case_.outputs[0]};
    if (dice_.chance(0.4)) {
      case_.outputs.push_back(dice_.chance(0.7) ? "validation.bin" : output());
      constexpr std::array<const char*, 8> kFractions{"0.3", "0.5", "0",  "1",
                                                      "-1",  "nan", "1e", "0.999999"};
      case_.arguments.insert(case_.arguments.end(),
                             {"--validation-output", case_.outputs[1], "--validation-fraction",
                              dice_.pick(kFractions)});
    }
    if (dice_.chance(0.2)) case_.arguments[1] = dice_.chance(0.5) ? "text/a.txt" : "loop";
    if (dice_.chance(0.1)) case_.arguments[1] = name();
    if (dice_.chance(0.1)) {
      case_.arguments.insert(case_.arguments.end(), {"--extension", nasty_text(dice_)});
    }
    case_.full_output = dice_.chance(0.03);
    for (const std::string& argument : case_.arguments) {
      case_.subjects.push_back(argument.empty() ? "\"\"" : argument.substr(0, 60));
    }
  }
  /// A file's name, which may be none; not the name of a device that would be written to.
  std::string name() { return nasty_text(dice_); }

  void model() {
    for (const CaseFile& file : dice_.pick(material_.models)) add(file.name, file.content);
    std::erase_if(config_, [](const Entry& entry) { return entry.path.starts_with("model."); });
    set(config_, "model.path", "\"model\"");
    if (dice_.chance(0.3)) {
      set(config_, "adapter.rank", "2");
      set(config_, "adapter.base_format", "\"nf4\"");
    }
    add_config();
    case_.arguments = {dice_.chance(0.3) ? "plan" : "train", "case.json"};
  }

  void mutate() {
    const std::size_t most = std::min<std::size_t>(2, mutable_.size());
    for (std::size_t count = 1 + dice_.below(most); count > 0; --count) {
      CaseFile& file = case_.files[dice_.pick(mutable_)];
      const std::string last = file.name.substr(file.name.rfind('/') + 1);
      case_.subjects.push_back(last);
      if (file.kind != CaseFile::Kind::kFile || dice_.chance(0.2)) {
        replace(file);
      } else if (file.name.ends_with(".json") && dice_.chance(0.7)) {
        damage_json(dice_, file.content);
      } else if (file.name.ends_with(".safetensors") && dice_.chance(0.5)) {
        damage_header(file.content);
      } else {
        for (std::size_t times = 1 + dice_.below(3); times > 0; --times) {
          damage(dice_, file.content);
        }
      }
    }
  }
  void replace(CaseFile& file) {
    file.kind = CaseFile::Kind::kFile;
    constexpr std::array<const char*, 9> kTargets{"/dev/zero",      "/dev/full",    "/dev/null",
                                                  "/dev/urandom",   "/nonexistent", ".",
                                                  "/proc/self/mem", "case.json",    "/etc/passwd"};
    switch (dice_.below(7)) {
      case 0: file.content = ""; break;
      case 1: file.kind = CaseFile::Kind::kFolder; break;
      case 2: file.kind = CaseFile::Kind::kFifo; break;
      case 3:
        file.kind = CaseFile::Kind::kLink;
        file.content = dice_.pick(kTargets);
        break;
      case 4:
        file.kind = CaseFile::Kind::kLink;
        file.content = file.name.substr(file.name.rfind('/') + 1);  // itself
        break;
      case 5: file.readable = false; break;
      default: file.content = case_.files[dice_.pick(mutable_)].content;
    }
  }
  /// Mutates the JSON of a safetensors file; its length mostly follows.
  void damage_header(std::string& file) {
    std::uint64_t length = 0;
    if (file.size() < sizeof(length)) return damage(dice_, file);
    file.copy(reinterpret_cast<char*>(&length), sizeof(length));
    if (length > file.size() - sizeof(length)) return damage(dice_, file);
    std::string header = file.substr(sizeof(length), length);
    const std::string data = file.substr(sizeof(length) + length);
    for (std::size_t count = 1 + dice_.below(2); count > 0; --count) damage_json(dice_, header);
    if (dice_.chance(0.9)) length = header.size();
    file.assign(reinterpret_cast<const char*>(&length), sizeof(length));
    file += header + data;
  }

  Dice& dice_;
  const Material& material_;
  Config config_;
  Case case_;
  std::vector<std::size_t> mutable_;  ///< of the case's files, by number
};

}  // namespace

Case make_file_case(Dice& dice, const Material& material) { return Scene(dice, material).make(); }

}  // namespace strata::fuzz
