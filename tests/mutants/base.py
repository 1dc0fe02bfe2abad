"""Changes of the modules that every room may use that some test must notice."""

from tests.mutants.mutant import Mutant

KERNELS = ("conformance/test_linear.py",)
DATA = ("data",)
THEORY = ("theory", "certificates", "problems", "conformance/test_batch.py")
ENGINE = (
    "conformance/test_simulation.py",
    "sweeps/test_runner.py",
    "sweeps/test_store.py",
    "paper",
)

MUTANTS = [
    Mutant("exponents as binary fractions, p_eta + p_gamma < 1", "schedules.py",
           "step_power <= 1,", "step_power < 1,", THEORY),
    Mutant("any file is the run", "parquet.py",
           "!= specification.encode():", "is False:", ENGINE),
    Mutant("lengths without the largest entry", "sparse.py",
           "return largest * np.sqrt(", "return np.sqrt(", KERNELS),
    Mutant("numbers are not compared with their hash", "parquet.py",
           "if numbers != digest:", "if False:", ("sweeps/test_store.py",)),
    Mutant("any hidden file is a leftover", "files.py",
           "if TEMPORARY.fullmatch(path.name) and not path.is_symlink():", "if True:",
           ("test_files.py",)),
    Mutant("any bytes are a kernel", "simulation/kernel_files.py",
           "if content == MAGIC + hashlib.sha256(body).digest() + body:",
           "if content.startswith(MAGIC):", ("simulation",)),
    Mutant("images: an old folder stays as it is", "files.py",
           "os.replace(file, path / file.name)", "pass", DATA),
]  # fmt: skip
