#include "checkpoint/memory_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>

#include "checkpoint/io_failure.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/base/random.h"

namespace strata {

namespace {

void write_to(std::vector<std::byte>& content, std::uint64_t offset,
              std::span<const std::byte> bytes) {
  const auto begin = narrow<std::size_t>(offset);
  if (content.size() < begin + bytes.size()) content.resize(begin + bytes.size());
  std::ranges::copy(bytes, content.begin() + narrow<std::ptrdiff_t>(begin));
}

std::string write_at(std::uint64_t offset) { return "write at byte " + std::to_string(offset); }

}  // namespace

/// A file of MemoryFiles, held by its node: it stays the same file whatever it is called.
class MemoryWriter final : public FileWriter {
 public:
  MemoryWriter(MemoryFiles& files, MemoryFiles::Id node, std::filesystem::path path)
      : files_(files), node_(node), path_(std::move(path)) {}

  void reserve(std::uint64_t bytes) override {
    const std::scoped_lock lock(files_.mutex_);
    files_.reserve(node_, path_, bytes);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const std::scoped_lock lock(files_.mutex_);
    if (!bytes.empty()) files_.write(node_, path_, offset, bytes);
  }
  void sync() override {
    const std::scoped_lock lock(files_.mutex_);
    if (failed_) throw IoError(path_.string() + ": synchronise: failed before");
    failed_ = true;
    files_.sync(node_, path_);
    failed_ = false;
  }

 private:
  MemoryFiles& files_;
  MemoryFiles::Id node_;
  std::filesystem::path path_;
  bool failed_ = false;
};

class MemoryReader final : public FileReader {
 public:
  MemoryReader(const MemoryFiles& files, MemoryFiles::Id node, std::filesystem::path path)
      : files_(files),
        node_(node),
        path_(std::move(path)),
        bytes_(files.live_.nodes[node].content->size()) {}

  [[nodiscard]] std::uint64_t bytes() const override { return bytes_; }
  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const std::scoped_lock lock(files_.mutex_);
    const std::string operation = "read at byte " + std::to_string(offset);
    files_.require_read(path_, operation);
    const MemoryFiles::Bytes& content = *files_.live_.nodes[node_].content;
    if (offset > content.size() || out.size() > content.size() - offset) {
      throw DamagedFile(path_.string() + ": " + operation + ": the file ends before that");
    }
    std::ranges::copy(std::span(content).subspan(narrow<std::size_t>(offset), out.size()),
                      out.begin());
  }

 private:
  const MemoryFiles& files_;
  MemoryFiles::Id node_;
  std::filesystem::path path_;
  std::uint64_t bytes_;
};

std::string MemoryFiles::Operation::to_string() const {
  constexpr std::array<std::string_view, 8> kNames{
      "create", "reserve", "write", "sync", "make folder", "rename", "remove", "sync folder"};
  std::string text = std::string(kNames[static_cast<std::size_t>(change)]) + " " + path.string();
  if (change == Change::kRename) text += " to " + to.string();
  if (change == Change::kReserve) text += " of " + std::to_string(bytes);
  if (change == Change::kWrite) {
    text += " [" + std::to_string(offset) + ", " + std::to_string(offset + bytes) + ")";
  }
  return error == 0 ? text : text + ", fails by " + std::to_string(error);
}

// ---- the tree

MemoryFiles::Id MemoryFiles::Tree::add(bool folder) {
  nodes.push_back({.folder = folder,
                   .content = folder ? nullptr : std::make_shared<Bytes>(),
                   .shared = false,
                   .names = {}});
  places.emplace_back();
  return nodes.size() - 1;
}

void MemoryFiles::Tree::link(Id node, const Name& name) {
  if (const std::optional<Name> old = places[node]) unlink(node, *old);
  std::map<std::string, Id>& names = nodes[name.folder].names;
  const auto there = names.find(name.name);
  if (there != names.end()) places[there->second].reset();
  names[name.name] = node;
  places[node] = name;
}

void MemoryFiles::Tree::unlink(Id node, const Name& name) {
  std::map<std::string, Id>& names = nodes[name.folder].names;
  const auto there = names.find(name.name);
  if (there == names.end() || there->second != node) return;
  names.erase(there);
  places[node].reset();
}

MemoryFiles::Bytes& MemoryFiles::Tree::content_to_change(Id id) {
  Node& node = nodes[id];
  if (node.shared) node.content = std::make_shared<Bytes>(*node.content);
  node.shared = false;
  return *node.content;
}

MemoryFiles::Found MemoryFiles::find(const Path& path) const {
  Found found{.node = Id{0}, .error = 0, .name = {}, .has_folder = false};
  for (const Path& part : path.lexically_normal()) {
    if (part.empty() || part == "/" || part == ".") continue;
    if (!found.node || !live_.nodes[*found.node].folder) {
      return {.node = {}, .error = found.node ? ENOTDIR : ENOENT, .name = {}, .has_folder = false};
    }
    found.name = {.folder = *found.node, .name = part.string()};
    found.has_folder = true;
    const std::map<std::string, Id>& names = live_.nodes[*found.node].names;
    const auto there = names.find(found.name.name);
    found.node = there == names.end() ? std::nullopt : std::optional(there->second);
    found.error = found.node ? 0 : ENOENT;
  }
  return found;
}

MemoryFiles::Name MemoryFiles::require_folder_of(const Path& path,
                                                 std::string_view operation) const {
  const Found found = find(path);
  if (!found.has_folder) throw_io_failure(path, operation, found.error != 0 ? found.error : EBUSY);
  return found.name;
}

// ---- operations

MemoryFiles::MemoryFiles(const Path& folder) {
  live_.add(true);
  Id above = 0;
  for (const Path& part : folder.lexically_normal()) {
    if (part.empty() || part == "/" || part == ".") continue;
    const Id node = live_.add(true);
    live_.link(node, {.folder = above, .name = part.string()});
    above = node;
  }
  base_ = live_;
}

int MemoryFiles::log(Entry entry) {
  const std::size_t index = log_.size();
  const auto failure = failures_.find(index);
  if (failure != failures_.end()) entry.operation.error = failure->second;
  if (failures_from_ && index >= failures_from_->first) {
    entry.operation.error = failures_from_->second;
  }
  log_.push_back(std::move(entry));
  return log_.back().operation.error;
}

void MemoryFiles::require_seen(const Path& path, std::string_view operation) const {
  for (const auto& [hidden, error] : hidden_) {
    const auto [end, ignored] = std::ranges::mismatch(hidden, path);
    if (end == hidden.end()) throw_io_failure(path, operation, error);
  }
}

void MemoryFiles::require_read(const Path& path, std::string_view operation) const {
  require_seen(path, operation);
  const auto failure = read_failures_.find(reads_++);
  if (failure != read_failures_.end()) throw_io_failure(path, operation, failure->second);
}

std::unique_ptr<FileWriter> MemoryFiles::create(const Path& file) {
  const std::scoped_lock lock(mutex_);
  const Name name = require_folder_of(file, "create");
  if (find(file).node) throw_io_failure(file, "create", EEXIST);
  const Id node = live_.add(false);
  const int error = log({.operation = {.change = Change::kCreate, .path = file, .to = {}},
                         .node = node,
                         .from = name,
                         .to = {},
                         .data = {}});
  if (error != 0) throw_io_failure(file, "create", error);
  live_.link(node, name);
  return std::make_unique<MemoryWriter>(*this, node, file);
}

std::unique_ptr<FileWriter> MemoryFiles::open_to_write(const Path& file) {
  const std::scoped_lock lock(mutex_);
  const Found found = find(file);
  if (!found.node) throw_io_failure(file, "open to write", found.error);
  if (live_.nodes[*found.node].folder) throw_io_failure(file, "open to write", EISDIR);
  return std::make_unique<MemoryWriter>(*this, *found.node, file);
}

std::unique_ptr<FileReader> MemoryFiles::open(const Path& file) const {
  const std::scoped_lock lock(mutex_);
  require_read(file, "open");
  const Found found = find(file);
  if (!found.node) throw_io_failure(file, "open", found.error);
  if (live_.nodes[*found.node].folder) {
    throw DamagedFile(file.string() +
                      ": open: is not a regular file; remove or rename what has this name");
  }
  return std::make_unique<MemoryReader>(*this, *found.node, file);
}

void MemoryFiles::make_folder(const Path& folder) {
  const std::scoped_lock lock(mutex_);
  const Name name = require_folder_of(folder, "make folder");
  if (find(folder).node) throw_io_failure(folder, "make folder", EEXIST);
  const Id node = live_.add(true);
  const int error = log({.operation = {.change = Change::kMakeFolder, .path = folder, .to = {}},
                         .node = node,
                         .from = name,
                         .to = {},
                         .data = {}});
  if (error != 0) throw_io_failure(folder, "make folder", error);
  live_.link(node, name);
}

void MemoryFiles::rename(const Path& from, const Path& to) {
  const std::scoped_lock lock(mutex_);
  const std::string operation = "rename to " + to.string();
  const Found source = find(from);
  if (!source.node) throw_io_failure(from, operation, source.error);
  const Found target = find(to);
  if (!target.has_folder) throw_io_failure(from, operation, target.error);
  const bool folder = live_.nodes[*source.node].folder;
  if (folder) {
    if (target.node) throw_io_failure(from, operation, EEXIST);
    for (Id above = target.name.folder; above != 0; above = live_.places[above]->folder) {
      if (above == *source.node) throw_io_failure(from, operation, EINVAL);
    }
  } else if (target.node && live_.nodes[*target.node].folder) {
    throw_io_failure(from, operation, EISDIR);
  }
  const int error = log({.operation = {.change = Change::kRename, .path = from, .to = to},
                         .node = *source.node,
                         .from = source.name,
                         .to = target.name,
                         .data = {}});
  if (error != 0) throw_io_failure(from, operation, error);
  live_.link(*source.node, target.name);
}

void MemoryFiles::remove(const Path& path) {
  const std::scoped_lock lock(mutex_);
  const Found found = find(path);
  if (!found.node) throw_io_failure(path, "remove", found.error);
  if (!found.has_folder) throw_io_failure(path, "remove", EBUSY);
  if (!live_.nodes[*found.node].names.empty()) throw_io_failure(path, "remove", ENOTEMPTY);
  const int error = log({.operation = {.change = Change::kRemove, .path = path, .to = {}},
                         .node = *found.node,
                         .from = found.name,
                         .to = {},
                         .data = {}});
  if (error != 0) throw_io_failure(path, "remove", error);
  live_.unlink(*found.node, found.name);
}

void MemoryFiles::sync_folder(const Path& folder) {
  const std::scoped_lock lock(mutex_);
  const Found found = find(folder);
  if (!found.node) throw_io_failure(folder, "open folder", found.error);
  if (!live_.nodes[*found.node].folder) throw_io_failure(folder, "open folder", ENOTDIR);
  const int error = log({.operation = {.change = Change::kSyncFolder, .path = folder, .to = {}},
                         .node = *found.node,
                         .from = {},
                         .to = {},
                         .data = {}});
  if (error != 0) throw_io_failure(folder, "synchronise folder", error);
}

Files::Kind MemoryFiles::kind(const Path& path) const {
  const std::scoped_lock lock(mutex_);
  require_seen(path, "look at");
  const Found found = find(path);
  if (!found.node) return Kind::kNothing;
  return live_.nodes[*found.node].folder ? Kind::kFolder : Kind::kFile;
}

std::vector<std::string> MemoryFiles::list(const Path& folder) const {
  const std::scoped_lock lock(mutex_);
  require_read(folder, "list");
  const Found found = find(folder);
  if (!found.node) throw_io_failure(folder, "list", found.error);
  if (!live_.nodes[*found.node].folder) throw_io_failure(folder, "list", ENOTDIR);
  std::vector<std::string> names;
  for (const auto& [name, node] : live_.nodes[*found.node].names) names.push_back(name);
  return names;
}

std::optional<std::uint64_t> MemoryFiles::free_bytes(const Path& folder) const {
  const std::scoped_lock lock(mutex_);
  const Found found = find(folder);
  if (!found.node) throw_io_failure(folder, "ask for free space", found.error);
  const std::uint64_t used = used_bytes();
  return capacity_ - std::min(used, capacity_);
}

std::uint64_t MemoryFiles::used_bytes() const {
  std::uint64_t bytes = 0;
  for (Id node = 0; node < live_.nodes.size(); ++node) {
    if (live_.places[node] && !live_.nodes[node].folder) bytes += live_.nodes[node].content->size();
  }
  return bytes;
}

void MemoryFiles::require_room(Id node, const Path& path, const std::string& operation,
                               std::uint64_t bytes) const {
  const std::uint64_t has = live_.nodes[node].content->size();
  if (bytes > has && used_bytes() + (bytes - has) > capacity_) {
    throw_io_failure(path, operation, ENOSPC);
  }
}

void MemoryFiles::reserve(Id node, const Path& path, std::uint64_t bytes) {
  const std::string operation = "reserve " + std::to_string(bytes) + " bytes";
  require_room(node, path, operation, bytes);
  const int error =
      log({.operation =
               {.change = Change::kReserve, .path = path, .to = {}, .offset = 0, .bytes = bytes},
           .node = node,
           .from = {},
           .to = {},
           .data = {}});
  if (error != 0) throw_io_failure(path, operation, error);
  live_.content_to_change(node).resize(narrow<std::size_t>(bytes));
}

void MemoryFiles::write(Id node, const Path& path, std::uint64_t offset,
                        std::span<const std::byte> bytes) {
  require_room(node, path, write_at(offset), offset + bytes.size());
  const int error = log({.operation = {.change = Change::kWrite,
                                       .path = path,
                                       .to = {},
                                       .offset = offset,
                                       .bytes = bytes.size()},
                         .node = node,
                         .from = {},
                         .to = {},
                         .data = {}});
  if (error != 0) bytes = bytes.first(bytes.size() / 2 / kSector * kSector);
  log_.back().data = std::make_shared<const Bytes>(bytes.begin(), bytes.end());
  if (!bytes.empty()) write_to(live_.content_to_change(node), offset, bytes);
  if (error != 0) throw_io_failure(path, write_at(offset), error);
}

void MemoryFiles::sync(Id node, const Path& path) {
  const int error = log({.operation = {.change = Change::kSync, .path = path, .to = {}},
                         .node = node,
                         .from = {},
                         .to = {},
                         .data = {}});
  if (error != 0) throw_io_failure(path, "synchronise", error);
}

// ---- the log and failures

std::size_t MemoryFiles::operations() const {
  const std::scoped_lock lock(mutex_);
  return log_.size();
}

MemoryFiles::Operation MemoryFiles::operation(std::size_t index) const {
  const std::scoped_lock lock(mutex_);
  return log_.at(index).operation;
}

void MemoryFiles::fail_at(std::size_t index, int error) {
  const std::scoped_lock lock(mutex_);
  failures_[index] = error;
}

void MemoryFiles::fail_from(std::size_t index, int error) {
  const std::scoped_lock lock(mutex_);
  failures_from_ = {index, error};
}

void MemoryFiles::fail_read_at(std::size_t index, int error) {
  const std::scoped_lock lock(mutex_);
  read_failures_[index] = error;
}

void MemoryFiles::hide(const Path& path, int error) {
  const std::scoped_lock lock(mutex_);
  hidden_[path] = error;
}

std::size_t MemoryFiles::reads() const {
  const std::scoped_lock lock(mutex_);
  return reads_;
}

void MemoryFiles::set_capacity(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  capacity_ = bytes;
}

// ---- crashes

/// Which losses a choice suffers.
class MemoryFiles::Choice {
 public:
  Choice(std::size_t losses, std::size_t choice, std::uint64_t seed, std::size_t prefix)
      : losses_(losses), choice_(choice), seed_(seed), prefix_(prefix) {}

  [[nodiscard]] static std::size_t count(std::size_t losses) {
    return losses == 0 ? 1 : kFixed + 2 * losses + kRandomSets;
  }

  /// Returns what becomes of a loss.
  [[nodiscard]] Fate fate(std::size_t loss) const {
    const std::uint64_t random =
        random_bits(seed_, prefix_, choice_ * (losses_ + 1) + loss);  // of this loss alone
    if (choice_ == 0) return {};
    if (choice_ == 1) return {.kept = false, .torn = false, .random = random};
    if (choice_ == 2) return {.kept = true, .torn = true, .random = random};
    if (choice_ < kFixed + losses_) return {.kept = loss != choice_ - kFixed};
    if (choice_ < kFixed + 2 * losses_) return {.kept = loss == choice_ - kFixed - losses_};
    // A quarter, half or three quarters are kept, and of them a quarter torn.
    return {
        .kept = random % 4 <= choice_ % 3, .torn = random / 4 % 4 == 0, .random = mix64(random)};
  }

  /// Returns whether lengths between the first and the last occur.
  [[nodiscard]] bool is_random() const { return choice_ >= kFixed + 2 * losses_; }

 private:
  static constexpr std::size_t kFixed = 3;  ///< all, none, all torn
  std::size_t losses_;
  std::size_t choice_;
  std::uint64_t seed_;
  std::size_t prefix_;
};

std::vector<bool> MemoryFiles::durable_entries(std::size_t prefix) const {
  std::vector<bool> durable(prefix, false);
  std::vector<bool> synchronised(live_.nodes.size(), false);  // by a later entry
  for (std::size_t i = prefix; i-- > 0;) {
    const Entry& entry = log_[i];
    switch (entry.operation.change) {
      case Change::kSync:
      case Change::kSyncFolder: synchronised[entry.node] = entry.operation.error == 0; break;
      case Change::kReserve:
      case Change::kWrite: durable[i] = synchronised[entry.node]; break;
      case Change::kRename:
        durable[i] = synchronised[entry.from.folder] && synchronised[entry.to.folder];
        break;
      case Change::kCreate:
      case Change::kMakeFolder:
      case Change::kRemove: durable[i] = synchronised[entry.from.folder]; break;
    }
  }
  return durable;
}

void MemoryFiles::add_file_changes(Analysis& analysis) const {
  for (std::size_t i = 0; i < analysis.prefix; ++i) {
    const Entry& entry = log_[i];
    const Change change = entry.operation.change;
    if (change != Change::kReserve && change != Change::kWrite) continue;
    if (change == Change::kReserve && entry.operation.error != 0) continue;
    if (change == Change::kWrite && entry.data->empty()) continue;
    auto loose = analysis.loose.find(entry.node);
    if (loose == analysis.loose.end()) {
      if (analysis.durable[i]) {
        Bytes& content = analysis.tree.content_to_change(entry.node);
        if (change == Change::kReserve) content.resize(narrow<std::size_t>(entry.operation.bytes));
        if (change == Change::kWrite) write_to(content, entry.operation.offset, *entry.data);
        continue;
      }
      const std::shared_ptr<Bytes>& content = analysis.tree.nodes[entry.node].content;
      loose = analysis.loose
                  .emplace(entry.node, LooseFile{.content = content,
                                                 .entries = {},
                                                 .lengths = {content->size(), content->size()}})
                  .first;
    }
    LooseFile& file = loose->second;
    file.entries.push_back(i);
    const auto length_behind = [&](std::uint64_t before) {
      if (change == Change::kReserve) return entry.operation.bytes;
      return std::max<std::uint64_t>(before, entry.operation.offset + entry.data->size());
    };
    const std::uint64_t length = length_behind(file.lengths.back());
    // Since a sync the file is at least as long as with what that was for.
    if (analysis.durable[i]) file.lengths = {length_behind(file.lengths.front())};
    file.lengths.push_back(length);
    if (!analysis.durable[i] && change == Change::kWrite) {
      analysis.losses.push_back({.entry = i, .node = entry.node});
    }
  }
  for (const auto& [node, file] : analysis.loose) {
    const auto [least, most] = std::ranges::minmax(file.lengths);
    if (least != most) analysis.losses.push_back({.entry = {}, .node = node});
  }
}

const MemoryFiles::Analysis& MemoryFiles::analysis_of(std::size_t prefix) const {
  if (prefix > log_.size()) throw std::out_of_range("MemoryFiles: the log is shorter than that");
  if (analysis_ && analysis_->prefix == prefix) return *analysis_;
  Analysis analysis{.prefix = prefix,
                    .tree = base_,
                    .name_entries = {},
                    .loose = {},
                    .durable = durable_entries(prefix),
                    .losses = {}};
  while (analysis.tree.nodes.size() < live_.nodes.size()) {
    analysis.tree.add(live_.nodes[analysis.tree.nodes.size()].folder);
  }
  for (std::size_t i = 0; i < prefix; ++i) {
    const Change change = log_[i].operation.change;
    if (change != Change::kCreate && change != Change::kMakeFolder && change != Change::kRename &&
        change != Change::kRemove) {
      continue;
    }
    if (log_[i].operation.error != 0) continue;
    analysis.name_entries.push_back(i);
    if (!analysis.durable[i]) analysis.losses.push_back({.entry = i, .node = log_[i].node});
  }
  add_file_changes(analysis);
  for (Node& node : analysis.tree.nodes) node.shared = true;
  return analysis_.emplace(std::move(analysis));
}

std::size_t MemoryFiles::crash_choices(std::size_t prefix) const {
  const std::scoped_lock lock(mutex_);
  return Choice::count(analysis_of(prefix).losses.size());
}

std::shared_ptr<MemoryFiles::Bytes> MemoryFiles::crashed_content(const LooseFile& file,
                                                                 const Analysis& analysis,
                                                                 const Choice& choice,
                                                                 Id node) const {
  std::map<std::size_t, Fate> fates;  // of this file's writes
  Fate length_fate;
  for (std::size_t i = 0; i < analysis.losses.size(); ++i) {
    const Loss& loss = analysis.losses[i];
    if (loss.node != node) continue;
    if (loss.entry) fates[*loss.entry] = choice.fate(i);
    if (!loss.entry) length_fate = choice.fate(i);
  }
  auto content = std::make_shared<Bytes>(*file.content);
  for (const std::size_t i : file.entries) {
    const Operation& operation = log_[i].operation;
    if (operation.change == Change::kReserve) {
      if (length_fate.kept || analysis.durable[i]) {
        content->resize(narrow<std::size_t>(operation.bytes));
      }
      continue;
    }
    const auto found = fates.find(i);
    const Fate fate = found == fates.end() ? Fate{} : found->second;
    if (!fate.kept) continue;
    const std::span<const std::byte> data(*log_[i].data);
    for (std::size_t begin = 0, sector = 0; begin < data.size(); ++sector) {
      const auto in_sector = static_cast<std::size_t>((operation.offset + begin) % kSector);
      const std::size_t bytes = std::min(data.size() - begin, kSector - in_sector);
      if (!fate.torn || random_bits(fate.random, 0, sector) % 2 == 0) {
        write_to(*content, operation.offset + begin, data.subspan(begin, bytes));
      }
      begin += bytes;
    }
  }
  std::uint64_t length = length_fate.kept ? file.lengths.back() : file.lengths.front();
  if (choice.is_random() && length_fate.torn) {
    length = file.lengths[length_fate.random % file.lengths.size()];
  }
  content->resize(narrow<std::size_t>(length));
  return content;
}

std::unique_ptr<MemoryFiles> MemoryFiles::crash_state(std::size_t prefix, std::size_t choice_index,
                                                      std::uint64_t seed) const {
  const std::scoped_lock lock(mutex_);
  const Analysis& analysis = analysis_of(prefix);
  if (choice_index >= Choice::count(analysis.losses.size())) {
    throw std::out_of_range("MemoryFiles: there are not so many choices");
  }
  const Choice choice(analysis.losses.size(), choice_index, seed, prefix);
  auto crashed = std::make_unique<MemoryFiles>();
  Tree& tree = crashed->live_;
  tree = analysis.tree;

  std::vector<bool> lost(prefix, false);
  for (std::size_t i = 0; i < analysis.losses.size(); ++i) {
    const Loss& loss = analysis.losses[i];
    if (loss.entry) lost[*loss.entry] = !choice.fate(i).kept;
  }
  for (const std::size_t i : analysis.name_entries) {
    if (lost[i]) continue;
    const Entry& entry = log_[i];
    switch (entry.operation.change) {
      case Change::kRename: tree.link(entry.node, entry.to); break;
      case Change::kRemove: tree.unlink(entry.node, entry.from); break;
      default: tree.link(entry.node, entry.from);
    }
  }
  for (const auto& [node, file] : analysis.loose) {
    tree.nodes[node].content = crashed_content(file, analysis, choice, node);
  }
  crashed->base_ = tree;
  crashed->capacity_ = capacity_;
  return crashed;
}

}  // namespace strata
