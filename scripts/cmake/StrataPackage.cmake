# What `cpack` makes of an installation (docs/decisions/0032-packages-name-or-carry-libraries.md):
#
#   the .deb      of a build for this distribution: names the packages of the libraries that it was linked with
#   the tarball   of a build with STRATA_PORTABLE: carries these libraries
set(STRATA_PACKAGER "The authors of strata <strata@localhost>" CACHE STRING
  "Who made the package, with an address: its maintainer")

set(CPACK_PACKAGE_NAME strata)
set(CPACK_PACKAGE_CONTACT ${STRATA_PACKAGER})
set(CPACK_PACKAGE_VENDOR "The authors of strata")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "native trainer of LLaMA models larger than GPU memory")
set(CPACK_PACKAGE_DESCRIPTION
  "strata trains LLaMA-family models whose training state is larger than GPU
memory. Weights, gradients and moments live in host memory, and layers stream
through the GPU. It tokenizes, trains, evaluates and generates, without Python.")
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_THREADS 0)

set(strata_system ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
string(TOLOWER ${strata_system} strata_system)
if(STRATA_CUDA)
  string(APPEND strata_system -cuda${CUDAToolkit_VERSION_MAJOR})
  set(CPACK_PACKAGE_NAME strata-cuda)
  set(CPACK_DEBIAN_PACKAGE_CONFLICTS strata)
  # Of libraries that did not come as packages the dependencies know nothing, nor of NCCL, which is loaded when it runs.
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
    "libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}, libnccl2")
  if(CUDNN_FOUND)
    string(APPEND CPACK_DEBIAN_PACKAGE_RECOMMENDS ", libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}")
  endif()
endif()
if(STRATA_PORTABLE)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME strata-${PROJECT_VERSION}-${strata_system})
else()
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(MPI_CXX_FOUND)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS openmpi-bin)  # mpirun
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/scripts/cmake/debian_files.cmake)
include(CPack)
