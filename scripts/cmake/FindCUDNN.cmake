# CUDNN::CUDNN, CUDNN_VERSION. Looked for beside the CUDA Toolkit, and where CUDNN_ROOT says; that
# may be the folder of the Python package, which has no libcudnn.so.
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
# Both names in one folder before the next: else a system's libcudnn.so comes before CUDNN_ROOT's.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_lines
       REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  string(REGEX MATCHALL " [0-9]+" cudnn_numbers "${cudnn_lines}")
  list(TRANSFORM cudnn_numbers STRIP)
  list(JOIN cudnn_numbers "." CUDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
                                  VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::CUDNN)
  add_library(CUDNN::CUDNN UNKNOWN IMPORTED)
  set_target_properties(CUDNN::CUDNN PROPERTIES IMPORTED_LOCATION ${CUDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CUDNN_INCLUDE_DIR})
endif()
