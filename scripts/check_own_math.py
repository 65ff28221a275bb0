#!/usr/bin/env python3
"""Refuses libraries that take exp, log, sin and the like from the C library.

  check_own_math.py NM LIBRARY.a...

glibc's differ between its versions and between CPUs, in the last bit: a logit or a choice that hangs on one would hang
on the machine. Ours are in src/base/scalar_math.h and src/kernels/cpu/generic. What is exact by definition (sqrt,
floor, fma, ldexp, ...) may be used.
"""

import re
import subprocess
import sys

NAMES = ("exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos tan sincos asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
         "erf erfc lgamma tgamma cbrt hypot").split()
# With the suffixes for float and long double, as fast-math builds name them, and the vector library's.
PATTERN = re.compile(r"(?:__)?(?:%s)[fl]?(?:_finite|_r)?|_ZGV\w+" % "|".join(NAMES))


def main():
    nm, libraries = sys.argv[1], sys.argv[2:]
    found, n_objects = [], 0
    for library in libraries:
        text = subprocess.run([nm, "--undefined-only", library], check=True, capture_output=True, text=True).stdout
        name = library
        for line in text.splitlines():
            if line.endswith(":"):
                name, n_objects = line[:-1], n_objects + 1
                continue
            symbol = line.split()[-1] if line.split() else ""
            if PATTERN.fullmatch(symbol.split("@")[0]):
                found.append(f"{name}: {symbol}")
    for line in found:
        print(line)
    if found:
        print("take them from base/scalar_math.h, or make an entry of the kernel table")
        return 1
    if n_objects == 0:
        print("no object was looked at")
        return 1
    print(f"{n_objects} objects of {len(libraries)} libraries use none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
