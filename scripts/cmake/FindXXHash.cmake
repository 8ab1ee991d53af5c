# XXHash::XXHash, the header alone: strata compiles it in. XXHASH_INCLUDE_DIR says where it is, on machines that have
# no package of it.
find_path(XXHASH_INCLUDE_DIR xxhash.h DOC "Folder of xxhash.h, of xxHash 0.8 or later")
mark_as_advanced(XXHASH_INCLUDE_DIR)
if(XXHASH_INCLUDE_DIR)
  if(NOT EXISTS ${XXHASH_INCLUDE_DIR}/xxhash.h)
    message(FATAL_ERROR "XXHASH_INCLUDE_DIR is ${XXHASH_INCLUDE_DIR}, where there is no xxhash.h")
  endif()
  file(STRINGS ${XXHASH_INCLUDE_DIR}/xxhash.h xxhash_lines REGEX "#define XXH_VERSION_(MAJOR|MINOR|RELEASE) ")
  string(REGEX MATCHALL "[0-9]+" xxhash_numbers "${xxhash_lines}")
  list(JOIN xxhash_numbers "." XXHash_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(XXHash REQUIRED_VARS XXHASH_INCLUDE_DIR VERSION_VAR XXHash_VERSION
  REASON_FAILURE_MESSAGE "install libxxhash-dev, or name the folder of xxhash.h by -DXXHASH_INCLUDE_DIR=DIR")
if(XXHash_FOUND AND NOT TARGET XXHash::XXHash)
  add_library(XXHash::XXHash INTERFACE IMPORTED)
  set_target_properties(XXHash::XXHash PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${XXHASH_INCLUDE_DIR})
endif()
