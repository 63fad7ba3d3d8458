"""`#SBATCH` lines to options, by sbatch's own rules: its splitting into words, then getopt_long over all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile

from cronhpc.script import sbatch_options
from cronhpc.script.advice import Problem
from cronhpc.script.dialect import SLURM
from cronhpc.script.sbatch_options import Option

_SPACE = " \t\n\r\v\f"
_LONG_NAME = 4  # letters: shorter words behind one dash are short options


@lru_cache(maxsize=4)  # who reads a script asks for its lines more than once
def text_lines(data: bytes) -> tuple[tuple[int, str], ...]:
    """The numbered lines of `data`; bytes that are no UTF-8 are kept as surrogates."""
    text = data.decode("utf-8", "surrogateescape")
    return tuple(enumerate(text.removesuffix("\n").split("\n") if text else (), 1))


@lru_cache(maxsize=4)
def comment_lines(data: bytes) -> tuple[tuple[int, str], ...]:
    """The lines up to the first command: blank ones are skipped, a `#` may be indented, a byte order mark is passed."""
    lines = text_lines(data.removeprefix(b"\xef\xbb\xbf"))
    return tuple(takewhile(lambda each: each[1].lstrip(_SPACE)[:1] in {"", "#"}, lines))


class UnclosedQuoteError(ValueError):
    """A quote is opened and not closed on its line."""


_BLANKS = re.compile(f"[{_SPACE}]*")
# What a word is made of: a character behind a backslash, but no blank; a quoted part; a plain one.
_PART = re.compile(
    r"""\\(?P<taken>[^ \t\n\r\v\f]?)|(?P<plain>[^ \t\n\r\v\f"'\\#]+)"""
    r"""|"(?P<double>(?:\\.|[^"\\])*)"|'(?P<single>(?:\\.|[^'\\])*)'""",
    re.DOTALL,
)


def words(text: str) -> list[str]:
    r"""`text` split as sbatch splits it: quotes group, `\` takes the next character, `#` ends the line.

    An empty word (`""`) ends the line too: sbatch cannot tell it from none. Raises UnclosedQuoteError.
    """
    return _split(text)[0]


def _split(text: str) -> tuple[list[str], int]:
    """The words, and where the reading ends."""
    its_words: list[str] = []
    at = 0
    while True:
        at, word = _BLANKS.match(text, at).end(), ""  # type: ignore[union-attr] # none is a match, too
        while part := _PART.match(text, at):
            quoted = part["double"] or part["single"] or ""
            word += part["taken"] or part["plain"] or re.sub(r"(?s)\\(.)", r"\1", quoted)
            at = part.end()
        if text[at : at + 1] in {'"', "'"}:
            raise UnclosedQuoteError(text[at])
        its_words += [word] if word else []
        if not word or text[at : at + 1] == "#":
            return its_words, at


def cut_at(text: str) -> int:
    """Where in `text`, what stands behind `#SBATCH`, a `#` ends the reading; -1 where it is read whole."""
    try:
        at = _split(text)[1]
    except UnclosedQuoteError:
        return -1
    return at if text[at : at + 1] == "#" else -1


def sbatch_options_of(lines: tuple[tuple[int, str], ...]) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    """The options of the `#SBATCH` lines among `lines`, and what sbatch would refuse in them."""
    return _options_of(tuple(each for each in lines if each[1].startswith(SLURM.prefix)))


@lru_cache(maxsize=1024)  # scripts share such lines
def _options_of(directives: tuple[tuple[int, str], ...]) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    problems: list[Problem] = []
    tokens: list[tuple[str, int]] = []
    for number, line in directives:
        its_words, wrong = split_directive(line, SLURM.prefix, number)
        tokens += its_words
        problems += wrong
    options: list[Option] = []
    for component, its_words in enumerate(_components(tokens)):
        reader = _OptionReader(its_words, component)
        reader.read()
        options += reader.options
        problems += reader.problems
    return tuple(options), tuple(problems)


def _components(tokens: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """The words of each component of a heterogeneous job: the separator is a word like any other, and comes first."""
    components: list[list[tuple[str, int]]] = [[]]
    for word, line in tokens:
        if word in {"hetjob", "packjob"}:
            components.append([])
        else:
            components[-1].append((word, line))
    return components


def split_directive(line: str, directive: str, number: int) -> tuple[list[tuple[str, int]], list[Problem]]:
    """The words after `directive`, each with its line, and what is wrong with it: an unclosed quote."""
    try:
        return [(word, number) for word in words(line[len(directive) :])], []
    except UnclosedQuoteError as error:
        what = f'"{line.strip()}": the quote {error} is not closed on this line.'
        return [], [Problem("E206", what, "Close it.", line=number, key=directive)]


def _fix_of_value(before: Option, rest: list[str]) -> str:
    """What to write for the option `before` and the words `rest` behind it that sbatch does not take for its value."""
    name, value, word = f"--{before.name}", before.value or "", rest[0]
    if word.startswith("=") or (value in {"", "="} and before.name in sbatch_options.VALUE):
        right = word if not word.startswith("=") else word.removeprefix("=") or " ".join(rest[1:2])
        return f"No blanks around =: write {name}={right}."
    if changed := sbatch_options.fix_of_value(name, " ".join([value, *rest])):
        return changed
    if re.fullmatch(r"\d+", value) and re.fullmatch(r"(?i)[KMGT]B?", word):
        return f"No blanks in a size: write {name}={value}{word}."
    if value.endswith(",") or word.startswith(","):
        return f"No blanks in a list: write {name}={value}{''.join(rest)}."
    if before.name == "mail-type" and word.lower() in sbatch_options.MAIL_TYPES:
        return f"A list has commas: write {name}={','.join([value, *rest])}."
    if before.value is None:
        return f"Write {name}={word}." if before.name in sbatch_options.OPTIONAL_VALUE else "Remove it."
    if before.name in sbatch_options.FREE_TEXT:
        return f'Quote a value that holds blanks: {name}="{value} {" ".join(rest)}".'
    return "Remove it, or put a # before a remark."


class _OptionReader:
    """getopt_long over the words of all #SBATCH lines at once, as sbatch does: a value may even be on the next line."""

    def __init__(self, tokens: list[tuple[str, int]], component: int) -> None:
        self.words = tokens
        self.problems: list[Problem] = []
        self.options: list[Option] = []
        self.at = 0
        self.component = component
        self.complained = 0  # the line of the last stray word: one complaint a line

    def read(self) -> None:
        while self.at < len(self.words):
            word, line = self.words[self.at]
            self.at += 1
            if word == "--":
                self._after_the_end()
            elif word.startswith("--"):
                self._long(word, line)
            elif word.startswith("-") and word != "-":
                self._short(word, line)
            else:
                self._stray(word, line)

    def _after_the_end(self) -> None:
        for word, line in self.words[self.at : self.at + 1]:  # one cause, one complaint
            is_name = word.partition("=")[0] in sbatch_options.LONG
            fix = f"No blank behind --: write --{word}." if is_name else 'Remove the "--".'
            self._problem("E205", line, word, 'nothing may follow "--".', fix, key=word)
        self.at = len(self.words)

    def _add(self, name: str, value: str | None, line: int, written: str) -> None:
        self.options.append(Option(name, value, line, written, component=self.component))

    def _problem(self, code: str, line: int, written: str, why: str, fix: str, *, key: str) -> None:
        self.problems.append(Problem(code, f'"#SBATCH {written}": {why}', fix, line=line, key=key))

    def _stray(self, word: str, line: int) -> None:
        """A word that is no option: said once a line, with what it most likely belongs to."""
        if self.complained == line:
            return
        self.complained = line
        rest = [word, *(w for w, at in self.words[self.at :] if at == line)]
        rest = rest[: next((n for n, each in enumerate(rest[1:], 1) if each.startswith("-")), len(rest))]
        before = self.options[-1] if self.options and self.options[-1].line == line else None
        fix = self._where_it_belongs(rest, before)
        key = before.name if before else word
        self._problem("E205", line, word, "sbatch expects an option here.", fix, key=key)

    @staticmethod
    def _where_it_belongs(rest: list[str], before: Option | None) -> str:
        word = rest[0]
        if changed := sbatch_options.fix_of_word(word):
            return changed
        if not sbatch_options.plain(word).strip():
            return "Remove the unseen characters there."
        if word == "-":
            return "Write the - before its option, without a blank between; a long one has two."
        if word.startswith(":") and before is None:
            return "Write no colon behind #SBATCH."
        if word.partition("=")[0] in sbatch_options.LONG and (before is None or "=" in word):
            return f"Write --{word}."
        if before is None:
            return "No blanks around =." if word == "=" else "Quote a value that holds blanks, or remove the word."
        return _fix_of_value(before, rest)

    def _long(self, word: str, line: int) -> None:
        name, equals, value = word[2:].partition("=")
        names = sbatch_options.candidates(name)
        if len(names) != 1:
            self._unknown(word, name, names, line, has_value=bool(equals))
        elif names[0] in sbatch_options.NO_VALUE and equals:
            self._problem("E204", line, word, f"--{names[0]} takes no value.", f"Write --{names[0]}.", key=names[0])
        elif names[0] in sbatch_options.VALUE and not equals:
            self._value_follows(names[0], line, word)
        else:
            self._add(names[0], value if equals else None, line, word)

    def _unknown(self, word: str, name: str, names: tuple[str, ...], line: int, *, has_value: bool) -> None:
        if not has_value and self.at < len(self.words) and not self.words[self.at][0].startswith("-"):
            self.at += 1  # most likely its value: one complaint is enough
        if names:
            fix = f"It may be --{', --'.join(names[:4])}: write it in full."
            self._problem("E202", line, word, f"--{name} is ambiguous.", fix, key=name)
        elif not sbatch_options.is_plugin_option(name):
            near = sbatch_options.nearest(name)
            fix = f"Did you mean --{near}?" if near else "See sbatch --help for what there is."
            self._problem("E201", line, word, f"sbatch has no option --{name}.", fix, key=name)

    def _short(self, word: str, line: int) -> None:
        name = word[1:].partition("=")[0]
        meant = sbatch_options.candidates(name) if len(name) >= _LONG_NAME or name in sbatch_options.LONG else ()
        for place, letter in enumerate(word[1:], start=1):
            option = sbatch_options.SHORT.get(letter)
            rest = word[place + 1 :]
            if option is None:
                self._unknown_letter(word, letter, line)
                return
            if option in sbatch_options.NO_VALUE:
                if not meant:
                    self._add(option, None, line, f"-{letter}")
            elif len(meant) == 1 and rest:
                self._one_dash(word, letter, rest, line, option)
                return
            elif rest or option in sbatch_options.OPTIONAL_VALUE:
                self._add(option, rest or None, line, f"-{letter} {rest}".strip())
                return
            else:
                self._value_follows(option, line, f"-{letter}")
                return
        if meant:
            why = f"with one dash sbatch reads it as -{' -'.join(word[1:])}."
            self._problem("W223", line, word, why, f"Write -{word}.", key=name)

    def _one_dash(self, word: str, letter: str, value: str, line: int, option: str) -> None:
        """A long option with one dash: an error where sbatch refuses what it reads instead."""
        why = f'with one dash sbatch reads it as -{letter} with the value "{value}"'
        refused = sbatch_options.fault(option, value) or option in {"partition", "nodelist"}
        code, more = ("E207", ", and refuses that") if refused else ("W223", "")
        right = word
        if refused and word[1:] in sbatch_options.VALUE and self._follows_on(line):
            right = f"{word}={self.words[self.at][0]}"  # meant as its value: one complaint is enough
            self.at += 1
        self._problem(code, line, word, f"{why}{more}.", f"Write -{right}.", key=option)

    def _follows_on(self, line: int) -> bool:
        """Whether the next word stands on this line, and is no option."""
        return self.at < len(self.words) and self.words[self.at][1] == line and self.words[self.at][0][0] != "-"

    def _unknown_letter(self, word: str, letter: str, line: int) -> None:
        if changed := sbatch_options.fix_of_word(word):
            self._problem("E201", line, word, "sbatch cannot read its dashes.", changed, key=word)
            return
        name = word[1:].partition("=")[0]
        long = name in sbatch_options.LONG or (len(name) > 2 and sbatch_options.nearest(name))  # noqa: PLR2004 - short clusters are no names
        fix = f"A long option has two dashes: -{word}." if long else "See sbatch --help for what there is."
        self._problem("E201", line, word, f"sbatch has no option -{letter}.", fix, key=word)

    def _value_follows(self, name: str, line: int, written: str) -> None:
        if self.at == len(self.words):
            self._problem("E203", line, written, f"--{name} needs a value.", f"Write --{name}=VALUE.", key=name)
            return
        value, value_line = self.words[self.at]
        self.at += 1
        self._add(name, value, line, f"{written} {value}")
        if value_line != line:
            why = f'--{name} has no value on its line, so sbatch takes "{value}" from line {value_line}.'
            self._problem("E203", line, written, why, f"Write --{name}=VALUE.", key=name)


# --- #PBS and #BSUB lines ---------------------------------------------------------------------------------------------
#
# sbatch obeys them after the `#SBATCH` ones, and so over them. Measured on sbatch 22.05.8: at column 0 only; anywhere
# among the first 100 lines that do not begin with `#`, past the first command too; `#BSUB` lines switch the `#PBS` ones
# off; `#SBATCH --ignore-pbs` both.


_LINES = 100
_FLAGS = {"#PBS": "hIVz", "#BSUB": "x"}
_NAMES = {  # letter -> sbatch's option; "" is taken and ignored; a letter that is not here is refused
    "#PBS": {
        "a": "begin", "A": "account", "e": "error", "J": "array", "t": "array", "l": "-l", "m": "mail-type",
        "M": "mail-user", "N": "job-name", "o": "output", "p": "nice", "q": "partition", "v": "export", "h": "hold",
        **dict.fromkeys("cCjkrSuWIVz", ""),
    },
    "#BSUB": {
        "c": "chdir", "e": "error", "J": "job-name", "m": "nodelist", "M": "mem-per-cpu", "n": "ntasks", "o": "output",
        "q": "partition", "W": "time", "x": "exclusive",
    },
}  # fmt: skip
_RESOURCES = {"walltime": "time", "cput": "time", "mem": "mem", "nodes": "nodes", "naccelerators": "gres"}


def options(data: bytes, *, ignore: bool) -> tuple[tuple[Option, ...], tuple[Problem, ...]]:
    """The options that other systems' lines stand for, in sbatch's names, and what sbatch would refuse in them."""
    for directive in () if ignore else ("#BSUB", "#PBS"):
        if directive.encode() in data and (lines := _lines(data, directive)):
            read = [split_directive(line, directive, number) for number, line in lines]
            parsed, problems = _read([word for words, _ in read for word in words], directive)
            return parsed, (*(each for _, wrong in read for each in wrong), *problems)
    return (), ()


def _lines(data: bytes, directive: str) -> list[tuple[int, str]]:
    directives = []
    others = 0
    for number, line in text_lines(data):
        if line.startswith(directive):
            directives.append((number, line))
        others += not line.startswith("#")
        if others > _LINES:
            break
    return directives


def _read(tokens: list[tuple[str, int]], directive: str) -> tuple[tuple[Option, ...], list[Problem]]:
    problems: list[Problem] = []
    options: list[Option] = []
    rest = tokens[::-1]
    while rest:
        word, line = rest.pop()
        word = "-c" if directive == "#BSUB" and word == "-cwd" else word  # sbatch rewrites it so
        letter = word[1:2] if word.startswith("-") else ""
        name = _NAMES[directive].get(letter)
        if name is None:
            what = f'"{directive} {word}": sbatch obeys {directive} lines, and cannot read this one.'
            problems.append(Problem("E209", what, "Remove it, or add #SBATCH --ignore-pbs.", line=line, key=word))
            while letter and rest and rest[-1][1] == line and not rest[-1][0].startswith("-"):
                rest.pop()  # most likely its value: one complaint is enough
            continue
        value = None if letter in _FLAGS[directive] else word[2:] or (rest.pop()[0] if rest else "")
        written = word if value is None else f"-{letter} {value}"
        settings = _resources(value or "") if name == "-l" else [(name, value, written)]
        options += [Option(each, text, line, as_written, directive) for each, text, as_written in settings if each]
    return tuple(options), problems


def _resources(listed: str) -> Iterator[tuple[str, str, str]]:
    """`walltime=1:00:00,mem=1gb,naccelerators=2`: (option, value, as written); what sbatch ignores is ignored."""
    for item in listed.split(","):
        name, _, value = item.partition("=")
        if name == "accelerator" and value.lower() == "true":
            name, value = "naccelerators", "1"
        text = value.partition(":")[0] if name in {"mem", "nodes"} else value
        yield _RESOURCES.get(name, ""), f"gpu:{text}" if name == "naccelerators" else text, f"-l {item}"
