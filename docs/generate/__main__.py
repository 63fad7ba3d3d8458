"""`python -m docs.generate` writes what the documentation has from the program itself, each where it is kept."""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generate import completion, json_page, pages, reference

DOCS = Path(__file__).resolve().parent.parent
PRODUCTS = {
    "reference.md": lambda: reference.text(pages.MARKDOWN),
    "cronhpc.1": lambda: reference.text(pages.MAN),
    "completion.bash": completion.script,
    "json.schema.json": json_page.schema_text,
}


def main() -> int:
    """Write those that are out of date, and name them."""
    for name, made in PRODUCTS.items():
        path, text = DOCS / name, made()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
