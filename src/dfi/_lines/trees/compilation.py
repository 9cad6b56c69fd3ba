"""Compile a kernel with numba to object code that needs neither numba nor Python.

The kernel is compiled without numba's runtime, so that one that allocates is refused, and without
its wrappers. An entry is put in front of it that unpacks the arguments from memory: 8 bytes for a
number, and for an array its address and its shape. How numba passes arguments is then known to the
code alone, whatever the version of numba.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload
from numba.np import arrayobj, numpy_support

from dfi._lines.trees.compiled import inlined_functions
from dfi._lines.trees.stored import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Typed in part, and differently from version to version.
njit: Any = numba.njit
types: Any = numba.types
populate_array: Any = arrayobj.populate_array

WORD = ir.IntType(64)
# Intrinsics that the code generator turns into calls of the C library.
LIBRARY = {"exp", "memset", "memcpy", "memmove"}


def dispatch(function: Callable[..., None]) -> Callable[..., None]:
    """Return a kernel under numba's own dispatch."""
    _register()
    kernel = njit(nogil=True, error_model="numpy")(function)
    # Refused where no folder can be written to.
    with contextlib.suppress(RuntimeError):
        kernel.enable_caching()
    called: Callable[..., None] = kernel
    return called


@global_compiler_lock
def compile_kernel(function: Callable[..., None], arguments: tuple[Any, ...], entry: str) -> Code:
    """Compile a kernel for arguments like these; its entry takes the address of packed ones."""
    _register()
    kernel = njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    signature = tuple(_type(argument) for argument in arguments)
    kernel.compile(signature)
    result = kernel.overloads[signature]
    module = result.library._final_module.clone()
    module.link_in(llvm.parse_assembly(str(_entry(result, entry))))
    for defined in module.functions:
        # Code of several processes meets in one: only the entries are to be seen.
        if not defined.is_declaration and defined.name != entry:
            defined.linkage = "internal"
    module.verify()
    return Code(_symbols(module), result.library.codegen._tm.emit_object(module))


@functools.cache
def _register() -> None:
    for function, choose in inlined_functions:
        # Inlined by LLVM: inlining by numba makes the same code in twice the time.
        overload(function, strict=False, jit_options={"forceinline": True})(choose)


def _type(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return types.Array(numpy_support.from_dtype(value.dtype), value.ndim, "C")
    if isinstance(value, tuple):
        return types.NamedTuple([_type(part) for part in value], type(value))
    return types.float64 if isinstance(value, float) else types.int64


def _entry(result: Any, name: str) -> ir.Module:
    """Return the module of the function that unpacks arguments and calls the kernel."""
    context, described = result.target_context, result.fndesc
    module = context.codegen().create_library(name).create_ir_module(name)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [WORD.as_pointer()]), name)
    builder = ir.IRBuilder(function.append_basic_block())

    def words() -> Iterator[Any]:
        place = function.args[0]
        while True:
            yield builder.load(place)
            place = builder.gep(place, [WORD(1)])

    remaining = words()
    arguments = [_unpack(context, builder, kind, remaining) for kind in described.argtypes]
    kernel = context.declare_function(module, described)
    status, _ = context.call_conv.call_function(
        builder, kernel, described.restype, described.argtypes, arguments
    )
    builder.ret(status.code)
    return module


def _unpack(context: Any, builder: ir.IRBuilder, kind: Any, words: Iterator[Any]) -> Any:
    if isinstance(kind, types.Array):
        data = builder.inttoptr(next(words), context.get_data_type(kind.dtype).as_pointer())
        size = WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        shape = [next(words) for _ in range(kind.ndim)]
        strides = [size]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        array = context.make_array(kind)(context, builder)
        populate_array(array, data, shape, strides, size, meminfo=None)
        return array._getvalue()
    if isinstance(kind, types.NamedTuple):
        parts = [_unpack(context, builder, part, words) for part in kind.types]
        return context.make_tuple(builder, kind, parts)
    word = next(words)
    return builder.bitcast(word, ir.DoubleType()) if kind == types.float64 else word


def _symbols(module: Any) -> tuple[str, ...]:
    """Return what the code refers to and does not define."""
    declared = [item.name for item in module.functions if item.is_declaration]
    declared += [item.name for item in module.global_variables if item.is_declaration]
    names = {name for name in declared if not name.startswith("llvm.")}
    names |= LIBRARY & {name.split(".")[1] for name in declared if name.startswith("llvm.")}
    return tuple(sorted(names))
