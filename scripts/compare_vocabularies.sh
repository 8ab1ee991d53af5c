#!/bin/bash
# compare_vocabularies.sh STRATA [STRINGS]: compares the ids of real vocabularies with those of the libraries that they
# are from, on seeded strings (those of Llama 3 also with special tokens parsed), on every code point (Llama 3) and on
# the text of the quick start if it is there. Then it compares real chat templates with Jinja2, and what is learnt of
# conversations of three turns. Vocabularies and templates have licences of their own: they come out of Python packages
# and are not in the repository.
set -euo pipefail
strata=$(realpath "$1")
strings=${2:-10000}
cd "$(dirname "$0")/.."
. scripts/common.sh

python=build/.vocabularies/bin/python
wanted=(tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3 mistral-common==1.13.1 llama-models==0.3.0
  dashscope==2.0.2 transformers==5.24.0 jinja2)
if [ "$(cat build/.vocabularies/complete 2>/dev/null)" != "${wanted[*]}" ]; then
  python3 -m venv build/.vocabularies
  "$python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}"
  echo "${wanted[*]}" >build/.vocabularies/complete
fi
llama_cpp=$(llama_cpp_sources "$python")
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
llama3=$packages/llama_models/llama3/tokenizer.model
mistral=$packages/mistral_common/data/tokenizer.model.v1
tekken=$packages/mistral_common/data/tekken_240911.json
models=(
  "$llama3"
  "$packages/dashscope/resources/qwen.tiktoken"
  "$mistral"
  "$packages/mistral_common/data/mistral_instruct_tokenizer_241114.model.v7"
  "$tekken"
)
mkdir -p build/vocabularies/{llama3,phi3,gemma,qwen2,starcoder}
"$python" tests/tokenizer/make_tokenizer_json.py "$llama3" build/vocabularies/llama3/tokenizer.json
for pair in phi3:phi-3 gemma:gemma-4 qwen2:qwen2 starcoder:starcoder; do
  file=$llama_cpp/models/ggml-vocab-${pair#*:}.gguf
  model=build/vocabularies/${pair%:*}
  "$python" tests/tokenizer/make_from_gguf.py "$file" "${pair%:*}" "$model/tokenizer.json"
  "$python" tests/tokenizer/compare_strings.py "$strata" --models "$model" --listed "$file"
done
models+=(build/vocabularies/llama3 build/vocabularies/phi3 build/vocabularies/gemma build/vocabularies/starcoder)

"$python" tests/tokenizer/compare_strings.py "$strata" --models "${models[@]}" --random "$strings"
"$python" tests/tokenizer/compare_strings.py "$strata" --models build/vocabularies/llama3 --every-code-point
"$python" tests/tokenizer/compare_strings.py "$strata" --models build/vocabularies/llama3 "$llama3" \
  --random "$strings" --parse-special
if [ -d data/english ]; then
  find data/english -name '*.txt' -print0 | sort -z | xargs -0 cat > build/vocabularies/english.txt
  # One model for each of `tokenizers`, sentencepiece and mistral-common.
  "$python" tests/tokenizer/compare_with_reference.py "$strata" \
    --models build/vocabularies/llama3 "$mistral" "$tekken" --texts build/vocabularies/english.txt --random 5
fi

# The package axolotl has templates of further families. The two that are left out need what Jinja2 or strata lacks.
if [ ! -d build/vocabularies/axolotl ]; then
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target build/vocabularies/axolotl \
    axolotl==0.19.0
fi
templates=("$llama_cpp/models/templates" build/vocabularies/axolotl/axolotl/utils/chat_templates/templates)
cmake --build "$(dirname "$strata")" --target render_chat >/dev/null
"$python" tests/chat/compare_with_jinja.py "${templates[@]}" --render "$(dirname "$strata")/render_chat" --show \
  --but llama-cpp-deepseek-r1 jamba
# chat_model NAME TOKENIZER TEMPLATE BOS EOS: makes the folder of a tokenizer with its template.
chat_model() {
  local to=build/vocabularies/chat/$1
  mkdir -p "$to"
  cp "$2" "$to"
  cp "$llama_cpp/models/templates/$3.jinja" "$to/chat_template.jinja"
  echo "{\"bos_token\": $4, \"eos_token\": \"$5\"}" >"$to/tokenizer_config.json"
}
at=build/vocabularies
chat_model Llama-3.1 $at/llama3/tokenizer.json meta-llama-Llama-3.1-8B-Instruct '"<|begin_of_text|>"' '<|eot_id|>'
chat_model Phi-3.5 $at/phi3/tokenizer.json microsoft-Phi-3.5-mini-instruct '"<s>"' '<|endoftext|>'
chat_model Qwen3 $at/qwen2/tokenizer.json Qwen-Qwen3-0.6B null '<|im_end|>'
chat_model gemma-4 $at/gemma/tokenizer.json google-gemma-4-31B-it '"<bos>"' '<eos>'
chat_model Mistral-Nemo "$tekken" mistralai-Mistral-Nemo-Instruct-2407 '"<s>"' '</s>'
mv $at/chat/Mistral-Nemo/tekken_*.json $at/chat/Mistral-Nemo/tekken.json
"$python" tests/chat/compare_turns.py "$strata" --templates "${templates[@]}" --models $at/chat/*
