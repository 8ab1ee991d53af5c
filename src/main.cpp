// The program: it does what its arguments ask for.

#include "strata/command_line/command_line.h"

int main(int argc, char** argv) { return strata::run_command_line(argc, argv); }
