// Writes the weights of a checkpoint as a Hugging Face folder. The thread that makes a file reads
// its sources from their beginning to their end: each window of the checkpoint is read and hashed
// once.

#include "strata/checkpoint/export_model.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/model_writer.h"
#include "checkpoint/verified_file.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"

namespace strata {
namespace {

class Exporter {
 public:
  Exporter(Files& files, const ModelExport& what, ThreadPool& pool)
      : files_(files),
        what_(what),
        writer_(files, what.to, pool, CheckpointWeights::kWindowsOfExport, what.progress) {}

  void run() {
    if (what_.weight == manifest().types.weight) return copy_all();
    convert_all();
  }

 private:
  [[nodiscard]] const Manifest& manifest() const { return what_.checkpoint.manifest; }

  // ---- the checkpoint has these weights already ----

  void copy_all() {
    std::vector<const ManifestFile*> all;
    for (const ManifestFile& file : manifest().files) {
      if (!file.path.starts_with(kModelFolder)) continue;
      all.push_back(&file);
      writer_.make_folder_of(file.path);
      writer_.expect(file.bytes);
    }
    writer_.for_each(all.size(), [&](std::size_t i) { copy(*all[i]); });
  }

  void copy(const ManifestFile& file) {
    VerifiedFile in(files_, what_.checkpoint.folder, file, writer_.buffers());
    const std::unique_ptr<FileWriter> out = writer_.create(file.path);
    out->reserve(file.bytes);
    for (std::uint64_t at = 0; at < file.bytes;) {
      const std::span<const std::byte> bytes = in.from(at);
      out->write(at, bytes);
      at += bytes.size();
      writer_.add_progress(bytes.size());
    }
    out->sync();
  }

  // ---- the weights are joined or rounded ----

  void convert_all() {
    CheckpointWeights weights(files_, what_.checkpoint, what_.model, writer_.buffers());
    weights.require(what_.weight);
    const ModelLayout layout = make_layout(spec_of(what_.model));
    const CheckpointLayout target =
        make_checkpoint_layout(layout, {.weight = what_.weight, .moment = {}});
    weights.verify_small_files();
    writer_.write_small(model_folder_files(target, layout, what_.model,
                                           files_of_checkpoint(files_, what_.checkpoint)));
    writer_.write_weights(target, [&](BlockId b) { return weights.fill(b, what_.weight); });
  }

  Files& files_;
  const ModelExport& what_;
  ModelWriter writer_;
};

}  // namespace

void export_model(Files& files, const ModelExport& what, ThreadPool& pool) {
  Exporter(files, what, pool).run();
}

}  // namespace strata
