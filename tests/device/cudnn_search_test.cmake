# Tests that FindCUDNN takes the library of the folder that CUDNN_ROOT names although the system has another
# one, which has the plain name that the Python package lacks.
# Run as cmake -DMODULES=scripts/cmake -DFOLDER=an empty folder of its own -P cudnn_search_test.cmake
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${FOLDER})
foreach(root package system)
  file(WRITE ${FOLDER}/${root}/include/cudnn_version.h
       "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 16\n#define CUDNN_PATCHLEVEL 0\n")
  file(WRITE ${FOLDER}/${root}/lib/libcudnn.so.9 "")
endforeach()
file(WRITE ${FOLDER}/system/lib/libcudnn.so "")

# What a project sets, and what a script cannot call.
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
function(add_library)
endfunction()
function(set_target_properties)
endfunction()

set(CMAKE_MODULE_PATH ${MODULES})
set(CMAKE_SYSTEM_PREFIX_PATH ${FOLDER}/system)
foreach(root package system)
  unset(CUDNN_LIBRARY CACHE)
  unset(CUDNN_INCLUDE_DIR CACHE)
  set(CUDNN_ROOT "")
  if(root STREQUAL package)
    set(CUDNN_ROOT ${FOLDER}/package)
  endif()
  find_package(CUDNN 9.16 REQUIRED QUIET)
  foreach(found ${CUDNN_LIBRARY} ${CUDNN_INCLUDE_DIR})
    if(NOT found MATCHES "^${FOLDER}/${root}/")
      message(FATAL_ERROR "wanted the cuDNN of ${root}, found ${found}")
    endif()
  endforeach()
endforeach()
