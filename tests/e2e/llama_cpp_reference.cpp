// Computes a GGUF file by llama.cpp itself, for gguf_test.py. scripts/compare_llama_cpp.sh builds
// it; the program does not need it. Lines of standard input are answered by one line each:
//   logits 1 2 3   the logits behind each of these ids, all in one row
//   greedy N 1 2   N likeliest ids behind these, one after the other
//   ids TEXT       the ids of a text, with special tokens in it and around it; \n is a newline

#include <llama.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Model {
 public:
  explicit Model(const char* file) {
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    model_ = llama_model_load_from_file(file, params);
    if (model_ == nullptr) throw std::runtime_error("cannot be loaded");
    vocab_ = llama_model_get_vocab(model_);
    vocabulary_ = llama_vocab_n_tokens(vocab_);
  }
  ~Model() { llama_model_free(model_); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// Returns the logits behind each id, [ids, vocabulary].
  std::vector<float> logits(std::vector<llama_token> ids) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = 256;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    llama_context* context = llama_init_from_model(model_, params);
    llama_batch batch = llama_batch_init(static_cast<int>(ids.size()), 0, 1);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      batch.token[i] = ids[i];
      batch.pos[i] = static_cast<llama_pos>(i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    batch.n_tokens = static_cast<int>(ids.size());
    if (llama_decode(context, batch) != 0) throw std::runtime_error("cannot be computed");
    std::vector<float> all;
    for (int i = 0; i < batch.n_tokens; ++i) {
      const float* row = llama_get_logits_ith(context, i);
      all.insert(all.end(), row, row + vocabulary_);
    }
    llama_batch_free(batch);
    llama_free(context);
    return all;
  }

  std::vector<llama_token> greedy(int count, std::vector<llama_token> ids) {
    std::vector<llama_token> made;
    for (int i = 0; i < count; ++i) {
      const std::vector<float> all = logits(ids);
      const auto last = all.end() - vocabulary_;
      made.push_back(static_cast<llama_token>(std::max_element(last, all.end()) - last));
      ids.push_back(made.back());
    }
    return made;
  }

  std::vector<llama_token> ids(const std::string& text) {
    std::vector<llama_token> ids(text.size() + 8);
    const int count = llama_tokenize(vocab_, text.data(), static_cast<int>(text.size()), ids.data(),
                                     static_cast<int>(ids.size()), true, true);
    ids.resize(static_cast<std::size_t>(count));
    return ids;
  }

 private:
  llama_model* model_;
  const llama_vocab* vocab_;
  int vocabulary_;
};

std::vector<llama_token> rest_of(std::istringstream& words) {
  std::vector<llama_token> ids;
  for (llama_token id = 0; words >> id;) ids.push_back(id);
  return ids;
}

template <class Values>
void print(const Values& values) {
  for (const auto value : values) std::cout << value << ' ';
  std::cout << std::endl;
}

std::string unescaped(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_newline = text.compare(i, 2, "\\n") == 0;
    result += is_newline ? '\n' : text[i];
    if (is_newline) ++i;
  }
  return result;
}

}  // namespace

int main(int, char** arguments) {
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  llama_backend_init();
  std::cout.precision(9);
  Model model(arguments[1]);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    int count = 0;
    if (what == "logits") {
      print(model.logits(rest_of(words)));
    } else if (what == "greedy" && words >> count) {
      print(model.greedy(count, rest_of(words)));
    } else {
      print(model.ids(unescaped(line.substr(4))));
    }
  }
}
