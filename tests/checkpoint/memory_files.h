// A file system in memory that can be crashed after any of its operations, after the crash monkeys
// of file system research (ALICE, Pillai et al. 2014; CrashMonkey, Mohan et al. 2018). It logs what
// changes it, and makes of any prefix of that log the file systems that a machine might find after
// a crash there, as one that promises nothing beyond POSIX would leave them:
//
// - what sync() returned for is there; of writes since then any may be, torn into sectors of 512
//   bytes, and what was not written reads as zeros;
// - a new length that was not synchronised may be lost, whatever was written;
// - each name made, changed or removed may be lost until its folder was synchronised, and a rename
//   between folders until both were; a rename happens whole or not at all;
// - what a failed sync() was for may be lost whatever synchronises it later.
//
// It also fails on demand. Any thread may call all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/files.h"

namespace strata {

class MemoryFiles final : public Files {
 public:
  /// What is torn, as a disk writes it.
  static constexpr std::size_t kSector = 512;
  static constexpr std::size_t kRandomSets = 20;

  enum class Change : std::uint8_t {
    kCreate,
    kReserve,
    kWrite,
    kSync,
    kMakeFolder,
    kRename,
    kRemove,
    kSyncFolder,
  };
  /// One operation of the log.
  struct Operation {
    Change change = Change::kCreate;
    Path path;                 ///< as it was called when it was opened
    Path to;                   ///< of a rename
    std::uint64_t offset = 0;  ///< of a write
    std::uint64_t bytes = 0;   ///< of a write, or the length reserved
    int error = 0;             ///< that it was made to fail with
    [[nodiscard]] std::string to_string() const;
  };

  /// The folder, and those above it, are there and stay.
  explicit MemoryFiles(const Path& folder = "/");

  std::unique_ptr<FileWriter> create(const Path& file) override;
  std::unique_ptr<FileWriter> open_to_write(const Path& file) override;
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override;
  void make_folder(const Path& folder) override;
  void rename(const Path& from, const Path& to) override;
  void remove(const Path& path) override;
  void sync_folder(const Path& folder) override;
  [[nodiscard]] Kind kind(const Path& path) const override;
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override;
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override;

  /// Returns how many operations the log has; the next one has this index.
  [[nodiscard]] std::size_t operations() const;
  [[nodiscard]] Operation operation(std::size_t index) const;

  /// The operation with this index will fail with this error number. A write that fails has
  /// written its first half, in whole sectors; everything else has done nothing.
  void fail_at(std::size_t index, int error);
  /// This operation and all later ones will fail.
  void fail_from(std::size_t index, int error);
  /// The read with this index will fail; opening, reading and listing are reads.
  void fail_read_at(std::size_t index, int error);
  [[nodiscard]] std::size_t reads() const;
  /// From now on whoever looks at this path or below it, opens, lists or reads there, fails.
  void hide(const Path& path, int error);
  /// All files together hold at most so many bytes; by default a TiB.
  void set_capacity(std::uint64_t bytes);

  /// Returns how many choices there are of what a crash behind the first `prefix` operations
  /// leaves: with n things that may be lost 1 if n is 0, else 3 + 2 n + kRandomSets.
  [[nodiscard]] std::size_t crash_choices(std::size_t prefix) const;
  /// Returns what the choice leaves, all of it on the disk, with an empty log. In order the choices
  /// are: everything kept; nothing kept; everything kept but writes torn; each thing alone lost;
  /// each thing alone kept; random sets, with torn writes and lengths in between. The seed is of
  /// what is random.
  [[nodiscard]] std::unique_ptr<MemoryFiles> crash_state(std::size_t prefix, std::size_t choice,
                                                         std::uint64_t seed = 1) const;

 private:
  friend class MemoryWriter;
  friend class MemoryReader;
  using Bytes = std::vector<std::byte>;
  using Id = std::size_t;  ///< of a node; the root is 0

  /// A file or folder, whatever its name.
  struct Node {
    bool folder = false;
    std::shared_ptr<Bytes> content;  ///< of a file; not changed while `shared`, but copied first
    bool shared = false;
    std::map<std::string, Id> names;  ///< of a folder
  };
  /// Where a node is found; it has one name at most.
  struct Name {
    Id folder = 0;
    std::string name;
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<std::optional<Name>> places;  ///< by node
    Id add(bool folder);
    /// Gives a node this name and no other; what had it has none.
    void link(Id node, const Name& name);
    /// Takes the name from the node, if the node has it.
    void unlink(Id node, const Name& name);
    Bytes& content_to_change(Id node);
  };
  /// An operation and what it did, by nodes instead of paths.
  struct Entry {
    Operation operation;
    Id node = 0;
    Name from;  ///< name that was made or removed, or that a rename took away
    Name to;    ///< name that a rename made
    std::shared_ptr<const Bytes> data;  ///< of a write
  };
  /// What may be lost: the change of an entry, or the lengths of a file since its last sync.
  struct Loss {
    std::optional<std::size_t> entry;
    Id node = 0;
  };
  /// A file with changes that are not on the disk.
  struct LooseFile {
    std::shared_ptr<Bytes> content;      ///< before the first of them
    std::vector<std::size_t> entries;    ///< its reserves and writes from then on
    std::vector<std::uint64_t> lengths;  ///< that it may have: the first if lost, the last if kept
  };
  /// What is the same for all choices of a prefix.
  struct Analysis {
    std::size_t prefix = 0;
    Tree tree;                              ///< the names of base_, files as they are on the disk
    std::vector<std::size_t> name_entries;  ///< what changes names
    std::map<Id, LooseFile> loose;
    std::vector<bool> durable;  ///< by entry
    std::vector<Loss> losses;
  };
  struct Fate {
    bool kept = true;
    bool torn = false;
    std::uint64_t random = 0;
  };
  class Choice;

  struct Found {
    std::optional<Id> node;
    int error = 0;  ///< of the system; ENOENT also if only the last name is missing
    Name name;      ///< that the path ends with; valid if its folder is there
    bool has_folder = false;
  };

  [[nodiscard]] Found find(const Path& path) const;
  /// Returns where a new name will be; throws if its folder is not there.
  Name require_folder_of(const Path& path, std::string_view operation) const;
  /// Adds to the log; returns the error that it is to fail with.
  int log(Entry entry);
  void require_read(const Path& path, std::string_view operation) const;
  void require_seen(const Path& path, std::string_view operation) const;
  [[nodiscard]] std::uint64_t used_bytes() const;
  void require_room(Id node, const Path& path, const std::string& operation,
                    std::uint64_t bytes) const;
  void reserve(Id node, const Path& path, std::uint64_t bytes);
  void write(Id node, const Path& path, std::uint64_t offset, std::span<const std::byte> bytes);
  void sync(Id node, const Path& path);

  const Analysis& analysis_of(std::size_t prefix) const;
  [[nodiscard]] std::vector<bool> durable_entries(std::size_t prefix) const;
  void add_file_changes(Analysis& analysis) const;
  [[nodiscard]] std::shared_ptr<Bytes> crashed_content(const LooseFile& file,
                                                       const Analysis& analysis,
                                                       const Choice& choice, Id node) const;

  mutable std::mutex mutex_;
  Tree base_;  ///< what was on the disk at the beginning
  Tree live_;  ///< what the operations see
  std::vector<Entry> log_;
  mutable std::size_t reads_ = 0;
  std::map<std::size_t, int> failures_;
  std::optional<std::pair<std::size_t, int>> failures_from_;
  std::map<std::size_t, int> read_failures_;
  std::map<Path, int> hidden_;
  std::uint64_t capacity_ = std::uint64_t{1} << 40;
  mutable std::optional<Analysis> analysis_;  ///< of the prefix that was asked for last
};

}  // namespace strata
