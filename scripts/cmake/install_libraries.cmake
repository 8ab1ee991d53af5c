# Installs the libraries that STRATA_PROGRAM needs into STRATA_LIBRARIES, and where Debian's package of one says under
# which licence it may be handed on, that as well. glibc is of one piece with the machine's kernel and name services;
# CUDA's libraries are named, not carried, for their size.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${STRATA_PROGRAM} RESOLVED_DEPENDENCIES_VAR carried
     PRE_EXCLUDE_REGEXES "^(ld-linux|libc|libm|libdl|libpthread|librt|libcuda|libcublas|libcublasLt|libcudnn)[.-]")
find_program(DPKG_QUERY dpkg-query)
foreach(library IN LISTS carried)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${STRATA_LIBRARIES} TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN
       FILES ${library})
  file(REAL_PATH ${library} file)
  string(REGEX REPLACE "^/usr/lib/" "/lib/" merged ${file})  # as packages name it that are older than the merge
  if(DPKG_QUERY)
    execute_process(COMMAND ${DPKG_QUERY} -S ${file} ${merged} OUTPUT_VARIABLE owner ERROR_QUIET)
    string(REGEX MATCH "^[^:]+" package "${owner}")
    set(licence /usr/share/doc/${package}/copyright)
    if(package AND EXISTS ${licence})
      file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${STRATA_DOCDIR}/libraries TYPE FILE RENAME ${package}
           FILES ${licence})
    endif()
  endif()
endforeach()
