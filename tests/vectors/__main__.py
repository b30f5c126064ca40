"""``python -m tests.vectors``: make the file anew."""

from tests.vectors.vector import FILE
from tests.vectors.whole import text

FILE.write_text(text(), "utf-8")
