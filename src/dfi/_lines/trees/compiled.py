"""Kernels compiled once by numba and run by later processes without numba.

Importing numba, filling its registries and reading its own cache cost a later process half a second
before its first exact line mean. The kernels need none of it: they allocate nothing, raise nothing
and take arrays, numbers, and named tuples of these. Each is compiled once per kind of arguments for
one pointer to packed arguments (:mod:`dfi._lines.trees.compilation`); the object code is kept on
disk (:mod:`dfi._lines.trees.stored`), and a later process links it with ``llvmlite.binding`` and
calls it through ctypes, which releases the interpreter lock. Where that fails, numba's own dispatch
takes over.

Measured against kernels that allocate under numba's dispatch: the first call of a later process
costs 0.11 CPU seconds more than the second (0.62 to 0.86 on busy cores), of which the import of
llvmlite is 0.05; the first call ever 3 (7), all kernels for both laws 12 (28). Second moments take
0.7 of the time, means along paths 0.9, along parallel lines the same to within the noise of 2 %;
all give the same bits, in 50 MB less memory. Packing takes about 4e-6 for an array, 0.6e-4 for a
call of the arena kernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from dfi._lines.trees.stored import Code, checksum, environment, read_code, write_code

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger(__name__)

# What kernels call: (function, what stands for it given numba's types of the arguments).
inlined_functions: list[tuple[Callable[..., Any], Callable[..., Any]]] = []

_lock = threading.Lock()


class Native(NamedTuple):
    """A linked kernel: how its arguments are packed, and the function of where they are."""

    layout: struct.Struct
    call: Callable[[bytes], int]


class Compiled:
    """A kernel, compiled for each kind of arguments that it is called with.

    Parameters
    ----------
    function : callable
        A function in the language of numba that allocates nothing, raises nothing and returns
        nothing. It takes C-contiguous arrays, integers, floats, and named tuples of these.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._native: dict[str, Native | None] = {}

    def __call__(self, *arguments: Any) -> None:
        """Run the kernel, loaded or compiled at the first call."""
        self.bind()(*arguments)

    def bind(self, *common: Any) -> Callable[..., None]:
        """Return the kernel with its first arguments given, packed once for many calls."""
        common_words: list[Any] = []
        common_kinds = [_flatten(argument, common_words) for argument in common]

        def call(*others: Any) -> None:
            words = common_words.copy()
            kind = ",".join([*common_kinds, *[_flatten(argument, words) for argument in others]])
            if kind not in self._native:
                self._load(kind, (*common, *others), words)
            native = self._native[kind]
            if native is None:
                self.plain(*common, *others)
            elif native.call(native.layout.pack(*words)):
                raise RuntimeError(f"the compiled kernel {self.function.__name__} failed")

        return call

    @functools.cached_property
    def plain(self) -> Callable[..., None]:
        """The kernel under numba's own dispatch."""
        from dfi._lines.trees.compilation import dispatch

        return dispatch(self.function)

    def _load(self, kind: str, arguments: tuple[Any, ...], words: list[Any]) -> None:
        with _lock:
            if kind not in self._native:
                try:
                    call = link(*self._code(kind, arguments))
                    layout = "".join("d" if isinstance(word, float) else "q" for word in words)
                    self._native[kind] = Native(struct.Struct(layout), call)
                # Whatever another version of numba or LLVM refuses, dispatch is there.
                except Exception as error:
                    logger.info("%s is left to numba: %r", self.function.__name__, error)
                    self._native[kind] = None

    def _code(self, kind: str, arguments: tuple[Any, ...]) -> tuple[str, Code]:
        """Return the name of the code's entry and the code."""
        key = checksum(environment(), self.function.__name__.encode(), kind.encode())
        entry = f"{self.function.__name__}-{key.hex()[:20]}"
        code = read_code(entry, key)
        if code is None:
            announce_compilation()
            from dfi._lines.trees.compilation import compile_kernel

            code = compile_kernel(self.function, arguments, entry)
            write_code(entry, key, code)
        return entry, code


def inlined(function: F) -> F:
    """Let kernels call a function."""
    inlined_functions.append((function, lambda *_arguments: function))
    return function


def chosen_by_type(function: Callable[..., Any]) -> Callable[[F], F]:
    """Let kernels call a function; what is decorated picks its body by the arguments' types."""

    def register(choose: F) -> F:
        inlined_functions.append((function, choose))
        return choose

    return register


def _flatten(value: Any, words: list[Any]) -> str:
    """Append the numbers that a kernel is given for an argument; return their kind."""
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous and value.flags.aligned):
            raise TypeError("kernels take contiguous arrays")
        words.append(value.ctypes.data)
        words.extend(value.shape)
        return f"{value.dtype.str}{value.ndim}"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({','.join([_flatten(part, words) for part in value])})"
    words.append(value)
    return "float" if isinstance(value, float) else "int"


@functools.cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    # Needed by older versions of llvmlite, refused by newer ones.
    with contextlib.suppress(RuntimeError):
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def link(entry: str, code: Code) -> Callable[[bytes], int]:
    """Link object code into this process; return its entry."""
    import llvmlite.binding as llvm

    # LLVM ends the process over a symbol that it does not find.
    missing = [symbol for symbol in code.symbols if not llvm.address_of_symbol(symbol)]
    if missing:
        raise RuntimeError(f"no {', '.join(missing)} in this process")
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.machine))
    engine.finalize_object()
    address = engine.get_function_address(entry)
    if not address:
        raise RuntimeError(f"no {entry} in the object code")
    call: Callable[[bytes], int] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(address)
    return call


@functools.cache
def announce_compilation() -> None:
    """Say once, at a terminal, that kernels are being compiled."""
    message = "dfi: compiling kernels, once; later runs load them from disk"
    logger.info(message)
    if sys.stderr.isatty():
        sys.stderr.write(message + "\n")
