# What `cmake --install` puts where: the program, its manual, what shells complete it by, the schema of a run config,
# and configs to begin with. STRATA_PORTABLE also installs the libraries that the program needs, so that it runs on
# machines that have none of them but glibc; what belongs to a machine stays its own (docs/installing.md).

# Libraries that the system does not know are found where they were linked.
if(NOT STRATA_PORTABLE)
  set_target_properties(strata PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(TARGETS strata)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/strata)

# The texts that the program writes of itself.
install(CODE "
  set(STRATA_PROGRAM \"$<TARGET_FILE:strata>\")
  set(STRATA_TEXTS \"${PROJECT_BINARY_DIR}/generated/texts\")
  set(STRATA_MANDIR \"${CMAKE_INSTALL_MANDIR}\")
  set(STRATA_DATADIR \"${CMAKE_INSTALL_DATADIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/scripts/cmake/install_texts.cmake)

if(STRATA_PORTABLE)
  if(MPI_CXX_FOUND)
    message(FATAL_ERROR "STRATA_PORTABLE: a program with MPI runs where that MPI is; configure with -DSTRATA_MPI=OFF")
  endif()
  set(strata_libraries ${CMAKE_INSTALL_LIBDIR}/strata)
  set_target_properties(strata PROPERTIES INSTALL_RPATH "$ORIGIN/../${strata_libraries}")
  install(CODE "
    set(STRATA_PROGRAM \"$<TARGET_FILE:strata>\")
    set(STRATA_LIBRARIES \"${strata_libraries}\")
    set(STRATA_DOCDIR \"${CMAKE_INSTALL_DOCDIR}\")")
  install(SCRIPT ${PROJECT_SOURCE_DIR}/scripts/cmake/install_libraries.cmake)
endif()
