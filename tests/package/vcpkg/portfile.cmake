# A port for vcpkg, not tried. TAPEGRAD_SOURCE is the folder of tapegrad's sources:
#   TAPEGRAD_SOURCE=$PWD vcpkg install tapegrad --overlay-ports=tests/package/vcpkg
set(SOURCE_PATH "$ENV{TAPEGRAD_SOURCE}")
set(blas builtin)
set(text disabled)
if("openblas" IN_LIST FEATURES)
    set(blas openblas)
endif()
if("text" IN_LIST FEATURES)
    set(text enabled)
endif()
vcpkg_configure_meson(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -Dblas=${blas} -Dtext=${text} -Dmpi=disabled -Dtests=disabled -Dexamples=false
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
