// A list of JSON as lines of JSON, so that data sets which are one list are read as any others,
// record by record, however large they are.
#pragma once

#include <memory>
#include <string>

#include "data/byte_stream.h"

namespace strata {

/// Gives each entry of the list that `inner` holds on a line of its own; messages call it `name`.
/// Throws IoError for what is no list, or not one list alone. What an entry is, is not looked at.
[[nodiscard]] std::unique_ptr<ByteStream> lines_of_json_list(std::unique_ptr<ByteStream> inner,
                                                             std::string name);

}  // namespace strata
