# Which GPUs a build has code for. STRATA_CUDA_ARCHITECTURES is
#
#   native   the GPUs of this machine and no others, which compiles fastest; where there is none, what runs on every
#            GPU since compute capability 8.0 with little to compile: code for 8.x and 9.0, PTX for all others
#   all      releases: code for every generation since 8.0, PTX for what comes later
#   a list   as CMAKE_CUDA_ARCHITECTURES has it, such as "89-real;90a-real;80-virtual"
#
# Code for 8.0 also runs on 8.6 and 8.9, code for 10.0 on 10.3, and so on within a generation; PTX is compiled by the
# driver when the program starts. 90a has the attention kernels of compute capability 9.0 and runs there alone.

set(STRATA_CUDA_ARCHITECTURES native CACHE STRING "GPUs to compile for: native, all, or a list")

set(_strata_all_architectures 80-real 86-real 89-real 90a-real 100 120-real)
set(_strata_few_architectures 80 90a-real)

# Returns the code for a GPU of compute capability `major`.`minor`: the newest of its generation that it runs, or PTX.
function(_strata_code_for major minor result)
  if(major LESS 8)
    message(FATAL_ERROR "STRATA_CUDA_ARCHITECTURES: this machine has a GPU of compute capability ${major}.${minor}; "
      "strata needs 8.0 or later. Name the GPUs to build for, or configure the preset cpu-release.")
  endif()
  set(code 100-virtual)
  foreach(known 80 86 89 90a 100 120)
    string(REGEX REPLACE "^([0-9]+)([0-9])a?$" "\\1;\\2" parts ${known})
    list(GET parts 0 known_major)
    list(GET parts 1 known_minor)
    if(known_major EQUAL major AND known_minor LESS_EQUAL minor)
      set(code ${known}-real)
    endif()
  endforeach()
  set(${result} ${code} PARENT_SCOPE)
endfunction()

# Returns the code for the GPUs of this machine, nothing where there are none.
function(_strata_native_architectures result)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  set(architectures)
  if(NOT failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." ";" parts ${capability})
      _strata_code_for(${parts} code)
      list(APPEND architectures ${code})
    endforeach()
    list(REMOVE_DUPLICATES architectures)
  endif()
  set(${result} ${architectures} PARENT_SCOPE)
endfunction()

if(DEFINED CACHE{CMAKE_CUDA_ARCHITECTURES})
  message(WARNING "CMAKE_CUDA_ARCHITECTURES=$CACHE{CMAKE_CUDA_ARCHITECTURES} is not used: "
    "set STRATA_CUDA_ARCHITECTURES, which takes the same lists.")
endif()
if(STRATA_CUDA_ARCHITECTURES STREQUAL "all")
  set(CMAKE_CUDA_ARCHITECTURES ${_strata_all_architectures})
elseif(STRATA_CUDA_ARCHITECTURES STREQUAL "native")
  _strata_native_architectures(_strata_native)
  if(NOT _strata_native)
    set(_strata_native ${_strata_few_architectures})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${_strata_native})
else()
  foreach(_architecture IN LISTS STRATA_CUDA_ARCHITECTURES)
    if(NOT _architecture MATCHES "^[0-9]+a?(-real|-virtual)?$")
      message(FATAL_ERROR "STRATA_CUDA_ARCHITECTURES: \"${_architecture}\" is neither native, all, nor an "
        "architecture such as 89-real, 90a-real or 80-virtual")
    endif()
  endforeach()
  set(CMAKE_CUDA_ARCHITECTURES ${STRATA_CUDA_ARCHITECTURES})
endif()
message(STATUS "GPU code: ${CMAKE_CUDA_ARCHITECTURES}")
