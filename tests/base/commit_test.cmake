# Tests write_commit.cmake on trees made here: what a clone, an archive and a bare folder are.
# Run as cmake -DSCRIPTS=scripts/cmake -DFOLDER=an empty folder of its own -P commit_test.cmake
file(REMOVE_RECURSE ${FOLDER})
set(header ${FOLDER}/commit.h)

# Writes the header for the tree and stops unless it matches the pattern.
function(expect scripts tree pattern)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${tree} -DHEADER=${header}
                          -P ${scripts}/write_commit.cmake COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${header} text)
  if(NOT text MATCHES "^#define STRATA_COMMIT \"${pattern}\"\n$")
    message(FATAL_ERROR "${tree}: wanted ${pattern}, found ${text}")
  endif()
endfunction()

function(git)
  execute_process(COMMAND git -C ${FOLDER}/clone -c user.name=test -c user.email=test@example.org ${ARGN}
                  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The tree of these tests may itself be an archive: no archive has put a commit into these scripts.
set(unarchived ${FOLDER}/scripts)
file(COPY ${SCRIPTS}/write_commit.cmake DESTINATION ${unarchived})
file(WRITE ${unarchived}/commit.txt "# about\n$Format:%H$\n")

file(MAKE_DIRECTORY ${FOLDER}/bare)
expect(${unarchived} ${FOLDER}/bare unknown)  # although the build folder may lie in a repository

# In an archive git has put the commit where $Format$ stood.
file(COPY ${SCRIPTS}/write_commit.cmake DESTINATION ${FOLDER}/archive)
file(WRITE ${FOLDER}/archive/commit.txt "# about\n0123456789abcdef0123456789abcdef01234567\n")
expect(${FOLDER}/archive ${FOLDER}/archive 0123456789ab)

find_program(GIT git)
if(NOT GIT)
  return()
endif()
file(WRITE ${FOLDER}/clone/file "one")
git(init -q)
expect(${unarchived} ${FOLDER}/clone unknown)  # no commit yet
git(add file)
git(commit -q -m one)
git(tag v9)  # names the version, not the commit
expect(${unarchived} ${FOLDER}/clone "[0-9a-f]+")
file(TIMESTAMP ${header} before "%s%f")
# A header that is written again now has another time. It has none if it is left alone, however long this takes.
execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.02)
expect(${unarchived} ${FOLDER}/clone "[0-9a-f]+")
file(TIMESTAMP ${header} after "%s%f")
if(NOT before STREQUAL after)
  message(FATAL_ERROR "the same commit wrote the header again")
endif()
file(WRITE ${FOLDER}/clone/file "two")
expect(${unarchived} ${FOLDER}/clone "[0-9a-f]+[+]changes")
