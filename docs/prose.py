"""Words that the house does not write: ``python docs/prose.py``, as `make lint` does.

Each entry has a pattern and what to write instead. The pages, docstrings and comments of the
library, the application, the examples and the experiments are read; records are not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READ = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "src/**/*.py",
    "src/**/*.html", "src/**/*.toml", "src/**/*.txt", "examples/*.py", "experiments/**/*.py",
    "benchmarks/*.py",
)  # fmt: skip
BANNED = {
    r"\bin vain\b": "say what did not happen",
    r"\bthe run's books\b|\bbooks\b(?= (of|say|are))": "the ledger, the record",
    r"\bwho name none\b|\bthose who\b|\b[Ww]homs?\b": "name the subject",
    r"(?<=[.:] )Who \w+s\b(?!.*\?)": "name the subject: a user who, if you",
    r"\bso many\b(?! \w+( \w+)? that)": "this many, or the argument's name",
    r"(?<=[.;:] )Where\b[^?.]*,": "If, or When",
    r"^\W*Where (the|a|an|it|there|this|no|both|all)\b[^.]*,": "If, or When",
    r"\b(None|empty|infinite|nothing|zero|unless|refused|NaN) where\b": "if",
    r"\bwhere (there (is|are|was)|possible|needed|necessary|available|nobody|nothing|no)\b": "if",
    r"\b(thereof|therein|hereby|whereby|thence)\b": "plain words",
}
# Of mathematics and code.
ALLOWED = re.compile(r"\w+\.where|\bwhere=|`[^`]*`")


def findings(path: Path) -> Iterator[str]:
    """Yield what a file writes otherwise, with its line."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        text = ALLOWED.sub("", line)
        for pattern, instead in BANNED.items():
            for found in re.finditer(pattern, text):
                place = f"{path.relative_to(ROOT)}:{number}"
                yield f"{place}: “{found[0].strip()}” – write: {instead}"


def main() -> int:
    """Print every finding; return 1 if there is any."""
    paths = sorted({path for pattern in READ for path in ROOT.glob(pattern)} - {Path(__file__)})
    lines = [line for path in paths for line in findings(path)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{len(paths)} files: {len(lines)} banned words\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
