# ArrowParquet::ArrowParquet, Apache Arrow with its reader of Parquet, 21 or later. It is looked for as Arrow's own
# package (Arrow_DIR, Parquet_DIR), then in the Python package pyarrow of STRATA_PYTHON, which has headers and libraries;
# ARROW_PARQUET_OF_PYTHON says that it is the latter.
set(ARROW_PARQUET_OF_PYTHON OFF)
set(ArrowParquet_VERSION)
find_package(Arrow CONFIG QUIET)
find_package(Parquet CONFIG QUIET)
if(TARGET Parquet::parquet_shared)
  set(ArrowParquet_VERSION ${Arrow_VERSION})
  set(arrow_parquet Parquet::parquet_shared Arrow::arrow_shared)
else()
  find_program(STRATA_PYTHON python3 DOC "Python whose pyarrow reads Parquet, and that of the tests that need one")
  mark_as_advanced(STRATA_PYTHON)
  if(STRATA_PYTHON)
    # Without an import, which takes long.
    execute_process(COMMAND ${STRATA_PYTHON} -c
      "import importlib.util as u; s = u.find_spec('pyarrow'); print(s.submodule_search_locations[0] if s else '', end='')"
      OUTPUT_VARIABLE pyarrow ERROR_QUIET)
  endif()
  if(pyarrow AND EXISTS ${pyarrow}/include/arrow/util/config.h)
    file(STRINGS ${pyarrow}/include/arrow/util/config.h arrow_lines REGEX "#define ARROW_(VERSION_STRING|SO_VERSION) ")
    string(REGEX MATCHALL "[0-9][0-9.]*" arrow_numbers "${arrow_lines}")
    list(GET arrow_numbers 0 ArrowParquet_VERSION)
    list(GET arrow_numbers 1 arrow_number)
    foreach(part arrow parquet)
      set(library ${pyarrow}/lib${part}.so.${arrow_number})
      if(EXISTS ${library} AND NOT TARGET ArrowParquet::${part})
        add_library(ArrowParquet::${part} SHARED IMPORTED)
        set_target_properties(ArrowParquet::${part} PROPERTIES
          IMPORTED_LOCATION ${library} INTERFACE_INCLUDE_DIRECTORIES ${pyarrow}/include)
      endif()
    endforeach()
    if(TARGET ArrowParquet::arrow AND TARGET ArrowParquet::parquet)
      set(ARROW_PARQUET_OF_PYTHON ON)
      set(arrow_parquet ArrowParquet::parquet ArrowParquet::arrow)
    endif()
  endif()
endif()

# A library that was compiled for another std::string, as some of Python's are, has other names of functions.
if(arrow_parquet AND ArrowParquet_VERSION VERSION_GREATER_EQUAL 21)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES ${arrow_parquet})
  set(CMAKE_REQUIRED_QUIET ON)
  string(MAKE_C_IDENTIFIER "STRATA_ARROW_${ArrowParquet_VERSION}_LINKS" ARROW_PARQUET_LINKS)
  check_cxx_source_compiles("#include <arrow/buffer.h>
    int main() { return static_cast<int>(arrow::Buffer::FromString(\"text\")->size()); }" ${ARROW_PARQUET_LINKS})
  set(ARROW_PARQUET_USABLE ${${ARROW_PARQUET_LINKS}})
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_QUIET)
else()
  set(ARROW_PARQUET_USABLE OFF)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ArrowParquet REQUIRED_VARS ArrowParquet_VERSION ARROW_PARQUET_USABLE
  VERSION_VAR ArrowParquet_VERSION
  REASON_FAILURE_MESSAGE "to tokenize Parquet tables, install Apache Arrow 21 or later, or pip install pyarrow")
if(ArrowParquet_FOUND AND NOT TARGET ArrowParquet::ArrowParquet)
  add_library(ArrowParquet::ArrowParquet INTERFACE IMPORTED)
  set_target_properties(ArrowParquet::ArrowParquet PROPERTIES INTERFACE_LINK_LIBRARIES "${arrow_parquet}")
endif()
