# Writes the C++ source OUTPUT with the files of the golden model that lie in SOURCE, as strings of
# bytes:
#
#   cmake -DSOURCE=... -DOUTPUT=... -P embed_golden.cmake
set(entries "")
foreach(name config.json model.safetensors self_test.safetensors)
  file(READ ${SOURCE}/${name} digits HEX)
  string(LENGTH "${digits}" length)
  math(EXPR bytes "${length} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" text "${digits}")
  string(APPEND entries "    {\"${name}\", {\"${text}\", ${bytes}}},\n")
endforeach()
file(WRITE ${OUTPUT} "// Written by embed_golden.cmake.

#include \"doctor/golden_files.h\"

namespace strata {

const std::array<GoldenFile, 3> kGoldenFiles{{
${entries}}};

}  // namespace strata
")
