#!/usr/bin/env python3
"""Makes tests/golden/data/parquet: small tables by pyarrow, and beside each the rows that pyarrow reads, as JSON lines.

  scripts/golden/make_parquet_goldens.py tests/golden/data/parquet

The tests tokenize both and compare the tokens. Members that are null are left out of objects, as a column has every
member that any row has. Needs pyarrow; its version stands in versions.json.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = ["plain words", "", "quotes \" and \\ and /", "lines\nof\r\ntext\tand tabs", "\x01\x1f\x7f control", "äöü € 😀",
         "longer text " * 40]


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def chats():
    function = pa.struct([("name", pa.string()), ("arguments", pa.string())])
    call = pa.struct([("type", pa.string()), ("function", function)])
    message = pa.struct([("role", pa.dictionary(pa.int32(), pa.string())), ("content", pa.string()),
                         ("weight", pa.int8()), ("tool_calls", pa.list_(call))])
    turns = [[{"role": "user", "content": "Say \"a\"."}, {"role": "assistant", "content": "a"}],
             [{"role": "system", "content": "Be short."}, {"role": "user", "content": "b?"},
              {"role": "assistant", "content": "yes", "weight": 0}, {"role": "user", "content": "c?"},
              {"role": "assistant", "content": "no", "weight": 1}],
             [{"role": "user", "content": ""}, {"role": "assistant", "content": "🙂\n"}]] * 5
    return pa.table({"id": pa.array(range(15)), "messages": pa.array(turns, pa.list_(message))})


def share_gpt():
    turn = pa.struct([("from", pa.string()), ("value", pa.large_string())])
    turns = [[{"from": "human", "value": f"question {i}"}, {"from": "gpt", "value": f"answer {i}"}] for i in range(9)]
    return pa.table({"conversations": pa.array(turns, pa.large_list(turn)), "score": [0.5] * 9,
                     "system": ["Be kind.", None, ""] * 3})


def tables():
    """{name: (table, how it is written)}"""
    rows = [f"{i} {text}" if text else "" for i in range(6) for text in TEXTS]
    numbers = list(range(len(rows)))
    texts = pa.table({"id": numbers, "text": rows, "image": [b"\xff\xfe\x00"] * len(rows)})
    return {
        "snappy": (texts, {"compression": "snappy", "row_group_size": 10}),
        "zstd": (texts.set_column(1, "text", pa.array(rows, pa.large_string())),
                 {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"}),
        "gzip": (texts, {"compression": "gzip", "row_group_size": 16, "store_schema": False}),
        "dictionary": (pa.table({"text": pa.array(rows).dictionary_encode()}), {"compression": "none"}),
        "checked": (pa.table({"text": rows}), {"compression": "none", "use_dictionary": False,
                                               "write_page_checksum": True}),
        "empty": (texts.slice(0, 0), {}),
        "sparse": (pa.table({"text": ["one", None, "three", "four", "zero\0byte", "six"], "id": [1, 2, 3, 4, 5, None]}),
                   {"row_group_size": 2}),
        "not_utf8": (pa.table({"text": [b"one", b"tw\xff", b"three"]}), {}),
        "chats": (chats(), {"row_group_size": 4}),
        "share_gpt": (share_gpt(), {}),
        "alpaca": (pa.table({"instruction": ["Add.", "Name a colour."], "input": ["1 and 2", None],
                             "output": ["3", "Red"]}), {}),
        "completions": (pa.table({"prompt": ["1 + 1 =", "2 + 2 ="], "completion": [" 2", " 4"], "source": ["a", "b"]}),
                        {}),
    }


def values():
    """What a record may hold besides texts: numbers as they are, lists, maps, and what JSON has no kind for. Arrow before
    26 cannot read a list of fixed length that is null, so that one is within a list that may be."""
    item = pa.struct([("whole", pa.int64()), ("part", pa.float64()), ("small", pa.uint8()), ("yes", pa.bool_()),
                      ("none", pa.null()), ("names", pa.map_(pa.string(), pa.int32())),
                      ("pairs", pa.list_(pa.list_(pa.int16(), 2))), ("day", pa.date32())])
    rows = [{"whole": 2**63 - 1, "part": 0.1, "small": 255, "yes": True, "names": [("a \"b\"", 1), ("c", None)],
             "pairs": [[1, -1], [2, 0]], "day": 0}, None,
            {"whole": -2**63, "part": 3.0, "small": 0, "yes": False, "names": [], "pairs": [], "day": 19000},
            {"part": float("nan")}, {"part": 1e300}]
    return pa.table({"documents": pa.array([[row] for row in rows], pa.list_(item))})


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (table, how) in tables().items():
        pq.write_table(table, folder / f"{name}.parquet", **how)
        read = pq.read_table(folder / f"{name}.parquet")
        kept = [field.name for field in read.schema if not pa.types.is_binary(field.type)]  # JSON has no bytes
        if not kept:
            continue
        lines = [json.dumps(without_nulls(row), ensure_ascii=False) for row in read.select(kept).to_pylist()]
        (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    pq.write_table(values(), folder / "values.parquet")
    # One row group of 80 MB of text, to see that it is never in memory as a whole.
    tall = pa.table({"text": [f"{i} " + "word " * 1600 for i in range(10000)]})
    pq.write_table(tall, folder / "tall.parquet", compression="zstd", compression_level=19, use_dictionary=False,
                   write_statistics=False)
    (folder / "versions.json").write_text(json.dumps({"pyarrow": pa.__version__}) + "\n")


if __name__ == "__main__":
    main()
