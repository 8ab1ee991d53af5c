// Completes the command line for shells. What a shell loads is a short script that hands the words
// typed so far to `strata complete`, a command that help does not list, and offers what that
// answers. So a script that was installed once knows what the program of today takes. The shell
// runs the program that the line names, which may be one of the current folder.
//
// An answer has a line for each word that may stand in place of the last one, with a tab and what
// it means where that is known. It does not depend on what is typed of the part that is completed:
// shells choose by prefix, or by what else they know. A last line ":file" or ":folder" asks for
// names of files, and says after a tab how many characters of the last word are ahead of the name.
#pragma once

#include <span>
#include <string>

#include "command_line/command_tree.h"

namespace strata {

/// Returns the script that bash, zsh or fish loads.
[[nodiscard]] std::string completion_script(const std::string& shell);

/// Returns the answer for the words that follow the program's name, the last of which is being
/// typed. It is empty where nothing is known.
[[nodiscard]] std::string completion_answer(const CommandText& program,
                                            std::span<const std::string> words);

}  // namespace strata
