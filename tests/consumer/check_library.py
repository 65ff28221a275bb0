#!/usr/bin/env python3
"""What libcoxswain.so shows and what it asks for.

    check_library.py LIBCOXSWAIN.SO LIBCOXSWAIN.A

It exports the C API and names of namespace coxswain alone, none of them of an inner namespace (those are modules). It needs the
libraries of NEEDED at most. Neither file holds code of an HTTP server, of gRPC, protobuf or Asio.
"""
import re, subprocess, sys

NEEDED = {"libc", "libm", "libgcc_s", "libstdc++", "ld-linux-x86-64", "libpcre2-8", "libsimdjson", "libutf8proc", "libxxhash", "libzstd"}
# A name of namespace coxswain itself or of a class in it; what continues in a lower-case namespace is a module's.
PUBLIC = re.compile(r"(coxswain_\w+$|((typeinfo( name)?|vtable) for )?coxswain::(?![a-z]\w*::))")
# A class that a public class hides, and what takes modules' types: COXSWAIN_HIDDEN is missing. Handles name their state (library, manager).
INNER = re.compile(r"::Impl\b|\bcoxswain::(?!(library|manager)::)[a-z]\w*::")
FOREIGN = re.compile(r"\b(boost::asio|grpc|grpc_core|google::protobuf|coxswain::(http|rpc|api|router|serve|telemetry|options))::")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main():
    shared, archive = sys.argv[1:]
    errors = []
    needed = {re.sub(r"\.so.*", "", name) for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", shared))}
    errors += [f"{shared} needs {name}" for name in sorted(needed - NEEDED)]
    exported = [line.split(" ", 2)[2] for line in output("nm", "-DC", "--defined-only", shared).splitlines()]
    errors += [f"{shared} exports {name}" for name in exported if not PUBLIC.match(name) or INNER.search(name)]
    if "coxswain_version" not in exported:
        errors.append(f"{shared} exports no coxswain_version")
    for path in (shared, archive):
        found = {FOREIGN.search(line)[0] for line in output("nm", "-C", path).splitlines() if FOREIGN.search(line)}
        errors += [f"{path} holds names of {name}" for name in sorted(found)]
    print("\n".join(errors))
    print(f"{len(exported)} names exported, {len(needed)} libraries needed, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
