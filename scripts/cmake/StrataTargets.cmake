# How every target of strata is built: one library per layer, warnings as errors, one way to name
# headers and dependencies.

add_library(strata_options INTERFACE)
target_compile_options(strata_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Werror -ffp-contract=off>)
# GCC 12 and 13 warn of library code that they have inlined (std::variant, std::string, fmt's floats).
target_compile_options(strata_options INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow>)
# With these ccache can tell what a precompiled header stands for: GCC names it where it was included, and clang does not
# ask when its sources were written, which differs in every checkout.
target_compile_options(strata_options INTERFACE
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-fpch-preprocess>
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:SHELL:-Xclang -fno-pch-timestamp>")
target_include_directories(strata_options INTERFACE ${PROJECT_SOURCE_DIR}/include)
if(STRATA_SANITIZE)
  target_compile_options(strata_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${STRATA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  # At a fixed place: what sanitizers write down of each check and each global holds a million addresses, which every
  # start of a program would relocate, and whose pages its leak checker would read as written ones.
  target_link_options(strata_options INTERFACE -fsanitize=${STRATA_SANITIZE}
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
  # Programs of 100 MB are linked by it in a quarter of the time.
  find_program(STRATA_LLD ld.lld)
  mark_as_advanced(STRATA_LLD)
  if(STRATA_LLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_link_options(strata_options INTERFACE -fuse-ld=lld)
  endif()
endif()

# What most sources include: to read it takes longer than the rest of many a source.
set(STRATA_STANDARD_HEADERS <algorithm> <array> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <variant> <vector>)

# Levels of optimisation. What computes has the build's own. Tests wait for what they test, so that to optimise them
# takes longer than it saves: -O1 in releases, where their own loops count, -O0 under sanitizers. There the outer layers,
# which print, are not optimised either. A precompiled header serves one level alone.
set(STRATA_TEST_OPTIMISATION -O1)
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(STRATA_TEST_OPTIMISATION -O0)
endif()
function(strata_optimisation target level)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${level}>)
endfunction()

# strata_precompile(<target> HEADERS <header>... [INCLUDES <folder>...]): precompiles headers, which are named in brackets.
# Clang writes the path of the folder into what it has precompiled, so that ccache would tell every folder from the
# others: it is given a sum of what the headers say instead, and clang their plain name, which ccache makes relative.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include <PCH_HEADER>)
endif()
function(strata_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;INCLUDES")
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  list(TRANSFORM arg_HEADERS PREPEND "#include " OUTPUT_VARIABLE lines)
  list(JOIN lines "\n" text)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir)
  file(WRITE ${folder}/headers.cpp "${text}\n")
  list(TRANSFORM arg_INCLUDES PREPEND -I)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 ${arg_INCLUDES} -E -P -x c++ ${folder}/headers.cpp
                  OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    file(REMOVE ${folder}/cmake_pch.hxx.pch.sum)
  else()
    string(SHA256 sum "${said}")
    file(WRITE ${folder}/cmake_pch.hxx.pch.sum ${sum})
  endif()
endfunction()

# strata_unite(<variable> <target> <source>...): what to compile in place of these sources: with STRATA_UNITY files of
# the build tree that include up to eight of them each, as most of a source's time goes by on headers that its
# neighbours read, too. They name sources from the tree's root, so that ccache finds what another folder has compiled.
# What the build itself has made is compiled alone.
function(strata_unite variable target)
  set(together)
  set(units)
  foreach(source ${ARGN})
    file(REAL_PATH ${source} path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} made)
    if(STRATA_UNITY AND NOT made)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
      list(APPEND together ${path})
    else()
      list(APPEND units ${source})
    endif()
  endforeach()
  list(LENGTH together count)
  math(EXPR files "(${count} + 7) / 8")
  set(at 0)
  foreach(source ${together})
    math(EXPR unit "${at} * ${files} / ${count}")
    string(APPEND text_${unit} "#include \"${source}\"\n")
    math(EXPR at "${at} + 1")
  endforeach()
  while(files)
    math(EXPR files "${files} - 1")
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/${target}.unity/${files}.cpp)
    file(CONFIGURE OUTPUT ${unit} CONTENT "${text_${files}}" @ONLY)
    # GCC takes what is included for a header, in which a public type of an unnamed namespace's would be a fault.
    set_source_files_properties(${unit} PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}
      COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    list(APPEND units ${unit})
  endwhile()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()

# strata_library(<name> SOURCES ... [HEADERS ...] [DEPENDS ...] [PRIVATE_DEPENDS ...] [OUTER])
# HEADERS are relative to include/ and are compiled alone by all_verify_interface_header_sets. Standard headers come
# precompiled from strata_standard. An OUTER layer is not optimised in Debug builds.
function(strata_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OUTER" "" "SOURCES;HEADERS;DEPENDS;PRIVATE_DEPENDS")
  strata_unite(sources ${name} ${arg_SOURCES})
  add_library(${name} STATIC ${sources})
  if(arg_HEADERS)
    list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/)
    target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include
                   FILES ${arg_HEADERS})
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  endif()
  target_link_libraries(${name} PUBLIC strata_options ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  if(arg_OUTER AND CMAKE_BUILD_TYPE STREQUAL "Debug")
    strata_optimisation(${name} -O0)
    target_precompile_headers(${name} REUSE_FROM strata_standard_outer)
  else()
    target_precompile_headers(${name} REUSE_FROM strata_standard)
  endif()
endfunction()

# After so many seconds ctest ends a test: only what hangs takes as long, on the slowest machine.
set(STRATA_TEST_HANGS_S 3600)

# strata_test(<name> SOURCES ... DEPENDS ... [LABELS ...] [SLOW] [LONG] [MPI] [CUDA] [COMPUTES]): a Catch2 program and
# its ctest entries: <name> runs everything but [slow], [long], [mpi] and [cuda]; <name>_slow, <name>_long, <name>_mpi,
# <name>_mpi_long and <name>_cuda run those, if asked for. ThreadSanitizer is not shown [one_thread], in which there is
# nothing to see, nor [numbers], of steps whose threads other tests show it. One that COMPUTES much itself, as
# references of operators do, is optimised in every build. scripts/test_gpu.py runs the cases of <name>_cuda, some by
# each process; the target cuda_tests builds what it needs.
function(strata_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SLOW;LONG;MPI;CUDA;COMPUTES" "" "SOURCES;DEPENDS;LABELS")
  strata_unite(sources ${name} ${arg_SOURCES})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE strata_test_support ${arg_DEPENDS})
  if(arg_COMPUTES AND CMAKE_BUILD_TYPE STREQUAL "Debug")
    strata_optimisation(${name} -O1)
    target_precompile_headers(${name} REUSE_FROM strata_test_catch_computes)
  else()
    strata_optimisation(${name} ${STRATA_TEST_OPTIMISATION})
    target_precompile_headers(${name} REUSE_FROM strata_test_catch)
  endif()
  set(fast "~[slow]~[long]~[mpi]~[cuda]")
  if(STRATA_SANITIZE STREQUAL "thread")
    string(APPEND fast "~[one_thread]~[numbers]")
  endif()
  add_test(NAME ${name} COMMAND ${name} "${fast}")
  set_tests_properties(${name} PROPERTIES LABELS "fast;${arg_LABELS}" TIMEOUT ${STRATA_TEST_HANGS_S})
  if(arg_LONG)
    add_test(NAME ${name}_long COMMAND ${name} "[long]~[mpi]~[cuda]")
    set_tests_properties(${name}_long PROPERTIES LABELS "long;${arg_LABELS}" TIMEOUT ${STRATA_TEST_HANGS_S})
  endif()
  if(arg_MPI AND MPI_CXX_FOUND)
    # Up to 4 ranks, which wait far more than they compute, so that other tests run beside them. Open MPI asks for these
    # as root, and where there are fewer cores than ranks.
    set(environment "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
    add_test(NAME ${name}_mpi COMMAND ${name} "[mpi]~[long]")
    set_tests_properties(${name}_mpi PROPERTIES LABELS "fast;mpi;${arg_LABELS}"
                         ENVIRONMENT "${environment}" TIMEOUT ${STRATA_TEST_HANGS_S})
    if(arg_LONG)
      add_test(NAME ${name}_mpi_long COMMAND ${name} "[mpi][long]")
      set_tests_properties(${name}_mpi_long PROPERTIES LABELS "long;mpi;${arg_LABELS}"
                           ENVIRONMENT "${environment}" TIMEOUT ${STRATA_TEST_HANGS_S})
    endif()
  endif()
  if(arg_SLOW)
    add_test(NAME ${name}_slow COMMAND ${name} "[slow]~[cuda]")
    set_tests_properties(${name}_slow PROPERTIES LABELS "slow;${arg_LABELS}" TIMEOUT ${STRATA_TEST_HANGS_S})
  endif()
  if(arg_CUDA AND STRATA_CUDA)
    add_test(NAME ${name}_cuda COMMAND ${name} "[cuda]")
    set_tests_properties(${name}_cuda PROPERTIES LABELS "cuda;${arg_LABELS}" RESOURCE_LOCK gpu
                         TIMEOUT ${STRATA_TEST_HANGS_S})
    add_dependencies(cuda_tests ${name})
  endif()
endfunction()
