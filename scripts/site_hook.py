"""Hook of MkDocs (mkdocs.yml): the pages of the site are the Markdown files of the repository, at their paths there.

Links between documents thus lead to the same files in the repository and in the site. A linked file that is no document
becomes a page with its text. A link to a directory becomes plain text.
"""

import posixpath
import re
import subprocess
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
EVIDENCE = "docs/evidence.md"  # names of hundreds of tests: search would list it before the documents
LANGUAGES = {".py": "python", ".rs": "rust", ".sh": "bash", ".toml": "toml", ".yml": "yaml"}


def documents():
    """Returns the paths of documents and their figures; target/ and ignored files are not among them."""
    list_files = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md", "docs/*.svg"]
    listed = subprocess.run(list_files, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [path for path in listed if (ROOT / path).is_file()]


def target(page, link):
    """Returns the path of a relative link of a page, from the root of the repository; None for others."""
    return None if "://" in link else posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def source_page(config, path):
    language = LANGUAGES.get(Path(path).suffix, "text")
    head = f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n"
    text = (ROOT / path).read_text()
    return File.generated(config, f"{path}.md", content=f"{head}\n# `{path}`\n\n`````{language}\n{text}\n`````\n")


def on_files(files, config):
    """Replaces the files below docs/ by all documents and the files that they link to."""
    kept = [file for file in files if file.src_dir != config.docs_dir]
    pages = [File(path, str(ROOT), config.site_dir, config.use_directory_urls) for path in documents()]
    linked = set()
    for page in pages:
        if page.is_documentation_page():
            links = LINK.findall((ROOT / page.src_uri).read_text())
            linked |= {target(page.src_uri, link) for _, link, _ in links}
    linked -= {page.src_uri for page in pages} | {None}
    sources = [source_page(config, path) for path in sorted(linked) if (ROOT / path).is_file()]
    return Files(kept + pages + sources)


def on_page_markdown(markdown, page, files, **_):
    """Leads links to the pages of source files; a link to a directory becomes its text."""
    if page.file.src_uri == EVIDENCE:
        page.meta["search"] = {"exclude": True}

    def replace(match):
        text, link, anchor = match.groups()
        path = target(page.file.src_uri, link)
        if path is None or files.get_file_from_path(path):
            return match[0]
        if files.get_file_from_path(f"{path}.md"):
            return f"[{text}]({link}.md{anchor or ''})"
        if files.get_file_from_path(f"{path}/README.md"):
            return f"[{text}]({link}/README.md)"
        return text if (ROOT / path).is_dir() else match[0]

    return LINK.sub(replace, markdown)
