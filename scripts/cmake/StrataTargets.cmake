# How every target of strata is built: one library per layer, warnings as errors, one way to name
# headers and dependencies.

add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Werror -ffp-contract=off>)
# GCC 12 and 13 warn of library code that they have inlined (std::variant, std::string, fmt's floats).
target_compile_options(strata_options INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow>)
# With these ccache can tell what a precompiled header stands for: GCC names it where it was included, and clang leaves
# out when its sources were written, which differs in every checkout.
target_compile_options(strata_options INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:SHELL:-Xclang -fno-pch-timestamp>")
target_include_directories(strata_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(STRATA_SANITIZE)
  target_compile_options(strata_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(strata_options INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()

# What most sources include: to read it takes longer than the rest of many a source.
set(STRATA_STANDARD_HEADERS <algorithm> <array> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <variant> <vector>)

# strata_library(<name> SOURCES ... [HEADERS ...] [DEPENDS ...] [PRIVATE_DEPENDS ...])
# HEADERS are relative to include/ and are compiled alone by all_verify_interface_header_sets. Standard headers come
# precompiled from strata_standard.
function(strata_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS")
  add_library(${name} STATIC ${arg_SOURCES})
  if(arg_HEADERS)
    list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/)
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include
                   FILES ${arg_HEADERS})
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  target_link_libraries(${name} PUBLIC strata_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM strata_standard)
endfunction()

# strata_test(<name> SOURCES ... DEPENDS ... [LABELS ...] [SLOW] [LONG] [MPI] [CUDA]): a Catch2 program and its ctest
# entries: <name> runs everything but [slow], [long], [mpi] and [cuda]; <name>_slow, <name>_long, <name>_mpi,
# <name>_mpi_long and <name>_cuda run those, if asked for. ThreadSanitizer is not shown [one_thread], in which there is nothing to see.
# scripts/test_gpu.py runs the cases of <name>_cuda each by itself; the target cuda_tests builds what it needs.
function(strata_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SLOW;LONG;MPI;CUDA" "" "SOURCES;DEPENDS;LABELS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE strata_test_support ${arg_DEPENDS})
  target_precompile_headers(${name} REUSE_FROM strata_test_catch)
  set(fast "~[slow]~[long]~[mpi]~[cuda]")
  if(STRATA_SANITIZE STREQUAL "thread")
    string(APPEND fast "~[one_thread]")
  endif()
  add_test(NAME ${name} COMMAND ${name} "${fast}")
  set_tests_properties(${name} PROPERTIES LABELS "fast;${arg_LABELS}")
  if(arg_LONG)
    add_test(NAME ${name}_long COMMAND ${name} "[long]~[mpi]~[cuda]")
    set_tests_properties(${name}_long PROPERTIES LABELS "long;${arg_LABELS}")
  endif()
  if(arg_MPI AND MPI_CXX_FOUND)
    # Up to 4 ranks. Open MPI asks for these as root, and where there are fewer cores than ranks.
    set(environment "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
    add_test(NAME ${name}_mpi COMMAND ${name} "[mpi]~[long]")
    set_tests_properties(${name}_mpi PROPERTIES LABELS "fast;mpi;${arg_LABELS}" PROCESSORS 4
                         ENVIRONMENT "${environment}")
    if(arg_LONG)
      add_test(NAME ${name}_mpi_long COMMAND ${name} "[mpi][long]")
      set_tests_properties(${name}_mpi_long PROPERTIES LABELS "long;mpi;${arg_LABELS}" PROCESSORS 4
                           ENVIRONMENT "${environment}")
    endif()
  endif()
  if(arg_SLOW)
    add_test(NAME ${name}_slow COMMAND ${name} "[slow]~[cuda]")
    set_tests_properties(${name}_slow PROPERTIES LABELS "slow;${arg_LABELS}")
  endif()
  if(arg_CUDA AND STRATA_CUDA)
    add_test(NAME ${name}_cuda COMMAND ${name} "[cuda]")
    set_tests_properties(${name}_cuda PROPERTIES LABELS "cuda;${arg_LABELS}" RESOURCE_LOCK gpu)
    add_dependencies(cuda_tests ${name})
  endif()
endfunction()
