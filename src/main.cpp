// The program: it does what its arguments ask for.

#include "strata/base/standard_streams.h"
#include "strata/command_line/command_line.h"

int main(int argc, char** argv) {
  constexpr int kNobodyToTell = 1;
  if (!strata::hold_standard_streams()) return kNobodyToTell;
  return strata::run_command_line(argc, argv);
}
