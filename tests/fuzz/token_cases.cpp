// Token files of every kind that is read, damaged and then inspected, which reads all of them.

#include <algorithm>
#include <array>
#include <cstdint>

#include "fuzz/cases.h"
#include "fuzz/nasty.h"

namespace strata::fuzz {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> some_ids(Dice& dice) {
  std::vector<T> ids(20 + dice.below(300));
  for (T& id : ids) id = static_cast<T>(dice.below(257));
  return ids;
}

template <class T>
std::vector<CaseFile> llmc(Dice& dice) {
  const std::vector<T> ids = some_ids<T>(dice);
  std::vector<std::int32_t> header(256);
  header[0] = sizeof(T) == 2 ? 20240520 : 20240801;
  header[1] = sizeof(T) == 2 ? 1 : 7;
  header[2] = static_cast<std::int32_t>(ids.size());
  return {{"a.bin", bytes_of(header) + bytes_of(ids)}};
}

/// A dataset of Megatron whose sequences are of random lengths, some of none, two to a document.
template <class T>
std::vector<CaseFile> megatron(Dice& dice) {
  const std::vector<T> ids = some_ids<T>(dice);
  std::vector<std::int32_t> lengths;
  std::vector<std::uint64_t> pointers;
  std::size_t at = 0;
  while (at < ids.size()) {
    const std::size_t length = std::min(ids.size() - at, dice.below(40));
    lengths.push_back(static_cast<std::int32_t>(length));
    pointers.push_back(at * sizeof(T));
    at += length;
  }
  std::vector<std::uint64_t> documents;
  for (std::size_t i = 0; i < lengths.size(); i += 2) documents.push_back(i);
  documents.push_back(lengths.size());
  using Numbers = std::vector<std::uint64_t>;
  return {{"a.idx", std::string("MMIDIDX\0\0", 9) + bytes_of(Numbers{1}) +
                        (sizeof(T) == 2 ? '\x08' : '\x04') +
                        bytes_of(Numbers{lengths.size(), documents.size()}) + bytes_of(lengths) +
                        bytes_of(pointers) + bytes_of(documents)},
          {"a.bin", bytes_of(ids)}};
}

std::vector<CaseFile> some_files(Dice& dice, const Material& material) {
  switch (dice.below(8)) {
    case 0: return {{"a.bin", material.train_tokens}};
    case 1: return {{"a.bin", material.loss_tokens}};
    case 2: return llmc<std::uint16_t>(dice);
    case 3: return llmc<std::uint32_t>(dice);
    case 4: return {{"a.bin", bytes_of(some_ids<std::uint16_t>(dice))}};
    case 5: return {{"a.bin", bytes_of(some_ids<std::uint32_t>(dice))}};
    case 6: return megatron<std::uint32_t>(dice);
    default: return megatron<std::uint16_t>(dice);
  }
}

}  // namespace

Case make_token_case(Dice& dice, const Material& material) {
  Case made;
  made.files = some_files(dice, material);
  const std::string name = made.files[0].name;
  for (std::size_t count = 1 + dice.below(3); count > 0; --count) {
    CaseFile& file = made.files[dice.chance(0.7) ? 0 : dice.below(made.files.size())];
    damage(dice, file.content);
  }
  made.arguments = {"inspect", name};
  const auto add = [&](double chance, const std::vector<std::string>& more) {
    if (!dice.chance(chance)) return;
    made.arguments.insert(made.arguments.end(), more.begin(), more.end());
  };
  if (dice.chance(0.2)) {
    made.files.push_back({"b.bin", material.validation_tokens});
    made.arguments.emplace_back("b.bin");
  }
  constexpr std::array<const char*, 6> kNumbers{"1", "2", "0", "-1", "9223372036854775807", "x"};
  add(0.3, {"--document", dice.chance(0.7) ? "2" : dice.pick(kNumbers)});
  add(0.5, {"--eos-token", dice.chance(0.7) ? "0" : dice.pick(kNumbers)});
  add(0.7, {"--dtype", dice.chance(0.5) ? "u16" : "u32"});
  add(0.3, {"--json"});
  made.subjects = {"a.bin", "a.idx", "b.bin", "--document", "--eos-token", "--dtype"};
  return made;
}

}  // namespace strata::fuzz
