"""A stand-in for Triton where there is none: the interfaces that the judge's driver uses, and no compiler.

What a real one makes of a function's code, this one finds in its docstring: PTX, in which $NAME$ is a constexpr's value. META, a global
of the source, is what the stages say of the kernel besides.
"""
from triton import language
from triton.runtime.jit import JITFunction, jit

__version__ = "3.6.0"
