// Files with a defect: a part of what a checkpoint is given never gets there, and nobody says so.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/files.h"

namespace strata::test {

/// The files of this machine, of which the largest keep zeros where their first piece should be: a
/// shard is stale.
class StaleFiles final : public Files {
 public:
  [[nodiscard]] std::unique_ptr<FileWriter> create(const Path& file) override {
    return std::make_unique<StaleWriter>(files_->create(file));
  }
  [[nodiscard]] std::unique_ptr<FileWriter> open_to_write(const Path& file) override {
    return std::make_unique<StaleWriter>(files_->open_to_write(file));
  }
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return files_->open(file);
  }
  void make_folder(const Path& folder) override { files_->make_folder(folder); }
  void rename(const Path& from, const Path& to) override { files_->rename(from, to); }
  void remove(const Path& path) override { files_->remove(path); }
  void sync_folder(const Path& folder) override { files_->sync_folder(folder); }
  [[nodiscard]] Kind kind(const Path& path) const override { return files_->kind(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    return files_->list(folder);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override {
    return files_->free_bytes(folder);
  }

 private:
  class StaleWriter final : public FileWriter {
   public:
    explicit StaleWriter(std::unique_ptr<FileWriter> writer) : writer_(std::move(writer)) {}
    void reserve(std::uint64_t bytes) override { writer_->reserve(bytes); }
    void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
      constexpr std::size_t kShard = 65536;
      if (bytes.size() < kShard) writer_->write(offset, bytes);
    }
    void sync() override { writer_->sync(); }
    [[nodiscard]] bool direct() const override { return writer_->direct(); }

   private:
    std::unique_ptr<FileWriter> writer_;
  };

  std::unique_ptr<Files> files_ = make_system_files();
};

}  // namespace strata::test
