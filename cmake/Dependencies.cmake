# The libraries that are used, as targets PkgConfig::<NAME>: those of the system, by pkg-config, or with
# -DDEEPINFER_DEPS=DIR static ones of a folder with include/ and lib/, for machines that have a compiler
# and nothing else (tools/collect_deps.sh fills such a folder). DI_HAS_HUB: what the downloader needs is
# there.
set(DEEPINFER_DEPS "" CACHE PATH "Folder with include/ and lib/ of static libraries; empty: the system's")

# di_static_library(NAME LIBRARY [REQUIRED]): PkgConfig::NAME from DEEPINFER_DEPS alone.
function(di_static_library name library)
    find_library(DI_${name}_LIBRARY NAMES lib${library}.a PATHS ${DEEPINFER_DEPS}/lib
        NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
    if(NOT DI_${name}_LIBRARY)
        if("REQUIRED" IN_LIST ARGN)
            message(FATAL_ERROR "found no lib${library}.a in ${DEEPINFER_DEPS}/lib, wanted it there")
        endif()
        return()
    endif()
    add_library(PkgConfig::${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(PkgConfig::${name} SYSTEM INTERFACE ${DEEPINFER_DEPS}/include)
    target_link_libraries(PkgConfig::${name} INTERFACE ${DI_${name}_LIBRARY})
endfunction()

find_package(Threads REQUIRED)
if(DEEPINFER_DEPS)
    di_static_library(JANSSON jansson REQUIRED)
    di_static_library(UTF8PROC utf8proc REQUIRED)
    di_static_library(PCRE2 pcre2-8 REQUIRED)
    di_static_library(CMOCKA cmocka)
    di_static_library(LZMA lzma)
    # Their headers say what is exported from a DLL unless told that they are linked statically.
    target_compile_definitions(PkgConfig::UTF8PROC INTERFACE UTF8PROC_STATIC)
    target_compile_definitions(PkgConfig::PCRE2 INTERFACE PCRE2_STATIC)
    set(DI_HAS_HUB OFF)
else()
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)
    pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
    pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
    pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
    pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
    if(DI_BUILD_TESTS)
        pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
        pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)
    endif()
    set(DI_HAS_HUB ON)
endif()
