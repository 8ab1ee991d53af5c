# Has the program that was built write its manual, its completions and the schema of its configs, and installs them.
# Pages are packed, as systems have them, where there is a gzip that leaves times out.
find_program(GZIP gzip)

function(write_text file)
  execute_process(COMMAND ${STRATA_PROGRAM} ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(install_text folder)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${folder} TYPE FILE FILES ${ARGN})
endfunction()

file(REMOVE_RECURSE ${STRATA_TEXTS})
file(MAKE_DIRECTORY ${STRATA_TEXTS})
execute_process(COMMAND ${STRATA_PROGRAM} man --output ${STRATA_TEXTS} COMMAND_ERROR_IS_FATAL ANY)
foreach(section 1 5)
  file(GLOB pages ${STRATA_TEXTS}/*.${section})
  if(GZIP)
    execute_process(COMMAND ${GZIP} -9 -n ${pages} COMMAND_ERROR_IS_FATAL ANY)
    list(TRANSFORM pages APPEND .gz)
  endif()
  install_text(${STRATA_MANDIR}/man${section} ${pages})
endforeach()

# Each shell looks for its own name.
write_text(${STRATA_TEXTS}/strata completions bash)
install_text(${STRATA_DATADIR}/bash-completion/completions ${STRATA_TEXTS}/strata)
write_text(${STRATA_TEXTS}/_strata completions zsh)
install_text(${STRATA_DATADIR}/zsh/site-functions ${STRATA_TEXTS}/_strata)
write_text(${STRATA_TEXTS}/strata.fish completions fish)
install_text(${STRATA_DATADIR}/fish/vendor_completions.d ${STRATA_TEXTS}/strata.fish)

write_text(${STRATA_TEXTS}/config.schema.json config-schema)
install_text(${STRATA_DATADIR}/strata ${STRATA_TEXTS}/config.schema.json)
