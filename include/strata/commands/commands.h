// This header has the sub-commands of the program. The command line calls one of them, with a
// config that it has validated, and ends with the exit code that is returned. `train` and `bench`
// run on every rank, load the config there and refuse ranks whose runs differ; they log what goes
// wrong, take down the other ranks and return its code. The others throw an Error.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/kv_dtype.h"
#include "strata/config/config.h"
#include "strata/data/tokenize.h"
#include "strata/data/train_tokenizer.h"
#include "strata/launch/run_ranks.h"
#include "strata/plan/tune_model.h"
#include "strata/predict/generation_prediction.h"
#include "strata/train/training_run.h"

namespace strata {

/// Requests of random tokens, which `plan --generate` and `bench --generate` are about.
struct GenerationJob {
  GenerationLoad load{.sequences = 64, .prompt_tokens = 512, .drawn_tokens = 128};
  std::optional<std::int64_t> sequences{};  ///< at once; absent: chosen
  KvDType kv_dtype = KvDType::kAuto;
};

/// What `bench --suite` is told.
struct SuiteOptions {
  std::filesystem::path suite;            ///< the suite's file
  std::vector<std::string> rows{};        ///< of it that are measured; all without names
  std::optional<std::int64_t> repeats{};  ///< of each row, instead of the suite's
  std::vector<std::string> sets{};        ///< "a.b=value", in every row
  std::vector<std::string> launcher{};    ///< words that start the ranks of a row
  std::filesystem::path json{};           ///< the results; empty: not written
  std::filesystem::path markdown{};       ///< the table; empty: not written
  bool list = false;                      ///< rows and commands are printed, nothing is measured
  bool resume = false;                    ///< runs that `json` holds are not measured again
  bool overwrite = false;                 ///< results that lie there are replaced
};

/// What `bench --compare` is told.
struct CompareOptions {
  std::vector<std::filesystem::path> files;  ///< the first one is what the others are compared with
  std::optional<double> fail_below{};        ///< a ratio that no row may fall below
};

/// Names standard output where a file is expected.
inline constexpr const char* kStandardOutput = "-";
/// So many steps are measured unless the command line or a suite says otherwise: what run.steps of
/// a config says is about training.
inline constexpr std::int64_t kBenchSteps = 8;

/// This is what `bench` is told beside the config.
struct BenchOptions {
  /// The results are also written here; empty: only the table is printed; kStandardOutput: they are
  /// printed in place of it.
  std::filesystem::path json;
  bool steps_told = false;                    ///< run.steps are measured, else kBenchSteps
  std::optional<GenerationJob> generation{};  ///< measured instead of steps
  std::filesystem::path trace{};  ///< of two sweeps of the generation; empty: none is made
};

/// This is what `inspect` is told.
struct InspectOptions {
  /// Of a checkpoint, of a run or of a Hugging Face model; or of token files, which may be several
  /// or patterns.
  std::vector<std::string> paths{};
  bool verify = false;      ///< every byte is read and compared with the manifest
  bool every_file = false;  ///< files and tensors of layers that are alike are not put together
  bool json = false;        ///< the result is one JSON object
  std::optional<std::int64_t> step{};  ///< counted from 1: its samples are listed instead
  std::optional<int> ranks{};          ///< of the step; else what the manifest tells
  // Of token files alone:
  std::optional<std::int64_t> document{};  ///< counted from 1: shown instead of the counts
  std::string tokenizer{};                 ///< whose text is shown; a tokenizer.json, or its folder
  std::string dtype{};                     ///< of bare ids: "u16" or "u32"
  std::optional<std::int32_t> eos_token{};  ///< ends documents of files that do not list them
};

/// This is what `export` is told.
struct ExportOptions {
  std::filesystem::path checkpoint;  ///< or of a run, whose newest whole checkpoint is taken; for
                                     ///< a GGUF file also a model
  std::filesystem::path to;          ///< the folder or file that is made
  std::string format = "hf";         ///< "hf": a Hugging Face folder; "gguf": a GGUF file
  std::string dtype = "bf16";        ///< of the weights there: "bf16", "f32" or "q8_0" (gguf)
  bool adapter_only = false;         ///< a folder of PEFT is made of the adapters of the checkpoint
  bool overwrite = false;            ///< a model that lies there is replaced
};

/// This is what `import` is told.
struct ImportOptions {
  std::filesystem::path from;  ///< the folder of a Hugging Face model
  std::filesystem::path to;    ///< the folder that is made
  std::string dtype;           ///< of the weights there: "bf16" or "f32"; empty: bf16 if all of the
                               ///< source's are, else f32
  bool overwrite = false;      ///< a model that lies there is replaced
};

/// This is what `report` is told.
struct ReportOptions {
  std::vector<std::filesystem::path> runs;  ///< run folders
  std::filesystem::path output;  ///< empty: report.html in the folder of a single run, else here
  std::filesystem::path svg;     ///< a folder for figures; empty: none
  std::filesystem::path png;     ///< likewise, of pixels
  int png_width = 2000;  ///< pixels of each, within the limits of strata/report/png_figures.h
};

/// This is what `plan` is told beside the config.
struct PlanOptions {
  std::string gpu;  ///< name of a GPU (gpu_models.h); empty: this machine's, if it has one
  std::optional<int>
      ranks{};  ///< plan for rank 0 of so many; else for those that a launcher started
  std::optional<int> ranks_per_node{};        ///< ranks of each host; all without it
  std::optional<GenerationJob> generation{};  ///< planned instead of a run
  std::string json{};  ///< what was found is also written here; kStandardOutput: printed instead
};

/// A run that `doctor` is asked about.
struct DoctorRun {
  std::string file;   ///< the config's name
  LoadConfig load{};  ///< reads it; empty: there is no run
  PlanOptions plan{};
};

/// This is what `doctor` is told.
struct DoctorOptions {
  /// Where checkpoints are to be written; empty: the run's folder, or the working folder.
  std::filesystem::path folder{};
  DoctorRun run{};         ///< that is looked at as well
  bool self_test = false;  ///< the program is tested, too
  bool json = false;       ///< the result is one JSON object
};

/// This is what `tune` is told.
struct TuneOptions {
  TuneRequest request{};
  PlanOptions plan{};              ///< the machine and the ranks
  std::filesystem::path output{};  ///< the config is written here; empty: nowhere
  bool overwrite = false;          ///< a file that lies there is replaced
  int measure = 0;                 ///< so many of the best are run on this machine
  std::int64_t steps = 3;          ///< measured of each
  int threads = 0;                 ///< that predict; 0: one for each usable core
};

/// Trains a model and writes the run folder that the config names as run.output. What StopSignals
/// catches ends the run between two steps: with exit code 75 if its last state is saved, so that it
/// can go on, 74 if its last save has failed, else with 128 and the signal's number. Returns 74 for
/// all other runs whose last save has failed.
int train_command(const LoadConfig& load, const TrainOptions& options);
/// Prints on rank 0 every byte that a rank will take, by memory and purpose, the table of blocks,
/// and the step that is predicted where rates are known. Needs no GPU and takes none of the memory
/// that it plans. Throws ConfigError or OutOfMemory for a config that cannot run.
int plan_command(const RunConfig& config, const PlanOptions& options);
/// Searches rows, sub-batches, passes, the timing of updates and what goes with them for the run
/// that is predicted to be fastest, prints the best ones and writes the config of the first. With
/// `measure` it runs the best on this machine, writes the one that was fastest and stores the rates
/// that it saw. Throws ConfigError, IoError, or OutOfMemory with what would help if nothing fits.
int tune_command(const TuneOptions& options);
/// Measures steps on synthetic tokens, or requests of them with random weights, compares them with
/// the prediction, and prints a table on rank 0.
int bench_command(const LoadConfig& load, const BenchOptions& options);
/// Measures the rows of a suite in turns, each run in a process of its own, writes the results
/// after each of them and prints a table. Returns 0 if every run has figures; 3 if those that have
/// none do not fit this machine; else 1. What StopSignals catches ends it as Interrupted does.
/// Throws ConfigError or IoError for a suite, a config or an output that is wrong, before anything
/// is measured.
int bench_suite(const SuiteOptions& options);
/// Prints how the speeds of suites or single benches differ, and by how much they would anyway.
/// Returns 1 if a row fell below the ratio that is asked for, else 0. Throws ConfigError or IoError
/// for files that cannot be compared.
int bench_compare(const CompareOptions& options);
/// Makes token files of text, shows progress on standard error and prints what was made. If `show`
/// is above 0, it prints so many documents instead and writes nothing. Throws IoError or
/// ConfigError.
int tokenize_command(TokenizeOptions options, std::int64_t show);

/// What `strata tokenizer` works on; each of its commands reads what concerns it.
struct TokenizerOptions {
  std::string tokenizer{};     ///< a file of a model's tokenizer, or its folder
  std::string input = "-";     ///< the file with text or ids; "-" is standard input
  bool parse_special = false;  ///< of `encode`
  bool add_special = false;    ///< of `encode`
  bool skip_special = false;   ///< of `decode`
};

/// Prints size and hash of a vocabulary.
int tokenizer_inspect_command(const TokenizerOptions& options);
/// Prints the ids of a text in UTF-8 on one line.
int tokenizer_encode_command(const TokenizerOptions& options);
/// Prints the text of ids that white space separates.
int tokenizer_decode_command(const TokenizerOptions& options);

/// This is what `tokenizer train` is told.
struct TrainTokenizerCommand {
  TrainTokenizerOptions options{};
  std::filesystem::path output;  ///< the folder that is made
  bool overwrite = false;        ///< a tokenizer that lies there is replaced
};
/// Makes a folder with the tokenizer.json and tokenizer_config.json of a tokenizer that is trained
/// on texts, shows progress on standard error and prints what was made. SIGINT and SIGTERM end it
/// without one. Throws as train_tokenizer() does, and ConfigError for a folder that is not
/// replaced.
int tokenizer_train_command(const TrainTokenizerCommand& command);

/// This is what `tokenizer add` is told.
struct AddTokensCommand {
  std::string tokenizer{};            ///< a tokenizer.json, or its folder
  std::vector<std::string> tokens{};  ///< that are added
  std::filesystem::path output{};     ///< the folder that is made
};
/// Makes a folder with a tokenizer that has more special tokens, and prints their ids. Throws as
/// add_special_tokens() does, and ConfigError if the folder is there already.
int tokenizer_add_command(const AddTokensCommand& command);

/// Prints what a checkpoint, a model or token files hold, the samples of a step of a checkpoint's
/// run, or a document of token files.
/// Throws IoError that names a file that is missing or damaged, and ConfigError for a manifest
/// whose model or config this program does not read.
int inspect_command(const InspectOptions& options);
/// Makes a Hugging Face folder of a checkpoint, shows progress on standard error and prints what
/// was made. The folder gets its name when it is whole. SIGINT and SIGTERM end it without one.
/// Throws IoError for files that are damaged or cannot be written, ConfigError for a folder that is
/// not replaced.
int export_command(const ExportOptions& options);
/// Makes a folder as export_command() does, of a Hugging Face model. Warns of tensors that nothing
/// uses. Throws likewise, and ConfigError for a model that strata does not compute.
int import_command(const ImportOptions& options);
struct ModelsOptions {
  std::string family{};   ///< model_type or class of the one to explain; empty: lists all
  bool markdown = false;  ///< as docs/models.md has them
};
/// Prints the families of models that strata reads, or what it takes and refuses of one. Throws
/// ConfigError for one that it does not read.
int models_command(const ModelsOptions& options);
/// Makes an HTML page of runs, and figures if asked for, and says on standard error where they are
/// and what of the runs could not be read. Throws IoError for a folder that holds no run and for
/// files that cannot be written.
int report_command(const ReportOptions& options);
/// Prints what is found of this machine, each thing with a verdict and, where it is not well, the
/// remedy; with options.self_test what is found of the program, too. Returns 1 if something is bad,
/// else 0. Where ranks were started for a self-test, rank 0 prints and the others return 0.
int doctor_command(const DoctorOptions& options);

}  // namespace strata
