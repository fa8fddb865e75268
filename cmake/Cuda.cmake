# NVIDIA GPUs: objects of src/**/*.cu, each for the architectures its suffix names, and the runtime,
# linked statically, so that the same program runs where there is no driver. Sets DI_HAS_CUDA,
# DI_CUDA_OBJECTS and DI_CUDA_LIBRARIES.
#
#   <name>_cuda.cu   DEEPINFER_CUDA_ARCHITECTURES: machine code for Ampere, Hopper and Blackwell
#   <name>_sm90.cu   90a alone: Hopper's own instructions, which run on no other architecture
set(DEEPINFER_CUDA AUTO CACHE STRING "NVIDIA GPUs: AUTO (where nvcc is found), ON, OFF")
set_property(CACHE DEEPINFER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DEEPINFER_CUDA_ARCHITECTURES 80-real 90-real 100-real 120 CACHE STRING
    "What portable CUDA kernels are compiled for")

set(DI_HAS_CUDA OFF)
set(DI_CUDA_OBJECTS)
set(DI_CUDA_LIBRARIES)
if(DEEPINFER_CUDA AND NOT DI_SANITIZE)
    if(NOT CMAKE_CUDA_COMPILER)
        find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin ENV CUDA_PATH PATH_SUFFIXES bin)
    endif()
    if(CMAKE_CUDA_COMPILER AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CMAKE_CROSSCOMPILING)
        set(DI_HAS_CUDA ON)
    elseif(DEEPINFER_CUDA STREQUAL "AUTO")
        message(STATUS "nvcc not found: built without NVIDIA GPUs")
    else()
        message(FATAL_ERROR "DEEPINFER_CUDA is ${DEEPINFER_CUDA} and nvcc was not found")
    endif()
endif()
if(NOT DI_HAS_CUDA)
    return()
endif()

if(CMAKE_C_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
set(CMAKE_CUDA_LINKER_PREFERENCE_PROPAGATES OFF) # the C compiler links what has such objects
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)

file(GLOB_RECURSE DI_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_cuda.cu)
file(GLOB_RECURSE DI_SM90_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_sm90.cu)

# No contraction (exact kernels write fma where they want one) and no fast-math, as for the C files; no
# exceptions and no guarded statics, so that a plain C linker does.
function(di_cuda_objects name architectures)
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${architectures}"
        CUDA_VISIBILITY_PRESET hidden)
    target_include_directories(${name} PRIVATE include src)
    target_compile_options(${name} PRIVATE -fmad=false -O3 -lineinfo
        -Xcompiler=-Wall,-fno-exceptions,-fno-threadsafe-statics,-ffp-contract=off
        $<$<BOOL:${DI_WERROR}>:-Werror=all-warnings>)
    set(DI_CUDA_OBJECTS ${DI_CUDA_OBJECTS} $<TARGET_OBJECTS:${name}> PARENT_SCOPE)
endfunction()

if(DI_CUDA_SOURCES)
    di_cuda_objects(di_cuda_portable "${DEEPINFER_CUDA_ARCHITECTURES}" ${DI_CUDA_SOURCES})
endif()
if(DI_SM90_SOURCES)
    di_cuda_objects(di_cuda_sm90 90a-real ${DI_SM90_SOURCES})
endif()
set(DI_CUDA_LIBRARIES CUDA::cudart_static_deps ${CUDA_cudart_static_LIBRARY})
list(JOIN DEEPINFER_CUDA_ARCHITECTURES " " DI_CUDA_TEXT)
message(STATUS "NVIDIA GPUs: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, for ${DI_CUDA_TEXT}")
