# CPack runs this before it packs what was installed: in a .deb, licence, changelog and completions stand where Debian
# looks for them. Other packages stay as they are.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
find_program(GZIP gzip REQUIRED)
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
file(GLOB_RECURSE licence ${share}/doc/*/LICENSE)
get_filename_component(docs ${licence} DIRECTORY)

# Debian has the text of this licence itself.
file(REMOVE ${licence})
file(WRITE ${docs}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: strata

Files: *
Copyright: 2026 The authors of strata
License: Apache-2.0
 On Debian systems the text of the Apache License, version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
")

file(RENAME ${docs}/CHANGELOG.md ${docs}/changelog)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${docs}/changelog.Debian
     "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Made by CPack; changelog.gz says what changed in strata.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND ${GZIP} -9 -n ${docs}/changelog ${docs}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)

file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)
# The packages of all libraries put them where the system looks.
foreach(file bin/strata lib/strata/strata_parquet.so)
  if(EXISTS ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/${file})
    file(RPATH_REMOVE FILE ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/${file})
  endif()
endforeach()
