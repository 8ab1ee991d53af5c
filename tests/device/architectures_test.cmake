# What STRATA_CUDA_ARCHITECTURES becomes on machines with these GPUs: an nvidia-smi of the test's own answers.
#
#   cmake -DSCRIPTS=scripts/cmake -DFOLDER=FOLDER -P architectures_test.cmake

# expect(GPUS LIST OUTPUT): GPUS are the lines of nvidia-smi, "none" if it fails; LIST is the variable's value, "-" its
# default; OUTPUT is part of what is said.
function(expect gpus list output)
  file(REMOVE_RECURSE ${FOLDER})
  file(WRITE ${FOLDER}/nvidia-smi "#!/bin/sh\ntest '${gpus}' != none || exit 9\nprintf '%s\\n' ${gpus}\n")
  file(CHMOD ${FOLDER}/nvidia-smi PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  set(given)
  if(NOT list STREQUAL "-")
    set(given "-DSTRATA_CUDA_ARCHITECTURES=${list}")
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E env "PATH=${FOLDER}:$ENV{PATH}"
                          ${CMAKE_COMMAND} ${given} -P ${SCRIPTS}/StrataCudaArchitectures.cmake
                  OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")  # cmake wraps its errors
  string(FIND "${said}" "${output}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "GPUs \"${gpus}\", list \"${list}\": wanted \"${output}\", found \"${said}\"")
  endif()
endfunction()

expect("9.0" - "GPU code: 90a-real ")
expect("8.9 8.9" - "GPU code: 89-real ")
expect("8.6 12.0" - "GPU code: 86-real;120-real ")
expect("8.7" - "GPU code: 86-real ")
expect("10.3" - "GPU code: 100-real ")
expect("13.0" - "GPU code: 100-virtual ")
expect("7.5" - "compute capability 7.5; strata needs 8.0 or later")
expect(none - "GPU code: 80;90a-real ")
expect("9.0" all "GPU code: 80-real;86-real;89-real;90a-real;100;120-real ")
expect("9.0" "89-real\;80-virtual" "GPU code: 89-real;80-virtual ")
expect("9.0" "all-major" "\"all-major\" is neither native, all, nor an architecture")
