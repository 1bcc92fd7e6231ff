"""The encoding of a text file, if not UTF-8: the one with which its letters are those of Western languages."""

from __future__ import annotations

import codecs
import re

MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ONE_BYTE = ("cp1252", "mac_roman", "cp850")  # Windows, the Macintosh before 2001, and DOS; the first wins a tie
LETTERS = frozenset("äöüÄÖÜßéèêëÉÈÊËáàâãåÁÀÂÃÅíìîïÍÌÎÏóòôõÓÒÔÕúùûÚÙÛñÑçÇøØæÆœŒ")
SIGNS = frozenset("°µ²³€£§«»’‘“”„‚–—…•½¼\xa0")  # may stand anywhere in a table
IN_WORDS = re.compile(r"(?<=[A-Za-z])[^\x00-\x7f]|[^\x00-\x7f](?=[A-Za-z])")
WORD = re.compile(r"\w*[^\W\x00-\x7f]\w*")
READ = 4_000_000  # bytes that are looked at


def likely_encoding(content: bytes) -> str | None:
    """The encoding of a file's bytes: None for UTF-8; "" for a file that is no text.

    >>> [likely_encoding("Zürich".encode(name)) for name in ("utf-8", "utf-16", "cp1252", "mac_roman")]
    [None, 'utf-16', 'cp1252', 'mac_roman']
    """
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return encoding if _decodes(content, encoding) else ""
    content = content[:READ]
    if b"\0" in content[:4096]:
        return _without_mark(content)
    if _decodes(content[:-4] if len(content) == READ else content, "utf-8"):  # a letter may be cut at the end
        return None
    fits = [encoding for encoding in ONE_BYTE if _decodes(content, encoding)]
    return max(fits, key=lambda encoding: _plausible(content.decode(encoding)), default="")


def _decodes(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _without_mark(content: bytes) -> str:
    """UTF-16 without the mark at its beginning: in Western text every other byte is mostly zero."""
    start = content[: len(content) // 2 * 2][:4096]
    first, second = start[::2].count(0), start[1::2].count(0)
    if max(first, second) < 0.4 * len(start) or min(first, second) > 0:
        return ""
    return "utf-16-be" if first > second else "utf-16-le"


def _plausible(text: str) -> int:
    """How many characters beyond ASCII are likely in a table, less those that are not."""
    beyond = [character for character in text if character > "\x7f"]
    likely = sum(character in LETTERS for character in IN_WORDS.findall(text)) + sum(character in SIGNS for character in beyond)
    odd = len(re.findall(r"[a-zß-ÿ][ÄÖÜÉÈÊËÁÀÂÃÅÍÌÎÏÓÒÔÕÚÙÛÑÇØÆ]", text))  # a capital within a word
    return 2 * likely - len(beyond) - 2 * odd


def examples(content: bytes, encoding: str, number: int = 3) -> str:
    """The first words with letters beyond ASCII, as an encoding reads them; "" for a file without such words."""
    words = dict.fromkeys(WORD.findall(content[:READ].decode(encoding, errors="replace")))
    return ", ".join(list(words)[:number])
