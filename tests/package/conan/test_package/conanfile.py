"""A program of a user's, with the package that was created."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout


class Test(ConanFile):
    settings = 'os', 'arch', 'compiler', 'build_type'

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        basic_layout(self)

    def generate(self):
        PkgConfigDeps(self).generate()

    def build(self):
        user = os.path.join(self.source_folder, '..', '..', 'user.c')
        self.run('PKG_CONFIG_PATH="%s" sh -c \'cc "%s" $(pkg-config --cflags --libs tapegrad) -o user\''
                 % (self.generators_folder, user))

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.build_folder, 'user'), env='conanrun')
