#!/bin/bash
# compare_vocabularies.sh STRATA [STRINGS]: compares the ids of real vocabularies with those of the libraries that they
# are from, on seeded strings (those of Llama 3 also with special tokens parsed), on every code point (Llama 3) and on
# the text of the quick start if it is there. The vocabularies have licences of their own: they come out of Python
# packages and are not in the repository.
set -euo pipefail
strata=$(realpath "$1")
strings=${2:-10000}
cd "$(dirname "$0")/.."

python=build/.vocabularies/bin/python
if [ ! -e build/.vocabularies/complete ]; then
  python3 -m venv build/.vocabularies
  "$python" -m pip install --quiet --disable-pip-version-check tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.3 \
    mistral-common==1.13.1 llama-models==0.3.0 dashscope==2.0.2
  touch build/.vocabularies/complete
fi
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
mkdir -p build/vocabularies/llama3
"$python" tests/tokenizer/make_tokenizer_json.py "$llama3" build/vocabularies/llama3/tokenizer.json
models+=(build/vocabularies/llama3)

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
