"""``python -m tests.fuzz``: changed bytes by the thousand; see docs/fuzzing.md.

Each target runs in a process of its own, whose memory is measured; what it finds is written to
``tests/fuzz/corpus``, where the fast tests replay it.
"""

import argparse
import collections
import hashlib
import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MEGABYTE = 1 << 20
FRAMES = "frames"
"""The target of which hypothesis makes up the inputs; those of the others are bytes."""


def run(name: str, count: int, seconds: float, seed: int) -> int:
    """Change right bytes until there were so many, or so much time went by; return the findings."""
    if name == FRAMES:
        from .generated import search

        return search(count, seconds, seed)
    from .targets import TARGETS

    function, seeds, change = TARGETS[name]
    originals = seeds()
    for content in originals:
        function(content)  # imports, and what is kept
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limit = 20 * max(map(len, originals)) / MEGABYTE + 200
    words: collections.Counter[str] = collections.Counter()
    findings, started, k, last = 0, time.monotonic(), 0, in_hand(name)
    while k < count and (seconds <= 0 or time.monotonic() - started < seconds):
        content = change(originals[k % len(originals)], seed + k)
        k += 1
        # what ends the process is found by the one that started it
        last.write_bytes(content)
        try:
            words[function(content)] += 1
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            findings += 1
            keep(name, content)
            sys.stderr.write(f"{name}, change {seed + k - 1}:\n{traceback.format_exc(limit=-3)}\n")
    last.unlink(missing_ok=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    told = ", ".join(f"{number} {word}" for word, number in words.most_common())
    sys.stdout.write(f"{name}: {k} inputs ({told}), {findings} findings, +{grown:.0f} MB\n")
    if grown > limit:
        sys.stderr.write(f"{name}: memory grew by {grown:.0f} MB, of {limit:.0f} allowed\n")
    return findings + (grown > limit)


def in_hand(name: str) -> Path:
    """Return where a target's process writes the bytes that it is about to read."""
    return Path(tempfile.gettempdir()) / f"dfi-fuzz-{name}.bytes"


def keep(name: str, content: bytes) -> None:
    """Add bytes to the corpus of a target."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def guided(name: str, seconds: float) -> int:
    """Let atheris look for bytes that reach new lines; return whether it found a failure."""
    import atheris

    with atheris.instrument_imports(include=["dfi"]):
        from .targets import TARGETS
    function, seeds, change = TARGETS[name]
    originals = seeds()

    def one(content: bytes) -> None:
        # most bytes of nowhere are no zip: what they say is how a right file is changed
        number = int.from_bytes(content[:4].ljust(4, b"\0"), "little")
        changed = change(originals[number % len(originals)], number) if number % 2 else content
        try:
            function(changed)
        except BaseException:
            keep(name, changed)
            raise

    atheris.Setup([sys.argv[0], f"-max_total_time={int(seconds)}", "-verbosity=0"], one)
    atheris.Fuzz()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help="all of them by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--count", type=int, default=10**9, help="inputs of each target at most")
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    parser.add_argument("--here", action="store_true", help="one target, in this process")
    parser.add_argument("--guided", action="store_true", help="one target by atheris")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    if options.guided:
        return guided(options.target[0], options.seconds)
    if options.here:
        return run(options.target[0], options.count, options.seconds, seed)
    from .targets import TARGETS

    names = options.target or [*TARGETS, FRAMES]
    by_atheris = importlib.util.find_spec("atheris") is not None and not options.target
    share = options.seconds / (len(names) + 2 * by_atheris)
    failed = []
    for name in names:
        arguments = [name, "--here", "--seconds", share, "--count", options.count, "--seed", seed]
        ended = child(*arguments)
        failed += [name] * (ended != 0)
        if ended < 0 and in_hand(name).exists():
            keep(name, in_hand(name).read_bytes())
            in_hand(name).unlink()
    for name in ("results", "tables.csv") if by_atheris else ():
        sys.stdout.write(f"{name}, guided by atheris for {share:.0f} s\n")
        sys.stdout.flush()
        failed += [name] * (child(name, "--guided", "--seconds", share) != 0)
    if failed:
        sys.stdout.write(f"findings in {', '.join(failed)}: they are in {CORPUS}\n")
    return bool(failed)


def child(*arguments: object) -> int:
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    return subprocess.run(command, cwd=HERE.parents[1], check=False).returncode  # noqa: S603


if __name__ == "__main__":
    raise SystemExit(main())
