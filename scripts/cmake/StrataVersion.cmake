# strata_version: the library with build_info() of strata/base/version.h. What cmake knows goes into the
# source when it configures, the commit when it builds: a target that always runs writes one small file
# if its contents differ, so that a commit compiles one file again.
function(strata_add_version)
  set(backends cpu)
  set(architectures none)
  set(cudnn none)
  set(mpi none)
  if(STRATA_CUDA)
    string(APPEND backends ", cuda")
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " architectures)
    if(CUDNN_FOUND)
      set(cudnn ${CUDNN_VERSION})
    endif()
  endif()
  if(MPI_CXX_FOUND)
    set(mpi ${MPI_CXX_VERSION})
  endif()
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}")
  if(STRATA_SANITIZE)
    string(APPEND compiler ", sanitizers ${STRATA_SANITIZE}")
  endif()
  set(folder ${PROJECT_BINARY_DIR}/generated)
  configure_file(${PROJECT_SOURCE_DIR}/src/base/build_info.cpp.in ${folder}/build_info.cpp @ONLY)

  # Written once now, so that tools which read sources before a build find it.
  set(write_commit ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${folder}/commit.h
                   -P ${PROJECT_SOURCE_DIR}/scripts/cmake/write_commit.cmake)
  execute_process(COMMAND ${write_commit})
  add_custom_target(strata_commit COMMAND ${write_commit} BYPRODUCTS ${folder}/commit.h VERBATIM
                    COMMENT "")
  add_library(strata_version STATIC ${folder}/build_info.cpp)
  add_dependencies(strata_version strata_commit)
  target_include_directories(strata_version PRIVATE ${folder})
  target_link_libraries(strata_version PUBLIC strata_base)
endfunction()
