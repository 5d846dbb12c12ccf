# The same run on any number of processes over one transport, and of threads, gives the same result file, byte for
# byte, the host section aside, and the same exit code and message (R4).
#
#   cmake -DPROGRAM=… -DMPIEXEC=… -DTRANSPORT=… -DFOLDER=… -DEXIT_CODE=0 -DPROCESSES="1;2;2x3" -DARGUMENTS="run;…" -P …
#
# 2x3: two processes of three threads.
file(MAKE_DIRECTORY ${FOLDER})

# The result of one run: its file without the host section, or what it says where it writes none.
function(run_once name transport expected out_result)
  set(json ${FOLDER}/${name}.json)
  file(REMOVE ${json})
  execute_process(COMMAND ${ARGN} ${ARGUMENTS} --transport ${transport} --quiet --json ${json}
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL expected)
    message(FATAL_ERROR "${name}: exit code ${code}, not ${expected}\n${out}\n${err}")
  endif()
  set(text "${err}")
  if(EXISTS ${json})
    file(READ ${json} text)
    string(REGEX REPLACE "\"host\": {[^}]*}" "" result "${text}")
    if(result STREQUAL text)
      message(FATAL_ERROR "${name}: no host section in ${json}")
    endif()
    set(text "${result}")
  endif()
  if(text STREQUAL "")
    message(FATAL_ERROR "${name}: neither a result nor a message")
  endif()
  set(${out_result} "${text}" PARENT_SCOPE)
endfunction()

run_once(alone local ${EXIT_CODE} reference ${PROGRAM})
set(fixed_arguments ${ARGUMENTS})
foreach(size ${PROCESSES})
  set(name ${TRANSPORT}.p${size})
  string(REPLACE "x" ";" size "${size}x1")
  list(GET size 0 processes)
  list(GET size 1 threads)
  set(ARGUMENTS ${fixed_arguments} --threads ${threads})
  run_once(${name} ${TRANSPORT} ${EXIT_CODE} result
    ${MPIEXEC} -q --oversubscribe -n ${processes} ${PROGRAM})
  if(NOT result STREQUAL reference)
    file(WRITE ${FOLDER}/alone.txt "${reference}")
    file(WRITE ${FOLDER}/${name}.txt "${result}")
    message(FATAL_ERROR "${name} differs from one process: see ${FOLDER}/alone.txt and ${name}.txt\n${result}")
  endif()
endforeach()
