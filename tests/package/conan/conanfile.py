"""A recipe for Conan 2: `conan create tests/package/conan` in tapegrad's sources. tests/ci/conan tries it."""
import os
import re

from conan import ConanFile
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Tapegrad(ConanFile):
    name = 'tapegrad'
    license = 'MIT'
    description = 'A small autograd library that trains embeddings, with PyTorch\'s numbers'
    settings = 'os', 'arch', 'compiler', 'build_type'
    package_type = 'library'
    options = {'shared': [True, False], 'fPIC': [True, False], 'blas': ['builtin', 'openblas'], 'text': [True, False]}
    default_options = {'shared': False, 'fPIC': True, 'blas': 'builtin', 'text': False}

    def root(self):
        return os.path.join(self.recipe_folder, '..', '..', '..')

    def set_version(self):
        header = open(os.path.join(self.root(), 'include', 'tapegrad', 'base.h'), encoding='utf-8').read()
        self.version = re.search('TG_VERSION_STRING "(.*)"', header).group(1)

    def export_sources(self):
        for pattern in 'meson.build', 'meson_options.txt', 'LICENSE', 'include/*', 'lib/*':
            copy(self, pattern, self.root(), self.export_sources_folder)

    def config_options(self):
        if self.settings.os in ('Windows', 'Emscripten'):
            del self.options.shared  # the library is static there

    def configure(self):
        self.settings.rm_safe('compiler.cppstd')
        self.settings.rm_safe('compiler.libcxx')

    def requirements(self):
        if self.options.text:
            self.requires('pcre2/[>=10.30]')
            self.requires('utf8proc/[>=2.5]')
        if self.options.blas == 'openblas':
            self.requires('openblas/[>=0.3.20]')

    def layout(self):
        basic_layout(self, src_folder='.')

    def generate(self):
        toolchain = MesonToolchain(self)
        toolchain.project_options.update({'blas': str(self.options.blas), 'mpi': 'disabled',
                                          'tests': 'disabled', 'text': 'enabled' if self.options.text else 'disabled'})
        toolchain.project_options['examples'] = False
        toolchain.generate()
        PkgConfigDeps(self).generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        Meson(self).install()
        copy(self, 'LICENSE', self.source_folder, os.path.join(self.package_folder, 'licenses'))
        # both kinds are built; a program must link the one that it has asked for
        shared = self.options.get_safe('shared', False)
        folder = os.path.join(self.package_folder, 'lib')
        for name in os.listdir(folder):
            if (name.endswith('.a') and shared) or (re.search(r'\.(so|dylib)', name) and not shared):
                os.remove(os.path.join(folder, name))

    def package_info(self):
        self.cpp_info.components['tapegrad'].libs = ['tapegrad']
        self.cpp_info.components['tapegrad'].set_property('pkg_config_name', 'tapegrad')
        if self.options.blas == 'openblas':
            self.cpp_info.components['tapegrad'].requires = ['openblas::openblas']
        if self.settings.os != 'Windows':
            self.cpp_info.components['tapegrad'].system_libs = ['m', 'pthread']
        for part in ['tools'] + (['text'] if self.options.text else []):
            component = self.cpp_info.components[part]
            component.libs = ['tapegrad_' + part]
            component.requires = ['tapegrad'] + (['pcre2::pcre2-8', 'utf8proc::utf8proc'] if part == 'text' else [])
            component.set_property('pkg_config_name', 'tapegrad_' + part)
