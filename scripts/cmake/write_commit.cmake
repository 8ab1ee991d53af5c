# Writes HEADER with the commit of the tree SOURCE, unless that is what it says already:
#
#   cmake -DSOURCE=... -DHEADER=... -P write_commit.cmake
#
# A clone is asked through git. An archive has the commit in commit.txt, where `git archive` wrote it
# (.gitattributes). Otherwise it is unknown, also if SOURCE lies in somebody else's repository.
set(commit unknown)
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt archived REGEX "^[0-9a-f]+$")
if(archived)
  string(SUBSTRING ${archived} 0 12 commit)
elseif(EXISTS ${SOURCE}/.git)
  find_program(GIT git)
  if(GIT)
    execute_process(
      COMMAND ${GIT} -C ${SOURCE} describe --always --abbrev=12 --exclude=* --dirty=+changes
      OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(commit ${described})
    endif()
  endif()
endif()
set(text "#define STRATA_COMMIT \"${commit}\"\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${HEADER} "${text}")
endif()
