# Each program in a tree that lacks what it must not know. Not under sanitizers: the release run
# says all there is to say.
if(NOT CMAKE_CXX_FLAGS MATCHES "sanitize")
  foreach(case "megarun planner" "megaplan runtime kernels")
    separate_arguments(case)
    list(POP_FRONT case program)
    add_test(NAME Acid.${program}
             COMMAND ${PROJECT_SOURCE_DIR}/tests/repository/acid.sh ${PROJECT_SOURCE_DIR}
                     ${PROJECT_BINARY_DIR}/acid/${program} ${program} ${CMAKE_BUILD_TYPE}
                     ${CMAKE_CXX_COMPILER} ${case})
    set_tests_properties(Acid.${program} PROPERTIES LABELS acid TIMEOUT 1500 RUN_SERIAL ON)
  endforeach()
endif()
