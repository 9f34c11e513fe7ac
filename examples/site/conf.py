# The settings of Sphinx; `build` runs it on a folder of pages that were written or copied there.
from sphinx.domains.c import CDomain

project = 'tapegrad'
author = 'the authors of tapegrad'
copyright = 'the authors of tapegrad, MIT license'
extensions = ['myst_parser']
html_theme = 'furo'
html_title = 'tapegrad'
html_static_path = ['_static']
html_css_files = ['site.css']
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {'light_css_variables': {'color-brand-primary': '#1f5f8b', 'color-brand-content': '#1f5f8b'},
                      'dark_css_variables': {'color-brand-primary': '#7ab8e0', 'color-brand-content': '#7ab8e0'}}
highlight_language = 'c'
primary_domain = 'c'
# quotes and -- in code-like text stay as they are
smartquotes = False
# every name in a signature must be known, except those of C and MPI
nitpicky = True
nitpick_ignore = [('c:identifier', name) for name in (
    'bool', 'FILE', 'size_t', 'int32_t', 'int64_t', 'uint8_t', 'uint16_t', 'uint32_t', 'uint64_t', 'va_list', 'MPI_Comm',
    'tg_op_declaration')]
myst_heading_anchors = 3
exclude_patterns = []


def without_arguments(domain, listed=CDomain.get_objects):
    """What the search lists by name: not each argument of a function as well."""
    return (entry for entry in listed(domain) if entry[2] != 'functionParam')


CDomain.get_objects = without_arguments
