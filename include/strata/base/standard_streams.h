// Keeps the descriptors of standard input, output and error for these. Whoever starts a program
// with one of them closed gives its number to the next file that is opened, and what is said on
// standard error would be written into that file.
#pragma once

namespace strata {

/// Opens the null device on those of the descriptors 0 to 2 that are closed, the other way round
/// than they are used: reading and writing them fails as before. To be called before any file is
/// opened. Returns false if a descriptor cannot be kept.
[[nodiscard]] bool hold_standard_streams();

}  // namespace strata
