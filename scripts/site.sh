#!/usr/bin/env bash
# Builds the documents as a site in target/site, or serves it: scripts/site.sh [--serve [ADDRESS:PORT]]
#
# mkdocs.yml has the navigation. A link or anchor without target, a document that the navigation lacks, and anything loaded
# from a foreign host fail. MkDocs is installed below target/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

requirements=scripts/site-requirements.txt
tools=target/mkdocs
export NO_MKDOCS_2_WARNING=1 # an advertisement of the theme

if ! cmp --silent "$requirements" "$tools/installed.txt"; then
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$requirements"
    cp "$requirements" "$tools/installed.txt"
fi

case ${1:-} in
    "") "$tools/bin/mkdocs" build --strict ;;
    --serve) exec "$tools/bin/mkdocs" serve --strict --dev-addr "${2:-127.0.0.1:8000}" ;;
    *) echo "site.sh: what is $1? See the beginning of the file." >&2 && exit 2 ;;
esac

if grep --recursive --include='*.html' -noiE '<(link|script|img|iframe|source)[^>]* (href|src)="?(https?:)?//[^ >]*' target/site; then
    echo "site.sh: these pages load files from foreign hosts" >&2
    exit 1
fi
