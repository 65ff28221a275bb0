"""What the comparison needs and does not come with us: the peers, and one model in the form of each.

Everything lies in one folder and is made once; what is there is not made again. Versions are fixed: in requirements.txt, and
llama.cpp as the source that comes with LLAMA_CPP of PyPI.
"""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LLAMA_CPP = "llama-cpp-python==0.3.36"
LLAMA_PROGRAMS = ["llama-bench", "llama-batched-bench", "llama-quantize", "llama-server"]
GGML_OPTIONS = {"": ["-DGGML_NATIVE=ON"],
                "avx2": ["-DGGML_NATIVE=OFF", *(f"-DGGML_{name}=ON" for name in ("SSE42", "AVX", "AVX2", "BMI2", "FMA", "F16C"))]}


def run(*command, **options):
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def once(path, make):
    """make(part) writes a file or folder, which gets its name when it is whole."""
    if not path.exists():
        part = path.with_name("part-" + path.name)
        run("rm", "-rf", part)
        make(part)
        part.rename(path)
    return path


def has_amx():
    return "amx_int8" in pathlib.Path("/proc/cpuinfo").read_text()


class Kit:
    def __init__(self, folder, programs, shape, isa=""):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.programs = programs
        self.shape = shape
        self.isa = isa

    def python(self):
        venv = self.folder / "venv"
        if not (venv / "whole").exists():
            run(sys.executable, "-m", "venv", "--clear", venv)
            run(venv / "bin/python", "-m", "pip", "install", "--quiet", "--no-input", "-r", HERE / "requirements.txt")
            (venv / "whole").touch()
        return venv / "bin/python"

    def llama_cpp(self):
        """The folder of llama.cpp's programs. g++ 12 drops stores of its tile configuration, so clang where there is AMX."""
        build = self.folder / ("llama.cpp-" + self.isa if self.isa else "llama.cpp")
        if not (build / "whole").exists():
            source = self.folder / "llama-source"
            source.mkdir(exist_ok=True)
            run(self.python(), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", source, LLAMA_CPP)
            run("tar", "xzf", next(source.glob("*.tar.gz")), "-C", source, "--strip-components=1")
            compiler = ["-DCMAKE_C_COMPILER=clang-16", "-DCMAKE_CXX_COMPILER=clang++-16"] if has_amx() else []
            run("cmake", "-S", source / "vendor/llama.cpp", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                "-DBUILD_SHARED_LIBS=OFF", *GGML_OPTIONS[self.isa], "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
                "-DLLAMA_BUILD_UI=OFF", "-DLLAMA_OPENSSL=OFF", *compiler)
            run("ninja", "-C", build, *LLAMA_PROGRAMS)
            (build / "whole").touch()
        return build / "bin"

    def model(self):
        """bfloat16 weights of the shape, with the tokenizer of the model that comes along."""
        return once(self.folder / self.shape, lambda part: run(
            self.programs / "coxswain-make-model", "--shape", self.shape, "--tokenizer", ROOT / "models/demo", "--out", part))

    def gguf(self, kind):
        path = self.folder / f"{self.shape}-{kind}.gguf"
        if kind == "bf16":
            return once(path, lambda part: run(self.python(), HERE / "gguf_of_model.py", self.model(), part))
        return once(path, lambda part: run(self.llama_cpp() / "llama-quantize", self.gguf("bf16"), part, kind.upper(), os.cpu_count()))

    def openvino(self, weights):
        options = {"int4": ["--group-size", "128", "--ratio", "1.0"]}.get(weights, [])
        return once(self.folder / f"{self.shape}-openvino-{weights}", lambda part: run(
            self.python().parent / "optimum-cli", "export", "openvino", "--model", self.model(),
            "--task", "text-generation-with-past", "--weight-format", weights, *options, part))

    def ctranslate2(self, weights):
        def convert(part):
            run(self.python().parent / "ct2-transformers-converter", "--model", self.model(), "--quantization", weights,
                "--output_dir", part)
            # It wants texts, and the tokenizer has no token for a beginning.
            config = json.loads((part / "config.json").read_text())
            config["bos_token"] = config["bos_token"] or config["eos_token"]
            (part / "config.json").write_text(json.dumps(config))
        return once(self.folder / f"{self.shape}-ctranslate2-{weights}", convert)


def versions():
    """What the peers are, as PyPI names them."""
    names = [line.strip() for line in (HERE / "requirements.txt").read_text().splitlines()]
    return [LLAMA_CPP + " (its source of llama.cpp)", *(name for name in names if name.startswith(("openvino", "ctranslate2")))]
